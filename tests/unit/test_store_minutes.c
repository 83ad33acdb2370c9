#include "retention_fixture.h"

/* ---- the naive way: from every sample, as it is read ---- */

struct naive_minute {
	uint64_t minute;
	pid_t pid;
	uint64_t n, n_fds, sum_fds, max_rss, min_rss, sum_rss, last_user_ns;
	double sum_percent, last_percent;
};

struct naive {
	struct naive_minute *items;
	size_t n, cap;
};

static void naive_release(struct naive *naive)
{
	free(naive->items);
}

static struct naive_minute *naive_find(struct naive *naive, uint64_t minute, pid_t pid)
{
	for (size_t i = naive->n; i-- > 0;)
		if (naive->items[i].minute == minute && naive->items[i].pid == pid)
			return &naive->items[i];
	return NULL;
}

static struct naive_minute *naive_get(struct naive *naive, uint64_t minute, pid_t pid)
{
	struct naive_minute *m = naive_find(naive, minute, pid);

	if (m)
		return m;
	if (naive->n == naive->cap) {
		naive->cap = naive->cap ? naive->cap * 2 : 64;
		naive->items = reallocarray(naive->items, naive->cap, sizeof(*naive->items));
		assert_non_null(naive->items);
	}
	m = &naive->items[naive->n++];
	*m = (struct naive_minute){ .minute = minute, .pid = pid, .min_rss = UINT64_MAX };
	return m;
}

static int naive_add(void *ctx, const struct history_row *row)
{
	const struct proc_sample *s = &row->sample;
	struct naive_minute *m = naive_get(ctx, row->wall_ns / MINUTE, s->key.pid);

	m->n++;
	if (s->open_fds != U64_UNKNOWN) {
		m->n_fds++;
		m->sum_fds += s->open_fds;
	}
	m->sum_rss += s->rss_bytes;
	m->min_rss = s->rss_bytes < m->min_rss ? s->rss_bytes : m->min_rss;
	m->max_rss = s->rss_bytes > m->max_rss ? s->rss_bytes : m->max_rss;
	m->sum_percent += s->cpu_percent;
	m->last_percent = s->cpu_percent;
	m->last_user_ns = s->user_ns;
	return 0;
}

static struct naive must_compute(struct store *store)
{
	struct naive naive = { 0 };
	struct err err = ERR_INIT;

	must(store_read_history(store, &(struct history_filter){ 0 }, naive_add, &naive, &err),
	     &err);
	return naive;
}

static void check_row(const struct minute_row *row, const struct naive_minute *want)
{
	assert_non_null(want);
	assert_int_equal(row->n_samples, want->n);
	assert_int_equal(row->min.rss_bytes, want->min_rss);
	assert_int_equal(row->max.rss_bytes, want->max_rss);
	assert_true(row->avg.rss_bytes == (double)want->sum_rss / (double)want->n);
	assert_true(fabs(row->avg.cpu_percent - want->sum_percent / (double)want->n) < 1e-9);
	assert_true(row->last.cpu_percent == want->last_percent);
	assert_int_equal(row->last.user_ns, want->last_user_ns);
	if (want->n_fds > 0)
		assert_true(row->avg.open_fds == (double)want->sum_fds / (double)want->n_fds);
	else
		assert_true(isnan(row->avg.open_fds));
}

static void check_all(struct store *store, struct naive *naive)
{
	CLEANUP(minute_list_release)
	struct minute_list list = must_read_minutes(store, &(struct history_filter){ 0 });

	assert_int_equal(list.n, naive->n);
	for (size_t i = 0; i < list.n; i++) {
		const struct minute_row *row = &list.items[i];

		check_row(row, naive_find(naive, row->wall_ns / MINUTE, row->last.key.pid));
		assert_true(i == 0 || row[-1].wall_ns <= row->wall_ns);
	}
}

/* Rolled to any degree: wherever a slice has ended, each minute comes once and is whole. */
static void test_it_does_not_show(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 26 * HOUR);
	CLEANUP(naive_release) struct naive naive = { 0 };
	struct err err = ERR_INIT;
	struct retention run;

	for (uint64_t k = 0; k < 500; k++)
		must_tick_at(store, &a, NOW - 26 * HOUR + k * 7 * SECOND_NS,
			     k % 100 < 70 ? 12 : 5); /* seven come and go */
	for (uint64_t k = 0; k < 200; k++)
		must_tick_at(store, &a, NOW - HOUR + k * 7 * SECOND_NS, 3);
	naive = must_compute(store);
	check_all(store, &naive);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	while (store_retain_slice(store, &run, &err) > 0)
		check_all(store, &naive);
	check_all(store, &naive);
	assert_true(run.result.n_samples > 0);
}

/* A minute that is lived through twice is one row, also when half of it is rolled. */
static void test_a_clock_that_is_set_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 26 * HOUR);
	uint64_t n = 0;

	for (uint64_t round = 0; round < 3; round++)
		for (uint64_t k = 0; k < 130; k++, n++)
			must_tick_at(store, &a, NOW - 26 * HOUR + round + k * 2 * SECOND_NS, 2);
	for (int is_rolled = 0; is_rolled < 2; is_rolled++) {
		CLEANUP(minute_list_release)
		struct minute_list list = must_read_minutes(store, &(struct history_filter){ 0 });

		assert_int_equal(list.n, 2 * 5); /* 260 s that begin 20 s into a minute */
		assert_int_equal(count_in_minutes(&list), 2 * n);
		must_retain_at(store, &default_policy, NOW);
	}
}

static void test_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "a", NOW - 30 * HOUR);
	struct attempt b = must_begin_at(store, "b", NOW - 30 * HOUR);
	const uint64_t first = NOW - 30 * HOUR, minute_5 = (first / MINUTE + 5) * MINUTE;
	const struct {
		struct history_filter filter;
		uint64_t n_rows;
	} cases[] = {
		{ { 0 }, 11 * 3 + 11 * 2 },
		{ { .job_id = "a" }, 11 * 3 },
		{ { .job_id = "c" }, 0 },
		{ { .pid = 102 }, 11 },
		{ { .pid = 101, .job_id = "b" }, 11 },
		{ { .pid = 7 }, 0 },
		{ { .since_wall_ns = minute_5 }, 6 * 5 },
		{ { .since_wall_ns = minute_5 + 59 * SECOND_NS }, 6 * 5 },
		{ { .until_wall_ns = minute_5 }, 6 * 5 },
		{ { .since_wall_ns = minute_5, .until_wall_ns = minute_5 + 1 }, 5 },
		{ { .since_wall_ns = NOW }, 0 },
		{ { .since_wall_ns = UINT64_MAX }, 0 },
		{ { .until_wall_ns = 1 }, 0 },
		{ { .until_wall_ns = UINT64_MAX }, 11 * 5 },
	};

	for (uint64_t k = 0; k < 150; k++) {
		must_tick_at(store, &a, first + k * 4 * SECOND_NS, 3);
		must_tick_at(store, &b, first + k * 4 * SECOND_NS, 2);
	}
	for (int is_rolled = 0; is_rolled < 2; is_rolled++) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			CLEANUP(minute_list_release)
			struct minute_list list = must_read_minutes(store, &cases[i].filter);

			assert_int_equal(list.n, cases[i].n_rows);
		}
		must_retain_at(store, &default_policy, NOW);
	}
}

static int stop_at_third(void *ctx, const struct minute_row *row)
{
	(void)row;
	return ++*(int *)ctx == 3 ? 42 : 0;
}

static void test_who_has_seen_enough_stops_it(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW);
	struct err err = ERR_INIT;
	int n = 0;

	must_tick_at(store, &a, NOW, 5);
	assert_int_equal(
		store_read_minutes(store, &(struct history_filter){ 0 }, stop_at_third, &n, &err),
		42);
	assert_int_equal(n, 3);
}

/* More than fits a window of an hour: it is read in smaller ones, in the same order. */
static void test_many_processes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	const uint64_t first = NOW / HOUR * HOUR - 30 * HOUR;

	for (uint64_t k = 0; k < 60; k++)
		must_tick_at(store, &a, first + k * MINUTE, 1200);
	for (int is_rolled = 0; is_rolled < 2; is_rolled++) {
		CLEANUP(minute_list_release)
		struct minute_list list = must_read_minutes(store, &(struct history_filter){ 0 });

		assert_int_equal(list.n, 60 * 1200);
		for (size_t i = 0; i < list.n; i++) {
			assert_int_equal(list.items[i].wall_ns, first + i / 1200 * MINUTE);
			assert_int_equal(list.items[i].last.key.pid, 100 + i % 1200);
		}
		must_retain_at(store, &default_policy, NOW);
	}
}

/* ---- names ---- */

struct names {
	char seen[8][32];
	int n;
};

static int note_name(void *ctx, const struct minute_row *row)
{
	struct names *names = ctx;

	assert_true(names->n < 8);
	assert_string_equal(row->last.job_id, "j");
	assert_int_equal(row->attempt_num, 1);
	snprintf(names->seen[names->n++], sizeof(names->seen[0]), "%s", row->last.command);
	return 0;
}

/* A process that becomes another program has the name that it had in each minute. */
static void test_names(void **state)
{
	static const char *const commands[] = { "sh -c x", "x --first", "x --second" };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (uint64_t k = 0; k < 150; k++) {
		fill_snapshot(&snap, "j", 1, 0);
		snap.processes[0].command = commands[k / 50];
		snap.wall_ns = NOW / HOUR * HOUR - 30 * HOUR + k / 50 * MINUTE + k % 50 * SECOND_NS;
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	for (int is_rolled = 0; is_rolled < 2; is_rolled++) {
		struct names names = { 0 };

		must(store_read_minutes(store, &(struct history_filter){ 0 }, note_name, &names,
					&err),
		     &err);
		assert_int_equal(names.n, 3);
		for (int i = 0; i < 3; i++)
			assert_string_equal(names.seen[i], commands[i]);
		must_retain_at(store, &default_policy, NOW);
	}
}

static int count_statement(unsigned type, void *ctx, void *stmt, void *sql)
{
	(void)type;
	(void)stmt;
	(void)sql;
	++*(unsigned *)ctx;
	return 0;
}

/*
 * A machine that finds out what time it is when it has begun to record, and one whose
 * clock was wrong: ticks of different times are of different folds, and the years
 * between them are not looked through hour by hour.
 */
static void test_a_clock_that_leaps(void **state)
{
	static const uint64_t times[] = { 100 * SECOND_NS, NOW, NOW - 400 * DAY, NOW + HOUR };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW);
	unsigned n_statements = 0;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		for (uint64_t k = 0; k < 20; k++)
			must_tick_at(store, &a, times[i] + k * SECOND_NS, 2);
	for (int is_folded = 0; is_folded < 2; is_folded++) {
		sqlite3_trace_v2(store->db, SQLITE_TRACE_STMT, count_statement, &n_statements);
		assert_int_equal(must_count_in_minutes(store), 4 * 20 * 2);
		sqlite3_trace_v2(store->db, 0, NULL, NULL);
		assert_in_range(n_statements, 1, 400);
		assert_int_equal(count_samples(f->db), 4 * 20 * 2);
		if (!is_folded)
			must_finish_at(store, &a, NOW + 2 * HOUR);
		n_statements = 0;
	}
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds"), 4);
	assert_int_equal(raw_sql(f->db, "SELECT max(last_ns - first_ns) FROM folds"),
			 19 * SECOND_NS);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_it_does_not_show),
		STORE_TEST(test_a_clock_that_is_set_back),
		STORE_TEST(test_filters),
		STORE_TEST(test_who_has_seen_enough_stops_it),
		STORE_TEST(test_many_processes),
		STORE_TEST(test_names),
		STORE_TEST(test_a_clock_that_leaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

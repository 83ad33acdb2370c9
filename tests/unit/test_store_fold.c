#include "store_fixture.h"

#include "store/handle.h" /* for smaller pieces */
#include "store_writer.h"

#define COUNT_UNFOLDED "SELECT count(*) FROM ticks"
#define COUNT_FOLDS "SELECT count(*) FROM folds"
#define COUNT_CHUNKS "SELECT count(*) FROM chunks"

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* Whether process number i is there at tick k: the second comes and goes. */
static bool is_there(int i, unsigned k)
{
	return i != 1 || k == 0 || (k >= 30 && k < 60) || k == 100;
}

/* A third of the values goes on; all can be told from k and the pid. */
static void set_values(struct proc_sample *p, unsigned k)
{
	uint64_t pid = (uint64_t)p->key.pid;

	p->age_seconds = (double)(5000000000 + k * 250000000 - 123456789) / 1e9;
	p->cpu_ns = k * UINT64_C(1000003) * pid;
	p->cpu_percent = (double)(k * pid % 10000) / 100;
	p->rss_anon_bytes = 4096 * pid;
	p->hwm_bytes = k % 7 ? pid << 20 : U64_UNKNOWN;
	p->write_bytes = k / 10 * 4096;
	p->fd_limit = FD_LIMIT_UNLIMITED;
	p->state = k % 5 ? 'S' : 'R';
}

/* Pid 102 is given to another process at tick 50. */
static void must_tick(struct store *store, const struct attempt *a, unsigned k)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct series_point point = { .wall_ns = k, .sheet_num = 1, .cpu_percent = k / 3.0 };
	struct err err = ERR_INIT;
	size_t n = 0;

	snapshot_init(&snap);
	fill_snapshot(&snap, a->job_id, 3, k);
	snap.processes[2].key.start_ticks += k < 50 ? 0 : 1000;
	for (int i = 0; i < 3; i++) {
		set_values(&snap.processes[i], k);
		if (is_there(i, k))
			snap.processes[n++] = snap.processes[i];
	}
	snap.n_processes = n;
	must(write_tick(store, a, &snap, &point, NULL, 0, &err), &err);
}

/* ---- what comes back ---- */

struct expected {
	unsigned k;
	int i;
	size_t n;
};

static void move_on(struct expected *want)
{
	do
		if (++want->i == 3) {
			want->i = 0;
			want->k++;
		}
	while (!is_there(want->i, want->k));
}

/* Each row of must_tick(), from tick 0 on. */
static int check_row(void *ctx, const struct history_row *row)
{
	struct expected *want = ctx;
	const struct proc_sample *p = &row->sample;
	struct proc_sample made = *p;

	assert_int_equal(row->wall_ns, UINT64_C(1700000001000000000) + want->k * 250000000ULL);
	assert_int_equal(p->key.pid, 100 + want->i);
	assert_int_equal(p->key.start_ticks,
			 5000 + want->i + (want->i == 2 && want->k >= 50 ? 1000 : 0));
	assert_int_equal(p->user_ns, want->k * 1000000ULL);
	set_values(&made, want->k);
	assert_memory_equal(&made, p, sizeof(made));
	want->n++;
	move_on(want);
	return 0;
}

static size_t check_history(struct store *store)
{
	struct expected want = { 0 };
	struct err err = ERR_INIT;

	must(store_read_history(store, &(struct history_filter){ 0 }, check_row, &want, &err),
	     &err);
	return want.n;
}

static size_t rows_of(unsigned n_ticks)
{
	size_t n = 0;

	for (unsigned k = 0; k < n_ticks; k++)
		for (int i = 0; i < 3; i++)
			n += is_there(i, k);
	return n;
}

static void check_series(struct store *store, unsigned n_ticks)
{
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.details.n_series, n_ticks);
	for (unsigned k = 0; k < n_ticks; k++) {
		assert_int_equal(back.details.series[k].wall_ns, k);
		assert_true(back.details.series[k].cpu_percent == k / 3.0);
	}
}

/* ---- tests ---- */

static void test_around_the_edge(void **state)
{
	static const struct {
		unsigned n_ticks;
		int n_unfolded, n_folds;
	} cases[] = { { 1, 1, 0 },   { 119, 119, 0 }, { 120, 0, 1 },
		      { 121, 1, 1 }, { 240, 0, 2 },   { 300, 60, 2 } };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(store_cleanup) struct store *store = NULL;
		unsigned n = cases[i].n_ticks;
		struct err err = ERR_INIT;
		struct attempt a;
		char path[192];

		snprintf(path, sizeof(path), "%s/%zu.db", f->dir, i);
		store = must_open(path, STORE_WRITE);
		a = must_begin(store, "j");
		for (unsigned k = 0; k < n; k++)
			must_tick(store, &a, k);
		assert_int_equal(raw_sql(path, COUNT_UNFOLDED), cases[i].n_unfolded);
		assert_int_equal(raw_sql(path, COUNT_FOLDS), cases[i].n_folds);
		assert_int_equal(check_history(store), rows_of(n));
		check_series(store, n);

		a.ended_wall_ns = 1;
		must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
		assert_int_equal(raw_sql(path, COUNT_UNFOLDED), 0);
		assert_int_equal(raw_sql(path, COUNT_TICKS), n);
		assert_int_equal(check_history(store), rows_of(n));
		check_series(store, n);
		assert_is_sound(path);
	}
}

/* Of an attempt that has not ended, from folds and ticks together. */
static void test_processes_so_far(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	for (unsigned k = 0; k < 130; k++)
		must_tick(store, &a, k);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, 4);
	assert_int_equal(back.processes[0].key.pid, 100);
	assert_int_equal(back.processes[0].n_samples, 130);
	assert_int_equal(back.processes[0].user_ns, 129000000);
	assert_int_equal(back.processes[0].max_rss_bytes, 100 << 20);
	assert_int_equal(back.processes[0].write_bytes, 12 * 4096);
	assert_false(u64_known(back.processes[0].rchar));
	assert_int_equal(back.processes[1].n_samples, 32);
	assert_int_equal(back.processes[1].user_ns, 100000000);
	assert_int_equal(back.processes[2].key.start_ticks, 5002);
	assert_int_equal(back.processes[2].n_samples, 50);
	assert_int_equal(back.processes[3].key.start_ticks, 6002);
	assert_int_equal(back.processes[3].n_samples, 80);
}

/* The filters reach into folds. */
static void test_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	const uint64_t at_100 = UINT64_C(1700000001000000000) + 100 * UINT64_C(250000000);
	const struct {
		struct history_filter filter;
		int64_t n;
	} cases[] = {
		{ { 0 }, 2 * (int64_t)rows_of(150) },
		{ { .job_id = "a" }, (int64_t)rows_of(150) },
		{ { .job_id = "c" }, 0 },
		{ { .pid = 101 }, 2 * 32 },
		{ { .pid = 102, .job_id = "b" }, 150 },
		{ { .pid = 7 }, 0 },
		{ { .since_wall_ns = at_100 }, 2 * (2 * 50 + 1) },
		{ { .since_wall_ns = at_100 + 1, .pid = 101 }, 0 },
	};
	struct err err = ERR_INIT;

	for (unsigned k = 0; k < 150; k++) {
		must_tick(store, &a, k);
		must_tick(store, &b, k);
	}
	assert_int_equal(raw_sql(f->db, COUNT_FOLDS), 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t n = 0;

		must(store_read_history(store, &cases[i].filter, count_row, &n, &err), &err);
		assert_int_equal(n, cases[i].n);
	}
}

struct order {
	uint64_t wall_ns;
	int64_t n;
};

static int check_order(void *ctx, const struct history_row *row)
{
	struct order *order = ctx;

	assert_true(row->wall_ns >= order->wall_ns);
	order->wall_ns = row->wall_ns;
	order->n++;
	return 0;
}

/* Oldest first, also when the clock was set back inside a fold, and across attempts. */
static void test_time_that_goes_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	struct order order = { 0 };
	struct err err = ERR_INIT;

	for (unsigned k = 0; k < 250; k++) {
		must_tick(store, &a, k < 60 ? k + 40 : k - 60);
		must_tick(store, &b, 250 - k);
	}
	must(store_read_history(store, &(struct history_filter){ 0 }, check_order, &order, &err),
	     &err);
	assert_int_equal(order.n, count_samples(f->db));
	assert_true(order.n > 1000);
}

/* Nothing is written under an id that a chunk could not have. */
static void test_ids_come_to_their_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, "a", 1, 0);
	raw_sql(f->db, "INSERT INTO meta VALUES ('last_tick', (1 << 33) - 2)");
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err); /* the last one */
	assert_int_equal(write_tick(store, &a, &snap, NULL, NULL, 0, &err), -EOVERFLOW);
	assert_non_null(strstr(err.text, "as many ticks as one can have"));
	assert_int_equal(raw_sql(f->db, COUNT_UNFOLDED), 1);
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(count_samples(f->db), 1);
	must(store_check(store, 0, &err), &err);

	raw_sql(f->db, "DELETE FROM folds");
	raw_sql(f->db, "UPDATE meta SET value = 0 WHERE key = 'last_tick'");
	raw_sql(f->db, "UPDATE processes SET id = (1 << 30) - 1");
	a = must_begin(store, "b");
	fill_snapshot(&snap, "b", 1, 0);
	assert_int_equal(write_tick(store, &a, &snap, NULL, NULL, 0, &err), -EOVERFLOW);
	assert_non_null(strstr(err.text, "as many processes as one can have"));
}

struct growing {
	struct store *writer;
	const struct attempt *attempt;
	struct expected want;
};

/* The ticks that are being read are folded meanwhile. */
static int fold_at_first(void *ctx, const struct history_row *row)
{
	struct growing *g = ctx;

	if (g->want.n == 0)
		for (unsigned k = 0; k < 119; k++)
			must_tick(g->writer, g->attempt, 5000 + k);
	return check_row(&g->want, row);
}

static void test_folding_under_a_reader(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *writer = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *reader = must_open(f->db, STORE_READ);
	struct attempt a = must_begin(writer, "j");
	struct growing g = { .writer = writer, .attempt = &a };
	struct err err = ERR_INIT;

	for (unsigned k = 0; k < 1140; k++) /* more than a page; the last 60 are not folded */
		must_tick(writer, &a, k);
	must(store_read_history(reader, &(struct history_filter){ 0 }, fold_at_first, &g, &err),
	     &err);
	assert_int_equal(g.want.n, rows_of(1140));
}

/* Many processes: the bytes of the ticks are what counts. */
static void test_folds_of_many_processes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (unsigned k = 0; k < 20; k++) {
		fill_snapshot(&snap, "j", 12000, k);
		for (int i = 0; i < 12000; i++)
			set_values(&snap.processes[i], k);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	assert_true(raw_sql(f->db, COUNT_FOLDS) > 0);
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), 20);
	assert_int_equal(count_samples(f->db), 20 * 12000);
}

/* What each has called is folded with it, a process at a time, and comes back with its name. */
static int check_calls(void *ctx, const struct history_row *row)
{
	unsigned *n_rows = ctx;
	const struct proc_sample *p = &row->sample;

	assert_int_equal(p->n_syscalls, 2);
	assert_string_equal(p->syscalls[0].name, "read");
	assert_string_equal(p->syscalls[1].name, p->key.pid % 2 ? "futex" : "write");
	assert_int_equal(p->syscalls[0].count + 1, p->syscalls[1].count);
	++*n_rows;
	return 0;
}

static void test_calls_are_folded(void **state)
{
	const int n = 6;
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct history_filter filter = { .job_id = "j" };
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;
	unsigned n_rows = 0;

	snapshot_init(&snap);
	for (unsigned k = 0; k < 150; k++) {
		struct syscall_use uses[6][2] = { 0 };

		fill_snapshot(&snap, "j", n, k);
		for (int i = 0; i < n; i++) {
			struct proc_sample *p = &snap.processes[i];

			uses[i][0] = (struct syscall_use){ .name = "read", .count = k };
			uses[i][1] =
				(struct syscall_use){ .name = p->key.pid % 2 ? "futex" : "write",
						      .count = k + 1 };
			p->syscalls = uses[i];
			p->n_syscalls = 2;
		}
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	assert_int_equal(raw_sql(f->db, COUNT_FOLDS), 1);
	must(store_read_history(store, &filter, check_calls, &n_rows, &err), &err);
	assert_int_equal(n_rows, 150 * n);
}

/* An attempt that is deleted takes its folds and their chunks with it. */
static void test_nothing_is_left_behind(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");

	for (unsigned k = 0; k < 150; k++) {
		must_tick(store, &a, k);
		must_tick(store, &b, k);
	}
	store_close(store);
	assert_int_equal(raw_sql(f->db, COUNT_CHUNKS), 2);
	{
		sqlite3 *db = NULL;

		assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db,
					      "PRAGMA foreign_keys = ON; DELETE FROM attempts "
					      "WHERE id = 1",
					      NULL, NULL, NULL),
				 SQLITE_OK);
		sqlite3_close(db);
	}
	assert_int_equal(raw_sql(f->db, COUNT_CHUNKS), 1);
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), 150);
	assert_int_equal(
		raw_sql(f->db, "SELECT count(*) FROM chunks c JOIN folds ON folds.id = c.id >> 30"),
		1);
}

/* No tick ever gets the id of another: not of one that went with its attempt… */
static void test_ids_are_never_given_again(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("a"), b = make_attempt("b");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	must(store_begin_attempt(store, &b, &err), &err);
	for (unsigned k = 0; k < 4; k++) {
		fill_snapshot(&snap, k < 2 ? "a" : "b", 1, k);
		must(write_tick(store, k < 2 ? &a : &b, &snap, NULL, NULL, 0, &err), &err);
	}
	raw_sql(f->db, "PRAGMA foreign_keys = ON");
	raw_sql(f->db, "DELETE FROM attempts WHERE id = 2");
	assert_int_equal(raw_sql(f->db, "SELECT max(id) FROM ticks"), 2);
	fill_snapshot(&snap, "a", 1, 4);
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT max(id) FROM ticks"), 5);
	/* …nor of one that nobody could read. */
	raw_sql(f->db, "UPDATE ticks SET data = x'00'");
	a.ended_wall_ns = a.started_wall_ns + 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), 0);
	assert_int_equal(raw_sql(f->db, "SELECT value FROM meta WHERE key = 'last_tick'"), 5);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ids_are_never_given_again, fixture_setup,
						fixture_teardown),
		STORE_TEST(test_around_the_edge),
		STORE_TEST(test_processes_so_far),
		STORE_TEST(test_filters),
		STORE_TEST(test_time_that_goes_back),
		STORE_TEST(test_ids_come_to_their_end),
		STORE_TEST(test_folding_under_a_reader),
		STORE_TEST(test_folds_of_many_processes),
		STORE_TEST(test_calls_are_folded),
		STORE_TEST(test_nothing_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

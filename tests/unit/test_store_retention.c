/* What becomes of samples, events and attempts when they are old. */
#include "retention_fixture.h"

/* ---- samples ---- */

/* As bytes: each row was made with nothing left undefined. */
static void assert_same_minutes(const struct minute_list *a, const struct minute_list *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_int_equal(a->items[i].wall_ns, b->items[i].wall_ns);
		assert_int_equal(a->items[i].n_samples, b->items[i].n_samples);
		assert_memory_equal(&a->items[i].avg, &b->items[i].avg, sizeof(a->items[i].avg));
		assert_memory_equal(&a->items[i].min, &b->items[i].min, sizeof(a->items[i].min));
		assert_memory_equal(&a->items[i].max, &b->items[i].max, sizeof(a->items[i].max));
		assert_memory_equal(&a->items[i].last, &b->items[i].last, sizeof(a->items[i].last));
	}
}

static void test_minutes_are_the_same_before_and_after(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(minute_list_release) struct minute_list before = { 0 }, after = { 0 };
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct retention_result result;

	tick_between(store, &a, 30 * HOUR, 29 * HOUR, 1100000000, 3);
	tick_between(store, &a, 29 * HOUR, 0, 59 * SECOND_NS, 2);
	before = must_read_minutes(store, &(struct history_filter){ 0 });
	result = must_retain_at(store, &default_policy, NOW);
	after = must_read_minutes(store, &(struct history_filter){ 0 });

	assert_true(before.n > 29 * 60 * 2);
	assert_same_minutes(&before, &after);
	assert_true(result.n_samples > 0 && count(f, "rollups") > 0);
	assert_int_equal(result.n_samples + (uint64_t)count_samples(f->db),
			 count_in_minutes(&before));
	assert_int_equal(result.n_damaged + result.n_minutes + result.n_curves, 0);
	assert_is_sound(f->db);
}

struct ages {
	uint64_t oldest_ns;
	int64_t n;
};

static int note_age(void *ctx, const struct history_row *row)
{
	struct ages *ages = ctx;

	if (ages->n++ == 0)
		ages->oldest_ns = row->wall_ns;
	return 0;
}

/* A fold is as old as its newest tick: 120 of them may be kept longer, none less. */
static void test_full_resolution_lasts_a_day(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct ages ages = { 0 };
	struct err err = ERR_INIT;

	tick_between(store, &a, 30 * HOUR, 0, 60 * SECOND_NS, 2);
	must_retain_at(store, &default_policy, NOW);
	must(store_read_history(store, &(struct history_filter){ 0 }, note_age, &ages, &err), &err);
	assert_true(ages.oldest_ns <= NOW - 24 * HOUR);
	assert_true(ages.oldest_ns > NOW - 26 * HOUR);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks WHERE id >> 30 NOT IN "
					"(SELECT id FROM folds)"),
			 0);
}

/* What the report of a finished attempt has is as it was, but for what is too old. */
static void test_summaries_stay(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin_at(store, "j", NOW - 400 * DAY);
	struct sheet_record sheet = { .num = 1, .try_num = 1, .total_ranks = 1 };
	struct proc_record process;
	struct err err = ERR_INIT;

	tick_between(store, &a, 400 * DAY, 400 * DAY - 30 * MINUTE, 10 * SECOND_NS, 2);
	usage_init(&sheet.usage);
	proc_record_init(&process);
	process.key = (struct proc_key){ 100, 5000 };
	process.user_ns = 77;
	process.n_samples = 181;
	a.sheets = &sheet;
	a.processes = &process;
	a.n_sheets = a.n_processes = 1;
	a.usage.peak_rss_bytes = 123456;
	must_finish_at(store, &a, NOW - 399 * DAY);
	must_retain_at(store, &default_policy, NOW);

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.outcome, OUTCOME_SUCCESS);
	assert_int_equal(back.usage.peak_rss_bytes, 123456);
	assert_int_equal(back.n_sheets, 1);
	assert_int_equal(back.n_processes, 2);
	assert_int_equal(back.processes[0].user_ns, 77);
	assert_int_equal(back.processes[0].n_samples, 181);
	assert_int_equal(back.details.n_series, 0);
	assert_int_equal(count(f, "folds") + count(f, "chunks") + count(f, "ticks"), 0);
	assert_int_equal(count(f, "rollups") + count(f, "points"), 0);
}

/* ---- other ages ---- */

static void test_minutes_and_curves_last_a_week(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(minute_list_release) struct minute_list left = { 0 };
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin_at(store, "j", NOW - 9 * DAY);
	struct retention_result result;
	struct err err = ERR_INIT;

	tick_between(store, &a, 9 * DAY, 2 * DAY, 5 * MINUTE, 1);
	must_finish_at(store, &a, NOW - 2 * DAY);
	result = must_retain_at(store, &default_policy, NOW);
	left = must_read_minutes(store, &(struct history_filter){ 0 });
	assert_int_equal(result.n_samples, 7 * 24 * 12);
	assert_in_range(left.n, 5 * 24 * 12, 5 * 24 * 12 + 12);
	assert_true(left.items[0].wall_ns <= NOW - 7 * DAY);
	assert_true(left.items[0].wall_ns > NOW - 7 * DAY - HOUR);

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_true(back.details.n_series >= 5 * 24 * 12 &&
		    back.details.n_series <= 5 * 24 * 12 + 240);
	assert_true(back.details.series[0].wall_ns > NOW - 8 * DAY);

	must_retain_at(store, &default_policy, NOW + 6 * DAY);
	assert_int_equal(must_count_in_minutes(store), 0);
	assert_int_equal(count(f, "rollups") + count(f, "points"), 0);
}

/* A policy that keeps every sample longer than minutes keeps the curves as long, too. */
static void test_more_samples_than_minutes(void **state)
{
	static const struct retention_policy policy = { 10 * 24, 2, 30, 0, NULL };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 9 * DAY);
	struct history_filter filter = { .job_id = "j" };
	struct err err = ERR_INIT;
	int64_t n = 0;

	tick_between(store, &a, 9 * DAY, 8 * DAY, 10 * MINUTE, 1);
	must_finish_at(store, &a, NOW - 8 * DAY);
	must_retain_at(store, &policy, NOW);
	must(store_read_history(store, &filter, count_row, &n, &err), &err);
	assert_int_equal(n, 144);
	must_retain_at(store, &policy, NOW + 3 * DAY);
	assert_int_equal(count(f, "folds") + count(f, "points") + count(f, "rollups"), 0);
}

static void test_events_last_a_month(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 40 * DAY);
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;

	for (uint64_t day = 0; day < 40; day++)
		for (int i = 0; i < 10; i++)
			add_event(store, &a, NOW - (39 - day) * DAY - HOUR);
	assert_int_equal(must_retain_at(store, &default_policy, NOW).n_events, 10 * 10);
	assert_int_equal(count(f, "events"), 30 * 10);
	assert_true(raw_sql(f->db, "SELECT min(wall_ns) FROM events") > (int64_t)(NOW - 30 * DAY));

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_events, 300);
	assert_int_equal(back.details.n_unknowns, 1);
	assert_string_equal(back.details.unknowns[0].what, "events");
	assert_non_null(strstr(back.details.unknowns[0].why, "removed"));
}

static void add_anomaly(struct store *store, const struct attempt *a, uint64_t began_ns,
			uint64_t ended_ns)
{
	struct episode e;
	struct err err = ERR_INIT;

	episode_init(&e);
	e.began_wall_ns = began_ns;
	e.ended_wall_ns = ended_ns;
	e.count = 1;
	snprintf(e.name, sizeof(e.name), "leak/%lld.%llu/1", (long long)a->id,
		 (unsigned long long)began_ns);
	must(write_anomaly(store, a->id, &e, EPISODE_BEGAN, &err), &err);
}

/* As long as events; one of a job that runs may last. The job stays, and what it is a case of. */
static void test_anomalies_last_a_month(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt over = must_begin_at(store, "over", NOW - 50 * DAY);
	struct attempt runs = must_begin_at(store, "runs", NOW - 50 * DAY);
	struct retention preview;
	struct err err = ERR_INIT;

	must_finish_at(store, &over, NOW - 35 * DAY);
	add_anomaly(store, &over, NOW - 40 * DAY, NOW - 39 * DAY);
	add_anomaly(store, &over, NOW - 36 * DAY, U64_UNKNOWN); /* nobody saw its end */
	add_anomaly(store, &runs, NOW - 41 * DAY, U64_UNKNOWN);
	add_anomaly(store, &runs, NOW - 31 * DAY, NOW - 29 * DAY);
	add_anomaly(store, &runs, NOW - DAY, NOW - HOUR);
	must(store_preview_retention(store, &default_policy, NOW, BELIEVED_CLOCK, &preview, &err),
	     &err);
	assert_int_equal(preview.result.n_anomalies, 2);
	assert_int_equal(must_retain_at(store, &default_policy, NOW).n_anomalies, 2);
	assert_int_equal(count(f, "anomalies"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies n JOIN attempts a"
					" ON a.id = n.attempt WHERE a.ended_wall_ns IS NOT NULL"),
			 0);
	assert_int_equal(count(f, "attempts"), 2);
	assert_int_equal(count(f, "patterns"), 1);
}

/* ---- attempts without an end ---- */

static void assert_same_processes(const struct attempt *a, const struct attempt *b)
{
	assert_int_equal(a->n_processes, b->n_processes);
	for (size_t i = 0; i < a->n_processes; i++) {
		struct proc_record x = a->processes[i], y = b->processes[i];

		x.command = y.command = NULL;
		assert_memory_equal(&x, &y, sizeof(x));
	}
}

static uint64_t series_peak(const struct attempt *a)
{
	uint64_t peak = U64_UNKNOWN;

	for (size_t i = 0; i < a->details.n_series; i++)
		peak = u64_max_known(peak, a->details.series[i].rss_bytes);
	return peak;
}

/* Its processes are told by samples: also when those have become minutes, or nothing. */
static void test_what_a_lost_attempt_used_stays(void **state)
{
	static const uint64_t laters[] = { 0, 2 * DAY, 20 * DAY, 21 * DAY };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(attempt_release) struct attempt before;
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;

	attempt_init(&before);
	tick_between(store, &a, 30 * HOUR, 2 * HOUR, 100 * SECOND_NS, 3);
	must(store_read_attempt(store, "j", 0, &before, &err), &err);
	assert_int_equal(before.n_processes, 3);
	for (size_t i = 0; i < ARRAY_SIZE(laters); i++) {
		CLEANUP(attempt_release) struct attempt after;

		attempt_init(&after);
		must_retain_at(store, &default_policy, NOW + laters[i]);
		must(store_read_attempt(store, "j", 0, &after, &err), &err);
		assert_same_processes(&before, &after);
		assert_int_equal(series_peak(&after), series_peak(&before));
		assert_int_equal(after.details.series[after.details.n_series - 1].wall_ns,
				 before.details.series[before.details.n_series - 1].wall_ns);
	}
	assert_int_equal(count(f, "folds") + count(f, "rollups") + count(f, "ticks"), 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM points WHERE NOT is_thin"), 0);
}

/* The last ticks of a runner that was killed are nobody's; they are folded, and grow old. */
static void test_ticks_that_were_left(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "a", NOW - 3 * HOUR);
	struct attempt b = must_begin_at(store, "b", NOW - 3 * HOUR);

	tick_between(store, &a, 3 * HOUR, 2 * HOUR, MINUTE, 2);
	tick_between(store, &b, 59 * MINUTE, 0, MINUTE, 2);
	assert_int_equal(count(f, "ticks"), 119);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(count(f, "ticks"), 59);
	assert_int_equal(count(f, "folds"), 1);
	assert_int_equal(count_samples(f->db), 2 * 119);
}

/* Whose ticks were folded may only have been asleep: what it writes next can be read. */
static void test_a_recorder_that_wakes_up(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *sleeper = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *other = must_open_fast(f->db);
	struct attempt a = must_begin_at(sleeper, "j", NOW - 9 * HOUR);

	tick_between(sleeper, &a, 9 * HOUR, 8 * HOUR, MINUTE, 3);
	must_retain_at(other, &default_policy, NOW);
	assert_int_equal(count(f, "ticks"), 0);
	for (int i = 0; i < 150; i++)
		must_tick_at(sleeper, &a, NOW + (uint64_t)i * SECOND_NS, 3);
	assert_int_equal(count_samples(f->db), (60 + 150) * 3);
}

/* Ids of ticks go on where they were when all folds are gone. */
static void test_ids_go_up_for_ever(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 90 * DAY);

	tick_between(store, &a, 90 * DAY, 90 * DAY - HOUR, 10 * SECOND_NS, 1);
	must_finish_at(store, &a, NOW - 89 * DAY);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(count(f, "folds") + count(f, "ticks"), 0);
	must_tick_at(store, &a, NOW, 1);
	assert_int_equal(raw_sql(f->db, "SELECT max(id) FROM ticks"), 361);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_minutes_are_the_same_before_and_after),
		STORE_TEST(test_full_resolution_lasts_a_day),
		STORE_TEST(test_summaries_stay),
		STORE_TEST(test_minutes_and_curves_last_a_week),
		STORE_TEST(test_more_samples_than_minutes),
		STORE_TEST(test_events_last_a_month),
		STORE_TEST(test_anomalies_last_a_month),
		STORE_TEST(test_what_a_lost_attempt_used_stays),
		STORE_TEST(test_ticks_that_were_left),
		STORE_TEST(test_a_recorder_that_wakes_up),
		STORE_TEST(test_ids_go_up_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

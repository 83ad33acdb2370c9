#include "retention_fixture.h"

#include <signal.h>
#include <time.h>

#include "store/spool_file.h"

#define N_KILLS 60

static const struct retention_policy default_policy = RETENTION_POLICY_DEFAULT;

static int64_t count(const struct fixture *f, const char *table)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	return raw_sql(f->db, sql);
}

static int64_t file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (int64_t)st.st_size;
}

/* Ticks from so long ago up to so long ago. */
static void tick_between(struct store *store, const struct attempt *a, uint64_t from_ago,
			 uint64_t to_ago, uint64_t interval_ns, int n)
{
	for (uint64_t ns = NOW - from_ago; ns < NOW - to_ago; ns += interval_ns)
		must_tick_at(store, a, ns, n);
}

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
	before = must_read_minutes(store, &(struct minute_filter){ 0 });
	result = must_retain_at(store, &default_policy, NOW);
	after = must_read_minutes(store, &(struct minute_filter){ 0 });

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
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks WHERE fold NOT IN "
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
	assert_int_equal(back.n_series, 0);
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
	left = must_read_minutes(store, &(struct minute_filter){ 0 });
	assert_int_equal(result.n_samples, 7 * 24 * 12);
	assert_in_range(left.n, 5 * 24 * 12, 5 * 24 * 12 + 12);
	assert_true(left.items[0].wall_ns <= NOW - 7 * DAY);
	assert_true(left.items[0].wall_ns > NOW - 7 * DAY - HOUR);

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_true(back.n_series >= 5 * 24 * 12 && back.n_series <= 5 * 24 * 12 + 240);
	assert_true(back.series[0].wall_ns > NOW - 8 * DAY);

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

static void add_event(struct store *store, const struct attempt *a, uint64_t wall_ns)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct proc_event event = { .wall_ns = wall_ns, .details = "", .job_id = a->job_id };
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	snap.wall_ns = wall_ns;
	must(write_tick(store, a, &snap, NULL, &event, 1, &err), &err);
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
	assert_int_equal(back.n_unknowns, 1);
	assert_string_equal(back.unknowns[0].what, "events");
	assert_non_null(strstr(back.unknowns[0].why, "removed"));
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
	must(store_write_anomaly(store, a->id, &e, EPISODE_BEGAN, &err), &err);
}

/* As long as events; one of a job that runs may last. The job stays, and what it is a case of. */
static void test_anomalies_last_a_month(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt over = must_begin_at(store, "over", NOW - 50 * DAY);
	struct attempt runs = must_begin_at(store, "runs", NOW - 50 * DAY);
	struct retention_preview preview;
	struct err err = ERR_INIT;

	must_finish_at(store, &over, NOW - 35 * DAY);
	add_anomaly(store, &over, NOW - 40 * DAY, NOW - 39 * DAY);
	add_anomaly(store, &over, NOW - 36 * DAY, U64_UNKNOWN); /* nobody saw its end */
	add_anomaly(store, &runs, NOW - 41 * DAY, U64_UNKNOWN);
	add_anomaly(store, &runs, NOW - 31 * DAY, NOW - 29 * DAY);
	add_anomaly(store, &runs, NOW - DAY, NOW - HOUR);
	must(store_preview_retention(store, &default_policy, NOW, &preview, &err), &err);
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

	for (size_t i = 0; i < a->n_series; i++)
		peak = u64_max_known(peak, a->series[i].rss_bytes);
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
		assert_int_equal(after.series[after.n_series - 1].wall_ns,
				 before.series[before.n_series - 1].wall_ns);
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

/* ---- when ---- */

static void test_once_an_hour(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;

	assert_int_equal(store_retention_is_due(store, NOW, &err), 1);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(store_retention_is_due(store, NOW, &err), 0);
	assert_int_equal(store_retention_is_due(store, NOW + HOUR - 1, &err), 0);
	assert_int_equal(store_retention_is_due(store, NOW + HOUR, &err), 1);
	assert_int_equal(store_retention_is_due(store, NOW - 1, &err), 1); /* set back */
}

/* Slices are small: there are many, and each leaves the database as it should be. */
static void test_slices(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n = 0;

	tick_between(store, &a, 30 * HOUR, 25 * HOUR, 60 * SECOND_NS, 40);
	must_finish_at(store, &a, NOW - 25 * HOUR);
	store_retain_begin(&run, &default_policy, NOW);
	run.slice_ns = 0; /* a piece of work each */
	while (store_retain_slice(store, &run, &err) > 0) {
		n++;
		assert_int_equal(store_retention_is_due(store, NOW, &err), 1);
		if (n % 20 == 0)
			assert_int_equal(must_count_in_minutes(store), 300 * 40);
	}
	assert_true(n >= 3 * 40); /* chunks */
	assert_int_equal(run.result.n_samples, 300 * 40);
	assert_int_equal(store_retention_is_due(store, NOW, &err), 0);
}

/* What the attempt's processes tell of themselves so far. */
static void assert_so_far(struct store *store, const char *job_id, size_t n, uint64_t n_samples)
{
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;

	attempt_init(&a);
	must(store_read_attempt(store, job_id, 0, &a, &err), &err);
	assert_int_equal(a.n_processes, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(a.processes[i].n_samples, n_samples);
}

/*
 * Between slices some processes of a fold are in minutes and others are not: it is read
 * whole, at full resolution until all of it is in minutes, and by no reader twice.
 */
static void test_half_a_fold_is_told_whole(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n_half = 0;
	int r;

	tick_between(store, &a, 30 * HOUR, 30 * HOUR - 4 * MINUTE, SECOND_NS, 50);
	assert_int_equal(count(f, "folds"), 2);
	store_retain_begin(&run, &default_policy, NOW);
	run.slice_ns = 0; /* a piece of work each */
	while ((r = store_retain_slice(store, &run, &err)) > 0) {
		int64_t n_whole = raw_sql(f->db, "SELECT count(*) FROM folds WHERE NOT is_rolled");

		n_half += n_whole > 0 && count(f, "rollups") > 0;
		assert_int_equal(count_samples(f->db), n_whole * 120 * 50);
		assert_int_equal(must_count_in_minutes(store), 240 * 50);
		assert_so_far(store, "j", 50, 240);
	}
	must(r, &err);
	assert_in_range(n_half, 49, 60); /* after each process but the last */
	assert_int_equal(count(f, "chunks") + count(f, "folds"), 0);
	assert_int_equal(must_count_in_minutes(store), 240 * 50);
	assert_so_far(store, "j", 50, 240);
}

/* As layout 1 left them: told to nobody at full resolution, and not in minutes yet. */
static void test_folds_that_another_layout_began(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 9 * HOUR);

	tick_between(store, &a, 9 * HOUR, 9 * HOUR - 4 * MINUTE, SECOND_NS, 5);
	raw_sql(f->db, "UPDATE folds SET is_rolled = 1 WHERE id = (SELECT min(id) FROM folds)");
	assert_int_equal(count_samples(f->db), 120 * 5);
	assert_int_equal(must_count_in_minutes(store), 240 * 5);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(count(f, "folds"), 1);
	assert_int_equal(count_samples(f->db), 120 * 5);
	assert_int_equal(must_count_in_minutes(store), 240 * 5);
}

struct disturbed {
	struct store *other;
	struct retention run;
	size_t n;
};

/* Now and then a little more of what is not read yet is gone. */
static int retain_a_little(void *ctx, const struct snapshot *snap)
{
	struct disturbed *d = ctx;
	struct err err = ERR_INIT;

	assert_int_equal(snap->n_processes, 30);
	if (d->n++ % 10 == 0)
		assert_true(store_retain_slice(d->other, &d->run, &err) >= 0);
	return 0;
}

/* Who reads while it goes on is told whole ticks, or none. */
static void test_a_reader_in_the_midst_of_it(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *other = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct disturbed d = { .other = other };
	struct err err = ERR_INIT;

	tick_between(store, &a, 30 * HOUR, 29 * HOUR, 2 * SECOND_NS, 30);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	store_retain_begin(&d.run, &default_policy, NOW);
	d.run.slice_ns = 0; /* a piece of work each */
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, retain_a_little, &d, &err),
	     &err);
	assert_in_range(d.n, 120, 1799);
	must_retain(other, &d.run);
	assert_int_equal(d.run.result.n_samples, 1800 * 30);
}

static void test_a_lock_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;
	struct retention run;
	sqlite3 *other = NULL;

	store_retain_begin(&run, &default_policy, NOW);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_retain_slice(store, &run, &err), -EBUSY);
	assert_int_equal(store_retain_slice(store, &run, &err), -EBUSY);
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	assert_int_equal(store_retain_slice(store, &run, &err), 0);
}

static int refuse_commit(void *ctx)
{
	(void)ctx;
	return 1;
}

/* What could not be written is not counted, and is done again. */
static void test_a_slice_that_fails(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;

	tick_between(store, &a, 30 * HOUR, 29 * HOUR, 10 * SECOND_NS, 3);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	store_retain_begin(&run, &default_policy, NOW);
	sqlite3_commit_hook(store->db, refuse_commit, NULL);
	assert_true(store_retain_slice(store, &run, &err) < 0);
	assert_int_equal(run.result.n_samples + run.result.n_folds, 0);
	assert_int_equal(must_count_in_minutes(store), 360 * 3);
	sqlite3_commit_hook(store->db, NULL, NULL);
	must_retain(store, &run);
	assert_int_equal(run.result.n_samples, 360 * 3);
	assert_int_equal(must_count_in_minutes(store), 360 * 3);
}

static void test_a_reader_cannot(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct err err = ERR_INIT;
	struct retention run;

	store_close(must_open_fast(f->db));
	reader = must_open(f->db, STORE_READ);
	store_retain_begin(&run, &default_policy, NOW);
	assert_true(store_retain_slice(reader, &run, &err) < 0);
}

/* ---- damage ---- */

static void test_damage_is_dropped(void **state)
{
	static const struct {
		const char *sql;
		uint64_t n_lost; /* samples: a process's fold has 120 */
	} damages[] = {
		{ "UPDATE chunks SET data = x'01ffff' WHERE id = (SELECT min(id) FROM chunks)",
		  120 },
		{ "UPDATE folds SET data = zeroblob(99) WHERE id = (SELECT min(id) FROM folds)",
		  2 * 120 },
		{ "UPDATE points SET data = x'02'", 0 },
		{ "UPDATE rollups SET data = x'01' WHERE id = (SELECT min(id) FROM rollups)", 120 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		CLEANUP(store_cleanup) struct store *store = NULL;
		struct retention_policy policy = default_policy;
		struct retention_result result;
		struct attempt a;
		char path[192];

		snprintf(path, sizeof(path), "%s/%zu.db", f->dir, i);
		store = must_open_fast(path);
		a = must_begin_at(store, "j", NOW - 30 * HOUR);
		tick_between(store, &a, 30 * HOUR, 30 * HOUR - 4 * MINUTE, SECOND_NS, 2);
		must_finish_at(store, &a, NOW - 29 * HOUR);
		if (strstr(damages[i].sql, "rollups")) /* the first of two folds becomes one */
			must_retain_at(store, &default_policy, NOW - 6 * HOUR + 3 * MINUTE);
		raw_sql(path, damages[i].sql);
		policy.downsampled_days = strstr(damages[i].sql, "points") ? 0 : 7;
		result = must_retain_at(store, &policy, NOW);
		assert_int_equal(result.n_damaged > 0, 1);
		if (policy.downsampled_days)
			assert_int_equal(must_count_in_minutes(store), 2 * 240 - damages[i].n_lost);
		assert_int_equal(raw_sql(path, "SELECT count(*) FROM folds"), 0);
	}
}

/* ---- for room ---- */

static void fill_with_jobs(struct store *store, int n_jobs, uint64_t first_ago)
{
	for (int i = 0; i < n_jobs; i++) {
		uint64_t ago = first_ago - (uint64_t)i * HOUR;
		struct attempt a;
		char id[32];

		snprintf(id, sizeof(id), "job-%d", i);
		a = must_begin_at(store, id, NOW - ago);
		tick_between(store, &a, ago, ago - 10 * MINUTE, 2 * SECOND_NS, 20);
		add_event(store, &a, NOW - ago);
		must_finish_at(store, &a, NOW - ago + 10 * MINUTE);
	}
}

static uint64_t used_bytes(const struct fixture *f)
{
	return (uint64_t)(4096 * (raw_sql(f->db, "PRAGMA page_count") -
				  raw_sql(f->db, "PRAGMA freelist_count")));
}

static void test_max_bytes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;
	uint64_t full, empty = used_bytes(f);
	int64_t n_folds;

	fill_with_jobs(store, 16, 20 * HOUR);
	full = used_bytes(f);
	n_folds = count(f, "folds");

	policy.max_bytes = full + SPOOL_BYTES; /* that counts, too */
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_folds + result.n_events + result.n_attempts, 0);
	assert_int_equal(result.over_bytes, 0);

	full = used_bytes(f);
	policy.max_bytes = full + SPOOL_BYTES - full / 20; /* some samples are enough */
	result = must_retain_at(store, &policy, NOW);
	assert_true(used_bytes(f) + SPOOL_BYTES <= policy.max_bytes / 10 * 9 + 4096);
	assert_true(result.n_folds > 0 && (int64_t)result.n_folds < n_folds);
	assert_int_equal(result.n_minutes + result.n_curves + result.n_events, 0);
	assert_int_equal(must_count_in_minutes(store), 16 * 300 * 20);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds WHERE rolled_to > 0"), 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(DISTINCT recorder) FROM folds WHERE recorder "
					"= (SELECT max(id) FROM attempts)"),
			 1); /* the newest are left */

	policy.max_bytes = 1; /* all that may go */
	result = must_retain_at(store, &policy, NOW);
	assert_true(result.over_bytes > 0);
	assert_true(used_bytes(f) < empty + (full - empty) / 10);
	assert_int_equal(count(f, "folds") + count(f, "rollups") + count(f, "points"), 0);
	assert_int_equal(count(f, "events"), 0);
	assert_int_equal(count(f, "attempts"), 1);
	assert_int_equal(count(f, "jobs"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM jobs WHERE job_id = 'job-15'"), 1);
	assert_int_equal(result.n_attempts, 15);
	assert_true((uint64_t)file_size(f->db) == result.bytes_after);
	assert_is_sound(f->db);
}

/* ---- what counts beside the database ---- */

static void make_file(const struct fixture *f, const char *name, size_t n)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "{", 1), 1);
	assert_int_equal(ftruncate(fd, (off_t)n), 0);
	close(fd);
}

static bool is_there(const struct fixture *f, const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	return access(path, F_OK) == 0;
}

#define LOG_BYTES 10000

/* The log of snapshots counts; what was rotated goes before samples do, the oldest first. */
/* Who reads keeps SQLite's log from being shortened: nothing is removed for that. */
static void test_max_bytes_beside_a_reader(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;
	sqlite3 *reader = NULL;

	fill_with_jobs(store, 4, 5 * HOUR);
	assert_int_equal(sqlite3_open(f->db, &reader), SQLITE_OK);
	assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT * FROM attempts", NULL, NULL, NULL),
			 SQLITE_OK);
	fill_with_jobs(store, 4, 5 * HOUR); /* into the log */
	policy.max_bytes = used_bytes(f) * 3 / 2;
	result = must_retain_at(store, &policy, NOW);
	assert_true(result.wal_bytes > 0);
	assert_int_equal(result.over_bytes, 0);
	assert_int_equal(result.n_processes + result.n_attempts + result.n_minutes, 0);
	assert_int_equal(count(f, "attempts"), 8);
	sqlite3_close(reader);
}

static void test_max_bytes_of_all(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_preview preview;
	struct retention_result result;
	struct err err = ERR_INIT;
	uint64_t full;
	char path[192];

	fill_with_jobs(store, 6, 10 * HOUR);
	full = used_bytes(f);
	make_file(f, "log", LOG_BYTES);
	make_file(f, "log.1", LOG_BYTES);
	make_file(f, "log.2", LOG_BYTES);
	policy.max_bytes = full + SPOOL_BYTES + 3 * LOG_BYTES;
	result = must_retain_at(store, &policy, NOW); /* a log that is not asked for is nobody's */
	assert_int_equal(result.over_bytes + result.n_logs, 0);

	snprintf(path, sizeof(path), "%s/log", f->dir);
	policy.jsonl_path = path;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.over_bytes + result.n_logs, 0);
	assert_int_equal(result.beside_bytes, SPOOL_BYTES + 3 * LOG_BYTES);

	policy.max_bytes -= 4096;
	must(store_preview_retention(store, &policy, NOW, &preview, &err), &err);
	assert_in_range(preview.result.over_bytes, 1, 2000000); /* the log of the database, too */
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_logs, 1);
	assert_true(is_there(f, "log.1") && !is_there(f, "log.2"));
	assert_int_equal(result.n_folds + result.over_bytes, 0);

	policy.max_bytes = full + SPOOL_BYTES + LOG_BYTES - full / 10;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_logs, 1);
	assert_true(is_there(f, "log") && !is_there(f, "log.1"));
	assert_true(result.n_folds > 0); /* and then samples */
	assert_int_equal(result.over_bytes, 0);
	assert_true(used_bytes(f) + SPOOL_BYTES + LOG_BYTES <= policy.max_bytes);
}

/* A log that is larger than all may be does not cost the database everything. */
static void test_a_log_that_is_too_large(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;
	char path[192];

	fill_with_jobs(store, 6, 10 * HOUR);
	make_file(f, "log", 64 << 20);
	snprintf(path, sizeof(path), "%s/log", f->dir);
	policy.jsonl_path = path;
	policy.max_bytes = 4 * used_bytes(f); /* a quarter is its own */
	result = must_retain_at(store, &policy, NOW);
	assert_true(result.over_bytes > 0);
	assert_true(is_there(f, "log"));
	assert_int_equal(result.n_folds + result.n_attempts, 0);
}

/* Who was killed while making room has left halves of folds that are not old: the next ends it. */
static void test_what_was_begun_is_ended(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention run;
	struct err err = ERR_INIT;

	fill_with_jobs(store, 2, 10 * HOUR);
	policy.max_bytes = 1;
	store_retain_begin(&run, &policy, NOW);
	run.slice_ns = 0; /* a piece of work each */
	while (count(f, "rollups") == 0)
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
	assert_true(raw_sql(f->db, "SELECT count(*) FROM folds WHERE rolled_to > 0") > 0);
	assert_int_equal(must_count_in_minutes(store), 2 * 300 * 20);

	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds WHERE rolled_to > 0"), 0);
	assert_true(count(f, "folds") > 0);
	assert_int_equal(must_count_in_minutes(store), 2 * 300 * 20);
}

static enum store_alive judge(void *ctx, const struct attempt *a)
{
	(void)ctx;
	return strcmp(a->job_id, "dead") == 0	 ? STORE_DEAD
	       : strcmp(a->job_id, "alive") == 0 ? STORE_ALIVE
						 : STORE_CANNOT_TELL;
}

/* What may still run is kept, whatever it takes; and the newest. */
static void test_running_attempts_are_kept(void **state)
{
	static const char *const jobs[] = { "alive", "dead", "far-away", "newest" };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;

	store_set_alive_check(store, judge, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct attempt a = must_begin_at(store, jobs[i], NOW - 30 * DAY);

		tick_between(store, &a, 3 * HOUR, 2 * HOUR, MINUTE, 3);
	}
	policy.max_bytes = 1;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_attempts, 1);
	assert_int_equal(result.n_processes, 3);
	assert_true(result.over_bytes > 0);
	assert_int_equal(count(f, "attempts"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM jobs WHERE job_id = 'dead'"), 0);
	assert_int_equal(count(f, "processes"), 9);
}

/* A report whose processes were removed says so. */
static void test_removed_processes_are_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(attempt_release) struct attempt back;
	struct retention_policy policy = default_policy;
	struct attempt a = must_begin_at(store, "a", NOW - HOUR);
	struct proc_record *processes = calloc(20000, sizeof(*processes));
	struct err err = ERR_INIT;

	assert_non_null(processes);
	for (int i = 0; i < 20000; i++) {
		proc_record_init(&processes[i]);
		processes[i].key.pid = i + 1;
	}
	a.processes = processes;
	a.n_processes = 20000;
	must_finish_at(store, &a, NOW);
	must_begin_at(store, "b", NOW);
	policy.max_bytes = used_bytes(f) - used_bytes(f) / 10;
	must_retain_at(store, &policy, NOW);
	attempt_init(&back);
	must(store_read_attempt(store, "a", 0, &back, &err), &err);
	assert_true(back.n_processes > 0 && back.n_processes < 20000);
	assert_int_equal(back.n_unknowns, 1);
	assert_string_equal(back.unknowns[0].what, "processes");
	free(processes);
}

static void check_smaller(struct fixture *f, struct store *store, uint64_t empty)
{
	struct retention_result result;
	int64_t before;

	fill_with_jobs(store, 4, 40 * HOUR);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	before = file_size(f->db);
	result = must_retain_at(store, &default_policy, NOW);
	assert_int_equal(result.bytes_before, before);
	assert_int_equal(result.bytes_after, file_size(f->db));
	assert_true(result.bytes_after < empty + (result.bytes_before - empty) / 2);
	assert_int_equal(raw_sql(f->db, "PRAGMA freelist_count"), 0);
	assert_is_sound(f->db);
}

static void test_the_file_gets_smaller(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	char wal[192];

	snprintf(wal, sizeof(wal), "%s-wal", f->db);
	check_smaller(f, store, used_bytes(f));
	assert_int_equal(file_size(wal), 0);
}

/* Without a log, as on file systems that hosts share. */
static void test_it_gets_smaller_without_a_log(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);

	assert_int_equal(sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL),
			 SQLITE_OK);
	check_smaller(f, store, used_bytes(f));
	assert_int_equal(must_count_in_minutes(store), 4 * 300 * 20);
}

/* ---- what would be ---- */

static void test_preview(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_preview preview;
	struct retention_result result;
	struct attempt a = must_begin_at(store, "j", NOW - 50 * DAY);
	struct err err = ERR_INIT;

	for (int i = 0; i < 7; i++)
		add_event(store, &a, NOW - 50 * DAY);
	tick_between(store, &a, 10 * DAY, 5 * DAY, 10 * MINUTE, 3);
	tick_between(store, &a, 3 * HOUR, 0, MINUTE, 3);
	must_finish_at(store, &a, NOW);
	must_retain_at(store, &default_policy, NOW - 7 * DAY);
	must(store_preview_retention(store, &default_policy, NOW, &preview, &err), &err);
	assert_int_equal(store_retention_is_due(store, NOW, &err), 1);
	assert_true(preview.removable_bytes > 0);
	assert_int_equal(preview.result.over_bytes, 0);
	result = must_retain_at(store, &default_policy, NOW);
	assert_true(result.n_samples > 0 && result.n_minutes > 0 && result.n_curves > 0);
	assert_int_equal(preview.result.n_samples, result.n_samples);
	assert_int_equal(preview.result.n_folds, result.n_folds);
	assert_int_equal(preview.result.n_minutes, result.n_minutes);
	assert_int_equal(preview.result.n_curves, result.n_curves);
	assert_int_equal(preview.result.n_events, result.n_events);
	assert_int_equal(preview.result.bytes_before, result.bytes_before);
}

/* ---- kills, writers and readers at the same time ---- */

static void pause_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

/* Small slices, until it is done; tells of each, if somebody listens. */
static void retain_in_child(const char *db, int told_fd)
{
	struct store *store = NULL;
	struct retention run;
	int r;

	CHILD_CHECK(store_open(db, STORE_WRITE, &store, NULL) == 0);
	store_retain_begin(&run, &default_policy, NOW);
	run.slice_ns = 0; /* a piece of work each */
	do {
		r = store_retain_slice(store, &run, NULL);
		if (r == -EBUSY)
			pause_us(500);
		CHILD_CHECK(told_fd < 0 || write(told_fd, "x", 1) == 1);
	} while (r > 0 || r == -EBUSY);
	CHILD_CHECK(r == 0);
	store_close(store);
	_exit(0);
}

static pid_t start_retention(const char *db, int told_fd)
{
	pid_t pid = fork();

	if (pid == 0)
		retain_in_child(db, told_fd);
	assert_true(pid > 0);
	return pid;
}

/* A little after so many slices. */
static void kill_retention(const char *db, int n_slices, long after_us)
{
	int fds[2], status = -1;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = start_retention(db, fds[1]);
	close(fds[1]);
	while (n_slices-- > 0 && read(fds[0], &byte, 1) == 1)
		;
	pause_us(after_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	close(fds[0]);
}

/* No sample is in a chunk and in a rollup, or in neither, whenever it is killed. */
static void test_kills(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	unsigned seed = 1, n_partly = 0;

	tick_between(store, &a, 30 * HOUR, 26 * HOUR, 4 * SECOND_NS, 60);
	must_finish_at(store, &a, NOW - 26 * HOUR);
	store_close(store);
	for (int i = 0; i < N_KILLS; i++) {
		kill_retention(f->db, rand_r(&seed) % 4, rand_r(&seed) % 800);
		n_partly += count(f, "chunks") > 0 && count(f, "rollups") > 0;
		assert_is_sound(f->db);
		store = must_open_fast(f->db);
		assert_int_equal(must_count_in_minutes(store), 3600 * 60);
		store_close(store);
	}
	assert_true(n_partly > 0); /* else it was not killed in the midst of it */
	store = must_open_fast(f->db);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(must_count_in_minutes(store), 3600 * 60);
	assert_int_equal(count(f, "chunks"), 0);
	store_close(store);
}

/* Two of them, a writer and readers: nothing is lost, and nothing is told twice. */
static void test_others_go_on(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	uint64_t n = 1800 * 40;
	pid_t pids[2];

	tick_between(store, &a, 30 * HOUR, 28 * HOUR, 4 * SECOND_NS, 40);
	reader = must_open(f->db, STORE_READ);
	for (int i = 0; i < 2; i++)
		pids[i] = start_retention(f->db, -1);
	for (int i = 0; i < 300; i++) {
		must_tick_at(store, &a, NOW + (uint64_t)i * SECOND_NS, 10);
		n += 10;
		if (i % 10 == 0)
			assert_int_equal(must_count_in_minutes(reader), n);
	}
	for (int i = 0; i < 2; i++) {
		int status = -1;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(must_count_in_minutes(reader), n);
	assert_int_equal(count_samples(f->db), 300 * 10);
	assert_is_sound(f->db);
}

/* What another has left is folded a piece at a time, and the tick of who does it comes between. */
static void test_ticks_of_others_in_pieces(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *gone = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt left = must_begin_at(gone, "left", NOW - 3 * HOUR);
	struct attempt a = must_begin_at(store, "j", NOW);
	struct err err = ERR_INIT;
	struct retention run;
	unsigned n = 0;

	for (unsigned i = 0; i < 3; i++)
		must_tick_at(gone, &left, NOW - 3 * HOUR + i * SECOND_NS, 500);
	store_retain_begin(&run, &default_policy, NOW);
	run.slice_ns = 1;
	while (raw_sql(f->db, "SELECT count(*) FROM folds") == 0) {
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
		must_tick_at(store, &a, NOW + n++ * SECOND_NS, 1);
	}
	assert_in_range(n, 10, 50); /* some processes each */
	assert_int_equal(raw_sql(f->db, "SELECT n_ticks FROM folds"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM chunks"), 500);
	assert_is_sound(f->db);
}

/* Who was only asleep goes on while it is folded: nothing comes of that, and nothing is lost. */
static void test_others_wake_up(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *asleep = must_open_fast(f->db);
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(asleep, "j", NOW - 3 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;

	for (unsigned i = 0; i < 3; i++)
		must_tick_at(asleep, &a, NOW - 3 * HOUR + i * SECOND_NS, 500);
	store_retain_begin(&run, &default_policy, NOW);
	run.slice_ns = 1;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
	must_tick_at(asleep, &a, NOW - 3 * HOUR + 3 * SECOND_NS, 500); /* builds on the third */
	must_retain(store, &run);
	assert_int_equal(count_samples(f->db), 4 * 500);
	must(store_check(store, 0, &err), &err);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_ticks_of_others_in_pieces),
		STORE_TEST(test_others_wake_up),
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
		STORE_TEST(test_once_an_hour),
		STORE_TEST(test_slices),
		STORE_TEST(test_half_a_fold_is_told_whole),
		STORE_TEST(test_folds_that_another_layout_began),
		STORE_TEST(test_a_reader_in_the_midst_of_it),
		STORE_TEST(test_a_lock_is_not_waited_for),
		STORE_TEST(test_a_slice_that_fails),
		STORE_TEST(test_a_reader_cannot),
		STORE_TEST(test_damage_is_dropped),
		STORE_TEST(test_max_bytes),
		STORE_TEST(test_max_bytes_beside_a_reader),
		STORE_TEST(test_max_bytes_of_all),
		STORE_TEST(test_a_log_that_is_too_large),
		STORE_TEST(test_what_was_begun_is_ended),
		STORE_TEST(test_running_attempts_are_kept),
		STORE_TEST(test_removed_processes_are_told),
		STORE_TEST(test_the_file_gets_smaller),
		STORE_TEST(test_it_gets_smaller_without_a_log),
		STORE_TEST(test_preview),
		STORE_TEST(test_kills),
		STORE_TEST(test_others_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What is kept as minutes stands beside what is kept as ticks: in SQL, in snapshots and in
 * samples, in the order of time, and nothing of it twice.
 */
#include "retention_fixture.h"
#include "vtab_fixture.h"

#define N_OLD 420 /* ticks a second apart: 7 minutes and 3 folds, and 60 behind them */
#define N_NEW 200
#define PER_TICK 4

/* Job a has old ticks and new ones, job b old ones of two processes. */
static void make_ticks(struct store *store)
{
	struct attempt a = must_begin_at(store, "a", NOW - 30 * HOUR);
	struct attempt b = must_begin_at(store, "b", NOW - 31 * HOUR);

	for (unsigned i = 0; i < N_OLD; i++)
		must_tick_at(store, &a, NOW - 30 * HOUR + i * SECOND_NS, PER_TICK);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	for (unsigned i = 0; i < N_OLD; i++)
		must_tick_at(store, &b, NOW - 31 * HOUR + i * SECOND_NS, 2);
	must_finish_at(store, &b, NOW - 29 * HOUR);
	a = must_begin_at(store, "a", NOW);
	for (unsigned i = 0; i < N_NEW; i++)
		must_tick_at(store, &a, NOW - HOUR + i * SECOND_NS, PER_TICK);
}

#define N_OF_A ((N_OLD + N_NEW) * PER_TICK)
#define N_ALL (N_OF_A + N_OLD * 2)

/* ---- samples and snapshots ---- */

struct heard {
	uint64_t last_ns, n_samples;
	size_t n_rows, n_minutes;
	struct store *other; /* who retains meanwhile */
	struct retention run;
};

static int hear_sample(void *ctx, const struct history_row *row)
{
	struct heard *h = ctx;
	struct err err = ERR_INIT;

	assert_true(row->wall_ns >= h->last_ns);
	assert_true(row->n_samples == 1 || f64_known(row->resolution_seconds));
	h->last_ns = row->wall_ns;
	h->n_samples += row->n_samples;
	h->n_minutes += f64_known(row->resolution_seconds);
	h->n_rows++;
	if (h->other && h->n_rows % 7 == 0)
		assert_true(store_retain_slice(h->other, &h->run, &err) >= 0);
	return 0;
}

static void test_samples(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct history_filter all = { .with_minutes = true };
	const struct history_filter of_a = { .with_minutes = true, .job_id = "a", .pid = 101 };
	struct err err = ERR_INIT;
	struct heard h = { 0 };

	make_ticks(store);
	must(store_read_history(store, &all, hear_sample, &h, &err), &err);
	assert_int_equal(h.n_samples, N_ALL);
	assert_int_equal(h.n_minutes, 0);
	must_retain_at(store, &default_policy, NOW);
	h = (struct heard){ 0 };
	must(store_read_history(store, &all, hear_sample, &h, &err), &err);
	assert_int_equal(h.n_samples, N_ALL);
	assert_int_equal(h.n_rows - h.n_minutes, N_NEW * PER_TICK);
	h = (struct heard){ 0 };
	must(store_read_history(store, &of_a, hear_sample, &h, &err), &err);
	assert_int_equal(h.n_samples, N_OF_A / PER_TICK);
	h = (struct heard){ 0 }; /* without being asked for they are not told */
	must(store_read_history(store, &(struct history_filter){ 0 }, hear_sample, &h, &err), &err);
	assert_int_equal(h.n_samples, N_NEW * PER_TICK);
}

/* Retention goes on while somebody reads, without a lock: nothing is told twice. */
static void test_retention_meanwhile(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct history_filter all = { .with_minutes = true };
	struct err err = ERR_INIT;
	struct heard h = { .other = must_open_fast(f->db) };

	make_ticks(store);
	store_retain_begin(&h.run, &default_policy, NOW, NULL);
	h.run.slice_ns = 0; /* a piece of work each */
	must(store_read_history(store, &all, hear_sample, &h, &err), &err);
	assert_true(h.run.result.n_folds > 0);
	/* Each time that what it was about to tell is gone, a part of a minute may be missed. */
	assert_in_range(h.n_samples, N_ALL - 4 * 60 * PER_TICK, N_ALL);
	store_close(h.other);
	h = (struct heard){ 0 };
	must_retain_at(store, &default_policy, NOW);
	must(store_read_history(store, &all, hear_sample, &h, &err), &err);
	assert_int_equal(h.n_samples, N_ALL);
}

struct seen {
	uint64_t last_ns;
	size_t n, n_minutes;
};

static int see(void *ctx, const struct snapshot *snap)
{
	struct seen *seen = ctx;

	assert_true(snap->wall_ns >= seen->last_ns);
	seen->last_ns = snap->wall_ns;
	seen->n++;
	if (!f64_known(snap->resolution_seconds))
		return 0;
	seen->n_minutes++;
	assert_true(snap->resolution_seconds == 60.0);
	assert_int_equal(snap->wall_ns % MINUTE, 0);
	assert_in_range(snap->n_processes, 2, PER_TICK);
	assert_int_equal(snap->running_jobs, 1);
	assert_int_equal(snap->active_sheets, 1);
	assert_false(f64_known(snap->system.load1)); /* of the host nothing is kept */
	assert_null(snap->gpus);
	return 0;
}

static void test_snapshots(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct snapshot_filter all = { .with_minutes = true };
	const struct snapshot_filter since = { .with_minutes = true,
					       .since_wall_ns = NOW - 30 * HOUR + MINUTE };
	struct err err = ERR_INIT;
	struct seen seen = { 0 };

	make_ticks(store);
	must_retain_at(store, &default_policy, NOW);
	must(store_read_snapshots(store, &all, see, &seen, &err), &err);
	assert_int_equal(seen.n_minutes, 8 + 8); /* seven minutes that begin with no round one */
	assert_int_equal(seen.n, 16 + N_NEW);
	seen = (struct seen){ 0 };
	must(store_read_snapshots(store, &since, see, &seen, &err), &err);
	assert_int_equal(seen.n_minutes, 6);
	seen = (struct seen){ 0 };
	must(store_read_snapshots(store, &(struct snapshot_filter){ .limit = 7 }, see, &seen, &err),
	     &err);
	assert_int_equal(seen.n, 7);
}

/* ---- SQL ---- */

#define SUM "SELECT sum(samples) FROM process_metrics"

/* At any moment of it each sample is there once, in the one form or the other. */
static void test_sql_between_slices(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(close_db) sqlite3 *db = NULL;
	struct err err = ERR_INIT;
	struct retention run;
	char all[16], of_a[16];
	int r;

	snprintf(all, sizeof(all), "%d\n", N_ALL);
	snprintf(of_a, sizeof(of_a), "%d\n", N_OF_A);
	make_ticks(store);
	db = open_db(f->db);
	store_retain_begin(&run, &default_policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	do {
		r = store_retain_slice(store, &run, &err);
		must(r < 0 ? r : 0, &err);
		assert_rows(db, SUM, all);
		assert_rows(db, SUM " WHERE job_id = 'a'", of_a);
		assert_rows(db, "SELECT sum(samples) FROM process_minutes", all);
	} while (r > 0);
	assert_rows(db, "SELECT resolution_seconds, count(*) FROM snapshots GROUP BY 1 ORDER BY 1",
		    "NULL|200\n60.0|16\n");
}

/* Limits, order and joins are those of ordinary tables. */
static void test_sql_as_copies(void **state)
{
	static const char *const templates[] = {
		"SELECT * FROM $s ORDER BY id",
		"SELECT * FROM $m ORDER BY snapshot_id, pid",
		"SELECT timestamp FROM $s ORDER BY timestamp",
		"SELECT timestamp FROM $s ORDER BY timestamp DESC",
		"SELECT timestamp, pid FROM $m WHERE pid = 102 ORDER BY timestamp DESC",
		"SELECT count(*), sum(samples) FROM $m WHERE timestamp < 1699900000",
		"SELECT count(*), min(id), max(id) FROM $s WHERE timestamp >= 1699892040",
		"SELECT count(*), min(id), max(id) FROM $s WHERE timestamp > 1699892040",
		"SELECT count(*), min(id) FROM $s WHERE timestamp BETWEEN 1699892000 AND 1699892100",
		"SELECT count(*) FROM $s WHERE id = -28331534",
		"SELECT count(*) FROM $s WHERE id = -28331535 OR id = -1 OR id = 1000",
		"SELECT s.id, count(*) FROM $s s JOIN $m m ON m.snapshot_id = s.id GROUP BY 1 ORDER BY 1",
		"SELECT s.id, m.pid, m.rss_mb FROM $m m CROSS JOIN $s s ON s.id = m.snapshot_id"
		" WHERE m.job_id = 'b' ORDER BY 1, 2",
		"SELECT * FROM $s WHERE id IN (SELECT snapshot_id FROM $m WHERE pid = 103) ORDER BY id",
		"SELECT rowid FROM $m WHERE job_id = 'none'",
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(close_db) sqlite3 *db = NULL;
	size_t n = 0;

	make_ticks(store);
	must_retain_at(store, &default_policy, NOW);
	db = open_db(f->db);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(templates); i++)
		n += assert_as_copies(db, templates[i]) > 0;
	assert_true(n >= ARRAY_SIZE(templates) - 3); /* they find something */
	assert_rows(db, "SELECT count(DISTINCT rowid) = count(*) FROM process_metrics", "1\n");
	assert_rows(db, "SELECT count(DISTINCT rowid) = count(*) FROM process_minutes", "1\n");
}

static int compare_minute(void *ctx, const struct minute_row *row)
{
	sqlite3_stmt *stmt = ctx;

	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	assert_true(sqlite3_column_double(stmt, 0) * 1e9 == (double)row->wall_ns);
	assert_int_equal(sqlite3_column_int64(stmt, 1), row->last.key.pid);
	assert_int_equal(sqlite3_column_int64(stmt, 2), row->n_samples);
	assert_true(sqlite3_column_double(stmt, 3) == row->avg.cpu_percent);
	assert_true(sqlite3_column_double(stmt, 4) == row->min.cpu_percent);
	assert_true(sqlite3_column_double(stmt, 5) == row->avg.rss_bytes / 1048576);
	assert_true(sqlite3_column_double(stmt, 6) == u64_to_mb(row->max.rss_bytes));
	assert_int_equal(sqlite3_column_int64(stmt, 7), row->last.threads);
	assert_true(sqlite3_column_double(stmt, 8) == u64_to_seconds(row->last.cpu_ns));
	return 0;
}

#define MINUTE_COLUMNS                                                                              \
	"SELECT timestamp, pid, samples, cpu_percent_avg, cpu_percent_min, rss_mb_avg, rss_mb_max," \
	" threads_last, cpu_seconds FROM process_minutes "

static void test_sql_minutes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(close_db) sqlite3 *db = NULL;
	struct err err = ERR_INIT;

	make_ticks(store);
	must_retain_at(store, &default_policy, NOW);
	db = open_db(f->db);
	{
		CLEANUP(finalize)
		sqlite3_stmt *stmt = prepare(db, MINUTE_COLUMNS "ORDER BY timestamp");

		must(store_read_minutes(store, &(struct history_filter){ 0 }, compare_minute, stmt,
					&err),
		     &err);
		assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
	}
	assert_rows(db, "CREATE TEMP TABLE copy AS SELECT * FROM process_minutes", "");
	assert_rows(db,
		    "SELECT count(*) FROM (SELECT * FROM copy EXCEPT SELECT * FROM process_minutes"
		    " ORDER BY timestamp DESC)",
		    "0\n");
	assert_rows(
		db,
		"SELECT group_concat(timestamp = was) FROM (SELECT timestamp, max(timestamp) OVER"
		" (ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS was FROM"
		" (SELECT timestamp FROM process_minutes WHERE pid = 100 AND job_id = 'a'"
		" AND timestamp < 1699900000 ORDER BY timestamp DESC))",
		"1,1,1,1,1,1,1,1\n");
	assert_rows(db, "SELECT count(*) FROM process_minutes WHERE timestamp > 1800000000", "0\n");
	assert_rows(db, "SELECT count(*) FROM process_minutes WHERE pid = 7", "0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_samples),	STORE_TEST(test_retention_meanwhile),
		STORE_TEST(test_snapshots),	STORE_TEST(test_sql_between_slices),
		STORE_TEST(test_sql_as_copies), STORE_TEST(test_sql_minutes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

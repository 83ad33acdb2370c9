/*
 * Recorded bytes that make no sense: all else is read, and what had to be left out is told,
 * with how much of whom it is, from when to when.
 */
#include "retention_fixture.h"

#include "base/clock.h"
#include "store_writer.h"

#define PER_TICK 3 /* processes */

static const char *at(uint64_t wall_ns)
{
	static char texts[4][32];
	static unsigned turn;
	char *text = texts[turn++ % 4];

	return clock_format_local(wall_ns, text, sizeof(texts[0]));
}

/* What is told, which is nothing if want is NULL. */
static void assert_told(struct store *store, const char *want)
{
	CLEANUP(buf_release) struct buf told = BUF_INIT;

	assert_int_equal(store_tell_damage(store, &told), want != NULL);
	if (want && strcmp(told.data, want) != 0)
		fail_msg("told was\n%s\nand not\n%s", told.data, want);
	assert_false(store_tell_damage(store, &told)); /* once */
}

static void damage(const struct fixture *f, const char *sql)
{
	assert_int_equal(raw_sql(f->db, sql), -1); /* it returns no row */
}

static size_t count_history(struct store *store, const struct history_filter *filter)
{
	struct err err = ERR_INIT;
	int64_t n = 0;

	must(store_read_history(store, filter, count_row, &n, &err), &err);
	return (size_t)n;
}

static int count_snapshot(void *ctx, const struct snapshot *snap)
{
	(void)snap;
	++*(size_t *)ctx;
	return 0;
}

static size_t count_snapshots(struct store *store, const struct snapshot_filter *filter)
{
	struct err err = ERR_INIT;
	size_t n = 0;

	must(store_read_snapshots(store, filter, count_snapshot, &n, &err), &err);
	return n;
}

/* Ticks a second apart. */
static struct attempt make_ticks_from(struct store *store, const char *job_id, unsigned n,
				      uint64_t from_ns)
{
	struct attempt a = must_begin_at(store, job_id, from_ns);

	for (unsigned i = 0; i < n; i++)
		must_tick_at(store, &a, from_ns + i * SECOND_NS, PER_TICK);
	return a;
}

static struct attempt make_ticks(struct store *store, const char *job_id, unsigned n)
{
	return make_ticks_from(store, job_id, n, NOW);
}

/* ---- ticks that are no fold yet ---- */

/* A damaged one costs those that build on it. */
static void test_a_tick(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(attempt_release) struct attempt back;
	struct err err = ERR_INIT;
	char want[160];

	attempt_init(&back);
	make_ticks(store, "other", 10);
	make_ticks(store, "j", 50);
	damage(f, "UPDATE ticks SET data = x'00' WHERE id = 10 + 41");
	snprintf(want, sizeof(want), "10 ticks of job j, attempt 1 (from %s to %s)",
		 at(NOW + 40 * SECOND_NS), at(NOW + 49 * SECOND_NS));

	assert_int_equal(count_history(store, &(struct history_filter){ 0 }), 50 * PER_TICK);
	assert_told(store, want);
	assert_int_equal(count_snapshots(store, &(struct snapshot_filter){ 0 }), 50);
	assert_told(store, want);
	assert_int_equal(must_count_in_minutes(store), 50 * PER_TICK);
	assert_told(store, want);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_told(store, want);
	assert_int_equal(back.details.n_series, 40);
	assert_int_equal(back.n_processes, PER_TICK);
	assert_int_equal(back.processes[0].n_samples, 40);
	assert_int_equal(count_history(store, &(struct history_filter){ .job_id = "other" }),
			 10 * PER_TICK);
	assert_told(store, NULL);
}

/* What lies outside of what is asked for is nobody's business. */
static void test_another_time(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct history_filter before = { .until_wall_ns = NOW + 29 * SECOND_NS };
	const struct history_filter behind = { .since_wall_ns = NOW + 130 * SECOND_NS };
	const struct snapshot_filter newest = { .limit = 5 };

	make_ticks(store, "j", 150);
	damage(f, "UPDATE ticks SET data = x'00' WHERE id = 125");
	damage(f, "UPDATE folds SET times = x'00'");
	assert_int_equal(count_history(store, &before), 0);
	assert_told(store, "120 ticks of job j, attempt 1 (from 2023-11-14 22:13:20 to 2023-11-14 "
			   "22:15:19)");
	assert_int_equal(count_history(store, &behind), 0);
	assert_told(store, "20 ticks of job j, attempt 1 (from 2023-11-14 22:15:30 to 2023-11-14 "
			   "22:15:49)");
	assert_int_equal(count_snapshots(store, &newest), 4); /* 121 to 124 */
}

/* Also what no tick can be: as long as no memory has, or with another time than beside it. */
static void test_strange_ticks(void **state)
{
	static const char *const damages[] = {
		"UPDATE ticks SET data = zeroblob(70000000) WHERE id = 1",
		"UPDATE ticks SET wall_ns = wall_ns + 1000000000 WHERE id = 1",
		"UPDATE ticks SET data = 'text' WHERE id = 1",
		"UPDATE ticks SET data = CAST(x'' AS BLOB) WHERE id = 1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		CLEANUP(buf_release) struct buf told = BUF_INIT;
		struct fixture *f = NULL;
		struct store *store;

		assert_int_equal(fixture_setup((void **)&f), 0);
		store = must_open_fast(f->db);
		make_ticks(store, "j", 1);
		store_close(store);
		store = must_open_fast(f->db);
		make_ticks(store, "k", 1);
		damage(f, damages[i]);
		assert_int_equal(count_history(store, &(struct history_filter){ 0 }), PER_TICK);
		assert_true(store_tell_damage(store, &told));
		assert_non_null(strstr(told.data, "1 tick of job j, attempt 1 (at "));
		store_close(store);
		fixture_teardown((void **)&f);
	}
	(void)state;
}

/* ---- what is folded ---- */

static void test_what_is_folded(void **state)
{
	static const struct {
		const char *sql, *what;
		size_t n_samples, n_snapshots;
	} cases[] = {
		{ "UPDATE chunks SET data = x'01ffffffffffffff' WHERE id >> 30 = 120",
		  "1 stretch of samples of job j, attempt 1", 120 * PER_TICK, 240 },
		{ "UPDATE chunks SET id = id + 1 WHERE id >> 30 = 120", /* in a wrong place */
		  "1 stretch of samples of job j, attempt 1", 120 * PER_TICK, 240 },
		{ "UPDATE folds SET first_ns = 1000 WHERE id = 120",
		  "120 ticks of job j, attempt 1", 120 * PER_TICK, 120 },
		{ "UPDATE folds SET times = zeroblob(100) WHERE id = 120",
		  "120 ticks of job j, attempt 1", 120 * PER_TICK, 120 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_release) struct buf told = BUF_INIT;
		struct fixture *f = NULL;
		struct store *store;

		assert_int_equal(fixture_setup((void **)&f), 0);
		store = must_open_fast(f->db);
		make_ticks(store, "j", 240);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds"), 2);
		damage(f, cases[i].sql);
		assert_int_equal(count_history(store, &(struct history_filter){ 0 }),
				 cases[i].n_samples);
		assert_true(store_tell_damage(store, &told));
		assert_non_null(strstr(told.data, cases[i].what));
		assert_int_equal(count_snapshots(store, &(struct snapshot_filter){ 0 }),
				 cases[i].n_snapshots);
		assert_int_equal(must_count_in_minutes(store), cases[i].n_samples);
		buf_reset(&told);
		assert_true(store_tell_damage(store, &told));
		assert_non_null(strstr(told.data, cases[i].what));
		store_close(store);
		fixture_teardown((void **)&f);
	}
	(void)state;
}

static void test_minutes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);

	make_ticks(store, "j", 240);
	must_retain_at(store, &default_policy, NOW + 30 * HOUR);
	damage(f, "UPDATE rollups SET data = substr(data, 1, 70)");
	assert_int_equal(must_count_in_minutes(store), 0);
	assert_told(store, "1 hour of minutes (from 2023-11-14 22:00:00 to 2023-11-14 "
			   "22:59:59)");
}

static void test_curves(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = make_ticks(store, "j", 240);
	struct err err = ERR_INIT;

	must_finish_at(store, &a, NOW + HOUR);
	damage(f, "UPDATE points SET data = x'00' WHERE fold = 120");
	for (int i = 0; i < 2; i++) { /* each time that it is read */
		CLEANUP(attempt_release) struct attempt back;

		attempt_init(&back);
		must(store_read_attempt(store, "j", 0, &back, &err), &err);
		assert_int_equal(back.details.n_series, 120);
		assert_int_equal(back.details.n_unknowns, 1);
		assert_string_equal(back.details.unknowns[0].what, "damaged");
		assert_non_null(strstr(back.details.unknowns[0].why,
				       "1 stretch of a curve of job j, attempt 1 (at "));
	}
	assert_told(store, "1 stretch of a curve of job j, attempt 1 (at 2023-11-14 22:15:19)");
}

/* ---- a single bit ---- */

/* Turns one bit of the data of a row over; false: it is not that long. */
static bool flip_bit(const char *path, const char *table, size_t bit)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	uint8_t *bytes = NULL;
	size_t len = 0;

	buf_printf(&sql, "SELECT data FROM %s WHERE rowid = (SELECT min(rowid) FROM %s)", table,
		   table);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	assert_int_equal(sqlite3_prepare_v2(db, sql.data, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	len = (size_t)sqlite3_column_bytes(stmt, 0);
	bytes = malloc(len);
	assert_non_null(bytes);
	memcpy(bytes, sqlite3_column_blob(stmt, 0), len);
	sqlite3_finalize(stmt);
	if (bit / 8 < len) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		buf_reset(&sql);
		buf_printf(&sql, "UPDATE %s SET data = ? WHERE rowid = (SELECT min(rowid) FROM %s)",
			   table, table);
		assert_int_equal(sqlite3_prepare_v2(db, sql.data, -1, &stmt, NULL), SQLITE_OK);
		sqlite3_bind_blob(stmt, 1, bytes, (int)len, SQLITE_STATIC);
		assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
		sqlite3_finalize(stmt);
	}
	free(bytes);
	sqlite3_close(db);
	return bit / 8 < len;
}

/* Most bits unpack as well when they are turned over: none comes back as another number. */
static void test_any_bit(void **state)
{
	static const char *const tables[] = { "ticks", "chunks", "folds", "rollups" };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct snapshot_filter all = { .with_minutes = true };

	make_ticks(store, "j", 240);
	must_retain_at(store, &default_policy, NOW + 30 * HOUR);
	make_ticks_from(store, "k", 130, NOW + 30 * HOUR);
	count_snapshots(store, &all);
	assert_told(store, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (size_t bit = 0; flip_bit(f->db, tables[i], bit); bit += 37) {
			CLEANUP(buf_release) struct buf told = BUF_INIT;

			count_snapshots(store, &all);
			if (!store_tell_damage(store, &told))
				fail_msg("bit %zu of %s", bit, tables[i]);
			flip_bit(f->db, tables[i], bit);
		}
}

/* A row whose key has one bit turned over. False: there is another with that key. */
static bool flip_key(const struct fixture *f, const char *table, const char *key, int64_t from,
		     int64_t to)
{
	char sql[160];

	snprintf(sql, sizeof(sql), "UPDATE OR IGNORE %s SET %s = %lld WHERE %s = %lld", table, key,
		 (long long)to, key, (long long)from);
	damage(f, sql);
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s WHERE %s = %lld", table, key,
		 (long long)from);
	return raw_sql(f->db, sql) == 0;
}

/* Nor does it become that of another process, or nobody's, without a word. */
static void test_any_bit_of_a_key(void **state)
{
	static const struct {
		const char *table, *key;
	} rows[] = {
		{ "chunks", "id" },	 { "rollups", "id" },  { "folds", "id" },
		{ "points", "attempt" }, { "points", "fold" },
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;
	char sql[80];

	make_ticks(store, "j", 240);
	must_retain_at(store, &default_policy, NOW + 30 * HOUR);
	make_ticks_from(store, "k", 240, NOW + 30 * HOUR);
	must(store_check(store, 0, &err), &err);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t key;

		snprintf(sql, sizeof(sql), "SELECT max(%s) FROM %s", rows[i].key, rows[i].table);
		key = raw_sql(f->db, sql);
		for (int bit = 0; bit < 62; bit += 3) {
			int64_t other = key ^ INT64_C(1) << bit;

			if (!flip_key(f, rows[i].table, rows[i].key, key, other))
				continue;
			if (store_check(store, 0, &err) != -EUCLEAN)
				fail_msg("bit %d of %s of %s", bit, rows[i].key, rows[i].table);
			assert_true(flip_key(f, rows[i].table, rows[i].key, other, key));
		}
	}
	must(store_check(store, 0, &err), &err);
}

/* Rows of process_minutes have every sample; the bit is behind the times of the fold's ticks. */
static void test_a_bit_of_the_host(void **state)
{
	static const char what[] = "120 states of the host of job j, attempt 1 (from 2023-11-14 "
				   "22:13:20 to 2023-11-14 22:15:19)";
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_result result;

	make_ticks(store, "j", 130);
	assert_true(flip_bit(f->db, "folds",
			     (size_t)raw_sql(f->db, "SELECT 8 * length(data) - 20 FROM folds")));
	assert_int_equal(count_history(store, &(struct history_filter){ 0 }), 130 * PER_TICK);
	assert_told(store, what);
	assert_int_equal(count_snapshots(store, &(struct snapshot_filter){ 0 }), 130);
	assert_told(store, what);
	assert_int_equal(must_count_in_minutes(store), 130 * PER_TICK);
	result = must_retain_at(store, &default_policy, NOW + 30 * HOUR);
	assert_int_equal(result.n_damaged, 1);
	assert_int_equal(must_count_in_minutes(store), 130 * PER_TICK);
	assert_told(store, NULL);
}

static int run_sql(const struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;
	int rc;

	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	return rc;
}

/* Bytes without a seal are none that were written. */
static void test_without_a_seal(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);

	make_ticks(store, "j", 130);
	assert_int_equal(run_sql(f, "UPDATE chunks SET seal = NULL"), SQLITE_CONSTRAINT);
	damage(f, "UPDATE chunks SET seal = 'text' WHERE id >> 30 = 120");
	assert_int_equal(count_history(store, &(struct history_filter){ 0 }), 10 * PER_TICK);
}

/* ---- who is told ---- */

static void test_several(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(buf_release) struct buf told = BUF_INIT;
	char job_id[16];

	for (int i = 0; i < 12; i++) {
		snprintf(job_id, sizeof(job_id), "j%d", i);
		make_ticks(store, job_id, 2);
	}
	damage(f, "UPDATE ticks SET data = x'00'");
	assert_int_equal(count_history(store, &(struct history_filter){ 0 }), 0);
	assert_true(store_tell_damage(store, &told));
	assert_non_null(strstr(told.data, "2 ticks of job j0, attempt 1 (from "));
	assert_non_null(strstr(told.data, "2 ticks of job j7, attempt 1 (from "));
	assert_null(strstr(told.data, "j8"));
	assert_non_null(strstr(told.data, "), and more"));
}

/* An attempt misses ticks that could not be folded. */
static void test_a_note(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = make_ticks(store, "j", 3);
	char text[256];

	damage(f, "UPDATE ticks SET data = x'00' WHERE id = 2");
	must_finish_at(store, &a, NOW + MINUTE); /* they are folded */
	raw_text(f->db, "SELECT why FROM unknowns", text);
	assert_non_null(strstr(text, "2 ticks from 2023-11-14 22:13:21 to "));
}

/* The check names it as well. */
static void test_the_check(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;

	make_ticks(store, "j", 20);
	must(store_check(store, 0, &err), &err);
	damage(f, "UPDATE ticks SET data = x'00' WHERE id = 20");
	assert_int_equal(store_check(store, 0, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "makes no sense"));
	assert_non_null(strstr(err.text, "1 tick of job j, attempt 1 (at 2023-11-14 22:13:39)"));
	assert_told(store, NULL);
}

static int count_event(void *ctx, const struct event_row *row)
{
	(void)row;
	++*(size_t *)ctx;
	return 0;
}

static int count_anomaly(void *ctx, const struct anomaly_row *row)
{
	(void)row;
	++*(size_t *)ctx;
	return 0;
}

/* Three events and three anomalies, one second apart; the second of each is made strange. */
static struct attempt make_strange(const struct fixture *f, struct store *store)
{
	struct attempt a = must_begin_at(store, "j", NOW);
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 3; i++) {
		struct proc_event ev = { .wall_ns = NOW + i * SECOND_NS,
					 .key = { 100, 7 },
					 .type = EVENT_SPAWN,
					 .status = { -1, -1 },
					 .details = "" };
		struct episode e;

		must(store_write_events(store, &a, &ev, 1, &err), &err);
		episode_init(&e);
		snprintf(e.name, sizeof(e.name), "e%u", i);
		e.began_wall_ns = NOW + i * SECOND_NS;
		must(write_anomaly(store, a.id, &e, EPISODE_BEGAN, &err), &err);
	}
	damage(f, "UPDATE events SET type = 'frozen' WHERE id = 2");
	damage(f, "UPDATE anomalies SET type = 'haunted' WHERE id = 2");
	return a;
}

#define STRANGE_EVENT "1 event that this version cannot read of job j, attempt 1 (at %s)"
#define STRANGE_ANOMALY "1 anomaly that this version cannot read of job j, attempt 1 (at %s)"

/* Of a type that a newer version has, or that is no type: the others are read. */
static void test_types_of_a_newer_version(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = make_strange(f, store);
	const char *when = at(NOW + SECOND_NS);
	struct err err = ERR_INIT;
	char event[128], anomaly[128];
	size_t n = 0;
	int64_t id = 0;

	(void)a;
	snprintf(event, sizeof(event), STRANGE_EVENT, when);
	snprintf(anomaly, sizeof(anomaly), STRANGE_ANOMALY, when);
	must(store_read_events(store, &(struct event_filter){ 0 }, count_event, &n, &err), &err);
	must(store_follow_events(store, "j", &id, count_event, &n, &err), &err);
	assert_int_equal(n, 4);
	assert_int_equal(id, 3);
	assert_told(store, event);
	must(store_read_anomalies(store, &(struct anomaly_filter){ 0 }, count_anomaly, &n, &err),
	     &err);
	assert_int_equal(n, 6);
	assert_told(store, anomaly);
	must(store_read_attempt(store, "j", 1, &back, &err), &err);
	assert_int_equal(back.n_events, 2);
	assert_int_equal(back.details.n_anomalies, 2);
	assert_non_null(strstr(back.details.unknowns[back.details.n_unknowns - 1].why, event));
	assert_non_null(strstr(back.details.unknowns[back.details.n_unknowns - 1].why, anomaly));
}

/* The file itself is sound: nobody is told to move it aside. */
static void test_check_of_a_newer_version(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct err err = ERR_INIT;

	make_strange(f, store);
	assert_int_equal(store_check(store, 0, &err), -ENODATA);
	assert_non_null(strstr(err.text, "1 event that this version cannot read"));
	assert_null(strstr(err.text, "--repair"));
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_tick),
		STORE_TEST(test_another_time),
		STORE_TEST(test_strange_ticks),
		STORE_TEST(test_what_is_folded),
		STORE_TEST(test_minutes),
		STORE_TEST(test_curves),
		STORE_TEST(test_any_bit),
		STORE_TEST(test_any_bit_of_a_key),
		STORE_TEST(test_a_bit_of_the_host),
		STORE_TEST(test_without_a_seal),
		STORE_TEST(test_several),
		STORE_TEST(test_a_note),
		STORE_TEST(test_the_check),
		STORE_TEST(test_types_of_a_newer_version),
		STORE_TEST(test_check_of_a_newer_version),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The tables have the values that everything else has. */
#include "vtab_fixture.h"

#include <jansson.h>

#include "base/json.h"
#include "store_writer.h"

static json_t *parse(const struct buf *text)
{
	json_t *v = json_loadb(text->data, text->len, JSON_DECODE_ANY, NULL);

	assert_non_null(v);
	return v;
}

/* Texts that are JSON in SQL are values there. */
static bool is_same_text(const char *text, const json_t *want)
{
	json_t *parsed;
	bool same;

	if (json_is_string(want))
		return strcmp(text, json_string_value(want)) == 0;
	parsed = json_loads(text, 0, NULL);
	same = parsed && json_equal(parsed, (json_t *)want);
	json_decref(parsed);
	return same;
}

static bool is_same(sqlite3_stmt *stmt, int i, const json_t *want)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_NULL: /* JSON says "?" for a state, and "" for a name */
		return json_is_null(want) || strcmp(json_string_value(want), "?") == 0 ||
		       strcmp(json_string_value(want), "") == 0;
	case SQLITE_INTEGER:
		return json_is_integer(want) &&
		       json_integer_value(want) == sqlite3_column_int64(stmt, i);
	case SQLITE_FLOAT:
		return json_is_real(want) &&
		       json_real_value(want) == sqlite3_column_double(stmt, i);
	default:
		return is_same_text((const char *)sqlite3_column_text(stmt, i), want);
	}
}

/* The row has a column for each key, with its value; others are left to other tests. */
static void assert_row(sqlite3_stmt *stmt, const json_t *want)
{
	size_t n_found = 0;

	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		const json_t *value = json_object_get(want, sqlite3_column_name(stmt, i));

		if (!value)
			continue;
		n_found++;
		if (!is_same(stmt, i, value))
			fail_msg("%s is %s", sqlite3_column_name(stmt, i),
				 (const char *)sqlite3_column_text(stmt, i));
	}
	assert_int_equal(n_found, json_object_size(want));
}

struct comparing {
	sqlite3_stmt *stmt;
	int64_t n;
};

static int compare_snapshot(void *ctx, const struct snapshot *snap)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct comparing *c = ctx;
	struct json j;
	json_t *want;

	json_init(&j, &text);
	snapshot_write_json(&j, snap, SNAPSHOT_ALL);
	want = parse(&text);
	json_object_del(want, "processes");
	assert_int_equal(sqlite3_step(c->stmt), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int64(c->stmt, 0), ++c->n); /* the tick's id */
	assert_row(c->stmt, want);
	json_decref(want);
	return 0;
}

static int compare_sample(void *ctx, const struct history_row *row)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct comparing *c = ctx;
	struct json j;
	json_t *want;

	json_init(&j, &text);
	json_begin_object(&j);
	json_key_f64(&j, "timestamp", (double)row->wall_ns / 1e9);
	json_key_i64(&j, "attempt", row->attempt_num);
	json_key_i64(&j, "snapshot_id", c->n++ / 3 + 1);
	json_key_u64(&j, "rss_bytes", row->sample.rss_bytes);
	json_key_u64(&j, "cpu_ns", row->sample.cpu_ns);
	proc_sample_write_fields(&j, &row->sample);
	json_end_object(&j);
	want = parse(&text);
	assert_int_equal(sqlite3_step(c->stmt), SQLITE_ROW);
	assert_row(c->stmt, want);
	json_decref(want);
	return 0;
}

static void compare_event(sqlite3_stmt *stmt, const struct proc_event *event)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	json_t *want;

	json_init(&j, &text);
	proc_event_write_json(&j, event);
	want = parse(&text);
	if (!u64_known(event->wall_ns))
		json_object_set_new(want, "timestamp", json_null());
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	assert_row(stmt, want);
	json_decref(want);
}

static void compare_all(struct store *store, sqlite3 *db)
{
	CLEANUP(finalize)
	sqlite3_stmt *snapshots = prepare(db, "SELECT * FROM snapshots ORDER BY timestamp");
	CLEANUP(finalize)
	sqlite3_stmt *samples = prepare(db, "SELECT * FROM process_metrics ORDER BY timestamp");
	CLEANUP(finalize)
	sqlite3_stmt *events = prepare(db, "SELECT * FROM process_events ORDER BY timestamp");
	CLEANUP(attempt_release) struct attempt back;
	struct comparing a = { .stmt = snapshots }, b = { .stmt = samples };
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, compare_snapshot, &a,
				  &err),
	     &err);
	must(store_read_history(store, &(struct history_filter){ 0 }, compare_sample, &b, &err),
	     &err);
	for (size_t i = 0; i < back.n_events; i++)
		compare_event(events, &back.events[i]);
	assert_int_equal(a.n, N_TICKS);
	assert_int_equal(b.n, N_TICKS * 3);
	assert_int_equal(back.n_events, N_TICKS / 10);
	assert_int_equal(sqlite3_step(snapshots), SQLITE_DONE);
	assert_int_equal(sqlite3_step(samples), SQLITE_DONE);
	assert_int_equal(sqlite3_step(events), SQLITE_DONE);
}

/* From folds, from ticks that are none yet, and when all is folded. */
static void test_values_are_those_of_the_store(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	write_ticks(store, &a, 0, N_TICKS);
	assert_rows(db, "SELECT (SELECT count(*) FROM folds), (SELECT count(*) FROM ticks)",
		    "2|60\n");
	compare_all(store, db);
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_rows(db, "SELECT (SELECT count(*) FROM folds), (SELECT count(*) FROM ticks)",
		    "3|0\n");
	compare_all(store, db);
}

static void test_unknown_is_null(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;
	struct proc_sample *p;

	snapshot_init(&snap);
	snap.wall_ns = UINT64_C(1700000000000000000);
	p = snapshot_add_process(&snap);
	p->key.pid = 7;
	p->job_id = "j";
	p = snapshot_add_process(&snap);
	p->key.pid = 8;
	p->job_id = "j";
	p->vms_bytes = UINT64_C(0x8000000000000000);
	p->fd_limit = FD_LIMIT_UNLIMITED;
	p->rss_bytes = 0;
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	assert_rows(db,
		    "SELECT daemon_pid, system_memory_total_mb, load_avg_1, pressure_level, gpus,"
		    " psi_io, cpu_count, conductor_uptime_seconds, zombie_count, zombie_pids,"
		    " job_progress, cgroups FROM snapshots",
		    "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0|[]|[]|NULL\n");
	assert_rows(
		db,
		"SELECT pid, command, state, cpu_percent, rss_mb, age_seconds, comm, rank,"
		" sheet_num, start_ticks, cpu_seconds, rss_bytes, fd_limit, cgroup,"
		" syscall_counts, syscall_time_pct FROM process_metrics WHERE pid = 7",
		"7|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL\n");
	assert_rows(db,
		    "SELECT rss_mb, rss_bytes, vms_bytes, vms_mb, fd_limit, fd_limit > 1 << 62"
		    " FROM process_metrics WHERE pid = 8",
		    "0.0|0|9.22337203685478e+18|8796093022208.0|unlimited|1\n");
}

/* Types are given as they stand there: a newer version may have more of them. */
static void test_a_type_of_a_newer_version(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "j");

	write_ticks(store, &a, 0, 20);
	store_close(store);
	raw_sql(f->db, "UPDATE events SET type = 'frozen' WHERE id = 2");
	{
		CLEANUP(close_db) sqlite3 *db = open_db(f->db);

		assert_rows(db, "SELECT event_type FROM process_events ORDER BY timestamp",
			    "spawn\nfrozen\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_type_of_a_newer_version),
		STORE_TEST(test_values_are_those_of_the_store),
		STORE_TEST(test_unknown_is_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

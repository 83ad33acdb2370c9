#include "store_host.h"

#include <jansson.h>
#include <math.h>

#include "base/json.h"
#include "store/vtab.h"

#define N_TICKS 300 /* two folds, and 60 that are none yet */

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* Events like those of real runs, and one whose time nobody knows. */
static void make_event(struct proc_event *event, const char *job_id, unsigned k, uint64_t wall_ns)
{
	*event = (struct proc_event){
		.wall_ns = k == 77 ? U64_UNKNOWN : wall_ns + k,
		.key = { 100 + (pid_t)k % 3, k % 2 ? 5000 : U64_UNKNOWN },
		.type = (enum event_type)(k / 10 % 5),
		.status = { k / 10 % 5 == EVENT_EXIT ? (int)k % 7 : -1,
			    k / 10 % 5 == EVENT_KILL ? 9 : -1 },
		.job_id = job_id,
		.sheet_num = k % 4 ? 1 : SHEET_NONE,
		.details = k % 6 ? "" : "it's \"so\"",
	};
}

/* Ticks first to last of a job, with a point and every tenth with an event. */
static void write_ticks(struct store *store, const struct attempt *a, unsigned first, unsigned last)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (unsigned k = first; k < last; k++) {
		struct series_point point = { .wall_ns = k };
		struct proc_event event;

		make_snapshot(&snap, a->job_id, k);
		make_event(&event, a->job_id, k, snap.wall_ns);
		must(write_tick(store, a, &snap, &point, &event, k % 10 == 7, &err), &err);
	}
}

/* ---- SQL ---- */

static void close_db(sqlite3 **db)
{
	/* Not _v2: it says if statements were left behind. */
	assert_int_equal(sqlite3_close(*db), SQLITE_OK);
}

static void finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

/* A connection like those of other programs, with the tables. */
static sqlite3 *open_db(const char *path)
{
	struct err err = ERR_INIT;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	must(vtab_register(db, &err), &err);
	return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	return stmt;
}

static void add_row(struct buf *out, sqlite3_stmt *stmt)
{
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		const char *text = (const char *)sqlite3_column_text(stmt, i);

		buf_printf(out, "%s%s", i ? "|" : "", text ? text : "NULL");
	}
	buf_add_char(out, '\n');
}

/* All rows, "a|b\n" each. */
static void run(sqlite3 *db, const char *sql, struct buf *ret)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = prepare(db, sql);
	int rc;

	buf_reset(ret);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
		add_row(ret, stmt);
	if (rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static void assert_rows(sqlite3 *db, const char *sql, const char *rows)
{
	CLEANUP(buf_release) struct buf got = BUF_INIT;

	run(db, sql, &got);
	if (strcmp(got.data, rows) != 0)
		fail_msg("%s\ngave\n%swanted\n%s", sql, got.data, rows);
}

/* It fails, also while it is prepared, and says this. */
static void assert_fails(sqlite3 *db, const char *sql, int code, const char *says)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_DONE || !strstr(sqlite3_errmsg(db), says))
		fail_msg("%s gave %d, %s", sql, rc, sqlite3_errmsg(db));
	assert_int_equal(rc & 0xff, code);
}

/* ---- the same values as everywhere else ---- */

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
	struct comparing a = { snapshots, 0 }, b = { samples, 0 };
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, compare_snapshot, &a,
				  &err),
	     &err);
	must(store_read_history(store, &(struct history_filter){ 0 }, compare_sample, &b, &err),
	     &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
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
		    " job_progress FROM snapshots",
		    "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0|[]|[]\n");
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

/* ---- limits ---- */

/* Two jobs of the same time and one of another, of runners and of a clock that was set back. */
static void write_three_jobs(struct store *store)
{
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "B"),
		       c = must_begin(store, "5");

	write_ticks(store, &a, 0, 130);
	write_ticks(store, &b, 60, 190);
	write_ticks(store, &c, 500, 530);
	write_ticks(store, &a, 130, 140);
	write_ticks(store, &c, 400, 510);
}

/* Conditions that are limits, or nearly. */
static const char *const conditions[] = {
	"timestamp > 1700000030",
	"timestamp >= 1700000030.25 AND timestamp < 1700000040",
	"timestamp BETWEEN 1700000010 AND 1700000020.5",
	"timestamp = 1700000017.25",
	"timestamp = 1700000017.2500001",
	"timestamp > 1700000010 AND timestamp > 1700000030 AND timestamp < 1700000031",
	"timestamp IN (1700000002, 1700000001.75, 5, NULL)",
	"timestamp > NULL",
	"timestamp < 'x'",
	"timestamp > 'x'",
	"timestamp > '1700000030'",
	"timestamp >= x'00'",
	"timestamp < x'00'",
	"timestamp > -5",
	"timestamp < -5",
	"timestamp < 0",
	"timestamp > 9e999",
	"timestamp < 9e999",
	"timestamp > -9e999",
	"timestamp > 9223372036854775807",
	"timestamp <= 9223372036854775807",
	"timestamp > 9223372036",
	"timestamp < 1700000030 OR timestamp > 1700000100",
	"timestamp IS NULL",
};

static const char *const sample_conditions[] = {
	"job_id = 'a'",
	"job_id = 'A'",
	"job_id = 'A' COLLATE NOCASE",
	"job_id = 'b' COLLATE NOCASE",
	"job_id = 5",
	"job_id = 5.0",
	"job_id = x'61'",
	"job_id = ''",
	"job_id = NULL",
	"job_id = 'none'",
	"job_id > 'A'",
	"job_id IN ('a', 'B', 'x')",
	"job_id = 'a' AND job_id = 'B'",
	"pid = 101",
	"pid = 101.0",
	"pid = 101.5",
	"pid = '101'",
	"pid = ' 101 '",
	"pid = 'x'",
	"pid = x'00'",
	"pid = NULL",
	"pid = 0",
	"pid = -1",
	"pid = 4294967397", /* 101, in 32 bits */
	"pid = 9e99",
	"pid > 101",
	"pid = 100 OR pid = 101",
	"pid = 100 OR job_id = 'a'",
	"job_id = 'a' AND pid = 102 AND timestamp >= 1700000031",
	"job_id = 'B' AND timestamp <= 1700000021.25",
};

static const char *const id_conditions[] = {
	"@ = 1",
	"@ = 120",
	"@ = 121",
	"@ = 270",
	"@ = 409",
	"@ = 410",
	"@ = 411",
	"@ = 0",
	"@ = -1",
	"@ = 5.0",
	"@ = 5.5",
	"@ = '5'",
	"@ = 'x'",
	"@ = NULL",
	"@ = 9e99",
	"@ = x'35'",
	"@ IN (3, 300)",
	"@ BETWEEN 3 AND 5",
	"@ = 131 AND timestamp > 5",
	"@ = 131 AND timestamp < 5",
};

/* Ordinary tables with the same rows: what SQLite makes of those is right. */
static void copy_tables(sqlite3 *db)
{
	assert_rows(db, "CREATE TEMP TABLE copy_s AS SELECT * FROM snapshots", "");
	assert_rows(db, "CREATE TEMP TABLE copy_m AS SELECT * FROM process_metrics", "");
	assert_rows(db, "CREATE TEMP TABLE copy_e AS SELECT * FROM process_events", "");
}

static const struct {
	char letter;
	const char *table, *copy;
} names[] = {
	{ 's', "snapshots", "copy_s" },
	{ 'm', "process_metrics", "copy_m" },
	{ 'e', "process_events", "copy_e" },
};

/* $s, $m and $e are the tables, $$ is $. */
static void write_sql(struct buf *out, const char *template, bool of_copies)
{
	for (const char *p = template; *p; p++) {
		if (*p != '$') {
			buf_add_char(out, *p);
			continue;
		}
		if (*++p == '$')
			buf_add_char(out, '$');
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (names[i].letter == *p)
				buf_add_str(out, of_copies ? names[i].copy : names[i].table);
	}
}

/* Returns how many rows it gives. */
static size_t assert_as_copies(sqlite3 *db, const char *template)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	CLEANUP(buf_release) struct buf rows = BUF_INIT;
	size_t n = 0;

	write_sql(&sql, template, true);
	run(db, sql.data, &rows);
	buf_reset(&sql);
	write_sql(&sql, template, false);
	assert_rows(db, sql.data, rows.data);
	for (const char *p = rows.data; *p; p++)
		n += *p == '\n';
	return n;
}

static size_t assert_condition(sqlite3 *db, char table, const char *condition)
{
	char template[512];

	snprintf(template, sizeof(template), "SELECT * FROM $%c WHERE %s ORDER BY 1, 2, 3, 4, 5, 6",
		 table, condition);
	return assert_as_copies(db, template);
}

static size_t assert_id_condition(sqlite3 *db, char table, const char *id, const char *condition)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	for (const char *p = condition; *p; p++)
		buf_add(&text, *p == '@' ? id : p, *p == '@' ? strlen(id) : 1);
	return assert_condition(db, table, text.data);
}

static void test_limits_lose_no_row(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	size_t n = 0;

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			n += assert_condition(db, names[k].letter, conditions[i]);
	for (size_t i = 0; i < ARRAY_SIZE(sample_conditions); i++) {
		n += assert_condition(db, 'm', sample_conditions[i]);
		n += assert_condition(db, 'e', sample_conditions[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(id_conditions); i++) {
		n += assert_id_condition(db, 's', "id", id_conditions[i]);
		n += assert_id_condition(db, 'm', "snapshot_id", id_conditions[i]);
	}
	assert_true(n > 10000); /* the conditions do find something */
}

/* Every moment is found by the double that SQL has for it, and by no other. */
static void test_limits_at_the_edge(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;
	unsigned seed = 3;

	snapshot_init(&snap);
	for (unsigned k = 0; k < 150; k++) {
		fill_snapshot(&snap, "j", 1, k);
		snap.wall_ns += (uint64_t)rand_r(&seed) % 1000000;
		if (k == 149) /* near the end of what the database can say */
			snap.wall_ns = UINT64_C(9223372036854770000);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	assert_rows(db,
		    "SELECT count(*) FROM snapshots s JOIN process_metrics m"
		    " ON m.timestamp = s.timestamp",
		    "150\n");
	assert_rows(db,
		    "SELECT count(*), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp >= s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp > s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp <= s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp < s.timestamp)) FROM snapshots s",
		    "150|11325|11175|11325|11175\n");
}

/* ---- what is not read ---- */

static void damage(const struct fixture *f, const char *sql)
{
	assert_int_equal(raw_sql(f->db, sql), -1); /* it returns no row */
}

#define ROTTEN "makes no sense"

/* Folds that a limit leaves out are not looked at, or these would be noticed. */
static void test_limits_skip_folds(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	CLEANUP(close_db) sqlite3 *db = NULL;

	write_ticks(store, &a, 0, 240);
	write_ticks(store, &b, 0, 120);
	store_close(store);
	db = open_db(f->db);
	assert_rows(db, "SELECT count(*), min(id), max(id) FROM folds", "3|120|360\n");
	damage(f, "UPDATE folds SET data = x'00' WHERE id IN (120, 360)");

	assert_fails(db, "SELECT count(*) FROM snapshots", SQLITE_CORRUPT, ROTTEN);
	assert_fails(db, "SELECT count(*) FROM process_metrics", SQLITE_CORRUPT, ROTTEN);
	assert_rows(db, "SELECT count(*) FROM snapshots WHERE timestamp > 1700000031", "119\n");
	assert_fails(db, "SELECT count(*) FROM snapshots WHERE +timestamp > 1700000031",
		     SQLITE_CORRUPT, ROTTEN);
	assert_rows(db,
		    "SELECT count(*) FROM process_metrics WHERE job_id = 'a'"
		    " AND timestamp >= 1700000031",
		    "360\n");
	assert_fails(db, "SELECT count(*) FROM process_metrics WHERE job_id = 'b'", SQLITE_CORRUPT,
		     ROTTEN);
	assert_rows(db, "SELECT count(*) FROM process_metrics WHERE job_id = 'c'", "0\n");
	assert_rows(db, "SELECT count(*) FROM process_metrics WHERE pid = 7", "0\n");
	assert_rows(db, "SELECT id FROM snapshots WHERE id = 200", "200\n");
	assert_rows(db, "SELECT id FROM snapshots ORDER BY timestamp DESC LIMIT 2", "240\n239\n");
	assert_fails(db, "SELECT id FROM snapshots ORDER BY timestamp LIMIT 2", SQLITE_CORRUPT,
		     ROTTEN);
}

/* Nor are the samples of others, nor values that nobody asks for. */
static void test_columns_skip_samples(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	CLEANUP(close_db) sqlite3 *db = NULL;

	write_ticks(store, &a, 0, 120);
	store_close(store);
	db = open_db(f->db);
	/* Of the first process nothing is left, of the second the last values are missing. */
	damage(f, "UPDATE chunks SET data = x'00' WHERE process = 1");
	damage(f,
	       "UPDATE chunks SET data = substr(data, 1, length(data) * 4 / 5) WHERE process = 2");

	assert_rows(db, "SELECT count(*), count(load_avg_1), count(gpus) FROM snapshots",
		    "120|120|118\n");
	assert_fails(db, "SELECT sum(zombie_count) FROM snapshots", SQLITE_CORRUPT, ROTTEN);
	assert_rows(db, "SELECT count(*) FROM process_metrics WHERE pid = 102", "120\n");
	assert_rows(db, "SELECT count(rss_mb), count(command) FROM process_metrics WHERE pid = 101",
		    "120|120\n");
	assert_fails(db, "SELECT max(fd_limit) FROM process_metrics WHERE pid = 101",
		     SQLITE_CORRUPT, ROTTEN);
	assert_fails(db, "SELECT count(*) FROM process_metrics", SQLITE_CORRUPT, ROTTEN);
	assert_rows(db, "SELECT count(*) FROM process_events", "12\n"); /* the connection lives */
}

/* What EXPLAIN QUERY PLAN tells people: which limits, and whether rows are sorted once more. */
static void test_plans(void **state)
{
	static const struct {
		const char *sql, *plan;
	} cases[] = {
		{ "SELECT 1 FROM snapshots WHERE timestamp > 5 AND timestamp <= 7",
		  "SCAN snapshots VIRTUAL TABLE INDEX 0:><" },
		{ "SELECT 1 FROM process_metrics WHERE job_id = 'a' AND pid = 5",
		  "SCAN process_metrics VIRTUAL TABLE INDEX 4:jp" },
		{ "SELECT 1 FROM process_metrics WHERE job_id = 'a' COLLATE NOCASE",
		  "SCAN process_metrics VIRTUAL TABLE INDEX 4:" },
		{ "SELECT 1 FROM snapshots WHERE id = 5",
		  "SCAN snapshots VIRTUAL TABLE INDEX 0:i" },
		{ "SELECT 1 FROM snapshots ORDER BY timestamp",
		  "SCAN snapshots VIRTUAL TABLE INDEX 1:" },
		{ "SELECT 1 FROM snapshots ORDER BY timestamp DESC",
		  "SCAN snapshots VIRTUAL TABLE INDEX 3:" },
		{ "SELECT zombie_count FROM snapshots", "SCAN snapshots VIRTUAL TABLE INDEX 84:" },
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	CLEANUP(buf_release) struct buf got = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char sql[256], want[256];

		snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", cases[i].sql);
		snprintf(want, sizeof(want), "|%s\n", cases[i].plan);
		run(db, sql, &got);
		assert_string_equal(strrchr(got.data, '|'), want);
		assert_ptr_equal(strchr(got.data, '\n'), strrchr(got.data, '\n')); /* one step */
	}
}

/* ---- order ---- */

static void test_order(void **state)
{
	static const char *const queries[] = {
		"SELECT timestamp FROM $s ORDER BY timestamp",
		"SELECT timestamp FROM $s ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m ORDER BY timestamp",
		"SELECT timestamp FROM $m ORDER BY timestamp DESC",
		"SELECT timestamp FROM $e ORDER BY timestamp",
		"SELECT timestamp FROM $e ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m WHERE job_id = 5 ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m WHERE pid IN (102, 100) ORDER BY timestamp",
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		assert_true(assert_as_copies(db, queries[i]) > 10);
}

/* ---- several at once ---- */

/* Also against the order that SQLite would choose. */
static const char *const joins[] = {
	"SELECT m.pid, m.timestamp, s.id, s.load_avg_1 FROM $m m JOIN $s s ON s.id = m.snapshot_id"
	" ORDER BY m.timestamp, s.id, m.pid",
	"SELECT m.pid, m.timestamp, s.id, s.zombie_pids FROM $s s CROSS JOIN $m m"
	" ON m.snapshot_id = s.id ORDER BY s.timestamp, s.id, m.pid",
	"SELECT m.pid, s.id, s.gpus FROM $m m CROSS JOIN $s s ON s.id = m.snapshot_id"
	" WHERE m.job_id = 'B' AND s.timestamp > 1700000020 ORDER BY m.timestamp, m.pid",
	"SELECT m.pid, s.id FROM $m m CROSS JOIN $s s USING (timestamp)"
	" WHERE m.job_id = 'a' AND m.pid = 101 ORDER BY 2",
	"SELECT m.pid, n.pid, m.snapshot_id FROM $m m JOIN $m n ON n.snapshot_id = m.snapshot_id"
	" AND n.pid = m.pid + 1 ORDER BY 3, 1",
	"SELECT e.event_type, e.job_id, count(*) FROM $e e JOIN $m m ON m.pid = e.pid"
	" AND m.job_id = e.job_id AND m.timestamp <= e.timestamp GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT j.job_id, a.attempt_num, count(*), max(m.rss_mb) FROM jobs j JOIN attempts a"
	" ON a.job = j.id JOIN $m m ON m.job_id = j.job_id AND m.attempt = a.attempt_num"
	" GROUP BY 1 ORDER BY 1",
	"SELECT s.id, (SELECT sum(rss_bytes) FROM $m m WHERE m.snapshot_id = s.id) FROM $s s"
	" ORDER BY 1",
	"SELECT s.id, json_extract(g.value, '$$.utilization_pct') FROM $s s, json_each(s.gpus) g"
	" ORDER BY 1, 2",
	"SELECT DISTINCT timestamp FROM $m ORDER BY timestamp DESC",
	"SELECT timestamp, count(*), sum(rss_bytes) FROM $m GROUP BY timestamp ORDER BY 1",
	"SELECT pid, rss_mb - lag(rss_mb) OVER (PARTITION BY job_id, pid ORDER BY timestamp)"
	" FROM $m ORDER BY timestamp, snapshot_id, pid",
};

static void test_joins(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(joins); i++)
		assert_true(assert_as_copies(db, joins[i]) > 1);
}

static void test_two_statements_at_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	int64_t n = 0;

	write_ticks(store, &a, 0, N_TICKS);
	{
		CLEANUP(finalize)
		sqlite3_stmt *up = prepare(db, "SELECT id FROM snapshots ORDER BY timestamp");
		CLEANUP(finalize)
		sqlite3_stmt *down =
			prepare(db, "SELECT id FROM snapshots ORDER BY timestamp DESC");
		CLEANUP(finalize)
		sqlite3_stmt *events = prepare(db, "SELECT timestamp FROM process_events");
		CLEANUP(finalize)
		sqlite3_stmt *more = prepare(db, "SELECT timestamp FROM process_events");

		while (sqlite3_step(up) == SQLITE_ROW) {
			assert_int_equal(sqlite3_step(down), SQLITE_ROW);
			assert_int_equal(sqlite3_column_int64(up, 0) +
						 sqlite3_column_int64(down, 0),
					 N_TICKS + 1);
			if (++n > N_TICKS / 10)
				continue;
			assert_int_equal(sqlite3_step(events), SQLITE_ROW);
			assert_int_equal(sqlite3_step(more), SQLITE_ROW);
			assert_true(sqlite3_column_double(events, 0) ==
				    sqlite3_column_double(more, 0));
		}
	}
	assert_int_equal(n, N_TICKS);
}

/* A statement tells what was there when it began, whatever is written and folded meanwhile. */
static void test_a_writer_at_the_same_time(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	int64_t n = 0;

	write_ticks(store, &a, 0, 200);
	{
		CLEANUP(finalize)
		sqlite3_stmt *stmt = prepare(
			db,
			"SELECT m.pid, s.load_avg_1 FROM process_metrics m CROSS JOIN snapshots s"
			" ON s.id = m.snapshot_id");

		while (sqlite3_step(stmt) == SQLITE_ROW)
			if (++n == 100)
				write_ticks(store, &a, 200, 500);
	}
	assert_int_equal(n, 600);
	assert_rows(db, "SELECT count(*) FROM process_metrics", "1500\n");
	assert_rows(db, "SELECT count(*) FROM snapshots", "500\n");
}

/* ---- the connection is not ours ---- */

static void test_the_users_transactions(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");

	write_ticks(store, &a, 0, 130);
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
	assert_true(sqlite3_get_autocommit(db));
	assert_rows(db, "BEGIN", "");
	assert_rows(db, "SELECT count(*) FROM process_metrics", "390\n");
	assert_false(sqlite3_get_autocommit(db));
	write_ticks(store, &a, 130, 260); /* not seen in it */
	assert_rows(db, "SELECT count(*) FROM process_metrics", "390\n");
	assert_rows(db, "COMMIT", "");
	assert_rows(db, "SELECT count(*) FROM process_metrics", "780\n");
	assert_rows(db, "CREATE TEMP TABLE kept AS SELECT * FROM snapshots", "");
	assert_rows(db, "SELECT count(*), sum(typeof(load_avg_1) = 'real') FROM kept", "260|260\n");
	assert_rows(db, "CREATE TEMP VIEW v AS SELECT pid FROM process_metrics WHERE pid = 101",
		    "");
	assert_rows(db, "SELECT count(*) FROM v", "260\n");
	assert_fails(db, "INSERT INTO snapshots (id) VALUES (1)", SQLITE_ERROR,
		     "may not be modified");
	assert_fails(db, "DELETE FROM process_events", SQLITE_ERROR, "may not be modified");
}

static void test_other_databases(void **state)
{
	struct fixture *f = *state;
	CLEANUP(close_db) sqlite3 *empty = open_db(":memory:");
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	assert_fails(empty, "SELECT * FROM snapshots", SQLITE_ERROR,
		     "nothing was recorded in main: open a database of proctor's");
	assert_rows(empty, "CREATE TABLE t (x)", "");
	assert_fails(empty, "SELECT * FROM process_events", SQLITE_ERROR,
		     "is the database of another program: open one of proctor's");
	store_close(must_open(f->db, STORE_WRITE));
	assert_rows(db, "SELECT count(*) FROM snapshots", "0\n");
	assert_rows(db, "SELECT * FROM process_metrics WHERE snapshot_id = 1", "");
	assert_rows(db, "PRAGMA user_version = 99", "");
	{
		CLEANUP(close_db) sqlite3 *newer = open_db(f->db);

		assert_fails(newer, "SELECT * FROM snapshots", SQLITE_ERROR,
			     "was made by a newer proctor (its layout is 99");
	}
}

/* As when somebody loads the extension twice. */
static void test_registered_again(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	write_ticks(store, &a, 0, 130);
	for (int i = 0; i < 3; i++) {
		assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
		must(vtab_register(db, &err), &err);
	}
	{
		CLEANUP(finalize) sqlite3_stmt *stmt = prepare(db, "SELECT id FROM snapshots");
		int64_t n = 0;

		while (sqlite3_step(stmt) == SQLITE_ROW)
			if (++n == 50)
				must(vtab_register(db, &err), &err);
		assert_int_equal(n, 130);
	}
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
}

/* Interrupted by another thread, or by a handler as here. */
static int interrupt(void *ctx)
{
	(void)ctx;
	return 1;
}

static void test_an_interrupt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");

	write_ticks(store, &a, 0, 130);
	assert_rows(db, "SELECT count(*) FROM snapshots, process_events", "1690\n");
	sqlite3_progress_handler(db, 20, interrupt, NULL);
	assert_fails(db, "SELECT count(*) FROM snapshots", SQLITE_INTERRUPT, "");
	assert_fails(db, "SELECT count(*) FROM process_events", SQLITE_INTERRUPT, "");
	sqlite3_progress_handler(db, 0, NULL, NULL);
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_values_are_those_of_the_store),
		STORE_TEST(test_unknown_is_null),
		STORE_TEST(test_limits_lose_no_row),
		STORE_TEST(test_limits_at_the_edge),
		STORE_TEST(test_limits_skip_folds),
		STORE_TEST(test_columns_skip_samples),
		STORE_TEST(test_plans),
		STORE_TEST(test_order),
		STORE_TEST(test_joins),
		STORE_TEST(test_two_statements_at_once),
		STORE_TEST(test_a_writer_at_the_same_time),
		STORE_TEST(test_the_users_transactions),
		STORE_TEST(test_other_databases),
		STORE_TEST(test_registered_again),
		STORE_TEST(test_an_interrupt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

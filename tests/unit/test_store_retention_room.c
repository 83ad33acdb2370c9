/* What is removed for room, and what would be. */
#include "retention_fixture.h"

static int64_t file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (int64_t)st.st_size;
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

	policy.max_bytes = full;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_folds + result.n_events + result.n_attempts, 0);
	assert_int_equal(result.over_bytes, 0);

	full = used_bytes(f);
	policy.max_bytes = full - full / 20; /* some samples are enough */
	result = must_retain_at(store, &policy, NOW);
	assert_true(used_bytes(f) <= policy.max_bytes / 10 * 9 + 4096);
	assert_true(result.n_folds > 0 && (int64_t)result.n_folds < n_folds);
	assert_int_equal(result.n_minutes + result.n_curves + result.n_events, 0);
	assert_int_equal(must_count_in_minutes(store), 16 * 300 * 20);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds WHERE is_rolled"), 0);
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

/* Processes of the last attempt that come and go, as many as n. */
static void fill_with_events(const struct fixture *f, int n)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
		 " INSERT INTO events (attempt, wall_ns, pid, type, details)"
		 " SELECT (SELECT max(id) FROM attempts), %llu + i, i, 'spawn',"
		 " '{\"command\":\"sh -c true\",\"ppid\":1}' FROM n RETURNING 1",
		 n, (unsigned long long)(NOW - 2 * HOUR));
	raw_sql(f->db, sql);
	assert_true(count(f, "events") >= n);
}

/* What little there is of all else does not go for the sake of events. */
static void test_events_fill_it(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;
	int64_t n_folds;

	fill_with_jobs(store, 2, 3 * HOUR);
	n_folds = count(f, "folds");
	fill_with_events(f, 30000);
	policy.max_bytes = used_bytes(f) / 8 * 7;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.over_bytes, 0);
	assert_true(result.n_events > 0 && count(f, "events") > 0);
	assert_int_equal(count(f, "folds"), n_folds);
	assert_int_equal(result.n_samples + result.n_minutes + result.n_curves, 0);
}

/* However many there were: one that stays, of a clock that was ahead, does not stand for them. */
static void test_few_events_of_many(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;

	fill_with_jobs(store, 16, 20 * HOUR);
	fill_with_events(f, 5000);
	raw_sql(f->db, "UPDATE events SET wall_ns = wall_ns + 86400000000000 WHERE id = 1"
		       " RETURNING 1");
	raw_sql(f->db, "DELETE FROM events WHERE id BETWEEN 2 AND 4900 RETURNING 1");
	raw_sql(f->db, "UPDATE events SET id = id + 1000000 WHERE id > 1 RETURNING 1");
	policy.max_bytes = used_bytes(f) / 20 * 19;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.over_bytes, 0);
	assert_true(result.n_folds > 0);
	assert_int_equal(result.n_events, 0);
}

/* ---- many users ---- */

static struct attempt must_begin_as(struct store *store, const char *job_id, uint64_t uid,
				    uint64_t wall_ns)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	a.uid = uid;
	a.started_wall_ns = wall_ns;
	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* An hour of samples of n processes, with events and sheets, which ended so long ago. */
static void must_record_as(struct store *store, const char *job_id, uint64_t uid, uint64_t ago,
			   int n, int n_events, int n_sheets)
{
	struct attempt a = must_begin_as(store, job_id, uid, NOW - ago - HOUR);
	struct err err = ERR_INIT;

	for (int i = 0; i < n_events; i++)
		add_event(store, &a, NOW - ago - HOUR);
	for (int i = 1; i <= n_sheets; i++) {
		struct sheet_record sheet = { .num = i,
					      .try_num = 1,
					      .name = "a sheet of many",
					      .command = "make all the others as well" };

		must(store_write_sheets(store, &a, &sheet, 1, &err), &err);
	}
	if (n > 0)
		tick_between(store, &a, ago + HOUR, ago, 15 * SECOND_NS, n);
	must_finish_at(store, &a, NOW - ago);
}

/* What the record of a user has: folds, events, sheets, curves, attempts. */
struct holdings {
	int64_t n[5];
};

static struct holdings holdings_of(const struct fixture *f, uint64_t uid)
{
	static const char *const columns[] = { "folds WHERE recorder", "events WHERE attempt",
					       "sheets WHERE attempt", "points WHERE attempt",
					       "attempts WHERE id" };
	struct holdings h;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		char sql[160];

		snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM %s IN (SELECT id FROM attempts WHERE uid = %llu)",
			 columns[i], (unsigned long long)uid);
		h.n[i] = raw_sql(f->db, sql);
	}
	return h;
}

static void assert_untouched(const struct fixture *f, uint64_t uid, const struct holdings *before)
{
	struct holdings now = holdings_of(f, uid);

	for (size_t i = 0; i < ARRAY_SIZE(now.n); i++)
		assert_int_equal(now.n[i], before->n[i]);
}

/* Whatever one user floods a record with, users below the average lose nothing of theirs, which is
 * older. */
static void test_a_flood_costs_who_floods(void **state)
{
	static const struct {
		int n_processes, n_events, n_sheets;
	} floods[] = { { 40, 20, 1 }, { 1, 600, 1 }, { 0, 0, 1000 }, { 2, 300, 300 } };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
		struct retention_policy policy = default_policy;
		struct retention_result result;
		struct holdings quiet, root, flood;

		must_record_as(store, "quiet", 1000, 20 * HOUR, 8, 5, 2);
		must_record_as(store, "root", 0, 18 * HOUR, 8, 5, 2);
		for (uint64_t k = 0; k < 10; k++)
			must_record_as(store, "flood", 2000, (12 - k) * HOUR, floods[i].n_processes,
				       floods[i].n_events, floods[i].n_sheets);
		must_record_as(store, "newest", 1000, HOUR / 2, 1, 1, 1);
		quiet = holdings_of(f, 1000);
		root = holdings_of(f, 0);
		flood = holdings_of(f, 2000);
		policy.max_bytes = used_bytes(f) / 4 * 3;
		result = must_retain_at(store, &policy, NOW);
		assert_int_equal(result.over_bytes, 0);
		assert_untouched(f, 1000, &quiet);
		assert_untouched(f, 0, &root);
		if (floods[i].n_sheets > 1) {
			assert_in_range(result.n_attempts, 1, 8);
			assert_int_equal(raw_sql(f->db, "SELECT min(attempt_num) FROM attempts"
							" WHERE uid = 2000"),
					 (int64_t)result.n_attempts + 1); /* the oldest went */
		} else { /* what it used, and how it ended, stays */
			assert_int_equal(holdings_of(f, 2000).n[4], flood.n[4]);
		}
		assert_is_sound(f->db);
		store = store_close(store);
		assert_int_equal(unlink(f->db), 0);
	}
}

/* Two with as much as each other, and more users than are counted one by one. */
static void test_many_users(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct holdings before[50], small;

	for (uint64_t uid = 0; uid < ARRAY_SIZE(before); uid++)
		must_record_as(store, "small", uid + 1, 20 * HOUR, 1, 1, 1);
	for (uint64_t k = 0; k < 5; k++) {
		must_record_as(store, "a", 2000, (10 - k) * HOUR, 40, 50, 1);
		must_record_as(store, "b", 2001, (10 - k) * HOUR, 40, 50, 1);
	}
	must_record_as(store, "small", 7, HOUR / 2, 1, 1, 1);
	for (uint64_t uid = 0; uid < ARRAY_SIZE(before); uid++)
		before[uid] = holdings_of(f, uid + 1);
	policy.max_bytes = used_bytes(f) / 100 * 95;
	assert_int_equal(must_retain_at(store, &policy, NOW).over_bytes, 0);
	for (uint64_t uid = 0; uid < ARRAY_SIZE(before); uid++)
		assert_untouched(f, uid + 1, &before[uid]);
	for (uint64_t uid = 2000; uid < 2002; uid++) /* both lose the oldest */
		assert_in_range(holdings_of(f, uid).n[0], 1, 14);

	policy.max_bytes = 1; /* no user is spared */
	assert_true(must_retain_at(store, &policy, NOW).over_bytes > 0);
	small = holdings_of(f, 1);
	assert_int_equal(small.n[4], 0);
	assert_int_equal(count(f, "attempts"), 1);
	assert_is_sound(f->db);
}

/* Anomalies of the host with as much evidence as one may have; the last one lasts. */
static void fill_with_anomalies(const struct fixture *f, int n)
{
	char sql[700];

	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
		 " INSERT INTO anomalies (episode, type, severity, began_wall_ns, ended_wall_ns,"
		 " count, pattern, evidence) SELECT 'e' || i, 'MEMORY_LEAK', 'high', %llu + i,"
		 " CASE WHEN i < %d THEN %llu + i END, 1, 'p',"
		 " '{\"files\":[],\"seconds\":{\"rows\":[0' || replace(hex(zeroblob(6000)), '00',"
		 " ',0') || ']}}' FROM n RETURNING 1",
		 n, (unsigned long long)(NOW - 2 * HOUR), n, (unsigned long long)(NOW - HOUR));
	raw_sql(f->db, sql);
	assert_int_equal(count(f, "anomalies"), n);
}

#define WITH_SECONDS "SELECT count(*) FROM anomalies WHERE instr(evidence, '\"seconds\":{')"

/* The evidence of anomalies goes before them, and both before what is known of jobs. */
static void test_anomalies_for_room(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct retention_policy policy = default_policy;
	struct retention_result result;
	struct phase_mark mark = { .phase = { .name = "load", .pid = 100 } };
	struct err err = ERR_INIT;
	uint64_t small;

	fill_with_jobs(store, 4, 5 * HOUR);
	small = used_bytes(f);
	fill_with_anomalies(f, 100);
	policy.max_bytes = (small + used_bytes(f)) / 2;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.over_bytes, 0);
	assert_true(result.n_seconds > 0 && result.n_seconds < 100);
	assert_int_equal(result.n_events + result.n_anomalies + result.n_attempts, 0);
	assert_int_equal(raw_sql(f->db, WITH_SECONDS), 100 - (int64_t)result.n_seconds);
	assert_int_equal(raw_sql(f->db, WITH_SECONDS " AND id = 100"), 1); /* the oldest went */
	assert_int_equal(count(f, "anomalies"), 100);

	mark.attempt_id = 1;
	mark.phase.entered_wall_ns = NOW - 5 * HOUR;
	must(store_mark_phases(store, &mark, 1, &err), &err);
	mark.attempt_id = 4;
	must(store_mark_phases(store, &mark, 1, &err), &err);
	policy.max_bytes = 1;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_anomalies, 99);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE id = 100"), 1);
	assert_int_equal(result.n_phases, 1);
	assert_int_equal(result.n_attempts, 3);
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
	struct retention preview;
	struct retention_result result;
	struct err err = ERR_INIT;
	uint64_t full;
	char path[192];

	fill_with_jobs(store, 6, 10 * HOUR);
	full = used_bytes(f);
	make_file(f, "log", LOG_BYTES);
	make_file(f, "log.1", LOG_BYTES);
	make_file(f, "log.2", LOG_BYTES);
	policy.max_bytes = full + 3 * LOG_BYTES;
	result = must_retain_at(store, &policy, NOW); /* a log that is not asked for is nobody's */
	assert_int_equal(result.over_bytes + result.n_logs, 0);

	snprintf(path, sizeof(path), "%s/log", f->dir);
	policy.jsonl_path = path;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.over_bytes + result.n_logs, 0);
	assert_int_equal(result.beside_bytes, 3 * LOG_BYTES);

	policy.max_bytes -= 4096;
	must(store_preview_retention(store, &policy, NOW, BELIEVED_CLOCK, &preview, &err), &err);
	assert_true(preview.result.n_logs == 1 && is_there(f, "log.2"));
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_logs, 1);
	assert_true(is_there(f, "log.1") && !is_there(f, "log.2"));
	assert_int_equal(result.n_folds + result.over_bytes, 0);

	policy.max_bytes = full + LOG_BYTES - full / 10;
	result = must_retain_at(store, &policy, NOW);
	assert_int_equal(result.n_logs, 1);
	assert_true(is_there(f, "log") && !is_there(f, "log.1"));
	assert_true(result.n_folds > 0); /* and then samples */
	assert_int_equal(result.over_bytes, 0);
	assert_true(used_bytes(f) + LOG_BYTES <= policy.max_bytes);
}

/* On a full disk, where the database cannot be opened, they go by what the files take. */
static void test_logs_without_the_database(void **state)
{
	struct fixture *f = *state;
	struct retention_policy policy = default_policy;
	char path[192];

	make_file(f, "log", LOG_BYTES);
	make_file(f, "log.1", LOG_BYTES);
	make_file(f, "log.2", LOG_BYTES);
	snprintf(path, sizeof(path), "%s/log", f->dir);
	policy.max_bytes = 3 * LOG_BYTES - 1;
	assert_int_equal(store_drop_logs(f->db, &policy), 0); /* nobody's */
	policy.jsonl_path = path;
	policy.max_bytes = 3 * LOG_BYTES;
	assert_int_equal(store_drop_logs(f->db, &policy), 0);
	policy.max_bytes--;
	assert_int_equal(store_drop_logs(f->db, &policy), 1);
	assert_true(is_there(f, "log.1") && !is_there(f, "log.2"));
	policy.max_bytes = 1;
	assert_int_equal(store_drop_logs(f->db, &policy), 1);
	assert_true(is_there(f, "log") && !is_there(f, "log.1"));
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
	store_retain_begin(&run, &policy, NOW, NULL);
	run.slice_ns = 0; /* a piece of work each */
	while (count(f, "rollups") == 0)
		assert_int_equal(store_retain_slice(store, &run, &err), 1);
	assert_true(raw_sql(f->db, "SELECT count(*) FROM folds WHERE is_rolled") > 0);
	assert_int_equal(must_count_in_minutes(store), 2 * 300 * 20);

	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds WHERE is_rolled"), 0);
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
	assert_int_equal(back.details.n_unknowns, 1);
	assert_string_equal(back.details.unknowns[0].what, "processes");
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
	struct retention preview;
	struct retention_result result;
	struct attempt a = must_begin_at(store, "j", NOW - 50 * DAY);
	struct err err = ERR_INIT;

	for (int i = 0; i < 7; i++)
		add_event(store, &a, NOW - 50 * DAY);
	tick_between(store, &a, 10 * DAY, 5 * DAY, 10 * MINUTE, 3);
	tick_between(store, &a, 3 * HOUR, 0, MINUTE, 3);
	must_finish_at(store, &a, NOW);
	must_retain_at(store, &default_policy, NOW - 7 * DAY);
	must(store_preview_retention(store, &default_policy, NOW, BELIEVED_CLOCK, &preview, &err),
	     &err);
	assert_int_equal(retention_is_due(store, NOW, &err), 1);
	assert_int_equal(preview.result.over_bytes, 0);
	result = must_retain_at(store, &default_policy, NOW);
	assert_true(result.n_samples > 0 && result.n_minutes > 0 && result.n_curves > 0);
	assert_true(preview.result.n_samples == result.n_samples);
}

/* Daemons and boots that nothing refers to do not stay for ever. */
static void test_daemons_and_boots(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", NOW - 50 * DAY);
	struct err err = ERR_INIT;

	for (uint64_t i = 0; i < 4; i++) {
		struct daemon_record d = { .key = { 7, 9 },
					   .started_wall_ns = NOW - (50 - 15 * i) * DAY };

		snprintf(d.boot_id, sizeof(d.boot_id), "6b8a4f1e-0000-4000-8000-00000000000%d",
			 (int)i);
		must(store_begin_daemon(store, &d, &err), &err);
		must(store_end_daemon(store, &d, d.started_wall_ns + DAY, &err), &err);
	}
	must_finish_at(store, &a, NOW - 49 * DAY);
	assert_int_equal(count(f, "boots"), 5);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(count(f, "daemons"), 2);
	assert_int_equal(count(f, "boots"), 3); /* with that of the attempt */
	must_retain_at(store, &default_policy, NOW + 100 * DAY);
	assert_int_equal(count(f, "daemons"), 1); /* the last one stays */
	assert_int_equal(count(f, "boots"), 2);
	assert_is_sound(f->db);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_daemons_and_boots),
		STORE_TEST(test_max_bytes),
		STORE_TEST(test_events_fill_it),
		STORE_TEST(test_few_events_of_many),
		STORE_TEST(test_a_flood_costs_who_floods),
		STORE_TEST(test_many_users),
		STORE_TEST(test_anomalies_for_room),
		STORE_TEST(test_max_bytes_beside_a_reader),
		STORE_TEST(test_max_bytes_of_all),
		STORE_TEST(test_a_log_that_is_too_large),
		STORE_TEST(test_logs_without_the_database),
		STORE_TEST(test_what_was_begun_is_ended),
		STORE_TEST(test_running_attempts_are_kept),
		STORE_TEST(test_removed_processes_are_told),
		STORE_TEST(test_the_file_gets_smaller),
		STORE_TEST(test_it_gets_smaller_without_a_log),
		STORE_TEST(test_preview),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

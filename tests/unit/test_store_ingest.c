/* Logs become rows: the same as if the database had been written directly, and each record once. */
#include "log_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "anomaly_fixture.h"
#include "base/alive.h"
#include "rounds.h"
#include "store/ingest.h"
#include "store_host.h"
#include "store_writer.h"

#define N_TICKS 300 /* some folds, and a rest */

/* ---- what is compared ---- */

static void dump_table(sqlite3 *db, const char *table, struct buf *out)
{
	sqlite3_stmt *stmt = NULL;
	char sql[96];

	snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY 1, 2", table);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	buf_printf(out, "%s\n", table);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			const char *name = sqlite3_column_name(stmt, i);
			const char *text = (const char *)sqlite3_column_text(stmt, i);

			if (strncmp(name, "log_", 4) != 0)
				buf_printf(out, " %s=%s", name, text ? text : "NULL");
		}
		buf_add_char(out, '\n');
	}
	sqlite3_finalize(stmt);
}

static int add_snapshot(void *ctx, const struct snapshot *snap)
{
	struct json j;

	json_init(&j, ctx);
	snapshot_write_json(&j, snap, SNAPSHOT_ALL);
	buf_add_char(ctx, '\n');
	return 0;
}

/* All rows but those that have samples, which are compared as snapshots; and the curve. */
static void dump(const char *path, const char *job_id, struct buf *out)
{
	static const char *const tables[] = { "boots",		 "jobs",      "attempts", "sheets",
					      "ranks",		 "processes", "events",	  "rungs",
					      "unknowns",	 "anomalies", "syscalls", "phases",
					      "anomaly_changes", "patterns" };
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	sqlite3 *db = NULL;

	attempt_init(&a);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		dump_table(db, tables[i], out);
	sqlite3_close(db);
	store = must_open(path, STORE_READ);
	must(store_read_snapshots(store, &(struct snapshot_filter){ .with_attempts = true },
				  add_snapshot, out, &err),
	     &err);
	must(store_read_attempt(store, job_id, 0, &a, &err), &err);
	for (size_t i = 0; i < a.details.n_series; i++)
		buf_printf(out, "%llu %d %llu %g %llu\n",
			   (unsigned long long)a.details.series[i].wall_ns,
			   a.details.series[i].sheet_num,
			   (unsigned long long)a.details.series[i].rss_bytes,
			   a.details.series[i].cpu_percent,
			   (unsigned long long)a.details.series[i].n_processes);
	assert_int_equal(buf_error(out), 0);
}

/* Shows where they differ. */
static void assert_same(const struct buf *a, const struct buf *b)
{
	size_t line = 0;

	for (size_t i = 0; i < a->len && i < b->len; i++) {
		if (a->data[i] != b->data[i])
			fail_msg("not the same:\n%.600s\n----\n%.600s", a->data + line,
				 b->data + line);
		if (a->data[i] == '\n')
			line = i + 1;
	}
	assert_int_equal(a->len, b->len);
}

/* ---- a run that has all kinds of records ---- */

struct scene {
	struct attempt a;
	struct rank_record ranks[2];
	struct sheet_record sheets[2];
	struct proc_event events[3];
	struct phase_change phases[3];
	struct episode episode;
	struct anomaly_evidence evidence;
	struct proc_record processes[2];
	struct rung rungs[1];
	struct unknown_note notes[1];
	struct syscall_use calls[2];
	struct snapshot snap;
	struct series_point point;
};

static void scene_init(struct scene *s, const char *job_id)
{
	memset(s, 0, sizeof(*s));
	s->a = make_attempt(job_id);
	s->a.attempt_num = 1;
	for (int i = 0; i < 2; i++) {
		s->sheets[i] = (struct sheet_record){ .num = i + 1,
						      .try_num = 1,
						      .name = "s",
						      .command = "c",
						      .total_ranks = i + 1,
						      .started_wall_ns = START,
						      .ended_wall_ns = U64_UNKNOWN,
						      .status = { -1, -1 } };
		usage_init(&s->sheets[i].usage);
		s->ranks[i] = (struct rank_record){ i, 100 + i, { 0, -1 }, START + 5 };
	}
	s->a.sheets = s->sheets;
	s->a.n_sheets = 1;
	for (int i = 0; i < 3; i++)
		s->events[i] = (struct proc_event){ .wall_ns = START + (uint64_t)i,
						    .key = { 100 + i, 5000 },
						    .type = i == 2 ? EVENT_OOM : EVENT_SPAWN,
						    .status = { -1, -1 },
						    .sheet_num = 1,
						    .details = "d" };
	s->phases[0] =
		(struct phase_change){ false, { "epoch", NULL, 100, 0, START, U64_UNKNOWN } };
	s->phases[1] =
		(struct phase_change){ false, { "load", NULL, 100, 0, START + 1, U64_UNKNOWN } };
	s->phases[2] = (struct phase_change){ true, { "load", NULL, 100, 0, 0, START + 2 } };
	make_episode(&s->episode, 100, START);
	episode_set_job(&s->episode, job_id);
	s->episode.ended_wall_ns = U64_UNKNOWN;
	anomaly_evidence_init(&s->evidence);
	s->evidence.n_files_open = 3;
	for (int i = 0; i < 2; i++) {
		proc_record_init(&s->processes[i]);
		s->processes[i].key = (struct proc_key){ 100 + i, 5000 + (uint64_t)i };
		s->processes[i].command = "worker";
		s->processes[i].user_ns = 7;
		s->processes[i].n_samples = N_TICKS;
		s->processes[i].syscalls = i ? "read 1 0 0 0" : NULL;
	}
	s->rungs[0] = (struct rung){ RUNG_SYSCALLS, RUNG_SYSCALLS_STRACE, "why" };
	s->notes[0] = (struct unknown_note){ "gpu", "none" };
	s->calls[0] = (struct syscall_use){ "read", 5, 1, 100, 200 };
	s->calls[1] = (struct syscall_use){ "write", 6, 0, U64_UNKNOWN, U64_UNKNOWN };
	snapshot_init(&s->snap);
}

static void scene_release(struct scene *s)
{
	snapshot_release(&s->snap);
}

/* At tick number k. */
static void scene_tick(struct scene *s, unsigned k)
{
	fill_snapshot(&s->snap, s->a.job_id, 1 + (int)(k % 40 / 10), k);
	add_gpus(&s->snap, k);
	add_cgroups(&s->snap, k);
	if (k > 150)
		s->snap.processes[0].command = arena_strdup(&s->snap.arena, "another");
	s->point = (struct series_point){ s->snap.wall_ns, 1, 4096 * k, k, s->snap.n_processes };
}

static void scene_end_sheets(struct scene *s)
{
	s->sheets[0].ended_wall_ns = START + 9;
	s->sheets[0].outcome = OUTCOME_SUCCESS;
	s->sheets[1].ranks = s->ranks;
	s->sheets[1].n_ranks = 2;
	s->a.n_sheets = 2;
	s->a.last_completed_sheet = 1;
	s->a.current_sheet = 2;
}

static void scene_clear_anomaly(struct scene *s)
{
	s->episode.ended_wall_ns = START + 20;
	s->episode.why_cleared = EPISODE_PROCESS_ENDED;
	s->episode.after_value = 1;
}

static void scene_finish(struct scene *s)
{
	s->a.ended_wall_ns = START + 100 * SECOND;
	s->a.outcome = OUTCOME_FAILURE;
	s->a.reason = "exit code 1";
	s->a.status = (struct exit_status){ 1, -1 };
	s->a.usage.wall_ns = 100 * SECOND;
	s->a.processes = s->processes;
	s->a.n_processes = 2;
	s->a.details.rungs = s->rungs;
	s->a.details.n_rungs = 1;
	s->a.details.unknowns = s->notes;
	s->a.details.n_unknowns = 1;
	s->a.details.syscalls = s->calls;
	s->a.details.n_syscalls = 2;
}

static void record_directly(const char *path, const char *job_id)
{
	CLEANUP(store_cleanup) struct store *store = must_open(path, STORE_WRITE);
	CLEANUP(scene_release) struct scene s;
	struct anomaly_news news = { .episode = &s.episode, .change = EPISODE_BEGAN };
	struct phase_mark marks[3];
	struct err err = ERR_INIT;

	scene_init(&s, job_id);
	must(store_begin_attempt(store, &s.a, &err), &err);
	news.attempt_id = s.a.id;
	for (unsigned k = 0; k < N_TICKS; k++) {
		scene_tick(&s, k);
		must(write_tick(store, &s.a, &s.snap, &s.point, NULL, 0, &err), &err);
	}
	scene_end_sheets(&s);
	must(store_write_sheets(store, &s.a, s.sheets, 2, &err), &err);
	must(store_write_events(store, &s.a, s.events, 3, &err), &err);
	for (size_t i = 0; i < 3; i++)
		marks[i] = (struct phase_mark){ .attempt_id = s.a.id,
						.is_exit = s.phases[i].is_exit,
						.phase = s.phases[i].phase };
	must(store_mark_phases(store, marks, 3, &err), &err);
	must(store_tell_anomaly(store, &news, &err), &err);
	s.episode.peak_value = 150;
	s.episode.seen_wall_ns = START + 10;
	must(store_renew_anomaly(store, s.a.id, &s.episode, &err), &err);
	must(store_set_evidence(store, s.episode.name, &s.evidence, &err), &err);
	scene_clear_anomaly(&s);
	news.change = EPISODE_CLEARED;
	must(store_tell_anomaly(store, &news, &err), &err);
	scene_finish(&s);
	must(store_add_syscalls(store, &(struct attempt){ .id = s.a.id }, s.calls, 2, NULL, &err),
	     &err);
	must(store_finish_attempt(store, &s.a, NULL, 0, &err), &err);
}

/* after is called behind each record, while the recorder lives. */
static void record_in_log(struct fixture *f, const char *job_id, int fd,
			  void (*after)(struct fixture *f))
{
	CLEANUP(scene_release) struct scene s;
	struct recording_log log;

	scene_init(&s, job_id);
	log_begin(&log, fd, (struct log_options){ .segment_bytes = 20000 });
	log_put_begin(&log, &s.a);
	after(f);
	for (unsigned k = 0; k < N_TICKS; k++) {
		if (log_wants_key(log.writer))
			log_put_begin(&log, &s.a);
		scene_tick(&s, k);
		log_put_tick(&log, &s.snap, &s.point);
		after(f);
	}
	scene_end_sheets(&s);
	record_write_sheets_changed(&log.bytes, &s.a, s.sheets, 2);
	log_put(&log, RECORD_SHEETS);
	after(f);
	log_put_events(&log, s.events, 3);
	after(f);
	record_write_phases(&log.bytes, s.phases, 3);
	record_write_number(&log.bytes, 0);
	log_put(&log, RECORD_PHASES);
	after(f);
	record_write_anomaly(&log.bytes, &s.episode, EPISODE_BEGAN);
	log_put(&log, RECORD_ANOMALY);
	after(f);
	s.episode.peak_value = 150;
	s.episode.seen_wall_ns = START + 10;
	record_write_anomaly(&log.bytes, &s.episode, RECORD_RENEWED);
	log_put(&log, RECORD_ANOMALY);
	after(f);
	record_write_evidence(&log.bytes, s.episode.name, &s.evidence);
	log_put(&log, RECORD_EVIDENCE);
	after(f);
	scene_clear_anomaly(&s);
	record_write_anomaly(&log.bytes, &s.episode, EPISODE_CLEARED);
	log_put(&log, RECORD_ANOMALY);
	after(f);
	scene_finish(&s);
	record_write_details(&log.bytes, &s.a, NULL);
	log_put(&log, RECORD_DETAILS);
	after(f);
	log_finish(&log, &s.a);
	after(f);
}

/* ---- the same rows ---- */

static void do_nothing(struct fixture *f)
{
	(void)f;
}

static void assert_as_directly(struct fixture *f, int logs)
{
	CLEANUP(buf_release) struct buf direct = BUF_INIT, ingested = BUF_INIT;
	char path[192];

	snprintf(path, sizeof(path), "%s/direct.db", f->dir);
	record_directly(path, "a/job");
	dump(path, "a/job", &direct);
	dump(f->db, "a/job", &ingested);
	assert_same(&direct, &ingested);
	assert_int_equal(count_logs(logs), 0);
	assert_is_sound(f->db);
}

static void test_a_log_becomes_the_same_rows(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;

	record_in_log(f, "a/job", logs, do_nothing);
	assert_true(count_logs(logs) > 1);
	store_close(must_open(f->db, STORE_WRITE));
	assert_as_directly(f, logs);
}

static void open_and_close(struct fixture *f)
{
	store_close(must_open(f->db, STORE_READ));
}

static void test_so_it_does_record_by_record(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);

	record_in_log(*state, "a/job", logs, open_and_close);
	assert_as_directly(*state, logs);
}

/* A child ingests, and is killed at some moment. */
static void ingest_and_die(struct fixture *f)
{
	static unsigned seed = 1;
	const struct timespec pause = { .tv_nsec = rand_r(&seed) % 3000000 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store *store = NULL;

		CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
		_exit(0);
	}
	assert_true(pid > 0);
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

static void test_so_it_does_whenever_who_ingests_is_killed(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;

	record_in_log(f, "a/job", logs, ingest_and_die);
	store_close(must_open(f->db, STORE_READ));
	assert_as_directly(f, logs);
}

/* ---- small logs ---- */

static struct proc_event make_event(uint64_t n)
{
	return (struct proc_event){ .wall_ns = START + n,
				    .key = { 9, 9 },
				    .type = EVENT_SPAWN,
				    .status = { -1, -1 },
				    .sheet_num = 1,
				    .details = "" };
}

/* One with a beginning, an event and an end. */
static void write_small_log(int fd, struct attempt *a, struct log_options options)
{
	const struct proc_event event = make_event(1);
	struct recording_log log;

	log_begin(&log, fd, options);
	log_put_begin(&log, a);
	log_put_events(&log, &event, 1);
	a->ended_wall_ns = a->started_wall_ns + 1;
	a->outcome = OUTCOME_SUCCESS;
	log_finish(&log, a);
	a->ended_wall_ns = U64_UNKNOWN;
}

static void test_a_number_that_another_has_is_not_taken_twice(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");

	a.attempt_num = 7;
	for (uint64_t i = 0; i < 3; i++) {
		a.started_wall_ns = START + i;
		write_small_log(logs, &a,
				(struct log_options){ .origin.created_wall_ns = 100 - i });
	}
	store_close(must_open(f->db, STORE_READ));
	/* The oldest log, which is the last one here, has come first. */
	assert_int_equal(raw_sql(f->db, "SELECT attempt_num FROM attempts ORDER BY "
					"started_wall_ns DESC"),
			 7);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE attempt_num IN "
					"(7, 8, 9) AND outcome = 'success'"),
			 3);
}

static void test_the_last_is_not_the_one_that_was_ingested_last(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	for (int i = 3; i > 0; i--) {
		a.attempt_num = i;
		a.started_wall_ns = START + (uint64_t)i;
		write_small_log(logs, &a, (struct log_options){ 0 });
		store_close(must_open(f->db, STORE_READ));
	}
	store = must_open(f->db, STORE_READ);
	must(store_list_attempts(store, &(struct attempt_filter){ .limit = 2 }, &list, &err), &err);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[0].attempt_num, 2);
	assert_int_equal(list.items[1].attempt_num, 3);
	attempt_list_release(&list);
	must(store_list_attempts(store, &(struct attempt_filter){ .latest_only = true }, &list,
				 &err),
	     &err);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].attempt_num, 3);
}

/* ---- recorders that are gone ---- */

static void test_a_recorder_that_was_killed_loses_nothing(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	CLEANUP(scene_release) struct scene s;
	struct fixture *f = *state;
	struct recording_log log;

	scene_init(&s, "j");
	log_begin(&log, logs, (struct log_options){ 0 });
	log_put_begin(&log, &s.a);
	for (unsigned k = 0; k < 5; k++) {
		fill_snapshot(&s.snap, "j", 2, k);
		log_put_tick(&log, &s.snap, NULL);
	}
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 0);
	assert_int_equal(count_logs(logs), 1);
	log_release(&log);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT ended_wall_ns IS NULL FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), 0);
	assert_int_equal(count_samples(f->db), 10);
	assert_int_equal(count_logs(logs), 0);
}

/* Its lock need not be seen here. */
static void test_a_log_of_another_host_is_left_alone(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	const struct log_options options = { .origin.boot_id = { 1, 2, 3 } };
	const struct proc_event event = make_event(1);
	struct recording_log log;
	char own[256] = "";

	a.started_wall_ns = clock_wall_ns();
	log_begin(&log, logs, options);
	log_put_begin(&log, &a);
	log_put_events(&log, &event, 1);
	log_release(&log);
	for (int i = 0; i < 2; i++) {
		store_close(must_open(f->db, STORE_READ));
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
		assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 0);
		assert_int_equal(count_logs(logs), 1);
	}
	/* One that has been quiet for long. */
	a.started_wall_ns = START;
	log_begin(&log, logs, options);
	log_put_begin(&log, &a);
	log_release(&log);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT sum(log_is_over) FROM attempts"), 1);
	assert_int_equal(count_logs(logs), 1);
	/* One of this host, which has booted since. */
	assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
	a.host = own;
	log_begin(&log, logs, options);
	log_put_begin(&log, &a);
	log_release(&log);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT sum(log_is_over) FROM attempts"), 2);
	assert_int_equal(count_logs(logs), 1);
}

/* The next daemon of this boot continues it, under the same id. */
static void test_an_attached_tree_outlives_its_recorder(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	const struct log_fs fs = log_fs_real(logs);
	struct attempt a = make_attempt("j");
	const struct proc_event events[] = { make_event(1), make_event(2) };
	struct log_options options = { .end_bytes = 4096 };
	struct recording_log log;
	struct log_id id;

	a.is_attached = true;
	a.started_wall_ns = clock_wall_ns();
	log_begin(&log, logs, (struct log_options){ 0 });
	log_put_begin(&log, &a);
	log_put_events(&log, &events[0], 1);
	id = log.id;
	log_release(&log);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 0);
	assert_int_equal(count_logs(logs), 1);
	assert_int_equal(log_continue(&fs, &id, &options, NULL), 0);
	log = (struct recording_log){ .id = id, .bytes = BUF_INIT, .ticks = tick_writer_new() };
	assert_int_equal(log_create(&fs, &options, &log.writer, NULL), 0);
	log_put_begin(&log, &a);
	log_put_events(&log, &events[1], 1);
	a.ended_wall_ns = a.started_wall_ns + 1;
	log_finish(&log, &a);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 1);
	assert_int_equal(count_logs(logs), 0);
}

/* ---- the log of a daemon ---- */

static void host_log_begin(struct recording_log *log, int logs)
{
	const struct daemon_record d = { .key = { 7, 70 },
					 .version = "1",
					 .started_wall_ns = START };

	log_begin(log, logs, (struct log_options){ 0 });
	record_write_struct(&log->bytes, &daemon_columns, &d);
	assert_int_equal(log_append(log->writer, RECORD_HOST, LOG_KEY, log->bytes.data,
				    log->bytes.len, NULL),
			 0);
	buf_reset(&log->bytes);
}

static void put_about(struct recording_log *log, const struct log_id *about)
{
	static const struct log_id host;

	buf_add(&log->bytes, (about ? about : &host)->bytes, sizeof(about->bytes));
}

/* What is of the host, of an attempt that is over, and of one that is not there. */
static void test_a_daemon_has_a_log(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	const struct proc_event event = make_event(1);
	const struct log_id unknown = { { 1 } };
	struct syscall_use call = { "read", 5, 1, 100, 200 };
	struct recording_log run, host;
	struct log_id id;
	struct episode e;

	log_begin(&run, logs, (struct log_options){ 0 });
	id = run.id;
	log_put_begin(&run, &a);
	a.ended_wall_ns = START + 1;
	log_finish(&run, &a);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(count_logs(logs), 0);
	host_log_begin(&host, logs);
	make_episode(&e, 0, START);
	e.worst.has_pid = false;
	e.ended_wall_ns = U64_UNKNOWN;
	put_about(&host, NULL);
	record_write_anomaly(&host.bytes, &e, EPISODE_BEGAN);
	log_put(&host, RECORD_ANOMALY);
	for (int i = 0; i < 2; i++) { /* in two looks: the second knows its row */
		put_about(&host, i == 0 ? &id : &unknown);
		log_put_events(&host, &event, 1);
		store_close(must_open(f->db, STORE_READ));
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM daemons"), 1);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
	}
	a.details.syscalls = &call;
	a.details.n_syscalls = 1;
	put_about(&host, &id);
	record_write_details(&host.bytes, &a, "not all");
	log_put(&host, RECORD_CALLS);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count FROM syscalls WHERE attempt = 1"), 5);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns WHERE why = 'not all'"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT attempt FROM events"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE attempt IS NULL"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT pid FROM daemons WHERE NOT log_is_over"), 7);
	put_about(&host, NULL);
	host.bytes.len = 8; /* a bad record costs itself */
	log_put(&host, RECORD_ANOMALY);
	record_write_number(&host.bytes, START + 9);
	assert_int_equal(log_end(host.writer, host.bytes.data, host.bytes.len, NULL), 0);
	log_release(&host);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM daemons"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT stopped_wall_ns FROM daemons"), START + 9);
	assert_int_equal(count_logs(logs), 0);
}

/* Nothing follows from one that was killed; and no guest can send one. */
static void test_a_daemon_that_was_killed_has_no_stop(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	const struct log_options copy = { .origin.is_copy = true };
	struct fixture *f = *state;
	struct recording_log host;

	host_log_begin(&host, logs);
	log_release(&host);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT stopped_wall_ns IS NULL FROM daemons"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM daemons"), 1);
	assert_int_equal(count_logs(logs), 0);
	log_begin(&host, logs, copy);
	record_write_struct(&host.bytes, &daemon_columns, &(struct daemon_record){ .key.pid = 9 });
	assert_int_equal(log_append(host.writer, RECORD_HOST, LOG_KEY, host.bytes.data,
				    host.bytes.len, NULL),
			 0);
	log_release(&host);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM daemons"), 1);
}

/* What a guest says of itself counts for nothing where the kernel or the daemon knows better. */
static void test_a_copy_is_as_its_origin_says(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct proc_event events[2] = { make_event(1), make_event(2) };
	struct sheet_record sheet = {
		.num = 1, .try_num = 1, .name = "\x1b[31m", .status = { -1, -1 }
	};
	struct recording_log log;
	struct log_frame frame = { .seq = 0 };
	struct episode e;
	struct log_options options = {
		.end_bytes = 4096,
		.origin = { .uid = 4001, .runner_pid = getpid(), .pid_ns = 5, .is_copy = true },
	};
	const struct log_fs fs = log_fs_real(logs);

	assert_int_equal(proc_start_ticks(getpid(), &options.origin.runner_start_ticks), 0);
	assert_int_equal(log_id_make(&options.origin.id), 0);
	options.origin.created_wall_ns = clock_wall_ns();
	own_boot(options.origin.boot_id);
	log = (struct recording_log){ .id = options.origin.id, .bytes = BUF_INIT };
	log.ticks = tick_writer_new();
	assert_int_equal(log_create(&fs, &options, &log.writer, NULL), 0);

	usage_init(&sheet.usage);
	a.uid = 0;
	a.is_attached = true;
	a.attempt_num = 4711;
	a.sheets = &sheet;
	a.n_sheets = 1;
	record_write_begin(&log.bytes, &a);
	record_write_sheets(&log.bytes, &sheet, 1);
	frame = (struct log_frame){ .seq = 3,
				    .type = RECORD_BEGIN,
				    .flags = LOG_KEY,
				    .bytes = (const uint8_t *)log.bytes.data,
				    .n = log.bytes.len };
	assert_int_equal(log_append_frame(log.writer, &frame, NULL), 0);
	buf_reset(&log.bytes);
	a.job_id = "another";
	log_put_begin(&log, &a); /* is left out */
	log_put_events(&log, events, 1);
	events[1].wall_ns = clock_wall_ns() + 3600 * SECOND;
	log_put_events(&log, events, 2); /* as this is: one of them is to come */
	make_episode(&e, 100, START);
	e.job_id[0] = '\0';
	e.worst.job_id = NULL;
	record_write_anomaly(&log.bytes, &e, EPISODE_BEGAN);
	log_put(&log, RECORD_ANOMALY); /* of the host: passed over */
	episode_set_job(&e, "whatever");
	record_write_anomaly(&log.bytes, &e, EPISODE_BEGAN);
	log_put(&log, RECORD_ANOMALY);
	log_release(&log); /* nobody holds the lock: its runner may send more */

	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE uid = 4001 AND"
					" NOT is_attached AND attempt_num = 1 AND pid_ns = 5"
					" AND NOT log_is_over"),
			 1);
	assert_int_equal(raw_sql(f->db, "SELECT runner_pid FROM attempts"), getpid());
	assert_int_equal(raw_sql(f->db, "SELECT name = '?[31m' FROM sheets"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE attempt = 1"
					" AND episode LIKE '4001:%'"),
			 1);
	assert_int_equal(
		raw_sql(f->db, "SELECT count(*) FROM unknowns WHERE why LIKE '2 records%'"), 1);
	assert_int_equal(count_logs(logs), 1);
}

static void test_nothing_is_stored_of_what_never_began(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct recording_log log;

	log_begin(&log, logs, (struct log_options){ 0 });
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(count_logs(logs), 1);
	log_release(&log);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(count_logs(logs), 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 0);
}

/* ---- damage ---- */

/* A record that the decoder refuses, and one that the database does. */
static void test_a_bad_record_costs_itself(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct recording_log log;
	struct anomaly_evidence evidence;
	char why[256];

	a.attempt_num = 1;
	log_begin(&log, logs, (struct log_options){ 0 });
	log_put_begin(&log, &a);
	for (uint64_t i = 0; i < 10; i++) {
		const struct proc_event event = make_event(i);

		record_write_list(&log.bytes, RECORD_LIST_EVENTS, &event, 1);
		if (i == 3)
			log.bytes.data[0] = '\x7f';
		log_put(&log, RECORD_EVENTS);
		if (i == 5)
			store_close(must_open(f->db, STORE_READ));
	}
	anomaly_evidence_init(&evidence);
	record_write_evidence(&log.bytes, "no such episode", &evidence);
	log_put(&log, RECORD_EVIDENCE);
	buf_add_str(&log.bytes, "from another time");
	log_put(&log, (enum record_type)200);
	record_write_details(&log.bytes, &a, NULL);
	log_put(&log, RECORD_DETAILS);
	a.ended_wall_ns = START;
	log_finish(&log, &a);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 9);
	assert_int_equal(raw_sql(f->db, "SELECT ended_wall_ns NOT NULL FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns"), 1);
	assert_string_equal(raw_text(f->db,
				     "SELECT why FROM unknowns WHERE what = "
				     "'" NOTE_DAMAGED_RECORDS "'",
				     why),
			    "2 records of its log were damaged, and are left out");
	assert_is_sound(f->db);
}

static void flip_byte(int fd, const char *name, off_t from_end)
{
	CLEANUP(close_fd) int file = openat(fd, name, O_RDWR | O_CLOEXEC);
	off_t size = lseek(file, 0, SEEK_END);
	char c;

	assert_true(size > from_end);
	assert_int_equal(pread(file, &c, 1, size - from_end), 1);
	c ^= 0x55;
	assert_int_equal(pwrite(file, &c, 1, size - from_end), 1);
}

static void test_bytes_that_are_lost_are_noted(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	const struct proc_event event = make_event(1);
	struct recording_log log;
	char name[LOG_ID_TEXT_BYTES + 2];

	a.attempt_num = 1;
	log_begin(&log, logs, (struct log_options){ 0 });
	log_put_begin(&log, &a);
	for (int i = 0; i < 3; i++)
		log_put_events(&log, &event, 1);
	log_id_format(&log.id, name);
	strcat(name, ".0");
	flip_byte(logs, name, 50);
	a.ended_wall_ns = START;
	log_finish(&log, &a);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 2);
	assert_true(raw_sql(f->db, "SELECT CAST(why AS INTEGER) FROM unknowns WHERE what = "
				   "'" NOTE_LOST_RECORDS "'") > 20);
	assert_int_equal(count_logs(logs), 0);
}

static void test_a_log_that_cannot_be_read_keeps_no_other_back(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	CLEANUP(close_fd) int bad = -1;
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	const struct proc_event event = make_event(1);
	struct recording_log log;

	bad = openat(logs, "00000000000000000000000000000001.0", O_WRONLY | O_CREAT | O_CLOEXEC,
		     0600);
	assert_int_equal(write(bad, "what is this", 12), 12);
	log_begin(&log, logs, (struct log_options){ 0 }); /* no beginning */
	record_write_list(&log.bytes, RECORD_LIST_EVENTS, &event, 1);
	assert_int_equal(
		log_append(log.writer, RECORD_EVENTS, LOG_KEY, log.bytes.data, log.bytes.len, NULL),
		0);
	log_release(&log);
	write_small_log(logs, &a, (struct log_options){ 0 });
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
	assert_int_equal(count_logs(logs), 2);
	assert_int_equal(store_count_unreadable_logs(f->db), 1);
}

/* ---- rows that are gone ---- */

static void test_an_attempt_that_was_removed_begins_anew(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	const struct proc_event event = make_event(1);
	struct recording_log log;

	a.attempt_num = 4;
	log_begin(&log, logs, (struct log_options){ .segment_bytes = 300 });
	for (int i = 0; i < 20; i++) {
		if (log_wants_key(log.writer))
			log_put_begin(&log, &a);
		log_put_events(&log, &event, 1);
	}
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 20);
	assert_int_equal(raw_sql(f->db, "DELETE FROM attempts RETURNING 1"), 1);
	raw_sql(f->db, "DELETE FROM events");
	for (int i = 0; i < 20; i++) {
		if (log_wants_key(log.writer))
			log_put_begin(&log, &a);
		log_put_events(&log, &event, 1);
	}
	a.ended_wall_ns = START;
	log_finish(&log, &a);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT attempt_num FROM attempts WHERE "
					"ended_wall_ns NOT NULL"),
			 4);
	assert_true(raw_sql(f->db, "SELECT count(*) FROM events") >= 20);
	assert_int_equal(count_logs(logs), 0);
}

/* A power cut may bring back a log that was removed. */
static void test_a_log_that_comes_back_is_known(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	char command[512];

	write_small_log(logs, &a, (struct log_options){ 0 });
	snprintf(command, sizeof(command), "cp -r %s-logs %s/kept", f->db, f->dir);
	assert_int_equal(system(command), 0);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(count_logs(logs), 0);
	snprintf(command, sizeof(command), "cp %s/kept/* %s-logs/", f->dir, f->db);
	assert_int_equal(system(command), 0);
	assert_int_equal(count_logs(logs), 1);
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(count_logs(logs), 0);
}

/* ---- who may not write ---- */

static void read_as_user(struct fixture *f)
{
	struct store *store = NULL;
	struct attempt a;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_READ, &store, &err) == 0);
	attempt_init(&a);
	CHILD_CHECK(store_read_attempt(store, "j", 2, &a, &err) == 0);
	CHILD_CHECK(a.outcome == OUTCOME_SUCCESS && a.n_events == 1);
	attempt_release(&a);
	CHILD_CHECK(store_take_in(store, &err) >= 0);
	store_close(store);
}

static void test_a_reader_that_may_not_write_sees_all(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	char command[512];

	if (geteuid() != 0)
		skip();
	for (int i = 1; i <= 2; i++) {
		a.attempt_num = i;
		write_small_log(logs, &a, (struct log_options){ 0 });
		if (i == 1)
			store_close(must_open(f->db, STORE_READ));
	}
	snprintf(command, sizeof(command), "chmod -R a+rX %s", f->dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(run_as_user(read_as_user, f), 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(count_logs(logs), 1);
	/* Nor is there a database. */
	snprintf(command, sizeof(command), "rm -f %s %s-shm %s-wal", f->db, f->db, f->db);
	assert_int_equal(system(command) & 0x7f, 0);
	assert_int_equal(run_as_user(read_as_user, f), 0);
	assert_int_equal(count_logs(logs), 1);
	assert_int_equal(access(f->db, F_OK), -1);
}

static void assert_seen(const char *path)
{
	CLEANUP(store_cleanup) struct store *store = must_open(path, STORE_READ);
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;

	attempt_init(&a);
	must(store_read_attempt(store, "j", 0, &a, &err), &err);
	assert_int_equal(a.outcome, OUTCOME_SUCCESS);
	assert_int_equal(a.n_events, 1);
}

static void test_a_locked_database_hides_nothing(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	sqlite3 *other = NULL;

	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	write_small_log(logs, &a, (struct log_options){ 0 });
	assert_int_equal(store_take_in(store, NULL), 0);
	assert_seen(f->db);
	assert_int_equal(count_logs(logs), 1);
	sqlite3_close(other);
	assert_int_equal(store_take_in(store, NULL), 1);
	assert_int_equal(count_logs(logs), 0);
	assert_seen(f->db);
}

/* As on a full disk: nothing can be written. */
static void read_without_room(struct fixture *f)
{
	const struct rlimit limit = { 32768, 32768 }; /* of -shm */
	struct store *store = NULL;
	struct attempt a;

	signal(SIGXFSZ, SIG_IGN);
	CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	attempt_init(&a);
	CHILD_CHECK(store_open(f->db, STORE_READ, &store, NULL) == 0);
	CHILD_CHECK(store_read_attempt(store, "j", 0, &a, NULL) == 0);
	CHILD_CHECK(a.outcome == OUTCOME_SUCCESS && a.n_events == 1);
	attempt_release(&a);
	store_close(store);
}

static void test_a_full_disk_hides_nothing(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	pid_t pid;
	int status = -1;

	store_close(must_open(f->db, STORE_WRITE));
	write_small_log(logs, &a, (struct log_options){ 0 });
	pid = fork();
	if (pid == 0) {
		read_without_room(f);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_logs(logs), 1);
	assert_seen(f->db);
	assert_int_equal(count_logs(logs), 0);
}

static void test_logs_alone_become_a_database(void **state)
{
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *store = NULL;

	assert_int_equal(store_open(f->db, STORE_READ, &store, NULL), -ENOENT);
	write_small_log(logs, &a, (struct log_options){ 0 });
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
}

/* ---- many ---- */

static double now_seconds(void)
{
	return (double)clock_boot_ns() / 1e9;
}

static void test_many_small_logs_take_a_moment(void **state)
{
	const char *wanted = getenv("PROCTOR_TEST_LOGS");
	int64_t n = wanted ? atoi(wanted) : ROUNDS(500);
	CLEANUP(close_fd) int logs = open_logs(*state);
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	double began, seconds;

	for (int64_t i = 0; i < n; i++) {
		a.attempt_num = (int)i + 1;
		a.started_wall_ns = START + (uint64_t)i;
		write_small_log(logs, &a,
				(struct log_options){ .origin.created_wall_ns = (uint64_t)i + 1 });
	}
	began = now_seconds();
	store_close(must_open(f->db, STORE_READ));
	seconds = now_seconds() - began;
	print_message("# %lld logs in %.3f s\n", (long long)n, seconds);
	for (int i = 0; i < 1000 && count_logs(logs) > 0; i++) /* on a slow disk some are left */
		store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE outcome = 'success'"),
			 n);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), n);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE attempt_num <> id"),
			 0);
	assert_int_equal(count_logs(logs), 0);
	assert_rate(seconds < 0.05 * (double)n);
}

static void test_looking_costs_little(void **state)
{
	static const int numbers[] = { 1, 100 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		CLEANUP(close_fd) int logs = open_logs(f);
		struct recording_log log[100];
		struct attempt a = make_attempt("j");
		struct store *store;
		double began;

		for (int k = 0; k < numbers[i]; k++) {
			log_begin(&log[k], logs, (struct log_options){ .end_bytes = 65536 });
			log_put_begin(&log[k], &a);
		}
		store = must_open(f->db, STORE_WRITE);
		assert_int_equal(store_take_in(store, NULL), 0);
		began = now_seconds();
		for (int k = 0; k < 100; k++)
			assert_int_equal(store_take_in(store, NULL), 0);
		print_message("# %d live logs: %.1f us\n", numbers[i],
			      (now_seconds() - began) * 1e4);
		for (int k = 0; k < numbers[i]; k++)
			log_release(&log[k]);
		assert_int_equal(store_take_in(store, NULL), numbers[i]);
		store_close(store);
	}
}

/* ---- several at once ---- */

#define N_INGESTERS 10
#define N_EVENTS ROUNDS(2000)

static void record_events(const struct fixture *f)
{
	int logs = open_logs(f);
	struct attempt a = make_attempt("j");
	struct recording_log log;
	struct snapshot snap;

	snapshot_init(&snap);
	a.attempt_num = 1;
	log_begin(&log, logs, (struct log_options){ .segment_bytes = 4000 });
	for (uint64_t i = 0; i < N_EVENTS; i++) {
		const struct proc_event event = make_event(i);
		const struct timespec pause = { .tv_nsec = 500000 };

		if (log_wants_key(log.writer))
			log_put_begin(&log, &a);
		log_put_events(&log, &event, 1);
		fill_snapshot(&snap, "j", 2, (unsigned)i);
		log_put_tick(&log, &snap, NULL);
		nanosleep(&pause, NULL);
	}
	a.ended_wall_ns = START + N_EVENTS;
	a.outcome = OUTCOME_SUCCESS;
	log_finish(&log, &a);
	snapshot_release(&snap);
	close(logs);
}

static void ingest_for_ever(const struct fixture *f, unsigned seed)
{
	for (;;) {
		struct store *store = NULL;
		struct err err = ERR_INIT;

		CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == 0);
		for (int i = rand_r(&seed) % 20; i > 0; i--)
			CHILD_CHECK(store_take_in(store, &err) >= 0);
		store_close(store);
	}
}

static pid_t start(void (*fn)(const struct fixture *f, unsigned seed), const struct fixture *f,
		   unsigned seed)
{
	pid_t pid = fork();

	if (pid == 0) {
		fn(f, seed);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void record_once(const struct fixture *f, unsigned seed)
{
	(void)seed;
	record_events(f);
}

static void test_each_record_is_stored_once_by_many(void **state)
{
	struct fixture *f = *state;
	pid_t ingesters[N_INGESTERS], recorder;
	unsigned seed = 1, n_kills = 0;
	bool is_over = false;
	char why[256];
	int status = -1;

	store_close(must_open(f->db, STORE_WRITE));
	recorder = start(record_once, f, 0);
	for (unsigned i = 0; i < N_INGESTERS; i++)
		ingesters[i] = start(ingest_for_ever, f, i);
	while (!is_over || n_kills < 6) {
		const struct timespec pause = { .tv_nsec = rand_r(&seed) % 20000000 };
		unsigned i = (unsigned)rand_r(&seed) % N_INGESTERS;
		int killed;

		nanosleep(&pause, NULL);
		is_over = is_over || waitpid(recorder, &status, WNOHANG) == recorder;
		kill(ingesters[i], SIGKILL);
		assert_int_equal(waitpid(ingesters[i], &killed, 0), ingesters[i]);
		assert_true(WIFSIGNALED(killed));
		n_kills++;
		ingesters[i] = start(ingest_for_ever, f, 100 + n_kills);
	}
	assert_int_equal(status, 0);
	for (unsigned i = 0; i < N_INGESTERS; i++) {
		kill(ingesters[i], SIGKILL);
		waitpid(ingesters[i], &status, 0);
		assert_true(WIFSIGNALED(status));
	}
	store_close(must_open(f->db, STORE_READ));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE log_is_over AND "
					"outcome = 'success'"),
			 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), N_EVENTS);
	assert_int_equal(raw_sql(f->db, "SELECT count(DISTINCT wall_ns) FROM events"), N_EVENTS);
	assert_string_equal(raw_text(f->db, "SELECT why FROM unknowns", why), "");
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), N_EVENTS);
	assert_int_equal(count_samples(f->db), 2 * N_EVENTS);
	assert_is_sound(f->db);
}

#define INGEST_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		INGEST_TEST(test_a_log_becomes_the_same_rows),
		INGEST_TEST(test_so_it_does_record_by_record),
		INGEST_TEST(test_so_it_does_whenever_who_ingests_is_killed),
		INGEST_TEST(test_a_number_that_another_has_is_not_taken_twice),
		INGEST_TEST(test_the_last_is_not_the_one_that_was_ingested_last),
		INGEST_TEST(test_a_recorder_that_was_killed_loses_nothing),
		INGEST_TEST(test_a_log_of_another_host_is_left_alone),
		INGEST_TEST(test_an_attached_tree_outlives_its_recorder),
		INGEST_TEST(test_a_daemon_has_a_log),
		INGEST_TEST(test_a_daemon_that_was_killed_has_no_stop),
		INGEST_TEST(test_a_copy_is_as_its_origin_says),
		INGEST_TEST(test_nothing_is_stored_of_what_never_began),
		INGEST_TEST(test_a_bad_record_costs_itself),
		INGEST_TEST(test_bytes_that_are_lost_are_noted),
		INGEST_TEST(test_a_log_that_cannot_be_read_keeps_no_other_back),
		INGEST_TEST(test_an_attempt_that_was_removed_begins_anew),
		INGEST_TEST(test_a_log_that_comes_back_is_known),
		INGEST_TEST(test_a_reader_that_may_not_write_sees_all),
		INGEST_TEST(test_a_locked_database_hides_nothing),
		INGEST_TEST(test_a_full_disk_hides_nothing),
		INGEST_TEST(test_logs_alone_become_a_database),
		INGEST_TEST(test_many_small_logs_take_a_moment),
		INGEST_TEST(test_looking_costs_little),
		INGEST_TEST(test_each_record_is_stored_once_by_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

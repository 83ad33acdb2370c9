#include "store_fixture.h"

#include <signal.h>

#include "base/alive.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "daemon/watch.h"
#include "model/record.h"
#include "recorder/recorder.h"

/* What was reported, a letter each: Job, Sheet began; event, anomaly; sheet, job ended, or is lost.
 */
struct noted {
	char text[64];
	bool is_end_expected;
};

static void note(void *ctx, char letter)
{
	struct noted *noted = ctx;
	size_t n = strlen(noted->text);

	assert_true(n + 1 < sizeof(noted->text));
	noted->text[n] = letter;
}

static void on_change(void *ctx, enum change change, struct watched *job,
		      const struct sheet_record *sheet)
{
	static const char letters[] = { [CHANGE_JOB_STARTED] = 'J',
					[CHANGE_SHEET_STARTED] = 'S',
					[CHANGE_SHEET_ENDED] = 's',
					[CHANGE_JOB_ENDED] = 'j' };

	assert_string_equal(job->job_id, "job");
	assert_true((sheet != NULL) ==
		    (change == CHANGE_SHEET_STARTED || change == CHANGE_SHEET_ENDED));
	note(ctx, change == CHANGE_JOB_ENDED && job->a.is_lost ? 'l' : letters[change]);
}

static void on_event(void *ctx, const struct watched *job, const struct proc_event *ev)
{
	assert_string_equal(ev->job_id, job->job_id);
	note(ctx, 'e');
}

static void on_anomaly(void *ctx, const struct watched *job, const struct episode *e,
		       enum episode_change change)
{
	(void)change;
	assert_int_equal(e->attempt_id, job->a.id);
	note(ctx, 'a');
}

static bool expects_end(void *ctx, const struct attempt *a)
{
	assert_true(a->is_lost || a->is_running);
	return ((struct noted *)ctx)->is_end_expected;
}

static const struct watch_ops ops = { on_change, on_event, on_anomaly, expects_end };

/* What is reported by a look. */
static void assert_reported(struct watch *w, struct noted *noted, const char *expected)
{
	struct err err = ERR_INIT;

	memset(noted->text, 0, sizeof(noted->text));
	must(watch_look(w, &err), &err);
	assert_string_equal(noted->text, expected);
}

/* ---- a recorder ---- */

struct recorder {
	struct attempt a;
	struct attempt_log *log;
};

static pid_t start_runner(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void kill_runner(const struct recorder *r)
{
	kill(r->a.runner.pid, SIGKILL);
	assert_int_equal(waitpid(r->a.runner.pid, NULL, 0), r->a.runner.pid);
}

static void describe(void *ctx, struct buf *out)
{
	const struct recorder *r = ctx;

	record_write_begin(out, &r->a);
	record_write_sheets(out, r->a.sheets, r->a.n_sheets);
}

static void begin(struct recorder *r, const char *db)
{
	struct err err = ERR_INIT;

	attempt_init(&r->a);
	r->a.job_id = "job";
	r->a.uid = geteuid();
	r->a.total_sheets = 2;
	r->a.is_running = true;
	r->a.started_wall_ns = clock_wall_ns();
	r->a.runner.pid = start_runner();
	proc_boot_id(r->a.boot_id);
	assert_int_equal(proc_start_ticks(r->a.runner.pid, &r->a.runner.start_ticks), 0);
	must(attempt_log_open(
		     &(struct attempt_log_options){
			     .db_path = db, .a = &r->a, .describe = describe, .ctx = r },
		     &r->log, &err),
	     &err);
}

static void append_sheet(struct recorder *r, int num, bool is_over)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct sheet_record sheet = { .num = num,
				      .try_num = 1,
				      .command = "true",
				      .started_wall_ns = clock_wall_ns(),
				      .ended_wall_ns = is_over ? clock_wall_ns() : U64_UNKNOWN };

	usage_init(&sheet.usage);
	r->a.current_sheet = is_over ? SHEET_NONE : num;
	record_write_sheets_changed(&bytes, &r->a, &sheet, 1);
	attempt_log_append(r->log, RECORD_SHEETS, &bytes);
}

static void append_event(struct recorder *r)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	const struct proc_event ev = { .wall_ns = clock_wall_ns(),
				       .key = { r->a.runner.pid, 1 },
				       .type = EVENT_SPAWN,
				       .status = { -1, -1 },
				       .details = "" };

	record_write_list(&bytes, RECORD_LIST_EVENTS, &ev, 1);
	attempt_log_append(r->log, RECORD_EVENTS, &bytes);
}

static void append_anomaly(struct recorder *r, int change)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct episode e;

	episode_init(&e);
	snprintf(e.name, sizeof(e.name), "runaway of 7");
	episode_set_job(&e, "job");
	e.worst.type = ANOMALY_RUNAWAY_PROCESS;
	record_write_anomaly(&bytes, &e, change);
	attempt_log_append(r->log, RECORD_ANOMALY, &bytes);
}

static void end(struct recorder *r)
{
	struct err err = ERR_INIT;

	r->a.is_running = false;
	r->a.outcome = OUTCOME_SUCCESS;
	r->a.ended_wall_ns = clock_wall_ns();
	must(attempt_log_end(r->log, &r->a, clock_boot_ns() + UINT64_C(9000000000), &err), &err);
}

/* As when the process is gone. */
static void leave(struct recorder *r)
{
	r->log = attempt_log_close(r->log);
	attempt_release(&r->a);
}

/* ---- cases ---- */

static void test_records_once_and_in_order(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct watch *w = watch_new(f->db, &ops, &noted);
	struct recorder r;
	const struct watched *job;
	struct log_id id;
	uint64_t uid;
	size_t n;

	assert_reported(w, &noted, ""); /* there is no folder yet */
	begin(&r, f->db);
	append_sheet(&r, 1, false);
	append_event(&r);
	assert_reported(w, &noted, "JSe");
	assert_reported(w, &noted, "");
	job = watch_find_runner(w, &r.a.runner);
	assert_non_null(job);
	assert_int_equal(job->a.current_sheet, 1);
	append_anomaly(&r, EPISODE_BEGAN);
	append_sheet(&r, 1, true);
	append_sheet(&r, 2, false);
	assert_reported(w, &noted, "asS");
	assert_int_equal(job->a.n_sheets, 2);
	assert_int_equal(job->n_active, 1);
	append_anomaly(&r, RECORD_RENEWED);
	append_anomaly(&r, EPISODE_CLEARED);
	assert_reported(w, &noted, "a");
	assert_int_equal(job->n_active, 0);
	append_event(&r);
	append_sheet(&r, 2, true);
	end(&r);
	assert_reported(w, &noted, "esj");
	assert_true(watch_log_of(w, job->a.id, &id, &uid));
	assert_int_equal(uid, geteuid());
	assert_int_equal(watch_id_of(w, &id, uid), job->a.id);
	watch_jobs(w, &n);
	assert_int_equal(n, 0);
	assert_reported(w, &noted, "");
	kill_runner(&r);
	leave(&r);
	watch_free(w);
}

static void test_a_runner_that_is_killed(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct watch *w = watch_new(f->db, &ops, &noted);
	struct recorder r;

	assert_reported(w, &noted, "");
	begin(&r, f->db);
	append_sheet(&r, 1, false);
	assert_reported(w, &noted, "JS");
	append_event(&r); /* its last word */
	kill_runner(&r);
	leave(&r);
	assert_reported(w, &noted, "el");
	assert_reported(w, &noted, "");
	watch_free(w);
}

/* A run may be over before anybody looks. */
static void test_a_short_life_between_two_looks(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct watch *w = watch_new(f->db, &ops, &noted);
	struct recorder first, second;

	assert_reported(w, &noted, "");
	begin(&first, f->db);
	begin(&second, f->db);
	append_sheet(&first, 1, true);
	end(&first);
	assert_reported(w, &noted, "JSsjJ");
	kill_runner(&first);
	leave(&first);
	kill_runner(&second);
	leave(&second);
	watch_free(w);
}

/* Of what had happened before the first look nothing is reported but jobs that run. */
static void test_what_was_before(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct recorder over, lost, runs;
	struct watch *w;

	begin(&over, f->db);
	end(&over);
	kill_runner(&over);
	leave(&over);
	begin(&lost, f->db);
	kill_runner(&lost);
	leave(&lost);
	begin(&runs, f->db);
	append_sheet(&runs, 1, false);
	append_event(&runs);
	append_anomaly(&runs, EPISODE_BEGAN);
	w = watch_new(f->db, &ops, &noted);
	assert_reported(w, &noted, "JS");
	assert_int_equal(watch_find_runner(w, &runs.a.runner)->n_active, 1);
	append_event(&runs);
	end(&runs);
	assert_reported(w, &noted, "ej");
	kill_runner(&runs);
	leave(&runs);
	watch_free(w);
}

/* Nobody but a daemon that has read it removes a log. */
static void test_logs_stay_until_they_are_read(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct watch *w = watch_new(f->db, &ops, &noted);
	struct recorder r;
	struct store *store;

	begin(&r, f->db);
	assert_reported(w, &noted, "J");
	append_event(&r);
	end(&r);
	kill_runner(&r);
	leave(&r);
	store = must_open(f->db, STORE_WRITE); /* has stored it all */
	store = store_close(store);
	assert_reported(w, &noted, "ej");
	w = watch_free(w);
	store = must_open(f->db, STORE_WRITE);
	store = store_close(store);
	w = watch_new(f->db, &ops, &noted);
	assert_reported(w, &noted, "");
	watch_free(w);
}

/* A process is of the sheet that had begun when it was born, if that can be known yet. */
static void test_sheets(void **state)
{
	struct fixture *f = *state;
	struct noted noted = { .text = "" };
	struct watch *w = watch_new(f->db, &ops, &noted);
	uint64_t second = 1000000000, now = clock_wall_ns();
	struct sheet_record sheets[] = {
		{ .num = 1, .started_wall_ns = now - 90 * second },
		{ .num = 2, .started_wall_ns = now - 60 * second },
		{ .num = 3, .started_wall_ns = now - 30 * second },
	};
	struct watched job = { .a = { .total_sheets = 4, .current_sheet = 3 } };
	struct err err = ERR_INIT;

	assert_non_null(w);
	must(watch_look(w, &err), &err);
	job.a.sheets = sheets;
	job.a.n_sheets = 3;
	assert_int_equal(watch_sheet_at(w, &job, now - 80 * second), 1);
	assert_int_equal(watch_sheet_at(w, &job, now - 59 * second), 2);
	assert_int_equal(watch_sheet_at(w, &job, now - 20 * second), 3);
	assert_int_equal(watch_sheet_at(w, &job, now - 100 * second), SHEET_NONE);
	assert_int_equal(watch_sheet_at(w, &job, now), SHEET_NONE); /* the fourth may have begun */
	assert_int_equal(watch_sheet_at(w, &job, U64_UNKNOWN), SHEET_NONE);
	job.a.total_sheets = 3; /* there is no other to come */
	assert_int_equal(watch_sheet_at(w, &job, now), 3);
	job.a.total_sheets = 1;
	job.a.n_sheets = 1;
	assert_int_equal(watch_sheet_at(w, &job, now), 1);
	watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_records_once_and_in_order, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_runner_that_is_killed, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_short_life_between_two_looks, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_was_before, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_logs_stay_until_they_are_read, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_sheets, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

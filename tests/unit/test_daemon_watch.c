#include "store_fixture.h"

#include <signal.h>

#include "base/alive.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "daemon/watch.h"
#include "store_writer.h"

/* What was told, a letter each: Job, Sheet began; sheet, job ended, or is lost. */
struct noted {
	char text[64];
	bool is_word_due;
	struct store *late; /* where another brings the word of an end, once it is asked for */
	struct attempt *end;
};

static void on_change(void *ctx, enum change change, const struct watched *job,
		      const struct sheet_record *sheet)
{
	static const char letters[] = { [CHANGE_JOB_STARTED] = 'J',
					[CHANGE_SHEET_STARTED] = 'S',
					[CHANGE_SHEET_ENDED] = 's',
					[CHANGE_JOB_ENDED] = 'j' };
	struct noted *told = ctx;

	assert_string_equal(job->job_id, "job");
	assert_true((sheet != NULL) ==
		    (change == CHANGE_SHEET_STARTED || change == CHANGE_SHEET_ENDED));
	assert_true(strlen(told->text) + 1 < sizeof(told->text));
	told->text[strlen(told->text)] =
		change == CHANGE_JOB_ENDED && job->a.is_lost ? 'l' : letters[change];
}

/* What is told by a glance. */
static void assert_told(struct watch *w, struct store *store, struct noted *told,
			const char *expected)
{
	struct err err = ERR_INIT;

	memset(told->text, 0, sizeof(told->text));
	must(watch_glance(w, store, &err), &err);
	assert_string_equal(told->text, expected);
}

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

static struct attempt attempt_of(pid_t runner)
{
	struct attempt a = make_attempt("job");
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	a.pid_ns = (uint64_t)st.st_ino;
	proc_boot_id(a.boot_id);
	a.runner.pid = runner;
	assert_int_equal(proc_start_ticks(runner, &a.runner.start_ticks), 0);
	return a;
}

static void test_glances(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *ours = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *theirs = must_open(f->db, STORE_WRITE);
	struct noted told = { .text = "" };
	struct watch *w = watch_new(on_change, &told);
	pid_t runner = start_runner();
	struct attempt a = attempt_of(runner);
	struct sheet_record sheet = { .num = 1,
				      .try_num = 1,
				      .command = "true",
				      .started_wall_ns = 5,
				      .ended_wall_ns = U64_UNKNOWN };
	struct err err = ERR_INIT;
	size_t n;

	usage_init(&sheet.usage);
	store_set_alive_check(ours, daemon_check_alive, NULL);
	assert_told(w, ours, &told, "");
	must(store_begin_attempt(theirs, &a, &err), &err);
	assert_told(w, ours, &told, "J");
	assert_told(w, ours, &told, "");
	must(store_write_sheets(theirs, &a, &sheet, 1, &err), &err);
	assert_told(w, ours, &told, "S");
	sheet.ended_wall_ns = 6;
	sheet.outcome = OUTCOME_SUCCESS;
	must(store_write_sheets(ours, &a, &sheet, 1, &err), &err); /* by ourselves */
	assert_told(w, ours, &told, "s");
	kill(runner, SIGKILL); /* which nobody writes down */
	assert_int_equal(waitpid(runner, NULL, 0), runner);
	assert_told(w, ours, &told, "l");
	watch_jobs(w, &n);
	assert_int_equal(n, 0);
	watch_free(w);
	attempt_release(&a);
}

static bool is_word_due(void *ctx, const struct attempt *a)
{
	struct noted *told = ctx;
	struct err err = ERR_INIT;

	assert_true(a->is_lost);
	if (told->late)
		must(store_finish_attempt(told->late, told->end, NULL, 0, &err), &err);
	told->late = NULL;
	return told->is_word_due;
}

static struct attempt begin_and_lose(struct store *store)
{
	pid_t runner = start_runner();
	struct attempt a = attempt_of(runner);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	kill(runner, SIGKILL);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
	a.is_running = false;
	a.outcome = OUTCOME_FAILURE;
	a.ended_wall_ns = 10;
	return a;
}

/* Nobody is told that a job is lost whose end is on its way. */
static void test_word_of_an_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *ours = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *theirs = must_open(f->db, STORE_WRITE);
	struct noted told = { .is_word_due = true };
	struct watch *w = watch_new(on_change, &told);
	struct attempt waits, meanwhile, never;
	struct err err = ERR_INIT;

	watch_set_word_check(w, is_word_due);
	store_set_alive_check(ours, daemon_check_alive, NULL);
	assert_told(w, ours, &told, "");
	waits = begin_and_lose(theirs);
	assert_told(w, ours, &told, "J");
	assert_told(w, ours, &told, "");
	assert_true(watch_find_attempt(w, waits.id)->a.is_running);
	must(store_finish_attempt(theirs, &waits, NULL, 0, &err), &err);
	assert_told(w, ours, &told, "j");

	told.is_word_due = false;
	meanwhile = begin_and_lose(theirs);
	told.late = theirs;
	told.end = &meanwhile;
	assert_told(w, ours, &told, "Jj");

	never = begin_and_lose(theirs);
	assert_told(w, ours, &told, "Jl");
	watch_free(w);
	attempt_release(&waits);
	attempt_release(&meanwhile);
	attempt_release(&never);
}

/* Alive when it is first asked about, and dead from then on. */
static enum store_alive die_meanwhile(void *ctx, const struct attempt *a)
{
	int *n_asked = ctx;

	(void)a;
	return (*n_asked)++ < 2 ? STORE_ALIVE
				: STORE_DEAD; /* once for the list, once for the job */
}

static void test_an_end_in_the_middle_of_a_look(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct noted told = { .text = "" };
	struct watch *w = watch_new(on_change, &told);
	struct attempt a = attempt_of(getpid());
	struct err err = ERR_INIT;
	int n_asked = 0;

	store_set_alive_check(store, die_meanwhile, &n_asked);
	must(watch_look(w, store, &err), &err);
	must(store_begin_attempt(store, &a, &err), &err);
	must(watch_look(w, store, &err), &err);
	assert_string_equal(told.text, "J");
	assert_int_equal(n_asked, 3);
	must(watch_look(w, store, &err), &err);
	assert_string_equal(told.text, "Jl"); /* each once */
	watch_free(w);
	attempt_release(&a);
}

/* Begins an attempt while the running ones are gone through. */
struct meanwhile {
	struct store *store;
	struct attempt a;
};

static enum store_alive begin_meanwhile(void *ctx, const struct attempt *a)
{
	struct meanwhile *m = ctx;
	struct err err = ERR_INIT;

	(void)a;
	if (m->a.id == 0)
		must(store_begin_attempt(m->store, &m->a, &err), &err);
	return STORE_ALIVE;
}

/* It began after the running ones were listed, and was over before the next look. */
static void test_a_short_life_between_two_looks(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *ours = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *theirs = must_open(f->db, STORE_WRITE);
	struct noted told = { .text = "" };
	struct watch *w = watch_new(on_change, &told);
	struct attempt a = attempt_of(getpid());
	struct meanwhile meanwhile = { .store = theirs, .a = attempt_of(getpid()) };
	struct err err = ERR_INIT;

	must(watch_look(w, ours, &err), &err);
	must(store_begin_attempt(theirs, &a, &err), &err);
	store_set_alive_check(ours, begin_meanwhile, &meanwhile);
	must(watch_look(w, ours, &err), &err);
	assert_true(meanwhile.a.id > a.id);
	meanwhile.a.is_running = false;
	meanwhile.a.outcome = OUTCOME_SUCCESS;
	meanwhile.a.ended_wall_ns = 10;
	must(store_finish_attempt(theirs, &meanwhile.a, NULL, 0, &err), &err);
	must(watch_look(w, ours, &err), &err);
	assert_string_equal(told.text, "JJj");
	watch_free(w);
	attempt_release(&a);
	attempt_release(&meanwhile.a);
}

/* One row that makes no sense hides none of the others, and not its own end. */
static void test_a_damaged_row(void **state)
{
	static const char damage[] = "UPDATE attempts SET total_sheets = 99999999999 WHERE id = 1";
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *ours = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *theirs = must_open(f->db, STORE_WRITE);
	struct noted told = { .text = "" };
	struct watch *w = watch_new(on_change, &told);
	pid_t runner = start_runner();
	struct attempt a = attempt_of(runner), b = attempt_of(getpid()), c = attempt_of(getpid());
	struct err err = ERR_INIT;

	store_set_alive_check(ours, daemon_check_alive, NULL);
	must(store_begin_attempt(theirs, &a, &err), &err);
	must(store_begin_attempt(theirs, &b, &err), &err);
	assert_int_equal(a.id, 1);
	assert_told(w, ours, &told, "JJ");
	raw_sql(f->db, damage);
	must(store_begin_attempt(theirs, &c, &err), &err);
	b.is_running = false;
	b.outcome = OUTCOME_SUCCESS;
	b.ended_wall_ns = 10;
	must(store_finish_attempt(theirs, &b, NULL, 0, &err), &err);
	assert_told(w, ours, &told, "Jj");
	assert_non_null(watch_find_attempt(w, a.id));
	kill(runner, SIGKILL);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
	assert_told(w, ours, &told, "l");
	assert_null(watch_find_attempt(w, a.id));
	watch_free(w);
	attempt_release(&a);
	attempt_release(&b);
	attempt_release(&c);
}

/* A process is of the sheet that had begun when it was born, if that can be known yet. */
static void test_sheets(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct noted told = { .text = "" };
	struct watch *w = watch_new(on_change, &told);
	uint64_t second = 1000000000, now = clock_wall_ns();
	struct sheet_record sheets[] = {
		{ .num = 1, .started_wall_ns = now - 90 * second },
		{ .num = 2, .started_wall_ns = now - 60 * second },
		{ .num = 3, .started_wall_ns = now - 30 * second },
	};
	struct watched job = { .a = { .total_sheets = 4, .current_sheet = 3 } };
	struct err err = ERR_INIT;

	assert_non_null(w);
	must(watch_look(w, store, &err), &err);
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

/* Our own ticks are no reason to look. */
static void test_versions(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *ours = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *theirs = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("job");
	struct err err = ERR_INIT;
	uint64_t before, after;

	snapshot_init(&snap);
	must(store_begin_attempt(ours, &a, &err), &err);
	must(store_read_version(ours, &before, &err), &err);
	fill_snapshot(&snap, "job", 3, 1);
	must(write_tick(ours, &a, &snap, NULL, NULL, 0, &err), &err);
	must(store_read_version(ours, &after, &err), &err);
	assert_int_equal(after, before);
	fill_snapshot(&snap, "job", 3, 2);
	must(write_tick(theirs, &a, &snap, NULL, NULL, 0, &err), &err);
	must(store_read_version(ours, &after, &err), &err);
	assert_int_not_equal(after, before);
	attempt_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_glances, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_word_of_an_end, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_an_end_in_the_middle_of_a_look, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_short_life_between_two_looks, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_damaged_row, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_sheets, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_versions, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

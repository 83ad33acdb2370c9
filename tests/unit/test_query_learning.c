#include "learning_fixture.h"

#include <math.h>
#include "store_writer.h"

static const struct run_span all_runs = { 0, U64_UNKNOWN, NULL, 1000 };

static void analyze(struct store *store, uint64_t since_wall_ns, size_t *ret_n_runs)
{
	CLEANUP(learning_release) struct learning l;
	struct err err = ERR_INIT;

	learning_init(&l, 5);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	must(learning_read(store, since_wall_ns, &l, &err), &err);
	learning_analyze(&l);
	must(learning_write(store, &l, &err), &err);
	*ret_n_runs = l.analysis.n_runs;
}

static const struct pattern *find_rule(const struct pattern_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].feature && strcmp(list->items[i].feature, "peak_rss_mb") == 0)
			return &list->items[i];
	return NULL;
}

static void test_what_has_ended_becomes_a_run(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(run_list_release) struct run_list runs = { .arena = ARENA_INIT };
	struct attempt running = make_attempt("running");
	struct err err = ERR_INIT;
	size_t n;

	add_runs(store, START_NS, 0, 70); /* more than a page */
	must(store_begin_attempt(store, &running, &err), &err);
	must(learning_catch_up(store, 3, &n, &err), &err);
	assert_int_equal(n, 3);
	must(learning_catch_up(store, 0, &n, &err), &err);
	assert_int_equal(n, 67);
	must(learning_catch_up(store, 0, &n, &err), &err);
	assert_int_equal(n, 0);
	must(store_list_runs(store, &all_runs, &runs, &err), &err);
	assert_int_equal(runs.n, 70);
	assert_string_equal(runs.items[0].class.label, "train.py");
	assert_true(runs.items[1].peak_rss_mb == 501);
	/* Nothing could be said of the first; all others had an answer, and a score. */
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM estimates"), 69);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM scores"), 69);
	assert_int_equal(raw_sql(f->db, "SELECT n_runs FROM estimates JOIN runs USING (attempt)"
					" ORDER BY started_wall_ns LIMIT 1 OFFSET 4"),
			 5);
	attempt_release(&running);
}

/* Two at the same time score a run once. */
static void test_noted_twice(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;

	add_runs(store, START_NS, 0, 4);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	assert_int_equal(raw_sql(f->db, "DELETE FROM runs WHERE attempt > 2 RETURNING 1"), 1);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM estimates"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM scores"), 3);
}

/* One that cannot be read holds up nobody, and is not tried again for ever. */
static void test_an_unreadable_attempt_is_put_aside(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	size_t n, n_runs;

	add_runs(store, START_NS, 0, 12);
	assert_int_equal(raw_sql(f->db, "UPDATE attempts SET exit_code = 9e15 WHERE id = 2"
					" RETURNING 1"),
			 1);
	must(learning_catch_up(store, 0, &n, &err), &err);
	assert_int_equal(n, 12);
	must(learning_catch_up(store, 0, &n, &err), &err);
	assert_int_equal(n, 0);
	analyze(store, 1, &n_runs);
	assert_int_equal(n_runs, 11);
}

/* The look-back is for finding. What is believed is judged by all that came after. */
static void test_old_patterns_are_judged_by_all_later_runs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	struct err err = ERR_INIT;
	size_t n_runs;

	add_runs(store, START_NS, 0, 16);
	analyze(store, 1, &n_runs);
	assert_int_equal(n_runs, 16);
	add_runs(store, START_NS, 16, 12);
	analyze(store, START_NS + 26 * HOUR_NS, &n_runs);
	assert_int_equal(n_runs, 2);
	must(store_list_patterns(store, &list, &err), &err);
	assert_non_null(find_rule(&list));
	assert_int_equal(find_rule(&list)->n_later, 12);
	assert_string_equal(find_rule(&list)->grade, "confirmed");
}

/* A retry of a run that the rule was found on is no news, when that one is not looked at either. */
static void test_a_retry_at_the_edge_judges_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	struct err err = ERR_INIT;
	size_t n_runs;

	add_runs(store, START_NS, 0, 16);
	analyze(store, 1, &n_runs);
	add_run(store, START_NS, 16, true, 600);
	raw_sql(f->db, "UPDATE attempts SET input_hash ="
		       " (SELECT input_hash FROM attempts WHERE id = 16) WHERE id = 17");
	analyze(store, START_NS + 20 * HOUR_NS, &n_runs);
	must(store_list_patterns(store, &list, &err), &err);
	assert_non_null(find_rule(&list));
	assert_int_equal(find_rule(&list)->n_later, 0);
}

/* For old patterns only runs of their classes are read: memory does not grow with the record. */
static void test_old_runs_of_other_classes_are_not_read(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(learning_release) struct learning l;
	struct err err = ERR_INIT;
	size_t n_runs;

	add_runs(store, START_NS, 0, 16);
	analyze(store, 1, &n_runs);
	add_runs(store, START_NS, 16, 12);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	assert_int_equal(raw_sql(f->db, "UPDATE runs SET class_command = 77 WHERE attempt > 16"
					" AND attempt <= 22 RETURNING 1"),
			 1);
	learning_init(&l, 5);
	must(learning_read(store, START_NS + 26 * HOUR_NS, &l, &err), &err);
	/* Of 28, 16 were seen, 6 are others, 2 are new; and one ended in the hour before. */
	assert_int_equal(l.n_older, 4 + 1);
	assert_int_equal(l.runs.n, 6 + 1);
}

static void test_estimate_of_a_command(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	const char *argv[] = { "./train.py", "--fast", NULL };
	const struct sheet_spec sheet = { .num = 1, .argv = argv, .ranks = 1 };
	const struct job_spec spec = { .sheets = &sheet, .n_sheets = 1 };
	const struct learning_question own = { .spec = &spec,
					       .uid = 1000,
					       .input_bytes = U64_UNKNOWN };
	const struct learning_question other = { .spec = &spec,
						 .uid = 1001,
						 .input_bytes = U64_UNKNOWN };
	struct learning_answer answer;
	struct err err = ERR_INIT;

	must(learning_estimate(store, &own, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 0);
	assert_true(isnan(answer.estimate.peak_rss_mb));
	for (unsigned i = 0; i < 4; i++)
		add_run(store, START_NS, i, false, 100 + (i + 3) % 4);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	must(learning_estimate(store, &own, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 4);
	assert_int_equal(answer.estimate.rung, RUNG_PROGRAM); /* recorded with another input */
	assert_true(answer.estimate.peak_rss_mb == 103);
	assert_int_equal(answer.calibration.n_peak, 3);
	assert_int_equal(answer.calibration.n_peak_covered, 3); /* the first was the largest */
	must(learning_estimate(store, &other, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 0); /* of another user */
}

static void note_anomaly(struct store *store, unsigned hour, enum anomaly_type type)
{
	CLEANUP(attempt_release) struct attempt a;
	struct episode e;
	struct err err = ERR_INIT;
	char id[32];

	snprintf(id, sizeof(id), "job-%u", hour);
	attempt_init(&a);
	must(store_read_progress(store, id, 1, &a, &err), &err);
	episode_init(&e);
	e.worst.type = type;
	e.began_wall_ns = START_NS + hour * HOUR_NS;
	episode_set_job(&e, id);
	snprintf(e.name, sizeof(e.name), "%s/%s/1", anomaly_type_name(type), id);
	must(write_anomaly(store, a.id, &e, EPISODE_BEGAN, &err), &err);
}

static void test_what_is_usual(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct sheet_record sheet = { .num = 1, .command = "./train.py --fast" };
	struct attempt a = make_attempt("now");
	struct detect_usual usual;
	struct err err = ERR_INIT;

	a.total_sheets = 1;
	a.sheets = &sheet;
	a.n_sheets = 1;
	a.started_wall_ns = START_NS + 6 * HOUR_NS;
	add_run(store, START_NS, 0, false, 200);
	add_run(store, START_NS, 1, false, 300);
	add_run(store, START_NS, 2, true, 900); /* which did not go well */
	must(learning_catch_up(store, 0, NULL, &err), &err);
	must(learning_usual(store, &a, &usual, &err), &err);
	assert_string_equal(usual.job_id, "now");
	assert_true(isnan(usual.cpu_percent) && isnan(usual.wall_seconds)); /* of two only */
	assert_false(u64_known(usual.rss_bytes));

	add_run(store, START_NS, 3, false, 250);
	add_run(store, START_NS, 4, false, 700); /* in which something went in circles */
	note_anomaly(store, 4, ANOMALY_RUNAWAY_PROCESS);
	add_run(store, START_NS, 5, false, 800);
	note_anomaly(store, 5, ANOMALY_MEMORY_LEAK);
	add_run(store, START_NS, 7, false, 950); /* later */
	must(learning_catch_up(store, 0, NULL, &err), &err);
	must(learning_usual(store, &a, &usual, &err), &err);
	assert_true(usual.cpu_percent == 800);
	assert_true(usual.wall_seconds == 1800);
	assert_true(usual.cpu_seconds == 800);
	assert_int_equal(usual.rss_bytes, 350 * MIB);
	a.sheets = NULL;
	a.n_sheets = 0;
	attempt_release(&a);
}

/* The exact command is the same for all; what it needed is for who ran it. */
static void test_runs_of_others(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct sheet_record sheet = { .num = 1, .command = "./train.py --fast" };
	struct attempt a = make_attempt("another");
	struct learning_answer answer;
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 4; i++)
		add_run(store, START_NS, i, false, 100 + (i + 3) % 4);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	a.total_sheets = 1;
	a.sheets = &sheet;
	a.n_sheets = 1;
	must(learning_estimate_attempt(store, &a, true, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 4);
	assert_int_equal(answer.estimate.rung, RUNG_EXACT);
	assert_int_equal(answer.calibration.n_peak, 3);
	a.uid = 1001;
	must(learning_estimate_attempt(store, &a, false, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 4);
	must(learning_estimate_attempt(store, &a, true, &answer, &err), &err);
	assert_int_equal(answer.estimate.n_runs, 0);
	assert_true(isnan(answer.estimate.peak_rss_mb));
	assert_int_equal(answer.calibration.n_peak, 0);
	attempt_release(&a);
}

/* What is scored is what the user would have been told, and nobody is told of others' runs. */
static void test_scored_as_answered(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 5; i++)
		add_run(store, START_NS, i, false, 100 + (i + 3) % 4);
	raw_sql(f->db, "UPDATE attempts SET uid = 1001 WHERE id = 4");
	must(learning_catch_up(store, 0, NULL, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM estimates"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM estimates WHERE attempt = 4"), 0);
	assert_int_equal(raw_sql(f->db, "SELECT n_runs FROM estimates WHERE attempt = 5"), 3);
}

/* However often the program ran with other arguments since: what this very command needed counts.
 */
static void test_an_old_exact_class_is_found(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(run_list_release) struct run_list runs = { .arena = ARENA_INIT };
	struct run_kind kind = { .uid = U64_UNKNOWN,
				 .until_wall_ns = U64_UNKNOWN,
				 .limit = ESTIMATE_MAX_RUNS };
	struct err err = ERR_INIT;
	struct estimate e;

	for (unsigned i = 0; i < 4; i++)
		add_run(store, START_NS, i, false, 100 + (i + 3) % 4);
	must(learning_catch_up(store, 0, NULL, &err), &err);
	must(store_list_runs(store, &all_runs, &runs, &err), &err);
	/* Each of them 500 times again, as sheets of other commands, later. */
	assert_int_equal(
		raw_sql(f->db,
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
			" INSERT INTO runs (attempt, sheet_num, is_whole, outcome, class_exact,"
			" class_masked, class_program, class_command, ended_wall_ns, peak_rss_mb)"
			" SELECT attempt, 1 + i, 0, 'success', i, i, class_program, 0,"
			" ended_wall_ns + 86400000000000, 9000 FROM runs, n WHERE sheet_num = 1"
			" RETURNING 1"),
		1);
	kind.class = &runs.items[0].class;
	must(learning_estimate_kind(store, &kind, &e, &err), &err);
	assert_int_equal(e.rung, RUNG_EXACT);
	assert_int_equal(e.n_runs, 4);
	assert_true(e.peak_rss_mb == 103);
}

/* A correlation has another score after every run: only another state is a change. */
static void test_a_score_is_no_change(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(free_ptr) struct learning_change *scored = NULL;
	CLEANUP(free_ptr) struct learning_change *retired = NULL;
	CLEANUP(learning_release) struct learning l;
	CLEANUP(pattern_list_release) struct pattern_list stored = { .arena = ARENA_INIT };
	struct err err = ERR_INIT;
	struct pattern *p = pattern_list_add(&stored);
	size_t n;

	p->type = PATTERN_CORRELATION;
	p->name = "memory_vs_failure memory_bin:<256MB";
	p->confidence = 0.7;
	must(store_put_patterns(store, &stored, &err), &err);
	learning_init(&l, 5);
	must(learning_read(store, START_NS, &l, &err), &err);
	assert_int_equal(l.patterns.n, 1);
	l.patterns.items[0].confidence = 0.8;
	assert_int_equal(learning_list_changes(&l, store, &scored, &n), 0);
	assert_int_equal(n, 0);
	l.patterns.items[0].retired_wall_ns = 1;
	p = pattern_list_add(&l.patterns);
	p->type = PATTERN_CORRELATION;
	p->name = "another";
	assert_int_equal(learning_list_changes(&l, store, &retired, &n), 0);
	assert_int_equal(n, 2);
	assert_ptr_equal(retired[0].pattern, &l.patterns.items[0]);
	assert_ptr_equal(retired[1].pattern, &l.patterns.items[1]);
	assert_false(u64_known(retired[1].uid));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_has_ended_becomes_a_run),
		TEST(test_noted_twice),
		TEST(test_an_unreadable_attempt_is_put_aside),
		TEST(test_old_patterns_are_judged_by_all_later_runs),
		TEST(test_a_retry_at_the_edge_judges_nothing),
		TEST(test_old_runs_of_other_classes_are_not_read),
		TEST(test_estimate_of_a_command),
		TEST(test_what_is_usual),
		TEST(test_runs_of_others),
		TEST(test_scored_as_answered),
		TEST(test_an_old_exact_class_is_found),
		TEST(test_a_score_is_no_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "learning_fixture.h"

#include "base/clock.h"
#include "base/loop.h"
#include "base/unknown.h"
#include "daemon/learner.h"

#define MINUTE_NS UINT64_C(60000000000)
#define BEGIN_NS (100 * MINUTE_NS)

/* ---- when ---- */

static void test_first_after_one_interval(void **state)
{
	struct learn_plan p;

	(void)state;
	learn_plan_begin(&p, 30, BEGIN_NS);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS), 30 * MINUTE_NS);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 29 * MINUTE_NS), MINUTE_NS);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 30 * MINUTE_NS), 0);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 90 * MINUTE_NS), 0);
	assert_false(learn_plan_note_end(&p, false, BEGIN_NS + 91 * MINUTE_NS));
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 91 * MINUTE_NS), 30 * MINUTE_NS);
}

static void test_a_failure_is_told_once_and_tried_again(void **state)
{
	struct learn_plan p;

	(void)state;
	learn_plan_begin(&p, 30, BEGIN_NS);
	assert_true(learn_plan_note_end(&p, true, BEGIN_NS));
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS), LEARN_RETRY_NS);
	assert_false(learn_plan_note_end(&p, true, BEGIN_NS + LEARN_RETRY_NS));
	assert_true(learn_plan_note_end(&p, false, BEGIN_NS + 2 * LEARN_RETRY_NS));
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 2 * LEARN_RETRY_NS), 30 * MINUTE_NS);
}

static void test_another_interval_counts_what_has_passed(void **state)
{
	struct learn_plan p;

	(void)state;
	learn_plan_begin(&p, 30, BEGIN_NS);
	p.interval_ns = 5 * UINT64_C(60000000000);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 2 * MINUTE_NS), 3 * MINUTE_NS);
	assert_int_equal(learn_plan_wait_ns(&p, BEGIN_NS + 9 * MINUTE_NS), 0);
}

/* ---- what ---- */

struct heard {
	struct loop *loop;
	size_t n_news, n_rules;
	uint64_t uid; /* of the last rule */
	uint64_t num; /* of the analysis that we wait for */
	size_t n_runs;
	bool has_failed;
	struct err why;
};

static void on_news(void *ctx, const struct pattern *pattern, uint64_t uid)
{
	struct heard *heard = ctx;

	heard->n_news++;
	if (!pattern->grade)
		return;
	heard->n_rules++;
	heard->uid = uid;
}

static void on_analysis(void *ctx, uint64_t num, const struct learning *l, const struct err *err)
{
	struct heard *heard = ctx;

	heard->has_failed = !l;
	heard->n_runs = l ? l->analysis.n_runs : 0;
	heard->why = *err;
	if (num == heard->num)
		loop_stop(heard->loop);
}

static struct learner *make_learner(struct heard *heard, const char *db)
{
	const struct learner_options options = {
		.loop = heard->loop,
		.db = db,
		.on_news = on_news,
		.on_analysis = on_analysis,
		.ctx = heard,
		.interval_minutes = 30,
		.min_jobs = 5,
	};
	struct learner *l = learner_new(&options);

	assert_non_null(l);
	return l;
}

/* Waits for an analysis. Returns what it told. */
static struct heard analyze(struct heard *heard, struct learner *l)
{
	heard->n_news = heard->n_rules = 0;
	heard->num = learner_analyze_now(l);
	loop_run(heard->loop);
	return *heard;
}

static void end(struct heard *heard, struct learner *l)
{
	learner_leave(l);
	heard->loop = loop_free(heard->loop);
	learner_free(l);
}

static uint64_t days_ago(unsigned n)
{
	return clock_wall_ns() - n * 24 * HOUR_NS;
}

static void test_an_analysis_tells_what_is_new(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct heard heard = { .loop = loop_new() }, told;
	struct learner *l = make_learner(&heard, f->db);

	add_runs(store, days_ago(2), 0, 16);
	told = analyze(&heard, l);
	assert_false(told.has_failed);
	assert_int_equal(told.n_runs, 16);
	assert_true(told.n_rules > 0);
	assert_int_equal(told.uid, 1000);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM runs"), 16);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) > 0 FROM patterns"), 1);
	told = analyze(&heard, l);
	assert_int_equal(told.n_news, 0); /* found again is no news */
	add_runs(store, days_ago(1), 16, 12);
	told = analyze(&heard, l);
	assert_true(told.n_rules > 0); /* confirmed */
	end(&heard, l);
}

/* One that goes on does not know what was asked for after it began. */
static void test_who_asks_meanwhile_waits_for_the_next(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct heard heard = { .loop = loop_new() };
	struct learner *l = make_learner(&heard, f->db);

	assert_int_equal(learner_analyze_now(l), 1);
	assert_int_equal(learner_analyze_now(l), 2);
	heard.num = learner_analyze_now(l);
	assert_int_equal(heard.num, 2);
	loop_run(heard.loop);
	assert_false(heard.has_failed);
	end(&heard, l);
}

static void test_failure(void **state)
{
	struct fixture *f = *state;
	struct heard heard = { .loop = loop_new() }, told;
	struct learner *l;
	char path[512];

	snprintf(path, sizeof(path), "%s.d/none.db", f->db);
	l = make_learner(&heard, path);
	told = analyze(&heard, l);
	assert_true(told.has_failed);
	assert_non_null(strstr(told.why.text, "none.db"));
	end(&heard, l);
}

struct look_of_learner {
	struct fixture *f;
	struct loop *loop;
	unsigned n_left;
	long long wanted;
};

static void look_at_runs(void *ctx)
{
	struct look_of_learner *look = ctx;

	if (--look->n_left == 0 ||
	    raw_sql(look->f->db, "SELECT count(*) FROM runs") == look->wanted)
		loop_stop(look->loop);
}

/* What ended before it began, and then what ends; more than a slice at a time. */
static void test_ends_become_runs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct heard heard = { .loop = loop_new() };
	struct look_of_learner look = { .f = f, .loop = heard.loop, .n_left = 300, .wanted = 40 };
	struct loop_timer *timer = loop_timer_new(heard.loop, look_at_runs, &look);
	struct learner *l;

	add_runs(store, days_ago(3), 0, 40);
	l = make_learner(&heard, f->db);
	loop_timer_set(timer, 100, 100);
	loop_run(heard.loop);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM runs"), 40);
	add_runs(store, days_ago(3), 40, 1);
	look.wanted = 41;
	learner_note_end(l);
	loop_run(heard.loop);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM runs"), 41);
	end(&heard, l);
}

/* Somebody who leaves while it works waits for it, and hears nothing. */
static void test_leaving_while_it_works(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct heard heard = { .loop = loop_new() };
	struct learner *l = make_learner(&heard, f->db);

	add_runs(store, days_ago(2), 0, 16);
	learner_analyze_now(l);
	end(&heard, l);
	assert_int_equal(heard.n_news, 0);
	assert_int_equal(heard.n_runs, 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_after_one_interval),
		cmocka_unit_test(test_a_failure_is_told_once_and_tried_again),
		cmocka_unit_test(test_another_interval_counts_what_has_passed),
		TEST(test_an_analysis_tells_what_is_new),
		TEST(test_who_asks_meanwhile_waits_for_the_next),
		TEST(test_failure),
		TEST(test_ends_become_runs),
		TEST(test_leaving_while_it_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What a daemon answers: the past of something, page by page, and nothing while it is paused.
 */
#include "scene_fixture.h"

#include "tui/feed.h"

#define ID 5

/* One of its questions is under way. */
static struct daemon_feed *feed_asking(struct scene *s, enum question question)
{
	struct daemon_feed *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->scene = s;
	f->asked[question].id = ID;
	return f;
}

static void answer(struct daemon_feed *f, enum question question, int r, const char *json)
{
	static const struct rpc_value_limits limits = { 16, 100 };
	struct rpc_value *result = NULL;
	struct err err = ERR_INIT;

	f->asked[question].id = ID;
	if (r == 0)
		assert_int_equal(rpc_value_parse(json, strlen(json), &limits, &result, NULL), 0);
	daemon_feed_on_answer(f, ID, r, result, &err);
	rpc_value_free(result);
}

/* So many seconds before what was seen first. */
static void answer_sample(struct daemon_feed *f, int seconds, const char *next_ns)
{
	char json[256];

	snprintf(json, sizeof(json),
		 "{\"samples\":[{\"timestamp\":%d,\"pid\":11,\"start_ticks\":11,\"rss_mb\":7,"
		 "\"sheet_num\":1}],\"next_ns\":%s}",
		 1700000001 - seconds, next_ns);
	answer(f, ASK_SAMPLES, 0, json);
}

static bool is_recalled(const struct scene *s)
{
	return map_get(&s->recalled, scene_selected(s)->id, NULL);
}

static void test_pages(void **state)
{
	struct scene *s = *state;
	struct daemon_feed *f = feed_asking(s, ASK_SAMPLES);
	const struct track *track;

	press(s, "/worker\n");
	assert_true(recall_begin(&f->recall, s, scene_selected(s), SECOND));
	answer_sample(f, 50, "1699999980000000000");
	assert_true(f->wants_page);
	assert_true(f->recall.since_wall_ns == UINT64_C(1699999980000000000));
	assert_false(is_recalled(s));
	answer_sample(f, 10, "null");
	assert_false(f->wants_page);
	assert_true(is_recalled(s));
	track = tracks_find(&s->tracks, scene_selected(s)->id);
	assert_int_equal(track->n, 3 + 2);
	assert_true(track_rss(track, 0) == 7.0 * MB && track_rss(track, 1) == 7.0 * MB);
	free(f);
}

/* A daemon that has always one more, or goes in circles, is not asked for ever. */
static void test_endless_pages(void **state)
{
	struct scene *s = *state;
	struct daemon_feed *f = feed_asking(s, ASK_SAMPLES);
	char next[32];
	int n = 0;

	press(s, "/worker\n");
	assert_true(recall_begin(&f->recall, s, scene_selected(s), SECOND));
	do {
		snprintf(next, sizeof(next), "%llu",
			 (unsigned long long)f->recall.since_wall_ns + 1);
		answer_sample(f, 50, next);
		n++;
	} while (f->wants_page && n < 100);
	assert_in_range(n, 2, 20);
	assert_true(is_recalled(s));
	assert_true(recall_begin(&f->recall, s, scene_selected(s), SECOND));
	f->recall_pages = 0;
	snprintf(next, sizeof(next), "%llu", (unsigned long long)f->recall.since_wall_ns);
	answer_sample(f, 50, next);
	assert_false(f->wants_page);
	free(f);
}

/* What could not be had is asked for again. */
static void test_refused(void **state)
{
	struct scene *s = *state;
	struct daemon_feed *f = feed_asking(s, ASK_SAMPLES);

	press(s, "/worker\n");
	assert_true(recall_begin(&f->recall, s, scene_selected(s), SECOND));
	answer(f, ASK_SAMPLES, -EBUSY, NULL);
	assert_false(is_recalled(s));
	assert_true(f->refused_boot_ns > 0);
	answer_sample(f, 10, "null");
	assert_true(is_recalled(s));
	free(f);
}

/* Of more than is worth it the rest is left out, but no part of a moment. */
static void test_bound(void **state)
{
	struct scene *s = *state;
	struct proc_sample p;
	struct recall r;
	uint64_t wall_ns = NOON - 100 * SECOND;

	press(s, "/worker\n");
	assert_true(recall_begin(&r, s, scene_selected(s), SECOND));
	proc_sample_init(&p);
	for (int i = 0; i < 100000 && !recall_is_full(&r, wall_ns + 1); i++)
		recall_add(&r, wall_ns, 0, &p);
	assert_true(recall_is_full(&r, wall_ns + 1));
	assert_false(recall_is_full(&r, wall_ns));
}

/* The header is as old as what it stands above. */
static void test_paused(void **state)
{
	static const char two[] = "[{\"job_id\":\"a\",\"status\":\"running\",\"attempt\":1},"
				  "{\"job_id\":\"b\",\"status\":\"queued\"}]";
	struct scene *s = *state;
	struct daemon_feed *f = feed_asking(s, ASK_JOBS);

	press(s, "p");
	answer(f, ASK_JOBS, 0, two);
	answer(f, ASK_ACTIVE, 0, "{\"anomalies_active\":[{}]}");
	assert_int_equal(s->listed.n_queued, 0);
	assert_non_null(strstr(draw_text(s, 80, 24), "\n2 jobs, 2 sheets, pressure none\n"));
	press(s, "p");
	answer(f, ASK_JOBS, 0, two);
	answer(f, ASK_ACTIVE, 0, "{\"anomalies_active\":[{}]}");
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "\n1 job, 1 queued, 0 sheets, pressure none, 1 anomaly\n"));
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pages), TEST(test_endless_pages), TEST(test_refused),
		TEST(test_bound), TEST(test_paused),
	};

	return cmocka_run_group_tests_name("tui_recall", tests, NULL, NULL);
}

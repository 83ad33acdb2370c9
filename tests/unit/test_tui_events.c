/*
 * What happened, as lines of the timeline and as flags.
 */
#include "scene_fixture.h"

static void add_change(struct scene *s, const struct episode *e, enum episode_change change,
		       uint64_t wall_ns)
{
	feed_add_item(s, &(struct records_item){
				 .wall_ns = wall_ns, .episode = e, .episode_change = change });
}

static void test_anomalies(void **state)
{
	struct scene *s = *state;
	struct episode episode, *e = &episode;
	const char *text;

	assert_null(strstr(draw_text(s, 80, 24), "anomalies")); /* nobody has counted them */
	episode_init(e);
	e->worst.type = ANOMALY_MEMORY_LEAK;
	e->worst.severity = SEVERITY_HIGH;
	snprintf(e->worst.text, sizeof(e->worst.text), "python grows by 60 MB a minute");
	episode_set_job(e, "train");
	e->began_wall_ns = NOON;
	s->past.n_anomalies = 2;
	add_change(s, e, EPISODE_BEGAN, NOON);
	assert_int_equal(scene_event(s, 0)->kind, EVENT_KIND_ANOMALY);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "2 jobs, 2 sheets, pressure none, 2 anomalies\n"));
	assert_non_null(strstr(
		text, "22:13:20 python grows by 60 MB a minute (memory_leak, high, of train)\n"));
}

/* That a kill is over is known when no other has come for a while: its line stands there. */
static void test_end_of_moment(void **state)
{
	struct scene *s = *state;
	struct episode e;

	episode_init(&e);
	e.worst.type = ANOMALY_OOM_KILL;
	e.began_wall_ns = e.ended_wall_ns = NOON;
	snprintf(e.worst.text, sizeof(e.worst.text), "the kernel has killed it");
	add_event(s, EVENT_KIND_JOB, "before");
	add_change(s, &e, EPISODE_CLEARED, NOON + 70 * SECOND);
	assert_non_null(strstr(draw_text(s, 80, 24), "before\n22:14:30 cleared: the kernel has"));
	assert_true(s->past.flags[0].ended_ns == NOON + 70 * SECOND);
}

/* Which attempt it was is said where there are several. */
static void test_attempts(void **state)
{
	struct scene *s = *state;
	const char *text;

	tell(s, "job.started", 1700000000, "{\"job_id\":\"twin\",\"attempt\":1}", false);
	tell(s, "sheet.started", 1700000000, "{\"job_id\":\"alone\",\"attempt\":7,\"sheet_num\":1}",
	     false);
	assert_non_null(strstr(draw_text(s, 80, 24), "job.started of twin\n"));
	tell(s, "job.started", 1700000001, "{\"job_id\":\"twin\",\"attempt\":2}", false);
	tell(s, "sheet.failed", 1700000002,
	     "{\"job_id\":\"twin\",\"attempt\":2,\"sheet_num\":1,\"reason\":\"exit code 1\"}",
	     false);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "job.started of twin#1\n"));
	assert_non_null(strstr(text, "job.started of twin#2\n"));
	assert_non_null(strstr(text, "sheet.failed of twin#2, sheet 1: exit code 1\n"));
	assert_non_null(strstr(text, "sheet.started of alone, sheet 1\n"));
	feed_add_item(s,
		      &(struct records_item){
			      .wall_ns = NOON + 3 * SECOND,
			      .job_id = "twin",
			      .attempt_num = 3,
			      .attempt = &(struct attempt){ .job_id = "twin",
							    .attempt_num = 3,
							    .started_wall_ns = NOON + 3 * SECOND },
			      .change = CHANGE_JOB_STARTED });
	assert_non_null(strstr(draw_text(s, 80, 24), "job.started of twin#3\n"));
}

/* Who goes back to the jobs has the newest before them again. */
static void test_back_to_jobs(void **state)
{
	struct scene *s = *state;

	for (int i = 0; i < 20; i++)
		add_event(s, EVENT_KIND_JOB, "something");
	draw_text(s, 80, 24);
	press(s, "\tg");
	assert_non_null(strstr(draw_text(s, 80, 24), "WHAT HAPPENED (earlier)\n"));
	press(s, "\t");
	assert_non_null(strstr(draw_text(s, 80, 24), "WHAT HAPPENED\n"));
}

/* One that is told late stands where it belongs, and what is read does not move. */
static void test_late_event(void **state)
{
	struct scene *s = *state;
	struct scene_event event = { .kind = EVENT_KIND_JOB };

	for (unsigned i = 0; i < 5; i++) {
		event.wall_ns = NOON + 10 * i * SECOND;
		snprintf(event.text, sizeof(event.text), "event %u.", i);
		scene_add_event(s, &event);
	}
	press(s, "\tk");
	event.wall_ns = NOON + 15 * SECOND;
	snprintf(event.text, sizeof(event.text), "late.");
	scene_add_event(s, &event);
	assert_string_equal(scene_event(s, 3)->text, "late.");
	assert_string_equal(scene_event(s, 4)->text, "event 1.");
	assert_string_equal(scene_event(s, (size_t)s->view.event_at)->text, "event 3.");
}

/* What a daemon tells looks as it does when it is replayed, and is told once. */
static void test_daemon_events(void **state)
{
	struct scene *s = *state;
	struct proc_event exited = { .wall_ns = NOON,
				     .key = { 5, 1 },
				     .job_id = "a",
				     .sheet_num = 2,
				     .type = EVENT_EXIT,
				     .status = { 3, -1 } };
	struct proc_event killed = { .wall_ns = NOON,
				     .key = { 5, 1 },
				     .job_id = "a",
				     .sheet_num = 2,
				     .type = EVENT_EXIT,
				     .status = { -1, 9 } };
	struct proc_event ended = { .wall_ns = NOON,
				    .key = { 5, 1 },
				    .job_id = "a",
				    .sheet_num = 2,
				    .type = EVENT_EXIT,
				    .status = { 0, -1 } };
	const struct {
		const char *json;
		const struct proc_event *event;
	} rows[] = {
		{ "{\"pid\":5,\"job_id\":\"a\",\"sheet_num\":2,\"exit_code\":3,\"signal_num\":null}",
		  &exited },
		{ "{\"pid\":5,\"job_id\":\"a\",\"sheet_num\":2,\"exit_code\":null,\"signal_num\":9}",
		  &killed },
		{ "{\"pid\":5,\"job_id\":\"a\",\"sheet_num\":2,\"exit_code\":0,\"signal_num\":null}",
		  &ended },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct event_row row = { 0 };
		enum event_kind live;

		tell(s, "process.exit", 1700000000, rows[i].json, false);
		live = scene_event(s, 0)->kind;
		row.event = *rows[i].event;
		feed_add_item(
			s, &(struct records_item){ .wall_ns = NOON, .job_id = "a", .event = &row });
		assert_int_equal(scene_event(s, 0)->kind, live);
		assert_string_equal(scene_event(s, 0)->text, scene_event(s, 1)->text);
		assert_int_equal(live == EVENT_KIND_TROUBLE, i < 2);
	}
	assert_int_equal(s->past.n_events, 6);
	tell(s, "process.exit", 1700000000, rows[0].json, true);
	assert_int_equal(s->past.n_events, 6);
	tell(s, "process.exit", 1700000001, rows[0].json, true);
	assert_int_equal(s->past.n_events, 7);
}

/* Of another job neither the events nor the flags are of interest. */
static void test_daemon_flags(void **state)
{
	static const char began[] =
		"{\"episode\":\"x\",\"pid\":11,\"start_ticks\":11,\"job_id\":\"train\",\"began\":"
		"1700000000,\"ended\":null,\"peak\":1700000007,\"anomaly_type\":\"zombie\",\"severity\":\"low\",\"description\":\"it waits\"}";
	static const char cleared[] =
		"{\"episode\":\"x\",\"pid\":11,\"start_ticks\":11,\"job_id\":\"train\",\"began\":"
		"1700000000,\"ended\":1700000001,\"change\":\"cleared\"}";
	struct scene *s = *state;

	s->job_id = "build";
	tell(s, "monitor.anomaly", 1700000000, began, false);
	assert_int_equal(scene_count_flags(s), 0);
	s->job_id = "train";
	tell(s, "monitor.anomaly", 1700000000, began, false);
	assert_int_equal(scene_count_flags(s), 1);
	press(s, "/worker\n\n");
	assert_non_null(strstr(
		draw_text(s, 80, 30),
		"\nflagged       it waits\n              zombie, low, since 22:13:20; this as of 22:13:27"));
	tell(s, "monitor.anomaly", 1700000001, cleared, false);
	assert_int_equal(scene_count_flags(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 30), "\nwas flagged   "));
}

/* Births by the thousand leave what else happened where it is; they can be left out. */
static void test_flood_of_births(void **state)
{
	struct scene *s = *state;
	char text[64];

	add_event(s, EVENT_KIND_ANOMALY, "it grows");
	for (int i = 0; i < 3 * SCENE_EVENTS; i++) {
		snprintf(text, sizeof(text), "birth %d.", i);
		add_event(s, EVENT_KIND_PROCESS, text);
	}
	add_event(s, EVENT_KIND_JOB, "job over");
	assert_int_equal(s->past.n_events, SCENE_EVENTS);
	assert_string_equal(scene_event(s, 1)->text, "birth 1535.");
	assert_string_equal(scene_event(s, SCENE_EVENTS - 2)->text, "birth 1026.");
	assert_string_equal(scene_event(s, SCENE_EVENTS - 1)->text, "it grows");
	press(s, "e");
	assert_non_null(
		strstr(draw_text(s, 80, 24), "WHAT HAPPENED but births and quiet deaths (e)"));
	assert_int_equal(scene_count_events(s), 2);
	assert_string_equal(scene_event(s, 1)->text, "it grows");
	press(s, "\tk");
	assert_non_null(strstr(draw_text(s, 80, 24), "\n>22:13:20 it grows\n22:13:20 job over\n"));
	add_event(s, EVENT_KIND_PROCESS, "birth"); /* not shown: nothing moves */
	add_event(s, EVENT_KIND_JOB, "job begun");
	assert_int_equal(s->view.event_at, 2);
	press(s, "e");
	assert_int_equal(scene_count_events(s), SCENE_EVENTS);
}

/* And so much else that nobody would see births: some of these are kept. */
static void test_flood_of_others(void **state)
{
	struct scene *s = *state;
	size_t n_births = 0;

	for (int i = 0; i < SCENE_EVENTS; i++)
		add_event(s, EVENT_KIND_PROCESS, "birth");
	for (int i = 0; i < 2 * SCENE_EVENTS; i++)
		add_event(s, EVENT_KIND_JOB, "job");
	for (size_t i = 0; i < SCENE_EVENTS; i++)
		n_births += scene_event(s, i)->kind == EVENT_KIND_PROCESS;
	assert_int_equal(s->past.n_events, SCENE_EVENTS);
	assert_int_equal(n_births, 0); /* all are older than what there is room for */
	for (int i = 0; i < SCENE_EVENTS; i++)
		add_event(s, EVENT_KIND_PROCESS, "birth");
	for (size_t i = 0; i < SCENE_EVENTS; i++)
		n_births += scene_event(s, i)->kind == EVENT_KIND_PROCESS;
	assert_int_equal(n_births, SCENE_EVENTS / 4 + 1);
}

/* The oldest stands at the top of a panel that is full, however it is come to. */
static void test_oldest_is_on_top(void **state)
{
	struct scene *s = *state;
	char text[64];

	for (int i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "event %d.", i);
		add_event(s, EVENT_KIND_JOB, text);
	}
	draw_text(s, 80, 24);
	for (int i = 0; i < 50; i++)
		press(s, "[");
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "WHAT HAPPENED (earlier)\n22:13:20 event 0.\n22:13:20 event 1.\n"));
	for (int i = 0; i < 2 * SCENE_EVENTS; i++)
		add_event(s, EVENT_KIND_JOB, "later.");
	assert_non_null(strstr(draw_text(s, 80, 24), "(earlier)\n22:13:20 later.\n"));
	keys_wheel(s, TUI_KEY_WHEEL_DOWN, s->view.events_y);
	keys_wheel(s, TUI_KEY_WHEEL_UP, s->view.events_y);
	keys_wheel(s, TUI_KEY_WHEEL_DOWN, s->view.events_y);
	assert_int_equal(s->view.events_up, SCENE_EVENTS - s->view.event_rows - 1);
	assert_int_equal(scene_selected_row(s), 0);
	keys_wheel(s, TUI_KEY_WHEEL_DOWN, s->view.jobs_y);
	assert_int_equal(scene_selected_row(s), 1);
	press(s, "g");
	press(s, "\t"); /* of two rows the one that keys act on */
	assert_non_null(strstr(draw_text(s, 80, 24), "\n|- build"));
}

/* Of what is flagged the row says so, and so does each that it is below, folded or not. */
static void test_flagged_rows(void **state)
{
	struct scene *s = *state;
	const struct proc_key its = { 11, 11 };
	const char *text;

	flag(s, "leak", &its, NOON, U64_UNKNOWN);
	text = draw_text(s, 80, 30);
	assert_non_null(strstr(text, "\n-!train"));
	assert_non_null(strstr(text, "\n  -!sheet 1"));
	assert_non_null(strstr(text, "\n    -!10 python train"));
	assert_non_null(strstr(text, "\n       !11 python worker"));
	assert_non_null(strstr(text, "- build"));
	flag(s, "leak", &its, NOON, NOON + SECOND); /* over */
	assert_null(strchr(strstr(draw_text(s, 80, 30), "train"), '!'));
}

/* Numbers with their unit, times as a clock has them, and nothing that was still to come. */
static void test_detail_of_anomaly(void **state)
{
	struct scene *s = *state;
	struct episode episode, *e = &episode;
	const char *text;

	episode_init(e);
	e->worst.type = ANOMALY_MEMORY_SPIKE;
	e->worst.metric_value = e->peak_value = 195.1015625;
	e->worst.threshold = 52.7578125;
	e->after_value = 20480.25;
	e->unit = "MB";
	e->why_cleared = "it is over";
	e->began_wall_ns = e->peak_wall_ns = e->seen_wall_ns = NOON;
	e->ended_wall_ns = NOON + 70 * SECOND;
	add_change(s, e, EPISODE_BEGAN, NOON);
	press(s, "\t\n");
	text = draw_text(s, 80, 60);
	assert_non_null(strstr(text, "metric_value      195.1 MB\nthreshold         52.76 MB\n"));
	assert_non_null(strstr(text, "ended             2023-11-14 22:14:30\n"));
	assert_non_null(strstr(text, "as_of             2023-11-14 22:13:20\n"));
	assert_non_null(strstr(text, "after_value       20480 MB\n"));
	s->source = SOURCE_REPLAY;
	text = draw_text(s, 80, 60);
	assert_non_null(strstr(text, "peak_value        195.1 MB\n"));
	assert_null(strstr(text, "ended  "));
	assert_null(strstr(text, "after_value"));
	assert_null(strstr(text, "it is over"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_detail_of_anomaly), TEST(test_anomalies),
		TEST(test_attempts),	      TEST(test_end_of_moment),
		TEST(test_back_to_jobs),      TEST(test_late_event),
		TEST(test_flood_of_births),   TEST(test_flood_of_others),
		TEST(test_oldest_is_on_top),  TEST(test_flagged_rows),
		TEST(test_daemon_events),     TEST(test_daemon_flags),
	};

	return cmocka_run_group_tests_name("tui_events", tests, NULL, NULL);
}

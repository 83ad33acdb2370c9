/*
 * What keys and clicks do: sorting, ending, walking, pausing, help.
 */
#include "scene_fixture.h"

#include <signal.h>

static void test_sort_menu(void **state)
{
	struct scene *s = *state;

	keys_press(s, TUI_KEY_F6);
	assert_non_null(
		strstr(draw_text(s, 80, 24), "\nsort by: [CPU]  memory   I/O   age   name "));
	keys_press(s, TUI_KEY_RIGHT);
	keys_press(s, TUI_KEY_ENTER);
	assert_int_equal(s->sort, SORT_MEMORY);
	assert_int_equal(s->overlay, OVERLAY_NONE);
	keys_press(s, TUI_KEY_F6);
	keys_press(s, TUI_KEY_LEFT);
	keys_press(s, TUI_KEY_LEFT);
	assert_int_equal(s->menu_at, SORT_NAME);
	keys_press(s, TUI_KEY_ESCAPE);
	assert_int_equal(s->sort, SORT_MEMORY);
	keys_press(s, TUI_KEY_F6);
	press(s, "T");
	assert_int_equal(s->sort, SORT_AGE);
	assert_int_equal(s->overlay, OVERLAY_NONE);
}

/* A click on a title sorts by it, if one can. */
static void test_click_title(void **state)
{
	struct scene *s = *state;
	const char *line = strstr(draw_text(s, 80, 24), "\nJOB / PROCESS") + 1;
	int memory = (int)(strstr(line, " MEM ") - line) + 1 - 2; /* the mark is one column */

	keys_click(s, memory, s->view.jobs_y - 1);
	assert_int_equal(s->sort, SORT_MEMORY);
	keys_click(s, 0, s->view.jobs_y - 1);
	assert_int_equal(s->sort, SORT_NAME);
	keys_click(s, 31, s->view.jobs_y - 1); /* the state */
	assert_int_equal(s->sort, SORT_NAME);
	keys_click(s, memory, s->view.jobs_y - 2);
	assert_int_equal(s->sort, SORT_NAME);
}

static void test_ending(void **state)
{
	struct scene *s = *state;

	press(s, "x");
	assert_int_equal(s->overlay, OVERLAY_CONFIRM);
	assert_int_equal(s->wish.kind, WISH_CANCEL_JOB);
	assert_string_equal(s->wish.job_id, "build");
	press(s, "n");
	assert_int_equal(s->wish.kind, WISH_NONE);
	press(s, "/sshd\nx");
	assert_int_equal(s->wish.kind, WISH_SIGNAL);
	assert_int_equal(s->wish.key.pid, 30);
	assert_int_equal(s->wish.key.start_ticks, 30);
	keys_press(s, TUI_KEY_ENTER); /* only a y is a yes */
	assert_int_equal(s->wish.kind, WISH_NONE);
	press(s, "xy");
	assert_int_equal(s->wish.kind, WISH_SIGNAL);
	assert_int_equal(s->wish.signal, SIGTERM);
	assert_int_equal(s->overlay, OVERLAY_NONE);
	press(s, "xk"); /* up, a moment ago */
	assert_int_equal(s->overlay, OVERLAY_CONFIRM);
	assert_non_null(
		strstr(draw_text(s, 80, 24), "\nsend SIGKILL to pid 30 sshd? (y/n)  t TERM"));
	press(s, "j");
	assert_int_equal(s->wish.kind, WISH_NONE);
	press(s, "xky");
	assert_int_equal(s->wish.kind, WISH_SIGNAL);
	assert_int_equal(s->wish.signal, SIGKILL);
	s->wish.kind = WISH_NONE;
	press(s, "kx"); /* processes of no job */
	assert_int_equal(s->wish.kind, WISH_NONE);
	assert_true(s->message[0]);
	s->source = SOURCE_REPLAY; /* what is over cannot be ended */
	press(s, "jx");
	assert_int_equal(s->wish.kind, WISH_NONE);
	press(s, "q");
	assert_int_equal(s->wish.kind, WISH_QUIT);
}

/* From the first key on it stays with what it was on, wherever that goes. */
static void test_cursor_follows(void **state)
{
	struct scene *s = *state;
	CLEANUP(snapshot_release) struct snapshot snap;

	press(s, "t");
	assert_int_equal(scene_selected(s)->p->key.pid, 30);
	snapshot_init(&snap);
	fill_host(&snap, 4);
	snap.processes[4].cpu_percent = 1;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(scene_selected_row(s), 4);
	press(s, "s");
	assert_int_equal(s->wish.kind, WISH_TRACE);
	assert_int_equal(s->wish.key.pid, 30);
	assert_int_equal(s->wish.key.start_ticks, 30);
}

static void test_clicks(void **state)
{
	struct scene *s = *state;
	struct grid g = GRID_INIT;

	assert_int_equal(grid_resize(&g, 80, 24), 0);
	draw_scene(s, &g);
	keys_click(s, 0, s->view.jobs_y + 4);
	assert_string_equal(scene_selected(s)->job_id, "train");
	keys_click(s, 0, s->view.jobs_y + 4);
	assert_true(scene_selected(s)->is_folded);
	keys_click(s, 0, 0);
	keys_click(s, 0, 23);
	assert_string_equal(scene_selected(s)->job_id, "train");
	grid_release(&g);
}

/* Among the events: the older ones are above. */
static void test_walk_among_events(void **state)
{
	struct scene *s = *state;
	struct scene_event event = { .wall_ns = NOON, .kind = EVENT_KIND_JOB };
	char json[] = "{\"metric_value\":12.5,\"unit\":null,\"host\":{\"a\":1},\"who\":\"me\"}";
	const char *text;

	press(s, "\t");
	assert_false(s->is_in_events); /* there are none */
	for (int i = 0; i < 40; i++) {
		snprintf(event.text, sizeof(event.text), "event %d.", i);
		event.json = i == 37 ? json : NULL;
		scene_add_event(s, &event);
	}
	press(s, "\tkk");
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "\n>22:13:20 event 37.\n"));
	press(s, "\n");
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "metric_value      12.5\nwho               me\n"));
	assert_null(strstr(text, "host"));
	press(s, "x");
	assert_int_equal(s->overlay, OVERLAY_NONE); /* an event cannot be ended */
	press(s, "\ng");
	assert_non_null(strstr(draw_text(s, 80, 24), "\n>22:13:20 event 0.\n"));
	scene_add_event(s, &event); /* it stays where it was */
	assert_non_null(strstr(draw_text(s, 80, 24), "\n>22:13:20 event 0.\n"));
	press(s, "G");
	draw_text(s, 80, 24);
	keys_click(s, 0, s->view.events_y);
	assert_int_equal(s->view.event_at, s->view.event_rows - 1);
	keys_click(s, 0, s->view.jobs_y);
	assert_false(s->is_in_events);
}

/* One after the other is read: a detail that is closed leaves the user where it was opened. */
static void test_escape(void **state)
{
	struct scene *s = *state;

	add_event(s, EVENT_KIND_JOB, "first.");
	add_event(s, EVENT_KIND_JOB, "second.");
	press(s, "fmake\n\tk\n");
	assert_non_null(strstr(draw_text(s, 80, 24), "DETAIL OF WHAT HAPPENED\n22:13:20 first."));
	keys_press(s, TUI_KEY_ESCAPE);
	assert_false(s->shows_detail);
	assert_non_null(strstr(draw_text(s, 80, 24), "\n>22:13:20 first."));
	assert_string_equal(s->filter, "make");
	keys_press(s, TUI_KEY_ESCAPE);
	assert_false(s->is_in_events);
	assert_string_equal(s->filter, "");
}

/* What happens meanwhile is kept, and not seen before it goes on. */
static void test_pause(void **state)
{
	struct scene *s = *state;

	add_event(s, EVENT_KIND_JOB, "first.");
	press(s, "p");
	add_event(s, EVENT_KIND_JOB, "second.");
	add_event(s, EVENT_KIND_JOB, "third.");
	assert_non_null(strstr(draw_text(s, 80, 24), "PAUSED"));
	assert_non_null(strstr(draw_text(s, 80, 24), "first.\nPAUSED"));
	press(s, "p");
	assert_non_null(strstr(draw_text(s, 80, 24), "second.\n22:13:20 third.\n?"));
}

/* Every key that does something is on the page, in a terminal of the usual size. */
static void test_help(void **state)
{
	struct scene *s = *state;
	const char *text;

	press(s, "?");
	s->source = SOURCE_REPLAY;
	text = draw_text(s, 80, 24);
	for (size_t i = 0; i < keys_n_rows; i++)
		assert_non_null(strstr(text, keys_rows[i].help));
	s->source = SOURCE_DAEMON;
	assert_null(strstr(draw_text(s, 80, 40), "twice as fast"));
	press(s, "j");
	assert_int_equal(s->overlay, OVERLAY_NONE);
	assert_int_equal(scene_selected_row(s), 0); /* the key has only gone back */
}

/* In a small terminal they are on several pages, each word of them. */
static void test_help_in_pages(void **state)
{
	struct scene *s = *state;
	size_t n = 0;

	press(s, "?");
	while (s->overlay == OVERLAY_HELP) {
		const char *text = draw_text(s, 40, 10);

		for (size_t i = 0; i < keys_n_rows; i++)
			n += strstr(text, keys_rows[i].help) != NULL && !keys_rows[i].for_replay;
		press(s, "j");
	}
	assert_in_range(n, keys_n_rows - 5, 2 * keys_n_rows); /* "up" is in others too */
	press(s, "?");
	assert_non_null(strstr(draw_text(s, 40, 10), "keys (any key for more, Esc back)\n"));
	press(s, "jj");
	assert_int_equal(s->overlay, OVERLAY_HELP);
	assert_non_null(strstr(draw_text(s, 120, 60), "quit")); /* the terminal has grown */
	keys_press(s, TUI_KEY_ESCAPE);
	assert_int_equal(s->overlay, OVERLAY_NONE);
}

/* Where there is no room below the jobs the detail has theirs. */
static void test_detail_in_small_terminal(void **state)
{
	struct scene *s = *state;

	press(s, "/worker\n\n");
	assert_non_null(strstr(draw_text(s, 40, 10), "DETAIL\nprocess       11 (parent 10)"));
	press(s, "\n");
	assert_null(strstr(draw_text(s, 40, 10), "DETAIL"));
}

/* There is no panel of nothing. */
static void test_no_detail(void **state)
{
	struct scene *s = *state;

	press(s, "fno such thing\n\n");
	assert_non_null(strstr(draw_text(s, 80, 24), "\nthere is nothing here to show"));
	assert_null(strstr(draw_text(s, 80, 24), "DETAIL"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_sort_menu),
		TEST(test_click_title),
		TEST(test_ending),
		TEST(test_cursor_follows),
		TEST(test_clicks),
		TEST(test_walk_among_events),
		TEST(test_escape),
		TEST(test_pause),
		TEST(test_help),
		TEST(test_help_in_pages),
		TEST(test_detail_in_small_terminal),
		TEST(test_no_detail),
	};

	return cmocka_run_group_tests_name("tui_keys", tests, NULL, NULL);
}

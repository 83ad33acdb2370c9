/*
 * Screens of "proctor top" as text: panels, sizes, odd names.
 */
#include "scene_fixture.h"

#include "base/utf8.h"

static void test_screen(void **state)
{
	struct scene *s = *state;

	add_event(s, EVENT_KIND_JOB, "job.started of train");
	assert_string_equal(
		draw_text(s, 80, 24),
		"proctor daemon 42                                                       22:13:23\n"
		"CPU  ██████·················· 25.0 % of 4  load 1.50 1.50 1.50\n"
		"MEM  ██████·················· 4.0G of 16G\n"
		"2 jobs, 2 sheets, pressure none\n"
		"JOB / PROCESS                       S  CPU%▾    MEM MEM OVER TIME     I/O    AGE\n"
		">- build 2 0/1                           41.0   159M            ██       -    80s\n"
		"  - sheet 1                             41.0   159M            ██       -    80s\n"
		"    - 20 make                       S   20.0    80M            ██       -    80s\n"
		"        21 cc -c a.c                S   21.0    79M            ██       -    79s\n"
		"- train 2 ██······ 1/4                  21.0   179M            ██  1.0M/s    90s\n"
		"  - sheet 1                             21.0   179M            ██  1.0M/s    90s\n"
		"    - 10 python train.py            S   10.0    90M            ██    0B/s    90s\n"
		"        11 python worker            S   11.0    89M            ██  1.0M/s    89s\n"
		"- no job 1                              30.0    70M                     -    70s\n"
		"    30 sshd                         S   30.0    70M            ██       -    70s\n"
		"\n\n"
		"WHAT HAPPENED\n\n\n\n\n"
		"22:13:20 job.started of train\n"
		"? help  q quit  Enter detail  / search  f filter  PMITN sort  t tree  x end\n");
}

static void test_no_such_job(void **state)
{
	struct scene *s = *state;

	s->job_id = "nosuch";
	assert_int_equal(scene_refresh(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 24), "\nno job nosuch is running\n"));
	assert_non_null(strstr(draw_text(s, 80, 24), "\n0 of 2 jobs, 2 sheets"));
	s->job_id = "train";
	assert_int_equal(scene_refresh(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 24), "\n1 of 2 jobs, 2 sheets"));
}

/* A name has room enough before threads and files have any, and no folders in it. */
static void test_commands(void **state)
{
	struct scene *s = *state;

	s->snap.processes[0].command = "/opt/venv/bin/python3 /opt/work/train.py --big";
	s->snap.processes[1].command = "/opt/tool /data/";
	s->snap.processes[2].command = "make /srv/a";
	assert_non_null(strstr(draw_text(s, 80, 24), "- 10 python3 train.py --big "));
	assert_non_null(strstr(draw_text(s, 80, 24), " 11 tool /data/ "));
	assert_non_null(strstr(draw_text(s, 80, 24), "- 20 make /srv/a "));
	s->snap.processes[1].command = "/usr/bin/tail /etc/hosts -f";
	s->snap.processes[2].command = "python3.11 /srv/a.py";
	s->snap.processes[3].command = "/bin/sh /";
	s->snap.processes[4].command = "/opt/some/where/in/a/deep/folder/program run";
	assert_non_null(strstr(draw_text(s, 80, 24), " 11 tail /etc/hosts -f "));
	assert_non_null(strstr(draw_text(s, 80, 24), " 20 python3.11 a.py "));
	assert_non_null(strstr(draw_text(s, 80, 24), " 21 sh / "));
	press(s, "Gx");
	assert_non_null(strstr(draw_text(s, 80, 24), "send SIGTERM to pid 30 program run? (y/n)"));
	press(s, "n");
	assert_null(strstr(draw_text(s, 80, 24), " THR "));
	assert_non_null(strstr(draw_text(s, 160, 24), " THR "));
	press(s, "/--big\n\n");
	assert_non_null(strstr(draw_text(s, 80, 40), "command       /opt/venv/bin/python3 /opt"));
}

/* What failed is over too, where its job goes on. */
static void test_progress(void **state)
{
	struct scene *s = *state;

	s->snap.progress[0].last_completed_sheet = 0; /* and the first two have failed */
	s->snap.progress[0].current_sheet = 3;
	assert_non_null(strstr(draw_text(s, 80, 24), "- train 2 ████···· 2/4 "));
	s->snap.progress[1].current_sheet = s->snap.progress[1].last_completed_sheet = 7;
	assert_non_null(strstr(draw_text(s, 80, 24), "- build 2 1/1 ")); /* --sheet 7 */
}

/* One that runs, and whose next sheet is held back. */
static void test_held(void **state)
{
	struct scene *s = *state;

	s->snap.progress[0].current_sheet = SHEET_NONE;
	scene_add_waiting(s, "train", 0, track_key_of_attempt("train", 0),
			  "pressure is high: memory");
	assert_int_equal(scene_refresh(s), 0);
	press(s, "/train\n\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "held          pressure is high: memory\n"));
	s->snap.n_processes = 0;
	assert_int_equal(scene_refresh(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "  train ██······ 1/4 held: pressure is high: memory\n"));
	scene_forget_waiting(s);
	assert_int_equal(scene_refresh(s), 0);
	assert_null(strstr(draw_text(s, 80, 24), "held"));
}

/* Before the daemon has looked twice: what it says is as new as what was asked of it. */
static void test_first_look(void **state)
{
	struct scene *s = *state;

	s->snap.running_jobs = s->snap.active_sheets = 0;
	s->listed.n_jobs = s->listed.n_sheets = 1;
	s->listed.wall_ns = s->snap.wall_ns + 1;
	s->has_before = false;
	assert_non_null(strstr(draw_text(s, 80, 24), "\n1 job, 1 sheet, "));
	assert_non_null(strstr(draw_text(s, 80, 24), " measuring of 4 "));
	s->snap.n_processes = s->snap.n_progress = 0;
	assert_int_equal(scene_refresh(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 24), "has not looked at its jobs yet\n"));
	s->listed.wall_ns = s->snap.wall_ns - 1;
	assert_non_null(strstr(draw_text(s, 80, 24), "\n0 jobs, 0 sheets, "));
}

/* One sees whom a signal would be sent to, and what else could be answered. */
static void test_question(void **state)
{
	struct scene *s = *state;

	press(s, "/sshd\nx");
	assert_non_null(
		strstr(draw_text(s, 80, 24),
		       "\nsend SIGTERM to pid 30 sshd? (y/n)  i INT  h HUP  k KILL  s STOP"));
	press(s, "n/train.py\nx");
	assert_non_null(strstr(draw_text(s, 90, 24),
			       "\nsend SIGTERM to pid 10 python train.py? (y/n)  i INT"));
	snprintf(s->wish.command, sizeof(s->wish.command), "a command that is too long for it");
	assert_non_null(strstr(draw_text(s, 80, 24), "pid 10 a command th? (y/n)  i INT  h HUP"));
	assert_non_null(strstr(draw_text(s, 120, 24), "too long for it? (y/n)  i INT"));
	s->wish.key.pid = 4194304; /* no number is longer */
	assert_non_null(
		strstr(draw_text(s, 80, 24), "? (y/n)  i INT  h HUP  k KILL  s STOP  c CONT"));
	assert_non_null(strstr(draw_text(s, 40, 24), "to pid 4194304 a com? (y/n)"));
}

/* Of a long name as much as leaves room for the answers. */
static void test_question_about_job(void **state)
{
	struct scene *s = *state;

	press(s, "gx");
	assert_non_null(
		strstr(draw_text(s, 80, 24), "\ncancel the job build and end all of it? (y/n)"));
	memset(s->wish.job_id, 'a', 128);
	assert_non_null(strstr(draw_text(s, 80, 24), "aaa and end all of it? (y/n)\n"));
	assert_non_null(strstr(draw_text(s, 40, 24), "aaa? (y/n)\n"));
}

/* That there is no daemon, and what is done instead, before the reason; and all before the clock.
 */
static void test_long_source(void **state)
{
	struct scene *s = *state;

	memset(s->source_note, 'a', 120);
	assert_non_null(strstr(draw_text(s, 80, 24), "aaa 22:13:23\n"));
}

/* Of a job with a long name the commands are still seen in a list. */
static void test_long_name_in_list(void **state)
{
	struct scene *s = *state;
	static const char name[] = "a-job-with-a-name-that-is-longer-than-the-column-has-room-for";

	s->snap.processes[0].job_id = name;
	press(s, "t");
	assert_non_null(strstr(draw_text(s, 80, 24), "a-job-wi"));
	assert_null(strstr(draw_text(s, 80, 24), "a-job-with-a-name-that"));
	assert_non_null(strstr(draw_text(s, 80, 24), " python t"));
}

/* A closer look repeats the host: its share of CPU stays what it was. */
static void test_cpu_share_stays(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 3);
	assert_true(scene_cpu_share(s) == 0.25);
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_true(scene_cpu_share(s) == 0.25);
	fill_host(&snap, 4);
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_true(scene_cpu_share(s) == 0.25);
	snapshot_release(&snap);
}

static void test_cpu_times(void **state)
{
	char room[DRAW_NUMBER_BYTES];

	(void)state;
	assert_string_equal(draw_cpu_time(0, room), "0.00s");
	assert_string_equal(draw_cpu_time(34000000, room), "0.03s");
	assert_string_equal(draw_cpu_time(99990000000, room), "99.99s");
	assert_string_equal(draw_cpu_time(100 * SECOND, room), "1m40");
	assert_string_equal(draw_cpu_time(U64_UNKNOWN, room), "-");
}

/* Those that wait are counted apart, and have a row until they run. */
static void test_queued(void **state)
{
	struct scene *s = *state;
	const char *text;

	scene_add_waiting(s, "late", 1000, 0, "it waits for 2 GB of memory");
	scene_add_waiting(s, "train", 0, 0, NULL); /* has begun meanwhile */
	assert_int_equal(scene_refresh(s), 0);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "\n2 jobs, 2 queued, 2 sheets"));
	assert_non_null(strstr(text, "\n  late queued: it waits for 2 GB of memory\n"));
	assert_null(strstr(text, "train queued"));
	press(s, "/late\n\n");
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "job           late\nqueued        it waits for 2 GB of memory\n"));
	press(s, "x");
	assert_int_equal(s->wish.kind, WISH_CANCEL_JOB);
	assert_string_equal(s->wish.job_id, "late");
	scene_forget_waiting(s);
	assert_int_equal(scene_refresh(s), 0);
	assert_null(strstr(draw_text(s, 80, 24), "queued"));
}

/* Beside one that runs, and beside that of another user, each has a row, and is what it says. */
static void test_queued_twins(void **state)
{
	struct scene *s = *state;
	const char *text;

	s->snap.progress[0].attempt_num = 3;
	scene_set_start(s, track_key_of_attempt("train", 3), NOON);
	scene_add_waiting(s, "train", 0, 0, "2 jobs run already");
	scene_add_waiting(s, "train", 1000, 0, "the second");
	assert_int_equal(scene_refresh(s), 0);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "\n- train#3 2 "));
	assert_non_null(strstr(text, "\n  train queued: 2 jobs run already\n"));
	assert_non_null(strstr(text, "\n  train queued: the second\n"));
	press(s, "G");
	for (int i = 0; i < 20 && !scene_selected(s)->queued; i++)
		press(s, "k");
	press(s, "x");
	assert_true(s->wish.uid == 1000 || s->wish.uid == 0);
	for (int i = 0; i < 2; i++) {
		bool is_own = s->wish.uid == 0; /* as the one that runs */

		text = draw_text(s, 80, 24);
		assert_int_equal(s->wish.attempt_num, 0);
		if (is_own)
			assert_non_null(strstr(text, "\ncancel the job train, but only what waits "
						     "of it? (y/n)"));
		else
			assert_non_null(strstr(text, "\ncancel the job train, which waits? (y/n)"));
		press(s, "nkx");
		assert_true(i == 1 || (s->wish.uid == 0) == !is_own);
	}
	press(s, "n/train\n");
	while (scene_selected(s)->queued)
		press(s, "n");
	while (scene_selected(s)->kind != NODE_JOB)
		press(s, "k");
	press(s, "x");
	assert_non_null(
		strstr(draw_text(s, 80, 24), "\ncancel attempt 3 of the job train and end"));
}

/* Of a long name a part goes, and not that it waits, nor why. */
static void test_long_waiting(void **state)
{
	struct scene *s = *state;
	char name[JOB_ID_MAX + 1];
	const char *text;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	scene_add_waiting(s, name, 1000, 0, "it waits for 2 GB of memory");
	assert_int_equal(scene_refresh(s), 0);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "nnnn queued: it waits for 2 GB of memory\n"));
	scene_forget_waiting(s);
	s->snap.n_processes = 0;
	s->snap.progress[0].job_id = name;
	scene_add_waiting(s, name, 0, track_key_of_attempt(name, 0), "pressure is high: memory");
	assert_int_equal(scene_refresh(s), 0);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "1/4 held: pressure is high: memory\n"));
}

/* Of two rows the last is that of the keys, alone. */
static void test_two_rows(void **state)
{
	assert_string_equal(draw_text(*state, 10, 2), "p 22:13:23\n? help\n");
}

/* Beside the jobs they are read as the jobs': those of the host are not counted. */
static void test_zombies(void **state)
{
	struct scene *s = *state;

	s->source = SOURCE_OWN;
	s->snap.processes[4].state = 'Z'; /* of no job */
	assert_null(strstr(draw_text(s, 80, 24), "zombie"));
	s->snap.processes[3].state = 'Z';
	assert_non_null(
		strstr(draw_text(s, 80, 24), "2 jobs, 2 sheets, pressure none, 1 zombie\n"));
}

static void test_calls(void **state)
{
	static const struct syscall_use a[] = { { "read", 30, 0, 100, 0 },
						{ "write", 7, 0, 300, 0 },
						{ "futex", 0, 0, 0, 0 } };
	static const struct syscall_use b[] = { { "write", 100, 0, U64_UNKNOWN, 0 } };
	static const struct syscall_use many[] = {
		{ "clock_nanosleep", 9, 0, 0, 0 }, { "epoll_pwait2", 8, 0, 0, 0 },
		{ "getdents64", 7, 0, 0, 0 },	   { "openat", 6, 0, 0, 0 },
		{ "futex", 5, 0, 0, 0 },
	};
	struct scene *s = *state;

	s->snap.processes[0].syscalls = a;
	s->snap.processes[0].n_syscalls = 3;
	s->snap.processes[1].syscalls = b;
	s->snap.processes[1].n_syscalls = 1;
	s->snap.processes[2].syscalls = a;
	s->snap.processes[2].n_syscalls = 0;
	press(s, "/python train\n\n");
	assert_non_null(
		strstr(draw_text(s, 100, 30), "system calls  read 30 (25 % of their CPU time), "));
	assert_non_null(strstr(draw_text(s, 200, 30), "), write 7 (75 %) since the look before"));
	press(s, "/train\n");
	press(s, "g/train\n");
	assert_non_null(strstr(draw_text(s, 120, 30), "90s write read\n"));
	s->snap.processes[0].syscalls = many;
	s->snap.processes[0].n_syscalls = ARRAY_SIZE(many);
	assert_non_null(strstr(draw_text(s, 120, 30), "90s write\n"));
	assert_non_null(strstr(draw_text(s, 200, 30),
			       "90s write clock_nanosleep epoll_pwait2 getdents64 openat\n"));
	press(s, "/cc -c\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "system calls  -\n")); /* not counted */
	press(s, "/make\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "system calls  none since"));
}

static void assert_drawn(const struct scene *s, int width, int height)
{
	const char *text = draw_text((struct scene *)s, width, height);
	int rows = 0;

	for (const char *line = text; *line; rows++) {
		size_t n = strcspn(line, "\n");

		assert_true(utf8_count(line, n) <= (size_t)width + (line[0] == '>'));
		line += n + 1;
	}
	assert_int_equal(rows, height);
}

/* Nothing is beyond the edge, and what there is room for is there. */
static void test_sizes(void **state)
{
	struct scene *s = *state;

	for (int overlay = OVERLAY_NONE; overlay <= OVERLAY_SORT; overlay++)
		for (int width = 1; width < 300; width += 7)
			for (int height = 1; height < 60; height += 3) {
				s->overlay = (enum overlay)overlay;
				s->shows_detail = width % 2;
				assert_drawn(s, width, height);
			}
	s->overlay = OVERLAY_NONE;
	s->shows_detail = false;
	for (int width = 40; width < 300; width += 20)
		assert_non_null(strstr(draw_text(s, width, 24), "JOB / PROCESS"));
}

/* How far a job is stays, and its name is cut. */
static void test_long_name(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 9);
	snap.progress[0].job_id = "a-job-with-a-name-that-is-longer-than-its-column";
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_non_null(strstr(draw_text(s, 80, 24), " ██······ 1/4"));
	assert_non_null(strstr(draw_text(s, 80, 24), "a-job-with-"));
	snapshot_release(&snap);
}

/* The clock and the bar of a replay, and what is left out of it. */
static void test_replay_footer(void **state)
{
	struct scene *s = *state;

	s->source = SOURCE_REPLAY;
	s->replay.from_ns = NOON - SECOND; /* the last snapshot is at 3 s */
	s->replay.to_ns = NOON + 7 * SECOND;
	snprintf(s->filter, sizeof(s->filter), "make");
	assert_non_null(
		strstr(draw_text(s, 80, 24), "replay 22:13:23 ×1 █████·····  filter: make"));
	s->filter[0] = '\0';
	assert_non_null(
		strstr(draw_text(s, 80, 24), "? help  q quit  p pause  ,/. step  </> speed\n"));
	s->replay.has_fractions = true;
	s->snap.wall_ns += SECOND / 2;
	s->replay.gap_ns = (3 * 60 + 12) * 60 * SECOND;
	assert_non_null(strstr(draw_text(s, 80, 24), "replay 22:13:23.5 ×1 "));
	assert_non_null(strstr(draw_text(s, 80, 24), ", gap of 3 h 12 min skipped "));
	s->snap.system.cpu_count = 0;
	assert_null(strstr(draw_text(s, 80, 24), "of 0"));
	s->is_late = true;
	s->age_seconds = 12;
	assert_non_null(strstr(draw_text(s, 80, 24), "this is 12 s old"));
}

static void test_nothing_yet(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	scene_init(s);
	assert_non_null(strstr(draw_text(s, 80, 24), "waiting for the first snapshot"));
	press(s, "jkMx \n/a\n");
	keys_press(s, TUI_KEY_END);
	draw_text(s, 80, 24);
	scene_release(s);
	free(s);
}

/* A name cannot move the cursor. */
static void test_hostile_names(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;
	const char *text;

	snapshot_init(&snap);
	fill_host(&snap, 9);
	add(&snap, 40, 1, "train", "\x1b[2Jevil\n\xff\xc3");
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	add_event(s, EVENT_KIND_ANOMALY, "\x1b]0;title\x07");
	text = draw_text(s, 100, 40);
	assert_null(strchr(text, '\x1b'));
	assert_null(strchr(text, '\x07'));
	assert_non_null(strstr(text, "evil"));
	snapshot_release(&snap);
}

static void test_wide_characters(void **state)
{
	CLEANUP(grid_release) struct grid g = GRID_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct area all;

	(void)state;
	assert_int_equal(grid_resize(&g, 8, 4), 0);
	all = grid_area(&g);
	assert_int_equal(area_put(&all, 0, 0, STYLE_PLAIN, "名x"), 3);
	assert_int_equal(area_put(&all, 0, 1, STYLE_PLAIN, "e\xcc\x81|"), 2); /* a joining accent */
	/* A vowel sign, and a filler that a terminal shows nothing of. */
	assert_int_equal(area_put(&all, 0, 1, STYLE_PLAIN, "e\xe0\xa6\x81\xe1\x85\xa0|"), 2);
	area_put(&all, 5, 2, STYLE_PLAIN, "a名前"); /* the last has no room for its half */
	area_put(&all, 0, 3, STYLE_PLAIN, "名前");
	area_put(&all, 1, 3, STYLE_PLAIN, "xy"); /* over half of each */
	grid_to_text(&g, &text);
	assert_string_equal(text.data, "名x\ne|\n     a名\n xy\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_screen),
		TEST(test_no_such_job),
		TEST(test_commands),
		TEST(test_progress),
		TEST(test_held),
		TEST(test_first_look),
		TEST(test_question),
		TEST(test_question_about_job),
		TEST(test_long_source),
		TEST(test_long_name_in_list),
		TEST(test_cpu_share_stays),
		TEST(test_cpu_times),
		TEST(test_queued),
		TEST(test_two_rows),
		TEST(test_queued_twins),
		TEST(test_long_waiting),
		TEST(test_zombies),
		TEST(test_calls),
		TEST(test_sizes),
		TEST(test_long_name),
		TEST(test_replay_footer),
		cmocka_unit_test(test_nothing_yet),
		TEST(test_hostile_names),
		cmocka_unit_test(test_wide_characters),
	};

	return cmocka_run_group_tests_name("tui_draw", tests, NULL, NULL);
}

/*
 * The detail panel: all numbers, the chart, and why something is flagged.
 */
#include "scene_fixture.h"

static void test_detail(void **state)
{
	struct scene *s = *state;
	const char *text;

	press(s, "/worker\n\n");
	text = draw_text(s, 80, 30);
	assert_non_null(strstr(text, "process       11 (parent 10), state S, 89s old"));
	assert_non_null(strstr(text, "command       python worker"));
	assert_non_null(strstr(text, "open files    3"));
	assert_null(strstr(text, "WHAT HAPPENED"));
	press(s, "\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "WHAT HAPPENED"));
}

/* All that its sample has. */
static void test_detail_of_process(void **state)
{
	static const char *const lines[] = {
		"process       11 (parent 10), state S, 89s old, threads 1, user id 1000\n",
		"              5 in its own pid namespace\n",
		"memory        89M now, 95M at most, 200M virtual, 1.0M swapped out\n",
		"              of it 70M its own, 15M of files, 4.0M shared\n",
		"CPU           11.0 %, 7.00s user, 2.00s system; ended children 3.00s, 1.00s\n",
		"I/O           1.0M/s; 3.0M read in 12 calls, 0B written in 13\n",
		"storage       2.0M read, 5.0M written\n",
		"open files    3 of 1024 (0 %)\n",
		"job           train, sheet 1, rank 3 of 8, local rank 1\n",
		"page faults   21 minor, 22 major; switches 23 voluntary, 24 involuntary\n",
		"cgroup        /jobs/train\n"
		"              memory 300M, limit 512M, throttled from none, OOM kills 2\n",
	};
	struct cgroup_sample cgroup = { .path = "/jobs/train",
					.memory_current_bytes = 300 * MB,
					.memory_max_bytes = 512 * MB,
					.memory_high_bytes = MEMORY_UNLIMITED,
					.oom_kills = 2 };
	struct scene *s = *state;
	struct proc_sample *p = &s->snap.processes[1];
	const char *text;

	p->uid = 1000;
	p->ns_pid = 5;
	p->hwm_bytes = 95 * MB;
	p->vms_bytes = 200 * MB;
	p->swap_bytes = MB;
	p->rss_anon_bytes = 70 * MB;
	p->rss_file_bytes = 15 * MB;
	p->rss_shmem_bytes = 4 * MB;
	p->user_ns = 7 * SECOND;
	p->system_ns = 2 * SECOND;
	p->child_user_ns = 3 * SECOND;
	p->child_system_ns = SECOND;
	p->syscr = 12;
	p->syscw = 13;
	p->read_bytes = 2 * MB;
	p->write_bytes = 5 * MB;
	p->fd_limit = 1024;
	p->rank = 3;
	p->world_size = 8;
	p->local_rank = 1;
	p->minor_faults = 21;
	p->major_faults = 22;
	p->voluntary_switches = 23;
	p->involuntary_switches = 24;
	p->cgroup = cgroup.path;
	s->snap.cgroups = &cgroup; /* the arena's are not freed one by one */
	s->snap.n_cgroups = 1;
	press(s, "/worker\n\n");
	text = draw_text(s, 80, 60);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_non_null(strstr(text, lines[i]));
	s->snap.cgroups = NULL;
	s->snap.n_cgroups = 0;
}

/* Of several the busiest; one of which nothing is known is not it. */
static void test_busiest_gpu(void **state)
{
	struct scene *s = *state;
	struct gpu_sample gpus[3];

	for (int i = 0; i < 3; i++) {
		gpu_sample_init(&gpus[i]);
		gpus[i].index = i;
	}
	gpus[1].utilization_pct = 20;
	gpus[2].utilization_pct = 70;
	s->snap.gpus = gpus; /* the arena's are not freed one by one */
	s->snap.n_gpus = 3;
	assert_non_null(strstr(draw_text(s, 120, 24), "GPU2 70.0 % +2"));
	gpus[1].utilization_pct = gpus[2].utilization_pct = F64_UNKNOWN;
	assert_non_null(strstr(draw_text(s, 120, 24), "GPU0 - % +2"));
	s->snap.gpus = NULL;
	s->snap.n_gpus = 0;
}

/* Of a GPU only where there is one. */
static void test_detail_of_job(void **state)
{
	struct scene *s = *state;
	struct gpu_sample gpu = { 0 };
	const char *text;

	press(s, "\n");
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "processes     2; CPU 41.0 %, memory 159M, I/O -, 80s old\n"));
	s->snap.gpus = &gpu; /* the arena's are not freed one by one */
	s->snap.n_gpus = 1;
	assert_non_null(strstr(draw_text(s, 80, 24), "I/O -, GPU "));
	s->snap.gpus = NULL;
	s->snap.n_gpus = 0;
	s->snap.processes[1].rank = 3;
	assert_int_equal(scene_refresh(s), 0);
	press(s, "gjjjjjj");
	assert_non_null(strstr(draw_text(s, 80, 24), "job           train, sheet 1, rank 3\n"));
}

/* How high it is, and how long ago it began; beside the numbers where there is room. */
static void test_chart(void **state)
{
	struct scene *s = *state;
	const char *text;

	press(s, "/worker\n\n");
	text = draw_text(s, 80, 60);
	assert_non_null(strstr(text, "memory: up to 89M, at least 89M\n"));
	assert_non_null(strstr(text, "⣿"));
	assert_non_null(strstr(text, "2s ago now\n"));
	text = draw_text(s, 120, 24);
	assert_non_null(strstr(text, "state S, 89s old, threads 1, user id -"));
	assert_non_null(strstr(text, "memory: up to 89M, at least 89M\n"));
	assert_non_null(strstr(text, "⣿"));
}

/* One that has a longer number is not meant, and neither is one that had the number before. */
static void test_flagged(void **state)
{
	struct scene *s = *state;
	const struct proc_key other = { 1, 1 }, before = { 11, 5 }, its = { 11, 11 };

	press(s, "/worker\n\n");
	flag(s, "zombie pid 1", &other, NOON, U64_UNKNOWN);
	flag(s, "zombie pid 11", &before, NOON, U64_UNKNOWN);
	assert_null(strstr(draw_text(s, 80, 30), "flagged"));
	flag(s, "leak", &its, NOON, U64_UNKNOWN);
	assert_non_null(strstr(draw_text(s, 80, 30),
			       "\nflagged       leak\n              -, since 22:13:20"));
	press(s, "gGkkkk"); /* the sheet of train, whose row has a mark for that too */
	assert_int_equal(scene_selected(s)->kind, NODE_SHEET);
	assert_non_null(strstr(draw_text(s, 80, 30), "\nflagged       leak\n"));
	press(s, "/worker\n");
	flag(s, "leak", &its, NOON, NOON + SECOND);
	assert_non_null(strstr(draw_text(s, 80, 30),
			       "\nwas flagged   leak\n              -, since 22:13:20"));
	press(s, "g/train\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "\nflagged       zombie pid 11"));
	press(s, "/build\n");
	assert_null(strstr(draw_text(s, 80, 30), "flagged"));
}

/* Of a chart below the numbers what there is room for is seen, and its title fits. */
static void test_part_of_chart(void **state)
{
	struct scene *s = *state;

	press(s, "/worker\n\n");
	draw_text(s, 80, 24);
	s->view.detail_up =
		s->view.detail_all - s->view.detail_rows - 2; /* its last rows are still below */
	assert_non_null(strstr(draw_text(s, 80, 24), "memory: up to 89M, at least 89M\n"));
	assert_non_null(strstr(draw_text(s, 80, 24), "more lines below"));
	assert_non_null(strstr(draw_text(s, 100, 30), " memory 89M to 89M\n"));
}

static void recall_some(struct recall *r, struct scene *s, const struct node *node)
{
	struct proc_sample p;

	assert_true(recall_begin(r, s, node, 5 * SECOND));
	for (unsigned k = 0; k < 400; k++) /* also what came since, while top was paused */
		for (int i = 0; i < 3;
		     i++) { /* the last is of another sheet, and had that pid before */
			proc_sample_init(&p);
			p.key = (struct proc_key){ 10 + i % 2, i < 2 ? 10 + (unsigned)i % 2 : 9 };
			p.sheet_num = i < 2 ? 1 : 2;
			p.rss_bytes = (k + 1) * MB;
			recall_add(r, NOON - (199 - k) * SECOND, 1, &p);
		}
	recall_end(r, s);
}

/* What was recorded before top began is in front of what it has seen. */
static void test_recall(void **state)
{
	struct scene *s = *state;
	const struct track *track;
	struct recall r;

	press(s, "/worker\n");
	recall_some(&r, s, scene_selected(s));
	track = tracks_find(&s->tracks, scene_selected(s)->id);
	assert_int_equal(track->n, TRACK_POINTS);
	assert_true(track_rss(track, TRACK_POINTS - 4) == 200.0 * MB);
	assert_true(track_rss(track, TRACK_POINTS - 1) == 89.0 * MB);
	for (unsigned i = 1; i < TRACK_POINTS; i++)
		assert_true(track_wall_ns(track, i) == track_wall_ns(track, i - 1) + SECOND);
	recall_some(&r, s, scene_selected(s)); /* once is enough */
	assert_true(track_rss(track, TRACK_POINTS - 4) == 200.0 * MB);
	press(s, "kk"); /* the sheet: the sum of what is of it */
	assert_int_equal(scene_selected(s)->kind, NODE_SHEET);
	recall_some(&r, s, scene_selected(s));
	track = tracks_find(&s->tracks, scene_selected(s)->id);
	assert_true(track_rss(track, TRACK_POINTS - 4) == 400.0 * MB);
	assert_true(track_rss(track, TRACK_POINTS - 1) == 179.0 * MB);
	press(s, "G"); /* of processes of no job nothing is recorded */
	assert_false(recall_begin(&r, s, scene_selected(s), SECOND));
}

/* A sentence is shown to its end, and what there is no room for can be reached. */
static void test_long_reason(void **state)
{
	struct scene *s = *state;
	const struct proc_key its = { 11, 11 };
	static const char sentence[] =
		"the process grows by 60 MB a minute since half an hour, which is more than its "
		"job ever took, and will have used up the memory of the host in 12 minutes";
	const char *text;

	press(s, "/worker\n\n");
	flag(s, sentence, &its, NOON, U64_UNKNOWN);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(
		text,
		"DETAIL\n"
		"flagged       the process grows by 60 MB a minute since half an hour, which is\n"
		"              more than its job ever took, and will have used up the memory of\n"
		"              the host in 12 minutes\n"
		"              -, since 22:13:20; this as of 22:13:20\n"
		"process       11"));
	assert_null(strstr(draw_text(s, 80, 50), "more lines below"));
	flag(s, "another one", &its, NOON, U64_UNKNOWN);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "\n14 more lines below: PgDn\n"));
	assert_null(strstr(text, "cgroup"));
	keys_press(s, TUI_KEY_PAGE_DOWN);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "cgroup"));
	assert_null(strstr(text, "another one"));
	for (int i = 0; i < 3; i++)
		keys_press(s, TUI_KEY_PAGE_DOWN);
	text = draw_text(s, 80, 24);
	assert_null(strstr(text, "more lines below"));
	assert_non_null(strstr(text, "⣿"));
	for (int i = 0; i < 2; i++)
		keys_press(s, TUI_KEY_PAGE_UP);
	assert_int_equal(scene_selected(s)->p->key.pid, 11);
	keys_press(s, TUI_KEY_PAGE_UP);
	assert_non_null(strstr(draw_text(s, 80, 24), "flagged       another one"));
	keys_press(s, TUI_KEY_PAGE_DOWN);
	press(s, "/train.py\n"); /* of another one the beginning */
	assert_non_null(strstr(draw_text(s, 80, 24), "DETAIL\nprocess       10"));
}

/* What goes on comes before what is over, and is not driven out by what happens to processes. */
static void test_flags_last(void **state)
{
	struct scene *s = *state;
	const struct proc_key its = { 11, 11 };
	const char *text;

	press(s, "/worker\n\n");
	flag(s, "leak", &its, NOON, U64_UNKNOWN);
	flag(s, "zombie", &its, NOON + SECOND, NOON + 2 * SECOND);
	for (int i = 0; i < 2 * SCENE_EVENTS; i++)
		add_event(s, EVENT_KIND_PROCESS, "spawn");
	text = draw_text(s, 80, 30);
	assert_non_null(strstr(text, "\nflagged       leak\n              -, since 22:13:20"));
	assert_null(strstr(text, "was flagged"));
	for (int i = 0; i < 2 * SCENE_FLAGS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		flag(s, name, &(struct proc_key){ 1, 1 }, NOON, NOON + SECOND);
	}
	assert_int_equal(s->past.n_flags, SCENE_FLAGS);
	assert_non_null(strstr(draw_text(s, 80, 30),
			       "\nflagged       leak\n              -, since 22:13:20"));
	flag(s, "spike", &its, NOON - 86400 * SECOND, U64_UNKNOWN); /* of another day */
	assert_non_null(
		strstr(draw_text(s, 80, 30),
		       "\nflagged       spike\n              -, since 2023-11-13 22:13:20"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_detail),	  TEST(test_detail_of_process),
		TEST(test_detail_of_job), TEST(test_busiest_gpu),
		TEST(test_chart),	  TEST(test_flagged),
		TEST(test_part_of_chart), TEST(test_recall),
		TEST(test_long_reason),	  TEST(test_flags_last),
	};

	return cmocka_run_group_tests_name("tui_detail", tests, NULL, NULL);
}

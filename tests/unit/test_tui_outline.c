/*
 * The rows of the jobs panel: order, sums, ages, folding, filters and searches.
 */
#include "scene_fixture.h"

static void test_rows(void **state)
{
	struct scene *s = *state;

	assert_string_equal(rows_of(s),
			    "job build| sheet 1|  20|   21|job train| sheet 1|  10|   11|"
			    "job -| 30");
	press(s, "M");
	assert_string_equal(rows_of(s),
			    "job train| sheet 1|  10|   11|job build| sheet 1|  20|   21|"
			    "job -| 30");
	press(s, "N");
	assert_string_equal(rows_of(s),
			    "job build| sheet 1|  20|   21|job train| sheet 1|  10|   11|"
			    "job -| 30");
	press(s, "I");
	assert_string_equal(rows_of(s),
			    "job train| sheet 1|  10|   11|job build| sheet 1|  20|   21|"
			    "job -| 30");
}

static void test_sums(void **state)
{
	const struct scene *s = *state;
	const struct node *build = outline_row(&s->outline, 0);
	const struct node *train = outline_row(&s->outline, 4);

	assert_int_equal(build->n_processes, 2);
	assert_true(build->cpu_percent == 41);
	assert_int_equal(build->rss_bytes, (80 + 79) * MB);
	assert_true(build->age_seconds == 80);
	assert_true(isnan(build->io_rate)); /* nobody could read it */
	assert_true(train->io_rate == (double)MB);
}

/* As it is with this in the counter of one of its two: the job, and who is not changed. */
static void look_with(struct scene *s, uint64_t rchar)
{
	CLEANUP(snapshot_release) struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 4);
	snap.processes[0].rchar = rchar;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_string_equal(outline_row(&s->outline, 4)->job_id, "train");
	assert_true(outline_row(&s->outline, 7)->io_rate == (double)MB);
}

/* What may not be read of one of them is missing in the sum of all. */
static void test_sums_of_what_is_hidden(void **state)
{
	struct scene *s = *state;

	look_with(s, U64_UNKNOWN);
	assert_true(isnan(outline_row(&s->outline, 4)->io_rate));
	assert_true(isnan(outline_row(&s->outline, 5)->io_rate)); /* the sheet */
}

/* Also what is not known for one look: here a counter that has gone back. */
static void test_sums_of_what_is_unknown(void **state)
{
	struct scene *s = *state;

	look_with(s, 990 * MB);
	assert_true(isnan(outline_row(&s->outline, 4)->io_rate));
	assert_true(isnan(outline_row(&s->outline, 5)->io_rate));
}

/* A shell whose children are too short to be seen: what they used is the job's. */
static void test_sums_with_ended_children(void **state)
{
	struct scene *s = *state;
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct node *row;

	snapshot_init(&snap);
	for (unsigned k = 4; k <= 5; k++) {
		fill_host(&snap, k);
		snap.processes[2].child_user_ns = k * SECOND / 2;
		snap.processes[2].child_system_ns = 0;
		assert_int_equal(scene_add_snapshot(s, &snap), 0);
	}
	row = outline_row(&s->outline, 0);
	assert_string_equal(row->job_id, "build");
	assert_true(row->cpu_percent == 41 + 50);
	assert_true(outline_row(&s->outline, 1)->cpu_percent == 41 + 50); /* the sheet */
	assert_true(outline_row(&s->outline, 2)->cpu_percent == 20);	  /* the shell itself */
}

/* Without a tree: processes of all jobs, the busiest first, and whose each is. */
static void test_list(void **state)
{
	struct scene *s = *state;

	press(s, " t"); /* what is folded is in the list */
	assert_string_equal(rows_of(s), "30|21|20|11|10");
	assert_non_null(strstr(draw_text(s, 80, 24), "\n  21 build cc -c a.c "));
	assert_non_null(strstr(draw_text(s, 80, 24), "\n>  30 sshd "));
	press(s, "N");
	assert_string_equal(rows_of(s), "21|20|10|11|30");
	press(s, "/worker\n");
	assert_int_equal(scene_selected(s)->p->key.pid, 11);
	press(s, "fpython\n");
	assert_string_equal(rows_of(s), "10|11");
	s->snap.processes[0].cpu_percent = s->snap.processes[1].cpu_percent;
	press(s, "P"); /* alike: by their number */
	assert_string_equal(rows_of(s), "10|11");
	keys_press(s, TUI_KEY_ESCAPE);
	press(s, "t");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
}

/* As the job file calls them; another attempt may call them otherwise. */
static void test_names_of_sheets(void **state)
{
	struct scene *s = *state;
	char name[64];

	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), "warm up");
	assert_int_equal(scene_refresh(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 24), "- sheet 1 warm up "));
	press(s, "/WARM\n\n");
	assert_int_equal(scene_selected(s)->kind, NODE_SHEET);
	press(s, "fwarm\n"); /* with all that is of it */
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|   11");
	press(s, "f");
	for (int i = 0; i < 4; i++)
		keys_press(s, TUI_KEY_BACKSPACE);
	press(s, "\n");
	assert_non_null(strstr(draw_text(s, 80, 40), "job           train, sheet 1 (warm up)\n"));
	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), NULL);
	assert_null(scene_sheet_name(s, outline_key_of_sheet("train", 0, 1)));
	for (int i = 1; i < 200000; i++) { /* those of long ago are forgotten */
		snprintf(name, sizeof(name), "a name that is of sheet %d alone", i);
		scene_name_sheet(s, outline_key_of_sheet("train", 0, i), name);
	}
	assert_true(arena_used(&s->names) < 16 << 20);
	assert_string_equal(scene_sheet_name(s, outline_key_of_sheet("train", 0, 199999)), name);
	assert_null(scene_sheet_name(s, outline_key_of_sheet("train", 0, 2)));
}

/* One that is cut is kept once, however often it is told. */
static void test_long_name_of_sheet(void **state)
{
	struct scene *s = *state;
	char name[1000];
	const char *kept;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), name);
	kept = scene_sheet_name(s, outline_key_of_sheet("train", 0, 1));
	assert_non_null(kept);
	name[sizeof(name) - 2] = 'm'; /* where it is cut off */
	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), name);
	assert_ptr_equal(scene_sheet_name(s, outline_key_of_sheet("train", 0, 1)), kept);
	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), "nn");
	assert_string_equal(scene_sheet_name(s, outline_key_of_sheet("train", 0, 1)), "nn");
}

/* Two attempts of one job that run at once are two rows, each with what is its own. */
static void test_attempts(void **state)
{
	struct scene *s = *state;
	CLEANUP(snapshot_release) struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 4);
	snap.progress[1] = snap.progress[0]; /* of "train", both */
	for (int i = 0; i < 2; i++) {
		snap.progress[i].attempt_id = 70 + i;
		snap.progress[i].attempt_num = 3 + i;
		snap.progress[i].uid = 1000;
		snap.processes[i].attempt_id = 70 + i;
	}
	snap.n_processes = 2;
	scene_set_start(s, track_key_of_attempt("train", 4), NOON - 96 * SECOND);
	scene_name_sheet(s, outline_key_of_sheet("train", 4, 1), "again");
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	press(s, "M");
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|job train| sheet 1|  11");
	assert_true(outline_row(&s->outline, 0)->age_seconds == 90);
	assert_true(outline_row(&s->outline, 3)->age_seconds == 100);
	assert_null(outline_row(&s->outline, 1)->sheet_name);
	assert_string_equal(outline_row(&s->outline, 4)->sheet_name, "again");
	assert_non_null(strstr(draw_text(s, 80, 24), "- train#4 1 "));
	s->view.selected = outline_row(&s->outline, 3)->id;
	press(s, "x");
	assert_non_null(strstr(draw_text(s, 100, 24), "\ncancel attempt 4 of the job train and "));
	press(s, "y");
	assert_int_equal(s->wish.kind, WISH_CANCEL_JOB);
	assert_int_equal(s->wish.attempt_num, 4);
	assert_int_equal(s->wish.uid, 1000);
	flag(s, "leaks", &snap.processes[1].key, NOON, U64_UNKNOWN);
	draw_text(s, 80, 24);
	assert_false(outline_row(&s->outline, 0)->is_flagged); /* it is the other's */
	assert_true(outline_row(&s->outline, 3)->is_flagged);
}

/* A job whose first process is over is as old as it was before. */
static void test_age_of_job(void **state)
{
	struct scene *s = *state;

	scene_set_start(s, track_key_of_job("build"), NOON - 997 * SECOND);
	scene_set_start(s, outline_key_of_sheet("build", 0, 1), NOON - 497 * SECOND);
	scene_set_start(s, track_key_of_job("train"), NOON + 100 * SECOND); /* cannot be */
	scene_set_start(s, track_key_of_job("train"), U64_UNKNOWN);
	assert_int_equal(scene_refresh(s), 0);
	assert_true(outline_row(&s->outline, 0)->age_seconds == 1000);
	assert_true(outline_row(&s->outline, 1)->age_seconds == 500);
	assert_true(outline_row(&s->outline, 2)->age_seconds == 80);
	assert_true(outline_row(&s->outline, 4)->age_seconds == 90);
	tell(s, "sheet.started", (double)(NOON / SECOND) - 3,
	     "{\"job_id\":\"train\",\"sheet_num\":1}", false);
	assert_int_equal(scene_refresh(s), 0);
	assert_true(outline_row(&s->outline, 5)->age_seconds == 6);
}

static void test_folding(void **state)
{
	struct scene *s = *state;

	press(s, "-");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
	press(s, "jjj "); /* pid 10 */
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  +10|job -| 30");
	press(s, " ");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
	press(s, "g+");
	assert_string_equal(rows_of(s),
			    "job build| sheet 1|  20|   21|job train| sheet 1|  10|   11|"
			    "job -| 30");
	keys_press(s, TUI_KEY_END);
	press(s, "-"); /* has nothing below */
	assert_int_equal(scene_selected_row(s), 9);
	assert_string_equal(rows_of(s),
			    "job build| sheet 1|  20|   21|job train| sheet 1|  10|   11|"
			    "job -| 30");
}

static void test_filter(void **state)
{
	struct scene *s = *state;

	press(s, "fWORKER\n");
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|   11");
	press(s, "f");
	assert_string_equal(s->input, "WORKER"); /* what there was can be changed */
	for (int i = 0; i < 10; i++)
		keys_press(s, TUI_KEY_BACKSPACE);
	press(s, "30\n");
	assert_string_equal(rows_of(s), "job -| 30");
	keys_press(s, TUI_KEY_ESCAPE);
	assert_int_equal(s->outline.n_rows, 10);
	s->job_id = "train";
	assert_int_equal(scene_refresh(s), 0);
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|   11");
}

/* What matches is seen, whatever it is folded below; and folded again afterwards. */
static void test_filter_unfolds(void **state)
{
	struct scene *s = *state;

	press(s, "g-fcc -c\n");
	assert_string_equal(rows_of(s), "job build| sheet 1|  20|   21");
	keys_press(s, TUI_KEY_ESCAPE);
	press(s, "fbuild\n"); /* the job matches itself, and stays as it was */
	assert_string_equal(rows_of(s), "+job build");
}

static void test_search(void **state)
{
	struct scene *s = *state;

	press(s, "/python\n");
	assert_int_equal(scene_selected(s)->p->key.pid, 10);
	press(s, "/python\n"); /* where it is */
	assert_int_equal(scene_selected(s)->p->key.pid, 10);
	press(s, "n");
	assert_int_equal(scene_selected(s)->p->key.pid, 11);
	press(s, "n"); /* around the end */
	assert_int_equal(scene_selected(s)->p->key.pid, 10);
	press(s, "/nothing\n");
	assert_non_null(strstr(s->message, "nothing matches"));
	assert_int_equal(scene_selected(s)->p->key.pid, 10);
}

/* What is folded away is found too, and the way to it is unfolded, but nothing else. */
static void test_search_folded(void **state)
{
	struct scene *s = *state;

	press(s, "-");	  /* build */
	press(s, "jjj-"); /* pid 10 */
	press(s, "k-k-"); /* its sheet, and its job */
	assert_string_equal(rows_of(s), "+job build|+job train|job -| 30");
	press(s, "/worker\n");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
	assert_int_equal(scene_selected(s)->p->key.pid, 11);
	press(s, "/nothing\n");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
}

/* What a row shows is what finds it, and nothing that it does not show. */
static void test_search_what_is_shown(void **state)
{
	struct scene *s = *state;
	CLEANUP(snapshot_release) struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 4);
	snap.processes[0].rank = 0;
	snap.processes[1].rank = 1;
	scene_name_sheet(s, outline_key_of_sheet("train", 0, 1), "train");
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	press(s, "/rank 1\n");
	assert_int_equal(scene_selected(s)->kind, NODE_RANK);
	assert_int_equal(scene_selected(s)->rank, 1);
	press(s, "/Sheet 1 tr\n");
	assert_int_equal(scene_selected(s)->kind, NODE_SHEET);
	assert_string_equal(scene_selected(s)->job_id, "train");
	press(s, "/train\nn"); /* the sheet; the ranks are passed over */
	assert_int_equal(scene_selected(s)->p->key.pid, 10);
	press(s, "n");
	assert_int_equal(scene_selected(s)->kind, NODE_JOB);
	press(s, "/no job\n");
	assert_null(scene_selected(s)->job_id);
	press(s, "frank 1\n"); /* with all that is of it */
	assert_string_equal(rows_of(s), "job train| sheet 1|  rank 1|   11");
	press(s, "t/train\n"); /* in a list it says whose it is */
	assert_int_equal(scene_selected(s)->p->key.pid, 11);
}

static void test_filter_by_pid(void **state)
{
	struct scene *s = *state;

	press(s, "f1\n");
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|   11");
	press(s, "f1\n"); /* 11 */
	assert_string_equal(rows_of(s), "job train| sheet 1|  10|   11");
	assert_string_equal(s->filter, "11");
	press(s, "f1\n");
	assert_string_equal(rows_of(s), "");
}

/* Who is selected stays so, wherever it goes. */
static void test_selection_stays(void **state)
{
	struct scene *s = *state;

	press(s, "/make\n");
	assert_int_equal(scene_selected_row(s), 2);
	press(s, "M");
	assert_int_equal(scene_selected(s)->p->key.pid, 20);
	assert_int_equal(scene_selected_row(s), 6);
}

/* The user goes to what it was of, and stays where they were when that is over, too. */
static void test_selected_is_gone(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;

	press(s, "/cc -c\n");
	assert_int_equal(scene_selected_row(s), 3);
	snapshot_init(&snap);
	fill_host(&snap, 9);
	snap.processes[3].key.start_ticks = 77; /* another one by the same number */
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(scene_selected_row(s), 1);
	assert_int_equal(scene_selected(s)->kind, NODE_SHEET);
	assert_string_equal(scene_selected(s)->job_id, "build");
	assert_string_equal(s->message, ""); /* nothing was shown of it */
	snap.n_processes = 0;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_string_equal(scene_selected(s)->job_id, "build");
	snap.n_progress = 1;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(scene_selected_row(s), 0);
	assert_non_null(scene_selected(s));
	snapshot_release(&snap);
}

/* A detail is never that of another, which nobody has asked for. */
static void test_detail_is_gone(void **state)
{
	struct scene *s = *state;
	CLEANUP(snapshot_release) struct snapshot snap;

	snapshot_init(&snap);
	press(s, "/cc -c\n\n");
	assert_non_null(strstr(draw_text(s, 80, 40), "DETAIL\nprocess       21 (parent 20)"));
	fill_host(&snap, 9);
	snap.processes[3] = snap.processes[4];
	snap.n_processes = 4;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_null(strstr(draw_text(s, 80, 40), "DETAIL"));
	assert_non_null(strstr(draw_text(s, 80, 40), "\npid 21 has ended"));
	press(s, "/sshd\n\nfmake\n"); /* one that is left out goes on */
	assert_true(s->shows_detail);
	keys_press(s, TUI_KEY_ESCAPE);
	keys_press(s, TUI_KEY_ESCAPE);
	press(s, "/sshd\n\n");
	s->source = SOURCE_REPLAY; /* one can go back behind its beginning */
	snap.n_processes = 3;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_string_equal(s->message, "pid 30 is not there now");
}

/* However deep they hang, all of them are there. */
static void test_deep_tree(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 9);
	for (pid_t pid = 1000; pid < 1300; pid++)
		add(&snap, pid, pid - 1, "train", "deep");
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(s->outline.n_rows, 10 + 300);
	press(s, "G");
	for (size_t i = 0; i < s->outline.n_rows; i++)
		assert_true(outline_row(&s->outline, i)->depth <= 64);
	snapshot_release(&snap);
}

/* A ring of parents, as pids that were reused can make one, is no endless tree. */
static void test_ring_of_parents(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;

	snapshot_init(&snap);
	fill_host(&snap, 9);
	snap.processes[0].ppid = 11;
	snap.processes[1].ppid = 10;
	snap.processes[2].ppid = 20; /* its own parent */
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(s->outline.n_rows, 10);
	snapshot_release(&snap);
}

/* A pid that another process has by now begins a new curve. */
static void test_pid_reuse(void **state)
{
	struct scene *s = *state;
	struct snapshot snap;
	struct proc_key old = { 30, 30 }, young = { 30, 77 };

	snapshot_init(&snap);
	fill_host(&snap, 9);
	snap.processes[4].key.start_ticks = 77;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(tracks_find(&s->tracks, track_key_of_process(&old))->n, 3);
	assert_int_equal(tracks_find(&s->tracks, track_key_of_process(&young))->n, 1);
	for (unsigned k = 10; k < 50; k++) {
		fill_host(&snap, k);
		snap.processes[4].key.start_ticks = 77;
		assert_int_equal(scene_add_snapshot(s, &snap), 0);
	}
	assert_null(tracks_find(&s->tracks, track_key_of_process(&old))); /* forgotten */
	snapshot_release(&snap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rows),
		TEST(test_sums),
		TEST(test_sums_with_ended_children),
		TEST(test_sums_of_what_is_hidden),
		TEST(test_sums_of_what_is_unknown),
		TEST(test_list),
		TEST(test_names_of_sheets),
		TEST(test_long_name_of_sheet),
		TEST(test_attempts),
		TEST(test_age_of_job),
		TEST(test_folding),
		TEST(test_filter),
		TEST(test_filter_unfolds),
		TEST(test_search),
		TEST(test_search_folded),
		TEST(test_search_what_is_shown),
		TEST(test_filter_by_pid),
		TEST(test_selection_stays),
		TEST(test_selected_is_gone),
		TEST(test_detail_is_gone),
		TEST(test_deep_tree),
		TEST(test_ring_of_parents),
		TEST(test_pid_reuse),
	};

	return cmocka_run_group_tests_name("tui_outline", tests, NULL, NULL);
}

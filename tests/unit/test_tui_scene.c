/*
 * What "proctor top" shows, as text: rows, sorting, folding, filters, keys, panels and
 * sizes; and snapshots that come back from JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "tui/daemon_event.h"
#include "tui/draw.h"
#include "tui/feed.h"
#include "tui/keys.h"
#include "tui/scene.h"
#include "tui/snapshot_json.h"

#define MB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define NOON UINT64_C(1700000000000000000) /* 22:13:20 UTC */

/* ---- a host ---- */

static struct proc_sample *add(struct snapshot *s, pid_t pid, pid_t ppid, const char *job_id,
			       const char *command)
{
	struct proc_sample *p = snapshot_add_process(s);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, (uint64_t)pid };
	p->ppid = ppid;
	p->state = 'S';
	p->command = arena_strdup(&s->arena, command);
	p->job_id = arena_strdup(&s->arena, job_id);
	p->sheet_num = job_id ? 1 : SHEET_NONE;
	p->age_seconds = 100 - pid;
	p->cpu_percent = pid;
	p->rss_bytes = (uint64_t)(100 - pid) * MB;
	p->threads = 1;
	p->open_fds = 3;
	return p;
}

static void fill_host(struct snapshot *s, unsigned k)
{
	snapshot_reset(s);
	s->wall_ns = NOON + k * SECOND;
	s->boot_ns = (1000 + k) * SECOND;
	s->system.memory_total_bytes = 16384 * MB;
	s->system.memory_used_bytes = 4096 * MB;
	s->system.cpu_count = 4;
	s->system.load1 = s->system.load5 = s->system.load15 = 1.5;
	s->system.cpu_user_ns = k * SECOND;
	s->system.cpu_system_ns = 0;
	s->system.cpu_idle_ns = k * 3 * SECOND;
	s->system.cpu_iowait_ns = 0;
	s->running_jobs = 2;
	s->active_sheets = 2;
	s->pressure_level = "none";
	s->progress = arena_alloc(&s->arena, 2 * sizeof(*s->progress));
	assert_non_null(s->progress);
	s->progress[0] = (struct job_progress){ "train", 0, 4, 1, 2, "running" };
	s->progress[1] = (struct job_progress){ "build", 0, 1, 0, 1, "running" };
	s->n_progress = 2;
	add(s, 10, 1, "train", "python train.py");
	add(s, 11, 10, "train", "python worker")->rchar = k * MB;
	s->processes[1].wchar = 0;
	add(s, 20, 1, "build", "make");
	add(s, 21, 20, "build", "cc -c a.c");
	add(s, 30, 1, NULL, "sshd");
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct snapshot snap;

	assert_non_null(s);
	setenv("TZ", "UTC", 1);
	tzset();
	scene_init(s);
	snprintf(s->source_note, sizeof(s->source_note), "daemon 42");
	snapshot_init(&snap);
	for (unsigned k = 1; k <= 3; k++) {
		fill_host(&snap, k);
		assert_int_equal(scene_add_snapshot(s, &snap), 0);
	}
	snapshot_release(&snap);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	scene_release(*state);
	free(*state);
	return 0;
}

static void add_event(struct scene *s, enum event_kind kind, const char *text)
{
	struct scene_event event = { .wall_ns = NOON, .kind = kind };

	snprintf(event.text, sizeof(event.text), "%s", text);
	scene_add_event(s, &event);
}

/* ---- rows ---- */

/* "job train|sheet 1|10 python train.py|…", with '+' before what is folded. */
static const char *rows_of(const struct scene *s)
{
	static char text[2048];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; outline_row(&s->outline, i); i++) {
		const struct node *node = outline_row(&s->outline, i);
		char row[128];

		if (node->kind == NODE_JOB)
			snprintf(row, sizeof(row), "job %s", node->job_id ? node->job_id : "-");
		else if (node->kind == NODE_PROCESS)
			snprintf(row, sizeof(row), "%d", (int)node->p->key.pid);
		else
			snprintf(row, sizeof(row), "%s %d",
				 node->kind == NODE_SHEET ? "sheet" : "rank",
				 node->kind == NODE_SHEET ? node->sheet_num : node->rank);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%*s%s%s", i ? "|" : "",
				      node->depth, "", node->is_folded ? "+" : "", row);
	}
	return text;
}

static void press(struct scene *s, const char *keys)
{
	for (; *keys; keys++)
		keys_press(s, (unsigned char)*keys);
}

static const char *draw_text(struct scene *s, int width, int height)
{
	static struct buf text = BUF_INIT;
	struct grid g = GRID_INIT;

	buf_reset(&text);
	assert_int_equal(grid_resize(&g, width, height), 0);
	draw_scene(s, &g);
	grid_to_text(&g, &text);
	grid_release(&g);
	return text.data;
}

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
	keys_press(s, TUI_KEY_ESCAPE);
	press(s, "t");
	assert_string_equal(rows_of(s), "+job build|job train| sheet 1|  10|   11|job -| 30");
}

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

	keys_click(s, memory, s->jobs_y - 1);
	assert_int_equal(s->sort, SORT_MEMORY);
	keys_click(s, 0, s->jobs_y - 1);
	assert_int_equal(s->sort, SORT_NAME);
	keys_click(s, 31, s->jobs_y - 1); /* the state */
	assert_int_equal(s->sort, SORT_NAME);
	keys_click(s, memory, s->jobs_y - 2);
	assert_int_equal(s->sort, SORT_NAME);
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

static void test_search(void **state)
{
	struct scene *s = *state;

	press(s, "/python\n");
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

/* ---- what is asked for ---- */

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
	assert_int_equal(s->overlay, OVERLAY_NONE);
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

static void test_clicks(void **state)
{
	struct scene *s = *state;
	struct grid g = GRID_INIT;

	assert_int_equal(grid_resize(&g, 80, 24), 0);
	draw_scene(s, &g);
	keys_click(s, 0, s->jobs_y + 4);
	assert_string_equal(scene_selected(s)->job_id, "train");
	keys_click(s, 0, s->jobs_y + 4);
	assert_true(scene_selected(s)->is_folded);
	keys_click(s, 0, 0);
	keys_click(s, 0, 23);
	assert_string_equal(scene_selected(s)->job_id, "train");
	grid_release(&g);
}

/* ---- screens ---- */

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
		"JOB / PROCESS                  S  CPU%▾    MEM MEM OVER TIME     I/O  THR    AGE\n"
		">- build 2 0/1                      41.0   159M           ███       -         80s\n"
		"  - sheet 1                        41.0   159M                     -         80s\n"
		"    - 20 make                  S   20.0    80M           ███       -    1    80s\n"
		"        21 cc -c a.c           S   21.0    79M           ███       -    1    79s\n"
		"- train 2 ██······ 1/4             21.0   179M           ███  1.0M/s         90s\n"
		"  - sheet 1                        21.0   179M                1.0M/s         90s\n"
		"    - 10 python train.py       S   10.0    90M           ███       -    1    90s\n"
		"        11 python worker       S   11.0    89M           ███  1.0M/s    1    89s\n"
		"- no job 1                         30.0    70M                     -         70s\n"
		"    30 sshd                    S   30.0    70M           ███       -    1    70s\n"
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
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "\nsend SIGTERM to pid 10 python train.py? (y/n)  i INT"));
	snprintf(s->wish.command, sizeof(s->wish.command), "a command that is too long for it");
	assert_non_null(strstr(draw_text(s, 80, 24), "pid 10 a command that is to? (y/n)  i INT"));
	assert_non_null(strstr(draw_text(s, 120, 24), "too long for it? (y/n)  i INT"));
}

/* Those that wait are counted apart, and have a row until they run. */
static void test_queued(void **state)
{
	struct scene *s = *state;
	const char *text;

	scene_add_queued(s, "late", "it waits for 2 GB of memory");
	scene_add_queued(s, "train", NULL); /* has begun meanwhile */
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
	scene_forget_queued(s);
	assert_int_equal(scene_refresh(s), 0);
	assert_null(strstr(draw_text(s, 80, 24), "queued"));
}

static void test_anomalies(void **state)
{
	struct scene *s = *state;
	struct episode e;
	const char *text;

	assert_null(strstr(draw_text(s, 80, 24), "anomalies")); /* nobody has counted them */
	episode_init(&e);
	e.worst.type = ANOMALY_MEMORY_LEAK;
	e.worst.severity = SEVERITY_HIGH;
	snprintf(e.worst.text, sizeof(e.worst.text), "python grows by 60 MB a minute");
	episode_set_job(&e, "train");
	e.began_wall_ns = NOON;
	s->n_anomalies = 2;
	feed_tell_anomaly(s, &e, EPISODE_BEGAN);
	assert_int_equal(scene_event(s, 0)->kind, EVENT_KIND_ANOMALY);
	text = draw_text(s, 80, 24);
	assert_non_null(strstr(text, "2 jobs, 2 sheets, pressure none, 2 anomalies\n"));
	assert_non_null(strstr(
		text, "22:13:20 python grows by 60 MB a minute (memory_leak, high, of train)\n"));
}

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
		"CPU           11.0 %, 7s user, 2s system; of ended children 3s and 1s\n",
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
}

static void flag(struct scene *s, const char *episode, const struct proc_key *key,
		 uint64_t began_ns, uint64_t ended_ns)
{
	struct scene_flag flag = {
		.id = scene_flag_id(episode),
		.began_ns = began_ns,
		.ended_ns = ended_ns,
		.process = track_key_of_process(key),
		.job = track_key_of_job("train"),
	};

	snprintf(flag.text, sizeof(flag.text), "%s", episode);
	snprintf(flag.kind, sizeof(flag.kind), "-");
	scene_set_flag(s, &flag);
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
	flag(s, "leak", &its, NOON, NOON + SECOND);
	assert_non_null(strstr(draw_text(s, 80, 30),
			       "\nwas flagged   leak\n              -, since 22:13:20"));
	press(s, "/train\n");
	assert_non_null(strstr(draw_text(s, 80, 30), "\nflagged       zombie pid 11"));
	press(s, "/build\n");
	assert_null(strstr(draw_text(s, 80, 30), "flagged"));
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
		"              -, since 22:13:20\n"
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
	assert_int_equal(s->n_flags, SCENE_FLAGS);
	assert_non_null(strstr(draw_text(s, 80, 30),
			       "\nflagged       leak\n              -, since 22:13:20"));
	flag(s, "spike", &its, NOON - 86400 * SECOND, U64_UNKNOWN); /* of another day */
	assert_non_null(
		strstr(draw_text(s, 80, 30),
		       "\nflagged       spike\n              -, since 2023-11-13 22:13:20"));
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
	keys_click(s, 0, s->events_y);
	assert_int_equal(s->event_at, s->event_rows - 1);
	keys_click(s, 0, s->jobs_y);
	assert_false(s->is_in_events);
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
		strstr(draw_text(s, 80, 30), "system calls  read 30 (25 %), write 7 (75 %)\n"));
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

/* The user stays where they were, and not at the top, when a job is over. */
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
	assert_int_equal(scene_selected_row(s), 3);
	snap.n_processes = 0;
	snap.n_progress = 1;
	assert_int_equal(scene_add_snapshot(s, &snap), 0);
	assert_int_equal(scene_selected_row(s), 0);
	assert_non_null(scene_selected(s));
	snapshot_release(&snap);
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
	assert_string_equal(scene_event(s, (size_t)s->event_at)->text, "event 3.");
}

static void tell(struct scene *s, const char *topic, double timestamp, const char *json, bool again)
{
	static const struct rpc_value_limits limits = { 16, 100 };
	struct rpc_value *data = NULL;

	assert_int_equal(rpc_value_parse(json, strlen(json), &limits, &data, NULL), 0);
	daemon_event_tell(s, topic, timestamp, data, again);
	rpc_value_free(data);
}

/* A job whose first process is over is as old as it was before. */
static void test_age_of_job(void **state)
{
	struct scene *s = *state;

	scene_set_start(s, track_key_of_job("build"), NOON - 997 * SECOND);
	scene_set_start(s, outline_id_of_sheet("build", 1), NOON - 497 * SECOND);
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

/* What a daemon tells looks as it does when it is replayed, and is told once. */
static void test_daemon_events(void **state)
{
	struct scene *s = *state;
	struct proc_event exited = { .wall_ns = NOON, .type = EVENT_EXIT, .status = { 3, -1 } };
	struct proc_event killed = { .wall_ns = NOON, .type = EVENT_EXIT, .status = { -1, 9 } };
	struct proc_event ended = { .wall_ns = NOON, .type = EVENT_EXIT, .status = { 0, -1 } };
	const struct {
		const char *json;
		const struct proc_event *event;
	} rows[] = {
		{ "{\"pid\":5,\"exit_code\":3,\"signal_num\":null}", &exited },
		{ "{\"pid\":5,\"exit_code\":null,\"signal_num\":9}", &killed },
		{ "{\"pid\":5,\"exit_code\":0,\"signal_num\":null}", &ended },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum event_kind live;

		tell(s, "process.exit", 1700000000, rows[i].json, false);
		live = scene_event(s, 0)->kind;
		feed_tell_process_event(s, rows[i].event);
		assert_int_equal(scene_event(s, 0)->kind, live);
		assert_int_equal(live == EVENT_KIND_TROUBLE, i < 2);
	}
	assert_int_equal(s->n_events, 6);
	tell(s, "process.exit", 1700000000, rows[0].json, true);
	assert_int_equal(s->n_events, 6);
	tell(s, "process.exit", 1700000001, rows[0].json, true);
	assert_int_equal(s->n_events, 7);
	daemon_event_tell_loss(s, 3);
	assert_string_equal(scene_event(s, 0)->text, "3 events were lost on the way here");
}

/* Of another job neither the events nor the flags are of interest. */
static void test_daemon_flags(void **state)
{
	static const char began[] =
		"{\"episode\":\"x\",\"pid\":11,\"start_ticks\":11,\"job_id\":\"train\",\"began\":"
		"1700000000,\"ended\":null,\"anomaly_type\":\"zombie\",\"severity\":\"low\",\"description\":\"it waits\"}";
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
	assert_non_null(
		strstr(draw_text(s, 80, 30),
		       "\nflagged       it waits\n              zombie, low, since 22:13:20"));
	tell(s, "monitor.anomaly", 1700000001, cleared, false);
	assert_int_equal(scene_count_flags(s), 0);
	assert_non_null(strstr(draw_text(s, 80, 30), "\nwas flagged   "));
}

/* The clock and the bar of a replay, and what is left out of it. */
static void test_replay_footer(void **state)
{
	struct scene *s = *state;

	s->source = SOURCE_REPLAY;
	s->replay.from_ns = NOON - SECOND; /* the last snapshot is at 3 s */
	s->replay.to_ns = NOON + 7 * SECOND;
	snprintf(s->filter, sizeof(s->filter), "make");
	assert_non_null(strstr(draw_text(s, 80, 24),
			       "replay 22:13:23 ×1 ██████████··········  filter: make"));
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

/* ---- JSON ---- */

static void test_snapshot_from_json(void **state)
{
	static const struct syscall_use uses[] = { { "read", 30, 0, 100, 0 },
						   { "write", 7, 0, 300, 0 } };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(snapshot_release) struct snapshot back;
	struct json_cursor c;
	struct json j;

	(void)state;
	snapshot_init(&snap);
	snapshot_init(&back);
	fill_host(&snap, 5);
	snap.processes[0].rank = 3;
	snap.processes[0].gpu_memory_bytes = 77 * MB;
	snap.processes[0].rss_bytes = 12345678; /* no whole MB */
	snap.processes[1].fd_limit = FD_LIMIT_UNLIMITED;
	snap.processes[2].syscalls = uses;
	snap.processes[2].n_syscalls = 2;
	snap.system.psi_io.some = (struct psi_line){ 12.5, 0, 0, 1 };
	json_init(&j, &text);
	snapshot_write_json(&j, &snap, SNAPSHOT_ALL);
	json_cursor_init(&c, text.data, text.len);
	assert_int_equal(snapshot_from_json(&c, &back), 0);
	assert_int_equal(back.n_processes, 5);
	assert_int_equal(back.wall_ns / 1000, snap.wall_ns / 1000);
	assert_int_equal(back.processes[0].key.pid, 10);
	assert_int_equal(back.processes[0].key.start_ticks, 10);
	assert_int_equal(back.processes[0].rank, 3);
	assert_int_equal(back.processes[0].rss_bytes, 12345678);
	assert_int_equal(back.processes[0].gpu_memory_bytes, 77 * MB);
	assert_true(!u64_known(back.processes[0].rchar));
	assert_true(back.processes[1].fd_limit == FD_LIMIT_UNLIMITED);
	assert_string_equal(back.processes[1].command, "python worker");
	assert_null(back.processes[4].job_id);
	assert_int_equal(back.n_progress, 2);
	assert_string_equal(back.progress[0].job_id, "train");
	assert_int_equal(back.progress[0].total_sheets, 4);
	assert_true(back.gpus == NULL);
	assert_string_equal(back.pressure_level, "none");
	assert_null(back.processes[0].syscalls); /* nobody counted */
	assert_int_equal(back.processes[2].n_syscalls, 2);
	assert_string_equal(back.processes[2].syscalls[1].name, "write");
	assert_int_equal(back.processes[2].syscalls[1].count, 7);
	assert_int_equal(back.processes[2].syscalls[1].cpu_ns, 750000000); /* a share of 1 s */
	assert_true(back.system.psi_io.some.avg10 == 12.5);
	assert_true(isnan(back.system.psi_cpu.some.avg10));
}

/* A text that ends anywhere, and members of other types, twice, or in another order. */
static void test_odd_snapshots(void **state)
{
	static const char odd[] =
		"{\"processes\":[3,{\"pid\":\"x\",\"command\":7,\"syscall_time_pct\":{\"read\":5},"
		"\"syscall_counts\":{\"read\":-1,\"write\":2},\"fd_limit\":\"unlimited\"}],"
		"\"gpus\":[{},{},{}],\"gpus\":[{\"index\":9}],"
		"\"job_progress\":[1,{\"job_id\":\"a\"}],\"job_progress\":[],\"psi_io\":[]}";
	CLEANUP(snapshot_release) struct snapshot back;
	struct json_cursor c;

	(void)state;
	snapshot_init(&back);
	for (size_t n = 0; n + 1 < sizeof(odd) - 1; n++) {
		CLEANUP(free_ptr) char *cut = strndup(odd, n);

		json_cursor_init(&c, cut, n);
		assert_int_equal(snapshot_from_json(&c, &back), -EINVAL);
	}
	json_cursor_init(&c, odd, sizeof(odd) - 1);
	assert_int_equal(snapshot_from_json(&c, &back), 0);
	assert_int_equal(back.n_processes, 2);
	assert_int_equal(back.processes[1].n_syscalls, 1);
	assert_true(back.processes[1].fd_limit == FD_LIMIT_UNLIMITED);
	assert_null(back.processes[1].command);
	assert_int_equal(back.n_gpus, 1);
	assert_int_equal(back.gpus[0].index, 9);
	assert_int_equal(back.n_progress, 0);
	json_cursor_init(&c, "[1]", 3);
	assert_int_equal(snapshot_from_json(&c, &back), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rows),
		TEST(test_sums),
		TEST(test_list),
		TEST(test_sort_menu),
		TEST(test_click_title),
		TEST(test_age_of_job),
		TEST(test_folding),
		TEST(test_filter),
		TEST(test_search),
		TEST(test_search_folded),
		TEST(test_filter_by_pid),
		TEST(test_selection_stays),
		TEST(test_ending),
		TEST(test_clicks),
		TEST(test_screen),
		TEST(test_anomalies),
		TEST(test_detail),
		TEST(test_flagged),
		TEST(test_detail_of_job),
		TEST(test_detail_of_process),
		TEST(test_chart),
		TEST(test_no_such_job),
		TEST(test_question),
		TEST(test_queued),
		TEST(test_long_reason),
		TEST(test_flags_last),
		TEST(test_walk_among_events),
		TEST(test_calls),
		TEST(test_pause),
		cmocka_unit_test(test_wide_characters),
		TEST(test_selected_is_gone),
		TEST(test_help),
		TEST(test_sizes),
		TEST(test_long_name),
		TEST(test_deep_tree),
		TEST(test_late_event),
		TEST(test_replay_footer),
		TEST(test_daemon_events),
		TEST(test_daemon_flags),
		cmocka_unit_test(test_nothing_yet),
		TEST(test_hostile_names),
		TEST(test_pid_reuse),
		TEST(test_ring_of_parents),
		cmocka_unit_test(test_snapshot_from_json),
		cmocka_unit_test(test_odd_snapshots),
	};

	return cmocka_run_group_tests_name("tui_scene", tests, NULL, NULL);
}

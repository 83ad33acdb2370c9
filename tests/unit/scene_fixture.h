/*
 * scene_fixture - a host with two jobs, its scene after three snapshots, and ways to look at it.
 */
#ifndef PROCTOR_TESTS_SCENE_FIXTURE_H
#define PROCTOR_TESTS_SCENE_FIXTURE_H

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
#include "tui/draw.h"
#include "tui/feed.h"
#include "tui/keys.h"
#include "tui/scene.h"

#define MB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define NOON UINT64_C(1700000000000000000) /* 22:13:20 UTC */

static inline struct proc_sample *add(struct snapshot *s, pid_t pid, pid_t ppid, const char *job_id,
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

static inline void fill_host(struct snapshot *s, unsigned k)
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
	s->progress[0] = (struct job_progress){ "train", 0, 4, 1, 2, "running", 0, 0 };
	s->progress[1] = (struct job_progress){ "build", 0, 1, 0, 1, "running", 0, 0 };
	s->n_progress = 2;
	add(s, 10, 1, "train", "python train.py")->rchar = 1000 * MB;
	s->processes[0].wchar = 0;
	add(s, 11, 10, "train", "python worker")->rchar = k * MB;
	s->processes[1].wchar = 0;
	add(s, 20, 1, "build", "make");
	add(s, 21, 20, "build", "cc -c a.c");
	add(s, 30, 1, NULL, "sshd");
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	scene_release(*state);
	free(*state);
	return 0;
}

static inline void add_event(struct scene *s, enum event_kind kind, const char *text)
{
	struct scene_event event = { .wall_ns = NOON, .kind = kind };

	snprintf(event.text, sizeof(event.text), "%s", text);
	scene_add_event(s, &event);
}

/* "job train|sheet 1|10 python train.py|…", with '+' before what is folded. */
static inline const char *rows_of(const struct scene *s)
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

static inline const char *draw_text(struct scene *s, int width, int height)
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

static inline void press(struct scene *s, const char *keys)
{
	for (; *keys; keys++)
		keys_press(s, (unsigned char)*keys);
}

static inline void flag(struct scene *s, const char *episode, const struct proc_key *key,
			uint64_t began_ns, uint64_t ended_ns)
{
	struct scene_flag flag = {
		.id = scene_flag_id(episode),
		.began_ns = began_ns,
		.told_ns = began_ns,
		.ended_ns = ended_ns,
		.process = track_key_of_process(key),
		.job = track_key_of_job("train"),
	};

	snprintf(flag.text, sizeof(flag.text), "%s", episode);
	snprintf(flag.kind, sizeof(flag.kind), "-");
	scene_set_flag(s, &flag);
}

static inline void tell(struct scene *s, const char *topic, double timestamp, const char *json,
			bool again)
{
	static const struct rpc_value_limits limits = { 16, 100 };
	struct rpc_value *data = NULL;

	assert_int_equal(rpc_value_parse(json, strlen(json), &limits, &data, NULL), 0);
	feed_add_event(s, topic, timestamp > 0 ? (uint64_t)(timestamp * 1e9) : U64_UNKNOWN, data,
		       again);
	rpc_value_free(data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "tui/draw.h"
#include "tui/keys.h"

/* ---- what happened ---- */

static const enum style style_of_kind[] = {
	[EVENT_KIND_PROCESS] = STYLE_DIM,
	[EVENT_KIND_TROUBLE] = STYLE_WARNING,
	[EVENT_KIND_JOB] = STYLE_GOOD,
	[EVENT_KIND_ANOMALY] = STYLE_BAD,
};

void draw_timeline(const struct scene *s, const struct area *a)
{
	int rows = a->height - 1;

	area_put(a, 0, 0, STYLE_TITLE, s->events_up ? "WHAT HAPPENED (earlier)" : "WHAT HAPPENED");
	for (int i = 0; i < rows; i++) {
		const struct scene_event *event = scene_event(s, (size_t)(s->events_up + i));
		char room[DRAW_NUMBER_BYTES];
		int x;

		if (!event)
			return;
		x = area_put(a, 0, rows - i, STYLE_DIM, draw_clock(event->wall_ns, room));
		area_put(a, x + 1, rows - i, style_of_kind[event->kind], event->text);
	}
}

/* ---- all that is known of one thing ---- */

#define LABEL_COLUMNS 14

static int add_line(const struct area *a, int y, const char *label, const char *text)
{
	area_put(a, 0, y, STYLE_TITLE, label);
	area_put(a, LABEL_COLUMNS, y, STYLE_PLAIN, text);
	return y + 1;
}

static const char *of_limit(uint64_t fds, uint64_t limit, char *room, size_t size)
{
	if (!u64_known(fds))
		snprintf(room, size, "-");
	else if (!u64_known(limit))
		snprintf(room, size, "%llu", (unsigned long long)fds);
	else if (limit == FD_LIMIT_UNLIMITED)
		snprintf(room, size, "%llu, no limit", (unsigned long long)fds);
	else
		snprintf(room, size, "%llu of %llu", (unsigned long long)fds,
			 (unsigned long long)limit);
	return room;
}

static int draw_process(const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char text[256], b[4][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%d (parent %d), state %c, %s old", (int)p->key.pid,
		 (int)p->ppid, p->state, draw_time(p->age_seconds, b[0]));
	y = add_line(a, y, "process", text);
	y = add_line(a, y, "command", p->command ? p->command : p->comm);
	snprintf(text, sizeof(text), "%s now, %s at most, %s of files, %s swapped out",
		 draw_bytes(p->rss_bytes, b[0]), draw_bytes(p->hwm_bytes, b[1]),
		 draw_bytes(p->rss_file_bytes, b[2]), draw_bytes(p->swap_bytes, b[3]));
	y = add_line(a, y, "memory", text);
	snprintf(text, sizeof(text), "%s %%, %s user, %s system",
		 draw_percent(p->cpu_percent, b[0]), draw_time(u64_to_seconds(p->user_ns), b[1]),
		 draw_time(u64_to_seconds(p->system_ns), b[2]));
	y = add_line(a, y, "CPU", text);
	snprintf(text, sizeof(text), "%s; %s read, %s written of storage",
		 draw_rate(node->io_rate, b[0]), draw_bytes(p->read_bytes, b[1]),
		 draw_bytes(p->write_bytes, b[2]));
	y = add_line(a, y, "I/O", text);
	return add_line(a, y, "open files", of_limit(p->open_fds, p->fd_limit, text, sizeof(text)));
}

static int draw_group(const struct area *a, int y, const struct node *node)
{
	char text[256], b[3][DRAW_NUMBER_BYTES];

	y = add_line(a, y, "job", node->job_id ? node->job_id : "processes of no job");
	if (node->progress) {
		snprintf(text, sizeof(text), "%d of %d sheets done, %s",
			 node->progress->last_completed_sheet, node->progress->total_sheets,
			 node->progress->status ? node->progress->status : "-");
		y = add_line(a, y, "progress", text);
	}
	snprintf(text, sizeof(text), "%zu; CPU %s %%, memory %s, I/O %s", node->n_processes,
		 draw_percent(node->cpu_percent, b[0]), draw_bytes(node->rss_bytes, b[1]),
		 draw_rate(node->io_rate, b[2]));
	return add_line(a, y, "processes", text);
}

/* The last anomaly or trouble that names it. */
static int draw_why(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	char pid[24] = "";

	if (node->p)
		snprintf(pid, sizeof(pid), "pid %d", (int)node->p->key.pid);
	for (size_t i = 0; i < s->n_events; i++) {
		const struct scene_event *event = scene_event(s, i);
		const char *name = node->p ? pid : node->job_id;

		if (event->kind == EVENT_KIND_ANOMALY && name && strstr(event->text, name))
			return add_line(a, y, "flagged", event->text);
	}
	return y;
}

void draw_detail(const struct scene *s, const struct area *a)
{
	const struct node *node = scene_selected(s);
	struct area chart;
	int y = 1;

	area_put(a, 0, 0, STYLE_TITLE, "DETAIL");
	if (!node)
		return;
	y = node->p ? draw_process(a, y, node) : draw_group(a, y, node);
	y = draw_why(s, a, y, node);
	chart = area_part(a, 0, y, a->width, a->height - y);
	draw_braille(&chart, tracks_find(&s->tracks, node->id));
}

/* ---- keys ---- */

void draw_help(const struct scene *s, const struct area *a)
{
	int rows = a->height - 3, n = 0;

	area_put(a, 0, 0, STYLE_BOLD, "proctor top: keys (any key goes back)");
	for (size_t i = 0; i < keys_n_rows && rows > 0; i++) {
		struct area half = area_part(a, n / rows * (a->width / 2), 2, a->width, rows);

		if (keys_rows[i].for_replay && s->source != SOURCE_REPLAY)
			continue;
		area_put(&half, 1, n % rows, STYLE_TITLE, keys_rows[i].shown);
		area_put(&half, 9, n++ % rows, STYLE_PLAIN, keys_rows[i].help);
	}
}

static const char *const hints =
	"? help  / search  f filter  P M I T N sort  t tree  Enter detail  "
	"x end  p pause  q quit";

static void draw_question(const struct scene *s, const struct area *a)
{
	if (s->wish.kind == WISH_CANCEL_JOB)
		area_printf(a, 0, 0, STYLE_BAD, "cancel the job %s and end all of it? (y/n)",
			    s->wish.job_id);
	else
		area_printf(a, 0, 0, STYLE_BAD, "send SIGTERM to pid %d? (y/n)",
			    (int)s->wish.key.pid);
}

static void draw_replay(const struct scene *s, const struct area *a)
{
	double span = (double)(s->replay.to_ns - s->replay.from_ns);
	double at = span > 0 ? (double)(s->snap.wall_ns - s->replay.from_ns) / span : F64_UNKNOWN;
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, 0, STYLE_BOLD,
			 s->replay.is_over ? "end"
			 : s->is_paused	   ? "paused"
					   : "replay");

	x = area_printf(a, x + 1, 0, STYLE_PLAIN, "%s ×%g", draw_clock(s->snap.wall_ns, room),
			s->replay.speed);
	area_bar(a, x + 1, 0, 20, STYLE_BAR, at);
	area_put(a, x + 23, 0, STYLE_DIM,
		 "p pause  ,/. step  </> speed  a next anomaly  q quit  ? help");
}

void draw_footer(const struct scene *s, const struct area *a)
{
	if (s->overlay == OVERLAY_FILTER)
		area_printf(a, 0, 0, STYLE_BOLD, "filter: %s_", s->input);
	else if (s->overlay == OVERLAY_SEARCH)
		area_printf(a, 0, 0, STYLE_BOLD, "search: %s_", s->input);
	else if (s->overlay == OVERLAY_CONFIRM)
		draw_question(s, a);
	else if (s->message[0])
		area_put(a, 0, 0, STYLE_WARNING, s->message);
	else if (s->source == SOURCE_REPLAY)
		draw_replay(s, a);
	else
		area_printf(a, 0, 0, STYLE_DIM, "%s%s", s->is_paused ? "PAUSED  " : "", hints);
}

/*
 * All that is known of what is selected: a process, a job, or an event.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_cursor.h"
#include "base/unknown.h"
#include "tui/calls.h"
#include "tui/draw.h"

#define LABEL_COLUMNS 14
#define MAX_FLAGS 3 /* of one thing that are shown */

static int add_line(const struct area *a, int y, const char *label, const char *text)
{
	area_put(a, 0, y, STYLE_TITLE, label);
	area_put(a, LABEL_COLUMNS, y, STYLE_PLAIN, text);
	return y + 1;
}

/* ---- a process ---- */

static const char *of_limit(uint64_t fds, uint64_t limit, char *room, size_t size)
{
	if (!u64_known(fds))
		snprintf(room, size, "-");
	else if (!u64_known(limit))
		snprintf(room, size, "%llu, of a limit that is not known", (unsigned long long)fds);
	else if (limit == FD_LIMIT_UNLIMITED)
		snprintf(room, size, "%llu, no limit", (unsigned long long)fds);
	else
		snprintf(room, size, "%llu of %llu (%.0f %%)", (unsigned long long)fds,
			 (unsigned long long)limit,
			 limit ? 100.0 * (double)fds / (double)limit : 100.0);
	return room;
}

static int draw_use(const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char text[256], b[4][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%s now, %s at most, %s of files, %s swapped out, %s virtual",
		 draw_bytes(p->rss_bytes, b[0]), draw_bytes(p->hwm_bytes, b[1]),
		 draw_bytes(p->rss_file_bytes, b[2]), draw_bytes(p->swap_bytes, b[3]),
		 draw_bytes(p->vms_bytes, (char[DRAW_NUMBER_BYTES]){ 0 }));
	y = add_line(a, y, "memory", text);
	snprintf(text, sizeof(text), "%s %%, %s user, %s system",
		 draw_percent(p->cpu_percent, b[0]), draw_time(u64_to_seconds(p->user_ns), b[1]),
		 draw_time(u64_to_seconds(p->system_ns), b[2]));
	y = add_line(a, y, "CPU", text);
	snprintf(text, sizeof(text), "%s; %s read, %s written of storage",
		 draw_rate(node->io_rate, b[0]), draw_bytes(p->read_bytes, b[1]),
		 draw_bytes(p->write_bytes, b[2]));
	return add_line(a, y, "I/O", text);
}

static int draw_process(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char text[256], b[2][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%d (parent %d), state %c, %s old, %s threads",
		 (int)p->key.pid, (int)p->ppid, p->state, draw_time(p->age_seconds, b[0]),
		 draw_count(p->threads, b[1]));
	y = add_line(a, y, "process", text);
	y = add_line(a, y, "command", p->command ? p->command : p->comm);
	y = draw_use(a, y, node);
	if (s->snap.n_gpus > 0) {
		snprintf(text, sizeof(text), "%s %%, %s", draw_percent(p->gpu_percent, b[0]),
			 draw_bytes(p->gpu_memory_bytes, b[1]));
		y = add_line(a, y, "GPU", text);
	}
	return add_line(a, y, "open files", of_limit(p->open_fds, p->fd_limit, text, sizeof(text)));
}

/* ---- a job, a sheet, a rank ---- */

static int draw_whose(const struct area *a, int y, const struct node *node)
{
	char text[SCENE_TEXT_BYTES];

	if (!node->job_id)
		return add_line(a, y, "job", "processes of no job");
	if (node->kind == NODE_JOB)
		return add_line(a, y, "job", node->job_id);
	if (node->kind == NODE_SHEET)
		snprintf(text, sizeof(text), "%s, sheet %d", node->job_id, node->sheet_num);
	else
		snprintf(text, sizeof(text), "%s, rank %d", node->job_id, node->rank);
	return add_line(a, y, "job", text);
}

static int draw_progress(const struct area *a, int y, const struct job_progress *progress)
{
	char text[256];

	snprintf(text, sizeof(text), "%d of %d sheets done, %s", progress->last_completed_sheet,
		 progress->total_sheets, progress->status ? progress->status : "-");
	return add_line(a, y, "progress", text);
}

static int draw_sums(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	char text[256], gpu[DRAW_NUMBER_BYTES + 8] = "", b[5][DRAW_NUMBER_BYTES];

	if (s->snap.n_gpus > 0)
		snprintf(gpu, sizeof(gpu), "GPU %s, ", draw_bytes(node->gpu_bytes, b[3]));
	snprintf(text, sizeof(text), "%zu; CPU %s %%, memory %s, I/O %s, %s%s old",
		 node->n_processes, draw_percent(node->cpu_percent, b[0]),
		 draw_bytes(node->rss_bytes, b[1]), draw_rate(node->io_rate, b[2]), gpu,
		 draw_time(node->age_seconds, b[4]));
	return add_line(a, y, "processes", text);
}

static int draw_group(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	y = draw_whose(a, y, node);
	if (node->queued) {
		area_put(a, 0, y, STYLE_TITLE, "queued");
		return area_put_wrapped(a, LABEL_COLUMNS, y, STYLE_PLAIN,
					node->queued->why[0] ? node->queued->why : "-");
	}
	if (node->progress)
		y = draw_progress(a, y, node->progress);
	return draw_sums(s, a, y, node);
}

/* ---- both ---- */

static int draw_calls(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	calls_describe(&s->snap, node, &text);
	return add_line(a, y, "system calls", buf_error(&text) == 0 ? text.data : "-");
}

static int draw_flag(const struct scene *s, const struct area *a, int y,
		     const struct scene_flag *flag)
{
	char room[DRAW_NUMBER_BYTES];
	bool lasts = scene_flag_lasts(s, flag);

	area_put(a, 0, y, lasts ? STYLE_BAD : STYLE_TITLE, lasts ? "flagged" : "was flagged");
	y = area_put_wrapped(a, LABEL_COLUMNS, y, STYLE_BOLD, flag->text);
	area_printf(a, LABEL_COLUMNS, y, STYLE_PLAIN, "%s, since %s", flag->kind,
		    draw_when(s, flag->began_ns, room));
	return y + 1;
}

/* All that goes on, the newest first; where nothing does, what was last. */
static int draw_why(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct scene_flag *over = NULL;
	int n = 0;

	for (size_t i = s->n_flags; i-- > 0 && n < MAX_FLAGS;) {
		const struct scene_flag *flag = &s->flags[i];
		uint64_t id = node->kind == NODE_PROCESS ? flag->process : flag->job;

		if (id != node->id)
			continue;
		if (!scene_flag_lasts(s, flag)) {
			over = over ? over : flag;
			continue;
		}
		y = draw_flag(s, a, y, flag);
		n++;
	}
	return n == 0 && over ? draw_flag(s, a, y, over) : y;
}

/* Why it is flagged comes first: that is what one looks for here. */
static int draw_node(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	struct area chart;

	y = draw_why(s, a, y, node);
	y = node->p ? draw_process(s, a, y, node) : draw_group(s, a, y, node);
	y = draw_calls(s, a, y, node);
	if (y < a->height) {
		chart = area_part(a, 0, y, a->width, a->height - y);
		draw_braille(&chart, tracks_find(&s->tracks, node->id));
	}
	return y;
}

/* ---- an event ---- */

static bool is_time(const char *key, size_t len)
{
	static const char *const keys[] = { "timestamp", "changed", "began",
					    "peak",	 "ended",   "started" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (json_cursor_is(key, len, keys[i]))
			return true;
	return false;
}

/* Times as a clock has them, text without its quotes; NULL: nothing that fits into a line. */
static const char *value_text(struct json_cursor *c, bool is_a_time, struct arena *arena,
			      char room[DRAW_NUMBER_BYTES])
{
	struct json_cursor again = *c;
	const char *text, *raw;
	size_t len;
	double v;

	json_cursor_value(c, &raw, &len);
	if (len == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n')
		return NULL;
	if (is_a_time) {
		v = json_cursor_f64(&again);
		return v > 0 && v < 1e10 ? draw_date((uint64_t)(v * 1e9), room) : NULL;
	}
	text = json_cursor_string(&again, arena);
	return text ? text : arena_strndup(arena, raw, len);
}

static int later(int a, int b)
{
	return a > b ? a : b;
}

/* Two in each row where there is room for them. Lists and objects in it are left out. */
static int draw_members(const struct area *a, int y, const char *json)
{
	int columns = a->width >= 120 ? 2 : 1, n = 0, next = y;
	struct arena arena = ARENA_INIT;
	struct json_cursor c;
	const char *key;
	size_t len;

	json_cursor_init(&c, json, strlen(json));
	if (!json_cursor_enter(&c, '{'))
		return y;
	while (json_cursor_next_key(&c, &key, &len)) {
		struct area place = area_part(a, n % columns * (a->width / columns), 0,
					      a->width / columns - 1, a->height);
		char room[DRAW_NUMBER_BYTES];
		const char *value = value_text(&c, is_time(key, len), &arena, room);

		if (!value || !value[0])
			continue;
		y = n++ % columns == 0 ? next : y;
		area_printf(&place, 0, y, STYLE_TITLE, "%.*s", (int)len, key);
		next = later(next, area_put_wrapped(&place, 18, y, STYLE_PLAIN, value));
	}
	arena_release(&arena);
	return next;
}

static int draw_event(const struct scene *s, const struct area *a, int y,
		      const struct scene_event *event)
{
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, y, STYLE_DIM, draw_when(s, event->wall_ns, room));

	y = area_put_wrapped(a, x + 1, y, STYLE_BOLD, event->text);
	return event->json ? draw_members(a, y, event->json) : y;
}

/* ---- the panel ---- */

/* What is above the first row is not drawn; returns how many rows there are in all. */
static int draw_body(const struct scene *s, const struct area *a, const struct scene_event *event,
		     const struct node *node)
{
	int y = -s->detail_up;

	if (event)
		y = draw_event(s, a, y, event);
	else if (node)
		y = draw_node(s, a, y, node);
	return y + s->detail_up;
}

/* True: what was seen before lies beyond its end by now. */
static bool is_beyond(struct scene *s)
{
	int last = s->detail_all > s->detail_rows ? s->detail_all - s->detail_rows : 0;
	bool is_so = s->detail_up > last;

	s->detail_up = is_so ? last : s->detail_up;
	return is_so;
}

static void say_what_is_below(const struct scene *s, const struct area *a)
{
	int below = s->detail_all - s->detail_up - s->detail_rows;
	char text[64];

	if (below <= 0 || a->height < 1)
		return;
	snprintf(text, sizeof(text), "%d more lines below: PgDn", below + 1); /* and this one */
	area_printf(a, 0, a->height - 1, STYLE_TITLE, "%-*s", a->width, text);
}

void draw_detail(struct scene *s, const struct area *a)
{
	const struct scene_event *event =
		s->is_in_events ? scene_event(s, (size_t)s->event_at) : NULL;
	const struct node *node = scene_selected(s);
	uint64_t of = event ? event->wall_ns : node ? node->id : 0;
	struct area body = area_part(a, 0, 1, a->width, a->height - 1);

	area_put(a, 0, 0, STYLE_TITLE, event ? "DETAIL OF WHAT HAPPENED" : "DETAIL");
	s->detail_up = s->detail_of == of ? s->detail_up : 0;
	s->detail_of = of;
	s->detail_rows = body.height;
	s->detail_all = draw_body(s, &body, event, node);
	if (is_beyond(s)) {
		area_clear(&body);
		draw_body(s, &body, event, node);
	}
	say_what_is_below(s, &body);
}

/*
 * The detail panel: all that is known of what is selected, a process, a job, or an event.
 *
 * Each part draws from row y on and returns the row behind what it drew.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/unknown.h"
#include "tui/draw.h"

#define LABEL_COLUMNS 14
#define MAX_FLAGS 3 /* of one thing that are shown */
#define CHART_ROWS 6
#define WIDE_COLUMNS 100 /* with room for the chart beside the numbers */

/* What it is, and its value, on as many rows as that takes. */
PRINTF_LIKE(4, 5)
static int line(const struct area *a, int y, const char *label, const char *format, ...)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	area_put(a, 0, y, STYLE_TITLE, label);
	return area_put_wrapped(a, LABEL_COLUMNS, y, STYLE_PLAIN,
				buf_error(&text) == 0 ? text.data : "-");
}

static int draw_calls(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	calls_describe(&s->snap, node, &text);
	return line(a, y, "system calls", "%s", buf_error(&text) == 0 ? text.data : "-");
}

/* Of a job, a sheet, a rank or a process. */
static int draw_whose(const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct proc_sample *p = node->p;

	if (!node->job_id)
		return line(a, y, "job", "%s", p ? "none" : "processes of no job");
	buf_add_str(&text, node->job_id);
	if (node->attempt_num > 0)
		buf_printf(&text, ", attempt %d", node->attempt_num);
	if (node->sheet_num != SHEET_NONE)
		buf_printf(&text, ", sheet %d", node->sheet_num);
	if (node->sheet_name)
		buf_printf(&text, " (%s)", node->sheet_name);
	if (node->rank != RANK_NONE)
		buf_printf(&text, ", rank %d", node->rank);
	if (p && p->rank != RANK_NONE && p->world_size != RANK_NONE)
		buf_printf(&text, " of %d", p->world_size);
	if (p && p->local_rank != RANK_NONE)
		buf_printf(&text, ", local rank %d", p->local_rank);
	return line(a, y, "job", "%s", buf_error(&text) == 0 ? text.data : node->job_id);
}

/* ---- a job, a sheet or a rank ---- */

static int draw_group(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct job_progress *progress = node->progress;
	char gpu[DRAW_NUMBER_BYTES + 8] = "", b[5][DRAW_NUMBER_BYTES];

	y = draw_whose(a, y, node);
	if (node->queued)
		return line(a, y, "queued", "%s", node->queued->why[0] ? node->queued->why : "-");
	if (progress)
		y = line(a, y, "progress", "%d of %d sheets done, %s", job_progress_over(progress),
			 progress->total_sheets, progress->status ? progress->status : "-");
	if (node->why_held)
		y = line(a, y, "held", "%s", node->why_held);
	if (s->snap.n_gpus > 0)
		snprintf(gpu, sizeof(gpu), "GPU %s, ", draw_bytes(node->gpu_bytes, b[3]));
	y = line(a, y, "processes", "%zu; CPU %s %%, memory %s, I/O %s, %s%s old",
		 node->n_processes, draw_percent(node->cpu_percent, b[0]),
		 draw_bytes(node->rss_bytes, b[1]), draw_rate(node->io_rate, b[2]), gpu,
		 draw_time(node->age_seconds, b[4]));
	return draw_calls(s, a, y, node);
}

/* ---- a process ---- */

static int draw_files(const struct area *a, int y, uint64_t fds, uint64_t limit)
{
	unsigned long long n = fds, of = limit;

	if (!u64_known(fds))
		return line(a, y, "open files", "-");
	if (!u64_known(limit))
		return line(a, y, "open files", "%llu, of a limit that is not known", n);
	if (limit == FD_LIMIT_UNLIMITED)
		return line(a, y, "open files", "%llu, no limit", n);
	return line(a, y, "open files", "%llu of %llu (%.0f %%)", n, of,
		    limit ? 100.0 * (double)fds / (double)limit : 100.0);
}

static const char *limit_text(uint64_t bytes, char room[DRAW_NUMBER_BYTES])
{
	return bytes == MEMORY_UNLIMITED ? "none" : draw_bytes(bytes, room);
}

static int draw_cgroup(const struct snapshot *s, const struct area *a, int y,
		       const struct proc_sample *p)
{
	char b[4][DRAW_NUMBER_BYTES];

	y = line(a, y, "cgroup", "%s", p->cgroup ? p->cgroup : "-");
	for (size_t i = 0; p->cgroup && i < s->n_cgroups; i++) {
		const struct cgroup_sample *c = &s->cgroups[i];

		if (c->path && strcmp(c->path, p->cgroup) == 0)
			return line(a, y, "",
				    "memory %s, limit %s, throttled from %s, OOM kills %s",
				    draw_bytes(c->memory_current_bytes, b[0]),
				    limit_text(c->memory_max_bytes, b[1]),
				    limit_text(c->memory_high_bytes, b[2]),
				    draw_count(c->oom_kills, b[3]));
	}
	return y;
}

static int draw_process(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char b[5][DRAW_NUMBER_BYTES];

	y = line(a, y, "process", "%d (parent %d), state %c, %s old, threads %s, user id %s",
		 (int)p->key.pid, (int)p->ppid, p->state, draw_time(p->age_seconds, b[0]),
		 draw_count(p->threads, b[1]), draw_count(p->uid, b[2]));
	if (u64_known(p->ns_pid) && p->ns_pid != (uint64_t)p->key.pid)
		y = line(a, y, "", "%s in its own pid namespace", draw_count(p->ns_pid, b[0]));
	y = line(a, y, "command", "%s", p->command ? p->command : p->comm);
	y = line(a, y, "memory", "%s now, %s at most, %s virtual, %s swapped out",
		 draw_bytes(p->rss_bytes, b[0]), draw_bytes(p->hwm_bytes, b[1]),
		 draw_bytes(p->vms_bytes, b[2]), draw_bytes(p->swap_bytes, b[3]));
	y = line(a, y, "", "of it %s its own, %s of files, %s shared",
		 draw_bytes(p->rss_anon_bytes, b[0]), draw_bytes(p->rss_file_bytes, b[1]),
		 draw_bytes(p->rss_shmem_bytes, b[2]));
	y = line(a, y, "CPU", "%s %%, %s user, %s system; ended children %s, %s",
		 draw_percent(p->cpu_percent, b[0]), draw_cpu_time(p->user_ns, b[1]),
		 draw_cpu_time(p->system_ns, b[2]), draw_cpu_time(p->child_user_ns, b[3]),
		 draw_cpu_time(p->child_system_ns, b[4]));
	y = line(a, y, "I/O", "%s; %s read in %s calls, %s written in %s",
		 draw_rate(node->io_rate, b[0]), draw_bytes(p->rchar, b[1]),
		 draw_count(p->syscr, b[2]), draw_bytes(p->wchar, b[3]),
		 draw_count(p->syscw, b[4]));
	y = line(a, y, "storage", "%s read, %s written", draw_bytes(p->read_bytes, b[0]),
		 draw_bytes(p->write_bytes, b[1]));
	if (s->snap.n_gpus > 0)
		y = line(a, y, "GPU", "%s %%, %s", draw_percent(p->gpu_percent, b[0]),
			 draw_bytes(p->gpu_memory_bytes, b[1]));
	y = draw_files(a, y, p->open_fds, p->fd_limit);
	y = draw_calls(s, a, y, node);
	y = draw_whose(a, y, node);
	y = line(a, y, "page faults", "%s minor, %s major; switches %s voluntary, %s involuntary",
		 draw_count(p->minor_faults, b[0]), draw_count(p->major_faults, b[1]),
		 draw_count(p->voluntary_switches, b[2]),
		 draw_count(p->involuntary_switches, b[3]));
	return draw_cgroup(&s->snap, a, y, p);
}

/* ---- an event: the members of its JSON ---- */

#define MEMBER_BYTES 64

enum member_kind { MEMBER_PLAIN, MEMBER_TIME, MEMBER_MEASURED, MEMBER_SECONDS };

/* at: the time at which it was known, where that may be later than what is told. */
static const struct member {
	const char *key;
	enum member_kind kind;
	const char *at;
} members[] = {
	{ "timestamp", MEMBER_TIME, NULL },
	{ "changed", MEMBER_TIME, NULL },
	{ "began", MEMBER_TIME, NULL },
	{ "peak", MEMBER_TIME, "peak" },
	{ "ended", MEMBER_TIME, "ended" },
	{ "as_of", MEMBER_TIME, "as_of" },
	{ "started", MEMBER_TIME, NULL },
	{ "metric_value", MEMBER_MEASURED, NULL },
	{ "threshold", MEMBER_MEASURED, NULL },
	{ "before_value", MEMBER_MEASURED, NULL },
	{ "first_value", MEMBER_MEASURED, NULL },
	{ "peak_value", MEMBER_MEASURED, "peak" },
	{ "after_value", MEMBER_MEASURED, "ended" },
	{ "why_cleared", MEMBER_PLAIN, "ended" },
	{ "seconds_to_limit", MEMBER_SECONDS, NULL },
};

/* True: c is at the value. */
static bool find_value(const char *json, const char *name, struct json_cursor *c)
{
	const char *key;
	size_t len;

	json_cursor_init(c, json, strlen(json));
	if (!json_cursor_enter(c, '{'))
		return false;
	while (json_cursor_next_key(c, &key, &len)) {
		if (json_cursor_is(key, len, name))
			return true;
		json_cursor_skip(c);
	}
	return false;
}

static uint64_t time_ns(struct json_cursor *c)
{
	double seconds = json_cursor_f64(c);

	return seconds > 0 && seconds < 1e10 ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

/* With as many digits as one reads, and its unit; NULL: it is unknown. */
static const char *measured_text(double v, const char *unit, char room[MEMBER_BYTES])
{
	snprintf(room, MEMBER_BYTES, fabs(v) >= 1000 ? "%.0f%s%.30s" : "%.4g%s%.30s", v,
		 unit ? " " : "", unit ? unit : "");
	return isnan(v) ? NULL : room;
}

/* Times as a clock has them, text without its quotes; NULL: nothing that fits into a line. */
static const char *value_text(struct json_cursor value, enum member_kind kind, const char *unit,
			      struct arena *arena, char room[MEMBER_BYTES])
{
	struct json_cursor again = value;
	const char *text, *raw;
	uint64_t wall_ns;
	size_t len;

	switch (kind) {
	case MEMBER_TIME:
		wall_ns = time_ns(&value);
		return u64_known(wall_ns) ? draw_date(wall_ns, room) : NULL;
	case MEMBER_MEASURED:
		return measured_text(json_cursor_f64(&value), unit, room);
	case MEMBER_SECONDS:
		return measured_text(json_cursor_f64(&value), "s", room);
	default:
		json_cursor_value(&value, &raw, &len);
		if (len == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n')
			return NULL;
		text = json_cursor_string(&again, arena);
		return text ? text : arena_strndup(arena, raw, len);
	}
}

/* Two in each row where there is room for them. A replay does not show what was still to come. */
static int draw_members(const struct scene *s, const struct area *a, int y,
			const struct scene_event *event)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	uint64_t now_ns = s->source == SOURCE_REPLAY
				  ? u64_max_known(s->snap.wall_ns, event->wall_ns)
				  : U64_UNKNOWN;
	int columns = a->width >= 120 ? 2 : 1, n = 0, next = y, behind;
	const char *key, *value, *unit = NULL;
	struct json_cursor c, at;
	char room[MEMBER_BYTES];
	size_t len;

	if (find_value(event->json, "unit", &c))
		unit = json_cursor_string(&c, &arena);
	json_cursor_init(&c, event->json, strlen(event->json));
	if (!json_cursor_enter(&c, '{'))
		return y;
	while (json_cursor_next_key(&c, &key, &len)) {
		struct area place = area_part(a, n % columns * (a->width / columns), 0,
					      a->width / columns - 1, a->height);
		struct member m = { 0 };
		uint64_t at_ns = 0;

		for (size_t i = 0; i < ARRAY_SIZE(members); i++)
			if (json_cursor_is(key, len, members[i].key))
				m = members[i];
		if (m.at && find_value(event->json, m.at, &at))
			at_ns = time_ns(&at);
		value = value_text(c, m.kind, unit, &arena, room);
		json_cursor_skip(&c);
		if (!value || !value[0] || (u64_known(at_ns) && at_ns > now_ns))
			continue;
		y = n++ % columns == 0 ? next : y;
		area_printf(&place, 0, y, STYLE_TITLE, "%.*s", (int)len, key);
		behind = area_put_wrapped(&place, 18, y, STYLE_PLAIN, value);
		next = behind > next ? behind : next;
	}
	return next;
}

/* ---- the panel ---- */

static int draw_flag(const struct scene *s, const struct area *a, int y,
		     const struct scene_flag *flag)
{
	char began[DRAW_NUMBER_BYTES], told[DRAW_NUMBER_BYTES];
	bool lasts = scene_flag_lasts(s, flag);

	area_put(a, 0, y, lasts ? STYLE_BAD : STYLE_TITLE, lasts ? "flagged" : "was flagged");
	y = area_put_wrapped(a, LABEL_COLUMNS, y, STYLE_BOLD, flag->text);
	area_printf(a, LABEL_COLUMNS, y, STYLE_PLAIN, "%s, since %s; this as of %s", flag->kind,
		    draw_when(s, flag->began_ns, began), draw_when(s, flag->told_ns, told));
	return y + 1;
}

/* Of a sheet and a rank all that their processes are flagged for, as their rows are. */
static bool is_about(const struct scene *s, const struct scene_flag *flag, const struct node *node)
{
	if (node->kind == NODE_PROCESS)
		return flag->process == node->id;
	if (node->kind == NODE_JOB && !outline_has(&s->outline, flag->process))
		return node->job_id && flag->job == track_key_of_job(node->job_id);
	return flag->process && outline_is_below(&s->outline, flag->process, node->id);
}

/* Why it is flagged comes first: that is what one looks for here. All that goes on, the newest
 * first; where nothing does, what was last. */
static int draw_numbers(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct scene_flag *over = NULL;
	int n = 0;

	for (size_t i = s->past.n_flags; i-- > 0 && n < MAX_FLAGS;) {
		const struct scene_flag *flag = &s->past.flags[i];

		if (!is_about(s, flag, node))
			continue;
		if (scene_flag_lasts(s, flag)) {
			y = draw_flag(s, a, y, flag);
			n++;
		} else if (!over) {
			over = flag;
		}
	}
	if (n == 0 && over)
		y = draw_flag(s, a, y, over);
	return node->p ? draw_process(s, a, y, node) : draw_group(s, a, y, node);
}

/* The chart stands beside the numbers, or below them in what they leave of the panel, or in the
 * rows that it takes at least. */
static int draw_node(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct track *track = tracks_find(&s->tracks, node->id);
	int columns = a->width * 3 / 10, rows;
	struct area left, right;

	if (!track)
		return draw_numbers(s, a, y, node);
	if (a->width < WIDE_COLUMNS) {
		y = draw_numbers(s, a, y, node);
		rows = a->height - y - s->view.detail_up;
		rows = rows > CHART_ROWS ? rows : CHART_ROWS;
		draw_chart(a, y, rows, track);
		return y + rows;
	}
	left = area_part(a, 0, 0, a->width - columns - 2, a->height);
	right = area_part(a, a->width - columns, 0, columns, a->height);
	draw_chart(&right, 0, right.height, track);
	return draw_numbers(s, &left, y, node);
}

/* Rows above the first are not drawn; returns how many there are in all. */
static int draw_body(const struct scene *s, const struct area *a, const struct scene_event *event,
		     const struct node *node)
{
	char room[DRAW_NUMBER_BYTES];
	int y = -s->view.detail_up, x;

	if (event) {
		x = area_put(a, 0, y, STYLE_DIM, draw_when(s, event->wall_ns, room));
		y = area_put_wrapped(a, x + 1, y, STYLE_BOLD, event->text);
		y = event->json ? draw_members(s, a, y, event) : y;
	} else if (node) {
		y = draw_node(s, a, y, node);
	}
	return y + s->view.detail_up;
}

void draw_detail(struct scene *s, const struct area *a)
{
	const struct scene_event *event =
		s->is_in_events ? scene_event(s, (size_t)s->view.event_at) : NULL;
	const struct node *node = scene_selected(s);
	uint64_t of = event ? event->wall_ns : node ? node->id : 0;
	struct area body = area_part(a, 0, 1, a->width, a->height - 1);
	int last, below;
	char text[64];

	area_put(a, 0, 0, STYLE_TITLE, event ? "DETAIL OF WHAT HAPPENED" : "DETAIL");
	s->view.detail_up = s->view.detail_of == of ? s->view.detail_up : 0;
	s->view.detail_of = of;
	s->view.detail_rows = body.height;
	s->view.detail_all = draw_body(s, &body, event, node);
	last = s->view.detail_all > s->view.detail_rows ? s->view.detail_all - s->view.detail_rows
							: 0;
	if (s->view.detail_up > last) { /* what was seen before lies beyond its end by now */
		s->view.detail_up = last;
		area_clear(&body);
		draw_body(s, &body, event, node);
	}
	below = s->view.detail_all - s->view.detail_up - s->view.detail_rows;
	if (below <= 0 || body.height < 1)
		return;
	snprintf(text, sizeof(text), "%d more lines below: PgDn", below + 1); /* and this one */
	area_printf(&body, 0, body.height - 1, STYLE_TITLE, "%-*s", body.width, text);
}

#include <stdio.h>
#include <string.h>

#include "tui/draw.h"

#define CURVE_COLUMNS 10

enum column_id {
	COLUMN_NAME,
	COLUMN_STATE,
	COLUMN_CPU,
	COLUMN_MEMORY,
	COLUMN_CURVE,
	COLUMN_IO,
	COLUMN_GPU,
	COLUMN_FDS,
	COLUMN_THREADS,
	COLUMN_AGE,
	COLUMN_CALLS,
	COLUMNS,
};

/* Those for which there is no room go, the highest order first. The name takes what is left, and
 * from some width on shares it with the system calls; before the last ones are shown it has
 * enough. */
#define NAME_ENOUGH 48
#define LAST_ORDERS 9
#define CALLS_ENOUGH 72

static const struct {
	const char *title;
	int width, order;
	enum sort sort;
} columns[COLUMNS] = {
	[COLUMN_NAME] = { "JOB / PROCESS", 28, 0, SORT_NAME },
	[COLUMN_STATE] = { "S", 1, 4, SORTS },
	[COLUMN_CPU] = { "CPU%", 6, 1, SORT_CPU },
	[COLUMN_MEMORY] = { "MEM", 6, 2, SORT_MEMORY },
	[COLUMN_CURVE] = { "MEM OVER TIME", CURVE_COLUMNS + 3, 6, SORTS },
	[COLUMN_IO] = { "I/O", 7, 5, SORT_IO },
	[COLUMN_GPU] = { "GPU", 6, 7, SORTS },
	[COLUMN_FDS] = { "FDS", 5, 10, SORTS },
	[COLUMN_THREADS] = { "THR", 4, 9, SORTS },
	[COLUMN_AGE] = { "AGE", 6, 3, SORT_AGE },
	[COLUMN_CALLS] = { "TOP SYSCALLS", 20, 8, SORTS },
};

struct layout {
	int x[COLUMNS]; /* -1: not shown */
	int width[COLUMNS];
};

/* The name and the system calls share what is left of the screen. */
static struct layout lay_out(const struct scene *s, int width)
{
	int left = width - columns[COLUMN_NAME].width, x = 0, spare, calls;
	bool is_shown[COLUMNS] = { [COLUMN_NAME] = true };
	struct layout layout;

	for (int order = 1; order < COLUMNS; order++)
		for (int i = 0; i < COLUMNS; i++) {
			int kept =
				order < LAST_ORDERS ? 0 : NAME_ENOUGH - columns[COLUMN_NAME].width;

			if (columns[i].order != order || left - kept <= columns[i].width ||
			    (i == COLUMN_GPU && s->snap.n_gpus == 0))
				continue;
			is_shown[i] = true;
			left -= columns[i].width + 1;
		}
	spare = columns[COLUMN_NAME].width + left - NAME_ENOUGH;
	calls = spare > 0 && is_shown[COLUMN_CALLS] ? spare / 2 : 0;
	if (calls > CALLS_ENOUGH - columns[COLUMN_CALLS].width)
		calls = CALLS_ENOUGH - columns[COLUMN_CALLS].width;
	for (int i = 0; i < COLUMNS; i++) {
		layout.width[i] = columns[i].width + (i == COLUMN_CALLS	 ? calls
						      : i == COLUMN_NAME ? left - calls
									 : 0);
		layout.x[i] = is_shown[i] ? x : -1;
		x += is_shown[i] ? layout.width[i] + 1 : 0;
	}
	return layout;
}

/* ---- rows ---- */

static int draw_progress(const struct area *a, int x, int y, const struct job_progress *progress)
{
	int over;

	if (!progress || progress->total_sheets <= 0)
		return x;
	over = job_progress_over(progress);
	if (progress->total_sheets > 1)
		area_bar(a, x + 1, y, 8, STYLE_BAR, (double)over / progress->total_sheets);
	x = progress->total_sheets > 1 ? x + 10 : x + 1;
	x = area_printf(a, x, y, STYLE_DIM, "%d/%d", over, progress->total_sheets);
	if (progress->status && strcmp(progress->status, "running") != 0)
		x = area_printf(a, x + 1, y, STYLE_WARNING, "%s", progress->status);
	return x;
}

/* How many processes, and how far it is, come first: of the name what there is room for. */
static void draw_job(const struct area *a, int x, const struct node *node)
{
	const struct job_progress *progress = node->progress;
	char count[24], which[16] = "", done[32] = "";
	struct area name;
	int tail;

	snprintf(count, sizeof(count), "%zu", node->n_processes);
	if (node->has_twin)
		snprintf(which, sizeof(which), "#%d", node->attempt_num);
	if (progress && progress->total_sheets > 0)
		snprintf(done, sizeof(done), "%s %d/%d",
			 progress->total_sheets > 1 ? "         " : "", job_progress_over(progress),
			 progress->total_sheets);
	tail = 1 + (int)strlen(which) + (int)strlen(count) + (int)strlen(done);
	name = area_part(a, x, 0, a->width - x - tail < 4 ? 4 : a->width - x - tail, 1);
	x += area_put(&name, 0, 0, STYLE_BOLD, node->job_id ? node->job_id : "no job");
	x = area_put(a, x, 0, STYLE_BOLD, which);
	x = area_put(a, x + 1, 0, STYLE_DIM, count);
	draw_progress(a, x, 0, progress);
}

/*
 * A job that waits for its start, or with its next sheet, has no numbers: how far it is, and why it
 * waits, in as much of the row as there is. Of its name there is as much as that leaves, and a
 * quarter of the row at least. False: it does not wait.
 */
static bool draw_waiting(const struct area *a, int y, const struct node *node)
{
	const char *why = node->queued ? node->queued->why : node->why_held;
	int room, least = a->width / 4, x = 2;
	struct area name;

	if (!node->queued && (!node->why_held || node->n_processes > 0))
		return false;
	room = a->width - x - (node->queued ? 9 : 24) - (int)strlen(why);
	name = area_part(a, x, y, room > least ? room : least, 1);
	x += area_put(&name, 0, 0, STYLE_BOLD, node->job_id);
	if (!node->queued)
		x = draw_progress(a, x, y, node->progress);
	x = area_put(a, x + 1, y, STYLE_WARNING, node->queued ? "queued" : "held");
	if (why[0])
		area_printf(a, x, y, STYLE_DIM, ": %s", why);
	return true;
}

/* The name of a row, in an area of one row. */
static void draw_name(const struct area *a, const struct node *node, bool is_flat)
{
	int indent = node->depth * 2, most = a->width / 2;
	int x = area_put(a, indent < most ? indent : most, 0, STYLE_DIM,
			 !node->has_children ? "  "
			 : node->is_folded   ? "+ "
					     : "- ");
	char command[COMMAND_BYTES];
	struct area owner;

	if (node->is_flagged)
		area_put(a, x - 1, 0, STYLE_BAD, "!");
	switch (node->kind) {
	case NODE_JOB:
		draw_job(a, x, node);
		return;
	case NODE_SHEET:
		x = area_printf(a, x, 0, STYLE_PLAIN, "sheet %d", node->sheet_num);
		if (node->sheet_name)
			area_put(a, x + 1, 0, STYLE_BOLD, node->sheet_name);
		return;
	case NODE_RANK:
		area_printf(a, x, 0, STYLE_PLAIN, "rank %d", node->rank);
		return;
	case NODE_PROCESS:
		break;
	}
	x = area_printf(a, x, 0, STYLE_DIM, "%d ", (int)node->p->key.pid);
	if (is_flat &&
	    node->job_id) { /* in a list nothing else says whose it is: a third, at most */
		owner = area_part(a, x, 0, a->width / 3, 1);
		x += area_put(&owner, 0, 0, STYLE_TITLE, node->job_id) + 1;
	}
	outline_command(node->p, command, sizeof(command));
	area_put(a, x, 0, STYLE_PLAIN, command);
}

/* NULL: it has none. */
static const char *value_of(const struct node *node, int column, char room[DRAW_NUMBER_BYTES])
{
	switch (column) {
	case COLUMN_CPU:
		return draw_percent(node->cpu_percent, room);
	case COLUMN_MEMORY:
		return draw_bytes(node->rss_bytes, room);
	case COLUMN_IO:
		return draw_rate(node->io_rate, room);
	case COLUMN_GPU:
		return node->gpu_bytes == 0 ? NULL : draw_bytes(node->gpu_bytes, room);
	case COLUMN_FDS:
		return node->p ? draw_count(node->p->open_fds, room) : NULL;
	case COLUMN_THREADS:
		return node->p ? draw_count(node->p->threads, room) : NULL;
	case COLUMN_AGE:
		return draw_time(node->age_seconds, room);
	default:
		return NULL;
	}
}

static void draw_row(const struct scene *s, const struct area *a, int y,
		     const struct layout *layout, const struct node *node)
{
	CLEANUP(buf_release) struct buf calls = BUF_INIT;
	char room[DRAW_NUMBER_BYTES], state[2] = { node->p ? node->p->state : ' ', '\0' };
	struct area name = area_part(a, 0, y, layout->width[COLUMN_NAME], 1);

	if (draw_waiting(a, y, node))
		return;
	draw_name(&name, node, s->is_flat);
	if (layout->x[COLUMN_STATE] >= 0 && node->p)
		area_put(a, layout->x[COLUMN_STATE], y,
			 state[0] == 'R'   ? STYLE_GOOD
			 : state[0] == 'Z' ? STYLE_BAD
			 : state[0] == 'D' ? STYLE_WARNING
					   : STYLE_DIM,
			 state);
	if (layout->x[COLUMN_CURVE] >= 0)
		draw_sparkline(a, layout->x[COLUMN_CURVE], y, columns[COLUMN_CURVE].width,
			       tracks_find(&s->tracks, node->id), scene_step_ns(s),
			       s->snap.wall_ns);
	if (layout->x[COLUMN_CALLS] >= 0) {
		calls_name(&s->snap, node, layout->width[COLUMN_CALLS], &calls);
		area_put(a, layout->x[COLUMN_CALLS], y, STYLE_DIM, calls.data);
	}
	for (int i = 0; i < COLUMNS; i++) {
		const char *value = layout->x[i] < 0 ? NULL : value_of(node, i, room);

		if (value)
			area_put_right(a, layout->x[i], columns[i].width, y, STYLE_PLAIN, value);
	}
}

/* ---- the panel ---- */

void draw_jobs(struct scene *s, const struct area *a)
{
	struct layout layout = lay_out(s, a->width);
	int rows = a->height - 1, selected = scene_selected_row(s);

	s->view.page_rows = rows > 0 ? rows : 1;
	s->view.jobs_y = a->y + 1;
	/* Where one to sort by stands is noted, for the mouse. */
	memset(s->titles, 0, sizeof(s->titles));
	for (int i = 0; i < COLUMNS; i++) {
		enum style style = columns[i].sort == s->sort ? STYLE_BOLD : STYLE_TITLE;
		char title[32];

		if (layout.x[i] < 0)
			continue;
		if (columns[i].sort < SORTS)
			s->titles[columns[i].sort] =
				(struct scene_title){ a->x + layout.x[i], layout.width[i] };
		snprintf(title, sizeof(title), "%s%s", columns[i].title,
			 columns[i].sort == s->sort ? "▾" : "");
		if (i == COLUMN_NAME || i == COLUMN_STATE || i == COLUMN_CALLS)
			area_put(a, layout.x[i], 0, style, title);
		else
			area_put_right(a, layout.x[i], layout.width[i], 0, style, title);
	}
	scene_mark_flagged(s);
	if (s->view.top_row > (int)s->outline.n_rows - s->view.page_rows)
		s->view.top_row = (int)s->outline.n_rows - s->view.page_rows;
	if (selected < s->view.top_row)
		s->view.top_row = selected;
	if (selected >= s->view.top_row + s->view.page_rows)
		s->view.top_row = selected - s->view.page_rows + 1;
	s->view.top_row = s->view.top_row > 0 ? s->view.top_row : 0;
	for (int i = 0; i < rows; i++) {
		const struct node *node = outline_row(&s->outline, (size_t)(s->view.top_row + i));

		if (!node)
			break;
		draw_row(s, a, i + 1, &layout, node);
		if (s->view.top_row + i == selected && !s->is_text)
			area_select_row(a, i + 1, s->is_in_events ? SELECTED_BEFORE : SELECTED);
	}
	if (s->has_snap && s->outline.n_rows == 0) {
		if (s->filter[0])
			area_put(a, 0, 1, STYLE_DIM, "nothing matches the filter");
		else if (s->job_id)
			area_printf(a, 0, 1, STYLE_DIM, "no job %s is running", s->job_id);
		else if (s->listed.n_jobs > 0 && s->listed.wall_ns > s->snap.wall_ns)
			area_put(a, 0, 1, STYLE_DIM, "the daemon has not looked at its jobs yet");
		else
			area_put(a, 0, 1, STYLE_DIM, "no job is running");
	}
}

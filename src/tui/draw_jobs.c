#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/calls.h"
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

static bool has_gpu(const struct scene *s)
{
	return s->snap.n_gpus > 0;
}

/* Of so many that are left: whether the column is to have some. */
static bool has_room(int column, int left)
{
	int kept =
		columns[column].order < LAST_ORDERS ? 0 : NAME_ENOUGH - columns[COLUMN_NAME].width;

	return left - kept > columns[column].width;
}

/* Returns how many columns are left of the screen. */
static int choose_columns(const struct scene *s, int width, bool is_shown[COLUMNS])
{
	int left = width - columns[COLUMN_NAME].width;

	is_shown[COLUMN_NAME] = true;
	for (int order = 1; order < COLUMNS; order++)
		for (int i = 0; i < COLUMNS; i++)
			if (columns[i].order == order && has_room(i, left) &&
			    (i != COLUMN_GPU || has_gpu(s))) {
				is_shown[i] = true;
				left -= columns[i].width + 1;
			}
	return left;
}

static void share_out(struct layout *layout, int left)
{
	int spare = columns[COLUMN_NAME].width + left - NAME_ENOUGH;
	int room = CALLS_ENOUGH - columns[COLUMN_CALLS].width;
	int calls = spare > 0 && layout->x[COLUMN_CALLS] >= 0 ? spare / 2 : 0;

	calls = calls < room ? calls : room;
	layout->width[COLUMN_CALLS] += calls;
	layout->width[COLUMN_NAME] += left - calls;
}

static struct layout lay_out(const struct scene *s, int width)
{
	struct layout layout;
	bool is_shown[COLUMNS] = { false };
	int left = choose_columns(s, width, is_shown), x = 0;

	for (int i = 0; i < COLUMNS; i++) {
		layout.width[i] = columns[i].width;
		layout.x[i] = is_shown[i] ? 0 : -1;
	}
	share_out(&layout, left);
	for (int i = 0; i < COLUMNS; i++) {
		layout.x[i] = is_shown[i] ? x : -1;
		x += is_shown[i] ? layout.width[i] + 1 : 0;
	}
	return layout;
}

/* Where it can be clicked on. */
static void note_title(struct scene *s, enum sort sort, int x, int width)
{
	if (sort < SORTS)
		s->titles[sort] = (struct scene_title){ x, width };
}

static void draw_titles(struct scene *s, const struct area *a, const struct layout *layout)
{
	memset(s->titles, 0, sizeof(s->titles));
	for (int i = 0; i < COLUMNS; i++) {
		enum style style = columns[i].sort == s->sort ? STYLE_BOLD : STYLE_TITLE;
		char title[32];

		if (layout->x[i] < 0)
			continue;
		note_title(s, columns[i].sort, a->x + layout->x[i], layout->width[i]);
		snprintf(title, sizeof(title), "%s%s", columns[i].title,
			 columns[i].sort == s->sort ? "▾" : "");
		if (i == COLUMN_NAME || i == COLUMN_STATE || i == COLUMN_CALLS)
			area_put(a, layout->x[i], 0, style, title);
		else
			area_put_right(a, layout->x[i], layout->width[i], 0, style, title);
	}
}

/* ---- values ---- */

static enum style style_of_state(char state)
{
	return state == 'R'   ? STYLE_GOOD
	       : state == 'Z' ? STYLE_BAD
	       : state == 'D' ? STYLE_WARNING
			      : STYLE_DIM;
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

static void draw_calls(const struct scene *s, const struct area *a, int y,
		       const struct layout *layout, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	calls_name(&s->snap, node, layout->width[COLUMN_CALLS], &text);
	area_put(a, layout->x[COLUMN_CALLS], y, STYLE_DIM, text.data);
}

static void draw_row(const struct scene *s, const struct area *a, int y,
		     const struct layout *layout, const struct node *node)
{
	char room[DRAW_NUMBER_BYTES], state[2] = { node->p ? node->p->state : ' ', '\0' };
	struct area name = area_part(a, 0, y, layout->width[COLUMN_NAME], 1);

	if (draw_waiting(a, y, node))
		return;
	draw_name(&name, node, s->is_flat);
	if (layout->x[COLUMN_STATE] >= 0 && node->p)
		area_put(a, layout->x[COLUMN_STATE], y, style_of_state(state[0]), state);
	if (layout->x[COLUMN_CURVE] >= 0)
		draw_sparkline(a, layout->x[COLUMN_CURVE], y, columns[COLUMN_CURVE].width,
			       tracks_find(&s->tracks, node->id), scene_step_ns(s),
			       s->snap.wall_ns);
	if (layout->x[COLUMN_CALLS] >= 0)
		draw_calls(s, a, y, layout, node);
	for (int i = 0; i < COLUMNS; i++) {
		const char *value = layout->x[i] < 0 ? NULL : value_of(node, i, room);

		if (value)
			area_put_right(a, layout->x[i], columns[i].width, y, STYLE_PLAIN, value);
	}
}

/* ---- the panel ---- */

static void scroll_to_selected(struct scene *s, int rows)
{
	int selected = scene_selected_row(s), last = (int)s->outline.n_rows - rows;

	if (s->top_row > last)
		s->top_row = last;
	if (selected < s->top_row)
		s->top_row = selected;
	if (selected >= s->top_row + rows)
		s->top_row = selected - rows + 1;
	if (s->top_row < 0)
		s->top_row = 0;
}

static void say_why_empty(const struct scene *s, const struct area *a)
{
	if (s->filter[0])
		area_put(a, 0, 1, STYLE_DIM, "nothing matches the filter");
	else if (s->job_id)
		area_printf(a, 0, 1, STYLE_DIM, "no job %s is running", s->job_id);
	else if (s->listed_jobs > 0 && s->listed_ns > s->snap.wall_ns)
		area_put(a, 0, 1, STYLE_DIM, "the daemon has not looked at its jobs yet");
	else
		area_put(a, 0, 1, STYLE_DIM, "no job is running");
}

void draw_jobs(struct scene *s, const struct area *a)
{
	struct layout layout = lay_out(s, a->width);
	int rows = a->height - 1, selected = scene_selected_row(s);

	s->page_rows = rows > 0 ? rows : 1;
	s->jobs_y = a->y + 1;
	draw_titles(s, a, &layout);
	scene_mark_flagged(s);
	scroll_to_selected(s, s->page_rows);
	for (int i = 0; i < rows; i++) {
		const struct node *node = outline_row(&s->outline, (size_t)(s->top_row + i));

		if (!node)
			break;
		draw_row(s, a, i + 1, &layout, node);
		if (s->top_row + i == selected)
			area_select_row(a, i + 1, s->is_in_events ? SELECTED_BEFORE : SELECTED);
	}
	if (s->has_snap && s->outline.n_rows == 0)
		say_why_empty(s, a);
}

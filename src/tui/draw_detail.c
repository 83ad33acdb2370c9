#include "tui/draw_detail.h"

#include <stdio.h>

#include "tui/calls.h"

#define MAX_FLAGS 3 /* of one thing that are shown */
#define CHART_ROWS 6
#define WIDE_COLUMNS 100 /* with room for the chart beside the numbers */

int detail_line(const struct area *a, int y, const char *label, const char *text)
{
	area_put(a, 0, y, STYLE_TITLE, label);
	return area_put_wrapped(a, DETAIL_LABEL_COLUMNS, y, STYLE_PLAIN, text);
}

int detail_calls(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	calls_describe(&s->snap, node, &text);
	return detail_line(a, y, "system calls", buf_error(&text) == 0 ? text.data : "-");
}

static int draw_flag(const struct scene *s, const struct area *a, int y,
		     const struct scene_flag *flag)
{
	char began[DRAW_NUMBER_BYTES], told[DRAW_NUMBER_BYTES];
	bool lasts = scene_flag_lasts(s, flag);

	area_put(a, 0, y, lasts ? STYLE_BAD : STYLE_TITLE, lasts ? "flagged" : "was flagged");
	y = area_put_wrapped(a, DETAIL_LABEL_COLUMNS, y, STYLE_BOLD, flag->text);
	area_printf(a, DETAIL_LABEL_COLUMNS, y, STYLE_PLAIN, "%s, since %s; this as of %s",
		    flag->kind, draw_when(s, flag->began_ns, began),
		    draw_when(s, flag->told_ns, told));
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

/* All that goes on, the newest first; where nothing does, what was last. */
static int draw_why(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct scene_flag *over = NULL;
	int n = 0;

	for (size_t i = s->n_flags; i-- > 0 && n < MAX_FLAGS;) {
		const struct scene_flag *flag = &s->flags[i];

		if (!is_about(s, flag, node))
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

static int draw_numbers(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	y = draw_why(s, a, y, node);
	return node->p ? draw_process(s, a, y, node) : draw_group(s, a, y, node);
}

/* Below the numbers, in what they leave of the panel, or in the rows that it takes at least. */
static int draw_below(const struct scene *s, const struct area *a, int y, const struct track *track)
{
	int left = a->height - y - s->detail_up;
	int rows = left > CHART_ROWS ? left : CHART_ROWS;

	draw_chart(a, y, rows, track);
	return y + rows;
}

/* Why it is flagged comes first: that is what one looks for here. */
static int draw_node(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct track *track = tracks_find(&s->tracks, node->id);
	int columns = a->width * 3 / 10;
	struct area left, right;

	if (!track)
		return draw_numbers(s, a, y, node);
	if (a->width < WIDE_COLUMNS)
		return draw_below(s, a, draw_numbers(s, a, y, node), track);
	left = area_part(a, 0, 0, a->width - columns - 2, a->height);
	right = area_part(a, a->width - columns, 0, columns, a->height);
	draw_chart(&right, 0, right.height, track);
	return draw_numbers(s, &left, y, node);
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

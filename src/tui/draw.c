#include "tui/draw.h"

#define MIN_TIMELINE_ROWS 4
#define MIN_DETAIL_ROWS 8

/* The lower part: a quarter for what happened, half for what is selected. */
static int lower_rows(const struct scene *s, int height)
{
	int rows = s->shows_detail ? height / 2 : height / 4;
	int least = s->shows_detail ? MIN_DETAIL_ROWS : MIN_TIMELINE_ROWS;

	if (height < HEADER_ROWS + least + 6)
		return 0; /* there is room for one thing */
	return rows < least ? least : rows;
}

/* The detail has the place of the jobs: nothing there can be clicked on. */
static void draw_small_detail(struct scene *s, const struct area *a)
{
	s->jobs_y = s->events_y = a->y + a->height;
	s->event_rows = 0;
	draw_detail(s, a);
}

static void draw_panels(struct scene *s, const struct area *all)
{
	int lower = lower_rows(s, all->height);
	int jobs = all->height - HEADER_ROWS - lower - 1;
	struct area header = area_part(all, 0, 0, all->width, HEADER_ROWS);
	struct area middle = area_part(all, 0, HEADER_ROWS, all->width, jobs);
	struct area bottom = area_part(all, 0, HEADER_ROWS + jobs, all->width, lower);

	draw_header(s, &header);
	if (s->shows_detail && lower == 0) {
		draw_small_detail(s, &middle);
		return;
	}
	draw_jobs(s, &middle);
	if (s->shows_detail)
		draw_detail(s, &bottom);
	else
		draw_timeline(s, &bottom);
}

void draw_scene(struct scene *s, struct grid *g)
{
	struct area all = grid_area(g);
	struct area footer = area_part(&all, 0, all.height - 1, all.width, 1);

	grid_clear(g);
	if (s->overlay == OVERLAY_HELP)
		draw_help(s, &all);
	else
		draw_panels(s, &all);
	area_clear(&footer); /* in a terminal of few rows the header is there too */
	draw_footer(s, &footer);
}

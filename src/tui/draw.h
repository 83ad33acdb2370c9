/*
 * draw - a scene as a screen.
 *
 * From top to bottom: how the host is, the jobs with all that belongs to them, what
 * happened (or all that is known of what is selected), and the keys.
 */
#pragma once

#include "tui/screen_grid.h"
#include "tui/scene.h"

/* Notes in the scene how many rows of jobs were to be seen, and scrolls to the selected one. */
void draw_scene(struct scene *s, struct grid *g);

/* As text, at the end of out: the header, all rows of jobs, and what happened from since_ns on. The
 * grid is resized for it. -ENOMEM. */
int draw_page(struct scene *s, struct grid *g, uint64_t since_ns, struct buf *out);

/* ---- the parts ---- */

void draw_jobs(struct scene *s, const struct area *a);
void draw_detail(struct scene *s, const struct area *a);

/* System calls: as many as so many columns have room for, "read write futex"; or with their number,
 * and of a process with their share of the time, "read 1200 (40 % of their CPU time), write 7". */
void calls_name(const struct snapshot *s, const struct node *node, int columns, struct buf *out);
void calls_describe(const struct snapshot *s, const struct node *node, struct buf *out);

/* ---- numbers in few columns; unknown is "-" ---- */

#define DRAW_NUMBER_BYTES 24

const char *draw_bytes(uint64_t bytes, char room[DRAW_NUMBER_BYTES]);	      /* "1.5G" */
const char *draw_rate(double bytes_per_second, char room[DRAW_NUMBER_BYTES]); /* "12M/s" */
const char *draw_percent(double percent, char room[DRAW_NUMBER_BYTES]);	      /* "99.5" */
const char *draw_count(uint64_t n, char room[DRAW_NUMBER_BYTES]);	      /* "12" */
const char *draw_time(double seconds, char room[DRAW_NUMBER_BYTES]);	      /* "2h05", "12s" */
const char *draw_cpu_time(uint64_t ns, char room[DRAW_NUMBER_BYTES]);	      /* "0.02s", "2h05" */
const char *draw_date(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES]);	      /* with the day */
const char *draw_clock(uint64_t wall_ns, char room[DRAW_NUMBER_BYTES]);	      /* "03:45:08" */
const char *draw_span(uint64_t ns, char room[DRAW_NUMBER_BYTES]);	      /* "3 h 12 min" */

/* The clock alone, or the date too where it is another day than that of the scene. */
const char *draw_when(const struct scene *s, uint64_t wall_ns, char room[DRAW_NUMBER_BYTES]);

/* One character for each step of time, the last of them up to to_ns, from 0 to the highest; blank
 * where there was no look. */
void draw_sparkline(const struct area *a, int x, int y, int width, const struct track *track,
		    uint64_t step_ns, uint64_t to_ns);

/* In so many rows from y on, of which some may be outside. All of the curve, in columns of equal
 * time: two in each character and four dots in each row, of braille, from 0 to the highest; blank
 * where there was no look. Above it how high that is, and below it when it was. */
void draw_chart(const struct area *a, int y, int rows, const struct track *track);

#include <stdio.h>
#include <string.h>

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

static void scroll_to_event(struct scene *s, int rows)
{
	if (s->is_in_events && s->event_at < s->events_up)
		s->events_up = s->event_at;
	if (s->is_in_events && s->event_at >= s->events_up + rows)
		s->events_up = s->event_at - rows + 1;
}

/* Of which attempt it is stands behind the name of the job. */
static void draw_line(const struct scene *s, const struct area *a, int x, int y,
		      const struct scene_event *event)
{
	enum style style = style_of_kind[event->kind];
	int n = (int)event->which_at;

	if (scene_is_one_of_several(s, event))
		area_printf(a, x, y, style, "%.*s#%d%s", n, event->text, event->attempt_num,
			    event->text + n);
	else
		area_put(a, x, y, style, event->text);
}

void draw_timeline(struct scene *s, const struct area *a)
{
	int rows = a->height - 1;

	s->events_y = a->y + 1;
	s->event_rows = rows > 0 ? rows : 0;
	scroll_to_event(s, rows);
	area_printf(a, 0, 0, STYLE_TITLE, "WHAT HAPPENED%s%s", s->events_up ? " (earlier)" : "",
		    s->hides_births ? " but births and quiet deaths (e)" : "");
	for (int i = 0; i < rows; i++) {
		const struct scene_event *event = scene_event(s, (size_t)(s->events_up + i));
		char room[DRAW_NUMBER_BYTES];
		int x;

		if (!event)
			return;
		x = area_put(a, 0, rows - i, STYLE_DIM, draw_when(s, event->wall_ns, room));
		draw_line(s, a, x + 1, rows - i, event);
		if (s->is_in_events && s->events_up + i == s->event_at)
			area_select_row(a, rows - i, SELECTED);
	}
}

/* ---- keys ---- */

#define WHOLE_TITLE 46 /* how to go on comes before what it is */
#define TWO_COLUMNS 60 /* from here on the keys are in two */

static void draw_key(const struct area *a, int y, const struct key_row *row)
{
	area_put(a, 1, y, STYLE_TITLE, row->shown);
	area_put(a, 9, y, STYLE_PLAIN, row->help);
}

static bool is_key_of(const struct scene *s, const struct key_row *row)
{
	return !row->for_replay || s->source == SOURCE_REPLAY;
}

/* In a terminal that has grown there are fewer. */
static void count_help_pages(struct scene *s, int on_each)
{
	int n = 0;

	for (size_t i = 0; i < keys_n_rows; i++)
		n += is_key_of(s, &keys_rows[i]);
	s->help_pages = (n + on_each - 1) / on_each;
	if (s->help_page >= s->help_pages)
		s->help_page = s->help_pages - 1;
}

/* What does not fit is on further pages. */
void draw_help(struct scene *s, const struct area *a)
{
	int columns = a->width >= TWO_COLUMNS ? 2 : 1, rows = a->height > 4 ? a->height - 3 : 1;
	int width = a->width / columns, n = 0;

	count_help_pages(s, rows * columns);
	for (size_t i = 0; i < keys_n_rows; i++) {
		int place = n - s->help_page * rows * columns;
		struct area column = area_part(a, place / rows * width, 2, width, rows);

		if (!is_key_of(s, &keys_rows[i]))
			continue;
		if (place >= 0 && place < rows * columns)
			draw_key(&column, place % rows, &keys_rows[i]);
		n++;
	}
	area_printf(a, 0, 0, STYLE_BOLD, "%skeys (%s)",
		    a->width >= WHOLE_TITLE ? "proctor top: " : "",
		    s->help_page + 1 < s->help_pages ? "any key for more, Esc back"
						     : "any key goes back");
}

/* The first are those that are needed most. */
static const char *const live_hints[] = { "? help",   "q quit",	    "Enter detail", "/ search",
					  "f filter", "PMITN sort", "t tree",	    "x end",
					  "s trace",  "p pause",    "Tab events",   NULL };
static const char *const replay_hints[] = { "? help",	 "q quit",    "p pause", ",/. step",
					    "</> speed", "a anomaly", NULL };

/* Those that there is room for, whole. */
static void draw_hints(const struct area *a, int x, const char *const *hints)
{
	for (; *hints && x + (int)strlen(*hints) <= a->width; hints++)
		x = area_put(a, x, 0, STYLE_DIM, *hints) + 2;
}

/* A name of which there is as much as what stands behind it leaves room for; behind may be wider
 * than that. Returns the column behind the name. */
static int draw_asked(const struct area *a, int x, const char *name, int behind)
{
	int room = a->width - x - behind;
	struct area part = area_part(a, x, 0, room > 0 ? room : 0, 1);

	return x + area_put(&part, 0, 0, STYLE_BAD, name);
}

#define SURE "? (y/n)"

/* What it ends. */
static const char *behind_job(const struct wish *wish)
{
	return !wish->is_queued ? " and end all of it" SURE
	       : wish->has_twin ? ", but only what waits of it" SURE
				: ", which waits" SURE;
}

static void ask_about_job(const struct scene *s, const struct area *a)
{
	const char *behind = behind_job(&s->wish);
	int x = s->wish.attempt_num > 0 && s->wish.has_twin
			? area_printf(a, 0, 0, STYLE_BAD, "cancel attempt %d of the job ",
				      s->wish.attempt_num)
			: area_put(a, 0, 0, STYLE_BAD, "cancel the job ");
	int columns =
		x + (int)strlen(behind) + 8 <= a->width ? (int)strlen(behind) : (int)strlen(SURE);

	x = draw_asked(a, x, s->wish.job_id, columns);
	area_put(a, x, 0, STYLE_BAD, behind + strlen(behind) - (size_t)columns);
}

/* What can be answered, or where there is no room for all of it yes or no. */
static int answer_columns(int signal, int room)
{
	int columns = (int)strlen(SURE);

	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal != signal)
			columns += 4 + (int)strlen(keys_signals[i].name);
	return columns <= room ? columns : (int)strlen(SURE);
}

static void ask_about_process(const struct scene *s, const struct area *a)
{
	int x = area_printf(a, 0, 0, STYLE_BAD, "send SIG%s to pid %d ",
			    keys_signal_name(s->wish.signal), (int)s->wish.key.pid);

	x = draw_asked(a, x, s->wish.command, answer_columns(s->wish.signal, a->width - x));
	x = area_put(a, x, 0, STYLE_BAD, SURE);
	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal != s->wish.signal)
			x = area_printf(a, x + 2, 0, STYLE_PLAIN, "%c %s", keys_signals[i].key,
					keys_signals[i].name);
}

#define REPLAY_BAR_COLUMNS 10

static void draw_replay(const struct scene *s, const struct area *a)
{
	double span = (double)(s->replay.to_ns - s->replay.from_ns);
	uint64_t gone_ns = u64_delta(s->snap.wall_ns, s->replay.from_ns);
	double at = span > 0 && u64_known(gone_ns) ? (double)gone_ns / span : F64_UNKNOWN;
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, 0, STYLE_BOLD,
			 s->replay.is_over ? "end"
			 : s->is_paused	   ? "paused"
					   : "replay");

	x = area_printf(a, x + 1, 0, STYLE_PLAIN, "%s ×%g", draw_now(s, room), s->replay.speed);
	area_bar(a, x + 1, 0, REPLAY_BAR_COLUMNS, STYLE_BAR, at);
	x += REPLAY_BAR_COLUMNS + 3;
	if (s->filter[0])
		x = area_printf(a, x, 0, STYLE_BOLD, "filter: %s", s->filter) + 2;
	draw_hints(a, x, replay_hints);
}

/* What changes the picture, before what could. */
static void draw_live(const struct scene *s, const struct area *a)
{
	int x = s->is_paused ? area_put(a, 0, 0, STYLE_BOLD, "PAUSED") + 2 : 0;

	if (s->filter[0])
		x = area_printf(a, x, 0, STYLE_BOLD, "filter: %s", s->filter) + 2;
	draw_hints(a, x, live_hints);
}

static void draw_sorts(const struct scene *s, const struct area *a)
{
	int x = area_put(a, 0, 0, STYLE_BOLD, "sort by:");

	for (int i = 0; i < SORTS; i++)
		x = area_printf(a, x + 1, 0, i == (int)s->menu_at ? STYLE_BOLD : STYLE_DIM,
				i == (int)s->menu_at ? "[%s]" : " %s ", sort_name((enum sort)i));
	area_put(a, x + 2, 0, STYLE_DIM, "← → Enter");
}

void draw_footer(const struct scene *s, const struct area *a)
{
	if (s->overlay == OVERLAY_FILTER)
		area_printf(a, 0, 0, STYLE_BOLD, "filter: %s_", s->input);
	else if (s->overlay == OVERLAY_SEARCH)
		area_printf(a, 0, 0, STYLE_BOLD, "search: %s_", s->input);
	else if (s->overlay == OVERLAY_CONFIRM)
		(s->wish.kind == WISH_CANCEL_JOB ? ask_about_job : ask_about_process)(s, a);
	else if (s->overlay == OVERLAY_SORT)
		draw_sorts(s, a);
	else if (s->message[0])
		area_put(a, 0, 0, STYLE_WARNING, s->message);
	else if (s->source == SOURCE_REPLAY)
		draw_replay(s, a);
	else
		draw_live(s, a);
}

#include "tui/keys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "tui/command.h"
#include "tui/keys_parts.h"

/* ---- where the user is ---- */

static void select_row(struct scene *s, int row)
{
	const struct node *node;

	if (row >= (int)s->outline.n_rows)
		row = (int)s->outline.n_rows - 1;
	node = outline_row(&s->outline, row > 0 ? (size_t)row : 0);
	s->selected = node ? node->id : 0;
}

/* From the newest; the first of all is the last number. */
static void select_event(struct scene *s, int at)
{
	if (at >= (int)scene_count_events(s))
		at = (int)scene_count_events(s) - 1;
	s->event_at = at > 0 ? at : 0;
}

static void move(struct scene *s, int rows)
{
	if (s->is_in_events)
		select_event(s, s->event_at - rows);
	else
		select_row(s, scene_selected_row(s) + rows);
}

/* Of what does not fit into the detail the rest is read before another is selected. */
static void move_pages(struct scene *s, int pages)
{
	if (s->shows_detail && s->detail_all > s->detail_rows) {
		s->detail_up += pages * (s->detail_rows - 1); /* the last says what is below */
		s->detail_up = s->detail_up > 0 ? s->detail_up : 0;
		return;
	}
	move(s, pages * (s->is_in_events ? s->event_rows : s->page_rows));
}

static void move_to_end(struct scene *s, int is_end)
{
	if (s->is_in_events)
		select_event(s, is_end ? 0 : (int)scene_count_events(s));
	else
		select_row(s, is_end ? (int)s->outline.n_rows - 1 : 0);
}

/* No further than with the oldest at the top. */
void keys_scroll_events(struct scene *s, int events)
{
	int last = (int)scene_count_events(s) - s->event_rows;

	s->events_up += events;
	if (s->events_up > last)
		s->events_up = last;
	if (s->events_up < 0)
		s->events_up = 0;
}

static void toggle_events(struct scene *s, int unused)
{
	(void)unused;
	if (s->is_in_events)
		s->events_up = 0; /* and they are followed again */
	s->is_in_events = !s->is_in_events && scene_count_events(s) > 0;
	s->event_at = s->events_up;
}

static void toggle_births(struct scene *s, int unused)
{
	(void)unused;
	s->hides_births = !s->hides_births;
	s->events_up = s->event_at = 0;
	s->is_in_events &= scene_count_events(s) > 0;
}

/* ---- folding ---- */

static void fold(struct scene *s, int is_folded)
{
	const struct node *node = scene_selected(s);

	if (!node)
		return;
	if (is_folded && node->has_children)
		map_put(&s->folded, node->id, 1); /* without memory it stays as it is */
	else
		map_remove(&s->folded, node->id);
}

void keys_toggle_fold(struct scene *s, int unused)
{
	const struct node *node = scene_selected(s);

	(void)unused;
	if (node)
		fold(s, !node->is_folded);
}

/* ---- what is shown ---- */

void keys_sort_by(struct scene *s, int sort)
{
	s->sort = (enum sort)sort;
}

static void toggle_tree(struct scene *s, int unused)
{
	(void)unused;
	s->is_flat = !s->is_flat;
}

static void toggle_pause(struct scene *s, int unused)
{
	(void)unused;
	s->is_paused = !s->is_paused;
	s->events_up = 0; /* they went on behind what was seen */
}

static void toggle_detail(struct scene *s, int unused)
{
	(void)unused;
	s->shows_detail = !s->shows_detail && (s->is_in_events || scene_selected(s));
	if (!s->is_in_events && !scene_selected(s))
		scene_say(s, "there is nothing here to show");
}

static void open_overlay(struct scene *s, int overlay)
{
	s->overlay = (enum overlay)overlay;
	s->menu_at = s->sort;
	s->help_page = 0;
	snprintf(s->input, sizeof(s->input), "%s", overlay == OVERLAY_FILTER ? s->filter : "");
}

/* From the detail to where it was opened, and only then to all jobs. */
static void go_back(struct scene *s, int unused)
{
	(void)unused;
	if (s->shows_detail) {
		s->shows_detail = false;
		return;
	}
	s->filter[0] = '\0';
	s->is_in_events = false;
	s->events_up = 0;
}

/* All that it is below of is unfolded. */
static void unfold_way(struct scene *s, const struct node *node)
{
	for (int at = node->parent; at >= 0; at = s->outline.nodes[at].parent)
		map_remove(&s->folded, s->outline.nodes[at].id);
}

/* The next one below that matches, around the end, also among what is folded. */
void keys_search_on(struct scene *s, int from_here)
{
	const struct node *from = scene_selected(s), *node;

	if (!s->search[0] || (from_here && from && outline_shows(&s->outline, from, s->search)))
		return;
	node = outline_search(&s->outline, from ? from->id : 0, s->search);
	if (!node) {
		snprintf(s->message, sizeof(s->message), "nothing matches '%s'", s->search);
		return;
	}
	unfold_way(s, node);
	s->selected = node->id;
}

/* ---- wishes ---- */

static void wish_for(struct scene *s, int kind)
{
	s->wish.kind = (enum wish_kind)kind;
}

static const char past[] = "this is a replay: what it shows is over";

/* What the user acts on; NULL: nothing that lives. */
static const struct node *living(const struct scene *s)
{
	return s->source == SOURCE_REPLAY || s->is_in_events ? NULL : scene_selected(s);
}

/* Of the job that it is, or is of. */
static const struct node *job_of(const struct scene *s, const struct node *node)
{
	while (node->kind != NODE_JOB && node->parent >= 0)
		node = &s->outline.nodes[node->parent];
	return node;
}

static void wish_to_signal(struct wish *wish, const struct proc_sample *p)
{
	*wish = (struct wish){ .kind = WISH_SIGNAL, .signal = SIGTERM, .key = p->key };
	command_shorten(p->command ? p->command : p->comm, wish->command, sizeof(wish->command));
}

static void wish_to_cancel(const struct scene *s, struct wish *wish, const struct node *node)
{
	const struct node *job = job_of(s, node);

	*wish = (struct wish){
		.kind = WISH_CANCEL_JOB,
		.attempt_num = node->attempt_num,
		.uid = node->uid,
		.is_queued = job->queued,
		.has_twin = job->queued ? outline_runs_too(&s->outline, job) : job->has_twin,
	};
	snprintf(wish->job_id, sizeof(wish->job_id), "%s", node->job_id);
}

static void ask_to_end(struct scene *s, int unused)
{
	const struct node *node = living(s);

	(void)unused;
	if (!node || (node->kind != NODE_PROCESS && !node->job_id)) {
		scene_say(s, s->source == SOURCE_REPLAY ? past : "there is nothing here to end");
		return;
	}
	if (node->kind == NODE_PROCESS)
		wish_to_signal(&s->wish, node->p);
	else
		wish_to_cancel(s, &s->wish, node);
	s->overlay = OVERLAY_CONFIRM;
}

static void ask_to_trace(struct scene *s, int unused)
{
	const struct node *node = living(s);

	(void)unused;
	if (!node || node->kind != NODE_PROCESS) {
		scene_say(s, s->source == SOURCE_REPLAY ? past
							: "select a living process to trace it");
		return;
	}
	s->wish = (struct wish){ .kind = WISH_TRACE, .key = node->p->key };
}

static void step(struct scene *s, int steps)
{
	s->is_paused = true;
	s->wish = (struct wish){ .kind = WISH_STEP, .steps = steps };
}

static void change_speed(struct scene *s, int is_faster)
{
	double speed = is_faster ? s->replay.speed * 2 : s->replay.speed / 2;

	if (speed >= 0.125 && speed <= 4096)
		s->replay.speed = speed;
}

/* ---- the table ---- */

const struct key_row keys_rows[] = {
	{ { TUI_KEY_UP, 'k', TUI_KEY_WHEEL_UP }, "↑ k", "up", move, -1, false },
	{ { TUI_KEY_DOWN, 'j', TUI_KEY_WHEEL_DOWN }, "↓ j", "down", move, 1, false },
	{ { TUI_KEY_PAGE_UP }, "PgUp", "a page up, of the detail too", move_pages, -1, false },
	{ { TUI_KEY_PAGE_DOWN }, "PgDn", "a page down, of the detail too", move_pages, 1, false },
	{ { TUI_KEY_HOME, 'g' }, "Home g", "to the first row", move_to_end, 0, false },
	{ { TUI_KEY_END, 'G' }, "End G", "to the last row", move_to_end, 1, false },
	{ { ' ' }, "Space", "fold or unfold", keys_toggle_fold, 0, false },
	{ { '-', TUI_KEY_LEFT }, "- ←", "fold", fold, 1, false },
	{ { '+', TUI_KEY_RIGHT }, "+ →", "unfold", fold, 0, false },
	{ { TUI_KEY_ENTER }, "Enter", "all of it, or what happened", toggle_detail, 0, false },
	{ { 'P' }, "P", "sort by CPU", keys_sort_by, SORT_CPU, false },
	{ { 'M' }, "M", "sort by memory", keys_sort_by, SORT_MEMORY, false },
	{ { 'I' }, "I", "sort by I/O", keys_sort_by, SORT_IO, false },
	{ { 'T' }, "T", "sort by age", keys_sort_by, SORT_AGE, false },
	{ { 'N' }, "N", "sort by name", keys_sort_by, SORT_NAME, false },
	{ { TUI_KEY_F6 }, "F6", "sort by what", open_overlay, OVERLAY_SORT, false },
	{ { 't' }, "t", "a tree, or a list of processes", toggle_tree, 0, false },
	{ { 'f', TUI_KEY_F4 },
	  "f F4",
	  "filter: job, sheet, text, pid",
	  open_overlay,
	  OVERLAY_FILTER,
	  false },
	{ { '/', TUI_KEY_F3 }, "/ F3", "search", open_overlay, OVERLAY_SEARCH, false },
	{ { 'n' }, "n", "search on", keys_search_on, 0, false },
	{ { '\t' }, "Tab", "among the events, or the jobs", toggle_events, 0, false },
	{ { '[' }, "[", "earlier events", keys_scroll_events, 1, false },
	{ { ']' }, "]", "later events", keys_scroll_events, -1, false },
	{ { 'e' }, "e", "hide births and quiet deaths", toggle_births, 0, false },
	{ { 's' }, "s", "trace the process for 10 s", ask_to_trace, 0, false },
	{ { 'x', TUI_KEY_F9 }, "x F9", "cancel a job, end a process", ask_to_end, 0, false },
	{ { 'p' }, "p", "pause", toggle_pause, 0, false },
	{ { '.' }, ".", "a snapshot forward", step, 1, true },
	{ { ',' }, ",", "a snapshot back", step, -1, true },
	{ { '>' }, ">", "twice as fast", change_speed, 1, true },
	{ { '<' }, "<", "half as fast", change_speed, 0, true },
	{ { 'a' }, "a", "to the next anomaly", wish_for, WISH_NEXT_ANOMALY, true },
	{ { TUI_KEY_ESCAPE }, "Esc", "close it; back to all jobs", go_back, 0, false },
	{ { TUI_KEY_CTRL_L }, "Ctrl-L", "draw all of it anew", wish_for, WISH_REDRAW, false },
	{ { 'h', '?', TUI_KEY_F1 }, "h ? F1", "this page", open_overlay, OVERLAY_HELP, false },
	{ { 'q', TUI_KEY_F10 }, "q F10", "quit", wish_for, WISH_QUIT, false },
};
const size_t keys_n_rows = ARRAY_SIZE(keys_rows);

const struct key_row *keys_find(const struct scene *s, int key)
{
	for (size_t i = 0; i < keys_n_rows; i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys_rows[i].keys); k++)
			if (keys_rows[i].keys[k] == key && key != TUI_KEY_NONE &&
			    (!keys_rows[i].for_replay || s->source == SOURCE_REPLAY))
				return &keys_rows[i];
	return NULL;
}

void keys_press(struct scene *s, int key)
{
	const struct key_row *row;

	s->message[0] = '\0';
	if (!s->selected)
		select_row(s, 0); /* as it is seen: from now on it is followed, wherever it goes */
	row = s->overlay == OVERLAY_NONE ? keys_find(s, key) : NULL;
	if (s->overlay != OVERLAY_NONE)
		keys_press_overlay(s, key);
	else if (row)
		row->act(s, row->argument);
	scene_refresh(s); /* without memory the rows stay empty until the next snapshot */
}

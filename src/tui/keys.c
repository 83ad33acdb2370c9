#include "tui/keys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

/* ---- where the user is ---- */

static void select_row(struct scene *s, int row)
{
	const struct node *node;

	if (row >= (int)s->outline.n_rows)
		row = (int)s->outline.n_rows - 1;
	node = outline_row(&s->outline, row > 0 ? (size_t)row : 0);
	s->view.selected = node ? node->id : 0;
}

/* From the newest; the first of all is the last number. */
static void select_event(struct scene *s, int at)
{
	if (at >= (int)scene_count_events(s))
		at = (int)scene_count_events(s) - 1;
	s->view.event_at = at > 0 ? at : 0;
}

static void move(struct scene *s, int rows)
{
	if (s->is_in_events)
		select_event(s, s->view.event_at - rows);
	else
		select_row(s, scene_selected_row(s) + rows);
}

/* Of what does not fit into the detail the rest is read before another is selected. */
static void move_pages(struct scene *s, int pages)
{
	if (s->shows_detail && s->view.detail_all > s->view.detail_rows) {
		s->view.detail_up +=
			pages * (s->view.detail_rows - 1); /* the last says what is below */
		s->view.detail_up = s->view.detail_up > 0 ? s->view.detail_up : 0;
		return;
	}
	move(s, pages * (s->is_in_events ? s->view.event_rows : s->view.page_rows));
}

static void move_to_end(struct scene *s, int is_end)
{
	if (s->is_in_events)
		select_event(s, is_end ? 0 : (int)scene_count_events(s));
	else
		select_row(s, is_end ? (int)s->outline.n_rows - 1 : 0);
}

/* No further than with the oldest at the top. */
static void scroll_events(struct scene *s, int events)
{
	int last = (int)scene_count_events(s) - s->view.event_rows;

	s->view.events_up += events;
	if (s->view.events_up > last)
		s->view.events_up = last;
	if (s->view.events_up < 0)
		s->view.events_up = 0;
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

/* ---- what is shown ---- */

static void sort_by(struct scene *s, int sort)
{
	s->sort = (enum sort)sort;
}

static void open_overlay(struct scene *s, int overlay)
{
	s->overlay = (enum overlay)overlay;
	s->menu_at = s->sort;
	s->view.help_page = 0;
	snprintf(s->input, sizeof(s->input), "%s", overlay == OVERLAY_FILTER ? s->filter : "");
}

/* The next one below that matches, around the end, also among what is folded. */
static void search_on(struct scene *s, int from_here)
{
	const struct node *from = scene_selected(s), *node;

	if (!s->search[0] || (from_here && from && outline_shows(&s->outline, from, s->search)))
		return;
	node = outline_search(&s->outline, from ? from->id : 0, s->search);
	if (!node) {
		scene_set_message(s, "nothing matches '%s'", s->search);
		return;
	}
	for (int at = node->parent; at >= 0; at = s->outline.nodes[at].parent)
		map_remove(&s->folded, s->outline.nodes[at].id);
	s->view.selected = node->id;
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

static void ask_to_end(struct scene *s, int unused)
{
	const struct node *node = living(s), *job = node;

	(void)unused;
	if (!node || (node->kind != NODE_PROCESS && !node->job_id)) {
		scene_set_message(s, "%s",
				  s->source == SOURCE_REPLAY ? past
							     : "there is nothing here to end");
		return;
	}
	s->overlay = OVERLAY_CONFIRM;
	if (node->kind == NODE_PROCESS) {
		s->wish = (struct wish){ .kind = WISH_SIGNAL,
					 .signal = SIGTERM,
					 .key = node->p->key };
		outline_command(node->p, s->wish.command, sizeof(s->wish.command));
		return;
	}
	while (job->kind != NODE_JOB && job->parent >= 0)
		job = &s->outline.nodes[job->parent];
	s->wish = (struct wish){
		.kind = WISH_CANCEL_JOB,
		.attempt_num = node->attempt_num,
		.uid = node->uid,
		.is_queued = job->queued,
		.has_twin = job->queued ? outline_runs_too(&s->outline, job) : job->has_twin,
	};
	snprintf(s->wish.job_id, sizeof(s->wish.job_id), "%s", node->job_id);
}

static void ask_to_trace(struct scene *s, int unused)
{
	const struct node *node = living(s);

	(void)unused;
	if (!node || node->kind != NODE_PROCESS) {
		scene_set_message(
			s, "%s",
			s->source == SOURCE_REPLAY ? past : "select a living process to trace it");
		return;
	}
	s->wish = (struct wish){ .kind = WISH_TRACE, .key = node->p->key };
}

static void step(struct scene *s, int steps)
{
	s->is_paused = true;
	s->wish = (struct wish){ .kind = WISH_STEP, .steps = steps };
}

/* ---- acts of one key ---- */

enum act {
	TOGGLE_FOLD,
	TOGGLE_EVENTS,
	TOGGLE_BIRTHS,
	TOGGLE_TREE,
	TOGGLE_PAUSE,
	TOGGLE_DETAIL,
	GO_BACK,
	GO_FASTER,
	GO_SLOWER,
};

static void act(struct scene *s, int what)
{
	const struct node *node = scene_selected(s);

	switch ((enum act)what) {
	case TOGGLE_FOLD:
		fold(s, node && !node->is_folded);
		return;
	case TOGGLE_EVENTS:
		if (s->is_in_events)
			s->view.events_up = 0; /* and they are followed again */
		s->is_in_events = !s->is_in_events && scene_count_events(s) > 0;
		s->view.event_at = s->view.events_up;
		return;
	case TOGGLE_BIRTHS:
		s->hides_births = !s->hides_births;
		s->view.events_up = s->view.event_at = 0;
		s->is_in_events &= scene_count_events(s) > 0;
		return;
	case TOGGLE_TREE:
		s->is_flat = !s->is_flat;
		return;
	case TOGGLE_PAUSE:
		s->is_paused = !s->is_paused;
		s->view.events_up = 0; /* they went on behind what was seen */
		return;
	case TOGGLE_DETAIL:
		s->shows_detail = !s->shows_detail && (s->is_in_events || node);
		if (!s->is_in_events && !node)
			scene_set_message(s, "there is nothing here to show");
		return;
	case GO_BACK: /* from the detail to where it was opened, and only then to all jobs */
		if (!s->shows_detail) {
			s->filter[0] = '\0';
			s->is_in_events = false;
			s->view.events_up = 0;
		}
		s->shows_detail = false;
		return;
	case GO_FASTER:
		s->replay.speed *= s->replay.speed < 4096 ? 2 : 1;
		return;
	case GO_SLOWER:
		s->replay.speed /= s->replay.speed > 0.125 ? 2 : 1;
		return;
	}
}

/* ---- the table ---- */

const struct key_row keys_rows[] = {
	{ { TUI_KEY_UP, 'k', TUI_KEY_WHEEL_UP }, "↑ k", "up", move, -1, false },
	{ { TUI_KEY_DOWN, 'j', TUI_KEY_WHEEL_DOWN }, "↓ j", "down", move, 1, false },
	{ { TUI_KEY_PAGE_UP }, "PgUp", "a page up, of the detail too", move_pages, -1, false },
	{ { TUI_KEY_PAGE_DOWN }, "PgDn", "a page down, of the detail too", move_pages, 1, false },
	{ { TUI_KEY_HOME, 'g' }, "Home g", "to the first row", move_to_end, 0, false },
	{ { TUI_KEY_END, 'G' }, "End G", "to the last row", move_to_end, 1, false },
	{ { ' ' }, "Space", "fold or unfold", act, TOGGLE_FOLD, false },
	{ { '-', TUI_KEY_LEFT }, "- ←", "fold", fold, 1, false },
	{ { '+', TUI_KEY_RIGHT }, "+ →", "unfold", fold, 0, false },
	{ { TUI_KEY_ENTER }, "Enter", "all of it, or what happened", act, TOGGLE_DETAIL, false },
	{ { 'P' }, "P", "sort by CPU", sort_by, SORT_CPU, false },
	{ { 'M' }, "M", "sort by memory", sort_by, SORT_MEMORY, false },
	{ { 'I' }, "I", "sort by I/O", sort_by, SORT_IO, false },
	{ { 'T' }, "T", "sort by age", sort_by, SORT_AGE, false },
	{ { 'N' }, "N", "sort by name", sort_by, SORT_NAME, false },
	{ { TUI_KEY_F6 }, "F6", "sort by what", open_overlay, OVERLAY_SORT, false },
	{ { 't' }, "t", "a tree, or a list of processes", act, TOGGLE_TREE, false },
	{ { 'f', TUI_KEY_F4 },
	  "f F4",
	  "filter: job, sheet, text, pid",
	  open_overlay,
	  OVERLAY_FILTER,
	  false },
	{ { '/', TUI_KEY_F3 }, "/ F3", "search", open_overlay, OVERLAY_SEARCH, false },
	{ { 'n' }, "n", "search on", search_on, 0, false },
	{ { '\t' }, "Tab", "among the events, or the jobs", act, TOGGLE_EVENTS, false },
	{ { '[' }, "[", "earlier events", scroll_events, 1, false },
	{ { ']' }, "]", "later events", scroll_events, -1, false },
	{ { 'e' }, "e", "hide births and quiet deaths", act, TOGGLE_BIRTHS, false },
	{ { 's' }, "s", "trace the process for 10 s", ask_to_trace, 0, false },
	{ { 'x', TUI_KEY_F9 }, "x F9", "cancel a job, end a process", ask_to_end, 0, false },
	{ { 'p' }, "p", "pause", act, TOGGLE_PAUSE, false },
	{ { '.' }, ".", "a snapshot forward", step, 1, true },
	{ { ',' }, ",", "a snapshot back", step, -1, true },
	{ { '>' }, ">", "twice as fast", act, GO_FASTER, true },
	{ { '<' }, "<", "half as fast", act, GO_SLOWER, true },
	{ { 'a' }, "a", "to the next anomaly", wish_for, WISH_NEXT_ANOMALY, true },
	{ { TUI_KEY_ESCAPE }, "Esc", "close it; back to all jobs", act, GO_BACK, false },
	{ { TUI_KEY_CTRL_L }, "Ctrl-L", "draw all of it anew", wish_for, WISH_REDRAW, false },
	{ { 'h', '?', TUI_KEY_F1 }, "h ? F1", "this page", open_overlay, OVERLAY_HELP, false },
	{ { 'q', TUI_KEY_F10 }, "q F10", "quit", wish_for, WISH_QUIT, false },
};
const size_t keys_n_rows = ARRAY_SIZE(keys_rows);

static const struct key_row *find_key(const struct scene *s, int key)
{
	for (size_t i = 0; i < keys_n_rows; i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys_rows[i].keys); k++)
			if (keys_rows[i].keys[k] == key && key != TUI_KEY_NONE &&
			    (!keys_rows[i].for_replay || s->source == SOURCE_REPLAY))
				return &keys_rows[i];
	return NULL;
}

/* ---- while something lies over the panels, all keys are its own ---- */

static void type(struct scene *s, int key)
{
	size_t n = strlen(s->input);

	if (key == TUI_KEY_ESCAPE) {
		s->overlay = OVERLAY_NONE;
	} else if (key == TUI_KEY_ENTER && s->overlay == OVERLAY_FILTER) {
		memcpy(s->filter, s->input, sizeof(s->filter));
		s->overlay = OVERLAY_NONE;
	} else if (key == TUI_KEY_ENTER) {
		memcpy(s->search, s->input, sizeof(s->search));
		search_on(s, true);
		s->overlay = OVERLAY_NONE;
	} else if (key == TUI_KEY_BACKSPACE || key == 127 || key == 8) {
		while (n > 1 && ((unsigned char)s->input[n - 1] & 0xc0) == 0x80)
			n--; /* to where the last character begins */
		s->input[n > 0 ? n - 1 : 0] = '\0';
	} else if (key >= ' ' && key < 256 && key != 127 && n + 1 < sizeof(s->input)) {
		s->input[n] = (char)key; /* byte by byte */
		s->input[n + 1] = '\0';
	}
}

/* The keys that sort do so here too. */
static void choose_sort(struct scene *s, int key)
{
	const struct key_row *row = find_key(s, key);

	if (key == TUI_KEY_LEFT || key == TUI_KEY_UP)
		s->menu_at = s->menu_at > 0 ? s->menu_at - 1 : SORTS - 1;
	else if (key == TUI_KEY_RIGHT || key == TUI_KEY_DOWN || key == TUI_KEY_F6)
		s->menu_at = s->menu_at + 1 < SORTS ? s->menu_at + 1 : 0;
	else
		s->overlay = OVERLAY_NONE;
	if (key == TUI_KEY_ENTER)
		s->sort = s->menu_at;
	else if (row && row->act == sort_by)
		sort_by(s, row->argument);
}

const struct key_signal keys_signals[KEYS_SIGNALS] = {
	{ 't', SIGTERM, "TERM" }, { 'i', SIGINT, "INT" },   { 'h', SIGHUP, "HUP" },
	{ 'k', SIGKILL, "KILL" }, { 's', SIGSTOP, "STOP" }, { 'c', SIGCONT, "CONT" },
};

const char *keys_signal_name(int signal)
{
	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal == signal)
			return keys_signals[i].name;
	return "?";
}

/* A letter may choose another signal, and the question is asked anew. Only a plain yes will do: a
 * letter too many, meant for the rows, ends nothing. */
static void confirm(struct scene *s, int key)
{
	for (size_t i = 0; s->wish.kind == WISH_SIGNAL && i < KEYS_SIGNALS; i++)
		if (keys_signals[i].key == key) {
			s->wish.signal = keys_signals[i].signal;
			return;
		}
	s->overlay = OVERLAY_NONE;
	if (key != 'y')
		s->wish.kind = WISH_NONE;
}

static void press_overlay(struct scene *s, int key)
{
	switch (s->overlay) {
	case OVERLAY_FILTER:
	case OVERLAY_SEARCH:
		type(s, key);
		return;
	case OVERLAY_CONFIRM:
		confirm(s, key);
		return;
	case OVERLAY_SORT:
		choose_sort(s, key);
		return;
	case OVERLAY_HELP:
		if (key == TUI_KEY_ESCAPE || key == 'q' ||
		    ++s->view.help_page >= s->view.help_pages)
			s->overlay = OVERLAY_NONE;
		return;
	case OVERLAY_NONE:
		return;
	}
}

void keys_press(struct scene *s, int key)
{
	const struct key_row *row;

	s->message[0] = '\0';
	if (!s->view.selected)
		select_row(s, 0); /* as it is seen: from now on it is followed, wherever it goes */
	row = s->overlay == OVERLAY_NONE ? find_key(s, key) : NULL;
	if (s->overlay != OVERLAY_NONE)
		press_overlay(s, key);
	else if (row)
		row->act(s, row->argument);
	scene_refresh(s); /* without memory the rows stay empty until the next snapshot */
}

/* ---- the mouse: a click selects, folds, or sorts; the wheel scrolls what it is over ---- */

/* The event on that row of the screen, from the newest; -1: it is not on the timeline, -2: on its
 * title, or where none is. */
static int event_on(const struct scene *s, int y)
{
	int at = s->view.events_up + s->view.event_rows - 1 - (y - s->view.events_y);

	if (s->overlay != OVERLAY_NONE || s->shows_detail || s->view.event_rows <= 0 ||
	    y < s->view.events_y - 1 || y >= s->view.events_y + s->view.event_rows)
		return -1;
	return y < s->view.events_y || at >= (int)scene_count_events(s) ? -2 : at;
}

void keys_wheel(struct scene *s, int key, int y)
{
	if (event_on(s, y) != -1 && !s->is_in_events)
		scroll_events(s, key == TUI_KEY_WHEEL_UP ? 1 : -1);
	else
		keys_press(s, key);
}

void keys_click(struct scene *s, int x, int y)
{
	int row = s->view.top_row + y - s->view.jobs_y, event = event_on(s, y);
	const struct node *node = y >= s->view.jobs_y && y < s->view.jobs_y + s->view.page_rows
					  ? outline_row(&s->outline, (size_t)row)
					  : NULL;

	if (s->overlay != OVERLAY_NONE)
		return;
	if (event >= 0) {
		s->is_in_events = true;
		s->view.event_at = event;
		return;
	}
	for (int i = 0; i < SORTS && y == s->view.jobs_y - 1; i++)
		if (x >= s->titles[i].x && x < s->titles[i].x + s->titles[i].width)
			s->sort = (enum sort)i;
	if (node) {
		if (scene_selected(s) == node && !s->is_in_events)
			act(s, TOGGLE_FOLD);
		s->is_in_events = false;
		s->view.selected = node->id;
	}
	scene_refresh(s);
}

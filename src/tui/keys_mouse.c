/*
 * The mouse: a click selects, folds, or sorts; the wheel scrolls what it is over.
 */
#include "tui/keys_parts.h"

/* What is there is a line of the timeline, or its title. */
static bool is_on_timeline(const struct scene *s, int y)
{
	return s->overlay == OVERLAY_NONE && !s->shows_detail && s->event_rows > 0 &&
	       y >= s->events_y - 1 && y < s->events_y + s->event_rows;
}

void keys_wheel(struct scene *s, int key, int y)
{
	if (is_on_timeline(s, y) && !s->is_in_events)
		keys_scroll_events(s, key == TUI_KEY_WHEEL_UP ? 1 : -1);
	else
		keys_press(s, key);
}

/* On a line of the timeline; false: it is somewhere else. */
static bool click_event(struct scene *s, int y)
{
	int at = s->events_up + s->event_rows - 1 - (y - s->events_y);

	if (s->overlay != OVERLAY_NONE || s->shows_detail || y < s->events_y ||
	    y >= s->events_y + s->event_rows || at >= (int)scene_count_events(s))
		return false;
	s->is_in_events = true;
	s->event_at = at;
	return true;
}

/* False: it is not on the title of a column to sort by. */
static bool click_title(struct scene *s, int x, int y)
{
	if (y != s->jobs_y - 1 || s->overlay != OVERLAY_NONE)
		return false;
	for (int i = 0; i < SORTS; i++)
		if (x >= s->titles[i].x && x < s->titles[i].x + s->titles[i].width) {
			s->sort = (enum sort)i;
			scene_refresh(s);
			return true;
		}
	return false;
}

void keys_click(struct scene *s, int x, int y)
{
	int row = s->top_row + y - s->jobs_y;
	const struct node *node = y >= s->jobs_y && y < s->jobs_y + s->page_rows
					  ? outline_row(&s->outline, (size_t)row)
					  : NULL;

	if (click_title(s, x, y) || click_event(s, y) || !node || s->overlay != OVERLAY_NONE)
		return;
	if (scene_selected(s) == node && !s->is_in_events)
		keys_toggle_fold(s, 0);
	s->is_in_events = false;
	s->selected = node->id;
	scene_refresh(s);
}

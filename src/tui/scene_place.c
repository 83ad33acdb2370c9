/*
 * Where the user is among the rows, when what was selected is gone.
 */
#include <stdio.h>

#include "tui/scene.h"

/* What it is of, the nearest first; processes of no job have nothing to go to. */
static void note_containers(struct scene *s, const struct node *node)
{
	size_t n = 0;

	for (int at = node->job_id ? node->parent : -1; at >= 0 && n < SCENE_CONTAINERS;
	     at = s->outline.nodes[at].parent)
		if (s->outline.nodes[at].kind != NODE_PROCESS)
			s->selected_in[n++] = s->outline.nodes[at].id;
	while (n < SCENE_CONTAINERS)
		s->selected_in[n++] = 0;
}

static void note_place(struct scene *s, int row)
{
	const struct node *node = outline_row(&s->outline, (size_t)row);

	s->selected_row = row;
	if (!node)
		return;
	s->selected_pid = node->p ? node->p->key.pid : 0;
	note_containers(s, node);
}

/* Another's numbers in the same place would be taken for its own. */
static void close_detail(struct scene *s)
{
	if (!s->shows_detail || s->is_in_events)
		return;
	s->shows_detail = false;
	if (s->selected_pid == 0)
		scene_say(s, "what was shown in detail is not there any more");
	else
		snprintf(s->message, sizeof(s->message), "pid %d %s", (int)s->selected_pid,
			 s->source == SOURCE_REPLAY ? "is not there now" : "has ended");
}

/* The row of what it was of, or the one that is where it was. */
static int next_place(const struct scene *s, bool is_gone, int last)
{
	int row = -1;

	for (size_t i = 0; is_gone && row < 0 && i < SCENE_CONTAINERS; i++)
		row = s->selected_in[i] ? outline_find(&s->outline, s->selected_in[i]) : -1;
	return row >= 0 ? row : s->selected_row < last ? s->selected_row : last;
}

void scene_keep_place(struct scene *s)
{
	int row = s->selected ? outline_find(&s->outline, s->selected) : 0;
	int last = (int)s->outline.n_rows - 1;
	bool is_gone = s->selected && !outline_has(&s->outline, s->selected);

	if (is_gone)
		close_detail(s);
	if (row < 0 && last >= 0) {
		row = next_place(s, is_gone, last);
		s->selected = outline_row(&s->outline, (size_t)row)->id;
	}
	note_place(s, row > 0 ? row : 0);
}

/*
 * The timeline of a scene: a ring, in which births and deaths of processes make room for all else.
 */
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/scene.h"

#define LEAST_PLAIN                                                                  \
	(SCENE_EVENTS / 4) /* births and deaths that are kept, whatever else happens \
			    */

static struct scene_event *event_at(struct scene *s, size_t from_newest)
{
	return &s->events[(s->next_event + SCENE_EVENTS - 1 - from_newest) % SCENE_EVENTS];
}

static bool is_shown(const struct scene *s, const struct scene_event *event)
{
	return !s->hides_births || event->kind != EVENT_KIND_PROCESS;
}

/* How many of those that are newer are shown. */
static int shown_before(struct scene *s, size_t from_newest)
{
	int n = 0;

	for (size_t i = 0; i < from_newest; i++)
		n += is_shown(s, event_at(s, i));
	return n;
}

/* ---- room for one more ---- */

static bool is_plain(const struct scene_event *event)
{
	return event->kind == EVENT_KIND_PROCESS;
}

/* A death that went wrong: of those there may be as many. */
static bool is_of_process(const struct scene_event *event)
{
	return event->kind == EVENT_KIND_TROUBLE && event->process != 0;
}

/* The oldest for which it is true; SCENE_EVENTS: there is none. */
static size_t find_oldest(struct scene *s, bool (*is_meant)(const struct scene_event *))
{
	for (size_t i = s->n_events; i-- > 0;)
		if (is_meant(event_at(s, i)))
			return i;
	return SCENE_EVENTS;
}

/* Which of all is missed least. */
static size_t find_least(struct scene *s)
{
	size_t n_plain = 0, at = SCENE_EVENTS;

	for (size_t i = 0; i < s->n_events; i++)
		n_plain += is_plain(&s->events[i]);
	if (n_plain > LEAST_PLAIN)
		at = find_oldest(s, is_plain);
	if (at == SCENE_EVENTS)
		at = find_oldest(s, is_of_process);
	return at == SCENE_EVENTS ? s->n_events - 1 : at;
}

/* Those that are older move up, so that the place of the oldest is free: it is the next. */
static void make_room(struct scene *s)
{
	size_t at;
	int shown_at;

	if (s->n_events < SCENE_EVENTS)
		return;
	at = find_least(s);
	shown_at = is_shown(s, event_at(s, at)) ? shown_before(s, at) : SCENE_EVENTS;
	free(event_at(s, at)->json);
	for (; at + 1 < s->n_events; at++)
		*event_at(s, at) = *event_at(s, at + 1);
	event_at(s, at)->json = NULL;
	s->n_events--;
	if (shown_at < s->event_at)
		s->event_at--;
	if (shown_at < s->events_up)
		s->events_up--;
}

/* ---- adding ---- */

/* Some are told late. Moves the newest back to where it belongs; returns how far. */
static size_t put_in_order(struct scene *s)
{
	size_t at = 0;

	while (at + 1 < s->n_events && u64_known(event_at(s, at)->wall_ns) &&
	       u64_known(event_at(s, at + 1)->wall_ns) &&
	       event_at(s, at + 1)->wall_ns > event_at(s, at)->wall_ns) {
		struct scene_event later = *event_at(s, at + 1);

		*event_at(s, at + 1) = *event_at(s, at);
		*event_at(s, at) = later;
		at++;
	}
	return at;
}

/* What is read stays where it is. */
static void keep_place(struct scene *s, int at)
{
	bool is_held = s->is_paused && s->source != SOURCE_REPLAY; /* that is walked through */
	int last = (int)scene_count_events(s) - 1;
	int top = is_held ? last : last + 1 - s->event_rows; /* the oldest is there then */

	if ((s->events_up > 0 || is_held) && at <= s->events_up && s->events_up < top)
		s->events_up++;
	if (s->is_in_events && at <= s->event_at && s->event_at < last)
		s->event_at++;
}

void scene_add_event(struct scene *s, const struct scene_event *event)
{
	struct scene_event *to;
	size_t at;

	make_room(s);
	to = &s->events[s->next_event];
	*to = *event;
	to->json = event->json ? strdup(event->json) : NULL; /* without memory: the line alone */
	s->next_event = (s->next_event + 1) % SCENE_EVENTS;
	s->n_events++;
	at = put_in_order(s);
	if (is_shown(s, event_at(s, at)))
		keep_place(s, shown_before(s, at));
}

void scene_forget_events(struct scene *s)
{
	for (size_t i = 0; i < SCENE_EVENTS; i++) {
		free(s->events[i].json);
		s->events[i].json = NULL;
	}
	s->n_events = s->next_event = 0;
	s->event_at = s->events_up = 0;
}

/* ---- those that are shown ---- */

size_t scene_count_events(const struct scene *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_events; i++)
		n += is_shown(s, &s->events[i]);
	return n;
}

const struct scene_event *scene_event(const struct scene *s, size_t i)
{
	for (size_t at = 0; at < s->n_events; at++) {
		size_t place = (s->next_event + SCENE_EVENTS - 1 - at) % SCENE_EVENTS;

		if (is_shown(s, &s->events[place]) && i-- == 0)
			return &s->events[place];
	}
	return NULL;
}

static int find_anomaly(const struct scene *s, uint64_t began_ns)
{
	const struct scene_event *event;

	for (size_t i = 0; (event = scene_event(s, i)); i++)
		if (event->kind == EVENT_KIND_ANOMALY && event->wall_ns == began_ns)
			return (int)i;
	return -1;
}

void scene_show_anomaly(struct scene *s, uint64_t began_ns)
{
	int at = find_anomaly(s, began_ns), top = (int)scene_count_events(s) - s->event_rows;
	const struct scene_event *event = at >= 0 ? scene_event(s, (size_t)at) : NULL;
	uint64_t id = event ? outline_nearest(&s->outline, event->process, event->job) : 0;

	if (!event)
		return;
	if (at >= s->event_rows && s->event_rows > 0)
		s->events_up = at < top ? at : top;
	s->event_at = at;
	if (id)
		s->selected = id;
}

bool scene_is_one_of_several(const struct scene *s, const struct scene_event *event)
{
	if (!event->attempt_num)
		return false;
	for (size_t i = 0; i < s->n_events; i++)
		if (s->events[i].job == event->job && s->events[i].attempt_num &&
		    s->events[i].attempt_num != event->attempt_num)
			return true;
	return outline_has_other(&s->outline, event->job, event->attempt_num);
}

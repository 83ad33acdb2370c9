#include "tui/scene.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define MAX_NAME_BYTES 128
#define MAX_NAMES_BYTES (4 << 20) /* of all sheets together; those that run are told again */
#define SECOND_NS UINT64_C(1000000000)
#define LEAST_STEP_NS (2 * SECOND_NS)
#define MAX_STARTS 65536 /* those that run are told again */
#define LEAST_PLAIN                                                                  \
	(SCENE_EVENTS / 4) /* births and deaths that are kept, whatever else happens \
			    */

void scene_init(struct scene *s)
{
	*s = (struct scene){
		.tracks = TRACKS_INIT,
		.outline = OUTLINE_INIT,
		.folded = MAP_INIT,
		.recalled = MAP_INIT,
		.starts = MAP_INIT,
		.sheet_names = MAP_INIT,
		.past.n_anomalies = U64_UNKNOWN,
		.replay = { .speed = 1 },
	};
	snapshot_init(&s->snap);
}

void scene_release(struct scene *s)
{
	snapshot_release(&s->snap);
	scene_forget_past(s);
	tracks_release(&s->tracks);
	outline_release(&s->outline);
	map_release(&s->folded);
	map_release(&s->recalled);
	map_release(&s->starts);
	map_release(&s->sheet_names);
	arena_release(&s->names);
	free(s->listed.waiting);
}

void scene_set_message(struct scene *s, const char *format, ...)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	va_list args;
	size_t n;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	n = buf_error(&text) == 0 ? utf8_cut(text.data, text.len, sizeof(s->message) - 1) : 0;
	memcpy(s->message, text.data, n);
	s->message[n] = '\0';
}

void scene_set_start(struct scene *s, uint64_t key, uint64_t wall_ns)
{
	if (!u64_known(wall_ns))
		return;
	if (s->starts.len >= MAX_STARTS)
		map_clear(&s->starts);
	map_put(&s->starts, key, wall_ns); /* without memory: as old as its oldest process */
}

const char *scene_sheet_name(const struct scene *s, uint64_t sheet)
{
	uint64_t name;

	return map_get(&s->sheet_names, sheet, &name) ? (const char *)(uintptr_t)name : NULL;
}

/* Another attempt of the job may be of another job file. */
void scene_name_sheet(struct scene *s, uint64_t sheet, const char *name)
{
	const char *before = scene_sheet_name(s, sheet);
	size_t n = name ? utf8_cut(name, strlen(name), MAX_NAME_BYTES) : 0;
	const char *kept;

	if (n == 0) {
		map_remove(&s->sheet_names, sheet);
		return;
	}
	if (before && strlen(before) == n && memcmp(before, name, n) == 0)
		return;
	if (arena_used(&s->names) > MAX_NAMES_BYTES) {
		outline_forget_names(&s->outline);
		map_clear(&s->sheet_names);
		arena_reset(&s->names);
	}
	kept = arena_strndup(&s->names, name, n);
	if (kept) /* without memory it has its number */
		map_put(&s->sheet_names, sheet, (uint64_t)(uintptr_t)kept);
}

void scene_forget_waiting(struct scene *s)
{
	s->listed.n_waiting = s->listed.n_queued = 0;
}

/* Without memory, or of too many, it is seen when it runs. */
void scene_add_waiting(struct scene *s, const char *job_id, uint64_t uid, uint64_t key,
		       const char *why)
{
	struct waiting_job *to;

	if (!s->listed.waiting)
		s->listed.waiting = calloc(SCENE_WAITING, sizeof(*s->listed.waiting));
	if (!s->listed.waiting || s->listed.n_waiting == SCENE_WAITING ||
	    strlen(job_id) > JOB_ID_MAX)
		return;
	to = &s->listed.waiting[s->listed.n_waiting++];
	*to = (struct waiting_job){ .uid = uid, .key = key };
	snprintf(to->job_id, sizeof(to->job_id), "%s", job_id);
	snprintf(to->why, sizeof(to->why), "%s", why ? why : "");
	s->listed.n_queued += key == 0;
}

/* ---- where the user is among the rows ---- */

int scene_selected_row(const struct scene *s)
{
	int row = s->view.selected ? outline_find(&s->outline, s->view.selected) : 0;

	return row >= 0 ? row : 0;
}

const struct node *scene_selected(const struct scene *s)
{
	return outline_row(&s->outline, (size_t)scene_selected_row(s));
}

/* Another's numbers in the same place would be taken for its own. */
static void close_detail(struct scene *s)
{
	if (!s->shows_detail || s->is_in_events)
		return;
	s->shows_detail = false;
	if (s->view.selected_pid == 0)
		scene_set_message(s, "what was shown in detail is not there any more");
	else
		scene_set_message(s, "pid %d %s", (int)s->view.selected_pid,
				  s->source == SOURCE_REPLAY ? "is not there now" : "has ended");
}

/*
 * When the rows were made anew. One that is gone leaves the user at its rank, its sheet or its job,
 * and its detail is closed, which is said; one that is not shown any more, and one of no job, at
 * the row where it was.
 */
static void keep_place(struct scene *s)
{
	int row = s->view.selected ? outline_find(&s->outline, s->view.selected) : 0;
	int last = (int)s->outline.n_rows - 1;
	bool is_gone = s->view.selected && !outline_has(&s->outline, s->view.selected);
	const struct node *node;
	size_t n = 0;

	if (is_gone)
		close_detail(s);
	if (row < 0 && last >= 0) {
		for (size_t i = 0; is_gone && row < 0 && i < SCENE_CONTAINERS; i++)
			row = s->view.selected_in[i]
				      ? outline_find(&s->outline, s->view.selected_in[i])
				      : -1;
		if (row < 0)
			row = s->view.selected_row < last ? s->view.selected_row : last;
		s->view.selected = outline_row(&s->outline, (size_t)row)->id;
	}
	s->view.selected_row = row > 0 ? row : 0;
	node = outline_row(&s->outline, (size_t)s->view.selected_row);
	if (!node)
		return;
	s->view.selected_pid = node->p ? node->p->key.pid : 0;
	/* what it is of, the nearest first; processes of no job have nothing to go to */
	for (int at = node->job_id ? node->parent : -1; at >= 0 && n < SCENE_CONTAINERS;
	     at = s->outline.nodes[at].parent)
		if (s->outline.nodes[at].kind != NODE_PROCESS)
			s->view.selected_in[n++] = s->outline.nodes[at].id;
	while (n < SCENE_CONTAINERS)
		s->view.selected_in[n++] = 0;
}

/* ---- snapshots ---- */

int scene_refresh(struct scene *s)
{
	const struct outline_options options = {
		.sort = s->sort,
		.is_tree = !s->is_flat,
		.filter = s->filter,
		.job_id = s->job_id,
		.folded = &s->folded,
		.starts = &s->starts,
		.sheet_names = &s->sheet_names,
		.waiting = s->listed.waiting,
		.n_waiting = s->listed.n_waiting,
	};

	int r = outline_make(&s->outline, &s->snap, &s->tracks, &options);

	if (r == 0)
		keep_place(s);
	return r;
}

uint64_t scene_step_ns(const struct scene *s)
{
	uint64_t most = 0, second = 0, step_ns;

	for (size_t i = 0; i < SCENE_GAPS; i++) {
		uint64_t gap_ns = s->gaps_ns[i];

		second = gap_ns > most ? most : gap_ns > second ? gap_ns : second;
		most = gap_ns > most ? gap_ns : most;
	}
	step_ns = (second + SECOND_NS / 2) / SECOND_NS * SECOND_NS;
	return step_ns > LEAST_STEP_NS ? step_ns : LEAST_STEP_NS;
}

int scene_add_snapshot(struct scene *s, const struct snapshot *snap)
{
	const struct system_sample *was = &s->snap.system, *is = &snap->system;
	/* A closer look is of processes alone, and comes with the host as it was. */
	bool is_same = s->has_snap && was->cpu_user_ns == is->cpu_user_ns &&
		       was->cpu_system_ns == is->cpu_system_ns &&
		       was->cpu_idle_ns == is->cpu_idle_ns &&
		       was->cpu_iowait_ns == is->cpu_iowait_ns;
	struct system_sample before = is_same ? s->before : s->snap.system;
	bool has_before = is_same ? s->has_before : s->has_snap;

	if (!is_same && s->has_snap && snap->wall_ns > s->snap.wall_ns) /* a replay may go back */
		s->gaps_ns[s->n_gaps++ % SCENE_GAPS] = snap->wall_ns - s->snap.wall_ns;
	s->has_snap = false; /* rows point into it */
	s->outline.n = s->outline.n_rows = s->outline.n_walk = 0;
	if (snapshot_copy(&s->snap, snap, SNAPSHOT_ALL) < 0)
		return -ENOMEM;
	s->before = before;
	s->has_before = has_before;
	s->has_snap = true;
	tracks_add(&s->tracks, &s->snap); /* without memory a curve is missing */
	return scene_refresh(s);
}

/* ---- flags ---- */

uint64_t scene_flag_id(const char *episode)
{
	return hash_bytes(HASH_INIT, episode, strlen(episode));
}

bool scene_flag_lasts(const struct scene *s, const struct scene_flag *flag)
{
	return !u64_known(flag->ended_ns) || (s->has_snap && flag->ended_ns > s->snap.wall_ns);
}

uint64_t scene_count_flags(const struct scene *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->past.n_flags; i++)
		n += scene_flag_lasts(s, &s->past.flags[i]);
	return n;
}

void scene_mark_flagged(struct scene *s)
{
	outline_forget_flags(&s->outline);
	for (size_t i = 0; i < s->past.n_flags; i++)
		if (scene_flag_lasts(s, &s->past.flags[i]))
			outline_flag(&s->outline, s->past.flags[i].process, s->past.flags[i].job);
}

void scene_set_flag(struct scene *s, const struct scene_flag *flag)
{
	size_t over = s->past.n_flags;

	if (!s->past.flags)
		s->past.flags = calloc(SCENE_FLAGS, sizeof(*s->past.flags));
	if (!s->past.flags)
		return; /* without memory it is not flagged */
	for (size_t i = s->past.n_flags; i-- > 0;) {
		if (s->past.flags[i].id == flag->id) {
			s->past.flags[i] = *flag;
			return;
		}
		over = scene_flag_lasts(s, &s->past.flags[i]) ? over : i;
	}
	if (s->past.n_flags == SCENE_FLAGS) {
		over = over == s->past.n_flags ? 0 : over; /* all last: the first goes */
		s->past.n_flags--;
		memmove(&s->past.flags[over], &s->past.flags[over + 1],
			(s->past.n_flags - over) * sizeof(*s->past.flags));
	}
	s->past.flags[s->past.n_flags++] = *flag;
}

double scene_cpu_share(const struct scene *s)
{
	return s->has_before ? system_cpu_share(&s->before, &s->snap.system) : F64_UNKNOWN;
}

/* ---- the timeline: by time, in which births and deaths of processes make room for all else ----
 */

static bool is_shown(const struct scene *s, const struct scene_event *event)
{
	return !s->hides_births || event->kind != EVENT_KIND_PROCESS;
}

/* Of those that are newer than the i-th from the oldest. */
static int count_shown_behind(const struct scene *s, size_t i)
{
	int n = 0;

	while (++i < s->past.n_events)
		n += is_shown(s, &s->past.events[i]);
	return n;
}

/*
 * Forgets the one that is missed least: the oldest birth or death while there are many, else the
 * oldest death that went wrong, of which there may be as many; else the oldest.
 */
static void make_room(struct scene *s)
{
	size_t n_plain = 0, plain = 0, trouble = 0, at;
	int behind;

	for (size_t i = s->past.n_events; i-- > 0;) {
		if (s->past.events[i].kind == EVENT_KIND_PROCESS) {
			n_plain++;
			plain = i;
		} else if (s->past.events[i].kind == EVENT_KIND_TROUBLE &&
			   s->past.events[i].process != 0) {
			trouble = i;
		}
	}
	at = n_plain > LEAST_PLAIN ? plain : trouble;
	behind = is_shown(s, &s->past.events[at]) ? count_shown_behind(s, at) : SCENE_EVENTS;
	free(s->past.events[at].json);
	s->past.n_events--;
	memmove(&s->past.events[at], &s->past.events[at + 1],
		(s->past.n_events - at) * sizeof(*s->past.events));
	if (behind < s->view.event_at)
		s->view.event_at--;
	if (behind < s->view.events_up)
		s->view.events_up--;
}

/* Some are told late: it goes to where it belongs. What is read stays where it is. */
void scene_add_event(struct scene *s, const struct scene_event *event)
{
	bool is_held = s->is_paused && s->source != SOURCE_REPLAY; /* that is walked through */
	int behind, last, top;
	size_t at;

	if (s->past.n_events == SCENE_EVENTS)
		make_room(s);
	at = s->past.n_events;
	while (at > 0 && u64_known(event->wall_ns) && u64_known(s->past.events[at - 1].wall_ns) &&
	       s->past.events[at - 1].wall_ns > event->wall_ns)
		at--;
	memmove(&s->past.events[at + 1], &s->past.events[at],
		(s->past.n_events - at) * sizeof(*s->past.events));
	s->past.events[at] = *event;
	if (event->json) /* without memory: the line alone */
		s->past.events[at].json = strdup(event->json);
	s->past.n_events++;
	if (!is_shown(s, event))
		return;
	behind = count_shown_behind(s, at);
	last = (int)scene_count_events(s) - 1;
	top = is_held ? last : last + 1 - s->view.event_rows; /* the oldest is there then */
	if ((s->view.events_up > 0 || is_held) && behind <= s->view.events_up &&
	    s->view.events_up < top)
		s->view.events_up++;
	if (s->is_in_events && behind <= s->view.event_at && s->view.event_at < last)
		s->view.event_at++;
}

void scene_forget_past(struct scene *s)
{
	while (s->past.n_events > 0)
		free(s->past.events[--s->past.n_events].json);
	s->view.event_at = s->view.events_up = 0;
	free(s->past.flags);
	s->past.flags = NULL;
	s->past.n_flags = 0;
}

size_t scene_count_events(const struct scene *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->past.n_events; i++)
		n += is_shown(s, &s->past.events[i]);
	return n;
}

const struct scene_event *scene_event(const struct scene *s, size_t i)
{
	for (size_t at = s->past.n_events; at-- > 0;)
		if (is_shown(s, &s->past.events[at]) && i-- == 0)
			return &s->past.events[at];
	return NULL;
}

void scene_show_anomaly(struct scene *s, uint64_t began_ns)
{
	int at = 0, top = (int)scene_count_events(s) - s->view.event_rows;
	const struct scene_event *event;
	uint64_t id;

	while ((event = scene_event(s, (size_t)at)) &&
	       (event->kind != EVENT_KIND_ANOMALY || event->wall_ns != began_ns))
		at++;
	if (!event)
		return;
	if (at >= s->view.event_rows && s->view.event_rows > 0)
		s->view.events_up = at < top ? at : top;
	s->view.event_at = at;
	id = outline_nearest(&s->outline, event->process, event->job);
	if (id)
		s->view.selected = id;
}

bool scene_is_one_of_several(const struct scene *s, const struct scene_event *event)
{
	if (!event->attempt_num)
		return false;
	for (size_t i = 0; i < s->past.n_events; i++)
		if (s->past.events[i].job == event->job && s->past.events[i].attempt_num &&
		    s->past.events[i].attempt_num != event->attempt_num)
			return true;
	return outline_has_other(&s->outline, event->job, event->attempt_num);
}

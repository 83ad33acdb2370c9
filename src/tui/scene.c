#include "tui/scene.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define MAX_NAME_BYTES 128
#define MAX_NAMES_BYTES (4 << 20) /* of all sheets together; those that run are told again */
#define SECOND_NS UINT64_C(1000000000)
#define LEAST_STEP_NS (2 * SECOND_NS)
#define MAX_STARTS 65536 /* those that run are told again */

void scene_init(struct scene *s)
{
	*s = (struct scene){
		.tracks = TRACKS_INIT,
		.outline = OUTLINE_INIT,
		.folded = MAP_INIT,
		.recalled = MAP_INIT,
		.starts = MAP_INIT,
		.sheet_names = MAP_INIT,
		.n_anomalies = U64_UNKNOWN,
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
	free(s->queued);
	free(s->held);
}

void scene_say(struct scene *s, const char *text)
{
	size_t n = utf8_cut(text, strlen(text), sizeof(s->message) - 1);

	memcpy(s->message, text, n);
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

	if (!map_get(&s->sheet_names, sheet, &name))
		return NULL;
	return (const char *)(uintptr_t)name;
}

static void forget_names(struct scene *s)
{
	outline_forget_names(&s->outline);
	map_clear(&s->sheet_names);
	arena_reset(&s->names);
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
	if (arena_used(&s->names) > MAX_NAMES_BYTES)
		forget_names(s);
	kept = arena_strndup(&s->names, name, n);
	if (kept) /* without memory it has its number */
		map_put(&s->sheet_names, sheet, (uint64_t)(uintptr_t)kept);
}

void scene_forget_queued(struct scene *s)
{
	s->n_queued = s->n_held = 0;
}

void scene_add_queued(struct scene *s, const char *job_id, uint64_t uid, const char *why)
{
	struct queued_job *to;

	if (!s->queued)
		s->queued = calloc(SCENE_QUEUED, sizeof(*s->queued));
	if (!s->queued || s->n_queued == SCENE_QUEUED || strlen(job_id) > JOB_ID_MAX)
		return; /* without memory, or too many: it is seen when it runs */
	to = &s->queued[s->n_queued++];
	snprintf(to->job_id, sizeof(to->job_id), "%s", job_id);
	to->uid = uid;
	snprintf(to->why, sizeof(to->why), "%s", why ? why : "");
}

void scene_add_held(struct scene *s, uint64_t key, const char *why)
{
	if (!s->held)
		s->held = calloc(SCENE_QUEUED, sizeof(*s->held));
	if (!s->held || s->n_held == SCENE_QUEUED)
		return; /* without memory, or too many: it runs */
	s->held[s->n_held].key = key;
	snprintf(s->held[s->n_held].why, sizeof(s->held->why), "%s", why);
	s->n_held++;
}

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
		.queued = s->queued,
		.n_queued = s->n_queued,
		.held = s->held,
		.n_held = s->n_held,
	};

	int r = outline_make(&s->outline, &s->snap, &s->tracks, &options);

	if (r == 0)
		scene_keep_place(s);
	return r;
}

/* A closer look is of processes alone, and comes with the host as it was. */
static bool is_same_host(const struct system_sample *a, const struct system_sample *b)
{
	return a->cpu_user_ns == b->cpu_user_ns && a->cpu_system_ns == b->cpu_system_ns &&
	       a->cpu_idle_ns == b->cpu_idle_ns && a->cpu_iowait_ns == b->cpu_iowait_ns;
}

/* One that goes back, in a replay, says nothing. */
static void note_gap(struct scene *s, uint64_t wall_ns)
{
	uint64_t gap_ns = s->has_snap ? u64_delta(wall_ns, s->snap.wall_ns) : U64_UNKNOWN;

	if (u64_known(gap_ns) && gap_ns > 0)
		s->gaps_ns[s->n_gaps++ % SCENE_GAPS] = gap_ns;
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
	bool is_same = s->has_snap && is_same_host(&s->snap.system, &snap->system);
	struct system_sample before = is_same ? s->before : s->snap.system;
	bool has_before = is_same ? s->has_before : s->has_snap;

	if (!is_same)
		note_gap(s, snap->wall_ns);
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

	for (size_t i = 0; i < s->n_flags; i++)
		n += scene_flag_lasts(s, &s->flags[i]);
	return n;
}

void scene_mark_flagged(struct scene *s)
{
	outline_forget_flags(&s->outline);
	for (size_t i = 0; i < s->n_flags; i++) {
		if (!scene_flag_lasts(s, &s->flags[i]))
			continue;
		if (!outline_flag(&s->outline,
				  s->flags[i].process)) /* of another attempt, or none */
			outline_flag_job(&s->outline, s->flags[i].job);
	}
}

static struct scene_flag *find_flag(const struct scene *s, uint64_t id)
{
	for (size_t i = 0; i < s->n_flags; i++)
		if (s->flags[i].id == id)
			return &s->flags[i];
	return NULL;
}

static void forget_one_flag(struct scene *s)
{
	size_t i = 0;

	while (i < s->n_flags && scene_flag_lasts(s, &s->flags[i]))
		i++;
	if (i == s->n_flags)
		i = 0;
	s->n_flags--;
	memmove(&s->flags[i], &s->flags[i + 1], (s->n_flags - i) * sizeof(*s->flags));
}

void scene_set_flag(struct scene *s, const struct scene_flag *flag)
{
	struct scene_flag *to = find_flag(s, flag->id);

	if (to) {
		*to = *flag;
		return;
	}
	if (!s->flags)
		s->flags = calloc(SCENE_FLAGS, sizeof(*s->flags));
	if (!s->flags)
		return; /* without memory it is not flagged */
	if (s->n_flags == SCENE_FLAGS)
		forget_one_flag(s);
	s->flags[s->n_flags++] = *flag;
}

void scene_forget_past(struct scene *s)
{
	scene_forget_events(s);
	free(s->flags);
	s->flags = NULL;
	s->n_flags = 0;
}

int scene_selected_row(const struct scene *s)
{
	int row = s->selected ? outline_find(&s->outline, s->selected) : 0;

	return row >= 0 ? row : 0;
}

const struct node *scene_selected(const struct scene *s)
{
	return outline_row(&s->outline, (size_t)scene_selected_row(s));
}

double scene_cpu_share(const struct scene *s)
{
	return s->has_before ? system_cpu_share(&s->before, &s->snap.system) : F64_UNKNOWN;
}

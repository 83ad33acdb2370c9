#include "cli/detect_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory");
}

void kills_release(struct kills *kills)
{
	free(kills->items);
	arena_release(&kills->arena);
}

static int on_event(void *ctx, const struct event_row *row)
{
	struct kills *kills = ctx;
	struct proc_event *grown, *ev;

	if (row->event.type != EVENT_OOM)
		return 0;
	if (kills->n == kills->cap) {
		size_t cap = kills->cap ? kills->cap * 2 : 16;

		grown = reallocarray(kills->items, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		kills->items = grown;
		kills->cap = cap;
	}
	ev = &kills->items[kills->n++];
	*ev = row->event;
	ev->job_id = arena_strdup(&kills->arena, row->event.job_id);
	ev->details = arena_strdup(&kills->arena, row->event.details);
	return ev->job_id && ev->details ? 0 : -ENOMEM;
}

int kills_read(struct store *store, const struct event_filter *filter, struct kills *ret,
	       struct err *err)
{
	int r = store_read_events(store, filter, on_event, ret, err);

	return r == -ENOMEM ? no_memory(err) : r;
}

/* ---- one pass ---- */

/* A pass tells of what it looks at: of other jobs it sees the kills alone. */
static bool is_own(const struct pass *p, const struct episode *e)
{
	return !p->attempt || (e->worst.job_id && strcmp(e->worst.job_id, p->attempt->job_id) == 0);
}

static int note_counted(struct pass *p, const struct episode *e)
{
	return p->attempt ? counted_list_note(p->counted, e) : 0;
}

static int keep_episode(struct pass *p, const struct episode *e)
{
	if (!is_own(p, e))
		return 0;
	if (note_counted(p, e) < 0 ||
	    found_list_keep(p->list, p->attempt ? p->attempt->attempt_num : 0, e) < 0)
		return no_memory(p->err);
	return 0;
}

/* That more were killed is told at once, but no change of it. */
static int note_lasting(struct pass *p)
{
	const struct episode *e;
	int r = 0;

	for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++)
		r = is_own(p, e) ? note_counted(p, e) : 0;
	return r < 0 ? no_memory(p->err) : 0;
}

static int keep_changes(struct pass *p, const struct detect_changes *changes)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < changes->n; i++)
		r = keep_episode(p, changes->items[i].episode);
	return r;
}

/* Kills up to this moment that were not handed out yet. */
static int add_kills(struct pass *p, uint64_t wall_ns)
{
	const struct kills *kills = p->kills;
	size_t from = p->next_kill;

	while (p->next_kill < kills->n && kills->items[p->next_kill].wall_ns <= wall_ns)
		p->next_kill++;
	return p->next_kill == from
		       ? 0
		       : event_list_add(&p->news, kills->items + from, p->next_kill - from);
}

/* 0 is no end. */
static int add_ends(struct pass *p, uint64_t since_wall_ns, uint64_t until_wall_ns)
{
	const struct ends_of of = { p->attempt, since_wall_ns, until_wall_ns };

	return p->attempt ? ends_read(p->store, p->d, &of, &p->news, p->err) : 0;
}

/* A count waits a little to be told: what it has told of happened before. */
#define TOLD_LATE_NS UINT64_C(5000000000)

static int look(struct pass *p, const struct snapshot *snap)
{
	struct detect_news news = { .snap = snap,
				    .usual = &p->usual,
				    .n_usual = p->usual.job_id ? 1 : 0 };
	struct detect_changes changes;
	int r;

	p->news.n = 0;
	if (add_kills(p, snap->wall_ns) < 0)
		return no_memory(p->err);
	r = add_ends(p, p->last_wall_ns, snap->wall_ns);
	if (r < 0)
		return r;
	news.events = p->news.items;
	news.n_events = p->news.n;
	if (!p->attempt)
		news.n_kills_elsewhere = counted_list_take(p->counted, &p->next_counted,
							   snap->wall_ns + TOLD_LATE_NS);
	if (detect_tick(p->d, &news, &changes) < 0)
		return no_memory(p->err);
	r = keep_changes(p, &changes);
	return r < 0 ? r : note_lasting(p);
}

/* ---- the end of the attempt ---- */

static bool is_over_by(const struct pass *p, uint64_t wall_ns)
{
	return p->attempt && u64_known(p->attempt->ended_wall_ns) &&
	       p->attempt->ended_wall_ns < wall_ns;
}

/*
 * What is over with it was so then, and not when a snapshot is the first to show it no more. What
 * was attached may go on without it, and nobody knows for how long.
 */
static int leave(struct pass *p, uint64_t until_wall_ns)
{
	const struct attempt *a = p->attempt;
	const struct detect_job job = { .job_id = a->job_id };
	struct detect_ending ending = { .wall_ns = a->ended_wall_ns };
	struct detect_changes changes;
	int r;

	if (p->has_left)
		return 0;
	p->has_left = true;
	p->news.n = 0;
	r = add_ends(p, 0, until_wall_ns); /* a snapshot may show who was told to have ended */
	if (r < 0)
		return r;
	if (!a->is_attached && ends_add_gone(p->d, a, &p->news) < 0)
		return no_memory(p->err);
	ending.events = p->news.items;
	ending.n_events = p->news.n;
	if (detect_leave_job(p->d, &job, &ending, &changes) < 0)
		return no_memory(p->err);
	return keep_changes(p, &changes);
}

/* ---- snapshots ---- */

static uint64_t hash_path(const char *path)
{
	return hash_bytes(HASH_INIT, path, strlen(path));
}

static int note_homes(struct pass *p, const struct snapshot *snap)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < snap->n_processes; i++)
		if (snap->processes[i].cgroup)
			r = map_put(&p->homes, hash_path(snap->processes[i].cgroup), 1);
	return r;
}

static int reserve_cgroups(struct pass *p, size_t n)
{
	struct cgroup_sample *grown;

	if (n <= p->cap_cgroups)
		return 0;
	grown = reallocarray(p->cgroups, n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->cgroups = grown;
	p->cap_cgroups = n;
	return 0;
}

/* A daemon writes down the cgroups of all jobs. Those in which this one never was are left out. */
static int take_cgroups(struct pass *p, const struct snapshot *snap, struct snapshot *ret)
{
	uint64_t is_home;

	*ret = *snap; /* borrows: nobody releases it */
	if (!p->attempt || snap->n_cgroups == 0)
		return 0;
	if (note_homes(p, snap) < 0 || reserve_cgroups(p, snap->n_cgroups) < 0)
		return -ENOMEM;
	ret->cgroups = p->cgroups;
	ret->n_cgroups = 0;
	for (size_t i = 0; i < snap->n_cgroups; i++)
		if (map_get(&p->homes, hash_path(snap->cgroups[i].path), &is_home))
			p->cgroups[ret->n_cgroups++] = snap->cgroups[i];
	return 0;
}

/* What was counted while nobody looked is of no moment that is known. */
static void leave_out_unseen(struct pass *p, struct snapshot *snap)
{
	uint64_t total = snap->system.oom_kills_total, rise = u64_delta(total, p->n_host_kills);
	const bool is_same_boot = strcmp(p->boot_id, snap->boot_id) == 0;

	if (!p->watchers || !u64_known(total))
		return;
	if (!is_same_boot || p->last_wall_ns == 0)
		p->n_unseen_kills = 0;
	else if (u64_known(rise) && rise > 0 &&
		 !watchers_looked(p->watchers, p->last_wall_ns, snap->wall_ns))
		p->n_unseen_kills += rise;
	p->n_host_kills = is_same_boot ? u64_max_known(total, p->n_host_kills) : total;
	snap->system.oom_kills_total = u64_delta(total, p->n_unseen_kills);
}

/* By its runner, or by who records it for that. */
static void note_own_look(struct pass *p, const struct snapshot *snap)
{
	if (p->attempt && (snap->n_processes > 0 || snap->recorder == p->attempt->id))
		p->looked_wall_ns = snap->wall_ns;
}

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct pass *p = ctx;
	struct snapshot own;
	int r = 0;

	if (snap->covers == COVERS_LOOK)
		return 0; /* evidence, which nobody has looked for anomalies in then either */
	if (is_over_by(p, snap->wall_ns))
		r = leave(p, snap->wall_ns);
	if (r < 0)
		return r;
	p->list->n_snapshots++;
	if (take_cgroups(p, snap, &own) < 0)
		return no_memory(p->err);
	leave_out_unseen(p, &own);
	note_own_look(p, snap);
	r = look(p, &own);
	p->last_wall_ns = snap->wall_ns;
	p->last_boot_ns = u64_known(snap->boot_ns) ? snap->boot_ns : 0;
	memcpy(p->boot_id, snap->boot_id, sizeof(p->boot_id));
	return r;
}

/* 0: it has none that was not handed out. */
static uint64_t find_last_kill(const struct pass *p, uint64_t until_wall_ns)
{
	uint64_t last = 0;

	for (size_t i = p->next_kill; i < p->kills->n; i++) {
		const struct proc_event *ev = &p->kills->items[i];

		if (until_wall_ns != 0 && ev->wall_ns >= until_wall_ns)
			break;
		if (!p->attempt || strcmp(ev->job_id, p->attempt->job_id) == 0)
			last = ev->wall_ns;
	}
	return last;
}

/*
 * A kill mostly ends the job, and then no snapshot comes after it: this moment is looked at without
 * one. Until: 0 is no end.
 */
static int look_at_last_kills(struct pass *p, uint64_t until_wall_ns)
{
	CLEANUP(snapshot_release) struct snapshot after;
	uint64_t last = find_last_kill(p, until_wall_ns);
	int r = 0;

	snapshot_init(&after);
	if (last == 0)
		return 0;
	after.wall_ns = last;
	if (p->last_boot_ns != 0)
		after.boot_ns = p->last_boot_ns + (after.wall_ns - p->last_wall_ns);
	memcpy(after.boot_id, p->boot_id, sizeof(after.boot_id));
	if (is_over_by(p, last))
		r = leave(p, last);
	return r < 0 ? r : look(p, &after);
}

/* What lasts is as it was last, or over where there is nothing more to come. Until: 0 is no end. */
static int finish(struct pass *p, uint64_t until_wall_ns)
{
	struct detect_changes changes = { 0 };
	const struct episode *e;
	int r = 0;

	if (is_over_by(p, until_wall_ns ? until_wall_ns : UINT64_MAX))
		r = leave(p, until_wall_ns);
	if (r < 0)
		return r;
	if (is_over_by(p, UINT64_MAX))
		return detect_end(p->d, &changes) < 0 ? no_memory(p->err)
						      : keep_changes(p, &changes);
	for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++)
		r = keep_episode(p, e);
	return r;
}

static void add_looks(struct pass *p)
{
	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		struct detect_looks looks = detect_looks_of(p->d, type);

		p->list->looks[type].n_judged += looks.n_judged;
		p->list->looks[type].n_silent += looks.n_silent;
		p->list->looks[type].n_usual += looks.n_usual;
	}
}

/* Kills from before it explain nothing that it sees. */
static void skip_kills(struct pass *p, uint64_t since_wall_ns)
{
	while (p->next_kill < p->kills->n && p->kills->items[p->next_kill].wall_ns < since_wall_ns)
		p->next_kill++;
}

int pass_run(struct store *store, struct pass *p, const struct snapshot_filter *filter)
{
	int r;

	if (!p->d)
		return no_memory(p->err);
	p->store = store;
	skip_kills(p, filter->since_wall_ns);
	if (p->attempt && u64_known(p->attempt->started_wall_ns))
		skip_kills(p, p->attempt->started_wall_ns);
	r = store_read_snapshots(store, filter, on_snapshot, p, p->err);
	if (r == 0)
		r = look_at_last_kills(p, filter->until_wall_ns);
	if (r == 0)
		r = finish(p, filter->until_wall_ns);
	add_looks(p);
	return r;
}

void pass_release(struct pass *p)
{
	detect_free(p->d);
	map_release(&p->homes);
	free(p->cgroups);
	event_list_release(&p->news);
}

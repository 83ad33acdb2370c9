#include "cli/detect_history.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "query/query.h"

static uint64_t hash_text(const char *text)
{
	return hash_bytes(HASH_INIT, text, strlen(text));
}

/* ---- the episodes that were found, each once ---- */

void found_list_release(struct found_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct found_list){ 0 };
}

/* As it is now: one of that name is replaced, which is among the last. -ENOMEM. */
static int found_list_keep(struct found_list *list, int attempt_num, const struct episode *e)
{
	struct found *found = NULL;

	for (size_t i = list->n; !found && i > 0; i--)
		if (strcmp(list->items[i - 1]->episode.name, e->name) == 0)
			found = list->items[i - 1];
	if (!found) {
		if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0 ||
		    !(found = calloc(1, sizeof(*found))))
			return -ENOMEM;
		found->attempt_num = attempt_num;
		list->items[list->n++] = found;
	}
	episode_copy(&found->episode, e);
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct episode *x = &(*(struct found *const *)a)->episode;
	const struct episode *y = &(*(struct found *const *)b)->episode;

	return COMPARE(x->began_wall_ns, y->began_wall_ns) ?: strcmp(x->name, y->name);
}

void found_list_log_unjudged(const struct found_list *list)
{
	const struct detect_looks *looks = list->looks;
	CLEANUP(buf_release) struct buf types = BUF_INIT;

	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		/* who looks at the time knows what becomes of what a job leaves behind; the
		 * record does not */
		bool is_unjudged = type == ANOMALY_ORPHAN || type == ANOMALY_GPU_LOST
					   ? looks[type].n_judged > 0
					   : looks[type].n_silent > 0 && looks[type].n_judged == 0;

		if (is_unjudged)
			buf_printf(&types, "%s%s", types.len > 0 ? ", " : "",
				   anomaly_type_name(type));
	}
	if (types.len > 0)
		log_error(
			"not judged, as what they need was not recorded, or not for long enough: %s",
			types.data);
	if (looks[ANOMALY_RUNAWAY_PROCESS].n_judged > 0)
		log_error("runaway_process was judged only where the process got its core: what it "
			  "waited for one is not recorded");
	if (looks[ANOMALY_RUNAWAY_PROCESS].n_usual > 0)
		log_error(
			"runaway_process was held back at %llu looks: jobs of its kind had used as "
			"much CPU before",
			(unsigned long long)looks[ANOMALY_RUNAWAY_PROCESS].n_usual);
	if (looks[ANOMALY_PROCESS_EXPLOSION].n_judged > 0)
		log_error(
			"process_explosion was judged by its threshold alone: how many processes a "
			"user might have is not recorded");
}

/* ---- one walk through the record, as who recorded it saw it: of an attempt, or of the host ----
 */

/* Events of processes; their strings are those of others, or static. All zeros is empty. */
struct event_list {
	struct proc_event *items;
	size_t n, cap;
};

/* OOM kills that only the counts of jobs' cgroups tell of: the host has counted each of them, too.
 */
struct counted_list {
	struct counted {
		uint64_t wall_ns, n; /* so many were found at that moment */
	} * items;
	size_t n, cap;
	struct map seen; /* hash of an episode's name -> how many it tells of */
};

/* What all walks share. */
struct search {
	struct store *store;
	const struct config_anomaly *config;
	const struct detect_period *period;
	struct attempt_list attempts; /* in the order in which they began */
	uint64_t *looked_wall_ns;     /* the last look at each of them; 0: there was none */
	struct event_list kills;      /* OOM kills of all jobs, by time */
	struct arena arena;	      /* their strings */
	struct counted_list counted;  /* an attempt adds to them, and the host leaves them out */
	struct found_list *list;
	struct err *err;
};

struct pass {
	struct search *s;
	struct detect *d;
	const struct attempt *attempt;	/* NULL: it is the host that is looked at */
	struct detect_usual usual;	/* job_id NULL: nothing is known of jobs of its kind */
	struct event_list news;		/* for the next look */
	uint64_t looked_wall_ns;	/* when the attempt was last looked at; 0: never */
	bool has_left;			/* the attempt is over, and its detector knows */
	size_t next_kill, next_counted; /* the first that were not handed out */
	uint64_t n_host_kills;		/* the host's count at the last snapshot */
	uint64_t n_unseen_kills;	/* of these, that it counted while nobody looked */
	struct map homes; /* cgroups in which it had a process: hash of the path -> 1 */
	struct cgroup_sample *cgroups; /* those of a snapshot */
	size_t cap_cgroups;
	uint64_t last_wall_ns, last_boot_ns; /* of the last snapshot; 0: there was none */
	char boot_id[BOOT_ID_BYTES];
};

static int event_list_add(struct event_list *list, const struct proc_event *items, size_t n)
{
	if (n == 0)
		return 0;
	if (ARRAY_RESERVE(list->items, list->cap, list->n + n) < 0)
		return -ENOMEM;
	memcpy(list->items + list->n, items, n * sizeof(*items));
	list->n += n;
	return 0;
}

/* ---- what was found ---- */

#define MOST_KILLS 1e9 /* more is nonsense */

/* Kills that an episode of an attempt counts by now, and did not before. -ENOMEM. */
static int note_counted(struct pass *p, const struct episode *e)
{
	struct counted_list *list = &p->s->counted;
	uint64_t hash = hash_text(e->name), before = 0, now;

	/* what events tell of is of a process, or critical */
	if (!p->attempt || e->worst.type != ANOMALY_OOM_KILL || e->worst.has_pid ||
	    e->worst.severity >= SEVERITY_CRITICAL || !(e->peak_value >= 1) ||
	    e->peak_value >= MOST_KILLS)
		return 0;
	now = (uint64_t)e->peak_value;
	map_get(&list->seen, hash, &before);
	if (now <= before)
		return 0;
	if (map_put(&list->seen, hash, now) < 0 ||
	    ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return -ENOMEM;
	list->items[list->n++] = (struct counted){ e->peak_wall_ns, now - before };
	return 0;
}

/* A pass tells of what it looks at: of other jobs it sees the kills alone. */
static bool is_own(const struct pass *p, const struct episode *e)
{
	return !p->attempt || (e->worst.job_id && strcmp(e->worst.job_id, p->attempt->job_id) == 0);
}

static int keep_episode(struct pass *p, const struct episode *e)
{
	int r = is_own(p, e) ? note_counted(p, e) : 0;

	if (r == 0 && is_own(p, e))
		r = found_list_keep(p->s->list, p->attempt ? p->attempt->attempt_num : 0, e);
	return r;
}

static int keep_changes(struct pass *p, const struct detect_changes *changes)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < changes->n; i++)
		r = keep_episode(p, changes->items[i].episode);
	return r;
}

/* ---- what a look is handed ---- */

static int add_end(struct pass *p, enum event_type type, const struct proc_key *key,
		   uint64_t wall_ns)
{
	const struct proc_event ev = { .wall_ns = wall_ns,
				       .key = *key,
				       .type = type,
				       .status = { -1, -1 },
				       .job_id = p->attempt->job_id,
				       .sheet_num = SHEET_NONE,
				       .details = "" };

	return event_list_add(&p->news, &ev, 1);
}

static int on_end(void *ctx, const struct event_row *row)
{
	const struct proc_event *ev = &row->event;
	struct pass *p = ctx;

	if ((ev->type != EVENT_EXIT && ev->type != EVENT_ORPHAN) ||
	    !detect_follows(p->d, ev->key.pid))
		return 0;
	return add_end(p, ev->type, &ev->key, ev->wall_ns);
}

/*
 * When processes have ended of which something lasts. The record is asked only where something
 * does, which is seldom. Until: 0 is no end.
 */
static int add_ends(struct pass *p, uint64_t since_wall_ns, uint64_t until_wall_ns)
{
	const struct event_filter filter = { .since_wall_ns = since_wall_ns,
					     .until_wall_ns = until_wall_ns,
					     .attempt_id = p->attempt ? p->attempt->id : 0 };

	return p->attempt && detect_active(p->d, 0)
		       ? store_read_events(p->s->store, &filter, on_end, p, p->s->err)
		       : 0;
}

/* The job is over: those that have no end yet have ended with it. -ENOMEM. */
static int add_gone(struct pass *p)
{
	const struct episode *e;
	int r = 0;

	for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++) {
		const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
		bool has_end = !e->worst.has_pid || !u64_known(key.start_ticks) ||
			       !detect_follows(p->d, key.pid);

		for (size_t k = 0; !has_end && k < p->news.n; k++) {
			const struct proc_key *ended = &p->news.items[k].key;

			/* a runner knows its child by the pid alone */
			has_end = ended->pid == key.pid && (ended->start_ticks == key.start_ticks ||
							    !u64_known(ended->start_ticks));
		}
		if (!has_end)
			r = add_end(p, EVENT_EXIT, &key, p->attempt->ended_wall_ns);
	}
	return r;
}

/* A count waits a little to be published: it is of kills that happened before. */
#define COUNTED_LATE_NS UINT64_C(5000000000)

static int look(struct pass *p, const struct snapshot *snap)
{
	const struct event_list *kills = &p->s->kills;
	const struct counted_list *counted = &p->s->counted;
	struct detect_news news = { .snap = snap,
				    .usual = &p->usual,
				    .n_usual = p->usual.job_id ? 1 : 0 };
	struct detect_changes changes;
	size_t from = p->next_kill;
	const struct episode *e;
	int r;

	p->news.n = 0;
	while (p->next_kill < kills->n && kills->items[p->next_kill].wall_ns <= snap->wall_ns)
		p->next_kill++;
	r = event_list_add(&p->news, kills->items + from, p->next_kill - from);
	if (r == 0)
		r = add_ends(p, p->last_wall_ns, snap->wall_ns);
	if (r < 0)
		return r;
	news.events = p->news.items;
	news.n_events = p->news.n;
	for (; !p->attempt && p->next_counted < counted->n &&
	       counted->items[p->next_counted].wall_ns <= snap->wall_ns + COUNTED_LATE_NS;
	     p->next_counted++)
		news.n_kills_elsewhere += counted->items[p->next_counted].n;
	r = detect_tick(p->d, &news, &changes) < 0 ? -ENOMEM : keep_changes(p, &changes);
	/* more kills are counted at once, but are no change of the episode */
	for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++)
		if (is_own(p, e))
			r = note_counted(p, e);
	return r;
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
	/* a snapshot may show one that has ended by the events */
	r = add_ends(p, 0, until_wall_ns);
	if (r == 0 && !a->is_attached)
		r = add_gone(p);
	if (r < 0)
		return r;
	ending.events = p->news.items;
	ending.n_events = p->news.n;
	return detect_leave_job(p->d, &job, &ending, &changes) < 0 ? -ENOMEM
								   : keep_changes(p, &changes);
}

/* ---- snapshots ---- */

/* A daemon writes down the cgroups of all jobs. Those in which this one never was are left out. */
static int take_cgroups(struct pass *p, const struct snapshot *snap, struct snapshot *ret)
{
	uint64_t is_home;

	*ret = *snap; /* borrows: nobody releases it */
	if (!p->attempt || snap->n_cgroups == 0)
		return 0;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (snap->processes[i].cgroup &&
		    map_put(&p->homes, hash_text(snap->processes[i].cgroup), 1) < 0)
			return -ENOMEM;
	if (ARRAY_RESERVE(p->cgroups, p->cap_cgroups, snap->n_cgroups) < 0)
		return -ENOMEM;
	ret->cgroups = p->cgroups;
	ret->n_cgroups = 0;
	for (size_t i = 0; i < snap->n_cgroups; i++)
		if (map_get(&p->homes, hash_text(snap->cgroups[i].path), &is_home))
			p->cgroups[ret->n_cgroups++] = snap->cgroups[i];
	return 0;
}

/* Between two that record one after the other nobody looked, unless it was for a moment. */
#define MOMENT_NS UINT64_C(10000000000)

/* Whether attempts recorded the host without a break between two snapshots. */
static bool was_watched(const struct search *s, uint64_t from_wall_ns, uint64_t until_wall_ns)
{
	uint64_t at = from_wall_ns;

	for (size_t i = 0; i < s->attempts.n && at < until_wall_ns; i++) {
		const struct attempt *a = &s->attempts.items[i];
		/* one that was lost has seen nothing after its last look */
		uint64_t ended = a->is_lost ? s->looked_wall_ns[i] : a->ended_wall_ns;

		if (!u64_known(a->started_wall_ns) || a->started_wall_ns > u64_add(at, MOMENT_NS))
			continue;
		if (!u64_known(ended))
			return true;
		at = ended > at ? ended : at;
	}
	return u64_add(at, MOMENT_NS) >= until_wall_ns;
}

/* Kills that the host counted while nobody looked are of no moment that is known. */
static void leave_out_unseen(struct pass *p, struct snapshot *snap)
{
	uint64_t total = snap->system.oom_kills_total, rise = u64_delta(total, p->n_host_kills);
	const bool is_same_boot = strcmp(p->boot_id, snap->boot_id) == 0;

	if (p->attempt || !u64_known(total))
		return;
	if (!is_same_boot || p->last_wall_ns == 0)
		p->n_unseen_kills = 0;
	else if (u64_known(rise) && rise > 0 && !was_watched(p->s, p->last_wall_ns, snap->wall_ns))
		p->n_unseen_kills += rise;
	p->n_host_kills = is_same_boot ? u64_max_known(total, p->n_host_kills) : total;
	snap->system.oom_kills_total = u64_delta(total, p->n_unseen_kills);
}

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct pass *p = ctx;
	struct snapshot own;
	int r = 0;

	if (is_over_by(p, snap->wall_ns))
		r = leave(p, snap->wall_ns);
	p->s->list->n_snapshots++;
	if (r == 0)
		r = take_cgroups(p, snap, &own);
	if (r < 0)
		return r;
	leave_out_unseen(p, &own);
	/* by its runner, or by who records it for that */
	if (p->attempt && (snap->n_processes > 0 || snap->recorder == p->attempt->id))
		p->looked_wall_ns = snap->wall_ns;
	r = look(p, &own);
	p->last_wall_ns = snap->wall_ns;
	p->last_boot_ns = u64_known(snap->boot_ns) ? snap->boot_ns : 0;
	memcpy(p->boot_id, snap->boot_id, sizeof(p->boot_id));
	return r;
}

/*
 * A kill mostly ends the job, and then no snapshot comes after it: the moment of the last one is
 * looked at without one. Until: 0 is no end.
 */
static int look_at_last_kills(struct pass *p, uint64_t until_wall_ns)
{
	CLEANUP(snapshot_release) struct snapshot after;
	const struct event_list *kills = &p->s->kills;
	uint64_t last = 0;
	int r = 0;

	for (size_t i = p->next_kill; i < kills->n; i++) {
		const struct proc_event *ev = &kills->items[i];

		if (until_wall_ns != 0 && ev->wall_ns >= until_wall_ns)
			break;
		if (!p->attempt || strcmp(ev->job_id, p->attempt->job_id) == 0)
			last = ev->wall_ns;
	}
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

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Where the attempt is over, what lasts ends. Otherwise it is found as it was last. */
static int pass_run(struct pass *p, const struct snapshot_filter *filter)
{
	const struct event_list *kills = &p->s->kills;
	uint64_t since = filter->since_wall_ns, until = filter->until_wall_ns;
	struct detect_changes changes = { 0 };
	const struct episode *e;
	int r;

	if (!p->d)
		return -ENOMEM;
	if (p->attempt && u64_known(p->attempt->started_wall_ns))
		since = later(since, p->attempt->started_wall_ns);
	/* kills from before it explain nothing that it sees */
	while (p->next_kill < kills->n && kills->items[p->next_kill].wall_ns < since)
		p->next_kill++;
	r = store_read_snapshots(p->s->store, filter, on_snapshot, p, p->s->err);
	if (r == 0)
		r = look_at_last_kills(p, until);
	if (r == 0 && is_over_by(p, until ? until : UINT64_MAX))
		r = leave(p, until);
	if (r == 0 && is_over_by(p, UINT64_MAX))
		r = detect_end_job(p->d, NULL, &changes) < 0 ? -ENOMEM : keep_changes(p, &changes);
	else
		for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++)
			r = keep_episode(p, e);
	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		struct detect_looks looks = detect_looks_of(p->d, type);

		p->s->list->looks[type].n_judged += looks.n_judged;
		p->s->list->looks[type].n_silent += looks.n_silent;
		p->s->list->looks[type].n_usual += looks.n_usual;
	}
	return r;
}

static void pass_release(struct pass *p)
{
	detect_free(p->d);
	map_release(&p->homes);
	free(p->cgroups);
	free(p->news.items);
}

/* ---- the whole record ---- */

/* Ticks at the ends of an attempt may be a little outside of it. */
#define MARGIN_NS UINT64_C(60000000000)

/* What is of this attempt: a little more than it, but nothing of those before and after it. */
struct span {
	uint64_t since_wall_ns, until_wall_ns; /* 0: no end */
};

/* 0 is no end. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Of each attempt. Between two of one job the earlier one ends where the later one begins. -ENOMEM.
 */
static int find_spans(const struct attempt_list *list, struct span *ret)
{
	CLEANUP(map_release) struct map last = MAP_INIT;

	for (size_t i = 0; i < list->n; i++) {
		const struct attempt *a = &list->items[i], *before;
		uint64_t hash = hash_text(a->job_id), at;

		if (u64_known(a->started_wall_ns) && a->started_wall_ns > MARGIN_NS)
			ret[i].since_wall_ns = a->started_wall_ns - MARGIN_NS;
		if (u64_known(a->ended_wall_ns))
			ret[i].until_wall_ns = a->ended_wall_ns + MARGIN_NS;
		before = map_get(&last, hash, &at) ? &list->items[at] : NULL;
		/* side by side the record says which is of which */
		if (before && u64_known(before->ended_wall_ns) && u64_known(a->started_wall_ns) &&
		    before->ended_wall_ns <= a->started_wall_ns) {
			ret[at].until_wall_ns =
				earlier(ret[at].until_wall_ns, a->started_wall_ns - 1);
			ret[i].since_wall_ns = later(ret[i].since_wall_ns, before->ended_wall_ns);
		}
		if (map_put(&last, hash, i) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What was usual for jobs of its kind when it began is judged by; the list has no sheets. */
static int look_at_attempt(struct search *s, size_t i, const struct span *span)
{
	const struct attempt *listed = &s->attempts.items[i];
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(pass_release)
	struct pass p = { .s = s, .d = detect_new(s->config, DETECT_JOBS), .attempt = listed };
	const struct snapshot_filter filter = {
		.job_id = listed->job_id,
		.since_wall_ns = later(s->period->since_wall_ns, span->since_wall_ns),
		.until_wall_ns = earlier(s->period->until_wall_ns, span->until_wall_ns),
	};
	int r;

	attempt_init(&a);
	r = store_read_progress(s->store, listed->job_id, listed->attempt_num, &a, s->err);
	if (r == 0)
		r = learning_usual(s->store, &a, &p.usual, s->err);
	p.usual.job_id = r == 0 ? listed->job_id : NULL;
	if (r == 0 || r == -ENOENT)
		r = pass_run(&p, &filter);
	s->looked_wall_ns[i] = p.looked_wall_ns;
	return r;
}

static int by_time(const void *a, const void *b)
{
	return COMPARE(((const struct counted *)a)->wall_ns, ((const struct counted *)b)->wall_ns);
}

static int look_at_all(struct search *s)
{
	size_t n = s->attempts.n;
	CLEANUP(free_ptr) struct span *spans = calloc(n + 1, sizeof(*spans));
	CLEANUP(pass_release) struct pass host = { .s = s };
	const struct snapshot_filter filter = { .since_wall_ns = s->period->since_wall_ns,
						.until_wall_ns = s->period->until_wall_ns };
	int r = 0;

	s->looked_wall_ns = calloc(n + 1, sizeof(*s->looked_wall_ns));
	if (!spans || !s->looked_wall_ns || find_spans(&s->attempts, spans) < 0)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = look_at_attempt(s, i, &spans[i]);
	if (r < 0 || s->period->job_id)
		return r;
	if (s->counted.n > 0)
		qsort(s->counted.items, s->counted.n, sizeof(*s->counted.items), by_time);
	host.d = detect_new(s->config, DETECT_HOST);
	return pass_run(&host, &filter);
}

static int on_kill(void *ctx, const struct event_row *row)
{
	struct proc_event ev = row->event;
	struct search *s = ctx;

	if (ev.type != EVENT_OOM)
		return 0;
	ev.job_id = arena_strdup(&s->arena, ev.job_id);
	ev.details = arena_strdup(&s->arena, ev.details);
	return ev.job_id && ev.details ? event_list_add(&s->kills, &ev, 1) : -ENOMEM;
}

static void search_release(struct search *s)
{
	attempt_list_release(&s->attempts);
	free(s->kills.items);
	arena_release(&s->arena);
	free(s->counted.items);
	map_release(&s->counted.seen);
	free(s->looked_wall_ns);
}

int detect_history(struct store *store, const struct config_anomaly *config,
		   const struct detect_period *period, struct found_list *ret, struct err *err)
{
	CLEANUP(search_release)
	struct search s = { .store = store,
			    .config = config,
			    .period = period,
			    .arena = ARENA_INIT,
			    .list = ret,
			    .err = err };
	const struct attempt_filter filter = { .job_id = period->job_id,
					       .since_wall_ns = period->since_wall_ns };
	const struct event_filter events = { .since_wall_ns = period->since_wall_ns,
					     .until_wall_ns = period->until_wall_ns };
	int r = store_list_attempts(store, &filter, &s.attempts, err);

	/* once for all: a kill in one job explains what the cgroup of another has counted */
	if (r == 0)
		r = store_read_events(store, &events, on_kill, &s, err);
	if (r == 0)
		r = look_at_all(&s);
	if (r == 0 && ret->n > 1)
		qsort(ret->items, ret->n, sizeof(struct found *), compare_found);
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

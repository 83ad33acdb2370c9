/*
 * episode_end - when what was told is over: when it was clear for long enough, with its process or
 * job, or as nobody can see it any more.
 */
#include <math.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/running.h"

static void remember(struct episodes *es, const struct running *r, double now)
{
	es->past[es->next_past] = (struct remembered){ r->hash, now, r->hold };
	es->next_past = (es->next_past + 1) % EPISODES_REMEMBERED;
}

/* It was over when it became clear, and not when that had lasted for long enough. */
static bool is_clear(const struct running *r)
{
	return !r->check->is_moment && r->was_clear && f64_known(r->clear_since);
}

/* With its process or job at the latest, of whose end may be told after a look that shows no more
 * of it. */
static uint64_t end_of(const struct running *r, uint64_t wall_ns)
{
	bool was_before = is_clear(r) && r->clear_wall_ns < wall_ns;

	return u64_max_known(was_before ? r->clear_wall_ns : wall_ns, r->e.began_wall_ns);
}

/* Its numbers are not from after it: a look that shows it clear is no part of it. */
static void set_end(struct running *r, uint64_t wall_ns)
{
	r->e.ended_wall_ns = end_of(r, wall_ns);
	if (r->e.seen_wall_ns > r->e.ended_wall_ns && u64_known(r->e.seen_wall_ns))
		r->e.seen_wall_ns = r->e.ended_wall_ns;
}

int episodes_end_one(struct episodes *es, struct running *r, const struct moment *m, double after,
		     const char *why)
{
	const bool is_moment = r->check->is_moment;

	r->is_over = true;
	set_end(r, is_moment ? r->e.over_wall_ns : m->snap->wall_ns);
	r->e.cleared_wall_ns = is_moment || is_clear(r) ? m->snap->wall_ns : U64_UNKNOWN;
	r->e.after_value = is_clear(r) ? r->clear_value : after;
	r->e.why_cleared = is_moment ? EPISODE_NO_MORE : why;
	remember(es, r, m->now);
	return episodes_tell(es, EPISODE_CLEARED, r);
}

int episodes_be_clear(struct episodes *es, struct running *r, const struct moment *m, double value)
{
	if (!f64_known(r->clear_since)) {
		r->clear_since = m->now;
		r->clear_wall_ns = m->snap->wall_ns;
	}
	if (m->now < r->sees_from)
		return 0;
	r->was_clear = true;
	r->clear_value = value;
	if (m->now - r->clear_since < r->hold)
		return 0;
	return episodes_end_one(es, r, m, value, "it was clear for long enough");
}

int episodes_end(struct episodes *es, const struct moment *m, enum anomaly_type type,
		 const struct subject *who, uint64_t wall_ns, const char *why)
{
	struct running *r = episodes_find(es, episode_hash(type, who, m->snap->boot_id));
	int ret = r ? episodes_end_one(es, r, m, F64_UNKNOWN, why) : 0;

	if (r && !r->check->is_moment)
		set_end(r, wall_ns);
	return ret;
}

static bool is_of_job(const struct running *r, const struct job_track *job)
{
	return !r->is_over && !r->is_of_process &&
	       episode_is_of(&r->e, job->job_id, job->attempt_id);
}

/* What begins or gets worse at a tick does not end at the same. */
int episodes_end_job(struct episodes *es, const struct moment *m, const struct job_track *job,
		     const char *why)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (is_of_job(r, job) && r->told == m->now)
			r->ending = why;
		else if (is_of_job(r, job))
			ret = episodes_end_one(es, r, m, F64_UNKNOWN, why);
	}
	return ret;
}

int episodes_end_unseen(struct episodes *es, struct running *r, const struct moment *m,
			const char *why)
{
	int ret = episodes_end_one(es, r, m, F64_UNKNOWN, why);

	r->e.cleared_wall_ns = m->snap->wall_ns;
	if (!r->check->is_moment)
		set_end(r, episode_last_seen(&r->e));
	return ret;
}

int episodes_end_all(struct episodes *es, const struct moment *m, const char *why)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (!f64_known(r->noted))
			r->is_over = true; /* nobody has looked at it yet: it is left as it was */
		else if (!r->is_over)
			ret = episodes_end_unseen(es, r, m, why);
	}
	return ret;
}

int episodes_end_tick(struct episodes *es, const struct moment *m)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (r->ending && r->told != m->now && !r->is_over)
			ret = episodes_end_one(es, r, m, F64_UNKNOWN, r->ending);
		if (r->is_over || r->noted == m->now)
			continue;
		if (r->check->is_moment)
			ret = episodes_be_clear(es, r, m, 0);
		else if (m->now - r->noted >= fmax(r->hold, EPISODES_SILENCE_SECONDS))
			ret = episodes_end_unseen(es, r, m, EPISODE_UNMEASURED);
	}
	return ret;
}

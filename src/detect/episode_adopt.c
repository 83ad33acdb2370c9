/*
 * episode_adopt - what another has begun, and who looks now goes on with.
 *
 * The checks of who takes over begin anew: they know nothing of what was so before. So what they
 * call clear counts only when they have looked for long enough (checks.h: sees_after), and what is
 * over again until then is what it was. How long a process was stuck goes on, if it still is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/episode.h"
#include "detect/host_past.h"

/* As long as a process may be missing in what a tick shows; and the job's in the first ones. */
#define ADOPT_LOOKS 3

/* ---- adopting ---- */

/* The same runs here already. */
static void join(struct running *r, const struct episode *e, const char *unit)
{
	/* Where the other has seen worse, or saw it come more often. */
	r->e.count = e->count > r->e.count ? e->count : r->e.count;
	if (episode_is_worse(e, &r->e)) {
		r->e.worst.severity = e->worst.severity;
		r->e.worst.metric_value = e->worst.metric_value;
		memcpy(r->e.worst.text, e->worst.text, sizeof(r->e.worst.text));
		r->n_own_bytes = strlen(r->e.worst.text);
		r->e.unit = unit;
		r->e.peak_value = e->peak_value;
		r->e.peak_wall_ns = e->peak_wall_ns;
	}
	/* One that began here later, under another name, becomes the other. */
	if (r->e.began_wall_ns > e->began_wall_ns) {
		memcpy(r->e.name, e->name, sizeof(r->e.name));
		r->e.is_adopted = true;
		r->e.began_wall_ns = e->began_wall_ns;
		r->e.worst.timestamp = e->worst.timestamp;
		r->e.before_value = e->before_value;
		r->e.first_value = e->first_value;
	}
}

int episodes_adopt(struct episodes *es, const struct config_anomaly *config,
		   const struct episode *e)
{
	const char *unit = checks_unit(e->unit);
	struct running *r;
	uint64_t hash;

	if (!unit || u64_known(e->ended_wall_ns) || episode_read_hash(e, &hash) < 0)
		return -EINVAL;
	r = episodes_find(es, hash);
	if (r) {
		join(r, e, unit);
		return 0;
	}
	if (!checks_of_type(e->worst.type))
		return -EINVAL;
	if (es->n == EPISODES_MAX)
		return -ENOSPC;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	/* What it borrows is ours afterwards, or left in the record. */
	episode_copy(&r->e, e);
	r->n_own_bytes = strlen(r->e.worst.text);
	r->e.is_adopted = true;
	r->e.unit = unit;
	r->e.why_cleared = NULL;
	r->e.evidence = NULL;
	r->e.host_json = r->e.evidence_json = NULL;
	if (e->host_json)
		anomaly_host_read_json(e->host_json, &r->e.host); /* or all of it is unknown */
	r->check = checks_of_type(e->worst.type);
	r->hash = hash;
	r->hold = config->clear_seconds;
	r->e.over_wall_ns = e->peak_wall_ns;
	r->is_of_process = episode_is_of_process(e);
	r->clear_since = r->noted = r->changed = F64_UNKNOWN;
	r->is_unmet = true;
	es->items[es->n++] = r;
	return 0;
}

/* ---- meeting it ---- */

/* What nobody has looked at for longer may have been otherwise in between. */
#define PAST_SECONDS 60

/*
 * Since when it was stuck, which who takes over has not seen; NaN: it was not when it was last
 * seen, or nobody knows. For what, its threshold tells.
 */
static void remember_stuck(const struct running *r, const struct moment *m, struct track *p)
{
	const struct config_anomaly *c = m->config;
	const struct episode *e = &r->e;
	double ago = u64_to_seconds(u64_delta(m->snap->wall_ns, e->peak_wall_ns));
	double since = m->now - ago - e->peak_value;

	if (e->worst.type != ANOMALY_STUCK_PROCESS || !(ago <= PAST_SECONDS) ||
	    !(since >= 0 && since <= m->now))
		return;
	if (e->worst.threshold == c->stuck_duration_seconds)
		p->still_since = since;
	if ((p->state == 'T' && e->worst.threshold == c->stuck_duration_seconds) ||
	    (p->state == 'D' && e->worst.threshold == c->io_stall_duration_seconds))
		p->in_state_since = since;
}

/* 1: it is there. 0: it is not. -ENOMEM. */
static int meet(struct running *r, const struct moment *m, struct tracks *ts)
{
	const struct episode *e = &r->e;
	const struct subject host = { .kind = e->gpu >= 0 ? OF_GPU : OF_HOST, .gpu = e->gpu };
	struct job_track *job;

	if (r->check->is_moment)
		return 1; /* it is clear from now on */
	if (r->is_of_process) {
		struct track *p = detect_tracks_by_pid(ts, (pid_t)e->worst.pid);

		/* The process may not be shown yet; one that has its pid is another. */
		if (!p || p->key.start_ticks != e->worst.start_ticks)
			return 0;
		p->active |= 1u << e->worst.type;
		remember_stuck(r, m, p);
		return 1;
	}
	if (e->worst.job_id) {
		/* Of the job itself, or of one of its cgroups, which are always evaluated. */
		if (detect_tracks_job(ts, e->worst.job_id, e->attempt_id, &job) < 0)
			return -ENOMEM;
		job->active |= 1u << e->worst.type;
		return 1;
	}
	/* By the boot in its name: how long it lasted in an earlier boot is unknown. */
	if (episode_hash(e->worst.type, &host, m->snap->boot_id) == r->hash)
		return 1;
	/* Of a cgroup without a job: by its path in its name. */
	for (size_t i = 0; i < m->snap->n_cgroups; i++) {
		const struct subject who = {
			.kind = OF_CGROUP,
			.cgroup = host_past_hash_path(m->snap->cgroups[i].path),
		};

		if (episode_hash(e->worst.type, &who, m->snap->boot_id) == r->hash)
			return 1;
	}
	return 0;
}

int episodes_meet(struct episodes *es, const struct moment *m, struct tracks *ts)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < es->n; i++) {
		struct running *r = es->items[i];
		/* A trend takes its time to be seen. That so many files are open does not. */
		bool is_seen_at_once = r->e.worst.type == ANOMALY_FD_EXHAUSTION &&
				       r->e.peak_value >= r->e.worst.threshold;

		if (!r->is_unmet || r->is_over)
			continue;
		if (!f64_known(r->noted)) {
			r->sees_from = m->now;
			if (r->check->sees_after && !is_seen_at_once)
				r->sees_from += *(const double *)((const char *)m->config +
								  r->check->sees_after);
		}
		r->noted = m->now;
		ret = meet(r, m, ts);
		r->is_unmet = ret <= 0;
		if (ret == 0 && (!r->is_of_process || ++r->n_missed >= ADOPT_LOOKS))
			ret = episodes_end_unseen(
				es, r, m, r->is_of_process ? EPISODE_ENDED_UNSEEN : EPISODE_UNSEEN);
	}
	return ret < 0 ? ret : 0;
}

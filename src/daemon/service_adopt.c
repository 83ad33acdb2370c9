/*
 * service_adopt - what lasts by the record when the daemon begins, or a job comes to it: it goes on
 * with that, instead of beginning anew. Whoever saw it before may tell of more for some ticks, so
 * the record is asked for a while.
 */
#include <errno.h>
#include <math.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/service_anomaly.h"

#define ADOPT_SECONDS 30
#define ADOPT_TICKS 3 /* a runner that looks as often as the daemon has handed over by then */

static uint64_t end_of_window(const struct service *s, uint64_t now_ns)
{
	return now_ns + (uint64_t)(fmax(ADOPT_SECONDS, ADOPT_TICKS * s->interval_seconds) * 1e9);
}

/* From when it comes, and again from when we write its ticks, or do so no more. */
static bool is_asked_about(const struct service *s, struct watched *job, uint64_t now_ns)
{
	if (job->adopt_until_ns == 0 || job->was_ours != job->is_ours)
		job->adopt_until_ns = end_of_window(s, now_ns);
	job->was_ours = job->is_ours;
	return now_ns < job->adopt_until_ns;
}

/* Guests have their record elsewhere. */
static bool is_any_asked_about(struct service *s, uint64_t now_ns)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	bool is_any;

	if (s->adopt_until_ns == 0)
		s->adopt_until_ns = end_of_window(s, now_ns);
	is_any = now_ns < s->adopt_until_ns;
	for (size_t i = 0; i < n; i++)
		is_any |= !jobs[i]->is_guest && is_asked_about(s, jobs[i], now_ns);
	return is_any;
}

/* One that lives is gone on with when it is found; who does not is missed, and that ends it. */
static bool is_followed(const struct service *s, const struct anomaly *a)
{
	const pid_t pid = (pid_t)a->pid;
	const struct orphan *orphan = orphans_find(s->orphans, pid);

	return (orphan && orphan->key.start_ticks == a->start_ticks) ||
	       !proc_is_alive("", pid, a->start_ticks);
}

/* One of an attempt that is over goes with that, unless its process outlives it. */
static uint64_t asked_until(const struct service *s, const struct episode *e)
{
	const struct watched *job =
		e->attempt_id ? watch_find_attempt(s->watch, e->attempt_id) : NULL;

	if (job)
		return job->adopt_until_ns;
	if (e->attempt_id == 0)
		return s->adopt_until_ns;
	return e->worst.type == ANOMALY_ORPHAN && is_followed(s, &e->worst) ? s->adopt_until_ns : 0;
}

/* One of another host is none of ours. */
static int adopt_one(void *ctx, const struct anomaly_row *row)
{
	struct service *s = ctx;
	const struct episode *e = &row->episode;
	int r = clock_boot_ns() < asked_until(s, e) ? detect_adopt(s->detect, e) : 0;

	if (r < 0)
		log_debug("%s is not followed any more: %d", e->name, r);
	return 0;
}

/* What waits to be written may be the end of what the record still has as lasting. */
void service_adopt_anomalies(struct service *s)
{
	const struct anomaly_filter lasting = { .lasting_wall_ns = INT64_MAX };
	struct err err = ERR_INIT;

	if (!s->store || s->unsaved.n > 0 || !is_any_asked_about(s, clock_boot_ns()))
		return;
	if (store_read_anomalies(s->store, &lasting, adopt_one, s, &err) < 0)
		log_debug("what lasts is not known: %s", err.text);
}

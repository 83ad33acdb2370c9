#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_work.h"

static struct admit_running describe(double rss_mb, const struct estimate *e, double age_seconds)
{
	return (struct admit_running){
		.rss_mb = rss_mb,
		.estimated_peak_mb = e->peak_rss_mb,
		.estimated_wall_seconds = e->wall_seconds,
		.age_seconds = age_seconds,
	};
}

static double age_of(const struct attempt *a)
{
	uint64_t now = clock_wall_ns();

	if (!u64_known(a->started_wall_ns) || now < a->started_wall_ns)
		return F64_UNKNOWN;
	return clock_ns_to_seconds(now - a->started_wall_ns);
}

static size_t list_watched(struct service *s, struct admit_running *running)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		running[i] = describe(u64_to_mb(jobs[i]->point.rss_bytes), &jobs[i]->estimate,
				      age_of(&jobs[i]->a));
	return n;
}

/* Those whose runners are not in the database yet. */
static size_t list_starting(struct service *s, struct admit_running *running)
{
	const struct queued *job;
	size_t n = 0;

	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (job->is_started && job->estimated_boot_ns &&
		    !watch_find_of(s->watch, job->job_id, job->uid))
			running[n++] = describe(F64_UNKNOWN, &job->estimate, 0);
	return n;
}

static size_t count_all(struct service *s)
{
	size_t n, n_queued = 0;

	watch_jobs(s->watch, &n);
	while (queue_at(s->queue, n_queued))
		n_queued++;
	return n + n_queued;
}

static double limit_mb(const struct service *s)
{
	uint64_t limit = s->settings.config->limits.max_memory_mb;

	return limit ? (double)limit : u64_to_mb(s->scan.snap.system.memory_total_bytes);
}

/*
 * What a program needed with other arguments says little of what this job needs: it
 * may put a job off while others run, not for good.
 */
static bool is_too_coarse(const struct admit_question *q, const struct admit_answer *answer)
{
	return q->job->rung == RUNG_PROGRAM && answer->decision != ADMIT &&
	       (answer->is_for_good || q->n_running == 0);
}

static void decide(const struct admit_question *q, struct admit_answer *ret)
{
	struct admit_question without = *q;
	struct estimate nothing;

	admit_decide(q, ret);
	if (!is_too_coarse(q, ret))
		return;
	estimate_init(&nothing);
	without.job = &nothing;
	admit_decide(&without, ret);
}

int service_judge_room(struct service *s, const struct estimate *e, struct admit_answer *ret)
{
	CLEANUP(free_ptr)
	struct admit_running *running = calloc(count_all(s) + 1, sizeof(*running));
	struct admit_question question = {
		.job = e,
		.running = running,
		.pressure = &s->pressure,
		.limit_mb = s->scan.has_snap ? limit_mb(s) : F64_UNKNOWN,
		.used_mb = s->scan.has_snap ? u64_to_mb(s->scan.snap.system.memory_used_bytes)
					    : F64_UNKNOWN,
	};

	if (!running)
		return -ENOMEM;
	question.n_running = list_watched(s, running);
	question.n_running += list_starting(s, running + question.n_running);
	decide(&question, ret);
	return 0;
}

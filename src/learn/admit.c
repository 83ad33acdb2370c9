#include "learn/admit.h"

#include <math.h>
#include <stdio.h>

#include "base/unknown.h"

/* Above it new jobs are refused (pressure.h): it is not for one to bring the host there. */
#define ROOM_SHARE 0.85
#define DELAY_MIN_SECONDS 2
#define DELAY_MAX_SECONDS 60
#define DELAY_UNKNOWN_SECONDS 10

const char *admit_name(enum admit_decision decision)
{
	static const char *const names[] = {
		[ADMIT] = "admit",
		[ADMIT_DELAY] = "delay",
		[ADMIT_REJECT] = "reject",
	};

	return names[decision];
}

/* What one may still add to what it has. */
static double remaining_mb(const struct admit_running *r)
{
	double now = f64_known(r->rss_mb) ? r->rss_mb : 0;

	return f64_known(r->estimated_peak_mb) ? fmax(r->estimated_peak_mb - now, 0) : 0;
}

/* Until the first of them is expected to be over. */
static unsigned wait_seconds(const struct admit_question *q)
{
	double soonest = INFINITY;

	for (size_t i = 0; i < q->n_running; i++) {
		double left = q->running[i].estimated_wall_seconds - q->running[i].age_seconds;

		if (f64_known(left))
			soonest = fmin(soonest, left);
	}
	if (!isfinite(soonest))
		return DELAY_UNKNOWN_SECONDS;
	return (unsigned)fmin(fmax(ceil(soonest), DELAY_MIN_SECONDS), DELAY_MAX_SECONDS);
}

static void refuse_for_pressure(const struct admit_question *q, struct admit_answer *ret)
{
	ret->decision = ADMIT_REJECT;
	ret->delay_seconds = pressure_delay_seconds(q->pressure->level);
	snprintf(ret->reason, sizeof(ret->reason), "the pressure is %s (%s)",
		 pressure_name(q->pressure->level), q->pressure->reason);
}

static void judge_room(const struct admit_question *q, struct admit_answer *ret)
{
	double wanted = q->job->peak_rss_mb, room = q->limit_mb * ROOM_SHARE, promised = 0;

	for (size_t i = 0; i < q->n_running; i++)
		promised += remaining_mb(&q->running[i]);
	ret->headroom_mb = room - q->used_mb - promised - wanted;
	if (wanted > room) {
		ret->decision = ADMIT_REJECT;
		ret->is_for_good = true;
		snprintf(
			ret->reason, sizeof(ret->reason),
			"it is expected to need %.0f MB, more than the %.0f MB that jobs may use here",
			wanted, room);
	} else if (ret->headroom_mb < 0) {
		ret->decision = ADMIT_DELAY;
		ret->delay_seconds = wait_seconds(q);
		snprintf(
			ret->reason, sizeof(ret->reason),
			"it is expected to need %.0f MB; %.0f MB of %.0f MB are in use and running "
			"jobs may want %.0f MB more",
			wanted, q->used_mb, room, promised);
	} else {
		snprintf(ret->reason, sizeof(ret->reason),
			 "it is expected to need %.0f MB, and %.0f MB are left then", wanted,
			 ret->headroom_mb);
	}
}

void admit_decide(const struct admit_question *q, struct admit_answer *ret)
{
	*ret = (struct admit_answer){
		.decision = ADMIT,
		.delay_seconds = pressure_delay_seconds(q->pressure->level),
		.headroom_mb = F64_UNKNOWN,
	};
	if (pressure_refuses_jobs(q->pressure->level))
		refuse_for_pressure(q, ret);
	else if (q->job->n_runs == 0 || !f64_known(q->job->peak_rss_mb))
		snprintf(ret->reason, sizeof(ret->reason),
			 "nothing is known of what it needs; the pressure is %s",
			 pressure_name(q->pressure->level));
	else if (!f64_known(q->limit_mb) || !f64_known(q->used_mb))
		snprintf(ret->reason, sizeof(ret->reason),
			 "the memory in use cannot be read; the pressure is %s",
			 pressure_name(q->pressure->level));
	else
		judge_room(q, ret);
}

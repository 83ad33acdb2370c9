#include "daemon/learn_plan.h"

#define MINUTE_NS UINT64_C(60000000000)

void learn_plan_begin(struct learn_plan *p, unsigned interval_minutes, uint64_t now_ns)
{
	*p = (struct learn_plan){ .since_ns = now_ns };
	learn_plan_set_interval(p, interval_minutes);
}

void learn_plan_set_interval(struct learn_plan *p, unsigned interval_minutes)
{
	p->interval_ns = interval_minutes * MINUTE_NS;
}

uint64_t learn_plan_wait_ns(const struct learn_plan *p, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns > p->since_ns ? now_ns - p->since_ns : 0;
	uint64_t wanted_ns = p->interval_ns;

	if (p->is_failing && wanted_ns > LEARN_RETRY_NS)
		wanted_ns = LEARN_RETRY_NS;
	return wanted_ns > passed_ns ? wanted_ns - passed_ns : 0;
}

bool learn_plan_note_end(struct learn_plan *p, bool has_failed, uint64_t now_ns)
{
	bool is_news = has_failed != p->is_failing;

	p->is_failing = has_failed;
	p->since_ns = now_ns;
	return is_news;
}

#include <malloc.h>

#include "daemon/service_internal.h"

/* By then what is read once more of a job that is over has been read. */
#define AFTER_MS 5000

static void give_back(void *ctx)
{
	struct service *s = ctx;

	s->memory.is_due = false;
	malloc_trim(0);
}

void service_give_back_soon(struct service *s)
{
	if (!s->memory.timer)
		s->memory.timer = loop_timer_new(s->loop, give_back, s);
	if (!s->memory.timer || s->memory.is_due)
		return;
	s->memory.is_due = true;
	loop_timer_set(s->memory.timer, AFTER_MS, 0);
}

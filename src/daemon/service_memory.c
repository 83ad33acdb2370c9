#include <malloc.h>

#include "daemon/service_internal.h"

/* By then what is read once more of a job that is over has been read. */
#define AFTER_MS 5000

static void give_back(void *ctx)
{
	struct service *s = ctx;

	s->gives_back = false;
	malloc_trim(0);
}

void service_give_back_soon(struct service *s)
{
	if (!s->memory_timer)
		s->memory_timer = loop_timer_new(s->loop, give_back, s);
	if (!s->memory_timer || s->gives_back)
		return;
	s->gives_back = true;
	loop_timer_set(s->memory_timer, AFTER_MS, 0);
}

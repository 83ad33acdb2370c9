#include <stdlib.h>

#include "base/clock.h"
#include "daemon/service_deaths.h"
#include "daemon/service_follow.h"

/*
 * The runner of a job asks at its end for what its processes had used: the answer waits until the
 * kernel has said the last of it.
 */

#define NS_PER_MS UINT64_C(1000000)
#define REAPED_NS UINT64_C(50000000) /* a parent that waits for children has done so */
#define LOOK_MS 5		     /* so often is looked whether the last word has come */

struct asker {
	struct service *service;
	struct rpc_call *call;
	int64_t id;
	uint64_t until_boot_ns; /* the clock may be set back */
	struct loop_timer *timer;
};

static bool are_complete(struct service *s, int64_t id)
{
	const uint64_t now = clock_wall_ns();
	const struct job_deaths *at;

	service_drain_life(s); /* the last of them may wait there */
	at = *job_deaths_find(s, id);
	return !at || !s->life.life || !life_sees_signals(s->life.life) ||
	       deaths_are_complete(&at->deaths, s->root_fd, now - DEATHS_LAST_WORD_NS,
				   now - REAPED_NS);
}

static void write_answer(struct service *s, int64_t id, struct rpc_call *call)
{
	struct job_deaths *at = *job_deaths_find(s, id);
	struct json *j = rpc_call_result(call);

	if (at) {
		at->was_told = true;
		at->n_short = deaths_count_unaccounted(&at->deaths, UINT64_MAX);
	}
	json_begin_object(j);
	if (at)
		deaths_write(j, &at->deaths);
	json_key_u64(j, "unlisted", at ? at->deaths.n_unlisted : 0);
	json_key_u64(j, "withheld", at ? at->n_withheld : 0);
	json_key_u64(j, "lost", at ? s->life.n_lost - at->n_lost_before : 0);
	json_key_bool(j, "last_words", s->life.life && life_sees_signals(s->life.life));
	json_end_object(j);
}

static void forget_asker(void *ctx)
{
	struct asker *asker = ctx;

	loop_timer_close(asker->timer);
	free(asker);
}

static void look_again(void *ctx)
{
	struct asker *asker = ctx;
	struct rpc_call *call = asker->call;

	if (clock_boot_ns() < asker->until_boot_ns && !are_complete(asker->service, asker->id))
		return;
	write_answer(asker->service, asker->id, call);
	forget_asker(asker);
	rpc_call_answer(call);
}

static struct asker *asker_new(struct service *s, struct rpc_call *call, int64_t id, uint64_t ms)
{
	struct asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return NULL;
	*asker = (struct asker){ .service = s,
				 .call = call,
				 .id = id,
				 .until_boot_ns = clock_boot_ns() + ms * NS_PER_MS,
				 .timer = loop_timer_new(s->loop, look_again, asker) };
	if (!asker->timer) {
		free(asker);
		return NULL;
	}
	loop_timer_set(asker->timer, ms < LOOK_MS ? ms : LOOK_MS, LOOK_MS);
	return asker;
}

void service_tell_deaths_of(struct service *s, int64_t id, uint64_t patience_ms,
			    struct rpc_call *call)
{
	uint64_t ms = patience_ms < DEATHS_LAST_WORD_NS / NS_PER_MS
			      ? patience_ms
			      : DEATHS_LAST_WORD_NS / NS_PER_MS;
	struct asker *asker = are_complete(s, id) || ms == 0 ? NULL : asker_new(s, call, id, ms);

	if (asker)
		rpc_call_defer(call, forget_asker, asker);
	else
		write_answer(s, id, call);
}

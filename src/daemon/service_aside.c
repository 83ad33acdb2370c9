/*
 * service_aside - calls whose answers take long: what they read is read on another thread, and
 * they are answered in the loop.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/macros.h"
#include "daemon/service_work.h"

struct aside_call {
	struct service *service;
	struct rpc_call *call; /* NULL: nobody waits for it any more */
	atomic_bool is_gone;   /* the same, for the other thread */
	const struct aside_answer *how;
	void *ctx;
};

static void call_gone(void *ctx)
{
	struct aside_call *c = ctx;

	c->call = NULL;
	atomic_store(&c->is_gone, true);
}

static int do_work(void *ctx, struct store *store, struct err *err)
{
	struct aside_call *c = ctx;

	return atomic_load(&c->is_gone) ? 0 : c->how->work(c->ctx, store, err);
}

static void answer(struct aside_call *c, int r, const struct err *why)
{
	struct rpc_call *call = TAKE_PTR(c->call);
	struct err err = *why;

	if (r == 0)
		r = c->how->write(c->ctx, c->service, call, &err);
	if (r == 0)
		rpc_call_answer(call);
	else
		rpc_call_fail(call, r, &err);
}

static void on_done(void *ctx, int r, const struct err *err)
{
	struct aside_call *c = ctx;

	if (c->call)
		answer(c, r, err);
	c->how->release(c->ctx);
	free(c);
}

static int begin(struct service *s, struct rpc_call *call, struct aside_call *c, struct err *err)
{
	const struct aside_task task = {
		.uid = rpc_call_peer(call)->uid, .work = do_work, .done = on_done, .ctx = c
	};
	int r = service_need_store(s, err);

	return r < 0 ? r : aside_add(s->aside, &task, err);
}

int service_answer_aside(struct service *s, struct rpc_call *call, const struct aside_answer *how,
			 void *ctx, struct err *err)
{
	struct aside_call *c = rpc_call_wants_answer(call) ? calloc(1, sizeof(*c)) : NULL;
	int r = 0;

	if (c) {
		*c = (struct aside_call){ .service = s, .call = call, .how = how, .ctx = ctx };
		r = begin(s, call, c, err);
	} else if (rpc_call_wants_answer(call)) {
		r = err_set(err, -ENOMEM, "no memory left to wait");
	}
	if (c && r == 0) {
		rpc_call_defer(call, call_gone, c);
		return 0;
	}
	how->release(ctx); /* it goes nowhere, or nobody wants to know */
	free(c);
	return r;
}

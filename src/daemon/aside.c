#include "daemon/aside.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/macros.h"
#include "daemon/methods/methods.h"

#define PATIENCE_MS 5000 /* for a writer: nobody but who has asked waits for this thread */

struct waiting {
	struct aside_task task;
	struct waiting *next;
};

struct aside {
	struct loop *loop;
	const char *db;
	store_alive_fn *check_alive;
	struct waiting *first, **end;
	struct waiting *current; /* that the other thread has; NULL: it has nothing to do */
	uid_t last_uid;		 /* whose turn it was */
	bool is_leaving;
	bool is_finishing; /* what is added meanwhile is begun when that is done */
	int r;
	struct err err;
};

struct aside *aside_new(struct loop *loop, const char *db, store_alive_fn *check_alive)
{
	struct aside *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct aside){ .loop = loop, .db = db, .check_alive = check_alive };
	a->end = &a->first;
	return a;
}

/* ---- whose turn it is ---- */

/* The next user by number, and after the last the first again. */
static struct waiting *take_next(struct aside *a)
{
	struct waiting **best = &a->first, *taken;
	uid_t after = a->last_uid + 1;

	if (!a->first)
		return NULL;
	for (struct waiting **at = &a->first->next; *at; at = &(*at)->next)
		if ((uid_t)((*at)->task.uid - after) < (uid_t)((*best)->task.uid - after))
			best = at;
	taken = *best;
	*best = taken->next;
	if (a->end == &taken->next)
		a->end = best;
	a->last_uid = taken->task.uid;
	return taken;
}

/* ---- on the other thread ---- */

static void do_work(void *ctx)
{
	CLEANUP(store_closep) struct store *store = NULL;
	struct aside *a = ctx;
	const struct aside_task *task = &a->current->task;

	a->r = store_open_timeout(a->db, STORE_READ, PATIENCE_MS, &store, &a->err);
	if (a->r < 0 && !task->is_store_optional)
		return;
	if (store)
		store_set_alive_check(store, a->check_alive, NULL);
	a->r = task->work(task->ctx, store, &a->err);
}

/* ---- in the loop ---- */

static void finish(struct waiting *waiting, int r, const struct err *err)
{
	waiting->task.done(waiting->task.ctx, r, err);
	free(waiting);
}

static int begin_next(struct aside *a);

/* One that cannot be begun is no reason to leave those behind it waiting. */
static void on_done(void *ctx)
{
	struct aside *a = ctx;
	int r = a->r; /* the next one sets it, on its thread */

	a->is_finishing = true;
	do {
		finish(TAKE_PTR(a->current), r, &a->err);
		r = begin_next(a);
	} while (r < 0);
	a->is_finishing = false;
}

/* -ENOMEM: the current one cannot be begun. */
static int begin_next(struct aside *a)
{
	if (a->current || a->is_leaving)
		return 0;
	a->current = take_next(a);
	if (!a->current)
		return 0;
	a->err = (struct err)ERR_INIT;
	if (loop_queue_work(a->loop, do_work, on_done, a) == 0)
		return 0;
	return err_set(&a->err, -ENOMEM, "no memory left to begin");
}

int aside_add(struct aside *a, const struct aside_task *task, struct err *err)
{
	struct waiting *waiting;
	size_t n = 0;

	for (const struct waiting *w = a->first; w; w = w->next)
		n += w->task.uid == task->uid;
	if (n >= ASIDE_MAX_WAITING)
		return err_set(err, -EBUSY, "%d questions of this user wait already: try again",
			       ASIDE_MAX_WAITING);
	waiting = malloc(sizeof(*waiting));
	if (!waiting)
		return err_set(err, -ENOMEM, "no memory left to wait");
	*waiting = (struct waiting){ .task = *task };
	*a->end = waiting;
	a->end = &waiting->next;
	if (a->is_finishing || begin_next(a) == 0)
		return 0;
	free(TAKE_PTR(a->current)); /* which is this one: nothing else was there */
	return err_set(err, -ENOMEM, "no memory left to begin");
}

void aside_leave(struct aside *a)
{
	const struct err ending = { .code = -ESHUTDOWN, .text = "the daemon is ending" };

	if (!a)
		return;
	a->is_leaving = true;
	for (struct waiting *waiting; (waiting = take_next(a));)
		finish(waiting, -ESHUTDOWN, &ending);
}

struct aside *aside_free(struct aside *a)
{
	free(a);
	return NULL;
}

/*
 * service_aside - calls whose answers take long: what they read is read on another thread, and
 * they are answered in the loop.
 */

struct aside_call {
	struct service *service;
	struct rpc_call *call; /* NULL: nobody waits for it any more */
	atomic_bool is_gone;   /* the same, for the other thread */
	const struct aside_answer *how;
	void *ctx;
	struct buf json;
};

static void call_gone(void *ctx)
{
	struct aside_call *c = ctx;

	c->call = NULL;
	atomic_store(&c->is_gone, true);
}

static int call_work(void *ctx, struct store *store, struct err *err)
{
	struct aside_call *c = ctx;

	return atomic_load(&c->is_gone) ? 0 : c->how->work(c->ctx, store, &c->json, err);
}

static void call_done(void *ctx, int r, const struct err *why)
{
	struct aside_call *c = ctx;
	struct rpc_call *call = TAKE_PTR(c->call);
	struct err err = *why;

	if (call && r == 0 && c->how->write)
		r = c->how->write(c->ctx, c->service, call, &err);
	else if (call && r == 0 && buf_error(&c->json) < 0)
		r = err_set(&err, -ENOMEM, "no memory left for the answer");
	else if (call && r == 0)
		json_raw(rpc_call_result(call), c->json.data, c->json.len);
	if (call && r == 0)
		rpc_call_answer(call);
	else if (call)
		rpc_call_fail(call, r, &err);
	c->how->release(c->ctx);
	buf_release(&c->json);
	free(c);
}

int service_answer_aside(struct service *s, struct rpc_call *call, const struct aside_answer *how,
			 void *ctx, struct err *err)
{
	struct aside_call *c = rpc_call_wants_answer(call) ? calloc(1, sizeof(*c)) : NULL;
	const struct aside_task task = {
		.uid = rpc_call_peer(call)->uid, .work = call_work, .done = call_done, .ctx = c
	};
	int r = 0;

	if (c) {
		*c = (struct aside_call){
			.service = s, .call = call, .how = how, .ctx = ctx, .json = BUF_INIT
		};
		r = service_need_store(s, err);
		if (r == 0)
			r = aside_add(s->aside, &task, err);
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

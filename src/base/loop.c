#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

struct loop {
	uv_loop_t uv;
};

struct loop_fd {
	uv_poll_t uv; /* first, so that the close callback can free the whole */
	loop_fn *fn;
	void *ctx;
	unsigned interest, ready; /* LOOP_… */
};

struct loop_work {
	uv_work_t uv; /* first: libuv hands back its address */
	loop_fn *work, *done;
	void *ctx;
};

struct loop_timer {
	uv_timer_t uv; /* first, as above */
	loop_fn *fn;
	void *ctx;
};

struct loop_soon {
	uv_idle_t uv; /* first, as above; while it runs the loop does not sleep */
	loop_fn *fn;
	void *ctx;
};

struct loop *loop_new(void)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (loop && uv_loop_init(&loop->uv) < 0) {
		free(loop);
		return NULL;
	}
	return loop;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle);
}

static void close_if_open(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, on_closed);
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	uv_walk(&loop->uv, close_if_open, NULL);
	while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
		;
	uv_loop_close(&loop->uv);
	free(loop);
	return NULL;
}

void loop_run(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
	uv_stop(&loop->uv);
}

/* libuv looks at the clock when files are ready, before it calls whoever waits for them. */
uint64_t loop_round_ms(const struct loop *loop)
{
	uint64_t now_ms = uv_hrtime() / 1000000, began_ms = uv_now(&loop->uv);

	return now_ms > began_ms ? now_ms - began_ms : 0;
}

_Static_assert(LOOP_READABLE == UV_READABLE && LOOP_WRITABLE == UV_WRITABLE,
	       "events go to libuv and come back as they are");

static void on_ready(uv_poll_t *handle, int status, int events)
{
	struct loop_fd *watch = (struct loop_fd *)handle;

	/* An error shows up as ready too: the owner's read() or write() gets it and decides. */
	watch->ready = status < 0 ? LOOP_READABLE | LOOP_WRITABLE : (unsigned)events;
	watch->fn(watch->ctx);
}

void loop_fd_set_interest(struct loop_fd *watch, unsigned interest)
{
	if (interest == watch->interest)
		return;
	watch->interest = interest;
	if (interest)
		uv_poll_start(&watch->uv, (int)interest, on_ready);
	else
		uv_poll_stop(&watch->uv);
}

unsigned loop_fd_ready(const struct loop_fd *watch)
{
	return watch->ready;
}

struct loop_fd *loop_watch_fd(struct loop *loop, int fd, loop_fn *fn, void *ctx)
{
	struct loop_fd *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->fn = fn;
	watch->ctx = ctx;
	if (uv_poll_init(&loop->uv, &watch->uv, fd) < 0) {
		free(watch);
		return NULL;
	}
	loop_fd_set_interest(watch, LOOP_READABLE);
	return watch;
}

struct loop_fd *loop_fd_close(struct loop_fd *watch)
{
	if (watch)
		close_if_open((uv_handle_t *)&watch->uv, NULL);
	return NULL;
}

static void on_timer(uv_timer_t *handle)
{
	struct loop_timer *timer = (struct loop_timer *)handle;

	timer->fn(timer->ctx);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *ctx)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer)
		return NULL;
	timer->fn = fn;
	timer->ctx = ctx;
	uv_timer_init(&loop->uv, &timer->uv);
	return timer;
}

void loop_timer_set(struct loop_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
	uv_update_time(timer->uv.loop);
	uv_timer_start(&timer->uv, on_timer, delay_ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
	uv_timer_stop(&timer->uv);
}

struct loop_timer *loop_timer_close(struct loop_timer *timer)
{
	if (timer)
		close_if_open((uv_handle_t *)&timer->uv, NULL);
	return NULL;
}

static void on_soon(uv_idle_t *handle)
{
	struct loop_soon *soon = (struct loop_soon *)handle;

	uv_idle_stop(handle);
	soon->fn(soon->ctx);
}

struct loop_soon *loop_soon_new(struct loop *loop, loop_fn *fn, void *ctx)
{
	struct loop_soon *soon = calloc(1, sizeof(*soon));

	if (!soon)
		return NULL;
	soon->fn = fn;
	soon->ctx = ctx;
	uv_idle_init(&loop->uv, &soon->uv);
	return soon;
}

void loop_soon_set(struct loop_soon *soon)
{
	uv_idle_start(&soon->uv, on_soon);
}

struct loop_soon *loop_soon_close(struct loop_soon *soon)
{
	if (soon)
		close_if_open((uv_handle_t *)&soon->uv, NULL);
	return NULL;
}

static void do_work(uv_work_t *req)
{
	struct loop_work *work = (struct loop_work *)req;

	work->work(work->ctx);
}

static void on_work_done(uv_work_t *req, int status)
{
	struct loop_work *work = (struct loop_work *)req;

	(void)status; /* nothing here cancels work */
	work->done(work->ctx);
	free(work);
}

int loop_queue_work(struct loop *loop, loop_fn *work, loop_fn *done, void *ctx)
{
	struct loop_work *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct loop_work){ .work = work, .done = done, .ctx = ctx };
	uv_queue_work(&loop->uv, &w->uv, do_work, on_work_done);
	return 0;
}

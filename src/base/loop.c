#include "base/loop.h"

#include <stdlib.h>
#include <uv.h>

struct loop {
	uv_loop_t uv;
};

struct loop_fd {
	uv_poll_t uv; /* first, so that the close callback can free the whole */
	loop_fn *fn;
	void *ctx;
};

struct loop_timer {
	uv_timer_t uv; /* first, as above */
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

static void on_readable(uv_poll_t *handle, int status, int events)
{
	struct loop_fd *watch = (struct loop_fd *)handle;

	/* An error shows up as readable too: the owner's read() gets it and decides. */
	(void)status;
	(void)events;
	watch->fn(watch->ctx);
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
	uv_poll_start(&watch->uv, UV_READABLE, on_readable);
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

/*
 * loop - one thread that waits for files, timers and signals (libuv behind it).
 *
 * Callbacks run inside loop_run(), one at a time, and may add, change or close
 * any handle, their own included. Handles belong to the loop: loop_free()
 * closes what is still open. ctx is borrowed until the handle is closed.
 */
#ifndef PROCTOR_BASE_LOOP_H
#define PROCTOR_BASE_LOOP_H

#include <stdint.h>

struct loop;
struct loop_fd;
struct loop_timer;

typedef void loop_fn(void *ctx);

/* NULL when memory or file descriptors run out. */
struct loop *loop_new(void);

/* NULL is fine. Returns NULL. */
struct loop *loop_free(struct loop *loop);

/* Runs until loop_stop(), or until no handle is left. */
void loop_run(struct loop *loop);

/* loop_run() returns when the callback that calls this has returned. */
void loop_stop(struct loop *loop);

/*
 * Calls fn whenever fd can be read, is at its end or has failed. The fd stays the
 * caller's: close the handle first. NULL: no memory, or an fd that cannot be
 * waited for (a regular file) or already is.
 */
struct loop_fd *loop_watch_fd(struct loop *loop, int fd, loop_fn *fn, void *ctx);
struct loop_fd *loop_fd_close(struct loop_fd *watch);

/* An idle timer; loop_timer_set() starts it. NULL: no memory. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *ctx);

/* Fires once after delay_ms, then every repeat_ms (0: only once). Replaces an earlier setting. */
void loop_timer_set(struct loop_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
struct loop_timer *loop_timer_close(struct loop_timer *timer);

#endif

/*
 * loop - one thread that waits for files, timers and signals (libuv behind it).
 *
 * Callbacks run inside loop_run(), one at a time, and may add, change or close
 * any handle, their own included. Handles belong to the loop: loop_free()
 * closes what is still open, and waits for work. ctx is borrowed until the handle is closed.
 */
#pragma once

#include <stdint.h>

struct loop;
struct loop_fd;
struct loop_timer;
struct loop_soon;

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
 * For how long this round has lasted: who is called because a file is ready, and
 * may as well be called in the next round, can let timers that are due go first.
 * Good to some milliseconds. Begins anew with loop_timer_set().
 */
uint64_t loop_round_ms(const struct loop *loop);

/*
 * Calls fn whenever fd can be read, is at its end or has failed. The fd stays the
 * caller's: close the handle first. NULL: no memory, or an fd that cannot be
 * waited for (a regular file) or already is.
 */
struct loop_fd *loop_watch_fd(struct loop *loop, int fd, loop_fn *fn, void *ctx);
struct loop_fd *loop_fd_close(struct loop_fd *watch);

#define LOOP_READABLE 1u
#define LOOP_WRITABLE 2u

/* Waits for these from now on, 0 for nothing. A new watch waits for LOOP_READABLE. */
void loop_fd_set_interest(struct loop_fd *watch, unsigned interest);

/* Inside fn: which of them came. All of them where the fd has failed: read or write tells. */
unsigned loop_fd_ready(const struct loop_fd *watch);

/* An idle timer; loop_timer_set() starts it. NULL: no memory. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *ctx);

/* Fires once after delay_ms, then every repeat_ms (0: only once). Replaces an earlier setting. */
void loop_timer_set(struct loop_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
struct loop_timer *loop_timer_close(struct loop_timer *timer);

/*
 * Calls fn once after each loop_soon_set(), in the loop's next round: files that
 * are ready and timers that are due come in between. NULL: no memory.
 */
struct loop_soon *loop_soon_new(struct loop *loop, loop_fn *fn, void *ctx);
void loop_soon_set(struct loop_soon *soon);
struct loop_soon *loop_soon_close(struct loop_soon *soon);

/*
 * Calls work(ctx) on another thread and, when it has returned, done(ctx) inside
 * loop_run(), or inside loop_free(). -ENOMEM: neither will be called.
 */
int loop_queue_work(struct loop *loop, loop_fn *work, loop_fn *done, void *ctx);

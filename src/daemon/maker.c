#include "daemon/maker.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/macros.h"
#include "daemon/upkeep.h"
#include "store/store.h"

#define PATIENCE_MS 5000 /* for others that make it: nobody waits for this thread */

/* What both threads have; who comes last frees it. */
struct making {
	char *path;
	int done_fd; /* a timer that is due: it is over */
	atomic_bool is_left;
};

struct maker {
	struct making *making;
	struct loop_fd *watch;
	loop_fn *fn;
	void *ctx;
};

static void making_free(struct making **making)
{
	struct making *m = *making;

	if (!m)
		return;
	close_fd(&m->done_fd);
	free(m->path);
	free(m);
}

/* The first to leave it leaves it to the other. */
static void making_leave(struct making *m)
{
	if (atomic_exchange(&m->is_left, true))
		making_free(&m);
}

/* ---- on the other thread ---- */

static void *make(void *ctx)
{
	static const struct itimerspec at_once = { .it_value.tv_nsec = 1 };
	struct making *m = ctx;
	struct store *store = NULL;

	if (store_open_patient(m->path, STORE_WRITE, PATIENCE_MS, &store, NULL) == 0) {
		upkeep_tell_set_aside(store);
		store_close(store);
	}
	timerfd_settime(m->done_fd, 0, &at_once, NULL);
	making_leave(m);
	return NULL;
}

/* ---- in the loop ---- */

static void on_done(void *ctx)
{
	struct maker *m = ctx;

	m->watch = loop_fd_close(m->watch);
	m->fn(m->ctx);
}

/* Signals are for the loop. */
static int start_thread(struct making *m)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, make, m);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		pthread_detach(thread);
	return -error;
}

static struct making *making_new(const char *path)
{
	CLEANUP(making_free) struct making *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->done_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	m->path = strdup(path);
	if (m->done_fd < 0 || !m->path || start_thread(m) < 0)
		return NULL;
	return TAKE_PTR(m);
}

struct maker *maker_new(struct loop *loop, const char *path, loop_fn *fn, void *ctx)
{
	struct maker *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct maker){ .making = making_new(path), .fn = fn, .ctx = ctx };
	if (m->making)
		m->watch = loop_watch_fd(loop, m->making->done_fd, on_done, m);
	return m->making ? m : maker_leave(m);
}

int maker_wait(struct maker *m, unsigned ms)
{
	struct pollfd done = { .events = POLLIN };

	if (!m)
		return 0;
	done.fd = m->making->done_fd;
	return poll(&done, 1, ms < INT_MAX ? (int)ms : INT_MAX) > 0 ? 0 : -ETIMEDOUT;
}

struct maker *maker_leave(struct maker *m)
{
	if (!m)
		return NULL;
	loop_fd_close(m->watch);
	if (m->making)
		making_leave(m->making);
	free(m);
	return NULL;
}

#include "daemon/settler.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

#define WAIT_UNSAID_NS UINT64_C(2000000000)

/* What both threads have; the other one frees it, when it was left and its wait is over. */
struct waiter {
	int log_fd;
	int done_fd; /* a timer that is due: a wait is over. To set one is no I/O of ours */
	int error;   /* of that; read after done_fd */
	sem_t is_asked;
	atomic_bool is_left;
};

struct settler {
	struct store *store;
	struct waiter *waiter;
	struct loop_fd *watch;
	bool is_busy;	/* the other thread waits */
	bool is_wanted; /* something was written since it began that has to come to the disk… */
	bool is_more;	/* …or anything was */
	uint64_t began_boot_ns; /* that */
	uint64_t last_ns; /* how long the last took that is over; in the loop, too, since then */
};

static struct waiter *waiter_free(struct waiter *w)
{
	close_fd(&w->log_fd);
	close_fd(&w->done_fd);
	sem_destroy(&w->is_asked);
	free(w);
	return NULL;
}

/* ---- on the other thread ---- */

/*
 * By a descriptor that was open before anything was written: it is told of each page that the
 * kernel could not write since, also where another has been told.
 */
static void *wait_for_disk(void *ctx)
{
	static const struct itimerspec at_once = { .it_value.tv_nsec = 1 };
	struct waiter *w = ctx;

	for (;;) {
		while (sem_wait(&w->is_asked) < 0)
			; /* a signal */
		if (atomic_load(&w->is_left))
			break;
		w->error = fdatasync(w->log_fd) < 0 ? errno : 0;
		timerfd_settime(w->done_fd, 0, &at_once, NULL);
	}
	waiter_free(w);
	return NULL;
}

/* ---- in the loop ---- */

/* Signals are for the loop. */
static int start_thread(struct waiter *w)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, wait_for_disk, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	pthread_detach(thread);
	return 0;
}

static struct waiter *waiter_new(struct store *store)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	sem_init(&w->is_asked, 0, 0);
	w->log_fd = store_open_log(store);
	w->done_fd =
		w->log_fd < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return w->done_fd < 0 || start_thread(w) < 0 ? waiter_free(w) : w;
}

static void waiter_leave(struct waiter *w)
{
	atomic_store(&w->is_left, true);
	sem_post(&w->is_asked);
}

static void begin(struct settler *s)
{
	s->is_busy = true;
	s->is_wanted = s->is_more = false;
	s->began_boot_ns = clock_boot_ns();
	sem_post(&s->waiter->is_asked);
}

static void on_unsettled(void *ctx, bool is_wanted)
{
	struct settler *s = ctx;

	s->is_more = true;
	s->is_wanted |= is_wanted;
	if (s->is_wanted && !s->is_busy)
		begin(s);
}

static uint64_t longer_of(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static void on_done(void *ctx)
{
	struct settler *s = ctx;
	uint64_t n;

	if (read(s->waiter->done_fd, &n, sizeof(n)) < 0)
		return;
	s->last_ns =
		longer_of(clock_boot_ns() - s->began_boot_ns, store_take_disk_wait_ns(s->store));
	s->is_busy = false;
	store_told_settled(s->store, s->waiter->error, !s->is_more);
	if (s->is_wanted)
		begin(s);
}

struct settler *settler_new(struct loop *loop, struct store *store)
{
	struct settler *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->store = store;
	s->waiter = waiter_new(store);
	if (s->waiter)
		s->watch = loop_watch_fd(loop, s->waiter->done_fd, on_done, s);
	if (!s->watch)
		return settler_leave(s);
	store_settle_elsewhere(store, on_unsettled, s);
	return s;
}

bool settler_is_working(const struct settler *s)
{
	return s && s->is_busy;
}

int settler_check(struct settler *s, uint64_t *ret_wait_ns, struct err *err)
{
	*ret_wait_ns = 0;
	if (!s)
		return 0;
	s->last_ns = longer_of(s->last_ns, store_take_disk_wait_ns(s->store));
	*ret_wait_ns = longer_of(s->last_ns, s->is_busy ? clock_boot_ns() - s->began_boot_ns : 0);
	if (*ret_wait_ns < WAIT_UNSAID_NS)
		return 0;
	return err_set(err, -ETIMEDOUT,
		       "the disk takes %.1f s for what is recorded: a power cut would lose what "
		       "came since, and now and then a look at the processes comes that late",
		       clock_ns_to_seconds(*ret_wait_ns));
}

/* In turns that poll() takes. */
#define TURN_MS 1000

static bool wait_until(const struct settler *s, uint64_t until_boot_ns)
{
	struct pollfd done = { .fd = s->waiter->done_fd, .events = POLLIN };

	for (;;) {
		uint64_t now = clock_boot_ns();
		uint64_t ms = now < until_boot_ns ? (until_boot_ns - now + 999999) / 1000000 : 0;

		if (poll(&done, 1, (int)(ms < TURN_MS ? ms : TURN_MS)) > 0)
			return true;
		if (now >= until_boot_ns)
			return false;
	}
}

int settler_finish(struct settler *s, uint64_t until_boot_ns)
{
	while (settler_is_working(s)) {
		if (!wait_until(s, until_boot_ns))
			return -ETIMEDOUT;
		on_done(s);
	}
	return 0;
}

struct settler *settler_leave(struct settler *s)
{
	if (!s)
		return NULL;
	store_settle_here(s->store);
	loop_fd_close(s->watch);
	if (s->waiter)
		waiter_leave(s->waiter);
	free(s);
	return NULL;
}

#include "recorder/upkeep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "recorder/log_sender.h"

/* How often it is asked whether it is due: others may have done it. */
#define LOOK_EVERY_NS UINT64_C(600000000000)
/* How often whether there is far more than there may be: this part of max_bytes above it. */
#define ROOM_EVERY_NS UINT64_C(60000000000)
#define FAR_ABOVE 8
/* Between two slices: others want to write as well. */
#define PAUSE_MS 100
/*
 * Slices come in the first part of the time from one tick to the next, which is when there
 * is time for them: on a slow disk one may take longer than it should.
 */
#define SHARE_OF_INTERVAL 2

struct upkeep {
	struct retention_policy policy;
	struct loop_timer *timer;
	struct store *store; /* NULL: nothing is going on */
	struct retention run;
	uint64_t looked_boot_ns; /* 0: never */
	uint64_t room_boot_ns;	 /* the same, for room; and what was found: */
	uint64_t over_bytes;	 /* above max_bytes */
	bool is_new_policy;	 /* nothing was done by it yet: any byte above is too much */
	uint64_t tick_boot_ns;	 /* the last tick… */
	uint64_t interval_ns; /* …and how long after the one before it was; 0: there was none */
	bool failed, is_held; /* said once */
};

struct retention_policy upkeep_policy(const struct config_retention *policy, const char *jsonl_path)
{
	return (struct retention_policy){
		.full_resolution_hours = (unsigned)policy->full_resolution_hours,
		.downsampled_days = (unsigned)policy->downsampled_days,
		.events_days = (unsigned)policy->events_days,
		.max_bytes = policy->max_bytes,
		.jsonl_path = jsonl_path && jsonl_path[0] ? jsonl_path : NULL,
	};
}

static void begin(struct upkeep *u)
{
	const struct retention_clock clock = retention_clock_now();

	u->is_new_policy = false;
	store_retain_begin(&u->run, &u->policy, clock_wall_ns(), &clock);
}

/* 1: there is more to do. -EBUSY: others write right now. 0: it is done, or cannot be. */
static int do_slice(struct upkeep *u, struct store *store)
{
	struct err err = ERR_INIT;
	int r = store_retain_step(store, &u->run, &err);
	char until[32];

	if (u->run.held_until_ns && !u->is_held)
		log_warning("the clock has jumped ahead: nothing is removed for its age until %s",
			    clock_format_local(u->run.held_until_ns, until, sizeof(until)));
	u->is_held = u->run.held_until_ns != 0;
	if (r == 0) {
		u->failed = false; /* what fails after that is news */
		u->over_bytes = u->run.result.over_bytes;
	}
	if (r >= 0 || r == -EBUSY)
		return r;
	if (!u->failed)
		log_warning("what is old cannot be removed from the database: %s", err.text);
	u->failed = true;
	return 0;
}

static uint64_t pause_ms(const struct upkeep *u)
{
	uint64_t share_ms = u->interval_ns / 1000000 / (4 * SHARE_OF_INTERVAL);

	return u->interval_ns && share_ms < PAUSE_MS ? share_ms : PAUSE_MS;
}

/* If it is too late for another slice, the next tick sets the timer again. */
static void on_timer(void *ctx)
{
	struct upkeep *u = ctx;

	if (!u->store)
		return;
	if (do_slice(u, u->store) == 0)
		upkeep_leave(u);
	else if (!u->interval_ns ||
		 clock_boot_ns() - u->tick_boot_ns < u->interval_ns / SHARE_OF_INTERVAL)
		loop_timer_set(u->timer, pause_ms(u), 0);
}

struct upkeep *upkeep_new(struct loop *loop, const struct config_retention *policy,
			  const char *jsonl_path)
{
	struct upkeep *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	upkeep_set_policy(u, policy, jsonl_path);
	u->timer = loop_timer_new(loop, on_timer, u);
	return u->timer ? u : upkeep_free(u);
}

/* The timer is the loop's. */
struct upkeep *upkeep_free(struct upkeep *u)
{
	free(u);
	return NULL;
}

void upkeep_set_policy(struct upkeep *u, const struct config_retention *policy,
		       const char *jsonl_path)
{
	u->policy = upkeep_policy(policy, jsonl_path);
	u->run.policy = u->policy;
	u->room_boot_ns = 0;
	u->is_new_policy = true;
}

/* True if it is so long ago, and notes that it is now. */
static bool is_time(uint64_t *looked_boot_ns, uint64_t every_ns)
{
	uint64_t now = clock_boot_ns();

	if (*looked_boot_ns && now - *looked_boot_ns < every_ns)
		return false;
	*looked_boot_ns = now;
	return true;
}

/* What the last run could not remove the next cannot either: that waits for the hour. */
static bool lacks_room(struct upkeep *u, struct store *store)
{
	uint64_t spare = u->is_new_policy ? 0 : u->policy.max_bytes / FAR_ABOVE;

	if (store_read_over(store, &u->policy, &u->over_bytes, NULL) < 0)
		return false;
	return u->over_bytes > spare && (u->is_new_policy || u->run.result.over_bytes == 0);
}

/* On a full disk nobody can say that it does it: several may. */
static bool is_due(struct upkeep *u, struct store *store)
{
	int claimed = 0;

	if (is_time(&u->looked_boot_ns, LOOK_EVERY_NS))
		claimed = store_claim_retention(store, false, clock_wall_ns(), NULL);
	if (claimed == 0 && is_time(&u->room_boot_ns, ROOM_EVERY_NS) && lacks_room(u, store))
		claimed = store_claim_retention(store, true, clock_wall_ns(), NULL);
	return claimed > 0 || retention_is_full(claimed);
}

bool upkeep_make_room(const struct upkeep *u, const char *db_path, int error)
{
	uint64_t n = retention_is_full(error) ? store_drop_logs(db_path, &u->policy) : 0;

	if (n > 0)
		log_info("the disk is full, and all together was above max_bytes: %llu rotated %s "
			 "of snapshots went",
			 (unsigned long long)n, n == 1 ? "log" : "logs");
	return n > 0;
}

void upkeep_look(struct upkeep *u, struct store *store)
{
	uint64_t now = clock_boot_ns();

	u->interval_ns = u->tick_boot_ns ? now - u->tick_boot_ns : 0;
	u->tick_boot_ns = now;
	if (store)
		store_take_in(store, NULL);
	if (!u->store && store && is_due(u, store)) {
		begin(u);
		u->store = store;
	}
	if (u->store)
		loop_timer_set(u->timer, pause_ms(u), 0);
}

uint64_t upkeep_over_bytes(const struct upkeep *u)
{
	return u->room_boot_ns ? u->over_bytes : U64_UNKNOWN;
}

uint64_t upkeep_held_until_ns(const struct upkeep *u)
{
	return u->run.held_until_ns;
}

void upkeep_leave(struct upkeep *u)
{
	loop_timer_stop(u->timer);
	u->store = NULL;
}

/* ---- in a process of its own ---- */

#define ASIDE_NS UINT64_C(60000000000)
#define ASIDE_PAUSE_NS 10000000

/* What the logs have is stored. Closing it gives back what the database's own log took. */
static int keep_up_once(const char *db_path, struct upkeep *u, bool *is_claimed, uint64_t until)
{
	const struct timespec pause = { .tv_nsec = ASIDE_PAUSE_NS };
	struct store *store = NULL;
	int r = store_open(db_path, STORE_WRITE, &store, NULL);

	if (retention_is_full(r) && upkeep_make_room(u, db_path, r))
		r = store_open(db_path, STORE_WRITE, &store, NULL);
	if (r < 0)
		return r;
	if (upkeep_make_room(u, db_path, store_take_in(store, NULL)))
		store_take_in(store, NULL);
	*is_claimed = *is_claimed || is_due(u, store);
	if (*is_claimed) {
		begin(u);
		r = 1;
	}
	while ((r > 0 || r == -EBUSY) && clock_boot_ns() < until) {
		r = store_retain_step(store, &u->run, NULL);
		nanosleep(&pause, NULL);
	}
	if (r > 0 || r == -EBUSY)
		store_return_retention(store, clock_wall_ns(), NULL);
	store_close(store);
	return r;
}

/* To remove rows takes room: on a full disk what was removed makes some for the rest. */
#define FULL_ROUNDS 32

pid_t upkeep_run_aside(const char *db_path, const struct config_retention *policy,
		       const char *jsonl_path)
{
	uint64_t until = clock_boot_ns() + ASIDE_NS;
	struct upkeep u = { 0 };
	bool is_claimed = false;
	pid_t pid = fork();
	int r = -ENOSPC;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	become_background("proctor-store", NULL, 0);
	(void)setpriority(PRIO_PROCESS, 0, 10);
	upkeep_set_policy(&u, policy, jsonl_path);
	for (int i = 0; i < FULL_ROUNDS && retention_is_full(r) && clock_boot_ns() < until; i++)
		r = keep_up_once(db_path, &u, &is_claimed, until);
	_exit(0);
}

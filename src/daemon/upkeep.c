#include "daemon/upkeep.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

/* How often it is asked whether it is due: others may have done it. */
#define LOOK_EVERY_NS UINT64_C(600000000000)
/* Between two slices: others want to write as well. */
#define PAUSE_MS 100
/* What a run may take longer at its end. */
#define LAST_NS UINT64_C(50000000)

struct upkeep {
	struct retention_policy policy;
	struct loop_timer *timer;
	struct store *store; /* NULL: nothing is going on */
	struct retention run;
	uint64_t looked_boot_ns; /* 0: never */
	bool failed;		 /* said once */
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

/* 1: there is more to do. -EBUSY: others write right now. 0: it is done, or cannot be. */
static int do_slice(struct upkeep *u, struct store *store)
{
	struct err err = ERR_INIT;
	int r = store_retain_slice(store, &u->run, &err);

	if (r >= 0 || r == -EBUSY)
		return r;
	if (!u->failed)
		log_warning("what is old cannot be removed from the database: %s", err.text);
	u->failed = true;
	return 0;
}

static void on_timer(void *ctx)
{
	struct upkeep *u = ctx;

	if (!u->store)
		return;
	if (do_slice(u, u->store) != 0)
		loop_timer_set(u->timer, PAUSE_MS, 0);
	else
		upkeep_leave(u);
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
}

static bool is_due(struct upkeep *u, struct store *store)
{
	uint64_t now = clock_boot_ns();

	if (u->looked_boot_ns && now - u->looked_boot_ns < LOOK_EVERY_NS)
		return false;
	u->looked_boot_ns = now;
	return store_claim_retention(store, clock_wall_ns(), NULL) > 0;
}

void upkeep_look(struct upkeep *u, struct store *store)
{
	if (store)
		store_take_in(store, NULL); /* ends that others could not store */
	if (u->store || !store || !is_due(u, store))
		return;
	store_retain_begin(&u->run, &u->policy, clock_wall_ns());
	u->store = store;
	loop_timer_set(u->timer, PAUSE_MS, 0);
}

void upkeep_leave(struct upkeep *u)
{
	loop_timer_stop(u->timer);
	u->store = NULL;
}

void upkeep_do_some(struct upkeep *u, struct store *store)
{
	uint64_t until = clock_boot_ns() + LAST_NS;

	if (!u->store && !is_due(u, store))
		return;
	if (!u->store)
		store_retain_begin(&u->run, &u->policy, clock_wall_ns());
	while (do_slice(u, store) > 0 && clock_boot_ns() < until)
		;
	upkeep_leave(u);
}

#include "daemon/told_kills.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/unknown.h"

/* As long as a count waits to be explained; and two ticks more. */
#define ASK_NS UINT64_C(3000000000)
#define EARLIER_NS \
	UINT64_C(10000000000) /* it happened so long before the count was read, at most */

void told_kills_release(struct told_kills *t)
{
	map_release(&t->known);
	map_release(&t->told);
	arena_release(&t->arena);
}

static uint64_t hash_of(const struct proc_key *key)
{
	const uint64_t parts[] = { (uint64_t)key->pid, key->start_ticks };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

void told_kills_know(struct told_kills *t, const struct proc_key *key)
{
	(void)map_put(&t->known, hash_of(key), 1); /* without memory it is told twice */
}

struct asking {
	struct told_kills *t;
	const struct attempt *a;
};

static int take(void *ctx, const struct event_row *row)
{
	const struct asking *asking = ctx;
	struct told_kills *t = asking->t;
	struct proc_event *kept = &t->items[t->n];
	uint64_t known;

	if (row->attempt_num != asking->a->attempt_num || row->uid != asking->a->uid ||
	    row->event.type != EVENT_OOM || map_get(&t->known, hash_of(&row->event.key), &known))
		return 0;
	if (t->n == TOLD_KILLS_MAX)
		return 1;
	*kept = row->event;
	kept->attempt_id = 0; /* as the samples of a run have it */
	kept->job_id = asking->a->job_id;
	kept->details = arena_strdup(&t->arena, row->event.details);
	if (!kept->details)
		return 1;
	t->n++;
	told_kills_know(t, &kept->key);
	return 0;
}

static bool is_of_another(const struct anomaly_row *row, const struct attempt *a)
{
	const struct anomaly *worst = &row->episode.worst;

	return worst->type == ANOMALY_OOM_KILL && worst->job_id &&
	       (row->attempt_num != a->attempt_num || strcmp(worst->job_id, a->job_id) != 0);
}

/* What is of no job may be our own words. */
static int count(void *ctx, const struct anomaly_row *row)
{
	const struct asking *asking = ctx;
	struct told_kills *t = asking->t;
	const char *name = row->episode.name;
	double n = row->episode.peak_value;
	uint64_t hash = hash_bytes(HASH_INIT, name, strlen(name)), before = 0, now;

	if (!is_of_another(row, asking->a) || !(n >= 1 && n < 1e9))
		return 0;
	now = (uint64_t)n;
	map_get(&t->told, hash, &before);
	if (now > before && map_put(&t->told, hash, now) == 0)
		t->n_elsewhere += now - before;
	return 0;
}

/* The count of the host waits for two ticks of the run, if these are long. */
static uint64_t wait_ns(double interval_seconds)
{
	return interval_seconds > 0 ? (uint64_t)(2e9 * fmin(interval_seconds, 60)) : 0;
}

static void note_count(struct told_kills *t, const struct snapshot *snap, double interval_seconds)
{
	uint64_t total = snap->system.oom_kills_total, rise = u64_delta(total, t->host_kills);

	if (u64_known(total))
		t->host_kills = total;
	if (!u64_known(rise) || rise == 0)
		return;
	t->since_wall_ns = snap->wall_ns > EARLIER_NS ? snap->wall_ns - EARLIER_NS : 0;
	t->until_boot_ns = clock_boot_ns() + ASK_NS + wait_ns(interval_seconds);
}

bool told_kills_are_due(struct told_kills *t, const struct attempt *a, const struct snapshot *snap)
{
	t->n = 0;
	t->n_elsewhere = 0;
	arena_reset(&t->arena);
	note_count(t, snap, a->interval_seconds);
	return clock_boot_ns() < t->until_boot_ns;
}

void told_kills_look(struct told_kills *t, struct store *store, const struct attempt *a)
{
	struct event_filter filter = { .job_id = a->job_id };
	struct anomaly_filter others = { 0 };
	struct asking asking = { t, a };
	struct err err = ERR_INIT;

	if (!store)
		return;
	filter.since_wall_ns = others.since_wall_ns = t->since_wall_ns;
	if (store_read_events(store, &filter, take, &asking, &err) < 0 ||
	    store_read_anomalies(store, &others, count, &asking, &err) < 0)
		log_debug("who was killed is asked for again: %s", err.text);
}

#include "daemon/backlog.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"

static void waiting_tick_free(struct waiting_tick **tick)
{
	if (*tick)
		snapshot_release(&(*tick)->snap);
	free(*tick);
}

static void drop_first(struct backlog *b)
{
	struct waiting_tick *tick = b->first;

	b->first = tick->next;
	if (!b->first)
		b->last = NULL;
	b->n--;
	b->n_samples -= tick->snap.n_processes;
	waiting_tick_free(&tick);
}

void backlog_release(struct backlog *b)
{
	while (b->first)
		drop_first(b);
}

static struct waiting_tick *copy_tick(const struct snapshot *snap, const struct series_point *point)
{
	CLEANUP(waiting_tick_free) struct waiting_tick *tick = calloc(1, sizeof(*tick));

	if (!tick)
		return NULL;
	snapshot_init(&tick->snap);
	tick->point = *point;
	if (snapshot_copy(&tick->snap, snap, SNAPSHOT_JOBS) < 0)
		return NULL;
	return TAKE_PTR(tick);
}

void backlog_add(struct backlog *b, const struct snapshot *snap, const struct series_point *point)
{
	struct waiting_tick *tick = copy_tick(snap, point);

	if (!tick) {
		b->n_lost++;
		return;
	}
	if (b->last)
		b->last->next = tick;
	else
		b->first = tick;
	b->last = tick;
	b->n++;
	b->n_samples += tick->snap.n_processes;
	while (b->n > 1 && (b->n > BACKLOG_MAX_TICKS || b->n_samples > BACKLOG_MAX_SAMPLES)) {
		drop_first(b);
		b->n_lost++;
	}
}

int backlog_drain(struct backlog *b, uint64_t until_boot_ns, backlog_fn *fn, void *ctx,
		  struct err *err)
{
	while (b->first) {
		int r = fn(ctx, b->first, err);

		if (r < 0)
			return r;
		drop_first(b);
		if (u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			return b->first != NULL;
	}
	return 0;
}

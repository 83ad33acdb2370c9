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

/* Of memory that was never touched nothing is used, but for the page that it begins in. */
#define PAGE_BYTES 4096

static size_t size_of(const struct waiting_tick *tick)
{
	return PAGE_BYTES + arena_used(&tick->snap.arena) +
	       tick->snap.n_processes * sizeof(*tick->snap.processes);
}

static void drop_first(struct backlog *b)
{
	struct waiting_tick *tick = b->first;

	b->first = tick->next;
	if (!b->first)
		b->last = NULL;
	b->n--;
	b->bytes -= tick->bytes;
	waiting_tick_free(&tick);
}

void backlog_release(struct backlog *b)
{
	while (b->first)
		drop_first(b);
}

/* Whoever looks for an attempt by address or by name finds the copy no more: it is by id then. */
static bool copy_attempts(struct arena *arena, const struct tick_record *from,
			  struct tick_record *to)
{
	const struct attempt **attempts =
		arena_alloc(arena, (from->n_attempts + 1) * sizeof(struct attempt *));

	for (size_t i = 0; attempts && i < from->n_attempts; i++) {
		struct attempt *a = arena_alloc(arena, sizeof(*a));

		if (!a)
			return false;
		attempt_init(a);
		a->id = from->attempts[i]->id;
		a->job_id = arena_strdup(arena, from->attempts[i]->job_id);
		if (!a->job_id)
			return false;
		attempts[i] = a;
	}
	to->attempts = attempts;
	to->n_attempts = from->n_attempts;
	to->owner = from->owner == TICK_BY_NAME ? TICK_BY_NAME : TICK_BY_ID;
	return attempts;
}

static bool copy_points(struct arena *arena, const struct tick_record *from, struct tick_record *to)
{
	if (!from->points)
		return true;
	to->points = arena_memdup(arena, from->points, from->n_attempts * sizeof(*from->points));
	return to->points;
}

static struct waiting_tick *copy_tick(const struct tick_record *record)
{
	CLEANUP(waiting_tick_free) struct waiting_tick *tick = calloc(1, sizeof(*tick));

	if (!tick)
		return NULL;
	snapshot_init(&tick->snap);
	tick->record.snap = &tick->snap;
	if (snapshot_copy(&tick->snap, record->snap, SNAPSHOT_JOBS) < 0 ||
	    !copy_attempts(&tick->snap.arena, record, &tick->record) ||
	    !copy_points(&tick->snap.arena, record, &tick->record))
		return NULL;
	return TAKE_PTR(tick);
}

void backlog_add(struct backlog *b, const struct tick_record *record)
{
	struct waiting_tick *tick = copy_tick(record);

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
	tick->bytes = size_of(tick);
	b->bytes += tick->bytes;
	while (b->n > 1 && (b->n > BACKLOG_MAX_TICKS || b->bytes > BACKLOG_MAX_BYTES)) {
		drop_first(b);
		b->n_lost++;
	}
}

int backlog_drain(struct backlog *b, uint64_t until_boot_ns, backlog_fn *fn, void *ctx,
		  struct err *err)
{
	while (b->first) {
		int r = fn(ctx, &b->first->record, err);

		if (r < 0)
			return r;
		drop_first(b);
		if (u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			return b->first != NULL;
	}
	return 0;
}

/*
 * service_backlog - ticks that could not be stored when they were made, stored later.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"

/* The attempts of the record that are in the database, with their points. */
struct left {
	const struct attempt **attempts;
	struct series_point *points;
	size_t n;
};

static void left_release(struct left *left)
{
	free(left->attempts);
	free(left->points);
}

static int find_left(struct service *s, const struct tick_record *record, struct left *ret,
		     struct err *err)
{
	ret->attempts = reallocarray(NULL, record->n_attempts + 1, sizeof(struct attempt *));
	ret->points = reallocarray(NULL, record->n_attempts + 1, sizeof(*ret->points));
	if (!ret->attempts || !ret->points)
		return err_set(err, -ENOMEM, "no memory left for a tick that waits");
	for (size_t i = 0; i < record->n_attempts; i++) {
		int r = store_has_attempt(s->store, record->attempts[i]->id, err);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		ret->attempts[ret->n] = record->attempts[i];
		if (record->points)
			ret->points[ret->n] = record->points[i];
		ret->n++;
	}
	return 0;
}

/* Somebody has removed an attempt while its tick waited: what is of the others is stored. Where
 * there are none, nobody misses it. */
static int store_what_is_left(struct service *s, const struct tick_record *record, struct err *err)
{
	CLEANUP(left_release) struct left left = { 0 };
	struct tick_record rest = *record;
	int r = find_left(s, record, &left, err);

	if (r < 0)
		return r;
	if (left.n == 0)
		return 0;
	if (left.n == record->n_attempts)
		return -EINVAL;
	rest.attempts = left.attempts;
	rest.points = record->points ? left.points : NULL;
	rest.n_attempts = left.n;
	return store_write_tick(s->store, -s->record.id, &rest, err);
}

/* One that nothing can be made of any more does not hold up the others. */
static int store_waiting_tick(void *ctx, const struct tick_record *record, struct err *err)
{
	struct service *s = ctx;
	int r = store_write_tick(s->store, -s->record.id, record, err);

	if (r == -EINVAL)
		r = store_what_is_left(s, record, err);
	if (r != -EINVAL)
		return r;
	s->backlog.n_lost++;
	return 0;
}

static void tell_lost(struct service *s)
{
	if (s->backlog.n_lost == s->n_lost_told)
		return;
	log_warning("recording goes on; %llu ticks are lost",
		    (unsigned long long)(s->backlog.n_lost - s->n_lost_told));
	s->n_lost_told = s->backlog.n_lost;
}

int service_drain_backlog(struct service *s, uint64_t until_boot_ns, struct err *err)
{
	int r = backlog_drain(&s->backlog, until_boot_ns, store_waiting_tick, s, err);

	if (r == 0)
		tell_lost(s);
	return r;
}

void service_store_waiting(struct service *s)
{
	struct err err = ERR_INIT;

	if (!s->store || service_drain_backlog(s, U64_UNKNOWN, &err) >= 0)
		return;
	log_warning("%zu ticks are lost: %s", s->backlog.n, err.text);
}

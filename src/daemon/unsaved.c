#include "daemon/unsaved.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"

/* So long a tick may be late for those that wait. */
#define RETRY_NS UINT64_C(20000000)

struct waiting_episode {
	int64_t attempt_id;
	enum episode_change change; /* BEGAN as long as the record does not know of it */
	struct episode episode;
	struct anomaly_evidence evidence;
	struct waiting_episode *next;
};

static void drop_first(struct unsaved *w)
{
	struct waiting_episode *first = w->first;

	w->first = first->next;
	if (!w->first)
		w->last = NULL;
	w->n--;
	free(first);
}

void unsaved_release(struct unsaved *w)
{
	while (w->first)
		drop_first(w);
}

static struct waiting_episode *find(const struct unsaved *w, const char *name)
{
	struct waiting_episode *e = w->first;

	while (e && strcmp(e->episode.name, name) != 0)
		e = e->next;
	return e;
}

/* Evidence that was found once stays. */
static void set(struct waiting_episode *waiting, const struct episode *e)
{
	bool has_evidence = waiting->episode.evidence != NULL;

	episode_copy(&waiting->episode, e);
	if (e->evidence)
		waiting->evidence = *e->evidence;
	waiting->episode.evidence = e->evidence || has_evidence ? &waiting->evidence : NULL;
}

static void append(struct unsaved *w, struct waiting_episode *waiting)
{
	if (w->last)
		w->last->next = waiting;
	else
		w->first = waiting;
	w->last = waiting;
	w->n++;
	if (w->n > UNSAVED_MAX) {
		drop_first(w);
		w->n_lost++;
	}
}

static void keep(struct unsaved *w, int64_t attempt_id, const struct episode *e,
		 enum episode_change change)
{
	struct waiting_episode *waiting = find(w, e->name);

	if (waiting) {
		if (waiting->change != EPISODE_BEGAN)
			waiting->change = change;
		set(waiting, e);
		return;
	}
	waiting = calloc(1, sizeof(*waiting));
	if (!waiting) {
		w->n_lost++;
		return;
	}
	waiting->attempt_id = attempt_id;
	waiting->change = change;
	set(waiting, e);
	append(w, waiting);
}

/* Trouble that is of the database, not of what is written. */
static bool may_pass(int error)
{
	static const int errors[] = { -EBUSY, -ENOSPC, -EDQUOT, -ENOMEM, -EROFS, -EACCES, -EIO };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i] == error)
			return true;
	return false;
}

int unsaved_retry(struct unsaved *w, struct store *store, uint64_t until_boot_ns, struct err *err)
{
	int failed = 0;

	while (store && w->first) {
		int r = store_write_anomaly(store, w->first->attempt_id, &w->first->episode,
					    w->first->change, err);

		if (r < 0 && may_pass(r))
			return r;
		w->n_lost += r < 0;
		failed = r < 0 ? r : failed;
		drop_first(w);
		if (u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			break;
	}
	return failed;
}

int unsaved_write(struct unsaved *w, struct store *store, int64_t attempt_id,
		  const struct episode *e, enum episode_change change, struct err *err)
{
	keep(w, attempt_id, e, change);
	return unsaved_retry(w, store, clock_boot_ns() + RETRY_NS, err);
}

#include "daemon/unsaved.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/own.h"

/* So long a tick may be late for those that wait. */
#define RETRY_NS UINT64_C(20000000)

struct waiting_episode {
	struct anomaly_news news; /* of this: */
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

/* As it is told now: what was told of it before waits before it. */
static bool keep(struct unsaved *w, const struct anomaly_news *news)
{
	struct waiting_episode *waiting = calloc(1, sizeof(*waiting));
	const struct episode *e = news->episode;

	if (!waiting) {
		w->n_lost++;
		return false;
	}
	waiting->news = *news;
	waiting->news.episode = &waiting->episode;
	episode_copy(&waiting->episode, e);
	if (e->evidence) {
		waiting->evidence = *e->evidence;
		waiting->episode.evidence = &waiting->evidence;
	}
	append(w, waiting);
	return true;
}

void unsaved_set_attempt(struct unsaved *w, int64_t attempt_id)
{
	for (struct waiting_episode *e = w->first; e; e = e->next)
		if (e->news.attempt_id == 0 && e->episode.worst.job_id)
			e->news.attempt_id = attempt_id;
}

/* ret: of the last that was written; may be NULL. */
static int write_waiting(struct unsaved *w, struct store *store, uint64_t until_boot_ns,
			 struct anomaly_identity *ret, struct err *err)
{
	int failed = 0;

	while (store && w->first) {
		int r = store_tell_anomaly(store, &w->first->news, w->first->next ? NULL : ret,
					   err);

		if (trouble_is_of_database(r))
			return r;
		w->n_lost += r < 0;
		failed = r < 0 ? r : failed;
		drop_first(w);
		if (u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			break;
	}
	return failed;
}

int unsaved_retry(struct unsaved *w, struct store *store, uint64_t until_boot_ns, struct err *err)
{
	return write_waiting(w, store, until_boot_ns, NULL, err);
}

int unsaved_write(struct unsaved *w, struct store *store, const struct anomaly_news *news,
		  struct anomaly_identity *ret, struct err *err)
{
	const bool is_kept = keep(w, news);

	return write_waiting(w, store, clock_boot_ns() + RETRY_NS, is_kept ? ret : NULL, err);
}

#include "daemon/unsaved.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
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

struct late_evidence {
	char episode[EPISODE_NAME_BYTES];
	struct anomaly_evidence evidence;
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
	free(w->late);
	w->late = NULL;
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

static void set_evidence(struct waiting_episode *waiting, const struct anomaly_evidence *evidence)
{
	waiting->evidence = *evidence;
	waiting->episode.evidence = &waiting->evidence;
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
	if (e->evidence)
		set_evidence(waiting, e->evidence);
	append(w, waiting);
	return true;
}

void unsaved_set_attempt(struct unsaved *w, int64_t attempt_id)
{
	for (struct waiting_episode *e = w->first; e; e = e->next)
		if (e->news.attempt_id == 0 && e->episode.worst.job_id)
			e->news.attempt_id = attempt_id;
}

/* ---- evidence ---- */

static struct waiting_episode *find_beginning(const struct unsaved *w, const char *episode)
{
	for (struct waiting_episode *e = w->first; e; e = e->next)
		if (e->news.change == EPISODE_BEGAN && strcmp(e->episode.name, episode) == 0)
			return e;
	return NULL;
}

static void keep_late(struct unsaved *w, const char *episode,
		      const struct anomaly_evidence *evidence)
{
	if (w->late)
		w->n_lost++;
	else
		w->late = malloc(sizeof(*w->late));
	if (!w->late) {
		w->n_lost++;
		return;
	}
	snprintf(w->late->episode, sizeof(w->late->episode), "%s", episode);
	w->late->evidence = *evidence;
}

static int write_late(struct unsaved *w, struct store *store, struct err *err)
{
	int r;

	if (!store || !w->late)
		return 0;
	r = store_set_evidence(store, w->late->episode, &w->late->evidence, err);
	if (trouble_is_of_database(r))
		return r;
	w->n_lost += r < 0;
	free(w->late);
	w->late = NULL;
	return r;
}

int unsaved_set_evidence(struct unsaved *w, struct store *store, const char *episode,
			 const struct anomaly_evidence *evidence, struct err *err)
{
	struct waiting_episode *waiting = find_beginning(w, episode);

	if (waiting)
		set_evidence(waiting, evidence);
	else
		keep_late(w, episode, evidence);
	return waiting ? 0 : write_late(w, store, err);
}

/* ---- writing ---- */

/* One that lasts may be in the record under the name of who saw it first. */
static int write_first(struct unsaved *w, struct store *store, struct anomaly_identity *ret,
		       struct err *err)
{
	struct anomaly_identity id = { .name = "" };
	int r = store_tell_anomaly(store, &w->first->news, &id, err);

	if (w->trace && id.name[0] && !id.blames_another)
		evidence_trace_rename(w->trace, w->first->episode.name, id.name);
	if (ret && id.name[0])
		*ret = id;
	return r;
}

/* ret: of the last that was written; may be NULL. */
static int write_waiting(struct unsaved *w, struct store *store, uint64_t until_boot_ns,
			 struct anomaly_identity *ret, struct err *err)
{
	int failed = 0;

	while (store && w->first) {
		int r = write_first(w, store, w->first->next ? NULL : ret, err);

		if (trouble_is_of_database(r))
			return r;
		w->n_lost += r < 0;
		failed = r < 0 ? r : failed;
		drop_first(w);
		if (u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			break;
	}
	if (!w->first && failed == 0)
		failed = write_late(w, store, err);
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

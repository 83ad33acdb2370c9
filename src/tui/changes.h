/*
 * changes - beginnings and ends of jobs and sheets, as the record has them.
 *
 * Two ways: a replay knows all of them by their time and tells those whose time has come; who
 * looks at the record now and then tells what is new in it. Both let the scene know since when
 * jobs and sheets run.
 */
#ifndef PROCTOR_TUI_CHANGES_H
#define PROCTOR_TUI_CHANGES_H

#include "base/arena.h"
#include "base/map.h"
#include "store/store.h"
#include "tui/scene.h"

/* ---- by time ---- */

/* Of it only when it was, and where its words are. */
struct recorded_change;

/* All zeros is empty. */
struct changes {
	struct recorded_change *items; /* by time */
	size_t n, cap, at;	       /* at: the next one to be told */
	struct arena arena;
};

void changes_release(struct changes *c);

/* All of one attempt, by its number in the record. -ENOMEM. */
int changes_add(struct changes *c, struct store *store, const struct attempt *listed,
		struct err *err);
void changes_sort(struct changes *c);

/* Begins again from the first. */
void changes_rewind(struct changes *c, struct scene *s);

/* Goes on until then; what was at told_ns or before is not told any more. */
int changes_tell(struct changes *c, struct store *store, struct scene *s, uint64_t told_ns,
		 uint64_t until_ns, struct err *err);

/* ---- what is new ---- */

/* All zeros is empty. */
struct change_news {
	struct map told; /* changes */
	struct map over; /* attempts, of which nothing more will come */
};

void change_news_release(struct change_news *news);

/* Each once, of those at since_ns or later. job_id may be NULL: any. */
int change_news_tell(struct change_news *news, struct store *store, struct scene *s,
		     const char *job_id, uint64_t since_ns, struct err *err);

#endif

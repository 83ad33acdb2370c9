/*
 * recorded - what the database has of jobs, as a list of JSON objects, a page at a time; for one
 * user, or for who sees all jobs.
 *
 * For those whose own database does not have it. The objects are those of the verbs with --json.
 */
#ifndef PROCTOR_DAEMON_RECORDED_H
#define PROCTOR_DAEMON_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "store/store.h"

/* A page ends with the moment in which it passes this. */
#define RECORDED_PAGE_BYTES (4 << 20)

struct recorded {
	char job_id[JOB_ID_MAX + 1]; /* empty: any */
	uint64_t uid;		     /* whose jobs; U64_UNKNOWN: everybody's */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	pid_t pid;		/* of samples; 0: any */
	size_t limit;		/* of attempts: the newest so many; 0: all */
	bool latest_only;	/* of attempts: the last of each job of each user */
	size_t page_bytes;

	struct buf list;       /* the answer */
	uint64_t next_wall_ns; /* from when on to ask for the next page; U64_UNKNOWN: that is all */

	struct json json;
	struct attempt_list shown; /* where not all are; by job and number */
	uint64_t last_wall_ns;
};

#define RECORDED_INIT                                                                    \
	{                                                                                \
		.uid = U64_UNKNOWN, .page_bytes = RECORDED_PAGE_BYTES, .list = BUF_INIT, \
		.next_wall_ns = U64_UNKNOWN                                              \
	}

void recorded_release(struct recorded *r);

/*
 * Once each. -ENOENT: a job is named, and none of that name is shown. Of samples, events and
 * anomalies the oldest come first; of attempts too, and all are on one page.
 */
int recorded_read_attempts(struct recorded *r, struct store *store, struct err *err);
int recorded_read_samples(struct recorded *r, struct store *store, struct err *err);
int recorded_read_anomalies(struct recorded *r, struct store *store, struct err *err);
int recorded_read_events(struct recorded *r, struct store *store, struct err *err);

/* What else the host was doing names jobs of others: it is for who sees all. */
void recorded_hide_host(struct episode *e);

/* ---- for recorded_events.c ---- */

/* Which attempts are shown; -ENOENT as above. */
int recorded_find_shown(struct recorded *r, struct store *store, struct err *err);
bool recorded_is_shown(const struct recorded *r, const char *job_id, int attempt_num);

/* True: the page is full, and what happened at this time begins the next. */
bool recorded_is_full(struct recorded *r, size_t n_bytes, uint64_t wall_ns);

#endif

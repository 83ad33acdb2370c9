#include "store/anomaly_patterns.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "store/failure.h"
#include "store/query.h"

void anomaly_pattern_name(const struct episode *e, char ret[PATTERN_NAME_BYTES])
{
	snprintf(ret, PATTERN_NAME_BYTES, "%s%s%s", anomaly_type_name(e->worst.type),
		 e->comm[0] ? ":" : "", e->comm);
}

#define TAGS_BYTES 96

static void write_tags(const struct episode *e, char ret[TAGS_BYTES])
{
	snprintf(ret, TAGS_BYTES, "resource\nanomaly\n%s\n%s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
}

static int count_one(struct store *store, const struct episode *e, const char *pattern,
		     struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char tags[TAGS_BYTES];
	int r = query_open(store, STATEMENT_COUNT_PATTERN, &q, err);

	if (r < 0)
		return r;
	write_tags(e, tags);
	query_bind_text(&q, pattern);
	query_bind_text(&q, tags);
	query_bind_text(&q, e->worst.text);
	query_bind_i64(&q, (int64_t)e->began_wall_ns);
	return query_run(&q, err);
}

int anomaly_renew_pattern(struct store *store, const struct episode *e, const char *pattern,
			  struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char tags[TAGS_BYTES];
	int r = query_open(store, STATEMENT_RENEW_PATTERN, &q, err);

	if (r < 0)
		return r;
	write_tags(e, tags);
	query_bind_text(&q, pattern);
	query_bind_text(&q, tags);
	query_bind_text(&q, e->worst.text);
	return query_run(&q, err);
}

/* ---- its jobs ---- */

struct pattern_jobs {
	struct buf names; /* by lines, the last first; that of now is the first */
	size_t n_names;
	bool was_named;
};

static void add_name(struct pattern_jobs *jobs, const char *name, size_t len)
{
	if (jobs->n_names++ > 0)
		buf_add_char(&jobs->names, '\n');
	buf_add(&jobs->names, name, len);
}

static void merge_names(struct pattern_jobs *jobs, const char *now, const char *before)
{
	const char *next = before;

	add_name(jobs, now, strlen(now));
	while (next && *next) {
		size_t len = strcspn(next, "\n");

		if (len == strlen(now) && memcmp(next, now, len) == 0)
			jobs->was_named = true;
		else if (jobs->n_names < PATTERN_MAX_JOBS)
			add_name(jobs, next, len);
		next += len + (next[len] == '\n');
	}
}

/* A name may have been pushed out by others: then an older episode of the job may know. */
static int was_seen(struct store *store, int64_t attempt_id, const char *pattern,
		    const struct episode *e, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_HAS_PATTERN_JOB, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_i64(&q, attempt_id);
	query_bind_text(&q, e->name);
	return query_step(&q, err);
}

static int set_jobs(struct store *store, const char *pattern, const struct pattern_jobs *jobs,
		    bool is_new, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = buf_error(&jobs->names) < 0
			? store_no_memory(store, err)
			: query_open(store, STATEMENT_SET_PATTERN_JOBS, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_text(&q, jobs->names.data);
	query_bind_i64(&q, is_new);
	return query_run(&q, err);
}

static int read_names(struct store *store, int64_t attempt_id, const char *pattern,
		      struct pattern_jobs *jobs, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *now;
	int r = query_open(store, STATEMENT_READ_PATTERN_JOBS, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_i64(&q, attempt_id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	now = query_read_text(&q);
	merge_names(jobs, now ? now : "", query_read_text(&q));
	return 0;
}

int anomaly_count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
			  const char *pattern, struct err *err)
{
	struct pattern_jobs jobs = { .names = BUF_INIT };
	int is_known = 0;
	int r = count_one(store, e, pattern, err);

	if (r == 0 && attempt_id != 0)
		r = read_names(store, attempt_id, pattern, &jobs, err);
	if (r == 0 && !jobs.was_named && jobs.n_names == PATTERN_MAX_JOBS)
		is_known = was_seen(store, attempt_id, pattern, e, err);
	r = is_known < 0 ? is_known : r;
	if (r == 0 && jobs.n_names > 0)
		r = set_jobs(store, pattern, &jobs, !jobs.was_named && !is_known, err);
	buf_release(&jobs.names);
	return r;
}

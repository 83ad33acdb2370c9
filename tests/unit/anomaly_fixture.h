/*
 * anomaly_fixture - episodes of anomalies, put into a database and heard from it.
 */
#ifndef PROCTOR_TESTS_ANOMALY_FIXTURE_H
#define PROCTOR_TESTS_ANOMALY_FIXTURE_H

#include "store_fixture.h"
#include "store_writer.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)

static inline struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static inline void make_episode(struct episode *e, pid_t pid, uint64_t began)
{
	episode_init(e);
	e->worst.type = ANOMALY_MEMORY_LEAK;
	e->worst.severity = SEVERITY_MEDIUM;
	e->worst.has_pid = pid > 0;
	e->worst.pid = pid;
	e->worst.start_ticks = pid > 0 ? 77 : U64_UNKNOWN;
	e->worst.sheet_num = 3;
	e->worst.metric_value = 120.5;
	e->worst.threshold = 100;
	snprintf(e->worst.text, sizeof(e->worst.text), "it \"grows\"");
	snprintf(e->name, sizeof(e->name), "memory_leak/%d/%llu", (int)pid,
		 (unsigned long long)began);
	snprintf(e->comm, sizeof(e->comm), "py");
	e->unit = "MB";
	e->began_wall_ns = e->peak_wall_ns = began;
	e->count = 1;
	e->before_value = 90;
	e->first_value = 100;
	e->peak_value = 120.5;
	e->host.load1 = 1.5;
}

static inline void put(struct store *store, int64_t attempt, const struct episode *e,
		       enum episode_change change)
{
	struct err err = ERR_INIT;

	must(write_anomaly(store, attempt, e, change, &err), &err);
}

struct heard {
	size_t n;
	int attempt_num;
	struct episode last;
	char host[512], evidence[512];
};

static inline int hear(void *ctx, const struct anomaly_row *row)
{
	struct heard *h = ctx;
	const struct episode *e = &row->episode;

	assert_true(h->n == 0 || e->began_wall_ns >= h->last.began_wall_ns);
	h->n++;
	h->attempt_num = row->attempt_num;
	episode_copy(&h->last, e);
	snprintf(h->host, sizeof(h->host), "%s", e->host_json ? e->host_json : "-");
	snprintf(h->evidence, sizeof(h->evidence), "%s", e->evidence_json ? e->evidence_json : "-");
	return 0;
}

static inline size_t count(struct store *store, struct anomaly_filter filter, struct heard *ret)
{
	struct err err = ERR_INIT;

	memset(ret, 0, sizeof(*ret));
	must(store_read_anomalies(store, &filter, hear, ret, &err), &err);
	return ret->n;
}

static inline void end_as(struct store *store, int64_t attempt, struct episode *e, uint64_t ended,
			  const char *why)
{
	e->ended_wall_ns = e->cleared_wall_ns = ended;
	e->why_cleared = why;
	put(store, attempt, e, EPISODE_CLEARED);
}

#endif

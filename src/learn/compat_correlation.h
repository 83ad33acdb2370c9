/*
 * compat_correlation - the correlation of the reference implementation, number by number.
 *
 * Jobs are put into groups: by their memory, by the system calls that took more
 * than 35 % of their time in calls, by whether they had more than 3 processes. A
 * group of at least 3 whose failure rate is 0.1 or more from that of all jobs is a
 * result. Its "confidence" is a score and no probability: on noise it finds
 * something most of the time. Programs read it; people are shown findings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/run_record.h"

#define COMPAT_TYPE "RESOURCE_CORRELATION" /* of the patterns that are stored */
#define COMPAT_LOOKBACK_DAYS 7
#define COMPAT_TAGS 3

/* A completed job, as far as the rules look at it. Unknown is 0 or none, as they have it. */
struct compat_profile {
	double peak_rss_mb; /* of its largest process */
	double process_spawn_count;
	const struct syscall_share *hotspots; /* in the order of first sight */
	size_t n_hotspots;
	bool has_failed;
};

struct compat_result {
	const char *type; /* "memory_vs_failure", … */
	double confidence;
	const char *tags[COMPAT_TAGS]; /* the group, its failure rate, its size */
	size_t n_jobs;
	bool is_stored; /* confidence of 0.6 or more */
};

struct compat {
	struct compat_result *results;
	size_t n;
	struct arena arena; /* owns all of it */
};

/*
 * Fewer than min_jobs: no results. ret is overwritten, and to be released after
 * success. -ENOMEM.
 */
int compat_analyze(const struct compat_profile *profiles, size_t n, size_t min_jobs,
		   struct compat *ret);
void compat_release(struct compat *c);

/* [{type, confidence, context_tags, stored}, …] */
void compat_write_json(struct json *j, const struct compat *c);

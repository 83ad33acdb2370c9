/*
 * rank_levels - ranks whose memory is a function of the second, and what is said of them.
 */
#ifndef PROCTOR_TESTS_RANK_LEVELS_H
#define PROCTOR_TESTS_RANK_LEVELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "crossrank/wording/wording.h"

#define MIB INT64_C(1048576)
#define SECOND_NS INT64_C(1000000000)
#define T0_NS (INT64_C(1700000000) * SECOND_NS)
#define BASE_MIB 1000

typedef int64_t (*level_fn)(int rank, int second);

static inline void add_sample(struct telemetry *t, int rank, int n_ranks, int second, int64_t mib)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.event_type = (struct text){ "sample", 6 };
	ev.host = (struct text){ "n0", 2 };
	ev.rank = rank;
	ev.world_size = n_ranks;
	ev.timestamp_ns = T0_NS + second * SECOND_NS + rank + 1;
	ev.device_used_bytes = mib * MIB;
	assert_int_equal(telemetry_add(t, &ev), 0);
}

/* What is said of n_ranks whose memory is that of level(), each second. */
static inline void analyze(level_fn level, int n_ranks, int seconds, struct telemetry **ret_t,
			   struct rank_analysis *ret)
{
	*ret_t = telemetry_new();
	assert_non_null(*ret_t);
	for (int rank = 0; rank < n_ranks; rank++)
		for (int second = 0; second < seconds; second++)
			add_sample(*ret_t, rank, n_ranks, second, level(rank, second));
	assert_int_equal(rank_analysis_init(ret, *ret_t), 0);
	assert_int_equal(rank_analysis_run(ret, EVENT_UNKNOWN), 0);
}

static inline void release(struct telemetry *t, struct rank_analysis *a)
{
	rank_analysis_release(a);
	telemetry_free(t);
}

/* rank -1: nobody is named. */
static inline void expect_answer(level_fn level, int n_ranks, int seconds, enum why why, int rank)
{
	struct rank_analysis a;
	struct telemetry *t;

	analyze(level, n_ranks, seconds, &t, &a);
	assert_string_equal(finding_why_name(a.finding->why), finding_why_name(why));
	assert_int_equal(finding_culprit(a.finding) ? finding_culprit(a.finding)->rank : -1, rank);
	release(t, &a);
}

#endif

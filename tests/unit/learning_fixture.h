/*
 * learning_fixture - runs to learn from, beside store_fixture.h.
 */
#ifndef PROCTOR_TESTS_UNIT_LEARNING_FIXTURE_H
#define PROCTOR_TESTS_UNIT_LEARNING_FIXTURE_H

#include "store_fixture.h"

#include "query/query.h"
#include "store_writer.h"

#define HOUR_NS UINT64_C(3600000000000)
#define START_NS UINT64_C(1700000000000000000)
#define MIB (UINT64_C(1024) * 1024)

/* A recorded run with this peak, the Nth hour after the start. */
static inline void add_run(struct store *store, uint64_t start_ns, unsigned hour, bool has_failed,
			   uint64_t peak_mb)
{
	struct attempt a;
	struct sheet_record sheet = { .num = 1, .try_num = 1, .total_ranks = 1 };
	struct err err = ERR_INIT;
	char id[32];

	snprintf(id, sizeof(id), "job-%u", hour);
	a = make_attempt(id);
	a.total_sheets = 1;
	a.input_hash = hour + 1; /* what has other files is no retry */
	a.started_wall_ns = start_ns + hour * HOUR_NS;
	must(store_begin_attempt(store, &a, &err), &err);
	a.ended_wall_ns = a.started_wall_ns + HOUR_NS / 2;
	a.outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
	a.usage.wall_ns = HOUR_NS / 2;
	a.usage.peak_rss_bytes = peak_mb * MIB;
	a.usage.peak_rss_evidence = EVIDENCE_EXACT;
	a.usage.max_process_rss_bytes = peak_mb * MIB / 2;
	a.usage.peak_cpu_percent = (double)peak_mb;
	a.usage.user_ns = peak_mb * UINT64_C(1000000000);
	a.usage.system_ns = 0;
	sheet.command = "./train.py --fast";
	sheet.outcome = a.outcome;
	sheet.started_wall_ns = a.started_wall_ns;
	sheet.ended_wall_ns = a.ended_wall_ns;
	usage_init(&sheet.usage);
	a.sheets = &sheet;
	a.n_sheets = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	attempt_release(&a);
}

/* Every other run is large, and fails. */
static inline void add_runs(struct store *store, uint64_t start_ns, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		add_run(store, start_ns, i, i % 2, i % 2 ? 500 + i : 100 + i);
}

#endif

#include "store/timeline_minute.h"

#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "store/failure.h"
#include "store/rollup.h"

/* Jobs, and sheets of theirs, are counted by these. */
struct counts {
	struct map jobs, sheets;
};

static void counts_release(struct counts *c)
{
	map_release(&c->jobs);
	map_release(&c->sheets);
}

static int count(struct counts *c, const struct proc_sample *p)
{
	uint64_t attempt = hash_bytes(HASH_INIT, &p->attempt_id, sizeof(p->attempt_id));
	uint64_t job = hash_bytes(attempt, p->job_id, strlen(p->job_id));

	if (map_put(&c->jobs, job, 0) < 0)
		return -1;
	return p->sheet_num < 0 ? 0
				: map_put(&c->sheets,
					  hash_bytes(job, &p->sheet_num, sizeof(p->sheet_num)), 0);
}

static int add_row(struct store *store, const struct minute_row *row, bool with_attempts,
		   struct counts *c, struct snapshot *ret, struct err *err)
{
	struct proc_sample *p = snapshot_add_process(ret);

	if (!p)
		return store_no_memory(store, err);
	minute_row_sample(row, p);
	if (with_attempts)
		p->attempt_id = row->attempt_id;
	return count(c, p) < 0 ? store_no_memory(store, err) : 0;
}

int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err)
{
	CLEANUP(counts_release) struct counts c = { MAP_INIT, MAP_INIT };
	int r = 0;

	ret->wall_ns = m->minute * MINUTE_NS;
	ret->resolution_seconds = MINUTE_SECONDS;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct minute_row row;

		r = minute_window_row(m->window, m->first + i, &row, err);
		if (r > 0)
			r = add_row(store, &row, with_attempts, &c, ret, err);
	}
	if (r == 0)
		r = minute_window_gpus(m->window, m->minute, ret, err);
	ret->running_jobs = (int)c.jobs.len;
	ret->active_sheets = (int)c.sheets.len;
	return r;
}

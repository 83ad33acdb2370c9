/*
 * retention_fixture - ticks of long ago, and minutes to compare.
 */
#ifndef PROCTOR_TESTS_RETENTION_FIXTURE_H
#define PROCTOR_TESTS_RETENTION_FIXTURE_H

#include <math.h>

#include "store/handle.h" /* to make it fast */
#include "store_fixture.h"
#include "store_writer.h"

#define SECOND_NS UINT64_C(1000000000)
#define MINUTE (60 * SECOND_NS)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW (UINT64_C(1700000000) * SECOND_NS) /* 22:13:20 of a day: in no way a round time */

static const struct retention_policy default_policy = RETENTION_POLICY_DEFAULT;
/* There is no other to compare it with. */
#define BELIEVED_CLOCK (&(struct retention_clock){ .boot_ns = U64_UNKNOWN })

/* To write, without waiting for the disk: what is tested here survives kills, not power cuts. */
static inline struct store *must_open_fast(const char *path)
{
	struct store *store = must_open(path, STORE_WRITE);

	store->syncs_log = false;
	assert_int_equal(sqlite3_exec(store->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL),
			 SQLITE_OK);
	return store;
}

static inline struct attempt must_begin_at(struct store *store, const char *job_id,
					   uint64_t wall_ns)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	a.started_wall_ns = wall_ns;
	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* All values can be told from the time and the pid; some are unknown. */
static inline void set_old_values(struct proc_sample *p, uint64_t wall_ns)
{
	uint64_t pid = (uint64_t)p->key.pid, k = wall_ns / SECOND_NS % 100000;

	p->age_seconds = (double)k;
	p->user_ns = k * 1000003 * pid;
	p->system_ns = k * 1009;
	p->cpu_ns = p->user_ns + p->system_ns;
	p->cpu_percent = (double)(k * 7919 * pid % 10000) / 100;
	p->rss_bytes = 4096 * (k * 31 % 1000 + pid);
	p->hwm_bytes = k % 5 ? 4096 * (1000 + pid) : U64_UNKNOWN;
	p->vms_bytes = k % 3 ? pid << 30 : U64_UNKNOWN;
	p->threads = 1 + k % 4;
	p->open_fds = k % 11 ? k % 64 : U64_UNKNOWN;
	p->write_bytes = k * 4096;
	p->state = k % 2 ? 'S' : 'R';
}

/* A tick of n processes with pids from 100. */
static inline void must_tick_at(struct store *store, const struct attempt *a, uint64_t wall_ns,
				int n)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct series_point point = { .wall_ns = wall_ns, .sheet_num = 1 };
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, a->job_id, n, 0);
	snap.wall_ns = wall_ns;
	snap.boot_ns = wall_ns - DAY;
	for (int i = 0; i < n; i++)
		set_old_values(&snap.processes[i], wall_ns);
	point.rss_bytes = 1000000 + wall_ns / SECOND_NS % 7777;
	point.cpu_percent = (double)(wall_ns / SECOND_NS % 400);
	point.n_processes = (uint64_t)n;
	must(write_tick(store, a, &snap, &point, NULL, 0, &err), &err);
}

static inline void must_finish_at(struct store *store, struct attempt *a, uint64_t wall_ns)
{
	struct err err = ERR_INIT;

	a->ended_wall_ns = wall_ns;
	a->outcome = OUTCOME_SUCCESS;
	must(store_finish_attempt(store, a, NULL, 0, &err), &err);
}

/* As who claims it finds; it is not claimed. */
static inline int retention_is_due(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	int64_t done_ns;
	int r;

	must(meta_read(store, META_RETAINED, &done_ns, err), err);
	r = store_claim_retention(store, false, now_wall_ns, err);
	must(meta_write(store, META_RETAINED, done_ns, err), err);
	return r;
}

/* Slices to the end; returns how many there were. */
static inline unsigned must_retain(struct store *store, struct retention *run)
{
	struct err err = ERR_INIT;
	unsigned n = 1;
	int r;

	while ((r = store_retain_slice(store, run, &err)) > 0)
		n++;
	must(r, &err);
	return n;
}

/* What a dry run has foreseen. */
static inline struct retention_result must_retain_at(struct store *store,
						     const struct retention_policy *policy,
						     uint64_t now_wall_ns)
{
	struct retention run, preview;
	struct retention_result result;
	struct err err = ERR_INIT;

	must(store_preview_retention(store, policy, now_wall_ns, NULL, &preview, &err), &err);
	store_retain_begin(&run, policy, now_wall_ns, NULL);
	must_retain(store, &run);
	result = run.result;
	result.wal_bytes = preview.result.wal_bytes; /* but for SQLite's log, which gets longer */
	assert_memory_equal(&result, &preview.result, sizeof(result));
	return run.result;
}

/* ---- minutes, as they are read ---- */

struct minute_list {
	struct minute_row *items; /* without strings */
	size_t n, cap;
};

static inline void minute_list_release(struct minute_list *list)
{
	free(list->items);
}

static inline int add_minute(void *ctx, const struct minute_row *row)
{
	struct minute_list *list = ctx;

	if (list->n == list->cap) {
		list->cap = list->cap ? list->cap * 2 : 256;
		list->items = reallocarray(list->items, list->cap, sizeof(*list->items));
		assert_non_null(list->items);
	}
	list->items[list->n] = *row;
	list->items[list->n].last.command = NULL;
	list->items[list->n].last.cgroup = NULL;
	list->items[list->n++].last.job_id = NULL;
	return 0;
}

static inline struct minute_list must_read_minutes(struct store *store,
						   const struct history_filter *filter)
{
	struct minute_list list = { 0 };
	struct err err = ERR_INIT;

	must(store_read_minutes(store, filter, add_minute, &list, &err), &err);
	return list;
}

static inline uint64_t count_in_minutes(const struct minute_list *list)
{
	uint64_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->items[i].n_samples;
	return n;
}

/* Samples of all processes, in rollups, folds and ticks together. */
static inline uint64_t must_count_in_minutes(struct store *store)
{
	CLEANUP(minute_list_release)
	struct minute_list list = must_read_minutes(store, &(struct history_filter){ 0 });

	return count_in_minutes(&list);
}

static inline int64_t count(const struct fixture *f, const char *table)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	return raw_sql(f->db, sql);
}

static inline void tick_between(struct store *store, const struct attempt *a, uint64_t from_ago,
				uint64_t to_ago, uint64_t interval_ns, int n)
{
	for (uint64_t ns = NOW - from_ago; ns < NOW - to_ago; ns += interval_ns)
		must_tick_at(store, a, ns, n);
}

static inline void add_event(struct store *store, const struct attempt *a, uint64_t wall_ns)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct proc_event event = { .wall_ns = wall_ns, .details = "", .job_id = a->job_id };
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	snap.wall_ns = wall_ns;
	must(write_tick(store, a, &snap, NULL, &event, 1, &err), &err);
}

#endif

#include "store/retain.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/handle.h"
#include "store/rollup.h"

#define DAY_NS (24 * HOUR_NS)

/* ---- when ---- */

/* Times before 1970 and after 2262 are none that the file can hold. */
int64_t retain_cutoff_ns(uint64_t now_wall_ns, unsigned n, uint64_t unit_ns)
{
	uint64_t age_ns;

	if (now_wall_ns > INT64_MAX || __builtin_mul_overflow(n, unit_ns, &age_ns) ||
	    age_ns > now_wall_ns)
		return 0;
	return (int64_t)(now_wall_ns - age_ns);
}

/* Nothing is old while nobody knows how late it is. */
static int64_t age_cutoff(const struct retention *run, unsigned n, uint64_t unit_ns)
{
	return run->held_until_ns ? 0 : retain_cutoff_ns(run->now_wall_ns, n, unit_ns);
}

int64_t retain_full_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.full_resolution_hours, HOUR_NS);
}

int64_t retain_minutes_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.downsampled_days, DAY_NS);
}

int64_t retain_curves_cutoff(const struct retention *run)
{
	int64_t full = retain_full_cutoff(run), minutes = retain_minutes_cutoff(run);

	return full < minutes ? full : minutes;
}

int64_t retain_events_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.events_days, DAY_NS);
}

int slice_goes_on(struct slice *slice, struct err *err)
{
	uint64_t file_bytes, used_bytes;
	int r;

	if (slice->is_begun && clock_boot_ns() >= slice->deadline_ns)
		return 0;
	slice->is_begun = true;
	if (!slice->is_for_room)
		return 1;
	r = space_read(slice->store, &file_bytes, &used_bytes, err);
	return r < 0 ? r : used_bytes > slice->run->target_bytes;
}

int64_t slice_batch(const struct slice *slice, int64_t n_rows)
{
	return n_rows < slice->run->batch_rows ? n_rows : slice->run->batch_rows;
}

/* ---- how much ---- */

int retain_count(struct store *store, enum statement id, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r == 0)
		r = query_step(&q, err);
	*ret = r > 0 ? query_read_i64(&q) : 0;
	return r < 0 ? r : 0;
}

int space_read(struct store *store, uint64_t *ret_file_bytes, uint64_t *ret_used_bytes,
	       struct err *err)
{
	int64_t page_bytes = 0, n_pages = 0, n_free = 0;
	int r = retain_count(store, STATEMENT_PAGE_SIZE, &page_bytes, err);

	if (r == 0)
		r = retain_count(store, STATEMENT_PAGE_COUNT, &n_pages, err);
	if (r == 0)
		r = retain_count(store, STATEMENT_FREE_COUNT, &n_free, err);
	*ret_file_bytes = (uint64_t)(n_pages * page_bytes);
	*ret_used_bytes = (uint64_t)((n_pages - n_free) * page_bytes);
	return r;
}

static uint64_t file_bytes(const char *path, const char *suffix)
{
	CLEANUP(free_ptr) char *name = NULL;
	struct stat st;

	if (asprintf(&name, "%s%s", path, suffix) < 0) {
		name = NULL;
		return 0;
	}
	return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

uint64_t space_beside(const struct store *store, const struct retention_policy *policy)
{
	return file_bytes(store->path, "-spool") +
	       (policy->jsonl_path ? jsonl_count_bytes(policy->jsonl_path) : 0);
}

uint64_t store_drop_logs(const char *db_path, const struct retention_policy *policy)
{
	const char *log = policy->jsonl_path;
	uint64_t database = file_bytes(db_path, "") + file_bytes(db_path, "-spool"), n = 0;

	if (!policy->max_bytes || !log)
		return 0;
	while (database + jsonl_count_bytes(log) > policy->max_bytes && jsonl_drop_oldest(log) > 0)
		n++;
	return n;
}

uint64_t space_of_wal(const struct store *store)
{
	return file_bytes(store->path, "-wal") + file_bytes(store->path, "-journal");
}

/* ---- meta ---- */

int meta_read(struct store *store, const char *key, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_META, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, key);
	r = query_step(&q, err);
	*ret = r > 0 ? query_read_i64(&q) : 0;
	return r < 0 ? r : 0;
}

static int put(struct store *store, enum statement id, const char *key, int64_t value,
	       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, key);
	query_bind_i64(&q, value);
	return query_run(&q, err);
}

int meta_write(struct store *store, const char *key, int64_t value, struct err *err)
{
	return put(store, STATEMENT_WRITE_META, key, value, err);
}

int meta_raise(struct store *store, const char *key, int64_t value, struct err *err)
{
	return put(store, STATEMENT_RAISE_META, key, value, err);
}


#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "query/query.h"

/* A callback returns this to be called no more. */
#define STOP 1

void recorded_release(struct recorded *r)
{
	buf_release(&r->list);
	attempt_list_release(&r->shown);
}

/* ---- which attempts are shown ---- */

static int compare_attempts(const void *left, const void *right)
{
	const struct attempt *l = left, *r = right;

	return strcmp(l->job_id, r->job_id) ?: COMPARE(l->attempt_num, r->attempt_num);
}

static const char *job_of(const struct recorded *r)
{
	return r->job_id[0] ? r->job_id : NULL;
}

static int list_attempts(const struct recorded *r, struct store *store, bool is_any_time,
			 struct attempt_list *ret, struct err *err)
{
	const struct attempt_filter filter = {
		.job_id = job_of(r),
		.uid = u64_known(r->uid) ? &r->uid : NULL,
		.since_wall_ns = is_any_time ? 0 : r->since_wall_ns,
		.latest_only = r->latest_only,
		.limit = r->limit,
	};
	int result = store_list_attempts(store, &filter, ret, err);

	if (result == 0 && ret->n == 0 && job_of(r) && is_any_time)
		return err_set(err, -ENOENT, "no job %s was recorded", r->job_id);
	return result;
}

static int find_shown(struct recorded *r, struct store *store, struct err *err)
{
	int result = 0;

	if (job_of(r) || u64_known(r->uid))
		result = list_attempts(r, store, true, &r->shown, err);
	if (r->shown.n > 0)
		qsort(r->shown.items, r->shown.n, sizeof(*r->shown.items), compare_attempts);
	return result;
}

static bool is_shown(const struct recorded *r, const char *job_id, int attempt_num)
{
	const struct attempt wanted = { .job_id = job_id, .attempt_num = attempt_num };

	if (!u64_known(r->uid))
		return true;
	return job_id && r->shown.n > 0 &&
	       bsearch(&wanted, r->shown.items, r->shown.n, sizeof(wanted), compare_attempts);
}

/* ---- pages ---- */

/* True: the page has n_bytes and is full; the next one begins at this time. */
static bool is_full(struct recorded *r, size_t n_bytes, uint64_t wall_ns)
{
	if (n_bytes >= r->page_bytes && wall_ns != r->last_wall_ns)
		r->next_wall_ns = wall_ns;
	r->last_wall_ns = wall_ns;
	return u64_known(r->next_wall_ns);
}

static void begin_list(struct recorded *r)
{
	json_init(&r->json, &r->list);
	json_begin_array(&r->json);
}

static int end_list(struct recorded *r, int result, struct err *err)
{
	json_end_array(&r->json);
	if (result == STOP)
		result = 0;
	if (result == 0 && buf_error(&r->list) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return result;
}

/* ---- attempts ---- */

int recorded_read_attempts(struct recorded *r, struct store *store, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	int result = list_attempts(r, store, false, &list, err);

	begin_list(r);
	for (size_t i = 0; i < list.n; i++) {
		const struct attempt *a = &list.items[i];

		json_begin_object(&r->json);
		attempt_write_fields(&r->json, a, attempt_status_name(a));
		json_key_f64(&r->json, "wall_seconds", u64_to_seconds(a->usage.wall_ns));
		json_end_object(&r->json);
	}
	return end_list(r, result, err);
}

/* ---- samples ---- */

static int add_sample(void *ctx, const struct history_row *row)
{
	struct recorded *r = ctx;

	if (!is_shown(r, row->sample.job_id, row->attempt_num))
		return 0;
	if (is_full(r, r->list.len, row->wall_ns))
		return STOP;
	json_begin_object(&r->json);
	json_key_f64(&r->json, "timestamp", u64_to_seconds(row->wall_ns));
	json_key_i64(&r->json, "attempt", row->attempt_num);
	proc_sample_write_fields(&r->json, &row->sample);
	json_end_object(&r->json);
	return buf_error(&r->list);
}

int recorded_read_samples(struct recorded *r, struct store *store, struct err *err)
{
	const struct history_filter filter = {
		.job_id = job_of(r),
		.pid = r->pid,
		.since_wall_ns = r->since_wall_ns,
		.until_wall_ns = r->until_wall_ns,
	};
	int result = find_shown(r, store, err);

	begin_list(r);
	if (result == 0)
		result = store_read_history(store, &filter, add_sample, r, err);
	return end_list(r, result, err);
}

/* ---- anomalies ---- */

void recorded_hide_host(struct episode *e)
{
	anomaly_host_init(&e->host);
	e->host_json = NULL;
}

static int add_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct recorded *r = ctx;
	struct episode shown;

	if (!is_shown(r, row->episode.worst.job_id, row->attempt_num))
		return 0;
	if (is_full(r, r->list.len, row->episode.began_wall_ns))
		return STOP;
	episode_copy(&shown, &row->episode);
	if (u64_known(r->uid))
		recorded_hide_host(&shown);
	json_begin_object(&r->json);
	episode_write_fields(&r->json, &shown);
	json_key_int(&r->json, "attempt", row->attempt_num > 0 ? row->attempt_num : -1);
	json_end_object(&r->json);
	return buf_error(&r->list);
}

int recorded_read_anomalies(struct recorded *r, struct store *store, struct err *err)
{
	const struct anomaly_filter filter = {
		.job_id = job_of(r),
		.since_wall_ns = r->since_wall_ns,
		.until_wall_ns = r->until_wall_ns,
	};
	int result = find_shown(r, store, err);

	begin_list(r);
	if (result == 0)
		result = store_read_anomalies(store, &filter, add_anomaly, r, err);
	return end_list(r, result, err);
}

/* ---- events ---- */

static int add_item(void *ctx, const struct records_item *item)
{
	CLEANUP(buf_release) struct buf object = BUF_INIT;
	struct records_item shown = *item;
	struct recorded *r = ctx;
	struct episode episode;

	if (!is_shown(r, item->job_id, item->attempt_num))
		return 0;
	if (is_full(r, r->list.len, item->wall_ns))
		return STOP;
	if (item->episode && u64_known(r->uid)) {
		episode_copy(&episode, item->episode);
		recorded_hide_host(&episode);
		shown.episode = &episode;
	}
	records_write_json(&object, &shown);
	json_raw(&r->json, object.data, object.len);
	return buf_error(&object) < 0 ? -ENOMEM : buf_error(&r->list);
}

int recorded_read_events(struct recorded *r, struct store *store, struct err *err)
{
	const struct records_filter filter = { .job_id = job_of(r),
					       .since_wall_ns = r->since_wall_ns,
					       .until_wall_ns = r->until_wall_ns };
	struct records *records = records_new(store, &filter);
	int result = records ? find_shown(r, store, err) : err_set(err, -ENOMEM, "out of memory");

	begin_list(r);
	if (result == 0)
		result = records_read(records, UINT64_MAX, add_item, r, err);
	records_free(records);
	return end_list(r, result, err);
}

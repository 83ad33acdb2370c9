#include "daemon/recorded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

/* What a callback returns to be called no more. */
#define STOP 1

void recorded_release(struct recorded *r)
{
	buf_release(&r->list);
	attempt_list_release(&r->shown);
}

/* ---- whose it is ---- */

static int compare(const void *a, const void *b)
{
	const struct attempt *x = a, *y = b;
	int order = strcmp(x->job_id, y->job_id);

	return order ? order
		     : (x->attempt_num > y->attempt_num) - (x->attempt_num < y->attempt_num);
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

int recorded_find_shown(struct recorded *r, struct store *store, struct err *err)
{
	int result = 0;

	if (job_of(r) || u64_known(r->uid))
		result = list_attempts(r, store, true, &r->shown, err);
	if (r->shown.n > 0)
		qsort(r->shown.items, r->shown.n, sizeof(*r->shown.items), compare);
	return result;
}

bool recorded_is_shown(const struct recorded *r, const char *job_id, int attempt_num)
{
	const struct attempt wanted = { .job_id = job_id, .attempt_num = attempt_num };

	if (!u64_known(r->uid))
		return true;
	return job_id && r->shown.n > 0 &&
	       bsearch(&wanted, r->shown.items, r->shown.n, sizeof(wanted), compare);
}

bool recorded_is_full(struct recorded *r, size_t n_bytes, uint64_t wall_ns)
{
	if (n_bytes >= r->page_bytes && wall_ns != r->last_wall_ns)
		r->next_wall_ns = wall_ns;
	r->last_wall_ns = wall_ns;
	return u64_known(r->next_wall_ns);
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

static void begin_list(struct recorded *r)
{
	json_init(&r->json, &r->list);
	json_begin_array(&r->json);
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

	if (!recorded_is_shown(r, row->sample.job_id, row->attempt_num))
		return 0;
	if (recorded_is_full(r, r->list.len, row->wall_ns))
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
	int result = recorded_find_shown(r, store, err);

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

	if (!recorded_is_shown(r, row->episode.worst.job_id, row->attempt_num))
		return 0;
	if (recorded_is_full(r, r->list.len, row->episode.began_wall_ns))
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
	int result = recorded_find_shown(r, store, err);

	begin_list(r);
	if (result == 0)
		result = store_read_anomalies(store, &filter, add_anomaly, r, err);
	return end_list(r, result, err);
}

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/retention/retain.h"
#include "store/store.h"

/*
 * retain_evidence - the seconds around the beginning of an anomaly, at full resolution, are kept as
 * long as the anomaly is.
 *
 * Samples become minutes long before an anomaly goes. So those of its process are copied into its
 * evidence as "seconds", once: a list of columns, a row for each sample, and how many more there
 * were.
 */

#define MAX_ROWS 400
#define MAX_ROWS_AFTER 250 /* the beginning and what comes of it; before it are the others */
#define COMPLETE_NS UINT64_C(60000000000) /* after which nobody writes samples of it any more */
/* So long after its beginning an anomaly may be written, or become complete, at the latest. */
#define LATE_NS INT64_C(86400000000000)
#define KEY "\"seconds\":"

/* One whose seconds may not be kept yet. */
struct lacking {
	int64_t id;
	pid_t pid;
	uint64_t start_ticks, began_wall_ns, from_wall_ns, until_wall_ns;
	struct buf evidence; /* as it is; empty: there is none */
	bool has_evidence;
	bool is_lacking; /* else it needs nothing, or not yet */
};

static void lacking_release(struct lacking *l)
{
	buf_release(&l->evidence);
}

/* Those of before the last run have been looked at. A time that is yet to come is no time. */
int retain_find_evidence(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t kept_ns = 0;
	int r = txn_begin(slice->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = meta_read(slice->store, META_SECONDS_KEPT, &kept_ns, err);
	if (kept_ns > query_as_i64(slice->run->now_wall_ns))
		kept_ns = 0;
	slice->run->after_anomaly_ns = kept_ns > LATE_NS ? kept_ns - LATE_NS : 0;
	return r < 0 ? r : 0;
}

/* 1: the next is in ret. 0: there is none. */
static int find_next(struct slice *slice, struct lacking *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	uint64_t now = slice->run->now_wall_ns;
	const char *text;
	int r = txn_begin(slice->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_first(slice->store, STATEMENT_NEXT_ANOMALY, &q, err,
				slice->run->after_anomaly_ns, slice->run->after_anomaly,
				query_as_i64(now > COMPLETE_NS ? now - COMPLETE_NS : 0));
	if (r <= 0)
		return r;
	ret->began_wall_ns = (uint64_t)query_read_i64(&q);
	ret->id = query_read_i64(&q);
	ret->is_lacking = query_read_i64(&q);
	if (!ret->is_lacking)
		return 1;
	ret->pid = (pid_t)query_read_i64(&q);
	ret->start_ticks = (uint64_t)query_read_i64(&q);
	ret->from_wall_ns = (uint64_t)query_read_i64(&q);
	ret->until_wall_ns = (uint64_t)query_read_i64(&q);
	text = query_read_text(&q);
	ret->has_evidence = text != NULL;
	buf_add_str(&ret->evidence, text ? text : "");
	return buf_error(&ret->evidence) < 0 ? store_no_memory(slice->store, err) : 1;
}

/* ---- its samples ---- */

struct copying {
	const struct lacking *of;
	struct json j;
	uint64_t n_before, n_after; /* the beginning of the anomaly */
	uint64_t first, last;	    /* of all of them, those that are kept */
	uint64_t n;		    /* that were met */
};

static int count_sample(void *ctx, const struct history_row *row)
{
	struct copying *c = ctx;

	if (row->sample.key.start_ticks != c->of->start_ticks)
		return 0;
	if (row->wall_ns < c->of->began_wall_ns)
		c->n_before++;
	else
		c->n_after++;
	return 0;
}

static int add_sample(void *ctx, const struct history_row *row)
{
	struct copying *c = ctx;
	const struct proc_sample *p = &row->sample;
	uint64_t at;

	if (p->key.start_ticks != c->of->start_ticks)
		return 0;
	at = c->n++;
	if (at < c->first || at >= c->last)
		return 0;
	json_begin_array(&c->j);
	json_f64(&c->j, u64_to_seconds(row->wall_ns));
	json_f64(&c->j, p->cpu_percent);
	json_f64(&c->j, u64_to_mb(p->rss_bytes));
	json_u64(&c->j, p->threads);
	json_u64(&c->j, p->open_fds);
	json_u64(&c->j, p->rchar);
	json_u64(&c->j, p->wchar);
	json_end_array(&c->j);
	return 0;
}

static int write_seconds(struct store *store, const struct lacking *l, struct buf *out,
			 struct err *err)
{
	const struct history_filter filter = { .pid = l->pid,
					       .since_wall_ns = l->from_wall_ns,
					       .until_wall_ns = l->until_wall_ns };
	static const char *const columns[] = {
		"timestamp", "cpu_percent", "rss_mb", "threads", "open_fds", "rchar", "wchar"
	}; /* add_sample() */
	struct copying c = { .of = l };
	uint64_t before, after;
	int r = store_read_history(store, &filter, count_sample, &c, err);

	if (r < 0)
		return r;
	/* Where there are too many, those next to the beginning count. */
	after = c.n_after < MAX_ROWS_AFTER ? c.n_after : MAX_ROWS_AFTER;
	before = c.n_before < MAX_ROWS - after ? c.n_before : MAX_ROWS - after;
	c.first = c.n_before - before;
	c.last = c.n_before + after;
	json_init_object(&c.j, out);
	json_key(&c.j, "columns");
	json_begin_array(&c.j);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		json_str(&c.j, columns[i]);
	json_end_array(&c.j);
	json_key(&c.j, "rows");
	json_begin_array(&c.j);
	r = store_read_history(store, &filter, add_sample, &c, err);
	json_end_array(&c.j);
	json_key_u64(&c.j, "left_out", c.n - (c.n < c.last ? c.n : c.last) + c.first);
	json_end_object(&c.j);
	if (r < 0)
		return r;
	return buf_error(out) < 0 ? store_no_memory(store, err) : 0;
}

/* The object that there is gets one key more, unless more was found out about it meanwhile. */
static int keep(struct store *store, const struct lacking *l, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	size_t n = l->evidence.len;
	int r;

	if (n > 2 && l->evidence.data[n - 1] == '}') {
		buf_add(&evidence, l->evidence.data, n - 1);
		buf_add_str(&evidence, "," KEY);
	} else {
		buf_add_str(&evidence, "{" KEY);
	}
	r = write_seconds(store, l, &evidence, err);
	if (r < 0)
		return r;
	buf_add_char(&evidence, '}');
	if (buf_error(&evidence) < 0)
		return store_no_memory(store, err);
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = query_put(store, STATEMENT_KEEP_SECONDS, err, V_I64(l->id),
			      V_TEXT(evidence.data),
			      V_TEXT(l->has_evidence ? l->evidence.data : NULL));
	return r < 0 ? r : txn_commit(&txn, err);
}

int retain_keep_evidence(struct slice *slice, struct err *err)
{
	int r;

	while ((r = slice_goes_on(slice, err)) > 0) {
		CLEANUP(lacking_release) struct lacking l = { .evidence = BUF_INIT };

		r = find_next(slice, &l, err);
		if (r <= 0)
			return r;
		r = l.is_lacking ? keep(slice->store, &l, err) : 0;
		/* Trouble that passes. One whose samples cannot be read keeps no other back. */
		if (r == -EBUSY || r == -ENOMEM || r == -ENOSPC || r == -EDQUOT)
			return r;
		slice->run->after_anomaly_ns = (int64_t)l.began_wall_ns;
		slice->run->after_anomaly = l.id;
	}
	return r < 0 ? r : 1;
}

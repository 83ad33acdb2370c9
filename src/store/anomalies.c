#include "store/anomalies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/anomaly_changes.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/read.h"
#include "store/rows.h"
#include "store/store.h"

static const struct column anomaly_items[] = {
	COLUMN(anomaly_cells, episode, COLUMN_TEXT),
	COLUMN(anomaly_cells, type, COLUMN_TEXT),
	COLUMN(anomaly_cells, severity, COLUMN_TEXT),
	COLUMN(anomaly_cells, pid, COLUMN_U64),
	COLUMN(anomaly_cells, start_ticks, COLUMN_U64),
	COLUMN(anomaly_cells, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(anomaly_cells, comm, COLUMN_TEXT),
	COLUMN(anomaly_cells, gpu, COLUMN_INT_OR_NONE),
	COLUMN(anomaly_cells, description, COLUMN_TEXT),
	COLUMN(anomaly_cells, metric_value, COLUMN_F64),
	COLUMN(anomaly_cells, threshold, COLUMN_F64),
	COLUMN(anomaly_cells, unit, COLUMN_TEXT),
	COLUMN(anomaly_cells, began_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, peak_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, ended_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, before_value, COLUMN_F64),
	COLUMN(anomaly_cells, first_value, COLUMN_F64),
	COLUMN(anomaly_cells, peak_value, COLUMN_F64),
	COLUMN(anomaly_cells, after_value, COLUMN_F64),
	COLUMN(anomaly_cells, seconds_to_limit, COLUMN_F64),
	COLUMN(anomaly_cells, count, COLUMN_U64),
	COLUMN(anomaly_cells, why_cleared, COLUMN_TEXT),
	COLUMN(anomaly_cells, full_from_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, full_until_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, host, COLUMN_TEXT),
	COLUMN(anomaly_cells, evidence, COLUMN_TEXT),
	COLUMN(anomaly_cells, pattern, COLUMN_TEXT),
	COLUMN(anomaly_cells, seen_wall_ns, COLUMN_U64),
};
const struct columns anomaly_columns = COLUMNS(anomaly_items);

static const struct column anomaly_place_items[] = {
	COLUMN(anomaly_cells, id, COLUMN_BITS),
	COLUMN(anomaly_cells, attempt, COLUMN_BITS),
};
const struct columns anomaly_place_columns = COLUMNS(anomaly_place_items);

/* ---- writing ---- */

static const char *text_or_none(const char *s)
{
	return s[0] ? s : NULL;
}

static void to_cells(const struct episode *e, struct anomaly_cells *c)
{
	*c = (struct anomaly_cells){
		.episode = e->name,
		.type = anomaly_type_name(e->worst.type),
		.severity = severity_name(e->worst.severity),
		.comm = text_or_none(e->comm),
		.description = e->worst.text,
		.unit = e->unit,
		.why_cleared = e->why_cleared,
		.pid = e->worst.has_pid ? (uint64_t)e->worst.pid : U64_UNKNOWN,
		.start_ticks = e->worst.start_ticks,
		.sheet_num = e->worst.sheet_num,
		.gpu = e->gpu,
		.metric_value = e->worst.metric_value,
		.threshold = e->worst.threshold,
		.began_wall_ns = e->began_wall_ns,
		.peak_wall_ns = e->peak_wall_ns,
		.ended_wall_ns = e->ended_wall_ns,
		.seen_wall_ns = e->seen_wall_ns,
		.before_value = e->before_value,
		.first_value = e->first_value,
		.peak_value = e->peak_value,
		.after_value = e->after_value,
		.seconds_to_limit = e->seconds_to_limit,
		.count = e->count,
		.full_from_wall_ns = e->full_from_wall_ns,
		.full_until_wall_ns = e->full_until_wall_ns,
	};
}

static int put(struct store *store, int64_t attempt_id, const struct anomaly_cells *cells,
	       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_PUT_ANOMALY, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_columns(&q, &anomaly_columns, cells);
	return query_run(&q, err);
}

/* A pid is used again; not all know when its process began. */
static bool blames_another(const struct anomaly *a, const struct anomaly *row)
{
	const bool is_known = u64_known(a->start_ticks) && u64_known(row->start_ticks);

	return row->has_pid && (!a->has_pid || a->pid != row->pid ||
				(is_known && a->start_ticks != row->start_ticks));
}

/*
 * Two may blame another process: the row's stays, with its evidence, and what it was counted as.
 * Who knows when that began adds it.
 */
static void keep_culprit(struct anomaly_cells *c, const struct anomaly *a,
			 const struct known_anomaly *known)
{
	const struct anomaly *row = &known->row.worst;

	if (known->pattern[0])
		c->pattern = known->pattern;
	if (!row->has_pid)
		return;
	c->comm = NULL;
	if (!blames_another(a, row))
		return;
	c->pid = c->start_ticks = U64_UNKNOWN;
	c->evidence = NULL;
}

/* The row is the other's: what it has of its beginning stays. */
static void join_known(struct anomaly_cells *c, const struct known_anomaly *known)
{
	c->episode = known->name;
	c->began_wall_ns = known->began_wall_ns;
	c->full_from_wall_ns = c->full_until_wall_ns = U64_UNKNOWN;
	c->first_value = F64_UNKNOWN;
	c->host = NULL;
}

/*
 * What is as bad as what another has told says nothing more: that stands. Who goes on with his own
 * words has the newer ones.
 */
static bool stands(const struct known_anomaly *known, const struct episode *e)
{
	return known->is_shared ? !episode_is_worse(e, &known->row)
				: episode_is_worse(&known->row, e);
}

/* Numbers of what is over are not from after it. */
static void limit_seen(struct anomaly_cells *c, const struct known_anomaly *known)
{
	uint64_t ended = known->has_end ? u64_max_known(c->ended_wall_ns, known->ended_wall_ns)
					: c->ended_wall_ns;

	if (u64_known(ended) && u64_known(c->seen_wall_ns) && c->seen_wall_ns > ended)
		c->seen_wall_ns = ended;
}

/* Whoever tells of it: the worst that was ever seen stays, and so does how often it came. */
static void keep_worst(struct anomaly_cells *c, const struct episode *e,
		       const struct known_anomaly *known)
{
	const struct episode *row = &known->row;

	if (known->id == 0)
		return;
	c->count = row->count > e->count ? row->count : e->count;
	if (!stands(known, e))
		return;
	c->severity = severity_name(row->worst.severity);
	c->description = row->worst.text;
	c->unit = row->unit;
	c->metric_value = row->worst.metric_value;
	c->peak_value = row->peak_value;
	c->peak_wall_ns = row->peak_wall_ns;
}

/* What was over for somebody who looked has been told; but another has seen it after that. */
static bool came_back(const struct known_anomaly *known, const struct episode *e)
{
	return u64_known(e->over_wall_ns) && e->over_wall_ns > known->ended_wall_ns;
}

/*
 * Of what another has begun: whether it is over is that one's to say. Who looks no more does not
 * know, a kill is over for who told it, and else it is told here only where that one has left it
 * to us, or where it is nobody's.
 */
static bool ends_nothing(const struct known_anomaly *known, const struct anomaly_news *news)
{
	const struct episode *e = news->episode;

	if (news->change != EPISODE_CLEARED)
		return false;
	if (known->end_was_seen && !came_back(known, e))
		return true;
	if (!known->is_shared)
		return false;
	if (!known->has_end && e->why_cleared && strcmp(e->why_cleared, EPISODE_UNWATCHED) == 0)
		return true;
	return e->worst.type == ANOMALY_OOM_KILL || (news->attempt_id != 0 && !news->takes_over);
}

/* It is told once: of what another has begun only that it got worse, and that it is over. */
static int put_change(struct store *store, const struct anomaly_news *news,
		      const struct known_anomaly *known, struct anomaly_cells *cells,
		      struct err *err)
{
	const struct episode *e = news->episode;
	enum episode_change change = news->change;
	bool is_worse = known->id == 0 || !known->is_shared ||
			e->worst.severity > known->row.worst.severity;
	int r;

	if (known->is_shared)
		join_known(cells, known);
	if (known->id != 0) {
		cells->host = NULL; /* it is that of its beginning */
		keep_culprit(cells, &e->worst, known);
	}
	keep_worst(cells, e, known);
	limit_seen(cells, known);
	r = is_worse ? put(store, news->attempt_id, cells, err)
		     : anomaly_share(store, known->id, cells, err);
	if (r == 0 && change == EPISODE_BEGAN && known->id == 0)
		r = anomaly_count_pattern(store, news->attempt_id, e, cells->pattern, err);
	else if (r == 0 && is_worse && change != EPISODE_CLEARED)
		r = anomaly_renew_pattern(store, e, cells->pattern, err);
	if (r < 0 || (known->is_shared && !is_worse && change != EPISODE_CLEARED))
		return r;
	if (known->is_shared && change == EPISODE_BEGAN)
		change = EPISODE_ESCALATED;
	return anomaly_add_change(store, cells->episode, e, change, err);
}

static int tell(struct store *store, const struct anomaly_news *news, struct anomaly_cells *cells,
		struct known_anomaly *known, struct err *err)
{
	int r = anomaly_find_known(store, news->attempt_id, news->episode, known, err);

	/* What was adopted has the name that the other has given it. */
	known->is_shared |= known->id != 0 && news->episode->is_adopted && !news->takes_over;
	known->is_left = r == 0 && ends_nothing(known, news);
	if (r < 0 || known->is_left)
		return r;
	return put_change(store, news, known, cells, err);
}

static void identify(const struct anomaly_news *news, const struct known_anomaly *known,
		     struct anomaly_identity *ret)
{
	const struct episode *e = news->episode;
	const bool is_shared = known->is_shared;

	snprintf(ret->name, sizeof(ret->name), "%s", is_shared ? known->name : e->name);
	ret->began_wall_ns = is_shared ? known->began_wall_ns : e->began_wall_ns;
	ret->ended_wall_ns = is_shared && known->has_end && u64_known(e->ended_wall_ns)
				     ? known->ended_wall_ns
				     : e->ended_wall_ns;
	ret->is_left = known->is_left;
	ret->blames_another = known->id != 0 && blames_another(&e->worst, &known->row.worst);
}

int store_tell_anomaly(struct store *store, const struct anomaly_news *news,
		       struct anomaly_identity *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf host = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	CLEANUP(txn_abort) struct store *txn = NULL;
	const struct episode *e = news->episode;
	char pattern[PATTERN_NAME_BYTES];
	struct known_anomaly known;
	struct anomaly_cells cells;
	struct json j;
	int r;

	to_cells(e, &cells);
	json_init(&j, &host);
	anomaly_host_write_json(&j, &e->host);
	json_init(&j, &evidence);
	if (e->evidence)
		anomaly_evidence_write_json(&j, e->evidence);
	if (buf_error(&host) < 0 || buf_error(&evidence) < 0)
		return store_no_memory(store, err);
	anomaly_pattern_name(e, pattern);
	cells.host = host.data;
	cells.evidence = e->evidence ? evidence.data : NULL;
	cells.pattern = pattern;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = tell(store, news, &cells, &known, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r == 0 && ret)
		identify(news, &known, ret);
	return r;
}

static int renew(struct store *store, const struct anomaly_renewal *renewal, struct err *err)
{
	const struct episode *e = renewal->episode;
	struct known_anomaly known = { 0 };
	struct anomaly_cells cells;
	int r = anomaly_find_known(store, renewal->attempt_id, e, &known, err);

	if (r < 0 || known.id == 0 || known.has_end)
		return r;
	to_cells(e, &cells);
	keep_worst(&cells, e, &known);
	return anomaly_share(store, known.id, &cells, err);
}

int store_renew_anomalies(struct store *store, const struct anomaly_renewal *list, size_t n,
			  struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = renew(store, &list[i], err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_set_evidence(struct store *store, const char *episode,
		       const struct anomaly_evidence *evidence, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct json j;
	int r;

	json_init(&j, &text);
	anomaly_evidence_write_json(&j, evidence);
	if (buf_error(&text) < 0)
		return store_no_memory(store, err);
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = query_open(store, STATEMENT_SET_EVIDENCE, &q, err);
	if (r < 0)
		return r;
	query_bind_text(&q, episode);
	query_bind_text(&q, text.data);
	r = query_run(&q, err);
	if (r == 0 && sqlite3_changes(store->db) == 0)
		r = err_set(err, -ENOENT, "the database %s has no such anomaly", store->path);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* ---- reading ---- */

#define PAGE_ANOMALIES 32 /* so many are copied at a time, and told when nothing is locked */

struct page {
	struct anomaly_row rows[PAGE_ANOMALIES];
	size_t n;
	struct arena arena; /* their strings */
};

/* Where to go on, and where to stop. */
struct course {
	int64_t after_ns, after_id, until_ns;
	int64_t lasting_ns; /* 0: whenever they ended */
	int64_t job;	    /* 0: any */
	int attempt_num;
	bool with_changes;
};

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

/* -EBADMSG: no such type or severity can have been written. */
static int from_cells(const struct anomaly_cells *c, const char *job_id, struct episode *e)
{
	episode_init(e);
	if (anomaly_type_from_name(c->type, &e->worst.type) < 0 ||
	    severity_from_name(c->severity, &e->worst.severity) < 0)
		return -EBADMSG;
	copy_text(e->name, sizeof(e->name), c->episode);
	copy_text(e->comm, sizeof(e->comm), c->comm);
	copy_text(e->worst.text, sizeof(e->worst.text), c->description);
	episode_set_job(e, job_id);
	e->attempt_id = c->attempt;
	e->worst.timestamp = u64_to_seconds(c->began_wall_ns);
	e->worst.has_pid = u64_known(c->pid);
	e->worst.pid = (int64_t)c->pid;
	e->worst.start_ticks = c->start_ticks;
	e->worst.sheet_num = c->sheet_num;
	e->worst.metric_value = c->metric_value;
	e->worst.threshold = c->threshold;
	e->gpu = c->gpu;
	e->unit = c->unit;
	e->why_cleared = c->why_cleared;
	e->began_wall_ns = c->began_wall_ns;
	e->peak_wall_ns = c->peak_wall_ns;
	e->ended_wall_ns = c->ended_wall_ns;
	e->seen_wall_ns = c->seen_wall_ns;
	e->before_value = c->before_value;
	e->first_value = c->first_value;
	e->peak_value = c->peak_value;
	e->after_value = c->after_value;
	e->seconds_to_limit = c->seconds_to_limit;
	e->count = c->count;
	e->full_from_wall_ns = c->full_from_wall_ns;
	e->full_until_wall_ns = c->full_until_wall_ns;
	e->host_json = c->host;
	e->evidence_json = c->evidence;
	return 0;
}

int anomaly_read_cells(struct store *store, const struct anomaly_cells *c, const char *job_id,
		       struct episode *e, struct err *err)
{
	const int64_t ns = query_as_i64(c->began_wall_ns);
	const struct damage d = { DAMAGED_ANOMALIES, c->id, c->attempt, 1, ns, ns };

	return from_cells(c, job_id, e) == 0 ? 1 : damage_leave_out(store, &d, err);
}

int anomalies_read(struct store *store, struct attempt *a, struct err *err)
{
	static const struct row_part parts[] = { { &anomaly_place_columns, 0 },
						 { &anomaly_columns, 0 } };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct anomaly_cells *cells;
	size_t n;
	int r = query_open(store, STATEMENT_READ_ANOMALIES, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	r = rows_read(&q, parts, ARRAY_SIZE(parts), sizeof(*cells), &a->arena, &cells, &n, err);
	if (r < 0 || n == 0)
		return r;
	a->anomalies = arena_alloc(&a->arena, n * sizeof(*a->anomalies));
	if (!a->anomalies)
		return store_no_memory(store, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct episode *e = &a->anomalies[a->n_anomalies];

		r = anomaly_read_cells(store, &cells[i], a->job_id, e, err);
		a->n_anomalies += r > 0;
		if (r > 0)
			r = attempt_end_episode(store, a->id, a->ended_wall_ns, e, err);
	}
	return r < 0 ? r : 0;
}

/* The row that the query stands on: job, attempt, when that ended, its place, and the columns. */
static int add_row(struct query *q, struct page *page, struct course *course, struct err *err)
{
	struct anomaly_row *row = &page->rows[page->n];
	struct anomaly_cells cells = { 0 };
	uint64_t attempt_ended = U64_UNKNOWN;
	const char *job_id;
	int r;

	job_id = arena_strdup(&page->arena, query_read_text(q));
	row->attempt_num = (int)query_read_i64(q);
	if (!query_is_null(q))
		attempt_ended = (uint64_t)query_read_i64(q);
	else
		query_read_i64(q);
	r = query_read_columns(q, &anomaly_place_columns, &cells, NULL, err);
	if (r == 0)
		r = query_read_columns(q, &anomaly_columns, &cells, &page->arena, err);
	if (r < 0)
		return r;
	course->after_id = cells.id;
	course->after_ns = query_as_i64(cells.began_wall_ns);
	r = anomaly_read_cells(q->store, &cells, job_id, &row->episode, err);
	if (r <= 0)
		return r;
	r = attempt_end_episode(q->store, cells.attempt, attempt_ended, &row->episode, err);
	row->changes = NULL;
	row->n_changes = 0;
	if (r == 0 && course->with_changes)
		r = anomaly_read_changes(q->store, cells.id, &page->arena, &row->changes,
					 &row->n_changes, err);
	page->n++;
	return r < 0 ? r : 0;
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store,
			       course->lasting_ns ? STATEMENT_WALK_LASTING_ANOMALIES
						  : STATEMENT_WALK_ANOMALIES,
			       &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, course->after_ns);
	query_bind_i64(&q, course->after_id);
	query_bind_i64(&q, course->until_ns);
	query_bind_i64(&q, course->job);
	query_bind_i64(&q, course->attempt_num);
	if (course->lasting_ns)
		query_bind_i64(&q, course->lasting_ns);
	page->n = 0;
	arena_reset(&page->arena);
	while (r == 0 && page->n < PAGE_ANOMALIES && (r = query_step(&q, err)) > 0)
		r = add_row(&q, page, course, err);
	return r;
}

static int tell_page(const struct page *page, anomaly_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->n; i++)
		r = fn(ctx, &page->rows[i]);
	return r;
}

/* A job that is not there has none. */
static int find_job(struct store *store, const char *job_id, int64_t *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = job_id ? txn_begin(store, STATEMENT_BEGIN_READ, &txn, err) : 0;

	return r < 0 || !job_id ? r : job_find_row(store, job_id, ret, err);
}

int store_read_anomalies(struct store *store, const struct anomaly_filter *filter, anomaly_fn *fn,
			 void *ctx, struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	struct course course = {
		.after_ns = query_as_i64(filter->since_wall_ns) - 1,
		.after_id = INT64_MAX,
		.until_ns = filter->until_wall_ns ? query_as_i64(filter->until_wall_ns) : INT64_MAX,
		.attempt_num = filter->attempt_num,
		.with_changes = filter->with_changes,
		.lasting_ns = query_as_i64(filter->lasting_wall_ns),
	};
	int r = find_job(store, filter->job_id, &course.job, err);

	do {
		if (r == 0)
			r = fill_page(store, &page, &course, err);
		if (r == 0)
			r = tell_page(&page, fn, ctx);
	} while (r == 0 && page.n == PAGE_ANOMALIES);
	return r;
}

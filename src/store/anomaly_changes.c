#include "store/anomaly_changes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/anomalies.h"
#include "store/failure.h"
#include "store/query.h"

/* As its row has it. */
struct change_cells {
	const char *change, *severity, *description;
	uint64_t wall_ns;
	double value;
};

static const struct column change_items[] = {
	COLUMN(change_cells, change, COLUMN_TEXT),	COLUMN(change_cells, wall_ns, COLUMN_U64),
	COLUMN(change_cells, severity, COLUMN_TEXT),	COLUMN(change_cells, value, COLUMN_F64),
	COLUMN(change_cells, description, COLUMN_TEXT),
};
const struct columns anomaly_change_columns = COLUMNS(change_items);

/* ---- the row of another ---- */

/* All names of the same fault begin with this, and the first that does not is after. */
static void name_range(const char *name, char from[EPISODE_NAME_BYTES],
		       char before[EPISODE_NAME_BYTES])
{
	char *slash;

	snprintf(from, EPISODE_NAME_BYTES, "%s", name);
	slash = strrchr(from, '/');
	if (slash)
		slash[1] = '\0';
	snprintf(before, EPISODE_NAME_BYTES, "%s", from);
	if (slash)
		before[slash - from]++;
}

/* What two who tell of it are compared by. */
static const struct column known_items[] = {
	COLUMN(anomaly_cells, severity, COLUMN_TEXT),
	COLUMN(anomaly_cells, description, COLUMN_TEXT),
	COLUMN(anomaly_cells, unit, COLUMN_TEXT),
	COLUMN(anomaly_cells, metric_value, COLUMN_F64),
	COLUMN(anomaly_cells, peak_value, COLUMN_F64),
	COLUMN(anomaly_cells, peak_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, count, COLUMN_U64),
	COLUMN(anomaly_cells, pid, COLUMN_U64),
	COLUMN(anomaly_cells, start_ticks, COLUMN_U64),
	COLUMN(anomaly_cells, pattern, COLUMN_TEXT),
	COLUMN(anomaly_cells, why_cleared, COLUMN_TEXT),
};
const struct columns anomaly_known_columns = COLUMNS(known_items);

/* What makes no sense is as good as nothing. */
static void take_known(struct known_anomaly *known, const struct anomaly_cells *c)
{
	struct episode *row = &known->row;

	episode_init(row);
	if (!c->severity || severity_from_name(c->severity, &row->worst.severity) < 0)
		row->worst.severity = SEVERITY_LOW;
	snprintf(row->worst.text, sizeof(row->worst.text), "%s",
		 c->description ? c->description : "");
	snprintf(known->unit, sizeof(known->unit), "%s", c->unit ? c->unit : "");
	row->unit = known->unit;
	row->worst.metric_value = c->metric_value;
	row->peak_value = c->peak_value;
	row->peak_wall_ns = c->peak_wall_ns;
	row->count = u64_known(c->count) ? c->count : 0;
	row->worst.has_pid = u64_known(c->pid);
	row->worst.pid = (int64_t)c->pid;
	row->worst.start_ticks = c->start_ticks;
	snprintf(known->pattern, sizeof(known->pattern), "%s", c->pattern ? c->pattern : "");
}

/* Words that somebody else has written tell of one who looked. */
static bool end_was_seen(const struct known_anomaly *known, const char *why)
{
	const struct episode e = { .ended_wall_ns = known->ended_wall_ns, .why_cleared = why };

	return known->has_end && why && !episode_end_is_unseen(&e);
}

static int read_known(struct query *q, const char *name, struct known_anomaly *ret, struct err *err)
{
	struct anomaly_cells cells = { 0 };
	const char *text;
	int r = query_step(q, err);

	if (r <= 0)
		return r;
	ret->id = query_read_i64(q);
	text = query_read_text(q);
	snprintf(ret->name, sizeof(ret->name), "%s", text ? text : "");
	ret->began_wall_ns = (uint64_t)query_read_i64(q);
	ret->has_end = !query_is_null(q);
	ret->ended_wall_ns = (uint64_t)query_read_i64(q);
	if (!ret->has_end)
		ret->ended_wall_ns = U64_UNKNOWN;
	ret->is_shared = strcmp(ret->name, name) != 0;
	r = query_read_columns(q, &anomaly_known_columns, &cells, NULL, err);
	if (r == 0)
		take_known(ret, &cells);
	if (r == 0)
		ret->end_was_seen = end_was_seen(ret, cells.why_cleared);
	return r;
}

int anomaly_find_known(struct store *store, int64_t attempt_id, const struct episode *e,
		       struct known_anomaly *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char from[EPISODE_NAME_BYTES], before[EPISODE_NAME_BYTES];
	int r = query_open(store, STATEMENT_FIND_KNOWN_ANOMALY, &q, err);

	*ret = (struct known_anomaly){ 0 };
	if (r < 0)
		return r;
	name_range(e->name, from, before);
	query_bind_text(&q, e->name);
	query_bind_text(&q, from);
	query_bind_text(&q, before);
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, query_as_i64(e->began_wall_ns));
	query_bind_i64(&q, query_as_i64(e->ended_wall_ns));
	query_bind_i64_if(&q, e->worst.type == ANOMALY_OOM_KILL && e->worst.has_pid, e->worst.pid);
	query_bind_i64_if(&q, u64_known(e->worst.start_ticks), query_as_i64(e->worst.start_ticks));
	return read_known(&q, e->name, ret, err);
}

static const struct column shared_items[] = {
	COLUMN(anomaly_cells, metric_value, COLUMN_F64),
	COLUMN(anomaly_cells, peak_value, COLUMN_F64),
	COLUMN(anomaly_cells, peak_wall_ns, COLUMN_U64),
	COLUMN(anomaly_cells, count, COLUMN_U64),
	COLUMN(anomaly_cells, description, COLUMN_TEXT),
	COLUMN(anomaly_cells, seen_wall_ns, COLUMN_U64),
};
const struct columns anomaly_shared_columns = COLUMNS(shared_items);

int anomaly_share(struct store *store, int64_t id, const struct anomaly_cells *cells,
		  struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SHARE_ANOMALY, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	query_bind_i64_if(&q, u64_known(cells->ended_wall_ns), query_as_i64(cells->ended_wall_ns));
	query_bind_text(&q, cells->why_cleared);
	query_bind_columns(&q, &anomaly_shared_columns, cells);
	return query_run(&q, err);
}

/* ---- what was told ---- */

static int drop_end(struct store *store, const char *name, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_DROP_ANOMALY_CLEARED, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, name);
	return query_run(&q, err);
}

int anomaly_add_change(struct store *store, const char *name, const struct episode *e,
		       enum episode_change change, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const struct change_cells cells = {
		.change = episode_change_name(change),
		.severity = severity_name(e->worst.severity),
		.description = e->worst.text,
		.wall_ns = episode_change_time(e, change),
		.value = change == EPISODE_CLEARED ? e->after_value : e->worst.metric_value,
	};
	int r = change == EPISODE_CLEARED ? drop_end(store, name, err) : 0;

	if (r == 0)
		r = query_open(store, STATEMENT_ADD_ANOMALY_CHANGE, &q, err);
	if (r < 0)
		return r;
	query_bind_text(&q, name);
	query_bind_columns(&q, &anomaly_change_columns, &cells);
	query_bind_i64(&q, ANOMALY_MAX_CHANGES);
	return query_run(&q, err);
}

/* False: no such change can have been written. */
static bool from_cells(const struct change_cells *c, struct episode_moment *m)
{
	if (!c->change || episode_change_from_name(c->change, &m->change) < 0 || !c->severity ||
	    severity_from_name(c->severity, &m->severity) < 0)
		return false;
	m->wall_ns = c->wall_ns;
	m->value = c->value;
	snprintf(m->text, sizeof(m->text), "%s", c->description ? c->description : "");
	return true;
}

int anomaly_read_change(struct query *q, struct episode_moment *ret, struct err *err)
{
	struct change_cells cells = { 0 };
	int r = query_read_columns(q, &anomaly_change_columns, &cells, NULL, err);

	return r < 0 ? r : from_cells(&cells, ret);
}

int anomaly_read_changes(struct store *store, int64_t id, struct arena *arena,
			 const struct episode_moment **ret, size_t *ret_n, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct episode_moment *list = arena_alloc(arena, ANOMALY_MAX_CHANGES * sizeof(*list));
	size_t n = 0;
	int r = list ? query_open(store, STATEMENT_READ_ANOMALY_CHANGES, &q, err)
		     : store_no_memory(store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	while (n < ANOMALY_MAX_CHANGES && (r = query_step(&q, err)) > 0) {
		r = anomaly_read_change(&q, &list[n], err);
		if (r < 0)
			return r;
		n += (size_t)r;
	}
	*ret = list;
	*ret_n = n;
	return r < 0 ? r : 0;
}

/* ---- changes in the order in which they were written, for readers that come back for more ---- */

#define PAGE_CHANGES 32 /* so many are copied at a time, and told when nothing is locked */

struct page {
	struct anomaly_change_row rows[PAGE_CHANGES];
	size_t n;
	struct arena arena; /* their strings */
};

/* Where to go on, and where to stop. */
struct course {
	int64_t after_id, last_id;
};

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

static const struct column head_items[] = {
	COLUMN(anomaly_change_row, id, COLUMN_BITS),
	COLUMN(anomaly_change_row, uid, COLUMN_U64),
};
static const struct columns head_columns = COLUMNS(head_items);

/* 1: it is in ret. 0: it is left out. */
static int read_change_row(struct query *q, struct anomaly_change_row *ret, struct arena *arena,
			   struct err *err)
{
	struct anomaly_cells cells = { 0 };
	const char *job_id;
	int r;

	r = query_read_columns(q, &head_columns, ret, NULL, err);
	if (r < 0)
		return r;
	job_id = arena_strdup(arena, query_read_text(q));
	r = query_read_columns(q, &anomaly_place_columns, &cells, NULL, err);
	if (r == 0)
		r = query_read_columns(q, &anomaly_columns, &cells, arena, err);
	if (r == 0)
		r = anomaly_read_cells(q->store, &cells, job_id, &ret->episode, err);
	if (r > 0)
		r = anomaly_read_change(q, &ret->moment, err);
	if (r > 0)
		episode_recall(&ret->episode, &ret->moment);
	return r;
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_FOLLOW_ANOMALIES, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, course->after_id);
	query_bind_i64(&q, course->last_id);
	page->n = 0;
	arena_reset(&page->arena);
	while (page->n < PAGE_CHANGES && (r = query_step(&q, err)) > 0) {
		struct anomaly_change_row *row = &page->rows[page->n];

		r = read_change_row(&q, row, &page->arena, err);
		if (r < 0)
			return r;
		course->after_id = row->id;
		page->n += (size_t)r;
	}
	return r < 0 ? r : 0;
}

static int read_last_id(struct store *store, int64_t *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_read_number(store, STATEMENT_LAST_ANOMALY_CHANGE, 0, ret, err);
	return r < 0 ? r : 0;
}

/* Where the newest were removed their ids are given again. */
int store_follow_anomalies(struct store *store, int64_t *after_id, anomaly_change_fn *fn, void *ctx,
			   struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	struct course course = { .after_id = *after_id };
	int r = read_last_id(store, &course.last_id, err);
	bool has_more = fn && course.last_id > *after_id;

	while (r == 0 && has_more) {
		r = fill_page(store, &page, &course, err);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
		has_more = page.n == PAGE_CHANGES;
	}
	if (r == 0)
		*after_id = course.last_id;
	return r;
}

/* ---- patterns ---- */

void anomaly_pattern_name(const struct episode *e, char ret[PATTERN_NAME_BYTES])
{
	snprintf(ret, PATTERN_NAME_BYTES, "%s%s%s", anomaly_type_name(e->worst.type),
		 e->comm[0] ? ":" : "", e->comm);
}

#define TAGS_BYTES 96

static void write_tags(const struct episode *e, char ret[TAGS_BYTES])
{
	snprintf(ret, TAGS_BYTES, "resource\nanomaly\n%s\n%s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
}

static int write_pattern(struct store *store, enum statement statement, const struct episode *e,
			 const char *pattern, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char tags[TAGS_BYTES];
	int r = query_open(store, statement, &q, err);

	if (r < 0)
		return r;
	write_tags(e, tags);
	query_bind_text(&q, pattern);
	query_bind_text(&q, tags);
	query_bind_text(&q, e->worst.text);
	if (statement == STATEMENT_COUNT_PATTERN)
		query_bind_i64(&q, (int64_t)e->began_wall_ns);
	return query_run(&q, err);
}

int anomaly_renew_pattern(struct store *store, const struct episode *e, const char *pattern,
			  struct err *err)
{
	return write_pattern(store, STATEMENT_RENEW_PATTERN, e, pattern, err);
}

/* ---- its jobs ---- */

struct pattern_jobs {
	struct buf names; /* by lines, the last first; that of now is the first */
	size_t n_names;
	bool was_named;
};

static void add_name(struct pattern_jobs *jobs, const char *name, size_t len)
{
	if (jobs->n_names++ > 0)
		buf_add_char(&jobs->names, '\n');
	buf_add(&jobs->names, name, len);
}

static void merge_names(struct pattern_jobs *jobs, const char *now, const char *before)
{
	const char *next = before;

	add_name(jobs, now, strlen(now));
	while (next && *next) {
		size_t len = strcspn(next, "\n");

		if (len == strlen(now) && memcmp(next, now, len) == 0)
			jobs->was_named = true;
		else if (jobs->n_names < PATTERN_MAX_JOBS)
			add_name(jobs, next, len);
		next += len + (next[len] == '\n');
	}
}

/* A name may have been pushed out by others: then an older episode of the job may know. */
static int was_seen(struct store *store, int64_t attempt_id, const char *pattern,
		    const struct episode *e, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_HAS_PATTERN_JOB, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_i64(&q, attempt_id);
	query_bind_text(&q, e->name);
	return query_step(&q, err);
}

static int set_jobs(struct store *store, const char *pattern, const struct pattern_jobs *jobs,
		    bool is_new, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = buf_error(&jobs->names) < 0
			? store_no_memory(store, err)
			: query_open(store, STATEMENT_SET_PATTERN_JOBS, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_text(&q, jobs->names.data);
	query_bind_i64(&q, is_new);
	return query_run(&q, err);
}

static int read_names(struct store *store, int64_t attempt_id, const char *pattern,
		      struct pattern_jobs *jobs, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *now;
	int r = query_open(store, STATEMENT_READ_PATTERN_JOBS, &q, err);

	if (r < 0)
		return r;
	query_bind_text(&q, pattern);
	query_bind_i64(&q, attempt_id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	now = query_read_text(&q);
	merge_names(jobs, now ? now : "", query_read_text(&q));
	return 0;
}

int anomaly_count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
			  const char *pattern, struct err *err)
{
	struct pattern_jobs jobs = { .names = BUF_INIT };
	int is_known = 0;
	int r = write_pattern(store, STATEMENT_COUNT_PATTERN, e, pattern, err);

	if (r == 0 && attempt_id != 0)
		r = read_names(store, attempt_id, pattern, &jobs, err);
	if (r == 0 && !jobs.was_named && jobs.n_names == PATTERN_MAX_JOBS)
		is_known = was_seen(store, attempt_id, pattern, e, err);
	r = is_known < 0 ? is_known : r;
	if (r == 0 && jobs.n_names > 0)
		r = set_jobs(store, pattern, &jobs, !jobs.was_named && !is_known, err);
	buf_release(&jobs.names);
	return r;
}

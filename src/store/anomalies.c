#include "store/anomalies.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/store.h"

#define PATTERN_NAME_BYTES (64 + COMM_BYTES)
#define PATTERN_MAX_JOBS 50 /* whose names are kept: the last; all are counted */
#define MAX_CHANGES 16	    /* of one episode: it begins, gets worse three times, and is over */

/* ---- an episode as its row has it ---- */

/* Names instead of numbers, -1 for none; strings are borrowed. */
struct anomaly_cells {
	int64_t id, attempt; /* of the row; 0: of no attempt */
	const char *episode, *type, *severity, *comm, *description, *unit, *why_cleared;
	const char *host, *evidence; /* JSON */
	const char *pattern;
	uint64_t pid, start_ticks; /* U64_UNKNOWN: of no process */
	int sheet_num, gpu;
	double metric_value, threshold;
	uint64_t began_wall_ns, peak_wall_ns, ended_wall_ns, seen_wall_ns;
	double before_value, first_value, peak_value, after_value, seconds_to_limit;
	uint64_t count;
	uint64_t full_from_wall_ns, full_until_wall_ns;
};

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

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

/*
 * The episode that the cells have, which borrows their strings. 1: it is in e. 0: no such type or
 * severity can have been written, and it is left out.
 */
static int read_cells(struct store *store, const struct anomaly_cells *c, const char *job_id,
		      struct episode *e, struct err *err)
{
	const int64_t ns = query_as_i64(c->began_wall_ns);
	const struct damage d = { DAMAGED_ANOMALIES, c->id, c->attempt, 1, ns, ns };

	episode_init(e);
	if (anomaly_type_from_name(c->type, &e->worst.type) < 0 ||
	    severity_from_name(c->severity, &e->worst.severity) < 0)
		return damage_leave_out(store, &d, err);
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
	return 1;
}

/* A change of it as its row has it. */
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

/*
 * ---- one fault is one row, whoever sees it ----
 *
 * Several runs of one host, and a daemon that takes over from them, see the same fault of the host
 * and give it names that differ only in when it began (model/anomaly.h). What a later one records
 * while the row lasts is added to it where it is worse. The first who has seen its end ends it,
 * unless it came back after that for another who goes on. Inside of a transaction.
 */

/* The row that is there already; id 0: none is. */
struct known_anomaly {
	int64_t id;
	char name[EPISODE_NAME_BYTES];
	uint64_t began_wall_ns;
	struct episode row;		  /* its severity, words, peak, count and pid */
	char unit[32];			  /* of that */
	char pattern[PATTERN_NAME_BYTES]; /* that it was counted as; "": none */
	bool has_end;
	uint64_t ended_wall_ns; /* where it has */
	bool end_was_seen;	/* so it was told, and stays unless it came back */
	bool is_shared;		/* another has begun it */
};

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
static int read_known(struct query *q, const char *name, struct known_anomaly *ret, struct err *err)
{
	struct anomaly_cells c = { 0 };
	struct episode *row = &ret->row, end;
	int r = query_step(q, err);

	if (r <= 0)
		return r;
	ret->id = query_read_i64(q);
	copy_text(ret->name, sizeof(ret->name), query_read_text(q));
	ret->began_wall_ns = (uint64_t)query_read_i64(q);
	ret->has_end = !query_is_null(q);
	ret->ended_wall_ns = (uint64_t)query_read_i64(q);
	if (!ret->has_end)
		ret->ended_wall_ns = U64_UNKNOWN;
	ret->is_shared = strcmp(ret->name, name) != 0;
	r = query_read_columns(q, &anomaly_known_columns, &c, NULL, err);
	if (r < 0)
		return r;
	episode_init(row);
	if (!c.severity || severity_from_name(c.severity, &row->worst.severity) < 0)
		row->worst.severity = SEVERITY_LOW;
	copy_text(row->worst.text, sizeof(row->worst.text), c.description);
	copy_text(ret->unit, sizeof(ret->unit), c.unit);
	row->unit = ret->unit;
	row->worst.metric_value = c.metric_value;
	row->peak_value = c.peak_value;
	row->peak_wall_ns = c.peak_wall_ns;
	row->count = u64_known(c.count) ? c.count : 0;
	row->worst.has_pid = u64_known(c.pid);
	row->worst.pid = (int64_t)c.pid;
	row->worst.start_ticks = c.start_ticks;
	copy_text(ret->pattern, sizeof(ret->pattern), c.pattern);
	/* Words that somebody else has written tell of one who looked. */
	end = (struct episode){ .ended_wall_ns = ret->ended_wall_ns, .why_cleared = c.why_cleared };
	ret->end_was_seen = ret->has_end && c.why_cleared && !episode_end_is_unseen(&end);
	return 0;
}

static int find_known(struct store *store, int64_t attempt_id, const struct episode *e,
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

static int share(struct store *store, int64_t id, const struct anomaly_cells *cells,
		 struct err *err)
{
	return query_put(
		store, STATEMENT_SHARE_ANOMALY, err, V_I64(id),
		V_I64_IF(u64_known(cells->ended_wall_ns), query_as_i64(cells->ended_wall_ns)),
		V_TEXT(cells->why_cleared), V_COLUMNS(&anomaly_shared_columns, cells));
}

/* ---- what was told ---- */

static int add_change(struct store *store, const char *name, const struct episode *e,
		      enum episode_change change, struct err *err)
{
	const struct change_cells cells = {
		.change = episode_change_name(change),
		.severity = severity_name(e->worst.severity),
		.description = e->worst.text,
		.wall_ns = episode_change_time(e, change),
		.value = change == EPISODE_CLEARED ? e->after_value : e->worst.metric_value,
	};
	int r = change == EPISODE_CLEARED
			? query_put(store, STATEMENT_DROP_ANOMALY_CLEARED, err, V_TEXT(name))
			: 0;

	return r < 0 ? r
		     : query_put(store, STATEMENT_ADD_ANOMALY_CHANGE, err, V_TEXT(name),
				 V_COLUMNS(&anomaly_change_columns, &cells), V_I64(MAX_CHANGES));
}

/* The change whose columns the query stands on. 0: no such change can have been written. */
static int read_change(struct query *q, struct episode_moment *ret, struct err *err)
{
	struct change_cells c = { 0 };
	int r = query_read_columns(q, &anomaly_change_columns, &c, NULL, err);

	if (r < 0)
		return r;
	if (!c.change || episode_change_from_name(c.change, &ret->change) < 0 || !c.severity ||
	    severity_from_name(c.severity, &ret->severity) < 0)
		return 0;
	ret->wall_ns = c.wall_ns;
	ret->value = c.value;
	copy_text(ret->text, sizeof(ret->text), c.description);
	return 1;
}

static int read_changes(struct store *store, int64_t id, struct arena *arena,
			const struct episode_moment **ret, size_t *ret_n, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct episode_moment *list = arena_alloc(arena, MAX_CHANGES * sizeof(*list));
	size_t n = 0;
	int r = list ? query_open(store, STATEMENT_READ_ANOMALY_CHANGES, &q, err)
		     : store_no_memory(store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	while (n < MAX_CHANGES && (r = query_step(&q, err)) > 0) {
		r = read_change(&q, &list[n], err);
		if (r < 0)
			return r;
		n += (size_t)r;
	}
	*ret = list;
	*ret_n = n;
	return r < 0 ? r : 0;
}

static int write_pattern(struct store *store, enum statement statement, const struct episode *e,
			 const char *pattern, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char tags[96];
	int r = query_open(store, statement, &q, err);

	if (r < 0)
		return r;
	snprintf(tags, sizeof(tags), "resource\nanomaly\n%s\n%s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
	query_bind_text(&q, pattern);
	query_bind_text(&q, tags);
	query_bind_text(&q, e->worst.text);
	if (statement == STATEMENT_COUNT_PATTERN)
		query_bind_i64(&q, (int64_t)e->began_wall_ns);
	return query_run(&q, err);
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

	return query_find(store, STATEMENT_HAS_PATTERN_JOB, &q, err, V_TEXT(pattern),
			  V_I64(attempt_id), V_TEXT(e->name));
}

static int set_jobs(struct store *store, const char *pattern, const struct pattern_jobs *jobs,
		    bool is_new, struct err *err)
{
	return buf_error(&jobs->names) < 0
		       ? store_no_memory(store, err)
		       : query_put(store, STATEMENT_SET_PATTERN_JOBS, err, V_TEXT(pattern),
				   V_TEXT(jobs->names.data), V_I64(is_new));
}

static int read_names(struct store *store, int64_t attempt_id, const char *pattern,
		      struct pattern_jobs *jobs, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *now;
	int r = query_find(store, STATEMENT_READ_PATTERN_JOBS, &q, err, V_TEXT(pattern),
			   V_I64(attempt_id));

	if (r <= 0)
		return r;
	now = query_read_text(&q);
	merge_names(jobs, now ? now : "", query_read_text(&q));
	return 0;
}

static int count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
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

static void to_cells(const struct episode *e, struct anomaly_cells *c)
{
	*c = (struct anomaly_cells){
		.episode = e->name,
		.type = anomaly_type_name(e->worst.type),
		.severity = severity_name(e->worst.severity),
		.comm = e->comm[0] ? e->comm : NULL,
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
	return query_put(store, STATEMENT_PUT_ANOMALY, err, V_I64(attempt_id),
			 V_COLUMNS(&anomaly_columns, cells));
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
	/* What is as bad as what another has told says nothing more: that stands. Who goes on with
	 * his own words has the newer ones. */
	if (known->is_shared ? episode_is_worse(e, row) : !episode_is_worse(row, e))
		return;
	c->severity = severity_name(row->worst.severity);
	c->description = row->worst.text;
	c->unit = row->unit;
	c->metric_value = row->worst.metric_value;
	c->peak_value = row->peak_value;
	c->peak_wall_ns = row->peak_wall_ns;
}

/*
 * Of what another has begun: who looks no more does not know whether it is over, and a kill is over
 * for who recorded it.
 */
static bool ends_nothing(const struct known_anomaly *known, const struct anomaly_news *news)
{
	const struct episode *e = news->episode;

	if (news->change != EPISODE_CLEARED)
		return false;
	/* What was over for somebody who looked has been told; but another may have seen it since.
	 */
	if (known->end_was_seen &&
	    !(u64_known(e->over_wall_ns) && e->over_wall_ns > known->ended_wall_ns))
		return true;
	if (!known->is_shared)
		return false;
	if (!known->has_end && e->why_cleared && strcmp(e->why_cleared, EPISODE_UNWATCHED) == 0)
		return true;
	return e->worst.type == ANOMALY_OOM_KILL;
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

	if (known->is_shared) { /* the row is the other's: what it has of its beginning stays */
		cells->episode = known->name;
		cells->began_wall_ns = known->began_wall_ns;
		cells->full_from_wall_ns = cells->full_until_wall_ns = U64_UNKNOWN;
		cells->first_value = F64_UNKNOWN;
	}
	if (known->id != 0) {
		cells->host = NULL; /* it is that of its beginning */
		keep_culprit(cells, &e->worst, known);
	}
	keep_worst(cells, e, known);
	limit_seen(cells, known);
	r = is_worse ? put(store, news->attempt_id, cells, err)
		     : share(store, known->id, cells, err);
	if (r == 0 && change == EPISODE_BEGAN && known->id == 0)
		r = count_pattern(store, news->attempt_id, e, cells->pattern, err);
	else if (r == 0 && is_worse && change != EPISODE_CLEARED)
		r = write_pattern(store, STATEMENT_RENEW_PATTERN, e, cells->pattern, err);
	if (r < 0 || (known->is_shared && !is_worse && change != EPISODE_CLEARED))
		return r;
	if (known->is_shared && change == EPISODE_BEGAN)
		change = EPISODE_ESCALATED;
	return add_change(store, cells->episode, e, change, err);
}

int store_tell_anomaly(struct store *store, const struct anomaly_news *news, struct err *err)
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
	/* "memory_leak:python3": what it is, and of which program. */
	snprintf(pattern, sizeof(pattern), "%s%s%s", anomaly_type_name(e->worst.type),
		 e->comm[0] ? ":" : "", e->comm);
	cells.host = host.data;
	cells.evidence = e->evidence ? evidence.data : NULL;
	cells.pattern = pattern;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = find_known(store, news->attempt_id, e, &known, err);
	if (r == 0 && !ends_nothing(&known, news))
		r = put_change(store, news, &known, &cells, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_renew_anomaly(struct store *store, int64_t attempt_id, const struct episode *e,
			struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct known_anomaly known = { 0 };
	struct anomaly_cells cells;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = find_known(store, attempt_id, e, &known, err);
	if (r < 0 || known.id == 0 || known.has_end)
		return r;
	to_cells(e, &cells);
	keep_worst(&cells, e, &known);
	r = share(store, known.id, &cells, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_set_evidence(struct store *store, const char *episode,
		       const struct anomaly_evidence *evidence, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct json j;
	int r;

	json_init(&j, &text);
	anomaly_evidence_write_json(&j, evidence);
	if (buf_error(&text) < 0)
		return store_no_memory(store, err);
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = query_put(store, STATEMENT_SET_EVIDENCE, err, V_TEXT(episode),
			      V_TEXT(text.data));
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

int anomalies_read(struct store *store, struct attempt *a, struct err *err)
{
	static const struct row_part parts[] = { { &anomaly_place_columns, 0 },
						 { &anomaly_columns, 0 } };
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct anomaly_cells *cells;
	size_t n;
	int r = query_ask(store, STATEMENT_READ_ANOMALIES, &q, err, a->id);

	if (r < 0)
		return r;
	r = rows_read(&q, parts, ARRAY_SIZE(parts), sizeof(*cells), &a->arena, &cells, &n, err);
	if (r < 0 || n == 0)
		return r;
	a->details.anomalies = arena_alloc(&a->arena, n * sizeof(*a->details.anomalies));
	if (!a->details.anomalies)
		return store_no_memory(store, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct episode *e = &a->details.anomalies[a->details.n_anomalies];

		r = read_cells(store, &cells[i], a->job_id, e, err);
		a->details.n_anomalies += r > 0;
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
	r = read_cells(q->store, &cells, job_id, &row->episode, err);
	if (r <= 0)
		return r;
	r = attempt_end_episode(q->store, cells.attempt, attempt_ended, &row->episode, err);
	row->changes = NULL;
	row->n_changes = 0;
	if (r == 0 && course->with_changes)
		r = read_changes(q->store, cells.id, &page->arena, &row->changes, &row->n_changes,
				 err);
	page->n++;
	return r < 0 ? r : 0;
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_ask(store,
			      course->lasting_ns ? STATEMENT_WALK_LASTING_ANOMALIES
						 : STATEMENT_WALK_ANOMALIES,
			      &q, err, course->after_ns, course->after_id, course->until_ns,
			      course->job, course->attempt_num);
	if (r < 0)
		return r;
	if (course->lasting_ns)
		query_bind_i64(&q, course->lasting_ns);
	page->n = 0;
	arena_reset(&page->arena);
	while (r == 0 && page->n < PAGE_ANOMALIES && (r = query_step(&q, err)) > 0)
		r = add_row(&q, page, course, err);
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
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
	} while (r == 0 && page.n == PAGE_ANOMALIES);
	return r;
}

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
#include "store/tables.h"

#define PATTERN_NAME_BYTES (64 + COMM_BYTES)
#define PATTERN_MAX_JOBS 50 /* whose names are kept: the last; all are counted */
#define MAX_CHANGES 16	    /* of one episode: it begins, gets worse three times, and is over */

static void read_pid(struct episode *e)
{
	e->worst.has_pid = u64_known((uint64_t)e->worst.pid);
}

/*
 * The episode whose columns the query stands on, with the id, the attempt and the beginning of the
 * row before them. Its texts are those of the row. 1: it is in e. 0: no such row can have been
 * written, and it is left out.
 */
static int read_episode(struct query *q, const char *job_id, struct arena *arena, int64_t *ret_id,
			struct episode *e, struct err *err)
{
	const int64_t id = query_read_i64(q), attempt = query_read_i64(q), ns = query_read_i64(q);
	const struct damage d = { DAMAGED_ANOMALIES, id, attempt, 1, ns, ns };
	int r;

	*ret_id = id;
	episode_init(e);
	r = query_read_columns(q, &episode_columns, e, arena, err);
	episode_set_job(e, job_id);
	e->attempt_id = attempt;
	e->began_wall_ns = (uint64_t)ns;
	e->worst.timestamp = u64_to_seconds(e->began_wall_ns);
	read_pid(e);
	return r == -EBADMSG ? damage_leave_out(q->store, &d, err) : r < 0 ? r : 1;
}

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
	struct episode row;
	char pattern[PATTERN_NAME_BYTES]; /* that it was counted as; "": none */
	bool has_end;
	bool end_was_seen;  /* so it was told, and stays unless it came back */
	bool is_shared;	    /* another has begun it */
	struct arena arena; /* texts of the row */
};

static void known_release(struct known_anomaly *known)
{
	arena_release(&known->arena);
}

static int find_known(struct store *store, int64_t attempt_id, const struct episode *e,
		      struct known_anomaly *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char from[EPISODE_NAME_BYTES], before[EPISODE_NAME_BYTES];
	const char *pattern;
	char *slash;
	int r;

	/* All names of the same fault begin with this, and the first that does not is after. */
	snprintf(from, sizeof(from), "%s", e->name);
	slash = strrchr(from, '/');
	if (slash)
		slash[1] = '\0';
	snprintf(before, sizeof(before), "%s", from);
	if (slash)
		before[slash - from]++;
	r = query_find(
		store, STATEMENT_FIND_KNOWN_ANOMALY, &q, err, V_TEXT(e->name), V_TEXT(from),
		V_TEXT(before), V_I64(attempt_id), V_I64(query_as_i64(e->began_wall_ns)),
		V_I64(query_as_i64(e->ended_wall_ns)),
		V_I64_IF(e->worst.type == ANOMALY_OOM_KILL && e->worst.has_pid, e->worst.pid),
		V_I64_IF(u64_known(e->worst.start_ticks), query_as_i64(e->worst.start_ticks)));
	if (r <= 0)
		return r;
	ret->id = query_read_i64(&q);
	pattern = query_read_text(&q);
	snprintf(ret->pattern, sizeof(ret->pattern), "%s", pattern ? pattern : "");
	episode_init(&ret->row);
	r = query_read_columns(&q, &episode_columns, &ret->row, &ret->arena, NULL);
	if (r < 0 && r != -EBADMSG) /* a damaged column is as good as none, and the rest counts */
		return store_no_memory(store, err);
	read_pid(&ret->row);
	ret->has_end = u64_known(ret->row.ended_wall_ns);
	ret->is_shared = strcmp(ret->row.name, e->name) != 0;
	/* Words that somebody else has written tell of one who looked. */
	ret->end_was_seen =
		ret->has_end && ret->row.why_cleared && !episode_end_is_unseen(&ret->row);
	return 0;
}

static const struct column shared_items[] = {
	COLUMN_AS("metric_value", episode, worst.metric_value, COLUMN_F64),
	COLUMN(episode, peak_value, COLUMN_F64),
	COLUMN(episode, peak_wall_ns, COLUMN_U64),
	COLUMN(episode, count, COLUMN_BITS),
	COLUMN_AS("description", episode, worst.text, COLUMN_CHARS),
	COLUMN(episode, seen_wall_ns, COLUMN_U64),
};
const struct columns anomaly_shared_columns = COLUMNS(shared_items);

static int share(struct store *store, int64_t id, const struct episode *e, struct err *err)
{
	return query_put(store, STATEMENT_SHARE_ANOMALY, err, V_I64(id),
			 V_I64_IF(u64_known(e->ended_wall_ns), query_as_i64(e->ended_wall_ns)),
			 V_TEXT(e->why_cleared), V_COLUMNS(&anomaly_shared_columns, e));
}

/* ---- what was told ---- */

static int add_change(struct store *store, const char *name, const struct episode *e,
		      enum episode_change change, struct err *err)
{
	struct episode_moment moment = {
		.change = change,
		.severity = e->worst.severity,
		.wall_ns = episode_change_time(e, change),
		.value = change == EPISODE_CLEARED ? e->after_value : e->worst.metric_value,
	};
	int r = change == EPISODE_CLEARED
			? query_put(store, STATEMENT_DROP_ANOMALY_CLEARED, err, V_TEXT(name))
			: 0;

	memcpy(moment.text, e->worst.text, sizeof(moment.text));
	return r < 0 ? r
		     : query_put(store, STATEMENT_ADD_ANOMALY_CHANGE, err, V_TEXT(name),
				 V_COLUMNS(&moment_columns, &moment), V_I64(MAX_CHANGES));
}

/* One that cannot have been written is left out. */
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
		r = query_read_columns(&q, &moment_columns, &list[n], NULL, err);
		if (r < 0 && r != -EBADMSG)
			return r;
		n += r == 0;
	}
	*ret = list;
	*ret_n = n;
	return r < 0 ? r : 0;
}

static int write_pattern(struct store *store, enum statement statement, const struct episode *e,
			 const char *pattern, struct err *err)
{
	char tags[96];

	snprintf(tags, sizeof(tags), "resource\nanomaly\n%s\n%s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
	return statement == STATEMENT_COUNT_PATTERN
		       ? query_put(store, statement, err, V_TEXT(pattern), V_TEXT(tags),
				   V_TEXT(e->worst.text), V_I64((int64_t)e->began_wall_ns))
		       : query_put(store, statement, err, V_TEXT(pattern), V_TEXT(tags),
				   V_TEXT(e->worst.text));
}

/* Names by lines, the last first: that of now, and those before. Returns how many. */
static size_t merge_names(struct buf *out, const char *now, const char *before, bool *ret_was_named)
{
	size_t n = 1;

	buf_add_str(out, now);
	*ret_was_named = false;
	for (const char *next = before; next && *next;) {
		size_t len = strcspn(next, "\n");

		if (len == strlen(now) && memcmp(next, now, len) == 0) {
			*ret_was_named = true;
		} else if (n < PATTERN_MAX_JOBS) {
			buf_add_char(out, '\n');
			buf_add(out, next, len);
			n++;
		}
		next += len + (next[len] == '\n');
	}
	return n;
}

static int count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
			 const char *pattern, struct err *err)
{
	CLEANUP(query_close) struct query read = QUERY_INIT, older = QUERY_INIT;
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	const char *now;
	bool was_named;
	size_t n;
	int r = write_pattern(store, STATEMENT_COUNT_PATTERN, e, pattern, err);

	if (r == 0 && attempt_id != 0)
		r = query_find(store, STATEMENT_READ_PATTERN_JOBS, &read, err, V_TEXT(pattern),
			       V_I64(attempt_id));
	if (r <= 0)
		return r;
	now = query_read_text(&read);
	n = merge_names(&names, now ? now : "", query_read_text(&read), &was_named);
	/* A name may have been pushed out by others: then an older episode of the job may know. */
	if (!was_named && n == PATTERN_MAX_JOBS)
		r = query_find(store, STATEMENT_HAS_PATTERN_JOB, &older, err, V_TEXT(pattern),
			       V_I64(attempt_id), V_TEXT(e->name));
	else
		r = was_named;
	if (r < 0)
		return r;
	return buf_error(&names) < 0
		       ? store_no_memory(store, err)
		       : query_put(store, STATEMENT_SET_PATTERN_JOBS, err, V_TEXT(pattern),
				   V_TEXT(names.data), V_I64(r == 0));
}

/*
 * Two may blame another process: the row's stays, with its evidence. Who knows when that began adds
 * it. A pid is used again; not all know when its process began.
 */
static void keep_culprit(struct episode *w, const struct anomaly *row)
{
	struct anomaly *a = &w->worst;

	if (!row->has_pid)
		return;
	w->comm[0] = '\0';
	if (a->has_pid && a->pid == row->pid &&
	    (a->start_ticks == row->start_ticks || !u64_known(a->start_ticks) ||
	     !u64_known(row->start_ticks)))
		return;
	a->pid = (int64_t)U64_UNKNOWN;
	a->start_ticks = U64_UNKNOWN;
	w->evidence_json = NULL;
}

/* Whoever tells of it: the worst that was ever seen stays, and so does how often it came. */
static void keep_worst(struct episode *w, const struct episode *e,
		       const struct known_anomaly *known)
{
	const struct episode *row = &known->row;

	if (known->id == 0)
		return;
	w->count = row->count > e->count ? row->count : e->count;
	/* What is as bad as what another has told says nothing more: that stands. Who goes on with
	 * his own words has the newer ones. */
	if (known->is_shared ? episode_is_worse(e, row) : !episode_is_worse(row, e))
		return;
	w->worst.severity = row->worst.severity;
	memcpy(w->worst.text, row->worst.text, sizeof(w->worst.text));
	w->unit = row->unit;
	w->worst.metric_value = row->worst.metric_value;
	w->peak_value = row->peak_value;
	w->peak_wall_ns = row->peak_wall_ns;
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
	    !(u64_known(e->over_wall_ns) && e->over_wall_ns > known->row.ended_wall_ns))
		return true;
	if (!known->is_shared)
		return false;
	if (!known->has_end && e->why_cleared && strcmp(e->why_cleared, EPISODE_UNWATCHED) == 0)
		return true;
	return e->worst.type == ANOMALY_OOM_KILL;
}

/* It is told once: of what another has begun only that it got worse, and that it is over. */
static int put_change(struct store *store, const struct anomaly_news *news,
		      const struct known_anomaly *known, const char *pattern, struct episode *w,
		      struct err *err)
{
	const struct episode *e = news->episode;
	enum episode_change change = news->change;
	bool is_worse = known->id == 0 || !known->is_shared ||
			e->worst.severity > known->row.worst.severity;
	uint64_t ended_ns;
	int r;

	if (known->is_shared) { /* the row is the other's: what it has of its beginning stays */
		memcpy(w->name, known->row.name, sizeof(w->name));
		w->began_wall_ns = known->row.began_wall_ns;
		w->full_from_wall_ns = w->full_until_wall_ns = U64_UNKNOWN;
		w->first_value = F64_UNKNOWN;
	}
	if (known->id != 0) {
		w->host_json = NULL; /* it is that of its beginning */
		pattern = known->pattern[0] ? known->pattern : pattern;
		keep_culprit(w, &known->row.worst);
	}
	keep_worst(w, e, known);
	/* Numbers of what is over are not from after it. */
	ended_ns = known->has_end ? u64_max_known(w->ended_wall_ns, known->row.ended_wall_ns)
				  : w->ended_wall_ns;
	if (u64_known(ended_ns) && u64_known(w->seen_wall_ns) && w->seen_wall_ns > ended_ns)
		w->seen_wall_ns = ended_ns;
	r = is_worse ? query_put(store, STATEMENT_PUT_ANOMALY, err, V_I64(news->attempt_id),
				 V_TEXT(pattern), V_COLUMNS(&episode_columns, w))
		     : share(store, known->id, w, err);
	if (r == 0 && change == EPISODE_BEGAN && known->id == 0)
		r = count_pattern(store, news->attempt_id, e, pattern, err);
	else if (r == 0 && is_worse && change != EPISODE_CLEARED)
		r = write_pattern(store, STATEMENT_RENEW_PATTERN, e, pattern, err);
	if (r < 0 || (known->is_shared && !is_worse && change != EPISODE_CLEARED))
		return r;
	if (known->is_shared && change == EPISODE_BEGAN)
		change = EPISODE_ESCALATED;
	return add_change(store, w->name, e, change, err);
}

/* What is written of it, where nothing is known yet. */
static void copy_to_write(struct episode *to, const struct episode *e)
{
	episode_copy(to, e);
	if (!e->worst.has_pid)
		to->worst.pid = (int64_t)U64_UNKNOWN;
}

int store_tell_anomaly(struct store *store, const struct anomaly_news *news, struct err *err)
{
	CLEANUP(buf_release) struct buf host = BUF_INIT;
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	CLEANUP(known_release) struct known_anomaly known = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	const struct episode *e = news->episode;
	char pattern[PATTERN_NAME_BYTES];
	struct episode written;
	struct json j;
	int r;

	copy_to_write(&written, e);
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
	written.host_json = host.data;
	written.evidence_json = e->evidence ? evidence.data : NULL;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = find_known(store, news->attempt_id, e, &known, err);
	if (r == 0 && !ends_nothing(&known, news))
		r = put_change(store, news, &known, pattern, &written, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_renew_anomaly(struct store *store, int64_t attempt_id, const struct episode *e,
			struct err *err)
{
	CLEANUP(known_release) struct known_anomaly known = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct episode written;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = find_known(store, attempt_id, e, &known, err);
	if (r < 0 || known.id == 0 || known.has_end)
		return r;
	copy_to_write(&written, e);
	keep_worst(&written, e, &known);
	r = share(store, known.id, &written, err);
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
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_READ_ANOMALIES, &q, err, a->id);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct episode e;
		int64_t id;

		r = read_episode(&q, a->job_id, NULL, &id, &e, err);
		if (r <= 0)
			continue;
		r = attempt_end_episode(store, a->id, a->ended_wall_ns, &e, err);
		if (r == 0 && episode_append(a, &e) < 0)
			r = store_no_memory(store, err);
	}
	return r;
}

/* The row that the query stands on: job, attempt, when that ended, and the episode. */
static int add_row(struct query *q, struct page *page, struct course *course, struct err *err)
{
	struct anomaly_row *row = &page->rows[page->n];
	uint64_t attempt_ended;
	const char *job_id;
	int64_t id;
	int r;

	job_id = arena_strdup(&page->arena, query_read_text(q));
	row->attempt_num = (int)query_read_i64(q);
	attempt_ended = query_is_null(q) ? U64_UNKNOWN : 0;
	attempt_ended |= (uint64_t)query_read_i64(q);
	r = read_episode(q, job_id, &page->arena, &id, &row->episode, err);
	course->after_id = id;
	course->after_ns = query_as_i64(row->episode.began_wall_ns);
	if (r <= 0)
		return r;
	r = attempt_end_episode(q->store, row->episode.attempt_id, attempt_ended, &row->episode,
				err);
	row->changes = NULL;
	row->n_changes = 0;
	if (r == 0 && course->with_changes)
		r = read_changes(q->store, id, &page->arena, &row->changes, &row->n_changes, err);
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

int store_read_anomalies(struct store *store, const struct anomaly_filter *filter, anomaly_fn *fn,
			 void *ctx, struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct course course = {
		.after_ns = query_as_i64(filter->since_wall_ns) - 1,
		.after_id = INT64_MAX,
		.until_ns = filter->until_wall_ns ? query_as_i64(filter->until_wall_ns) : INT64_MAX,
		.attempt_num = filter->attempt_num,
		.with_changes = filter->with_changes,
		.lasting_ns = query_as_i64(filter->lasting_wall_ns),
	};
	int r = filter->job_id ? txn_begin(store, STATEMENT_BEGIN_READ, &txn, err) : 0;

	if (r == 0 && filter->job_id) /* one that is not there has none */
		r = job_find_row(store, filter->job_id, &course.job, err);
	txn_abort(&txn);
	do {
		if (r == 0)
			r = fill_page(store, &page, &course, err);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
	} while (r == 0 && page.n == PAGE_ANOMALIES);
	return r;
}

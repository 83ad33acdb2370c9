/* retain_drop - what is too old goes, and what there is no room for. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/retention/retain.h"

/* Again and again, until none is left. */
int retain_drop_rows(struct slice *slice, const struct old_rows *rows, int64_t before,
		     struct err *err)
{
	uint64_t *n_dropped = (uint64_t *)((char *)&slice->run->result + rows->n_dropped);
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, rows->id, &q, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		int64_t gone_ns = 0;

		query_bind_i64(&q, before);
		query_bind_i64(&q, slice_batch(slice, rows->batch));
		while ((r = query_step(&q, err)) > 0) {
			int64_t ns = query_read_i64(&q);

			gone_ns = ns > gone_ns ? ns : gone_ns;
		}
		if (r < 0)
			return r;
		sqlite3_reset(q.stmt);
		r = sqlite3_changes(slice->store->db);
		if (r == 0)
			return 0;
		*n_dropped += (uint64_t)r;
		r = rows->gone ? meta_raise(slice->store, rows->gone, gone_ns, err) : 0;
	}
	return r < 0 ? r : 1;
}

/* ---- curves ---- */

/* Leaves one point for each sheet, one after the other: its peaks, at the time of its last. */
static void thin_points(struct table *t)
{
	static const enum point_word peaks[] = { POINT_RSS_BYTES, POINT_CPU_PERCENT,
						 POINT_PROCESSES };
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++) {
		uint64_t *percent = &t->columns[POINT_CPU_PERCENT][i];

		if (!u64_known(t->columns[POINT_WALL_NS][i]))
			continue;
		*percent = word_to_scaled(*percent, PERCENT_SCALE);
		if (n > 0 && t->columns[POINT_SHEET][n - 1] == t->columns[POINT_SHEET][i]) {
			t->columns[POINT_WALL_NS][n - 1] = t->columns[POINT_WALL_NS][i];
			for (size_t k = 0; k < ARRAY_SIZE(peaks); k++) {
				uint64_t *column = t->columns[peaks[k]];

				column[n - 1] = u64_max_known(column[n - 1], column[i]);
			}
			continue;
		}
		for (unsigned k = 0; k < POINT_WORDS; k++)
			t->columns[k][n] = t->columns[k][i];
		t->tick[n] = (uint8_t)n;
		n++;
	}
	t->n = n;
}

/*
 * 1: the oldest curve before the cutoff that no fold needs any more is gone. 0: there is none. Of
 * an attempt without an end its points alone tell its peaks: those stay.
 */
static int drop_curve(struct slice *slice, int64_t cutoff_ns, struct table *t, struct err *err)
{
	CLEANUP(query_close) struct query oldest = QUERY_INIT;
	CLEANUP(buf_release) struct buf raw = BUF_INIT, pack = BUF_INIT;
	struct store *store = slice->store;
	int64_t attempt, fold, last_ns;
	bool has_end; /* the attempt's account tells the peaks */
	int r = query_first(store, STATEMENT_OLDEST_POINTS, &oldest, err, cutoff_ns);

	if (r <= 0)
		return r;
	attempt = query_read_i64(&oldest);
	fold = query_read_i64(&oldest);
	last_ns = query_read_i64(&oldest);
	has_end = query_read_i64(&oldest);
	r = query_read_pack(&oldest, points_key(attempt, fold), &raw, err);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || table_read(raw.data, raw.len, CODEC_ROWS, POINT_WORDS, NULL, t) < 0) {
		slice->run->result.n_damaged++;
		t->n = 0;
	}
	query_close(&oldest);
	slice->run->result.n_curves++;
	thin_points(t);
	if (has_end || t->n == 0) {
		r = query_exec(store, STATEMENT_DROP_POINTS, err, attempt, fold);
		if (r == 0 && t->n > 0) /* else there was none to miss */
			r = meta_raise(store, META_CURVES_GONE, last_ns, err);
		return r < 0 ? r : 1;
	}
	buf_reset(&raw);
	table_write(&raw, t, POINT_WORDS, NULL);
	pack_write(&pack, &raw);
	r = buf_error(&pack) < 0 ? store_no_memory(store, err)
				 : query_put(store, STATEMENT_THIN_POINTS, err,
					     V_BLOB(points_key(attempt, fold), pack.data, pack.len),
					     V_I64(attempt), V_I64(fold));
	return r < 0 ? r : 1;
}

int retain_drop_curves(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	int r = t ? 0 : store_no_memory(slice->store, err);

	while (r >= 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = drop_curve(slice, cutoff_ns, t, err);
		if (r <= 0)
			return r;
	}
	return r < 0 ? r : 1;
}

/* ---- room ---- */

static int read_over(const struct slice *slice, uint64_t *ret, struct err *err)
{
	const struct retention *run = slice->run;

	return space_over(slice->store, &run->policy, run->result.beside_bytes, ret, err);
}

/*
 * Below the limit, so that it is not met again by the next tick; what is left of that for the
 * database, and so much in any case: a log may be larger for a while.
 */
static void set_target(struct retention *run, uint64_t over)
{
	uint64_t max = run->policy.max_bytes, mark = max - max / 10, least = max / 4;
	uint64_t beside = run->result.beside_bytes;

	run->target_bytes = over == 0				     ? U64_UNKNOWN
			    : mark > beside && mark - beside > least ? mark - beside
								     : least;
}

static void count_beside(struct slice *slice)
{
	slice->run->result.beside_bytes =
		space_beside(slice->store, &slice->run->policy) - slice->run->dropped_bytes;
}

int room_begin(struct slice *slice, struct err *err)
{
	uint64_t over = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(slice->run->owners); i++)
		slice->run->owners[i] = (struct retention_owner){ .uid = -1 };
	slice->run->after_owned = INT64_MIN;
	count_beside(slice);
	r = read_over(slice, &over, err);
	set_target(slice->run, r < 0 ? 0 : over);
	return r;
}

static bool drop_log(struct retention *run)
{
	uint64_t bytes;

	if (!run->is_dry)
		return jsonl_drop_oldest(run->policy.jsonl_path) > 0;
	if (!jsonl_rotated_bytes(run->policy.jsonl_path, run->result.n_logs, &bytes))
		return false;
	run->dropped_bytes += bytes;
	return true;
}

/* What was rotated is in the database as well, as samples or as minutes: it goes first. */
int room_logs(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	uint64_t over = 0;
	int r;

	if (!u64_known(run->target_bytes) || !run->policy.jsonl_path)
		return 0;
	while ((r = read_over(slice, &over, err)) == 0 && over > 0 && drop_log(run)) {
		run->result.n_logs++;
		count_beside(slice);
	}
	set_target(run, over);
	return r;
}

/* 1: there are too many bytes. */
static int lacks_room(const struct slice *slice, struct err *err)
{
	uint64_t used = 0;
	int r = u64_known(slice->run->target_bytes) ? space_read(slice->store, NULL, &used, err)
						    : 0;

	return r < 0 ? r : u64_known(slice->run->target_bytes) && used > slice->run->target_bytes;
}

int room_drop(struct slice *slice, drop_fn *fn, const struct old_rows *rows, struct err *err)
{
	int r = lacks_room(slice, err);

	slice->run->after_attempt = 0; /* where the stages of attempts begin */
	if (r <= 0)
		return r;
	slice->is_for_room = true;
	r = rows ? retain_drop_rows(slice, rows, INT64_MAX, err) : fn(slice, INT64_MAX, err);
	slice->is_for_room = false;
	return r <= 0 ? r : lacks_room(slice, err);
}

/* ---- whose it is ---- */

/*
 * One user may fill a database of many. So what lacks is first taken from users that have more than
 * a level, which is such that this is enough. Others lose nothing, unless it is not enough after
 * all.
 */
static const struct owned_table {
	enum statement id;
	int64_t batch; /* between two looks at the clock */
} owned_tables[] = {
	{ STATEMENT_OWNED_CHUNKS, 1000 }, { STATEMENT_OWNED_ROLLUPS, 1000 },
	{ STATEMENT_OWNED_EVENTS, 1000 }, { STATEMENT_OWNED_PROCESSES, 1000 },
	{ STATEMENT_OWNED_ATTEMPTS, 20 },
};

/* Where all places are taken, the one with the least gives way, and its bytes stay: so a user with
 * more than one in ARRAY_SIZE(owners) of all bytes is among them. */
static void add_owned(struct retention *run, int64_t uid, uint64_t n_bytes)
{
	struct retention_owner *least = run->owners;

	for (size_t i = 0; i < ARRAY_SIZE(run->owners); i++) {
		struct retention_owner *owner = &run->owners[i];

		if (owner->uid == uid) {
			owner->n_bytes += n_bytes;
			return;
		}
		if (owner->n_bytes < least->n_bytes)
			least = owner;
	}
	least->uid = uid;
	least->n_bytes += n_bytes;
}

int room_count_owners(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	while (run->owned_table < ARRAY_SIZE(owned_tables) && (r = slice_goes_on(slice, err)) > 0) {
		const struct owned_table *table = &owned_tables[run->owned_table];
		CLEANUP(query_close) struct query q = QUERY_INIT;
		int64_t last = INT64_MIN;

		r = query_ask(slice->store, table->id, &q, err, run->after_owned, table->batch);
		while (r >= 0 && (r = query_step(&q, err)) > 0) {
			int64_t id = query_read_i64(&q);
			bool has_owner = !query_is_null(&q);
			int64_t uid = query_read_i64(&q);
			uint64_t n_bytes = (uint64_t)query_read_i64(&q);

			last = id > last ? id : last;
			run->n_owned_bytes += n_bytes;
			if (has_owner)
				add_owned(run, uid, n_bytes);
			if (table->id == STATEMENT_OWNED_EVENTS)
				run->n_event_bytes += n_bytes;
		}
		if (r < 0)
			return r;
		run->after_owned = last;
		run->owned_table += last == INT64_MIN;
	}
	if (r < 0 || run->owned_table < ARRAY_SIZE(owned_tables))
		return r < 0 ? r : 1;
	return 0;
}

static bool is_owner(const struct retention_owner *owner)
{
	return owner->uid >= 0 && !owner->is_done;
}

/* Up to where all owners together have so many bytes above it. */
static double find_level(const struct retention *run, double n_bytes)
{
	double low = 0, high = (double)run->n_owned_bytes;

	for (int i = 0; i < 50; i++) {
		double level = (low + high) / 2, above = 0;

		for (size_t k = 0; k < ARRAY_SIZE(run->owners); k++)
			if (is_owner(&run->owners[k]))
				above += fmax(0, (double)run->owners[k].n_bytes - level);
		*(above > n_bytes ? &low : &high) = level;
	}
	return low;
}

/* Whose records go now, and how many bytes of them: what he has above the level. */
int room_owner(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	struct retention_owner *most = NULL;
	uint64_t used = 0;
	unsigned n_owners = 0;
	double scale, lacking, excess;
	int r = lacks_room(slice, err);

	if (r > 0)
		r = space_read(slice->store, NULL, &used, err);
	if (r < 0 || !u64_known(run->target_bytes) || used <= run->target_bytes)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(run->owners); i++) {
		n_owners += run->owners[i].uid >= 0;
		if (is_owner(&run->owners[i]) && (!most || run->owners[i].n_bytes > most->n_bytes))
			most = &run->owners[i];
	}
	if (n_owners < 2 || !most)
		return 0;
	run->owner = most->uid;
	run->owner_stage = run->stage;
	run->after_fold_ns = run->after_owned = INT64_MIN;
	run->room_bytes = run->target_bytes;
	lacking = (double)(used - run->target_bytes);
	scale = (double)used / (double)run->n_owned_bytes; /* indices and the rest of pages */
	excess = scale * ((double)most->n_bytes - find_level(run, lacking / scale));
	most->is_done = true;
	run->target_bytes = used - (uint64_t)fmin(lacking, excess);
	return 0;
}

int room_owner_done(struct slice *slice, struct err *err)
{
	(void)err;
	slice->run->target_bytes = slice->run->room_bytes;
	slice->run->owner = -1;
	slice->run->stage = slice->run->owner_stage - 1; /* the next owner, if it is not enough */
	return 0;
}

/* Rows of minutes have no index by owner: they are looked through in the order of their ids. */
int room_minutes(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	int r;

	while ((r = lacks_room(slice, err)) > 0) {
		CLEANUP(query_close) struct query q = QUERY_INIT;
		int64_t last = INT64_MIN;

		r = slice_goes_on(slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
		r = query_ask(slice->store, STATEMENT_OWNED_ROLLUPS, &q, err, run->after_owned,
			      BATCH_ROWS);
		while (r >= 0 && (r = query_step(&q, err)) > 0) {
			int64_t id = query_read_i64(&q);

			last = id > last ? id : last;
		}
		if (r < 0 || last == INT64_MIN)
			return r;
		r = query_exec(slice->store, STATEMENT_DROP_OWNED_ROLLUPS, err, run->after_owned,
			       last, run->owner);
		if (r < 0)
			return r;
		run->result.n_minutes += (uint64_t)sqlite3_changes(slice->store->db);
		run->after_owned = last;
	}
	return r;
}

/* ---- attempts ---- */

/* 1: the next attempt behind after_attempt that is over for certain. 0: none but the newest. */
static int next_attempt(struct slice *slice, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	bool may_run = true;
	int r = query_ask(slice->store, STATEMENT_NEXT_ATTEMPT, &q, err, slice->run->after_attempt,
			  slice->run->owner);

	if (r < 0)
		return r;
	while (may_run && (r = query_step(&q, err)) > 0) {
		*ret = query_read_i64(&q);
		r = attempt_may_run(slice->store, *ret, &may_run, err);
		if (r < 0)
			return r;
		if (may_run)
			slice->run->after_attempt = *ret;
	}
	return may_run ? r : 1;
}

/* Some rows of an attempt; 1: there may be more. The report says why they are missing. */
static int drop_rows(struct slice *slice, enum statement id, int64_t attempt, const char *what,
		     uint64_t *n_dropped, struct err *err)
{
	int n, r = query_exec(slice->store, id, err, attempt, slice_batch(slice, BATCH_ROWS));

	if (r < 0)
		return r;
	n = sqlite3_changes(slice->store->db);
	*n_dropped += (uint64_t)n;
	if (n == 0)
		return 0;
	r = query_put(slice->store, STATEMENT_NOTE_UNKNOWN, err, V_I64(attempt), V_TEXT(what),
		      V_TEXT("their rows were removed to keep the database below max_bytes"));
	return r < 0 ? r : 1;
}

/* By now it has no more than its row and those of its sheets, ranks and notes. */
static int drop_attempt(struct slice *slice, int64_t attempt, uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job;
	int r = query_first(slice->store, STATEMENT_DROP_ATTEMPT, &q, err, attempt);

	if (r <= 0)
		return r;
	job = query_read_i64(&q);
	r = query_run(&q, err);
	++*n_dropped;
	return r < 0 ? r : query_exec(slice->store, STATEMENT_DROP_JOB, err, job);
}

/*
 * Of each such attempt, while there is too little room: rows (what), or all that it has (NULL), by
 * the statement.
 */
static int each_attempt(struct slice *slice, enum statement id, const char *what,
			uint64_t *n_dropped, struct err *err)
{
	int64_t attempt = 0;
	int r;

	while ((r = lacks_room(slice, err)) > 0) {
		r = slice_goes_on(slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
		r = next_attempt(slice, &attempt, err);
		if (r == 0)
			break;
		if (r > 0)
			r = what ? drop_rows(slice, id, attempt, what, n_dropped, err)
				 : drop_attempt(slice, attempt, n_dropped, err);
		if (r < 0)
			return r;
		if (r == 0)
			slice->run->after_attempt = attempt;
	}
	if (r == 0)
		slice->run->after_attempt = 0; /* where the next stage begins */
	return r;
}

int room_events(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_EVENTS_OF_ATTEMPT, "events",
			    &slice->run->result.n_events, err);
}

/* A few jobs that start process after process fill it alone: all else would go for little. */
int room_many_events(struct slice *slice, struct err *err)
{
	const struct retention *run = slice->run;

	if (run->n_event_bytes <= run->n_owned_bytes / 2)
		return 0;
	return run->owner >= 0 ? room_events(slice, err)
			       : room_drop(slice, NULL, &retain_events, err);
}

int room_phases(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_PHASES, "phases", &slice->run->result.n_phases,
			    err);
}

int room_processes(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_PROCESSES, "processes",
			    &slice->run->result.n_processes, err);
}

int room_attempts(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_ATTEMPT, NULL, &slice->run->result.n_attempts,
			    err);
}

/* As it is now: what was beside the database may have become shorter, or longer. */
int room_end(struct slice *slice, struct err *err)
{
	struct retention_result *result = &slice->run->result;

	count_beside(slice);
	result->wal_bytes = space_of_wal(slice->store);
	return read_over(slice, &result->over_bytes, err);
}

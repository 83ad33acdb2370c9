#include "base/macros.h"
#include "base/unknown.h"
#include "store/handle.h"
#include "store/jsonl.h"
#include "store/read.h"
#include "store/retain.h"

#define BATCH_COUNTED 1000 /* between two looks at the clock, where none goes */

/* Below the limit, so that it is not met again by the next tick. */
static uint64_t low_mark(uint64_t max_bytes)
{
	return max_bytes - max_bytes / 10;
}

/* What is left for the database, and so much in any case: a log may be larger for a while. */
static uint64_t share_of_database(uint64_t max_bytes, uint64_t beside)
{
	uint64_t mark = low_mark(max_bytes), least = max_bytes / 4;

	return mark > beside && mark - beside > least ? mark - beside : least;
}

static int read_used(const struct slice *slice, uint64_t *ret, struct err *err)
{
	uint64_t file_bytes;

	return space_read(slice->store, &file_bytes, ret, err);
}

/* How many bytes are above max_bytes: those of the database, and of what counts beside it. */
static int read_over(const struct slice *slice, uint64_t *ret, struct err *err)
{
	const struct retention *run = slice->run;
	uint64_t used = 0;
	int r = run->policy.max_bytes ? read_used(slice, &used, err) : 0;

	*ret = 0;
	if (r < 0 || !run->policy.max_bytes)
		return r;
	used += run->result.beside_bytes;
	*ret = used > run->policy.max_bytes ? used - run->policy.max_bytes : 0;
	return 0;
}

int room_begin(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	uint64_t over = 0;
	int r;

	run->result.beside_bytes = space_beside(slice->store, &run->policy);
	r = read_over(slice, &over, err);
	run->target_bytes = r == 0 && over > 0 ? share_of_database(run->policy.max_bytes,
								   run->result.beside_bytes)
					       : U64_UNKNOWN;
	return r;
}

/* What was rotated is in the database as well, as samples or as minutes: it goes first. */
int room_logs(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	uint64_t over = 0;
	int r;

	if (!u64_known(run->target_bytes) || !run->policy.jsonl_path)
		return 0;
	while ((r = read_over(slice, &over, err)) == 0 && over > 0 &&
	       jsonl_drop_oldest(run->policy.jsonl_path) > 0) {
		run->result.n_logs++;
		run->result.beside_bytes = space_beside(slice->store, &run->policy);
	}
	run->target_bytes =
		over > 0 ? share_of_database(run->policy.max_bytes, run->result.beside_bytes)
			 : U64_UNKNOWN;
	return r;
}

/* 1: there are too many bytes. */
static int lacks_room(const struct slice *slice, struct err *err)
{
	uint64_t used = 0;
	int r = u64_known(slice->run->target_bytes) ? read_used(slice, &used, err) : 0;

	return r < 0 ? r : u64_known(slice->run->target_bytes) && used > slice->run->target_bytes;
}

/* What age removes, of any age; as long as there is too little room. */
static int remove_oldest(struct slice *slice, int (*fn)(struct slice *, int64_t, struct err *),
			 struct err *err)
{
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	slice->is_for_room = true;
	r = fn(slice, INT64_MAX, err);
	slice->is_for_room = false;
	return r <= 0 ? r : lacks_room(slice, err);
}

/* Then the folds that were begun are brought to their end: half of them is told to nobody. */
int room_samples(struct slice *slice, struct err *err)
{
	int r = remove_oldest(slice, retain_roll, err);

	return r != 0 ? r : retain_roll(slice, retain_full_cutoff(slice->run), err);
}

int room_minutes(struct slice *slice, struct err *err)
{
	return remove_oldest(slice, retain_drop_minutes, err);
}

int room_curves(struct slice *slice, struct err *err)
{
	return remove_oldest(slice, retain_drop_curves, err);
}

int room_seconds(struct slice *slice, struct err *err)
{
	return remove_oldest(slice, retain_drop_seconds, err);
}

int room_events(struct slice *slice, struct err *err)
{
	return remove_oldest(slice, retain_drop_events, err);
}

/* Some of them, by time, as they go; 0: there are no more. */
static int count_some_events(struct slice *slice, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct retention *run = slice->run;
	unsigned n = 0;
	int r = query_open(slice->store, STATEMENT_NEXT_EVENTS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, run->after_event_ns);
	query_bind_i64(&q, run->after_event);
	query_bind_i64(&q, BATCH_COUNTED);
	for (; (r = query_step(&q, err)) > 0; n++) {
		run->after_event_ns = query_read_i64(&q);
		run->after_event = query_read_i64(&q);
	}
	run->n_events += n;
	return r < 0 ? r : n == BATCH_COUNTED;
}

/* Their ids do not tell how many are left: one that stays may be years older than the next. */
int room_count_events(struct slice *slice, struct err *err)
{
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	while ((r = slice_goes_on(slice, err)) > 0) {
		r = count_some_events(slice, err);
		if (r < 0)
			return r;
		if (r == 0) {
			slice->run->n_events += slice->run->result.n_events; /* as it began */
			return 0;
		}
	}
	return r < 0 ? r : 1;
}

/* About how many bytes those have that have not gone since they were counted. */
static int read_size_of_events(struct slice *slice, uint64_t *ret, struct err *err)
{
	const struct retention *run = slice->run;
	int64_t each = 0;
	int r = retain_count(slice->store, STATEMENT_SIZE_OF_EVENT, &each, err);

	*ret = 0;
	if (r == 0 && each > 0 && run->n_events > run->result.n_events)
		*ret = (run->n_events - run->result.n_events) * (uint64_t)each;
	return r;
}

/* A few jobs that start process after process fill it alone: all else would go for little. */
int room_many_events(struct slice *slice, struct err *err)
{
	uint64_t used = 0, bytes = 0;
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	r = read_used(slice, &used, err);
	if (r == 0)
		r = read_size_of_events(slice, &bytes, err);
	if (r < 0 || bytes <= used / 2)
		return r;
	return room_events(slice, err);
}

int room_anomalies(struct slice *slice, struct err *err)
{
	slice->run->after_attempt = 0; /* where the next stage begins */
	return remove_oldest(slice, retain_drop_over_anomalies, err);
}

/* ---- attempts ---- */

/* 1: the next attempt behind after_attempt that is over for certain. 0: none but the newest. */
static int next_attempt(struct slice *slice, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	bool may_run = true;
	int r = query_open(slice->store, STATEMENT_NEXT_ATTEMPT, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, slice->run->after_attempt);
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

/* Calls fn for each such attempt; fn returns 1 if it is not through with it. */
static int each_attempt(struct slice *slice, int (*fn)(struct slice *, int64_t, struct err *),
			struct err *err)
{
	int64_t attempt = 0;
	int r;

	while ((r = lacks_room(slice, err)) > 0) {
		r = slice_goes_on(slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
		r = next_attempt(slice, &attempt, err);
		if (r <= 0)
			return r;
		r = fn(slice, attempt, err);
		if (r < 0)
			return r;
		if (r == 0)
			slice->run->after_attempt = attempt;
	}
	return r;
}

/* The report says why they are missing. */
static int note_removal(struct slice *slice, int64_t attempt, const char *what, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, STATEMENT_NOTE_UNKNOWN, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt);
	query_bind_text(&q, what);
	query_bind_text(&q, "their rows were removed to keep the database below max_bytes");
	return query_run(&q, err);
}

/* Some rows of an attempt; 1: there may be more. */
static int drop_rows(struct slice *slice, enum statement id, int64_t attempt, const char *what,
		     uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int n, r = query_open(slice->store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt);
	query_bind_i64(&q, slice_batch(slice, BATCH_ROWS));
	r = query_run(&q, err);
	if (r < 0)
		return r;
	n = sqlite3_changes(slice->store->db);
	*n_dropped += (uint64_t)n;
	if (n == 0)
		return 0;
	r = note_removal(slice, attempt, what, err);
	return r < 0 ? r : 1;
}

static int drop_phases(struct slice *slice, int64_t attempt, struct err *err)
{
	return drop_rows(slice, STATEMENT_DROP_PHASES, attempt, "phases",
			 &slice->run->result.n_phases, err);
}

static int drop_processes(struct slice *slice, int64_t attempt, struct err *err)
{
	return drop_rows(slice, STATEMENT_DROP_PROCESSES, attempt, "processes",
			 &slice->run->result.n_processes, err);
}

static int drop_job(struct slice *slice, int64_t job, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, STATEMENT_DROP_JOB, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, job);
	return query_run(&q, err);
}

/* By now it has no more than its row and those of its sheets, ranks and notes. */
static int drop_attempt(struct slice *slice, int64_t attempt, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job;
	int r = query_open(slice->store, STATEMENT_DROP_ATTEMPT, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	job = query_read_i64(&q);
	r = query_run(&q, err);
	slice->run->result.n_attempts++;
	return r < 0 ? r : drop_job(slice, job, err);
}

int room_phases(struct slice *slice, struct err *err)
{
	int r = each_attempt(slice, drop_phases, err);

	if (r == 0)
		slice->run->after_attempt = 0; /* where the next stage begins */
	return r;
}

int room_processes(struct slice *slice, struct err *err)
{
	int r = each_attempt(slice, drop_processes, err);

	if (r == 0)
		slice->run->after_attempt = 0; /* where the next stage begins */
	return r;
}

int room_attempts(struct slice *slice, struct err *err)
{
	return each_attempt(slice, drop_attempt, err);
}

/* As it is now: what was beside the database may have become shorter, or longer. */
int room_end(struct slice *slice, struct err *err)
{
	struct retention_result *result = &slice->run->result;

	result->beside_bytes = space_beside(slice->store, &slice->run->policy);
	result->wal_bytes = space_of_wal(slice->store);
	return read_over(slice, &result->over_bytes, err);
}

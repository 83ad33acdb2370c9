#include "store/ingest.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "log/log.h"
#include "model/record.h"
#include "model/tick_record.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/db/db.h"
#include "store/query.h"
#include "store/attempt.h"

/* One transaction has so much, about, or takes so long: others wait for its lock meanwhile. */
#define BATCH_BYTES ((size_t)16 << 20)
#define BATCH_NS UINT64_C(1000000000)

/* Some disks take milliseconds for each file: the rest is removed by the next call. */
#define REMOVE_NS UINT64_C(200000000)

/* The kernel's times of files are as fine as this, or finer. */
#define CLOCK_GRAIN_NS UINT64_C(20000000)

/* A copy, whose recorder is dead, may be completed for so long (recorder/late_word.h). */
#define COPY_QUIET_SECONDS 3600.0

/* Evidence of an anomaly is one text. */
#define EVIDENCE_TEXT_MAX ((size_t)64 << 10)

/* Sheets of a copy: in one record, and of all that run of one user, about. */
#define COPY_MAX_SHEETS 4096
#define USER_MAX_SHEETS 16384

/* A log of another host counts as left by its recorder when it has been quiet for so long. */
#define QUIET_NS (7 * UINT64_C(86400000000000))

/* ---- records of one log become rows ---- */

struct sink {
	struct store *store;
	struct err *err;
	struct log_id log;
	const struct folder *folder; /* of it, which is the current one there */
	struct log_origin origin;
	struct attempt attempt; /* as the last beginning has it; id 0: it has no row yet. Of a
				   host's log: the one that the record is about */
	bool is_host;		/* the log is a daemon's own (RECORD_HOST) */
	int64_t daemon_id;	/* its row; 0: it has none yet */
	struct tick_decoder *ticks;
	uint64_t ready_offset; /* that ticks has come to; UINT64_MAX: it is new */
	bool is_ready;	       /* ticks has come to the cursor */
	struct snapshot snap;
	struct arena arena; /* of the record that is read */
	uint64_t n_damaged; /* records that are left out */
	int failure;	    /* of the database: the whole transaction is given up; 0 */
};

/* Reads one record and stores it. DAMAGED: it makes no sense. */
typedef int take_fn(struct sink *s, struct record_reader *r);
#define DAMAGED 1

static int result_of(const struct record_reader *r)
{
	return r->error == -EBADMSG ? DAMAGED : r->error;
}

/* Of another user no more than there is room for: who follows the attempt reads them all. */
static int bound_sheets(struct sink *s, struct attempt *a)
{
	int64_t n = 0;
	int r;

	if (!s->origin.is_copy || a->n_sheets == 0)
		return 0;
	r = query_read_number(s->store, STATEMENT_COUNT_USERS_SHEETS, (int64_t)s->origin.uid, &n,
			      s->err);
	if (r < 0 || n > USER_MAX_SHEETS || a->n_sheets > COPY_MAX_SHEETS)
		a->n_sheets = 0;
	return r < 0 ? r : 0;
}

static int take_sheets(struct sink *s, struct record_reader *r)
{
	struct attempt a = { .id = s->attempt.id };
	int result;

	record_read_sheets_changed(r, &a);
	if (r->error)
		return result_of(r);
	result = bound_sheets(s, &a);
	return result < 0 ? result : store_write_sheets(s->store, &a, a.sheets, a.n_sheets, s->err);
}

static int take_events(struct sink *s, struct record_reader *r)
{
	size_t n = 0;
	struct proc_event *events = record_read_list(r, RECORD_LIST_EVENTS, &n);
	uint64_t now = clock_wall_ns();

	if (r->error)
		return result_of(r);
	for (size_t i = 0; s->origin.is_copy && i < n; i++)
		if (events[i].key.pid <= 0 || events[i].wall_ns > now)
			return DAMAGED;
	return store_write_events(s->store, &s->attempt, events, n, s->err);
}

static int take_phases(struct sink *s, struct record_reader *r)
{
	size_t n = 0;
	struct phase_change *changes = record_read_phases(r, &n);
	struct phase_mark *marks = arena_alloc(&s->arena, n * sizeof(*marks) + 1);
	uint64_t n_lost = record_read_number(r);
	int result;

	if (r->error)
		return result_of(r);
	if (!marks)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		marks[i] = (struct phase_mark){ .attempt_id = s->attempt.id,
						.is_exit = changes[i].is_exit,
						.phase = changes[i].phase };
	result = store_mark_phases(s->store, marks, n, s->err);
	for (size_t i = 0; i < n; i++)
		n_lost += marks[i].result == -ENOSPC;
	if (result == 0 && n_lost > 0)
		result = store_add_lost_marks(s->store, s->attempt.id, n_lost, s->err);
	return result;
}

/* Names tell of process and time, and could be those of another user's. */
static void name_of_user(const struct sink *s, char name[EPISODE_NAME_BYTES])
{
	char text[EPISODE_NAME_BYTES];

	snprintf(text, sizeof(text), "%llu:%.170s", (unsigned long long)s->origin.uid, name);
	memcpy(name, text, sizeof(text));
}

static int take_anomaly(struct sink *s, struct record_reader *r)
{
	struct anomaly_evidence evidence;
	struct episode e;
	int change = 0;
	int64_t attempt_id;

	if (s->origin.is_copy)
		r->text_max = EVIDENCE_TEXT_MAX;
	if (record_read_anomaly(r, &e, &evidence, &change) < 0)
		return result_of(r);
	if (s->origin.is_copy) {
		if (!e.worst.job_id)
			return 0; /* of the host the daemon knows more */
		name_of_user(s, e.name);
		episode_set_job(&e, s->attempt.job_id);
	}
	attempt_id = e.worst.job_id ? s->attempt.id : 0; /* else it is of the host */
	if (change == RECORD_RENEWED)
		return store_renew_anomaly(s->store, attempt_id, &e, s->err);
	return store_tell_anomaly(
		s->store, &(struct anomaly_news){ attempt_id, &e, (enum episode_change)change },
		s->err);
}

static int take_evidence(struct sink *s, struct record_reader *r)
{
	struct anomaly_evidence evidence;
	char name[EPISODE_NAME_BYTES];
	const char *told = NULL;

	if (s->origin.is_copy)
		r->text_max = EVIDENCE_TEXT_MAX;
	if (record_read_evidence(r, &told, &evidence) < 0)
		return result_of(r);
	snprintf(name, sizeof(name), "%s", told);
	if (s->origin.is_copy)
		name_of_user(s, name);
	return store_set_evidence(s->store, name, &evidence, s->err);
}

static int take_details(struct sink *s, struct record_reader *r)
{
	struct attempt a = { .id = s->attempt.id };
	const char *why = NULL;

	record_read_details(r, &a, &why);
	return r->error ? result_of(r) : attempt_write_details(s->store, &a, why, s->err);
}

static int take_calls(struct sink *s, struct record_reader *r)
{
	struct attempt a = { .id = s->attempt.id };
	const char *why = NULL;

	record_read_details(r, &a, &why);
	return r->error ? result_of(r)
			: store_add_syscalls(s->store, &a, a.details.syscalls, a.details.n_syscalls,
					     why, s->err);
}

/* No tick comes behind it. */
static int fold_rest(struct sink *s)
{
	int r = fold_all(s->store, s->attempt.id, s->err);

	s->store->writing.recorder = 0; /* its ticks are folded */
	return r;
}

static int take_end(struct sink *s, struct record_reader *r)
{
	struct attempt a;
	int result;

	attempt_init(&a);
	a.id = s->attempt.id;
	record_read_final(r, &a);
	if (r->error)
		return result_of(r);
	if (s->origin.is_copy) {
		uint64_t now = clock_wall_ns();

		a.ended_wall_ns = a.ended_wall_ns < now ? a.ended_wall_ns : now;
		a.n_sheets = a.n_sheets < COPY_MAX_SHEETS ? a.n_sheets : COPY_MAX_SHEETS;
	}
	result = attempt_write_end(s->store, &a, s->err);
	return result < 0 ? result : fold_rest(s);
}

/* Of a host's log: when the daemon stopped. */
static int take_stop(struct sink *s, struct record_reader *r)
{
	uint64_t wall_ns = record_read_number(r);

	if (r->error)
		return result_of(r);
	return query_exec(s->store, STATEMENT_END_DAEMON, s->err, query_as_i64(wall_ns),
			  s->daemon_id);
}

static take_fn *const takers[] = {
	[RECORD_SHEETS] = take_sheets,	   [RECORD_EVENTS] = take_events,
	[RECORD_PHASES] = take_phases,	   [RECORD_ANOMALY] = take_anomaly,
	[RECORD_EVIDENCE] = take_evidence, [RECORD_DETAILS] = take_details,
	[RECORD_END] = take_end,	   [RECORD_CALLS] = take_calls,
};

static take_fn *const host_takers[] = {
	[RECORD_EVENTS] = take_events,	 [RECORD_PHASES] = take_phases,
	[RECORD_ANOMALY] = take_anomaly, [RECORD_EVIDENCE] = take_evidence,
	[RECORD_END] = take_stop,	 [RECORD_CALLS] = take_calls,
};

static void read_boot(const struct log_origin *o, char ret[BOOT_ID_BYTES])
{
	char hex[2 * sizeof(o->boot_id) + 1];
	struct log_id boot; /* 16 bytes in hexadecimal, too */

	memcpy(boot.bytes, o->boot_id, sizeof(boot.bytes));
	log_id_format(&boot, hex);
	snprintf(ret, BOOT_ID_BYTES, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
		 hex + 20);
}

void store_identify_copy(const struct log_origin *o, struct attempt *a)
{
	uint64_t now = clock_wall_ns(), booted = now - clock_boot_ns();
	char host[256] = "";

	read_boot(o, a->boot_id);
	a->uid = o->uid;
	a->runner = (struct proc_key){ o->runner_pid, o->runner_start_ticks };
	a->pid_ns = o->pid_ns;
	a->is_attached = false;
	a->attempt_num = (int)o->attempt_num; /* others have attempts of this job, too */
	a->host = gethostname(host, sizeof(host) - 1) == 0 ? arena_strdup(&a->arena, host) : NULL;
	if (a->started_wall_ns < booted || a->started_wall_ns > now)
		a->started_wall_ns = o->created_wall_ns;
	if (!(a->interval_seconds >= 0 && a->interval_seconds < 86400))
		a->interval_seconds = F64_UNKNOWN;
}

/* A log has it at the beginning of each segment: the row may be there already. */
static int take_begin(struct sink *s, const struct log_frame *frame, bool is_new)
{
	CLEANUP(attempt_release) struct attempt a, before;
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, &a.arena, 0,
				   s->origin.is_copy ? RECORD_FOREIGN_TEXT : 0 };
	int result = 0;

	attempt_init(&a);
	attempt_init(&before);
	tick_decoder_begin_key(s->ticks);
	record_read_begin(&r, &a);
	a.sheets = record_read_sheets(&r, &a.n_sheets);
	if (r.error)
		return result_of(&r);
	if (!a.job_id || !job_id_is_valid(a.job_id))
		return DAMAGED;
	if (s->origin.is_copy) {
		if (s->attempt.id && strcmp(a.job_id, s->attempt.job_id) != 0)
			return DAMAGED;
		store_identify_copy(&s->origin, &a);
		result = bound_sheets(s, &a);
	}
	a.id = s->attempt.id;
	if (result < 0)
		return result;
	if (is_new && a.id)
		result = store_write_sheets(s->store, &a, a.sheets, a.n_sheets, s->err);
	else if (is_new)
		result = attempt_begin(s->store, &a, &s->log, s->err);
	if (result < 0)
		return result;
	before = s->attempt;
	s->attempt = a;
	attempt_init(&a);
	return 0;
}

static int take_tick(struct sink *s, const struct log_frame *frame, bool is_new)
{
	struct series_point point;
	int r = tick_decoder_read(s->ticks, frame->bytes, frame->n, s->attempt.job_id,
				  is_new ? &s->snap : NULL, is_new ? &point : NULL);

	if (r < 0)
		return r == -EBADMSG ? DAMAGED : r;
	if (is_new && s->origin.is_copy && s->snap.wall_ns > clock_wall_ns())
		return DAMAGED;
	return is_new ? store_write_tick(s->store, &s->attempt, &s->snap, &point, s->err) : 0;
}

/* A daemon's log has it at the beginning of each segment. Nobody sends one to another. */
static int take_host(struct sink *s, const struct log_frame *frame, bool is_new)
{
	struct daemon_record d = { 0 };
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, &s->arena, 0, 0 };

	if (s->origin.is_copy || s->attempt.id)
		return DAMAGED;
	s->is_host = true;
	if (!is_new || s->daemon_id)
		return 0;
	record_read_struct(&r, &daemon_columns, &d);
	if (r.error)
		return result_of(&r);
	read_boot(&s->origin, d.boot_id);
	return daemon_begin(s->store, &d, &s->log, &s->daemon_id, s->err);
}

/* A record of a host's log. One about an attempt that is removed goes with that. */
static int take_about(struct sink *s, const struct log_frame *frame)
{
	static const uint8_t host[RECORD_ABOUT_BYTES];
	take_fn *fn = frame->type < ARRAY_SIZE(host_takers) ? host_takers[frame->type] : NULL;
	struct record_reader r = { frame->bytes + RECORD_ABOUT_BYTES, frame->bytes + frame->n,
				   &s->arena, 0, 0 };
	struct stored_log about;
	int result;

	if (!fn)
		return 0;
	if (frame->type == RECORD_END)
		r.p = frame->bytes;
	else if (frame->n < RECORD_ABOUT_BYTES)
		return DAMAGED;
	attempt_release(&s->attempt);
	attempt_init(&s->attempt);
	if (frame->type != RECORD_END && memcmp(frame->bytes, host, sizeof(host)) != 0) {
		result = store_find_log(s->store, frame->bytes, &about, s->err);
		if (result < 0)
			return result == -ENOENT ? 0 : result;
		s->attempt.id = about.attempt_id;
		s->attempt.attempt_num = about.attempt_num;
		s->attempt.uid = about.uid;
		s->attempt.job_id = arena_strdup(&s->attempt.arena, about.job_id);
	}
	result = fn(s, &r);
	return result == -ENOENT ? 0 : result; /* evidence of an anomaly that is removed */
}

static int take(struct sink *s, const struct log_frame *frame, bool is_new)
{
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, &s->arena, 0,
				   s->origin.is_copy ? RECORD_FOREIGN_TEXT : 0 };
	take_fn *fn = frame->type < ARRAY_SIZE(takers) ? takers[frame->type] : NULL;

	arena_reset(&s->arena);
	if (frame->type == RECORD_HOST)
		return take_host(s, frame, is_new);
	if (s->is_host)
		return is_new ? take_about(s, frame) : 0;
	if (frame->type == RECORD_BEGIN)
		return take_begin(s, frame, is_new);
	if (!s->attempt.id)
		return DAMAGED;
	if (frame->type == RECORD_TICK)
		return take_tick(s, frame, is_new);
	return is_new && fn ? fn(s, &r) : 0;
}

/* Rows that were cached are not there any more. */
static void forget_rows(struct store *store)
{
	process_index_clear(&store->process_rows);
	store->writing.recorder = 0;
	map_clear(&store->phase_counts);
}

/* A record that makes no sense, to the decoder or to the database, costs itself alone. */
static int apply(struct sink *s, const struct log_frame *frame)
{
	int r = query_run_alone(s->store, STATEMENT_SAVE, s->err);

	s->is_ready = true;
	if (r == 0)
		r = take(s, frame, true);
	if (r == DAMAGED || r == -EINVAL || r == -ENOENT) {
		s->n_damaged++;
		forget_rows(s->store);
		r = query_run_alone(s->store, STATEMENT_UNDO, s->err);
	}
	if (r == 0)
		r = query_run_alone(s->store, STATEMENT_SAVED, s->err);
	if (r < 0)
		s->failure = r;
	return r;
}

static int sink_frame(void *ctx, const struct log_frame *frame, bool is_new)
{
	int r;

	if (is_new)
		return apply(ctx, frame);
	r = take(ctx, frame, false);
	return r == DAMAGED ? 0 : r; /* it was counted when it was new */
}

static int sink_end(void *ctx, const struct log_frame *end)
{
	struct log_frame frame = *end;

	frame.type = RECORD_END;
	return apply(ctx, &frame);
}

/* ---- the cursor ---- */

/* The columns that both statements read: 0, or -ENOENT. */
static int read_stored(struct query *q, int r, struct stored_log *ret)
{
	const char *job_id;

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	ret->attempt_id = query_read_i64(q);
	ret->offset = (uint64_t)query_read_i64(q);
	ret->is_over = query_read_i64(q);
	ret->uid = (uint64_t)query_read_i64(q);
	ret->attempt_num = (int)query_read_i64(q);
	job_id = query_read_text(q);
	snprintf(ret->job_id, sizeof(ret->job_id), "%s", job_id ? job_id : "");
	return 0;
}

int store_find_log(struct store *store, const uint8_t id[16], struct stored_log *ret,
		   struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	return r < 0 ? r
		     : read_stored(&q,
				   query_find(store, STATEMENT_FIND_LOG, &q, err,
					      V_BYTES(id, LOG_ID_BYTES)),
				   ret);
}

int store_find_log_of(struct store *store, int64_t attempt_id, uint8_t ret_id[16],
		      struct stored_log *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct log_id id;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = read_stored(&q, query_first(store, STATEMENT_FIND_LOG_OF, &q, err, attempt_id),
				ret);
	if (r == 0)
		r = log_id_parse(query_read_text(&q), &id);
	if (r == 0)
		memcpy(ret_id, id.bytes, sizeof(id.bytes));
	return r;
}

/* The row of an attempt, or of a daemon. */
static int find_row(struct sink *s, const struct log_origin *origin, struct log_cursor *ret)
{
	CLEANUP(query_close) struct query q = QUERY_INIT, host = QUERY_INIT;
	struct attempt *a = &s->attempt;
	struct stored_log stored;
	const char *boot_id;
	int r = read_stored(&q,
			    query_find(s->store, STATEMENT_FIND_LOG, &q, s->err,
				       V_BYTES(origin->id.bytes, sizeof(origin->id.bytes))),
			    &stored);

	if (r == -ENOENT && !origin->is_copy) {
		r = query_find(s->store, STATEMENT_FIND_HOST_LOG, &host, s->err,
			       V_BYTES(origin->id.bytes, sizeof(origin->id.bytes)));
		if (r <= 0)
			return r < 0 ? r : -ENOENT;
		s->is_host = true;
		s->daemon_id = query_read_i64(&host);
		ret->offset = (uint64_t)query_read_i64(&host);
		ret->is_over = query_read_i64(&host);
		return 0;
	}
	if (r < 0)
		return r;
	ret->offset = stored.offset;
	ret->is_over = stored.is_over;
	a->id = stored.attempt_id;
	a->uid = stored.uid;
	a->attempt_num = stored.attempt_num;
	a->job_id = arena_strdup(&a->arena, stored.job_id);
	a->started_wall_ns = (uint64_t)query_read_i64(&q);
	a->host = arena_strdup(&a->arena, query_read_text(&q));
	boot_id = query_read_text(&q);
	snprintf(a->boot_id, sizeof(a->boot_id), "%s", boot_id ? boot_id : "");
	a->is_attached = query_read_i64(&q);
	return a->job_id ? 0 : -ENOMEM;
}

static int sink_find(void *ctx, const struct log_origin *origin, struct log_cursor *ret)
{
	struct sink *s = ctx;
	int r;

	s->origin = *origin;
	if (origin->is_copy && s->ticks)
		tick_decoder_distrust(s->ticks);
	r = find_row(s, origin, ret);
	if (r < 0 && r != -ENOENT)
		s->failure = r;
	s->is_ready = ret->is_ready = r == 0 && (s->is_host || s->ready_offset == ret->offset);
	return r;
}

static int note(struct sink *s, const char *what, uint64_t n, const char *of)
{
	CLEANUP(query_close) struct query read = QUERY_INIT;
	char why[128];
	int r = query_find(s->store, STATEMENT_READ_LOG_NOTE, &read, s->err, V_I64(s->attempt.id),
			   V_TEXT(what));

	if (r > 0)
		n += (uint64_t)query_read_i64(&read);
	if (r >= 0)
		r = query_put(s->store, STATEMENT_DROP_LOG_NOTE, s->err, V_I64(s->attempt.id),
			      V_TEXT(what));
	snprintf(why, sizeof(why), "%llu %s", (unsigned long long)n, of);
	return r < 0 ? r
		     : query_put(s->store, STATEMENT_NOTE_UNKNOWN, s->err, V_I64(s->attempt.id),
				 V_TEXT(what), V_TEXT(why));
}

static int sink_move(void *ctx, const struct log_origin *origin, const struct log_cursor *from,
		     const struct log_cursor *to, uint64_t lost_bytes)
{
	struct sink *s = ctx;
	int r;

	if (s->is_host ? !s->daemon_id : !s->attempt.id) /* no beginning among its frames (yet) */
		return -ENOMSG;
	r = query_put(s->store, s->is_host ? STATEMENT_MOVE_HOST_LOG : STATEMENT_MOVE_LOG, s->err,
		      V_I64(query_as_i64(to->offset)), V_I64(to->is_over),
		      V_BYTES(origin->id.bytes, sizeof(origin->id.bytes)),
		      V_I64(query_as_i64(from->offset)), V_I64(from->is_over));
	if (r == 0 && sqlite3_changes(s->store->db) != 1)
		return -EAGAIN;
	if (r == 0 && !s->is_host && s->n_damaged > 0)
		r = note(s, NOTE_DAMAGED_RECORDS, s->n_damaged,
			 "records of its log were damaged, and are left out");
	if (r == 0 && !s->is_host && lost_bytes > 0)
		r = note(s, NOTE_LOST_RECORDS, lost_bytes, "bytes of its log were lost");
	if (r < 0)
		s->failure = r;
	return r;
}

/* ---- whose recorder is gone ---- */

static double folder_quiet_seconds(const struct folder *f);

static bool is_own_boot(const uint8_t boot_id[16])
{
	static const uint8_t unknown[16];
	char own[ALIVE_BOOT_ID_BYTES];
	uint8_t parsed[16] = { 0 };

	proc_boot_id(own);
	log_boot_id_parse(own, parsed);
	return memcmp(boot_id, unknown, sizeof(unknown)) != 0 &&
	       memcmp(boot_id, parsed, sizeof(parsed)) == 0;
}

/*
 * The lock of a log is free, and it has no end. 1: its recorder is dead, as it is one of this host
 * (of this boot, or of one before it), or has been quiet for long. 0: another host may write on,
 * whose locks need not be seen here; of a copy, its runner or who it has left may send more; of an
 * attached tree the next daemon of this boot continues it.
 */
static int sink_is_gone(void *ctx, const struct log_origin *origin)
{
	struct sink *s = ctx;
	uint64_t now = clock_wall_ns(), sign_ns = origin->created_wall_ns;
	char host[256] = "";
	int r;

	if (origin->is_copy)
		return !is_own_boot(origin->boot_id) ||
		       (!proc_is_alive("", origin->runner_pid, origin->runner_start_ticks) &&
			folder_quiet_seconds(s->folder) > COPY_QUIET_SECONDS);
	if (is_own_boot(origin->boot_id))
		return s->is_host || !s->attempt.is_attached;
	if (s->is_host)
		return folder_quiet_seconds(s->folder) > (double)QUIET_NS / 1e9;
	if (s->attempt.host && gethostname(host, sizeof(host) - 1) == 0 &&
	    strcmp(host, s->attempt.host) == 0)
		return 1;
	if (s->attempt.id) {
		r = attempt_read_last_sign(s->store, &s->attempt, &sign_ns, s->err);
		if (r < 0) {
			s->failure = r;
			return r;
		}
	}
	return sign_ns < now && now - sign_ns > QUIET_NS;
}

static int sink_lost(void *ctx)
{
	struct sink *s = ctx;
	int r = s->attempt.id && !s->is_host ? fold_rest(s) : 0;

	if (r < 0)
		s->failure = r;
	return r;
}

/* ---- the folder ---- */

/* What is known of a log. */
struct entry {
	struct log_listed *listed;
	uint64_t created_wall_ns;
	bool has_news, is_readable;
	bool is_host;		  /* its records are about the attempts of other logs, too */
	struct log_cursor cursor; /* where it stands when the transaction is committed */
	bool is_stored;		  /* up to there */
};

struct folder {
	int fd;
	struct log_folder logs;
	struct entry *entries; /* of logs.n, as folder_look() found them */
};

static void folder_release(struct folder *f)
{
	close_fd(&f->fd);
	log_folder_release(&f->logs);
	free(f->entries);
}

/* -ENOENT: there is none, or it is not for us. */
static int folder_open(const char *db_path, struct folder *ret)
{
	CLEANUP(free_ptr) char *path = NULL;
	struct stat st, db;

	if (asprintf(&path, "%s-logs", db_path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	*ret = (struct folder){ .fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
	if (ret->fd < 0)
		return errno == ENOENT ? -ENOENT : -errno;
	if (fstat(ret->fd, &st) < 0 ||
	    (st.st_uid != geteuid() && stat(db_path, &db) == 0 && db.st_uid != st.st_uid)) {
		close_fd(&ret->fd);
		return -ENOENT;
	}
	log_folder_init(&ret->logs, ret->fd);
	return 0;
}

/* Since something was written to the current log. */
static double folder_quiet_seconds(const struct folder *f)
{
	double quiet = HUGE_VAL;
	struct stat st;

	for (size_t i = 0; i < f->logs.current->n; i++)
		if (fstatat(f->fd, f->logs.names[f->logs.current->first + i], &st,
			    AT_SYMLINK_NOFOLLOW) == 0)
			quiet = fmin(quiet, difftime(time(NULL), st.st_mtim.tv_sec));
	return quiet;
}

/* ---- what is new ---- */

static void sink_init(struct sink *s, struct store *store, struct err *err)
{
	*s = (struct sink){
		.store = store, .err = err, .arena = ARENA_INIT, .ready_offset = UINT64_MAX
	};
	attempt_init(&s->attempt);
	snapshot_init(&s->snap);
}

static void sink_release(struct sink *s)
{
	attempt_release(&s->attempt);
	tick_decoder_free(s->ticks);
	snapshot_release(&s->snap);
	arena_release(&s->arena);
}

static int stop(void *ctx, const struct log_frame *frame)
{
	bool *ret_is_host = ctx; /* NULL: that does not matter */

	if (ret_is_host)
		*ret_is_host |= frame->type == RECORD_HOST;
	return 1;
}

/* Opens it, and reads no more than its head and tail. */
static void look_at_log(struct folder *f, struct store *store, struct entry *e)
{
	CLEANUP(sink_release) struct sink s;
	struct log_cursor cursor = { 0 };
	struct log_read_result read;
	struct log_reader *r;
	int alive, has_end, found;

	sink_init(&s, store, NULL);
	s.folder = f;
	f->logs.current = e->listed;
	if (log_reader_open(&f->logs.fs, &e->listed->id, &r, NULL) < 0)
		return;
	e->is_readable = true;
	e->created_wall_ns = log_reader_origin(r)->created_wall_ns;
	found = sink_find(&s, log_reader_origin(r), &cursor);
	e->is_host = s.is_host;
	alive = log_is_alive(r);
	e->listed->is_alive = alive != 0;
	if (alive == 0)
		alive = !sink_is_gone(&s, log_reader_origin(r));
	has_end = log_read_end(r, alive != 0, NULL, NULL);
	e->has_news = (found < 0 && found != -ENOENT) || cursor.is_over || has_end != 0 ||
		      log_read(r, cursor.offset, alive != 0, stop, &e->is_host, &read) > 0 ||
		      (alive == 0 && sink_is_gone(&s, log_reader_origin(r)) != 0);
	log_reader_close(r);
}

/* The current logs, and which of them have news. 1: some have. */
static int folder_look(struct folder *f, struct store *store)
{
	int r = log_folder_list(&f->logs), has_news = 0;

	f->entries = r == 0 ? calloc(f->logs.n + 1, sizeof(*f->entries)) : NULL;
	if (r == 0 && !f->entries)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < f->logs.n; i++) {
		f->entries[i].listed = &f->logs.logs[i];
		look_at_log(f, store, &f->entries[i]);
		has_news |= f->entries[i].has_news;
	}
	return r < 0 ? r : has_news;
}

/* The logs beside the database, or none. */
static void folder_list(const char *db_path, struct folder *ret)
{
	if (folder_open(db_path, ret) < 0 || log_folder_list(&ret->logs) < 0)
		ret->logs.n = ret->logs.n_names = 0;
}

bool ingest_has_logs(const char *db_path)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };

	folder_list(db_path, &f);
	return f.logs.n > 0;
}

uint64_t ingest_count_bytes(const char *db_path)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };
	uint64_t n = 0;
	struct stat st;

	folder_list(db_path, &f);
	for (size_t i = 0; i < f.logs.n_names; i++)
		if (fstatat(f.fd, f.logs.names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			n += (uint64_t)st.st_size;
	return n;
}

bool ingest_has_news(struct store *store)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };

	return folder_open(store->path, &f) == 0 && folder_look(&f, store) > 0;
}

bool ingest_is_behind(struct store *store, int64_t attempt_id)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };
	struct log_read_result read;
	struct stored_log stored;
	struct log_reader *r;
	struct log_id id;
	bool is_behind;

	if (store_find_log_of(store, attempt_id, id.bytes, &stored, NULL) < 0 || stored.is_over ||
	    folder_open(store->path, &f) < 0 || log_reader_open(&f.logs.real, &id, &r, NULL) < 0)
		return false;
	is_behind = log_read_end(r, false, NULL, NULL) > 0 ||
		    log_read(r, stored.offset, false, stop, NULL, &read) > 0;
	log_reader_close(r);
	return is_behind;
}

size_t store_count_unreadable_logs(const char *path)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };
	size_t n = 0;

	folder_list(path, &f);
	for (size_t i = 0; i < f.logs.n; i++) {
		struct log_reader *r = NULL;

		f.logs.current = &f.logs.logs[i];
		n += log_reader_open(&f.logs.fs, &f.logs.logs[i].id, &r, NULL) < 0;
		log_reader_close(r);
	}
	return n;
}

/* ---- ingesting ---- */

/*
 * Of a log that grows: else all of its last segment would be read again for each record. One that
 * was given no new frame may lack a segment: others have stored it since the files were listed.
 */
static void take_decoder(struct store *store, struct sink *s)
{
	for (size_t i = 0; i < LOG_DECODERS; i++) {
		struct log_decoder *d = &store->decoders[i];

		if (!d->ticks || memcmp(&d->id, &s->log, sizeof(d->id)) != 0)
			continue;
		s->ready_offset = d->offset;
		s->ticks = TAKE_PTR(d->ticks);
		return;
	}
	s->ticks = tick_decoder_new();
}

static void keep_decoder(struct store *store, struct sink *s, uint64_t offset)
{
	struct log_decoder *d = &store->decoders[store->next_decoder++ % LOG_DECODERS];

	tick_decoder_free(d->ticks);
	*d = (struct log_decoder){ s->log, offset, s->ticks };
	s->ticks = NULL;
}

/*
 * Inside the transaction. 1: there is more. A log that cannot be read, or has no beginning, is left
 * as it is, and is no failure.
 */
static int ingest_log(struct folder *f, struct store *store, struct entry *e, struct err *err)
{
	CLEANUP(sink_release) struct sink s;
	const struct log_sink sink = { &s,	     sink_find, sink_frame, sink_end,
				       sink_is_gone, sink_lost, sink_move };
	int r, undone = 0;

	sink_init(&s, store, err);
	s.log = e->listed->id;
	s.folder = f;
	take_decoder(store, &s);
	store->writing.before_id = 0;  /* others may have added ticks behind the last of ours, */
	store->writing.n_pending = -1; /* or folded some */
	f->logs.current = e->listed;
	r = s.ticks ? query_run_alone(store, STATEMENT_SAVE, err) : -ENOMEM;
	if (r < 0)
		return r;
	r = log_ingest(&f->logs.fs, &e->listed->id, &sink, BATCH_BYTES, &e->cursor, NULL);
	if (s.failure)
		return s.failure;
	if (r < 0) {
		forget_rows(store);
		undone = query_run_alone(store, STATEMENT_UNDO, err);
		e->is_readable = false;
	}
	e->is_stored = r >= 0;
	if (r == -ENOMSG && s.origin.is_copy && sink_is_gone(&s, &s.origin))
		e->is_stored = e->cursor.is_over = true; /* nothing began: it is removed */
	if (r >= 0 && !e->cursor.is_over && s.is_ready && !s.is_host)
		keep_decoder(store, &s, e->cursor.offset);
	if (undone == 0)
		undone = query_run_alone(store, STATEMENT_SAVED, err);
	return undone < 0 ? undone : r > 0;
}

static int run_batch(struct folder *f, struct store *store, size_t *at, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	uint64_t began_ns = clock_boot_ns();
	bool syncs_log = store->syncs_log;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r < 0)
		return r;
	store->is_batch = true;
	while (r == 0 && *at < f->logs.n && clock_boot_ns() - began_ns < BATCH_NS) {
		struct entry *e = &f->entries[*at];

		r = e->has_news && e->listed->n > 0 ? ingest_log(f, store, e, err) : 0;
		*at += r == 0;
	}
	store->is_batch = false;
	store->syncs_log = false; /* the log has it all until remove_stored() */
	r = r < 0 ? r : txn_commit(&txn, err);
	store->syncs_log = syncs_log;
	if (r < 0)
		forget_rows(store);
	return r;
}

/*
 * A daemon that follows the logs holds a lock on the folder: then it alone removes some, and none
 * that it may not have read, as it was written to since.
 */
static bool may_remove(const struct folder *f, const struct entry *e, uint64_t followed_wall_ns)
{
	struct stat st;

	if (flock(f->fd, LOCK_SH | LOCK_NB) == 0) {
		(void)flock(f->fd, LOCK_UN);
		return true;
	}
	if (errno != EWOULDBLOCK)
		return true; /* a file system without locks */
	for (size_t i = 0; i < e->listed->n - !e->cursor.is_over; i++)
		if (fstatat(f->fd, f->logs.names[e->listed->first + i], &st, AT_SYMLINK_NOFOLLOW) ==
			    0 &&
		    (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec +
				    CLOCK_GRAIN_NS >=
			    followed_wall_ns)
			return false;
	return true;
}

/* What is stored, and on the disk. A copy in memory is neither. */
static void remove_stored(struct folder *f, struct store *store)
{
	uint64_t began_ns = clock_boot_ns();
	bool is_due = false;

	for (size_t i = 0; i < f->logs.n; i++)
		is_due |= f->entries[i].is_stored &&
			  (f->entries[i].cursor.is_over || f->entries[i].listed->n > 1);
	store->wants_sweep |= is_due && store->leaves_disk;
	if (!is_due || store->is_copy || store->leaves_disk)
		return;
	store->is_unsettled = true; /* also where another process has stored it */
	if (store_settle(store) < 0)
		return;
	for (size_t i = 0; i < f->logs.n && clock_boot_ns() - began_ns < REMOVE_NS; i++) {
		struct entry *e = &f->entries[i];

		f->logs.current = e->listed;
		if (e->is_stored && (e->cursor.is_over || e->listed->n > 1) &&
		    may_remove(f, e, store->followed_wall_ns))
			log_remove(&f->logs.fs, &e->listed->id, e->cursor.offset,
				   e->cursor.is_over);
		e->is_stored = false;
	}
}

/* What a host's log is about is stored before it. */
static int by_creation(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->is_host != y->is_host)
		return x->is_host - y->is_host;
	if (x->created_wall_ns != y->created_wall_ns)
		return x->created_wall_ns < y->created_wall_ns ? -1 : 1;
	return memcmp(&x->listed->id, &y->listed->id, sizeof(x->listed->id));
}

int ingest_logs(struct store *store, struct err *err)
{
	CLEANUP(folder_release) struct folder f = { .fd = -1 };
	size_t at = 0;
	bool has_unreadable = false;
	int r = folder_open(store->path, &f), n = 0;

	if (r < 0)
		return r == -ENOENT ? 0
				    : err_set(err, r, "%s-logs cannot be read: %s", store->path,
					      strerror(-r));
	r = folder_look(&f, store);
	if (r > 0)
		r = log_folder_judge(&f.logs);
	if (r < 0)
		return err_set(err, r, "%s-logs cannot be read: %s", store->path, strerror(-r));
	for (size_t i = 0; i < f.logs.n; i++) {
		n += f.entries[i].has_news;
		has_unreadable |= !f.entries[i].is_readable;
	}
	if (has_unreadable)
		log_sweep(&f.logs.real);
	if (n == 0)
		return 0;
	qsort(f.entries, f.logs.n, sizeof(*f.entries), by_creation);
	while (r == 0 && at < f.logs.n) {
		r = run_batch(&f, store, &at, err);
		if (r == 0)
			remove_stored(&f, store);
	}
	return r < 0 ? r : n;
}

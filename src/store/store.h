/*
 * store - what outlives the process that measured it.
 *
 * One file, shared by any number of writers and readers. Each call that writes
 * is one short transaction, durable when it returns (but after
 * store_leave_disk(), and for what store_check_disk() says). Nothing is
 * kept of a call that failed, and the next one works as if it had not been. Who has to wait for
 * another waits as long as its lock timeout (-EBUSY then). Not thread-safe: one
 * handle, one thread; and a handle is not carried over a fork. What was written
 * last may be in the file's -wal: who copies the file copies that too.
 *
 * Beside it stands the log of snapshots: jsonl/jsonl.h writes and follows it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/jsonl/jsonl.h"
#include "store/learned.h"	       /* what was made of it */
#include "store/sql/sql.h"	       /* the same in SQL */
#include "store/retention/retention.h" /* what becomes of what is old */

struct store;

enum store_mode {
	STORE_READ, /* -ENOENT when nothing was recorded yet; what logs have is stored first */
	STORE_READ_AS_IS, /* the same without that */
	STORE_WRITE,	  /* makes the file (0600) */
};

/*
 * -EACCES, -EROFS…: cannot be read or written. -EPROTO: it has another
 * layout (db/db.h). -EMEDIUMTYPE: made by another program. -EBADMSG: damaged, or not a
 * database. err says it in one sentence.
 */
int store_open(const char *path, enum store_mode mode, struct store **ret, struct err *err);
struct store *store_close(struct store *store); /* NULL is fine. Returns NULL. */
void store_closep(struct store **store);	/* for CLEANUP() */

/*
 * Closing leaves a short log beside the database, as copying it costs more than a short run. After
 * this it is copied, unless somebody else has the database open.
 */
void store_leave_no_log(struct store *store);

/*
 * The lock timeout: for how long a call, all in all, waits until others release the file; 0 tries
 * once. Default 5000 ms. Time that the disk takes is not waiting and has no bound.
 */
int store_open_timeout(const char *path, enum store_mode mode, unsigned timeout_ms,
		       struct store **ret, struct err *err);
void store_set_lock_timeout(struct store *store, unsigned ms);

/* The same for all calls from now on together: what one has waited the others do not. */
void store_share_lock_timeout(struct store *store, unsigned ms);

/*
 * Whether the runner of an attempt (its host, boot_id, pid_ns and runner) still
 * lives. The store looks at no process itself: who opens it hands this in. An
 * attempt without an end is lost when its runner is dead, or when nobody can tell
 * and nothing was written for 10 intervals and 60 s. Without a check every such
 * attempt counts as running. fn does not use the store. It is asked of a daemon, too: as
 * of an attempt without a name, host and pid_ns, whose runner it is.
 */
enum store_alive { STORE_DEAD, STORE_ALIVE, STORE_CANNOT_TELL };
typedef enum store_alive store_alive_fn(void *ctx, const struct attempt *a);
void store_set_alive_check(struct store *store, store_alive_fn *fn, void *ctx);

/* ---- logs ---- */

/*
 * Recorders append to logs (log/log.h) in the folder PATH-logs beside the database. This stores
 * what is new in them, each record once, and removes what is stored and on the disk. store_open()
 * does so itself; a process that has the database open for long calls it now and then, which costs
 * little if nothing is new. A handle that reads needs a moment in which the database can be
 * written. Waits for nobody: what cannot be stored now (the database is locked) is later. Returns
 * the number of logs that had something new, or a failure: then nothing is lost.
 *
 * A damaged record costs that record: a note of its attempt counts them. An attempt that was
 * removed while its log is still there begins anew with the next LOG_KEY.
 */
int store_take_in(struct store *store, struct err *err);

/* What is stored of the log with this id (log/log.h). -ENOENT: nothing. */
struct stored_log {
	int64_t attempt_id;
	int attempt_num;
	char job_id[JOB_ID_MAX + 1];
	uint64_t uid;
	uint64_t offset; /* records before it */
	bool is_over;	 /* and all that it will ever have */
};
int store_find_log(struct store *store, const uint8_t id[16], struct stored_log *ret,
		   struct err *err);

/* The other way: the log of an attempt, without job and number. -ENOENT: it has none. */
int store_find_log_of(struct store *store, int64_t attempt_id, uint8_t ret_id[16],
		      struct stored_log *ret, struct err *err);

/* Whose a copy (log_origin) is, who runs it and where: by the kernel's word, whatever its records
 * say. */
struct log_origin;
void store_identify_copy(const struct log_origin *origin, struct attempt *a);

/* How many logs beside the database cannot be read at all: they are left alone. */
size_t store_count_unreadable_logs(const char *path);

/* ---- writing: what ingest does with the records of logs ---- */

/* Tries of sheets begin or end: rows (attempt, num, try) are added or replaced, with their ranks;
 * also the attempt's progress. */
int store_write_sheets(struct store *store, const struct attempt *a,
		       const struct sheet_record *sheets, size_t n, struct err *err);

/*
 * One tick of an attempt, in one transaction: the host's values, and the samples of its processes;
 * those of other jobs, by name, are left out. point is for charts; NULL: there is none.
 */
int store_write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		     const struct series_point *point, struct err *err);

int store_write_events(struct store *store, const struct attempt *a,
		       const struct proc_event *events, size_t n, struct err *err);

/*
 * What its processes have called, all together, beside what was added before. A runner that has
 * counted by itself does so before its end; from then on nobody adds to it. To an
 * attached job the daemon adds after its end as well. What each of a->processes has called, of
 * which only the key and syscalls count, stands beside it where it is listed and nobody has said so
 * before. Where they are not all, why is noted among
 * what is unknown of the attempt; NULL: they are.
 */
int store_add_syscalls(struct store *store, const struct attempt *a, const struct syscall_use *uses,
		       size_t n, const char *why_not_all, struct err *err);

/* ---- reading ---- */

/*
 * What is damaged does not keep the rest from being read: it is left out, and counted.
 * This tells of what the handle has met since it was asked last, in words: how much of
 * whom, from when to when. False, and nothing is added, if that is nothing.
 */
bool store_tell_damage(struct store *store, struct buf *out);

struct attempt_list {
	struct attempt *items; /* by their start, the oldest first; without sheets, processes,
				  events, series */
	size_t n;
	struct arena arena; /* owns the items' strings */
};
void attempt_list_release(struct attempt_list *list);

struct attempt_filter {
	const char *job_id;	/* NULL: any */
	uint64_t since_wall_ns; /* 0: any; else those that ended later than this or still run; of
				   a lost one the last sign of life counts */
	bool latest_only;	/* only the last attempt of each user's job */
	bool running_only;	/* only those without an end, lost ones among them; takes no time
				   for others, and cannot be combined with latest_only */
	const uint64_t *uid; /* NULL: anybody's; else those of this user; not with running_only */
	uint64_t submission; /* 0: any; else those of this one and of uid, which must be given; all
				but limit is passed over then */
	size_t limit;	     /* 0: no limit; else the newest so many */
	bool is_strict;	     /* -EBADMSG: one makes no sense; else such are left out, and
				store_tell_damage() tells of them */
};

int store_list_attempts(struct store *store, const struct attempt_filter *filter,
			struct attempt_list *ret, struct err *err);

/*
 * Everything about one attempt, as of one moment; num 0 is the latest. -ENOENT:
 * no such job or attempt. ret is overwritten (release what it held before), and
 * untouched on failure. Processes that no end has told of (the attempt runs, or
 * there was room for its bare end alone) are what their samples tell.
 */
int store_read_attempt(struct store *store, const char *job_id, int num, struct attempt *ret,
		       struct err *err);

/* The same, but only how far it is: the attempt and its sheets. */
int store_read_progress(struct store *store, const char *job_id, int num, struct attempt *ret,
			struct err *err);

/* One recorded sample: when, whose, and the values. */
struct history_row {
	uint64_t wall_ns;
	int attempt_num;
	double resolution_seconds; /* as in a snapshot: 60 for a minute (minute_row_sample()) */
	uint64_t n_samples;	   /* that stand behind it: 1, or those of the minute */
	struct proc_sample sample; /* its pointers are valid during the call only */
};
typedef int history_fn(void *ctx,
		       const struct history_row *row); /* non-zero stops and is returned */

struct history_filter {
	const char *job_id; /* NULL: any */
	pid_t pid;	    /* 0: any */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	bool with_minutes;	/* also of what is not there as samples any more */
};

/*
 * Calls fn for every sample that matches, oldest first, of the ticks that were
 * there when it was called. Nothing is locked while fn runs: it may take its
 * time, and what retention removes meanwhile is left out. The lock timeout is for
 * each fold that is read. Of a process that changes its name for ever only the
 * first 64 names are told apart.
 */
int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err);

/*
 * The same a minute at a time, for as long as rollups are kept. Where every sample is still there
 * the minutes are made of those, so it does not show where one ends and the other begins. Of the
 * filter's time whole minutes count, the first and the last of them too.
 */

/* Over the samples that knew it; NaN where none did. */
struct sample_averages {
#define SAMPLE_GAUGE(kind_, member_, ...) double member_;
#include "model/sample_fields.def"
};

/* One process in one minute. */
struct minute_row {
	uint64_t wall_ns; /* when the minute begins */
	int attempt_num;
	int64_t attempt_id;
	int64_t process; /* its row */
	uint64_t n_samples;
	struct sample_averages avg;
	struct proc_sample min, max; /* of what has an average; all else is unknown */
	struct proc_sample last;     /* who it is, and each value as it was known last in this
					minute, but the age; its pointers are valid during the call */
};
typedef int minute_fn(void *ctx, const struct minute_row *row); /* non-zero stops, is returned */

/* What a minute's values stand for, beside those of samples. */
#define MINUTE_SECONDS 60.0

/*
 * A minute as one sample: the averages of what goes up and down, to the byte; the largest
 * high-water mark; of all else the last, and the age unknown.
 */
void minute_row_sample(const struct minute_row *row, struct proc_sample *ret);

/*
 * Calls fn for every process and minute that matches, by time and then in the
 * order in which processes were first seen. Nothing is locked while fn runs.
 * When the clock was set back a minute may come twice in a process's life: that
 * is one row.
 */
int store_read_minutes(struct store *store, const struct history_filter *filter, minute_fn *fn,
		       void *ctx, struct err *err);

/* snap is valid during the call only. Non-zero stops and is returned. */
typedef int snapshot_fn(void *ctx, const struct snapshot *snap);

struct snapshot_filter {
	const char *job_id; /* NULL: any; else those that cover it, with its processes alone */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	size_t limit;		/* 0: all; else of the newest so many; not with minutes */
	bool with_minutes;	/* as above: a snapshot of each minute, of processes and GPUs */
	bool with_attempts;	/* attempt_id of processes, as those of now have it; else it is 0 */
};

/*
 * Calls fn for every snapshot as it was written, oldest first; otherwise the same. They are of
 * several recorders, each with the jobs that it has looked at: snap->covers says which.
 */
int store_read_snapshots(struct store *store, const struct snapshot_filter *filter, snapshot_fn *fn,
			 void *ctx, struct err *err);

/* One event of a process: whose, and what. Its pointers are valid during the call only. */
struct event_row {
	int64_t id, attempt_id;
	uint64_t uid;	  /* of the attempt's owner */
	bool is_attached; /* the attempt is */
	int attempt_num;
	struct proc_event event;
};
typedef int event_fn(void *ctx, const struct event_row *row); /* non-zero stops and is returned */

struct event_filter {
	const char *job_id; /* NULL: any */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	int64_t attempt_id;	/* of store_read_events(): of this one alone; 0: of any */
};

/*
 * Calls fn for every event that matches, oldest first, of those that were there
 * when it was called; one whose time is unknown is not told. Nothing is locked
 * while fn runs, and it may use the store.
 */
int store_read_events(struct store *store, const struct event_filter *filter, event_fn *fn,
		      void *ctx, struct err *err);

struct orphan_filter {
	const char *boot_id; /* of this boot: the pids are none of another */
	int64_t attempt_id;  /* 0: of any */
	size_t n_most;	     /* the newest of them */
};

/*
 * Events that tell of a process that outlives its job, of attempts that are over or
 * whose runner is gone, the newest first.
 * fn is called inside of a transaction, and must not use the store.
 */
int store_read_orphans(struct store *store, const struct orphan_filter *filter, event_fn *fn,
		       void *ctx, struct err *err);

/*
 * An attempt lists no more than so many events (jobs/tally.h), and says how many it has left out.
 * 1: there are such attempts among those of the filter, and out has them in words. 0: there are
 * none.
 */
int store_tell_cut_events(struct store *store, const struct event_filter *filter, struct buf *out,
			  struct err *err);

/*
 * The same as store_read_events() for what was written after the event *after_id, in the order in
 * which it was written, whatever its time; *after_id is then the newest. So who begins with 0, or
 * with what an earlier call left there, misses nothing and gets nothing twice. fn NULL: only
 * *after_id is set.
 */
int store_follow_events(struct store *store, const char *job_id, int64_t *after_id, event_fn *fn,
			void *ctx, struct err *err);

/* ---- phases ---- */

#define PHASES_PER_RANK 10000 /* of an attempt; what is of no rank counts as one of them */

/* Whether one of two processes descends from the other. */
typedef bool phase_kin_fn(void *ctx, pid_t a, pid_t b);

/* A process of an attempt enters a phase, below those that it is in, or leaves one. */
struct phase_mark {
	int64_t attempt_id;
	bool is_exit;
	struct phase_record phase; /* name, pid, rank, and when it is entered or left */
	phase_kin_fn *are_kin;	   /* a phase that another has entered may be left: one of the
				      same rank, or one that this says. NULL: it may not */
	void *ctx;
	int result; /* set: 0. -ENOSPC: it is in 32 already, or its rank has had PHASES_PER_RANK.
		       -ENOENT: it is in none of that name */
	pid_t entered_by; /* set for -ENOENT: who is in one of that name; 0: nobody */
};

/* All of them in one transaction. What fails for one of them does not keep the others back. */
int store_mark_phases(struct store *store, struct phase_mark *marks, size_t n, struct err *err);

/* Notes that so many marks of an attempt were lost before they came here. */
int store_add_lost_marks(struct store *store, int64_t attempt_id, uint64_t n, struct err *err);

struct phase_row {
	int64_t id;
	const char *job_id;
	int attempt_num;
	struct phase_record phase;
};
struct phase_list {
	struct phase_row *items; /* in the order in which they were entered */
	size_t n;
	struct arena arena;
};
void phase_list_release(struct phase_list *list);

/* Those that were entered or left since then. A process that dies leaves all of its own. */
int store_list_phases(struct store *store, const struct event_filter *filter,
		      struct phase_list *ret, struct err *err);

/* ---- anomalies ---- */

struct anomaly_news {
	int64_t attempt_id; /* 0: of none */
	const struct episode *episode;
	enum episode_change change;
};

/*
 * An episode as it is now: added when it begins, changed when it escalates and when it clears.
 * Evidence that was written once stays where the episode has none. What another has begun and
 * that lasts stays one row (anomalies.c). One that began is also counted as a pattern,
 * RESOURCE_ANOMALY.
 */
int store_tell_anomaly(struct store *store, const struct anomaly_news *news, struct err *err);

/*
 * What lasts, as it is by now, where its row has it less bad or as having come less often. One that
 * is not there, or is over, is left alone.
 */
int store_renew_anomaly(struct store *store, int64_t attempt_id, const struct episode *e,
			struct err *err);

/* More was found out about the culprit of an episode that was written. -ENOENT: it was not. */
int store_set_evidence(struct store *store, const char *episode,
		       const struct anomaly_evidence *evidence, struct err *err);

/* One episode, and of which attempt (0: of none). Its pointers are valid during the call only. */
struct anomaly_row {
	int attempt_num;
	struct episode episode;
	const struct episode_moment *changes; /* oldest first */
	size_t n_changes;		      /* 0: nobody asked */
};
typedef int anomaly_fn(void *ctx, const struct anomaly_row *row); /* non-zero stops */

struct anomaly_filter {
	const char *job_id;	  /* NULL: any, and those of no job */
	int attempt_num;	  /* 0: any */
	uint64_t since_wall_ns;	  /* when it began */
	uint64_t until_wall_ns;	  /* 0: no end */
	uint64_t lasting_wall_ns; /* 0: any; else those that were not over by then, whose cost is
				     that of these alone */
	bool with_changes;	  /* what was told of each, and when */
};

/* Calls fn for every episode that matches, oldest first; otherwise as store_read_events(). */
int store_read_anomalies(struct store *store, const struct anomaly_filter *filter, anomaly_fn *fn,
			 void *ctx, struct err *err);

/* ---- looking after the file ---- */

/*
 * 0: the disk has refused nothing of what was written through this handle. Else the errno with
 * which it has: it is there for all who read, and is brought to the disk with what is written next,
 * but a power cut before that loses it. Takes no time, and waits for nothing that is under way.
 */
int store_check_disk(struct store *store, struct err *err);

/*
 * From now on this handle leaves the disk to store_sweep(), on another thread. What it commits is
 * there for everybody, and outlives us, when a call returns. It is on the disk when a sweep that
 * began after that is over; until then logs have all that was ingested. Some calls wait all the
 * same: one that begins the write-ahead log anew (once a MiB), and one that writes after the disk
 * has refused something.
 */
void store_leave_disk(struct store *store);

/* Whether something was committed, or a log is to be removed, that a sweep is needed for. */
bool store_wants_sweep(struct store *store);

struct store_swept {
	int result;	  /* 0; else nothing was done (-EBUSY: it is locked) */
	int disk_error;	  /* an errno with which the disk has refused what was committed; 0 */
	uint64_t wait_ns; /* how long it was waited for */
};

/*
 * On any thread: brings what was committed to the disk, copies the write-ahead log into the
 * database and removes logs that are stored and were not written to since followed_wall_ns: what
 * they had by then was read by the caller. Before it, and with what came of it after it, the handle
 * that has left this is told.
 */
struct store_swept store_sweep(const char *path, uint64_t followed_wall_ns);
void store_begin_sweep(struct store *store);
void store_end_sweep(struct store *store, const struct store_swept *swept);

/*
 * Whether a database that is there could be written: 0, or the errno and in err
 * why not. Changes nothing. This process must not have it open: it would lose its
 * locks.
 */
int store_check_access(const char *path, struct err *err);

/*
 * Looks for damage: in the file as SQLite sees it, and by reading all that is in
 * it. -EBADMSG: there is some, and err says where. -EUCLEAN: the file is sound, and some
 * values in it are not: the rest can be used as ever. -ETIMEDOUT: nothing was found
 * in max_ms, which was too short to see all; 0 is no limit. -ENODATA: it is
 * sound, but its write-ahead log is not, and what was written last is lost; or
 * there are events or anomalies of types that are not known here.
 * Writers wait for it only where there is no such log.
 */
int store_check(struct store *store, unsigned max_ms, struct err *err);

/*
 * Moves a damaged database aside, with its -wal, -shm and -journal, beside where
 * it was; one of which a part can be used (-EUCLEAN) only with all. *ret_path is its new path, the
 * caller frees it. Nothing is deleted or overwritten, and an empty database takes the old one's
 * place. Refused with -EALREADY: store_check() finds it sound; -ENOENT: there is none, or it is
 * empty; -EBUSY: another process has it open; and with what store_open() says of
 * one that is not ours to judge. This process must not have it open.
 */
int store_quarantine(const char *path, bool all, char **ret_path, struct err *err);

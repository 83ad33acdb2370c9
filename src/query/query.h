/*
 * query - recorded data assembled for a reader: pages of it as JSON, events by time, the ranks
 * of a job, and what can be learned from past runs.
 *
 * It joins store/, learn/, detect/ and crossrank/ for cli/, daemon/, tui/ and web/. It has no state
 * of its own and no loop: each function is given the store that it reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mask.h"
#include "bus/bus.h"
#include "detect/detect.h"
#include "learn/learn.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "store/store.h"

/*
 * ---- records - what was recorded, in the order of time: begins and ends of attempts and sheets,
 * phases, changes of anomalies, events of processes, and snapshots.
 *
 * All that shows a sequence of records reads them here: "events", "top" without a daemon,
 * "top --history", and the daemon's answers. Events of processes and snapshots are read from the
 * store as they are passed on, as there may be more of them than memory holds.
 */

/* Valid during the call that it is given to. */
struct records_item {
	uint64_t wall_ns;
	const char *job_id; /* NULL: of none */
	int attempt_num;    /* 0: of none */
	bool is_past;	    /* from before the time that is asked for; see keeps_state */

	/* One of these: */
	const struct attempt *attempt; /* the change of it, or of a sheet of it */
	const struct sheet_record *sheet;
	enum change change;

	const struct phase_row *phase;
	bool is_enter;

	const struct episode *episode; /* an anomaly, as it was at the change */
	enum episode_change episode_change;

	const struct event_row *event; /* of a process */
	const struct snapshot *snapshot;
};

/* Non-zero stops and is returned. */
typedef int records_fn(void *ctx, const struct records_item *item);

struct records_filter {
	const char *job_id; /* NULL: any */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	bool with_snapshots;
	bool keeps_state;  /* also changes before that time of what lasted into it, as past */
	bool is_following; /* each further read has what was recorded since the one before, also
			      what happened earlier and was written late; nothing comes twice */
	bool is_from_now;  /* the first read has nothing of what was recorded before */
};

struct records;

/* Reads nothing yet. The store and the job are borrowed. NULL: no memory. */
struct records *records_new(struct store *store, const struct records_filter *filter);
struct records *records_free(struct records *t);

/* Passes on what comes next up to a time (UINT64_MAX: all). One that follows ingests nothing: its
 * caller does. */
int records_read(struct records *t, uint64_t until_ns, records_fn *fn, void *ctx, struct err *err);

/* Not of one that follows: what the next read passes begins at this time, and snapshots at another.
 * What lasted into that time comes again, as past. */
void records_seek(struct records *t, uint64_t wall_ns, uint64_t snapshots_wall_ns);
void records_skip_snapshots(struct records *t, uint64_t wall_ns); /* those before that time */

/* Before the first read, for the two below. */
int records_load(struct records *t, struct err *err);

/* When the next anomaly began after this time; and when the last item is that is no event of a
 * process, and no snapshot. U64_UNKNOWN: there is none. */
uint64_t records_next_anomaly(const struct records *t, uint64_t after_ns);
uint64_t records_last(const struct records *t);

/* An object, as "proctor events --json" has it. Not of a snapshot. */
void records_write_json(struct buf *out, const struct records_item *item);
const char *records_topic(const struct records_item *item); /* of a process: "exit" */

/*
 * ---- look - the host and its processes as they are now, seen by this process, where no daemon is
 * asked. The database has the jobs that run.
 */

struct look {
	int root_fd;
	struct gpus *gpus; /* NULL: none are read */
	struct collector *collector;
	struct attempt_list running; /* as it was last read */
};

struct look_options {
	const struct mask *mask;
	bool reads_gpus, want_ebpf;
	double interval_seconds; /* between two looks; 0: not known */
};

int look_open(struct look *l, const struct look_options *options, struct err *err);
void look_close(struct look *l);

/*
 * All processes, those of jobs that run marked, and the progress of these jobs. Scope: of which
 * processes that is read, too, which costs more than a look. Where the database cannot be read,
 * trouble has the reason, and the jobs of the look before count. store NULL: there are none.
 */
int look_take(struct look *l, struct store *store, enum snapshot_scope scope, struct snapshot *ret,
	      struct err *trouble, struct err *err);

/*
 * ---- recorded - the record of the jobs of one user, or of all users, as a list of JSON objects, a
 * page at a time.
 *
 * The daemon answers clients with it whose own database does not have the job. The objects are
 * those that the verbs print with --json.
 */

/* A page that exceeds this ends before the next moment: all of one moment is on one page. */
#define RECORDED_PAGE_BYTES (4 << 20)

/* A question, and one page of its answer. */
struct recorded {
	char job_id[JOB_ID_MAX + 1]; /* empty: any */
	uint64_t uid;		     /* owner of the jobs; U64_UNKNOWN: all users */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	pid_t pid;		/* of samples; 0: any */
	size_t limit;		/* of attempts: the newest so many; 0: all */
	bool latest_only;	/* of attempts: the last of each job of each user */
	size_t page_bytes;

	struct buf list;       /* the answer */
	uint64_t next_wall_ns; /* since when to ask for the next page; U64_UNKNOWN: the last page */

	struct json json;
	struct attempt_list shown; /* where not all are; by job and number */
	uint64_t last_wall_ns;
};

#define RECORDED_INIT                                                                    \
	{                                                                                \
		.uid = U64_UNKNOWN, .page_bytes = RECORDED_PAGE_BYTES, .list = BUF_INIT, \
		.next_wall_ns = U64_UNKNOWN                                              \
	}

void recorded_release(struct recorded *r);

/*
 * One call for each struct recorded. -ENOENT: the job that is named is not there, or not this
 * user's. The oldest come first. All attempts are on one page. Events need a job.
 */
int recorded_read_attempts(struct recorded *r, struct store *store, struct err *err);
int recorded_read_samples(struct recorded *r, struct store *store, struct err *err);
int recorded_read_anomalies(struct recorded *r, struct store *store, struct err *err);
int recorded_read_events(struct recorded *r, struct store *store, struct err *err);

/* Removes the state of the host, which names jobs of other users. */
void recorded_hide_host(struct episode *e);

/*
 * ---- recorded_series - what the processes of an attempt used over time, as many points as a
 * picture has columns: of each the least and the largest value.
 */
struct recorded_series {
	const char *job_id;
	int attempt_num;
	uint64_t since_wall_ns, until_wall_ns;
	size_t n_buckets;
	int metric;

	uint64_t step_ns; /* set by recorded_series_read() */
};

int recorded_series_metric(const char *name); /* -ENOENT: there is none of that name */

/* An object, to out. Of many processes those with the highest values. -EINVAL: no time. */
int recorded_series_read(struct recorded_series *series, struct store *store, struct buf *out,
			 struct err *err);

/*
 * ---- recorded_ranks - the telemetry of the ranks of an attempt, from the samples of its
 * processes.
 *
 * A rank's memory at a tick is that of its processes: GPU memory where any process of the
 * sheet used a GPU, else resident memory, in which a page that several processes share counts
 * once (rank_memory.h). It is computed from the samples, so nothing is stored twice. Of several
 * sheets with ranks, and of several tries of a sheet, the last one counts: rank 3 of one has
 * nothing to do with rank 3 of another.
 *
 * "srun proctor run --job X" makes each rank an attempt of its own. These are joined: attempts of
 * the job and user that ran at the same time in the same boot of one host, each with one other
 * rank of as many.
 */

/* One rank at one tick. */
struct rank_point {
	uint64_t wall_ns;
	int rank, sheet_num;
	uint64_t bytes, gpu_bytes; /* in memory; unknown if that of one of its processes is */
	uint64_t cpu_ns;	   /* of its processes so far; falls where one leaves */
	double gpu_percent;	   /* of one GPU, since the tick before; NaN: unknown */
	bool uses_gpu;
};

/*
 * One rank. Its root is its first process, which is the nearest to the launcher. The kernel
 * reports the peak of a process without its time, so the peaks of processes that lived at the same
 * time are added up: the rank may have held less.
 */
struct recorded_rank {
	int rank, local_rank;	/* as the launcher numbers them; without a number, the rank */
	pid_t pid;		/* of the root; -1: unknown */
	size_t first, n;	/* of the points; none: it ended before it was sampled */
	uint64_t born_wall_ns;	/* of the root; unknown */
	uint64_t ended_wall_ns; /* of its last process; unknown while one may live */
	uint64_t peak_bytes;	/* at most; unknown if that of one of its processes is */
};

struct recorded_ranks {
	const struct attempt *a; /* borrowed; with the processes and phases of the joined ones */
	struct attempt *joined;	 /* attempts of the other ranks */
	size_t n_joined;
	struct rank_point *points; /* by rank, then time */
	size_t n_points, cap;
	struct recorded_rank *ranks; /* by rank */
	size_t n_ranks;
	int world_size;
	int sheet_num;		/* of all points */
	uint64_t since_wall_ns; /* the try began */
	bool is_gpu;
	struct arena arena;
};

/* Of an attempt as store_read_attempt() returns it. No points: it has no ranks, or no samples. */
int recorded_ranks_read(struct store *store, const struct attempt *a, struct recorded_ranks *ret,
			struct err *err);
void recorded_ranks_release(struct recorded_ranks *r);

/*
 * Calls fn with all telemetry records (crossrank/event.h), rank by rank: "rank_start" where it is
 * known, the samples, the phases that its processes entered and left, and "rank_end" if it has
 * ended. Non-zero stops and is returned. -ENOMEM.
 */
struct telemetry_event;
typedef int rank_event_fn(void *ctx, const struct telemetry_event *ev);
int recorded_ranks_each(struct recorded_ranks *r, rank_event_fn *fn, void *ctx);

/* Adds the same records to t, for an analysis. */
struct telemetry;
int recorded_ranks_gather(struct recorded_ranks *r, struct telemetry *t);

/*
 * Analyses the records and sets a->telemetry, if the attempt has ranks. -ENOMEM, and the errors of
 * reading.
 */
int recorded_ranks_judge(struct store *store, struct attempt *a, struct err *err);

/*
 * ---- learning - past runs from the store, their analysis by learn/, and answers that rest on
 *them.
 *
 * Each step is a call of its own, so that the long one can run on a thread of its own while the
 * store is not used:
 *
 *	learning_catch_up(store, …);		ended attempts become runs
 *	learning_read(store, since, &l, err);
 *	learning_analyze(&l);			no store: base/loop's work
 *	learning_write(store, &l, err);
 */

#define LEARNING_SEED UINT64_C(20261115) /* any; fixed, so that the same runs give the same */

/* ---- runs ---- */

/*
 * Makes runs of ended attempts that have none yet, the oldest first, at most max of them (0: all),
 * and scores the estimate that each would have had at its start. *ret_n, which may be NULL, is
 * how many there were.
 */
int learning_catch_up(struct store *store, size_t max, size_t *ret_n, struct err *err);

/* The attempt, which has ended, as runs: appended to list, strings in its arena. */
int learning_gather(struct store *store, const struct attempt *a, struct run_list *list,
		    struct err *err);

/* ---- an analysis ---- */

struct learning {
	struct run_list runs;	      /* oldest first, but for… */
	size_t n_older;		      /* …those at its head, by class: they only judge patterns */
	struct pattern_list patterns; /* brought up to date by learning_analyze() */
	struct map before;	      /* state of each pattern as it was read */
	struct analysis analysis;
	struct compat compat;
	size_t min_jobs;      /* for compat: set by the caller */
	uint64_t now_wall_ns; /* set by learning_read() */
	int r;		      /* result of learning_analyze() */
};

void learning_init(struct learning *l, size_t min_jobs);
void learning_release(struct learning *l);

/* Reads the newest runs that ended after since, and the patterns. */
#define LEARNING_MAX_RUNS 150000
int learning_read(struct store *store, uint64_t since_wall_ns, struct learning *l, struct err *err);

/* Fits loop_queue_work(): ctx is the struct learning. Uses nothing else. */
void learning_analyze(void *ctx);

/* Stores the patterns. Fails if learning_analyze() did. */
int learning_write(struct store *store, const struct learning *l, struct err *err);

/* As "proctor correlate --json" prints it. */
void learning_write_json(struct json *j, const struct learning *l);

/* A pattern that is new, or has another state than before the analysis. */
struct learning_change {
	const struct pattern *pattern; /* of the struct learning */
	uint64_t uid;		       /* owner of its jobs; U64_UNKNOWN: all users, or unknown */
};

/*
 * The changes of an analysis. A pattern that was found once more is none, nor is another score of a
 * correlation: it has one after every run. The store has the owners. The caller frees *ret.
 * -ENOMEM.
 */
int learning_list_changes(const struct learning *l, struct store *store,
			  struct learning_change **ret, size_t *ret_n);

/* ---- runs of the same class ---- */

#define LEARNING_MAX_SIMILAR 500 /* the newest */

/* A run, and which others are similar. */
struct learning_likeness {
	const struct run_class *class;
	enum run_rung finest;	  /* on no finer rung than this */
	uint64_t uid;		  /* only of this user; U64_UNKNOWN: of all */
	int64_t attempt;	  /* the run itself */
	uint64_t started_wall_ns; /* they had ended then; U64_UNKNOWN: by now */
	bool succeeded;		  /* only those that did */
};

/*
 * Whole runs with an outcome, oldest first, on the finest rung with SIMILAR_MIN_RUNS of them, else
 * on the coarsest. ret is overwritten, and to be released.
 */
int learning_list_similar(struct store *store, const struct learning_likeness *like,
			  struct run_list *ret, enum run_rung *ret_rung, struct err *err);

/*
 * Sets a->standing: how it compares with the similar runs before it, and with the estimate at its
 * start. It stays NULL where there are none. is_own: only runs of its own user count.
 */
int learning_judge_standing(struct store *store, struct attempt *a, bool is_own, struct err *err);

/* Of an attempt that has ended: what can be why it was slower or larger than the same runs
 * (standing_list_reasons()). Returns how many. */
int learning_list_reasons(struct store *store, const struct attempt *a,
			  struct standing_reason ret[STANDING_MAX_REASONS], struct err *err);

/*
 * The highest usage of runs of its kind, of the newest that had succeeded when it began: unknown
 * where there are fewer than ESTIMATE_ENOUGH. Usage that was an anomaly then does not count.
 * Borrows the id of a.
 */
int learning_usual(struct store *store, const struct attempt *a, struct detect_usual *ret,
		   struct err *err);

/* ---- estimates ---- */

/*
 * The owner of the runs that an answer for this user may rest on: any (U64_UNKNOWN) if the user
 * runs this program, else the same user.
 */
uint64_t learning_scope(uint64_t uid);

/* From the kind's runs, by the ladder of estimate.h, whatever rung it names. None: "no data". */
int learning_estimate_kind(struct store *store, const struct run_kind *kind, struct estimate *ret,
			   struct err *err);

struct learning_question {
	const struct job_spec *spec;
	const struct mask *mask;
	uint64_t uid;	      /* owner of the job */
	uint64_t input_bytes; /* of the files that it names; U64_UNKNOWN: none, or not measured */
	bool only_own;	      /* runs of others with the same command are not for this user */
	size_t max_sheets;    /* of a job with more the sheets are not estimated; 0: no limit */
};

struct learning_answer {
	struct estimate estimate;
	struct calibration calibration;
	bool is_by_sheet; /* put together from its sheets */
};

void learning_answer_init(struct learning_answer *answer); /* no data */

/*
 * Estimates a job by the whole of it or, where that has no history, sheet by sheet; and counts how
 * answers of that kind did for this user. The more sheets, the fewer runs of each are used (20 at
 * least): it takes as long as for one.
 */
int learning_estimate(struct store *store, const struct learning_question *question,
		      struct learning_answer *ret, struct err *err);

/* The same of an attempt that runs, as a whole. */
int learning_estimate_attempt(struct store *store, const struct attempt *a, bool only_own,
			      struct learning_answer *ret, struct err *err);

/* As "proctor estimate --json" prints it. */
void learning_write_answer(struct json *j, const struct learning_answer *answer);

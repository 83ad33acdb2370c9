/*
 * run_record - one run of a class of jobs in numbers, which is what proctor learns from; what the
 * next run is expected to need; and how an attempt compares.
 *
 * A run is an attempt or, of one with several sheets, also a sheet of it. What it
 * used is taken from the record once, when it is over, and kept: samples are
 * removed after a while, these are not. Unknown is NaN, U64_UNKNOWN, NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/job.h"

/* Percent of the time in system calls; a sum over samples may pass 100. */
struct syscall_share {
	const char *name;
	double pct;
};

/* Early values are those after so many seconds; unknown if the run was over by then. */
#define RUN_HORIZONS 4
extern const double run_horizons[RUN_HORIZONS]; /* 5, 15, 60 and 300 s */

#define RUN_MAX_SHARES 32 /* system calls that are kept, those with the largest shares */

/*
 * What it is a run of, from fine to coarse. Each is a hash; see learn/run_class.h for
 * what is hashed.
 */
enum run_rung { RUNG_EXACT, RUNG_MASKED, RUNG_PROGRAM, RUNG_COUNT };

struct run_class {
	uint64_t rungs[RUNG_COUNT];
	uint64_t command;  /* the masked command and the user: what findings are about */
	const char *label; /* "train.py": what people call it */
};

struct run_record {
	int64_t attempt; /* the store's handle */
	const char *job_id;
	int attempt_num;
	int sheet_num; /* 0: all sheets of an attempt that has several */
	bool is_whole; /* the attempt, not a part of it */
	struct run_class class;
	uint64_t argv_hash, input_hash; /* for telling a retry of the same input */
	enum outcome outcome;		/* by a person's verdict, where there is one */
	enum outcome measured; /* what cut it short; OUTCOME_NONE: the same as the outcome */
	uint64_t started_wall_ns, ended_wall_ns;
	const char *host;

	double peak_rss_mb, max_process_rss_mb;
	double early_rss_mb[RUN_HORIZONS];   /* the most up to then */
	double rss_slope_mb_s[RUN_HORIZONS]; /* least squares up to then */
	double cpu_seconds, wall_seconds;
	double spawn_count;
	double max_threads, max_fds; /* of one process */
	double io_mb;		     /* read and written, cache included */
	double major_faults;
	double memory_stall_pct, io_stall_pct, cpu_stall_pct; /* of the host, while it ran */
	double gpu_memory_mb, gpu_utilization_pct;

	/* Each may be NULL: nobody looked. */
	const char *syscalls;  /* run_write_shares() */
	const char *time;      /* time_ledger_write() */
	const char *anomalies; /* types, with a blank between two; "": there were none */
};

/* All unknown. */
void run_record_init(struct run_record *run);

/* Success or failure (timeouts and kills for memory are failures); false: neither. */
bool run_is_decided(const struct run_record *run);
bool run_has_failed(const struct run_record *run);

/* How it ended by what was measured: a verdict does not make longer what was cut short. */
enum outcome run_measured_outcome(const struct run_record *run);

/* The largest RUN_MAX_SHARES as text, in their order: "futex 41.5 read 3". */
void run_write_shares(const struct syscall_share *shares, size_t n, struct buf *out);

/*
 * The other way, into the arena. NULL text: 0 shares. What cannot be read is left out.
 * -ENOMEM.
 */
int run_read_shares(const char *text, struct arena *arena, struct syscall_share **ret,
		    size_t *ret_n);

/* Whether a list of anomalies has this type. */
bool run_has_anomaly(const char *anomalies, const char *type);

struct run_list {
	struct run_record *items;
	size_t n, cap;
	struct arena arena; /* owns their strings */
};

/* A new one at the end, all unknown; NULL: no memory. */
struct run_record *run_list_add(struct run_list *list);
void run_list_release(struct run_list *list);

/* ---- what the next run of a class is expected to need, and how past answers did ---- */

struct estimate {
	uint64_t n_runs;      /* that it rests on; 0: there is no history, and nothing is known */
	enum run_rung rung;   /* how alike they are */
	uint64_t n_censored;  /* of these were killed for memory: lower bounds only */
	uint64_t n_left_out;  /* older runs, from before the last change of level */
	double peak_rss_mb;   /* NaN where none of the runs has one */
	double peak_coverage; /* the probability that the next run stays within it */
	double looser_rss_mb, looser_coverage; /* what four runs in five stayed within; NaN: none */
	double cpu_seconds;		       /* median */
	double cpu_high_seconds, cpu_coverage; /* 90 % quantile, as far as there are runs */
	double wall_seconds;		       /* median */
};

void estimate_init(struct estimate *e); /* no data */

/* What became of an estimate when its run ended: 1 covered, 0 not, -1 cannot be told. */
struct estimate_score {
	int is_peak_covered, is_cpu_covered;
};

/* How past answers for a class did. */
struct calibration {
	uint64_t n_peak, n_peak_covered;
	uint64_t n_cpu, n_cpu_covered;
	double promised; /* mean of the coverages that were promised for peaks; NaN: none */
};

/* ---- how an attempt compares with runs like it, and with what was expected of it ---- */

#define SIMILAR_MIN_RUNS 3 /* with fewer nothing is more than usual, or less */

enum standing_quantity { STANDING_WALL, STANDING_CPU, STANDING_PEAK, STANDING_COUNT };

/* One quantity: seconds, or MB. */
struct standing_value {
	double value;		  /* of this attempt; NaN: unknown, or it is not over */
	double median, low, high; /* of the others; 19 in 20 have at least low, 19 in 20 at most
				     high, and of fewer than 19 all */
	size_t n;		  /* others that have a value */
	size_t n_below, n_above;  /* of these have less, and more, by 1 % and 50 ms or 1 MB */
	int side;		  /* 1: more than usual, or than any; -1: less; 0: as usual, or it
				     cannot be judged */
	bool is_unusual; /* and at most 1 of 20 such runs would be this far out on this side */
};

struct standing {
	uint64_t n_others, n_failed; /* of them */
	bool is_by_success;	     /* the values are of those that succeeded; else of all */
	const char *basis;	     /* how alike they are: "exact command" */
	struct standing_value values[STANDING_COUNT];

	struct estimate expected; /* from runs that had ended when it began; n_runs 0: no data */
	const char *expected_basis;
	struct estimate_score score; /* whether it stayed within */
};

/* Whether the run had more of it than usual. standing may be NULL. */
bool standing_is_more(const struct standing *standing, enum standing_quantity q);

/* Half of what it had more than the median, which a reason for it has to explain; 0: not more. */
double standing_half_excess(const struct standing *standing, enum standing_quantity q);

/*
 * ---- what is believed about failures, and since when ----
 *
 * There are three kinds. A RESOURCE_ANOMALY is one that came, of which program. A
 * RESOURCE_CORRELATION is what the reference
 * implementation would store: a score and tags. A FINDING is a rule, frozen when it
 * was found: among runs of the class those on one side of the threshold fail more
 * often. Runs that ended later than what it was found on judge it.
 */

#define PATTERN_FINDING "FINDING"
#define PATTERN_CORRELATION "RESOURCE_CORRELATION"
#define PATTERN_ANOMALY "RESOURCE_ANOMALY"

struct pattern {
	const char *type, *name; /* together they are its identity */
	const char *tags;	 /* with a line break between two */
	const char *description; /* as it was when it was found */
	uint64_t n_jobs;	 /* that it rests on */
	uint64_t occurrences;	 /* analyses that have found it; times that the anomaly came */
	const char *jobs;	 /* of an anomaly the last 50, with a line break between two */
	double confidence;	 /* of a correlation; NaN */
	uint64_t first_wall_ns, last_wall_ns;

	/* Of a finding. */
	const char *grade; /* "supported", "confirmed"; NULL: a correlation */
	const char *label; /* of the class; or NULL */
	uint64_t class_key;
	const char *feature;
	bool is_above;
	double threshold;
	double p;
	double rate_in, rate_out, base_rate; /* that it predicts, and of all runs by then */
	uint64_t frozen_wall_ns;	     /* later runs are unseen */

	/* What these later runs said. */
	uint64_t n_later, n_later_failed;
	double later_p;		    /* of Fisher's test on them alone, to the side predicted */
	double brier, brier_base;   /* of the rule, and of the base rate; smaller is better */
	uint64_t n_looks;	    /* at them that the error was spent on */
	uint64_t confirmed_wall_ns; /* U64_UNKNOWN: not yet */
	uint64_t lapsed_wall_ns;    /* the newest analysis has not found it; U64_UNKNOWN: it has */
	uint64_t retired_wall_ns;   /* U64_UNKNOWN: it holds */
	const char *retired_why;
};

void pattern_init(struct pattern *p); /* all unknown */

struct pattern_list {
	struct pattern *items;
	size_t n, cap;
	struct arena arena; /* owns the strings */
};

/* A new one at the end, all unknown; NULL: no memory. */
struct pattern *pattern_list_add(struct pattern_list *list);
void pattern_list_release(struct pattern_list *list);

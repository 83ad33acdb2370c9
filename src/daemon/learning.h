/*
 * learning - where the record and what is learned from it meet.
 *
 * Each step is a call of its own, so that the long one can run on a thread of its
 * own while nobody uses the store:
 *
 *	learning_catch_up(store, …);		what has ended becomes runs
 *	learning_read(store, since, &l, err);
 *	learning_analyze(&l);			no store: base/loop's work
 *	learning_write(store, &l, err);
 */
#ifndef PROCTOR_DAEMON_LEARNING_H
#define PROCTOR_DAEMON_LEARNING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mask.h"
#include "detect/detect.h"
#include "learn/learn.h"
#include "model/job.h"
#include "store/store.h"

#define LEARNING_SEED UINT64_C(20261115) /* any; fixed, so that the same runs give the same */

/*
 * Makes runs of attempts that have ended and are none yet, the oldest first, at most
 * max of them (0: all), and scores what would have been estimated for each at its start.
 * *ret_n, which may be NULL, is how many there were.
 */
int learning_catch_up(struct store *store, size_t max, size_t *ret_n, struct err *err);

/* The attempt, which has ended, as runs: appended to list, strings in its arena. */
int learning_gather(struct store *store, const struct attempt *a, struct run_list *list,
		    struct err *err);

struct learning {
	struct run_list runs;	      /* oldest first, but for… */
	size_t n_older;		      /* …those at its head, by class: they only judge patterns */
	struct pattern_list patterns; /* brought up to date by learning_analyze() */
	struct analysis analysis;
	struct compat compat;
	size_t min_jobs;      /* for compat: set by the caller */
	uint64_t now_wall_ns; /* set by learning_read() */
	int r;		      /* how learning_analyze() went */
};

void learning_init(struct learning *l, size_t min_jobs);
void learning_release(struct learning *l);

/* Runs that ended later than since, the newest so many, and what is believed so far. */
#define LEARNING_MAX_RUNS 150000
int learning_read(struct store *store, uint64_t since_wall_ns, struct learning *l, struct err *err);

/* Fits loop_queue_work(): ctx is the struct learning. Uses nothing else. */
void learning_analyze(void *ctx);

/* Stores what is believed now. */
int learning_write(struct store *store, const struct learning *l, struct err *err);

/* What "proctor correlate --json" prints. */
void learning_write_json(struct json *j, const struct learning *l);

/* ---- runs like one ---- */

#define LEARNING_MAX_OTHERS 500 /* the newest */

/* Which others: those of its class, but not these attempts. */
struct learning_likeness {
	const struct run_class *class;
	enum run_rung finest; /* on no finer rung than this */
	uint64_t uid;	      /* only of this user; U64_UNKNOWN: of all */
	int64_t but[2];	      /* ids; 0: none */
	size_t n_wanted;      /* on the finest rung with so many, else on the coarsest */
};

/* Whole runs with an outcome, oldest first. ret is overwritten, and to be released. */
int learning_list_others(struct store *store, const struct learning_likeness *like,
			 struct run_list *ret, enum run_rung *ret_rung, struct err *err);

/* What an attempt, which need not have ended, is as a whole. The label is in the arena. -ENOMEM. */
int learning_describe_attempt(const struct attempt *a, struct arena *arena, struct run_class *ret);

/*
 * Sets a->standing: how it compares with others of its class, and with what was expected
 * of it. It stays NULL where there are no others. is_own: only runs of its own user count.
 */
int learning_judge_standing(struct store *store, struct attempt *a, bool is_own, struct err *err);

/* ---- estimates ---- */

/*
 * Whose runs the answer for a user may rest on: U64_UNKNOWN, all users', for whoever runs this
 * program, else the user's own.
 */
uint64_t learning_scope(uint64_t uid);

/* What the kind's runs say, by the ladder of estimate.h, whatever rung it names. None: "no data".
 */
int learning_estimate_kind(struct store *store, const struct run_kind *kind, struct estimate *ret,
			   struct err *err);

struct learning_question {
	const struct job_spec *spec;
	const struct mask *mask;
	uint64_t uid;	      /* whose job it is */
	uint64_t input_bytes; /* of the files that it names; U64_UNKNOWN: none, or nobody looked */
	bool only_own;	      /* runs of others with the same command are not for this user */
	size_t max_sheets;    /* so many are looked at one by one; of more: no data. 0: of any */
};

struct learning_answer {
	struct estimate estimate;
	struct calibration calibration;
	bool is_by_sheet; /* put together from its sheets */
};

void learning_answer_init(struct learning_answer *answer); /* no data */

/*
 * What is to be expected of a job, by the whole of it or, where that has no history,
 * sheet by sheet; and how answers of that kind did for this user. The more sheets, the fewer runs
 * of each are looked at (20 at least): it takes as long as for one.
 */
int learning_estimate(struct store *store, const struct learning_question *question,
		      struct learning_answer *ret, struct err *err);

/* The same of an attempt that runs, as a whole. */
int learning_estimate_attempt(struct store *store, const struct attempt *a, bool only_own,
			      struct learning_answer *ret, struct err *err);

/*
 * What runs of its kind have done at most, of the newest that had ended well before it
 * began: unknown where there are fewer than ESTIMATE_ENOUGH. What was out of the ordinary in
 * one of them does not count. Borrows the id of a.
 */
int learning_usual(struct store *store, const struct attempt *a, struct detect_usual *ret,
		   struct err *err);

/* What "proctor estimate --json" prints. */
void learning_write_answer(struct json *j, const struct learning_answer *answer);

#endif

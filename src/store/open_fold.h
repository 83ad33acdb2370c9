#ifndef PROCTOR_STORE_OPEN_FOLD_H
#define PROCTOR_STORE_OPEN_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "store/codec/codec.h"
#include "store/fold.h"
#include "store/query.h"
#include "store/store.h"

/*
 * process - a process as its row has it, what it was called before, and the processes that a
 * filter wants.
 */

struct process_image;

struct process {
	int64_t id;
	int attempt_num;
	int64_t attempt_id;
	struct proc_sample last;      /* what the row has, the rest unknown; strings in the arena */
	struct process_image *images; /* oldest first; mostly none */
};

/* The query stands at p.id of WALK_CHUNKS or WALK_PROCESS. */
int process_read(struct query *q, struct arena *arena, struct process *ret, struct err *err);

/* As it was called at this tick. */
void process_at(const struct process *p, int64_t tick_id, struct proc_sample *ret);

/* The processes that a filter by job and pid wants, by their rows. */
struct process_set {
	bool is_filtered; /* false: all processes are wanted, and none is listed */
	int64_t job;	  /* its row; 0: any */
	int64_t *ids;	  /* ascending */
	size_t n, cap;
};

void process_set_release(struct process_set *set);

/* job_id NULL and pid 0 are any. The set is zeroed. */
int process_set_find(struct process_set *set, struct store *store, const char *job_id, pid_t pid,
		     struct err *err);

bool process_set_has(const struct process_set *set, int64_t process);

/* Whether those that are wanted are better looked for one by one than among all. */
bool process_set_is_small(const struct process_set *set);

/*
 * fold_calls - the system calls of one process, tick by tick, behind its samples.
 *
 * In a tick they are a list of their own (LIST_SYSCALLS). In a fold they stand behind
 * the process's table of samples: a table for each name, which is a number of the
 * fold's strings.
 */

struct fold_calls;

/*
 * data is what stands behind the samples; *ret is NULL where that is nothing. Pointers
 * are those of the arena and the strings. -EBADMSG, -ENOMEM.
 */
int fold_calls_read(const void *data, size_t len, unsigned n_ticks,
		    const struct fold_strings *strings, struct arena *arena,
		    struct fold_calls **ret);

/* Those of a tick; nothing is changed where nobody counted them. */
void fold_calls_tell(const struct fold_calls *calls, unsigned tick, struct proc_sample *ret);

/*
 * fold_times - when the ticks of a fold were, out of its head.
 */

struct fold_times {
	unsigned n;
	int64_t ids[CODEC_ROWS];
	uint64_t wall_ns[CODEC_ROWS]; /* each is known */
	uint64_t boot_ns[CODEC_ROWS];
	size_t things_at; /* where in the blob what stands behind the head begins… */
	bool has_gpus;	  /* …and whether those do */
};

/*
 * Where the head is not what was written (query_read_some_blob()) its times may be all the
 * same: then it has nothing behind it. t is room to work in. -EBADMSG, -ENOMEM
 */
int fold_times_read(const void *head, size_t len, bool is_whole, struct table *t,
		    struct fold_times *ret);

/*
 * open_fold - a fold as it is read: a copy, tick by tick in the order of time.
 *
 * Nothing of the database is held by it.
 */

/* A tick of the fold. */
struct fold_tick {
	uint64_t wall_ns;
	int64_t id;
	unsigned index;
};

/* Whether a is told before b: by time, then by id. */
bool fold_tick_is_before(const struct fold_tick *a, const struct fold_tick *b);

/* Which of its rows are wanted. */
struct fold_filter {
	int64_t job; /* its row; 0: any */
	pid_t pid;   /* 0: any */
	uint64_t since_wall_ns, until_wall_ns;
	struct fold_tick from; /* not those before it */
	int64_t last_id;       /* not those behind it */
	bool heads_only;       /* no processes */
	unsigned n_words;      /* 0: all; else of samples only the first so many are known */
};

struct fold_process;

struct open_fold {
	int64_t id, recorder;
	int64_t first_ns, last_ns; /* of all ticks that it was made of… */
	uint64_t n_recorded;	   /* …and how many those are */
	char boot_id[BOOT_ID_BYTES];
	const char *job_id;		    /* of the recorder, where that is a runner; NULL */
	struct fold_tick ticks[CODEC_ROWS]; /* those to tell, in order */
	unsigned n_ticks, current;
	struct buf blob; /* of the head */
	bool is_whole;	 /* else no more than the times is known of that */
	struct table head;
	struct fold_strings strings;
	struct fold_reader things;	/* behind the head */
	struct fold_process *processes; /* by id */
	size_t n_processes, cap;
	size_t n_rows; /* of all of them */
	struct arena arena;
	struct open_fold *next;
};

void open_fold_free(struct open_fold *fold);

/*
 * Opens what is stored under this id, inside a transaction; NULL if it has no tick to
 * tell. -ENOENT, and err is not set: it is not there (any more).
 */
int open_fold_read(struct store *store, int64_t id, const struct fold_filter *filter,
		   struct open_fold **ret, struct err *err);

/* The same of one that was made of ticks and is not stored. */
int open_fold_take(struct store *store, int64_t recorder, const struct folded *folded,
		   const struct fold_filter *filter, struct open_fold **ret, struct err *err);

/* Only its ticks: ids and times, as many as it has. */
int open_fold_read_times(struct store *store, int64_t id, struct fold_tick ret[CODEC_ROWS],
			 unsigned *ret_n, struct err *err);

/* Makes this tick the current one; false: it is not there. */
bool open_fold_go_to(struct open_fold *fold, int64_t tick_id);

/* ---- of the current tick ---- */

/* What is damaged is left out (damage.h), here and below. */

/* 1: process number i of n_processes. 0: it was not there. Pointers are the fold's. */
int open_fold_sample(struct store *store, const struct open_fold *fold, size_t i,
		     struct proc_sample *ret, int *ret_attempt_num, struct err *err);

/* Its row. */
int64_t open_fold_process_id(const struct open_fold *fold, size_t i);

/* What a snapshot is told of in. */
enum fold_parts {
	FOLD_HOST = 1,
	FOLD_THINGS = 2, /* GPUs, progress and cgroups */
	FOLD_PROCESSES = 4,
	FOLD_ALL = 7,
	FOLD_ATTEMPTS = 8, /* with its processes: their attempt_id */
};

/* These parts, into a snapshot that was reset and does not have them yet. */
int open_fold_snapshot(struct store *store, const struct open_fold *fold, unsigned parts,
		       struct snapshot *ret, struct err *err);

#endif

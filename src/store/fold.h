/*
 * fold - ticks of a recorder become a fold: tables, column by column, which take
 * a fraction of the room.
 *
 * The recorder of ticks is known by the row id of its attempt. Ticks differ from the ones before,
 * in segments of at most CODEC_ROWS that begin with a whole one; what is folded is always whole
 * segments.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "store/codec/codec.h"
#include "store/query.h"
#include "store/store.h"

/* So many ticks, or so many bytes of them (what many processes bring), make a fold. */
#define FOLD_TICKS CODEC_ROWS
#define FOLD_BYTES (1 << 20)

/* A chunk has the samples of a group: its id is fold << CHUNK_BITS | group. A fold's is that of a
 * tick. */
#define CHUNK_BITS 30
#define CHUNK_PROCESS_MAX SAMPLE_KEY_MAX
#define TICK_ID_MAX (INT64_MAX >> CHUNK_BITS)

/* What the seal of a curve's points has for their key (query.h). */
static inline int64_t points_key(int64_t attempt, int64_t fold)
{
	return (int64_t)((uint64_t)attempt << CHUNK_BITS ^ (uint64_t)fold);
}

/* Ticks that lie further apart are not of one fold: somebody has set the clock, or slept. */
#define FOLD_GAP_NS UINT64_C(3600000000000)
static inline bool fold_has_gap(int64_t a_ns, int64_t b_ns)
{
	uint64_t a = (uint64_t)a_ns, b = (uint64_t)b_ns;

	return (a_ns > b_ns ? a - b : b - a) > FOLD_GAP_NS;
}

/* A table of a fold that is kept by itself. */
struct fold_part {
	enum tick_list list; /* LIST_POINTS or LIST_SAMPLES */
	int64_t key;
	size_t at, len; /* in bytes */
};

/* A tick that could not be read. */
struct fold_lost {
	int64_t id, wall_ns;
};

/* A fold as the database gets it. */
struct folded {
	int64_t id; /* of its newest tick, which may be one that could not be read */
	int64_t first_ns, last_ns;
	unsigned n_ticks; /* 0: none could be read, and all else here means nothing */
	struct fold_lost lost[CODEC_ROWS]; /* those that could not be: they are left out */
	unsigned n_lost;
	struct buf times;	/* a pack */
	struct buf head, bytes; /* what packs will be made of: codec.h */
	struct fold_part *parts;
	size_t n_parts, cap;
};

#define FOLDED_INIT                                                    \
	{                                                              \
		.times = BUF_INIT, .head = BUF_INIT, .bytes = BUF_INIT \
	}
void folded_release(struct folded *f);

/*
 * The oldest segments of the recorder that are not folded yet, of ticks with ids
 * above after_id and up to last_id. 1: ret (FOLDED_INIT, or used before) has
 * them. 0: there are none. Inside a transaction; writes nothing.
 */
int fold_read_pending(struct store *store, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct folded *ret, struct err *err);

/* A fold as it is read: one that is stored, or what ticks that are not folded yet would make. */
struct fold_ref {
	int64_t id, recorder, first_ns, last_ns;
	uint64_t n_ticks;
	const void *times; /* a pack */
	size_t times_len;
	const struct folded *pending; /* NULL: it is stored */
};
typedef int fold_fn(void *ctx, const struct fold_ref *fold, struct err *err);

/*
 * Calls fn for each row of a query (id, recorder, first and last time, ticks, times and their
 * seal); for what the recorder has not folded of the ticks up to last_id. Of those that cannot be
 * read, the ones from since to until are left out (damage.h). Inside a transaction.
 */
int folds_read(struct query *q, fold_fn *fn, void *ctx, struct err *err);
int folds_read_pending(struct store *store, int64_t recorder, int64_t since_ns, int64_t until_ns,
		       int64_t last_id, fold_fn *fn, void *ctx, struct err *err);

/* So many things of it make no sense, and are left out; id as in damage.h. */
int fold_leave_out(struct store *store, const struct fold_ref *fold, enum damage_kind kind,
		   int64_t id, uint64_t n, struct err *err);

/*
 * Calls fn for the table of samples of each process that is wanted (NULL: of all). -EBADMSG of fn:
 * it makes no sense, and is left out.
 */
struct process_set;
typedef int fold_samples_fn(void *ctx, int64_t process, const void *data, size_t len,
			    struct err *err);
int fold_each_samples(struct store *store, const struct fold_ref *fold,
		      const struct process_set *wanted, fold_samples_fn *fn, void *ctx,
		      struct err *err);

/* Folds all that the recorder has. Inside a transaction that writes. The next tick of a recorder
 * that goes on begins a segment. */
int fold_all(struct store *store, int64_t recorder, struct err *err);

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

/* The query stands at p.id of WALK_PROCESS. */
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

/* Whether any that a group could have is. */
bool process_set_has_group(const struct process_set *set, int64_t group);

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

/* When the ticks of a fold were. t is room to work in. -EBADMSG, -ENOMEM */
struct fold_times {
	unsigned n;
	int64_t ids[CODEC_ROWS];
	uint64_t wall_ns[CODEC_ROWS]; /* each is known */
	uint64_t boot_ns[CODEC_ROWS];
};
int fold_times_read(const void *pack, size_t len, struct table *t, struct fold_times *ret);

/* Whether its row says so, too: else it is looked for in a wrong place. */
bool fold_lasts(const uint64_t *wall_ns, unsigned n, int64_t first_ns, int64_t last_ns);

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
	const struct process_set *wanted; /* NULL: all processes */
	uint64_t since_wall_ns, until_wall_ns;
	struct fold_tick from; /* not those before it */
	int64_t last_id;       /* not those behind it */
	bool heads_only;       /* no processes */
	unsigned n_words;      /* 0: all; else of samples only the first so many are known */
};

struct fold_process;

struct open_fold {
	struct fold_ref ref;
	char boot_id[BOOT_ID_BYTES];
	const char *job_id; /* of the recorder, where that is a runner; NULL */
	int attempt_num;    /* of the same */
	uint64_t uid;
	struct fold_tick ticks[CODEC_ROWS]; /* those to tell, in order */
	unsigned n_ticks, current;
	struct buf blob; /* of the head, and what is behind it */
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

/* The same of ticks of the recorder that are not folded yet: adds what they make to the list. */
int open_fold_read_pending(struct store *store, int64_t recorder, const struct fold_filter *filter,
			   struct open_fold **list, struct err *err);

/* Makes this tick the current one; false: it is not there. */
bool open_fold_go_to(struct open_fold *fold, int64_t tick_id);

/* ---- of the current tick ---- */

static inline const struct fold_tick *open_fold_tick(const struct open_fold *fold)
{
	return &fold->ticks[fold->current];
}

/* What is damaged is left out (damage.h), here and below. */

/* 1: process number i of n_processes. 0: it was not there. Pointers are the fold's. */
int open_fold_sample(struct store *store, const struct open_fold *fold, size_t i,
		     struct proc_sample *ret, const struct process **ret_process, struct err *err);

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

#include "store/history_fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/query.h"
#include "store/tables.h"

#define NO_ROW 255

static struct open_fold *open_fold_free(struct open_fold *fold)
{
	struct open_fold *others;

	if (!fold)
		return NULL;
	others = fold->others;
	arena_release(&fold->arena);
	free(fold->processes);
	free(fold);
	return others;
}

static void free_one(struct open_fold **fold)
{
	open_fold_free(*fold);
}

void open_folds_free(struct open_fold *folds)
{
	while (folds)
		folds = open_fold_free(folds);
}

void open_folds_drop_done(struct open_fold **folds)
{
	while (*folds) {
		if ((*folds)->next == (*folds)->n_ticks)
			*folds = open_fold_free(*folds);
		else
			folds = &(*folds)->others;
	}
}

/* ---- opening ---- */

static bool is_earlier(uint64_t wall_ns, int64_t id, uint64_t other_wall_ns, int64_t other_id)
{
	return wall_ns < other_wall_ns || (wall_ns == other_wall_ns && id < other_id);
}

/* Nearly in order: the clock is rarely set back. */
static void sort_tick_in(struct open_fold *fold, struct fold_tick tick)
{
	unsigned k = fold->n_ticks++;

	for (; k > 0; k--) {
		const struct fold_tick *before = &fold->ticks[k - 1];

		if (!is_earlier(tick.wall_ns, tick.id, before->wall_ns, before->id))
			break;
		fold->ticks[k] = *before;
	}
	fold->ticks[k] = tick;
}

static void list_ticks(struct open_fold *fold, const struct fold_head *head,
		       const struct place *place, int64_t last_tick_id)
{
	for (unsigned i = 0; i < head->n; i++) {
		uint64_t wall_ns = head->columns[HEAD_HOST + HOST_WALL_NS][i];
		int64_t id = head->ids[i];

		if (id > last_tick_id || is_earlier(wall_ns, id, place->wall_ns, place->tick_id))
			continue;
		sort_tick_in(fold, (struct fold_tick){ wall_ns, id, i });
	}
}

static int read_head(struct store *store, struct open_fold *fold, int64_t *ret_attempt_id,
		     struct fold_head *head, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(store, STATEMENT_HISTORY_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	r = query_step(&q, err);
	if (r <= 0)
		return r < 0 ? r : store_damaged(store, "fold", err);
	*ret_attempt_id = query_read_i64(&q);
	fold->attempt_num = (int)query_read_i64(&q);
	fold->job_id = arena_strdup(&fold->arena, query_read_text(&q));
	data = query_read_blob(&q, &len);
	if (!fold->job_id)
		return store_no_memory(store, err);
	return fold_head_read(data, len, head) < 0 ? store_damaged(store, "fold", err) : 0;
}

/* The next process of the fold, cleared; NULL when memory runs out. */
static struct fold_process *add_process(struct open_fold *fold)
{
	if (fold->n_processes == fold->cap) {
		size_t cap = fold->cap ? fold->cap * 2 : 16;
		struct fold_process *processes =
			reallocarray(fold->processes, cap, sizeof(*processes));

		if (!processes)
			return NULL;
		fold->processes = processes;
		fold->cap = cap;
	}
	return memset(&fold->processes[fold->n_processes++], 0, sizeof(*fold->processes));
}

/* From columns to rows. */
static int take_chunk(struct open_fold *fold, const struct chunk *c, struct fold_process *p)
{
	p->rows = arena_alloc(&fold->arena, c->n * sizeof(*p->rows));
	if (!p->rows)
		return -1;
	memset(p->row_of, NO_ROW, sizeof(p->row_of));
	for (unsigned i = 0; i < c->n; i++)
		p->row_of[c->tick[i]] = (uint8_t)i;
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		for (unsigned i = 0; i < c->n; i++)
			p->rows[i][k] = c->columns[k][i];
	return 0;
}

static int read_chunk(struct query *q, struct open_fold *fold, const struct fold_head *head,
		      struct chunk *c, struct err *err)
{
	struct fold_process *p = add_process(fold);
	const void *data;
	size_t len;

	if (!p)
		return store_no_memory(q->store, err);
	p->id = query_read_i64(q);
	data = query_read_blob(q, &len);
	if (chunk_read(data, len, head->columns[HEAD_HOST + HOST_BOOT_NS], head->n, SAMPLE_WORDS,
		       c) < 0)
		return store_damaged(q->store, "chunk", err);
	if (take_chunk(fold, c, p) < 0)
		return store_no_memory(q->store, err);
	proc_sample_init(&p->process);
	return query_read_columns(q, &sample_process_columns, &p->process, &fold->arena, err);
}

static int open_chunks(struct store *store, const struct open_fold *fold, int64_t attempt_id,
		       pid_t pid, struct query *q, struct err *err)
{
	int64_t base = fold->id << CHUNK_BITS;
	int r = query_open(store, pid ? STATEMENT_HISTORY_CHUNKS_OF_PID : STATEMENT_HISTORY_CHUNKS,
			   q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, base);
	query_bind_i64(q, pid ? attempt_id : base + CHUNK_PROCESS_MAX);
	if (pid)
		query_bind_i64(q, pid);
	return 0;
}

/* What is large while a fold is opened. */
struct opening {
	struct fold_head head;
	struct chunk chunk;
};

static int read_fold(struct store *store, const struct history_filter *filter,
		     const struct place *place, int64_t last_tick_id, struct opening *o,
		     struct open_fold *fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t attempt_id = 0;
	int r = read_head(store, fold, &attempt_id, &o->head, err);

	if (r < 0)
		return r;
	list_ticks(fold, &o->head, place, last_tick_id);
	if (fold->n_ticks == 0)
		return 0;
	r = open_chunks(store, fold, attempt_id, filter->pid, &q, err);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = read_chunk(&q, fold, &o->head, &o->chunk, err);
	return r;
}

static bool is_open(const struct open_fold *fold, int64_t id)
{
	for (; fold; fold = fold->others)
		if (fold->id == id)
			return true;
	return false;
}

int open_folds_add(struct store *store, const struct history_filter *filter, int64_t id,
		   const struct place *place, int64_t last_tick_id, struct open_fold **folds,
		   struct err *err)
{
	CLEANUP(free_one) struct open_fold *fold = NULL;
	CLEANUP(free_ptr) struct opening *o = NULL;
	int r;

	if (is_open(*folds, id))
		return 0;
	fold = calloc(1, sizeof(*fold));
	o = malloc(sizeof(*o));
	if (!fold || !o)
		return store_no_memory(store, err);
	fold->id = id;
	r = read_fold(store, filter, place, last_tick_id, o, fold, err);
	if (r < 0 || fold->n_processes == 0)
		return r;
	fold->others = *folds;
	*folds = TAKE_PTR(fold);
	return 0;
}

/* ---- telling ---- */

struct open_fold *open_folds_first(struct open_fold *folds)
{
	struct open_fold *first = NULL;

	for (; folds; folds = folds->others) {
		const struct fold_tick *tick = &folds->ticks[folds->next];

		if (folds->next < folds->n_ticks &&
		    (!first || !open_fold_is_before(first, tick->wall_ns, tick->id)))
			first = folds;
	}
	return first;
}

struct history_tick open_fold_tick(const struct open_fold *fold)
{
	const struct fold_tick *tick = &fold->ticks[fold->next];

	return (struct history_tick){ tick->wall_ns, tick->id, fold->attempt_num, fold->job_id };
}

bool open_fold_is_before(const struct open_fold *fold, uint64_t wall_ns, int64_t tick_id)
{
	const struct fold_tick *tick = &fold->ticks[fold->next];

	return is_earlier(tick->wall_ns, tick->id, wall_ns, tick_id);
}

bool open_fold_sample(const struct open_fold *fold, size_t i, struct fold_sample *ret)
{
	const struct fold_process *p = &fold->processes[i];
	uint8_t row = p->row_of[fold->ticks[fold->next].index];

	if (row == NO_ROW)
		return false;
	*ret = (struct fold_sample){ p->id, &p->process, p->rows[row] };
	return true;
}

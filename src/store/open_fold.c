#include "store/open_fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/fold_calls.h"
#include "store/process.h"
#include "store/query.h"

#define NO_ROW 255

/* A process of a fold, and its rows. */
struct fold_process {
	struct process process;
	uint8_t row_of[CODEC_ROWS]; /* of each tick of the fold; NO_ROW */
	uint64_t (*rows)[SAMPLE_WORDS];
	struct fold_calls *calls; /* NULL: nobody counted them, or they were not asked for */
};

/* Of all processes: the ticks of a fold have FOLD_BYTES, and no sample takes less than two. */
#define MAX_ROWS (1 << 20)

void open_fold_free(struct open_fold *fold)
{
	if (!fold)
		return;
	buf_release(&fold->blob);
	fold_strings_release(&fold->strings);
	arena_release(&fold->arena);
	free(fold->processes);
	free(fold);
}

static void free_fold(struct open_fold **fold)
{
	open_fold_free(*fold);
}

static struct open_fold *open_fold_new(int64_t id)
{
	struct open_fold *fold = calloc(1, sizeof(*fold));

	if (!fold)
		return NULL;
	fold->id = id;
	fold->blob = (struct buf)BUF_INIT;
	fold->is_whole = true;
	return fold;
}

/* ---- ticks ---- */

bool fold_tick_is_before(const struct fold_tick *a, const struct fold_tick *b)
{
	return a->wall_ns < b->wall_ns || (a->wall_ns == b->wall_ns && a->id < b->id);
}

/* Nearly in order: the clock is rarely set back. */
static void sort_tick_in(struct open_fold *fold, struct fold_tick tick)
{
	unsigned k = fold->n_ticks++;

	for (; k > 0 && fold_tick_is_before(&tick, &fold->ticks[k - 1]); k--)
		fold->ticks[k] = fold->ticks[k - 1];
	fold->ticks[k] = tick;
}

static bool is_wanted(const struct fold_tick *tick, const struct fold_filter *filter)
{
	return tick->id <= filter->last_id && tick->wall_ns >= filter->since_wall_ns &&
	       tick->wall_ns <= filter->until_wall_ns && !fold_tick_is_before(tick, &filter->from);
}

/* Of what is damaged no more is known than of the whole fold: when it was. */
static int leave_out(struct store *store, const struct open_fold *fold, enum damage_kind kind,
		     int64_t id, uint64_t n, struct err *err)
{
	const struct damage d = {
		kind, id, fold->recorder, n, fold->first_ns, fold->last_ns,
	};

	return damage_leave_out(store, &d, err);
}

/* The head, from the blob, and which ticks are told. */
static int read_head(struct store *store, struct open_fold *fold, const struct fold_filter *filter,
		     struct err *err)
{
	const struct buf *b = &fold->blob;
	int64_t ids[CODEC_ROWS];
	int r = fold->is_whole ? fold_read_head(&fold->things, b->data, b->len, ids, &fold->head,
						&fold->strings)
			       : fold_read_times(b->data, b->len, ids, &fold->head);

	if (r == -ENOMEM)
		return store_no_memory(store, err);
	if (r < 0) /* it has no ticks to tell */
		return leave_out(store, fold, DAMAGED_TICKS, fold->id, fold->n_recorded, err);
	if (!fold->is_whole)
		r = leave_out(store, fold, DAMAGED_THINGS, fold->id, fold->n_recorded, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < fold->head.n; i++) {
		struct fold_tick tick = { fold->head.columns[HOST_WALL_NS][i], ids[i], i };

		if (is_wanted(&tick, filter))
			sort_tick_in(fold, tick);
	}
	return 0;
}

/* Who wrote it, and where. */
static int read_recorder(struct store *store, struct open_fold *fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *text;
	int r = query_open(store, STATEMENT_WALK_RECORDER, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->recorder);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	text = query_read_text(&q);
	if (text && strlen(text) < sizeof(fold->boot_id))
		strcpy(fold->boot_id, text);
	text = query_read_text(&q);
	if (text)
		fold->job_id = arena_strdup(&fold->arena, text);
	return text && !fold->job_id ? store_no_memory(store, err) : 0;
}

/* ---- processes ---- */

static struct fold_process *add_process(struct open_fold *fold)
{
	if (ARRAY_RESERVE(fold->processes, fold->cap, fold->n_processes + 1) < 0)
		return NULL;
	return memset(&fold->processes[fold->n_processes++], 0, sizeof(*fold->processes));
}

/* From columns to rows; words that were not read are unknown. */
static int take_table(struct open_fold *fold, const struct table *t, unsigned n_words,
		      struct fold_process *p)
{
	p->rows = arena_alloc(&fold->arena, t->n * sizeof(*p->rows));
	if (!p->rows)
		return -ENOMEM;
	if (n_words < SAMPLE_WORDS)
		memset(p->rows, 0xff, t->n * sizeof(*p->rows));
	memset(p->row_of, NO_ROW, sizeof(p->row_of));
	for (unsigned i = 0; i < t->n; i++)
		p->row_of[t->tick[i]] = (uint8_t)i;
	for (unsigned k = 0; k < n_words; k++)
		for (unsigned i = 0; i < t->n; i++)
			p->rows[i][k] = t->columns[k][i];
	return 0;
}

/* The query stands at p.id of WALK_CHUNKS or WALK_PROCESS. */
static int add_part(struct query *q, struct open_fold *fold, const struct fold_filter *filter,
		    const void *data, size_t len, struct table *t, struct err *err)
{
	unsigned n_words = filter->n_words ? filter->n_words : SAMPLE_WORDS;
	struct fold_process *p = add_process(fold);
	ssize_t n_read;
	int r;

	if (!p)
		return store_no_memory(q->store, err);
	r = process_read(q, &fold->arena, &p->process, err);
	if (r < 0)
		return r;
	n_read = table_read(data, len, fold->head.n, n_words, fold->head.columns[HOST_BOOT_NS], t);
	r = n_read < 0 || fold->n_rows + t->n > MAX_ROWS ? -EBADMSG : 0;
	if (r == 0 && n_words == SAMPLE_WORDS && fold->is_whole) /* their names are in the head */
		r = fold_calls_read((const char *)data + n_read, len - (size_t)n_read, fold->head.n,
				    &fold->strings, &fold->arena, &p->calls);
	if (r == -ENOMEM)
		return store_no_memory(q->store, err);
	if (r < 0) {
		fold->n_processes--;
		return leave_out(q->store, fold, DAMAGED_SAMPLES,
				 fold->id << CHUNK_BITS | p->process.id, 1, err);
	}
	fold->n_rows += t->n;
	return take_table(fold, t, n_words, p) < 0 ? store_no_memory(q->store, err) : 0;
}

static int read_chunks(struct store *store, struct open_fold *fold,
		       const struct fold_filter *filter, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	int r = t ? query_open(store, STATEMENT_WALK_CHUNKS, &q, err) : store_no_memory(store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	query_bind_i64(&q, filter->job);
	query_bind_i64(&q, filter->pid);
	query_bind_i64(&q, filter->after_process);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t id = query_read_i64(&q);
		size_t len;
		const void *data = query_read_blob(&q, id, &len);

		r = add_part(&q, fold, filter, data, len, t, err);
	}
	return r;
}

static int take_part(struct store *store, struct open_fold *fold, const struct folded *folded,
		     const struct fold_part *part, const struct fold_filter *filter,
		     struct table *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_WALK_PROCESS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, part->key);
	query_bind_i64(&q, filter->job);
	query_bind_i64(&q, filter->pid);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	return add_part(&q, fold, filter, folded->bytes.data + part->at, part->len, t, err);
}

static int take_parts(struct store *store, struct open_fold *fold, const struct folded *folded,
		      const struct fold_filter *filter, struct err *err)
{
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	int r = t ? 0 : store_no_memory(store, err);

	for (size_t i = 0; r == 0 && i < folded->n_parts; i++)
		if (folded->parts[i].list == LIST_SAMPLES)
			r = take_part(store, fold, folded, &folded->parts[i], filter, t, err);
	return r;
}

/* ---- opening ---- */

static int read_blob(struct store *store, struct open_fold *fold, bool also_rolled, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(store, STATEMENT_WALK_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	query_bind_i64(&q, also_rolled);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	fold->recorder = query_read_i64(&q);
	fold->first_ns = query_read_i64(&q);
	fold->last_ns = query_read_i64(&q);
	fold->n_recorded = (uint64_t)query_read_i64(&q);
	data = query_read_some_blob(&q, fold->id, &len, &fold->is_whole);
	buf_add(&fold->blob, data, len);
	return buf_error(&fold->blob) < 0 ? store_no_memory(store, err) : 1;
}

/* folded: where the samples are; NULL: in chunks. The blob is there. */
static int finish(struct store *store, struct open_fold **fold, const struct folded *folded,
		  const struct fold_filter *filter, struct open_fold **ret, struct err *err)
{
	int r = read_head(store, *fold, filter, err);

	if (r < 0 || (*fold)->n_ticks == 0)
		return r;
	r = read_recorder(store, *fold, err);
	if (r == 0 && !filter->heads_only)
		r = folded ? take_parts(store, *fold, folded, filter, err)
			   : read_chunks(store, *fold, filter, err);
	if (r == 0)
		*ret = TAKE_PTR(*fold);
	return r;
}

int open_fold_read(struct store *store, int64_t id, const struct fold_filter *filter,
		   struct open_fold **ret, struct err *err)
{
	CLEANUP(free_fold) struct open_fold *fold = open_fold_new(id);
	int r = fold ? read_blob(store, fold, filter->also_rolled, err)
		     : store_no_memory(store, err);

	*ret = NULL;
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	return finish(store, &fold, NULL, filter, ret, err);
}

int open_fold_take(struct store *store, int64_t recorder, const struct folded *folded,
		   const struct fold_filter *filter, struct open_fold **ret, struct err *err)
{
	CLEANUP(free_fold) struct open_fold *fold = open_fold_new(folded->id);

	*ret = NULL;
	if (!fold)
		return store_no_memory(store, err);
	fold->recorder = recorder;
	fold->first_ns = folded->first_ns;
	fold->last_ns = folded->last_ns;
	fold->n_recorded = folded->n_ticks;
	buf_add(&fold->blob, folded->head.data, folded->head.len);
	if (buf_error(&fold->blob) < 0)
		return store_no_memory(store, err);
	return finish(store, &fold, folded, filter, ret, err);
}

int open_fold_read_times(struct store *store, int64_t id, struct fold_tick ret[CODEC_ROWS],
			 unsigned *ret_n, struct err *err)
{
	static const struct fold_filter all = { .until_wall_ns = UINT64_MAX, .last_id = INT64_MAX };
	CLEANUP(free_fold) struct open_fold *fold = open_fold_new(id);
	int r = fold ? read_blob(store, fold, false, err) : store_no_memory(store, err);

	*ret_n = 0;
	if (r > 0)
		r = read_head(store, fold, &all, err);
	if (r < 0)
		return r;
	*ret_n = fold->n_ticks;
	memcpy(ret, fold->ticks, fold->n_ticks * sizeof(*ret));
	return 0;
}

/* ---- a tick of it ---- */

bool open_fold_go_to(struct open_fold *fold, int64_t tick_id)
{
	for (unsigned i = 0; i < fold->n_ticks; i++) {
		if (fold->ticks[i].id != tick_id)
			continue;
		fold->current = i;
		return true;
	}
	return false;
}

int64_t open_fold_process_id(const struct open_fold *fold, size_t i)
{
	return fold->processes[i].process.id;
}

int open_fold_sample(struct store *store, const struct open_fold *fold, size_t i,
		     struct proc_sample *ret, int *ret_attempt_num, struct err *err)
{
	const struct fold_tick *tick = &fold->ticks[fold->current];
	const struct fold_process *p = &fold->processes[i];
	uint8_t row = p->row_of[tick->index];

	if (row == NO_ROW)
		return 0;
	process_at(&p->process, tick->id, ret);
	*ret_attempt_num = p->process.attempt_num;
	fold_calls_tell(p->calls, tick->index, ret);
	if (sample_from_words(p->rows[row], fold->head.columns[HOST_BOOT_NS][tick->index], ret) ==
	    0)
		return 1;
	return leave_out(store, fold, DAMAGED_SAMPLES, fold->id << CHUNK_BITS | p->process.id, 1,
			 err);
}

/* The words of a thing at a tick; false: it was not there. */
static bool words_at(const struct table *t, unsigned tick, unsigned n_words, uint64_t *ret)
{
	for (unsigned i = 0; i < t->n; i++) {
		if (t->tick[i] != tick)
			continue;
		for (unsigned k = 0; k < n_words; k++)
			ret[k] = t->columns[k][i];
		return true;
	}
	return false;
}

static const char *string_at(const struct open_fold *fold, uint64_t number, struct arena *arena)
{
	return number < fold->strings.n ? arena_strdup(arena, fold->strings.items[number]) : NULL;
}

/* Items with room for one more; they have as much as the next power of two says. */
static void *make_room(struct arena *arena, void *items, size_t n, size_t size)
{
	void *more;

	if (n > 0 && (n & (n - 1)) != 0)
		return items;
	more = arena_alloc(arena, (n ? n * 2 : 1) * size);
	if (more && n > 0)
		memcpy(more, items, n * size);
	return more;
}

static int add_gpu(struct snapshot *s, const uint64_t *words)
{
	struct gpu_sample *gpus = make_room(&s->arena, s->gpus, s->n_gpus, sizeof(*gpus));

	if (!gpus)
		return -ENOMEM;
	s->gpus = gpus;
	return gpu_from_words(words, &gpus[s->n_gpus++]);
}

static int add_progress(const struct open_fold *fold, struct snapshot *s, const uint64_t *words)
{
	struct job_progress *items =
		make_room(&s->arena, s->progress, s->n_progress, sizeof(*items));

	if (!items)
		return -ENOMEM;
	s->progress = items;
	items += s->n_progress++;
	*items = (struct job_progress){
		.job_id = string_at(fold, words[PROGRESS_JOB], &s->arena),
		.status = string_at(fold, words[PROGRESS_STATUS], &s->arena),
	};
	return progress_from_words(words, items);
}

/* The one without a path says that somebody looked. */
static int add_cgroup(const struct open_fold *fold, struct snapshot *s, const uint64_t *words)
{
	struct cgroup_sample *items =
		make_room(&s->arena, s->cgroups, s->n_cgroups, sizeof(*items));

	if (!items)
		return -ENOMEM;
	s->cgroups = items;
	if (!u64_known(words[CGROUP_PATH]))
		return 0;
	items += s->n_cgroups++;
	cgroup_sample_init(items); /* not all of it is in the record */
	items->path = string_at(fold, words[CGROUP_PATH], &s->arena);
	return cgroup_from_words(words, items);
}

static int tell_things(const struct open_fold *fold, enum tick_list list,
		       struct fold_reader *things, struct table *t, struct snapshot *ret)
{
	unsigned tick = fold->ticks[fold->current].index;
	uint64_t words[WORDS_MAX];
	int r;

	while ((r = fold_read_thing(things, list, t)) > 0) {
		if (!words_at(t, tick, list_words[list], words))
			continue;
		r = list == LIST_GPUS	    ? add_gpu(ret, words)
		    : list == LIST_PROGRESS ? add_progress(fold, ret, words)
					    : add_cgroup(fold, ret, words);
		if (r < 0)
			return r;
	}
	return r;
}

static int tell_all_things(const struct open_fold *fold, struct snapshot *ret)
{
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct fold_reader things = fold->things;
	unsigned tick = fold->ticks[fold->current].index;
	int r = t ? 0 : -ENOMEM;

	if (r == 0 && u64_known(fold->head.columns[HEAD_HAS_GPUS][tick])) {
		ret->gpus = arena_alloc(&ret->arena, sizeof(*ret->gpus)); /* none is not unknown */
		r = ret->gpus ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = tell_things(fold, LIST_GPUS, &things, t, ret);
	if (r == 0)
		r = tell_things(fold, LIST_PROGRESS, &things, t, ret);
	return r < 0 ? r : tell_things(fold, LIST_CGROUPS, &things, t, ret);
}

/*
 * A tick of a daemon names the daemon: one that does not is a closer look at one job. Looks are
 * few, so where all names are lost to damage it is taken for one of the host.
 */
static enum snapshot_covers covers_of(const struct open_fold *fold, const struct snapshot *s)
{
	if (fold->recorder > 0)
		return COVERS_JOB;
	return s->daemon_pid > 0 || !fold->is_whole ? COVERS_HOST : COVERS_LOOK;
}

static int tell_host(const struct open_fold *fold, struct snapshot *ret)
{
	unsigned tick = fold->ticks[fold->current].index;
	uint64_t words[HEAD_WORDS];
	int r;

	for (unsigned k = 0; k < HEAD_WORDS; k++)
		words[k] = fold->head.columns[k][tick];
	memcpy(ret->boot_id, fold->boot_id, sizeof(ret->boot_id));
	ret->pressure_level = string_at(fold, words[HEAD_LEVEL], &ret->arena);
	r = host_from_words(words, ret);
	ret->covers = covers_of(fold, ret);
	return r;
}

static int tell_processes(struct store *store, const struct open_fold *fold, unsigned parts,
			  struct snapshot *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < fold->n_processes; i++) {
		struct proc_sample sample;
		int num;

		r = open_fold_sample(store, fold, i, &sample, &num, err);
		if (r > 0) {
			struct proc_sample *p = snapshot_add_process(ret);

			if (p)
				*p = sample;
			if (p && parts & FOLD_ATTEMPTS)
				p->attempt_id = fold->processes[i].process.attempt_id;
			r = p ? 0 : store_no_memory(store, err);
		}
	}
	return r;
}

/* What of the tick makes no sense is left out, and nothing else of it. */
static int settle(struct store *store, const struct open_fold *fold, int r, struct err *err)
{
	if (r == -ENOMEM)
		return store_no_memory(store, err);
	return r < 0 ? leave_out(store, fold, DAMAGED_THINGS, fold->ticks[fold->current].id, 1, err)
		     : 0;
}

int open_fold_snapshot(struct store *store, const struct open_fold *fold, unsigned parts,
		       struct snapshot *ret, struct err *err)
{
	int r = parts & FOLD_HOST ? settle(store, fold, tell_host(fold, ret), err) : 0;

	ret->recorder = fold->recorder;
	if (r == 0 && parts & FOLD_THINGS && fold->is_whole)
		r = settle(store, fold, tell_all_things(fold, ret), err);
	if (r == 0 && parts & FOLD_PROCESSES)
		r = tell_processes(store, fold, parts, ret, err);
	if (r == 0 && ret->covers == COVERS_JOB)
		ret->covered_job = fold->job_id;
	else if (r == 0 && ret->covers == COVERS_LOOK && ret->n_processes > 0 && fold->is_whole)
		ret->covered_job = ret->processes[0].job_id;
	return r;
}

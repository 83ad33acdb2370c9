#include "store/fold.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/tick_snapshot.h"
#include "store/attempt.h"
#include "store/damage.h"
#include "store/query.h"
#include "store/tables.h"

/* What a process was called up to some tick. */
struct process_image {
	int64_t until_tick;
	struct proc_sample process; /* the columns of images alone */
	struct process_image *next;
};

static int read_images(struct store *store, struct arena *arena, struct process *p, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process_image **last = &p->images;
	int r = query_ask(store, STATEMENT_WALK_IMAGES, &q, err, p->id);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct process_image *image = arena_alloc(arena, sizeof(*image));

		if (!image)
			return store_no_memory(store, err);
		proc_sample_init(&image->process);
		image->until_tick = query_read_i64(&q);
		image->next = NULL;
		*last = image;
		last = &image->next;
		r = query_read_columns(&q, &image_columns, &image->process, arena, err);
	}
	return r;
}

int process_read(struct query *q, struct arena *arena, struct process *ret, struct err *err)
{
	bool has_images;
	int r;

	*ret = (struct process){ .id = query_read_i64(q) };
	proc_sample_init(&ret->last);
	has_images = query_read_i64(q);
	ret->attempt_num = (int)query_read_i64(q);
	ret->attempt_id = query_read_i64(q);
	ret->last.job_id = arena_strdup(arena, query_read_text(q));
	if (!ret->last.job_id)
		return store_no_memory(q->store, err);
	r = query_read_columns(q, &sample_process_columns, &ret->last, arena, err);
	return r < 0 || !has_images ? r : read_images(q->store, arena, ret, err);
}

void process_at(const struct process *p, int64_t tick_id, struct proc_sample *ret)
{
	const struct process_image *image = p->images;

	*ret = p->last;
	while (image && image->until_tick < tick_id)
		image = image->next;
	if (!image)
		return;
	ret->sheet_num = image->process.sheet_num;
	ret->rank = image->process.rank;
	memcpy(ret->comm, image->process.comm, sizeof(ret->comm));
	ret->command = image->process.command;
	ret->cgroup = image->process.cgroup;
}

/* Of all tables of a process: no fold that was written has more (FOLD_BYTES). */
#define MAX_CALLS (1 << 20)

struct fold_calls {
	bool is_counted[CODEC_ROWS];
	size_t first[CODEC_ROWS + 1]; /* of each tick, in uses */
	struct syscall_use *uses;
};

/*
 * All rows of all tables: they are counted by their tick (first[tick + 1]), or, where there is room
 * for them, taken; then first[tick] is where the next one goes.
 */
static int each_call(struct fold_reader reader, const struct fold_strings *strings, struct table *t,
		     struct fold_calls *calls)
{
	while (reader.p != reader.end) {
		int r = fold_read_thing(&reader, LIST_SYSCALLS, t);

		if (r <= 0)
			return -EBADMSG;
		for (unsigned i = 0; i < t->n; i++) {
			uint64_t name = t->columns[SYSCALL_NAME][i];
			unsigned tick = t->tick[i];

			calls->is_counted[tick] = true;
			if (!u64_known(name))
				continue;
			if (name >= strings->n)
				return -EBADMSG;
			if (!calls->uses) {
				calls->first[tick + 1]++;
				continue;
			}
			calls->uses[calls->first[tick]++] = (struct syscall_use){
				.name = strings->items[name],
				.count = t->columns[SYSCALL_COUNT][i],
				.errors = t->columns[SYSCALL_ERRORS][i],
				.cpu_ns = t->columns[SYSCALL_CPU_NS][i],
				.wait_ns = t->columns[SYSCALL_WAIT_NS][i],
			};
		}
	}
	return 0;
}

int fold_calls_read(const void *data, size_t len, unsigned n_ticks,
		    const struct fold_strings *strings, struct arena *arena,
		    struct fold_calls **ret)
{
	struct fold_reader reader = { data, (const uint8_t *)data + len, n_ticks };
	CLEANUP(free_ptr) struct table *t = NULL;
	struct fold_calls *calls;
	size_t n;
	int r;

	*ret = NULL;
	if (len == 0)
		return 0;
	t = malloc(sizeof(*t));
	calls = arena_alloc(arena, sizeof(*calls));
	if (!t || !calls)
		return -ENOMEM;
	*calls = (struct fold_calls){ 0 };
	r = each_call(reader, strings, t, calls);
	for (unsigned i = 0; i < CODEC_ROWS; i++)
		calls->first[i + 1] += calls->first[i];
	n = calls->first[CODEC_ROWS];
	if (r < 0 || n > MAX_CALLS)
		return -EBADMSG;
	calls->uses = arena_alloc(arena, (n + 1) * sizeof(*calls->uses)); /* none is not unknown */
	if (!calls->uses)
		return -ENOMEM;
	r = each_call(reader, strings, t, calls);
	/* Each is where the one behind it began. */
	memmove(calls->first + 1, calls->first, CODEC_ROWS * sizeof(*calls->first));
	calls->first[0] = 0;
	*ret = calls;
	return r;
}

void fold_calls_tell(const struct fold_calls *calls, unsigned tick, struct proc_sample *ret)
{
	if (!calls || !calls->is_counted[tick])
		return;
	ret->syscalls = calls->uses + calls->first[tick];
	ret->n_syscalls = calls->first[tick + 1] - calls->first[tick];
}

int fold_times_read(const void *pack, size_t len, struct table *t, struct fold_times *ret)
{
	int r = fold_read_times(pack, len, ret->ids, t);

	ret->n = r < 0 ? 0 : t->n;
	memcpy(ret->wall_ns, t->columns[HOST_WALL_NS], ret->n * sizeof(*ret->wall_ns));
	memcpy(ret->boot_ns, t->columns[HOST_BOOT_NS], ret->n * sizeof(*ret->boot_ns));
	return r;
}

bool fold_lasts(const uint64_t *wall_ns, unsigned n, int64_t first_ns, int64_t last_ns)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (unsigned i = 0; i < n; i++) {
		first = wall_ns[i] < first ? wall_ns[i] : first;
		last = wall_ns[i] > last ? wall_ns[i] : last;
	}
	return first == (uint64_t)first_ns && last == (uint64_t)last_ns;
}

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

static struct open_fold *open_fold_new(void)
{
	struct open_fold *fold = calloc(1, sizeof(*fold));

	if (fold)
		*fold = (struct open_fold){ .blob = BUF_INIT, .is_whole = true };
	return fold;
}

/* ---- ticks ---- */

bool fold_tick_is_before(const struct fold_tick *a, const struct fold_tick *b)
{
	return a->wall_ns < b->wall_ns || (a->wall_ns == b->wall_ns && a->id < b->id);
}

/* The head, from the blob, and which ticks are told. */
static int read_head(struct store *store, struct open_fold *fold, const struct fold_filter *filter,
		     struct err *err)
{
	const uint64_t *wall_ns = fold->head.columns[HOST_WALL_NS];
	int64_t ids[CODEC_ROWS];
	int r = fold_read_times(fold->ref.times, fold->ref.times_len, ids, &fold->head);

	if (r == 0 && !fold_lasts(wall_ns, fold->head.n, fold->ref.first_ns, fold->ref.last_ns))
		r = -EBADMSG;
	if (r == -EBADMSG) /* it has no ticks to tell */
		return fold_leave_out(store, &fold->ref, DAMAGED_TICKS, fold->ref.id,
				      fold->ref.n_ticks, err);
	if (r == 0 && fold->is_whole)
		r = fold_read_head(&fold->things, fold->blob.data, fold->blob.len, &fold->head,
				   &fold->strings);
	if (r == -ENOMEM)
		return store_no_memory(store, err);
	fold->is_whole &= r == 0;
	if (!fold->is_whole)
		r = fold_leave_out(store, &fold->ref, DAMAGED_THINGS, fold->ref.id,
				   fold->ref.n_ticks, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < fold->head.n; i++) {
		struct fold_tick tick = { wall_ns[i], ids[i], i };
		unsigned k;

		if (tick.id > filter->last_id || tick.wall_ns < filter->since_wall_ns ||
		    tick.wall_ns > filter->until_wall_ns ||
		    fold_tick_is_before(&tick, &filter->from))
			continue;
		/* Nearly in order: the clock is rarely set back. */
		for (k = fold->n_ticks++; k > 0 && fold_tick_is_before(&tick, &fold->ticks[k - 1]);
		     k--)
			fold->ticks[k] = fold->ticks[k - 1];
		fold->ticks[k] = tick;
	}
	return 0;
}

/* Who wrote it, and where. */
static int read_recorder(struct store *store, struct open_fold *fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *text;
	int r = query_first(store, STATEMENT_WALK_RECORDER, &q, err, fold->ref.recorder);

	if (r <= 0)
		return r;
	text = query_read_text(&q);
	if (text && strlen(text) < sizeof(fold->boot_id))
		strcpy(fold->boot_id, text);
	text = query_read_text(&q);
	if (text)
		fold->job_id = arena_strdup(&fold->arena, text);
	fold->attempt_num = (int)query_read_i64(&q);
	fold->uid = (uint64_t)query_read_i64(&q); /* -1 is unknown */
	return text && !fold->job_id ? store_no_memory(store, err) : 0;
}

/* What adding a process needs. */
struct adding {
	struct store *store;
	struct open_fold *fold;
	const struct fold_filter *filter;
	struct table t;
};

static int add_process(void *ctx, int64_t process, const void *data, size_t len, struct err *err)
{
	struct adding *adding = ctx;
	struct store *store = adding->store;
	struct open_fold *fold = adding->fold;
	struct table *t = &adding->t;
	unsigned n_words = adding->filter->n_words ? adding->filter->n_words : SAMPLE_WORDS;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct fold_process *p;
	ssize_t n_read;
	int r = query_first(store, STATEMENT_WALK_PROCESS, &q, err, process);

	if (r <= 0) /* it is gone */
		return r;
	if (ARRAY_RESERVE(fold->processes, fold->cap, fold->n_processes + 1) < 0)
		return store_no_memory(store, err);
	p = memset(&fold->processes[fold->n_processes], 0, sizeof(*p));
	r = process_read(&q, &fold->arena, &p->process, err);
	if (r < 0)
		return r;
	n_read = table_read(data, len, fold->head.n, n_words, fold->head.columns[HOST_BOOT_NS], t);
	if (n_read < 0 || fold->n_rows + t->n > MAX_ROWS)
		return -EBADMSG;
	if (n_words == SAMPLE_WORDS && fold->is_whole) /* their names are in the head */
		r = fold_calls_read((const char *)data + n_read, len - (size_t)n_read, fold->head.n,
				    &fold->strings, &fold->arena, &p->calls);
	if (r < 0)
		return r == -ENOMEM ? store_no_memory(store, err) : r;
	p->rows = arena_alloc(&fold->arena, t->n * sizeof(*p->rows));
	if (!p->rows)
		return store_no_memory(store, err);
	fold->n_rows += t->n;
	fold->n_processes++;
	if (n_words < SAMPLE_WORDS) /* words that were not read are unknown */
		memset(p->rows, 0xff, t->n * sizeof(*p->rows));
	memset(p->row_of, NO_ROW, sizeof(p->row_of));
	for (unsigned i = 0; i < t->n; i++)
		p->row_of[t->tick[i]] = (uint8_t)i;
	for (unsigned k = 0; k < n_words; k++)
		for (unsigned i = 0; i < t->n; i++)
			p->rows[i][k] = t->columns[k][i];
	return 0;
}

/* ---- opening ---- */

/* The blob is there. */
static int finish(struct store *store, struct open_fold **fold, const struct fold_filter *filter,
		  struct open_fold **ret, struct err *err)
{
	CLEANUP(free_ptr) struct adding *adding = malloc(sizeof(*adding));
	int r = !adding || buf_error(&(*fold)->blob) < 0 ? store_no_memory(store, err)
							 : read_head(store, *fold, filter, err);

	if (r < 0 || (*fold)->n_ticks == 0)
		return r;
	adding->store = store;
	adding->fold = *fold;
	adding->filter = filter;
	r = read_recorder(store, *fold, err);
	if (r == 0 && !filter->heads_only)
		r = fold_each_samples(store, &(*fold)->ref, filter->wanted, add_process, adding,
				      err);
	(*fold)->ref.times = NULL; /* borrowed, as this was: */
	(*fold)->ref.pending = NULL;
	if (r == 0)
		*ret = TAKE_PTR(*fold);
	return r;
}

int open_fold_read(struct store *store, int64_t id, const struct fold_filter *filter,
		   struct open_fold **ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(free_fold) struct open_fold *fold = open_fold_new();
	int r = fold ? query_first(store, STATEMENT_WALK_FOLD, &q, err, id)
		     : store_no_memory(store, err);

	*ret = NULL;
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	fold->ref.id = id;
	fold->ref.recorder = query_read_i64(&q);
	fold->ref.first_ns = query_read_i64(&q);
	fold->ref.last_ns = query_read_i64(&q);
	fold->ref.n_ticks = (uint64_t)query_read_i64(&q);
	fold->ref.times = query_read_blob(&q, id, &fold->ref.times_len);
	r = query_read_pack(&q, id, &fold->blob, err);
	fold->is_whole = r == 0;
	return r == -ENOMEM ? r : finish(store, &fold, filter, ret, err);
}

struct opening {
	struct store *store;
	const struct fold_filter *filter;
	struct open_fold **list;
};

static int open_pending(void *ctx, const struct fold_ref *ref, struct err *err)
{
	const struct opening *opening = ctx;
	CLEANUP(free_fold) struct open_fold *fold = open_fold_new();
	struct open_fold *opened = NULL;
	int r;

	if (!fold)
		return store_no_memory(opening->store, err);
	fold->ref = *ref;
	buf_add(&fold->blob, ref->pending->head.data, ref->pending->head.len);
	r = finish(opening->store, &fold, opening->filter, &opened, err);
	if (opened) {
		opened->next = *opening->list;
		*opening->list = opened;
	}
	return r;
}

int open_fold_read_pending(struct store *store, int64_t recorder, const struct fold_filter *filter,
			   struct open_fold **list, struct err *err)
{
	struct opening opening = { store, filter, list };

	return folds_read_pending(store, recorder, query_as_i64(filter->since_wall_ns),
				  query_as_i64(filter->until_wall_ns), filter->last_id,
				  open_pending, &opening, err);
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

int open_fold_sample(struct store *store, const struct open_fold *fold, size_t i,
		     struct proc_sample *ret, const struct process **ret_process, struct err *err)
{
	const struct fold_tick *tick = open_fold_tick(fold);
	const struct fold_process *p = &fold->processes[i];
	uint8_t row = p->row_of[tick->index];

	if (row == NO_ROW)
		return 0;
	process_at(&p->process, tick->id, ret);
	*ret_process = &p->process;
	fold_calls_tell(p->calls, tick->index, ret);
	if (sample_from_words(p->rows[row], fold->head.columns[HOST_BOOT_NS][tick->index], ret) ==
	    0)
		return 1;
	return fold_leave_out(store, &fold->ref, DAMAGED_SAMPLES,
			      fold->ref.id << CHUNK_BITS | group_of(p->process.id), 1, err);
}

/* GPUs, cgroups, and progress, which is that of the recorder's attempt. */
static int tell_things(const struct open_fold *fold, struct snapshot *ret)
{
	static const enum tick_list lists[] = { LIST_GPUS, LIST_PROGRESS, LIST_CGROUPS };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct fold_reader things = fold->things;
	unsigned tick = open_fold_tick(fold)->index;
	int r = t ? 0 : -ENOMEM;

	if (r == 0 && u64_known(fold->head.columns[HEAD_HAS_GPUS][tick])) {
		ret->gpus = arena_alloc(&ret->arena, sizeof(*ret->gpus)); /* none is not unknown */
		r = ret->gpus ? 0 : -ENOMEM;
	}
	for (size_t l = 0; r == 0 && l < ARRAY_SIZE(lists); l++) {
		while (r == 0 && (r = fold_read_thing(&things, lists[l], t)) > 0) {
			uint64_t words[WORDS_MAX];
			unsigned i = 0;

			while (i < t->n && t->tick[i] != tick)
				i++;
			r = 0;
			if (i == t->n) /* it was not there */
				continue;
			for (unsigned k = 0; k < list_words[lists[l]]; k++)
				words[k] = t->columns[k][i];
			r = snapshot_add_row(ret, lists[l], words, fold->strings.items,
					     fold->strings.n);
			r = r < 0 ? r : 0;
		}
	}
	for (size_t i = 0; fold->job_id && i < ret->n_progress; i++) {
		ret->progress[i].attempt_id = fold->ref.recorder;
		ret->progress[i].attempt_num = fold->attempt_num;
		ret->progress[i].uid = fold->uid;
	}
	return r;
}

static int tell_host(const struct open_fold *fold, struct snapshot *ret)
{
	unsigned tick = open_fold_tick(fold)->index;
	uint64_t words[HEAD_WORDS];
	int r;

	for (unsigned k = 0; k < HEAD_WORDS; k++)
		words[k] = fold->head.columns[k][tick];
	memcpy(ret->boot_id, fold->boot_id, sizeof(ret->boot_id));
	if (words[HEAD_LEVEL] < fold->strings.n)
		ret->pressure_level =
			arena_strdup(&ret->arena, fold->strings.items[words[HEAD_LEVEL]]);
	r = host_from_words(words, ret);
	ret->covers = COVERS_JOB;
	return r;
}

static int tell_processes(struct store *store, const struct open_fold *fold, unsigned parts,
			  struct snapshot *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < fold->n_processes; i++) {
		const struct process *process;
		struct proc_sample sample, *p;

		r = open_fold_sample(store, fold, i, &sample, &process, err);
		if (r <= 0)
			continue;
		p = snapshot_add_process(ret);
		if (!p)
			return store_no_memory(store, err);
		*p = sample;
		if (parts & FOLD_ATTEMPTS)
			p->attempt_id = process->attempt_id;
		r = 0;
	}
	return r;
}

/* What of the tick makes no sense is left out, and nothing else of it. */
static int settle(struct store *store, const struct open_fold *fold, int r, struct err *err)
{
	if (r == -ENOMEM)
		return store_no_memory(store, err);
	return r < 0 ? fold_leave_out(store, &fold->ref, DAMAGED_THINGS, open_fold_tick(fold)->id,
				      1, err)
		     : 0;
}

int open_fold_snapshot(struct store *store, const struct open_fold *fold, unsigned parts,
		       struct snapshot *ret, struct err *err)
{
	int r = parts & FOLD_HOST ? settle(store, fold, tell_host(fold, ret), err) : 0;

	ret->recorder = fold->ref.recorder;
	if (r == 0 && parts & FOLD_THINGS && fold->is_whole)
		r = settle(store, fold, tell_things(fold, ret), err);
	if (r == 0 && parts & FOLD_PROCESSES)
		r = tell_processes(store, fold, parts, ret, err);
	ret->covered_job = fold->job_id;
	return r;
}

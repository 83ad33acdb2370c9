#include "store/fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"

/* The ticks that become one, and the thing that is taken out of all of them at once. */
struct folding {
	struct store *store;
	struct buf bytes;			/* of the ticks, one behind the other */
	size_t offsets[CODEC_ROWS + 2];		/* in bytes */
	struct fold_lost ticks[CODEC_ROWS + 1]; /* one more than fits: is there more? */
	bool has_more;				/* there is, or may be */
	struct tick_reader readers[CODEC_ROWS];
	bool is_done[N_LISTS][CODEC_ROWS]; /* its list is at the end */
	unsigned n_loaded, n;		   /* n of them could be read, and have a reader */
	int64_t read_ids[CODEC_ROWS];
	const char **strings_of[CODEC_ROWS]; /* of each reader; NULL where it has none */
	struct table head, table;
	struct fold_strings strings;
	struct map string_of; /* hash -> number of the string */
	struct buf things;    /* of the head, behind the strings, which are all known last */
};

static void folding_free(struct folding **f)
{
	if (!*f)
		return;
	for (unsigned i = 0; i < (*f)->n; i++)
		free((*f)->strings_of[i]);
	buf_release(&(*f)->bytes);
	fold_strings_release(&(*f)->strings);
	map_release(&(*f)->string_of);
	buf_release(&(*f)->things);
	free(*f);
	*f = NULL;
}

void folded_release(struct folded *f)
{
	buf_release(&f->times);
	buf_release(&f->head);
	buf_release(&f->bytes);
	free(f->parts);
}

/* ---- the ticks that are folded together: which they are, and how each is read ---- */

/*
 * The bytes that are taken at once, about: a segment has FOLD_BYTES and a tick. One of
 * more than TICK_MAX_BYTES nobody has written: it is not even read.
 */
#define LOAD_BYTES ((size_t)16 << 20)
#define TICK_MAX_BYTES (64 << 20)

static int load_ticks(struct folding *f, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(f->store, STATEMENT_OLDEST_TICKS, &q, err, recorder, after_id, last_id,
			  CODEC_ROWS + 1, TICK_MAX_BYTES);

	while (r >= 0 && !f->has_more && (r = query_step(&q, err)) > 0) {
		struct fold_lost *tick = &f->ticks[f->n_loaded];
		const void *data;
		size_t len;

		tick->id = query_read_i64(&q);
		tick->wall_ns = query_read_i64(&q);
		data = query_read_blob(&q, tick->wall_ns, &len);
		buf_add(&f->bytes, data, len);
		f->offsets[++f->n_loaded] = f->bytes.len;
		f->has_more = f->n_loaded > CODEC_ROWS || f->bytes.len >= LOAD_BYTES;
	}
	if (r >= 0 && buf_error(&f->bytes) < 0)
		r = store_no_memory(f->store, err);
	return r < 0 ? r : 0;
}

/* Its time stands beside it as well. */
static int read_tick(const struct folding *f, unsigned i, const struct tick_reader *before,
		     int64_t before_id, struct tick_reader *ret)
{
	int r = tick_read(ret, f->bytes.data + f->offsets[i], f->offsets[i + 1] - f->offsets[i],
			  before_id, before ? before->head : NULL);

	return r == 0 && ret->head[HOST_WALL_NS] != (uint64_t)f->ticks[i].wall_ns ? -EBADMSG : r;
}

static bool is_whole(const struct folding *f, unsigned i)
{
	struct tick_reader reader;

	return read_tick(f, i, NULL, 0, &reader) == 0;
}

/*
 * How many of those that were loaded become a fold. If there is more than fits, the rest begins
 * with a whole tick: later ones need none of ours. So it does where ticks lie far apart.
 */
static unsigned find_cut(const struct folding *f)
{
	unsigned n = f->n_loaded, whole = n - 1;

	while (f->has_more && whole > 0 && !is_whole(f, whole))
		whole--;
	if (f->has_more)
		n = whole > 0 ? whole : n > CODEC_ROWS ? CODEC_ROWS : n;
	for (unsigned i = 1; i < n; i++)
		if (fold_has_gap(f->ticks[i].wall_ns, f->ticks[i - 1].wall_ns) && is_whole(f, i))
			return i;
	return n;
}

/* One that cannot be read is left out, with those that need it. */
static int read_ticks(struct folding *f, struct folded *ret)
{
	const struct tick_reader *before = NULL;
	int64_t before_id = 0;

	ret->n_lost = 0;
	for (unsigned i = 0; i < f->n_loaded; i++) {
		struct tick_reader *reader = &f->readers[f->n];

		if (read_tick(f, i, before, before_id, reader) < 0) {
			before = NULL;
			before_id = 0;
			ret->lost[ret->n_lost++] = f->ticks[i];
			continue;
		}
		if (tick_index_strings(reader, &f->strings_of[f->n]) < 0)
			return -ENOMEM;
		before = reader;
		before_id = f->read_ids[f->n++] = f->ticks[i].id;
	}
	return 0;
}

/* ---- tables ---- */

/* A column of numbers of a tick's strings becomes one of the fold's. */
static int number_strings(struct folding *f, struct table *t, unsigned word)
{
	for (unsigned i = 0; i < t->n; i++) {
		uint64_t *number = &t->columns[word][i], hash, known;
		const char *s = *number < f->readers[t->tick[i]].n_strings
					? f->strings_of[t->tick[i]][*number]
					: NULL;

		*number = U64_UNKNOWN;
		if (!s)
			continue;
		hash = hash_bytes(HASH_INIT, s, strlen(s));
		if (map_get(&f->string_of, hash, &known) &&
		    strcmp(f->strings.items[known], s) == 0) {
			*number = known;
			continue;
		}
		*number = f->strings.n;
		if (fold_strings_add(&f->strings, s) < 0 ||
		    map_put(&f->string_of, hash, *number) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void begin_list(struct folding *f, enum tick_list list)
{
	for (unsigned i = 0; i < f->n; i++)
		f->is_done[list][i] = tick_cursor_next(&f->readers[i].lists[list]) <= 0;
}

/* The least key that a reader stands at; -1: all are done. */
static int64_t next_key(const struct folding *f, enum tick_list list)
{
	int64_t least = -1;

	for (unsigned i = 0; i < f->n; i++) {
		int64_t key = f->readers[i].lists[list].key;

		if (!f->is_done[list][i] && (least < 0 || key < least))
			least = key;
	}
	return least;
}

/* Its rows, from all readers that stand at it. */
static void gather(struct folding *f, enum tick_list list, int64_t key)
{
	struct table *t = &f->table;
	uint64_t words[WORDS_MAX];

	t->n = 0;
	for (unsigned i = 0; i < f->n; i++) {
		struct tick_cursor *c = &f->readers[i].lists[list];
		bool has_before; /* words differ from the row before, if it is of the tick before */

		if (f->is_done[list][i] || c->key != key)
			continue;
		has_before = f->readers[i].before_id && t->n > 0 && t->tick[t->n - 1] + 1u == i;
		tick_cursor_read(c, has_before ? words : NULL, words);
		for (unsigned k = 0; k < list_words[list]; k++)
			t->columns[k][t->n] = words[k];
		t->tick[t->n++] = (uint8_t)i;
		f->is_done[list][i] = tick_cursor_next(c) <= 0;
	}
}

/* ---- the parts of the fold ---- */

/* GPUs, progress and cgroups. */
static int write_things(struct folding *f, enum tick_list list, struct buf *out)
{
	int64_t key;
	int r = 0;

	begin_list(f, list);
	if (list == LIST_CGROUPS && next_key(f, list) < 0)
		return 0;
	while (r == 0 && (key = next_key(f, list)) >= 0) {
		gather(f, list, key);
		if (list == LIST_PROGRESS)
			r = number_strings(f, &f->table, PROGRESS_JOB);
		if (r == 0 && list == LIST_PROGRESS)
			r = number_strings(f, &f->table, PROGRESS_STATUS);
		if (list == LIST_CGROUPS)
			r = number_strings(f, &f->table, CGROUP_PATH);
		fold_write_thing(out, list, &f->table);
	}
	fold_write_end(out);
	return r;
}

/* What a process has called, behind its samples. Both go up by process. */
static int append_calls(struct folding *f, int64_t process, struct buf *out)
{
	int64_t key;

	while ((key = next_key(f, LIST_SYSCALLS)) >= 0 && key >> SYSCALL_BITS <= process) {
		gather(f, LIST_SYSCALLS, key);
		if (key >> SYSCALL_BITS < process)
			continue;
		if (number_strings(f, &f->table, SYSCALL_NAME) < 0)
			return -ENOMEM;
		fold_write_thing(out, LIST_SYSCALLS, &f->table);
	}
	return 0;
}

/* The tables of all of the list. */
static int write_parts(struct folding *f, enum tick_list list, struct folded *ret)
{
	bool is_sample = list == LIST_SAMPLES;
	int64_t key;

	begin_list(f, list);
	while ((key = next_key(f, list)) >= 0) {
		struct fold_part *part;

		if (ARRAY_RESERVE(ret->parts, ret->cap, ret->n_parts + 1) < 0)
			return -ENOMEM;
		part = &ret->parts[ret->n_parts++];
		*part = (struct fold_part){ .list = list, .key = key, .at = ret->bytes.len };
		gather(f, list, key);
		table_write(&ret->bytes, &f->table, list_words[list],
			    is_sample ? f->head.columns[HOST_BOOT_NS] : NULL);
		if (is_sample && append_calls(f, key, &ret->bytes) < 0)
			return -ENOMEM;
		part->len = ret->bytes.len - part->at;
	}
	return 0;
}

/* At least one tick could be read. */
static int write_fold(struct folding *f, struct folded *ret)
{
	const uint64_t *wall_ns = f->head.columns[HOST_WALL_NS];

	f->head.n = f->n;
	for (unsigned i = 0; i < f->n; i++) {
		f->head.tick[i] = (uint8_t)i;
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			f->head.columns[k][i] = f->readers[i].head[k];
	}
	if (number_strings(f, &f->head, HEAD_LEVEL) < 0 ||
	    write_things(f, LIST_GPUS, &f->things) < 0 ||
	    write_things(f, LIST_PROGRESS, &f->things) < 0 ||
	    write_things(f, LIST_CGROUPS, &f->things) < 0)
		return -ENOMEM;
	ret->first_ns = ret->last_ns = (int64_t)wall_ns[0];
	for (unsigned i = 1; i < f->n; i++) {
		int64_t ns = (int64_t)wall_ns[i];

		ret->first_ns = ns < ret->first_ns ? ns : ret->first_ns;
		ret->last_ns = ns > ret->last_ns ? ns : ret->last_ns;
	}
	begin_list(f, LIST_SYSCALLS);
	if (write_parts(f, LIST_POINTS, ret) < 0 || write_parts(f, LIST_SAMPLES, ret) < 0)
		return -ENOMEM;
	/* Calls have names as well: the strings are all there by now. */
	fold_write_times(&ret->times, f->read_ids, &f->head);
	fold_write_head(&ret->head, &f->head, &f->strings);
	buf_add(&ret->head, f->things.data, f->things.len);
	return buf_error(&f->things) < 0 || buf_error(&ret->times) < 0 ||
			       buf_error(&ret->head) < 0 || buf_error(&ret->bytes) < 0
		       ? -ENOMEM
		       : 0;
}

int fold_read_pending(struct store *store, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct folded *ret, struct err *err)
{
	CLEANUP(folding_free) struct folding *f = malloc(sizeof(*f));
	int r;

	if (!f)
		return store_no_memory(store, err);
	f->store = store;
	f->bytes = (struct buf)BUF_INIT;
	f->offsets[0] = 0;
	f->n_loaded = f->n = 0;
	f->has_more = false;
	f->strings = (struct fold_strings){ 0 };
	f->string_of = (struct map)MAP_INIT;
	f->things = (struct buf)BUF_INIT;
	r = load_ticks(f, recorder, after_id, last_id, err);
	if (r < 0 || f->n_loaded == 0)
		return r;
	f->n_loaded = find_cut(f);
	r = read_ticks(f, ret);
	buf_reset(&ret->times);
	buf_reset(&ret->head);
	buf_reset(&ret->bytes);
	ret->n_parts = 0;
	ret->id = f->ticks[f->n_loaded - 1].id;
	ret->n_ticks = f->n;
	if (r == 0 && f->n > 0)
		r = write_fold(f, ret);
	return r < 0 ? store_no_memory(store, err) : 1;
}

/* ---- the processes that a filter wants ---- */

void process_set_release(struct process_set *set)
{
	free(set->ids);
	*set = (struct process_set){ 0 };
}

int process_set_find(struct process_set *set, struct store *store, const char *job_id, pid_t pid,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r;

	set->is_filtered = job_id || pid;
	if (!set->is_filtered)
		return 0;
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);
	if (r == 0 && job_id)
		r = job_find_row(store, job_id, &set->job, err);
	if (r == 0)
		r = set->job ? query_ask(store, STATEMENT_PROCESSES_OF_JOB, &q, err, pid, set->job)
			     : query_ask(store, STATEMENT_PROCESSES_OF_PID, &q, err, pid);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		if (ARRAY_RESERVE(set->ids, set->cap, set->n + 1) < 0)
			return store_no_memory(store, err);
		set->ids[set->n++] = query_read_i64(&q);
		r = 0;
	}
	return r;
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

bool process_set_has(const struct process_set *set, int64_t process)
{
	return !set->is_filtered ||
	       bsearch(&process, set->ids, set->n, sizeof(process), compare_ids);
}

static int compare_group(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = group_of(*(const int64_t *)b);

	return x < y ? -1 : x > y;
}

bool process_set_has_group(const struct process_set *set, int64_t group)
{
	return !set->is_filtered || bsearch(&group, set->ids, set->n, sizeof(group), compare_group);
}

/* ---- folds as they are read ---- */

int fold_leave_out(struct store *store, const struct fold_ref *fold, enum damage_kind kind,
		   int64_t id, uint64_t n, struct err *err)
{
	const struct damage d = { kind, id, fold->recorder, n, fold->first_ns, fold->last_ns };

	return damage_leave_out(store, &d, err);
}

int folds_read(struct query *q, fold_fn *fn, void *ctx, struct err *err)
{
	int r = 0;

	while (r == 0 && (r = query_step(q, err)) > 0) {
		struct fold_ref fold = { .id = query_read_i64(q) };

		fold.recorder = query_read_i64(q);
		fold.first_ns = query_read_i64(q);
		fold.last_ns = query_read_i64(q);
		fold.n_ticks = (uint64_t)query_read_i64(q);
		fold.times = query_read_blob(q, fold.id, &fold.times_len);
		r = fn(ctx, &fold, err);
	}
	return r;
}

int folds_read_pending(struct store *store, int64_t recorder, int64_t since_ns, int64_t until_ns,
		       int64_t last_id, fold_fn *fn, void *ctx, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int r;

	while ((r = fold_read_pending(store, recorder, f.id, last_id, &f, err)) > 0) {
		const struct fold_ref fold = { f.id,	  recorder,	f.first_ns,  f.last_ns,
					       f.n_ticks, f.times.data, f.times.len, &f };

		r = 0;
		for (unsigned i = 0; r == 0 && i < f.n_lost; i++) {
			const int64_t ns = f.lost[i].wall_ns;
			const struct damage lost = {
				DAMAGED_TICKS, f.lost[i].id, recorder, 1, ns, ns
			};

			if (ns >= since_ns && ns <= until_ns)
				r = damage_leave_out(store, &lost, err);
		}
		if (r == 0 && f.n_ticks > 0)
			r = fn(ctx, &fold, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int tell_samples(struct store *store, const struct fold_ref *fold, int64_t process,
			const void *data, size_t len, fold_samples_fn *fn, void *ctx,
			struct err *err)
{
	int r = fn(ctx, process, data, len, err);

	return r == -EBADMSG ? fold_leave_out(store, fold, DAMAGED_SAMPLES,
					      fold->id << CHUNK_BITS | group_of(process), 1, err)
			     : r;
}

int fold_each_samples(struct store *store, const struct fold_ref *fold,
		      const struct process_set *wanted, fold_samples_fn *fn, void *ctx,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	const struct folded *f = fold->pending;
	int r = f ? 0 : query_ask(store, STATEMENT_WALK_CHUNKS, &q, err, fold->id);

	for (size_t i = 0; r == 0 && f && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];

		if (part->list == LIST_SAMPLES && (!wanted || process_set_has(wanted, part->key)))
			r = tell_samples(store, fold, part->key, f->bytes.data + part->at,
					 part->len, fn, ctx, err);
	}
	while (r == 0 && !f && (r = query_step(&q, err)) > 0) {
		int64_t id = query_read_i64(&q), group = id & CHUNK_PROCESS_MAX, process;
		struct item_reader items;
		const void *data;
		size_t len;

		r = 0;
		/* A row in a wrong place is of no process: its seal does not fit there. */
		if (group == group_of(group) && wanted && !process_set_has_group(wanted, group))
			continue;
		r = query_read_pack(&q, id, &raw, err);
		items = item_reader(&raw, group);
		while (r == 0 && (r = item_read(&items, &process, &data, &len)) > 0)
			r = !wanted || process_set_has(wanted, process)
				    ? tell_samples(store, fold, process, data, len, fn, ctx, err)
				    : 0;
		if (r == -EBADMSG)
			r = fold_leave_out(store, fold, DAMAGED_SAMPLES, id, 1, err);
	}
	return r;
}

/* ---- folding ---- */

static int put_pack(struct store *store, struct buf *pack, const struct buf *raw, struct err *err)
{
	buf_reset(pack);
	pack_write(pack, raw);
	return buf_error(pack) < 0 ? store_no_memory(store, err) : 0;
}

/* Parts of processes stand by process, behind those of points. */
static int add_parts(struct store *store, const struct folded *f, struct err *err)
{
	CLEANUP(buf_release) struct buf raw = BUF_INIT, pack = BUF_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i], *next = part + 1;
		int64_t id = f->id << CHUNK_BITS | group_of(part->key);
		const char *data = f->bytes.data + part->at;

		if (part->list == LIST_POINTS) {
			buf_reset(&raw);
			buf_add(&raw, data, part->len);
			r = put_pack(store, &pack, &raw, err);
			if (r == 0)
				r = query_put(
					store, STATEMENT_ADD_POINTS, err, V_I64(part->key),
					V_I64(f->id), V_I64(f->last_ns),
					V_BLOB(points_key(part->key, f->id), pack.data, pack.len));
			buf_reset(&raw);
			continue;
		}
		if (part->key > CHUNK_PROCESS_MAX)
			return store_damaged(store, "tick", err);
		item_write(&raw, part->key, data, part->len);
		if (i + 1 < f->n_parts && group_of(next->key) == group_of(part->key))
			continue;
		r = put_pack(store, &pack, &raw, err);
		if (r == 0)
			r = query_put(store, STATEMENT_ADD_CHUNK, err, V_I64(id),
				      V_BLOB(id, pack.data, pack.len));
		buf_reset(&raw);
	}
	return r;
}

static int note_damage(struct store *store, int64_t recorder, const struct folded *f,
		       struct err *err)
{
	char first[32], last[32], why[160];

	if (f->n_lost == 0)
		return 0;
	clock_format_local((uint64_t)f->lost[0].wall_ns, first, sizeof(first));
	clock_format_local((uint64_t)f->lost[f->n_lost - 1].wall_ns, last, sizeof(last));
	snprintf(why, sizeof(why),
		 "%u ticks from %s to %s were damaged in the database, and are left out", f->n_lost,
		 first, last);
	return query_put(store, STATEMENT_NOTE_DAMAGE, err, V_I64(recorder), V_TEXT(why));
}

int fold_all(struct store *store, int64_t recorder, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	CLEANUP(buf_release) struct buf head = BUF_INIT;
	int r;

	while ((r = fold_read_pending(store, recorder, 0, INT64_MAX, &f, err)) > 0) {
		r = query_exec(store, STATEMENT_DROP_TICKS, err, recorder, f.id);
		if (r == 0 && f.n_ticks > 0)
			r = put_pack(store, &head, &f.head, err);
		if (r == 0 && f.n_ticks == 0) /* no fold keeps the last id: no tick gets it again */
			r = meta_raise(store, META_LAST_TICK, f.id, err);
		else if (r == 0)
			r = query_put(store, STATEMENT_ADD_FOLD, err, V_I64(f.id), V_I64(recorder),
				      V_I64(f.first_ns), V_I64(f.last_ns), V_I64(f.n_ticks),
				      V_BLOB(f.id, f.times.data, f.times.len),
				      V_BLOB(f.id, head.data, head.len));
		if (r == 0 && f.n_ticks > 0)
			r = add_parts(store, &f, err);
		if (r == 0)
			r = note_damage(store, recorder, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

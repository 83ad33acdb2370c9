#include "store/fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/failure.h"
#include "store/folding.h"

void folded_release(struct folded *f)
{
	buf_release(&f->head);
	buf_release(&f->bytes);
	free(f->parts);
}

/* ---- strings ---- */

/* The number that a string has in the fold. */
static int number_string(struct folding *f, const char *s, uint64_t *ret)
{
	uint64_t hash, number;

	*ret = U64_UNKNOWN;
	if (!s)
		return 0;
	hash = hash_bytes(HASH_INIT, s, strlen(s));
	if (map_get(&f->string_of, hash, &number) && strcmp(f->strings.items[number], s) == 0) {
		*ret = number;
		return 0;
	}
	*ret = f->strings.n;
	return fold_strings_add(&f->strings, s) < 0 ? -ENOMEM : map_put(&f->string_of, hash, *ret);
}

static const char *string_of(const struct folding *f, unsigned tick, uint64_t number)
{
	return number < f->readers[tick].n_strings ? f->strings_of[tick][number] : NULL;
}

/* A column of numbers of a tick's strings becomes one of the fold's. */
static int number_strings(struct folding *f, struct table *t, unsigned word)
{
	for (unsigned i = 0; i < t->n; i++) {
		uint64_t *number = &t->columns[word][i];

		if (number_string(f, string_of(f, t->tick[i], *number), number) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- tables ---- */

static int gather_head(struct folding *f)
{
	f->head.n = f->n;
	for (unsigned i = 0; i < f->n; i++) {
		f->head.tick[i] = (uint8_t)i;
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			f->head.columns[k][i] = f->readers[i].head[k];
	}
	return number_strings(f, &f->head, HEAD_LEVEL);
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

/* What the words of tick i differ from: the row before, if it is of the tick before. */
static const uint64_t *words_before(const struct folding *f, unsigned i, const uint64_t *last)
{
	const struct table *t = &f->table;

	if (!f->readers[i].before_id || t->n == 0 || t->tick[t->n - 1] + 1u != i)
		return NULL;
	return last;
}

/* Its rows, from all readers that stand at it. */
static void gather(struct folding *f, enum tick_list list, int64_t key)
{
	struct table *t = &f->table;
	uint64_t words[WORDS_MAX];

	t->n = 0;
	for (unsigned i = 0; i < f->n; i++) {
		struct tick_cursor *c = &f->readers[i].lists[list];

		if (f->is_done[list][i] || c->key != key)
			continue;
		tick_cursor_read(c, words_before(f, i, words), words);
		for (unsigned k = 0; k < list_words[list]; k++)
			t->columns[k][t->n] = words[k];
		t->tick[t->n++] = (uint8_t)i;
		f->is_done[list][i] = tick_cursor_next(c) <= 0;
	}
}

/* ---- giving the fold out ---- */

/* The words of each list that are numbers of strings. */
static int number_thing(struct folding *f, enum tick_list list)
{
	int r = 0;

	if (list == LIST_PROGRESS)
		r = number_strings(f, &f->table, PROGRESS_JOB);
	if (r == 0 && list == LIST_PROGRESS)
		r = number_strings(f, &f->table, PROGRESS_STATUS);
	if (r == 0 && list == LIST_CGROUPS)
		r = number_strings(f, &f->table, CGROUP_PATH);
	return r;
}

/* GPUs, progress and cgroups. */
static int write_things(struct folding *f, enum tick_list list, struct buf *out)
{
	int64_t key;

	begin_list(f, list);
	if (list == LIST_CGROUPS && next_key(f, list) < 0)
		return 0;
	while ((key = next_key(f, list)) >= 0) {
		gather(f, list, key);
		if (number_thing(f, list) < 0)
			return -ENOMEM;
		fold_write_thing(out, list, &f->table);
	}
	fold_write_end(out);
	return 0;
}

static struct fold_part *add_part(struct folded *ret)
{
	if (ret->n_parts == ret->cap) {
		size_t cap = ret->cap ? ret->cap * 2 : 64;
		struct fold_part *parts = reallocarray(ret->parts, cap, sizeof(*parts));

		if (!parts)
			return NULL;
		ret->parts = parts;
		ret->cap = cap;
	}
	return &ret->parts[ret->n_parts++];
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

/* The table of the next of the list. 0: there is none. */
static int write_part(struct folding *f, enum tick_list list, struct folded *ret)
{
	bool is_sample = list == LIST_SAMPLES;
	int64_t key = next_key(f, list);
	struct fold_part *part = key >= 0 ? add_part(ret) : NULL;

	if (!part)
		return key < 0 ? 0 : -ENOMEM;
	*part = (struct fold_part){ .list = list, .key = key, .at = ret->bytes.len };
	gather(f, list, key);
	table_write(&ret->bytes, &f->table, list_words[list],
		    is_sample ? f->head.columns[HOST_BOOT_NS] : NULL);
	if (is_sample && append_calls(f, key, &ret->bytes) < 0)
		return -ENOMEM;
	part->len = ret->bytes.len - part->at;
	return 1;
}

static int write_points(struct folding *f, struct folded *ret)
{
	int r;

	begin_list(f, LIST_POINTS);
	while ((r = write_part(f, LIST_POINTS, ret)) > 0)
		;
	return r;
}

static void tell_times(const struct folding *f, struct folded *ret)
{
	const uint64_t *wall_ns = f->head.columns[HOST_WALL_NS];

	ret->first_ns = ret->last_ns = (int64_t)wall_ns[0];
	for (unsigned i = 1; i < f->n; i++) {
		int64_t ns = (int64_t)wall_ns[i];

		ret->first_ns = ns < ret->first_ns ? ns : ret->first_ns;
		ret->last_ns = ns > ret->last_ns ? ns : ret->last_ns;
	}
}

/* All but the samples and what stands behind them. At least one tick could be read. */
static int begin_fold(struct folding *f, struct folded *ret)
{
	if (gather_head(f) < 0 || write_things(f, LIST_GPUS, &f->things) < 0 ||
	    write_things(f, LIST_PROGRESS, &f->things) < 0 ||
	    write_things(f, LIST_CGROUPS, &f->things) < 0)
		return -ENOMEM;
	tell_times(f, ret);
	if (write_points(f, ret) < 0)
		return -ENOMEM;
	begin_list(f, LIST_SYSCALLS);
	begin_list(f, LIST_SAMPLES);
	return buf_error(&f->things);
}

/* Calls have names as well: the strings are all there when the last sample is. */
static int end_fold(struct folding *f, struct folded *ret)
{
	if (f->n == 0)
		return 0;
	fold_write_head(&ret->head, f->read_ids, &f->head, &f->strings);
	buf_add(&ret->head, f->things.data, f->things.len);
	return buf_error(&ret->head) < 0 ? -ENOMEM : buf_error(&ret->bytes);
}

int folding_begin(struct store *store, int64_t recorder, int64_t after_id, int64_t last_id,
		  struct folding **ret_folding, struct folded *ret, struct err *err)
{
	CLEANUP(folding_free) struct folding *f = folding_new(store);
	int r = f ? folding_load(f, recorder, after_id, last_id, ret, err)
		  : store_no_memory(store, err);

	if (r <= 0)
		return r;
	buf_reset(&ret->head);
	buf_reset(&ret->bytes);
	ret->n_parts = 0;
	ret->id = f->ticks[f->n_loaded - 1].id;
	ret->n_ticks = f->n;
	if (f->n > 0 && begin_fold(f, ret) < 0)
		return store_no_memory(store, err);
	*ret_folding = TAKE_PTR(f);
	return 1;
}

int folding_go_on(struct folding *f, uint64_t until_boot_ns, struct folded *ret, struct err *err)
{
	int r = f->n > 0;

	while (r > 0) {
		r = write_part(f, LIST_SAMPLES, ret);
		if (r > 0 && u64_known(until_boot_ns) && clock_boot_ns() >= until_boot_ns)
			return 1;
	}
	return r < 0 || end_fold(f, ret) < 0 ? store_no_memory(f->store, err) : 0;
}

int fold_read_pending(struct store *store, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct folded *ret, struct err *err)
{
	CLEANUP(folding_free) struct folding *f = NULL;
	int r = folding_begin(store, recorder, after_id, last_id, &f, ret, err);

	if (r <= 0)
		return r;
	r = folding_go_on(f, U64_UNKNOWN, ret, err);
	return r < 0 ? r : 1;
}

#include "store/fold_calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

/* ---- names ---- */

void call_names_release(struct call_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
	free(names->strings);
	map_release(&names->numbers);
	*names = (struct call_names){ 0 };
}

void call_names_begin_tick(struct call_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		names->strings[i] = U64_UNKNOWN;
}

static int reserve(struct call_names *names)
{
	char **items = reallocarray(names->items, names->n + 1, sizeof(*items));
	uint64_t *strings;

	if (!items)
		return -ENOMEM;
	names->items = items;
	strings = reallocarray(names->strings, names->n + 1, sizeof(*strings));
	if (!strings)
		return -ENOMEM;
	names->strings = strings;
	return 0;
}

/* The number of a new one, from 1 on. */
static int add_name(struct call_names *names, const char *name, uint64_t hash)
{
	char *copy;

	if (reserve(names) < 0)
		return -ENOMEM;
	copy = strdup(name);
	if (!copy || map_put(&names->numbers, hash, names->n + 1) < 0) {
		free(copy);
		return -ENOMEM;
	}
	names->items[names->n] = copy;
	names->strings[names->n] = U64_UNKNOWN;
	return (int)++names->n;
}

/* 0: there is no number for it. */
static int number_of(struct call_names *names, const char *name)
{
	uint64_t hash = hash_bytes(HASH_INIT, name, strlen(name)), number;

	if (map_get(&names->numbers, hash, &number))
		return strcmp(names->items[number - 1], name) == 0 ? (int)number : 0;
	return names->n < SYSCALL_NUMBERS ? add_name(names, name, hash) : 0;
}

static uint64_t string_of(struct call_names *names, struct tick *t, int number)
{
	uint64_t *string = &names->strings[number - 1];

	if (!u64_known(*string))
		*string = tick_add_string(t, names->items[number - 1]);
	return *string;
}

/* ---- into a tick ---- */

struct numbered {
	int number;
	const struct syscall_use *use;
};

static int compare_numbered(const void *a, const void *b)
{
	int x = ((const struct numbered *)a)->number, y = ((const struct numbered *)b)->number;

	return (x > y) - (x < y);
}

/* Those that have a number, by number. */
static int number_all(struct call_names *names, const struct proc_sample *p, struct numbered *ret,
		      size_t *ret_n)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_syscalls; i++) {
		int number = number_of(names, p->syscalls[i].name);

		if (number < 0)
			return number;
		if (number > 0)
			ret[n++] = (struct numbered){ number, &p->syscalls[i] };
	}
	qsort(ret, n, sizeof(*ret), compare_numbered);
	*ret_n = n;
	return 0;
}

static int add_call(struct tick *t, struct call_names *names, int64_t key,
		    const struct numbered *call)
{
	uint64_t *words = tick_add(t, LIST_SYSCALLS, key);

	if (!words)
		return -ENOMEM;
	words[SYSCALL_NAME] = string_of(names, t, call->number);
	words[SYSCALL_COUNT] = call->use->count;
	words[SYSCALL_ERRORS] = call->use->errors;
	words[SYSCALL_CPU_NS] = call->use->cpu_ns;
	words[SYSCALL_WAIT_NS] = call->use->wait_ns;
	return 0;
}

/* That they were counted, and there was none: number 0, all unknown. */
static int add_none(struct tick *t, int64_t key)
{
	uint64_t *words = tick_add(t, LIST_SYSCALLS, key);

	if (!words)
		return -ENOMEM;
	memset(words, 0xff, SYSCALL_WORDS * sizeof(*words));
	return 0;
}

int tick_add_calls(struct tick *t, struct call_names *names, int64_t process_id,
		   const struct proc_sample *p)
{
	CLEANUP(free_ptr) struct numbered *calls = NULL;
	int64_t key = process_id << SYSCALL_BITS;
	size_t n = 0;
	int r;

	if (!p->syscalls)
		return 0;
	if (p->n_syscalls == 0)
		return add_none(t, key);
	calls = reallocarray(NULL, p->n_syscalls + 1, sizeof(*calls));
	r = calls ? number_all(names, p, calls, &n) : -ENOMEM;
	if (r == 0 && n == 0)
		r = add_none(t, key);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (i == 0 || calls[i].number != calls[i - 1].number)
			r = add_call(t, names, key + calls[i].number, &calls[i]);
	return r;
}

/* ---- out of a fold ---- */

/* Of all tables of a process: no fold that was written has more (FOLD_BYTES). */
#define MAX_CALLS (1 << 20)

struct fold_calls {
	bool is_counted[CODEC_ROWS];
	size_t first[CODEC_ROWS + 1]; /* of each tick, in uses */
	struct syscall_use *uses;
};

/* Calls fn for each row of each table. */
typedef int row_fn(struct fold_calls *calls, const struct fold_strings *strings,
		   const struct table *t, unsigned row);

static int each_row(struct fold_reader reader, const struct fold_strings *strings, struct table *t,
		    row_fn *fn, struct fold_calls *calls)
{
	while (reader.p != reader.end) {
		int r = fold_read_thing(&reader, LIST_SYSCALLS, t);

		if (r <= 0)
			return -EBADMSG;
		for (unsigned i = 0; r > 0 && i < t->n; i++)
			if (fn(calls, strings, t, i) < 0)
				return -EBADMSG;
	}
	return 0;
}

/* first[tick + 1] is how many there are. */
static int count_row(struct fold_calls *calls, const struct fold_strings *strings,
		     const struct table *t, unsigned row)
{
	uint64_t name = t->columns[SYSCALL_NAME][row];

	calls->is_counted[t->tick[row]] = true;
	if (u64_known(name))
		calls->first[t->tick[row] + 1]++;
	return u64_known(name) && name >= strings->n ? -EBADMSG : 0;
}

static size_t add_up(struct fold_calls *calls)
{
	for (unsigned i = 0; i < CODEC_ROWS; i++)
		calls->first[i + 1] += calls->first[i];
	return calls->first[CODEC_ROWS];
}

/* While they are filled, first[tick] is where the next goes. */
static int take_row(struct fold_calls *calls, const struct fold_strings *strings,
		    const struct table *t, unsigned row)
{
	uint64_t name = t->columns[SYSCALL_NAME][row];

	if (!u64_known(name))
		return 0;
	calls->uses[calls->first[t->tick[row]]++] = (struct syscall_use){
		.name = strings->items[name],
		.count = t->columns[SYSCALL_COUNT][row],
		.errors = t->columns[SYSCALL_ERRORS][row],
		.cpu_ns = t->columns[SYSCALL_CPU_NS][row],
		.wait_ns = t->columns[SYSCALL_WAIT_NS][row],
	};
	return 0;
}

/* Each is where the one behind it began. */
static void step_back(struct fold_calls *calls)
{
	memmove(calls->first + 1, calls->first, CODEC_ROWS * sizeof(*calls->first));
	calls->first[0] = 0;
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
	r = each_row(reader, strings, t, count_row, calls);
	n = add_up(calls);
	if (r < 0 || n > MAX_CALLS)
		return -EBADMSG;
	calls->uses = arena_alloc(arena, (n + 1) * sizeof(*calls->uses)); /* none is not unknown */
	if (!calls->uses)
		return -ENOMEM;
	r = each_row(reader, strings, t, take_row, calls);
	step_back(calls);
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

#include "model/tick_snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

int tick_fill_host(struct tick *t, const struct snapshot *s)
{
	size_t n_cgroups = s->cgroups && s->n_cgroups == 0 ? 1 : s->n_cgroups;

	host_to_words(s, t->head);
	t->head[HEAD_LEVEL] = tick_add_string(t, s->pressure_level);
	t->head[HEAD_HAS_GPUS] = s->gpus ? 1 : U64_UNKNOWN;
	for (size_t i = 0; i < s->n_gpus; i++) {
		uint64_t *words = tick_add(t, LIST_GPUS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		gpu_to_words(&s->gpus[i], words);
	}
	for (size_t i = 0; i < s->n_progress; i++) {
		uint64_t *words = tick_add(t, LIST_PROGRESS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		progress_to_words(&s->progress[i], words);
		words[PROGRESS_JOB] = tick_add_string(t, s->progress[i].job_id);
		words[PROGRESS_STATUS] = tick_add_string(t, s->progress[i].status);
	}
	for (size_t i = 0; i < n_cgroups; i++) {
		uint64_t *words = tick_add(t, LIST_CGROUPS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		memset(words, 0xff, CGROUP_WORDS * sizeof(*words)); /* all unknown */
		if (i == s->n_cgroups)
			continue; /* somebody looked, and there was none */
		words[CGROUP_PATH] = tick_add_string(t, s->cgroups[i].path);
		cgroup_to_words(&s->cgroups[i], words);
	}
	return 0;
}

/* ---- system calls ---- */

void call_names_release(struct call_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i].name);
	free(names->items);
	map_release(&names->numbers);
	*names = (struct call_names){ 0 };
}

/* From 1 on; 0: there is no number for it. */
static int number_of(struct call_names *names, const char *name)
{
	uint64_t hash = hash_bytes(HASH_INIT, name, strlen(name)), number;
	char *copy;

	if (map_get(&names->numbers, hash, &number))
		return strcmp(names->items[number - 1].name, name) == 0 ? (int)number : 0;
	if (names->n >= SYSCALL_NUMBERS)
		return 0;
	if (ARRAY_RESERVE(names->items, names->cap, names->n + 1) < 0)
		return -ENOMEM;
	copy = strdup(name);
	if (!copy || map_put(&names->numbers, hash, names->n + 1) < 0) {
		free(copy);
		return -ENOMEM;
	}
	names->items[names->n] = (struct call_name){ copy, U64_UNKNOWN };
	return (int)++names->n;
}

struct numbered {
	int number;
	const struct syscall_use *use;
};

static int compare_numbered(const void *a, const void *b)
{
	return COMPARE(((const struct numbered *)a)->number, ((const struct numbered *)b)->number);
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
	struct call_name *name = &names->items[call->number - 1];

	if (!words)
		return -ENOMEM;
	if (!u64_known(name->string))
		name->string = tick_add_string(t, name->name);
	words[SYSCALL_NAME] = name->string;
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

/* What p has called; processes come by number, ascending. */
static int add_calls(struct tick *t, struct call_names *names, int64_t process,
		     const struct proc_sample *p)
{
	CLEANUP(free_ptr) struct numbered *calls = NULL;
	int64_t key = process << SYSCALL_BITS;
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

/* ---- samples ---- */

static int compare_listed(const void *a, const void *b)
{
	const struct listed_process *x = a, *y = b;

	return COMPARE(x->number, y->number) ?: COMPARE(x->index, y->index);
}

/* By number, each once. Returns how many are left. */
static size_t sort_listed(struct listed_process *listed, size_t n)
{
	size_t sorted = 1, kept = 0;

	while (sorted < n && listed[sorted].number > listed[sorted - 1].number)
		sorted++;
	if (sorted >= n)
		return n;
	qsort(listed, n, sizeof(*listed), compare_listed);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || listed[i + 1].number != listed[i].number)
			listed[kept++] = listed[i];
	return kept;
}

int tick_fill_samples(struct tick *t, struct call_names *names, const struct snapshot *s,
		      struct listed_process *listed, size_t n)
{
	int r = 0;

	n = sort_listed(listed, n);
	for (size_t i = 0; i < names->n; i++)
		names->items[i].string = U64_UNKNOWN;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct proc_sample *p = &s->processes[listed[i].index];
		uint64_t *words = tick_add(t, LIST_SAMPLES, listed[i].number);

		if (!words)
			return -ENOMEM;
		sample_to_words(p, s->boot_ns, words);
		r = add_calls(t, names, listed[i].number, p);
	}
	return r;
}

/* ---- out of a tick ---- */

/* The string that a word refers to, or NULL where that is unknown. -EBADMSG: there is none. */
static int copy_string(struct arena *arena, const char *const *strings, size_t n, uint64_t word,
		       const char **ret)
{
	*ret = NULL;
	if (!u64_known(word))
		return 0;
	if (word >= n)
		return -EBADMSG;
	*ret = arena_strdup(arena, strings[word]);
	return *ret ? 0 : -ENOMEM;
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

static int add_progress(struct snapshot *s, const uint64_t *words, const char *const *strings,
			size_t n_strings)
{
	struct job_progress *items =
		make_room(&s->arena, s->progress, s->n_progress, sizeof(*items));
	int r;

	if (!items)
		return -ENOMEM;
	s->progress = items;
	items += s->n_progress++;
	*items = (struct job_progress){ 0 };
	r = copy_string(&s->arena, strings, n_strings, words[PROGRESS_JOB], &items->job_id);
	if (r == 0)
		r = copy_string(&s->arena, strings, n_strings, words[PROGRESS_STATUS],
				&items->status);
	return r < 0 ? r : progress_from_words(words, items);
}

/* The one without a path says that somebody looked. */
static int add_cgroup(struct snapshot *s, const uint64_t *words, const char *const *strings,
		      size_t n_strings)
{
	struct cgroup_sample *items =
		make_room(&s->arena, s->cgroups, s->n_cgroups, sizeof(*items));
	int r;

	if (!items)
		return -ENOMEM;
	s->cgroups = items;
	if (!u64_known(words[CGROUP_PATH]))
		return 0;
	items += s->n_cgroups++;
	cgroup_sample_init(items); /* not all of it is in the record */
	r = copy_string(&s->arena, strings, n_strings, words[CGROUP_PATH], &items->path);
	return r < 0 ? r : cgroup_from_words(words, items);
}

int snapshot_add_row(struct snapshot *s, enum tick_list list, const uint64_t *words,
		     const char *const *strings, size_t n_strings)
{
	return list == LIST_GPUS       ? add_gpu(s, words)
	       : list == LIST_PROGRESS ? add_progress(s, words, strings, n_strings)
				       : add_cgroup(s, words, strings, n_strings);
}

void process_index_release(struct process_index *index)
{
	free(index->items);
	map_release(&index->index_of);
	*index = (struct process_index){ 0 };
}

void process_index_clear(struct process_index *index)
{
	index->n = 0;
	map_clear(&index->index_of);
}

/*
 * Pids are below 2^22 (the kernel's PID_MAX_LIMIT), and 2^42 clock ticks are
 * centuries, so both fit into one number; false for a key that does not.
 */
static bool pack_key(struct proc_key key, uint64_t *ret)
{
	const uint64_t limit = UINT64_C(1) << 42;
	uint64_t start = u64_known(key.start_ticks) ? key.start_ticks : limit - 1;

	if (key.pid < 0 || key.pid >= 1 << 22 || start >= limit)
		return false;
	*ret = (uint64_t)key.pid << 42 | start;
	return true;
}

/*
 * A tick has its processes in the order of the one before as a rule: then it is the entry behind
 * the last. The map is in no cache any more since then, and would have to be waited for.
 */
struct process_entry *process_index_find(struct process_index *index, struct proc_key key)
{
	uint64_t i = index->next, packed;

	if (!pack_key(key, &packed))
		return NULL;
	if ((i >= index->n || index->items[i].key != packed) &&
	    !map_get(&index->index_of, packed, &i))
		return NULL;
	index->next = i + 1;
	return &index->items[i];
}

int process_index_add(struct process_index *index, struct proc_key key, uint64_t fingerprint,
		      int64_t number)
{
	struct process_entry entry = { .fingerprint = fingerprint, .number = number };

	if (!pack_key(key, &entry.key))
		return 0;
	if (ARRAY_RESERVE(index->items, index->cap, index->n + 1) < 0 ||
	    map_put(&index->index_of, entry.key, index->n) < 0)
		return -ENOMEM;
	index->items[index->n++] = entry;
	return 0;
}

/* ---- fingerprints ---- */

uint64_t fingerprint_number(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* The bytes of a string that is shorter than a word. */
static uint64_t short_word(const char *s, size_t len)
{
	uint64_t word = 0;

	for (size_t at = 0; at < len; at++)
		word = word << 8 | (unsigned char)s[at];
	return word;
}

/* Eight bytes at a time: this is done for every sample. The last eight are some once more. */
static uint64_t hash_string(uint64_t h, const char *s)
{
	size_t len = s ? strlen(s) + 1 : 0;
	uint64_t word;

	h = fingerprint_number(h, len);
	if (len < 8)
		return fingerprint_number(h, short_word(s, len));
	for (size_t at = 0; at + 8 < len; at += 8) {
		memcpy(&word, s + at, 8);
		h = fingerprint_number(h, word);
	}
	memcpy(&word, s + len - 8, 8);
	return fingerprint_number(h, word);
}

uint64_t process_fingerprint(uint64_t h, const struct proc_sample *p)
{
	h = fingerprint_number(h, (uint64_t)(uint32_t)p->sheet_num << 32 | (uint32_t)p->rank);
	h = hash_string(h, p->comm);
	h = hash_string(h, p->command);
	return hash_string(h, p->cgroup);
}

#include "model/process_index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

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

#include "store/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

/* More than a host has at once; beyond it the cache starts anew instead of growing for ever. */
#define SEEN_MAX 65536

void seen_forget(struct store *store)
{
	store->seen.n = 0;
	map_clear(&store->seen.index_of);
}

void seen_release(struct store *store)
{
	free(store->seen.rows);
	map_release(&store->seen.index_of);
	store->seen = (struct seen_processes){ 0 };
}

/*
 * Pids are below 2^22 (the kernel's PID_MAX_LIMIT), and 2^42 clock ticks are
 * centuries, so both fit into one number; false for a key that does not.
 */
static bool process_cache_key(struct proc_key key, uint64_t *ret)
{
	const uint64_t limit = UINT64_C(1) << 42;
	uint64_t start = u64_known(key.start_ticks) ? key.start_ticks : limit - 1;

	if (key.pid < 0 || key.pid >= 1 << 22 || start >= limit)
		return false;
	*ret = (uint64_t)key.pid << 42 | start;
	return true;
}

static uint64_t hash_word(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
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

	h = hash_word(h, len);
	if (len < 8)
		return hash_word(h, short_word(s, len));
	for (size_t at = 0; at + 8 < len; at += 8) {
		memcpy(&word, s + at, 8);
		h = hash_word(h, word);
	}
	memcpy(&word, s + len - 8, 8);
	return hash_word(h, word);
}

/* Of what can change about a process in its row: exec gives it another command. */
static uint64_t process_fingerprint(int64_t attempt_id, const struct proc_sample *p)
{
	uint64_t h = hash_word(HASH_INIT, (uint64_t)attempt_id);

	h = hash_word(h, (uint64_t)(uint32_t)p->sheet_num << 32 | (uint32_t)p->rank);
	h = hash_string(h, p->comm);
	h = hash_string(h, p->command);
	return hash_string(h, p->cgroup);
}

static int put_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SEE_PROCESS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_columns(&q, &sample_process_columns, p);
	query_bind_columns(&q, &sample_shared_columns, p);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	*ret_id = query_read_i64(&q);
	return query_run(&q, err);
}

/*
 * A tick has its processes in the order of the one before as a rule: then it is the row behind the
 * last. The map is in no cache any more since then, and would have to be waited for.
 */
static struct seen_row *find_row(struct seen_processes *seen, uint64_t key)
{
	uint64_t i = seen->next;

	if ((i >= seen->n || seen->rows[i].key != key) && !map_get(&seen->index_of, key, &i))
		return NULL;
	seen->next = i + 1;
	return &seen->rows[i];
}

int seen_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		 int64_t *ret_id, struct err *err)
{
	struct seen_processes *seen = &store->seen;
	struct seen_row row = { .fingerprint = process_fingerprint(attempt_id, p) }, *known = NULL;
	bool is_cacheable = process_cache_key(p->key, &row.key);
	int r;

	if (seen->n >= SEEN_MAX)
		seen_forget(store);
	if (is_cacheable)
		known = find_row(seen, row.key);
	/* The command line of a zombie is gone; the row keeps the one it lived with. */
	if (known && (known->fingerprint == row.fingerprint || p->state == 'Z')) {
		*ret_id = known->id;
		return 0;
	}
	r = put_process(store, attempt_id, p, &row.id, err);
	if (r < 0)
		return r;
	*ret_id = row.id;
	if (known) {
		*known = row;
	} else if (is_cacheable) {
		if (ARRAY_RESERVE(seen->rows, seen->cap, seen->n + 1) < 0 ||
		    map_put(&seen->index_of, row.key, seen->n) < 0)
			return err_set(err, -ENOMEM, "no memory left to record a tick");
		seen->rows[seen->n++] = row;
	}
	return 0;
}

#include "daemon/process_calls.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"

void process_calls_release(struct process_calls *calls)
{
	free(calls->items);
	arena_release(&calls->arena);
	*calls = (struct process_calls){ .max_bytes = calls->max_bytes };
}

static bool grow(struct process_calls *calls)
{
	size_t cap = calls->cap ? 2 * calls->cap : 64;
	struct process_call *items;

	if (calls->n < calls->cap)
		return true;
	items = reallocarray(calls->items, cap, sizeof(*items));
	if (!items)
		return false;
	calls->items = items;
	calls->cap = cap;
	return true;
}

void process_calls_add_text(struct process_calls *calls, const struct proc_key *key,
			    const char *text, size_t len)
{
	const char *kept = NULL;

	if (len <= calls->max_bytes - calls->n_bytes && grow(calls))
		kept = arena_strndup(&calls->arena, text, len);
	if (!kept) {
		calls->n_untold++;
		return;
	}
	calls->n_bytes += len;
	calls->items[calls->n++] = (struct process_call){ *key, kept };
}

void process_calls_add(struct process_calls *calls, const struct proc_key *key,
		       const struct syscall_use *uses, size_t n)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	syscall_text_write(&text, uses, n);
	if (buf_error(&text) < 0)
		calls->n_untold++;
	else
		process_calls_add_text(calls, key, text.data, text.len);
}

/* ---- whose they are ---- */

static int compare_key(const void *a, const void *b)
{
	const struct process_call *x = a, *y = b;

	if (x->key.pid != y->key.pid)
		return x->key.pid < y->key.pid ? -1 : 1;
	return (x->key.start_ticks > y->key.start_ticks) -
	       (x->key.start_ticks < y->key.start_ticks);
}

static size_t find_first(const struct process_calls *calls, pid_t pid)
{
	size_t low = 0, high = calls->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (calls->items[middle].key.pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void process_calls_sort(struct process_calls *calls)
{
	if (calls->n > 0)
		qsort(calls->items, calls->n, sizeof(*calls->items), compare_key);
}

const char *process_calls_find(const struct process_calls *calls, const struct proc_key *key)
{
	const struct process_call wanted = { .key = *key }, *found = NULL;

	if (calls->n > 0)
		found = bsearch(&wanted, calls->items, calls->n, sizeof(*calls->items),
				compare_key);
	return found ? found->text : NULL;
}

static bool is_of(const struct process_call *call, const struct proc_record *p)
{
	return call->text &&
	       (!u64_known(p->key.start_ticks) || call->key.start_ticks == p->key.start_ticks);
}

static void tell_one(struct process_calls *calls, struct proc_record *p, struct arena *arena)
{
	for (size_t i = find_first(calls, p->key.pid);
	     i < calls->n && calls->items[i].key.pid == p->key.pid; i++)
		if (is_of(&calls->items[i], p)) {
			p->syscalls = arena_strdup(arena, calls->items[i].text);
			calls->items[i].text = NULL;
			return;
		}
}

void process_calls_tell(struct process_calls *calls, struct proc_record *processes, size_t n,
			struct arena *arena)
{
	process_calls_sort(calls);
	for (size_t i = 0; i < n; i++)
		tell_one(calls, &processes[i], arena);
}

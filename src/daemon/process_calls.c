#include "daemon/process_calls.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- what is new since the last sample ---- */

/* Both lists are in the order of the calls' numbers, mostly: so the next is where the last was. */
static const struct syscall_use *find_use(const struct syscall_use *uses, size_t n,
					  const char *name, size_t *hint)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = (*hint + i) % n;

		if (strcmp(uses[at].name, name) != 0)
			continue;
		*hint = at + 1;
		return &uses[at];
	}
	return NULL;
}

/* Times of which only some were taken are estimates, which may go down: then it is unknown. */
static struct syscall_use step_of(const struct syscall_use *now, const struct syscall_use *before)
{
	struct syscall_use step = *now;

	if (!before || before->count > now->count)
		return step; /* of another count, or the first */
	step.count = now->count - before->count;
	step.errors = u64_delta(now->errors, before->errors);
	step.cpu_ns = u64_delta(now->cpu_ns, before->cpu_ns);
	step.wait_ns = u64_delta(now->wait_ns, before->wait_ns);
	return step;
}

/* In place. Returns how many calls have anything new. */
static size_t list_steps(struct syscall_use *uses, size_t n, const struct syscall_use *before,
			 size_t n_before)
{
	size_t n_new = 0, hint = 0;

	for (size_t i = 0; i < n; i++) {
		struct syscall_use step =
			step_of(&uses[i], find_use(before, n_before, uses[i].name, &hint));

		if (step.count > 0 && u64_known(step.count))
			uses[n_new++] = step;
	}
	return n_new;
}

static void fill_sample(struct proc_sample *p, const char *now, const char *before,
			struct arena *arena)
{
	struct arena scratch = ARENA_INIT;
	struct syscall_use *uses, *old = NULL;
	size_t n, n_old = 0;
	int r = syscall_text_read(now, arena, &uses, &n);

	if (r == 0 && before)
		r = syscall_text_read(before, &scratch, &old, &n_old);
	if (r == 0) {
		p->n_syscalls = list_steps(uses, n, old, n_old);
		p->syscalls = uses;
	}
	arena_release(&scratch);
}

/* The snapshot is in the order of pids, and so is what is kept. */
static void step_process(const struct process_calls *had, const struct process_calls *now,
			 struct proc_sample *p, struct arena *arena, struct process_calls *kept)
{
	const char *before = process_calls_find(had, &p->key);
	const char *text = process_calls_find(now, &p->key);

	if (text)
		fill_sample(p, text, before, arena);
	else
		text = before; /* it was not told this time: the next time that is needed */
	if (text)
		process_calls_add_text(kept, &p->key, text, strlen(text));
}

void process_calls_fill_steps(struct process_calls *before, struct process_calls *now,
			      struct snapshot *snap)
{
	struct process_calls kept = { .max_bytes = SIZE_MAX };

	process_calls_sort(now);
	for (size_t i = 0; i < snap->n_processes; i++)
		step_process(before, now, &snap->processes[i], &snap->arena, &kept);
	process_calls_release(before);
	*before = kept;
}

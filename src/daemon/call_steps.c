#include "daemon/call_steps.h"

#include <stdint.h>
#include <string.h>

#include "base/unknown.h"
#include "model/job.h"

void call_steps_release(struct call_steps *steps)
{
	process_calls_release(&steps->before);
}

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
static void step_process(struct call_steps *steps, const struct process_calls *now,
			 struct proc_sample *p, struct arena *arena, struct process_calls *kept)
{
	const char *before = process_calls_find(&steps->before, &p->key);
	const char *text = process_calls_find(now, &p->key);

	if (text)
		fill_sample(p, text, before, arena);
	else
		text = before; /* it was not told this time: the next time that is needed */
	if (text)
		process_calls_add_text(kept, &p->key, text, strlen(text));
}

void call_steps_fill(struct call_steps *steps, struct process_calls *now, struct snapshot *snap)
{
	struct process_calls kept = { .max_bytes = SIZE_MAX };

	process_calls_sort(now);
	for (size_t i = 0; i < snap->n_processes; i++)
		step_process(steps, now, &snap->processes[i], &snap->arena, &kept);
	process_calls_release(&steps->before);
	steps->before = kept;
}

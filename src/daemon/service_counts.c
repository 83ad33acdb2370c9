#include "base/clock.h"
#include "base/macros.h"
#include "daemon/service_internal.h"
#include "daemon/told_calls.h"

/*
 * What the processes of a job that runs have called so far, for its runner's samples.
 */

#define MAX_TEXT_BYTES (1 << 20) /* of one answer */

/* Runners ask as often as they like: reading takes no more than one part in so many of our time. */
#define READ_COST_LIMIT 50

static void read_if_due(struct service *s)
{
	uint64_t now = clock_boot_ns();

	if (now < s->syscalls.read_due_boot_ns)
		return;
	(void)service_read_calls(s); /* or what was read last is told */
	s->syscalls.read_due_boot_ns = now + READ_COST_LIMIT * (clock_boot_ns() - now);
}

static void add_process(void *ctx, const struct syscall_process *p)
{
	const struct proc_key key = { p->pid, p->start_ticks };

	if (p->pid > 0) /* else it is nobody's sample */
		process_calls_add(ctx, &key, p->uses, p->n_uses);
}

void service_tell_counts_of(struct service *s, int64_t attempt_id, struct json *j)
{
	CLEANUP(process_calls_release)
	struct process_calls calls = { .max_bytes = MAX_TEXT_BYTES };
	bool is_counted = service_counts_calls_of(s, attempt_id);

	json_key_bool(j, "counted", is_counted);
	if (!is_counted)
		return;
	read_if_due(s);
	syscalls_each_living(s->syscalls.syscalls, (uint64_t)attempt_id, add_process, &calls);
	json_key(j, "processes");
	told_calls_write_processes(j, &calls);
	json_key_u64(j, "untold_processes", calls.n_untold);
}

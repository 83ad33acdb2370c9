#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/may_hear.h"
#include "daemon/service_follow.h"
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

/* Of one that has called as one user and as another, the kernel knows whose it is now. */
bool service_may_tell_calls(const struct service *s, uint64_t uid, const struct syscall_process *p)
{
	if (u64_known(p->uid) || p->pid == 0)
		return may_hear(uid, p->uid);
	return may_hear_of(s->root_fd, uid, p->pid);
}

struct counting {
	struct service *service;
	uint64_t uid;
	struct process_calls *calls;
};

static void add_process(void *ctx, const struct syscall_process *p)
{
	const struct counting *counting = ctx;
	const struct proc_key key = { p->pid, p->start_ticks };

	/* else it is nobody's sample */
	if (p->pid > 0 && service_may_tell_calls(counting->service, counting->uid, p))
		process_calls_add(counting->calls, &key, p->uses, p->n_uses);
}

void service_tell_counts_of(struct service *s, int64_t attempt_id, struct json *j)
{
	CLEANUP(process_calls_release)
	struct process_calls calls = { .max_bytes = MAX_TEXT_BYTES };
	const struct watched *job = watch_find_attempt(s->watch, attempt_id);
	struct counting counting = { s, job ? job->a.uid : U64_UNKNOWN, &calls };
	bool is_counted = service_counts_calls_of(s, attempt_id);

	json_key_bool(j, "counted", is_counted);
	if (!is_counted)
		return;
	read_if_due(s);
	syscalls_each_living(s->syscalls.syscalls, (uint64_t)attempt_id, add_process, &counting);
	json_key(j, "processes");
	told_calls_write_processes(j, &calls);
	json_key_u64(j, "untold_processes", calls.n_untold);
}

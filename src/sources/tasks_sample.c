#include <string.h>

#include "base/unknown.h"
#include "sources/tasks.h"

/* Bits of the kernel's task state. Those that /proc tells, lowest first, have the letters below. */
#define STATE_REPORTED 0x7fu
#define STATE_IDLE 0x402u /* uninterruptible, and not to be counted as load */
#define STATE_RTLOCK_WAIT 0x1000u
#define STATE_FROZEN 0x8000u

char task_state_letter(uint32_t state)
{
	static const char letters[] = "RSDTtXZP";
	uint32_t told = state & STATE_REPORTED;

	if ((state & STATE_IDLE) == STATE_IDLE)
		return 'I';
	if (state & (STATE_RTLOCK_WAIT | STATE_FROZEN))
		return 'D';
	return told == 0 ? letters[0] : letters[32 - __builtin_clz(told)];
}

/* Not hash_bytes(): this is done for every process of the host at every tick. */
uint64_t task_image(const struct task_process *t)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t name[2], h = t->exec_id;

	memcpy(name, t->comm, sizeof(name));
	h = (h ^ t->arg_start) * odd;
	h = (h ^ t->arg_end ^ (h >> 29)) * odd;
	h = (h ^ name[0] ^ (h >> 29)) * odd;
	return (h ^ name[1] ^ (h >> 29)) * odd;
}

static uint64_t soft_limit(uint64_t limit)
{
	return limit > FD_LIMIT_UNLIMITED ? FD_LIMIT_UNLIMITED : limit;
}

static void fill_counters(const struct task_process *t, struct proc_sample *p)
{
	const struct task_counts *c = &t->own;

	p->child_user_ns = t->child_user_ns;
	p->child_system_ns = t->child_system_ns;
	if (c->wait_ns > 0) /* else nobody counts */
		p->cpu_wait_ns = c->wait_ns;
	p->minor_faults = c->minor_faults;
	p->major_faults = c->major_faults;
	p->voluntary_switches = c->voluntary_switches;
	p->involuntary_switches = c->involuntary_switches;
	p->rchar = c->rchar;
	p->wchar = c->wchar;
	p->syscr = c->syscr;
	p->syscw = c->syscw;
	p->read_bytes = c->read_bytes;
	p->write_bytes = c->write_bytes;
}

/* The parts of a sum that is exact are read one after the other: one may be below zero. */
static uint64_t pages_to_bytes(int64_t pages, uint64_t page_bytes)
{
	return pages > 0 ? (uint64_t)pages * page_bytes : 0;
}

static void fill_memory(const struct task_process *t, uint64_t page_bytes, struct proc_sample *p)
{
	int64_t rss_pages = t->file_pages + t->anon_pages + t->shmem_pages;

	p->rss_bytes = pages_to_bytes(rss_pages, page_bytes);
	p->vms_bytes = t->vms_pages * page_bytes;
	if (!t->has_memory)
		return; /* 0 and 0, and /proc has no lines for the rest */
	p->hwm_bytes = u64_max_known(t->hwm_pages * page_bytes, p->rss_bytes);
	p->rss_file_bytes = pages_to_bytes(t->file_pages, page_bytes);
	p->rss_anon_bytes = pages_to_bytes(t->anon_pages, page_bytes);
	p->rss_shmem_bytes = pages_to_bytes(t->shmem_pages, page_bytes);
	p->swap_bytes = pages_to_bytes(t->swap_pages, page_bytes);
	p->page_table_bytes = pages_to_bytes(t->page_table_bytes, 1);
}

/* A first thread that has ended before the others has let go of what the process still holds. */
static bool is_headless(const struct proc_sample *p)
{
	return p->state == 'Z' && p->threads > 1;
}

void task_fill_sample(const struct task_process *t, uint64_t page_bytes, struct proc_sample *p)
{
	p->ppid = (pid_t)t->parent_pid;
	p->state = task_state_letter(t->head.state);
	memcpy(p->comm, t->comm, strnlen(t->comm, sizeof(t->comm)));
	p->ignores_sigchld = t->ignores_sigchld != 0;
	p->uid = t->uid;
	p->owner = t->owner;
	p->ns_pid = t->ns_pid;
	p->threads = t->threads;
	p->fd_limit = soft_limit(t->fd_limit);
	p->process_limit = soft_limit(t->process_limit);
	fill_counters(t, p);
	if (is_headless(p))
		return;
	fill_memory(t, page_bytes, p);
	p->open_fds = t->open_fds == TASK_NO_COUNT ? U64_UNKNOWN : t->open_fds;
}

/* whole * part / (part + rest) without overflow, for a process that has used any tick at all. */
static uint64_t share_of(uint64_t whole, uint64_t part, uint64_t rest)
{
	return (uint64_t)((__uint128_t)whole * part / ((__uint128_t)part + rest));
}

void task_split_cpu(const struct task_counts *c, struct cpu_split *split)
{
	uint64_t system_ns;

	if (c->run_ns <= split->user_ns + split->system_ns)
		return;
	if (c->system_ns == 0)
		system_ns = 0;
	else
		system_ns = share_of(c->run_ns, c->system_ns, c->user_ns);
	if (system_ns < split->system_ns)
		system_ns = split->system_ns;
	if (c->run_ns - system_ns < split->user_ns)
		system_ns = c->run_ns - split->user_ns;
	*split = (struct cpu_split){ c->run_ns - system_ns, system_ns };
}

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * tasks - everything that a sample needs to know of a process, in one read for all of them.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "differs.h"
#include "owner.h"
#include "rss.h"
#include "tasks.h"

char LICENSE[] SEC("license") = "GPL";

bool is_some; /* only the processes whose bit is set in wanted */

/* One bit per pid, written by the user side without a system call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} wanted SEC(".maps");

/* ---- memory ---- */

static __always_inline void take_rss(struct mm_struct *mm, struct task_process *p)
{
	struct rss_sum sum = {};

	sum_pages(mm, &sum);
	p->file_pages = sum.pages[MM_FILEPAGES];
	p->anon_pages = sum.pages[MM_ANONPAGES];
	p->swap_pages = sum.pages[MM_SWAPENTS];
	p->shmem_pages = sum.pages[MM_SHMEMPAGES];
}

static __always_inline void take_memory(struct task_struct *t, struct task_process *p)
{
	struct mm_struct *mm = t->mm;

	if (!mm || p->is_kernel_thread)
		return;
	p->has_memory = 1;
	p->vms_pages = mm->total_vm;
	p->arg_start = mm->arg_start;
	p->arg_end = mm->arg_end;
	p->hwm_pages = mm->hiwater_rss;
	p->page_table_bytes = mm->pgtables_bytes.counter;
	take_rss(mm, p);
}

/* ---- open files: a bit each ---- */

#define WORD_BITS 64
#define WORDS_AT_ONCE 4 /* most processes have no more than 256 */

static __always_inline __u64 count_bits(__u64 x)
{
	x -= (x >> 1) & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (x * 0x0101010101010101ULL) >> 56;
}

struct fd_sum {
	const unsigned long *words;
	__u64 n;
};

static long add_word(__u32 i, void *ctx)
{
	struct fd_sum *sum = ctx;
	__u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), sum->words + i);
	if (word)
		sum->n += count_bits(word);
	return 0;
}

/* Those that are there, in one read. */
static __always_inline void add_first_words(__u32 n_words, struct fd_sum *sum)
{
	__u64 words[WORDS_AT_ONCE] = {};

	if (n_words >= WORDS_AT_ONCE)
		bpf_probe_read_kernel(words, sizeof(words), sum->words);
	else
		for (__u32 i = 0; i < WORDS_AT_ONCE - 1; i++)
			if (i < n_words)
				bpf_probe_read_kernel(&words[i], sizeof(words[i]), sum->words + i);
	for (__u32 i = 0; i < WORDS_AT_ONCE; i++)
		if (words[i])
			sum->n += count_bits(words[i]);
}

static __always_inline __u64 count_fds(const struct fdtable *table)
{
	struct fd_sum sum = { .words = table->open_fds };
	__u32 n_words = table->max_fds / WORD_BITS;

	add_first_words(n_words, &sum);
	if (n_words <= WORDS_AT_ONCE)
		return sum.n;
	if (!has_loop())
		return TASK_NO_COUNT;
	sum.words += WORDS_AT_ONCE;
	bpf_loop(n_words - WORDS_AT_ONCE, add_word, &sum, 0);
	return sum.n;
}

static __always_inline void take_fds(struct task_struct *t, struct task_process *p)
{
	struct files_struct *files = t->files;

	if (!files)
		return;
	p->has_files = 1;
	p->open_fds = count_fds(files->fdt);
}

/* ---- the rest ---- */

static __always_inline void add_io(const struct task_io_accounting *io, struct task_counts *c)
{
	c->rchar += io->rchar;
	c->wchar += io->wchar;
	c->syscr += io->syscr;
	c->syscw += io->syscw;
	c->read_bytes += io->read_bytes;
	c->write_bytes += io->write_bytes;
}

static __always_inline void take_own(struct task_struct *t, struct task_counts *c)
{
	c->user_ns = t->utime;
	c->system_ns = t->stime;
	c->run_ns = t->se.sum_exec_runtime;
	c->wait_ns = cpu_wait_ns(t);
	c->minor_faults = t->min_flt;
	c->major_faults = t->maj_flt;
	c->voluntary_switches = t->nvcsw;
	c->involuntary_switches = t->nivcsw;
	add_io(&t->ioac, c);
}

/*
 * Of threads that have ended there is nothing where none has: whoever ends has had a CPU. Most
 * processes never had a second thread, and what is not looked at is not fetched from memory. The
 * I/O is also that of children that were waited for.
 */
static __always_inline void add_ended(struct signal_struct *s, struct task_counts *c)
{
	__u64 run_ns = s->sum_sched_runtime;

	add_io(&s->ioac, c);
	if (run_ns == 0)
		return;
	c->run_ns += run_ns;
	c->user_ns += s->utime;
	c->system_ns += s->stime;
	c->minor_faults += s->min_flt;
	c->major_faults += s->maj_flt;
	c->voluntary_switches += s->nvcsw;
	c->involuntary_switches += s->nivcsw;
}

static __always_inline void take_group(struct signal_struct *s, struct task_process *p)
{
	p->ended_run_ns = s->sum_sched_runtime;
	add_ended(s, &p->own);
	p->threads = s->nr_threads;
	p->child_user_ns = s->cutime;
	p->child_system_ns = s->cstime;
	p->fd_limit = s->rlim[KERNEL_RLIMIT_NOFILE].rlim_cur;
	p->process_limit = s->rlim[KERNEL_RLIMIT_NPROC].rlim_cur;
}

static __always_inline __u32 pid_in_namespace(struct task_struct *t)
{
	struct pid *pid = t->thread_pid;
	__u32 level, nr = 0;

	if (!pid)
		return 0;
	level = pid->level;
	if (level == 0)
		return t->pid;
	bpf_core_read(&nr, sizeof(nr), &pid->numbers[level].nr);
	return nr;
}

/* The number stands here as a constant, as above. */
static __always_inline bool ignores_sigchld(struct task_struct *t)
{
	struct sighand_struct *hand = t->sighand;

	return hand && hand->action[KERNEL_SIGCHLD - 1].sa.sa_handler == (void *)KERNEL_SIG_IGN;
}

/* In two loads, which the verifier allows from any array. */
static __always_inline void take_name(struct task_struct *t, struct task_process *p)
{
	const __u64 *from = (const __u64 *)t->comm;
	__u64 *to = (__u64 *)p->comm;

	to[0] = from[0];
	to[1] = from[1];
}

static __always_inline void take_identity(struct task_struct *t, struct task_process *p)
{
	p->parent_pid = t->real_parent->tgid;
	p->uid = t->cred->euid.val;
	p->owner = owner_of(t);
	p->ns_pid = pid_in_namespace(t);
	p->is_kernel_thread = (t->flags & PF_KTHREAD) != 0;
	p->ignores_sigchld = ignores_sigchld(t);
	p->start_boot_ns = t->start_boottime;
	p->exec_id = t->self_exec_id;
	take_name(t, p);
}

static __always_inline struct task_head head_of(struct task_struct *t, __u32 kind, __u32 bytes)
{
	return (struct task_head){ kind, bytes, t->tgid, t->__state | t->exit_state };
}

static __always_inline void write_process(struct seq_file *out, struct task_struct *t)
{
	struct task_process p = {};

	p.head = head_of(t, TASK_PROCESS, sizeof(p));
	take_own(t, &p.own);
	take_group(t->signal, &p);
	take_identity(t, &p);
	take_memory(t, &p);
	take_fds(t, &p);
	bpf_seq_write(out, &p, sizeof(p));
}

static __always_inline void write_thread(struct seq_file *out, struct task_struct *t)
{
	struct task_thread thread = {};

	thread.head = head_of(t, TASK_THREAD, sizeof(thread));
	take_own(t, &thread.own);
	bpf_seq_write(out, &thread, sizeof(thread));
}

static __always_inline bool is_wanted(__u32 pid)
{
	__u32 word = pid / WORD_BITS;
	__u64 *bits;

	if (!is_some)
		return true;
	bits = bpf_map_lookup_elem(&wanted, &word);
	return bits && (*bits >> (pid % WORD_BITS) & 1);
}

SEC("iter/task")
int dump(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;

	if (!t || !is_wanted(t->tgid))
		return 0;
	if (t->pid == t->tgid)
		write_process(ctx->meta->seq, t);
	else
		write_thread(ctx->meta->seq, t);
	return 0;
}

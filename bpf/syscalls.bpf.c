/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * syscalls - counts and times the system calls of marked trees.
 *
 * Armed, it costs every process of the host something at each call: it is to be
 * attached only while somebody wants to know.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "differs.h"
#include "owner.h"
#include "syscalls.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u8 waits[SYSCALL_OTHER]; /* by the number of a call: SYSCALL_WAITS_… */
const volatile bool has_no_times;	  /* of threads, for benches: calls are counted alone */
const volatile __u32 time_every = 1;	  /* one call in so many is timed, which one is chance */
__u64 n_lost;				  /* calls that found no room to be counted in at all */
__u64 n_lost_news;
bool has_new;	    /* something was added since the user side last cleared this */
__u64 n_more;	    /* how many entries of more_values were ever made */
__u64 n_lost_marks; /* threads that are not counted, or whose call under way is not, for want of
		     * memory or of a free moment
		     */
__u64 n_adopted;
__u64 adopting, forgetting; /* the tags that adopt() and forget() are run for */
__u32 last_id;
__u32 n_marks = 1; /* another number after somebody was marked who may be on a CPU just now */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct syscall_kept);
} threads SEC(".maps");

/*
 * The same for the thread that each CPU runs, brought and taken back at every
 * switch: finding the thread's own at every call would cost more than counting.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_cpu);
} running SEC(".maps");

/*
 * Small and made whole: reading it costs as much as it has room, and memory for what is new may
 * not be had in the scheduler.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct syscall_key);
	__type(value, struct syscall_entry);
} values SEC(".maps");

/* Large, for what those have no room for. An entry is in one of the two. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct syscall_key);
	__type(value, struct syscall_entry);
} more_values SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct syscall_tree_key);
	__type(value, struct syscall_value);
} tree_values SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024); /* is mapped twice: each MiB is two of the daemon's RSS */
} news SEC(".maps");

/* ---- counting ---- */

static __always_inline void *find_in(void *map, const void *key, const void *fresh)
{
	void *found = bpf_map_lookup_elem(map, key);

	if (found)
		return found;
	bpf_map_update_elem(map, key, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

static __always_inline struct syscall_entry *find_in_more(const struct syscall_key *key,
							  const struct syscall_entry *fresh)
{
	if (bpf_map_update_elem(&more_values, key, fresh, BPF_NOEXIST) == 0)
		__sync_fetch_and_add(&n_more, 1);
	return bpf_map_lookup_elem(&more_values, key);
}

static __always_inline struct syscall_entry *find_entry(const struct syscall_slot *slot)
{
	const struct syscall_entry fresh = { .owner = slot->owner };
	const struct syscall_key key = slot->key;
	struct syscall_entry *e = bpf_map_lookup_elem(&values, &key);

	if (!e)
		e = bpf_map_lookup_elem(&more_values, &key);
	if (!e)
		e = find_in(&values, &key, &fresh);
	return e ? e : find_in_more(&key, &fresh);
}

static __always_inline struct syscall_value *find_value(const struct syscall_slot *slot)
{
	const struct syscall_tree_key tree_key = { slot->owner.tag, slot->key.nr, 0 };
	const struct syscall_value none = {};
	struct syscall_entry *e = find_entry(slot);
	struct syscall_value *v;

	if (e) {
		if (e->owner.uid != slot->owner.uid)
			e->owner.uid = slot->owner.uid;
		return &e->value;
	}
	v = find_in(&tree_values, &tree_key, &none);
	if (!v)
		__sync_fetch_and_add(&n_lost, slot->value.count);
	return v;
}

/*
 * Adds what a CPU has counted by itself to the map, where all can see it. Not inlined: programs
 * are limited in what they may jump over.
 */
static __noinline int empty_slot(struct syscall_slot *slot)
{
	struct syscall_value *v;

	if (!slot || slot->value.count == 0)
		return 0;
	v = find_value(slot);
	if (v) {
		__sync_fetch_and_add(&v->count, slot->value.count);
		if (slot->value.errors)
			__sync_fetch_and_add(&v->errors, slot->value.errors);
		if (slot->value.timed) {
			__sync_fetch_and_add(&v->timed, slot->value.timed);
			__sync_fetch_and_add(&v->ns, slot->value.ns);
			__sync_fetch_and_add(&v->wait_ns, slot->value.wait_ns);
			if (time_every > 1)
				__sync_fetch_and_add(&v->squares, slot->value.squares);
		}
		if (!has_new) /* all CPUs share it: written once for each reading */
			has_new = true;
	}
	__builtin_memset(&slot->value, 0, sizeof(slot->value));
	return 0;
}

static __always_inline void empty_slots(struct syscall_cpu *cpu)
{
	if (!cpu->has_slots)
		return;
	cpu->has_slots = 0;
	for (int i = 0; i < SYSCALL_SLOTS; i++)
		empty_slot(&cpu->slots[i]);
}

/* How many of one kind may wait on a CPU: a thread that never lets go of its CPU is seen too. */
#define MAX_WAITING 64

/*
 * The map costs more than most calls, and so does changing what other CPUs may change: calls are
 * counted where only this CPU does, and added up when the thread loses it, or now and then.
 */
static __always_inline struct syscall_slot *find_slot(struct syscall_cpu *cpu)
{
	struct syscall_thread *s = &cpu->thread;
	struct syscall_slot *slot = &cpu->slots[(s->nr + (s->nr >> 5)) & (SYSCALL_SLOTS - 1)];

	if (slot->key.id != s->mark.id || slot->key.nr != s->nr ||
	    slot->value.count >= MAX_WAITING) {
		empty_slot(slot);
		slot->key.id = s->mark.id;
		slot->key.nr = s->nr;
		slot->owner = s->mark.owner;
	}
	cpu->has_slots = 1;
	return slot;
}

/* For the error of times that were sampled. */
static __always_inline __u64 square_of(__u64 ns)
{
	__u64 units = ns / SYSCALL_SQUARE_UNIT_NS;

	if (units > SYSCALL_SQUARE_MAX)
		units = SYSCALL_SQUARE_MAX;
	return units * units;
}

static __always_inline void count_call(struct syscall_cpu *cpu, bool is_error)
{
	struct syscall_thread *s = &cpu->thread;
	struct syscall_slot *slot = find_slot(cpu);
	__u64 ns;

	s->is_inside = 0;
	slot->value.count++;
	slot->value.errors += is_error;
	if (!s->entered_ns)
		return;
	ns = bpf_ktime_get_ns() - s->entered_ns;
	slot->value.timed++;
	slot->value.ns += ns;
	slot->value.wait_ns += s->wait_ns;
	if (time_every > 1)
		slot->value.squares += square_of(ns > s->wait_ns ? ns - s->wait_ns : 0);
}

/*
 * True for one call in time_every, on average. Drawing a number for each would
 * cost more than most calls: how many to leave out is drawn, from 0 to twice as
 * many, so that no rhythm of the program meets one of ours.
 */
static __always_inline bool is_timed(struct syscall_thread *s)
{
	if (time_every <= 1)
		return true;
	if (s->n_skip > 0) {
		s->n_skip--;
		return false;
	}
	s->n_skip = bpf_get_prandom_u32() % (2 * time_every - 1);
	return true;
}

static __always_inline struct syscall_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&running, &zero);
}

/* ---- where its time goes ---- */

static __always_inline struct syscall_times *times_of(struct syscall_thread *own)
{
	return &((struct syscall_kept *)own)->times;
}

/* From now on it does something else. */
static __always_inline void end_state(struct syscall_times *times, __u64 now)
{
	__u32 state = times->state;

	if (state < SYSCALL_TIMES && now > times->since_ns)
		times->ns[state] += now - times->since_ns;
	times->since_ns = now;
}

/* A part of the wait that is over it was ready, and had no CPU: the scheduler counts that. */
static __always_inline void note_run_delay(struct syscall_times *times, const struct task_struct *t)
{
	__u64 delay = cpu_wait_ns(t), ns = delay - times->run_delay_ns;
	__u32 waited = times->waited;

	times->run_delay_ns = delay;
	if (waited == SYSCALL_TIME_CPU_WAIT || waited >= SYSCALL_TIMES)
		return;
	if (ns > times->ns[waited])
		ns = times->ns[waited];
	times->ns[waited] -= ns;
	times->ns[SYSCALL_TIME_CPU_WAIT] += ns;
}

#define KERNEL_S_IFMT 0170000
#define KERNEL_S_IFIFO 0010000
#define KERNEL_S_IFCHR 0020000
#define KERNEL_S_IFSOCK 0140000
#define KERNEL_S_ANON_INODE (1 << 19)
#define KERNEL_MINORBITS 20
#define NVIDIA_MAJOR 195
#define DRM_MAJOR 226

static __always_inline __u32 wait_by_file(struct task_struct *t, __u64 fd)
{
	const struct fdtable *table;
	struct file *file = NULL;
	struct inode *inode;
	__u32 mode, major;

	if (!t->files)
		return SYSCALL_TIME_OTHER;
	table = t->files->fdt;
	if (fd >= table->max_fds)
		return SYSCALL_TIME_OTHER;
	bpf_core_read(&file, sizeof(file), table->fd + (__u32)fd);
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & KERNEL_S_IFMT;
	if (mode == KERNEL_S_IFIFO)
		return SYSCALL_TIME_PIPE;
	if (mode == KERNEL_S_IFSOCK)
		return SYSCALL_TIME_SOCKET;
	if (mode == KERNEL_S_IFCHR) {
		major = BPF_CORE_READ(inode, i_rdev) >> KERNEL_MINORBITS;
		return major == NVIDIA_MAJOR || major == DRM_MAJOR ? SYSCALL_TIME_GPU
								   : SYSCALL_TIME_OTHER;
	}
	if (mode == 0 || BPF_CORE_READ(inode, i_flags) & KERNEL_S_ANON_INODE)
		return SYSCALL_TIME_EVENTS;
	return SYSCALL_TIME_DISK;
}

/* What one waits for that may be read and written at any time is no disk. */
static __always_inline __u32 wait_by_poll(struct task_struct *t, const __u64 args[4],
					  bool is_current)
{
	__u32 fd = 0, wait = SYSCALL_TIME_EVENTS;

	if (args[1] == 0)
		return SYSCALL_TIME_TIMER;
	if (args[1] == 1 && is_current &&
	    bpf_probe_read_user(&fd, sizeof(fd), (const void *)args[0]) == 0)
		wait = wait_by_file(t, fd);
	return wait == SYSCALL_TIME_DISK ? SYSCALL_TIME_EVENTS : wait;
}

#define KERNEL_F_SETLKW 7
#define KERNEL_F_OFD_SETLKW 38

/* What a thread waits for that is not ready. */
static __always_inline __u32 wait_of(struct task_struct *t, bool is_current)
{
	const bool is_disk = t->__state & KERNEL_TASK_UNINTERRUPTIBLE;
	__u32 how, wait = SYSCALL_TIME_OTHER;
	__u64 args[4] = {};
	int nr;

	if (t->__state & KERNEL_TASK_STOPPED)
		return SYSCALL_TIME_STOPPED;
	if (t->flags & KERNEL_PF_USER_WORKER)
		return is_disk ? SYSCALL_TIME_DISK : SYSCALL_TIME_EVENTS;
	nr = waiting_call(t, args);
	if (nr < 0)
		return is_disk ? SYSCALL_TIME_PAGE_FAULT : SYSCALL_TIME_OTHER;
	how = waits[nr & (SYSCALL_OTHER - 1)];
	if (nr >= SYSCALL_OTHER || is_compat_thread(t))
		how = SYSCALL_TIME_OTHER;
	if (how == SYSCALL_WAITS_FD)
		wait = wait_by_file(t, args[0]);
	else if (how == SYSCALL_WAITS_FCNTL)
		wait = args[1] == KERNEL_F_SETLKW || args[1] == KERNEL_F_OFD_SETLKW
			       ? SYSCALL_TIME_FILE_LOCK
			       : SYSCALL_TIME_OTHER;
	else if (how == SYSCALL_WAITS_POLL)
		wait = wait_by_poll(t, args, is_current);
	else if (how == SYSCALL_WAITS_SELECT)
		wait = args[1] || args[2] || args[3] ? SYSCALL_TIME_EVENTS : SYSCALL_TIME_TIMER;
	else if (how > 0 && how < SYSCALL_TIMES)
		wait = how;
	/* Calls that name no file that is open: mkdir(), rename(), exec()… */
	return wait == SYSCALL_TIME_OTHER && is_disk ? SYSCALL_TIME_DISK : wait;
}

/* What one does that was there before it was marked. */
static __always_inline __u32 state_of(struct task_struct *t)
{
	if (t->__state != KERNEL_TASK_RUNNING)
		return wait_of(t, false);
	return t->on_cpu ? SYSCALL_TIME_CPU : SYSCALL_TIME_CPU_WAIT;
}

/* From now on where its time goes is counted, whatever it does. */
static __always_inline void begin_times(struct syscall_thread *own, struct task_struct *t,
					__u32 state)
{
	struct syscall_times *times = times_of(own);

	if (has_no_times)
		return;
	__builtin_memset(times->ns, 0, sizeof(times->ns));
	times->run_delay_ns = cpu_wait_ns(t);
	times->waited = times->state = state;
	times->since_ns = bpf_ktime_get_ns();
}

/* Of a thread that ends. Without room in the ring it counts for the tree alone. */
static __always_inline void tell_times(const struct syscall_mark *mark, struct syscall_times *times)
{
	const struct syscall_value none = {};
	struct syscall_thread_times *told;

	if (mark->is_silent || times->since_ns == 0)
		return;
	end_state(times, bpf_ktime_get_ns());
	times->since_ns = 0;
	told = bpf_ringbuf_reserve(&news, sizeof(*told), 0);
	if (told) {
		told->owner = mark->owner;
		told->id = mark->id;
		told->reserved = 0;
		__builtin_memcpy(told->ns, times->ns, sizeof(told->ns));
		bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
		return;
	}
	for (__u32 i = 0; i < SYSCALL_TIMES; i++) {
		const struct syscall_tree_key key = { mark->owner.tag, SYSCALL_TREE_TIME + i, 0 };
		struct syscall_value *v;

		if (times->ns[i] == 0)
			continue;
		v = find_in(&tree_values, &key, &none);
		if (v)
			__sync_fetch_and_add(&v->ns, times->ns[i]);
	}
	has_new = true;
}

/* ---- who has a CPU ---- */

/* What is known of t, which has this CPU from now on. */
static __always_inline void bring(struct syscall_cpu *cpu, struct task_struct *t)
{
	struct syscall_thread *s = &cpu->thread, *own;
	struct syscall_times *times;
	__u64 away_ns, now;

	empty_slots(cpu);
	cpu->n_marks = n_marks;
	cpu->task = (__u64)t;
	cpu->regs = 0;
	s->mark.id = 0;
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (!own && storage_may_be_busy())
		cpu->task = 0; /* looked up again at the next call */
	if (!own || own->mark.id == 0)
		return;
	*s = *own;
	times = times_of(own);
	now = bpf_ktime_get_ns();
	if (times->since_ns) {
		times->waited = times->state;
		end_state(times, now);
		times->state = SYSCALL_TIME_CPU;
	}
	if (!s->left_ns)
		return;
	away_ns = now - s->left_ns;
	if (s->is_ready)
		s->entered_ns += away_ns; /* of which the call can do nothing */
	else
		s->wait_ns += away_ns;
	s->left_ns = 0;
}

/* The thread may be another tree's by now, or nobody's; the call that it is in goes on. */
static __always_inline void refresh(struct syscall_cpu *cpu, struct task_struct *t)
{
	struct syscall_thread *own;

	cpu->n_marks = n_marks;
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (own)
		cpu->thread.mark = own->mark;
	else
		cpu->thread.mark.id = 0;
}

/*
 * Looks t up if somebody may have been marked since it got the CPU, or if no switch to it was
 * seen: a kernel may leave out a program that is under way already.
 */
static __always_inline void look_up(struct syscall_cpu *cpu, struct task_struct *t)
{
	if (cpu->task != (__u64)t || (cpu->thread.mark.id == 0 && cpu->n_marks != n_marks))
		bring(cpu, t);
	else if (cpu->n_marks != n_marks)
		refresh(cpu, t);
}

/* What this CPU has of the running thread, t, or NULL if that is not counted. */
static __always_inline struct syscall_cpu *cpu_of(struct task_struct *t)
{
	struct syscall_cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	look_up(cpu, t);
	return cpu->thread.mark.id != 0 ? cpu : NULL;
}

/*
 * The same for one that is in a call. Asking who runs costs as much as all the rest, so it is told
 * by where its registers were saved, which is at one place of each thread's own stack.
 */
static __always_inline struct syscall_cpu *cpu_in_call(const struct pt_regs *regs)
{
	struct syscall_cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	if (cpu->regs != (__u64)regs || cpu->n_marks != n_marks) {
		look_up(cpu, bpf_get_current_task_btf());
		cpu->regs = cpu->task ? (__u64)regs : 0;
	}
	return cpu->thread.mark.id != 0 ? cpu : NULL;
}

static __always_inline __u32 fold(const struct pt_regs *regs, unsigned long nr)
{
	if (nr >= SYSCALL_OTHER)
		return SYSCALL_OTHER;
	return is_compat_call(regs) ? nr | SYSCALL_COMPAT : nr;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long nr)
{
	struct syscall_cpu *cpu = cpu_in_call(regs);
	struct syscall_thread *s;

	if (!cpu)
		return 0;
	s = &cpu->thread;
	s->nr = fold(regs, nr);
	s->is_inside = 1;
	s->entered_ns = 0;
	if (is_timed(s)) {
		s->wait_ns = 0;
		s->entered_ns = bpf_ktime_get_ns();
	}
	return 0;
}

static __always_inline bool is_counting(const struct syscall_thread *s)
{
	return s->is_inside && !s->mark.is_silent;
}

/* What a call returns between this and 0 is an error. */
#define MAX_ERRNO 4095
#define ERESTARTNOINTR 513 /* the kernel makes the call anew, and nobody is told */

/* The way out of a signal's handler "returns" what the call that was interrupted has. */
static __always_inline bool is_error(__u32 nr, long result)
{
	return result < 0 && result >= -MAX_ERRNO && result != -ERESTARTNOINTR &&
	       !is_sigreturn(nr & ~SYSCALL_COMPAT, nr & SYSCALL_COMPAT);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_leave, struct pt_regs *regs, long result)
{
	struct syscall_cpu *cpu = cpu_in_call(regs);

	if (!cpu)
		return 0;
	if (is_counting(&cpu->thread))
		count_call(cpu, is_error(cpu->thread.nr, result));
	cpu->thread.is_inside = 0;
	return 0;
}

/* ---- another thread gets the CPU ---- */

static __always_inline void take_back(struct syscall_cpu *cpu, struct task_struct *from,
				      bool is_ready)
{
	struct syscall_thread *s = &cpu->thread, *own;
	__u64 now = bpf_ktime_get_ns();
	struct syscall_times *times;

	if (s->is_inside && s->entered_ns) {
		s->left_ns = now;
		s->is_ready = is_ready;
	}
	own = bpf_task_storage_get(&threads, from, 0, 0);
	if (!own) {
		if (storage_may_be_busy() && cpu->n_marks == n_marks) /* it was not forgotten */
			__sync_fetch_and_add(&n_lost_marks, 1);
		return;
	}
	s->mark = own->mark; /* which somebody may have changed meanwhile */
	*own = *s;
	times = times_of(own);
	if (!times->since_ns)
		return;
	end_state(times, now);
	note_run_delay(times, from);
	times->state = is_ready ? SYSCALL_TIME_CPU_WAIT : wait_of(from, true);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool is_preempted, struct task_struct *from, struct task_struct *to)
{
	struct syscall_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	/* It may have been marked since, and called nothing. */
	if (cpu->task == (__u64)from && cpu->thread.mark.id == 0 && cpu->n_marks != n_marks)
		bring(cpu, from);
	if (cpu->thread.mark.id != 0 && cpu->task == (__u64)from)
		take_back(cpu, from, is_preempted || from->__state == KERNEL_TASK_RUNNING);
	bring(cpu, to);
	return 0;
}

/* ---- who is counted ---- */

static __always_inline void tell(const struct syscall_mark *mark, bool is_end)
{
	struct syscall_news *n;

	if (mark->is_silent)
		return;
	n = bpf_ringbuf_reserve(&news, sizeof(*n), 0);
	if (!n) {
		__sync_fetch_and_add(&n_lost_news, 1);
		return;
	}
	n->owner = mark->owner;
	n->id = mark->id;
	n->is_end = is_end;
	bpf_ringbuf_submit(n, BPF_RB_NO_WAKEUP);
}

static __always_inline struct syscall_thread *mark(struct task_struct *t)
{
	struct syscall_thread *s =
		bpf_task_storage_get(&threads, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!s)
		__sync_fetch_and_add(&n_lost_marks, 1);
	return s;
}

static __always_inline __u32 new_id(void)
{
	return __sync_fetch_and_add(&last_id, 1) + 1;
}

/* From now on it is counted. */
static __always_inline void begin_process(struct task_struct *leader, struct syscall_mark *m)
{
	m->owner.pid = leader->tgid;
	m->owner.start_boot_ns = leader->start_boottime;
	m->owner.uid = owner_of(leader);
	m->id = new_id();
	tell(m, false);
}

/* A thread counts for its process, and a process for itself. */
static __always_inline void mark_child(struct task_struct *child, const struct syscall_mark *from,
				       bool is_silent, __u32 state)
{
	struct syscall_thread *s = mark(child);

	if (!s)
		return;
	if (child->pid != child->tgid) {
		s->mark = *from;
		s->mark.is_root = 0;
		begin_times(s, child, state);
		return;
	}
	s->mark.is_silent = is_silent;
	s->mark.owner.tag = from->owner.tag;
	begin_process(child, &s->mark);
	begin_times(s, child, state);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct syscall_cpu *cpu = cpu_of(parent);

	if (cpu)
		mark_child(child, &cpu->thread.mark, cpu->thread.mark.is_silent,
			   SYSCALL_TIME_CPU_WAIT);
	return 0;
}

/* What was called until now is the former owner's. */
static __always_inline void leave_slots(struct syscall_cpu *cpu)
{
	empty_slots(cpu);
	for (int i = 0; i < SYSCALL_SLOTS; i++)
		cpu->slots[i].key.id = 0;
}

/* The call under way is the first of the program's, which may be somebody else's. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *t)
{
	struct syscall_cpu *cpu = cpu_of(t);
	struct syscall_thread *own;
	bool is_first;
	__u32 uid;

	if (!cpu)
		return 0;
	uid = owner_of(t);
	is_first = cpu->thread.mark.is_silent && !cpu->thread.mark.is_root;
	if (!is_first && cpu->thread.mark.owner.uid == uid)
		return 0;
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (!own) {
		__sync_fetch_and_add(&n_lost_marks, 1);
		return 0;
	}
	leave_slots(cpu);
	if (is_first) {
		own->mark.is_silent = 0;
		begin_times(own, t, SYSCALL_TIME_CPU);
	}
	own->mark.owner.uid = uid;
	cpu->thread.mark = own->mark;
	tell(&own->mark, false);
	return 0;
}

/* The call that ends a thread never returns. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *t)
{
	struct syscall_cpu *cpu = cpu_of(t);
	struct syscall_thread *own;

	if (!cpu)
		return 0;
	if (is_counting(&cpu->thread)) {
		cpu->thread.entered_ns = 0;
		count_call(cpu, false);
	}
	empty_slots(cpu); /* before its end is told: all is in the map then */
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (own)
		tell_times(&cpu->thread.mark, times_of(own));
	if (t->signal->live.counter == 0)
		tell(&cpu->thread.mark, true);
	return 0;
}

/*
 * Whether who is marked already is to be marked anew: with its process, or because its parent is
 * of a tree that began inside another.
 */
static __always_inline bool is_to_follow(const struct task_struct *t,
					 const struct syscall_mark *own,
					 const struct syscall_mark *from)
{
	if (own->is_root)
		return false;
	if (t->pid != t->tgid)
		return own->id != from->id;
	return from->owner.tag == adopting && own->owner.tag != adopting;
}

/*
 * What a runner starts counts from its program on: until then it does the runner's own work. One
 * that has the runner for a parent because its own is gone runs another program.
 */
static __always_inline bool is_at_runners_work(struct task_struct *t,
					       const struct syscall_mark *from)
{
	struct mm_struct *own = t->mm, *parents = t->real_parent->mm;

	return from->is_silent && t->flags & KERNEL_PF_FORKNOEXEC && own && parents &&
	       own->exe_file == parents->exe_file;
}

/*
 * Marks what was there before its parent or first thread was marked. Run over
 * and over until none is adopted any more.
 */
SEC("iter/task")
int adopt(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct syscall_thread *own, *from;

	if (!t)
		return 0;
	from = bpf_task_storage_get(&threads, t->pid == t->tgid ? t->real_parent : t->group_leader,
				    0, 0);
	if (!from)
		return 0;
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (own && !is_to_follow(t, &own->mark, &from->mark))
		return 0;
	if (own && t->pid == t->tgid)
		tell(&own->mark, true);
	mark_child(t, &from->mark, is_at_runners_work(t, &from->mark), state_of(t));
	n_adopted++;
	__sync_fetch_and_add(&n_marks, 1);
	return 0;
}

/* Where the time of those that live went so far. */
SEC("iter/task")
int dump_times(struct bpf_iter__task *ctx)
{
	struct syscall_thread_times told = {};
	struct task_struct *t = ctx->task;
	const struct syscall_times *times;
	struct syscall_thread *own;
	__u64 now = bpf_ktime_get_ns();
	__u32 state;

	if (!t)
		return 0;
	own = bpf_task_storage_get(&threads, t, 0, 0);
	if (!own || own->mark.id == 0 || own->mark.is_silent)
		return 0;
	times = times_of(own);
	state = times->state;
	if (times->since_ns == 0)
		return 0;
	told.owner = own->mark.owner;
	told.id = own->mark.id;
	__builtin_memcpy(told.ns, times->ns, sizeof(told.ns));
	if (state < SYSCALL_TIMES && now > times->since_ns)
		told.ns[state] += now - times->since_ns;
	bpf_seq_write(ctx->meta->seq, &told, sizeof(told));
	return 0;
}

/* The root of a tree, given by the user side with a tag and no number yet. */
SEC("iter/task")
int introduce(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct syscall_thread *s;

	if (!t)
		return 0;
	s = bpf_task_storage_get(&threads, t, 0, 0);
	if (!s || s->mark.id != 0)
		return 0;
	begin_process(t, &s->mark);
	begin_times(s, t, state_of(t));
	__sync_fetch_and_add(&n_marks, 1);
	return 0;
}

/* Takes the marks of a tree that is not wanted any more from who still lives. */
SEC("iter/task")
int forget(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct syscall_thread *s;

	if (!t)
		return 0;
	s = bpf_task_storage_get(&threads, t, 0, 0);
	if (!s || s->mark.owner.tag != forgetting)
		return 0;
	bpf_task_storage_delete(&threads, t);
	__sync_fetch_and_add(&n_marks, 1);
	return 0;
}

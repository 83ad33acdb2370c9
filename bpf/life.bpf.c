/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * life - tells of every process that is born, executes a program, is signalled or ends.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "differs.h"
#include "life.h"
#include "owner.h"
#include "rss.h"

char LICENSE[] SEC("license") = "GPL";

#define EEXIST 17

const volatile bool is_tracked_only; /* tell of marked trees, and of nobody else */
const volatile __u64 full_bytes;     /* with so much in the ring the reader is woken */
volatile bool is_armed;		     /* the reader sleeps, and is to be woken once */
__u64 n_lost;
bool is_tracking; /* somebody was ever marked */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct life_mark);
} marks SEC(".maps");

/*
 * Of processes whose first thread ended before the others: what it was marked with. If one
 * of the others executes a program it becomes the first, and has no mark of its own.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct life_key);
	__type(value, __u64);
} headless SEC(".maps");

/* Processes of several threads whose end was told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct life_key);
	__type(value, __u8);
} told_dead SEC(".maps");

/* ---- what all records share ---- */

/*
 * The mark of a process is kept with its first thread. Where the kernel may have been too busy to
 * look, one is made: that there is none all the same means that whose this is was lost.
 */
static __always_inline struct life_mark *find_mark(struct task_struct *leader)
{
	bool may_be_busy = storage_may_be_busy() && is_tracking;
	struct life_mark *mark = bpf_task_storage_get(
		&marks, leader, 0, may_be_busy ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);

	if (!mark && may_be_busy)
		__sync_fetch_and_add(&n_lost, 1);
	return mark;
}

static __always_inline __u64 tag_of(struct task_struct *leader)
{
	struct life_mark *mark = find_mark(leader);

	return mark ? mark->tag : 0;
}

static __always_inline struct life_key key_of(struct task_struct *leader)
{
	return (struct life_key){ .start_boot_ns = leader->start_boottime, .pid = leader->tgid };
}

static __always_inline void *reserve(__u64 bytes)
{
	void *record = bpf_ringbuf_reserve(&ring, bytes, 0);

	if (!record)
		__sync_fetch_and_add(&n_lost, 1);
	return record;
}

/*
 * To wake the reader costs more than to send it a record. So it is woken once, by the first record
 * that somebody waits for or when the ring fills, and again when it has read and sleeps.
 */
static __always_inline void submit(void *record, bool is_awaited)
{
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (is_armed && (is_awaited || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= full_bytes)) {
		is_armed = false;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(record, flags);
}

static __always_inline void write_head(struct life_head *h, __u32 type, struct task_struct *leader,
				       __u64 tag)
{
	h->type = type;
	h->pid = leader->tgid;
	h->mono_ns = bpf_ktime_get_ns();
	h->tag = tag;
	h->start_boot_ns = leader->start_boottime;
	bpf_probe_read_kernel(h->comm, sizeof(h->comm), leader->comm);
}

/* ---- calls that fail ---- */

const volatile __u32 write_nr;			   /* write() */
const volatile __u8 call_kinds[LIFE_CALL_NUMBERS]; /* enum life_call_kind, by number */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct life_key);
	__type(value, struct life_calls);
} failed_calls SEC(".maps");

static const struct life_calls no_calls;

#define MAX_ERRNO 4095
#define ENOENT 2
#define EINTR 4
#define EAGAIN 11
#define EINPROGRESS 115
#define ERESTARTSYS 512 /* and above: the kernel makes the call again, or it is EINTR */
#define MAX_NAMES 10

static __always_inline struct file *file_of(struct task_struct *t, __u64 fd)
{
	struct file **files = BPF_CORE_READ(t, files, fdt, fd), *file = NULL;

	if (fd < BPF_CORE_READ(t, files, fdt, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
	return file;
}

/* A shell's "echo >&2" writes to file 1, which is file 2 then. Every table has room for both. */
static __always_inline bool is_one_output(struct task_struct *t)
{
	struct files_struct *files = t->files;
	struct file *pair[2] = {};

	if (!files || bpf_probe_read_kernel(pair, sizeof(pair), &files->fdt->fd[1]) < 0)
		return false;
	return pair[0] == pair[1];
}

/* Those of a file from its own name up, over mount points. What is too long is cut at the root. */
static __always_inline void write_file(struct life_call *c, struct task_struct *t, __u64 fd)
{
	struct file *file = file_of(t, fd);
	struct dentry *dentry, *parent;
	struct vfsmount *mnt;
	struct mount *mount;
	__u32 at = 0;

	mnt = BPF_CORE_READ(file, f_path.mnt);
	dentry = BPF_CORE_READ(file, f_path.dentry);
	mount = (void *)mnt - bpf_core_field_offset(struct mount, mnt);
	for (int i = 0; i < MAX_NAMES && dentry && at < LIFE_OBJECT_BYTES; i++) {
		const unsigned char *name;
		long n;

		parent = BPF_CORE_READ(dentry, d_parent);
		if (dentry == BPF_CORE_READ(mount, mnt.mnt_root) || dentry == parent) {
			if (BPF_CORE_READ(mount, mnt_parent) == mount)
				break;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = BPF_CORE_READ(mount, mnt_parent);
			continue;
		}
		name = BPF_CORE_READ(dentry, d_name.name);
		n = bpf_probe_read_kernel_str(&c->object[at & (LIFE_OBJECT_BYTES - 1)],
					      LIFE_NAME_BYTES, name);
		if (n <= 0 || n > LIFE_NAME_BYTES)
			break;
		at += n;
		dentry = parent;
	}
	c->len = at;
}

static __always_inline void write_object(struct life_call *c, struct task_struct *t,
					 const __u64 args[3])
{
	long n = 0;

	c->len = 0;
	if (c->kind == LIFE_CALL_FILE) {
		write_file(c, t, args[0]);
	} else if (c->kind == LIFE_CALL_PATH || c->kind == LIFE_CALL_AT) {
		n = bpf_probe_read_user_str(c->object, sizeof(c->object),
					    (void *)args[c->kind == LIFE_CALL_AT]);
		c->len = n > 0 ? n : 0;
	} else if (c->kind == LIFE_CALL_ADDRESS) {
		n = args[2] < LIFE_OBJECT_BYTES ? args[2] : LIFE_OBJECT_BYTES - 1;
		if (bpf_probe_read_user(c->object, n & (LIFE_OBJECT_BYTES - 1), (void *)args[1]) ==
		    0)
			c->len = n;
	}
}

/* What programs live with all day, and try again. */
static __always_inline bool is_usual(__u32 kind, long error)
{
	return error == EINTR || error == EINPROGRESS || error >= ERESTARTSYS ||
	       (error == EAGAIN && kind != LIFE_CALL_PLAIN);
}

/* Those of a process that is marked; NULL: it is not. */
static __always_inline struct life_calls *calls_of(struct task_struct *leader)
{
	struct life_calls *calls;
	struct life_key key;

	if (!tag_of(leader))
		return NULL;
	key = key_of(leader);
	calls = bpf_map_lookup_elem(&failed_calls, &key);
	if (calls)
		return calls;
	bpf_map_update_elem(&failed_calls, &key, &no_calls, BPF_NOEXIST);
	return bpf_map_lookup_elem(&failed_calls, &key);
}

/* What is written stays as it is; its last bytes are copied beside it. */
static __always_inline void keep_said(struct life_calls *calls, __u64 from, __u64 n)
{
	__u32 once = n < LIFE_SAID_ONCE ? n : LIFE_SAID_ONCE - 1;
	__u32 at = calls->said_len & (LIFE_SAID_BYTES - 1), behind;

	/* What is cut may begin in the middle of a secret: the reader drops that line by this mark.
	 */
	if (n > once) {
		calls->said[at] = 0;
		calls->said_len++;
		at = calls->said_len & (LIFE_SAID_BYTES - 1);
	}
	from += n - once;
	once &= LIFE_SAID_ONCE - 1;
	if (bpf_probe_read_user(&calls->said[at], once, (void *)from) < 0)
		return;
	calls->said_len += once;
	behind = at + once;
	if (behind <= LIFE_SAID_BYTES)
		return;
	behind = (behind - LIFE_SAID_BYTES) & (LIFE_SAID_ONCE - 1);
	bpf_probe_read_user(calls->said, behind, (void *)(from + once - behind));
}

/*
 * The last failing calls of each process that is marked. Registers keep their values over a call,
 * all but that of the result.
 */
SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	struct task_struct *t, *leader;
	struct life_calls *calls;
	struct life_call *c;
	__u32 nr, kind, half;
	__u64 args[3];

#if defined(__TARGET_ARCH_x86)
	nr = regs->orig_ax;
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
#elif defined(__TARGET_ARCH_arm64)
	nr = regs->syscallno;
	args[0] = regs->orig_x0;
	args[1] = regs->regs[1];
	args[2] = regs->regs[2];
#endif
	if (result >= 0 && (nr != write_nr || args[0] - 1 > 1 || result == 0))
		return 0;
	if (result < -MAX_ERRNO || nr >= LIFE_CALL_NUMBERS || is_compat_call(regs))
		return 0;
	t = bpf_get_current_task_btf();
	leader = t->group_leader;
	if (result > 0) {
		if (tag_of(leader) && (args[0] == 2 || is_one_output(t))) {
			calls = calls_of(leader);
			if (calls)
				keep_said(calls, args[1], result);
		}
		return 0;
	}
	kind = call_kinds[nr];
	if (kind == 0 || is_usual(kind, -result))
		return 0;
	calls = calls_of(leader);
	if (!calls)
		return 0;
	half = result == -ENOENT;
	c = &calls->calls[(half * (LIFE_CALLS / 2) + calls->n[half] % (LIFE_CALLS / 2)) &
			  (LIFE_CALLS - 1)];
	calls->n[half]++;
	c->mono_ns = bpf_ktime_get_ns();
	c->nr = nr;
	c->error = -result;
	c->kind = kind;
	write_object(c, t, args);
	return 0;
}

/* ---- births ---- */

static __always_inline void tell_birth(__u32 type, struct task_struct *leader, __u64 tag)
{
	struct life_birth *b;

	if (is_tracked_only && !tag)
		return;
	b = reserve(sizeof(*b));
	if (!b)
		return;
	write_head(&b->head, type, leader, tag);
	b->parent_pid = leader->real_parent->tgid;
	b->reserved = 0;
	submit(b, tag && type == LIFE_RECORD_FORK);
}

/*
 * Without its mark what it starts is missed: that counts as lost. What rights its program has is
 * kept because its memory may be gone at its end.
 */
static __always_inline void set_tag(struct task_struct *leader, __u64 tag)
{
	struct life_mark *mark =
		bpf_task_storage_get(&marks, leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!mark) {
		__sync_fetch_and_add(&n_lost, 1);
		return;
	}
	mark->tag = tag;
	mark->rights = has_more_rights(leader) ? LIFE_RIGHTS_MORE : LIFE_RIGHTS_OWN;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u64 tag;

	if (child->pid != child->tgid)
		return 0;
	tag = tag_of(parent->group_leader);
	if (tag)
		set_tag(child, tag);
	tell_birth(LIFE_RECORD_FORK, child, tag);
	return 0;
}

/* The thread that executes a program has the pid and start of the first one by now, whoever it was.
 */
static __always_inline __u64 inherit_tag(struct task_struct *p)
{
	struct life_key key = key_of(p);
	__u64 *tag = bpf_map_lookup_elem(&headless, &key), found;

	if (!tag)
		return 0;
	found = *tag;
	bpf_map_delete_elem(&headless, &key);
	return found;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p)
{
	__u64 tag = tag_of(p);

	if (!tag)
		tag = inherit_tag(p);
	if (tag) {
		struct life_key key = key_of(p->group_leader);

		set_tag(p, tag);
		/* What went wrong before, in a shell that looked for it, is not the program's. */
		bpf_map_delete_elem(&failed_calls, &key);
	}
	tell_birth(LIFE_RECORD_EXEC, p, tag);
	return 0;
}

/* ---- deaths ---- */

static __always_inline __u64 peak_pages(struct task_struct *t)
{
	struct mm_struct *mm = t->mm;
	struct rss_sum sum = {};
	__s64 now;

	if (!has_memory_at_exit(t))
		return t->signal->maxrss;
	sum_pages(mm, &sum);
	now = sum.pages[MM_FILEPAGES] + sum.pages[MM_ANONPAGES] + sum.pages[MM_SHMEMPAGES];
	return now > (__s64)mm->hiwater_rss ? (__u64)now : mm->hiwater_rss;
}

/* What wait4() would say. */
static __always_inline __u32 status_of(struct task_struct *leader)
{
	struct signal_struct *s = leader->signal;

	return s->flags & KERNEL_SIGNAL_GROUP_EXIT ? s->group_exit_code : leader->exit_code;
}

/* Of threads that are gone, which in the end are all; and the I/O of children that were waited for.
 */
static __always_inline void write_ended(const struct signal_struct *s, struct life_death *d)
{
	d->user_ns = s->utime;
	d->system_ns = s->stime;
	d->run_ns = s->sum_sched_runtime;
	d->minor_faults = s->min_flt;
	d->major_faults = s->maj_flt;
	d->rchar = s->ioac.rchar;
	d->wchar = s->ioac.wchar;
	d->read_bytes = s->ioac.read_bytes;
	d->write_bytes = s->ioac.write_bytes;
}

/* Of a thread that is not gone. */
static __always_inline void add_unsummed(const struct task_struct *t, struct life_death *d)
{
	d->user_ns += t->utime;
	d->system_ns += t->stime;
	d->run_ns += t->se.sum_exec_runtime;
	d->minor_faults += t->min_flt;
	d->major_faults += t->maj_flt;
	d->rchar += t->ioac.rchar;
	d->wchar += t->ioac.wchar;
	d->read_bytes += t->ioac.read_bytes;
	d->write_bytes += t->ioac.write_bytes;
}

/*
 * True for one of the threads that found themselves the last, of which there can be several: who
 * puts the process among those that were told. Who is alone need not, but may be alone because
 * another that has told is gone by now. (A mark of the task would not do: the kernel may be too
 * busy to make one, and then two would tell.)
 */
static __always_inline bool is_first_to_tell(struct task_struct *leader)
{
	struct life_key key = key_of(leader);
	__u8 one = 1;

	if (leader->signal->nr_threads <= 1)
		return !bpf_map_lookup_elem(&told_dead, &key);
	return bpf_map_update_elem(&told_dead, &key, &one, BPF_NOEXIST) != -EEXIST;
}

/* The first thread ends, and others go on; or did, and the last of them has dropped it by now. */
static __always_inline void keep_tag(struct task_struct *leader)
{
	struct life_key key = key_of(leader);
	__u64 tag = tag_of(leader);

	if (!tag)
		return;
	if (bpf_map_update_elem(&headless, &key, &tag, BPF_ANY) < 0)
		__sync_fetch_and_add(&n_lost, 1);
	if (*(volatile int *)&leader->signal->live.counter == 0)
		bpf_map_delete_elem(&headless, &key);
}

/* It may be there where the first thread is not the last, or not the only one of the last. */
static __always_inline void drop_tag(struct task_struct *t, struct task_struct *leader)
{
	struct life_key key = key_of(leader);

	if (t != leader || leader->signal->nr_threads > 1)
		bpf_map_delete_elem(&headless, &key);
}

/* Whose alone it is; 0: root's, or of several. Of one that ends t is the last thread, and memory
 * that is gone says nothing. */
static __always_inline __u32 owner_by_mark(const struct life_mark *mark, struct task_struct *leader,
					   struct task_struct *t)
{
	__u32 rights = mark ? mark->rights : LIFE_RIGHTS_UNKNOWN;

	if (rights == LIFE_RIGHTS_MORE || (rights == LIFE_RIGHTS_UNKNOWN && has_more_rights(t)))
		return 0;
	return user_of(leader);
}

static __always_inline struct life_death *begin_death(__u32 type, struct task_struct *leader,
						      struct task_struct *t)
{
	const struct life_mark *mark = find_mark(leader);
	__u64 tag = mark ? mark->tag : 0;
	const struct life_calls *calls = NULL;
	struct life_key key = key_of(leader);
	struct life_failure *f;
	struct life_death *d;

	if (is_tracked_only && !tag)
		return NULL;
	if (tag && type == LIFE_RECORD_EXIT && status_of(leader) != 0)
		calls = bpf_map_lookup_elem(&failed_calls, &key);
	if (calls) {
		f = reserve(sizeof(*f));
		if (!f)
			return NULL;
		bpf_probe_read_kernel(&f->calls, sizeof(f->calls), calls);
		d = &f->death;
	} else {
		d = reserve(sizeof(*d));
	}
	if (!d)
		return NULL;
	if (tag && type == LIFE_RECORD_EXIT)
		bpf_map_delete_elem(&failed_calls, &key);
	write_head(&d->head, type, leader, tag);
	d->wait_status = status_of(leader);
	d->uid = owner_by_mark(mark, leader, t);
	d->reserved = 0;
	write_ended(leader->signal, d);
	return d;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *t)
{
	struct task_struct *leader = t->group_leader;
	struct life_death *d;

	if (t->signal->live.counter != 0) {
		if (t == leader)
			keep_tag(leader);
		return 0;
	}
	if (!is_first_to_tell(leader))
		return 0;
	drop_tag(t, leader);
	d = begin_death(LIFE_RECORD_EXIT, leader, t);
	if (!d)
		return 0;
	d->parent_pid = leader->real_parent->tgid;
	d->max_rss_pages = peak_pages(t);
	add_unsummed(t, d);
	if (t != leader) /* which stays until all others are gone, in no sum */
		add_unsummed(leader, d);
	submit(d, d->head.tag);
	return 0;
}

/*
 * The scheduler counts what the last thread ran until its very end only here,
 * when somebody has waited for it.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *t)
{
	struct life_death *d;

	if (t->pid != t->tgid)
		return 0;
	d = begin_death(LIFE_RECORD_FREE, t, t);
	if (!d)
		return 0;
	d->parent_pid = 0;
	d->max_rss_pages = 0;
	submit(d, d->head.tag);
	return 0;
}

/* ---- signals ---- */

/* info is a number below this, and no address, where the kernel has nothing to say about the
 * sender: 0 is the current process, 1 the kernel. */
#define LAST_SPECIAL_INFO 1
#define SI_USER 0
#define SI_QUEUE (-1)
#define SI_TKILL (-6)
#define TRACE_SIGNAL_DELIVERED 0

static __always_inline __s32 code_of(struct kernel_siginfo *info)
{
	__s32 code = SI_USER;

	if ((__u64)info > LAST_SPECIAL_INFO)
		bpf_core_read(&code, sizeof(code), &info->si_code);
	return code;
}

/* Where its handler lies has to be a constant. */
#define READ_HANDLER(hand, sig, handler) \
	bpf_core_read((handler), sizeof(*(handler)), &(hand)->action[(sig)-1].sa.sa_handler)

/* Of alarm() and setitimer(): the kernel says that it is its own. Without a handler it kills. */
static __always_inline bool is_timer(int sig, struct kernel_siginfo *info, struct task_struct *t)
{
	struct sighand_struct *hand = t->sighand;
	void *handler = NULL;

	if ((__u64)info != LAST_SPECIAL_INFO || !hand)
		return false;
	if (sig == KERNEL_SIGALRM)
		READ_HANDLER(hand, KERNEL_SIGALRM, &handler);
	else if (sig == KERNEL_SIGVTALRM)
		READ_HANDLER(hand, KERNEL_SIGVTALRM, &handler);
	else if (sig == KERNEL_SIGPROF)
		READ_HANDLER(hand, KERNEL_SIGPROF, &handler);
	return handler != NULL;
}

/* Children that end, timers, and what runtimes send to their own threads all day tell nothing. */
static __always_inline bool is_noise(int sig, __s32 code, __u32 sender_pid, __u32 pid)
{
	if (sig == KERNEL_SIGCHLD)
		return true;
	if (code < 0 && code != SI_QUEUE && code != SI_TKILL)
		return true;
	return sender_pid == pid && (sig == KERNEL_SIGURG || sig >= KERNEL_SIGRTMIN);
}

static __always_inline void write_sender(struct life_signalled *s, struct kernel_siginfo *info,
					 __s32 code)
{
	struct task_struct *sender = bpf_get_current_task_btf();

	s->code = code;
	s->is_from_kernel = (__u64)info == LAST_SPECIAL_INFO || code > 0;
	s->sender_pid = sender->tgid;
	s->sender_tag = tag_of(sender->group_leader);
	bpf_probe_read_kernel(s->sender_comm, sizeof(s->sender_comm), sender->comm);
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int sig, struct kernel_siginfo *info, struct task_struct *t, int group,
	     int result)
{
	__u32 sender_pid = bpf_get_current_pid_tgid() >> 32;
	__s32 code = code_of(info);
	const struct life_mark *mark;
	struct life_signalled *s;
	__u64 tag;

	if (result != TRACE_SIGNAL_DELIVERED || is_noise(sig, code, sender_pid, t->tgid) ||
	    is_timer(sig, info, t))
		return 0;
	mark = find_mark(t->group_leader);
	tag = mark ? mark->tag : 0;
	if (is_tracked_only && !tag)
		return 0;
	s = reserve(sizeof(*s));
	if (!s)
		return 0;
	write_head(&s->head, LIFE_RECORD_SIGNAL, t->group_leader, tag);
	s->signal = sig;
	s->uid = owner_by_mark(mark, t->group_leader, t);
	s->reserved = 0;
	write_sender(s, info, code);
	submit(s, tag);
	return 0;
}

/* ---- OOM kills ---- */

#define MAX_CGROUP_DEPTH 16

/* At its limit, but for what CPUs have in hand. (One that nobody has set is near 2^63 bytes.) */
static __always_inline bool is_full(struct cgroup_subsys_state *css)
{
	struct mem_cgroup *group = (struct mem_cgroup *)css; /* its first member */
	__u64 limit = BPF_CORE_READ(group, memory.max);

	return (__u64)BPF_CORE_READ(group, memory.usage.counter) >= limit - limit / 16;
}

/* The limit of one that its own is in may be why: the first that is full, or its own. */
static __always_inline struct cgroup_subsys_state *find_full(struct cgroup_subsys_state *own)
{
	struct cgroup_subsys_state *css = own;

	for (int i = 0; i < MAX_CGROUP_DEPTH && css; i++) {
		if (is_full(css))
			return css;
		css = BPF_CORE_READ(css, parent);
	}
	return own;
}

static __always_inline void write_cgroup(struct task_struct *t, struct life_oom *o)
{
	struct css_set *sets = t->cgroups;
	struct cgroup_subsys_state *css = NULL;
	int controller = memory_controller();
	struct mem_cgroup *group;

	o->cgroup_pages = o->cgroup_limit_pages = o->cgroup_id = 0;
	o->cgroup[0] = '\0';
	if (controller < 0)
		return;
	bpf_core_read(&css, sizeof(css), &sets->subsys[controller & 15]);
	if (!css)
		return;
	css = find_full(css);
	group = (struct mem_cgroup *)css;
	o->cgroup_pages = BPF_CORE_READ(group, memory.usage.counter);
	o->cgroup_limit_pages = BPF_CORE_READ(group, memory.max);
	o->cgroup_id = BPF_CORE_READ(css, cgroup, kn, id);
	bpf_probe_read_kernel_str(o->cgroup, sizeof(o->cgroup),
				  BPF_CORE_READ(css, cgroup, kn, name));
}

static __always_inline __u64 rss_pages(struct task_struct *t)
{
	struct mm_struct *mm = t->mm;
	struct rss_sum sum = {};
	__s64 pages;

	if (!mm)
		return 0;
	sum_pages(mm, &sum);
	pages = sum.pages[MM_FILEPAGES] + sum.pages[MM_ANONPAGES] + sum.pages[MM_SHMEMPAGES];
	return pages > 0 ? pages : 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(on_oom, struct task_struct *t)
{
	const struct life_mark *mark = find_mark(t->group_leader);
	__u64 tag = mark ? mark->tag : 0;
	struct life_oom *o;

	if (is_tracked_only && !tag)
		return 0;
	o = reserve(sizeof(*o));
	if (!o)
		return 0;
	write_head(&o->head, LIFE_RECORD_OOM, t->group_leader, tag);
	o->uid = owner_by_mark(mark, t->group_leader, t);
	o->reserved = 0;
	o->rss_pages = rss_pages(t);
	write_cgroup(t, o);
	submit(o, true);
	return 0;
}

/* Before Linux 6.8 the tracepoint tells the thread id only; the user side loads one of the two. */
SEC("tp_btf/mark_victim")
int BPF_PROG(on_oom_pid, int tid)
{
	struct life_oom *o;

	if (is_tracked_only)
		return 0; /* whose tree it is cannot be known */
	o = reserve(sizeof(*o));
	if (!o)
		return 0;
	__builtin_memset(o, 0, sizeof(*o));
	o->head.type = LIFE_RECORD_OOM;
	o->head.pid = tid;
	o->head.mono_ns = bpf_ktime_get_ns();
	o->rss_pages = LIFE_NO_COUNT;
	o->uid = LIFE_NO_UID;
	submit(o, true);
	return 0;
}

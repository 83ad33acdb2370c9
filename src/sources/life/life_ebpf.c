#include <bpf/bpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "bpf/life.skel.h"
#include "sources/ebpf.h"
#include "sources/life/life.h"

#define WHAT "births and deaths"

#define RING_BYTES (2 * 1024 * 1024) /* a second of 4,000 forks, execs and exits (measured) */
#define FULL_PART 4 /* the reader is woken when the ring is full to one in so many */

struct ebpf {
	struct life base;
	struct life_bpf *skel;
	struct ring_buffer *ring;
	struct bpf_link *free_link; /* NULL: nobody wants the last word on the dead */
	struct bpf_link *call_link; /* nor the calls that failed */
	int wake_fd;		    /* an epoll on the ring: the kernel side has woken us */
	uint64_t told_lost;

	/* Of the drain under way. */
	struct life_units units;
	life_handler *fn;
	void *fn_ctx;
	size_t n_left;
};

static struct ebpf *ebpf_of(struct life *life)
{
	return (struct ebpf *)life; /* base is its first member */
}

/* ---- loading ---- */

/* Which of the two for OOM kills is loaded: kernels differ in what the tracepoint tells. */
enum oom_program { OOM_BY_TASK, OOM_BY_PID, OOM_NONE };

/* The calls that name a file, or fail for want of something: others fail for many good reasons. */
static const struct {
	int nr;
	enum life_call_kind kind;
} kept_calls[] = {
	{ SYS_openat, LIFE_CALL_AT },
	{ SYS_execve, LIFE_CALL_PATH },
	{ SYS_execveat, LIFE_CALL_AT },
	{ SYS_newfstatat, LIFE_CALL_AT },
	{ SYS_faccessat, LIFE_CALL_AT },
	{ SYS_mkdirat, LIFE_CALL_AT },
	{ SYS_unlinkat, LIFE_CALL_AT },
	{ SYS_renameat2, LIFE_CALL_AT },
	{ SYS_linkat, LIFE_CALL_AT },
	{ SYS_fchmodat, LIFE_CALL_AT },
	{ SYS_fchownat, LIFE_CALL_AT },
	{ SYS_chdir, LIFE_CALL_PATH },
	{ SYS_truncate, LIFE_CALL_PATH },
	{ SYS_read, LIFE_CALL_FILE },
	{ SYS_write, LIFE_CALL_FILE },
	{ SYS_pread64, LIFE_CALL_FILE },
	{ SYS_pwrite64, LIFE_CALL_FILE },
	{ SYS_readv, LIFE_CALL_FILE },
	{ SYS_writev, LIFE_CALL_FILE },
	{ SYS_sendfile, LIFE_CALL_FILE },
	{ SYS_copy_file_range, LIFE_CALL_PLAIN },
	{ SYS_fsync, LIFE_CALL_FILE },
	{ SYS_fdatasync, LIFE_CALL_FILE },
	{ SYS_fallocate, LIFE_CALL_FILE },
	{ SYS_ftruncate, LIFE_CALL_FILE },
	{ SYS_flock, LIFE_CALL_FILE },
	{ SYS_connect, LIFE_CALL_ADDRESS },
	{ SYS_bind, LIFE_CALL_ADDRESS },
	{ SYS_sendto, LIFE_CALL_PLAIN },
	{ SYS_recvfrom, LIFE_CALL_PLAIN },
	{ SYS_socket, LIFE_CALL_PLAIN },
	{ SYS_accept4, LIFE_CALL_PLAIN },
	{ SYS_pipe2, LIFE_CALL_PLAIN },
	{ SYS_dup, LIFE_CALL_PLAIN },
	{ SYS_clone, LIFE_CALL_PLAIN },
	{ SYS_mmap, LIFE_CALL_PLAIN },
#ifdef SYS_clone3
	{ SYS_clone3, LIFE_CALL_PLAIN },
#endif
#ifdef SYS_open /* architectures of before 2011 have the older calls too */
	{ SYS_open, LIFE_CALL_PATH },
	{ SYS_creat, LIFE_CALL_PATH },
	{ SYS_stat, LIFE_CALL_PATH },
	{ SYS_lstat, LIFE_CALL_PATH },
	{ SYS_access, LIFE_CALL_PATH },
	{ SYS_mkdir, LIFE_CALL_PATH },
	{ SYS_rmdir, LIFE_CALL_PATH },
	{ SYS_unlink, LIFE_CALL_PATH },
	{ SYS_rename, LIFE_CALL_PATH },
	{ SYS_link, LIFE_CALL_PATH },
	{ SYS_chmod, LIFE_CALL_PATH },
	{ SYS_chown, LIFE_CALL_PATH },
	{ SYS_fork, LIFE_CALL_PLAIN },
	{ SYS_vfork, LIFE_CALL_PLAIN },
	{ SYS_pipe, LIFE_CALL_PLAIN },
#endif
};

static int set_options(struct life_bpf *skel, const struct life_options *o, enum oom_program oom)
{
	uint32_t ring_bytes = (uint32_t)(o->ring_bytes ? o->ring_bytes : RING_BYTES);
	int n_cpus = ebpf_cpu_ids(), r;

	if (n_cpus < 0)
		return n_cpus;
	skel->rodata->n_cpus = (uint32_t)n_cpus;
	skel->rodata->is_tracked_only = o->is_tracked_only;
	skel->rodata->is_as_old = o->is_as_old;
	for (size_t i = 0; i < ARRAY_SIZE(kept_calls); i++)
		skel->rodata->call_kinds[kept_calls[i].nr] = (uint8_t)kept_calls[i].kind;
	skel->rodata->write_nr = SYS_write;
	bpf_program__set_autoattach(skel->progs.on_free, false);
	bpf_program__set_autoattach(skel->progs.on_return, false);
	bpf_program__set_autoload(skel->progs.on_oom, oom == OOM_BY_TASK);
	bpf_program__set_autoload(skel->progs.on_oom_pid, oom == OOM_BY_PID);
	skel->rodata->full_bytes = ring_bytes / FULL_PART;
	skel->bss->is_armed = true;
	r = bpf_map__set_max_entries(skel->maps.offsets, (uint32_t)n_cpus);
	return r < 0 ? r : bpf_map__set_max_entries(skel->maps.ring, ring_bytes);
}

static int load(struct ebpf *e, const struct life_options *o)
{
	int r = -EIO;

	for (enum oom_program oom = OOM_BY_TASK; oom <= OOM_NONE && r < 0 && r != -EPERM; oom++) {
		e->skel = life_bpf__open();
		r = e->skel ? set_options(e->skel, o, oom) : -errno;
		if (r == 0)
			r = life_bpf__load(e->skel);
		e->base.sees_oom = r == 0 && oom != OOM_NONE;
		if (r < 0) {
			life_bpf__destroy(e->skel);
			e->skel = NULL;
		}
	}
	return r;
}

/* Edges alone: the ring is never empty for long, and whether it is says nothing. */
static int watch_ring(int ring_fd)
{
	CLEANUP(close_fd) int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event when = { .events = EPOLLIN | EPOLLET };

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, ring_fd, &when) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* ---- draining ---- */

/* Ends with the first from after the call, so that it ends on a host that forks without end. */
static int take_record(void *ctx, void *bytes, size_t len)
{
	struct ebpf *e = ctx;
	struct life_event ev;

	if (life_record_parse(bytes, len, &e->units, &ev) < 0)
		return 0;
	e->fn(e->fn_ctx, &ev);
	return --e->n_left == 0 || ev.wall_ns > e->units.wall_ns ? -ECANCELED : 0;
}

static int64_t drain_ebpf(struct life *life, size_t max, life_handler *fn, void *ctx)
{
	struct ebpf *e = ebpf_of(life);
	uint64_t lost, told_lost = e->told_lost;
	struct epoll_event woken;
	struct timespec ts;
	int r = 0;

	(void)epoll_wait(e->wake_fd, &woken, 1, 0); /* or the edge would stay */
	__atomic_store_n(&e->skel->bss->is_armed, true, __ATOMIC_SEQ_CST);
	e->fn = fn;
	e->fn_ctx = ctx;
	e->n_left = max;
	/*
	 * Twice: we may have been stopped for long after a look at the clocks; and the ring ends
	 * for us at a record that another CPU is writing, which takes it less than the first look
	 * takes us.
	 */
	for (int i = 0; i < 2 && e->n_left > 0 && (r >= 0 || r == -ECANCELED); i++) {
		/* In this order: a stop between them makes no event seem later than now. */
		e->units.wall_ns = clock_wall_ns();
		clock_gettime(CLOCK_MONOTONIC, &ts);
		e->units.mono_ns =
			(uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
		r = ring_buffer__consume(e->ring);
	}
	if (r < 0 && r != -ECANCELED)
		return r;
	lost = __atomic_load_n(&e->skel->bss->n_lost, __ATOMIC_RELAXED);
	e->told_lost = lost;
	return (int64_t)(lost - told_lost);
}

/* ---- the rest ---- */

static void close_ebpf(struct life *life)
{
	struct ebpf *e = ebpf_of(life);

	ring_buffer__free(e->ring);
	bpf_link__destroy(e->free_link);
	bpf_link__destroy(e->call_link);
	life_bpf__destroy(e->skel);
	close_fd(&e->wake_fd);
	free(e);
}

/* Twice as much is told of every end on the host then. */
static int want_accounts(struct life *life, bool is_wanted)
{
	struct ebpf *e = ebpf_of(life);

	if (is_wanted == (e->free_link != NULL))
		return 0;
	if (is_wanted) {
		e->free_link = bpf_program__attach(e->skel->progs.on_free);
		if (!e->free_link)
			return -errno;
		e->call_link = bpf_program__attach(e->skel->progs.on_return);
		e->base.sees_calls = e->call_link != NULL;
		return 0; /* without it a failing call is in no end */
	}
	bpf_link__destroy(e->free_link);
	bpf_link__destroy(e->call_link);
	e->free_link = e->call_link = NULL;
	return 0;
}

static int start(struct ebpf *e, const struct life_options *o)
{
	int r = load(e, o);

	if (r == 0) {
		LIBBPF_OPTS(bpf_test_run_opts, options);

		r = bpf_prog_test_run_opts(bpf_program__fd(e->skel->progs.find_offsets), &options);
	}
	if (r < 0)
		return r;
	e->ring = ring_buffer__new(bpf_map__fd(e->skel->maps.ring), take_record, e, NULL);
	if (!e->ring)
		return -errno;
	e->wake_fd = watch_ring(bpf_map__fd(e->skel->maps.ring));
	if (e->wake_fd < 0)
		return e->wake_fd;
	r = life_bpf__attach(e->skel);
	return r < 0 ? r : want_accounts(&e->base, o->wants_accounts);
}

static void drop_ebpf(struct ebpf **e)
{
	if (*e)
		close_ebpf(&(*e)->base);
}

static int open_ebpf(const struct life_options *o, struct life **ret, struct err *err)
{
	CLEANUP(drop_ebpf) struct ebpf *e = NULL;
	int r = ebpf_check(err);

	if (r < 0)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	e->wake_fd = -1;
	e->base =
		(struct life){ .kind = &life_by_ebpf, .sees_signals = true, .has_accounts = true };
	e->units.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	e->units.clock_ticks = sysconf(_SC_CLK_TCK);
	r = start(e, o);
	malloc_trim(0); /* what the kernel says of itself took 14 MB, and is needed no more */
	if (r < 0)
		return ebpf_fail(err, r, WHAT);
	*ret = &TAKE_PTR(e)->base;
	return 0;
}

static int ebpf_fd(const struct life *life)
{
	return ((const struct ebpf *)life)->wake_fd;
}

static int track_ebpf(struct life *life, pid_t pid, uint64_t tag)
{
	int map_fd = bpf_map__fd(ebpf_of(life)->skel->maps.marks);
	const struct life_mark mark = { .tag = tag };
	CLEANUP(close_fd) int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (tag == 0)
		return -EINVAL;
	if (pid_fd < 0)
		return -errno;
	ebpf_of(life)->skel->bss->is_tracking = true;
	return bpf_map_update_elem(map_fd, &pid_fd, &mark, BPF_ANY) < 0 ? -errno : 0;
}

static uint64_t tag_of_ebpf(struct life *life, pid_t pid)
{
	int map_fd = bpf_map__fd(ebpf_of(life)->skel->maps.marks);
	CLEANUP(close_fd) int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct life_mark mark = { 0 };

	if (pid_fd < 0 || bpf_map_lookup_elem(map_fd, &pid_fd, &mark) < 0)
		return 0;
	return mark.tag;
}

const struct life_kind life_by_ebpf = {
	.name = "eBPF fork, exec and exit events",
	.name_with_accounts = "eBPF fork, exec and exit events",
	.open = open_ebpf,
	.close = close_ebpf,
	.fd = ebpf_fd,
	.drain = drain_ebpf,
	.track = track_ebpf,
	.tag_of = tag_of_ebpf,
	.want_accounts = want_accounts,
};

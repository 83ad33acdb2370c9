#include "sources/tasks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "bpf/tasks.skel.h"
#include "sources/ebpf.h"

#define WHAT "process samples"

/* The kernel's own bound on pid_max (PID_MAX_LIMIT), for 64-bit machines. */
#define MAX_PIDS (4 * 1024 * 1024)
#define WORD_BITS 64
#define WANTED_BYTES (MAX_PIDS / 8)

/* The kernel hands out 32 KiB at a time; more room saves no calls. */
#define READ_BYTES (64 * 1024)

struct tasks {
	struct tasks_bpf *skel;
	uint64_t *wanted; /* shared with the kernel side: a bit per pid */
	struct buf bytes;
	struct task_process **items;
	size_t n, cap;
};

/* ---- life cycle ---- */

static int start(struct tasks *t, bool is_as_old)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	int n_cpus = ebpf_cpu_ids(), r;
	void *memory;

	if (n_cpus < 0)
		return n_cpus;
	t->skel = tasks_bpf__open();
	if (!t->skel)
		return -errno;
	t->skel->rodata->is_as_old = is_as_old;
	t->skel->rodata->n_cpus = (uint32_t)n_cpus;
	r = bpf_map__set_max_entries(t->skel->maps.offsets, (uint32_t)n_cpus);
	if (r == 0)
		r = bpf_map__set_max_entries(t->skel->maps.wanted, MAX_PIDS / WORD_BITS);
	if (r == 0)
		r = tasks_bpf__load(t->skel);
	if (r == 0)
		r = bpf_prog_test_run_opts(bpf_program__fd(t->skel->progs.find_offsets), &options);
	if (r < 0)
		return r;
	memory = mmap(NULL, WANTED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_map__fd(t->skel->maps.wanted), 0);
	if (memory == MAP_FAILED)
		return -errno;
	t->wanted = memory;
	return tasks_bpf__attach(t->skel);
}

static void close_tasks(struct tasks **t)
{
	*t = tasks_close(*t);
}

int tasks_open(bool is_as_old, struct tasks **ret, struct err *err)
{
	CLEANUP(close_tasks) struct tasks *t = NULL;
	int r = ebpf_check(err);

	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->bytes = (struct buf)BUF_INIT;
	r = start(t, is_as_old);
	malloc_trim(0); /* what the kernel says of itself took 14 MB, and is needed no more */
	if (r < 0)
		return ebpf_fail(err, r, WHAT);
	*ret = TAKE_PTR(t);
	return 0;
}

struct tasks *tasks_close(struct tasks *t)
{
	if (!t)
		return NULL;
	if (t->wanted)
		munmap(t->wanted, WANTED_BYTES);
	tasks_bpf__destroy(t->skel);
	buf_release(&t->bytes);
	free(t->items);
	free(t);
	return NULL;
}

/* ---- reading ---- */

static void set_wanted(struct tasks *t, const pid_t *pids, size_t n, bool is_wanted)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t bit;

		if (pids[i] <= 0 || pids[i] >= MAX_PIDS)
			continue;
		bit = UINT64_C(1) << (pids[i] % WORD_BITS);
		if (is_wanted)
			t->wanted[pids[i] / WORD_BITS] |= bit;
		else
			t->wanted[pids[i] / WORD_BITS] &= ~bit;
	}
}

static int read_bytes(struct tasks *t)
{
	CLEANUP(close_fd) int fd = bpf_iter_create(bpf_link__fd(t->skel->links.dump));
	ssize_t n;

	if (fd < 0)
		return -errno;
	buf_reset(&t->bytes);
	do {
		if (buf_reserve(&t->bytes, READ_BYTES) < 0)
			return -ENOMEM;
		n = read(fd, t->bytes.data + t->bytes.len, READ_BYTES);
		if (n > 0)
			t->bytes.len += (size_t)n;
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}

/* Calls fn for every record of one kind. Stops at one that is not as the kernel side writes them.
 */
static int for_each(struct tasks *t, uint32_t kind, size_t size,
		    void (*fn)(struct tasks *t, char *record))
{
	struct task_head head;

	for (size_t at = 0; at < t->bytes.len; at += head.bytes) {
		size_t left = t->bytes.len - at;

		if (left < sizeof(head))
			return -EBADMSG;
		memcpy(&head, t->bytes.data + at, sizeof(head));
		if (head.bytes < sizeof(head) || head.bytes > left)
			return -EBADMSG;
		if (head.kind == kind && head.bytes == size)
			fn(t, t->bytes.data + at);
	}
	return 0;
}

/* It stays where it was read: all records are a multiple of eight bytes long. */
_Static_assert(sizeof(struct task_process) % 8 == 0 && sizeof(struct task_thread) % 8 == 0,
	       "or the next record is not aligned");
static void take_process(struct tasks *t, char *record)
{
	t->items[t->n++] = (struct task_process *)record;
}

static int compare_pid(const void *key, const void *item)
{
	uint32_t x = *(const uint32_t *)key, y = (*(struct task_process *const *)item)->head.pid;

	return (x > y) - (x < y);
}

static void take_thread(struct tasks *t, char *record)
{
	uint64_t sums[sizeof(struct task_counts) / sizeof(uint64_t)], parts[ARRAY_SIZE(sums)];
	struct task_process **p;
	struct task_thread thread;

	memcpy(&thread, record, sizeof(thread));
	p = bsearch(&thread.head.pid, t->items, t->n, sizeof(struct task_process *), compare_pid);
	if (!p)
		return;
	memcpy(sums, &(*p)->own, sizeof(sums));
	memcpy(parts, &thread.own, sizeof(parts));
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		sums[i] += parts[i];
	memcpy(&(*p)->own, sums, sizeof(sums));
}

int tasks_read(struct tasks *t, const pid_t *pids, size_t n_pids, struct task_list *ret)
{
	int r;

	t->skel->bss->is_some = pids != NULL;
	set_wanted(t, pids, n_pids, true);
	r = read_bytes(t);
	set_wanted(t, pids, n_pids, false);
	if (r == 0) {
		t->n = 0;
		r = ARRAY_RESERVE(t->items, t->cap, t->bytes.len / sizeof(struct task_process) + 1);
		if (r == 0)
			r = for_each(t, TASK_PROCESS, sizeof(struct task_process), take_process);
		if (r == 0)
			r = for_each(t, TASK_THREAD, sizeof(struct task_thread), take_thread);
	}
	if (r < 0)
		return r;
	*ret = (struct task_list){ t->items, t->n };
	return 0;
}

/*
 * ebpf_none - what a build without eBPF says instead.
 */
#include <errno.h>

#include "sources/ebpf.h"
#include "sources/life/life.h"
#include "sources/tasks.h"

int ebpf_check(struct err *err)
{
	return err_set(err, -EOPNOTSUPP, "this build has no eBPF programs");
}

int ebpf_fail(struct err *err, int code, const char *what)
{
	(void)code;
	(void)what;
	return ebpf_check(err);
}

int tasks_open(bool is_as_old, struct tasks **ret, struct err *err)
{
	(void)is_as_old;
	(void)ret;
	return ebpf_check(err);
}

struct tasks *tasks_close(struct tasks *t)
{
	(void)t;
	return NULL;
}

int tasks_read(struct tasks *t, const pid_t *pids, size_t n_pids, struct task_list *ret)
{
	(void)t;
	(void)pids;
	(void)n_pids;
	(void)ret;
	return -EOPNOTSUPP;
}

static int open_life(const struct life_options *options, struct life **ret, struct err *err)
{
	(void)options;
	(void)ret;
	return ebpf_check(err);
}

const struct life_kind life_by_ebpf = { .name = "none", .open = open_life };

int syscalls_open(const struct syscalls_options *options, struct syscalls **ret, struct err *err)
{
	(void)options;
	(void)ret;
	return ebpf_check(err);
}

/* Nobody has one of these to call the rest with. */

struct syscalls *syscalls_close(struct syscalls *s)
{
	(void)s;
	return NULL;
}

int syscalls_check(struct syscalls *s, struct err *err)
{
	(void)s;
	return ebpf_check(err);
}

int syscalls_track(struct syscalls *s, pid_t pid, uint64_t tag)
{
	(void)s;
	(void)pid;
	(void)tag;
	return -EOPNOTSUPP;
}

int syscalls_track_runner(struct syscalls *s, pid_t pid, uint64_t tag)
{
	return syscalls_track(s, pid, tag);
}

void syscalls_begin_many(struct syscalls *s)
{
	(void)s;
}

int syscalls_end_many(struct syscalls *s)
{
	(void)s;
	return -EOPNOTSUPP;
}

void syscalls_untrack(struct syscalls *s, uint64_t tag)
{
	(void)s;
	(void)tag;
}

bool syscalls_is_armed(const struct syscalls *s)
{
	(void)s;
	return false;
}

int syscalls_read(struct syscalls *s, struct syscalls_lost *ret)
{
	(void)s;
	(void)ret;
	return -EOPNOTSUPP;
}

void syscalls_fill(struct syscalls *s, struct snapshot *snap)
{
	(void)s;
	(void)snap;
}

void syscalls_each(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
	(void)s;
	(void)fn;
	(void)ctx;
}

void syscalls_each_living(struct syscalls *s, uint64_t tag, syscalls_fn *fn, void *ctx)
{
	(void)tag;
	syscalls_each(s, fn, ctx);
}

void syscalls_each_ended(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
	syscalls_each(s, fn, ctx);
}

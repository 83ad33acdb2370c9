/*
 * ebpf_none - what a build without eBPF says instead.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter" /* none of them looks at what it is given */

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
	return ebpf_check(err);
}

int tasks_open(bool is_as_old, struct tasks **ret, struct err *err)
{
	return ebpf_check(err);
}

struct tasks *tasks_close(struct tasks *t)
{
	return NULL;
}

int tasks_read(struct tasks *t, const pid_t *pids, size_t n_pids, struct task_list *ret)
{
	return -EOPNOTSUPP;
}

static int open_life(const struct life_options *options, struct life **ret, struct err *err)
{
	return ebpf_check(err);
}

const struct life_kind life_by_ebpf = { .name = "none", .open = open_life };

int syscalls_open(const struct syscalls_options *options, struct syscalls **ret, struct err *err)
{
	return ebpf_check(err);
}

/* Nobody has one of these to call the rest with. */

struct syscalls *syscalls_close(struct syscalls *s)
{
	return NULL;
}

int syscalls_check(struct syscalls *s, struct err *err)
{
	return ebpf_check(err);
}

int syscalls_track(struct syscalls *s, pid_t pid, uint64_t tag)
{
	return -EOPNOTSUPP;
}

int syscalls_track_runner(struct syscalls *s, pid_t pid, uint64_t tag)
{
	return syscalls_track(s, pid, tag);
}

void syscalls_begin_many(struct syscalls *s)
{
}

int syscalls_end_many(struct syscalls *s)
{
	return -EOPNOTSUPP;
}

void syscalls_untrack(struct syscalls *s, uint64_t tag)
{
}

bool syscalls_is_armed(const struct syscalls *s)
{
	return false;
}

int syscalls_read(struct syscalls *s, struct syscalls_lost *ret)
{
	return -EOPNOTSUPP;
}

void syscalls_fill(struct syscalls *s, struct snapshot *snap)
{
}

void syscalls_each(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
}

void syscalls_each_living(struct syscalls *s, uint64_t tag, syscalls_fn *fn, void *ctx)
{
	syscalls_each(s, fn, ctx);
}

void syscalls_each_ended(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
	syscalls_each(s, fn, ctx);
}

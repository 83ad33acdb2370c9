/*
 * ebpf_none - what a build without eBPF says instead.
 */
#include <errno.h>

#include "sources/ebpf.h"
#include "sources/life_rung.h"
#include "sources/tasks.h"

int ebpf_check(struct err *err)
{
	return err_set(err, -EOPNOTSUPP, "this build has no eBPF programs");
}

int tasks_open(struct tasks **ret, struct err *err)
{
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

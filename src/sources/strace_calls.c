#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"
#include "sources/strace.h"

#define NS_PER_SECOND 1e9

bool sources_has_strace(void)
{
	return strace_is_installed();
}

/* Of time it knows only what was spent on a CPU. */
static struct syscall_use use_of(const struct strace_row *row)
{
	double ns = row->seconds * NS_PER_SECOND;

	return (struct syscall_use){
		.name = row->name,
		.count = row->count,
		.errors = row->errors,
		.cpu_ns = ns >= 0 && ns < (double)INT64_MAX ? (uint64_t)llround(ns) : U64_UNKNOWN,
		.wait_ns = U64_UNKNOWN,
	};
}

/* What no program calls: how the kernel goes on with a call that strace has interrupted. */
#define OWN_DOING "restart_syscall"

static int hand_over(struct strace_summary *summary, syscalls_fn *fn, void *ctx, struct err *err)
{
	struct syscall_process told = { .start_ticks = U64_UNKNOWN,
					.is_ended = true,
					.uid = U64_UNKNOWN };
	struct syscall_use *uses = arena_alloc(&summary->arena, (summary->n + 1) * sizeof(*uses));

	if (!uses)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < summary->n; i++)
		if (strcmp(summary->rows[i].name, OWN_DOING) != 0)
			uses[told.n_uses++] = use_of(&summary->rows[i]);
	told.uses = uses;
	fn(ctx, &told);
	return 0;
}

int strace_end_count(struct strace *s, syscalls_fn *fn, void *ctx, struct err *err)
{
	struct strace_summary summary = { .arena = ARENA_INIT };
	int r = strace_detach(s, &summary, err);

	if (r == 0)
		r = hand_over(&summary, fn, ctx, err);
	strace_summary_release(&summary);
	return r;
}

#include "daemon/run_life.h"

#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/run_clock.h"
#include "daemon/run_internal.h"

static void on_fork_event(struct run *run, const struct life_event *ev)
{
	struct birth birth = {
		.pid = ev->pid,
		.ppid = ev->parent_pid,
		.wall_ns = run_time_of(run, ev->wall_ns),
		.uid = U64_UNKNOWN,
	};
	const struct job_member *member;

	if (!membership_start(run->members, ev->parent_pid, ev->pid))
		return;
	member = membership_find(run->members, ev->pid);
	birth.sheet_num = member->sheet_num;
	birth.rank = member->rank;
	tally_fork(run->tally, &birth);
}

static void on_exec_event(struct run *run, const struct life_event *ev)
{
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	bool is_read;

	if (!membership_find(run->members, ev->pid))
		return;
	is_read = sources_read_command(run->root_fd, ev->pid, run->options->mask, &command) == 0;
	tally_exec(run->tally, ev->pid, is_read ? command.data : NULL);
}

/* Who is gone before its command line could be read has a name at least. */
static void take_name(struct run *run, const struct life_event *ev)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n = strlen(ev->comm);

	for (size_t i = 0; i < n;)
		i += utf8_add_shown(&shown, ev->comm + i, n - i);
	if (shown.len > 0)
		tally_name(run->tally, ev->pid, shown.data);
}

static void on_exit_event(struct run *run, const struct life_event *ev)
{
	if (!membership_exit(run->members, ev->pid, ev->parent_pid))
		return;
	take_name(run, ev);
	tally_account(run->tally, ev->pid, &ev->account);
	tally_exit(run->tally, ev->pid, ev->wait_status, run_time_of(run, ev->wall_ns));
}

static void on_life_event(void *ctx, const struct life_event *ev)
{
	struct run *run = ctx;

	if (ev->pid == run->failed_pid)
		return;
	switch (ev->type) {
	case LIFE_FORK:
		on_fork_event(run, ev);
		return;
	case LIFE_EXEC:
		on_exec_event(run, ev);
		return;
	case LIFE_EXIT:
		on_exit_event(run, ev);
		return;
	case LIFE_ACCOUNT:
		tally_account(run->tally, ev->pid, &ev->account);
		return;
	default:
		return; /* the rung that a run takes has no others */
	}
}

static void stop_life(struct run *run)
{
	run->life_watch = loop_fd_close(run->life_watch);
	run->life = life_close(run->life);
	run->forget_missing = true;
}

void run_life_drain(struct run *run)
{
	int64_t lost;

	if (!run->life)
		return;
	lost = life_drain(run->life, on_life_event, run);
	if (lost == 0)
		return;
	tally_lost(run->tally, lost > 0 ? (uint64_t)lost : 1);
	run->forget_missing = true;
	if (lost < 0) {
		err_set(&run->life_err, (int)lost, "the kernel's news of births ended: %s",
			strerror((int)-lost));
		stop_life(run);
	}
}

static void on_life_fd(void *ctx)
{
	run_life_drain(ctx);
}

void run_life_open(struct run *run)
{
	run->forget_missing = true;
	if (life_open(&run->life, &run->life_err) < 0)
		return;
	run->life_watch = loop_watch_fd(run->loop, life_fd(run->life), on_life_fd, run);
	if (run->life_watch) {
		run->forget_missing = false;
		return;
	}
	err_set(&run->life_err, -ENOMEM, "out of memory");
	stop_life(run);
}

#include "daemon/run_counting.h"

#include <errno.h>

#include "base/log.h"
#include "base/macros.h"
#include "daemon/record_greet.h"
#include "daemon/run_internal.h"

/* Somebody who has asked for one way hears at once that it cannot be. */
static void warn_uncounted(const struct run *run)
{
	enum run_syscalls_how how = run->options->syscalls.how;

	if (!run->calls && (how == RUN_SYSCALLS_EBPF || how == RUN_SYSCALLS_STRACE))
		log_warning("system calls are not counted, and the job goes on: %s",
			    run->calls_err.text);
}

/* It may where we may not, costs less than strace, and has what it needs loaded. */
void run_counting_ask(struct run *run)
{
	struct err err = ERR_INIT, why = ERR_INIT;

	run->asks_daemon = false;
	run->is_daemon_asked = record_ask_to_count(run, &err) == 0;
	if (run->is_daemon_asked) {
		run->calls = run_calls_close(run->calls);
		return;
	}
	if (!run->calls && err.code != -ENOENT) /* a daemon there is */
		err_set(&why, run->calls_err.code, "%.250s; %.200s", run->calls_err.text, err.text);
	if (why.code != 0)
		run->calls_err = why;
	warn_uncounted(run);
}

/* By whom nobody has said: by a daemon, or by strace if the configuration wants that. */
static bool counts_calls(const struct run_syscalls *o)
{
	return o->how == RUN_SYSCALLS_DEFAULT ? o->may_strace : o->how != RUN_SYSCALLS_OFF;
}

void run_counting_open(struct run *run)
{
	const struct run_syscalls *o = &run->options->syscalls;

	if (o->how == RUN_SYSCALLS_OFF) {
		err_set(&run->calls_err, -EOPNOTSUPP, "--syscalls=off");
		return;
	}
	if (!counts_calls(o)) {
		err_set(&run->calls_err, -EOPNOTSUPP,
			"a run counts them only if asked to (--syscalls); a daemon of root does from "
			"when it has heard of the job, some tenths of a second after its beginning");
		run->asks_daemon = run->options->is_submitted;
		return;
	}
	run_calls_open(o, run->members, &run->calls, &run->calls_err);
	run->asks_daemon =
		o->how != RUN_SYSCALLS_STRACE && (!run->calls || run_calls_traces(run->calls));
	if (!run->asks_daemon)
		warn_uncounted(run);
}

void run_counting_fill(struct run *run)
{
	CLEANUP(process_calls_release)
	struct process_calls now = { .max_bytes = RUN_CALLS_MAX_TEXT_BYTES };

	if (run->calls)
		run_calls_fill(run->calls, &run->snap);
	else if (run->options->syscalls.how != RUN_SYSCALLS_OFF &&
		 link_take_counts(run->link, &now) == 0)
		call_steps_fill(&run->call_steps, &now, &run->snap);
}

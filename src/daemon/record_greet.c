#include "daemon/record_greet.h"

#include "base/clock.h"
#include "daemon/record.h"
#include "daemon/run_internal.h"

/* What lasts as long as this is told to a daemon that does not see it in its database. */
#define GUEST_AFTER_SECONDS 0.25

/* A daemon is not to count them as well, or at all. */
static bool keeps_calls(const struct run *run)
{
	return run->calls || run->options->syscalls.how == RUN_SYSCALLS_OFF;
}

/* As it is by now, for a daemon. */
static struct link_job link_job_of(const struct run *run)
{
	struct link_job job = {
		.a = run->attempt,
		.device = run->store_file.device,
		.inode = run->store_file.inode,
		.keeps_calls = keeps_calls(run),
	};

	job.sheets = runner_sheets(run->runner, &job.n_sheets);
	return job;
}

/* It finds the attempt in the database, if that can be had now. */
static bool may_ask_own_daemon(struct run *run)
{
	struct err err = ERR_INIT;

	if (!run->options->is_submitted || run->options->is_for_other)
		return false;
	record_try_to_open(run, LOOP_PATIENCE_MS, &err);
	return run->store || run->store_is_off;
}

int record_ask_to_count(struct run *run, struct err *err)
{
	bool may_be_own = may_ask_own_daemon(run);
	struct link_job job = link_job_of(run);

	job.keeps_calls = false;
	job.wants_calls = true;
	return link_ask_to_count(run->link, &job, may_be_own, err);
}

/* One that is to count system calls as well is asked while the command waits. */
void record_begin(struct run *run)
{
	if (run->options->db_path && !run->asks_daemon)
		link_begin(run->link, run->options->spec->job_id);
}

/*
 * Where nothing is to be written down a daemon is not told either, but for the one that has
 * started us: it would not know the job, could not end it, and would never hear how it ended.
 */
static bool may_greet(const struct run *run)
{
	if (run->store)
		return true;
	return run->store_is_off && (run->options->db_path || run->options->is_submitted);
}

/*
 * Once the attempt is in the database, which is where a daemon that shares it looks,
 * or cannot be. Our own daemon is greeted when the job lasts: at first we look more
 * often than the daemon does, and what is over by then needs none. For another,
 * whose guest we are, it is new; and one that has submitted the job waits for it, and sees nothing
 * of it in a database that we do not write. Before a daemon counts what is not its to count it is
 * told so.
 */
void record_greet(struct run *run)
{
	double elapsed = clock_ns_to_seconds(clock_boot_ns() - run->boot_ns);
	const struct link_job job = link_job_of(run);
	bool is_submitted = run->options->is_submitted;

	if (!may_greet(run))
		return;
	if (elapsed > GUEST_AFTER_SECONDS || is_submitted || job.keeps_calls)
		link_greet(run->link, &job,
			   elapsed > run->options->interval_seconds || job.keeps_calls ||
				   (is_submitted && !run->store));
}

void record_greet_at_once(struct run *run)
{
	const struct link_job job = link_job_of(run);

	link_greet_at_once(run->link, &job);
}

void record_tell_changed(struct run *run, size_t n_from)
{
	const struct link_job job = link_job_of(run);

	link_tell_changed(run->link, &job, n_from);
	if (run->options->is_submitted || job.keeps_calls)
		record_greet(run);
}

/* Whoever submitted it hears of it, however short it was. */
void record_tell_end(struct run *run)
{
	struct link_job job = link_job_of(run);

	job.events = (struct proc_event *)tally_events(run->tally, &job.n_events);
	run->is_untold = !link_tell_end(run->link, &job, run->options->is_submitted) &&
			 (link_is_guest(run->link) || run->options->is_for_other ||
			  (run->options->is_submitted && !run->store));
}

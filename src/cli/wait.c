#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/remote.h"

#define PATIENCE_NS UINT64_C(30000000000)

static const struct argp_option wait_options[] = {
	CLI_WORD(job_question, job_id, "which job? \"proctor jobs\" lists them"),
	CLI_OPTION("attempt", job_question, attempt, "N",
		   "This attempt of it, as \"jobs\" numbers them, instead of the last"),
	CLI_OPTION("json", job_question, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp wait_argp = {
	.options = wait_options,
	.parser = cli_parse_option,
	.args_doc = "JOB",
	.doc = "Waits until a job is over, and tells how it ended.\v"
	       "Exits with 0 if that was success, else with 1; with 3 if nobody can tell: there is no "
	       "daemon, or it went away and none came back within 30 seconds, and the job is not "
	       "recorded here. One that is needs no daemon.",
};

/* ---- how it ended ---- */

#define NO_DAEMON (-ENODEV)

/* How the job ended; the number in it is that of our own database. */
struct end {
	struct attempt a;
	struct attempt_list own; /* with the memory of it all */
};

static void end_release(struct end *end)
{
	attempt_list_release(&end->own);
}

/* Attempt num of it, or if that is 0 the last one: one's own, where other users have some of that
 * name. */
static const struct attempt *choose(const struct attempt_list *recorded, int num)
{
	const struct attempt *best = NULL;

	for (size_t i = 0; i < recorded->n; i++) {
		const struct attempt *a = &recorded->items[i];
		bool is_own = a->uid == geteuid(), was_own = best && best->uid == geteuid();

		if (num != 0 && a->attempt_num != num)
			continue;
		if (!best || (is_own != was_own ? is_own : a->attempt_num > best->attempt_num))
			best = a;
	}
	return best;
}

/*
 * By our own database. -EINPROGRESS: it runs. NO_DAEMON: nobody can tell. Whether another was to
 * come after the last one only its daemon would know.
 */
static int look_alone(const struct job_question *args, struct end *ret, struct err *err)
{
	const struct attempt *a;
	struct paths paths;

	attempt_list_release(&ret->own);
	if (job_question_read_own(args->job_id, &ret->own, err) < 0)
		return NO_DAEMON;
	if (args->attempt == 0 && cli_find_paths_to_read(&paths, NULL) == 0 &&
	    job_question_count_queued(&paths, args->job_id, geteuid(), &ret->own) > 0)
		return err_set(err, NO_DAEMON, "job %s waits for a daemon, and none is running",
			       args->job_id);
	a = choose(&ret->own, args->attempt);
	if (!a)
		return err_set(err, NO_DAEMON,
			       "no daemon is running, and %s of job %s is recorded here",
			       args->attempt > 0 ? "no such attempt" : "nothing", args->job_id);
	if (!u64_known(a->ended_wall_ns) && a->is_attached)
		return err_set(err, NO_DAEMON,
			       "job %s was attached, and no daemon is running that would hear how "
			       "it ends",
			       args->job_id);
	if (a->is_running)
		return -EINPROGRESS;
	ret->a = *a;
	if (args->attempt == 0)
		log_warning("no daemon is running: this is attempt %d, the last that is recorded",
			    a->attempt_num);
	return 0;
}

/* -EINPROGRESS: there is no daemon, and it runs. NO_DAEMON: there is none, and we cannot tell. */
static int look(const struct job_question *args, struct end *ret, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	int r = job_question_ask("job.wait", args, &answer, err);

	if (r == NO_DAEMON)
		return look_alone(args, ret, err);
	if (r < 0)
		return r;
	if (remote_attempt(answer, &ret->own.arena, &ret->a) < 0)
		return err_set(err, -EBADMSG, "what the daemon says of %s cannot be read",
			       args->job_id);
	if (job_question_read_own(args->job_id, &own, NULL) == 0)
		ret->a.attempt_num = remote_number_here(&own, &ret->a);
	return 0;
}

/* The daemon that was asked is there no more. */
static bool is_gone(int error)
{
	return error == -ECONNRESET || error == -ENOTCONN || error == -EPIPE || error == -ESHUTDOWN;
}

/*
 * A daemon may be killed or upgraded while we wait: its jobs go on, and the next one knows them.
 * Until it is there, and until it knows how those ended that are not its own (-EBUSY), it is asked
 * again; meanwhile our own database is, and what runs by that is waited for in any case. A job that
 * was never there is an error at once.
 */
static enum cli_exit wait_for(const struct job_question *args, struct end *ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 500000000 };
	uint64_t until_ns = 0;

	for (;;) {
		int r = look(args, ret, err);

		if (r == 0)
			return CLI_DONE;
		if (is_gone(r) || r == -EINPROGRESS || (r == -EBUSY && until_ns == 0))
			until_ns = clock_boot_ns() + PATIENCE_NS;
		else if (until_ns == 0 || (r != -ENOENT && r != -EBUSY && r != NO_DAEMON))
			return r == NO_DAEMON ? CLI_UNKNOWN : CLI_FAILED;
		if (clock_boot_ns() >= until_ns)
			return CLI_UNKNOWN;
		nanosleep(&pause, NULL);
	}
}

/* What our own database knows the end of needs no daemon, who may not have heard of it. */
static bool find_end(const struct job_question *args, struct end *ret)
{
	if (args->attempt == 0 || job_question_read_own(args->job_id, &ret->own, NULL) < 0)
		return false;
	for (size_t i = 0; i < ret->own.n; i++) {
		ret->a = ret->own.items[i];
		if (ret->a.attempt_num == args->attempt && u64_known(ret->a.ended_wall_ns))
			return true;
	}
	return false;
}

int cli_wait(int argc, char **argv)
{
	CLEANUP(end_release) struct end end = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct job_question args = JOB_QUESTION_INIT;
	enum cli_exit status = CLI_DONE;
	struct err err = ERR_INIT;
	struct json j;

	job_question_parse(&wait_argp, argc, argv, &args);
	if (!find_end(&args, &end))
		status = wait_for(&args, &end, &err);
	if (status != CLI_DONE)
		return cli_fail(status, &err);
	json_init(&j, &out);
	if (args.json) {
		json_begin_object(&j);
		attempt_write_fields(&j, &end.a, attempt_status_name(&end.a));
		json_end_object(&j);
	} else {
		/* where there is no outcome its runner has vanished, or nobody told how it ended */
		buf_printf(&out, "%s %s", args.job_id,
			   end.a.outcome != OUTCOME_NONE ? outcome_name(end.a.outcome)
			   : end.a.is_lost		 ? "lost"
							 : "unknown");
	}
	buf_add_char(&out, '\n');
	status = cli_print(&out);
	return status != CLI_DONE || end.a.outcome != OUTCOME_SUCCESS ? CLI_FAILED : CLI_DONE;
}

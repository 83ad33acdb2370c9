#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

struct phase_args {
	const char *what, *name;
};

#define ASK "say \"enter NAME\" or \"exit NAME\""

static const struct argp_option phase_options[] = {
	CLI_WORD(phase_args, what, ASK),
	CLI_WORD(phase_args, name, ASK),
	{ 0 },
};

static const struct argp phase_argp = {
	.options = phase_options,
	.args_doc = "enter|exit NAME",
	.doc = "For the commands of a job: marks that a phase of its work begins or ends.\v"
	       "The phase is that of the process that calls this, which is a shell as a rule; for a "
	       "\"sh -c\" it is that of the program that has started it. It ends with its process at "
	       "the latest. "
	       "Phases may lie in each other. The report has them all, and so has \"proctor "
	       "events\".",
};

static int ask_daemon(const struct phase_args *args, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;

	json_init_object(&j, &params);
	json_key_string(&j, args->what, args->name);
	json_key_i64(&j, "pid", getppid());
	json_end_object(&j);
	return cli_call("phase", params.data, NULL, err);
}

/* ---- without a daemon, or where it knows nothing of the job ---- */

/* The attempt of the nearest runner above us. */
static const struct attempt *find_own_job(int root_fd, const struct attempt_list *list)
{
	struct process_facts facts = { .ppid = getpid() };
	char boot_id[ALIVE_BOOT_ID_BYTES];

	proc_boot_id(boot_id);
	while (facts.ppid > 1 && process_facts_read(root_fd, facts.ppid, &facts) == 0)
		for (size_t i = list->n; i-- > 0;) {
			const struct attempt *a = &list->items[i];

			if (a->runner.pid == facts.key.pid &&
			    a->runner.start_ticks == facts.key.start_ticks &&
			    strcmp(a->boot_id, boot_id) == 0)
				return a;
		}
	return NULL;
}

static int write_mark(struct store *store, int root_fd, const struct attempt *a,
		      const struct phase_args *args, struct err *err)
{
	bool is_exit = strcmp(args->what, "exit") == 0;
	pid_t owner = phase_owner_find(root_fd, getppid(), a->runner.pid);
	uint64_t now = clock_wall_ns();
	struct phase_mark mark = {
		.attempt_id = a->id,
		.is_exit = is_exit,
		.phase = { .name = args->name,
			   .pid = owner,
			   .rank = sources_read_rank(root_fd, owner),
			   .entered_wall_ns = is_exit ? U64_UNKNOWN : now,
			   .left_wall_ns = is_exit ? now : U64_UNKNOWN },
		.are_kin = phase_are_kin,
		.ctx = &root_fd,
	};
	int r = store_mark_phases(store, &mark, 1, err);

	if (r < 0 || mark.result == 0)
		return r;
	return phase_refuse(&mark, a->job_id, args->name, err);
}

static int write_to_record(const struct phase_args *args, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);
	const struct attempt_filter filter = { .running_only = true };
	const struct attempt *a;
	struct paths paths;
	int r = cli_find_paths(&paths, err);

	if (r == 0)
		r = cli_open_store(&paths, STORE_WRITE, &store, err);
	if (r == -ENOENT)
		return err_set(err, -ESRCH, "this is not called by a job that proctor runs");
	if (r == 0)
		r = store_list_attempts(store, &filter, &list, err);
	if (r < 0)
		return r;
	a = find_own_job(root_fd, &list);
	if (!a)
		return err_set(err, -ESRCH, "this is not called by a job that proctor runs");
	return write_mark(store, root_fd, a, args, err);
}

/* A command may run some milliseconds before its job is on record. */
#define NEW_JOB_NS UINT64_C(2000000000)
#define LOOK_AGAIN_NS 20000000

int cli_phase(int argc, char **argv)
{
	const struct timespec pause = { 0, LOOK_AGAIN_NS };
	uint64_t began = clock_boot_ns();
	struct phase_args args = { 0 };
	struct err err;

	cli_parse(&phase_argp, argc, argv, 0, &args);
	if (strcmp(args.what, "enter") != 0 && strcmp(args.what, "exit") != 0)
		cli_reject(argv, "a phase is entered or exited: not '%s'", args.what);
	if (!phase_name_is_valid(args.name))
		cli_reject(
			argv,
			"the name of a phase has 1 to %d characters, and none that controls a terminal",
			PHASE_NAME_MAX);
	for (;;) {
		int r = ask_daemon(&args, NULL);

		err = (struct err)ERR_INIT;
		if (r < 0)
			r = write_to_record(&args, &err);
		if (r == 0)
			return CLI_DONE;
		if (r != -ESRCH || !getenv("PROCTOR_JOB_ID") || /* which the runner sets */
		    clock_boot_ns() - began > NEW_JOB_NS)
			return cli_fail(CLI_FAILED, &err);
		nanosleep(&pause, NULL);
	}
}

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "sources/sources.h"

#define DEFAULT_SECONDS 10
#define DEFAULT_MAX_BYTES (UINT64_C(64) * 1024 * 1024)
#define MAX_SECONDS 86400

struct trace_args {
	const char *word; /* the pid as it is given */
	pid_t pid;
	double seconds;
	uint64_t max_bytes;
	uint64_t start_ticks; /* U64_UNKNOWN: whoever has the pid */
	const char *output;   /* NULL: stdout */
};

static const struct argp_option trace_options[] = {
	CLI_OPTION("duration", trace_args, seconds, "TIME", "For how long: 30s, 5m (10s)"),
	CLI_COUNT("max-bytes", trace_args, max_bytes, "Write at most so many bytes (67108864)"),
	CLI_COUNT(
		"start-ticks", trace_args, start_ticks,
		"Only the process that began then, as JSON tells it; not another with its number"),
	CLI_OPTION("output", trace_args, output, "FILE",
		   "Write into this file, which is made anew"),
	CLI_SHORT('o'),
	CLI_WORD(trace_args, word, "which process? proctor trace PID"),
	{ 0 },
};

static const struct argp trace_argp = {
	.options = trace_options,
	.args_doc = "PID",
	.doc = "Writes every system call of a process, its threads and the children that it starts, "
	       "with the time, through strace. The process is tens of times slower meanwhile; it is "
	       "let go of at the end, also if proctor is killed. Programs that are to run as another "
	       "user (setuid) do not get those rights while who is not root traces them.",
};

static int trace(const struct trace_args *args, struct err *err)
{
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(close_fd) int stop_fd = -1;
	struct trace_options options = { .seconds = args->seconds,
					 .max_bytes = args->max_bytes,
					 .start_ticks = args->start_ticks };
	struct trace_result result;
	int r = settings_open(&ctx, err);

	if (r == 0 && !ctx.config.strace_full_on_demand)
		r = err_set(err, -EPERM, "strace_full_on_demand is false in the configuration");
	if (r < 0)
		return r;
	options.out_fd = args->output
				 ? open(args->output,
					O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600)
				 : STDOUT_FILENO;
	if (options.out_fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", args->output, strerror(errno));
	options.stop_fd = stop_fd = cli_open_stop_fd();
	r = sources_trace(args->pid, &options, &result, err);
	if (r == 0) {
		static const char *const reasons[] = {
			[TRACE_TIME_UP] = "the time is up",
			[TRACE_FULL] = "--max-bytes is reached",
			[TRACE_STOPPED] = "stopped",
			[TRACE_TARGET_ENDED] = "the process has ended",
		};

		fprintf(stderr, "proctor: %s: %llu bytes of process %d%s%s\n", reasons[result.end],
			(unsigned long long)result.n_bytes, (int)args->pid,
			args->output ? " in " : "", args->output ? args->output : "");
	}
	return r;
}

int cli_trace_shortly(const struct proc_key *key, struct err *err)
{
	const struct trace_args args = { .pid = key->pid,
					 .seconds = DEFAULT_SECONDS,
					 .start_ticks = key->start_ticks,
					 .max_bytes = DEFAULT_MAX_BYTES };
	const struct timespec at_once = { 0 };
	sigset_t before, interrupt;
	int r;

	sigprocmask(SIG_BLOCK, NULL, &before);
	r = trace(&args, err);
	/* Ctrl-C was for the trace alone; what else came is for all of us, when it is let through.
	 */
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	while (sigtimedwait(&interrupt, NULL, &at_once) > 0)
		;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

int cli_trace(int argc, char **argv)
{
	struct trace_args args = { .seconds = DEFAULT_SECONDS,
				   .max_bytes = DEFAULT_MAX_BYTES,
				   .start_ticks = U64_UNKNOWN };
	struct err err = ERR_INIT;
	uint64_t pid;
	int r;

	cli_parse(&trace_argp, argc, argv, 0, &args);
	if (num_parse_u64(args.word, &pid) < 0 || pid == 0 || pid > INT32_MAX)
		cli_reject(argv, "a process has a number above 0, not '%s'", args.word);
	args.pid = (pid_t)pid;
	if (args.max_bytes == 0)
		cli_reject(argv, "--max-bytes wants a number above 0");
	if (args.seconds > MAX_SECONDS)
		cli_reject(argv, "--duration wants up to a day");
	signal(SIGPIPE, SIG_IGN); /* who reads has seen enough: an error like any other */
	r = trace(&args, &err);
	if (r == -EINVAL)
		return cli_fail(CLI_USAGE, &err);
	return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}

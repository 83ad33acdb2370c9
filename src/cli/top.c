#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/settings.h"
#include "base/unknown.h"
#include "cli/cancel_alone.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/top_stream.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "model/attempts.h"
#include "query/query.h"
#include "tui/tui.h"

#define FRAME_MIN_SECONDS 0.1
#define FRAME_MAX_SECONDS 86400.0

enum top_key { KEY_INTERVAL = 256 };

struct top_args {
	bool json;
	int trace_pid;	      /* 0: shows jobs */
	double frame_seconds; /* 0: none given */
	struct records_filter filter;
};

static const struct argp_option top_options[] = {
	CLI_OPTION("history", top_args, filter.since_wall_ns, "TIME",
		   "Replay what was recorded in the last 30s, 5m, 2h, 7d"),
	CLI_OPTION("until", top_args, filter.until_wall_ns, "TIME",
		   "Only up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION("job", top_args, filter.job_id, "ID", "Only of this job"),
	{ "interval", KEY_INTERVAL, "SECONDS", 0,
	  "Time between two looks where no daemon runs (2), or at least that between two that are "
	  "shown of a daemon's (all); as text, between two screens (one; of what was recorded 60); "
	  "not with --json, nor in a replay at a terminal",
	  0 },
	CLI_OPTION(
		"json", top_args, json, NULL,
		"Print every snapshot, and with --history every event, one JSON object per line"),
	CLI_OPTION(
		"trace", top_args, trace_pid, "PID",
		"Print the system calls of this process for 10 s instead, as \"proctor trace\" does"),
	{ 0 },
};

/* A person who has the keys. */
static bool is_at_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static error_t parse_top_option(int key, char *arg, struct argp_state *state)
{
	struct top_args *args = state->input;

	if (key == KEY_INTERVAL) {
		if (num_parse_f64(arg, &args->frame_seconds) < 0 ||
		    args->frame_seconds < FRAME_MIN_SECONDS ||
		    args->frame_seconds > FRAME_MAX_SECONDS)
			cli_usage_error(
				state, "--interval wants seconds from 0.1 to 86400, not '%s'", arg);
		return 0;
	}
	if (key != ARGP_KEY_END)
		return cli_parse_option(key, arg, state);
	if (args->frame_seconds > 0 && args->filter.since_wall_ns && !args->json &&
	    is_at_terminal())
		cli_usage_error(state,
				"--interval is of replayed text, as of "
				"\"proctor top --history … | cat\": here < and > change the speed");
	if (args->json && args->frame_seconds > 0)
		cli_usage_error(state, "--interval is for people: --json prints every snapshot");
	if (args->filter.since_wall_ns == 0 && args->filter.until_wall_ns != 0)
		cli_usage_error(state, "--until needs --history: what is now has no end");
	if (args->trace_pid && (args->json || args->filter.since_wall_ns || args->filter.job_id ||
				args->frame_seconds > 0))
		cli_usage_error(state, "--trace goes alone: it is of one process, now");
	return cli_parse_option(key, arg, state);
}

static const struct argp top_argp = {
	.options = top_options,
	.parser = parse_top_option,
	.doc = "Shows the jobs of this host with their sheets, ranks and processes, as they are now; "
	       "with --history replays what was recorded.\v"
	       "Press ? for the keys. Without a daemon it looks by itself, and --json follows the "
	       "log that runs write. Where stdin or stdout is no terminal, it prints the screen as "
	       "text: that of now, or one for each --interval.",
};

/* ---- what was recorded, as JSON: snapshots and events in the order of time ---- */

struct player {
	const char *job_id;
	struct output out;
	struct attempts attempts;
	struct err *err;
};

/* As a stream of now has it: of one job the others are left out. */
static int play_item(void *ctx, const struct records_item *item)
{
	const struct snapshot *snap = item->snapshot;
	struct player *p = ctx;
	CLEANUP(free_ptr) struct job_progress *own = NULL;
	struct snapshot told;
	struct json j;

	if (snap) {
		own = attempts_tell(&p->attempts, snap, p->job_id, &told);
		if (!own)
			return err_set(p->err, -ENOMEM, "out of memory");
		if (p->job_id && snap->n_processes == 0 && told.n_progress == 0)
			return 0; /* it does not run then */
		json_init(&j, &p->out.buf);
		snapshot_write_json(&j, &told, SNAPSHOT_ALL);
	} else {
		records_write_json(&p->out.buf, item);
	}
	buf_add_char(&p->out.buf, '\n');
	return output_pass(&p->out);
}

static int replay_json(struct store *store, const struct records_filter *filter, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter attempts = { .job_id = filter->job_id,
						 .since_wall_ns = filter->since_wall_ns };
	struct player p = { .job_id = filter->job_id, .out = OUTPUT_INIT, .err = err };
	struct records *records = records_new(store, filter);
	int r = records ? output_open(&p.out, NULL, err) : err_set(err, -ENOMEM, "out of memory");

	if (r == 0)
		r = store_list_attempts(store, &attempts, &list, err);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (attempts_add(&p.attempts, &list.items[i]) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = records_read(records, UINT64_MAX, play_item, &p, err);
	r = output_end(&p.out, r, err);
	records_free(records);
	attempts_release(&p.attempts);
	output_release(&p.out);
	return r;
}

/* ---- for a person at a terminal ---- */

static int signal_for_user(const struct proc_key *key, int signal, struct err *err)
{
	int r = signal_process(key, signal, 0);

	return r < 0 ? err_set(err, r, "cannot signal pid %d: %s", (int)key->pid, strerror(-r)) : 0;
}

static int cancel_for_user(const char *job_id, int attempt_num, struct err *err)
{
	const struct cancel_question question = {
		.job_id = job_id,
		.attempt_num = attempt_num,
		.uid = U64_UNKNOWN,
	};
	size_t n;

	return cancel_alone(&question, &n, err);
}

static int open_for_user(struct store **ret, struct err *err)
{
	return cli_open_record(NULL, ret, err);
}

/* Takes keys as they are pressed; those of before are not meant for what is said now. */
static void take_single_keys(struct termios *ret_before)
{
	struct termios modes;

	if (tcgetattr(STDIN_FILENO, ret_before) < 0)
		return; /* no terminal: there are no keys either */
	modes = *ret_before;
	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &modes);
}

static bool goes_back(char key)
{
	return key == '\n' || key == '\r' || key == '\033' || key == 'q';
}

static void wait_to_go_back(void)
{
	struct termios before = { 0 };
	char key;

	take_single_keys(&before);
	fprintf(stderr, "proctor: press Enter, Esc or q to go back");
	while (TEMP_FAILURE_RETRY(read(STDIN_FILENO, &key, 1)) == 1 && !goes_back(key))
		;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before); /* without the rest of a longer sequence */
}

/* What it wrote stays on the screen until it was read. */
static int trace_for_user(const struct proc_key *key, struct err *err)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction before; /* all of it: signal() would forget that it is to act once */
	int r = signal_process(key, 0, 0); /* its number may be another's by now */

	if (r < 0)
		return err_set(err, r, "cannot trace pid %d: %s", (int)key->pid, strerror(-r));
	fprintf(stderr, "proctor: the system calls of process %d, for 10 s; Ctrl-C ends it\n",
		(int)key->pid);
	r = cli_trace_shortly(key, err);
	if (r < 0)
		return r;
	sigaction(SIGINT, &ignore, &before); /* who has pressed it once may press it twice */
	wait_to_go_back();
	sigaction(SIGINT, &before, NULL);
	return 0;
}

static int trace_alone(pid_t pid)
{
	const struct proc_key key = { .pid = pid, .start_ticks = U64_UNKNOWN };
	struct err err = ERR_INIT;
	int r;

	signal(SIGPIPE, SIG_IGN);
	r = cli_trace_shortly(&key, &err);
	if (r == -EINVAL)
		return cli_fail(CLI_USAGE, &err);
	return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}

static const struct tui_helpers helpers = {
	.signal = signal_for_user,
	.cancel = cancel_for_user,
	.open_store = open_for_user,
	.trace = trace_for_user,
};

static int pass_screen(void *ctx)
{
	return output_flush(ctx);
}

static int print(const struct tui_options *options)
{
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	int r = output_open(&out, NULL, &err);

	if (r == 0)
		r = tui_print(options, &out.buf, pass_screen, &out, &err);
	if (r == -ENODATA) {
		log_error("%s", err.text);
		r = 0;
	}
	r = output_end(&out, r, &err);
	output_release(&out);
	return r;
}

/* A terminal that cannot place text is the caller's mistake, as a wrong option is. */
static int show(const struct top_args *args, const struct settings *ctx, struct store *store)
{
	const struct tui_options options = {
		.job_id = args->filter.job_id,
		.interval_seconds = args->frame_seconds,
		.store = store,
		.mask = ctx->mask,
		.reads_gpus = ctx->config.gpu_enabled,
		.since_wall_ns = args->filter.since_wall_ns,
		.until_wall_ns = args->filter.until_wall_ns,
		.helpers = &helpers,
	};
	struct err err = ERR_INIT;
	int r;

	if (!is_at_terminal())
		return print(&options);
	r = tui_run(&options, &err);
	if (r == -ENOTSUP)
		return cli_fail(CLI_USAGE, &err);
	return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}

/* ---- the verb ---- */

int cli_top(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct top_args args = { .filter.with_snapshots = true };
	struct err err = ERR_INIT;

	cli_parse(&top_argp, argc, argv, 0, &args);
	if (settings_open(&ctx, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	if (args.trace_pid)
		return trace_alone(args.trace_pid);
	if (args.filter.since_wall_ns == 0)
		return args.json ? top_stream(&ctx.paths, args.filter.job_id)
				 : show(&args, &ctx, NULL);
	if (cli_open_record(args.filter.job_id, &store, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		return args.json ? CLI_DONE : cli_fail(CLI_DONE, &err);
	return args.json ? replay_json(store, &args.filter, &err) : show(&args, &ctx, store);
}

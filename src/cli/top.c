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
#include "base/config.h"
#include "base/unknown.h"
#include "cli/cancel_alone.h"
#include "cli/cli.h"
#include "cli/feed.h"
#include "cli/output.h"
#include "cli/show.h"
#include "cli/top_stream.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "model/attempts.h"
#include "tui/tui.h"

#define FRAME_MIN_SECONDS 0.1
#define FRAME_MAX_SECONDS 86400.0

enum top_key { KEY_JSON = 256, KEY_HISTORY, KEY_UNTIL, KEY_JOB, KEY_INTERVAL, KEY_TRACE };

struct top_args {
	bool json;
	pid_t trace_pid;      /* 0: shows jobs */
	double frame_seconds; /* 0: none given */
	struct snapshot_filter filter;
};

static const struct argp_option top_options[] = {
	{ "history", KEY_HISTORY, "TIME", 0, "Replay what was recorded in the last 30s, 5m, 2h, 7d",
	  0 },
	{ "until", KEY_UNTIL, "TIME", 0, "Only up to 30s, 5m, 2h, 7d ago", 0 },
	{ "job", KEY_JOB, "ID", 0, "Only of this job", 0 },
	{ "interval", KEY_INTERVAL, "SECONDS", 0,
	  "Time between two looks where no daemon runs (2), or at least that between two that are "
	  "shown of a daemon's (all); as text, between two screens (one; of what was recorded 60); "
	  "not with --json, nor in a replay at a terminal",
	  0 },
	{ "json", KEY_JSON, NULL, 0,
	  "Print every snapshot, and with --history every event, one JSON object per line", 0 },
	{ "trace", KEY_TRACE, "PID", 0,
	  "Print the system calls of this process for 10 s instead, as \"proctor trace\" does", 0 },
	{ 0 },
};

static double parse_interval(struct argp_state *state, const char *text)
{
	double seconds = 0;

	if (num_parse_f64(text, &seconds) < 0 || seconds < FRAME_MIN_SECONDS ||
	    seconds > FRAME_MAX_SECONDS)
		cli_usage_error(state, "--interval wants seconds from 0.1 to 86400, not '%s'",
				text);
	return seconds;
}

static pid_t parse_pid(struct argp_state *state, const char *text)
{
	uint64_t pid;

	if (num_parse_u64(text, &pid) < 0 || pid == 0 || pid > INT32_MAX)
		cli_usage_error(state, "--trace wants the number of a process, not '%s'", text);
	return (pid_t)pid;
}

/* A person who has the keys. */
static bool is_at_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static void check_args(struct argp_state *state, const struct top_args *args)
{
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
	cli_check_period(state, args->filter.since_wall_ns, args->filter.until_wall_ns);
}

static error_t parse_top_option(int key, char *arg, struct argp_state *state)
{
	struct top_args *args = state->input;

	switch (key) {
	case KEY_HISTORY:
		args->filter.since_wall_ns = cli_parse_ago(state, "--history", arg);
		return 0;
	case KEY_UNTIL:
		args->filter.until_wall_ns = cli_parse_ago(state, "--until", arg);
		return 0;
	case KEY_JOB:
		args->filter.job_id = cli_parse_job_id(state, arg);
		return 0;
	case KEY_INTERVAL:
		args->frame_seconds = parse_interval(state, arg);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_TRACE:
		args->trace_pid = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		check_args(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
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
	const struct top_args *args;
	struct store *store;
	struct output out;
	struct feed *others; /* what happened but to processes */
	struct attempts attempts;
	uint64_t next_event_ns;
	struct err *err;
};

static int on_event(void *ctx, const struct event_row *row)
{
	struct player *p = ctx;

	feed_pass_others(p->others, row->event.wall_ns, &p->out);
	show_event_json(&p->out.buf, row);
	return output_pass(&p->out);
}

/* What happened up to then (0: to the end), from where the last call stopped. */
static int play_events(struct player *p, uint64_t until_wall_ns)
{
	const struct event_filter filter = {
		.job_id = p->args->filter.job_id,
		.since_wall_ns = p->next_event_ns,
		.until_wall_ns = until_wall_ns,
	};
	int r = 0;

	if (until_wall_ns == 0 || until_wall_ns >= p->next_event_ns) {
		p->next_event_ns = until_wall_ns + 1;
		r = store_read_events(p->store, &filter, on_event, p, p->err);
	}
	if (r == 0)
		feed_pass_others(p->others, until_wall_ns ? until_wall_ns : UINT64_MAX, &p->out);
	return r;
}

/* As a stream of now has it: of one job the others are left out. */
static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct player *p = ctx;
	struct snapshot told;
	CLEANUP(free_ptr)
	struct job_progress *own = attempts_tell(&p->attempts, snap, p->args->filter.job_id, &told);
	int r = play_events(p, snap->wall_ns);
	struct json j;

	if (r != 0)
		return r;
	if (!own)
		return err_set(p->err, -ENOMEM, "out of memory");
	if (p->args->filter.job_id && snap->n_processes == 0 && told.n_progress == 0)
		return 0; /* it does not run then */
	json_init(&j, &p->out.buf);
	snapshot_write_json(&j, &told, SNAPSHOT_ALL);
	buf_add_char(&p->out.buf, '\n');
	return output_pass(&p->out);
}

static int play(struct player *p)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = p->args->filter.job_id,
					       .since_wall_ns = p->args->filter.since_wall_ns };
	int r = store_list_attempts(p->store, &filter, &list, p->err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (attempts_add(&p->attempts, &list.items[i]) < 0)
			r = err_set(p->err, -ENOMEM, "out of memory");
	if (r == 0)
		r = feed_read_others(p->others, p->err);
	if (r == 0)
		r = store_read_snapshots(p->store, &p->args->filter, on_snapshot, p, p->err);
	if (r == 0)
		r = play_events(p, p->args->filter.until_wall_ns);
	if (r == 0) /* also what the record tells late */
		feed_pass_others(p->others, UINT64_MAX, &p->out);
	return r;
}

static int replay_json(struct store *store, const struct top_args *args, struct err *err)
{
	struct player p = {
		.args = args,
		.store = store,
		.out = OUTPUT_INIT,
		.next_event_ns = args->filter.since_wall_ns,
		.err = err,
	};
	const struct feed_options others = {
		.job_id = args->filter.job_id,
		.since_wall_ns = args->filter.since_wall_ns,
		.until_wall_ns = args->filter.until_wall_ns,
		.json = true,
	};
	int r = output_open(&p.out, NULL, err);

	if (r == 0) {
		p.others = feed_new(store, &others);
		r = p.others ? play(&p) : err_set(err, -ENOMEM, "out of memory");
	}
	r = output_end(&p.out, r, err);
	feed_free(p.others);
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
	struct top_args args = { .filter.with_minutes = true, .filter.with_attempts = true };
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
	return args.json ? replay_json(store, &args, &err) : show(&args, &ctx, store);
}

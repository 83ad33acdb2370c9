#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/config.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "query/query.h"
#include "rpc/rpc.h"
#include "store/store.h"
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
	       "Press ? for the keys. Without a daemon it looks by itself, with --json each "
	       "interval_seconds. Where stdin or stdout is no terminal, it prints the screen as "
	       "text: that of now, or one for each --interval.",
};

/* ---- what was recorded, as JSON: snapshots and events in the order of time ---- */

struct player {
	const char *job_id;
	struct output out;
};

/* As a stream of now has it: of one job the others are left out. */
static int play_item(void *ctx, const struct records_item *item)
{
	const struct snapshot *snap = item->snapshot;
	struct player *p = ctx;
	struct json j;

	if (snap) {
		if (p->job_id && snap->n_processes == 0 && snap->n_progress == 0)
			return 0; /* it does not run then */
		json_init(&j, &p->out.buf);
		snapshot_write_json(&j, snap, SNAPSHOT_ALL);
	} else {
		records_write_json(&p->out.buf, item);
	}
	buf_add_char(&p->out.buf, '\n');
	return output_pass(&p->out);
}

static int replay_json(struct store *store, const struct records_filter *filter, struct err *err)
{
	struct player p = { .job_id = filter->job_id, .out = OUTPUT_INIT };
	struct records *records = records_new(store, filter);
	int r = records ? output_open(&p.out, NULL, err) : err_set(err, -ENOMEM, "out of memory");

	if (r == 0)
		r = records_read(records, UINT64_MAX, play_item, &p, err);
	records_free(records);
	return output_end(&p.out, r, err);
}

#define PATIENCE_MS 5000 /* without a snapshot, and it is said what is waited for */

struct stream {
	const char *job_id;
	struct output out;
	bool has_come; /* something was printed… */
	bool was_said; /* …or that nothing is there yet */
	int r;	       /* what went wrong with it */
};

/* ---- snapshots as they are taken: by a daemon, or where none runs by ourselves ---- */

/* Once: who is at a terminal knows at once, and a script's log after a while. */
static void say_waiting(struct stream *s, const char *whence)
{
	if (s->has_come || s->was_said)
		return;
	s->was_said = true;
	if (s->job_id)
		log_warning("waiting for snapshots of job %s, %s", s->job_id, whence);
	else
		log_warning("waiting for snapshots %s", whence);
}

/* ---- of one job ---- */

static bool is_of_job(const struct rpc_value *element, const char *job_id)
{
	const char *its = rpc_value_string(rpc_value_get(element, "job_id"));

	return its && strcmp(its, job_id) == 0;
}

/* Between two sheets it has no process, and runs. */
static bool has_job(const struct rpc_value *snapshot, const char *job_id)
{
	const struct rpc_value *lists[] = { rpc_value_get(snapshot, "processes"),
					    rpc_value_get(snapshot, "job_progress") };

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < rpc_value_len(lists[k]); i++)
			if (is_of_job(rpc_value_at(lists[k], i), job_id))
				return true;
	return false;
}

struct filter {
	struct json *j;
	const char *job_id;
};

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	const struct filter *filter = ctx;
	struct json *j = filter->j;

	json_key(j, key);
	if (strcmp(key, "processes") != 0 && strcmp(key, "job_progress") != 0) {
		rpc_value_write(member, j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < rpc_value_len(member); i++)
		if (is_of_job(rpc_value_at(member, i), filter->job_id))
			rpc_value_write(rpc_value_at(member, i), j);
	json_end_array(j);
}

/* As it came, or what is left of it for the job. */
static void take_text(struct stream *s, const char *text, size_t len)
{
	static const struct rpc_value_limits limits = { 64, 4000000 };
	CLEANUP(cli_value_cleanup) struct rpc_value *snapshot = NULL;
	struct json j;

	if (s->job_id && (rpc_value_parse(text, len, &limits, &snapshot, NULL) < 0 ||
			  !has_job(snapshot, s->job_id)))
		return;
	s->has_come = true;
	if (s->job_id) {
		json_init_object(&j, &s->out.buf);
		rpc_value_each(snapshot, write_member, &(struct filter){ &j, s->job_id });
		json_end_object(&j);
	} else {
		buf_add(&s->out.buf, text, len);
	}
	buf_add_char(&s->out.buf, '\n');
}

/* ---- of a daemon ---- */

static int on_event(void *ctx, const struct rpc_value *params)
{
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));

	(void)ctx;
	if (topic && strcmp(topic, "lost") == 0)
		log_warning("too slow: snapshots were left out");
	return 0;
}

static int on_stream_snapshot(void *ctx, struct json_cursor *data)
{
	struct stream *s = ctx;
	const char *text;
	size_t len;

	json_cursor_value(data, &text, &len);
	if (len > 0)
		take_text(s, text, len);
	s->r = output_flush(&s->out);
	return s->r < 0 ? 1 : 0;
}

static int follow_daemon(struct stream *s, struct err *err)
{
	const struct rpc_client_options options = {
		.on_event = on_event,
		.text_topic = "snapshot",
		.on_text = on_stream_snapshot,
		.ctx = s,
	};
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = rpc_client_call(client, "daemon.top.stream", NULL, NULL, err);
	if (r == 0)
		r = rpc_client_listen(client, isatty(STDERR_FILENO) ? 0 : PATIENCE_MS, err);
	if (r == -ETIMEDOUT) {
		*err = (struct err)ERR_INIT;
		say_waiting(s, "which the daemon makes");
		r = rpc_client_listen(client, RPC_FOREVER, err);
	}
	rpc_client_close(client);
	return r > 0 ? s->r : r;
}

/* ---- by ourselves ---- */

static int follow_looks(struct stream *s, const struct settings *ctx, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(look_close) struct look look = { .root_fd = -1 };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct look_options options = { .mask = ctx->mask,
					      .reads_gpus = ctx->config.gpu_enabled,
					      .interval_seconds = ctx->config.interval_seconds };
	const uint64_t pause_ns = (uint64_t)(ctx->config.interval_seconds * 1e9);
	int r = look_open(&look, &options, err);
	struct json j;

	snapshot_init(&snap);
	while (r == 0) {
		if (store)
			store_take_in(store, NULL);
		else
			cli_open_store(&ctx->paths, STORE_READ, &store, NULL);
		r = look_take(&look, store, SNAPSHOT_JOBS, &snap, NULL, err);
		if (r < 0)
			break;
		buf_reset(&text);
		json_init(&j, &text);
		snapshot_write_json(&j, &snap, SNAPSHOT_JOBS);
		if (buf_error(&text) == 0)
			take_text(s, text.data, text.len);
		r = output_flush(&s->out);
		say_waiting(s, "which no run brings yet, and no daemon runs");
		nanosleep(&(struct timespec){ .tv_sec = (time_t)(pause_ns / 1000000000),
					      .tv_nsec = (long)(pause_ns % 1000000000) },
			  NULL);
	}
	return r;
}

static int stream_json(const struct settings *ctx, const char *job_id)
{
	struct stream s = { .job_id = job_id, .out = OUTPUT_INIT };
	struct err err = ERR_INIT;
	int r = output_open(&s.out, NULL, &err);

	if (r == 0)
		r = follow_daemon(&s, &err);
	if (r == -ENOENT) {
		err = (struct err)ERR_INIT;
		r = follow_looks(&s, ctx, &err);
	}
	return output_end(&s.out, r, &err);
}

/* ---- for a person at a terminal ---- */

static int signal_for_user(const struct proc_key *key, int signal, struct err *err)
{
	int r = signal_process(key, signal, 0);

	return r < 0 ? err_set(err, r, "cannot signal pid %d: %s", (int)key->pid, strerror(-r)) : 0;
}

static int open_for_user(struct store **ret, struct err *err)
{
	return cli_open_record(NULL, ret, err);
}

/* Takes keys as they are pressed; those of before are not meant for what is shown now, nor is the
 * rest of a longer sequence. Without a terminal there are no keys either. */
static void wait_to_go_back(void)
{
	struct termios before = { 0 }, modes;
	bool has_modes = tcgetattr(STDIN_FILENO, &before) == 0;
	char key;

	modes = before;
	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	if (has_modes)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &modes);
	fprintf(stderr, "proctor: press Enter, Esc or q to go back");
	while (TEMP_FAILURE_RETRY(read(STDIN_FILENO, &key, 1)) == 1 &&
	       !(key == '\n' || key == '\r' || key == '\033' || key == 'q'))
		;
	if (has_modes)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
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

static const struct tui_helpers helpers = {
	.signal = signal_for_user,
	.cancel = cli_cancel_alone,
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
	return output_end(&out, r, &err);
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
	if (args.trace_pid) {
		const struct proc_key key = { .pid = args.trace_pid, .start_ticks = U64_UNKNOWN };
		int r;

		signal(SIGPIPE, SIG_IGN);
		r = cli_trace_shortly(&key, &err);
		if (r == -EINVAL)
			return cli_fail(CLI_USAGE, &err);
		return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
	}
	if (args.filter.since_wall_ns == 0)
		return args.json ? stream_json(&ctx, args.filter.job_id) : show(&args, &ctx, NULL);
	if (cli_open_record(args.filter.job_id, &store, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		return args.json ? CLI_DONE : cli_fail(CLI_DONE, &err);
	return args.json ? replay_json(store, &args.filter, &err) : show(&args, &ctx, store);
}

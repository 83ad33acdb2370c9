#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "query/query.h"
#include "report/report.h"

struct events_args {
	bool is_following, json;
	struct records_filter filter;
};

static const struct argp_option events_options[] = {
	CLI_OPTION("job", events_args, filter.job_id, "ID", "Events of this job"),
	CLI_OPTION("since", events_args, filter.since_wall_ns, "TIME",
		   "Only of the last 30s, 5m, 2h, 7d"),
	CLI_OPTION("until", events_args, filter.until_wall_ns, "TIME",
		   "Only up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION(
		"follow", events_args, is_following, NULL,
		"Go on with what happens from now on, until Ctrl-C; of what was before only what --since says"),
	CLI_OPTION("json", events_args, json, NULL, "Print one JSON object per line"),
	{ 0 },
};

static const struct argp events_argp = {
	.options = events_options,
	.parser = cli_parse_option,
	.doc = "Prints what happened, oldest first: to processes (spawn, exit, signal, kill, oom, "
	       "orphan), when jobs, sheets and phases began and ended, and what was out of the ordinary.",
};

/* ---- lines for people ---- */

/* What stands in each column; NULL and numbers below 0: nothing. */
struct columns {
	uint64_t wall_ns;
	int attempt_num, sheet_num;
	pid_t pid;
	const char *event;
	struct exit_status status;
	const char *job_id, *details;
	bool is_long; /* the details are worth it */
};

static void add_heading(struct buf *out)
{
	buf_add_str(out, "TIME                     ATTEMPT  SHEET      PID  EVENT            "
			 "STATUS    JOB                       DETAILS\n");
}

static void add_columns(struct buf *out, const struct columns *line)
{
	CLEANUP(buf_release) struct buf status = BUF_INIT;
	char attempt[16] = "-", sheet[16] = "-", pid[16] = "-";

	if (line->attempt_num > 0)
		snprintf(attempt, sizeof(attempt), "%d", line->attempt_num);
	if (line->sheet_num >= 0)
		snprintf(sheet, sizeof(sheet), "%d", line->sheet_num);
	if (line->pid > 0)
		snprintf(pid, sizeof(pid), "%d", (int)line->pid);
	report_add_status(&status, line->status);
	show_moment(out, line->wall_ns);
	buf_printf(out, "  %7s  %5s  %7s  %-15s  %-8s  ", attempt, sheet, pid, line->event,
		   status.data);
	show_text(out, line->job_id ? line->job_id : "-", 24);
	cli_add_text(out, line->details ? line->details : "", line->is_long ? 240 : 60);
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

static void add_item(struct buf *out, const struct records_item *item)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	const struct sheet_record *sheet = item->sheet;
	const struct attempt *a = item->attempt;
	struct columns line = {
		.wall_ns = item->wall_ns,
		.attempt_num = item->attempt_num,
		.sheet_num = SHEET_NONE,
		.event = records_topic(item),
		.status = { -1, -1 },
		.job_id = item->job_id,
	};

	if (a) {
		line.sheet_num = sheet ? sheet->num : SHEET_NONE;
		line.details = sheet ? sheet->command : a->command;
		if (item->change == CHANGE_JOB_ENDED || item->change == CHANGE_SHEET_ENDED) {
			line.status = sheet ? sheet->status : a->status;
			line.details = sheet ? sheet->reason : a->reason;
		}
	} else if (item->phase) {
		line.pid = item->phase->phase.pid;
		line.details = item->phase->phase.path;
	} else if (item->episode) {
		const struct anomaly *worst = &item->episode->worst;

		buf_printf(&details, "%s, %s: %s", episode_change_name(item->episode_change),
			   severity_name(worst->severity), worst->text); /* "began, high: …" */
		line.sheet_num = worst->sheet_num;
		line.pid = worst->has_pid ? (pid_t)worst->pid : 0;
		line.details = details.data;
		line.is_long = true;
	} else {
		line.sheet_num = item->event->event.sheet_num;
		line.pid = item->event->event.key.pid;
		line.status = item->event->event.status;
		line.details = item->event->event.details;
	}
	add_columns(out, &line);
}

/* ---- what was recorded ---- */

struct printer {
	bool json;
	struct output out;
	uint64_t n_items;
};

static int print_item(void *ctx, const struct records_item *item)
{
	struct printer *p = ctx;

	p->n_items++;
	if (p->json) {
		records_write_json(&p->out.buf, item);
		buf_add_char(&p->out.buf, '\n');
	} else {
		add_item(&p->out.buf, item);
	}
	return output_pass(&p->out);
}

static int print_events(struct store *store, const struct events_args *args, struct err *err)
{
	struct printer p = { .json = args->json, .out = OUTPUT_INIT };
	struct records *records = records_new(store, &args->filter);
	int r = records ? output_open(&p.out, NULL, err)
			: err_set(err, -ENOMEM, "no memory left for events");

	if (!args->json)
		add_heading(&p.out.buf);
	if (r == 0)
		r = records_read(records, UINT64_MAX, print_item, &p, err);
	if (r == 0 && p.n_items == 0) {
		buf_reset(&p.out.buf);
		if (!args->json)
			log_error("no events were recorded in that time");
	}
	records_free(records);
	return output_end(&p.out, r, err);
}

/* ---- what a daemon has recorded ---- */

#define PROCESS_PREFIX "process."

static void add_remote(struct buf *out, const struct rpc_value *row)
{
	/* how it ended, or what begins */
	static const char *const details[] = { "details", "reason", "path", "command", "name" };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const char *event = remote_text(row, "event"), *change = remote_text(row, "change");
	const char *severity = remote_text(row, "severity"), *what;
	int signal = remote_int(row, "signal_num", -1); /* of a process; of a job: "signal" */
	struct columns line = {
		.wall_ns = remote_time(row, change ? "changed" : "timestamp"),
		.attempt_num = remote_int(row, "attempt", 0),
		.sheet_num = remote_int(row, "sheet_num", SHEET_NONE),
		.pid = remote_int(row, "pid", 0),
		.event = event ? event : "-",
		.status = { remote_int(row, "exit_code", -1),
			    signal > 0 ? signal : remote_int(row, "signal", -1) },
		.job_id = remote_text(row, "job_id"),
		.is_long = change != NULL,
	};

	if (event && strncmp(event, PROCESS_PREFIX, strlen(PROCESS_PREFIX)) == 0)
		line.event += strlen(PROCESS_PREFIX);
	for (size_t i = 0; !line.details && i < ARRAY_SIZE(details); i++)
		line.details = remote_text(row, details[i]);
	if (change) { /* of an anomaly: "began, high: …" */
		what = remote_text(row, "description");
		buf_printf(&text, "%s, %s: %s", change, severity ? severity : "-",
			   what ? what : "-");
		line.details = text.data;
	}
	add_columns(out, &line);
}

static int print_remote(const struct events_args *args)
{
	const struct remote_question question = { .job_id = args->filter.job_id,
						  .since_wall_ns = args->filter.since_wall_ns,
						  .until_wall_ns = args->filter.until_wall_ns };
	const struct remote_shape shape = { .json = args->json,
					    .add_titles = add_heading,
					    .add_line = add_remote,
					    .none = "no events were recorded in that time" };

	return remote_print(REMOTE_EVENTS, &question, &shape);
}

/* ---- what happens from now on ---- */

#define LOOK_AGAIN_MS 500
#define TRY_AGAIN_NS                                                                \
	UINT64_C(5000000000) /* to find a daemon, or a record that is not there yet \
			      */

#define LATEST_SECONDS 9e9 /* a time from outside has to fit into 64 bits of ns */

struct follower {
	const struct events_args *args;
	const struct paths *paths;
	struct printer printer;
	struct store *store; /* NULL: nothing was recorded yet */
	bool was_absent;     /* it was so at first: all that comes is new */
	bool is_live_only;   /* the record is not ours to read: the daemon tells what it may */
	struct records *records;
	struct rpc_client *daemon; /* NULL: none runs */
	uint64_t daemon_tried_ns;  /* by the boot clock; 0: never */
	int signal_fd;
};

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	struct json *j = ctx;

	json_key(j, key);
	rpc_value_write(member, j);
}

/* The time is what the daemon says of the event, else of the object; now, if neither has one. */
static void add_live(struct follower *f, const char *topic, const struct rpc_value *params)
{
	const struct rpc_value *data = rpc_value_get(params, "data");
	const char *job_id = rpc_value_string(rpc_value_get(data, "job_id"));
	const char *description = rpc_value_string(rpc_value_get(data, "description"));
	const char *reason = rpc_value_string(rpc_value_get(data, "reason"));
	double seconds = rpc_value_f64(rpc_value_get(params, "timestamp"));
	struct buf *out = &f->printer.out.buf;
	struct json j;

	if (!f64_known(seconds))
		seconds = rpc_value_f64(rpc_value_get(data, "timestamp"));
	if (!(seconds >= 0 && seconds < LATEST_SECONDS))
		seconds = clock_ns_to_seconds(clock_wall_ns());
	if (f->args->filter.job_id && (!job_id || strcmp(job_id, f->args->filter.job_id) != 0))
		return;
	if (!f->args->json) {
		add_columns(out, &(struct columns){
					 .wall_ns = (uint64_t)(seconds * 1e9),
					 .sheet_num = SHEET_NONE,
					 .event = topic,
					 .status = { -1, -1 },
					 .job_id = job_id,
					 .details = description ? description : reason,
				 });
		return;
	}
	/* every line has event and timestamp; not every object of a topic does */
	json_init(&j, out);
	json_begin_object(&j);
	if (!rpc_value_get(data, "event"))
		json_key_string(&j, "event", topic);
	if (!rpc_value_get(data, "timestamp"))
		json_key_f64(&j, "timestamp", seconds);
	rpc_value_each(data, write_member, &j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* Only the daemon knows of these: they are not recorded. */
static const char *const live_topics[] = { "job.queued", "job.held", "learn.pattern" };

/* Whatever else it is, it is in the record, or soon will be. */
static int on_daemon_event(void *ctx, const struct rpc_value *params)
{
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	struct follower *f = ctx;
	bool is_live = f->is_live_only && topic && strcmp(topic, "lost") != 0;

	for (size_t i = 0; topic && i < ARRAY_SIZE(live_topics); i++)
		is_live |= strcmp(topic, live_topics[i]) == 0;
	if (is_live)
		add_live(f, topic, params);
	else if (f->is_live_only)
		log_warning("%.0f events were lost: they came faster than they could be printed",
			    rpc_value_f64(rpc_value_get(params, "count")));
	return 0;
}

static void hang_up(struct follower *f)
{
	f->daemon = rpc_client_close(f->daemon);
}

/* With a daemon news come at once; without one they are looked for. */
static void find_daemon(struct follower *f)
{
	const struct rpc_client_options options = { .on_event = on_daemon_event, .ctx = f };
	uint64_t now = clock_boot_ns();

	if (f->daemon || (f->daemon_tried_ns && now - f->daemon_tried_ns < TRY_AGAIN_NS))
		return;
	f->daemon_tried_ns = now;
	if (rpc_client_open(&options, &f->daemon, NULL) == 0 &&
	    rpc_client_call(f->daemon, "events.subscribe",
			    "{\"topics\":[\"job.*\",\"sheet.*\",\"process.*\",\"phase.*\","
			    "\"monitor.*\",\"learn.*\"]}",
			    NULL, NULL) < 0)
		hang_up(f);
}

static int open_records(struct follower *f, struct err *err)
{
	struct records_filter filter = f->args->filter;
	struct err why = ERR_INIT;
	int r = cli_open_store(f->paths, &f->store, &why);

	f->was_absent |= r == -ENOENT;
	f->is_live_only = r == -EACCES && f->daemon;
	if (r == -ENOENT || r == -EBUSY || f->is_live_only)
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	filter.is_following = true;
	filter.is_from_now = filter.since_wall_ns == 0 && !f->was_absent;
	f->records = records_new(f->store, &filter);
	return f->records ? 0 : err_set(err, -ENOMEM, "no memory left for events");
}

/* Logs are ingested first: without a daemon no other process does. While another holds the
 * database its news wait there. */
static int read_news(struct follower *f, struct err *err)
{
	struct err busy = ERR_INIT;
	int r;

	if (f->records)
		store_take_in(f->store, NULL);
	r = f->records || f->is_live_only ? 0 : open_records(f, err);
	if (r < 0 || !f->records)
		return r;
	r = records_read(f->records, UINT64_MAX, print_item, &f->printer, &busy);
	if (r == -EBUSY)
		return 0;
	if (r < 0)
		*err = busy;
	return r;
}

/* 0: look again. -EINTR: asked to end. -EPIPE: nobody reads on. */
static int wait_for_news(struct follower *f)
{
	struct pollfd fds[] = {
		{ .fd = f->signal_fd, .events = POLLIN },
		{ .fd = f->printer.out.fd }, /* its end alone */
		{ .fd = f->daemon ? rpc_client_fd(f->daemon) : -1, .events = POLLIN },
	};
	int r = poll(fds, ARRAY_SIZE(fds), LOOK_AGAIN_MS);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents)
		return -EINTR;
	if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
		return -EPIPE;
	if (fds[2].revents && rpc_client_listen(f->daemon, 0, NULL) != -ETIMEDOUT)
		hang_up(f);
	return 0;
}

static void follower_release(struct follower *f)
{
	hang_up(f);
	records_free(f->records);
	f->store = store_close(f->store);
	close_fd(&f->signal_fd);
	output_release(&f->printer.out);
}

static int follow_events(const struct events_args *args, struct err *err)
{
	CLEANUP(follower_release)
	struct follower f = { .args = args,
			      .printer = { .json = args->json, .out = OUTPUT_INIT },
			      .signal_fd = cli_open_stop_fd() };
	struct paths paths;
	int r = cli_find_paths_to_read(&paths, err);

	f.paths = &paths;
	if (r < 0)
		return cli_fail(CLI_FAILED, err);
	r = output_open(&f.printer.out, NULL, err);
	if (!args->json)
		add_heading(&f.printer.out.buf);
	while (r == 0) {
		find_daemon(&f);
		r = read_news(&f, err);
		if (r == 0)
			r = output_flush(&f.printer.out);
		if (r == 0)
			r = wait_for_news(&f);
	}
	return output_end(&f.printer.out, r == -EINTR ? 0 : r, err);
}

int cli_events(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct events_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&events_argp, argc, argv, 0, &args);
	if (args.is_following && args.filter.until_wall_ns)
		cli_reject(argv, "--follow has no end: leave out --until");
	if (args.is_following)
		return follow_events(&args, &err);
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT) {
		int printed = print_remote(&args);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		return args.json ? CLI_DONE : cli_fail(CLI_DONE, &err);
	cli_warn_of_cut_events(store, &(struct event_filter){ args.filter.job_id,
							      args.filter.since_wall_ns,
							      args.filter.until_wall_ns });
	return print_events(store, &args, &err);
}

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
	.doc = "Prints what happened, oldest first: to processes (spawn, exit, signal, kill, oom, "
	       "orphan), when jobs, sheets and phases began and ended, and what was out of the ordinary.",
};

/* ---- rows ---- */

#define NONE "no events were recorded in that time"
#define PROCESS_PREFIX "process."
#define DETAILS_MAX 60
#define ANOMALY_MAX 240

/* Blanks behind a title are room for what comes later, where one reads along. */
static const struct table_column columns[] = {
	{ "TIME                   ", COLUMN_LEFT },
	{ "ATTEMPT", COLUMN_RIGHT },
	{ "SHEET", COLUMN_RIGHT },
	{ "    PID", COLUMN_RIGHT },
	{ "EVENT          ", COLUMN_LEFT },
	{ "STATUS  ", COLUMN_LEFT },
	{ "JOB                     ", COLUMN_LEFT },
	{ "DETAILS", COLUMN_LEFT },
};

/* An event as JSON has it, which is what a daemon sends, too. */
static int add_row(struct lister *l, const struct rpc_value *row)
{
	/* how it ended, or what begins */
	static const char *const details[] = { "details", "reason", "path", "command", "name" };
	const char *event = remote_text(row, "event"), *change = remote_text(row, "change");
	const char *what = NULL, *severity = remote_text(row, "severity"),
		   *job_id = remote_text(row, "job_id");
	int signal = remote_int(row, "signal_num", -1); /* of a process; of a job: "signal" */
	int sheet = remote_int(row, "sheet_num", SHEET_NONE);
	struct table *t = &l->table;
	struct buf *cell;

	if (event && strncmp(event, PROCESS_PREFIX, strlen(PROCESS_PREFIX)) == 0)
		event += strlen(PROCESS_PREFIX);
	for (size_t i = 0; !what && i < ARRAY_SIZE(details); i++)
		what = remote_text(row, details[i]);
	if (change || !what)
		what = remote_text(row, "description");
	add_moment(table_cell(t), remote_time(row, change ? "changed" : "timestamp"));
	add_positive(table_cell(t), remote_int(row, "attempt", 0));
	add_positive(table_cell(t), sheet);
	add_positive(table_cell(t), remote_int(row, "pid", 0));
	buf_add_str(table_cell(t), event ? event : "-");
	report_add_status(
		table_cell(t),
		(struct exit_status){ remote_int(row, "exit_code", -1),
				      signal > 0 ? signal : remote_int(row, "signal", -1) });
	buf_add_str(table_cell(t), job_id ? job_id : "-");
	cell = table_cell(t);
	if (change) /* of an anomaly: "began, high: …" */
		buf_printf(cell, "%s, %s: ", change, severity ? severity : "-");
	cli_add_text(cell, what ? what : "", change ? ANOMALY_MAX : DETAILS_MAX);
	return lister_pass(l);
}

/* ---- what was recorded ---- */

static int print_item(void *ctx, const struct records_item *item)
{
	static const struct rpc_value_limits limits = { 64, 100000 };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *row = NULL;
	struct lister *l = ctx;

	records_write_json(l->form == LISTER_OBJECTS ? &l->out.buf : &text, item);
	if (l->form == LISTER_OBJECTS)
		return lister_pass(l);
	if (buf_error(&text) < 0 || rpc_value_parse(text.data, text.len, &limits, &row, NULL) < 0)
		return -ENOMEM;
	return add_row(l, row);
}

/* ---- what happens from now on ---- */

#define LOOK_AGAIN_MS 500
#define TRY_AGAIN_NS                                                                \
	UINT64_C(5000000000) /* to find a daemon, or a record that is not there yet \
			      */

struct follower {
	const struct events_args *args;
	const struct paths *paths;
	struct lister *lister;
	struct store *store; /* NULL: nothing was recorded yet */
	bool was_absent;     /* it was so at first: all that comes is new */
	bool is_live_only;   /* the record is not ours to read: the daemon tells what it may */
	struct records *records;
	struct rpc_client *daemon; /* NULL: none runs */
	uint64_t daemon_tried_ns;  /* by the boot clock; 0: never */
	int signal_fd;
};

/* Every line has event and timestamp; not every object of a topic does. Returns the object with
 * them. */
static struct rpc_value *complete(const char *topic, const struct rpc_value *params)
{
	static const struct rpc_value_limits limits = { 64, 100000 };
	const struct rpc_value *data = rpc_value_get(params, "data");
	double seconds = rpc_value_f64(rpc_value_get(params, "timestamp"));
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rpc_value *row = NULL;
	struct json j;

	json_init_object(&j, &text);
	if (!rpc_value_get(data, "event"))
		json_key_string(&j, "event", topic);
	if (!rpc_value_get(data, "timestamp"))
		json_key_f64(&j, "timestamp",
			     f64_known(seconds) ? seconds : clock_ns_to_seconds(clock_wall_ns()));
	cli_write_members(&j, data);
	json_end_object(&j);
	if (buf_error(&text) == 0)
		rpc_value_parse(text.data, text.len, &limits, &row, NULL);
	return row;
}

static void add_live(struct follower *f, const char *topic, const struct rpc_value *params)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *row = complete(topic, params);
	const char *job_id = remote_text(row, "job_id");

	if (!row ||
	    (f->args->filter.job_id && (!job_id || strcmp(job_id, f->args->filter.job_id) != 0)))
		return;
	if (f->lister->form == LISTER_TABLE) {
		add_row(f->lister, row);
		return;
	}
	rpc_value_write(row, &f->lister->json);
	lister_pass(f->lister);
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
	int r = cli_open_store(f->paths, STORE_READ, &f->store, &why);

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
	r = records_read(f->records, UINT64_MAX, print_item, f->lister, &busy);
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
		{ .fd = f->lister->out.fd }, /* its end alone */
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
	lister_release(f->lister);
}

static int follow_events(const struct events_args *args, struct lister *l, struct err *err)
{
	struct paths paths;
	CLEANUP(follower_release)
	struct follower f = {
		.args = args, .paths = &paths, .lister = l, .signal_fd = cli_open_stop_fd()
	};
	int r = cli_find_paths_to_read(&paths, err);

	if (r < 0)
		return cli_fail(CLI_FAILED, err);
	r = lister_open(l, err);
	while (r == 0) {
		find_daemon(&f);
		r = read_news(&f, err);
		if (r == 0)
			r = lister_flush(l);
		if (r == 0)
			r = wait_for_news(&f);
	}
	return lister_end(l, r == -EINTR ? 0 : r, NULL, err);
}

int cli_events(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct lister l = LISTER_INIT(LISTER_TABLE, columns);
	struct events_args args = { 0 };
	struct records *records;
	struct err err = ERR_INIT;
	int r;

	cli_parse(&events_argp, argc, argv, 0, &args);
	if (args.is_following && args.filter.until_wall_ns)
		cli_reject(argv, "--follow has no end: leave out --until");
	l.form = args.json ? LISTER_OBJECTS : LISTER_TABLE;
	if (args.is_following)
		return follow_events(&args, &l, &err);
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT) {
		int printed = remote_print(
			REMOTE_EVENTS,
			&(struct remote_question){ .job_id = args.filter.job_id,
						   .since_wall_ns = args.filter.since_wall_ns,
						   .until_wall_ns = args.filter.until_wall_ns },
			&l, add_row, NONE);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		return args.json ? CLI_DONE : cli_fail(CLI_DONE, &err);
	cli_warn_of_cut_events(store, &(struct event_filter){ args.filter.job_id,
							      args.filter.since_wall_ns,
							      args.filter.until_wall_ns, 0 });
	records = records_new(store, &args.filter);
	r = records ? lister_open(&l, &err) : err_set(&err, -ENOMEM, "no memory left for events");
	if (r == 0)
		r = records_read(records, UINT64_MAX, print_item, &l, &err);
	records_free(records);
	return lister_end(&l, r, NONE, &err);
}

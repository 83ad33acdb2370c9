#include <stdio.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/show.h"
#include "cli/told.h"
#include "report/report.h"

enum events_key { KEY_JSON = 256, KEY_SINCE, KEY_UNTIL, KEY_JOB, KEY_FOLLOW };

struct events_args {
	bool json;
	struct event_filter filter;
};

static const struct argp_option events_options[] = {
	{ "job", KEY_JOB, "ID", 0, "Events of this job's processes", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only of the last 30s, 5m, 2h, 7d", 0 },
	{ "until", KEY_UNTIL, "TIME", 0, "Only up to 30s, 5m, 2h, 7d ago", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print one JSON object per line", 0 },
	{ "follow", KEY_FOLLOW, NULL, OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

static error_t parse_events_option(int key, char *arg, struct argp_state *state)
{
	struct events_args *args = state->input;

	switch (key) {
	case KEY_JOB:
		args->filter.job_id = arg;
		return 0;
	case KEY_SINCE:
		args->filter.since_wall_ns =
			cli_time_ago(cli_parse_duration(state, "--since", arg));
		return 0;
	case KEY_UNTIL:
		args->filter.until_wall_ns =
			cli_time_ago(cli_parse_duration(state, "--until", arg));
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_FOLLOW:
		cli_usage_error(state, "this version cannot follow events yet; without --follow "
				       "those recorded so far are printed");
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		cli_check_period(state, args->filter.since_wall_ns, args->filter.until_wall_ns);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp events_argp = {
	.options = events_options,
	.parser = parse_events_option,
	.doc = "Prints recorded events of processes (spawn, exit, signal, kill, oom) and anomalies, oldest first.",
};

struct printer {
	const struct events_args *args;
	struct output out;
	struct told_list told; /* anomalies, which come in between */
	size_t n_rows;
};

static void add_line(struct buf *out, const struct event_row *row)
{
	CLEANUP(buf_release) struct buf status = BUF_INIT;
	const struct proc_event *ev = &row->event;
	char sheet[16] = "-", pid[16] = "-";

	if (ev->sheet_num >= 0)
		snprintf(sheet, sizeof(sheet), "%d", ev->sheet_num);
	if (ev->key.pid > 0)
		snprintf(pid, sizeof(pid), "%d", (int)ev->key.pid);
	report_add_status(&status, ev->status);
	show_moment(out, ev->wall_ns);
	buf_printf(out, "  %7d  %5s  %7s  %-6s  %-8s  ", row->attempt_num, sheet, pid,
		   event_type_name(ev->type), status.data);
	show_text(out, ev->job_id, 24);
	cli_add_text(out, ev->details, 60);
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

static void add_told_line(struct buf *out, const struct told *t)
{
	const struct anomaly *a = &t->episode->worst;
	char sheet[16] = "-", pid[24] = "-", attempt[16] = "-";

	if (t->attempt_num > 0)
		snprintf(attempt, sizeof(attempt), "%d", t->attempt_num);
	if (a->sheet_num >= 0)
		snprintf(sheet, sizeof(sheet), "%d", a->sheet_num);
	if (a->has_pid)
		snprintf(pid, sizeof(pid), "%lld", (long long)a->pid);
	show_moment(out, t->wall_ns);
	buf_printf(out, "  %7s  %5s  %7s  %-6s  %-8s  ", attempt, sheet, pid,
		   t->change == EPISODE_BEGAN ? "strange" : "clear", severity_name(a->severity));
	show_text(out, a->job_id ? a->job_id : "-", 24);
	cli_add_text(out, a->text, ANOMALY_TEXT_BYTES);
	buf_add_char(out, '\n');
}

static void add_told_json(struct buf *out, const struct told *t)
{
	struct json j;

	json_init(&j, out);
	episode_write_event(&j, t->episode, t->change, t->wall_ns);
	buf_add_char(out, '\n');
}

/* Anomalies up to this moment. */
static int print_told(struct printer *p, uint64_t until_wall_ns)
{
	const struct told *t;
	int r = 0;

	while (r == 0 && (t = told_take(&p->told, until_wall_ns))) {
		p->n_rows++;
		if (p->args->json)
			add_told_json(&p->out.buf, t);
		else
			add_told_line(&p->out.buf, t);
		r = output_pass(&p->out);
	}
	return r;
}

static int on_event(void *ctx, const struct event_row *row)
{
	struct printer *p = ctx;
	int r = print_told(p, row->event.wall_ns);

	if (r < 0)
		return r;
	p->n_rows++;
	if (p->args->json)
		show_event_json(&p->out.buf, row);
	else
		add_line(&p->out.buf, row);
	return output_pass(&p->out);
}

static int print_events(struct store *store, const struct events_args *args, struct err *err)
{
	struct printer p = { .args = args, .out = OUTPUT_INIT };
	int r = output_open(&p.out, NULL, err);

	if (!args->json)
		buf_add_str(&p.out.buf, "TIME                     ATTEMPT  SHEET      PID  EVENT   "
					"STATUS    JOB                       DETAILS\n");
	if (r == 0)
		r = told_list_read(store, &args->filter, &p.told, err);
	if (r == 0)
		r = store_read_events(store, &args->filter, on_event, &p, err);
	if (r == 0)
		r = print_told(&p, UINT64_MAX);
	if (r == 0 && p.n_rows == 0) {
		buf_reset(&p.out.buf);
		if (!args->json)
			log_error("no events were recorded in that time");
	}
	r = output_end(&p.out, r, err);
	output_release(&p.out);
	told_list_release(&p.told);
	return r;
}

int cli_events(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct events_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&events_argp, argc, argv, 0, &args);
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store)
		return args.json ? CLI_DONE : cli_fail(CLI_DONE, &err);
	return print_events(store, &args, &err);
}

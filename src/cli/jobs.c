#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "report/report.h"

enum jobs_key { KEY_JSON = 256, KEY_SINCE, KEY_ALL, KEY_LIMIT };

struct jobs_args {
	bool json, all_attempts;
	double since_seconds; /* 0: ever */
	int limit;	      /* 0: none */
};

static const struct argp_option jobs_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only jobs that ran in the last 30m, 2h, 7d", 0 },
	{ "all", KEY_ALL, NULL, 0, "Every attempt, not only the latest of each job", 0 },
	{ "limit", KEY_LIMIT, "N", 0, "At most the newest N", 0 },
	{ 0 },
};

static error_t parse_jobs_option(int key, char *arg, struct argp_state *state)
{
	struct jobs_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_SINCE:
		args->since_seconds = cli_parse_duration(state, "--since", arg);
		return 0;
	case KEY_ALL:
		args->all_attempts = true;
		return 0;
	case KEY_LIMIT:
		args->limit = cli_parse_int(state, "--limit", arg, 1, 1000000000);
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(
			state,
			"'%s' is one word too many; \"proctor report JOB\" tells about one job",
			arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp jobs_argp = {
	.options = jobs_options,
	.parser = parse_jobs_option,
	.doc = "Lists recorded jobs, oldest first, and how they ended.",
};

static void write_attempt(struct json *j, const struct attempt *a)
{
	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	json_end_object(j);
}

static void write_json(const struct attempt_list *list, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_array(&j);
	for (size_t i = 0; i < list->n; i++)
		write_attempt(&j, &list->items[i]);
	json_end_array(&j);
	buf_add_char(out, '\n');
}

/* What a person wants in the column "outcome", where JSON has null. */
static const char *outcome_word(const struct attempt *a)
{
	if (a->is_running)
		return "running";
	if (a->is_lost)
		return "lost";
	return a->outcome == OUTCOME_NONE ? "-" : outcome_name(a->outcome);
}

static void add_padded(struct buf *out, const char *text, size_t width)
{
	size_t before = out->len;

	cli_add_text(out, text, width);
	for (size_t n = out->len - before; n < width; n++)
		buf_add_char(out, ' ');
	buf_add_str(out, "  ");
}

static void add_duration(struct buf *out, const struct attempt *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	report_add_duration(&text, a->usage.wall_ns);
	add_padded(out, text.data, 9);
}

static void add_loss(struct buf *out, const struct attempt *a)
{
	buf_printf(out, "its runner, process %d", (int)a->runner.pid);
	if (a->host) {
		buf_add_str(out, " on ");
		cli_add_text(out, a->host, 64);
	}
	buf_add_str(out, ", is gone or silent, and wrote no end");
}

static void add_row(struct buf *out, const struct attempt *a, size_t id_width)
{
	char started[32] = "-", attempt[16];

	snprintf(attempt, sizeof(attempt), "%d", a->attempt_num);
	if (u64_known(a->started_wall_ns))
		clock_format_local(a->started_wall_ns, started, sizeof(started));
	add_padded(out, a->job_id, id_width);
	add_padded(out, attempt, 7);
	add_padded(out, started, 19);
	add_duration(out, a);
	add_padded(out, outcome_word(a), 9);
	if (a->is_lost)
		add_loss(out, a);
	else
		cli_add_text(out, a->reason ? a->reason : "", 100);
	buf_add_char(out, '\n');
}

static void write_table(const struct attempt_list *list, struct buf *out)
{
	size_t id_width = 3;

	for (size_t i = 0; i < list->n; i++)
		if (strlen(list->items[i].job_id) > id_width)
			id_width = strlen(list->items[i].job_id);
	add_padded(out, "JOB", id_width);
	buf_add_str(out, "ATTEMPT  STARTED              DURATION   OUTCOME    REASON\n");
	for (size_t i = 0; i < list->n; i++)
		add_row(out, &list->items[i], id_width);
}

int cli_jobs(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_filter filter = { 0 };
	struct jobs_args args = { 0 };
	struct err err = ERR_INIT;
	struct paths paths;
	int r;

	cli_parse(&jobs_argp, argc, argv, 0, &args);
	filter.latest_only = !args.all_attempts;
	filter.limit = (size_t)args.limit;
	if (args.since_seconds > 0)
		filter.since_wall_ns = cli_time_ago(args.since_seconds);
	r = cli_find_paths(&paths, &err);
	if (r == 0)
		r = cli_open_store(&paths, &store, &err);
	if (r == 0)
		r = store_list_attempts(store, &filter, &list, &err);
	if (r < 0 && r != -ENOENT)
		return cli_fail(CLI_FAILED, &err);
	if (args.json)
		write_json(&list, &out); /* nothing recorded yet is an empty list */
	else if (r == -ENOENT)
		return cli_fail(CLI_DONE, &err);
	else
		write_table(&list, &out);
	return cli_print(&out);
}

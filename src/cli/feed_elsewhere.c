#include "cli/feed_elsewhere.h"

#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "cli/elsewhere_print.h"
#include "cli/feed_lines.h"

#define PROCESS_PREFIX "process."

static const char *text_of(const struct rpc_value *row, const char *key)
{
	return rpc_value_string(rpc_value_get(row, key));
}

/* What is said of it: how it ended, or what begins. */
static const char *details_of(const struct rpc_value *row)
{
	static const char *const keys[] = { "details", "reason", "path", "command", "name" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (text_of(row, keys[i]))
			return text_of(row, keys[i]);
	return NULL;
}

/* "began, high: …" */
static void add_anomaly(struct buf *out, const struct rpc_value *row, struct feed_columns *line)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	const char *change = text_of(row, "change"), *severity = text_of(row, "severity");
	const char *text = text_of(row, "description");

	buf_printf(&details, "%s, %s: %s", change ? change : "-", severity ? severity : "-",
		   text ? text : "-");
	line->wall_ns = elsewhere_time(row, "changed");
	line->details = details.data;
	line->is_long = true;
	feed_lines_write_columns(out, line);
}

/* The signal of a process is under another name than that of a job. */
static struct exit_status status_of(const struct rpc_value *row)
{
	int signal = elsewhere_int(row, "signal_num", -1);

	return (struct exit_status){ elsewhere_int(row, "exit_code", -1),
				     signal > 0 ? signal : elsewhere_int(row, "signal", -1) };
}

static const char *name_of(const struct rpc_value *row)
{
	const char *event = text_of(row, "event");

	if (!event)
		return "-";
	return strncmp(event, PROCESS_PREFIX, strlen(PROCESS_PREFIX)) == 0
		       ? event + strlen(PROCESS_PREFIX)
		       : event;
}

static void add_text(struct buf *out, const struct rpc_value *row)
{
	struct feed_columns line = {
		.wall_ns = elsewhere_time(row, "timestamp"),
		.attempt_num = elsewhere_int(row, "attempt", 0),
		.sheet_num = elsewhere_int(row, "sheet_num", SHEET_NONE),
		.pid = elsewhere_int(row, "pid", 0),
		.event = name_of(row),
		.status = status_of(row),
		.job_id = text_of(row, "job_id") ? text_of(row, "job_id") : "-",
		.details = details_of(row),
	};

	if (text_of(row, "change"))
		add_anomaly(out, row, &line);
	else
		feed_lines_write_columns(out, &line);
}

int feed_print_elsewhere(const struct feed_options *options)
{
	const struct elsewhere_question question = { .job_id = options->job_id,
						     .since_wall_ns = options->since_wall_ns,
						     .until_wall_ns = options->until_wall_ns };
	const struct elsewhere_shape shape = { .json = options->json,
					       .add_titles = feed_add_heading,
					       .add_line = add_text,
					       .none = "no events were recorded in that time" };

	return elsewhere_print(ELSEWHERE_EVENTS, &question, &shape);
}

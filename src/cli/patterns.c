#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "learn/learn.h"

static const struct argp_option patterns_options[] = {
	CLI_OPTION("json", cli_flag, is_set, NULL,
		   "Print JSON, with the correlations of the old rules"),
	{ 0 },
};

static const struct argp patterns_argp = {
	.options = patterns_options,
	.doc = "Lists what has been learned: what is believed, since when, on how many runs, and what "
	       "was retired; and which anomalies come again, of which program, how often and in which "
	       "jobs.",
};

static const char *moment(uint64_t wall_ns, char text[32])
{
	return u64_known(wall_ns) ? clock_format_local(wall_ns, text, 32) : "-";
}

/* What it is and since when, and what it was before that. */
static void write_dates(const struct pattern *p, struct buf *out)
{
	const struct {
		const char *state;
		uint64_t wall_ns;
	} dates[] = {
		{ "retired", p->retired_wall_ns },
		{ "confirmed", p->confirmed_wall_ns },
		{ "lapsed", p->lapsed_wall_ns },
		{ "supported", p->first_wall_ns },
	};
	const char *between = "";
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(dates); i++) {
		if (!u64_known(dates[i].wall_ns))
			continue;
		buf_printf(out, "%s%s since %s", between, dates[i].state,
			   moment(dates[i].wall_ns, text));
		between = ", ";
	}
}

static void write_finding(const struct pattern *p, struct buf *out)
{
	write_dates(p, out);
	buf_printf(out, "; found on %llu runs\n  ", (unsigned long long)p->n_jobs);
	cli_add_text(out, p->description ? p->description : "-", SIZE_MAX);
	buf_add_str(out, "\n  ");
	if (p->n_later == 0)
		buf_add_str(out, "no run since that could confirm it");
	else
		buf_printf(out,
			   "%llu runs since, %llu failed; Brier score %.3f, of the base rate %.3f",
			   (unsigned long long)p->n_later, (unsigned long long)p->n_later_failed,
			   p->brier, p->brier_base);
	if (p->retired_why) {
		buf_add_str(out, "\n  retired: ");
		cli_add_text(out, p->retired_why, SIZE_MAX);
	}
	buf_add_char(out, '\n');
}

/* The jobs have a line each. */
static void add_jobs(const struct pattern *p, struct buf *out)
{
	const char *next, *job = p->jobs ? p->jobs : "";

	if (!*job)
		return;
	buf_printf(out, "\n  in %s", strchr(job, '\n') ? "jobs " : "job ");
	for (; job; job = next ? next + 1 : NULL) {
		CLEANUP(buf_release) struct buf one = BUF_INIT;

		next = strchr(job, '\n');
		buf_add(&one, job, next ? (size_t)(next - job) : strlen(job));
		cli_add_text(out, buf_error(&one) < 0 ? "-" : one.data, SIZE_MAX);
		buf_add_str(out, next ? ", " : "");
	}
}

/* Its name is what it is and of which program: "memory_spike:train.py". */
static void write_anomaly(const struct pattern *p, struct buf *out)
{
	const char *colon = strchr(p->name, ':');
	size_t len = colon ? (size_t)(colon - p->name) : strlen(p->name);
	char first[32], last[32];

	buf_printf(out, "anomaly %.*s", (int)len, p->name);
	if (colon && colon[1]) {
		buf_add_str(out, " of ");
		cli_add_text(out, colon + 1, SIZE_MAX);
	}
	if (p->occurrences == 1)
		buf_printf(out, ", once, %s", moment(p->first_wall_ns, first));
	else
		buf_printf(out, ", %llu times since %s, last %s",
			   (unsigned long long)p->occurrences, moment(p->first_wall_ns, first),
			   moment(p->last_wall_ns, last));
	buf_add_str(out, "\n  ");
	cli_add_text(out, p->description ? p->description : "-", SIZE_MAX);
	add_jobs(p, out);
	buf_add_char(out, '\n');
}

static void write_text(const struct pattern_list *list, struct buf *out)
{
	size_t n_findings = 0, n_correlations = 0;

	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].grade) {
			write_finding(&list->items[i], out);
			n_findings++;
		}
	if (n_findings == 0)
		buf_add_str(out, "nothing has been found yet that noise would not show as well\n");
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->items[i].type, PATTERN_ANOMALY) == 0)
			write_anomaly(&list->items[i], out);
		else
			n_correlations += !list->items[i].grade;
	}
	if (n_correlations > 0)
		buf_printf(out,
			   "%zu correlation%s by the old rules, which are scores and no findings: "
			   "--json lists them\n",
			   n_correlations, n_correlations == 1 ? "" : "s");
}

int cli_patterns(int argc, char **argv)
{
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct cli_flag json = { 0 };
	struct err err = ERR_INIT;
	struct json j;
	int r;

	cli_parse(&patterns_argp, argc, argv, 0, &json);
	r = cli_open_record(NULL, &store, &err);
	if (r == 0 && store)
		r = store_list_patterns(store, &list, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!json.is_set) {
		write_text(&list, &out);
		return cli_print(&out);
	}
	json_init(&j, &out);
	json_begin_array(&j);
	for (size_t i = 0; i < list.n; i++)
		belief_write_json(&j, &list.items[i]);
	json_end_array(&j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/jobs_merge.h"
#include "cli/live.h"
#include "cli/users.h"
#include "report/report.h"

enum jobs_key { KEY_JSON = 256, KEY_SINCE, KEY_ALL, KEY_LIMIT };

struct jobs_args {
	bool json, all_attempts;
	uint64_t since_wall_ns; /* 0: ever */
	int limit;		/* 0: none */
};

static const struct argp_option jobs_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only jobs that ran in the last 30m, 2h, 7d", 0 },
	{ "all", KEY_ALL, NULL, 0, "Every attempt, not only the latest of each job of each user",
	  0 },
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
		args->since_wall_ns = cli_parse_ago(state, "--since", arg);
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
	.doc = "Lists jobs, oldest first: how those ended that were recorded, how far those are that "
	       "run, and which wait for their turn.",
};

/* What is listed: what was recorded, and behind it what has not begun. */
struct listing {
	const struct attempt *attempts;
	size_t n_attempts;
	const struct live_jobs *live;
	size_t n_left_out; /* queued ones, of the oldest, by --limit */
};

/* ---- JSON ---- */

static void write_attempt(struct json *j, const struct listing *listing, const struct attempt *a)
{
	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	if (a->is_running)
		json_key_string(j, "why_held",
				live_why_held(listing->live, a->job_id, a->attempt_num));
	json_end_object(j);
}

static void write_queued(struct json *j, const struct live_job *job)
{
	struct attempt a;

	attempt_init(&a);
	a.job_id = job->job_id;
	a.uid = job->uid;
	a.command = job->command;
	json_begin_object(j);
	attempt_write_fields(j, &a, "queued");
	json_key_f64(j, "submitted", u64_to_seconds(job->submitted_wall_ns));
	json_key_string(j, "why_queued", job->why);
	json_end_object(j);
	attempt_release(&a);
}

typedef void queued_fn(void *ctx, const struct live_job *job);

/* It was asked for before what was recorded was read, and may have begun in between. */
static bool has_begun(const struct listing *listing, const struct live_job *job)
{
	for (size_t i = 0; i < listing->n_attempts; i++) {
		const struct attempt *a = &listing->attempts[i];

		if (u64_known(job->submission) && a->submission == job->submission)
			return true;
	}
	return false;
}

static void each_queued(const struct listing *listing, queued_fn *fn, void *ctx)
{
	size_t n_passed = 0;

	for (size_t i = 0; i < listing->live->n; i++) {
		const struct live_job *job = &listing->live->items[i];

		if (job->is_queued && !has_begun(listing, job) && n_passed++ >= listing->n_left_out)
			fn(ctx, job);
	}
}

static void write_queued_json(void *ctx, const struct live_job *job)
{
	write_queued(ctx, job);
}

static void write_json(const struct listing *listing, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_array(&j);
	for (size_t i = 0; i < listing->n_attempts; i++)
		write_attempt(&j, listing, &listing->attempts[i]);
	each_queued(listing, write_queued_json, &j);
	json_end_array(&j);
	buf_add_char(out, '\n');
}

/* ---- for people ---- */

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

#define USER_WIDTH 12

struct table {
	struct buf *out;
	size_t id_width;
	bool has_users; /* not all jobs are one's own: whose they are is a column */
};

/* The columns of one row, but for the first and the user; NULL: not known. */
struct row {
	const char *attempt, *started, *duration, *sheet, *outcome, *reason;
};

static const char *shown(const char *text)
{
	return text ? text : "-";
}

static void add_row(const struct table *table, const char *job_id, uint64_t uid,
		    const struct row *row)
{
	struct buf *out = table->out;
	char user[64];

	add_padded(out, job_id, table->id_width);
	if (table->has_users) {
		users_name(uid, user, sizeof(user));
		add_padded(out, user, USER_WIDTH);
	}
	add_padded(out, shown(row->attempt), 7);
	add_padded(out, shown(row->started), 19);
	add_padded(out, shown(row->duration), 9);
	add_padded(out, shown(row->sheet), 7);
	add_padded(out, shown(row->outcome), 9);
	cli_add_text(out, row->reason ? row->reason : "", 100);
	buf_add_char(out, '\n');
}

/* "3/10": the sheet that runs, or the last that was completed, also where the next was cut off. */
static void format_sheet(const struct attempt *a, char *ret, size_t size)
{
	bool is_in_one = a->is_running && !a->is_lost && a->current_sheet != SHEET_NONE;
	int at = is_in_one ? a->current_sheet : a->last_completed_sheet;

	if (a->total_sheets > 0)
		snprintf(ret, size, "%d/%d", at, a->total_sheets);
}

static void add_loss(struct buf *out, const struct attempt *a)
{
	buf_printf(out, "its runner, process %d", (int)a->runner.pid);
	if (a->host)
		buf_printf(out, " on %.64s", a->host);
	buf_add_str(out, ", is gone or silent, and wrote no end");
}

static void add_attempt(const struct table *table, const struct listing *listing,
			const struct attempt *a)
{
	CLEANUP(buf_release) struct buf duration = BUF_INIT, reason = BUF_INIT;
	char started[32] = "-", attempt[16], sheet[32] = "-";
	const char *why_held =
		a->is_running ? live_why_held(listing->live, a->job_id, a->attempt_num) : NULL;

	snprintf(attempt, sizeof(attempt), "%d", a->attempt_num);
	if (u64_known(a->started_wall_ns))
		clock_format_local(a->started_wall_ns, started, sizeof(started));
	report_add_duration(&duration, a->usage.wall_ns);
	format_sheet(a, sheet, sizeof(sheet));
	if (why_held)
		buf_add_str(&reason, why_held);
	else if (a->is_lost)
		add_loss(&reason, a);
	else if (a->reason)
		buf_add_str(&reason, a->reason);
	add_row(table, a->job_id, a->uid,
		&(struct row){ attempt, started, duration.data, sheet,
			       why_held ? "waiting" : outcome_word(a), reason.data });
}

static void add_queued(void *ctx, const struct live_job *job)
{
	struct table *table = ctx;

	add_row(table, job->job_id, job->uid,
		&(struct row){ .outcome = "queued", .reason = job->why });
}

static void fit(struct table *table, const char *job_id, uint64_t uid)
{
	if (strlen(job_id) > table->id_width)
		table->id_width = strlen(job_id);
	table->has_users = table->has_users || (u64_known(uid) && uid != geteuid());
}

static void fit_queued(void *ctx, const struct live_job *job)
{
	fit(ctx, job->job_id, job->uid);
}

static void write_table(const struct listing *listing, struct buf *out)
{
	struct table table = { .out = out, .id_width = 3 };

	for (size_t i = 0; i < listing->n_attempts; i++)
		fit(&table, listing->attempts[i].job_id, listing->attempts[i].uid);
	each_queued(listing, fit_queued, &table);
	add_padded(out, "JOB", table.id_width);
	if (table.has_users)
		add_padded(out, "USER", USER_WIDTH);
	buf_add_str(out, "ATTEMPT  STARTED              DURATION   SHEET    OUTCOME    REASON\n");
	for (size_t i = 0; i < listing->n_attempts; i++)
		add_attempt(&table, listing, &listing->attempts[i]);
	each_queued(listing, add_queued, &table);
}

/* ---- the verb ---- */

static void count_one(void *ctx, const struct live_job *job)
{
	(void)job;
	++*(size_t *)ctx;
}

/* The newest so many; what waits is newer than what has begun. */
static void apply_limit(struct listing *listing, size_t limit)
{
	size_t n_queued = 0, n_over;

	each_queued(listing, count_one, &n_queued);
	if (limit == 0 || listing->n_attempts + n_queued <= limit)
		return;
	n_over = listing->n_attempts + n_queued - limit;
	if (n_over > listing->n_attempts) {
		listing->n_left_out = n_over - listing->n_attempts;
		n_over = listing->n_attempts;
	}
	listing->attempts += n_over;
	listing->n_attempts -= n_over;
}

/* In our own database and not; to what is there before. */
static int add_others(const struct jobs_args *args, const struct live_jobs *live,
		      struct attempt_list *list)
{
	const struct elsewhere_question question = {
		.since_wall_ns = args->since_wall_ns,
		.limit = (size_t)args->limit,
		.latest_only = !args->all_attempts,
		.only_of_others = true,
	};
	int r = jobs_add_elsewhere(&question, list);

	return r < 0 ? r : jobs_add_running(live, list);
}

static int read_recorded(const struct jobs_args *args, const struct paths *paths,
			 struct attempt_list *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	const struct attempt_filter filter = {
		.latest_only = !args->all_attempts,
		.limit = (size_t)args->limit,
		.since_wall_ns = args->since_wall_ns,
	};
	int r = cli_open_store(paths, &store, err);

	return r < 0 ? r : store_list_attempts(store, &filter, ret, err);
}

int cli_jobs(int argc, char **argv)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(live_jobs_release) struct live_jobs live = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct listing listing = { .live = &live };
	struct jobs_args args = { 0 };
	struct err err = ERR_INIT, bad = ERR_INIT;
	struct paths paths;
	int r;

	cli_parse(&jobs_argp, argc, argv, 0, &args);
	r = cli_find_paths_to_ask(&paths, &bad);
	if (r < 0 && r != -EINVAL)
		return cli_fail(CLI_FAILED, &bad);
	r = 0;
	if (live_jobs_read(&paths, &live) < 0)
		r = err_set(&err, -ENOMEM, "no memory left to list the jobs");
	if (r == 0)
		r = read_recorded(&args, &paths, &list, &err);
	if (r != -ENOMEM && add_others(&args, &live, &list) < 0)
		r = err_set(&err, -ENOMEM, "no memory left to list the jobs");
	if (r < 0 && r != -ENOENT)
		return cli_fail(CLI_FAILED, &err);
	if (bad.code != 0 && list.n == 0 && live.n == 0)
		return cli_fail(CLI_USAGE, &bad);
	if (bad.code != 0)
		log_warning("%s; jobs are listed all the same, as without that file", bad.text);
	listing.attempts = list.items;
	listing.n_attempts = list.n;
	apply_limit(&listing, (size_t)args.limit);
	if (args.json)
		write_json(&listing, &out); /* nothing recorded yet is an empty list */
	else if (r == -ENOENT && live.n == 0 && list.n == 0)
		return cli_fail(CLI_DONE, &err);
	else
		write_table(&listing, &out);
	return cli_print(&out);
}

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "daemon/daemon.h"
#include "report/report.h"
#include "rpc/rpc.h"

struct jobs_args {
	bool json, all_attempts;
	uint64_t since_wall_ns; /* 0: ever */
	int limit;		/* 0: none */
};

static const struct argp_option jobs_options[] = {
	CLI_OPTION("json", jobs_args, json, NULL, "Print a JSON array"),
	CLI_OPTION("since", jobs_args, since_wall_ns, "TIME",
		   "Only jobs that ran in the last 30m, 2h, 7d"),
	CLI_OPTION("all", jobs_args, all_attempts, NULL,
		   "Every attempt, not only the latest of each job of each user"),
	CLI_OPTION("limit", jobs_args, limit, "N", "At most the newest N"),
	{ 0 },
};

static const struct argp jobs_argp = {
	.options = jobs_options,
	.doc = "Lists jobs, oldest first: how those ended that were recorded, how far those are that "
	       "run, and which wait for their turn.",
};

/* ---- jobs that wait ---- */

#define TIMEOUT_MS 2000

struct waiting {
	struct attempt a;	    /* of one that is queued: its file is the command */
	bool is_queued;		    /* else it runs, and its next sheet waits */
	uint64_t submitted_wall_ns; /* of one that is queued; U64_UNKNOWN */
	const char *why;	    /* NULL: not known */
};

/* All that is listed: what was recorded, and behind it what has not begun. */
struct listed {
	struct attempt_list list;
	const struct attempt *attempts; /* of the list, those that --limit leaves */
	size_t n_attempts;
	struct waiting *waiting; /* queued ones in the order in which they were submitted */
	size_t n_waiting;
	struct rpc_value *answer; /* of the daemon, or its queue: their strings */
	struct queue *queue;
};

static void listed_release(struct listed *l)
{
	attempt_list_release(&l->list);
	free(l->waiting);
	rpc_value_free(l->answer);
	if (l->queue)
		queue_close(l->queue);
}

/* What the daemon lists. Jobs that wait, in its queue or for their next sheet. */
static int take_answer(struct listed *l)
{
	size_t n = rpc_value_len(l->answer);

	l->waiting = calloc(n + 1, sizeof(*l->waiting));
	if (!l->waiting)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct rpc_value *job = rpc_value_at(l->answer, i);
		const char *status = remote_text(job, "status");
		bool is_queued = status && strcmp(status, "queued") == 0;
		struct waiting *row = &l->waiting[l->n_waiting];

		attempt_init(&row->a);
		row->a.job_id = remote_text(job, "job_id");
		row->a.uid = rpc_value_u64(rpc_value_get(job, "uid"));
		row->a.attempt_num = is_queued ? 0 : remote_int(job, "attempt", 0);
		row->a.submission = rpc_value_u64(rpc_value_get(job, "submission"));
		row->a.command = remote_text(job, "command");
		row->is_queued = is_queued;
		row->submitted_wall_ns = remote_time(job, "submitted");
		row->why = remote_text(job, is_queued ? "why_queued" : "why_held");
		l->n_waiting += row->a.job_id && (is_queued || row->why);
	}
	return 0;
}

/* Without a daemon the folder of its queue has those that wait for one. */
static int take_folder(struct listed *l, const struct paths *paths)
{
	char folder[PATH_BYTES + 16];
	const struct queued *job;
	size_t n = 0;

	snprintf(folder, sizeof(folder), "%s/queue", paths->state_dir);
	if (access(folder, R_OK | X_OK) < 0 || queue_open(folder, NULL, &l->queue, NULL) < 0)
		return 0;
	while (queue_at(l->queue, n))
		n++;
	l->waiting = calloc(n + 1, sizeof(*l->waiting));
	if (!l->waiting)
		return -ENOMEM;
	for (; l->n_waiting < n && (job = queue_at(l->queue, l->n_waiting)); l->n_waiting++) {
		struct waiting *row = &l->waiting[l->n_waiting];

		attempt_init(&row->a);
		row->a.job_id = job->job_id;
		row->a.uid = job->uid;
		row->a.submission = job->submission;
		row->a.command = job->name;
		row->is_queued = true;
		row->submitted_wall_ns = job->submitted_wall_ns;
		row->why = job->is_started ? "it was started, and its runner has not told of it"
					   : "no daemon is running";
	}
	return 0;
}

/* All there is to be found, which may be nothing. -ENOMEM. */
static int read_waiting(struct listed *l, const struct paths *paths)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL;
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, NULL);

	if (r == -ENOENT)
		return take_folder(l, paths);
	if (r == 0 && rpc_client_call(client, "job.list", NULL, &l->answer, NULL) == 0) {
		r = take_answer(l);
		if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) == 0 &&
		    remote_text(status, "recording_error")) /* what is listed may be old then */
			log_warning("the daemon records nothing: %s",
				    remote_text(status, "recording_error"));
	}
	rpc_client_close(client);
	return r == -ENOMEM ? r : 0;
}

/* ---- rows ---- */

/* Its next sheet waits; NULL: it does not. */
static const struct waiting *find_held(const struct listed *l, const struct attempt *a)
{
	for (size_t i = 0; a->is_running && i < l->n_waiting; i++)
		if (!l->waiting[i].is_queued && l->waiting[i].a.attempt_num == a->attempt_num &&
		    strcmp(l->waiting[i].a.job_id, a->job_id) == 0)
			return &l->waiting[i];
	return NULL;
}

#define USER_COLUMN 1 /* where not all jobs are one's own */

static const struct table_column columns[] = {
	{ "JOB", COLUMN_LEFT },	    { "USER", COLUMN_LEFT },	 { "ATTEMPT", COLUMN_LEFT },
	{ "STARTED", COLUMN_LEFT }, { "DURATION", COLUMN_LEFT }, { "DONE", COLUMN_LEFT },
	{ "OUTCOME", COLUMN_LEFT }, { "REASON", COLUMN_LEFT },
};

static void add_cells(struct table *t, const struct attempt *a, const struct waiting *w)
{
	const struct job_progress progress = { .total_sheets = a->total_sheets,
					       .last_completed_sheet = a->last_completed_sheet,
					       .current_sheet =
						       a->is_lost ? SHEET_NONE : a->current_sheet };
	const struct passwd *account;
	char started[32] = "-";
	struct buf *cell;

	buf_add_str(table_cell(t), a->job_id);
	if (t->n_columns == ARRAY_SIZE(columns)) {
		account = u64_known(a->uid) ? getpwuid((uid_t)a->uid) : NULL;
		if (account)
			buf_add_str(table_cell(t), account->pw_name);
		else if (u64_known(a->uid))
			buf_printf(table_cell(t), "%llu", (unsigned long long)a->uid);
		else
			buf_add_char(table_cell(t), '-');
	}
	add_positive(table_cell(t), a->attempt_num);
	if (u64_known(a->started_wall_ns))
		clock_format_local(a->started_wall_ns, started, sizeof(started));
	buf_add_str(table_cell(t), started);
	report_add_duration(table_cell(t), a->usage.wall_ns);
	cell = table_cell(t);
	if (a->total_sheets > 0)
		buf_printf(cell, "%d/%d", job_progress_over(&progress), a->total_sheets);
	else
		buf_add_char(cell, '-');
	buf_add_str(table_cell(t), w		   ? (w->is_queued ? "queued" : "waiting")
				   : a->is_running ? "running"
				   : a->is_lost	   ? "lost"
				   : a->outcome == OUTCOME_NONE ? "-"
								: outcome_name(a->outcome));
	cell = table_cell(t);
	if (w || !a->is_lost) {
		const char *why = w ? w->why : a->reason;

		cli_add_text(cell, why ? why : "", 100);
		return;
	}
	buf_printf(cell, "its runner, process %d", (int)a->runner.pid);
	if (a->host)
		buf_printf(cell, " on %.64s", a->host);
	buf_add_str(cell, ", is gone or silent, and wrote no end");
}

static int add_row(struct lister *out, const struct attempt *a, const struct waiting *w)
{
	bool is_queued = w && w->is_queued;
	struct json *j = &out->json;

	if (out->form != LISTER_ARRAY) {
		add_cells(&out->table, a, w);
		return lister_pass(out);
	}
	json_begin_object(j);
	attempt_write_fields(j, a, is_queued ? "queued" : attempt_status_name(a));
	if (is_queued)
		json_key_f64(j, "submitted", u64_to_seconds(w->submitted_wall_ns));
	if (is_queued || a->is_running)
		json_key_string(j, is_queued ? "why_queued" : "why_held", w ? w->why : NULL);
	json_end_object(j);
	return lister_pass(out);
}

static bool is_of_other(const struct attempt *a)
{
	return u64_known(a->uid) && a->uid != geteuid();
}

static int print(const struct listed *l, bool json)
{
	struct lister out = LISTER_INIT(json ? LISTER_ARRAY : LISTER_TABLE, columns);
	struct table_column own[ARRAY_SIZE(columns)];
	bool has_users = false;
	struct err err = ERR_INIT;
	int r = lister_open(&out, &err);

	for (size_t i = 0; i < l->n_attempts; i++)
		has_users |= is_of_other(&l->attempts[i]);
	for (size_t i = 0; i < l->n_waiting; i++)
		has_users |= l->waiting[i].is_queued && is_of_other(&l->waiting[i].a);
	if (!has_users) {
		memcpy(own, columns, sizeof(own));
		memmove(own + USER_COLUMN, own + USER_COLUMN + 1,
			sizeof(own) - (USER_COLUMN + 1) * sizeof(*own));
		out.table.columns = own;
		out.table.n_columns--;
	}
	for (size_t i = 0; r == 0 && i < l->n_attempts; i++)
		r = add_row(&out, &l->attempts[i], find_held(l, &l->attempts[i]));
	for (size_t i = 0; r == 0 && i < l->n_waiting; i++)
		if (l->waiting[i].is_queued)
			r = add_row(&out, &l->waiting[i].a, &l->waiting[i]);
	return lister_end(&out, r, "no jobs were recorded in that time", &err);
}

/* ---- the verb ---- */

/* The newest so many; what is queued is newer than what has begun. One that is queued may have
 * begun after it was listed, and before the record was read. */
static void apply_limit(struct listed *l, size_t limit)
{
	size_t n_queued = 0, n_over;

	l->attempts = l->list.items;
	l->n_attempts = l->list.n;
	for (size_t i = 0; i < l->n_waiting; i++) {
		struct waiting *job = &l->waiting[i];

		for (size_t k = 0; u64_known(job->a.submission) && k < l->list.n; k++)
			if (l->list.items[k].submission == job->a.submission)
				job->is_queued = false;
		n_queued += job->is_queued;
	}
	if (limit == 0 || l->n_attempts + n_queued <= limit)
		return;
	n_over = l->n_attempts + n_queued - limit;
	for (size_t i = 0; n_over > l->n_attempts && i < l->n_waiting; i++)
		if (l->waiting[i].is_queued) {
			l->waiting[i].is_queued = false;
			n_over--;
		}
	l->attempts += n_over;
	l->n_attempts -= n_over;
}

static int by_start(const void *a, const void *b)
{
	const struct attempt *x = a, *y = b;

	return COMPARE(x->started_wall_ns, y->started_wall_ns);
}

/* What our own database has not: what a daemon of another user has recorded, and what runs. */
static int add_remote(const struct jobs_args *args, struct listed *l)
{
	const struct remote_question question = {
		.since_wall_ns = args->since_wall_ns,
		.limit = (size_t)args->limit,
		.latest_only = !args->all_attempts,
		.only_of_others = true,
	};
	struct err err = ERR_INIT;
	int r = remote_add_all(&question, &l->list, &err);
	size_t n = l->list.n;
	struct attempt a;

	if (r > 0)
		qsort(l->list.items, n, sizeof(*l->list.items), by_start);
	r = r == -ENOMEM ? r : 0;
	for (size_t i = 0; r == 0 && i < rpc_value_len(l->answer); i++) {
		r = remote_attempt(rpc_value_at(l->answer, i), &l->list.arena, &a);
		if (r == 0 && a.is_running)
			r = remote_add(&l->list, n, false, &a);
		r = r == -ENOMEM ? r : 0;
	}
	return r;
}

int cli_jobs(int argc, char **argv)
{
	CLEANUP(listed_release) struct listed l = { 0 };
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct jobs_args args = { 0 };
	struct attempt_filter filter = { 0 };
	struct err err = ERR_INIT, bad = ERR_INIT;
	struct paths paths;
	int r;

	cli_parse(&jobs_argp, argc, argv, 0, &args);
	r = cli_find_paths_to_ask(&paths, &bad);
	if (r < 0 && r != -EINVAL)
		return cli_fail(CLI_FAILED, &bad);
	filter.latest_only = !args.all_attempts;
	filter.limit = (size_t)args.limit;
	filter.since_wall_ns = args.since_wall_ns;
	r = read_waiting(&l, &paths);
	if (r == 0)
		r = cli_open_store(&paths, STORE_READ, &store, &err);
	if (r == 0)
		r = store_list_attempts(store, &filter, &l.list, &err);
	if (r == -ENOMEM || add_remote(&args, &l) < 0)
		r = err_set(&err, -ENOMEM, "no memory left to list the jobs");
	if (r < 0 && r != -ENOENT)
		return cli_fail(CLI_FAILED, &err);
	if (bad.code != 0 && l.list.n == 0 && l.n_waiting == 0)
		return cli_fail(CLI_USAGE, &bad);
	if (bad.code != 0)
		log_warning("%s; jobs are listed all the same, as without that file", bad.text);
	apply_limit(&l, (size_t)args.limit);
	if (!args.json && r == -ENOENT && l.n_waiting == 0 && l.list.n == 0)
		return cli_fail(CLI_DONE, &err);
	return print(&l, args.json); /* nothing recorded yet is an empty list */
}

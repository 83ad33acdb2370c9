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
	.parser = cli_parse_option,
	.doc = "Lists jobs, oldest first: how those ended that were recorded, how far those are that "
	       "run, and which wait for their turn.",
};

/* ---- jobs that wait ---- */

#define TIMEOUT_MS 2000

struct waiting {
	const char *job_id;
	uint64_t uid;		    /* whose; U64_UNKNOWN */
	bool is_queued;		    /* else it runs, and its next sheet waits */
	int attempt;		    /* of one that runs */
	uint64_t submitted_wall_ns; /* of one that is queued; U64_UNKNOWN */
	uint64_t submission;	    /* the same */
	const char *command;	    /* the same: its file; NULL */
	const char *why;	    /* it waits; NULL: not known */
};

/* All that is listed: what was recorded, and behind it what has not begun. */
struct listing {
	struct attempt_list list;
	const struct attempt *attempts; /* of the list, those that --limit leaves */
	size_t n_attempts;
	struct waiting *waiting; /* queued ones in the order in which they were submitted */
	size_t n_waiting;
	struct rpc_value *answer; /* of the daemon, or its queue: their strings */
	struct queue *queue;
};

static void listing_release(struct listing *l)
{
	attempt_list_release(&l->list);
	free(l->waiting);
	rpc_value_free(l->answer);
	if (l->queue)
		queue_close(l->queue);
}

/* What the daemon lists. Jobs that wait, in its queue or for their next sheet. */
static int take_answer(struct listing *l)
{
	size_t n = rpc_value_len(l->answer);

	l->waiting = calloc(n + 1, sizeof(*l->waiting));
	if (!l->waiting)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct rpc_value *job = rpc_value_at(l->answer, i);
		const char *status = remote_text(job, "status");
		bool is_queued = status && strcmp(status, "queued") == 0;
		const struct waiting row = {
			.job_id = remote_text(job, "job_id"),
			.uid = rpc_value_u64(rpc_value_get(job, "uid")),
			.is_queued = is_queued,
			.attempt = remote_int(job, "attempt", 0),
			.submitted_wall_ns = remote_time(job, "submitted"),
			.submission = rpc_value_u64(rpc_value_get(job, "submission")),
			.command = remote_text(job, "command"),
			.why = remote_text(job, is_queued ? "why_queued" : "why_held"),
		};

		if (row.job_id && (is_queued || row.why))
			l->waiting[l->n_waiting++] = row;
	}
	return 0;
}

/* Without a daemon the folder of its queue has those that wait for one. */
static int take_folder(struct listing *l, const struct paths *paths)
{
	char folder[PATH_BYTES + 16];
	const struct queued *job;
	size_t n = 0;

	snprintf(folder, sizeof(folder), "%s/queue", paths->state_dir);
	if (access(folder, R_OK | X_OK) < 0 || queue_open(folder, false, &l->queue, NULL) < 0)
		return 0;
	while (queue_at(l->queue, n))
		n++;
	l->waiting = calloc(n + 1, sizeof(*l->waiting));
	if (!l->waiting)
		return -ENOMEM;
	for (; l->n_waiting < n && (job = queue_at(l->queue, l->n_waiting)); l->n_waiting++)
		l->waiting[l->n_waiting] = (struct waiting){
			.job_id = job->job_id,
			.uid = job->uid,
			.is_queued = true,
			.submitted_wall_ns = job->submitted_wall_ns,
			.submission = job->submission,
			.command = job->name,
			.why = job->is_started ? "it was started, and its runner has not told of it"
					       : "no daemon is running",
		};
	return 0;
}

/* All there is to be found, which may be nothing. -ENOMEM. */
static int read_waiting(struct listing *l, const struct paths *paths)
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

/* NULL: it does not wait. */
static const char *why_held(const struct listing *l, const struct attempt *a)
{
	for (size_t i = 0; a->is_running && i < l->n_waiting; i++)
		if (!l->waiting[i].is_queued && l->waiting[i].attempt == a->attempt_num &&
		    strcmp(l->waiting[i].job_id, a->job_id) == 0)
			return l->waiting[i].why;
	return NULL;
}

/* ---- JSON ---- */

static void write_json(const struct listing *l, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_array(&j);
	for (size_t i = 0; i < l->n_attempts; i++) {
		const struct attempt *a = &l->attempts[i];

		json_begin_object(&j);
		attempt_write_fields(&j, a, attempt_status_name(a));
		if (a->is_running)
			json_key_string(&j, "why_held", why_held(l, a));
		json_end_object(&j);
	}
	for (size_t i = 0; i < l->n_waiting; i++) {
		const struct waiting *job = &l->waiting[i];
		struct attempt a;

		if (!job->is_queued)
			continue;
		attempt_init(&a);
		a.job_id = job->job_id;
		a.uid = job->uid;
		a.command = job->command;
		json_begin_object(&j);
		attempt_write_fields(&j, &a, "queued");
		json_key_f64(&j, "submitted", u64_to_seconds(job->submitted_wall_ns));
		json_key_string(&j, "why_queued", job->why);
		json_end_object(&j);
		attempt_release(&a);
	}
	json_end_array(&j);
	buf_add_char(out, '\n');
}

/* ---- for people ---- */

static void add_padded(struct buf *out, const char *text, size_t width)
{
	size_t before = out->len;

	cli_add_text(out, text ? text : "-", width);
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

static void add_row(const struct table *table, const char *job_id, uint64_t uid,
		    const struct row *row)
{
	struct buf *out = table->out;
	char user[64];

	add_padded(out, job_id, table->id_width);
	if (table->has_users) {
		cli_user_name(uid, user, sizeof(user));
		add_padded(out, user, USER_WIDTH);
	}
	add_padded(out, row->attempt, 7);
	add_padded(out, row->started, 19);
	add_padded(out, row->duration, 9);
	add_padded(out, row->sheet, 7);
	add_padded(out, row->outcome, 9);
	cli_add_text(out, row->reason ? row->reason : "", 100);
	buf_add_char(out, '\n');
}

static void add_attempt(const struct table *table, const struct attempt *a, const char *held)
{
	CLEANUP(buf_release) struct buf duration = BUF_INIT, reason = BUF_INIT;
	char started[32] = "-", attempt[16], sheet[32] = "-";
	const char *outcome = held			   ? "waiting"
			      : a->is_running		   ? "running"
			      : a->is_lost		   ? "lost"
			      : a->outcome == OUTCOME_NONE ? "-"
							   : outcome_name(a->outcome);
	bool is_in_sheet = a->is_running && !a->is_lost && a->current_sheet != SHEET_NONE;

	snprintf(attempt, sizeof(attempt), "%d", a->attempt_num);
	if (u64_known(a->started_wall_ns))
		clock_format_local(a->started_wall_ns, started, sizeof(started));
	report_add_duration(&duration, a->usage.wall_ns);
	/* "3/10": the one that runs, or the last that was completed, also where the next was cut
	 * off */
	if (a->total_sheets > 0)
		snprintf(sheet, sizeof(sheet), "%d/%d",
			 is_in_sheet ? a->current_sheet : a->last_completed_sheet, a->total_sheets);
	if (held || !a->is_lost) {
		buf_add_str(&reason, held ? held : a->reason ? a->reason : "");
	} else {
		buf_printf(&reason, "its runner, process %d", (int)a->runner.pid);
		if (a->host)
			buf_printf(&reason, " on %.64s", a->host);
		buf_add_str(&reason, ", is gone or silent, and wrote no end");
	}
	add_row(table, a->job_id, a->uid,
		&(struct row){ attempt, started, duration.data, sheet, outcome, reason.data });
}

static void fit(struct table *table, const char *job_id, uint64_t uid)
{
	if (strlen(job_id) > table->id_width)
		table->id_width = strlen(job_id);
	table->has_users = table->has_users || (u64_known(uid) && uid != geteuid());
}

static void write_table(const struct listing *l, struct buf *out)
{
	struct table table = { .out = out, .id_width = 3 };

	for (size_t i = 0; i < l->n_attempts; i++)
		fit(&table, l->attempts[i].job_id, l->attempts[i].uid);
	for (size_t i = 0; i < l->n_waiting; i++)
		if (l->waiting[i].is_queued)
			fit(&table, l->waiting[i].job_id, l->waiting[i].uid);
	add_padded(out, "JOB", table.id_width);
	if (table.has_users)
		add_padded(out, "USER", USER_WIDTH);
	buf_add_str(out, "ATTEMPT  STARTED              DURATION   SHEET    OUTCOME    REASON\n");
	for (size_t i = 0; i < l->n_attempts; i++)
		add_attempt(&table, &l->attempts[i], why_held(l, &l->attempts[i]));
	for (size_t i = 0; i < l->n_waiting; i++)
		if (l->waiting[i].is_queued)
			add_row(&table, l->waiting[i].job_id, l->waiting[i].uid,
				&(struct row){ .outcome = "queued", .reason = l->waiting[i].why });
}

/* ---- the verb ---- */

/* The newest so many; what is queued is newer than what has begun. One that is queued may have
 * begun after it was listed, and before the record was read. */
static void apply_limit(struct listing *l, size_t limit)
{
	size_t n_queued = 0, n_over;

	l->attempts = l->list.items;
	l->n_attempts = l->list.n;
	for (size_t i = 0; i < l->n_waiting; i++) {
		struct waiting *job = &l->waiting[i];

		for (size_t k = 0; u64_known(job->submission) && k < l->list.n; k++)
			if (l->list.items[k].submission == job->submission)
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
static int add_remote(const struct jobs_args *args, struct listing *l)
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
	CLEANUP(listing_release) struct listing l = { 0 };
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
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
		r = cli_open_store(&paths, &store, &err);
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
	if (args.json)
		write_json(&l, &out); /* nothing recorded yet is an empty list */
	else if (r == -ENOENT && l.n_waiting == 0 && l.list.n == 0)
		return cli_fail(CLI_DONE, &err);
	else
		write_table(&l, &out);
	return cli_print(&out);
}

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/unknown.h"
#include "cli/cli.h"
#include "query/query.h"
#include "report/report.h"
#include "sources/sources.h"

struct why_args {
	const char *word, *second;
	int attempt_num; /* 0: that of the word */
	bool json;
};

static const struct argp_option why_options[] = {
	CLI_OPTION("json", why_args, json, NULL, "Print JSON"),
	CLI_WORD(why_args, word, "which job? \"proctor jobs\" lists them"),
	CLI_WORD(why_args, second, NULL),
	CLI_OPTION("attempt", why_args, attempt_num, "N",
		   "The job's Nth attempt instead of its latest"),
	{ 0 },
};

static const struct argp why_argp = {
	.options = why_options,
	.args_doc = "JOB\nJOB1 JOB2",
	.doc = "Prints in at most ten lines what ended a job, made it slower or larger than runs like it, "
	       "or holds it up: the evidence, since when, what else on the host contributed, and what to "
	       "try. JOB#2 is the second attempt of a job. Of two, why the second took longer than the "
	       "first.",
};

#define MAX_OTHERS 100 /* attempts at the same time that are read, the first to start */

/* What the record and the host have of one attempt. */
struct known {
	struct store *store;
	struct attempt attempt;
	struct attempt *others;
	size_t n_others;
	struct buf waits, reasons;
	struct cause cause; /* of waits */
};

static void known_release(struct known *k)
{
	for (size_t i = 0; i < k->n_others; i++)
		attempt_release(&k->others[i]);
	free(k->others);
	buf_release(&k->waits);
	buf_release(&k->reasons);
	attempt_release(&k->attempt);
	cli_store_cleanup(&k->store);
}

/* As the first line of "stack". What is not visible stays unknown. */
static void read_waits(struct known *k)
{
	CLEANUP(look_close) struct look look = { .root_fd = -1 };
	CLEANUP(free_ptr) struct wait_state *states = NULL;
	const struct wait_state *worst;
	struct err err = ERR_INIT;
	size_t n;

	if (cli_read_waits(k->attempt.job_id, false, &look, &states, &n, &err) < 0)
		return;
	worst = wait_state_pick(states, n);
	wait_state_add_process(&k->waits, worst);
	buf_add_str(&k->waits, " is ");
	wait_state_add(&k->waits, worst);
	k->cause = wait_state_cause(worst);
}

/* A share of the time explains it only if that time is half of what is beyond usual. */
static int read_reasons(struct known *k, struct err *err)
{
	const struct standing *s = k->attempt.details.standing;
	struct standing_reason reasons[STANDING_MAX_REASONS];
	int n = learning_list_reasons(k->store, &k->attempt, reasons, err);

	for (int i = 0; i < n; i++) {
		const struct standing_value *v = &reasons[i].value;
		const double seconds =
			(v->value - v->median) / 100 * s->values[STANDING_WALL].value;

		if (reasons[i].unit == UNIT_PERCENT &&
		    seconds < standing_half_excess(s, STANDING_WALL))
			continue;
		if (reasons[i].unit == UNIT_SECONDS && /* thread-seconds */
		    (!standing_is_more(s, STANDING_WALL) ||
		     v->value - v->median < standing_half_excess(s, STANDING_WALL)))
			continue;
		buf_printf(&k->reasons, "%s%s ", k->reasons.len > 0 ? "; " : "", reasons[i].name);
		feature_add_value(&k->reasons, reasons[i].unit, v->value);
		buf_add_str(&k->reasons, ", of runs like it at most ");
		feature_add_value(&k->reasons, reasons[i].unit, v->high);
	}
	return n < 0 ? n : 0;
}

static int read_others(struct known *k, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .since_wall_ns = k->attempt.started_wall_ns };
	int r = store_list_attempts(k->store, &filter, &list, err);

	if (r < 0)
		return r;
	k->others = calloc(MAX_OTHERS, sizeof(*k->others));
	if (!k->others)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < list.n && k->n_others < MAX_OTHERS; i++) {
		const struct attempt *a = &list.items[i];
		struct attempt *other = &k->others[k->n_others];

		if ((a->id == k->attempt.id && strcmp(a->job_id, k->attempt.job_id) == 0) ||
		    a->started_wall_ns >= k->attempt.ended_wall_ns)
			continue;
		attempt_init(other);
		if (store_read_attempt(k->store, a->job_id, a->attempt_num, other, NULL) == 0)
			k->n_others++;
	}
	return 0;
}

/* Those of processes of no job, and of the host as a whole, beside those of the job. */
static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	return row->episode.job_id[0] ? 0 : episode_append(ctx, &row->episode);
}

/* before: with which it is compared; NULL: with all runs like it. */
static int read_known(const struct cli_subject *before, const struct cli_subject *subject,
		      struct known *k, struct err *err)
{
	struct attempt *a = &k->attempt;
	struct anomaly_filter filter = { 0 };
	bool is_more = false, is_slow;
	int r = cli_read_judged(subject->job_id, subject->attempt_num, &k->store, a, err);

	if (r < 0)
		return r;
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++)
		is_more |= standing_is_more(a->details.standing, q);
	is_slow = a->is_running || a->outcome == OUTCOME_TIMEOUT ||
		  standing_is_more(a->details.standing, STANDING_WALL);
	filter.lasting_wall_ns = a->started_wall_ns;
	if (u64_known(a->ended_wall_ns))
		filter.until_wall_ns = a->ended_wall_ns;
	else if (a->is_lost) /* until its last sample */
		filter.until_wall_ns = a->details.n_series > 0
					       ? a->details.series[a->details.n_series - 1].wall_ns
					       : a->started_wall_ns;
	if (a->is_running)
		read_waits(k);
	if (before)
		r = cli_add_difference(k->store, before, subject, &k->reasons, err);
	else if (is_more && u64_known(a->ended_wall_ns))
		r = read_reasons(k, err);
	if (r == 0 && (is_slow || before))
		r = read_others(k, err);
	if (r == 0 && (is_more || a->outcome != OUTCOME_SUCCESS))
		r = store_read_anomalies(k->store, &filter, on_anomaly, a, err);
	return r;
}

int cli_why(int argc, char **argv)
{
	CLEANUP(known_release) struct known k = { .waits = BUF_INIT, .reasons = BUF_INIT };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct cli_subject subject = { 0 }, before = { 0 };
	struct why_args args = { 0 };
	struct err err = ERR_INIT;
	struct why_known why;
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

	attempt_init(&k.attempt);
	cli_parse(&why_argp, argc, argv, 0, &args);
	cli_parse_subject(argv, args.word, &subject);
	if (subject.attempt_num && args.attempt_num)
		cli_reject(argv, "JOB#N or --attempt N, not both");
	if (args.attempt_num)
		subject.attempt_num = args.attempt_num;
	if (args.second) {
		before = subject;
		cli_parse_subject(argv, args.second, &subject);
	}
	if (read_known(args.second ? &before : NULL, &subject, &k, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	why = (struct why_known){ .attempt = &k.attempt,
				  .waits = k.waits.data,
				  .cause = k.cause,
				  .reasons = k.reasons.data,
				  .others = k.others,
				  .n_others = k.n_others,
				  .cpu_count = n_cpus > 0 ? (unsigned)n_cpus : 0 };
	if (report_write_why(&why, args.json, &out) < 0) {
		err_set(&err, -ENOMEM, "out of memory");
		return cli_fail(CLI_FAILED, &err);
	}
	return cli_print(&out);
}

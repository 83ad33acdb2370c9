#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "model/time_ledger.h"
#include "query/query.h"

struct diff_args {
	const char *words[2];
	struct cli_subject subjects[2];
	bool json;
};

static const struct argp_option diff_options[] = {
	CLI_OPTION("json", diff_args, json, NULL, "Print JSON"),
	CLI_WORD(diff_args, words[0], "which jobs? \"proctor jobs\" lists them"),
	CLI_WORD(diff_args, words[1], NULL),
	{ 0 },
};

static const struct argp diff_argp = {
	.options = diff_options,
	.args_doc = "JOB1 JOB2\nJOB",
	.doc = "Tells what two runs used, side by side, and which differences are more than runs of this "
	       "kind usually have. JOB#2 is the second attempt of a job; one job alone is its last two "
	       "attempts.",
};

/* ---- reading ---- */

struct compared {
	struct run_list runs;  /* [0] before, [1] after; sheets behind each are left out */
	struct run_list class; /* runs like both, before the second */
	struct run_record before, after;
	const char *commands[2]; /* masked; NULL: not known; in the arena of runs */
	struct diff diff;
	enum run_rung rung; /* RUNG_COUNT: they are of different kinds */
};

static void compared_release(struct compared *c)
{
	run_list_release(&c->runs);
	run_list_release(&c->class);
	diff_release(&c->diff);
}

static int read_run(struct store *store, const struct cli_subject *subject, struct compared *c,
		    struct run_record *ret, const char **ret_command, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	size_t place = c->runs.n;
	int r;

	attempt_init(&a);
	r = store_read_attempt(store, subject->job_id, subject->attempt_num, &a, err);
	if (r < 0)
		return r;
	if (!u64_known(a.ended_wall_ns))
		return err_set(err, -EAGAIN,
			       "job %s has not ended: there is nothing to compare yet",
			       subject->job_id);
	r = learning_gather(store, &a, &c->runs, err);
	if (r < 0)
		return r;
	*ret = c->runs.items[place];
	*ret_command = arena_strdup(&c->runs.arena, a.command);
	return a.command && !*ret_command ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* One job alone: the attempt before its last. */
static int settle_subjects(struct store *store, struct diff_args *args, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt_filter filter = { .job_id = args->subjects[0].job_id, .limit = 2 };
	int r;

	if (args->words[1])
		return 0;
	r = store_list_attempts(store, &filter, &list, err);
	if (r < 0)
		return r;
	if (list.n < 2)
		return err_set(err, -ENOENT, "job %s has %s to compare: proctor diff JOB1 JOB2",
			       filter.job_id, list.n ? "no earlier attempt" : "no attempt");
	args->subjects[1] = args->subjects[0];
	args->subjects[0].attempt_num = list.items[0].attempt_num;
	args->subjects[1].attempt_num = list.items[1].attempt_num;
	return 0;
}

/* What is usual is known from runs like both of them: there are none of two kinds at once. */
static int list_class(struct store *store, struct compared *c, struct err *err)
{
	struct learning_likeness like = {
		.class = &c->after.class,
		.finest = RUNG_EXACT,
		.uid = U64_UNKNOWN,
		.attempt = c->after.attempt,
		.started_wall_ns = c->after.started_wall_ns,
	};

	while (like.finest < RUNG_COUNT &&
	       c->before.class.rungs[like.finest] != c->after.class.rungs[like.finest])
		like.finest++;
	c->rung = like.finest;
	return c->rung == RUNG_COUNT
		       ? 0
		       : learning_list_similar(store, &like, &c->class, &c->rung, err);
}

static int compare(struct store *store, struct diff_args *args, struct compared *c, struct err *err)
{
	int r = settle_subjects(store, args, err);

	if (r == 0)
		r = read_run(store, &args->subjects[0], c, &c->before, &c->commands[0], err);
	if (r == 0)
		r = read_run(store, &args->subjects[1], c, &c->after, &c->commands[1], err);
	if (r == 0)
		r = list_class(store, c, err);
	if (r < 0)
		return r;
	if (diff_runs(&c->before, &c->after, c->class.items, c->class.n, &c->diff) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* ---- what explains it ---- */

#define MAX_REASONS 2
#define LONGER_SECONDS 0.05 /* a smaller difference calls for no action */
#define REASON_SHARE \
	0.25 /* of what the second took longer; thread-seconds may be more than all of it */

/* The time on a CPU, or a wait, that has grown most and enough; NULL: there is none left. */
static const struct diff_row *find_reason(const struct diff *d, double longer_by,
					  const struct diff_row *const added[MAX_REASONS])
{
	const struct diff_row *most = NULL;

	for (size_t i = 0; i < d->n; i++) {
		const struct diff_row *row = &d->rows[i];
		const double more = row->after - row->before;
		bool is_reason = strcmp(row->key, "cpu_seconds") == 0;

		for (size_t k = 0; k < N_TIME_CATEGORIES && !is_reason; k++)
			is_reason = time_categories[k].is_wait &&
				    strncmp(row->key, FEATURE_TIME, strlen(FEATURE_TIME)) == 0 &&
				    strcmp(row->key + strlen(FEATURE_TIME),
					   time_categories[k].key) == 0;
		if (is_reason && more >= REASON_SHARE * longer_by && row != added[0] &&
		    (!most || more > most->after - most->before))
			most = row;
	}
	return most;
}

/* "4.2 s more waiting for a CPU (by chance in 3 % of pairs)", where the second took longer. */
static void add_reasons(const struct compared *c, struct buf *out)
{
	const struct diff_row *added[MAX_REASONS] = { NULL };
	const double longer_by = c->after.wall_seconds - c->before.wall_seconds;

	for (size_t n = 0; longer_by >= LONGER_SECONDS && n < MAX_REASONS; n++) {
		const struct diff_row *row = find_reason(&c->diff, longer_by, added);

		if (!row)
			return;
		added[n] = row;
		buf_add_str(out, n > 0 ? "; " : "");
		feature_add_value(out, row->unit, row->after - row->before);
		buf_printf(out, " more %s", row->name);
		if (f64_known(row->p))
			buf_printf(out, " (by chance in %.0f %% of pairs of such runs)",
				   100 * row->p);
		else
			buf_printf(out, " (too few such runs to tell how often by chance: %zu)",
				   c->diff.n_others);
	}
}

int cli_add_difference(struct store *store, const struct cli_subject *before,
		       const struct cli_subject *after, struct buf *out, struct err *err)
{
	CLEANUP(compared_release) struct compared c = { .rung = RUNG_EXACT };
	struct diff_args args = { .words = { "", "" }, .subjects = { *before, *after } };
	int r = compare(store, &args, &c, err);

	if (r < 0)
		return r;
	add_reasons(&c, out);
	if (out->len == 0)
		buf_printf(out, "%s attempt %d took no longer, or no wait explains it",
			   c.after.job_id, c.after.attempt_num);
	return 0;
}

/* ---- output ---- */

static void write_subject(struct json *j, const char *key, const struct run_record *run,
			  const char *command)
{
	json_key_object(j, key);
	json_key_string(j, "job_id", run->job_id);
	json_key_int(j, "attempt", run->attempt_num);
	json_key_string(j, "outcome", outcome_name(run->outcome));
	json_key_string(j, "command", command);
	json_end_object(j);
}

static void write_json(const struct compared *c, struct buf *out)
{
	CLEANUP(buf_release) struct buf reasons = BUF_INIT;
	struct json j;

	add_reasons(c, &reasons);
	json_init_object(&j, out);
	write_subject(&j, "before", &c->before, c->commands[0]);
	write_subject(&j, "after", &c->after, c->commands[1]);
	json_key_string(&j, "basis", c->rung < RUNG_COUNT ? class_rung_name(c->rung) : NULL);
	json_key_u64(&j, "other_runs", c->diff.n_others);
	json_key_f64(&j, "expected_by_chance", diff_expected_by_chance(&c->diff));
	json_key_string(&j, "reasons", reasons.len > 0 ? reasons.data : NULL);
	json_key(&j, "differences");
	diff_write_rows(&j, &c->diff);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static void add_value(struct buf *cell, enum feature_unit unit, double value)
{
	if (f64_known(value))
		feature_add_value(cell, unit, value);
	else
		buf_add_char(cell, '-');
}

static void add_subject(struct buf *out, const char *which, const struct run_record *run,
			const char *command)
{
	buf_printf(out, "%-7s %s attempt %d, %s", which, run->job_id, run->attempt_num,
		   run->outcome ? outcome_name(run->outcome) : "-");
	if (command) {
		buf_add_str(out, ": ");
		cli_add_text(out, command, 100);
	}
	buf_add_char(out, '\n');
}

static void add_usual(const struct compared *c, struct buf *out)
{
	size_t n = c->diff.n_others;

	if (c->rung == RUNG_COUNT)
		buf_add_str(out, "\nusual: not known; they are runs of different kinds\n");
	else if (n < SIMILAR_MIN_RUNS)
		buf_printf(out,
			   "\nusual: not known; %zu earlier run%s of this kind %s too few, %d are "
			   "needed\n",
			   n, n == 1 ? "" : "s", n == 1 ? "is" : "are", SIMILAR_MIN_RUNS);
	else
		buf_printf(
			out,
			"\nusual: 95 %% of the pairs among %zu earlier runs (by %s) and these increase by "
			"at most this\nby chance alone at most %.1f of these rows would be more than "
			"usual, and as many less\n",
			n, class_rung_name(c->rung), diff_expected_by_chance(&c->diff));
}

static void write_text(const struct compared *c, struct buf *out)
{
	static const struct table_column columns[] = {
		{ "", COLUMN_LEFT },	   { "before", COLUMN_RIGHT },
		{ "after", COLUMN_RIGHT }, { "difference", COLUMN_RIGHT },
		{ "usual", COLUMN_RIGHT }, { "", COLUMN_LEFT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf reasons = BUF_INIT;

	add_subject(out, "before:", &c->before, c->commands[0]);
	add_subject(out, "after:", &c->after, c->commands[1]);
	buf_add_char(out, '\n');
	for (size_t i = 0; i < c->diff.n; i++) {
		const struct diff_row *row = &c->diff.rows[i];

		buf_add_str(table_cell(&t), row->name);
		add_value(table_cell(&t), row->unit, row->before);
		add_value(table_cell(&t), row->unit, row->after);
		add_value(table_cell(&t), row->unit, row->after - row->before);
		add_value(table_cell(&t), row->unit, row->usual);
		buf_add_str(table_cell(&t), row->judgement == DIFF_MORE	  ? "more than usual"
					    : row->judgement == DIFF_LESS ? "less than usual"
									  : "");
	}
	table_print(&t, out);
	add_reasons(c, &reasons);
	if (reasons.len > 0)
		buf_printf(out, "\nlonger: %s\n", reasons.data);
	add_usual(c, out);
}

int cli_diff(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings settings = { 0 };
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(compared_release) struct compared c = { .rung = RUNG_EXACT };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct diff_args args = { 0 };
	struct err err = ERR_INIT;
	bool is_writable;
	int r;

	cli_parse(&diff_argp, argc, argv, 0, &args);
	for (size_t i = 0; i < ARRAY_SIZE(args.words) && args.words[i]; i++)
		cli_parse_subject(argv, args.words[i], &args.subjects[i]);
	if (!args.words[1] && args.subjects[0].attempt_num)
		cli_reject(argv, "with which other? proctor diff JOB#1 JOB#2");
	r = cli_open_settings(&settings, &err);
	if (r == 0)
		r = cli_open_learned(&settings, &store, &is_writable, &err);
	if (r == 0)
		r = store ? compare(store, &args, &c, &err) : -ENOENT;
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (args.json)
		write_json(&c, &out);
	else
		write_text(&c, &out);
	return cli_print(&out);
}

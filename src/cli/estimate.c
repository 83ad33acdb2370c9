#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "jobs/jobs.h"
#include "query/query.h"
#include "report/report.h"

struct estimate_args {
	const char *file;
	struct cli_words command;
	int sheet_num;
	bool json;
};

static const struct argp_option estimate_options[] = {
	CLI_OPTION("file", estimate_args, file, "FILE", "A job file instead of one command"),
	CLI_SHORT('f'),
	CLI_OPTION("sheet", estimate_args, sheet_num, "N",
		   "The command is run as sheet N (1 if not given)"),
	CLI_OPTION("json", estimate_args, json, NULL, "Print JSON"),
	CLI_REST(estimate_args, command),
	{ 0 },
};

static const struct argp estimate_argp = {
	.options = estimate_options,
	.args_doc = "-- COMMAND [ARG...]\n-f JOB_FILE",
	.doc = "Tells what a job is expected to need, from runs like it, with the probability that it "
	       "stays within, and how past answers of this kind did. Nothing is run.\v"
	       "Without any history the answer is \"no data\".",
};

/* ---- output ---- */

static void write_cpu(const struct estimate *e, struct buf *out)
{
	buf_add_str(out, "CPU time     ");
	if (!f64_known(e->cpu_seconds)) {
		buf_add_str(out, "-\n");
		return;
	}
	report_add_duration(out, (uint64_t)(e->cpu_seconds * 1e9));
	if (e->cpu_coverage <= 0) {
		buf_add_str(out, " or more: all that is known are runs that were cut short\n");
		return;
	}
	buf_add_str(out, " in the middle, ");
	report_add_duration(out, (uint64_t)(e->cpu_high_seconds * 1e9));
	buf_printf(out, " at most with a probability of %.0f %%\n", e->cpu_coverage * 100);
}

static void write_basis(const struct learning_answer *answer, struct buf *out)
{
	const struct estimate *e = &answer->estimate;

	buf_printf(out, "from         %llu run%s, by %s%s", (unsigned long long)e->n_runs,
		   e->n_runs == 1 ? "" : "s", class_rung_name(e->rung),
		   answer->is_by_sheet ? " of its sheets" : "");
	if (e->n_censored > 0)
		buf_printf(out, "; %llu killed for memory, which would have needed more",
			   (unsigned long long)e->n_censored);
	if (e->n_left_out > 0)
		buf_printf(out, "; %llu from before the last change are left out",
			   (unsigned long long)e->n_left_out);
	if (e->rung == RUNG_PROGRAM)
		buf_add_str(out, "; with other arguments it may need something else");
	buf_add_char(out, '\n');
}

static void write_calibration(const struct calibration *c, struct buf *out)
{
	buf_add_str(out, "past answers ");
	if (c->n_peak == 0) {
		buf_add_str(out, "none to judge by\n");
		return;
	}
	buf_printf(out,
		   "%llu of %llu runs of this kind stayed within the memory estimated (%.0f %%",
		   (unsigned long long)c->n_peak_covered, (unsigned long long)c->n_peak,
		   100 * (double)c->n_peak_covered / (double)c->n_peak);
	if (f64_known(c->promised))
		buf_printf(out, "; promised %.0f %%", c->promised * 100);
	buf_add_str(out, ")\n");
	if (c->n_cpu > 0)
		buf_printf(out, "             %llu of %llu within the CPU time (%.0f %%)\n",
			   (unsigned long long)c->n_cpu_covered, (unsigned long long)c->n_cpu,
			   100 * (double)c->n_cpu_covered / (double)c->n_cpu);
}

#define MUCH_MORE 1.5 /* times the memory: worth to be known */

static void write_text(const struct learning_answer *answer, struct buf *out)
{
	if (answer->estimate.n_runs == 0) {
		buf_add_str(out, "no data: nothing like it has been recorded\n");
		return;
	}
	buf_add_str(out, "peak memory  ");
	report_add_bytes(out, (uint64_t)(answer->estimate.peak_rss_mb * 1024 * 1024));
	buf_printf(out, ", which the next run stays within with a probability of %.0f %%\n",
		   answer->estimate.peak_coverage * 100);
	if (answer->estimate.peak_rss_mb >= MUCH_MORE * answer->estimate.looser_rss_mb) {
		buf_add_str(out, "             ");
		report_add_bytes(out, (uint64_t)(answer->estimate.looser_rss_mb * 1024 * 1024));
		buf_printf(out,
			   " with a probability of %.0f %%: the rest costs %.1f times as much\n",
			   answer->estimate.looser_coverage * 100,
			   answer->estimate.peak_rss_mb / answer->estimate.looser_rss_mb);
	}
	write_cpu(&answer->estimate, out);
	write_basis(answer, out);
	write_calibration(&answer->calibration, out);
}

/* ---- the verb ---- */

static int answer(const struct estimate_args *args, const struct settings *settings,
		  struct learning_answer *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(job_spec_release) struct job_spec spec;
	bool is_writable;
	int r;

	job_spec_init(&spec);
	if (args->file) /* as "proctor run" would make it */
		r = job_file_load(args->file, &spec, err);
	else if (job_spec_set_command(&spec, (const char *const *)args->command.items,
				      args->sheet_num ? args->sheet_num : 1, F64_UNKNOWN) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	else
		r = 0;
	if (r == 0)
		r = cli_open_learned(settings, &store, &is_writable, err);
	if (r < 0 || !store)
		return r;
	return learning_estimate(store,
				 &(struct learning_question){
					 .spec = &spec,
					 .mask = settings->mask,
					 .uid = geteuid(),
					 .input_bytes = job_spec_measure_input(&spec).bytes,
				 },
				 ret, err);
}

int cli_estimate(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings settings = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct learning_answer found;
	struct estimate_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;
	int r;

	json_init(&j, &out);
	cli_parse(&estimate_argp, argc, argv, ARGP_IN_ORDER, &args);
	if (!args.file && args.command.n == 0)
		cli_reject(argv, "of what? proctor estimate -- COMMAND [ARG...], or -f FILE");
	if (args.file && args.command.n > 0)
		cli_reject(argv, "either -f FILE or a command, not both");
	if (args.file && args.sheet_num > 0)
		cli_reject(argv,
			   "--sheet goes with a command; a job file numbers its sheets itself");
	learning_answer_init(&found);
	r = cli_open_settings(&settings, &err);
	if (r == 0)
		r = answer(&args, &settings, &found, &err);
	if (r < 0)
		return cli_fail(
			r == -EINVAL || (args.file && r == -ENOENT) ? CLI_USAGE : CLI_FAILED, &err);
	if (args.json)
		learning_write_answer(&j, &found);
	else
		write_text(&found, &out);
	if (args.json)
		buf_add_char(&out, '\n');
	return cli_print(&out);
}

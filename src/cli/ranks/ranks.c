#include "cli/ranks/ranks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/log.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/output.h"

#define WHICH_FILES "which files? Also folders, and - for standard input"
#define MAX_TOLD 20 /* faults that are told one by one */

/* What the three actions are given; each has some of it. */
struct ranks_args {
	struct ranks_input input;
	struct ranks_job job;
	int64_t clock_error_ns; /* EVENT_UNKNOWN: as where NTP is used */
	enum ranks_format format;
	const char *path;
	bool is_csv, is_json;
};

enum { KEY_CLOCK_ERROR = 256 };

static error_t parse_ranks_option(int key, char *arg, struct argp_state *state)
{
	struct ranks_args *args = state->input;
	double ms = NAN;

	switch (key) {
	case KEY_CLOCK_ERROR:
		if (num_parse_f64(arg, &ms) < 0 || !(ms >= 0) || ms > 1e12)
			cli_usage_error(
				state,
				"--clock-error wants milliseconds such as 2 or 0.5, not '%s'", arg);
		args->clock_error_ns = (int64_t)llround(ms * 1e6);
		return 0;
	case ARGP_KEY_ARG:
		return ARGP_ERR_UNKNOWN; /* they come together */
	case ARGP_KEY_ARGS:
		args->input.files = state->argv + state->next;
		args->input.n_files = state->argc - state->next;
		return 0;
	default:
		return cli_parse_option(key, arg, state);
	}
}

/* ---- reading ---- */

static int tell_fault(void *ctx, const struct fault *fault)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	uint64_t *n_told = ctx;

	if ((*n_told)++ >= MAX_TOLD)
		return 0;
	fault_add_text(&text, fault);
	log_error("%s", text.data);
	return buf_error(&text);
}

static void tell_empty(uint64_t n_files)
{
	if (n_files == 1)
		log_error("there is no record in the file");
	else
		log_error("there is no record in any of the %llu files",
			  (unsigned long long)n_files);
}

/* Files without a record among others that have some: a rank may be missing for that. */
static void warn_of_empty(const struct intake *in)
{
	if (in->n_empty > 0 && in->n_valid > 0)
		log_warning("%llu of %llu files: no record in '%s'%s",
			    (unsigned long long)in->n_empty, (unsigned long long)in->n_files,
			    in->first_empty.data, in->n_empty > 1 ? " and others" : "");
}

static int judge(const struct ranks_input *input, uint64_t n_told)
{
	const struct intake *in = &input->in;
	uint64_t n_all = in->n_invalid + in->n_valid + in->n_cut;

	if (n_told > MAX_TOLD)
		log_error("and %llu more", (unsigned long long)(n_told - MAX_TOLD));
	if (n_all == 0) {
		tell_empty(in->n_files);
		return input->may_be_empty ? CLI_DONE : CLI_USAGE;
	}
	if (in->n_valid == 0 && (in->n_invalid == 0 || input->skips_invalid)) {
		log_error("there is no valid record left");
		return CLI_USAGE;
	}
	if (in->n_invalid == 0 || input->skips_invalid)
		return CLI_DONE;
	log_error("%llu of %llu records are invalid; --skip-invalid goes on without them",
		  (unsigned long long)in->n_invalid, (unsigned long long)n_all);
	return CLI_USAGE;
}

/*
 * Reads all files into t. Faults are printed on stderr, the first few of them one by one.
 * CLI_USAGE: there are invalid records, and nobody said to skip them; a file is not there; or there
 * is no record at all and that may not be. A record that the end of its file cut off is printed and
 * no more.
 */
static int load_files(struct ranks_input *input, struct telemetry *t)
{
	struct err err = ERR_INIT;
	struct intake *in = &input->in;
	uint64_t n_told = 0;
	int r = 0;

	intake_init(in, t, tell_fault, &n_told);
	for (int i = 0; r == 0 && i < input->n_files; i++)
		r = intake_read(in, input->files[i], &err);
	warn_of_empty(in);
	intake_release(in);
	if (r < 0 && err.code == 0)
		err_set(&err, r, "cannot read the telemetry: %s", strerror(-r));
	return r < 0 ? cli_fail(CLI_USAGE, &err) : judge(input, n_told);
}

/* ---- the ranks of a job, as they were recorded ---- */

#define SQLITE "sqlite:"

void ranks_check_job(char **argv, const struct ranks_job *job)
{
	const char *url = job->store ? job->store : "-";
	bool is_sqlite = strncmp(url, SQLITE, strlen(SQLITE)) == 0;

	if (is_sqlite ? url[strlen(SQLITE)] == '\0' : strstr(url, "://") != NULL)
		cli_reject(argv, "--store wants a database, as PATH or sqlite:PATH, not '%s'", url);
}

/* A database that is named has to be there; our own may not have been made yet. */
int ranks_read_job(const struct ranks_job *job, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	const char *path = job->store;
	struct paths paths;
	int r;

	if (path && strncmp(path, SQLITE, strlen(SQLITE)) == 0) {
		path += strlen(SQLITE); /* "sqlite:///var/x.db" is as good as "sqlite:/var/x.db" */
		path += strncmp(path, "///", 3) == 0 ? 2 : 0;
	}
	r = path ? store_open(path, STORE_READ, &store, err) : cli_find_paths_to_read(&paths, err);
	if (r == 0 && !path)
		r = cli_open_store(&paths, STORE_READ, &store, err);
	if (r == 0)
		r = store_read_attempt(store, job->job_id, job->attempt_num, ret_attempt, err);
	if (r == 0)
		r = recorded_ranks_read(store, ret_attempt, ret, err);
	if (r < 0 || ret->n_points > 0)
		return r;
	return attempt_has_ranks(ret_attempt)
		       ? err_set(err, -ENODATA,
				 "attempt %d of job %s has ranks, but no samples of them are kept",
				 ret_attempt->attempt_num, ret_attempt->job_id)
		       : err_set(err, -ENODATA,
				 "attempt %d of job %s has no ranks: they are known by what "
				 "torchrun, mpirun or srun tell their processes, or by \"ranks:\" in "
				 "a job file",
				 ret_attempt->attempt_num, ret_attempt->job_id);
}

static int load_job(const struct ranks_job *job, struct ranks_input *input, struct telemetry *t)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	r = ranks_read_job(job, &a, &ranks, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	r = recorded_ranks_gather(&ranks, t);
	if (r < 0) {
		err_set(&err, r, "cannot gather the telemetry: %s", strerror(-r));
		return cli_fail(CLI_FAILED, &err);
	}
	input->in.n_valid = t->n_events;
	return CLI_DONE;
}

/* ---- validate ---- */

static const struct argp_option validate_options[] = {
	CLI_OPTION("json", ranks_args, is_json, NULL, "Print one JSON object with all faults"),
	CLI_SHORT('J'),
	{ 0 },
};

static const struct argp ranks_validate_argp = {
	.options = validate_options,
	.parser = parse_ranks_option,
	.args_doc = "FILE...",
	.doc = "Checks every telemetry record of the files (JSON Lines, a JSON array, an object with events, "
	       "CSV; also in gzip or zstd; folders; - is standard input). Prints one line per fault and "
	       "exits with 2 if there is one.",
};

struct listing {
	struct output *out;
	struct json json;
	bool is_json;
	uint64_t n_unreadable; /* files */
};

static int list_fault(void *ctx, const struct fault *fault)
{
	struct listing *l = ctx;

	if (!l->is_json) {
		fault_add_text(&l->out->buf, fault);
		buf_add_char(&l->out->buf, '\n');
		return output_pass(l->out);
	}
	json_begin_object(&l->json);
	json_key_string(&l->json, "file", fault->file);
	json_key_u64(&l->json, "line", fault->line);
	json_key_string(&l->json, "reason", reason_name(fault->reason));
	if (fault->field.s) {
		json_key(&l->json, "field");
		json_str_n(&l->json, fault->field.s, fault->field.n);
	}
	json_end_object(&l->json);
	return output_pass(l->out);
}

/* A file that cannot be read is a fault like others, without a line; the rest is still checked. */
static int list_unreadable(struct listing *l, const char *file, struct err *err)
{
	log_error("%s", err->text);
	*err = (struct err)ERR_INIT;
	l->n_unreadable++;
	if (!l->is_json)
		return 0;
	json_begin_object(&l->json);
	json_key_string(&l->json, "file", file);
	json_key_null(&l->json, "line");
	json_key_string(&l->json, "reason", "unreadable");
	json_end_object(&l->json);
	return output_pass(l->out);
}

/* The faults come while reading, so the counts come last. */
static int validate(const struct ranks_args *args, struct output *out, struct err *err,
		    bool *ret_is_fine)
{
	struct listing l = { .out = out, .is_json = args->is_json };
	struct intake intake;
	uint64_t n_invalid;
	int r = 0;

	intake_init(&intake, NULL, list_fault, &l);
	json_init(&l.json, &out->buf);
	if (args->is_json) {
		json_begin_object(&l.json);
		json_key_array(&l.json, "errors");
	}
	for (int i = 0; r == 0 && i < args->input.n_files; i++) {
		r = intake_read(&intake, args->input.files[i], err);
		if (r < 0 && err->code != 0 && r != -ENOMEM)
			r = list_unreadable(&l, args->input.files[i], err);
	}
	n_invalid = intake.n_invalid + intake.n_cut;
	if (r == 0 && args->is_json) {
		json_end_array(&l.json);
		json_key_u64(&l.json, "valid", intake.n_valid);
		json_key_u64(&l.json, "invalid", n_invalid);
		json_key_u64(&l.json, "files", intake.n_files);
		json_end_object(&l.json);
		buf_add_char(&out->buf, '\n');
	} else if (r == 0 && intake.n_files > 0) {
		buf_printf(&out->buf, "%llu valid, %llu invalid\n",
			   (unsigned long long)intake.n_valid, (unsigned long long)n_invalid);
	}
	*ret_is_fine = intake.n_valid > 0 && n_invalid + l.n_unreadable == 0;
	if (r == 0 && intake.n_valid + n_invalid + l.n_unreadable == 0)
		tell_empty(intake.n_files);
	warn_of_empty(&intake);
	intake_release(&intake);
	return r;
}

static int ranks_validate(int argc, char **argv)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct ranks_args args = { 0 };
	struct err err = ERR_INIT;
	bool is_fine = false;
	int r, status;

	cli_parse(&ranks_validate_argp, argc, argv, 0, &args);
	if (args.input.n_files == 0)
		cli_reject(argv, WHICH_FILES);
	r = output_open(&out, NULL, &err);
	if (r == 0)
		r = validate(&args, &out, &err, &is_fine);
	if (r < 0 && err.code != 0)
		return cli_fail(CLI_USAGE, &err);
	status = output_end(&out, r, &err);
	return status == CLI_DONE && !is_fine ? CLI_USAGE : status;
}

/* ---- merge ---- */

static const struct argp_option merge_options[] = {
	CLI_OPTION("csv", ranks_args, is_csv, NULL,
		   "Print comma-separated values instead of one JSON object per line"),
	CLI_SHORT('C'),
	CLI_OPTION("output", ranks_args, path, "FILE", "Write to FILE"),
	CLI_SHORT('o'),
	CLI_OPTION("skip-invalid", ranks_args, input.skips_invalid, NULL,
		   "Go on without invalid records"),
	CLI_SHORT('S'),
	{ 0 },
};

static const struct argp ranks_merge_argp = {
	.options = merge_options,
	.parser = parse_ranks_option,
	.args_doc = "FILE...",
	.doc = "Prints the samples of all ranks in the order of time, each rank moved so that all begin "
	       "together (aligned_timestamp_ns). Where start times differ that alignment is a guess: "
	       "\"proctor ranks analyze\" does not rest on it.",
};

#define ALIGNED 2

static const char *const columns[] = {
	"rank",
	"timestamp_ns",
	"aligned_timestamp_ns",
	"device_used_bytes",
	"allocator_reserved_bytes",
	"allocator_allocated_bytes",
	"allocator_change_bytes",
	"device_id", /* only where a rank has several */
};

/* Samples of one rank and moment that are looked through for one that is given twice: hostile files
 * have millions. Farther away it is printed again; nothing is left out. */
#define MAX_COMPARED 256

struct writer {
	struct output *out;
	bool is_csv, has_devices;
	const struct identity *identities;
	uint64_t n_repeats;
};

static void write_sample(const struct writer *w, const struct timeline_point *p)
{
	const struct sample *s = p->sample;
	const int64_t values[ARRAY_SIZE(columns)] = {
		p->rank,	   s->timestamp_ns,    0 /* wider */,	s->used_bytes,
		s->reserved_bytes, s->allocated_bytes, s->change_bytes, s->device,
	};
	struct buf *out = &w->out->buf;
	struct csv csv;
	struct json j;

	csv_init(&csv, out);
	json_init(&j, out);
	if (!w->is_csv)
		json_begin_object(&j);
	for (size_t i = 0; i < ARRAY_SIZE(columns) - !w->has_devices; i++) {
		if (!w->is_csv)
			json_key(&j, columns[i]);
		else if (i == ALIGNED)
			buf_add_char(out, ',');
		if (i == ALIGNED) {
			summary_add_i128(out, p->aligned_ns);
			j.need_comma = true;
		} else if (w->is_csv) {
			csv_i64(&csv, values[i]);
		} else {
			json_i64(&j, values[i]);
		}
	}
	if (w->is_csv) {
		csv_end_row(&csv);
		return;
	}
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* It says neither of which process it is nor of which device. */
static bool is_vague(const struct writer *w, const struct sample *s)
{
	return s->device < 0 && w->identities[s->identity].pid < 0;
}

/* What was merged does not say of which process a sample is, nor always of which device. */
static bool is_of_same(const struct writer *w, const struct sample *a, const struct sample *b)
{
	if (a->identity == b->identity)
		return a->device == b->device;
	if (w->identities[a->identity].pid >= 0 && w->identities[b->identity].pid >= 0)
		return false;
	return a->device == b->device || is_vague(w, a) || is_vague(w, b);
}

/* Files that are given twice, or beside what was merged of them, have the same samples again. */
static bool is_repeat(const struct writer *w, const struct sample *a, const struct sample *b)
{
	return a->used_bytes == b->used_bytes && a->reserved_bytes == b->reserved_bytes &&
	       a->allocated_bytes == b->allocated_bytes && a->change_bytes == b->change_bytes &&
	       is_of_same(w, a, b);
}

/*
 * The first is printed, or one that has a device before one that does not say. Samples of one rank
 * and moment lie one behind the other, those of its devices by turns.
 */
static bool is_given_again(const struct writer *w, const struct stream *stream,
			   const struct sample *s)
{
	const struct sample *last = stream->samples + stream->n, *begin = s, *end = s;
	bool is_of_device = false;

	while (begin > stream->samples && s - begin < MAX_COMPARED &&
	       begin[-1].timestamp_ns == s->timestamp_ns)
		begin--;
	for (const struct sample *o = begin; o < s; o++)
		if (o->device == s->device && is_repeat(w, o, s))
			return true;
	if (!is_vague(w, s))
		return false;
	while (end < last && end - s <= MAX_COMPARED && end->timestamp_ns == s->timestamp_ns)
		end++;
	for (const struct sample *o = begin; o < end; o++) {
		if (is_vague(w, o) || !is_repeat(w, o, s))
			continue;
		if (o->device == s->device)
			return false;
		is_of_device = true;
	}
	return is_of_device;
}

static int write_point(void *ctx, const struct timeline_point *p)
{
	struct writer *w = ctx;

	if (is_given_again(w, p->stream, p->sample)) {
		w->n_repeats++;
		return 0;
	}
	write_sample(w, p);
	return output_pass(w->out);
}

/* Whether samples of several devices of a rank are printed, which its number does not tell apart.
 */
static bool has_devices(const struct writer *w, const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = a->ranks[i].stream;
		const struct sample *first = NULL;

		for (const struct sample *o = s->samples; o < s->samples + s->n; o++) {
			if ((first && o->device == first->device) || is_given_again(w, s, o))
				continue;
			if (first)
				return true;
			first = o;
		}
	}
	return false;
}

/* What is not on the time line; the rest of the notes is for who analyses. */
static void tell_left_out(const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT, shown = BUF_INIT;

	if (a->n_others_all > 0)
		reference_note_text(a, &(struct note){ .code = NOTE_MULTIPLE_JOB_IDS }, &text);
	utf8_add_text(&shown, text.data, text.len);
	if (shown.len > 0)
		log_warning("%s", shown.data);
}

static int merge(const struct ranks_args *args, struct telemetry *t)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct writer w = { .out = &out, .is_csv = args->is_csv, .identities = t->identities };
	struct err err = ERR_INIT;
	struct csv csv;
	struct rank_analysis a;
	int r = rank_analysis_init(&a, t);

	if (r < 0)
		err_set(&err, r, "cannot merge: %s", strerror(-r));
	else
		r = output_open(&out, args->path, &err);
	if (r == 0)
		tell_left_out(&a);
	w.has_devices = r == 0 && has_devices(&w, &a);
	csv_init(&csv, &out.buf);
	for (size_t i = 0; r == 0 && args->is_csv && i < ARRAY_SIZE(columns) - !w.has_devices; i++)
		csv_word(&csv, columns[i]);
	if (r == 0 && args->is_csv)
		csv_end_row(&csv);
	if (r == 0)
		r = analysis_walk_timeline(&a, write_point, &w);
	if (w.n_repeats > 0)
		log_warning("%llu samples were given more than once, and are printed once",
			    (unsigned long long)w.n_repeats);
	rank_analysis_release(&a);
	return output_end(&out, r, &err);
}

static int open_telemetry(struct telemetry **ret)
{
	struct err err = ERR_INIT;

	*ret = telemetry_new();
	if (*ret)
		return CLI_DONE;
	err_set(&err, -ENOMEM, "there is no memory left");
	return cli_fail(CLI_FAILED, &err);
}

static int ranks_merge(int argc, char **argv)
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = NULL;
	struct ranks_args args = { 0 };
	int status;

	cli_parse(&ranks_merge_argp, argc, argv, 0, &args);
	if (args.input.n_files == 0)
		cli_reject(argv, WHICH_FILES);
	status = open_telemetry(&t);
	if (status == CLI_DONE)
		status = load_files(&args.input, t);
	return status == CLI_DONE ? merge(&args, t) : status;
}

/* ---- analyze ---- */

static const struct argp_option analyze_options[] = {
	{ "clock-error", KEY_CLOCK_ERROR, "MS", 0,
	  "How far the clocks of hosts that do not say may be off (10 ms)", 0 },
	CLI_CHOICE("format", ranks_args, format, "NAME", "text, md, html or json"),
	CLI_SHORT('F'),
	RANKS_JOB_OPTIONS(ranks_args,
			  "The ranks of this job, as they were recorded, instead of files"),
	CLI_OPTION("json", ranks_args, is_json, NULL, "The same as --format json"),
	CLI_SHORT('J'),
	CLI_OPTION("output", ranks_args, path, "FILE", "Write to FILE"),
	CLI_SHORT('o'),
	CLI_OPTION("skip-invalid", ranks_args, input.skips_invalid, NULL,
		   "Go on without invalid records"),
	CLI_SHORT('S'),
	{ 0 },
};

static const struct argp ranks_analyze_argp = {
	.options = analyze_options,
	.parser = parse_ranks_option,
	.args_doc = "FILE...\n--job ID",
	.doc = "Tells which rank's memory began to rise first, with what probability, in which phase; or why "
	       "that cannot be told, and what would settle it. Reads what \"ranks validate\" reads.",
};

static int analyze(const struct ranks_args *args, struct telemetry *t)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	struct rank_analysis a;
	int r = rank_analysis_init(&a, t);

	if (r == 0)
		r = rank_analysis_run(&a, args->clock_error_ns);
	if (r < 0)
		err_set(&err, r, "cannot analyse: %s", strerror(-r));
	else
		r = output_open(&out, args->path, &err);
	if (r == 0)
		r = ranks_write(&out.buf, &a, &args->input, args->format);
	rank_analysis_release(&a);
	return output_end(&out, r, &err);
}

static int ranks_analyze(int argc, char **argv)
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = NULL;
	struct ranks_args args = { .clock_error_ns = EVENT_UNKNOWN };
	int status;

	cli_parse(&ranks_analyze_argp, argc, argv, 0, &args);
	if (!args.job.job_id && args.input.n_files == 0)
		cli_reject(argv, WHICH_FILES "; or --job ID for what was recorded");
	if (args.job.job_id && args.input.n_files > 0)
		cli_reject(argv, "files or --job, not both");
	if ((args.job.attempt_num > 0 || args.job.store) && !args.job.job_id)
		cli_reject(argv, "--attempt and --store go with --job");
	ranks_check_job(argv, &args.job);
	if (args.is_json)
		args.format = RANKS_JSON;
	args.input.may_be_empty = args.format == RANKS_JSON;
	status = open_telemetry(&t);
	if (status == CLI_DONE)
		status = args.job.job_id ? load_job(&args.job, &args.input, t)
					 : load_files(&args.input, t);
	return status == CLI_DONE ? analyze(&args, t) : status;
}

/* ---- the verb ---- */

/* One row per action: its name, its function, its options, and its line in "ranks --help". */
static const struct cli_sub actions[] = {
	{ "analyze", ranks_analyze, &ranks_analyze_argp, "tell which rank's memory rose first" },
	{ "merge", ranks_merge, &ranks_merge_argp,
	  "print the samples of all ranks on one time line" },
	{ "validate", ranks_validate, &ranks_validate_argp, "check every record" },
};

int cli_ranks(int argc, char **argv)
{
	static const struct cli_sub_table table = {
		.verb = "ranks",
		.what = "an action",
		.usage = "Usage: proctor ranks ACTION [OPTION...] FILE...\n"
			 "Analyses telemetry of a job of many ranks. The actions:\n\n",
		.items = actions,
		.n = ARRAY_SIZE(actions),
	};

	return cli_run_sub(&table, argc, argv);
}

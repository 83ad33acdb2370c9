#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/live.h"
#include "cli/progress.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "report/report.h"

#define INTERVAL_MIN_SECONDS 0.1
#define INTERVAL_MAX_SECONDS 300.0
#define GRACE_SECONDS 2.0
#define KILL_AFTER_SECONDS 5.0
#define PATIENCE_MAX_SECONDS 86400.0
#define QUEUED_MAX_BYTES (17 << 20) /* more than a daemon takes */

enum run_key {
	KEY_SHEET = 256,
	KEY_SYSCALLS,
	KEY_JSON,
	KEY_OUTPUT,
	KEY_LEAVE,
	KEY_GRACE,
	KEY_KILL_AFTER,
	KEY_REPORT,
};

struct run_args {
	const char *job_id;
	const char *file;
	const char *output;
	int sheet_num;
	double interval_seconds; /* NaN: what the configuration says */
	double grace_seconds, kill_after_seconds;
	bool json, quiet, report, leave_background;
	enum run_syscalls_how syscalls;
	bool is_sampled;     /* and only some of them timed */
	int queue_fd;	     /* the job file, if a daemon has started us; else -1 */
	bool makes_log;	     /* and says that we are to keep one */
	struct err log_err;  /* why it could not be made */
	const char *db_path; /* its own database, where it is our user's; NULL */
	uint64_t submission; /* which it is; U64_UNKNOWN */
	char **command;
	int n_command;
};

static const struct argp_option run_argp_options[] = {
	{ "file", 'f', "FILE", 0, "Run the sheets of a job file instead of one command", 0 },
	{ "job", 'j', "ID", 0, "Name the job; running it again makes another attempt of it", 0 },
	{ "sheet", KEY_SHEET, "N", 0, "Number the command as sheet N (1 if not given)", 0 },
	{ "interval", 'i', "SECONDS", 0, "Time between two samples, 0.1 to 300 (5)", 0 },
	{ "syscalls", KEY_SYSCALLS, "HOW", 0,
	  "How to count system calls: auto (by eBPF where this user or a daemon of root may), ebpf, "
	  "sampled (the same with times of one call in 16, at less cost), strace (tens of times "
	  "slower; setuid programs get no rights, unless for root), or off. Without it a daemon "
	  "counts them, or strace where the configuration has strace_enabled",
	  0 },
	{ "json", KEY_JSON, NULL, 0, "Write the whole report as JSON to stdout at the end", 0 },
	{ "output", KEY_OUTPUT, "FILE", 0, "Write that JSON to FILE instead; - is stdout", 0 },
	{ "report", KEY_REPORT, NULL, 0, "Print the report for people to stdout at the end", 0 },
	{ "quiet", 'q', NULL, 0, "No summary, no progress bar, no warnings", 0 },
	{ "leave-background", KEY_LEAVE, NULL, 0,
	  "Leave processes running that outlive the command; without it they are ended", 0 },
	{ "grace", KEY_GRACE, "TIME", 0,
	  "Wait so long for background processes to end by themselves, such as 30s (2s)", 0 },
	{ "kill-after", KEY_KILL_AFTER, "TIME", 0,
	  "From SIGTERM to SIGKILL when processes are ended, such as 30s (5s)", 0 },
	{ 0 },
};

static void parse_interval(struct argp_state *state, const char *text, double *ret)
{
	if (num_parse_f64(text, ret) < 0 || *ret < INTERVAL_MIN_SECONDS ||
	    *ret > INTERVAL_MAX_SECONDS)
		cli_usage_error(state, "--interval wants seconds from 0.1 to 300, not '%s'", text);
}

/* "0" and "0s" too: no patience at all. */
static double parse_patience(struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_duration(text, &seconds) < 0 || !(seconds >= 0) ||
	    seconds > PATIENCE_MAX_SECONDS)
		cli_usage_error(state,
				"%s wants a length of time from 0s to 1d, such as 30s, not '%s'",
				option, text);
	return seconds;
}

static void parse_job_id(struct argp_state *state, const char *text, const char **ret)
{
	if (!job_id_is_valid(text))
		cli_usage_error(
			state,
			"--job wants up to %d letters, digits or . _ - : / @ +, not starting with '-' or "
			"'.', not '%s'",
			JOB_ID_MAX, text);
	*ret = text;
}

/* Where only some calls are to be timed and the configuration does not say how many: one in so
 * many.
 */
#define SAMPLED_TIME_EVERY 16

static void parse_syscalls(struct argp_state *state, const char *text, struct run_args *args)
{
	static const struct {
		const char *name;
		enum run_syscalls_how how;
		bool is_sampled;
	} rows[] = {
		{ "auto", RUN_SYSCALLS_AUTO, false },	{ "ebpf", RUN_SYSCALLS_EBPF, false },
		{ "sampled", RUN_SYSCALLS_EBPF, true }, { "strace", RUN_SYSCALLS_STRACE, false },
		{ "off", RUN_SYSCALLS_OFF, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(text, rows[i].name) == 0) {
			args->syscalls = rows[i].how;
			args->is_sampled = rows[i].is_sampled;
			return;
		}
	cli_usage_error(state, "--syscalls wants auto, ebpf, sampled, strace or off, not '%s'",
			text);
}

static unsigned time_every(const struct run_args *args, const struct config *config)
{
	return args->is_sampled && config->syscalls_time_every <= 1
		       ? SAMPLED_TIME_EVERY
		       : (unsigned)config->syscalls_time_every;
}

/* What must be said about the arguments as a whole. */
static void check_args(struct argp_state *state, const struct run_args *args)
{
	if (!args->file && args->n_command == 0)
		cli_usage_error(state,
				"what shall be run? proctor run -- COMMAND [ARG...], or -f FILE");
	if (args->file && args->n_command > 0)
		cli_usage_error(state, "either -f FILE or a command, not both");
	if (args->file && args->sheet_num > 0)
		cli_usage_error(
			state, "--sheet goes with a command; a job file numbers its sheets itself");
	if (args->json && args->report && !args->output)
		cli_usage_error(
			state,
			"--json and --report both go to stdout: send one away with --output");
}

static error_t parse_run_option(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;

	switch (key) {
	case 'f':
		if (args->file)
			cli_usage_error(state, "one job file at a time, not also '%s'", arg);
		args->file = arg;
		return 0;
	case 'j':
		parse_job_id(state, arg, &args->job_id);
		return 0;
	case KEY_SHEET:
		args->sheet_num = cli_parse_int(state, "--sheet", arg, 1, 1000000);
		return 0;
	case 'i':
		parse_interval(state, arg, &args->interval_seconds);
		return 0;
	case KEY_SYSCALLS:
		parse_syscalls(state, arg, args);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_OUTPUT:
		args->output = strcmp(arg, "-") == 0 ? NULL : arg;
		args->json = true;
		return 0;
	case KEY_REPORT:
		args->report = true;
		return 0;
	case 'q':
		args->quiet = true;
		return 0;
	case KEY_LEAVE:
		args->leave_background = true;
		return 0;
	case KEY_GRACE:
		args->grace_seconds = parse_patience(state, "--grace", arg);
		return 0;
	case KEY_KILL_AFTER:
		args->kill_after_seconds = parse_patience(state, "--kill-after", arg);
		return 0;
	case ARGP_KEY_ARGS:
		args->command = state->argv + state->next;
		args->n_command = state->argc - state->next;
		return 0;
	case ARGP_KEY_SUCCESS:
		check_args(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp run_argp = {
	.options = run_argp_options,
	.parser = parse_run_option,
	.args_doc = "-- COMMAND [ARG...]\n-f FILE",
	.doc = "Runs a command, or the sheets of a job file, as a job: profiles all its processes, records "
	       "them, and ends with a short summary on stderr.\v"
	       "Exits with the command's own status: its exit code, 128 + the signal that killed it, 127 if "
	       "it was not found, 126 if it could not be run; 124 if a time limit of the job file ended it.",
};

/* ---- what is to be run ---- */

/* "make-20261115-034512-3f2a": readable, and not taken by another run. */
static const char *make_job_id(struct job_spec *spec, const char *command)
{
	const char *slash = strrchr(command, '/');
	uint64_t now = clock_wall_ns();
	time_t seconds = (time_t)(now / 1000000000u);
	char text[JOB_ID_MAX + 1], when[32] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	snprintf(text, sizeof(text), "%.60s-%s-%04x", slash ? slash + 1 : command, when,
		 (unsigned)(((now / 1000) ^ ((uint64_t)getpid() << 4)) & 0xffff));
	for (char *p = text; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@+",
			    *p))
			*p = '_';
	if (text[0] == '-' || text[0] == '.')
		text[0] = '_';
	return arena_strdup(&spec->arena, text);
}

/* "tour" of "examples/tour.yaml": every run of one file is an attempt of one job. */
static const char *job_id_of_file(struct job_spec *spec, const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	const char *dot = strrchr(base, '.');
	char *id = arena_strndup(&spec->arena, base,
				 dot && dot != base ? (size_t)(dot - base) : strlen(base));

	return id && job_id_is_valid(id) ? id : make_job_id(spec, base);
}

static int spec_from_command(const struct run_args *args, struct job_spec *spec)
{
	if (job_spec_set_command(spec, (const char *const *)args->command,
				 args->sheet_num ? args->sheet_num : 1) < 0)
		return -ENOMEM;
	spec->job_id = args->job_id ? args->job_id : make_job_id(spec, args->command[0]);
	return spec->job_id ? 0 : -ENOMEM;
}

/* From the queue's file: we may not be able to open it by its name, and it may have none here. */
static int load_queued(struct run_args *args, struct job_spec *spec, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const char *job;
	int r = io_read_fd(args->queue_fd, QUEUED_MAX_BYTES, &text);

	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", args->file, strerror(-r));
	job = queue_file_job(text.data, text.len, &args->submission);
	return job_file_parse(job, text.len - (size_t)(job - text.data), args->file, spec, err);
}

static int make_spec(struct run_args *args, struct job_spec *spec, struct err *err)
{
	int r;

	if (!args->file) {
		r = spec_from_command(args, spec);
		return r < 0 ? err_set(err, r, "out of memory") : 0;
	}
	r = args->queue_fd >= 0 ? load_queued(args, spec, err)
				: job_file_load(args->file, spec, err);
	if (r < 0)
		return r;
	if (args->job_id)
		spec->job_id = args->job_id;
	else if (!spec->job_id)
		spec->job_id = job_id_of_file(spec, args->file);
	return 0;
}

/* ---- what is said at the end ---- */

static int write_json(const struct attempt *a, int fd)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	int r = report_write(a, REPORT_JSON, &out);

	if (r == 0 && fd >= 0)
		r = io_write_all(fd, out.data, out.len);
	else if (r == 0)
		return cli_print(&out);
	if (r < 0)
		log_error("cannot write the report: %s", strerror(-r));
	return r;
}

static void print_report(const struct attempt *a)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (report_write(a, REPORT_TEXT, &out) == 0)
		cli_print(&out);
}

static void print_summary(const struct attempt *a)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (report_write_summary(a, &out) == 0)
		io_write_all(STDERR_FILENO, out.data, out.len);
}

/* Which of its ranks was first, as "proctor report" says it: from what was recorded. */
static void judge_ranks(const struct paths *paths, const struct attempt *a,
			struct attempt *recorded)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct err err = ERR_INIT;
	int r;

	if (!attempt_has_ranks(a))
		return;
	r = cli_open_store(paths, &store, &err);
	if (r == 0)
		r = store_read_attempt(store, a->job_id, a->attempt_num, recorded, &err);
	if (r == 0)
		r = recorded_ranks_judge(store, recorded, &err);
	if (r < 0)
		log_warning("the report says nothing of its ranks: %s", err.text);
}

/* A daemon that was told of phases has not told us: they are in the record alone. */
static void lend(struct attempt *a, const struct attempt *recorded)
{
	a->telemetry = recorded->telemetry;
	if (a->n_phases == 0) {
		a->phases = recorded->phases;
		a->n_phases = recorded->n_phases;
	}
}

/* Before the record is released. */
static void take_back(struct attempt *a, const struct attempt *recorded)
{
	a->telemetry = NULL;
	if (a->phases == recorded->phases) {
		a->phases = NULL;
		a->n_phases = 0;
	}
}

static void tell_end(const struct run_args *args, struct attempt *a, const struct paths *paths,
		     int output_fd)
{
	CLEANUP(attempt_release) struct attempt recorded;

	attempt_init(&recorded);
	if (paths && (args->json || args->report))
		judge_ranks(paths, a, &recorded);
	lend(a, &recorded);
	if (args->json)
		write_json(a, output_fd);
	if (args->report)
		print_report(a);
	if (!args->quiet && !args->report)
		print_summary(a);
	take_back(a, &recorded);
}

/* ---- the verb ---- */

static const char *describe(const struct run_args *args, const struct job_spec *spec,
			    const struct mask *mask, struct buf *out)
{
	if (args->file)
		buf_add_str(out, args->file);
	else
		mask_argv(mask, spec->sheets[0].argv, out);
	return out->data;
}

/* Whatever is wrong with us, the command is to run. Returns only if there is none, or it cannot. */
static int run_bare(const struct run_args *args, const struct err *err)
{
	if (args->file)
		return cli_fail(CLI_FAILED, err);
	log_error("the command runs without being profiled: %s", err->text);
	execvp(args->command[0], args->command);
	log_error("cannot run %s: %s", args->command[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

static int run(const struct run_args *args, struct settings *ctx, const char *why_no_db,
	       const struct job_spec *spec, int output_fd)
{
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	struct progress progress = PROGRESS_INIT;
	struct run_options options = {
		.spec = spec,
		.command = describe(args, spec, ctx->mask, &command),
		.mask = ctx->mask,
		.state_dir = ctx->paths.state_dir,
		.db_path = why_no_db ? NULL : ctx->paths.db,
		.why_no_db = why_no_db,
		.jsonl_path = why_no_db || !ctx->paths.jsonl[0] ? NULL : ctx->paths.jsonl,
		.jsonl_max_bytes = config_log_bytes(&ctx->config),
		.anomaly = &ctx->config.anomaly,
		.retention = &ctx->config.retention,
		.reads_gpus = ctx->config.gpu_enabled,
		.syscalls = { .how = args->syscalls,
			      .may_ebpf = ctx->config.ebpf_enabled && ctx->config.syscalls_enabled,
			      .may_strace = ctx->config.strace_enabled,
			      .time_every = time_every(args, &ctx->config) },
		.is_submitted = args->queue_fd >= 0,
		.is_for_other = args->makes_log,
		.why_no_output = args->log_err.code < 0 ? args->log_err.text : NULL,
		.submission = args->submission,
		.interval_seconds = isnan(args->interval_seconds) ? ctx->config.interval_seconds
								  : args->interval_seconds,
		.leave_background = args->leave_background,
		.grace_seconds = args->grace_seconds,
		.kill_after_seconds = args->kill_after_seconds,
	};
	struct err err = ERR_INIT;
	struct attempt attempt;
	int status = CLI_FAILED;

	if (args->file && !args->quiet && progress_open(&progress)) {
		options.progress = progress_show;
		options.progress_ctx = &progress;
	}
	attempt_init(&attempt);
	if (run_job(&options, &attempt, &status, &err) < 0)
		status = run_bare(args, &err);
	else
		tell_end(args, &attempt, why_no_db ? NULL : &ctx->paths, output_fd);
	progress_close(&progress);
	attempt_release(&attempt);
	return status;
}

static int open_output(const char *path, int *ret_fd, struct err *err)
{
	if (!path)
		return 0;
	*ret_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (*ret_fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

/*
 * The job file, by whose lock the daemon knows that the job is being run, is our
 * stdin: it is kept until we end, where no command gets at it.
 */
static void take_queue_file(struct run_args *args)
{
	const char *how = getenv(QUEUED_VARIABLE);
	CLEANUP(close_fd) int null_fd = -1;

	if (!how)
		return;
	args->makes_log = strcmp(how, QUEUED_WITHOUT_LOG) == 0;
	args->db_path = args->makes_log || !getenv(QUEUED_DB_VARIABLE)
				? NULL
				: strdup(getenv(QUEUED_DB_VARIABLE)); /* as long as we live */
	unsetenv(QUEUED_VARIABLE);
	unsetenv(QUEUED_DB_VARIABLE);
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	args->queue_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (args->queue_fd < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0)
		log_warning("the daemon may not see that this job runs: %s", strerror(errno));
}

/* What the commands print, where nobody has said where it goes. */
static int open_log(const struct paths *paths, const char *job_id, struct err *err)
{
	char folder[PATH_BYTES + 16], path[PATH_BYTES + JOB_ID_MAX + 32], name[JOB_LOG_NAME_BYTES];
	CLEANUP(close_fd) int fd = -1;
	int r;

	snprintf(folder, sizeof(folder), "%s/logs", paths->state_dir);
	r = path_make_dir(folder, err);
	if (r < 0)
		return r;
	job_log_name(job_id, name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

/* The job does not depend on it. */
static void make_log(struct run_args *args, const struct paths *paths, const char *job_id)
{
	struct err err = ERR_INIT;
	int r = 0;

	if (args->makes_log && !paths->state_dir[0])
		r = err_set(&err, -ENOENT, "there is no folder for it");
	else if (args->makes_log)
		r = open_log(paths, job_id, &err);
	if (r < 0)
		err_set(&args->log_err, r, "what the job prints is lost: %s", err.text);
	if (r < 0)
		log_error("%s", args->log_err.text);
}

/* Nobody reads what the runner of a submitted job says: it is recorded. */
static int refuse(const struct run_args *args, const char *db_path, const struct err *err)
{
	const struct refusal refusal = {
		.job_id = args->job_id,
		.command = args->file,
		.reason = err->text,
		.db_path = db_path,
		.submission = args->submission,
		.is_for_other = args->makes_log,
	};

	if (args->queue_fd >= 0 && args->job_id)
		run_record_refusal(&refusal);
	return cli_fail(CLI_USAGE, err);
}

/* The job is watched all the same, by a daemon with its own settings or here by the defaults. */
static void tell_slips(const struct buf *slips)
{
	for (const char *line = slips->data, *end; (end = strchr(line, '\n')); line = end + 1)
		log_warning("%.*s", (int)(end - line), line);
}

/* Of a daemon that may have been started before the configuration was as it is. */
static int open_settings(const struct run_args *args, struct settings *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf slips = BUF_INIT;
	int r;

	ret->paths.state_dir[0] = '\0'; /* which is known even where the configuration is not */
	r = settings_open_loosely(ret, &slips, err);
	if (r == 0)
		tell_slips(&slips);
	if (r < 0 || args->db_path)
		return r < 0 ? r : paths_set_db(&ret->paths, args->db_path, err);
	/* or nobody finds it before that is started again */
	live_follow_daemon(&ret->paths, R_OK | W_OK);
	return 0;
}

int cli_run(int argc, char **argv)
{
	struct run_args args = { .queue_fd = -1,
				 .submission = U64_UNKNOWN,
				 .interval_seconds = F64_UNKNOWN,
				 .grace_seconds = GRACE_SECONDS,
				 .kill_after_seconds = KILL_AFTER_SECONDS };
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(job_spec_release) struct job_spec spec;
	CLEANUP(close_fd) int output_fd = -1;
	const char *why_no_db = NULL;
	struct err err = ERR_INIT, no_db = ERR_INIT;

	take_queue_file(&args);
	job_spec_init(&spec);
	cli_parse(&run_argp, argc, argv, ARGP_IN_ORDER, &args);
	if (args.quiet)
		log_set_level(LOG_ERROR);
	if (open_settings(&args, &ctx, &no_db) < 0) {
		/*
		 * A command is not held up by what is wrong with proctor's own files.
		 * But a configuration that cannot be read may name secrets to be
		 * masked, so nothing is written down then.
		 */
		why_no_db = no_db.text;
		if (mask_new(NULL, 0, &ctx.mask, &err) < 0)
			return cli_fail(CLI_FAILED, &err);
	}
	if (make_spec(&args, &spec, &err) < 0 || open_output(args.output, &output_fd, &err) < 0)
		return refuse(&args, why_no_db ? NULL : ctx.paths.db, &err);
	make_log(&args, &ctx.paths, spec.job_id);
	return run(&args, &ctx, why_no_db, &spec, output_fd);
}

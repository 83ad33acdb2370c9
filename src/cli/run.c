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
#include "cli/run_args.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "report/report.h"

#define QUEUED_MAX_BYTES (17 << 20) /* more than a daemon takes */

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

/* Else it is another's, or there was room for the bare end at most, and we know more. */
static bool has_whole_end(const struct attempt *recorded, const struct attempt *a)
{
	return a->id > 0 && recorded->started_wall_ns == a->started_wall_ns &&
	       !recorded->is_running && recorded->n_rungs == a->n_rungs;
}

/* Only the run knows it: it is not so for long. */
static void say_unwritten(const struct attempt *a, struct attempt *recorded)
{
	for (size_t i = 0; i < a->n_unknowns; i++)
		if (strcmp(a->unknowns[i].what, NOTE_UNWRITTEN) == 0)
			attempt_note(recorded, NOTE_UNWRITTEN, a->unknowns[i].why);
}

/*
 * As "proctor report" has it: a daemon writes into the record as well (who has sent which signal,
 * samples), programs have their phases there, and its ranks are judged by it.
 */
static int read_back(const struct paths *paths, const struct attempt *a, struct attempt *ret,
		     struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r;

	r = cli_open_store_again(paths, &store, err);
	if (r == 0)
		r = store_read_attempt(store, a->job_id, a->attempt_num, ret, err);
	if (r == 0 && !has_whole_end(ret, a))
		r = err_set(err, -ENODATA, "not all of it could be written there");
	if (r < 0)
		return r;
	say_unwritten(a, ret);
	return recorded_ranks_judge(store, ret, err);
}

/* What is reported: the record, or what we know by ourselves where that cannot be had. */
static const struct attempt *choose(const struct run_args *args, const struct attempt *a,
				    const struct paths *paths, struct attempt *recorded)
{
	struct err err = ERR_INIT;

	if (!paths || !(args->json || args->report))
		return a;
	if (read_back(paths, a, recorded, &err) == 0)
		return recorded;
	log_warning(
		"the report says nothing of phases, of ranks and of what a daemon has recorded: "
		"%s",
		err.text);
	return a;
}

static void tell_end(const struct run_args *args, const struct attempt *a,
		     const struct paths *paths, int output_fd)
{
	CLEANUP(attempt_release) struct attempt recorded;
	const struct attempt *told;

	attempt_init(&recorded);
	told = choose(args, a, paths, &recorded);
	if (args->json)
		write_json(told, output_fd);
	if (args->report)
		print_report(told);
	if (!args->quiet && !args->report)
		print_summary(a);
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

/* Where only some calls are to be timed and the configuration does not say how many: one in so
 * many.
 */
#define SAMPLED_TIME_EVERY 16

static unsigned time_every(const struct run_args *args, const struct config *config)
{
	return args->is_sampled && config->syscalls_time_every <= 1
		       ? SAMPLED_TIME_EVERY
		       : (unsigned)config->syscalls_time_every;
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
		.is_read_back = args->json || args->report,
		.why_no_output = args->log_err.code < 0 ? args->log_err.text : NULL,
		.slips = args->slips,
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
static int open_settings(const struct run_args *args, struct settings *ret, struct buf *slips,
			 struct err *err)
{
	int r;

	ret->paths.state_dir[0] = '\0'; /* which is known even where the configuration is not */
	r = settings_open_loosely(ret, slips, err);
	if (r == 0)
		tell_slips(slips);
	if (r < 0 || args->db_path)
		return r < 0 ? r : paths_set_db(&ret->paths, args->db_path, err);
	/* or nobody finds it before that is started again */
	live_follow_daemon(&ret->paths, R_OK | W_OK);
	return 0;
}

int cli_run(int argc, char **argv)
{
	struct run_args args = RUN_ARGS_INIT;
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(job_spec_release) struct job_spec spec;
	CLEANUP(buf_release) struct buf slips = BUF_INIT;
	CLEANUP(close_fd) int output_fd = -1;
	const char *why_no_db = NULL;
	struct err err = ERR_INIT, no_db = ERR_INIT;

	take_queue_file(&args);
	job_spec_init(&spec);
	cli_parse(&run_argp, argc, argv, ARGP_IN_ORDER, &args);
	if (args.quiet && args.queue_fd < 0) /* else warnings are for the job's log */
		log_set_level(LOG_ERROR);
	if (open_settings(&args, &ctx, &slips, &no_db) < 0) {
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
	args.slips = slips.data;
	return run(&args, &ctx, why_no_db, &spec, output_fd);
}

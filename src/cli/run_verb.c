#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "query/query.h"
#include "report/report.h"

/* ---- what "proctor run" is told ---- */

struct run_args {
	const char *job_id;
	const char *file;
	const char *output;
	int sheet_num;
	double interval_seconds; /* NaN: what the configuration says */
	double grace_seconds, kill_after_seconds;
	bool json, quiet, report, leave_background;
	struct job_limits limits;
	double timeout_seconds;
	int cgroup;	     /* which of its words; -1: none is given */
	int capture;	     /* the same of --capture */
	int syscalls;	     /* which of its words; -1: none is given */
	int queue_fd;	     /* the job file, if a daemon has started us; else -1 */
	bool makes_log;	     /* and says that we are to keep one */
	struct err log_err;  /* why it could not be made */
	const char *db_path; /* its own database, where it is our user's; NULL */
	uint64_t submission; /* which it is; U64_UNKNOWN */
	const char *slips;   /* of the configuration; borrowed */
	struct cli_words command;
};

#define INTERVAL_MIN_SECONDS 0.1
#define INTERVAL_MAX_SECONDS 300.0
#define PATIENCE_MAX_SECONDS 86400.0

enum run_key {
	KEY_SHEET = 256,
	KEY_OUTPUT,
	KEY_GRACE,
	KEY_KILL_AFTER,
	KEY_MEMORY,
	KEY_PIDS,
	KEY_CPUS,
	KEY_TIMEOUT,
};

static const struct argp_option run_argp_options[] = {
	{ "file", 'f', "FILE", 0, "Run the sheets of a job file instead of one command", 0 },
	{ "job", 'j', "ID", 0, "Name the job; running it again makes another attempt of it", 0 },
	{ "sheet", KEY_SHEET, "N", 0, "Number the command as sheet N (1 if not given)", 0 },
	{ "interval", 'i', "SECONDS", 0, "Time between two samples, 0.1 to 300 (5)", 0 },
	CLI_CHOICE(
		"syscalls", run_args, syscalls, "HOW",
		"auto, ebpf, sampled, strace or off (how to count system calls: auto by eBPF where "
		"this user or a daemon of root may; sampled is ebpf with times of one call in 16, "
		"at less cost; strace is tens of times slower, and setuid programs get no rights, "
		"unless for root. Without it a daemon counts them, or strace where the "
		"configuration has strace_enabled)"),
	CLI_CHOICE("capture", run_args, capture, "HOW",
		   "auto or off (whether the last lines that failing processes print to standard "
		   "error are recorded, where a daemon of root can observe them)"),
	CLI_OPTION("json", run_args, json, NULL,
		   "Write the whole report as JSON to stdout at the end, behind what the command "
		   "has printed there"),
	{ "output", KEY_OUTPUT, "FILE", 0,
	  "Write that JSON to FILE instead, apart from what the command prints; - is stdout", 0 },
	CLI_OPTION("report", run_args, report, NULL,
		   "Print the report for people to stdout at the end"),
	CLI_OPTION("quiet", run_args, quiet, NULL, "No summary, no progress bar, no warnings"),
	CLI_SHORT('q'),
	{ "memory", KEY_MEMORY, "SIZE", 0,
	  "Memory limit of the job, such as 8G or 512M: the kernel ends processes beyond it", 0 },
	{ "pids", KEY_PIDS, "N", 0, "Limit of processes and threads at once", 0 },
	{ "cpus", KEY_CPUS, "N", 0, "Limit of CPU time, in cores, such as 2 or 0.5", 0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "Time limit of the command, such as 10m: all its processes are ended then", 0 },
	CLI_CHOICE(
		"cgroup", run_args, cgroup, "HOW",
		"auto or off (whether the job gets a cgroup of its own, where this user may make "
		"one; default auto)"),
	CLI_OPTION("leave-background", run_args, leave_background, NULL,
		   "Leave processes running that outlive the command; without it they are ended"),
	{ "grace", KEY_GRACE, "TIME", 0,
	  "Wait so long for background processes to end by themselves, such as 30s or 200ms (2s)",
	  0 },
	{ "kill-after", KEY_KILL_AFTER, "TIME", 0,
	  "From SIGTERM to SIGKILL when processes are ended, such as 30s (5s)", 0 },
	CLI_REST(run_args, command),
	{ 0 },
};

/* "0" and "0s" too: no patience at all. */
static double parse_patience(struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_time(text, &seconds) < 0 || !(seconds >= 0) || seconds > PATIENCE_MAX_SECONDS)
		cli_usage_error(
			state,
			"%s wants a length of time from 0s to 1d, such as 30s or 200ms, not '%s'",
			option, text);
	return seconds;
}

static error_t parse_run_option(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;
	int r;

	switch (key) {
	case 'f':
		if (args->file)
			cli_usage_error(state, "one job file at a time, not also '%s'", arg);
		args->file = arg;
		return 0;
	case 'j':
		if (!job_id_is_valid(arg))
			cli_usage_error(
				state,
				"--job wants up to %d letters, digits or . _ - : / @ +, not "
				"starting with '-' or '.', not '%s'",
				JOB_ID_MAX, arg);
		args->job_id = arg;
		return 0;
	case KEY_SHEET:
		args->sheet_num = cli_parse_int(state, "--sheet", arg, 1, 1000000);
		return 0;
	case 'i':
		if (num_parse_f64(arg, &args->interval_seconds) < 0 ||
		    args->interval_seconds < INTERVAL_MIN_SECONDS ||
		    args->interval_seconds > INTERVAL_MAX_SECONDS)
			cli_usage_error(state, "--interval wants seconds from 0.1 to 300, not '%s'",
					arg);
		return 0;
	case KEY_OUTPUT:
		args->output = strcmp(arg, "-") == 0 ? NULL : arg;
		args->json = true;
		return 0;
	case KEY_MEMORY:
		r = num_parse_size(arg, &args->limits.memory_bytes);
		if (r == -EDOM)
			cli_usage_error(state, "--memory wants a unit: '%sM' or '%sG'?", arg, arg);
		if (r < 0 || args->limits.memory_bytes < JOB_MEMORY_MIN_BYTES)
			cli_usage_error(state,
					"--memory wants at least 4M, such as 512M or 8G, not '%s'",
					arg);
		return 0;
	case KEY_PIDS:
		args->limits.max_processes =
			(uint64_t)cli_parse_int(state, "--pids", arg, 1, JOB_PROCESSES_MAX);
		return 0;
	case KEY_CPUS:
		if (num_parse_f64(arg, &args->limits.cpus) < 0 ||
		    args->limits.cpus < JOB_CPUS_MIN || args->limits.cpus > JOB_CPUS_MAX)
			cli_usage_error(state,
					"--cpus wants a number of cores from 0.01 to %d, not '%s'",
					JOB_CPUS_MAX, arg);
		return 0;
	case KEY_TIMEOUT:
		if (arg[0] && arg[strspn(arg, "0123456789.")] == '\0') /* elsewhere it is minutes */
			cli_usage_error(state, "--timeout wants a unit: '%ss' or '%sm'?", arg, arg);
		if (num_parse_time(arg, &args->timeout_seconds) < 0 ||
		    !(args->timeout_seconds > 0) || args->timeout_seconds > TIMEOUT_MAX_SECONDS)
			cli_usage_error(state,
					"--timeout wants a length of time, such as 90s or 10m, not "
					"'%s'",
					arg);
		return 0;
	case KEY_GRACE:
		args->grace_seconds = parse_patience(state, "--grace", arg);
		return 0;
	case KEY_KILL_AFTER:
		args->kill_after_seconds = parse_patience(state, "--kill-after", arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!args->file && args->command.n == 0)
			cli_usage_error(
				state,
				"what shall be run? proctor run -- COMMAND [ARG...], or -f FILE");
		if (args->file && args->command.n > 0)
			cli_usage_error(state, "either -f FILE or a command, not both");
		if (args->file && args->sheet_num > 0)
			cli_usage_error(
				state,
				"--sheet goes with a command; a job file numbers its sheets itself");
		if (args->file && !isnan(args->timeout_seconds))
			cli_usage_error(
				state,
				"--timeout goes with a command; a job file has a timeout for each "
				"sheet");
		if (args->json && args->report && !args->output)
			cli_usage_error(
				state,
				"--json and --report both go to stdout: send one away with --output");
		return 0;
	default:
		return cli_parse_option(key, arg, state);
	}
}

static const struct argp run_argp = {
	.options = run_argp_options,
	.parser = parse_run_option,
	.args_doc = "-- COMMAND [ARG...]\n-f FILE",
	.doc = "Runs a command, or the sheets of a job file, as a job: profiles all its processes, records "
	       "them, and ends with a short summary on stderr.\v"
	       "Exits with the command's own status: its exit code, 128 + the signal that killed it, 127 if "
	       "it was not found, 126 if it could not be run; 124 if a time limit ended it.",
};

/* ---- the last line of a terminal says how far a job is ---- */

struct progress {
	int fd;	       /* the terminal, opened anew so that nothing of ours ever waits for it; -1 */
	unsigned rows; /* of the terminal when the line was taken; 0: not taken */
};

#define BAR_COLUMNS 20
#define BAR_MIN_TERMINAL 60 /* narrower terminals get the numbers alone */
#define MIN_ROWS 4

/* False: stderr is no terminal that can do it. */
static bool progress_open(struct progress *progress)
{
	const char *term = getenv("TERM");
	const char *name = ttyname(STDERR_FILENO);

	if (!name || !term || !term[0] || strcmp(term, "dumb") == 0)
		return false;
	progress->fd = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return progress->fd >= 0;
}

/* One that is stopped with Ctrl-S, or slow, misses a line: the next will do. */
static void put(const struct progress *progress, const struct buf *out)
{
	if (buf_error(out) == 0 && write(progress->fd, out->data, out->len) < 0) {
		/* nothing is lost but a picture */
	}
}

/* In the background the terminal belongs to somebody else. */
static bool is_in_foreground(const struct progress *progress)
{
	return tcgetpgrp(progress->fd) == getpgrp();
}

/* All rows scroll again, and the line is gone. */
static void give_line_back(struct progress *progress)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (progress->rows == 0)
		return;
	buf_printf(&out, "\0337\033[r\033[%u;1H\033[2K\0338", progress->rows);
	if (is_in_foreground(progress))
		put(progress, &out);
	progress->rows = 0;
}

static void draw(struct progress *progress, const struct run_progress *p)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const struct sheet_record *sheet = p->sheet;
	struct winsize size = { 0 };

	if (!is_in_foreground(progress) || ioctl(progress->fd, TIOCGWINSZ, &size) < 0 ||
	    size.ws_row < MIN_ROWS || size.ws_col < 2)
		return;
	/* What matters most comes first: a narrow terminal cuts the end. */
	if (size.ws_col >= BAR_MIN_TERMINAL) {
		int filled =
			p->total_sheets > 0 ? p->done_sheets * BAR_COLUMNS / p->total_sheets : 0;

		buf_add_char(&line, '[');
		for (int i = 0; i < BAR_COLUMNS; i++)
			buf_add_char(&line, i < filled ? '#' : '.');
		buf_add_str(&line, "] ");
	}
	buf_printf(&line, "%d/%d  ", p->done_sheets, p->total_sheets);
	report_add_duration(&line, p->elapsed_ns);
	buf_add_str(&line, "  mem ");
	report_add_bytes(&line, p->rss_bytes);
	if (isnan(p->cpu_percent))
		buf_add_str(&line, "  cpu -");
	else
		buf_printf(&line, "  cpu %.0f%%", p->cpu_percent);
	if (sheet)
		buf_printf(&line, "  sheet %d", sheet->num);
	if (sheet && sheet->try_num > 1)
		buf_printf(&line, " (try %d)", sheet->try_num);
	if (sheet && sheet->name) {
		buf_add_char(&line, ' ');
		cli_add_text(&line, sheet->name, 60);
	}
	buf_truncate(&line, utf8_cut(line.data, line.len, size.ws_col - 1));
	/*
	 * Makes room for the line and lets only the rows above it scroll. Setting the
	 * region moves the cursor home, hence the saving; the newline before makes sure
	 * that the cursor is not on the last row.
	 */
	if (progress->rows != size.ws_row) {
		give_line_back(progress); /* of a window that had another size */
		buf_printf(&out, "\n\033[A\0337\033[1;%ur\0338", size.ws_row - 1u);
		progress->rows = size.ws_row;
	}
	buf_printf(&out, "\0337\033[%u;1H\033[2K%s\0338", size.ws_row, line.data);
	put(progress, &out);
}

/* A run_progress_fn; ctx is the struct progress. */
static void progress_show(void *ctx, const struct run_progress *p)
{
	if (p->state == PROGRESS_RUNNING)
		draw(ctx, p);
	else
		give_line_back(ctx);
}

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
	spec->is_new_id = true;
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

/* From the queue's file: we may not be able to open it by its name, and it may have none here. */
static int load_queued(struct run_args *args, struct job_spec *spec, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const char *job;
	int r = io_read_fd(args->queue_fd, QUEUED_MAX_BYTES, &text);

	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", args->file, strerror(-r));
	job = queue_file_job(text.data, text.len, &args->submission);
	return job_file_parse(job, text.len - (size_t)(job - text.data), args->file, true, spec,
			      err);
}

static int make_spec(struct run_args *args, struct job_spec *spec, struct err *err)
{
	int r;

	if (!args->file) {
		r = job_spec_set_command(spec, (const char *const *)args->command.items,
					 args->sheet_num ? args->sheet_num : 1,
					 args->timeout_seconds);
		spec->job_id =
			args->job_id ? args->job_id : make_job_id(spec, args->command.items[0]);
		return r < 0 || !spec->job_id ? err_set(err, -ENOMEM, "out of memory") : 0;
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

/* Limits of the command line come before those of the job file. */
static void take_limits(const struct run_args *args, struct job_limits *l)
{
	if (u64_known(args->limits.memory_bytes))
		l->memory_bytes = args->limits.memory_bytes;
	if (u64_known(args->limits.max_processes))
		l->max_processes = args->limits.max_processes;
	if (!isnan(args->limits.cpus))
		l->cpus = args->limits.cpus;
}

/* ---- what is said at the end ---- */

/*
 * As "proctor report" has it: a daemon writes into the record as well (who has sent which signal,
 * samples), programs have their phases there, and its ranks are judged by it.
 */
static int read_back(const struct paths *paths, const struct attempt *a, struct attempt *ret,
		     struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	const struct unknown_note *note;
	int r;

	r = cli_open_store(paths, STORE_READ, &store, err);
	if (r == 0)
		r = store_read_attempt(store, a->job_id, a->attempt_num, ret, err);
	/* else it is another's, or there was room for the bare end at most, and we know more */
	if (r == 0 && !(a->id != 0 && ret->started_wall_ns == a->started_wall_ns &&
			!ret->is_running && ret->details.n_rungs == a->details.n_rungs))
		r = err_set(err, -ENODATA, "not all of it could be written there");
	if (r < 0)
		return r;
	/* Only the run knows it: it is not so for long. */
	note = attempt_find_note(a, NOTE_UNWRITTEN);
	if (note)
		attempt_note(ret, NOTE_UNWRITTEN, note->why);
	return recorded_ranks_judge(store, ret, err);
}

/* What is reported is the record, or what we know by ourselves where that cannot be had. */
static void tell_end(const struct run_args *args, const struct attempt *a,
		     const struct paths *paths, int output_fd)
{
	CLEANUP(attempt_release) struct attempt recorded;
	CLEANUP(buf_release) struct buf out = BUF_INIT, json = BUF_INIT;
	const struct attempt *told = a;
	struct err err = ERR_INIT;
	int r;

	attempt_init(&recorded);
	if (paths && (args->json || args->report)) {
		if (read_back(paths, a, &recorded, &err) == 0)
			told = &recorded;
		else
			log_warning("the report says nothing of phases, of ranks and of what a "
				    "daemon has recorded: %s",
				    err.text);
	}
	if (args->json) {
		r = report_write(told, REPORT_JSON, &json);
		if (r == 0 && output_fd >= 0)
			r = io_write_all(output_fd, json.data, json.len);
		else if (r == 0)
			cli_print(&json);
		if (r < 0)
			log_error("cannot write the report: %s", strerror(-r));
	}
	if (args->report && report_write(told, REPORT_TEXT, &out) == 0)
		cli_print(&out);
	if (!args->quiet && !args->report && report_write_summary(a, &out) == 0)
		io_write_all(STDERR_FILENO, out.data, out.len);
}

/* ---- the verb ---- */

/* Where only some calls are to be timed and the configuration does not say how many: one in so
 * many.
 */
#define SAMPLED_TIME_EVERY 16

static int run(const struct run_args *args, struct settings *ctx, const char *why_no_db,
	       const struct job_spec *spec, int output_fd)
{
	/* By the words of --syscalls, of which the third is "sampled". */
	static const enum run_syscalls_how hows[] = { RUN_SYSCALLS_AUTO, RUN_SYSCALLS_EBPF,
						      RUN_SYSCALLS_EBPF, RUN_SYSCALLS_STRACE,
						      RUN_SYSCALLS_OFF };
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	bool is_sampled = args->syscalls == 2;
	struct progress progress = { .fd = -1 };
	struct run_options options = {
		.spec = spec,
		.command = args->file,
		.mask = ctx->mask,
		.state_dir = ctx->paths.state_dir,
		.db_path = why_no_db ? NULL : ctx->paths.db,
		.why_no_db = why_no_db,
		.jsonl_path = why_no_db || !ctx->paths.jsonl[0] ? NULL : ctx->paths.jsonl,
		.jsonl_max_bytes = config_log_bytes(&ctx->config),
		.anomaly = &ctx->config.anomaly,
		.retention = &ctx->config.retention,
		.reads_gpus = ctx->config.gpu_enabled,
		.captures = args->capture < 0 ? ctx->config.capture == 0 : args->capture == 0,
		.syscalls = { .how = args->syscalls < 0 ? RUN_SYSCALLS_DEFAULT
							: hows[args->syscalls],
			      .may_ebpf = ctx->config.ebpf_enabled && ctx->config.syscalls_enabled,
			      .may_strace = ctx->config.strace_enabled,
			      .time_every = is_sampled && ctx->config.syscalls_time_every <= 1
						    ? SAMPLED_TIME_EVERY
						    : (unsigned)ctx->config.syscalls_time_every },
		.is_submitted = args->queue_fd >= 0,
		.is_for_other = args->makes_log,
		.is_read_back = args->json || args->report,
		.is_quiet = args->quiet && args->queue_fd < 0,
		.why_no_output = args->log_err.code < 0 ? args->log_err.text : NULL,
		.slips = args->slips,
		.submission = args->submission,
		.interval_seconds = isnan(args->interval_seconds) ? ctx->config.interval_seconds
								  : args->interval_seconds,
		.makes_cgroup = args->cgroup != 1, /* "off" */
		.leave_background = args->leave_background,
		.grace_seconds = args->grace_seconds,
		.kill_after_seconds = args->kill_after_seconds,
	};
	struct err err = ERR_INIT;
	struct attempt attempt;
	int status = CLI_FAILED;

	if (!args->file) {
		mask_argv(ctx->mask, spec->sheets[0].argv, &command);
		options.command = command.data;
	}
	if (args->file && !args->quiet && progress_open(&progress)) {
		options.progress = progress_show;
		options.progress_ctx = &progress;
	}
	attempt_init(&attempt);
	if (run_job(&options, &attempt, &status, &err) == 0) {
		tell_end(args, &attempt, why_no_db ? NULL : &ctx->paths, output_fd);
	} else if (args->file) {
		status = cli_fail(CLI_FAILED, &err);
	} else { /* whatever is wrong with us, the command is to run */
		log_error("the command runs without being profiled: %s", err.text);
		execvp(args->command.items[0], args->command.items);
		log_error("cannot run %s: %s", args->command.items[0], strerror(errno));
		status = errno == ENOENT ? 127 : 126;
	}
	give_line_back(&progress);
	close_fd(&progress.fd);
	attempt_release(&attempt);
	return status;
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

	if (!paths->state_dir[0])
		return err_set(err, -ENOENT, "there is no folder for it");
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

/* Of a daemon that may have been started before the configuration was as it is. */
static int open_settings(const struct run_args *args, struct settings *ret, struct buf *slips,
			 struct err *err)
{
	int r;

	ret->paths.state_dir[0] = '\0'; /* which is known even where the configuration is not */
	r = settings_open_loosely(ret, slips, err);
	if (r < 0)
		return r;
	/* The job is watched all the same, by a daemon with its own settings or here by the
	 * defaults. */
	for (const char *line = slips->data, *end; (end = strchr(line, '\n')); line = end + 1)
		log_warning("%.*s", (int)(end - line), line);
	if (args->db_path)
		return paths_set_db(&ret->paths, args->db_path, err);
	/* or nobody finds it before that is started again */
	cli_follow_daemon(&ret->paths, R_OK | W_OK);
	return 0;
}

int cli_run(int argc, char **argv)
{
	struct run_args args = { .queue_fd = -1,
				 .submission = U64_UNKNOWN,
				 .interval_seconds = F64_UNKNOWN,
				 .grace_seconds = 2.0,
				 .kill_after_seconds = 5.0,
				 .timeout_seconds = F64_UNKNOWN,
				 .limits = JOB_LIMITS_NONE,
				 .cgroup = -1,
				 .capture = -1,
				 .syscalls = -1 };
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(job_spec_release) struct job_spec spec;
	CLEANUP(buf_release) struct buf slips = BUF_INIT;
	CLEANUP(close_fd) int output_fd = -1;
	const char *why_no_db = NULL;
	struct err err = ERR_INIT, no_db = ERR_INIT;
	int r;

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
	r = make_spec(&args, &spec, &err);
	if (r == 0)
		take_limits(&args, &spec.limits);
	if (r == 0 && args.output) {
		output_fd = open(args.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (output_fd < 0)
			r = err_set(&err, -errno, "cannot write %s: %s", args.output,
				    strerror(errno));
	}
	if (r < 0) {
		const struct refusal refusal = {
			.job_id = args.job_id,
			.command = args.file,
			.reason = err.text,
			.db_path = why_no_db ? NULL : ctx.paths.db,
			.submission = args.submission,
			.is_for_other = args.makes_log,
		};

		/* nobody reads what the runner of a submitted job says: it is recorded */
		if (args.queue_fd >= 0 && args.job_id)
			run_record_refusal(&refusal);
		return cli_fail(CLI_USAGE, &err);
	}
	/* the job does not depend on it */
	if (args.makes_log && open_log(&ctx.paths, spec.job_id, &err) < 0) {
		err_set(&args.log_err, err.code, "what the job prints is lost: %s", err.text);
		log_error("%s", args.log_err.text);
	}
	args.slips = slips.data;
	return run(&args, &ctx, why_no_db, &spec, output_fd);
}

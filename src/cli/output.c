#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "report/report.h"

#define FLUSH_BYTES 65536

/* ---- signals ---- */

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP };

static bool is_asked_to_end(const struct output *out)
{
	sigset_t pending;

	sigpending(&pending);
	sigandset(&pending, &pending, &out->held);
	return !sigisemptyset(&pending);
}

/* ---- the file ---- */

static int fail_open(const char *path, int r, struct err *err)
{
	return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
}

static int open_beside(struct output *out, const char *path, struct err *err)
{
	out->path = realpath(path, NULL); /* of a link what it leads to is replaced, and it stays */
	if (!out->path && errno != ENOMEM)
		out->path = strdup(path);
	if (!out->path || asprintf(&out->path_for_now, "%s.XXXXXX", out->path) < 0) {
		out->path_for_now = NULL;
		return fail_open(path, -ENOMEM, err);
	}
	/* Those that would end us. What is ignored, as nohup does, stays so: a held one would
	 * count. */
	sigemptyset(&out->held);
	for (size_t i = 0; i < ARRAY_SIZE(ending_signals); i++) {
		struct sigaction action;

		if (sigaction(ending_signals[i], NULL, &action) == 0 &&
		    action.sa_handler == SIG_DFL)
			sigaddset(&out->held, ending_signals[i]);
	}
	sigprocmask(SIG_BLOCK, &out->held, NULL);
	out->fd = mkostemp(out->path_for_now, O_CLOEXEC); /* 0600 */
	if (out->fd >= 0 && out->for_others) {
		mode_t mask = umask(0);

		umask(mask);
		if (fchmod(out->fd, 0666 & ~mask) < 0)
			return fail_open(path, -errno, err);
	}
	if (out->fd >= 0)
		return 0;
	fail_open(path, -errno, err);
	free(TAKE_PTR(out->path_for_now)); /* it is not there */
	return err->code;
}

int output_open(struct output *out, const char *path, struct err *err)
{
	struct stat st;

	signal(SIGPIPE, SIG_IGN); /* no child of ours can inherit this */
	sigemptyset(&out->held);
	if (!path || strcmp(path, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(path, &st) < 0)
		return open_beside(out, path, err);
	if (S_ISREG(st.st_mode)) { /* if it is ours, who could read it can go on to */
		int r = open_beside(out, path, err);

		if (r == 0 && st.st_uid == geteuid() && fchmod(out->fd, st.st_mode & 0777) < 0)
			r = fail_open(path, -errno, err);
		return r;
	}
	out->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return out->fd < 0 ? fail_open(path, -errno, err) : 0;
}

void output_release(struct output *out)
{
	if (out->path_for_now)
		unlink(out->path_for_now);
	if (out->fd > STDERR_FILENO)
		close(out->fd);
	free(out->path_for_now);
	free(out->path);
	buf_release(&out->buf);
	sigprocmask(SIG_UNBLOCK, &out->held, NULL); /* whoever waited ends us here */
	*out = (struct output)OUTPUT_INIT;
	sigemptyset(&out->held);
}

bool output_is_terminal(const struct output *out)
{
	return isatty(out->fd);
}

/* ---- writing ---- */

int output_flush(struct output *out)
{
	int r = buf_error(&out->buf);

	if (r == 0)
		r = io_write_all(out->fd, out->buf.data, out->buf.len);
	buf_reset(&out->buf);
	return r;
}

int output_pass(struct output *out)
{
	if (out->buf.len < FLUSH_BYTES)
		return 0;
	return is_asked_to_end(out) ? -EINTR : output_flush(out);
}

int output_end(struct output *out, int r, struct err *err)
{
	int status = CLI_DONE;

	if (r == 0)
		r = output_flush(out);
	/* Whole on the disk before it takes the place of what was there. */
	if (r == 0 && out->path && (fsync(out->fd) < 0 || rename(out->path_for_now, out->path) < 0))
		r = -errno;
	if (r == 0) {
		free(TAKE_PTR(out->path_for_now));
	} else if (!err->code && (r == -EPIPE || is_asked_to_end(out))) {
		status = CLI_FAILED;
	} else {
		if (!err->code && out->path)
			fail_open(out->path, r, err);
		else if (!err->code)
			err_set(err, r, "cannot write the output: %s", strerror(-r));
		status = cli_fail(CLI_FAILED, err);
	}
	output_release(out);
	return status;
}

/* ---- lines for people ---- */

void show_cell(struct buf *out, struct buf *text, size_t width)
{
	for (size_t n = text->len; n < width; n++)
		buf_add_char(out, ' ');
	buf_add(out, text->data, text->len);
	buf_add_str(out, "  ");
	buf_reset(text);
}

void show_text(struct buf *out, const char *text, size_t width)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;

	cli_add_text(&shown, text, width);
	buf_add(out, shown.data, shown.len);
	for (size_t n = utf8_count(shown.data, shown.len); n < width + 2; n++)
		buf_add_char(out, ' ');
}

#define JOB_COLUMNS 30

static void show_job(struct buf *out, const char *name)
{
	const char *number = strrchr(name, '#'); /* is in no name of a job */
	size_t behind = number ? utf8_count(number, strlen(number)) : 0;

	if (utf8_count(name, strlen(name)) <= JOB_COLUMNS) {
		cli_add_text(out, name, JOB_COLUMNS);
		return;
	}
	cli_add_text(out, name, behind < JOB_COLUMNS ? JOB_COLUMNS - 1 - behind : 0);
	buf_add_str(out, "…");
	cli_add_text(out, number ? number : "", JOB_COLUMNS - 1);
}

void show_moment(struct buf *out, uint64_t wall_ns)
{
	char when[32] = "-";

	if (!u64_known(wall_ns)) {
		buf_printf(out, "%-23s", when);
		return;
	}
	clock_format_local(wall_ns, when, sizeof(when));
	buf_printf(out, "%s.%03u", when, (unsigned)(wall_ns / 1000000u % 1000u));
}

void show_host(struct buf *out, const struct system_sample *sys)
{
	buf_add_str(out, "memory ");
	report_add_bytes(out, sys->memory_used_bytes);
	buf_add_str(out, " of ");
	report_add_bytes(out, sys->memory_total_bytes);
	buf_add_str(out, " used, ");
	report_add_bytes(out, sys->memory_available_bytes);
	buf_add_str(out, " available; load ");
	if (f64_known(sys->load1))
		buf_printf(out, "%.2f %.2f %.2f", sys->load1, sys->load5, sys->load15);
	else
		buf_add_char(out, '-');
}

static void add_value(struct buf *out, double value, const char *unit)
{
	if (f64_known(value))
		buf_printf(out, "%.0f%s", value, unit);
	else
		buf_printf(out, "-%s", unit);
}

static void add_megabytes(struct buf *out, double mb)
{
	report_add_bytes(out, f64_known(mb) ? (uint64_t)(mb * 1024 * 1024) : U64_UNKNOWN);
}

void show_gpu(struct buf *out, const struct gpu_sample *gpu)
{
	buf_printf(out, "GPU %d: %s", gpu->index, gpu->is_lost ? "lost\n" : "");
	if (gpu->is_lost)
		return;
	add_value(out, gpu->utilization_pct, " % busy, ");
	add_megabytes(out, gpu->memory_used_mb);
	buf_add_str(out, " of ");
	add_megabytes(out, gpu->memory_total_mb);
	buf_add_str(out, " used, ");
	add_value(out, gpu->temperature_c, " C, ");
	add_value(out, gpu->power_watts, " W\n");
}

void show_process_titles(struct buf *out)
{
	buf_add_str(out, "    PID  S    CPU%        RSS  JOB  COMMAND\n");
}

void show_process(struct buf *out, const struct proc_sample *p)
{
	CLEANUP(buf_release) struct buf rss = BUF_INIT;

	report_add_bytes(&rss, p->rss_bytes);
	buf_printf(out, "%7d  %c  ", (int)p->key.pid, p->state);
	if (f64_known(p->cpu_percent))
		buf_printf(out, "%6.1f  %9s  ", p->cpu_percent, rss.data);
	else
		buf_printf(out, "%6s  %9s  ", "-", rss.data);
	show_job(out, p->job_id ? p->job_id : "-");
	buf_add_str(out, "  ");
	cli_add_text(out, p->command ? p->command : p->comm, 60);
	buf_add_char(out, '\n');
}

/* ---- anomalies ---- */

void show_anomaly_titles(struct buf *out)
{
	buf_add_str(out, "BEGAN                    LASTED     SEVERITY  TYPE               COUNT  "
			 "JOB               WHAT\n");
}

void show_anomaly(struct buf *out, const struct episode *e)
{
	CLEANUP(buf_release) struct buf lasted = BUF_INIT;

	if (u64_known(e->ended_wall_ns))
		report_add_lasted(&lasted, e);
	else
		buf_add_str(&lasted, "lasts");
	show_moment(out, e->began_wall_ns);
	buf_add_str(out, "  ");
	show_text(out, lasted.data, 9);
	buf_printf(out, "%-8s  %-17s  %5llu  ", severity_name(e->worst.severity),
		   anomaly_type_name(e->worst.type), (unsigned long long)e->count);
	show_text(out, e->worst.job_id ? e->worst.job_id : "-", 16);
	cli_add_text(out, e->worst.text, ANOMALY_TEXT_BYTES);
	if (!u64_known(e->ended_wall_ns) && u64_known(e->seen_wall_ns)) {
		buf_add_str(out, "; as of ");
		show_moment(out, e->seen_wall_ns);
	}
	buf_add_char(out, '\n');
}

void show_anomaly_json(struct json *j, const struct episode *e, int attempt_num)
{
	json_begin_object(j);
	episode_write_fields(j, e);
	json_key_int(j, "attempt", attempt_num > 0 ? attempt_num : -1);
	json_end_object(j);
}

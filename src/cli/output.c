#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
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
	if (out->kept)
		fclose(out->kept);
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

#define PATIENCE_MS 1000

/* Where there is no room for a file the writer has to wait after all. */
static int write_or_keep(struct output *out, const char *bytes, size_t n)
{
	struct pollfd reader = { .fd = out->fd, .events = POLLOUT };

	while (n > 0 && !out->kept) {
		int r = poll(&reader, 1, PATIENCE_MS);
		ssize_t written = 0;

		if (r == 0)
			break;
		if (r > 0) /* then it takes up to PIPE_BUF bytes at once */
			written = write(out->fd, bytes, n < PIPE_BUF ? n : PIPE_BUF);
		if ((r < 0 || written < 0) && errno != EINTR && errno != EAGAIN)
			return -errno;
		bytes += written > 0 ? written : 0;
		n -= written > 0 ? (size_t)written : 0;
	}
	if (n > 0 && !out->kept)
		out->kept = tmpfile();
	return n > 0 ? io_write_all(out->kept ? fileno(out->kept) : out->fd, bytes, n) : 0;
}

/* However long it takes. */
static int hand_over_kept(struct output *out)
{
	char bytes[FLUSH_BYTES];
	off_t at = 0;
	ssize_t n = 0;
	int r = 0;

	while (r == 0 && out->kept &&
	       (n = pread(fileno(out->kept), bytes, sizeof(bytes), at)) > 0) {
		r = io_write_all(out->fd, bytes, (size_t)n);
		at += n;
	}
	return n < 0 ? -errno : r;
}

int output_flush(struct output *out)
{
	int r = buf_error(&out->buf);

	if (r == 0)
		r = (out->never_waits ? write_or_keep(out, out->buf.data, out->buf.len)
				      : io_write_all(out->fd, out->buf.data, out->buf.len));
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
	if (r == 0)
		r = hand_over_kept(out);
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

/* ---- rows ---- */

#define SETTLE_ROWS 200	       /* so many are looked at for their widths… */
#define SETTLE_BYTES (1 << 20) /* …or so much text */

int lister_open(struct lister *l, struct err *err)
{
	json_init(&l->json, &l->out.buf);
	if (l->form == LISTER_ARRAY)
		json_begin_array(&l->json);
	return output_open(&l->out, NULL, err);
}

int lister_pass(struct lister *l)
{
	l->n_rows++;
	if (l->form == LISTER_OBJECTS) {
		buf_add_char(&l->out.buf, '\n');
		json_init(&l->json, &l->out.buf);
	}
	if (l->form == LISTER_TABLE &&
	    (l->table.widths || l->n_rows >= SETTLE_ROWS || l->table.text.len > SETTLE_BYTES))
		table_print(&l->table, &l->out.buf);
	return output_pass(&l->out);
}

int lister_flush(struct lister *l)
{
	if (l->form == LISTER_TABLE)
		table_print(&l->table, &l->out.buf);
	return output_flush(&l->out);
}

void lister_release(struct lister *l)
{
	table_release(&l->table);
	output_release(&l->out);
}

int lister_end(struct lister *l, int r, const char *none, struct err *err)
{
	if (l->form == LISTER_ARRAY) {
		json_end_array(&l->json);
		buf_add_char(&l->out.buf, '\n');
	} else if (l->form == LISTER_TABLE && l->n_rows > 0) {
		table_print(&l->table, &l->out.buf);
	} else if (l->form == LISTER_TABLE && r == 0 && none) {
		log_error("%s", none);
	}
	table_release(&l->table);
	return output_end(&l->out, r, err);
}

/* ---- cells ---- */

void add_moment(struct buf *out, uint64_t wall_ns)
{
	char when[32] = "-";

	if (u64_known(wall_ns))
		buf_printf(out, "%s.%03u", clock_format_local(wall_ns, when, sizeof(when)),
			   (unsigned)(wall_ns / 1000000u % 1000u));
	else
		buf_add_char(out, '-');
}

void add_positive(struct buf *out, int n)
{
	if (n > 0)
		buf_printf(out, "%d", n);
	else
		buf_add_char(out, '-');
}

void add_decimal(struct buf *out, double v)
{
	if (f64_known(v))
		buf_printf(out, "%.1f", v);
	else
		buf_add_char(out, '-');
}

const struct table_column anomaly_list_columns[] = {
	{ "BEGAN", COLUMN_LEFT }, { "LASTED", COLUMN_LEFT }, { "SEVERITY", COLUMN_LEFT },
	{ "TYPE", COLUMN_LEFT },  { "COUNT", COLUMN_RIGHT }, { "JOB", COLUMN_LEFT },
	{ "WHAT", COLUMN_LEFT },
};

int lister_add_anomaly(struct lister *l, const struct episode *e, int attempt_num)
{
	struct table *t = &l->table;
	struct buf *cell;

	if (l->form != LISTER_TABLE) {
		json_begin_object(&l->json);
		episode_write_fields(&l->json, e);
		json_key_int(&l->json, "attempt", attempt_num > 0 ? attempt_num : -1);
		json_end_object(&l->json);
		return lister_pass(l);
	}
	add_moment(table_cell(t), e->began_wall_ns);
	cell = table_cell(t);
	if (u64_known(e->ended_wall_ns))
		report_add_lasted(cell, e);
	else
		buf_add_str(cell, "lasts");
	buf_add_str(table_cell(t), severity_name(e->worst.severity));
	buf_add_str(table_cell(t), anomaly_type_name(e->worst.type));
	buf_printf(table_cell(t), "%llu", (unsigned long long)e->count);
	buf_add_str(table_cell(t), e->worst.job_id ? e->worst.job_id : "-");
	cell = table_cell(t);
	buf_add_str(cell, e->worst.text);
	if (!u64_known(e->ended_wall_ns) && u64_known(e->seen_wall_ns)) {
		buf_add_str(cell, "; as of ");
		add_moment(cell, e->seen_wall_ns);
	}
	return lister_pass(l);
}

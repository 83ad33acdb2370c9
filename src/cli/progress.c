#include "cli/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "report/report.h"

#define BAR_COLUMNS 20
#define BAR_MIN_TERMINAL 60 /* narrower terminals get the numbers alone */
#define MIN_ROWS 4

bool progress_open(struct progress *progress)
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

static void add_bar(struct buf *out, int done, int total)
{
	int filled = total > 0 ? done * BAR_COLUMNS / total : 0;

	buf_add_char(out, '[');
	for (int i = 0; i < BAR_COLUMNS; i++)
		buf_add_char(out, i < filled ? '#' : '.');
	buf_add_str(out, "] ");
}

static void add_sheet(struct buf *out, const struct sheet_record *sheet)
{
	if (!sheet)
		return;
	buf_printf(out, "  sheet %d", sheet->num);
	if (sheet->try_num > 1)
		buf_printf(out, " (try %d)", sheet->try_num);
	if (sheet->name) {
		buf_add_char(out, ' ');
		cli_add_text(out, sheet->name, 60);
	}
}

/* What matters most comes first: a narrow terminal cuts the end. */
static void compose(struct buf *out, const struct run_progress *p, unsigned columns)
{
	if (columns >= BAR_MIN_TERMINAL)
		add_bar(out, p->done_sheets, p->total_sheets);
	buf_printf(out, "%d/%d  ", p->done_sheets, p->total_sheets);
	report_add_duration(out, p->elapsed_ns);
	buf_add_str(out, "  mem ");
	report_add_bytes(out, p->rss_bytes);
	if (isnan(p->cpu_percent))
		buf_add_str(out, "  cpu -");
	else
		buf_printf(out, "  cpu %.0f%%", p->cpu_percent);
	add_sheet(out, p->sheet);
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

/*
 * Makes room for the line and lets only the rows above it scroll. Setting the
 * region moves the cursor home, hence the saving; the newline before makes sure
 * that the cursor is not on the last row.
 */
static void take_line(struct progress *progress, unsigned rows, struct buf *out)
{
	if (progress->rows == rows)
		return;
	give_line_back(progress); /* of a window that had another size */
	buf_printf(out, "\n\033[A\0337\033[1;%ur\0338", rows - 1);
	progress->rows = rows;
}

static void draw(struct progress *progress, const struct run_progress *p)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct winsize size = { 0 };

	if (!is_in_foreground(progress) || ioctl(progress->fd, TIOCGWINSZ, &size) < 0 ||
	    size.ws_row < MIN_ROWS || size.ws_col < 2)
		return;
	compose(&line, p, size.ws_col);
	buf_truncate(&line, utf8_cut(line.data, line.len, size.ws_col - 1));
	take_line(progress, size.ws_row, &out);
	buf_printf(&out, "\0337\033[%u;1H\033[2K%s\0338", size.ws_row, line.data);
	put(progress, &out);
}

void progress_show(void *ctx, const struct run_progress *p)
{
	struct progress *progress = ctx;

	switch (p->state) {
	case PROGRESS_RUNNING:
		draw(progress, p);
		return;
	case PROGRESS_PAUSED:
		give_line_back(progress);
		return;
	case PROGRESS_FINISHED:
		progress_close(progress);
		return;
	}
}

void progress_close(struct progress *progress)
{
	if (progress->fd < 0)
		return;
	give_line_back(progress);
	close_fd(&progress->fd);
}

#include "cli/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "report/report.h"

#define BAR_COLUMNS 20

bool progress_is_wanted(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

static size_t terminal_columns(void)
{
	struct winsize size = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

static void add_bar(struct buf *out, int done, int total)
{
	int filled = total > 0 ? done * BAR_COLUMNS / total : 0;

	buf_add_char(out, '[');
	for (int i = 0; i < BAR_COLUMNS; i++)
		buf_add_char(out, i < filled ? '#' : '.');
	buf_add_char(out, ']');
}

static void add_sheet(struct buf *out, const struct sheet_record *sheet)
{
	if (!sheet)
		return;
	buf_printf(out, "  sheet %d", sheet->num);
	if (sheet->name) {
		buf_add_str(out, " ");
		cli_add_text(out, sheet->name, 30);
	}
	if (sheet->try_num > 1)
		buf_printf(out, " (try %d)", sheet->try_num);
}

static void compose(struct buf *out, const struct run_progress *p)
{
	add_bar(out, p->done_sheets, p->total_sheets);
	buf_printf(out, " %d/%d", p->done_sheets, p->total_sheets);
	add_sheet(out, p->sheet);
	buf_add_str(out, "  ");
	report_add_duration(out, p->elapsed_ns);
	buf_add_str(out, "  mem ");
	report_add_bytes(out, p->rss_bytes);
	if (isnan(p->cpu_percent))
		buf_add_str(out, "  cpu -");
	else
		buf_printf(out, "  cpu %.0f%%", p->cpu_percent);
}

/* In the background the terminal belongs to somebody else. */
static bool is_in_foreground(void)
{
	return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

void progress_show(void *ctx, const struct run_progress *p)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct progress *progress = ctx;

	if (!is_in_foreground())
		return;
	if (p->is_finished) {
		if (progress->is_drawn)
			io_write_all(STDERR_FILENO, "\r\033[K", 4);
		return;
	}
	compose(&line, p);
	buf_truncate(&line, utf8_cut(line.data, line.len, terminal_columns() - 1));
	/* The cursor goes back to the left, so that what the job prints overwrites the bar. */
	buf_printf(&out, "\r%s\033[K\r", line.data);
	io_write_all(STDERR_FILENO, out.data, out.len);
	progress->is_drawn = true;
}

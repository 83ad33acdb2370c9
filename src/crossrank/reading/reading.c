#include "crossrank/reading/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/reading/jtree.h"
#include "crossrank/reading/event_reader.h"
#include "crossrank/reading/records.h"

#define MAX_FIELD 100 /* bytes of a name that is told: a record may have any */

void fault_add_text(struct buf *out, const struct fault *fault)
{
	bool is_cut_file = fault->is_cut && fault->reason == REASON_BAD_COMPRESSION;

	buf_add_char(out, '\'');
	utf8_add_text(out, fault->file, strlen(fault->file));
	buf_printf(out, "':%llu: %s", (unsigned long long)fault->line,
		   is_cut_file ? "is where the compressed data end"
			       : reason_in_words(fault->reason));
	if (fault->field.s) {
		buf_add_str(out, ": ");
		utf8_add_text(out, fault->field.s,
			      fault->field.n < MAX_FIELD ? fault->field.n : MAX_FIELD);
		buf_add_str(out, fault->field.n > MAX_FIELD ? "..." : "");
	}
	buf_printf(out, " (%s)%s", reason_name(fault->reason),
		   is_cut_file	   ? ": the file was cut off; all before is read"
		   : fault->is_cut ? ": the file ends in it, only this record is lost"
				   : "");
}

#define MAX_FOLDER_DEPTH 16

void intake_init(struct intake *r, struct telemetry *t, intake_fault_fn *on_fault, void *ctx)
{
	*r = (struct intake){ .telemetry = t, .on_fault = on_fault, .ctx = ctx };
}

void intake_release(struct intake *r)
{
	event_reader_release(&r->reader);
	buf_release(&r->first_empty);
}

/* ---- records ---- */

static int tell_fault(struct intake *r, const char *name, const struct record_text *text,
		      enum reason reason, struct text field)
{
	struct fault fault = {
		.file = name,
		.line = text->line,
		.reason = reason,
		.field = field,
		.is_cut =
			text->is_last && (reason == REASON_BAD_JSON || reason == REASON_BAD_UTF8 ||
					  reason == REASON_BAD_CSV || reason == REASON_CUT_CSV ||
					  reason == REASON_BAD_COMPRESSION),
	};

	r->n_invalid += !fault.is_cut;
	r->n_cut += fault.is_cut;
	return r->on_fault ? r->on_fault(r->ctx, &fault) : 0;
}

static int take_record(struct intake *r, const char *name, const struct record_text *text)
{
	struct telemetry_event ev;
	struct refusal refusal;

	if (text->reason != REASON_NONE)
		return tell_fault(
			r, name, text, text->reason,
			(struct text){ text->field, text->field ? strlen(text->field) : 0 });
	refusal = event_read(&r->reader, text->text, text->n, &ev);
	if (refusal.error < 0)
		return refusal.error;
	if (refusal.reason != REASON_NONE)
		return tell_fault(r, name, text, refusal.reason, refusal.field);
	r->n_valid++;
	return r->telemetry ? telemetry_add(r->telemetry, &ev) : 0;
}

static bool is_damaged(const struct record_text *text)
{
	return text->reason != REASON_NONE || !jtree_is_valid(text->text, text->n);
}

static enum reason end_reason(const struct input *in)
{
	return input_end(in) == INPUT_LARGE_WINDOW ? REASON_LARGE_WINDOW : REASON_BAD_COMPRESSION;
}

/* What is damaged or cut inside its compression is a fault of the line where that shows. */
static int take_records(struct intake *r, struct records *records, struct input *in,
			const char *name)
{
	struct record_text text = { .line = 1 };
	bool is_told = false;
	int more = 0, stop = 0;

	while (stop == 0 && (more = records_next(records, &text)) > 0) {
		if (text.is_last && input_end(in) != INPUT_WHOLE && is_damaged(&text)) {
			text.reason = end_reason(in);
			text.is_last = input_end(in) == INPUT_CUT;
			is_told = true;
		}
		stop = take_record(r, name, &text);
	}
	if (stop != 0 || more < 0 || is_told || input_end(in) == INPUT_WHOLE)
		return stop != 0 ? stop : more;
	text = (struct record_text){ .line = text.line, .is_last = input_end(in) == INPUT_CUT };
	return tell_fault(r, name, &text, end_reason(in), (struct text){ 0 });
}

static void close_input(struct input **in)
{
	*in = input_close(*in);
}

static void close_records(struct records **records)
{
	*records = records_close(*records);
}

int intake_read_fd(struct intake *r, int fd, const char *name, struct err *err)
{
	CLEANUP(close_input) struct input *in = NULL;
	CLEANUP(close_records) struct records *records = NULL;
	uint64_t n_before = r->n_valid + r->n_invalid + r->n_cut;
	int e = input_open(fd, &in);

	if (e == 0)
		e = records_open(in, name, &records);
	if (e == 0)
		e = take_records(r, records, in, name);
	r->n_files++;
	if (e == 0 && r->n_valid + r->n_invalid + r->n_cut == n_before && r->n_empty++ == 0)
		utf8_add_text(&r->first_empty, name, strlen(name));
	return e < 0 && err && err->code == 0
		       ? err_set(err, e, "cannot read %s: %s", name, strerror(-e))
		       : e;
}

/* ---- folders ---- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int read_file(struct intake *r, const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	return intake_read_fd(r, fd, path, err);
}

/* A folder, or a file with a name of telemetry. Below what was named links are not followed. */
static int read_entry(struct intake *r, FTS *tree, FTSENT *entry, struct err *err)
{
	bool is_named = entry->fts_level == FTS_ROOTLEVEL;

	if (!is_named && entry->fts_name[0] == '.') {
		fts_set(tree, entry, FTS_SKIP);
		return 0;
	}
	switch (entry->fts_info) {
	case FTS_D:
		return entry->fts_level < MAX_FOLDER_DEPTH
			       ? 0
			       : err_set(err, -ELOOP,
					 "%s is deeper than %d folders below the one that was "
					 "named: name one that is nearer",
					 entry->fts_path, MAX_FOLDER_DEPTH);
	case FTS_DNR:
	case FTS_ERR:
		return err_set(err, -entry->fts_errno, "cannot read the folder %s: %s",
			       entry->fts_path, strerror(entry->fts_errno));
	case FTS_F:
		return is_named || records_hint_of(entry->fts_name) != HINT_NONE
			       ? read_file(r, entry->fts_path, err)
			       : 0;
	default: /* only what is named may be of another kind: a pipe, say */
		return is_named && entry->fts_info != FTS_DP ? read_file(r, entry->fts_path, err)
							     : 0;
	}
}

static void close_tree(FTS **tree)
{
	if (*tree)
		fts_close(*tree);
}

static int read_path(struct intake *r, const char *path, struct err *err)
{
	char *const paths[] = { (char *)path, NULL };
	CLEANUP(close_tree)
	FTS *tree = fts_open(paths, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	uint64_t n_files = r->n_files;
	FTSENT *entry = NULL;
	int e = 0;

	if (!tree)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	while (e == 0 && (entry = fts_read(tree)))
		e = read_entry(r, tree, entry, err);
	if (e == 0 && errno != 0) /* the walk broke off: at its end this is 0 */
		return err_set(err, -errno, "cannot read the folder %s: %s", path, strerror(errno));
	/* The user who names a folder means files in it. */
	if (e == 0 && r->n_files == n_files)
		return err_set(err, -ENOENT,
			       "no file in the folder %s has a name that ends in .jsonl, .ndjson, "
			       ".json or .csv, with or without .gz or .zst",
			       path);
	return e;
}

int intake_read(struct intake *r, const char *path, struct err *err)
{
	int fd;

	if (strcmp(path, "-") != 0)
		return read_path(r, path, err);
	fd = dup(STDIN_FILENO);
	if (fd < 0)
		return err_set(err, -errno, "cannot read standard input: %s", strerror(errno));
	return intake_read_fd(r, fd, "-", err);
}

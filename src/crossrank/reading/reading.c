#include "crossrank/reading/reading.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/io.h"
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

static int read_file(struct intake *r, const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	return intake_read_fd(r, fd, path, err);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All of its names but hidden ones, in their order, which end with NULL. */
static int list_folder(const char *path, struct arena *arena, const char ***ret)
{
	CLEANUP(dir_close) DIR *dir = opendir(path);
	CLEANUP(free_ptr) const char **names = NULL;
	size_t n = 0, cap = 0;
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (ARRAY_RESERVE(names, cap, n + 1) < 0 ||
		    !(names[n] = arena_strdup(arena, entry->d_name)))
			return -ENOMEM;
		n++;
	}
	if (errno != 0)
		return -errno;
	if (n > 0)
		qsort(names, n, sizeof(*names), compare_names);
	if (ARRAY_RESERVE(names, cap, n + 1) < 0)
		return -ENOMEM;
	names[n] = NULL;
	*ret = TAKE_PTR(names);
	return 0;
}

/* Folders in it, and files with a name of telemetry. Links are not followed. */
static int read_folder(struct intake *r, const char *path, unsigned depth, struct err *err)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(free_ptr) const char **names = NULL;
	CLEANUP(buf_release) struct buf at = BUF_INIT;
	int e = depth < MAX_FOLDER_DEPTH ? list_folder(path, &arena, &names) : -ELOOP;

	if (e == -ELOOP)
		return err_set(err, e,
			       "%s is deeper than %d folders below the one that was named: name "
			       "one that is nearer",
			       path, MAX_FOLDER_DEPTH);
	if (e < 0)
		return err_set(err, e, "cannot read the folder %s: %s", path, strerror(-e));
	for (size_t i = 0; e == 0 && names[i]; i++) {
		struct stat st;

		buf_reset(&at);
		buf_printf(&at, "%s/%s", path, names[i]);
		if (buf_error(&at) < 0)
			return err_set(err, -ENOMEM, "out of memory");
		if (lstat(at.data, &st) < 0) {
			if (errno != ENOENT) /* it went meanwhile */
				e = err_set(err, -errno, "cannot read %s: %s", at.data,
					    strerror(errno));
		} else if (S_ISDIR(st.st_mode)) {
			e = read_folder(r, at.data, depth + 1, err);
		} else if (S_ISREG(st.st_mode) && records_hint_of(names[i]) != HINT_NONE) {
			e = read_file(r, at.data, err);
		}
	}
	return e;
}

/* What is named may be of any kind: a pipe, say. */
static int read_path(struct intake *r, const char *path, struct err *err)
{
	uint64_t n_files = r->n_files;
	struct stat st;
	int e;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return read_file(r, path, err);
	e = read_folder(r, path, 0, err);
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

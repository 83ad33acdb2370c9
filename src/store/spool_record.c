#include "store/spool_record.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/spool_values.h"
#include "store/tables.h"

/*
 * The format, the names of each table's columns, the attempt, the sheets with their ranks, the
 * notes, the rungs. How many there are of these stands before them. Behind that, and only if there
 * are any: whom it has left, with the names of these columns. The format changes with the order of
 * this: columns may come and go without.
 */
#define FORMAT 3
#define COUNT_MAX 65536

static const struct column who_items[] = {
	COLUMN(attempt, job_id, column_text),
	COLUMN(attempt, boot_id, column_chars),
};
static const struct columns who_columns = COLUMNS(who_items);

enum table {
	TABLE_WHO,
	TABLE_BEGIN,
	TABLE_PROGRESS,
	TABLE_END,
	TABLE_USAGE,
	TABLE_SHEET,
	TABLE_RANK,
	TABLE_NOTE,
	TABLE_RUNG,
	TABLE_LEFT,
	TABLE_COUNT,
};

static const struct columns *const tables[TABLE_COUNT] = {
	[TABLE_WHO] = &who_columns,
	[TABLE_BEGIN] = &attempt_begin_columns,
	[TABLE_PROGRESS] = &attempt_progress_columns,
	[TABLE_END] = &attempt_end_columns,
	[TABLE_USAGE] = &usage_columns,
	[TABLE_SHEET] = &sheet_columns,
	[TABLE_RANK] = &rank_columns,
	[TABLE_NOTE] = &unknown_columns,
	[TABLE_RUNG] = &rung_columns,
	[TABLE_LEFT] = &event_columns,
};

/* Those that are fields of struct attempt itself. */
#define TABLE_LAST_OF_ATTEMPT TABLE_END

/* ---- writing ---- */

static void write_sheet(struct value_writer *w, const struct sheet_record *sheet)
{
	value_write_columns(w, tables[TABLE_SHEET], sheet);
	value_write_columns(w, tables[TABLE_USAGE], &sheet->usage);
	value_write_i64(w, (int64_t)sheet->n_ranks);
	for (size_t i = 0; i < sheet->n_ranks; i++)
		value_write_columns(w, tables[TABLE_RANK], &sheet->ranks[i]);
}

static void write_attempt(struct value_writer *w, const struct attempt *a)
{
	value_write_i64(w, FORMAT);
	for (enum table t = 0; t < TABLE_LEFT; t++)
		value_write_names(w, tables[t]);
	for (enum table t = 0; t <= TABLE_LAST_OF_ATTEMPT; t++)
		value_write_columns(w, tables[t], a);
	value_write_columns(w, tables[TABLE_USAGE], &a->usage);
}

/* Of the events only these: a daemon goes on with them. */
static void write_left(struct value_writer *w, const struct attempt *a, bool is_bare)
{
	size_t n = 0;

	for (size_t i = 0; !is_bare && i < a->n_events; i++)
		n += a->events[i].type == EVENT_ORPHAN;
	if (n == 0)
		return;
	value_write_names(w, tables[TABLE_LEFT]);
	value_write_i64(w, (int64_t)n);
	for (size_t i = 0; i < a->n_events; i++)
		if (a->events[i].type == EVENT_ORPHAN)
			value_write_columns(w, tables[TABLE_LEFT], &a->events[i]);
}

static void write_lists(struct value_writer *w, const struct attempt *a, bool is_bare)
{
	size_t n_sheets = is_bare ? 0 : a->n_sheets, n_notes = is_bare ? 0 : a->n_unknowns;
	size_t n_rungs = is_bare ? 0 : a->n_rungs;

	value_write_i64(w, (int64_t)n_sheets);
	for (size_t i = 0; i < n_sheets; i++)
		write_sheet(w, &a->sheets[i]);
	value_write_i64(w, (int64_t)n_notes);
	for (size_t i = 0; i < n_notes; i++)
		value_write_columns(w, tables[TABLE_NOTE], &a->unknowns[i]);
	value_write_i64(w, (int64_t)n_rungs);
	for (size_t i = 0; i < n_rungs; i++)
		value_write_columns(w, tables[TABLE_RUNG], &a->rungs[i]);
	write_left(w, a, is_bare);
}

int spool_record_write(const struct attempt *a, bool is_bare, struct buf *out)
{
	CLEANUP(value_writer_close) struct value_writer w;
	int r = value_writer_open(&w, out);

	if (r < 0)
		return r;
	write_attempt(&w, a);
	write_lists(&w, a, is_bare);
	return w.failed || buf_error(out) < 0 ? -ENOMEM : 0;
}

/* ---- reading ---- */

struct record_reader {
	struct value_reader r;
	struct value_names names[TABLE_COUNT];
	struct attempt *a;
};

static void read_row(struct record_reader *rec, enum table table, void *to)
{
	value_read_columns(&rec->r, &rec->names[table], to, &rec->a->arena);
}

/* Memory for as many as there are said to be, all zero; NULL for none. Each takes a byte or more.
 */
static void *read_count(struct record_reader *rec, size_t item_size, size_t *ret_n)
{
	int64_t n = value_read_i64(&rec->r);
	void *items;

	*ret_n = 0;
	if (rec->r.error == 0 && (n < 0 || n > COUNT_MAX || n > rec->r.end - rec->r.p))
		rec->r.error = -EBADMSG;
	if (rec->r.error < 0 || n == 0)
		return NULL;
	items = arena_alloc(&rec->a->arena, (size_t)n * item_size);
	if (!items) {
		rec->r.error = -ENOMEM;
		return NULL;
	}
	*ret_n = (size_t)n;
	return memset(items, 0, (size_t)n * item_size);
}

static void read_sheet(struct record_reader *rec, struct sheet_record *sheet)
{
	sheet->started_wall_ns = sheet->ended_wall_ns = U64_UNKNOWN;
	sheet->status = (struct exit_status){ -1, -1 };
	usage_init(&sheet->usage);
	read_row(rec, TABLE_SHEET, sheet);
	read_row(rec, TABLE_USAGE, &sheet->usage);
	sheet->ranks = read_count(rec, sizeof(*sheet->ranks), &sheet->n_ranks);
	for (size_t i = 0; rec->r.error == 0 && i < sheet->n_ranks; i++) {
		sheet->ranks[i].status = (struct exit_status){ -1, -1 };
		sheet->ranks[i].ended_wall_ns = U64_UNKNOWN;
		read_row(rec, TABLE_RANK, &sheet->ranks[i]);
	}
}

static void read_attempt(struct record_reader *rec)
{
	if (value_read_i64(&rec->r) != FORMAT && rec->r.error == 0)
		rec->r.error = -EBADMSG;
	for (enum table t = 0; rec->r.error == 0 && t < TABLE_LEFT; t++)
		value_read_names(&rec->r, tables[t], &rec->names[t]);
	for (enum table t = 0; rec->r.error == 0 && t <= TABLE_LAST_OF_ATTEMPT; t++)
		read_row(rec, t, rec->a);
	if (rec->r.error == 0)
		read_row(rec, TABLE_USAGE, &rec->a->usage);
}

static void read_left(struct record_reader *rec)
{
	struct attempt *a = rec->a;

	value_read_names(&rec->r, tables[TABLE_LEFT], &rec->names[TABLE_LEFT]);
	a->events = read_count(rec, sizeof(*a->events), &a->n_events);
	for (size_t i = 0; rec->r.error == 0 && i < a->n_events; i++) {
		a->events[i].wall_ns = a->events[i].key.start_ticks = U64_UNKNOWN;
		a->events[i].status = (struct exit_status){ -1, -1 };
		read_row(rec, TABLE_LEFT, &a->events[i]);
	}
}

static void read_lists(struct record_reader *rec)
{
	struct attempt *a = rec->a;

	a->sheets = read_count(rec, sizeof(*a->sheets), &a->n_sheets);
	for (size_t i = 0; rec->r.error == 0 && i < a->n_sheets; i++)
		read_sheet(rec, &a->sheets[i]);
	a->unknowns = read_count(rec, sizeof(*a->unknowns), &a->n_unknowns);
	for (size_t i = 0; rec->r.error == 0 && i < a->n_unknowns; i++)
		read_row(rec, TABLE_NOTE, &a->unknowns[i]);
	a->rungs = read_count(rec, sizeof(*a->rungs), &a->n_rungs);
	for (size_t i = 0; rec->r.error == 0 && i < a->n_rungs; i++)
		read_row(rec, TABLE_RUNG, &a->rungs[i]);
	if (rec->r.error == 0 && rec->r.p < rec->r.end)
		read_left(rec);
}

int spool_record_read(const void *bytes, size_t len, struct attempt *ret)
{
	struct record_reader rec = { .a = ret };
	int r = value_reader_open(&rec.r, bytes, len);

	if (r < 0)
		return r;
	read_attempt(&rec);
	if (rec.r.error == 0)
		read_lists(&rec);
	if (rec.r.error == 0 && (!ret->job_id || !ret->job_id[0]))
		rec.r.error = -EBADMSG;
	value_reader_close(&rec.r);
	return rec.r.error;
}

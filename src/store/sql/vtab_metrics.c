#include <errno.h>

#include "base/macros.h"
#include "store/sql/vtab.h"
#include "store/sql/vtab_ticks.h"

struct metrics_row {
	int64_t tick_id;
	uint64_t wall_ns;
	double resolution_seconds;
	uint64_t n_samples;
	int attempt_num;
	struct proc_sample sample;
};

struct metrics_cursor {
	struct vtab_cursor base;
	struct vtab_ticks ticks;
	size_t process; /* in the fold, or row of the minute: the next one */
	struct metrics_row row;
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct metrics_row, field_)
#define NOT_KEYED(offset_) (offset_), VTAB_NO_KEY, 0

/* A value as it was measured; not of all, where a column for people is enough. */
#define EXACT_CSV(member_, key_, help_)
#define EXACT_SQL(member_, key_, help_) \
	{ key_, VTAB_GIVE_U64, NOT_KEYED(ROW(sample.member_)), help_ },

static const struct vtab_column columns[] = {
	{ "snapshot_id", "INTEGER", vtab_give_i64, ROW(tick_id), VTAB_TICK, 0, "snapshots.id" },
	{ "timestamp", "REAL", vtab_give_seconds, ROW(wall_ns), VTAB_TIME, 0,
	  "unix seconds, of the snapshot" },
#define SAMPLE_FIELD(kind_, member_, key_, help_) \
	{ key_, VTAB_GIVE_##kind_, NOT_KEYED(ROW(sample.member_)), help_ },
#define SAMPLE_ID(kind_, member_, key_, by_, help_) \
	{ key_, VTAB_GIVE_##kind_, ROW(sample.member_), VTAB_##by_, 0, help_ },
#define SAMPLE_JOB(kind_, member_, key_, by_, help_) \
	{ key_, VTAB_GIVE_##kind_, ROW(sample.member_), VTAB_##by_, 0, help_ },
#define SAMPLE_CALLS(kind_, key_, help_) { key_, VTAB_GIVE_##kind_, NOT_KEYED(ROW(sample)), help_ },
#define SAMPLE_CONTRACT_ENDS                                                \
	{ "attempt", "INTEGER", vtab_give_int, NOT_KEYED(ROW(attempt_num)), \
	  "number of the attempt" },
#define SAMPLE_EXACT(member_, key_, where_, help_) EXACT_##where_(member_, key_, help_)
#include "model/sample_fields.def"
	{ "resolution_seconds", "REAL", vtab_give_f64, NOT_KEYED(ROW(resolution_seconds)),
	  "NULL: as it was read; 60: of a minute, averages; see process_minutes" },
	{ "samples", "INTEGER", vtab_give_u64, NOT_KEYED(ROW(n_samples)),
	  "how many stand behind it: 1, or those of the minute" },
};

/* At least one, which is what tells samples from none. */
static unsigned n_words(const struct vtab_column *column)
{
	unsigned n = 0;

	if (column->give == vtab_give_syscall_counts || column->give == vtab_give_syscall_times)
		return SAMPLE_WORDS; /* they stand behind all others */
	if (column->give && column->offset >= ROW(sample))
		n = sample_words_up_to(column->offset - ROW(sample));
	return n > 0 ? n : 1;
}

static double count_rows(const struct vtab_size *size)
{
	return size->n_samples;
}

/* ---- rows ---- */

/* The next process that was there at the tick. */
static int next_of_fold(struct metrics_cursor *c, struct err *err)
{
	const struct open_fold *fold = c->ticks.fold;
	int r = 0;

	while (r == 0 && c->process < fold->n_processes)
		r = open_fold_sample(c->base.store, fold, c->process++, &c->row.sample,
				     &c->row.attempt_num, err);
	c->row.n_samples = 1;
	return r;
}

static int next_of_minute(struct metrics_cursor *c, struct err *err)
{
	const struct minute_rows *m = &c->ticks.minute;
	struct minute_row row;
	int r = 0;

	while (r == 0 && c->process < m->n)
		r = minute_window_row(m->window, m->first + c->process++, &row, err);
	if (r <= 0)
		return r;
	minute_row_sample(&row, &c->row.sample);
	c->row.attempt_num = row.attempt_num;
	c->row.n_samples = row.n_samples;
	return 1;
}

static int next_process(struct metrics_cursor *c, struct err *err)
{
	return c->ticks.fold ? next_of_fold(c, err) : next_of_minute(c, err);
}

/* From the moment, if there is one (r), on to one that has a process. */
static int find_row(struct metrics_cursor *c, int r, struct err *err)
{
	while (r > 0) {
		c->process = 0;
		r = next_process(c, err);
		if (r != 0)
			break;
		r = vtab_ticks_next(&c->ticks, err);
	}
	if (r <= 0)
		return r;
	c->row.tick_id = vtab_ticks_id(&c->ticks);
	c->row.wall_ns = vtab_ticks_wall_ns(&c->ticks);
	c->row.resolution_seconds = vtab_ticks_resolution(&c->ticks);
	return 1;
}

static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	struct vtab_filter with_samples = *filter;

	if (with_samples.n_words == 0) /* count(*) uses no column */
		with_samples.n_words = 1;
	return find_row(c, vtab_ticks_begin(&c->ticks, base->store, &with_samples, err), err);
}

static int next_row(struct vtab_cursor *base, struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	int r = next_process(c, err);

	return r != 0 ? r : find_row(c, vtab_ticks_next(&c->ticks, err), err);
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	(void)column;
	(void)err;
	return &((struct metrics_cursor *)base)->row;
}

/* As chunks have it, with the tick instead of the fold. */
static int64_t row_id(const struct vtab_cursor *base)
{
	const struct metrics_cursor *c = (const struct metrics_cursor *)base;
	const struct minute_rows *m = &c->ticks.minute;
	int64_t process = c->ticks.fold
				  ? open_fold_process_id(c->ticks.fold, c->process - 1)
				  : minute_window_process(m->window, m->first + c->process - 1);

	return c->row.tick_id * (CHUNK_PROCESS_MAX + 1) + (process & CHUNK_PROCESS_MAX);
}

static void close_rows(struct vtab_cursor *base)
{
	vtab_ticks_release(&((struct metrics_cursor *)base)->ticks);
}

const struct vtab_table vtab_metrics = {
	.name = "process_metrics",
	.about =
		"what each process of a job was doing, in each snapshot; in each minute of what is older. "
		"cpu_wait_seconds and ignores_sigchld are told of now alone, and in no record",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct metrics_cursor),
	.count = count_rows,
	.n_words = n_words,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};

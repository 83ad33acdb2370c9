#include "model/record.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/words.h"

/* ---- which fields ---- */

static const struct column attempt_who_items[] = {
	COLUMN(attempt, job_id, COLUMN_TEXT),
	COLUMN(attempt, boot_id, COLUMN_CHARS),
	COLUMN(attempt, attempt_num, COLUMN_INT),
};
static const struct columns attempt_who_columns = COLUMNS(attempt_who_items);

static const struct column attempt_begin_items[] = {
	COLUMN_AS("runner_pid", attempt, runner.pid, COLUMN_INT),
	COLUMN_AS("runner_start_ticks", attempt, runner.start_ticks, COLUMN_U64),
	COLUMN(attempt, command, COLUMN_TEXT),
	COLUMN(attempt, argv_hash, COLUMN_BITS),
	COLUMN(attempt, input_bytes, COLUMN_U64),
	COLUMN(attempt, input_hash, COLUMN_BITS),
	COLUMN(attempt, uid, COLUMN_U64),
	COLUMN(attempt, submission, COLUMN_U64),
	COLUMN(attempt, host, COLUMN_TEXT),
	COLUMN(attempt, workdir, COLUMN_TEXT),
	COLUMN(attempt, is_attached, COLUMN_FLAG),
	COLUMN(attempt, pid_ns, COLUMN_U64),
	COLUMN(attempt, interval_seconds, COLUMN_F64),
	COLUMN(attempt, started_wall_ns, COLUMN_U64),
	COLUMN(attempt, total_sheets, COLUMN_INT),
};
const struct columns attempt_begin_columns = COLUMNS(attempt_begin_items);

static const struct column clock_items[] = {
	COLUMN_AS("clock_error_ns", attempt, clock.error_ns, COLUMN_U64),
	COLUMN_AS("is_clock_synchronised", attempt, clock.is_synchronised, COLUMN_INT_OR_NONE),
};
const struct columns clock_columns = COLUMNS(clock_items);

static const struct column attempt_progress_items[] = {
	COLUMN(attempt, last_completed_sheet, COLUMN_INT),
	COLUMN(attempt, current_sheet, COLUMN_INT_OR_NONE),
};
const struct columns attempt_progress_columns = COLUMNS(attempt_progress_items);

static const struct column attempt_end_items[] = {
	COLUMN(attempt, ended_wall_ns, COLUMN_U64),
	COLUMN(attempt, outcome, COLUMN_OUTCOME),
	COLUMN(attempt, reason, COLUMN_TEXT),
	COLUMN_AS("exit_code", attempt, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", attempt, status.signal, COLUMN_INT_OR_NONE),
};
const struct columns attempt_end_columns = COLUMNS(attempt_end_items);

static const struct column usage_items[] = {
	COLUMN(usage, wall_ns, COLUMN_U64),
	COLUMN(usage, user_ns, COLUMN_U64),
	COLUMN(usage, system_ns, COLUMN_U64),
	COLUMN(usage, cpu_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, peak_rss_bytes, COLUMN_U64),
	COLUMN(usage, peak_rss_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, max_process_rss_bytes, COLUMN_U64),
	COLUMN(usage, max_process_rss_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, rchar, COLUMN_U64),
	COLUMN(usage, wchar, COLUMN_U64),
	COLUMN(usage, syscr, COLUMN_U64),
	COLUMN(usage, syscw, COLUMN_U64),
	COLUMN(usage, read_bytes, COLUMN_U64),
	COLUMN(usage, write_bytes, COLUMN_U64),
	COLUMN(usage, io_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, minor_faults, COLUMN_U64),
	COLUMN(usage, major_faults, COLUMN_U64),
	COLUMN(usage, voluntary_switches, COLUMN_U64),
	COLUMN(usage, involuntary_switches, COLUMN_U64),
	COLUMN(usage, spawn_count, COLUMN_U64),
	COLUMN(usage, spawn_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, peak_processes, COLUMN_U64),
	COLUMN(usage, peak_cpu_percent, COLUMN_F64),
	COLUMN(usage, peak_gpu_bytes, COLUMN_U64),
	COLUMN(usage, gpu_busy_ns, COLUMN_U64),
	COLUMN(usage, gpu_idle_ns, COLUMN_U64),
};
const struct columns usage_columns = COLUMNS(usage_items);

static const struct column daemon_items[] = {
	COLUMN_AS("pid", daemon_record, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", daemon_record, key.start_ticks, COLUMN_U64),
	COLUMN(daemon_record, version, COLUMN_TEXT),
	COLUMN(daemon_record, started_wall_ns, COLUMN_U64),
};
const struct columns daemon_columns = COLUMNS(daemon_items);

static const struct column sheet_items[] = {
	COLUMN(sheet_record, num, COLUMN_INT),
	COLUMN(sheet_record, try_num, COLUMN_INT),
	COLUMN(sheet_record, name, COLUMN_TEXT),
	COLUMN(sheet_record, command, COLUMN_TEXT),
	COLUMN(sheet_record, total_ranks, COLUMN_INT),
	COLUMN(sheet_record, started_wall_ns, COLUMN_U64),
	COLUMN(sheet_record, ended_wall_ns, COLUMN_U64),
	COLUMN(sheet_record, outcome, COLUMN_OUTCOME),
	COLUMN(sheet_record, reason, COLUMN_TEXT),
	COLUMN_AS("exit_code", sheet_record, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", sheet_record, status.signal, COLUMN_INT_OR_NONE),
};
const struct columns sheet_columns = COLUMNS(sheet_items);

static const struct column rank_items[] = {
	COLUMN(rank_record, rank, COLUMN_INT),
	COLUMN(rank_record, pid, COLUMN_INT),
	COLUMN_AS("exit_code", rank_record, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", rank_record, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(rank_record, ended_wall_ns, COLUMN_U64),
};
const struct columns rank_columns = COLUMNS(rank_items);

static const struct column process_items[] = {
	COLUMN_AS("pid", proc_record, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_record, key.start_ticks, COLUMN_U64),
	COLUMN(proc_record, ppid, COLUMN_INT),
	COLUMN(proc_record, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_record, rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_record, local_rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_record, world_size, COLUMN_INT_OR_NONE),
	COLUMN(proc_record, command, COLUMN_TEXT),
	COLUMN(proc_record, uid, COLUMN_U64),
	COLUMN(proc_record, born_wall_ns, COLUMN_U64),
	COLUMN(proc_record, died_wall_ns, COLUMN_U64),
	COLUMN_AS("exit_code", proc_record, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", proc_record, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(proc_record, user_ns, COLUMN_U64),
	COLUMN(proc_record, system_ns, COLUMN_U64),
	COLUMN(proc_record, max_rss_bytes, COLUMN_U64),
	COLUMN(proc_record, evidence, COLUMN_EVIDENCE),
	COLUMN(proc_record, cpu_evidence, COLUMN_EVIDENCE),
	COLUMN(proc_record, rchar, COLUMN_U64),
	COLUMN(proc_record, wchar, COLUMN_U64),
	COLUMN(proc_record, read_bytes, COLUMN_U64),
	COLUMN(proc_record, write_bytes, COLUMN_U64),
	COLUMN(proc_record, major_faults, COLUMN_U64),
	COLUMN(proc_record, max_threads, COLUMN_U64),
	COLUMN(proc_record, max_fds, COLUMN_U64),
	COLUMN(proc_record, max_gpu_bytes, COLUMN_U64),
	COLUMN(proc_record, gpu_busy_ns, COLUMN_U64),
	COLUMN(proc_record, gpu_idle_ns, COLUMN_U64),
	COLUMN(proc_record, n_samples, COLUMN_U64),
	COLUMN(proc_record, syscalls, COLUMN_TEXT),
};
const struct columns process_columns = COLUMNS(process_items);

static const struct column sample_process_items[] = {
	COLUMN_AS("pid", proc_sample, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_sample, key.start_ticks, COLUMN_U64),
	COLUMN(proc_sample, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, local_rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, world_size, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, comm, COLUMN_CHARS),
	COLUMN(proc_sample, command, COLUMN_TEXT),
	COLUMN(proc_sample, cgroup, COLUMN_TEXT),
	COLUMN(proc_sample, ns_pid, COLUMN_U64),
	COLUMN(proc_sample, start_wall_ns, COLUMN_U64),
};
const struct columns sample_process_columns = COLUMNS(sample_process_items);

static const struct column event_items[] = {
	COLUMN(proc_event, wall_ns, COLUMN_U64),
	COLUMN_AS("pid", proc_event, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, COLUMN_U64),
	COLUMN(proc_event, type, COLUMN_EVENT_TYPE),
	COLUMN_AS("exit_code", proc_event, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", proc_event, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, details, COLUMN_DETAIL),
};
const struct columns event_columns = COLUMNS(event_items);

static const struct column phase_items[] = {
	COLUMN(phase_record, rank, COLUMN_INT_OR_NONE),
	COLUMN(phase_record, pid, COLUMN_INT),
	COLUMN(phase_record, name, COLUMN_TEXT),
	COLUMN(phase_record, path, COLUMN_TEXT),
	COLUMN(phase_record, entered_wall_ns, COLUMN_U64),
	COLUMN(phase_record, left_wall_ns, COLUMN_U64),
};
const struct columns phase_columns = COLUMNS(phase_items);

static const struct column rung_items[] = {
	COLUMN(rung, measurement, COLUMN_TEXT),
	COLUMN(rung, rung, COLUMN_TEXT),
	COLUMN(rung, reason, COLUMN_TEXT),
};
const struct columns rung_columns = COLUMNS(rung_items);

static const struct column unknown_items[] = {
	COLUMN(unknown_note, what, COLUMN_TEXT),
	COLUMN(unknown_note, why, COLUMN_TEXT),
};
const struct columns unknown_columns = COLUMNS(unknown_items);

static const struct column syscall_items[] = {
	COLUMN(syscall_use, name, COLUMN_TEXT),	  COLUMN(syscall_use, count, COLUMN_U64),
	COLUMN(syscall_use, errors, COLUMN_U64),  COLUMN(syscall_use, cpu_ns, COLUMN_U64),
	COLUMN(syscall_use, wait_ns, COLUMN_U64),
};
const struct columns syscall_columns = COLUMNS(syscall_items);

static const struct column episode_items[] = {
	COLUMN(episode, name, COLUMN_CHARS),
	COLUMN_AS("type", episode, worst.type, COLUMN_INT),
	COLUMN_AS("severity", episode, worst.severity, COLUMN_INT),
	COLUMN_AS("timestamp", episode, worst.timestamp, COLUMN_F64),
	COLUMN_AS("has_pid", episode, worst.has_pid, COLUMN_FLAG),
	COLUMN_AS("pid", episode, worst.pid, COLUMN_BITS),
	COLUMN_AS("start_ticks", episode, worst.start_ticks, COLUMN_U64),
	COLUMN(episode, job_id, COLUMN_CHARS),
	COLUMN_AS("sheet_num", episode, worst.sheet_num, COLUMN_INT_OR_NONE),
	COLUMN_AS("description", episode, worst.text, COLUMN_CHARS),
	COLUMN_AS("metric_value", episode, worst.metric_value, COLUMN_F64),
	COLUMN_AS("threshold", episode, worst.threshold, COLUMN_F64),
	COLUMN(episode, comm, COLUMN_CHARS),
	COLUMN(episode, is_adopted, COLUMN_FLAG),
	COLUMN(episode, gpu, COLUMN_INT_OR_NONE),
	COLUMN(episode, unit, COLUMN_TEXT),
	COLUMN(episode, began_wall_ns, COLUMN_U64),
	COLUMN(episode, peak_wall_ns, COLUMN_U64),
	COLUMN(episode, ended_wall_ns, COLUMN_U64),
	COLUMN(episode, cleared_wall_ns, COLUMN_U64),
	COLUMN(episode, seen_wall_ns, COLUMN_U64),
	COLUMN(episode, over_wall_ns, COLUMN_U64),
	COLUMN(episode, count, COLUMN_BITS),
	COLUMN(episode, before_value, COLUMN_F64),
	COLUMN(episode, first_value, COLUMN_F64),
	COLUMN(episode, peak_value, COLUMN_F64),
	COLUMN(episode, after_value, COLUMN_F64),
	COLUMN(episode, seconds_to_limit, COLUMN_F64),
	COLUMN(episode, why_cleared, COLUMN_TEXT),
	COLUMN(episode, full_from_wall_ns, COLUMN_U64),
	COLUMN(episode, full_until_wall_ns, COLUMN_U64),
	COLUMN_AS("host", episode, host_json, COLUMN_TEXT),
	COLUMN_AS("evidence", episode, evidence_json, COLUMN_TEXT),
};
const struct columns episode_columns = COLUMNS(episode_items);

/* ---- values ---- */

#define NUMBER_BYTES 10
#define F64_KNOWN 1 /* before its eight bytes */

void record_write_number(struct buf *out, uint64_t v)
{
	uint8_t bytes[NUMBER_BYTES];
	size_t n = 0;

	for (; v >= 128; v >>= 7)
		bytes[n++] = (uint8_t)(v | 128);
	bytes[n++] = (uint8_t)v;
	buf_add(out, bytes, n);
}

static void fail(struct record_reader *r, int error)
{
	if (r->error == 0)
		r->error = error;
	r->p = r->end;
}

uint64_t record_read_number(struct record_reader *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && r->p < r->end; shift += 7) {
		uint8_t byte = *r->p++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return v;
	}
	fail(r, -EBADMSG);
	return 0;
}

static int read_int(struct record_reader *r)
{
	int64_t v = (int64_t)unzigzag(record_read_number(r));

	if (v < INT_MIN || v > INT_MAX)
		fail(r, -EBADMSG);
	return r->error < 0 ? 0 : (int)v;
}

static int read_int_or_none(struct record_reader *r)
{
	uint64_t v = record_read_number(r);

	if (v > (uint64_t)INT_MAX + 1)
		fail(r, -EBADMSG);
	return r->error < 0 || v == 0 ? -1 : (int)(v - 1);
}

static void write_f64(struct buf *out, double v)
{
	uint64_t bits;

	if (!f64_known(v)) {
		buf_add_char(out, 0);
		return;
	}
	memcpy(&bits, &v, sizeof(bits));
	bits = htole64(bits);
	buf_add_char(out, F64_KNOWN);
	buf_add(out, &bits, sizeof(bits));
}

static double read_f64(struct record_reader *r)
{
	uint64_t bits;
	double v;

	if (r->p == r->end || *r->p > F64_KNOWN) {
		fail(r, -EBADMSG);
		return F64_UNKNOWN;
	}
	if (*r->p++ == 0)
		return F64_UNKNOWN;
	if ((size_t)(r->end - r->p) < sizeof(bits)) {
		fail(r, -EBADMSG);
		return F64_UNKNOWN;
	}
	memcpy(&bits, r->p, sizeof(bits));
	r->p += sizeof(bits);
	bits = le64toh(bits);
	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* The length and one more, so that 0 is NULL. */
static void write_text(struct buf *out, const char *s)
{
	size_t n = s ? strlen(s) : 0;

	record_write_number(out, s ? n + 1 : 0);
	buf_add(out, s, n);
}

/* Borrowed bytes without a NUL; NULL where it is NULL, or after an error. */
static const char *read_text(struct record_reader *r, size_t *ret_n)
{
	uint64_t n = record_read_number(r);
	const char *s = (const char *)r->p;

	*ret_n = 0;
	if (n == 0 || r->error < 0)
		return NULL;
	if (n - 1 > (uint64_t)(r->end - r->p) || memchr(s, 0, (size_t)n - 1)) {
		fail(r, -EBADMSG);
		return NULL;
	}
	r->p += n - 1;
	*ret_n = (size_t)n - 1;
	return s;
}

static const char *read_string(struct record_reader *r)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n;
	const char *s = read_text(r, &n), *copy = NULL;

	if (s && r->text_max) {
		for (size_t i = 0; i < n && shown.len <= r->text_max;)
			i += utf8_add_shown(&shown, s + i, n - i);
		s = shown.data;
		n = utf8_cut(shown.data, shown.len, r->text_max);
	}
	if (s) {
		copy = buf_error(&shown) < 0 ? NULL : arena_strndup(r->arena, s, n);
		if (!copy)
			fail(r, -ENOMEM);
	}
	return copy;
}

static void read_chars(struct record_reader *r, char *to, size_t size)
{
	size_t n;
	const char *s = read_text(r, &n);

	if (n >= size) {
		fail(r, -EBADMSG);
		return;
	}
	memset(to, 0, size);
	if (s)
		memcpy(to, s, n);
	for (size_t i = 0; r->text_max && i < n; i++)
		if ((unsigned char)to[i] < ' ' || to[i] == 0x7f)
			to[i] = '?';
}

static unsigned read_enum(struct record_reader *r, unsigned n)
{
	uint64_t v = record_read_number(r);

	if (v >= n)
		fail(r, -EBADMSG);
	return v < n ? (unsigned)v : 0;
}

static void write_value(struct buf *out, const struct column *c, const void *field)
{
	int v;

	switch (c->type) {
	case COLUMN_U64: /* unknown wraps to 0 */
		record_write_number(out, *(const uint64_t *)field + 1);
		return;
	case COLUMN_BITS:
		record_write_number(out, *(const uint64_t *)field);
		return;
	case COLUMN_F64:
		write_f64(out, *(const double *)field);
		return;
	case COLUMN_INT:
		record_write_number(out, zigzag((uint64_t)(int64_t) * (const int *)field));
		return;
	case COLUMN_INT_OR_NONE:
		v = *(const int *)field;
		record_write_number(out, v < 0 ? 0 : (uint64_t)v + 1);
		return;
	case COLUMN_FLAG:
		record_write_number(out, *(const bool *)field);
		return;
	case COLUMN_TEXT:
		write_text(out, *(const char *const *)field);
		return;
	case COLUMN_DETAIL:
		write_text(out, *(const char *const *)field ? *(const char *const *)field : "");
		return;
	case COLUMN_CHARS:
		write_text(out, field);
		return;
	case COLUMN_OUTCOME:
		record_write_number(out, *(const enum outcome *)field);
		return;
	case COLUMN_EVIDENCE:
		record_write_number(out, *(const enum evidence *)field);
		return;
	case COLUMN_EVENT_TYPE:
		record_write_number(out, *(const enum event_type *)field);
		return;
	case N_COLUMN_TYPES:
		return;
	}
}

static void read_value(struct record_reader *r, const struct column *c, void *field)
{
	const char *s;

	switch (c->type) {
	case COLUMN_U64:
		*(uint64_t *)field = record_read_number(r) - 1;
		return;
	case COLUMN_BITS:
		*(uint64_t *)field = record_read_number(r);
		return;
	case COLUMN_F64:
		*(double *)field = read_f64(r);
		return;
	case COLUMN_INT:
		*(int *)field = read_int(r);
		return;
	case COLUMN_INT_OR_NONE:
		*(int *)field = read_int_or_none(r);
		return;
	case COLUMN_FLAG:
		*(bool *)field = read_enum(r, 2);
		return;
	case COLUMN_TEXT:
		*(const char **)field = read_string(r);
		return;
	case COLUMN_DETAIL:
		s = read_string(r);
		*(const char **)field = s ? s : "";
		return;
	case COLUMN_CHARS:
		read_chars(r, field, c->size);
		return;
	case COLUMN_OUTCOME:
		*(enum outcome *)field = read_enum(r, OUTCOME_OOM + 1);
		return;
	case COLUMN_EVIDENCE:
		*(enum evidence *)field = read_enum(r, EVIDENCE_UPPER_BOUND + 1);
		return;
	case COLUMN_EVENT_TYPE:
		*(enum event_type *)field = read_enum(r, N_EVENT_TYPES);
		return;
	case N_COLUMN_TYPES:
		return;
	}
}

/* ---- structs ---- */

void record_write_struct(struct buf *out, const struct columns *columns, const void *from)
{
	CLEANUP(buf_release) struct buf values = BUF_INIT;

	for (size_t i = 0; i < columns->n; i++)
		write_value(&values, &columns->items[i],
			    (const char *)from + columns->items[i].offset);
	record_write_number(out, columns->n);
	record_write_number(out, values.len);
	buf_add(out, values.data, values.len);
	if (buf_error(&values) < 0)
		out->failed = true;
}

void record_read_struct(struct record_reader *r, const struct columns *columns, void *to)
{
	uint64_t n = record_read_number(r), len = record_read_number(r);
	struct record_reader values = { r->p, r->end, r->arena, 0, r->text_max };

	if (r->error == 0 && len > (uint64_t)(r->end - r->p))
		fail(r, -EBADMSG);
	if (r->error < 0)
		return;
	values.end = values.p + len;
	for (size_t i = 0; i < columns->n && i < n && values.error == 0; i++)
		read_value(&values, &columns->items[i], (char *)to + columns->items[i].offset);
	if (values.error == 0 && n <= columns->n && values.p != values.end)
		values.error = -EBADMSG;
	if (values.error < 0)
		fail(r, values.error);
	else
		r->p += len;
}

/* ---- lists ---- */

static void init_rank(void *item)
{
	*(struct rank_record *)item =
		(struct rank_record){ .status = { -1, -1 }, .ended_wall_ns = U64_UNKNOWN };
}

static void init_process(void *item)
{
	proc_record_init(item);
}

static void init_event(void *item)
{
	*(struct proc_event *)item = (struct proc_event){ .wall_ns = U64_UNKNOWN,
							  .key.start_ticks = U64_UNKNOWN,
							  .status = { -1, -1 },
							  .sheet_num = SHEET_NONE,
							  .details = "" };
}

static void init_empty_rung(void *item)
{
	*(struct rung *)item = (struct rung){ 0 };
}

static void init_note(void *item)
{
	*(struct unknown_note *)item = (struct unknown_note){ 0 };
}

static void init_syscall(void *item)
{
	*(struct syscall_use *)item =
		(struct syscall_use){ .cpu_ns = U64_UNKNOWN, .wait_ns = U64_UNKNOWN };
}

static const struct {
	const struct columns *columns;
	size_t size;
	void (*init)(void *item);
} lists[N_RECORD_LISTS] = {
	[RECORD_LIST_RANKS] = { &rank_columns, sizeof(struct rank_record), init_rank },
	[RECORD_LIST_PROCESSES] = { &process_columns, sizeof(struct proc_record), init_process },
	[RECORD_LIST_EVENTS] = { &event_columns, sizeof(struct proc_event), init_event },
	[RECORD_LIST_RUNGS] = { &rung_columns, sizeof(struct rung), init_empty_rung },
	[RECORD_LIST_NOTES] = { &unknown_columns, sizeof(struct unknown_note), init_note },
	[RECORD_LIST_SYSCALLS] = { &syscall_columns, sizeof(struct syscall_use), init_syscall },
};

/* Memory for as many as there are said to be: each takes two bytes or more, and those that a
 * recorder writes eight, with their fields. */
static void *read_count(struct record_reader *r, size_t size, size_t *ret_n)
{
	uint64_t n = record_read_number(r);
	void *items;

	*ret_n = 0;
	if (n > (uint64_t)(r->end - r->p) / (r->text_max ? 8 : 2))
		fail(r, -EBADMSG);
	if (r->error < 0 || n == 0)
		return NULL;
	items = arena_alloc(r->arena, (size_t)n * size);
	if (!items)
		fail(r, -ENOMEM);
	else
		*ret_n = (size_t)n;
	return items;
}

void record_write_list(struct buf *out, enum record_list list, const void *items, size_t n)
{
	record_write_number(out, n);
	for (size_t i = 0; i < n; i++)
		record_write_struct(out, lists[list].columns,
				    (const char *)items + i * lists[list].size);
}

void *record_read_list(struct record_reader *r, enum record_list list, size_t *ret_n)
{
	char *items = read_count(r, lists[list].size, ret_n);

	for (size_t i = 0; i < *ret_n; i++) {
		lists[list].init(items + i * lists[list].size);
		record_read_struct(r, lists[list].columns, items + i * lists[list].size);
	}
	if (r->error < 0)
		*ret_n = 0;
	return r->error < 0 ? NULL : items;
}

void record_write_sheets(struct buf *out, const struct sheet_record *sheets, size_t n)
{
	record_write_number(out, n);
	for (size_t i = 0; i < n; i++) {
		record_write_struct(out, &sheet_columns, &sheets[i]);
		record_write_struct(out, &usage_columns, &sheets[i].usage);
		record_write_list(out, RECORD_LIST_RANKS, sheets[i].ranks, sheets[i].n_ranks);
	}
}

struct sheet_record *record_read_sheets(struct record_reader *r, size_t *ret_n)
{
	struct sheet_record *sheets = read_count(r, sizeof(*sheets), ret_n);

	for (size_t i = 0; i < *ret_n; i++) {
		sheets[i] = (struct sheet_record){ .started_wall_ns = U64_UNKNOWN,
						   .ended_wall_ns = U64_UNKNOWN,
						   .status = { -1, -1 } };
		usage_init(&sheets[i].usage);
		record_read_struct(r, &sheet_columns, &sheets[i]);
		record_read_struct(r, &usage_columns, &sheets[i].usage);
		sheets[i].ranks = record_read_list(r, RECORD_LIST_RANKS, &sheets[i].n_ranks);
	}
	if (r->error < 0)
		*ret_n = 0;
	return r->error < 0 ? NULL : sheets;
}

void record_write_phases(struct buf *out, const struct phase_change *items, size_t n)
{
	record_write_number(out, n);
	for (size_t i = 0; i < n; i++) {
		record_write_number(out, items[i].is_exit);
		record_write_struct(out, &phase_columns, &items[i].phase);
	}
}

struct phase_change *record_read_phases(struct record_reader *r, size_t *ret_n)
{
	struct phase_change *items = read_count(r, sizeof(*items), ret_n);

	for (size_t i = 0; i < *ret_n; i++) {
		struct phase_record *phase = &items[i].phase;

		items[i] = (struct phase_change){ .is_exit = read_enum(r, 2),
						  .phase = { .rank = RANK_NONE,
							     .entered_wall_ns = U64_UNKNOWN,
							     .left_wall_ns = U64_UNKNOWN } };
		record_read_struct(r, &phase_columns, phase);
		if (r->error == 0 && (!phase->name || !phase_name_is_valid(phase->name)))
			fail(r, -EBADMSG);
	}
	if (r->error < 0)
		*ret_n = 0;
	return r->error < 0 ? NULL : items;
}

/* ---- an attempt ---- */

void record_write_begin(struct buf *out, const struct attempt *a)
{
	record_write_struct(out, &attempt_who_columns, a);
	record_write_struct(out, &attempt_begin_columns, a);
	record_write_struct(out, &clock_columns, a);
	record_write_struct(out, &attempt_progress_columns, a);
}

void record_read_begin(struct record_reader *r, struct attempt *a)
{
	record_read_struct(r, &attempt_who_columns, a);
	record_read_struct(r, &attempt_begin_columns, a);
	record_read_struct(r, &clock_columns, a);
	record_read_struct(r, &attempt_progress_columns, a);
	if (r->error == 0 && (!a->job_id || !a->job_id[0]))
		fail(r, -EBADMSG);
}

void record_write_end(struct buf *out, const struct attempt *a)
{
	record_write_struct(out, &attempt_progress_columns, a);
	record_write_struct(out, &attempt_end_columns, a);
	record_write_struct(out, &usage_columns, &a->usage);
}

void record_read_end(struct record_reader *r, struct attempt *a)
{
	record_read_struct(r, &attempt_progress_columns, a);
	record_read_struct(r, &attempt_end_columns, a);
	record_read_struct(r, &usage_columns, &a->usage);
}

void record_write_sheets_changed(struct buf *out, const struct attempt *a,
				 const struct sheet_record *sheets, size_t n)
{
	record_write_struct(out, &attempt_progress_columns, a);
	record_write_sheets(out, sheets, n);
}

void record_read_sheets_changed(struct record_reader *r, struct attempt *a)
{
	record_read_struct(r, &attempt_progress_columns, a);
	a->sheets = record_read_sheets(r, &a->n_sheets);
}

void record_write_details(struct buf *out, const struct attempt *a, const char *why_not_all_calls)
{
	record_write_list(out, RECORD_LIST_PROCESSES, a->processes, a->n_processes);
	record_write_list(out, RECORD_LIST_RUNGS, a->rungs, a->n_rungs);
	record_write_list(out, RECORD_LIST_NOTES, a->unknowns, a->n_unknowns);
	record_write_list(out, RECORD_LIST_SYSCALLS, a->syscalls, a->n_syscalls);
	write_text(out, why_not_all_calls);
}

void record_read_details(struct record_reader *r, struct attempt *a, const char **ret_why)
{
	a->processes = record_read_list(r, RECORD_LIST_PROCESSES, &a->n_processes);
	a->rungs = record_read_list(r, RECORD_LIST_RUNGS, &a->n_rungs);
	a->unknowns = record_read_list(r, RECORD_LIST_NOTES, &a->n_unknowns);
	a->syscalls = record_read_list(r, RECORD_LIST_SYSCALLS, &a->n_syscalls);
	*ret_why = read_string(r);
}

void record_write_final(struct buf *out, const struct attempt *a, bool with_sheets)
{
	record_write_end(out, a);
	record_write_sheets(out, a->sheets, with_sheets ? a->n_sheets : 0);
}

void record_read_final(struct record_reader *r, struct attempt *a)
{
	record_read_end(r, a);
	a->sheets = record_read_sheets(r, &a->n_sheets);
}

/* ---- anomalies ---- */

/* NULL evidence is NULL, not an object in which all is unknown. */
static const char *evidence_to_json(struct buf *out, const struct anomaly_evidence *evidence)
{
	struct json j;

	if (!evidence)
		return NULL;
	json_init(&j, out);
	anomaly_evidence_write_json(&j, evidence);
	return out->data;
}

void record_write_anomaly(struct buf *out, const struct episode *e, int change)
{
	CLEANUP(buf_release) struct buf host = BUF_INIT, evidence = BUF_INIT;
	struct episode written;
	struct json j;

	episode_copy(&written, e);
	if (!e->host_json) {
		json_init(&j, &host);
		anomaly_host_write_json(&j, &e->host);
		written.host_json = host.data;
	}
	if (!e->evidence_json)
		written.evidence_json = evidence_to_json(&evidence, e->evidence);
	record_write_number(out, (uint64_t)change);
	record_write_struct(out, &episode_columns, &written);
	if (buf_error(&host) < 0 || buf_error(&evidence) < 0)
		out->failed = true;
}

int record_read_anomaly(struct record_reader *r, struct episode *e,
			struct anomaly_evidence *evidence, int *ret_change)
{
	unsigned change = read_enum(r, RECORD_RENEWED + 1);

	episode_init(e);
	record_read_struct(r, &episode_columns, e);
	e->worst.job_id = e->job_id[0] ? e->job_id : NULL;
	if ((unsigned)e->worst.type >= N_ANOMALY_TYPES ||
	    (unsigned)e->worst.severity >= N_SEVERITIES || !e->name[0])
		fail(r, -EBADMSG);
	if (r->error == 0 && e->host_json && anomaly_host_read_json(e->host_json, &e->host) < 0)
		fail(r, -EBADMSG);
	anomaly_evidence_init(evidence);
	if (r->error == 0 && e->evidence_json) {
		if (anomaly_evidence_read_json(e->evidence_json, evidence) < 0)
			fail(r, -EBADMSG);
		e->evidence = evidence;
	}
	e->host_json = e->evidence_json = NULL; /* the structs have it */
	if (r->error < 0)
		episode_init(e);
	*ret_change = (int)change;
	return r->error;
}

void record_write_evidence(struct buf *out, const char *episode_name,
			   const struct anomaly_evidence *evidence)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	write_text(out, episode_name);
	write_text(out, evidence_to_json(&text, evidence));
	if (buf_error(&text) < 0)
		out->failed = true;
}

int record_read_evidence(struct record_reader *r, const char **ret_name,
			 struct anomaly_evidence *ret)
{
	const char *name = read_string(r), *text = read_string(r);

	if (r->error == 0 &&
	    (!name || !name[0] || !text || anomaly_evidence_read_json(text, ret) < 0))
		fail(r, -EBADMSG);
	if (r->error < 0)
		anomaly_evidence_init(ret);
	*ret_name = r->error < 0 ? NULL : name;
	return r->error;
}

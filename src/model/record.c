#include "model/record.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/words.h"

/* ---- values ---- */

#define F64_KNOWN 1 /* before its eight bytes */

void record_write_number(struct buf *out, uint64_t v)
{
	uint8_t bytes[NUMBER_BYTES];

	buf_add(out, bytes, (size_t)(number_put(bytes, v) - bytes));
}

static void fail(struct record_reader *r, int error)
{
	if (r->error == 0)
		r->error = error;
	r->p = r->end;
}

uint64_t record_read_number(struct record_reader *r)
{
	uint64_t v;

	if (number_get(&r->p, r->end, &v) == 0)
		return v;
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

static unsigned read_int_below(struct record_reader *r, unsigned n)
{
	unsigned v = (unsigned)read_int(r);

	if (v >= n)
		fail(r, -EBADMSG);
	return v < n ? v : 0;
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
	case COLUMN_BITS_OR_NONE:
		record_write_number(out, *(const uint64_t *)field);
		return;
	case COLUMN_F64:
		write_f64(out, *(const double *)field);
		return;
	case COLUMN_INT:
	case COLUMN_ANOMALY_TYPE:
	case COLUMN_SEVERITY:
	case COLUMN_CHANGE:
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
	case COLUMN_CAUSE:
	case COLUMN_EVIDENCE:
	case COLUMN_EVENT_TYPE:
		record_write_number(out, *(const unsigned *)field);
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
	case COLUMN_BITS_OR_NONE:
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
	case COLUMN_CAUSE:
		*(enum cause_kind *)field = read_enum(r, N_CAUSES);
		return;
	case COLUMN_EVIDENCE:
		*(enum evidence *)field = read_enum(r, EVIDENCE_UPPER_BOUND + 1);
		return;
	case COLUMN_EVENT_TYPE:
		*(enum event_type *)field = read_enum(r, N_EVENT_TYPES);
		return;
	case COLUMN_ANOMALY_TYPE:
		*(enum anomaly_type *)field = read_int_below(r, N_ANOMALY_TYPES);
		return;
	case COLUMN_SEVERITY:
		*(enum severity *)field = read_int_below(r, N_SEVERITIES);
		return;
	case COLUMN_CHANGE:
		*(enum episode_change *)field = read_int_below(r, N_EPISODE_CHANGES);
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

static const struct {
	const struct columns *columns;
	size_t size;
} lists[N_RECORD_LISTS] = {
	[RECORD_LIST_RANKS] = { &rank_columns, sizeof(struct rank_record) },
	[RECORD_LIST_PROCESSES] = { &process_columns, sizeof(struct proc_record) },
	[RECORD_LIST_EVENTS] = { &event_columns, sizeof(struct proc_event) },
	[RECORD_LIST_RUNGS] = { &rung_columns, sizeof(struct rung) },
	[RECORD_LIST_NOTES] = { &unknown_columns, sizeof(struct unknown_note) },
	[RECORD_LIST_SYSCALLS] = { &syscall_columns, sizeof(struct syscall_use) },
};

/* Zeroed memory for as many as there are said to be: each takes two bytes or more, and those that a
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
	if (!items) {
		fail(r, -ENOMEM);
		return NULL;
	}
	*ret_n = (size_t)n;
	return memset(items, 0, *ret_n * size);
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
		columns_clear(lists[list].columns, items + i * lists[list].size);
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
		columns_clear(&sheet_columns, &sheets[i]);
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

		items[i].is_exit = read_enum(r, 2);
		columns_clear(&phase_columns, phase);
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
	record_write_list(out, RECORD_LIST_RUNGS, a->details.rungs, a->details.n_rungs);
	record_write_list(out, RECORD_LIST_NOTES, a->details.unknowns, a->details.n_unknowns);
	record_write_list(out, RECORD_LIST_SYSCALLS, a->details.syscalls, a->details.n_syscalls);
	write_text(out, why_not_all_calls);
}

void record_read_details(struct record_reader *r, struct attempt *a, const char **ret_why)
{
	a->processes = record_read_list(r, RECORD_LIST_PROCESSES, &a->n_processes);
	a->details.rungs = record_read_list(r, RECORD_LIST_RUNGS, &a->details.n_rungs);
	a->details.unknowns = record_read_list(r, RECORD_LIST_NOTES, &a->details.n_unknowns);
	a->details.syscalls = record_read_list(r, RECORD_LIST_SYSCALLS, &a->details.n_syscalls);
	*ret_why = read_string(r);
}

void record_write_final(struct buf *out, const struct attempt *a, bool with_sheets)
{
	record_write_struct(out, &attempt_progress_columns, a);
	record_write_struct(out, &attempt_end_columns, a);
	record_write_struct(out, &usage_columns, &a->usage);
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
	size_t text_max = r->text_max;

	episode_init(e);
	r->text_max = text_max ? RECORD_FOREIGN_JSON : 0; /* its other texts have a size */
	record_read_struct(r, &episode_columns, e);
	r->text_max = text_max;
	e->worst.job_id = e->job_id[0] ? e->job_id : NULL;
	if (!e->name[0])
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
	size_t text_max = r->text_max;
	const char *name = read_string(r), *text;

	r->text_max = text_max ? RECORD_FOREIGN_JSON : 0;
	text = read_string(r);
	r->text_max = text_max;
	if (r->error == 0 &&
	    (!name || !name[0] || !text || anomaly_evidence_read_json(text, ret) < 0))
		fail(r, -EBADMSG);
	if (r->error < 0)
		anomaly_evidence_init(ret);
	*ret_name = r->error < 0 ? NULL : name;
	return r->error;
}

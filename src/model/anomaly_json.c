#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/anomaly.h"

#define MAX_TEXT_BYTES (1 << 20) /* of JSON that proctor wrote itself; longer text is damaged */

void anomaly_write_fields(struct json *j, const struct anomaly *a)
{
	json_key_f64(j, "timestamp", a->timestamp);
	json_key_string(j, "anomaly_type", anomaly_type_name(a->type));
	json_key(j, "pid");
	if (a->has_pid)
		json_i64(j, a->pid);
	else
		json_none(j);
	json_key_string(j, "job_id", a->job_id);
	json_key_int(j, "sheet_num", a->sheet_num);
	json_key_string(j, "description", a->text);
	json_key_string(j, "severity", severity_name(a->severity));
	json_key_f64(j, "metric_value", a->metric_value);
	json_key_f64(j, "threshold", a->threshold);
}

/* ---- the host and the evidence: tables that are written and read ---- */

enum member_kind {
	MEMBER_F64,
	MEMBER_U64,
	MEMBER_MB,	     /* a uint64_t of bytes */
	MEMBER_INT,	     /* what is negative or too large is not read: the default stays */
	MEMBER_COUNT,	     /* the same; below 0 it is null */
	MEMBER_TEXT,	     /* an array of char */
	MEMBER_TEXT_OR_NULL, /* the same; "" is null */
	MEMBER_LIST,	     /* of objects, and a bool whether it is known */
	MEMBER_COUNTED_LIST, /* the same, with a uint64_t that is unknown where it is */
};

struct member {
	const char *key;
	enum member_kind kind;
	size_t offset;
	size_t size; /* of an array of char, or of an item */

	/* Of a list: */
	size_t max, n_offset, known_offset;
	const struct member *members;
	size_t n_members;
	const void *unknown; /* an item before it is read */
};

#define MEMBER(key_, kind_, type_, field_)                                                     \
	{                                                                                      \
		.key = key_, .kind = MEMBER_##kind_, .offset = offsetof(struct type_, field_), \
		.size = sizeof(((struct type_ *)0)->field_)                                    \
	}
#define LIST(key_, kind_, type_, field_, n_, known_, members_, unknown_)                  \
	{                                                                                 \
		.key = key_, .kind = kind_, .offset = offsetof(struct type_, field_),     \
		.size = sizeof(unknown_), .max = ARRAY_SIZE(((struct type_ *)0)->field_), \
		.n_offset = offsetof(struct type_, n_),                                   \
		.known_offset = offsetof(struct type_, known_), .members = members_,      \
		.n_members = ARRAY_SIZE(members_), .unknown = &(unknown_)                 \
	}

static const struct member process_members[] = {
	MEMBER("pid", INT, anomaly_process, key.pid),
	MEMBER("start_ticks", U64, anomaly_process, key.start_ticks),
	MEMBER("comm", TEXT, anomaly_process, comm),
	MEMBER("job_id", TEXT_OR_NULL, anomaly_process, job_id),
	MEMBER("cpu_percent", F64, anomaly_process, cpu_percent),
	MEMBER("rss_mb", MB, anomaly_process, rss_bytes),
};
static const struct anomaly_process unknown_process = {
	.key.start_ticks = U64_UNKNOWN,
	.cpu_percent = F64_UNKNOWN,
	.rss_bytes = U64_UNKNOWN,
};

static const struct member host_members[] = {
	MEMBER("memory_total_mb", MB, anomaly_host, memory_total_bytes),
	MEMBER("memory_available_mb", MB, anomaly_host, memory_available_bytes),
	MEMBER("swap_free_mb", MB, anomaly_host, swap_free_bytes),
	MEMBER("load_avg_1", F64, anomaly_host, load1),
	MEMBER("psi_cpu_some", F64, anomaly_host, cpu_some),
	MEMBER("psi_memory_some", F64, anomaly_host, memory_some),
	MEMBER("psi_memory_full", F64, anomaly_host, memory_full),
	MEMBER("psi_io_some", F64, anomaly_host, io_some),
	MEMBER("psi_io_full", F64, anomaly_host, io_full),
	MEMBER("processes", U64, anomaly_host, n_processes),
	MEMBER("running_jobs", COUNT, anomaly_host, running_jobs),
	LIST("top_cpu", MEMBER_LIST, anomaly_host, top_cpu, n_top_cpu, knows_cpu, process_members,
	     unknown_process),
	LIST("top_rss", MEMBER_LIST, anomaly_host, top_rss, n_top_rss, knows_rss, process_members,
	     unknown_process),
};

static const struct member file_members[] = {
	MEMBER("fd", INT, anomaly_file, fd),
	MEMBER("target", TEXT, anomaly_file, target),
};
static const struct anomaly_file unknown_file = { .fd = -1 };

static const struct member syscall_members[] = {
	MEMBER("name", TEXT, anomaly_syscall, name),
	MEMBER("count", U64, anomaly_syscall, count),
	MEMBER("time_pct", F64, anomaly_syscall, time_pct),
};
static const struct anomaly_syscall unknown_syscall = { "", U64_UNKNOWN, F64_UNKNOWN };

static const struct member evidence_members[] = {
	MEMBER("fast_interval_seconds", F64, anomaly_evidence, fast_interval_seconds),
	MEMBER("open_file_count", U64, anomaly_evidence, n_files_open),
	LIST("open_files", MEMBER_COUNTED_LIST, anomaly_evidence, files, n_files, n_files_open,
	     file_members, unknown_file),
	LIST("top_syscalls", MEMBER_LIST, anomaly_evidence, syscalls, n_syscalls, has_syscalls,
	     syscall_members, unknown_syscall),
	MEMBER("trace", TEXT_OR_NULL, anomaly_evidence, trace),
	MEMBER("trace_missing", TEXT_OR_NULL, anomaly_evidence, trace_missing),
};

/* ---- writing ---- */

static void write_members(struct json *j, const struct member *members, size_t n, const char *from);

static void write_list(struct json *j, const struct member *m, const char *from)
{
	const void *known = from + m->known_offset;
	size_t n = *(const size_t *)(const void *)(from + m->n_offset);

	if (m->kind == MEMBER_LIST ? !*(const bool *)known : !u64_known(*(const uint64_t *)known)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		write_members(j, m->members, m->n_members, from + m->offset + i * m->size);
	json_end_array(j);
}

static void write_members(struct json *j, const struct member *members, size_t n, const char *from)
{
	json_begin_object(j);
	for (const struct member *m = members; m < members + n; m++) {
		const void *at = from + m->offset;

		json_key(j, m->key);
		switch (m->kind) {
		case MEMBER_F64:
			json_f64(j, *(const double *)at);
			break;
		case MEMBER_U64:
			json_u64(j, *(const uint64_t *)at);
			break;
		case MEMBER_MB:
			json_f64(j, u64_to_mb(*(const uint64_t *)at));
			break;
		case MEMBER_INT:
			json_i64(j, *(const int *)at);
			break;
		case MEMBER_COUNT:
			json_u64(j,
				 *(const int *)at < 0 ? U64_UNKNOWN : (uint64_t) * (const int *)at);
			break;
		case MEMBER_TEXT:
			json_str(j, at);
			break;
		case MEMBER_TEXT_OR_NULL:
			json_str(j, *(const char *)at ? at : NULL);
			break;
		case MEMBER_LIST:
		case MEMBER_COUNTED_LIST:
			write_list(j, m, from);
			break;
		}
	}
	json_end_object(j);
}

void anomaly_host_write_json(struct json *j, const struct anomaly_host *host)
{
	write_members(j, host_members, ARRAY_SIZE(host_members), (const char *)host);
}

void anomaly_evidence_write_json(struct json *j, const struct anomaly_evidence *e)
{
	write_members(j, evidence_members, ARRAY_SIZE(evidence_members), (const char *)e);
}

/* ---- reading ---- */

/* A text, the arena for its strings, and how far it was read. */
struct reading {
	struct json_cursor c;
	struct arena arena;
};

static void read_members(struct reading *r, const struct member *members, size_t n, char *ret);

static void read_list(struct reading *r, const struct member *m, char *ret)
{
	bool is_list = json_cursor_enter(&r->c, '[');
	size_t n = 0;

	while (is_list && json_cursor_next_element(&r->c)) {
		char *item = ret + m->offset + n * m->size;

		if (n == m->max) {
			json_cursor_skip(&r->c);
			continue;
		}
		memcpy(item, m->unknown, m->size);
		read_members(r, m->members, m->n_members, item);
		n++;
	}
	if (m->kind == MEMBER_LIST)
		*(bool *)(ret + m->known_offset) = is_list;
	*(size_t *)(void *)(ret + m->n_offset) = n;
}

static void read_member(struct reading *r, const struct member *m, char *ret)
{
	void *at = ret + m->offset;

	switch (m->kind) {
	case MEMBER_F64:
		*(double *)at = json_cursor_f64(&r->c);
		break;
	case MEMBER_U64:
		*(uint64_t *)at = json_cursor_u64(&r->c);
		break;
	case MEMBER_MB: {
		double bytes = json_cursor_f64(&r->c) * 1048576.0;

		*(uint64_t *)at = bytes >= 0 && bytes < 0x1p63 ? (uint64_t)bytes : U64_UNKNOWN;
		break;
	}
	case MEMBER_INT:
	case MEMBER_COUNT: {
		int64_t v = json_cursor_i64(&r->c, -1);

		if (v >= 0 && v <= INT32_MAX)
			*(int *)at = (int)v;
		break;
	}
	case MEMBER_TEXT:
	case MEMBER_TEXT_OR_NULL: {
		const char *text = json_cursor_string(&r->c, &r->arena);
		size_t n = text ? utf8_cut(text, strlen(text), m->size - 1) : 0;

		memcpy(at, text ? text : "", n);
		((char *)at)[n] = '\0';
		break;
	}
	case MEMBER_LIST:
	case MEMBER_COUNTED_LIST:
		read_list(r, m, ret);
		break;
	}
}

/* Values that are no object are passed over, and so are keys that are not in the table. */
static void read_members(struct reading *r, const struct member *members, size_t n, char *ret)
{
	const char *key;
	size_t len, i;

	if (!json_cursor_enter(&r->c, '{'))
		return;
	while (json_cursor_next_key(&r->c, &key, &len)) {
		for (i = 0; i < n && !json_cursor_is(key, len, members[i].key);)
			i++;
		if (i < n)
			read_member(r, &members[i], ret);
		else
			json_cursor_skip(&r->c);
	}
}

/* The whole text as one object. -EBADMSG: it is none. */
static int read_document(const char *text, const struct member *members, size_t n, char *ret)
{
	size_t len = text ? strnlen(text, MAX_TEXT_BYTES) : 0, valid = 0, char_len;
	struct reading r = { .arena = ARENA_INIT };

	while (valid < len && (char_len = utf8_char_len(text + valid, len - valid)) > 0)
		valid += char_len;
	if (len == 0 || len == MAX_TEXT_BYTES || valid < len ||
	    text[strspn(text, " \t\r\n")] != '{')
		return -EBADMSG;
	json_cursor_init(&r.c, text, len);
	read_members(&r, members, n, ret);
	arena_release(&r.arena);
	return r.c.is_bad || r.c.at[strspn(r.c.at, " \t\r\n")] ? -EBADMSG : 0;
}

int anomaly_host_read_json(const char *text, struct anomaly_host *ret)
{
	int r;

	anomaly_host_init(ret);
	r = read_document(text, host_members, ARRAY_SIZE(host_members), (char *)ret);
	if (r < 0)
		anomaly_host_init(ret);
	return r;
}

int anomaly_evidence_read_json(const char *text, struct anomaly_evidence *ret)
{
	int r;

	anomaly_evidence_init(ret);
	r = read_document(text, evidence_members, ARRAY_SIZE(evidence_members), (char *)ret);
	if (r < 0)
		anomaly_evidence_init(ret);
	return r;
}

/* ---- an episode ---- */

void episode_write_fields(struct json *j, const struct episode *e)
{
	anomaly_write_fields(j, &e->worst);
	json_key_string(j, "episode", e->name);
	json_key_u64(j, "start_ticks", e->worst.start_ticks);
	json_key_f64(j, "began", u64_to_seconds(e->began_wall_ns));
	json_key_f64(j, "peak", u64_to_seconds(e->peak_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(e->ended_wall_ns));
	json_key_f64(j, "as_of", u64_to_seconds(e->seen_wall_ns));
	json_key_u64(j, "count", e->count);
	json_key_f64(j, "before_value", e->before_value);
	json_key_f64(j, "first_value", e->first_value);
	json_key_f64(j, "peak_value", e->peak_value);
	json_key_f64(j, "after_value", e->after_value);
	json_key_string(j, "comm", e->comm[0] ? e->comm : NULL);
	json_key_int(j, "gpu", e->gpu);
	json_key_string(j, "unit", e->unit);
	json_key_f64(j, "seconds_to_limit", e->seconds_to_limit);
	json_key_string(j, "why_cleared", e->why_cleared);
	json_key(j, "host");
	if (e->host_json)
		json_raw(j, e->host_json, strlen(e->host_json));
	else
		anomaly_host_write_json(j, &e->host);
	json_key_object(j, "evidence");
	json_key_f64(j, "from", u64_to_seconds(e->full_from_wall_ns));
	json_key_f64(j, "until", u64_to_seconds(e->full_until_wall_ns));
	json_key(j, "culprit");
	if (e->evidence_json)
		json_raw(j, e->evidence_json, strlen(e->evidence_json));
	else if (e->evidence)
		anomaly_evidence_write_json(j, e->evidence);
	else
		json_none(j);
	json_end_object(j);
}

void episode_write_event(struct json *j, const struct episode *e, enum episode_change change,
			 uint64_t wall_ns)
{
	json_begin_object(j);
	json_key_string(j, "event", "monitor.anomaly");
	json_key_string(j, "change", episode_change_name(change));
	json_key_f64(j, "changed", u64_to_seconds(wall_ns));
	episode_write_fields(j, e);
	json_end_object(j);
}

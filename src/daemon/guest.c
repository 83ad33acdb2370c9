#include "daemon/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/mask.h"
#include "base/num.h"
#include "base/path.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define REASON_MAX_BYTES 1000
#define NAME_MAX_BYTES 300

/* ---- what is told, by name ---- */

enum kind { U64, TIME, HASH, INT, F64, TEXT, OUTCOME, EVIDENCE };

/* One member: what it is, where it is, and the largest it may be (of a text its bytes). */
struct member {
	const char *name;
	enum kind kind;
	size_t offset;
	double max;
};

#define MEMBER(type, field, kind, max)                    \
	{                                                 \
#field, kind, offsetof(type, field), max, \
	}
#define MEMBER_AS(name, type, field, kind, max)         \
	{                                               \
		name, kind, offsetof(type, field), max, \
	}

static const struct member attempt_members[] = {
	MEMBER(struct attempt, job_id, TEXT, JOB_ID_MAX),
	MEMBER(struct attempt, command, TEXT, COMMAND_MAX_BYTES),
	MEMBER(struct attempt, workdir, TEXT, PATH_BYTES),
	MEMBER(struct attempt, argv_hash, HASH, 0),
	MEMBER(struct attempt, interval_seconds, F64, 86400),
	MEMBER(struct attempt, started_wall_ns, TIME, 0),
	MEMBER(struct attempt, total_sheets, INT, INT32_MAX),
	MEMBER(struct attempt, last_completed_sheet, INT, INT32_MAX),
	MEMBER(struct attempt, current_sheet, INT, INT32_MAX),
};

static const struct member end_members[] = {
	MEMBER(struct attempt, ended_wall_ns, TIME, 0),
	MEMBER(struct attempt, outcome, OUTCOME, 0),
	MEMBER(struct attempt, reason, TEXT, REASON_MAX_BYTES),
	MEMBER_AS("exit_code", struct attempt, status.exit_code, INT, 255),
	MEMBER_AS("signal", struct attempt, status.signal, INT, 64),
};

static const struct member sheet_members[] = {
	MEMBER(struct sheet_record, num, INT, INT32_MAX),
	MEMBER(struct sheet_record, try_num, INT, INT32_MAX),
	MEMBER(struct sheet_record, name, TEXT, NAME_MAX_BYTES),
	MEMBER(struct sheet_record, command, TEXT, COMMAND_MAX_BYTES),
	MEMBER(struct sheet_record, total_ranks, INT, INT32_MAX),
	MEMBER(struct sheet_record, started_wall_ns, TIME, 0),
	MEMBER(struct sheet_record, ended_wall_ns, TIME, 0),
	MEMBER(struct sheet_record, outcome, OUTCOME, 0),
	MEMBER(struct sheet_record, reason, TEXT, REASON_MAX_BYTES),
	MEMBER_AS("exit_code", struct sheet_record, status.exit_code, INT, 255),
	MEMBER_AS("signal", struct sheet_record, status.signal, INT, 64),
};

static const struct member usage_members[] = {
	MEMBER(struct usage, wall_ns, U64, 0),
	MEMBER(struct usage, user_ns, U64, 0),
	MEMBER(struct usage, system_ns, U64, 0),
	MEMBER(struct usage, cpu_evidence, EVIDENCE, 0),
	MEMBER(struct usage, peak_rss_bytes, U64, 0),
	MEMBER(struct usage, peak_rss_evidence, EVIDENCE, 0),
	MEMBER(struct usage, max_process_rss_bytes, U64, 0),
	MEMBER(struct usage, max_process_rss_evidence, EVIDENCE, 0),
	MEMBER(struct usage, rchar, U64, 0),
	MEMBER(struct usage, wchar, U64, 0),
	MEMBER(struct usage, syscr, U64, 0),
	MEMBER(struct usage, syscw, U64, 0),
	MEMBER(struct usage, read_bytes, U64, 0),
	MEMBER(struct usage, write_bytes, U64, 0),
	MEMBER(struct usage, io_evidence, EVIDENCE, 0),
	MEMBER(struct usage, minor_faults, U64, 0),
	MEMBER(struct usage, major_faults, U64, 0),
	MEMBER(struct usage, voluntary_switches, U64, 0),
	MEMBER(struct usage, involuntary_switches, U64, 0),
	MEMBER(struct usage, spawn_count, U64, 0),
	MEMBER(struct usage, spawn_evidence, EVIDENCE, 0),
	MEMBER(struct usage, peak_processes, U64, 0),
	MEMBER(struct usage, peak_cpu_percent, F64, 1e9),
};

/* ---- writing ---- */

/* Its 64 bits are more than a whole number in JSON may have. */
static void write_hash(struct json *j, uint64_t hash)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	json_str(j, text);
}

static void write_text(struct json *j, const char *text)
{
	if (text)
		json_str(j, text);
	else
		json_none(j);
}

static void write_member(struct json *j, const struct member *m, const void *from)
{
	const void *at = (const char *)from + m->offset;

	json_key(j, m->name);
	switch (m->kind) {
	case U64:
	case TIME:
		json_u64(j,
			 *(const uint64_t *)at <= INT64_MAX ? *(const uint64_t *)at : U64_UNKNOWN);
		return;
	case HASH:
		write_hash(j, *(const uint64_t *)at);
		return;
	case INT:
		json_u64(j, *(const int *)at < 0 ? U64_UNKNOWN : (uint64_t) * (const int *)at);
		return;
	case F64:
		json_f64(j, *(const double *)at);
		return;
	case TEXT:
		write_text(j, *(const char *const *)at);
		return;
	case OUTCOME:
		write_text(j, outcome_name(*(const enum outcome *)at));
		return;
	case EVIDENCE:
		write_text(j, evidence_name(*(const enum evidence *)at));
		return;
	}
}

static void write_members(struct json *j, const struct member *members, size_t n, const void *from)
{
	for (size_t i = 0; i < n; i++)
		write_member(j, &members[i], from);
}

static void write_usage(struct json *j, const struct usage *usage)
{
	json_key(j, "usage");
	json_begin_object(j);
	write_members(j, usage_members, ARRAY_SIZE(usage_members), usage);
	json_end_object(j);
}

static void write_sheet(struct json *j, const struct sheet_record *sheet)
{
	json_begin_object(j);
	write_members(j, sheet_members, ARRAY_SIZE(sheet_members), sheet);
	if (u64_known(sheet->ended_wall_ns))
		write_usage(j, &sheet->usage);
	json_end_object(j);
}

void guest_write(struct json *j, const struct attempt *a, const struct sheet_record *sheets,
		 size_t n)
{
	json_begin_object(j);
	write_members(j, attempt_members, ARRAY_SIZE(attempt_members), a);
	json_key(j, "sheets");
	json_begin_array(j);
	for (size_t i = n > GUEST_MAX_SHEETS ? n - GUEST_MAX_SHEETS : 0; i < n; i++)
		write_sheet(j, &sheets[i]);
	json_end_array(j);
	if (!a->is_running) {
		write_members(j, end_members, ARRAY_SIZE(end_members), a);
		write_usage(j, &a->usage);
	}
	json_end_object(j);
}

/* ---- reading ---- */

/* Where a member is read into. */
struct reading {
	struct arena *arena;
	uint64_t now_wall_ns;
	struct err *err;
};

static int refuse(const struct reading *r, const struct member *m)
{
	return err_set(r->err, -EINVAL, "'%s' of the job cannot be that", m->name);
}

/* As it may be shown, and no longer than it may be. */
static const char *read_text(const struct reading *r, const struct member *m, const char *text)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n = strlen(text), max = (size_t)m->max;

	for (size_t i = 0; i < n && shown.len <= max;)
		i += utf8_add_shown(&shown, text + i, n - i);
	if (buf_error(&shown) < 0)
		return NULL;
	return arena_strndup(r->arena, shown.data, utf8_cut(shown.data, shown.len, max));
}

static int read_int(const struct reading *r, const struct member *m, const struct rpc_value *v,
		    int *ret)
{
	int64_t number = rpc_value_i64(v, -1);

	if (number < 0 || (double)number > m->max)
		return refuse(r, m);
	*ret = (int)number;
	return 0;
}

static int read_f64(const struct reading *r, const struct member *m, const struct rpc_value *v,
		    double *ret)
{
	double number = rpc_value_f64(v);

	if (!(number >= 0 && number <= m->max))
		return refuse(r, m);
	*ret = number;
	return 0;
}

static int read_u64(const struct reading *r, const struct member *m, const struct rpc_value *v,
		    uint64_t *ret)
{
	uint64_t number = rpc_value_u64(v);

	if (!u64_known(number))
		return refuse(r, m);
	*ret = m->kind == TIME && number > r->now_wall_ns ? r->now_wall_ns : number;
	return 0;
}

static int read_hash(const struct reading *r, const struct member *m, const char *text,
		     uint64_t *ret)
{
	char *end;

	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return refuse(r, m);
	*ret = strtoull(text, &end, 16);
	return 0;
}

/* The text kinds. */
static int read_word(const struct reading *r, const struct member *m, const char *text, void *at)
{
	if (!text)
		return refuse(r, m);
	switch (m->kind) {
	case HASH:
		return read_hash(r, m, text, at);
	case OUTCOME:
		*(enum outcome *)at = outcome_from_name(text);
		return *(enum outcome *)at == OUTCOME_NONE ? refuse(r, m) : 0;
	case EVIDENCE:
		*(enum evidence *)at = evidence_from_name(text);
		return 0;
	default:
		*(const char **)at = read_text(r, m, text);
		return *(const char **)at ? 0
					  : err_set(r->err, -ENOMEM, "no memory left for a job");
	}
}

/* What is absent or null stays unknown. */
static int read_member(const struct reading *r, const struct member *m,
		       const struct rpc_value *object, void *to)
{
	const struct rpc_value *v = rpc_value_get(object, m->name);
	void *at = (char *)to + m->offset;

	if (!v || rpc_value_is_null(v))
		return 0;
	switch (m->kind) {
	case U64:
	case TIME:
		return read_u64(r, m, v, at);
	case INT:
		return read_int(r, m, v, at);
	case F64:
		return read_f64(r, m, v, at);
	default:
		return read_word(r, m, rpc_value_string(v), at);
	}
}

static int read_members(const struct reading *r, const struct member *members, size_t n,
			const struct rpc_value *object, void *to)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < n; i++)
		result = read_member(r, &members[i], object, to);
	return result;
}

static int read_usage(const struct reading *r, const struct rpc_value *object, struct usage *ret)
{
	usage_init(ret);
	return read_members(r, usage_members, ARRAY_SIZE(usage_members),
			    rpc_value_get(object, "usage"), ret);
}

static int read_sheet(const struct reading *r, const struct rpc_value *v, struct sheet_record *ret)
{
	int result;

	*ret = (struct sheet_record){
		.num = -1,
		.try_num = -1,
		.total_ranks = 1,
		.started_wall_ns = U64_UNKNOWN,
		.ended_wall_ns = U64_UNKNOWN,
		.status = { -1, -1 },
	};
	result = read_members(r, sheet_members, ARRAY_SIZE(sheet_members), v, ret);
	if (result == 0)
		result = read_usage(r, v, &ret->usage);
	if (result == 0 && (ret->num < 0 || ret->try_num < 0))
		result = err_set(r->err, -EINVAL, "a sheet without 'num' and 'try_num'");
	return result;
}

static int read_sheets(const struct reading *r, const struct rpc_value *list, struct attempt *a)
{
	size_t n = rpc_value_len(list);
	int result = 0;

	if (!list || rpc_value_is_null(list) || (rpc_value_is_list(list) && n == 0))
		return 0;
	if (!rpc_value_is_list(list) || n > GUEST_MAX_SHEETS)
		return err_set(r->err, -EINVAL, "'sheets' is no list of at most %d",
			       GUEST_MAX_SHEETS);
	a->sheets = arena_alloc(&a->arena, n * sizeof(*a->sheets));
	if (!a->sheets)
		return err_set(r->err, -ENOMEM, "no memory left for a job");
	for (; result == 0 && a->n_sheets < n; a->n_sheets++)
		result = read_sheet(r, rpc_value_at(list, a->n_sheets), &a->sheets[a->n_sheets]);
	return result;
}

/* One that has no outcome has not ended. */
static int read_end(const struct reading *r, const struct rpc_value *v, struct attempt *a)
{
	int result = read_members(r, end_members, ARRAY_SIZE(end_members), v, a);

	if (result == 0)
		result = read_usage(r, v, &a->usage);
	a->is_running = a->outcome == OUTCOME_NONE;
	if (!a->is_running && !u64_known(a->ended_wall_ns))
		a->ended_wall_ns = r->now_wall_ns;
	if (a->is_running)
		a->ended_wall_ns = U64_UNKNOWN;
	return result;
}

static int read_attempt(const struct reading *r, const struct rpc_value *v, struct attempt *a)
{
	const char *job_id = rpc_value_string(rpc_value_get(v, "job_id"));
	int result;

	if (!rpc_value_is_object(v))
		return err_set(r->err, -EINVAL, "'job' is not an object");
	result = read_members(r, attempt_members, ARRAY_SIZE(attempt_members), v, a);
	/* As it was told: one that is too long is not cut to the name of another job. */
	if (result == 0 && (!job_id || !job_id_is_valid(job_id)))
		result = err_set(r->err, -EINVAL, "'job_id' of the job cannot be the id of one");
	if (result == 0)
		result = read_sheets(r, rpc_value_get(v, "sheets"), a);
	return result < 0 ? result : read_end(r, v, a);
}

int guest_read(const struct rpc_value *v, uint64_t now_wall_ns, struct attempt *ret,
	       struct err *err)
{
	struct reading r = { .now_wall_ns = now_wall_ns, .err = err };
	int result;

	attempt_init(ret);
	r.arena = &ret->arena;
	result = read_attempt(&r, v, ret);
	if (result < 0)
		attempt_release(ret);
	return result;
}

/* ---- who it is ---- */

/* The three numbers after "Uid:" in proc/PID/status; the fourth follows the second. */
bool guest_is_process_of(pid_t pid, uid_t uid)
{
	char path[64], text[4096];
	unsigned uids[3];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (pid <= 0 || io_read_text_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u", &uids[0], &uids[1], &uids[2]) != 3)
		return false;
	return uids[0] == uid && uids[1] == uid && uids[2] == uid;
}

/* Its start time is looked at twice: so the user is that of the same process. */
int guest_find_process(const struct rpc_peer *peer, struct proc_key *ret, struct err *err)
{
	uint64_t start_ticks = 0, again = 0;

	if (peer->pid <= 0 || proc_start_ticks(peer->pid, &start_ticks) < 0 ||
	    !guest_is_process_of(peer->pid, peer->uid) || proc_start_ticks(peer->pid, &again) < 0 ||
	    start_ticks != again)
		return err_set(err, -EOPNOTSUPP, "the daemon cannot see the process that asks");
	*ret = (struct proc_key){ .pid = peer->pid, .start_ticks = start_ticks };
	return 0;
}

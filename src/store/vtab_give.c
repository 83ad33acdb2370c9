#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/vtab.h"

/* ---- numbers ---- */

void vtab_give_i64(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_int64(ctx, *(const int64_t *)field);
}

/* SQL's integers end at 2^63: what is beyond is told nearly. */
void vtab_give_u64(sqlite3_context *ctx, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	if (!u64_known(v))
		return; /* a result is NULL until it is set */
	if (v > INT64_MAX)
		sqlite3_result_double(ctx, (double)v);
	else
		sqlite3_result_int64(ctx, (int64_t)v);
}

void vtab_give_f64(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, *(const double *)field); /* NaN becomes NULL */
}

void vtab_give_mb_f64(sqlite3_context *ctx, const void *field)
{
	double mb = *(const double *)field / (1024.0 * 1024.0);

	vtab_give_f64(ctx, &mb);
}

void vtab_give_mb(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, u64_to_mb(*(const uint64_t *)field));
}

void vtab_give_seconds(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, u64_to_seconds(*(const uint64_t *)field));
}

void vtab_give_int(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_int(ctx, *(const int *)field);
}

void vtab_give_int_or_none(sqlite3_context *ctx, const void *field)
{
	if (*(const int *)field >= 0)
		vtab_give_int(ctx, field);
}

void vtab_give_pid(sqlite3_context *ctx, const void *field)
{
	if (*(const int *)field > 0)
		vtab_give_int(ctx, field);
}

void vtab_give_count(sqlite3_context *ctx, const void *field)
{
	unsigned v = *(const unsigned *)field;

	if (v > 0)
		sqlite3_result_int64(ctx, v);
}

void vtab_give_fd_limit(sqlite3_context *ctx, const void *field)
{
	if (*(const uint64_t *)field == FD_LIMIT_UNLIMITED)
		sqlite3_result_text(ctx, "unlimited", -1, SQLITE_STATIC);
	else
		vtab_give_u64(ctx, field);
}

/* ---- texts: the row may be gone before SQLite is done with them ---- */

static void give_string(sqlite3_context *ctx, const char *s)
{
	if (s)
		sqlite3_result_text(ctx, s, -1, SQLITE_TRANSIENT);
}

void vtab_give_text(sqlite3_context *ctx, const void *field)
{
	give_string(ctx, *(const char *const *)field);
}

void vtab_give_chars(sqlite3_context *ctx, const void *field)
{
	const char *s = field;

	give_string(ctx, s[0] ? s : NULL);
}

void vtab_give_state(sqlite3_context *ctx, const void *field)
{
	const char state[2] = { *(const char *)field };

	give_string(ctx, state[0] == '?' || state[0] == '\0' ? NULL : state);
}

void vtab_give_covers(sqlite3_context *ctx, const void *field)
{
	give_string(ctx, snapshot_covers_name(*(const enum snapshot_covers *)field));
}

/* ---- lists, as JSON ---- */

static void give_json(sqlite3_context *ctx, const struct buf *text)
{
	if (buf_error(text) < 0)
		sqlite3_result_error_nomem(ctx);
	else if (strcmp(text->data, "null") != 0)
		sqlite3_result_text(ctx, text->data, (int)text->len, SQLITE_TRANSIENT);
}

void vtab_give_psi(sqlite3_context *ctx, const void *field)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	psi_write_json(&j, field);
	give_json(ctx, &text);
}

void vtab_give_syscall_counts(sqlite3_context *ctx, const void *sample)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct proc_sample *p = sample;
	struct json j;

	json_init(&j, &text);
	syscall_uses_write_counts(&j, p->syscalls, p->n_syscalls);
	give_json(ctx, &text);
}

void vtab_give_syscall_times(sqlite3_context *ctx, const void *sample)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct proc_sample *p = sample;
	struct json j;

	json_init(&j, &text);
	syscall_uses_write_times(&j, p->syscalls, p->n_syscalls);
	give_json(ctx, &text);
}

void vtab_give_gpus(sqlite3_context *ctx, const void *snapshot)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	snapshot_write_gpus(&j, snapshot);
	give_json(ctx, &text);
}

void vtab_give_cgroups(sqlite3_context *ctx, const void *snapshot)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	snapshot_write_cgroups(&j, snapshot);
	give_json(ctx, &text);
}

void vtab_give_progress(sqlite3_context *ctx, const void *snapshot)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	if (f64_known(((const struct snapshot *)snapshot)->resolution_seconds))
		return; /* not kept */
	json_init(&j, &text);
	snapshot_write_progress(&j, snapshot);
	give_json(ctx, &text);
}

void vtab_give_zombie_pids(sqlite3_context *ctx, const void *snapshot)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	snapshot_write_zombie_pids(&j, snapshot, SNAPSHOT_ALL);
	give_json(ctx, &text);
}

void vtab_give_zombie_count(sqlite3_context *ctx, const void *snapshot)
{
	sqlite3_result_int64(ctx, (int64_t)snapshot_count_zombies(snapshot, SNAPSHOT_ALL));
}

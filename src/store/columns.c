#include "store/columns.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/unknown.h"
#include "model/job.h"

/* ---- numbers ---- */

static int bind_bits(sqlite3_stmt *stmt, int index, const void *field)
{
	return sqlite3_bind_int64(stmt, index, (sqlite3_int64) * (const uint64_t *)field);
}

static int read_bits(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	(void)size;
	(void)arena;
	*(uint64_t *)field = (uint64_t)sqlite3_column_int64(stmt, index);
	return 0;
}

static int bind_u64(sqlite3_stmt *stmt, int index, const void *field)
{
	if (!u64_known(*(const uint64_t *)field))
		return sqlite3_bind_null(stmt, index);
	return bind_bits(stmt, index, field);
}

static int read_u64(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	if (sqlite3_column_type(stmt, index) != SQLITE_NULL)
		return read_bits(stmt, index, field, size, arena);
	*(uint64_t *)field = U64_UNKNOWN;
	return 0;
}

static int bind_f64(sqlite3_stmt *stmt, int index, const void *field)
{
	return sqlite3_bind_double(stmt, index, *(const double *)field); /* NaN becomes NULL */
}

static int read_f64(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	(void)size;
	(void)arena;
	*(double *)field = sqlite3_column_type(stmt, index) == SQLITE_NULL
				   ? F64_UNKNOWN
				   : sqlite3_column_double(stmt, index);
	return 0;
}

static int bind_flag(sqlite3_stmt *stmt, int index, const void *field)
{
	return sqlite3_bind_int(stmt, index, *(const bool *)field);
}

static int read_flag(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	(void)size;
	(void)arena;
	*(bool *)field = sqlite3_column_int(stmt, index) != 0;
	return 0;
}

static int bind_int(sqlite3_stmt *stmt, int index, const void *field)
{
	return sqlite3_bind_int(stmt, index, *(const int *)field);
}

static int read_int(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	sqlite3_int64 v = sqlite3_column_int64(stmt, index);

	(void)size;
	(void)arena;
	if (v < INT_MIN || v > INT_MAX)
		return -EBADMSG;
	*(int *)field = (int)v;
	return 0;
}

static int bind_int_or_none(sqlite3_stmt *stmt, int index, const void *field)
{
	if (*(const int *)field < 0)
		return sqlite3_bind_null(stmt, index);
	return bind_int(stmt, index, field);
}

static int read_int_or_none(sqlite3_stmt *stmt, int index, void *field, size_t size,
			    struct arena *arena)
{
	if (sqlite3_column_type(stmt, index) != SQLITE_NULL)
		return read_int(stmt, index, field, size, arena);
	*(int *)field = -1;
	return 0;
}

/* ---- strings ---- */

static int bind_string(sqlite3_stmt *stmt, int index, const char *s)
{
	return sqlite3_bind_text(stmt, index, s, -1, SQLITE_STATIC); /* NULL becomes NULL */
}

/* The text of a column with its length; NULL when it is NULL, or (-ENOMEM) when memory ran out. */
static int column_string(sqlite3_stmt *stmt, int index, const char **ret, size_t *ret_len)
{
	const char *s = (const char *)sqlite3_column_text(stmt, index);

	if (!s && sqlite3_column_type(stmt, index) != SQLITE_NULL)
		return -ENOMEM;
	*ret = s;
	*ret_len = s ? (size_t)sqlite3_column_bytes(stmt, index) : 0;
	return 0;
}

static int bind_text(sqlite3_stmt *stmt, int index, const void *field)
{
	return bind_string(stmt, index, *(const char *const *)field);
}

static int read_text(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	const char *s;
	size_t len;
	int r;

	(void)size;
	r = column_string(stmt, index, &s, &len);
	if (r < 0)
		return r;
	if (s && arena) {
		s = arena_strndup(arena, s, len);
		if (!s)
			return -ENOMEM;
	}
	*(const char **)field = s;
	return 0;
}

static int bind_detail(sqlite3_stmt *stmt, int index, const void *field)
{
	const char *s = *(const char *const *)field;

	return bind_string(stmt, index, s ? s : "");
}

static int bind_chars(sqlite3_stmt *stmt, int index, const void *field)
{
	const char *s = field;

	return bind_string(stmt, index, s[0] ? s : NULL);
}

static int read_chars(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	const char *s;
	size_t len;
	int r;

	(void)arena;
	r = column_string(stmt, index, &s, &len);
	if (r < 0)
		return r;
	if (len >= size)
		return -EBADMSG;
	memset(field, 0, size);
	if (s)
		memcpy(field, s, len);
	return 0;
}

/* ---- names ---- */

static int bind_outcome(sqlite3_stmt *stmt, int index, const void *field)
{
	return bind_string(stmt, index, outcome_name(*(const enum outcome *)field));
}

static int read_outcome(sqlite3_stmt *stmt, int index, void *field, size_t size,
			struct arena *arena)
{
	(void)size;
	(void)arena;
	*(enum outcome *)field = outcome_from_name((const char *)sqlite3_column_text(stmt, index));
	return 0;
}

static int bind_evidence(sqlite3_stmt *stmt, int index, const void *field)
{
	enum evidence evidence = *(const enum evidence *)field;

	return bind_string(stmt, index,
			   evidence == EVIDENCE_UNKNOWN ? NULL : evidence_name(evidence));
}

static int read_evidence(sqlite3_stmt *stmt, int index, void *field, size_t size,
			 struct arena *arena)
{
	(void)size;
	(void)arena;
	*(enum evidence *)field =
		evidence_from_name((const char *)sqlite3_column_text(stmt, index));
	return 0;
}

static int bind_event_type(sqlite3_stmt *stmt, int index, const void *field)
{
	return bind_string(stmt, index, event_type_name(*(const enum event_type *)field));
}

static int read_event_type(sqlite3_stmt *stmt, int index, void *field, size_t size,
			   struct arena *arena)
{
	const char *name = (const char *)sqlite3_column_text(stmt, index);

	(void)size;
	(void)arena;
	return event_type_from_name(name, field) < 0 ? -EBADMSG : 0;
}

static const struct {
	int (*bind)(sqlite3_stmt *stmt, int index, const void *field);
	int (*read)(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena);
} types[N_COLUMN_TYPES] = {
	[COLUMN_U64] = { bind_u64, read_u64 },
	[COLUMN_BITS] = { bind_bits, read_bits },
	[COLUMN_F64] = { bind_f64, read_f64 },
	[COLUMN_INT] = { bind_int, read_int },
	[COLUMN_INT_OR_NONE] = { bind_int_or_none, read_int_or_none },
	[COLUMN_FLAG] = { bind_flag, read_flag },
	[COLUMN_TEXT] = { bind_text, read_text },
	[COLUMN_DETAIL] = { bind_detail, read_text },
	[COLUMN_CHARS] = { bind_chars, read_chars },
	[COLUMN_OUTCOME] = { bind_outcome, read_outcome },
	[COLUMN_EVIDENCE] = { bind_evidence, read_evidence },
	[COLUMN_EVENT_TYPE] = { bind_event_type, read_event_type },
};

int column_bind(const struct column *c, sqlite3_stmt *stmt, int index, const void *from)
{
	return types[c->type].bind(stmt, index, (const char *)from + c->offset);
}

int column_read(const struct column *c, sqlite3_stmt *stmt, int index, void *to,
		struct arena *arena)
{
	return types[c->type].read(stmt, index, (char *)to + c->offset, c->size, arena);
}

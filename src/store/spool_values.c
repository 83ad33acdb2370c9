#include "store/spool_values.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* A value: one of these, then eight bytes, or the length and the text. */
enum tag { TAG_NULL, TAG_INTEGER, TAG_REAL, TAG_TEXT };

/* What turns fields into values and back: a statement that gives back what is bound to it. */
static int open_mirror(sqlite3 **ret_db, sqlite3_stmt **ret_stmt)
{
	*ret_db = NULL;
	*ret_stmt = NULL;
	if (sqlite3_open(":memory:", ret_db) == SQLITE_OK &&
	    sqlite3_prepare_v2(*ret_db, "SELECT ?", -1, ret_stmt, NULL) == SQLITE_OK)
		return 0;
	sqlite3_close(*ret_db);
	*ret_db = NULL;
	return -ENOMEM;
}

static void close_mirror(sqlite3 **db, sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
	sqlite3_close(*db);
	*stmt = NULL;
	*db = NULL;
}

/* ---- writing ---- */

int value_writer_open(struct value_writer *w, struct buf *out)
{
	*w = (struct value_writer){ .out = out };
	return open_mirror(&w->db, &w->stmt);
}

void value_writer_close(struct value_writer *w)
{
	close_mirror(&w->db, &w->stmt);
}

static void add_word(struct buf *out, enum tag tag, const void *word)
{
	uint64_t le;

	memcpy(&le, word, sizeof(le));
	le = htole64(le);
	buf_add_char(out, (char)tag);
	buf_add(out, (const char *)&le, sizeof(le));
}

static void add_text(struct buf *out, const char *s, size_t n)
{
	uint32_t len = htole32((uint32_t)n);

	buf_add_char(out, TAG_TEXT);
	buf_add(out, (const char *)&len, sizeof(len));
	buf_add(out, s, n);
}

void value_write_i64(struct value_writer *w, int64_t v)
{
	add_word(w->out, TAG_INTEGER, &v);
}

void value_write_names(struct value_writer *w, const struct columns *columns)
{
	value_write_i64(w, (int64_t)columns->n);
	for (size_t i = 0; i < columns->n; i++)
		add_text(w->out, columns->items[i].name, strlen(columns->items[i].name));
}

static void write_value(struct value_writer *w, sqlite3_stmt *stmt)
{
	int64_t integer;
	double real;

	switch (sqlite3_column_type(stmt, 0)) {
	case SQLITE_INTEGER:
		integer = sqlite3_column_int64(stmt, 0);
		add_word(w->out, TAG_INTEGER, &integer);
		return;
	case SQLITE_FLOAT:
		real = sqlite3_column_double(stmt, 0);
		add_word(w->out, TAG_REAL, &real);
		return;
	case SQLITE_TEXT:
		add_text(w->out, (const char *)sqlite3_column_text(stmt, 0),
			 (size_t)sqlite3_column_bytes(stmt, 0));
		return;
	default:
		buf_add_char(w->out, TAG_NULL);
	}
}

void value_write_columns(struct value_writer *w, const struct columns *columns, const void *from)
{
	for (size_t i = 0; !w->failed && i < columns->n; i++) {
		const struct column *c = &columns->items[i];
		const char *field = (const char *)from + c->offset;

		w->failed = c->type->bind(w->stmt, 1, field) != SQLITE_OK ||
			    sqlite3_step(w->stmt) != SQLITE_ROW;
		if (!w->failed)
			write_value(w, w->stmt);
		sqlite3_reset(w->stmt);
	}
}

/* ---- reading ---- */

int value_reader_open(struct value_reader *r, const void *bytes, size_t len)
{
	*r = (struct value_reader){ .p = bytes, .end = (const char *)bytes + len };
	return open_mirror(&r->db, &r->stmt);
}

void value_reader_close(struct value_reader *r)
{
	close_mirror(&r->db, &r->stmt);
}

struct value {
	enum tag tag;
	uint64_t word;
	const char *text;
	uint32_t len;
};

static void fail(struct value_reader *r, int error)
{
	if (r->error == 0)
		r->error = error;
}

static bool take(struct value_reader *r, void *ret, size_t n)
{
	if (r->error < 0 || (size_t)(r->end - r->p) < n) {
		fail(r, -EBADMSG);
		return false;
	}
	memcpy(ret, r->p, n);
	r->p += n;
	return true;
}

static void take_text(struct value_reader *r, struct value *v)
{
	if (!take(r, &v->len, sizeof(v->len)))
		return;
	v->len = le32toh(v->len);
	v->text = r->p;
	if (v->len > (size_t)(r->end - r->p))
		fail(r, -EBADMSG);
	else
		r->p += v->len;
}

static struct value read_value(struct value_reader *r)
{
	struct value v = { .tag = TAG_NULL };
	uint8_t tag = TAG_NULL;

	take(r, &tag, sizeof(tag));
	if (tag > TAG_TEXT)
		fail(r, -EBADMSG);
	else if (tag == TAG_TEXT)
		take_text(r, &v);
	else if (tag != TAG_NULL && take(r, &v.word, sizeof(v.word)))
		v.word = le64toh(v.word);
	v.tag = r->error < 0 ? TAG_NULL : (enum tag)tag;
	return v;
}

int64_t value_read_i64(struct value_reader *r)
{
	struct value v = read_value(r);

	if (v.tag != TAG_INTEGER)
		fail(r, -EBADMSG);
	return r->error < 0 ? 0 : (int64_t)v.word;
}

static const struct column *find_column(const struct columns *columns, const struct value *name)
{
	for (size_t i = 0; name->tag == TAG_TEXT && i < columns->n; i++) {
		const char *ours = columns->items[i].name;

		if (strlen(ours) == name->len && memcmp(ours, name->text, name->len) == 0)
			return &columns->items[i];
	}
	return NULL;
}

void value_read_names(struct value_reader *r, const struct columns *columns,
		      struct value_names *ret)
{
	int64_t n = value_read_i64(r);

	ret->n = 0;
	if (n <= 0 || n > VALUE_NAMES_MAX)
		fail(r, -EBADMSG);
	while (r->error == 0 && ret->n < (size_t)n) {
		struct value name = read_value(r);

		ret->columns[ret->n++] = find_column(columns, &name);
	}
}

static int bind(sqlite3_stmt *stmt, const struct value *v)
{
	double real;

	switch (v->tag) {
	case TAG_INTEGER:
		return sqlite3_bind_int64(stmt, 1, (int64_t)v->word);
	case TAG_REAL:
		memcpy(&real, &v->word, sizeof(real));
		return sqlite3_bind_double(stmt, 1, real);
	case TAG_TEXT:
		return sqlite3_bind_text(stmt, 1, v->text, (int)v->len, SQLITE_STATIC);
	case TAG_NULL:
		break;
	}
	return sqlite3_bind_null(stmt, 1);
}

static int read_field(sqlite3_stmt *stmt, const struct value *v, const struct column *c, void *to,
		      struct arena *arena)
{
	int r = -ENOMEM;

	if (bind(stmt, v) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
		r = c->type->read(stmt, 0, (char *)to + c->offset, c->size, arena);
	sqlite3_reset(stmt);
	return r;
}

void value_read_columns(struct value_reader *r, const struct value_names *names, void *to,
			struct arena *arena)
{
	for (size_t i = 0; r->error == 0 && i < names->n; i++) {
		struct value v = read_value(r);

		if (r->error == 0 && names->columns[i])
			r->error = read_field(r->stmt, &v, names->columns[i], to, arena);
	}
}

#include "store/spool_values.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* A value: one of these, then eight bytes, or the length and the text. */
enum tag { TAG_NULL, TAG_INTEGER, TAG_REAL, TAG_TEXT };

/* ---- writing ---- */

int value_writer_open(struct value_writer *w, struct buf *out)
{
	*w = (struct value_writer){ .out = out };
	if (sqlite3_open(":memory:", &w->db) == SQLITE_OK)
		return 0;
	value_writer_close(w);
	return -ENOMEM;
}

void value_writer_close(struct value_writer *w)
{
	sqlite3_close(w->db);
	w->db = NULL;
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

void value_write_text(struct value_writer *w, const char *s)
{
	if (s)
		add_text(w->out, s, strlen(s));
	else
		buf_add_char(w->out, TAG_NULL);
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
	sqlite3_stmt *stmt = NULL;
	bool is_sound = sqlite3_prepare_v2(w->db, "SELECT ?", -1, &stmt, NULL) == SQLITE_OK;

	for (size_t i = 0; is_sound && i < columns->n; i++) {
		const struct column *c = &columns->items[i];

		is_sound = c->type->bind(stmt, 1, (const char *)from + c->offset) == SQLITE_OK &&
			   sqlite3_step(stmt) == SQLITE_ROW;
		if (is_sound)
			write_value(w, stmt);
		sqlite3_reset(stmt);
	}
	sqlite3_finalize(stmt);
	w->failed |= !is_sound;
}

/* ---- reading ---- */

struct value {
	enum tag tag;
	uint64_t word;
	const char *text;
	uint32_t len;
};

static bool take(struct value_reader *r, void *ret, size_t n)
{
	if (r->failed || (size_t)(r->end - r->p) < n) {
		r->failed = true;
		return false;
	}
	memcpy(ret, r->p, n);
	r->p += n;
	return true;
}

static struct value read_value(struct value_reader *r)
{
	struct value v = { .tag = TAG_NULL };
	uint8_t tag = TAG_NULL;

	take(r, &tag, sizeof(tag));
	if (tag == TAG_TEXT && take(r, &v.len, sizeof(v.len))) {
		v.len = le32toh(v.len);
		v.text = r->p;
		r->failed = v.len > (size_t)(r->end - r->p);
		r->p += r->failed ? 0 : v.len;
	} else if (tag == TAG_INTEGER || tag == TAG_REAL) {
		take(r, &v.word, sizeof(v.word));
		v.word = le64toh(v.word);
	}
	r->failed |= tag > TAG_TEXT;
	v.tag = r->failed ? TAG_NULL : (enum tag)tag;
	return v;
}

static void bind_value(struct value_reader *r, struct query *q)
{
	struct value v = read_value(r);
	double real;

	switch (v.tag) {
	case TAG_INTEGER:
		query_bind_i64(q, (int64_t)v.word);
		return;
	case TAG_REAL:
		memcpy(&real, &v.word, sizeof(real));
		query_bind_f64(q, real);
		return;
	case TAG_TEXT:
		query_bind_text_n(q, v.text, v.len);
		return;
	case TAG_NULL:
		query_bind_text(q, NULL);
	}
}

void value_bind(struct value_reader *r, struct query *q, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bind_value(r, q);
}

int64_t value_read_i64(struct value_reader *r)
{
	struct value v = read_value(r);

	r->failed |= v.tag != TAG_INTEGER;
	return r->failed ? 0 : (int64_t)v.word;
}

char *value_read_text(struct value_reader *r)
{
	struct value v = read_value(r);
	char *text;

	if (v.tag == TAG_NULL)
		return NULL;
	text = v.tag == TAG_TEXT ? strndup(v.text, v.len) : NULL;
	r->failed |= !text;
	return text;
}

void value_skip(struct value_reader *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		read_value(r);
}

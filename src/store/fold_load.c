/*
 * fold_load - the ticks that are folded together: which they are, and how each is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/folding.h"
#include "store/query.h"

void folding_free(struct folding **f)
{
	if (!*f)
		return;
	for (unsigned i = 0; i < (*f)->n; i++)
		free((*f)->strings_of[i]);
	buf_release(&(*f)->bytes);
	fold_strings_release(&(*f)->strings);
	map_release(&(*f)->string_of);
	buf_release(&(*f)->things);
	free(*f);
	*f = NULL;
}

struct folding *folding_new(struct store *store)
{
	struct folding *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	f->store = store;
	f->bytes = (struct buf)BUF_INIT;
	f->offsets[0] = 0;
	f->n_loaded = f->n = 0;
	f->has_more = false;
	f->strings = (struct fold_strings){ 0 };
	f->string_of = (struct map)MAP_INIT;
	f->things = (struct buf)BUF_INIT;
	return f;
}

/*
 * The bytes that are taken at once, about: a segment has FOLD_BYTES and a tick. One of
 * more than TICK_MAX_BYTES nobody has written: it is not even read.
 */
#define LOAD_BYTES ((size_t)16 << 20)
#define TICK_MAX_BYTES (64 << 20)

static void take_tick(struct folding *f, struct query *q)
{
	struct fold_lost *tick = &f->ticks[f->n_loaded];
	const void *data;
	size_t len;

	tick->id = query_read_i64(q);
	tick->wall_ns = query_read_i64(q);
	data = query_read_blob(q, tick->wall_ns, &len);
	buf_add(&f->bytes, data, len);
	f->offsets[++f->n_loaded] = f->bytes.len;
}

static int load_ticks(struct folding *f, int64_t recorder, int64_t after_id, int64_t last_id,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(f->store, STATEMENT_OLDEST_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, recorder);
	query_bind_i64(&q, after_id);
	query_bind_i64(&q, last_id);
	query_bind_i64(&q, CODEC_ROWS + 1);
	query_bind_i64(&q, TICK_MAX_BYTES);
	while (!f->has_more && (r = query_step(&q, err)) > 0) {
		take_tick(f, &q);
		f->has_more = f->n_loaded > CODEC_ROWS || f->bytes.len >= LOAD_BYTES;
	}
	if (r >= 0 && buf_error(&f->bytes) < 0)
		r = store_no_memory(f->store, err);
	return r < 0 ? r : 0;
}

static int read_tick(const struct folding *f, unsigned i, const struct tick_reader *before,
		     int64_t before_id, struct tick_reader *ret)
{
	int r = tick_read(ret, f->bytes.data + f->offsets[i], f->offsets[i + 1] - f->offsets[i],
			  before_id, before ? before->head : NULL);

	/* Its time stands beside it as well. */
	if (r == 0 && ret->head[HOST_WALL_NS] != (uint64_t)f->ticks[i].wall_ns)
		r = -EBADMSG;
	return r;
}

static bool is_whole(const struct folding *f, unsigned i)
{
	struct tick_reader reader;

	return read_tick(f, i, NULL, 0, &reader) == 0;
}

/* If there is more than fits, the rest begins with a whole tick: later ones need none of ours. */
static void cut_at_segment(struct folding *f)
{
	unsigned n = f->n_loaded - 1;

	if (!f->has_more)
		return;
	while (n > 0 && !is_whole(f, n))
		n--;
	if (n > 0)
		f->n_loaded = n;
	else if (f->n_loaded > CODEC_ROWS)
		f->n_loaded = CODEC_ROWS;
}

/* What lies far apart becomes two folds, if the later one begins with a whole tick. */
static void cut_at_gap(struct folding *f)
{
	for (unsigned i = 1; i < f->n_loaded; i++) {
		if (!fold_has_gap(f->ticks[i].wall_ns, f->ticks[i - 1].wall_ns) || !is_whole(f, i))
			continue;
		f->n_loaded = i;
		return;
	}
}

/* Its strings, one by one; those of a reader are found from the first on only. */
static int index_strings(const struct tick_reader *reader, const char ***ret)
{
	const char *s = reader->strings;

	*ret = NULL;
	if (reader->n_strings == 0)
		return 0;
	*ret = reallocarray(NULL, reader->n_strings, sizeof(**ret));
	for (size_t i = 0; *ret && i < reader->n_strings; i++, s += strlen(s) + 1)
		(*ret)[i] = s;
	return *ret ? 0 : -ENOMEM;
}

/* One that cannot be read is left out, with those that need it. */
static int read_ticks(struct folding *f, struct folded *ret)
{
	const struct tick_reader *before = NULL;
	int64_t before_id = 0;

	ret->n_lost = 0;
	for (unsigned i = 0; i < f->n_loaded; i++) {
		struct tick_reader *reader = &f->readers[f->n];

		if (read_tick(f, i, before, before_id, reader) < 0) {
			before = NULL;
			before_id = 0;
			ret->lost[ret->n_lost++] = f->ticks[i];
			continue;
		}
		if (index_strings(reader, &f->strings_of[f->n]) < 0)
			return -ENOMEM;
		before = reader;
		before_id = f->read_ids[f->n++] = f->ticks[i].id;
	}
	return 0;
}

int folding_load(struct folding *f, int64_t recorder, int64_t after_id, int64_t last_id,
		 struct folded *ret, struct err *err)
{
	int r = load_ticks(f, recorder, after_id, last_id, err);

	if (r < 0 || f->n_loaded == 0)
		return r;
	cut_at_segment(f);
	cut_at_gap(f);
	return read_ticks(f, ret) < 0 ? store_no_memory(f->store, err) : 1;
}

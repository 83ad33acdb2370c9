#include "store/fold.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/query.h"

/* The ticks that become one, and the process that is taken out of all of them at once. */
struct folding {
	struct tick_reader readers[CODEC_ROWS];
	int64_t wall_ns[CODEC_ROWS];
	bool is_done[CODEC_ROWS];
	struct fold_head head;
	struct chunk chunk;
	size_t offsets[CODEC_ROWS + 1]; /* of the ticks in bytes */
	struct buf bytes, out;
};

static void folding_free(struct folding **f)
{
	if (!*f)
		return;
	buf_release(&(*f)->bytes);
	buf_release(&(*f)->out);
	free(*f);
}

static struct folding *folding_new(void)
{
	struct folding *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	f->head.n = 0;
	f->offsets[0] = 0;
	f->bytes = f->out = (struct buf)BUF_INIT;
	return f;
}

/* ---- taking the ticks in ---- */

static int load_ticks(struct store *store, int64_t attempt_id, struct folding *f, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_OLDEST_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, FOLD_TICKS);
	while ((r = query_step(&q, err)) > 0 && f->head.n < CODEC_ROWS) {
		const void *data;
		size_t len;

		f->head.ids[f->head.n] = query_read_i64(&q);
		f->wall_ns[f->head.n] = query_read_i64(&q);
		data = query_read_blob(&q, &len);
		buf_add(&f->bytes, data, len);
		f->offsets[++f->head.n] = f->bytes.len;
	}
	if (r == 0 && buf_error(&f->bytes) < 0)
		r = store_no_memory(store, err);
	return r < 0 ? r : 0;
}

/* Each reader then stands at its first sample. */
static int read_heads(struct folding *f)
{
	for (unsigned i = 0; i < f->head.n; i++) {
		struct tick_reader *reader = &f->readers[i];
		int r = tick_read_head(reader, f->bytes.data + f->offsets[i],
				       f->offsets[i + 1] - f->offsets[i]);

		if (r < 0)
			return r;
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			f->head.columns[k][i] = reader->head.words[k];
		f->head.levels[i] = reader->head.level;
		f->head.level_lens[i] = reader->head.level_len;
		r = tick_read_sample(reader);
		if (r < 0)
			return r;
		f->is_done[i] = r == 0;
	}
	return 0;
}

/* ---- giving the fold out ---- */

static int add_fold(struct store *store, int64_t attempt_id, struct folding *f, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t first = f->wall_ns[0], last = f->wall_ns[0];
	int r = query_open(store, STATEMENT_ADD_FOLD, &q, err);

	if (r < 0)
		return r;
	for (unsigned i = 1; i < f->head.n; i++) {
		first = f->wall_ns[i] < first ? f->wall_ns[i] : first;
		last = f->wall_ns[i] > last ? f->wall_ns[i] : last;
	}
	buf_reset(&f->out);
	fold_head_write(&f->out, &f->head);
	if (buf_error(&f->out) < 0)
		return store_no_memory(store, err);
	query_bind_i64(&q, f->head.ids[f->head.n - 1]);
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, first);
	query_bind_i64(&q, last);
	query_bind_i64(&q, f->head.n);
	query_bind_blob(&q, f->out.data, f->out.len);
	return query_run(&q, err);
}

/* The least process that a reader stands at; 0: all are done. */
static int64_t next_process(const struct folding *f)
{
	int64_t least = 0;

	for (unsigned i = 0; i < f->head.n; i++)
		if (!f->is_done[i] && (least == 0 || f->readers[i].process < least))
			least = f->readers[i].process;
	return least;
}

/* Its samples, from all readers that stand at it. */
static int gather(struct folding *f, int64_t process)
{
	struct chunk *c = &f->chunk;

	c->n = 0;
	for (unsigned i = 0; i < f->head.n; i++) {
		int r;

		if (f->is_done[i] || f->readers[i].process != process)
			continue;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			c->columns[k][c->n] = f->readers[i].words[k];
		c->tick[c->n++] = (uint8_t)i;
		r = tick_read_sample(&f->readers[i]);
		if (r < 0)
			return r;
		f->is_done[i] = r == 0;
	}
	return 0;
}

static int add_chunk(struct query *q, struct folding *f, int64_t process, struct err *err)
{
	buf_reset(&f->out);
	chunk_write(&f->out, &f->chunk, f->head.columns[HEAD_HOST + HOST_BOOT_NS]);
	if (buf_error(&f->out) < 0)
		return store_no_memory(q->store, err);
	query_bind_i64(q, f->head.ids[f->head.n - 1] << CHUNK_BITS | process);
	query_bind_blob(q, f->out.data, f->out.len);
	return query_run(q, err);
}

static int add_chunks(struct store *store, struct folding *f, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_CHUNK, &q, err);
	int64_t process;

	while (r == 0 && (process = next_process(f)) != 0) {
		if (process > CHUNK_PROCESS_MAX || gather(f, process) < 0)
			return store_damaged(store, "tick", err);
		r = add_chunk(&q, f, process, err);
	}
	return r;
}

static int drop_ticks(struct store *store, int64_t attempt_id, int64_t last_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_DROP_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, last_id);
	return query_run(&q, err);
}

/* 1: there was something to fold. */
static int fold_once(struct store *store, int64_t attempt_id, struct err *err)
{
	CLEANUP(folding_free) struct folding *f = folding_new();
	int r = f ? load_ticks(store, attempt_id, f, err) : store_no_memory(store, err);

	if (r < 0 || f->head.n == 0)
		return r;
	if (read_heads(f) < 0)
		return store_damaged(store, "tick", err);
	r = add_fold(store, attempt_id, f, err);
	if (r == 0)
		r = add_chunks(store, f, err);
	if (r == 0)
		r = drop_ticks(store, attempt_id, f->head.ids[f->head.n - 1], err);
	return r < 0 ? r : 1;
}

int fold_some(struct store *store, int64_t attempt_id, struct err *err)
{
	int r = fold_once(store, attempt_id, err);

	return r < 0 ? r : 0;
}

int fold_all(struct store *store, int64_t attempt_id, struct err *err)
{
	int r;

	do
		r = fold_once(store, attempt_id, err);
	while (r > 0);
	return r;
}

#include "store/codec/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/record.h"

/*
 * A table: how many rows, the step to the tick of each from the one before, and column by column
 * the step of each value from the one before it in the column, as numbers of seven bits a byte. So
 * what does not change, and what is unknown, is a zero; zstd, which all of this goes through, takes
 * those away.
 *
 * Values that others nearly tell are kept as what differs: see expect().
 */
#define BEFORE_FIRST U64_UNKNOWN

/* ---- what is known of a sample's value before it is read ---- */

static uint64_t or_zero(uint64_t v)
{
	return u64_known(v) ? v : 0;
}

/* The share of CPU in 1/100 %, as the collector counts it but for when it looked at the clock. */
static uint64_t expect_percent(const struct table *t, unsigned i, const uint64_t *boot_ns)
{
	const uint64_t *cpu = t->columns[SAMPLE_cpu_ns];
	uint64_t used, elapsed;

	if (i == 0)
		return 0;
	used = u64_delta(cpu[i], cpu[i - 1]);
	elapsed = u64_delta(boot_ns[t->tick[i]], boot_ns[t->tick[i - 1]]);
	if (!u64_known(used) || !u64_known(elapsed) || elapsed == 0 || used > UINT64_MAX / 20000)
		return 0;
	return (used * 10000 + elapsed / 2) / elapsed;
}

/*
 * Row i of a column, from columns before it in enum sample_word and ticks alone.
 * It need not be right: what it is wrong by is kept.
 */
static uint64_t expect(const struct table *t, enum sample_word word, unsigned i,
		       const uint64_t *boot_ns)
{
	switch (word) {
	case SAMPLE_cpu_ns:
		return or_zero(t->columns[SAMPLE_user_ns][i]) +
		       or_zero(t->columns[SAMPLE_system_ns][i]);
	case SAMPLE_cpu_percent:
		return expect_percent(t, i, boot_ns);
	case SAMPLE_rss_bytes:
		return or_zero(t->columns[SAMPLE_rss_anon_bytes][i]) +
		       or_zero(t->columns[SAMPLE_rss_file_bytes][i]) +
		       or_zero(t->columns[SAMPLE_rss_shmem_bytes][i]);
	default:
		return 0;
	}
}

static bool is_expected(enum sample_word word)
{
	return word == SAMPLE_cpu_ns || word == SAMPLE_cpu_percent || word == SAMPLE_rss_bytes;
}

/*
 * A value as what it differs by. Unknown stays it; what a known value differs by may look like
 * that, and then it is the one difference that no known value has.
 */
static uint64_t tell_apart(uint64_t v, uint64_t expected)
{
	uint64_t apart = zigzag(v - expected);

	if (!u64_known(v))
		return v;
	return u64_known(apart) ? apart : zigzag(U64_UNKNOWN - expected);
}

static uint64_t put_together(uint64_t apart, uint64_t expected)
{
	uint64_t v = unzigzag(apart) + expected;

	if (!u64_known(apart))
		return apart;
	return u64_known(v) ? v : unzigzag(U64_UNKNOWN) + expected;
}

/* ---- tables ---- */

static void write_columns(struct buf *out, const struct table *t, unsigned from, unsigned to,
			  const uint64_t *boot_ns)
{
	uint8_t *p;

	if (buf_reserve(out, (size_t)(to - from) * t->n * NUMBER_BYTES) < 0) {
		out->failed = true;
		return;
	}
	p = (uint8_t *)out->data + out->len;
	for (unsigned word = from; word < to; word++) {
		bool differs = boot_ns && is_expected(word);
		uint64_t before = BEFORE_FIRST;

		for (unsigned i = 0; i < t->n; i++) {
			uint64_t v = t->columns[word][i];

			if (differs)
				v = tell_apart(v, expect(t, word, i, boot_ns));
			p = number_put(p, zigzag(v - before));
			before = differs ? BEFORE_FIRST : v; /* the one tells nothing of the next */
		}
	}
	out->len = (size_t)(p - (uint8_t *)out->data);
	out->data[out->len] = '\0';
}

static int read_columns(const uint8_t **p, const uint8_t *end, unsigned from, unsigned to,
			const uint64_t *boot_ns, struct table *t)
{
	for (unsigned word = from; word < to; word++) {
		bool differs = boot_ns && is_expected(word);
		uint64_t before = BEFORE_FIRST, step = 0;

		for (unsigned i = 0; i < t->n; i++) {
			if (*p < end && **p < 128)
				step = *(*p)++;
			else if (number_get(p, end, &step) < 0)
				return -EBADMSG;
			step = before + unzigzag(step);
			if (differs)
				t->columns[word][i] =
					put_together(step, expect(t, word, i, boot_ns));
			else
				before = t->columns[word][i] = step;
		}
	}
	return 0;
}

void table_write(struct buf *out, const struct table *t, unsigned n_words, const uint64_t *boot_ns)
{
	buf_add_char(out, (char)t->n);
	for (unsigned i = 0; i < t->n; i++)
		buf_add_char(out, (char)(t->tick[i] - (i > 0 ? t->tick[i - 1] : 0)));
	write_columns(out, t, 0, n_words, boot_ns);
}

ssize_t table_read(const void *data, size_t len, unsigned n_ticks, unsigned n_read,
		   const uint64_t *boot_ns, struct table *ret)
{
	const uint8_t *p = data, *end = p + len;
	unsigned tick = 0;

	ret->n = len > 0 ? *p++ : 0;
	if (ret->n == 0 || ret->n > CODEC_ROWS || (size_t)(end - p) < ret->n)
		return -EBADMSG;
	for (unsigned i = 0; i < ret->n; i++) {
		tick += *p;
		if (tick >= n_ticks || (i > 0 && *p == 0))
			return -EBADMSG;
		ret->tick[i] = (uint8_t)tick;
		p++;
	}
	if (read_columns(&p, end, 0, n_read, boot_ns, ret) < 0)
		return -EBADMSG;
	return p - (const uint8_t *)data;
}

/* ---- packs ---- */

#define PACK_LEVEL 3
#define PACK_MAX_BYTES ((size_t)256 << 20) /* nothing that is written comes near to it */

void pack_write(struct buf *out, const struct buf *raw)
{
	size_t n = ZSTD_compressBound(raw->len);

	if (buf_error(raw) < 0 || buf_reserve(out, n) < 0) {
		out->failed = true;
		return;
	}
	n = ZSTD_compress(out->data + out->len, n, raw->data, raw->len, PACK_LEVEL);
	if (ZSTD_isError(n)) {
		out->failed = true;
		return;
	}
	out->len += n;
	out->data[out->len] = '\0';
}

int pack_read(const void *data, size_t len, struct buf *ret)
{
	unsigned long long n =
		ZSTD_getFrameContentSize(data, len); /* its errors are huge numbers */

	buf_reset(ret);
	if (n > PACK_MAX_BYTES)
		return -EBADMSG;
	if (buf_reserve(ret, (size_t)n + 1) < 0)
		return -ENOMEM;
	if (ZSTD_decompress(ret->data, (size_t)n, data, len) != n)
		return -EBADMSG;
	ret->len = (size_t)n;
	ret->data[ret->len] = '\0';
	return 0;
}

void item_write(struct buf *raw, int64_t key, const void *data, size_t len)
{
	buf_add_char(raw, (char)(key & GROUP_MASK));
	record_write_number(raw, len);
	buf_add(raw, data, len);
}

int item_read(struct item_reader *r, int64_t *ret_key, const void **ret_data, size_t *ret_len)
{
	uint64_t n;

	if (r->p == r->end)
		return 0;
	if (*r->p > GROUP_MASK)
		return -EBADMSG;
	*ret_key = r->group | *r->p++;
	if (number_get(&r->p, r->end, &n) < 0 || n > (size_t)(r->end - r->p))
		return -EBADMSG;
	*ret_data = r->p;
	*ret_len = (size_t)n;
	r->p += n;
	return 1;
}

/* ---- the head of a fold: when its ticks were, and all that is no process ---- */

#define THING 1
#define END 0
#define STRINGS_MAX (1 << 20) /* more than any fold has: levels, jobs and their states */
#define TIMES 2		      /* HOST_WALL_NS and HOST_BOOT_NS stand with the ids */

void fold_strings_release(struct fold_strings *strings)
{
	free(strings->items);
}

int fold_strings_add(struct fold_strings *strings, const char *s)
{
	if (ARRAY_RESERVE(strings->items, strings->cap, strings->n + 1) < 0)
		return -ENOMEM;
	strings->items[strings->n++] = s;
	return 0;
}

void fold_write_times(struct buf *out, const int64_t *ids, const struct table *head)
{
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	CLEANUP(free_ptr) struct table *times = malloc(sizeof(*times));

	if (!times) {
		out->failed = true;
		return;
	}
	times->n = head->n;
	memcpy(times->tick, head->tick, sizeof(times->tick));
	memcpy(times->columns, head->columns, TIMES * sizeof(*times->columns));
	for (unsigned i = 0; i < head->n; i++)
		times->columns[TIMES][i] = (uint64_t)ids[i];
	table_write(&raw, times, TIMES + 1, NULL);
	pack_write(out, &raw);
}

int fold_read_times(const void *data, size_t len, int64_t *ids, struct table *head)
{
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	int r = pack_read(data, len, &raw);

	if (r < 0)
		return r;
	if (table_read(raw.data, raw.len, CODEC_ROWS, TIMES + 1, NULL, head) < 0 ||
	    head->tick[head->n - 1] != head->n - 1) /* all ticks of the fold have a head */
		return -EBADMSG;
	for (unsigned i = 0; i < head->n; i++) {
		ids[i] = (int64_t)head->columns[TIMES][i];
		if (!u64_known(head->columns[HOST_WALL_NS][i]))
			return -EBADMSG;
	}
	memset(head->columns[TIMES], 0xff, (HEAD_WORDS - TIMES) * sizeof(*head->columns));
	return 0;
}

void fold_write_head(struct buf *raw, const struct table *head, const struct fold_strings *strings)
{
	write_columns(raw, head, TIMES, HEAD_WORDS, NULL);
	record_write_number(raw, strings->n);
	for (size_t i = 0; i < strings->n; i++)
		buf_add(raw, strings->items[i], strlen(strings->items[i]) + 1);
}

int fold_read_head(struct fold_reader *r, const void *raw, size_t len, struct table *head,
		   struct fold_strings *strings)
{
	uint64_t n;

	*r = (struct fold_reader){ raw, (const uint8_t *)raw + len, head->n };
	strings->n = 0;
	if (read_columns(&r->p, r->end, TIMES, HEAD_WORDS, NULL, head) < 0 ||
	    number_get(&r->p, r->end, &n) < 0 || n > STRINGS_MAX)
		return -EBADMSG;
	while (n-- > 0) {
		const uint8_t *nul = memchr(r->p, '\0', (size_t)(r->end - r->p));

		if (!nul)
			return -EBADMSG;
		if (fold_strings_add(strings, (const char *)r->p) < 0)
			return -ENOMEM;
		r->p = nul + 1;
	}
	return 0;
}

void fold_write_thing(struct buf *out, enum tick_list list, const struct table *t)
{
	buf_add_char(out, THING);
	table_write(out, t, list_words[list], NULL);
}

void fold_write_end(struct buf *out)
{
	buf_add_char(out, END);
}

int fold_read_thing(struct fold_reader *r, enum tick_list list, struct table *ret)
{
	ssize_t n;

	if (r->p == r->end)
		return list == LIST_CGROUPS ? 0 : -EBADMSG;
	if (*r->p > THING)
		return -EBADMSG;
	if (*r->p++ == END)
		return 0;
	n = table_read(r->p, (size_t)(r->end - r->p), r->n_ticks, list_words[list], NULL, ret);
	if (n < 0)
		return -EBADMSG;
	r->p += n;
	return 1;
}

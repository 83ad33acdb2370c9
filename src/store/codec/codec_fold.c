#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec/codec.h"

/*
 * The head of a fold: a sum of its times and ids (four bytes), its table with the ids of
 * the ticks as one more column behind the times, the length of the strings (four bytes) and
 * those, then the things of each list: a 1 before each, a 0 behind the last. That of cgroups
 * need not be there.
 *
 * So times and ids, without which no chunk can be read, do not fall with what is behind them.
 */
#define HEAD_ID HEAD_WORDS /* the column of the ids in memory… */
#define TIMES_ID 2	   /* …and in the blob, behind HOST_WALL_NS and HOST_BOOT_NS */
#define LENGTH_BYTES 4
#define SUM_BYTES 4
#define THING 1
#define END 0
#define STRINGS_MAX (1 << 20) /* more than any fold has: levels, jobs and their states */

/* ---- strings ---- */

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

static void write_strings(struct buf *out, const struct fold_strings *strings)
{
	size_t at = out->len;
	uint32_t length;

	buf_add(out, "\0\0\0\0", LENGTH_BYTES);
	for (size_t i = 0; i < strings->n; i++)
		buf_add(out, strings->items[i], strlen(strings->items[i]) + 1);
	if (buf_error(out) < 0)
		return;
	length = htole32((uint32_t)(out->len - at - LENGTH_BYTES));
	memcpy(out->data + at, &length, sizeof(length));
}

static int read_strings(struct fold_reader *r, struct fold_strings *strings)
{
	const char *s, *end;
	uint32_t length;

	if (r->end - r->p < LENGTH_BYTES)
		return -EBADMSG;
	memcpy(&length, r->p, sizeof(length));
	length = le32toh(length);
	r->p += LENGTH_BYTES;
	if (length > (size_t)(r->end - r->p) || (length > 0 && r->p[length - 1] != '\0'))
		return -EBADMSG;
	end = (const char *)r->p + length;
	strings->n = 0;
	for (s = (const char *)r->p; s < end; s += strlen(s) + 1) {
		if (strings->n == STRINGS_MAX)
			return -EBADMSG;
		if (fold_strings_add(strings, s) < 0)
			return -ENOMEM;
	}
	r->p += length;
	return 0;
}

/* ---- the head ---- */

static uint64_t hash_words(uint64_t hash, const uint64_t *words, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t word = htole64(words[i]);

		hash = hash_bytes(hash, &word, sizeof(word));
	}
	return hash;
}

/* Little-endian, as it stands in the blob. */
static uint32_t sum_up_times(const struct table *head, unsigned id_column)
{
	uint64_t hash = hash_words(HASH_INIT, head->columns[HOST_WALL_NS], head->n);

	hash = hash_words(hash, head->columns[HOST_BOOT_NS], head->n);
	hash = hash_words(hash, head->columns[id_column], head->n);
	return htole32((uint32_t)(hash ^ hash >> 32));
}

/* From behind all words to behind the times. */
static void bring_ids_forward(struct table *head)
{
	uint64_t ids[CODEC_ROWS];

	memcpy(ids, head->columns[HEAD_ID], sizeof(ids));
	memmove(head->columns[TIMES_ID + 1], head->columns[TIMES_ID],
		(HEAD_ID - TIMES_ID) * sizeof(ids));
	memcpy(head->columns[TIMES_ID], ids, sizeof(ids));
}

static void take_ids_back(struct table *head)
{
	uint64_t ids[CODEC_ROWS];

	memcpy(ids, head->columns[TIMES_ID], sizeof(ids));
	memmove(head->columns[TIMES_ID], head->columns[TIMES_ID + 1],
		(HEAD_ID - TIMES_ID) * sizeof(ids));
	memcpy(head->columns[HEAD_ID], ids, sizeof(ids));
}

void fold_write_head(struct buf *out, const int64_t *ids, struct table *head,
		     const struct fold_strings *strings)
{
	uint32_t sum;

	for (unsigned i = 0; i < head->n; i++)
		head->columns[HEAD_ID][i] = (uint64_t)ids[i];
	sum = sum_up_times(head, HEAD_ID);
	buf_add(out, &sum, SUM_BYTES);
	bring_ids_forward(head);
	table_write(out, head, HEAD_WORDS + 1, NULL);
	take_ids_back(head);
	write_strings(out, strings);
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

static int read_table(struct fold_reader *r, unsigned n_ticks, unsigned n_words, struct table *ret)
{
	ssize_t n = table_read(r->p, (size_t)(r->end - r->p), n_ticks, n_words, NULL, ret);

	if (n < 0)
		return (int)n;
	r->p += n;
	return 0;
}

/* Whether all ticks of the fold have a head. */
static bool has_all_ticks(const struct table *head)
{
	return head->tick[0] == 0 && head->tick[head->n - 1] == head->n - 1;
}

static void tell_ids(const struct table *head, unsigned id_column, int64_t *ret)
{
	for (unsigned i = 0; i < head->n; i++)
		ret[i] = (int64_t)head->columns[id_column][i];
}

int fold_read_head(struct fold_reader *r, const void *data, size_t len, int64_t *ids,
		   struct table *head, struct fold_strings *strings)
{
	if (len < SUM_BYTES)
		return -EBADMSG;
	*r = (struct fold_reader){ .p = (const uint8_t *)data + SUM_BYTES,
				   .end = (const uint8_t *)data + len };
	if (read_table(r, CODEC_ROWS, HEAD_WORDS + 1, head) < 0 || !has_all_ticks(head))
		return -EBADMSG;
	take_ids_back(head);
	r->n_ticks = head->n;
	tell_ids(head, HEAD_ID, ids);
	return read_strings(r, strings);
}

int fold_read_times(const void *data, size_t len, int64_t *ids, struct table *head)
{
	struct fold_reader r;
	uint32_t sum;

	if (len < SUM_BYTES)
		return -EBADMSG;
	memcpy(&sum, data, SUM_BYTES);
	r = (struct fold_reader){ .p = (const uint8_t *)data + SUM_BYTES,
				  .end = (const uint8_t *)data + len };
	if (read_table(&r, CODEC_ROWS, TIMES_ID + 1, head) < 0 || !has_all_ticks(head) ||
	    sum_up_times(head, TIMES_ID) != sum)
		return -EBADMSG;
	tell_ids(head, TIMES_ID, ids);
	memset(head->columns[TIMES_ID], 0xff, (HEAD_WORDS - TIMES_ID) * sizeof(*head->columns));
	return 0;
}

bool fold_has_thing(const struct fold_reader *r)
{
	return r->p < r->end && *r->p == THING;
}

int fold_read_thing(struct fold_reader *r, enum tick_list list, struct table *ret)
{
	if (r->p == r->end)
		return list == LIST_CGROUPS ? 0 : -EBADMSG;
	if (*r->p > THING)
		return -EBADMSG;
	if (*r->p++ == END)
		return 0;
	return read_table(r, r->n_ticks, list_words[list], ret) < 0 ? -EBADMSG : 1;
}

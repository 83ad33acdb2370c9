#include "model/tick.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/record.h"

/*
 * A tick: how many lists it has (those behind are empty), the id of the tick that
 * it differs from, the strings, the words of the head, the lists. A list: how many, in how many
 * bytes, and of each the step from the key before and its words. Numbers have seven bits a byte,
 * the last is below 128.
 *
 * Words: which of them differ (a byte says which bytes of that are not 0), then
 * the step of each of those. Most processes sleep most of the time: two bytes.
 */
#define LENGTH_BYTES 4
#define NO_KEY UINT64_MAX /* before the first, 0 */
/* Which differ, and a number each. */
#define WORDS_BYTES(n_) (1 + 8 + (n_)*NUMBER_BYTES)

_Static_assert(WORDS_MAX <= 64, "a byte tells which bytes of a mask are there");

const unsigned list_words[N_LISTS] = {
	[LIST_GPUS] = GPU_WORDS,	 [LIST_PROGRESS] = PROGRESS_WORDS,
	[LIST_POINTS] = POINT_WORDS,	 [LIST_SAMPLES] = SAMPLE_WORDS,
	[LIST_SYSCALLS] = SYSCALL_WORDS, [LIST_CGROUPS] = CGROUP_WORDS,
};

/* ---- in memory ---- */

void tick_release(struct tick *t)
{
	for (size_t i = 0; i < N_LISTS; i++)
		free(t->lists[i].rows);
	buf_release(&t->strings);
}

void tick_reset(struct tick *t)
{
	for (size_t i = 0; i < N_LISTS; i++)
		t->lists[i].n = 0;
	buf_reset(&t->strings);
	t->n_strings = 0;
}

uint64_t *tick_add(struct tick *t, enum tick_list list, int64_t key)
{
	struct tick_rows *l = &t->lists[list];
	size_t width = 1 + list_words[list];
	uint64_t *row;

	if (array_reserve(&l->rows, &l->cap, l->n + 1, width * sizeof(*l->rows)) < 0)
		return NULL;
	row = l->rows + l->n++ * width;
	row[0] = (uint64_t)key;
	return row + 1;
}

uint64_t tick_add_string(struct tick *t, const char *s)
{
	if (!s)
		return U64_UNKNOWN;
	buf_add(&t->strings, s, strlen(s) + 1);
	return t->n_strings++;
}

/* ---- writing ---- */

/* Makes room for n bytes, to be written at the returned place; NULL: no memory. */
static uint8_t *reserve(struct buf *out, size_t n)
{
	if (buf_reserve(out, n) < 0) {
		out->failed = true;
		return NULL;
	}
	return (uint8_t *)out->data + out->len;
}

static void commit(struct buf *out, const uint8_t *end)
{
	out->len = (size_t)(end - (const uint8_t *)out->data);
	out->data[out->len] = '\0';
}

/* A bit for each word that differs. Of who sleeps none does, and libc sees that much sooner. */
static uint64_t find_changed(const uint64_t *words, const uint64_t *before, unsigned n)
{
	uint64_t changed = 0;

	if (memcmp(words, before, n * sizeof(*words)) == 0)
		return 0;
	for (unsigned i = 0; i < n; i++)
		changed |= (uint64_t)(words[i] != before[i]) << i;
	return changed;
}

static uint8_t *put_mask(uint8_t *p, uint64_t mask)
{
	uint8_t *which = p++;

	*which = 0;
	for (unsigned i = 0; mask; i++, mask >>= 8) {
		uint8_t byte = (uint8_t)mask;

		if (!byte)
			continue;
		*which = (uint8_t)(*which | 1u << i);
		*p++ = byte;
	}
	return p;
}

/* The room is there. */
static uint8_t *put_words(uint8_t *p, const uint64_t *words, const uint64_t *before, unsigned n)
{
	uint64_t changed = find_changed(words, before, n);

	p = put_mask(p, changed);
	for (; changed; changed &= changed - 1) {
		unsigned i = (unsigned)__builtin_ctzll(changed);

		p = number_put(p, zigzag(words[i] - before[i]));
	}
	return p;
}

static const uint64_t unknown_words[WORDS_MAX] = { [0 ... WORDS_MAX - 1] = U64_UNKNOWN };

/* The row with this key among those that are left; moves behind it. Rows are sorted. */
static const uint64_t *find_row(const uint64_t **row, const uint64_t *end, size_t width,
				uint64_t key)
{
	const uint64_t *found;

	while (*row < end && **row < key)
		*row += width;
	if (*row == end || **row != key)
		return NULL;
	found = *row + 1;
	*row += width;
	return found;
}

static void write_list(struct buf *out, enum tick_list list, const struct tick *t,
		       const struct tick *before)
{
	const struct tick_rows *rows = &t->lists[list];
	size_t width = 1 + list_words[list], length_at;
	const uint64_t *old = before ? before->lists[list].rows : NULL;
	const uint64_t *old_end = old ? old + before->lists[list].n * width : NULL;
	uint64_t previous = NO_KEY;
	uint8_t *p = reserve(out, rows->n * (NUMBER_BYTES + WORDS_BYTES(list_words[list])) +
					  NUMBER_BYTES + LENGTH_BYTES);
	uint32_t length;

	if (!p)
		return;
	p = number_put(p, rows->n);
	length_at = (size_t)(p - (uint8_t *)out->data);
	p += LENGTH_BYTES;
	for (size_t i = 0; i < rows->n; i++) {
		const uint64_t *row = rows->rows + i * width;
		const uint64_t *same = find_row(&old, old_end, width, row[0]);

		p = number_put(p, row[0] - previous);
		p = put_words(p, row + 1, same ? same : unknown_words, list_words[list]);
		previous = row[0];
	}
	length = htole32((uint32_t)((size_t)(p - (uint8_t *)out->data) - length_at - LENGTH_BYTES));
	memcpy(out->data + length_at, &length, sizeof(length));
	commit(out, p);
}

void tick_write(struct buf *out, const struct tick *t, const struct tick *before, int64_t before_id)
{
	unsigned n_lists = N_LISTS;
	uint8_t *p;

	while (n_lists > 0 && t->lists[n_lists - 1].n == 0)
		n_lists--;
	buf_add_char(out, (char)n_lists);
	record_write_number(out, before ? (uint64_t)before_id : 0);
	record_write_number(out, t->n_strings);
	record_write_number(out, t->strings.len);
	buf_add(out, t->strings.data, t->strings.len);
	if (buf_error(&t->strings) < 0)
		out->failed = true;
	p = reserve(out, WORDS_BYTES(HEAD_WORDS));
	if (!p)
		return;
	commit(out, put_words(p, t->head, before ? before->head : unknown_words, HEAD_WORDS));
	for (enum tick_list list = 0; list < n_lists; list++)
		write_list(out, list, t, before);
}

/* ---- reading ---- */

static int get_mask(const uint8_t **p, const uint8_t *end, unsigned n, uint64_t *ret)
{
	uint64_t mask = 0;
	uint8_t which;

	if (*p == end)
		return -EBADMSG;
	for (which = *(*p)++; which; which &= (uint8_t)(which - 1)) {
		if (*p == end)
			return -EBADMSG;
		mask |= (uint64_t) * (*p)++ << __builtin_ctz(which) * 8;
	}
	*ret = mask;
	return n < 64 && mask >> n ? -EBADMSG : 0;
}

/* ret NULL: whoever asks wants to know whether they are sound. */
static int get_words(const uint8_t **p, const uint8_t *end, unsigned n, const uint64_t *before,
		     uint64_t *ret)
{
	uint64_t changed, step;

	if (get_mask(p, end, n, &changed) < 0)
		return -EBADMSG;
	if (ret)
		memmove(ret, before, n * sizeof(*ret));
	for (; changed; changed &= changed - 1) {
		if (number_get(p, end, &step) < 0)
			return -EBADMSG;
		if (ret)
			ret[__builtin_ctzll(changed)] += unzigzag(step);
	}
	return 0;
}

static int get_strings(struct tick_reader *r, const uint8_t **p, const uint8_t *end)
{
	uint64_t n, len;

	if (number_get(p, end, &n) < 0 || number_get(p, end, &len) < 0 ||
	    len > (uint64_t)(end - *p) || n > len)
		return -EBADMSG;
	r->strings = (const char *)*p;
	r->n_strings = (size_t)n;
	*p += len;
	for (uint64_t i = 0; i < len; i++)
		n -= !r->strings[i];
	/* As many as there are NULs, and nothing behind the last. */
	return n == 0 && (len == 0 || !r->strings[len - 1]) ? 0 : -EBADMSG;
}

static int64_t key_max(enum tick_list list)
{
	return list == LIST_SAMPLES    ? SAMPLE_KEY_MAX
	       : list == LIST_SYSCALLS ? SAMPLE_KEY_MAX << SYSCALL_BITS | SYSCALL_NUMBERS
				       : INT64_MAX;
}

/* Who reads a tick relies on the ones before: one that is not whole is not read at all. */
static int get_list(struct tick_cursor *c, enum tick_list list, const uint8_t **p,
		    const uint8_t *end)
{
	uint32_t length;
	struct tick_cursor check;
	uint64_t n;
	int r;

	if (number_get(p, end, &n) < 0 || end - *p < LENGTH_BYTES)
		return -EBADMSG;
	memcpy(&length, *p, sizeof(length));
	length = le32toh(length);
	*p += LENGTH_BYTES;
	if (length > (size_t)(end - *p) || n > length) /* each takes some bytes */
		return -EBADMSG;
	*c = (struct tick_cursor){
		.p = *p,
		.end = *p + length,
		.n_left = (size_t)n,
		.n_words = list_words[list],
		.key = (int64_t)NO_KEY,
	};
	*p += length;
	check = *c;
	while ((r = tick_cursor_next(&check)) > 0)
		if (get_words(&check.p, check.end, check.n_words, NULL, NULL) < 0)
			return -EBADMSG;
	/* The last key is the largest. */
	return r < 0 || check.p != check.end || check.key > key_max(list) ? -EBADMSG : 0;
}

int tick_read(struct tick_reader *r, const void *data, size_t len, int64_t before_id,
	      const uint64_t *before_head)
{
	const uint8_t *p = data, *end = p + len;
	enum tick_list n_lists;
	uint64_t id;

	if (len == 0 || *p > N_LISTS)
		return -EBADMSG;
	n_lists = (enum tick_list) * p++;
	if (number_get(&p, end, &id) < 0 || id > INT64_MAX ||
	    (id != 0 && (int64_t)id != before_id) || get_strings(r, &p, end) < 0)
		return -EBADMSG;
	r->before_id = (int64_t)id;
	if (get_words(&p, end, HEAD_WORDS, id ? before_head : unknown_words, r->head) < 0)
		return -EBADMSG;
	for (enum tick_list list = n_lists; list < N_LISTS; list++)
		r->lists[list] = (struct tick_cursor){ 0 };
	for (enum tick_list list = 0; list < n_lists; list++)
		if (get_list(&r->lists[list], list, &p, end) < 0)
			return -EBADMSG;
	return p == end ? 0 : -EBADMSG;
}

int tick_cursor_next(struct tick_cursor *c)
{
	uint64_t step;

	if (c->n_left == 0)
		return 0;
	c->n_left--;
	if (number_get(&c->p, c->end, &step) < 0 || step == 0 ||
	    step > (uint64_t)INT64_MAX - (uint64_t)c->key)
		return -EBADMSG;
	c->key = (int64_t)((uint64_t)c->key + step);
	return 1;
}

int tick_cursor_read(struct tick_cursor *c, const uint64_t *before, uint64_t *ret)
{
	return get_words(&c->p, c->end, c->n_words, before ? before : unknown_words, ret);
}

int tick_take(struct tick_reader *r, const struct tick *before, struct tick *ret)
{
	tick_reset(ret);
	memcpy(ret->head, r->head, sizeof(ret->head));
	for (enum tick_list list = 0; list < N_LISTS; list++) {
		struct tick_cursor *c = &r->lists[list];
		struct tick_rows *rows = &ret->lists[list];
		size_t width = 1 + list_words[list];
		const uint64_t *old = before ? before->lists[list].rows : NULL;
		const uint64_t *old_end = old ? old + before->lists[list].n * width : NULL;

		if (c->n_left > TICK_ROWS_MAX)
			return -EBADMSG;
		if (array_reserve(&rows->rows, &rows->cap, c->n_left, width * sizeof(*rows->rows)) <
		    0)
			return -ENOMEM;
		while (tick_cursor_next(c) > 0) {
			uint64_t *row = rows->rows + rows->n++ * width;

			row[0] = (uint64_t)c->key;
			if (tick_cursor_read(c, find_row(&old, old_end, width, row[0]), row + 1) <
			    0)
				return -EBADMSG;
		}
	}
	return 0;
}

int tick_index_strings(const struct tick_reader *r, const char ***ret)
{
	const char *s = r->strings;

	*ret = NULL;
	if (r->n_strings == 0)
		return 0;
	*ret = reallocarray(NULL, r->n_strings, sizeof(**ret));
	for (size_t i = 0; *ret && i < r->n_strings; i++, s += strlen(s) + 1)
		(*ret)[i] = s;
	return *ret ? 0 : -ENOMEM;
}

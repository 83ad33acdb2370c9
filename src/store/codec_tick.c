#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "store/codec.h"
#include "store/codec_bits.h"

/*
 * A tick: version, the head's words, the level, the number of samples; of each
 * the step from the process before and its words. Words are two bits each that
 * say how it is kept, then a number (seven bits a byte, the last below 128) for
 * each of those that need one. Nothing depends on another tick.
 */
#define TICK_VERSION 1
#define NUMBER_BYTES 10 /* of the largest */

enum kept { KEPT_UNKNOWN, KEPT_ZERO, KEPT_NUMBER, KEPT_UNITS };

/* What many values are multiples of: pages, and the clock ticks of CPU time. */
#define PAGE_UNIT 4096
#define TICK_UNIT UINT64_C(10000000)

static const uint64_t units[SAMPLE_WORDS] = {
	[SAMPLE_AGE] = TICK_UNIT, /* becomes the start: see hide_times() */
	[SAMPLE_USER_NS] = TICK_UNIT,	  [SAMPLE_SYSTEM_NS] = TICK_UNIT,
	[SAMPLE_ANON_BYTES] = PAGE_UNIT,  [SAMPLE_FILE_BYTES] = PAGE_UNIT,
	[SAMPLE_SHMEM_BYTES] = PAGE_UNIT, [SAMPLE_RSS_BYTES] = PAGE_UNIT,
	[SAMPLE_HWM_BYTES] = PAGE_UNIT,
};

/* ---- writing ---- */

static uint8_t *put_number(uint8_t *p, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*p++ = (uint8_t)(v | 128);
	*p++ = (uint8_t)v;
	return p;
}

static enum kept choose_kept(uint64_t v, uint64_t unit)
{
	if (v == 0)
		return KEPT_ZERO;
	return unit && v % unit == 0 ? KEPT_UNITS : KEPT_NUMBER;
}

/* known: a bit per word. The room is there. */
static uint8_t *put_words(uint8_t *p, const uint64_t *words, uint64_t known, unsigned n,
			  const uint64_t *unit)
{
	uint8_t *how = p;

	p += (n + 3) / 4;
	memset(how, 0, (size_t)(p - how));
	for (unsigned i = 0; i < n; i++) {
		enum kept kept = KEPT_UNKNOWN;

		if (known >> i & 1)
			kept = choose_kept(words[i], unit ? unit[i] : 0);
		how[i / 4] = (uint8_t)(how[i / 4] | (unsigned)kept << i % 4 * 2);
		if (kept == KEPT_NUMBER)
			p = put_number(p, words[i]);
		else if (kept == KEPT_UNITS)
			p = put_number(p, words[i] / unit[i]);
	}
	return p;
}

static uint64_t known_mask(const uint64_t *words, unsigned n)
{
	uint64_t known = 0;

	for (unsigned i = 0; i < n; i++)
		known |= (uint64_t)u64_known(words[i]) << i;
	return known;
}

static uint64_t or_zero(uint64_t v)
{
	return u64_known(v) ? v : 0;
}

/* The age told by the start of the process, and when it was read by the tick's time. */
static void hide_times(uint64_t *words, uint64_t known, uint64_t tick_boot_ns)
{
	if (known >> SAMPLE_AGE & 1)
		words[SAMPLE_AGE] = or_zero(words[SAMPLE_BOOT_NS]) - words[SAMPLE_AGE];
	if (known >> SAMPLE_BOOT_NS & 1)
		words[SAMPLE_BOOT_NS] = zigzag(words[SAMPLE_BOOT_NS] - or_zero(tick_boot_ns));
}

static void show_times(uint64_t *words, uint64_t known, uint64_t tick_boot_ns)
{
	if (known >> SAMPLE_BOOT_NS & 1)
		words[SAMPLE_BOOT_NS] = unzigzag(words[SAMPLE_BOOT_NS]) + or_zero(tick_boot_ns);
	if (known >> SAMPLE_AGE & 1)
		words[SAMPLE_AGE] = or_zero(words[SAMPLE_BOOT_NS]) - words[SAMPLE_AGE];
}

void tick_head_init(struct tick_head *head, const struct snapshot *s,
		    const struct series_point *point)
{
	*head = (struct tick_head){
		.level = s->pressure_level,
		.level_len = s->pressure_level ? strlen(s->pressure_level) : 0,
	};
	host_to_words(s, head->words + HEAD_HOST);
	head->words[HEAD_HAS_POINT] = point ? 1 : U64_UNKNOWN;
	if (point)
		point_to_words(point, head->words + HEAD_POINT);
	for (unsigned i = 0; !point && i < POINT_WORDS; i++)
		head->words[HEAD_POINT + i] = U64_UNKNOWN;
}

/* Room for n numbers and as many bytes, to be written at the returned place; NULL: no memory. */
static uint8_t *reserve(struct buf *out, size_t n)
{
	if (buf_reserve(out, (n + 1) * (NUMBER_BYTES + 1)) < 0) {
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

void tick_write_head(struct buf *out, const struct tick_head *head, size_t n_samples)
{
	uint8_t *p = reserve(out, HEAD_WORDS + 2);

	if (!p)
		return;
	*p++ = TICK_VERSION;
	p = put_words(p, head->words, known_mask(head->words, HEAD_WORDS), HEAD_WORDS, NULL);
	p = put_number(p, head->level ? head->level_len + 1 : 0);
	commit(out, p);
	buf_add(out, head->level ? head->level : "", head->level_len);
	p = reserve(out, 1);
	if (p)
		commit(out, put_number(p, n_samples));
}

void tick_write_sample(struct buf *out, const struct tick_head *head, int64_t previous,
		       int64_t process, const struct proc_sample *sample)
{
	uint64_t words[SAMPLE_WORDS], known;
	uint8_t *p = reserve(out, SAMPLE_WORDS + 1);

	if (!p)
		return;
	sample_to_words(sample, words);
	known = known_mask(words, SAMPLE_WORDS);
	hide_times(words, known, head->words[HEAD_HOST + HOST_BOOT_NS]);
	p = put_number(p, (uint64_t)process - (uint64_t)previous);
	commit(out, put_words(p, words, known, SAMPLE_WORDS, units));
}

/* ---- reading ---- */

static int get_number(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift == 63 && byte > 1)
			return -EBADMSG;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*ret = v;
			return 0;
		}
	}
	return -EBADMSG;
}

/* Unknown words are U64_UNKNOWN; ret_known tells them from a number with those bits. */
static int get_words(const uint8_t **p, const uint8_t *end, unsigned n, const uint64_t *unit,
		     uint64_t *ret, uint64_t *ret_known)
{
	const uint8_t *how = *p;
	size_t how_len = (n + 3) / 4;

	if ((size_t)(end - *p) < how_len)
		return -EBADMSG;
	*p += how_len;
	*ret_known = 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned kept = how[i / 4] >> i % 4 * 2 & 3;

		ret[i] = kept == KEPT_UNKNOWN ? U64_UNKNOWN : 0;
		*ret_known |= (uint64_t)(kept != KEPT_UNKNOWN) << i;
		if (kept >= KEPT_NUMBER && get_number(p, end, &ret[i]) < 0)
			return -EBADMSG;
		if (kept == KEPT_UNITS)
			ret[i] *= unit ? unit[i] : 1;
	}
	return 0;
}

static int get_level(struct tick_reader *r)
{
	uint64_t len;

	r->head.level = NULL;
	r->head.level_len = 0;
	if (get_number(&r->p, r->end, &len) < 0 || len > (uint64_t)(r->end - r->p) + 1)
		return -EBADMSG;
	if (len == 0)
		return 0;
	r->head.level = (const char *)r->p;
	r->head.level_len = (size_t)len - 1;
	r->p += len - 1;
	return 0;
}

int tick_read_head(struct tick_reader *r, const void *data, size_t len)
{
	uint64_t known, n;

	*r = (struct tick_reader){ .p = data, .end = (const uint8_t *)data + len };
	if (len == 0 || *r->p++ != TICK_VERSION)
		return -EBADMSG;
	if (get_words(&r->p, r->end, HEAD_WORDS, NULL, r->head.words, &known) < 0 ||
	    get_level(r) < 0 || get_number(&r->p, r->end, &n) < 0)
		return -EBADMSG;
	if (n > (uint64_t)(r->end - r->p)) /* each takes some bytes */
		return -EBADMSG;
	r->n_left = (size_t)n;
	return 0;
}

int tick_read_sample(struct tick_reader *r)
{
	uint64_t step, known;

	if (r->n_left == 0)
		return 0;
	r->n_left--;
	if (get_number(&r->p, r->end, &step) < 0 || step == 0 ||
	    step > (uint64_t)INT64_MAX - (uint64_t)r->process ||
	    get_words(&r->p, r->end, SAMPLE_WORDS, units, r->words, &known) < 0)
		return -EBADMSG;
	r->process += (int64_t)step;
	show_times(r->words, known, r->head.words[HEAD_HOST + HOST_BOOT_NS]);
	return 1;
}

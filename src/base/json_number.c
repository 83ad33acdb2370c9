#include "base/json_number.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

/*
 * A snapshot of a thousand processes has thirty thousand numbers: printf() would
 * take most of the time that it takes to write one.
 */
#define DIGITS_MAX 20 /* of a uint64_t */

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
			    "25262728293031323334353637383940414243444546474849"
			    "50515253545556575859606162636465666768697071727374"
			    "75767778798081828384858687888990919293949596979899";

/* Writes the digits so that they stop before end. Returns where they begin. */
static char *put_digits(char *end, uint64_t v)
{
	for (; v >= 100; v /= 100)
		memcpy(end -= 2, &pairs[v % 100 * 2], 2);
	if (v >= 10)
		return memcpy(end - 2, &pairs[v * 2], 2);
	*--end = (char)('0' + v);
	return end;
}

static size_t count_digits(uint64_t v)
{
	size_t n = 1;

	for (uint64_t power = 10; n < DIGITS_MAX && v >= power; power *= 10)
		n++;
	return n;
}

static char *add_digits(char *at, uint64_t v)
{
	char *end = at + count_digits(v);

	put_digits(end, v);
	return end;
}

char *json_put_null(char *at)
{
	memcpy(at, "null", 4);
	return at + 4;
}

char *json_put_u64(char *at, uint64_t v)
{
	return u64_known(v) ? add_digits(at, v) : json_put_null(at);
}

char *json_put_i64(char *at, int64_t v)
{
	if (v < 0)
		*at++ = '-';
	return add_digits(at, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* In some languages printf() writes 0,5. */
static void json_fix_point(char *text)
{
	const char *point = nl_langinfo(RADIXCHAR);
	char *at = strcmp(point, ".") == 0 ? NULL : strstr(text, point);

	if (!at)
		return;
	*at = '.';
	memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
}

/* From which size on so many decimals are too many: all digits together are 15 at most. */
static const struct scale {
	double below;
	uint64_t factor;
	size_t decimals;
} scales[] = { { 1e6, 1000000000, 9 }, { 1e9, 1000000, 6 }, { 1e12, 1000, 3 } };

/* "12.5" of 12500000000 with 9 decimals; at least one decimal stays. */
static char *add_decimal(char *at, uint64_t scaled, const struct scale *scale)
{
	uint64_t part = scaled % scale->factor;
	char *point = add_digits(at, scaled / scale->factor), *end = point + 1 + scale->decimals;

	memset(point, '0', 1 + scale->decimals);
	put_digits(end, part);
	*point = '.';
	while (end > point + 2 && end[-1] == '0')
		end--;
	return end;
}

/*
 * Most numbers have few decimals: bytes in MB, times in nanoseconds, percents. If
 * one is a whole number of at most 15 digits divided by a power of ten, these are
 * its shortest digits: both are exact as doubles, and division rounds correctly. NULL:
 * it is not, or would be written with an exponent.
 */
static char *add_short_decimal(char *at, double v)
{
	if (v < 1e-4)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
		uint64_t scaled;

		if (v >= scales[i].below)
			continue;
		scaled = (uint64_t)(v * (double)scales[i].factor + 0.5);
		if ((double)scaled / (double)scales[i].factor != v)
			return NULL;
		return add_decimal(at, scaled, &scales[i]);
	}
	return NULL;
}

/*
 * The same of less than a tenth of a millisecond, in seconds: "8.4e-05". A process that
 * only waits has used no more than that.
 */
static char *add_few_nanoseconds(char *at, double v)
{
	uint64_t ns = v > 0 && v < 1e-4 ? (uint64_t)(v * 1e9 + 0.5) : 0;
	char text[DIGITS_MAX], *end = text + sizeof(text), *begin;
	int exponent;

	if (ns == 0 || (double)ns / 1e9 != v)
		return NULL;
	begin = put_digits(end, ns);
	exponent = 10 - (int)(end - begin);
	while (end[-1] == '0')
		end--;
	*at++ = *begin++;
	if (begin < end)
		*at++ = '.';
	at = mempcpy(at, begin, (size_t)(end - begin));
	at = mempcpy(at, "e-0", 3);
	*at++ = (char)('0' + exponent);
	return at;
}

/* Round half to even, as printf() does. */
static uint64_t divide_rounded(uint64_t a, unsigned shift)
{
	uint64_t half = UINT64_C(1) << (shift - 1), rest = a & ((half << 1) - 1), q = a >> shift;

	return q + (rest > half || (rest == half && (q & 1)));
}

/*
 * Times of the present, in seconds: with ten digits before the point they have seven behind it,
 * too many for the above. Such a double is a whole number of 2^-bits: what is behind the
 * point fits into integers, and so does the test whether so many decimals tell it from its
 * neighbours. NULL: it is not of that size.
 */
static char *add_time(char *at, double v)
{
	static const struct scale times[] = { { 0, 10, 1 },	 { 0, 100, 2 },
					      { 0, 1000, 3 },	 { 0, 10000, 4 },
					      { 0, 100000, 5 },	 { 0, 1000000, 6 },
					      { 0, 10000000, 7 } };
	unsigned bits = v < 0x1p31 ? 22 : 21;
	uint64_t whole, part;

	if (v < 0x1p30 || v >= 0x1p32)
		return NULL;
	whole = (uint64_t)v;
	part = (uint64_t)((v - (double)whole) * (double)(UINT64_C(1) << bits));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint64_t factor = times[i].factor, scaled = divide_rounded(part * factor, bits);
		uint64_t back = scaled << bits, exact = part * factor;

		if ((back > exact ? back - exact : exact - back) * 2 >= factor)
			continue; /* as near to another double */
		return add_decimal(at, whole * factor + scaled, &times[i]);
	}
	return NULL;
}

static char *add_any_decimal(char *at, double v)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	json_fix_point(text);
	at = stpcpy(at, text);
	/* A whole number stays a float for readers that tell the two apart. */
	return strpbrk(text, ".e") ? at : stpcpy(at, ".0");
}

char *json_put_f64(char *at, double v)
{
	char *end;

	if (!isfinite(v))
		return json_put_null(at);
	if (v == 0 && !signbit(v))
		return mempcpy(at, "0.0", 3);
	end = add_time(at, v);
	if (!end)
		end = add_short_decimal(at, v);
	if (!end)
		end = add_few_nanoseconds(at, v);
	return end ? end : add_any_decimal(at, v);
}

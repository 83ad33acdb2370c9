#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "base/macros.h"
#include "base/unknown.h"

int num_scan_u64(const char **cursor, uint64_t *ret)
{
	size_t n = 0;
	int r;

	while (ascii_is_digit((*cursor)[n]))
		n++;
	r = num_parse_u64_n(*cursor, n, ret);
	if (r == 0)
		*cursor += n;
	return r;
}

int num_parse_u64_n(const char *s, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (!ascii_is_digit(s[i]))
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

int num_parse_u64(const char *text, uint64_t *ret)
{
	return num_parse_u64_n(text, strlen(text), ret);
}

int num_parse_i64(const char *text, int64_t *ret)
{
	bool negative = text[0] == '-';
	uint64_t v;
	int r;

	r = num_parse_u64(text + negative, &v);
	if (r < 0)
		return r;
	if (v > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*ret = negative ? -(int64_t)(v - 1) - 1 : (int64_t)v;
	return 0;
}

/* The shape of a decimal number; strtod() alone would also take " 0x1p3", "nan" and "infinity". */
static bool is_decimal(const char *p)
{
	bool digits = false;

	if (*p == '-' || *p == '+')
		p++;
	for (; ascii_is_digit(*p); p++)
		digits = true;
	if (*p == '.')
		for (p++; ascii_is_digit(*p); p++)
			digits = true;
	if (!digits)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '-' || *p == '+')
			p++;
		if (!ascii_is_digit(*p))
			return false;
		while (ascii_is_digit(*p))
			p++;
	}
	return *p == '\0';
}

int num_parse_f64(const char *text, double *ret)
{
	static locale_t c_locale; /* made once, kept for the life of the program */
	double v;

	if (!is_decimal(text))
		return -EINVAL;
	if (!c_locale)
		c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return -ENOMEM;
	v = strtod_l(text, NULL, c_locale);
	if (!isfinite(v))
		return -ERANGE;
	*ret = v;
	return 0;
}

/* One or more of NdNhNmNs, each unit at most once and in this order. */
static int duration_parse_units(const char *p, double *ret_seconds)
{
	static const struct {
		char unit;
		uint64_t seconds;
	} units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
	uint64_t total = 0;
	size_t next = 0;

	if (*p == '\0')
		return -EINVAL;
	while (*p) {
		uint64_t v;
		int r = num_scan_u64(&p, &v);

		if (r < 0)
			return r;
		while (next < ARRAY_SIZE(units) && units[next].unit != *p)
			next++;
		if (next == ARRAY_SIZE(units))
			return -EINVAL;
		if (__builtin_mul_overflow(v, units[next].seconds, &v) ||
		    __builtin_add_overflow(total, v, &total))
			return -ERANGE;
		next++;
		p++;
	}
	*ret_seconds = (double)total;
	return 0;
}

int num_parse_any_f64(const char *text, double *ret)
{
	static const char *const names[] = { "inf", "infinity", "nan" };
	const char *name = text + (*text == '-' || *text == '+');

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0) {
			*ret = strtod(text, NULL);
			return 0;
		}
	return num_parse_f64(text, ret);
}

int num_parse_duration(const char *text, double *ret_seconds)
{
	static const char space[] = " \t\n\v\f\r";
	char copy[64];
	double minutes;
	size_t n;
	int r;

	text += strspn(text, space);
	n = strlen(text);
	while (n > 0 && strchr(space, text[n - 1]))
		n--;
	if (n >= sizeof(copy))
		return -ERANGE;
	memcpy(copy, text, n);
	copy[n] = '\0';

	r = num_parse_any_f64(copy, &minutes);
	if (r == -EINVAL)
		return duration_parse_units(copy, ret_seconds);
	if (r < 0)
		return r;
	*ret_seconds = minutes * 60.0;
	return 0;
}

int num_parse_time(const char *text, double *ret_seconds)
{
	size_t n = strspn(text, "0123456789.");
	bool is_ms = strcmp(text + n, "ms") == 0;
	char number[64];
	int r;

	if (n >= sizeof(number) || (!is_ms && strcmp(text + n, "s") != 0))
		return num_parse_duration(text, ret_seconds);
	memcpy(number, text, n);
	number[n] = '\0';
	r = num_parse_f64(number, ret_seconds);
	if (r == 0 && is_ms)
		*ret_seconds /= 1000;
	return r;
}

int num_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "kmgt";
	size_t n = strspn(text, "0123456789.");
	const char *rest = text + n + strspn(text + n, " ");
	const char *unit = *rest ? strchr(units, *rest | 0x20) : NULL;
	char number[64];
	double v;
	int r;

	if (n >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, n);
	number[n] = '\0';
	r = num_parse_f64(number, &v);
	if (r < 0 || (*rest && !unit))
		return r < 0 ? r : -EINVAL;
	if (!unit)
		return -EDOM;
	if (rest[1] && strcasecmp(rest + 1, "b") != 0 && strcasecmp(rest + 1, "ib") != 0)
		return -EINVAL;
	v *= (double)(UINT64_C(1024) << (10 * (unit - units)));
	if (v >= 9e18)
		return -ERANGE;
	*ret_bytes = (uint64_t)v;
	return 0;
}

void num_add_bytes(struct buf *out, uint64_t bytes)
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
	double v = (double)bytes;
	size_t unit = 0;
	bool has_decimal;

	if (!u64_known(bytes)) {
		buf_add_char(out, '-');
		return;
	}
	while (v >= 1023.5 && unit + 1 < ARRAY_SIZE(units)) {
		v /= 1024.0;
		unit++;
	}
	/* One decimal where it says something: 1.5 GB, 12.4 GB, but 312 MB and 3 MB. */
	has_decimal =
		unit > 0 && v < (unit >= 3 ? 99.95 : 9.95) && (uint64_t)(v * 10 + 0.5) % 10 != 0;
	buf_printf(out, "%.*f %s", has_decimal ? 1 : 0, v, units[unit]);
}

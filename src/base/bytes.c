#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/unknown.h"

void bytes_add_text(struct buf *out, uint64_t bytes)
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

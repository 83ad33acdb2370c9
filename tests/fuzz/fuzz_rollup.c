#include "fuzz_text.h"

#include "store/rollup.h"

/* Writes what was read once more, and reads that: it must be the same. */
static void read_again(const struct rollup *rollup)
{
	static struct rollup again;
	static struct table t;
	struct buf out = BUF_INIT;

	rollup_write(&out, rollup, ROLLUP_SAMPLES, &t);
	if (buf_error(&out) == 0 && rollup_read(out.data, out.len, ROLLUP_SAMPLES, &t, &again) < 0)
		abort();
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++)
		if (rollup->minutes[i].n > 0 &&
		    memcmp(&rollup->minutes[i], &again.minutes[i], sizeof(again.minutes[i])) != 0)
			abort();
	buf_release(&out);
}

static void tell_all(const struct rollup *rollup)
{
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++) {
		struct minute_row row = { 0 };

		if (rollup->minutes[i].n > 0)
			rollup_minute_tell(&rollup->minutes[i], &row);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rollup rollup;
	static struct table t;

	if (rollup_read(data, size, ROLLUP_SAMPLES, &t, &rollup) >= 0) {
		read_again(&rollup);
		tell_all(&rollup);
	}
	return 0;
}

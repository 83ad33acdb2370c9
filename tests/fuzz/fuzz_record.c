#include "fuzz_text.h"

#include "model/record.h"

/* Each kind of record from the same bytes, and what was understood of a beginning written again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	struct record_reader r;
	size_t n;

	attempt_init(&a);
	r = (struct record_reader){ data, data + size, &a.arena, 0 };
	record_read_begin(&r, &a);
	if (r.error == 0) {
		record_write_begin(&out, &a);
		if (buf_error(&out) < 0 || out.len == 0)
			abort();
	}
	record_read_end(&r, &a);
	(void)record_read_sheets(&r, &n);
	for (enum record_list list = 0; list < N_RECORD_LISTS; list++) {
		r = (struct record_reader){ data, data + size, &a.arena, 0 };
		if (!record_read_list(&r, list, &n) != !n)
			abort();
	}
	attempt_release(&a);
	return 0;
}

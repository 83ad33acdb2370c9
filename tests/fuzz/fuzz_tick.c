#include "fuzz_text.h"

#include "store/codec.h"

/* As bytes of a row of ticks: whatever it says, samples are in order and words are words. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tick_reader r;
	struct snapshot snap;
	int64_t before = 0;

	if (tick_read_head(&r, data, size) < 0)
		return 0;
	snapshot_init(&snap);
	host_from_words(r.head.words + HEAD_HOST, &snap);
	while (tick_read_sample(&r) > 0) {
		struct proc_sample p;

		if (r.process <= before)
			abort();
		before = r.process;
		proc_sample_init(&p);
		sample_from_words(r.words, &p);
	}
	snapshot_release(&snap);
	return 0;
}

#include "fuzz_text.h"

#include "store/codec/codec.h"

static void read_list(struct tick_cursor *c)
{
	uint64_t words[WORDS_MAX];
	int64_t before = -1;

	while (tick_cursor_next(c) > 0) {
		if (c->key <= before || tick_cursor_read(c, NULL, words) < 0)
			abort(); /* tick_read() has checked it */
		before = c->key;
	}
}

/* As bytes of a row of ticks: whatever it says, keys are in order and words are words. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t before_head[HEAD_WORDS];
	struct tick_reader r;
	struct snapshot snap;
	const char **strings;

	if (tick_read(&r, data, size, 1, before_head) < 0)
		return 0;
	snapshot_init(&snap);
	host_from_words(r.head, &snap);
	if (tick_index_strings(&r, &strings) < 0)
		abort();
	free(strings);
	for (enum tick_list list = 0; list < N_LISTS; list++)
		read_list(&r.lists[list]);
	snapshot_release(&snap);
	return 0;
}

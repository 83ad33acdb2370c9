#include "fuzz_text.h"

#include "sources/sample_feed.h"
#include "sources/tasks.h"

/* Two messages, one behind the other. Processes that were understood stand in order, each once. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed feed = { 0 };
	size_t half = size > 0 ? data[0] * (size - 1) / 255 : 0;

	for (int i = 0; i < 2 && size > 0; i++) {
		int r = feed_read(&feed, data + 1 + (i ? half : 0), i ? size - 1 - half : half);

		if (r < 0 && feed.n > 0)
			abort();
		for (size_t k = 1; k < feed.n; k++)
			if (feed.items[k - 1]->head.pid >= feed.items[k]->head.pid)
				abort();
	}
	feed_release(&feed);
	return 0;
}

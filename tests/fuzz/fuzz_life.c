#include "fuzz_text.h"

#include "sources/life/life_netlink.h"

/* A datagram may hold several messages: walks through them as the reader does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct life_threads threads = { 0 };
	struct life_loss loss = { 0 };
	struct life_event ev;
	struct life_raw raw;

	while (size > 0) {
		ssize_t step = life_parse(data, size, &raw);

		if (step < 0)
			break;
		if (step == 0 || (size_t)step > size)
			abort();
		(void)life_threads_feed(&threads, &loss, &raw, &ev);
		data += step;
		size -= (size_t)step;
	}
	life_loss_release(&loss);
	life_threads_release(&threads);
	return 0;
}

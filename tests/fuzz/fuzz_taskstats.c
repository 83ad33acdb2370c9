#include <stdlib.h>
#include <string.h>

#include "fuzz_text.h"
#include "sources/life/taskstats.h"

/* The first two bytes are the family; in memory of exactly its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct thread_stats stats;
	uint16_t family = 0;
	size_t at = 0;
	char *bytes;
	bool has;

	if (size < sizeof(family))
		return 0;
	memcpy(&family, data, sizeof(family));
	size -= sizeof(family);
	bytes = fuzz_text(data + sizeof(family), size);
	while (at < size) {
		ssize_t step = taskstats_parse(bytes + at, size - at, family, &stats, &has);

		if (step < 0)
			break;
		if (step == 0 || (size_t)step > size - at)
			abort();
		at += (size_t)step;
	}
	(void)taskstats_parse_family(bytes, size, &family);
	(void)taskstats_parse_ack(bytes, size);
	free(bytes);
	return 0;
}

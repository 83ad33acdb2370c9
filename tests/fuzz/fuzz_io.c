#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct io_counts io;

	pid_io_parse(text, &io);
	free(text);
	return 0;
}

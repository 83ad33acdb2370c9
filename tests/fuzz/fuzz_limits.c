#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	(void)pid_limit_parse(text, LIMIT_OPEN_FILES);
	(void)pid_limit_parse(text, LIMIT_PROCESSES);
	free(text);
	return 0;
}

#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	(void)pid_limits_parse(text);
	(void)pid_limits_parse_processes(text);
	free(text);
	return 0;
}

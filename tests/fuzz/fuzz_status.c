#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct pid_status status;

	pid_status_parse(text, &status);
	free(text);
	return 0;
}

#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct system_sample s;

	procstat_parse(text, 100, &s);
	free(text);
	return 0;
}

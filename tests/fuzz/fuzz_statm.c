#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct pid_statm statm;

	(void)pid_statm_parse(text, &statm);
	free(text);
	return 0;
}

#include "fuzz_text.h"

#include "base/unknown.h"
#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct system_sample s;

	meminfo_parse(text, &s);
	if (u64_known(s.memory_used_bytes) && s.memory_used_bytes > s.memory_total_bytes)
		abort();
	free(text);
	return 0;
}

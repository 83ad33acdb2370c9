#include "fuzz_text.h"

#include "sources/parse_process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	size_t n = 0;
	const char *path = pid_cgroup_parse(text, &n);

	if (path && (path < text || path + n > text + strlen(text) || n == 0 || path[0] != '/'))
		abort();
	free(text);
	return 0;
}

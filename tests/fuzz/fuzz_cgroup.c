#include "fuzz_text.h"

#include "sources/proc_text.h"

static void check_inside(const char *text, const char *path, size_t n)
{
	if (path && (path < text || path + n > text + strlen(text) || n == 0 || path[0] != '/'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	size_t n = 0;
	bool is_v1;
	const char *path = pid_cgroup_parse(text, &n);

	check_inside(text, path, n);
	path = pid_memory_cgroup_parse(text, &n, &is_v1);
	check_inside(text, path, n);
	free(text);
	return 0;
}

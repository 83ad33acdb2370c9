#include "fuzz_text.h"

#include "sources/syscalls/strace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct strace_summary s;

	if (strace_parse(text, &s) == 0) {
		for (size_t i = 0; i < s.n; i++)
			if (!s.rows[i].name[0])
				abort();
		strace_summary_release(&s);
	}
	free(text);
	return 0;
}

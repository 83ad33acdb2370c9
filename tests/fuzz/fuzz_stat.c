#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct pid_stat st;

	if (pid_stat_parse(text, &st) == 0)
		if (st.pid < 0 || st.ppid < 0 || strlen(st.comm) >= sizeof(st.comm))
			abort();
	free(text);
	return 0;
}

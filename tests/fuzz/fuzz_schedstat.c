#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct pid_schedstat sched;

	if (pid_schedstat_parse(text, &sched) == 0 && (sched.run_ns == 0 || sched.slices == 0))
		abort();
	free(text);
	return 0;
}

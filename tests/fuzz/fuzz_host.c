#include "fuzz_text.h"

#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct system_sample s;
	char boot_id[BOOT_ID_BYTES];

	loadavg_parse(text, &s);
	uptime_parse(text, &s);
	vmstat_parse(text, 4096, &s);
	if (s.oom_kills_total != oom_kills_parse(text))
		abort();
	boot_id_parse(text, boot_id);
	if (strlen(boot_id) != 0 && strlen(boot_id) != BOOT_ID_BYTES - 1)
		abort();
	free(text);
	return 0;
}

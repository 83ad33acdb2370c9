#include "fuzz_text.h"

#include "store/db/db.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	bool is_read_only;

	if (mount_parse(text, 27, &is_read_only) > 0)
		abort();
	free(text);
	return 0;
}

#include "fuzz_text.h"

#include "base/macros.h"
#include "store/db/db.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct lock_place places[] = {
		{ "fe:00:11010061", 120, 120, false },
		{ "fe:00:11010059", LOCK_PENDING, LOCK_LAST, false },
		{ "fe:00:11010059", LOCK_SHARED, LOCK_LAST, true },
	};
	char *text = fuzz_text(data, size);
	struct mount_found mount;

	if (lock_owner_parse(text, places, ARRAY_SIZE(places), 4711) < 0)
		abort();
	if (lock_owner_parse(text, places, ARRAY_SIZE(places), 4711) == 4711)
		abort();
	if (lock_owner_parse(text, places, 0, 4711) != 0)
		abort();
	if (mount_parse(text, 27, &mount) > 0)
		abort();
	free(text);
	return 0;
}

#include "store/fold_times.h"

#include <errno.h>

#include "base/unknown.h"

static int read_whole(const void *head, size_t len, struct table *t, struct fold_times *ret)
{
	struct fold_strings strings = { 0 };
	struct fold_reader reader;
	int r = fold_read_head(&reader, head, len, ret->ids, t, &strings);

	fold_strings_release(&strings);
	if (r < 0)
		return r;
	ret->things_at = (size_t)(reader.p - (const uint8_t *)head);
	ret->has_gpus = fold_has_thing(&reader);
	return 0;
}

int fold_times_read(const void *head, size_t len, bool is_whole, struct table *t,
		    struct fold_times *ret)
{
	int r;

	ret->things_at = len;
	ret->has_gpus = false;
	r = is_whole ? read_whole(head, len, t, ret) : fold_read_times(head, len, ret->ids, t);
	if (r < 0)
		return r;
	ret->n = t->n;
	for (unsigned i = 0; i < t->n; i++) {
		ret->wall_ns[i] = t->columns[HOST_WALL_NS][i];
		ret->boot_ns[i] = t->columns[HOST_BOOT_NS][i];
		if (!u64_known(ret->wall_ns[i]))
			return -EBADMSG;
	}
	return 0;
}

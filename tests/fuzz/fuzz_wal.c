#include "fuzz_text.h"

#include "store/db/db.h"

/* Walks through a log as the reader does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wal_scan scan;
	size_t n;

	if (size < WAL_HEAD_BYTES || wal_scan_begin(&scan, data) < 0)
		return 0;
	n = WAL_FRAME_HEAD_BYTES + scan.page_bytes;
	for (size_t at = WAL_HEAD_BYTES; size - at >= n; at += n)
		wal_scan_frame(&scan, data + at);
	if (scan.bad_frame > scan.n_frames || (scan.n_behind && !scan.bad_frame))
		abort();
	return 0;
}

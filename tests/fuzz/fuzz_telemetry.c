/*
 * Telemetry of any bytes, in every format: what the bulk reader takes the careful one takes
 * too, and whatever came in can be merged and analysed. The first byte chooses the format.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "crossrank/reading/bulk.h"
#include "crossrank/crossrank.h"
#include "crossrank/reading/event_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void compare_readers(const uint8_t *data, size_t size)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(buf_release) struct buf fast = BUF_INIT, slow = BUF_INIT;
	struct telemetry_event quick, careful;
	struct bulk *bulk = bulk_new();
	char *text = malloc(size + BULK_PADDING);
	struct json j;
	int error;

	require(bulk && text);
	memcpy(text, data, size);
	memset(text + size, '}', BULK_PADDING);
	if (bulk_read(bulk, text, size, &quick)) {
		require(record_read(text, size, RECORD_SESSION, &arena, &careful, &error) ==
			REASON_NONE);
		careful.metadata = NULL;
		json_init(&j, &fast);
		event_write_json(&j, &quick);
		json_init(&j, &slow);
		event_write_json(&j, &careful);
		require(strcmp(fast.data, slow.data) == 0);
	}
	bulk_free(bulk);
	free(text);
}

static int write_nowhere(void *ctx, const struct timeline_point *point)
{
	__int128 *last = ctx;

	require(point->aligned_ns >= *last);
	*last = point->aligned_ns;
	return 0;
}

static void analyse(struct telemetry *t)
{
	struct rank_analysis_options options = { .clock_error_ns = EVENT_UNKNOWN };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	__int128 last = (__int128)INT64_MIN * 4;
	struct rank_analysis a;
	struct json j;

	require(rank_analysis_init(&a, t) == 0);
	require(analysis_walk_timeline(&a, write_nowhere, &last) == 0);
	require(rank_analysis_run(&a, &options) == 0);
	json_init(&j, &out);
	json_begin_object(&j);
	summary_write_all(&j, &a);
	json_end_object(&j);
	require(buf_error(&out) == 0 && jtree_is_valid(out.data, out.len));
	rank_analysis_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "f.jsonl", "f.json", "f.csv", "f" };
	struct telemetry *t;
	struct err err = ERR_INIT;
	struct intake in;
	int fd;

	if (size == 0)
		return 0;
	t = telemetry_new();
	require(t != NULL);
	compare_readers(data + 1, size - 1);
	fd = memfd_create("telemetry", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
	lseek(fd, 0, SEEK_SET);
	require(intake_init(&in, t, NULL, NULL) == 0);
	require(intake_read_fd(&in, fd, names[data[0] % ARRAY_SIZE(names)], &err) == 0);
	intake_release(&in);
	analyse(t);
	telemetry_free(t);
	return 0;
}

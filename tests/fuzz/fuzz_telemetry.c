/*
 * Telemetry of any bytes, in every format: what fits a shape the careful reader
 * takes too, and whatever came in can be merged and analysed. The first byte chooses the format.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "crossrank/crossrank.h"
#include "crossrank/reading/event_reader.h"
#include "crossrank/reading/jtree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
	if (!truth)
		abort();
}

/* Lines, each of which is learned: what fits a shape is what the careful reader makes of it. */
static void compare_readers(const uint8_t *data, size_t size)
{
	CLEANUP(event_reader_release) struct event_reader learned = { 0 }, reader = { 0 };
	CLEANUP(buf_release) struct buf fast = BUF_INIT, slow = BUF_INIT;
	const uint8_t *end = data + size;

	for (const uint8_t *at = data, *next; at < end; at = next + (next < end)) {
		struct telemetry_event quick, careful;
		bool fits, is_valid;
		struct json j;
		char *line;

		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next : end;
		line = malloc((size_t)(next - at) + 1);
		require(line != NULL);
		memcpy(line, at, (size_t)(next - at));
		fits = shapes_read(&learned.shapes, line, (size_t)(next - at), &quick);
		event_reader_release(&reader);
		reader = (struct event_reader){ 0 };
		is_valid = event_read(&reader, line, (size_t)(next - at), &careful).reason ==
			   REASON_NONE;
		require(is_valid || !fits);
		if (fits) {
			careful.metadata.s = NULL;
			buf_reset(&fast);
			buf_reset(&slow);
			json_init(&j, &fast);
			event_write_json(&j, &quick);
			json_init(&j, &slow);
			event_write_json(&j, &careful);
			require(strcmp(fast.data, slow.data) == 0);
			require(text_equals(quick.clock.boot_id, careful.clock.boot_id));
			require(quick.clock.error_ns == careful.clock.error_ns &&
				quick.clock.is_free == careful.clock.is_free);
		}
		event_read(&learned, line, (size_t)(next - at), &careful);
		free(line);
	}
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
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	__int128 last = (__int128)INT64_MIN * 4;
	struct rank_analysis a;
	struct json j;

	require(rank_analysis_init(&a, t) == 0);
	require(analysis_walk_timeline(&a, write_nowhere, &last) == 0);
	require(rank_analysis_run(&a, EVENT_UNKNOWN) == 0);
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
	intake_init(&in, t, NULL, NULL);
	require(intake_read_fd(&in, fd, names[data[0] % ARRAY_SIZE(names)], &err) == 0);
	intake_release(&in);
	analyse(t);
	telemetry_free(t);
	return 0;
}

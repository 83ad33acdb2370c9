#include "fuzz_text.h"

#include "base/json.h"
#include "model/tick_record.h"

static void write_json(const struct snapshot *s, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	snapshot_write_json(&j, s, SNAPSHOT_ALL);
}

/*
 * What was understood is written as bytes that are understood as the same. Calls come back in the
 * order in which they were first seen, so only one of each process is looked at.
 */
static void check(struct snapshot *got, const struct series_point *point)
{
	CLEANUP(buf_release) struct buf frame = BUF_INIT, before = BUF_INIT, after = BUF_INIT;
	struct tick_writer *w = tick_writer_new();
	struct tick_decoder *d = tick_decoder_new();
	struct series_point point_again;
	struct snapshot again;

	snapshot_init(&again);
	for (size_t i = 0; i < got->n_processes; i++)
		if (got->processes[i].n_syscalls > 1)
			got->processes[i].n_syscalls = 1;
	if (!w || !d || tick_writer_write(w, got, point, &frame) < 0 ||
	    tick_decoder_read(d, frame.data, frame.len, "j", &again, &point_again) < 0)
		abort();
	if (point_again.wall_ns != point->wall_ns || point_again.sheet_num != point->sheet_num)
		abort();
	write_json(got, &before);
	write_json(&again, &after);
	/* The bytes may list one process twice. */
	if (again.n_processes == got->n_processes &&
	    (before.len != after.len || memcmp(before.data, after.data, after.len) != 0))
		abort();
	snapshot_release(&again);
	tick_writer_free(w);
	tick_decoder_free(d);
}

/* Ticks of one log, each with its length in two bytes before it. 0: a key. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tick_decoder *d = tick_decoder_new();
	struct series_point point;
	struct snapshot snap;

	if (!d)
		abort();
	snapshot_init(&snap);
	while (size >= 2) {
		size_t n = data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		if (n > size)
			n = size;
		if (n == 0)
			tick_decoder_begin_key(d);
		else if (n % 4 == 3) /* as if it was stored already */
			(void)tick_decoder_read(d, data, n, "j", NULL, NULL);
		else if (tick_decoder_read(d, data, n, "j", &snap, &point) == 0)
			check(&snap, &point);
		data += n;
		size -= n;
	}
	snapshot_release(&snap);
	tick_decoder_free(d);
	return 0;
}

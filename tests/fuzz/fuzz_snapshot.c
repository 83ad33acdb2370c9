/*
 * Any bytes as a snapshot in JSON, read in passing. What is read can be written, and what was
 * written is read again as the same number of everything.
 */
#include <stdbool.h>

#include "fuzz_text.h"

#include "base/buf.h"
#include "base/json.h"
#include "model/snapshot.h"

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void check_again(const struct snapshot *s)
{
	CLEANUP(snapshot_release) struct snapshot again;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json_cursor c;
	struct json j;

	snapshot_init(&again);
	json_init(&j, &text);
	snapshot_write_json(&j, s, SNAPSHOT_ALL);
	require(buf_error(&text) == 0);
	json_cursor_init(&c, text.data, text.len);
	require(snapshot_from_json(&c, &again) == 0 && c.at == c.end);
	require(again.n_processes == s->n_processes && again.n_gpus == s->n_gpus &&
		again.n_progress == s->n_progress);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(snapshot_release) struct snapshot s;
	CLEANUP(free_ptr) char *text = fuzz_text(data, size);
	struct json_cursor c;

	snapshot_init(&s);
	json_cursor_init(&c, text, size);
	if (snapshot_from_json(&c, &s) == 0)
		check_again(&s);
	return 0;
}

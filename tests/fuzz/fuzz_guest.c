/*
 * What a runner tells of its job: a foreign program may say anything. What is taken
 * is within bounds, and is the same when it is told again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mask.h"
#include "base/unknown.h"
#include "daemon/guest.h"
#include "fuzz_text.h"

#define NOW UINT64_C(1700000000000000000)

static void check_text(const char *text, size_t max)
{
	size_t n = text ? strlen(text) : 0;

	if (n > max)
		abort();
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ')
			abort();
}

static void check_bounds(const struct attempt *a)
{
	if (!job_id_is_valid(a->job_id) || a->n_sheets > GUEST_MAX_SHEETS ||
	    a->is_running != (a->outcome == OUTCOME_NONE) || a->status.exit_code > 255)
		abort();
	if (u64_known(a->started_wall_ns) && a->started_wall_ns > NOW)
		abort();
	check_text(a->command, COMMAND_MAX_BYTES);
	for (size_t i = 0; i < a->n_sheets; i++) {
		check_text(a->sheets[i].command, COMMAND_MAX_BYTES);
		if (a->sheets[i].num < 0 || a->sheets[i].try_num < 0)
			abort();
	}
}

static void write_again(const struct attempt *a, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	guest_write(&j, a, a->sheets, a->n_sheets);
}

/* *ret is to be released after true. */
static bool read_text(const char *text, size_t len, struct attempt *ret)
{
	static const struct rpc_value_limits limits = { 64, 131072 };
	struct err err = ERR_INIT;
	struct rpc_value *v = NULL;
	int r;

	if (rpc_value_parse(text, len, &limits, &v, &err) < 0)
		return false;
	r = guest_read(v, NOW, ret, &err);
	rpc_value_free(v);
	if (r < 0 && err.text[0] == '\0')
		abort();
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_release) struct buf once = BUF_INIT, twice = BUF_INIT;
	char *text = fuzz_text(data, size);
	struct attempt a, again;

	if (read_text(text, size, &a)) {
		check_bounds(&a);
		write_again(&a, &once);
		if (!read_text(once.data, once.len, &again))
			abort();
		write_again(&again, &twice);
		if (strcmp(once.data, twice.data) != 0)
			abort();
		attempt_release(&again);
		attempt_release(&a);
	}
	free(text);
	return 0;
}

/*
 * Lines as the server gets them: cut, parsed and read as requests, and what was
 * understood is written again. The first byte says in what pieces they come.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "rpc/value.h"
#include "rpc/lines.h"
#include "rpc/server_internal.h"

struct params {
	const char *name;
	uint64_t count;
	double share;
	bool is_on;
	const struct rpc_value *topics;
};

static const struct rpc_field fields[] = {
	{ "name", RPC_STRING, offsetof(struct params, name), .is_required = true },
	{ "count", RPC_U64, offsetof(struct params, count), .min = 1, .max = 10 },
	{ "share", RPC_F64, offsetof(struct params, share), .min = 0, .max = 0.5 },
	{ .name = "is_on", .type = RPC_BOOL, .offset = offsetof(struct params, is_on) },
	{ .name = "topics", .type = RPC_STRINGS, .offset = offsetof(struct params, topics) },
};

/* What is written again is read again, and is what it was. */
static void check_written(const struct rpc_value *v)
{
	static const struct rpc_value_limits limits = { RPC_MAX_DEPTH, RPC_MAX_VALUES };
	CLEANUP(buf_release) struct buf once = BUF_INIT, twice = BUF_INIT;
	struct rpc_value *again = NULL;
	struct json j;

	json_init(&j, &once);
	rpc_value_write(v, &j);
	if (rpc_value_parse(once.data, once.len, &limits, &again, NULL) < 0)
		abort();
	json_init(&j, &twice);
	rpc_value_write(again, &j);
	if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
		abort();
	rpc_value_free(again);
}

static void take_request(const struct rpc_value *v)
{
	struct rpc_request request;
	struct params params = { 0 };
	struct err err = ERR_INIT;

	if (rpc_request_read(v, &request, &err) < 0 && err.text[0] == '\0')
		abort();
	if (rpc_fields_read(request.params, fields, ARRAY_SIZE(fields), &params, &err) == 0 &&
	    !params.name)
		abort();
	check_written(v);
}

static void take_line(const char *line, size_t len)
{
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;

	if (rpc_request_parse(line, len, 16, &v, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return;
	}
	if (rpc_value_is_list(v))
		for (size_t i = 0; i < rpc_value_len(v); i++)
			take_request(rpc_value_at(v, i));
	else
		take_request(v);
	rpc_value_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lines lines = LINES_INIT(4096);
	size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;

	for (size_t i = 1; i < size; i += piece) {
		size_t n = size - i < piece ? size - i : piece, len = 0;
		const char *line = NULL;
		int r;

		if (lines_add(&lines, (const char *)data + i, n) < 0)
			break;
		while ((r = lines_next(&lines, &line, &len)) != 0)
			if (r > 0)
				take_line(line, len);
	}
	lines_release(&lines);
	return 0;
}

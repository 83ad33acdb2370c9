#include "rpc/call.h"

#include <errno.h>
#include <stdlib.h>

#include "rpc/codes.h"

struct rpc_call *call_new(struct rpc_conn *conn, struct batch *batch,
			  const struct rpc_request *request)
{
	struct rpc_call *call = calloc(1, sizeof(*call));
	struct json j;

	if (!call)
		return NULL;
	call->conn = conn;
	call->batch = batch;
	call->params = request->params;
	call->id = call->result.text = call->data.text = (struct buf)BUF_INIT;
	if (request->id) {
		json_init(&j, &call->id);
		rpc_value_write(request->id, &j);
	}
	if (buf_error(&call->id) < 0) {
		call_free(call);
		return NULL;
	}
	return call;
}

void call_free(struct rpc_call *call)
{
	buf_release(&call->id);
	buf_release(&call->result.text);
	buf_release(&call->data.text);
	free(call);
}

/* ---- what a method does with it ---- */

const struct rpc_value *rpc_call_params(const struct rpc_call *call)
{
	return call->params;
}

int rpc_call_read(const struct rpc_call *call, const struct rpc_field *fields, size_t n, void *ret,
		  struct err *err)
{
	return rpc_fields_read(call->params, fields, n, ret, err);
}

static const char result_head[] = "{\"jsonrpc\":\"2.0\",\"result\":";

/* The result is written behind the head of its answer, so that it need not be copied there. */
struct json *rpc_call_result(struct rpc_call *call)
{
	if (!call->result.is_there) {
		buf_add_str(&call->result.text, result_head);
		json_init(&call->result.json, &call->result.text);
		call->result.is_there = true;
	}
	return &call->result.json;
}

struct json *rpc_call_data(struct rpc_call *call)
{
	if (!call->data.is_there) {
		json_init(&call->data.json, &call->data.text);
		call->data.is_there = true;
	}
	return &call->data.json;
}

/* ---- the answer ---- */

static void write_tail(struct buf *b, const char *id)
{
	buf_add_str(b, ",\"id\":");
	buf_add_str(b, id);
	buf_add_char(b, '}');
}

static void render_error(const char *id, int error, const char *sentence, const struct buf *data,
			 struct buf *ret)
{
	enum rpc_code code = rpc_code_of(error);
	struct json j;

	buf_add_str(ret, "{\"jsonrpc\":\"2.0\",\"error\":");
	json_init(&j, ret);
	json_begin_object(&j);
	json_key_i64(&j, "code", code);
	json_key_string(&j, "message", sentence[0] ? sentence : rpc_code_meaning(code));
	if (data && data->len > 0 && buf_error(data) == 0) {
		json_key(&j, "data");
		json_raw(&j, data->data, data->len);
	}
	json_end_object(&j);
	write_tail(ret, id);
}

void call_render_error(const char *id, int error, const char *sentence, struct buf *ret)
{
	render_error(id, error, sentence, NULL, ret);
}

static void render_result(struct rpc_call *call, struct buf *ret)
{
	if (!call->result.is_there)
		json_none(rpc_call_result(call));
	write_tail(&call->result.text, call->id.data);
	*ret = call->result.text;
	call->result.text = (struct buf)BUF_INIT;
}

int call_render(struct rpc_call *call, int error, const struct err *err, size_t max_bytes,
		struct buf *ret)
{
	if (call->id.len == 0)
		return 0;
	if (error < 0)
		render_error(call->id.data, error, err ? err->text : "", &call->data.text, ret);
	else
		render_result(call, ret);
	if (buf_error(ret) < 0)
		return -ENOMEM;
	return ret->len > max_bytes ? -EMSGSIZE : 0;
}

#include "rpc/request.h"

#include <errno.h>
#include <string.h>

static const struct rpc_value_limits limits = { RPC_MAX_DEPTH, RPC_MAX_VALUES };

static int check_batch(const struct rpc_value *batch, size_t max_batch, struct err *err)
{
	size_t n = rpc_value_len(batch);

	if (n == 0)
		return err_set(err, -EPROTO, "a batch has at least one request");
	if (n > max_batch)
		return err_set(err, -EPROTO, "a batch of %zu requests; at most %zu", n, max_batch);
	return 0;
}

int rpc_request_parse(const char *line, size_t len, size_t max_batch, struct rpc_value **ret,
		      struct err *err)
{
	struct rpc_value *v = NULL;
	int r;

	r = rpc_value_parse(line, len, &limits, &v, err);
	if (r < 0)
		return r;
	if (rpc_value_is_list(v))
		r = check_batch(v, max_batch, err);
	if (r < 0) {
		rpc_value_free(v);
		return r;
	}
	*ret = v;
	return 0;
}

static bool is_id(const struct rpc_value *v)
{
	return rpc_value_is_string(v) || rpc_value_is_number(v) || rpc_value_is_null(v);
}

static bool is_version(const struct rpc_value *v)
{
	const char *version = rpc_value_string(v);

	return version && strcmp(version, "2.0") == 0;
}

static bool are_params(const struct rpc_value *v)
{
	return !v || rpc_value_is_object(v) || rpc_value_is_list(v);
}

int rpc_request_read(const struct rpc_value *v, struct rpc_request *ret, struct err *err)
{
	const struct rpc_value *id = rpc_value_get(v, "id");
	const char *fault = NULL;

	*ret = (struct rpc_request){
		.id = is_id(id) ? id : NULL,
		.method = rpc_value_string(rpc_value_get(v, "method")),
		.params = rpc_value_get(v, "params"),
	};
	if (!rpc_value_is_object(v))
		fault = "a request is an object";
	else if (!is_version(rpc_value_get(v, "jsonrpc")))
		fault = "'jsonrpc' must be \"2.0\"";
	else if (!ret->method)
		fault = "'method' must be a text";
	else if (!are_params(ret->params))
		fault = "'params' must be an object or a list";
	else if (id && !is_id(id))
		fault = "'id' must be a text, a number or null";
	return fault ? err_set(err, -EPROTO, "%s", fault) : 0;
}

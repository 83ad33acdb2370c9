#include "cli/cli.h"
#include "rpc/rpc.h"

int cli_call(const char *method, const char *params, struct rpc_value **ret, struct err *err)
{
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = rpc_client_call(client, method, params, ret, err);
	rpc_client_close(client);
	return r;
}

void cli_value_cleanup(struct rpc_value **value)
{
	*value = rpc_value_free(*value);
}

#include <errno.h>
#include <unistd.h>

#include "cli/cli.h"
#include "rpc/rpc.h"

static error_t parse_stop_option(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	cli_usage_error(state, "'%s' is one word too many", arg);
	return 0;
}

static const struct argp stop_argp = {
	.parser = parse_stop_option,
	.doc = "Stops the daemon. Jobs that run go on, and record themselves.",
};

/* Until it has closed the connection: its socket and its database are free then. */
static int stop_and_wait(struct err *err)
{
	struct rpc_client *client = NULL;
	const struct rpc_client_options options = { 0 };
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = rpc_client_call(client, "daemon.stop", NULL, NULL, err);
	if (r == 0)
		r = rpc_client_listen(client, 10000, err);
	rpc_client_close(client);
	return r == -ECONNRESET ? 0 : r;
}

int cli_stop(int argc, char **argv)
{
	struct err err = ERR_INIT;

	cli_parse(&stop_argp, argc, argv, 0, NULL);
	return stop_and_wait(&err) < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}

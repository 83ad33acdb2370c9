#include "recorder/phase_params.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/job.h"

#define MAX_UNIX_SECONDS 9e9 /* in the 23rd century, and as nanoseconds below 2^63 */

const struct rpc_field phase_fields[N_PHASE_FIELDS] = {
	{ "enter", RPC_STRING, offsetof(struct phase_params, enter), .is_required = false },
	{ "exit", RPC_STRING, offsetof(struct phase_params, exit), .is_required = false },
	{ "pid", RPC_U64, offsetof(struct phase_params, pid), .min = 1, .max = INT_MAX },
	{ "at", RPC_F64, offsetof(struct phase_params, at), .min = 0, .max = MAX_UNIX_SECONDS },
	{ "lost", RPC_U64, offsetof(struct phase_params, lost), .min = 0, .max = INT_MAX },
};

static int check_name(const char *name, struct err *err)
{
	char quoted[UTF8_QUOTED_BYTES];

	if (phase_name_is_valid(name))
		return 0;
	utf8_quote(name, quoted);
	return err_set(
		err, -EINVAL,
		"%s cannot be the name of a phase: up to %d characters, and none that controls "
		"a terminal",
		quoted, PHASE_NAME_MAX);
}

void phase_params_init(struct phase_params *params)
{
	*params = (struct phase_params){ .pid = U64_UNKNOWN, .at = F64_UNKNOWN };
}

int phase_params_check(const struct phase_params *params, struct err *err)
{
	if (!params->enter && !params->exit && params->lost > 0)
		return 0;
	if (!params->enter == !params->exit)
		return err_set(err, -EINVAL, "either 'enter' or 'exit' names a phase");
	return check_name(params->enter ? params->enter : params->exit, err);
}

/* A marker may have waited where it was made. */
uint64_t phase_params_wall_ns(const struct phase_params *params)
{
	uint64_t now_ns = clock_wall_ns();

	if (isnan(params->at) || params->at * 1e9 >= (double)now_ns)
		return now_ns;
	return (uint64_t)(params->at * 1e9);
}

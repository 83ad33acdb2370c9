#include "daemon/daemon_rungs.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "sources/sources.h"

/* The job is over: its end does not wait for long. */
#define TIMEOUT_MS 200

static bool is_shared(const char *measurement, bool has_sampled)
{
	if (strcmp(measurement, SOURCES_RUNG_SAMPLES) == 0)
		return has_sampled;
	return strcmp(measurement, SOURCES_RUNG_BIRTHS) == 0 ||
	       strcmp(measurement, SOURCES_RUNG_OOM) == 0;
}

static void name_both(struct attempt *a, struct rung *rung, const char *theirs)
{
	CLEANUP(buf_release) struct buf both = BUF_INIT;
	const char *kept;

	buf_printf(&both, "%s; by the daemon: %s", rung->rung, theirs);
	kept = buf_error(&both) == 0 ? arena_strdup(&a->arena, both.data) : NULL;
	if (kept)
		rung->rung = kept;
}

void daemon_rungs_add(struct attempt *a, const struct rpc_value *rungs, bool has_sampled)
{
	for (size_t i = 0; i < a->n_rungs; i++) {
		struct rung *rung = &a->rungs[i];
		const char *theirs = rpc_value_string(rpc_value_get(rungs, rung->measurement));

		if (theirs && strcmp(theirs, rung->rung) != 0 &&
		    strcmp(theirs, RUNG_UNKNOWN) != 0 && is_shared(rung->measurement, has_sampled))
			name_both(a, rung, theirs);
	}
}

void daemon_rungs_ask(struct attempt *a, bool has_sampled)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	struct rpc_client *client = NULL;
	struct rpc_value *status = NULL;

	if (rpc_client_open(&options, &client, NULL) < 0)
		return;
	if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) == 0)
		daemon_rungs_add(a, rpc_value_get(status, "rungs"), has_sampled);
	rpc_value_free(status);
	rpc_client_close(client);
}

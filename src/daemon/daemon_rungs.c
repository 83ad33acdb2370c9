#include "daemon/daemon_rungs.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "sources/sources.h"

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

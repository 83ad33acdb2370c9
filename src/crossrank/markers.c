#include "crossrank/markers.h"

#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"
#include "crossrank/jtree.h"

static const char *const names[] = {
	"nccl",		  "collective",	   "all_reduce", "allreduce", "all_gather", "allgather",
	"reduce_scatter", "reducescatter", "all_to_all", "alltoall",  "broadcast",  "barrier",
};

static bool begins_with(const char *s, size_t n, const char *word)
{
	size_t i = 0;

	while (i < n && word[i] && ascii_to_lower(s[i]) == word[i])
		i++;
	return word[i] == '\0';
}

static bool names_one(struct text t)
{
	for (size_t at = 0; t.s && at < t.n; at++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (begins_with(t.s + at, t.n - at, names[i]))
				return true;
	return false;
}

static struct text phase_name(const struct telemetry_event *ev)
{
	const struct jnode *scope = ev->metadata ? jtree_find(ev->metadata, "phase_scope") : NULL;
	const struct jnode *name = scope ? jtree_find(scope, "name") : NULL;

	return name && name->kind == JKIND_TEXT ? name->text : (struct text){ NULL, 0 };
}

bool marker_is_collective(const struct telemetry_event *ev)
{
	if (text_is_sample(ev->event_type))
		return ev->context.s && names_one(ev->context);
	return names_one(ev->event_type) || names_one(ev->context) || names_one(phase_name(ev));
}

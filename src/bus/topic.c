#include "bus/topic.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/utf8.h"

#define EVERYTHING "*"

/* What a topic is called, and the pattern of the family it belongs to (NULL: none). */
static const struct {
	const char *name;
	const char *family;
} table[] = {
	[TOPIC_SNAPSHOT] = { "snapshot", NULL },
	[TOPIC_ANOMALY] = { "monitor.anomaly", "monitor.*" },
	[TOPIC_SHEET_STARTED] = { "sheet.started", "sheet.*" },
	[TOPIC_SHEET_COMPLETED] = { "sheet.completed", "sheet.*" },
	[TOPIC_SHEET_FAILED] = { "sheet.failed", "sheet.*" },
	[TOPIC_JOB_QUEUED] = { "job.queued", "job.*" },
	[TOPIC_JOB_HELD] = { "job.held", "job.*" },
	[TOPIC_JOB_STARTED] = { "job.started", "job.*" },
	[TOPIC_JOB_COMPLETED] = { "job.completed", "job.*" },
	[TOPIC_JOB_FAILED] = { "job.failed", "job.*" },
	[TOPIC_JOB_CANCELLED] = { "job.cancelled", "job.*" },
	[TOPIC_PROCESS_SPAWN] = { "process.spawn", "process.*" },
	[TOPIC_PROCESS_EXIT] = { "process.exit", "process.*" },
	[TOPIC_PROCESS_SIGNAL] = { "process.signal", "process.*" },
	[TOPIC_PROCESS_KILL] = { "process.kill", "process.*" },
	[TOPIC_PROCESS_OOM] = { "process.oom", "process.*" },
	[TOPIC_PROCESS_ORPHAN] = { "process.orphan", "process.*" },
	[TOPIC_PHASE_ENTER] = { "phase.enter", "phase.*" },
	[TOPIC_PHASE_EXIT] = { "phase.exit", "phase.*" },
	[TOPIC_PATTERN] = { "learn.pattern", "learn.*" },
};

_Static_assert(ARRAY_SIZE(table) == N_TOPICS, "every topic has a row");
_Static_assert(N_TOPICS <= sizeof(unsigned) * CHAR_BIT, "every topic has a bit");

const char *topic_name(enum topic topic)
{
	return table[topic].name;
}

static bool is_chosen(size_t i, const char *pattern)
{
	return strcmp(pattern, EVERYTHING) == 0 || strcmp(pattern, table[i].name) == 0 ||
	       (table[i].family && strcmp(pattern, table[i].family) == 0);
}

static const char *find_nearest(const char *pattern)
{
	struct suggest s = suggest_for(pattern);

	for (size_t i = 0; i < N_TOPICS; i++) {
		suggest_offer(&s, table[i].name);
		if (table[i].family)
			suggest_offer(&s, table[i].family);
	}
	return s.best;
}

static int refuse(const char *pattern, struct err *err)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	const char *nearest = find_nearest(pattern);
	char quoted[UTF8_QUOTED_BYTES];

	utf8_quote(pattern, quoted);
	if (nearest)
		return err_set(err, -EINVAL, "no topic %s; did you mean '%s'?", quoted, nearest);
	for (size_t i = 0; i < N_TOPICS; i++)
		buf_printf(&all, "%s%s", i == 0 ? "" : ", ", table[i].name);
	return err_set(err, -EINVAL, "no topic %s; there are %s", quoted, all.data);
}

int topics_add(const char *pattern, unsigned *topics, struct err *err)
{
	unsigned chosen = 0;

	for (size_t i = 0; i < N_TOPICS; i++)
		if (is_chosen(i, pattern))
			chosen |= topic_bit((enum topic)i);
	if (!chosen)
		return refuse(pattern, err);
	*topics |= chosen;
	return 0;
}

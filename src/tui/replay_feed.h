/*
 * replay_feed - what a replay keeps between two moments.
 *
 * replay_read.c finds out what there is, replay_tell.c tells what happened, and feed_replay.c shows
 * one moment after the other, when its turn has come or its user wants it.
 */
#ifndef PROCTOR_TUI_REPLAY_FEED_H
#define PROCTOR_TUI_REPLAY_FEED_H

#include "tui/changes.h"
#include "tui/ends.h"
#include "tui/feed.h"
#include "tui/merge.h"
#include "tui/moments.h"
#include "tui/spans.h"

struct replay_feed {
	const struct tui_options *options;
	uint64_t first_ns, last_ns; /* what is replayed: all that was asked for, or what there is of
				       the job that was; last 0: to the end */
	struct moments moments;
	size_t at;		/* the next one to be shown */
	uint64_t shown_boot_ns; /* when the last one was */
	struct scene *scene;	/* while it is filled */
	struct merge merge;
	uint64_t told_ns; /* what happened until then was told */
	struct ends ends;
	struct spans spans;	/* of anomalies */
	struct spans late;	/* from the end of an anomaly to when that was told */
	struct spans worse;	/* the moments at which one of them got worse */
	struct changes changes; /* of jobs and sheets */
};

/* All that is known before the first moment is shown. -ENODATA: nothing was recorded. */
int replay_read(struct replay_feed *f, struct err *err);

/* What happened to processes, and which anomalies began and ended, up to then and since the last
 * call; is_first: those too that go on since before. The scene is f's. */
int replay_tell_past(struct replay_feed *f, uint64_t until_ns, bool is_first, struct err *err);

#endif

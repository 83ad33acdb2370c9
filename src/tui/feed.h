/*
 * feed - where a scene's snapshots and events come from.
 *
 * Three of them: a daemon (its socket), this process itself where no daemon runs, and
 * what was recorded. Each is a struct of functions; tui.c knows no more of them.
 */
#ifndef PROCTOR_TUI_FEED_H
#define PROCTOR_TUI_FEED_H

#include "base/err.h"
#include "bus/bus.h"
#include "model/anomaly.h"
#include "store/store.h"
#include "tui/scene.h"
#include "tui/tui.h"

struct feed {
	const struct feed_ops *ops;
	void *ctx;
};

struct feed_ops {
	/* What to wait for besides the time; -1: nothing. NULL is -1 always. */
	int (*fd)(void *ctx);
	/* Until it is to be asked again, in ms; -1: only the fd tells. */
	int (*timeout_ms)(void *ctx, const struct scene *s);
	/* Puts what has come into the scene. Returns 1 if there was something, 0, or -errno. */
	int (*pump)(void *ctx, struct scene *s, struct err *err);
	/* Of the wishes those that are its own (steps; cancelling); -EOPNOTSUPP: not this one. */
	int (*grant)(void *ctx, struct scene *s, const struct wish *wish, struct err *err);
	/* What was recorded of the memory of this node goes in front of its curve. True: it is
	 * there, or there is none. False: not yet, ask again; it is noted in scene.recalled when it
	 * has come. NULL: nothing is recorded. */
	bool (*recall)(void *ctx, struct scene *s, const struct node *node);
	void (*close)(void *ctx);
};

/* -ENOENT: no daemon runs; its pump says so too once it is gone for a while. Waits for nothing: a
 * daemon that hangs is there, and the scene says that it does not answer. */
int feed_open_daemon(const struct tui_options *options, struct feed *ret, struct err *err);
int feed_open_own(const struct tui_options *options, struct feed *ret, struct err *err);
int feed_open_replay(const struct tui_options *options, struct feed *ret, struct err *err);

/* An event as a line of the timeline: "process.exit pid 12 of train, sheet 1: exit code 3". */
void feed_tell_process_event(struct scene *s, const struct proc_event *event);

/* The beginning or the end of a job, or of a sheet: "sheet.failed of train, sheet 2: exit code 1".
 */
void feed_tell_change(struct scene *s, enum change change, const struct attempt *a,
		      const struct sheet_record *sheet);

/* The episode in the words in which it was last told up to then, and while it lasted; where nobody
 * has noted them, as it was last. */
void feed_recall_episode(const struct anomaly_row *row, uint64_t until_ns, struct episode *ret);

/* As it was last; where that it is over was told, with when that was. */
void feed_recall_end(const struct anomaly_row *row, struct episode *ret);

/* That it began, got worse or is over; and it is flagged as it is now. */
void feed_tell_anomaly(struct scene *s, const struct episode *e, enum episode_change change);

/* "it grows by 60 MB a minute (memory_leak, high, of train)": why comes first, for there may be no
 * room for more. What is NULL is left out. */
void feed_describe_anomaly(struct buf *out, const char *text, const char *type,
			   const char *severity, const char *job_id);

/* The flag alone, of one that began before what is shown. */
void feed_flag_anomaly(struct scene *s, const struct episode *e);

#endif

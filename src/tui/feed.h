/*
 * feed - where the snapshots and events of a scene come from.
 *
 * Live: a daemon (its subscription), or where none runs this process itself. Stored: the database.
 * Each is a struct of functions; tui.c knows no more of them. Below are the parts they share.
 */
#pragma once

#include "base/err.h"
#include "query/query.h"
#include "rpc/rpc.h"
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
	/* Until it is to be asked again, in ms; -1, and NULL: when the fd tells, or in a second. */
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

/* -ENOENT: no daemon runs; its pump returns that too once the daemon is gone for a while. Waits for
 * nothing: a daemon that hangs is there, and the scene says that it does not answer. */
int feed_open_daemon(const struct tui_options *options, struct feed *ret, struct err *err);
int feed_open_own(const struct tui_options *options, struct feed *ret, struct err *err);

/* -ENODATA: nothing was recorded. One step (WISH_STEP) is one moment. */
int feed_open_stored(const struct tui_options *options, struct feed *ret, struct err *err);

/* ---- events, as lines of the timeline ---- */

/* Text, or NULL; a time in unix seconds, or U64_UNKNOWN. */
const char *feed_text(const struct rpc_value *v, const char *key);
uint64_t feed_time(const struct rpc_value *v, const char *key);

/* A number of something that is counted from 1; 0: there is none. */
int feed_number(const struct rpc_value *v, const char *key);

/*
 * An event as the bus has it: "process.exit pid 12 of train, sheet 1: exit code 3". An anomaly also
 * flags what it is about; the start of a sheet is noted with its name. An event of another job than
 * the scene's is left out, and with is_again one that the timeline has.
 */
void feed_add_event(struct scene *s, const char *topic, uint64_t wall_ns,
		    const struct rpc_value *data, bool is_again);
bool feed_is_anomaly(const char *topic);

/* The same from the database, as a handler of records_read(). What is past is not told, but noted:
 * since when a job or a sheet runs, and what is flagged. */
int feed_add_item(void *scene, const struct records_item *item);

/* ---- recall: recorded memory from before something was seen here, for its curve ---- */

struct recall {
	uint64_t id; /* of the node */
	char job_id[JOB_ID_MAX + 1];
	int attempt_num, sheet_num, rank; /* as of the node: 0, SHEET_NONE, RANK_NONE are any */
	struct proc_key key;		  /* pid 0: of all processes */
	uint64_t since_wall_ns;		  /* what is older is not needed… */
	uint64_t until_wall_ns;		  /* …nor what is newer: that was seen */
	struct track_point points[TRACK_POINTS];
	size_t n;
	size_t n_read;	       /* samples that came, of the node or not… */
	uint64_t read_wall_ns; /* …and when the last of them was */
};

/* For this node; gap_ns lies between two samples of a process. False: nothing is recorded of such a
 * thing, or of too many processes for their sum to be worth it. */
bool recall_begin(struct recall *r, const struct scene *s, const struct node *node,
		  uint64_t gap_ns);

/* The next sample, oldest first; one that is not of the node is left out. Of p its key, place and
 * memory. */
void recall_add(struct recall *r, uint64_t wall_ns, int attempt_num, const struct proc_sample *p);

/* So much has been read that this one is to be left out, and all that is newer: where they were the
 * curve has a hole. Not in the midst of a moment, whose sum would be wrong. */
bool recall_is_full(const struct recall *r, uint64_t wall_ns);

/* Into the scene. */
void recall_end(const struct recall *r, struct scene *s);

/* ---- the feed of a daemon: what it keeps between two messages; for feed_daemon.c and tests ----
 */

/* What is asked, one of each at a time. */
enum question {
	ASK_SUBSCRIBE,
	ASK_EVENTS, /* those from before the subscription */
	ASK_TOP,    /* the daemon may look but every few minutes */
	ASK_ACTIVE,
	ASK_JOBS, /* since when they run, and those that wait */
	ASK_CANCEL,
	ASK_SAMPLES, /* of what is looked at more closely */
	QUESTIONS,
};

struct daemon_feed {
	const char *job_id;
	uint64_t interval_ns;	   /* at least so long between two that are shown */
	uint64_t taken_boot_ns;	   /* when the last one was */
	uint64_t came_boot_ns;	   /* the last one that came, shown or not */
	uint64_t gap_ns;	   /* between that and the one before */
	uint64_t gone_boot_ns;	   /* since when there is none */
	struct rpc_client *client; /* NULL: gone; looked for again */
	uint64_t tried_boot_ns;	   /* when it was */
	struct {
		uint64_t id; /* 0: nothing is under way */
		uint64_t boot_ns;
	} asked[QUESTIONS];
	struct scene *scene; /* while it is pumped */
	struct snapshot snap;
	bool has_changed;
	uint64_t last_event_ns;	  /* U64_UNKNOWN: none came yet */
	bool is_count_old;	  /* something began, or is over */
	uint64_t counted_boot_ns; /* when those that are going on were asked for */
	bool are_jobs_old;	  /* one began, or is over */
	uint64_t listed_boot_ns;  /* when they were asked for */
	struct recall recall;	  /* while samples are asked for… */
	unsigned recall_pages;	  /* …of which so many came… */
	bool wants_page;	  /* …and there is another */
	uint64_t refused_boot_ns; /* when they were not to be had; 0: never */
	char trouble[160];	  /* why it cannot be reached; "" */
};

/* A handler of its client (rpc/client.h); ctx is the feed. */
void daemon_feed_on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
			   const struct err *err);

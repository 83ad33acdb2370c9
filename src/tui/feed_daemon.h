/*
 * feed_daemon - what the feed of a daemon keeps between two messages; for feed_daemon.c and tests.
 */
#ifndef PROCTOR_TUI_FEED_DAEMON_H
#define PROCTOR_TUI_FEED_DAEMON_H

#include "tui/feed.h"

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

#endif

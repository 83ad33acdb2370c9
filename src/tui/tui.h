/*
 * tui - "proctor top": jobs, live or replayed, in a terminal.
 *
 *	scene	what is shown, and what its user has chosen (keys.c changes it)
 *	draw	a scene as a grid of characters		grid to screen: screen.c
 *	feed	where snapshots and events come from
 *
 * tui_run() is the loop that joins them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_cursor.h"
#include "base/mask.h"
#include "model/snapshot.h"
#include "store/store.h"

/* What only the caller can do; each says in err what went wrong. */
struct tui_helpers {
	int (*signal)(const struct proc_key *key, int signal, struct err *err);
	int (*cancel)(const char *job_id, int attempt_num, struct err *err); /* without a daemon */
	/* The record of this user's jobs; NULL: there is none yet. The caller closes it. */
	int (*open_store)(struct store **ret, struct err *err);
	/* With the terminal to itself, for some seconds at most. */
	int (*trace)(const struct proc_key *key, struct err *err);
};

struct tui_options {
	const char *job_id;	 /* only this one; NULL: all */
	double interval_seconds; /* between two looks of our own, or two of the daemon's that are
				    shown; 0: 2 s, or all of them; as text see tui_print() */
	struct store *store;	 /* of what is replayed */
	const struct mask *mask;
	bool reads_gpus;	/* where we look by ourselves */
	uint64_t since_wall_ns; /* replays from then on; 0: live */
	uint64_t until_wall_ns; /* 0: now */
	const struct tui_helpers *helpers;
};

/* Until the user has had enough. */
int tui_run(const struct tui_options *options, struct err *err);

/*
 * The same as text, for a pipe or a file. Live: the screen of now, or with interval_seconds one
 * after another. Stored: the screen at the first moment of each interval_seconds (60), and at the
 * last. Each is appended to out, and pass is called, whose error ends it. -ENODATA: nothing was
 * recorded.
 */
int tui_print(const struct tui_options *options, struct buf *out, int (*pass)(void *ctx), void *ctx,
	      struct err *err);

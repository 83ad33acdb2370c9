/*
 * life - one source (rung) of process starts and exits; life.c takes the best that works.
 */
#pragma once

#include <linux/types.h>
#include <stddef.h>

#include "bpf/life.h"
#include "sources/sources.h"

struct life_kind {
	const char *name; /* "netlink proc connector" */
	const char *name_with_accounts;
	int (*open)(const struct life_options *options, struct life **ret, struct err *err);
	void (*close)(struct life *life); /* frees it */
	int (*fd)(const struct life *life);
	int64_t (*drain)(struct life *life, size_t max, life_handler *fn, void *ctx);
	int (*track)(struct life *life, pid_t pid, uint64_t tag);	  /* NULL: it cannot */
	uint64_t (*tag_of)(struct life *life, pid_t pid);		  /* NULL as well */
	void (*follow_owner)(struct life *life, pid_t pid, uint64_t uid); /* NULL: it need not */
	int (*want_accounts)(struct life *life, bool is_wanted);	  /* NULL: it has none */
};

/* The first member of what a rung opens. */
struct life {
	const struct life_kind *kind;
	bool sees_signals, sees_oom, sees_calls, has_accounts;
	struct err lacks;  /* what it could have and has not, as opened; code 0: nothing */
	struct err why;	   /* why no better rung */
	struct err reason; /* both */
};

extern const struct life_kind life_by_ebpf;
extern const struct life_kind life_by_netlink;

/* All unknown: what an event says where the rung does not. */
void life_event_init(struct life_event *ev);

/* ---- from a record of the eBPF ring to an event ---- */

/* What the numbers in a record are counted in, and a moment on both clocks. */
struct life_units {
	uint64_t page_bytes;
	long clock_ticks;
	uint64_t mono_ns, wall_ns;
};

/* -EBADMSG: none that this version knows. */
int life_record_parse(const void *bytes, size_t len, const struct life_units *units,
		      struct life_event *ret);

/*
 * service_internal - what the parts of the daemon share.
 *
 * service.c is the life of it, service_tick.c what it does at each tick,
 * service_methods.c what it answers, service_config.c what it is told to be.
 */
#ifndef PROCTOR_DAEMON_SERVICE_INTERNAL_H
#define PROCTOR_DAEMON_SERVICE_INTERNAL_H

#include "base/loop.h"
#include "base/settings.h"
#include "bus/bus.h"
#include "daemon/daemon.h"
#include "daemon/queue.h"
#include "daemon/service.h"
#include "daemon/upkeep.h"
#include "daemon/watch.h"
#include "daemon/watchdog.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "learn/learn.h"
#include "rpc/rpc.h"
#include "sources/sources.h"
#include "store/store.h"

#define SERVICE_STAGES 9

struct stage_state {
	uint64_t n_failed;
	bool is_failing;
};

/* What the last tick cost, and all of them. */
struct tick_stats {
	uint64_t n_ticks, n_skipped;
	uint64_t cpu_ns; /* of the last one */
	uint64_t lag_ns; /* how late the last one began */
	double load;	 /* share of one core, of the last ticks */
	unsigned n_since_change;
	struct stage_state stages[SERVICE_STAGES];
};

/* When the configuration was read, and what came of the last wish to read it again. */
struct reload_state {
	uint64_t loaded_wall_ns;
	uint64_t refused_wall_ns; /* 0: none was refused since then */
	struct err why;		  /* it was */
};

struct service {
	const struct service_options *options;
	const struct config *config; /* in force: that of the options until it is read again */
	const struct paths *paths;   /* the same; only the log moves while the daemon runs */
	struct settings *reloaded;   /* where they are then; NULL before */
	struct reload_state reload;
	uint64_t read_gid; /* of the group that may read; U64_UNKNOWN: there is none */
	struct watchdog watchdog;
	struct loop *loop;
	struct loop_timer *tick_timer;
	struct loop_fd *signal_watch;
	int signal_fd;
	int root_fd;

	struct collector *collector;
	struct assigner *assigner;
	struct snapshot snap; /* the last one */
	bool has_snap;
	struct watch *watch;
	struct store *store; /* NULL: not open; tried again at each tick */
	struct daemon_record record;
	struct jsonl *jsonl;
	struct bus *bus;
	struct rpc_server *server;
	struct rpc_method *methods; /* of all parts */
	struct pressure pressure;
	struct detect *detect;
	struct queue *queue;
	struct upkeep *upkeep;
	struct waiter *waiters; /* clients that wait for the end of a job */

	struct assign_root *roots; /* one for each job that is watched */
	size_t *n_of;
	size_t cap_roots;

	uint64_t started_boot_ns;
	double interval_seconds; /* in force: more than configured while ticks cost too much */
	uint64_t next_wall_ns;	 /* when the next tick is due */
	struct tick_stats stats;
	struct rung rungs[SOURCES_MAX_RUNGS];
	size_t n_rungs;
	struct arena arena; /* of the rungs */
};

/* ---- service_tick.c ---- */

int service_begin_ticks(struct service *s, struct err *err);

/* From now on, whatever ticks have cost so far. */
void service_set_interval(struct service *s, double seconds);

/* A look at the database out of turn: somebody says that something has changed. */
void service_look(struct service *s);

/* ---- service_queue.c ---- */

int service_open_queue(struct service *s, struct err *err);

/* Whether an attempt of it is in the database: it is over if it is not watched (any more). */
bool service_has_run(struct service *s, const struct queued *job);

/* Starts what may start, and clears away what is over. */
void service_run_queue(struct service *s);
/* ---- service_config.c ---- */

/* Takes over what the options say. */
int service_configure(struct service *s, struct err *err);

/* Reads the configuration again. A bad one is refused, and the old one stays. */
void service_reload(struct service *s);
void service_release_config(struct service *s);

extern const struct rpc_method service_config_method;

/* ---- service_methods.c ---- */

/* The job is over: who waits for it is told. */
void service_answer_waiters(struct service *s, const struct watched *job);

extern const struct rpc_method service_methods[];
extern const size_t service_n_methods;

/* ---- service_events.c ---- */

/* Tells of a change of a job on the bus. For watch_new(). */
void service_tell_change(void *ctx, enum watch_change change, const struct watched *job,
			 const struct sheet_record *sheet);
void service_tell_snapshot(struct service *s);
void service_tell_anomaly(struct service *s, const struct detect_change *change, uint64_t uid);

/* An object: of the process, of the job where p is NULL, of the host where both are. */
void service_write_context(struct json *j, const struct service *s, const struct watched *job,
			   const struct proc_sample *p);

#endif

/*
 * service_tell - what is told, and to whom.
 *
 * Who may see what; the tables of methods; snapshots, events and phases.
 */
#pragma once

#include "daemon/service_internal.h"

/* ---- service_access.c: who may see what ---- */

/* Root, and the user that the daemon runs as: they may do everything. */
bool service_is_owner(const struct rpc_peer *peer);

/* Those, and the group that may read. */
bool service_reads_all(const struct service *s, const struct rpc_peer *peer);

/* A job of this user. */
bool service_may_read(const struct service *s, const struct rpc_peer *peer, uint64_t uid);
bool service_may_control(const struct rpc_peer *peer, uint64_t uid);

enum service_right { SERVICE_READ, SERVICE_CONTROL };

/*
 * The job of that name (NULL: of any) that the peer runs itself: its process is the runner, and not
 * one that has got its pid since, or the peer's pid since it connected. NULL: there is none.
 */
struct watched *service_find_own_job(struct service *s, const struct rpc_peer *peer,
				     const char *job_id);

/* ---- methods: what it answers (the table is in service.c) ---- */

rpc_method_fn method_daemon_config, method_daemon_events, method_daemon_status, method_daemon_stop,
	method_daemon_top, method_daemon_top_stream, method_admit, method_estimate,
	method_correlate, method_events_subscribe, method_resource_context, method_job_anomalies,
	method_job_attach, method_job_attempts, method_job_cancel, method_job_events,
	method_job_list, method_job_report, method_job_samples, method_job_submit, method_job_wait,
	method_mark_phase, method_runner_barrier, method_runner_calls, method_runner_changed,
	method_runner_frames, method_runner_hello, method_runner_stream;

/* After each look. */
void service_tend_guests(struct service *s);
void service_drop_guests(struct service *s);

/* ---- service_phase.c: phases that wait to be written down, many at a time ---- */

int service_open_phases(struct service *s, struct err *err);
void service_close_phases(struct service *s); /* while the store is open */

/* Those that wait, at once: somebody is about to read the record. */
void service_write_marks(struct service *s);

struct phase_marks {
	struct loop_timer *timer;
	struct waiting_mark *first, **end;
	size_t n;
	struct map lost;     /* attempt -> markers of it that were lost, and not written down yet */
	uint64_t n_lost;     /* that never came, as their senders say, of all attempts */
	uint64_t n_unplaced; /* from a process of no job that is known, of which nobody was told */
	uint64_t since_boot_ns; /* the first one waits */
};
/* ---- service_view.c ---- */

/* The last snapshot as JSON, for those who see all of it; made once for all of them. */
const struct buf *service_snapshot_json(struct service *s);

/* What one user sees of it. -ENOMEM. */
int service_write_shown(const struct service *s, uid_t uid, struct json *j);

/* An object: what the job, or this sheet of it, uses at the moment. */
void service_write_change_context(struct json *j, const struct service *s,
				  const struct watched *job, const struct sheet_record *sheet);

/*
 * An object: of the process, or of the host where p is NULL. The peer counts for the host's
 * alone: which jobs' anomalies it may know of.
 */
void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p);

/* ---- service_events.c ---- */

/* From now on the last events are kept. */
int service_keep_events(struct service *s, struct err *err);

/* Of a job of this user; U64_UNKNOWN: nobody knows whose it is, and it is for who sees all. What
 * has failed to be written is not published. */
void service_publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		     const struct buf *json);

/* Something happened to a process of a job. */
void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid);

/* Tells of a change of a job on the bus. */
void service_tell_change(struct service *s, enum change change, const struct watched *job,
			 const struct sheet_record *sheet);
void service_tell_queued(struct service *s, const struct queued *job);

/* The pressure holds up a job of the queue (attempt_num -1), or the next sheet of one that runs. */
void service_tell_held(struct service *s, const char *job_id, int attempt_num, uint64_t uid,
		       const char *why);
void service_tell_snapshot(struct service *s);
/* uid: whose job it is of; U64_UNKNOWN: of none, or nobody knows. */
void service_publish_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			     uint64_t uid);

/* ---- service_guest.c: runners whose logs are in another folder ---- */

/* Whether this user may have one more job that others record or start. -EBUSY: not now. -ENOMEM. */
int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err);

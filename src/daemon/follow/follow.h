/*
 * service_follow - what the processes of jobs do.
 *
 * Births, deaths, signals and system calls as the kernel tells of them; jobs that something else
 * started; and what lives on of those that are over.
 */
#ifndef PROCTOR_DAEMON_FOLLOW_FOLLOW_H
#define PROCTOR_DAEMON_FOLLOW_FOLLOW_H

#include "daemon/service_internal.h"

struct job_params;

/* ---- service_life.c ---- */

/* Where the kernel does not tell of births and deaths this is no failure. */
int service_open_life(struct service *s, struct err *err);
void service_close_life(struct service *s);

/* Takes what the kernel has told: before each look, so that nothing of it is old. */
void service_drain_life(struct service *s);

/* A process of an attached tree has started or ended, by the kernel's events or by what a look has
 * shown; of other jobs their runners record it. status { -1, -1 }: unknown; details NULL: as the
 * last look saw it. */
void service_tell_birth(struct service *s, const struct member *member, uint64_t wall_ns);
void service_tell_death(struct service *s, const struct member *member, struct exit_status status,
			uint64_t wall_ns, const char *details);

/* ---- service_members.c ---- */

/* A job that was not known before: from now on its runner's children are its own. */
void service_expect_births(struct service *s, const struct watched *job);

/* A stage of a tick: what the look has shown. */
int service_settle_life(struct service *s, struct err *err);

/* ---- service_records.c: for watch_new() ---- */

void service_publish_event(void *ctx, const struct watched *job, const struct proc_event *ev);
void service_publish_recorded_anomaly(void *ctx, const struct watched *job, const struct episode *e,
				      enum episode_change change);

/* For the next look for anomalies; kills do not wait for that. */
void service_keep_news(struct service *s, const struct proc_event *ev, int64_t attempt_id);

/* The kernel has told of this kill, with the name, which is to be in the news of it. */
void service_name_killed(struct service *s, const struct proc_event *ev);

/* They have been looked at. */
void service_forget_ooms(struct service *s);

/* ---- service_signals.c ---- */

/* A signal or an OOM kill. Of a process that is nobody's so far it is kept for some seconds. */
void service_note_signal(struct service *s, const struct life_event *ev);

/* More is known of whose the processes are: also of those that something has happened to. */
void service_place_signals(struct service *s);

/* The job is over, or its stream (by its mark): how many are not listed is recorded. */
void service_end_signals_of(struct service *s, int64_t id);
void service_close_signals(struct service *s); /* while logs are open */

/* ---- service_syscalls.c ---- */

/* Which rung it is, or will be. */
void service_describe_calls(struct service *s);

/*
 * A job begins: what its processes call is counted from now on, where that can be. With the first
 * one that takes some tenths of a second, for which nobody is kept waiting.
 */
void service_count_calls_of(struct service *s, const struct watched *job);

/* Its runner waits for that. False: it cannot be. */
bool service_count_calls_now(struct service *s, const struct watched *job);

/* It is over: what they have called in all is to be written down, which is not done inside a look.
 */
void service_sum_calls_of(struct service *s, const struct watched *job);

/* Its runner does that, or nobody is to: what was counted so far is dropped. */
void service_leave_calls_of(struct service *s, struct watched *job);

/*
 * Its runner asks for them: what each process that lives has called so far, for its samples; or at
 * its end all, to record them, and we cease to count. Into the open object.
 */
void service_write_calls_of(struct service *s, int64_t attempt_id, bool is_final, struct json *j);

/* Of jobs that are over. */
void service_record_calls(struct service *s);

/* A stage of a tick: into the samples what is new. */
int service_count_calls(struct service *s, struct err *err);

/* While the store is open. */
void service_close_syscalls(struct service *s);

/* ---- service_stream.c: what the kernel reports of a runner's processes, sent to the runner ----
 */

struct deaths;

/* Makes the caller's connection its stream, if it is a runner that can hear more by it; job_id may
 * be NULL. And the members of an answer to that. */
bool service_open_stream(struct service *s, struct rpc_call *call, const char *job_id);
void service_write_stream(const struct service *s, struct json *j, bool follows);

/* The attempt of its runner is known. */
void service_bind_stream(struct service *s, const struct watched *job);

/* Hangs up on all of them: a runner that lives connects again. */
void service_forget_streams(struct service *s);

/* A process has ended (member: what is known of it, or NULL), and its account has come; those of
 * other processes are passed over. */
void service_note_job_death(struct service *s, const struct member *member,
			    const struct life_event *ev);
void service_complete_job_death(struct service *s, const struct life_event *ev);

/* Sends what was noted since the last time. */
void service_send_facts(struct service *s);

/* Whether who is below this runner and marked so is of another run there; runner_mark is what the
 * runner itself is marked with. */
bool service_is_inside(struct service *s, uint64_t mark, const struct proc_key *runner,
		       uint64_t runner_mark);

/* Whose processes were marked so; 0: of an attempt that is not known, or no longer. */
int64_t service_attempt_of_mark(struct service *s, uint64_t mark);

/*
 * How many processes of jobs have ended without the kernel's last word on what they used.
 * U64_UNKNOWN: it has none for us. What is about to be released is counted by
 * service_leave_deaths().
 */
uint64_t service_count_unaccounted(const struct service *s);
void service_leave_deaths(struct service *s, const struct deaths *deaths);

extern const struct rpc_method service_stream_methods[];

/* The last words are asked of the kernel while somebody needs them. */
void service_want_accounts(struct service *s);

/* ---- service_attached.c: jobs that something else started ---- */

/* The sum over all of them. */
size_t service_count_attached(const struct service *s, size_t (*count)(const struct deaths *d));

/*
 * A process was born. If it is of such a job, that it belongs there is remembered, as its parent
 * may be gone at the next look, and its start time is set: true.
 */
bool service_keep_birth(struct service *s, struct member *born);

/* An event of such a job, for its log. */
void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev);

/* A job of that kind began, or was found again. */
void service_follow_attached(struct service *s, const struct watched *job);

/* Before a look is assigned: who was noted down as theirs is theirs. */
void service_recall_attached(struct service *s);

/* A stage of a tick: ends those of which nothing is left. */
int service_settle_attached(struct service *s, struct err *err);

/* What the kernel tells of an end, and later of all that was used, if it is of such a job. */
void service_note_death(struct service *s, const struct member *member,
			const struct life_event *ev);
void service_complete_death(struct service *s, const struct life_event *ev);

/*
 * A stage of a tick: appends to the log of each what the last look has shown. The longest wait for
 * the disk that is under way, or was the last of one, is added to *ret_disk_wait_ns.
 */
int service_record_attached(struct service *s, uint64_t *ret_disk_wait_ns, struct err *err);

/* Appends a look between two ticks, at the processes of this job alone. */
void service_record_closer(struct service *s, const struct watched *job,
			   const struct snapshot *snap, const struct series_point *point);

/* Keys of daemon.status. */
void service_write_recording(struct json *j, const struct service *s);

/* SIGTERM for all of its processes, and SIGKILL for what is left. */
int service_cancel_attached(struct service *s, struct watched *job, struct err *err);
void service_release_attached(struct service *s);

/* ---- service_host_log.c: into the log of an attached tree, or else into the daemon's own ---- */

/* At each tick: makes it, and begins to wait for the disk. Returns how long that takes. */
uint64_t service_tend_host_log(struct service *s);
void service_close_host_log(struct service *s); /* the daemon stops */

/* change: an enum episode_change, or RECORD_RENEWED. False: the event is lost. */
void service_log_anomaly(struct service *s, const struct episode *e, int change);
void service_log_evidence(struct service *s, int64_t attempt_id, const char *episode,
			  const struct anomaly_evidence *evidence);
bool service_log_calls(struct service *s, const struct attempt *a, const char *why_not_all);
bool service_log_event(struct service *s, int64_t attempt_id, const struct proc_event *ev);

/* ---- service_orphans.c ---- */

/* The runner has recorded that this process outlives its job. */
void service_follow_orphan(struct service *s, const struct watched *job,
			   const struct proc_event *ev);

/* A job is over: what lives on of it are its orphans. (watch.h keeps its id for the snapshot.) */
void service_leave_job(struct service *s, const struct watched *job);

/*
 * The database was opened: whose runners were gone by then are no jobs that could be watched, and
 * what lives on of them is looked for at the next ticks.
 */
void service_recall_lost(struct service *s);
void service_release_lost(struct service *s);

/* A stage of a tick. It waits for children of the daemon's own, too. */
int service_look_for_orphans(struct service *s, struct err *err);

/*
 * Ends what lives on of the peer's job that is meant, or where there is none of others' that the
 * peer may control: SIGTERM, and SIGKILL for what is left. -ENOENT: nothing does.
 */
int service_cancel_orphans(struct service *s, const struct rpc_peer *peer,
			   const struct job_params *params);

/* A process has died, as the kernel tells: if it was an orphan, that is noted. */
void service_note_orphan_death(struct service *s, const struct life_event *ev);

/* Keys of daemon.status. */
void service_write_orphans(struct json *j, const struct service *s);

#endif

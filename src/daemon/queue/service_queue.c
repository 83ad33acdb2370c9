#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

static void folder_of(const struct service *s, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s", s->settings.options->paths->state_dir, name);
}

/* A runner tells that its job is over shortly before it is over itself. */
#define RUNNER_ENDS_MS 200

static void on_queue_timer(void *ctx);

int service_open_queue(struct service *s, struct err *err)
{
	const struct queue_owner owner = { s->database.path, &s->starting.files };
	char folder[PATH_BYTES + 16];

	if (!s->starting.queue_timer)
		s->starting.queue_timer = loop_timer_new(s->loop, on_queue_timer, s);
	if (!s->starting.queue_timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	folder_of(s, "queue", folder, sizeof(folder));
	return queue_open(folder, &owner, &s->queue, err);
}

/* ---- those that no runner will ever tell of ---- */

/*
 * It is over before it began (a failure), or nobody knows what came of it: that is recorded
 * for whoever asks. True if it is gone.
 */
static bool bury(struct service *s, struct queued *job, enum outcome outcome, const char *reason)
{
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	a.job_id = job->job_id;
	a.command = job->name;
	a.workdir = job->workdir;
	a.uid = job->uid;
	a.submission = job->submission;
	a.started_wall_ns = a.ended_wall_ns = clock_wall_ns();
	a.outcome = outcome;
	a.reason = reason;
	proc_boot_id(a.boot_id); /* of this host, now: so who waits for it is told */
	r = attempt_log_write_whole(s->database.path, &a, clock_boot_ns(), NULL, &err);
	if (r < 0 && r != -ETIMEDOUT) { /* then the disk has it later */
		log_debug("the end of job %s is not recorded: %s", job->job_id, err.text);
		return false;
	}
	log_warning("job %s is over without having run: %s", job->job_id, reason);
	queue_drop(s->queue, job);
	return true;
}

void service_cancel_queued(struct service *s, struct queued *job, const struct rpc_peer *peer)
{
	char reason[96] = "cancelled before it began";

	if (peer->uid != job->uid)
		snprintf(reason, sizeof(reason), "cancelled by user %u before it began",
			 (unsigned)peer->uid);
	if (bury(s, job, OUTCOME_CANCELLED, reason)) {
		service_look(s); /* tells who waits for it */
		return;
	}
	log_warning("job %s was cancelled before it began, which is not recorded", job->job_id);
	service_answer_dropped(s, job);
	queue_drop(s->queue, job);
}

/* True if it is gone from the queue. */
static bool note_failed_start(struct service *s, struct queued *job, int r, const struct err *err)
{
	if (r != -EAGAIN && r != -ENOMEM && bury(s, job, OUTCOME_FAILURE, err->text))
		return true;
	log_error("job %s cannot be started now: %s", job->job_id, err->text);
	snprintf(job->reason, sizeof(job->reason), "%.150s", err->text);
	return false;
}

/* How long a runner may take until it is in the database; one that we saw begin, and end. */
#define START_NS UINT64_C(30000000000)
#define SEEN_START_NS UINT64_C(2000000000)

/* Of one whose runner is gone without an end that was read: the database may have an older one.
 * True if it is gone from the queue. */
static bool settle_started(struct service *s, struct queued *job, bool is_behind)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const uint64_t uid = job->uid;
	const struct attempt_filter filter = {
		.job_id = job->job_id,
		.uid = &uid,
		.submission = job->submission,
		.limit = 1,
		.is_strict = true, /* or it is run again */
	};
	struct err err = ERR_INIT;
	int r = queue_check_start(job, &err);

	if (r < 0)
		return note_failed_start(s, job, r, &err);
	if (r > 0 || service_has_begun(s, job) || queue_is_held(job) || !s->store ||
	    store_list_attempts(s->store, &filter, &list, NULL) < 0)
		return false;
	if (list.n == 0 || list.items[0].submission != job->submission) {
		/* Its log may have what the database lacks. */
		if (is_behind || s->database.ingest_err.code != 0 ||
		    clock_boot_ns() - job->started_boot_ns <
			    (job->was_executed ? SEEN_START_NS : START_NS))
			return false;
		if (job->is_cancelled)
			return bury(s, job, OUTCOME_CANCELLED, "cancelled before it began");
		/* One that we saw begin, or that is somebody else's, may have done its work: it is
		 * not run again. */
		if (job->was_executed || job->uid != geteuid())
			return bury(s, job, OUTCOME_NONE,
				    "its runner ended, and how could not be told to the daemon");
		log_warning("job %s was started and never ran: it waits again", job->job_id);
		queue_put_back(job, NULL);
		return false;
	}
	log_info("job %s of user %u %s", job->job_id, (unsigned)job->uid,
		 u64_known(list.items[0].ended_wall_ns) ? "has ended"
							: "is lost: its runner is gone");
	queue_drop(s->queue, job);
	return true;
}

void service_end_queued(struct service *s, const struct watched *job)
{
	struct queued *queued;
	size_t i = 0;

	while (u64_known(job->a.submission) && s->queue && (queued = queue_at(s->queue, i++)))
		if (queued->submission == job->a.submission && queued->uid == job->a.uid) {
			log_info("job %s of user %u %s", job->job_id, (unsigned)job->a.uid,
				 job->a.is_lost ? "is lost: its runner is gone" : "has ended");
			queue_drop(s->queue, queued);
			return;
		}
}

/* ---- those that wait ---- */

/* The pressure holds it up: from high on for as long as it lasts, below for some seconds once. */
static bool is_held_up(struct service *s, struct queued *job)
{
	unsigned delay = pressure_delay_seconds(s->pressure.level);
	uint64_t now = clock_boot_ns();

	if (delay == 0) {
		job->not_before_ns = 0;
		job->is_held_told = false;
		return false;
	}
	snprintf(job->reason, sizeof(job->reason), "pressure is %s: %s",
		 pressure_name(s->pressure.level), s->pressure.reason);
	if (!job->is_held_told)
		service_tell_held(s, job->job_id, -1, job->uid, job->reason);
	job->is_held_told = true;
	if (pressure_refuses_jobs(s->pressure.level))
		return true;
	if (job->not_before_ns == 0)
		job->not_before_ns = now + delay * UINT64_C(1000000000);
	return now < job->not_before_ns;
}

static int sync_folder(void *ctx, struct store *store, struct err *err)
{
	(void)store;
	(void)err;
	return io_sync_folder_of(ctx);
}

static void on_synced(void *ctx, int r, const struct err *err)
{
	(void)r; /* then a power cut may undo it, as any start */
	(void)err;
	free(ctx);
}

/* True: it has. Else it may be gone from the queue. */
static bool start_job(struct service *s, struct queued *job)
{
	char folder[PATH_BYTES + 16], path[QUEUE_PATH_BYTES];
	/* On another thread: a disk takes its time. */
	struct aside_task sync = {
		.uid = job->uid, .work = sync_folder, .done = on_synced, .is_store_optional = true
	};
	struct err err = ERR_INIT;
	int r;

	folder_of(s, "logs", folder, sizeof(folder));
	job->reason[0] = '\0';
	r = queue_start(s->queue, job, folder, &err);
	if (r < 0) {
		note_failed_start(s, job, r, &err);
		return false;
	}
	log_info("job %s of user %u is started", job->job_id, (unsigned)job->uid);
	queued_path(job, path);
	sync.ctx = strdup(path);
	if (!sync.ctx || aside_add(s->starting.submitter, &sync, NULL) < 0)
		free(sync.ctx);
	if (job->start_fd >= 0)
		service_run_queue_soon(s); /* to hear what has become of it */
	return true;
}

/* A look at the past of each takes a read of the database: so many in one go; and how long it
 * lasts, as others like it may have ended meanwhile. */
#define MAX_ESTIMATES 2
#define ESTIMATE_LASTS_NS UINT64_C(60000000000)

/* Starts one that waits, or says why it goes on waiting. It may be gone from the queue then. */
static bool start_if_allowed(struct service *s, struct queued *job, size_t *n_estimates)
{
	uint64_t estimated_ns = job->estimated_boot_ns;
	struct admit_answer answer;

	if (is_held_up(s, job))
		return false;
	if ((estimated_ns == 0 || clock_boot_ns() - estimated_ns > ESTIMATE_LASTS_NS) &&
	    *n_estimates < MAX_ESTIMATES) {
		service_estimate_queued(s, job);
		++*n_estimates;
	}
	if (job->estimated_boot_ns == 0) {
		snprintf(job->reason, sizeof(job->reason), "others are looked at before it");
		return false;
	}
	if (service_judge_room(s, &job->estimate, &answer) == 0 && answer.decision != ADMIT) {
		memcpy(job->reason, answer.reason, sizeof(job->reason));
		return false;
	}
	s->starting.queue_uid = job->uid;
	return start_job(s, job);
}

void service_run_queue(struct service *s)
{
	CLEANUP(free_ptr) struct queued **jobs = NULL;
	/* How some of them ended; while that cannot be stored none is taken for one that never ran.
	 */
	bool is_behind = s->store && store_take_in(s->store, NULL) < 0;
	struct queued *job;
	size_t n = 0, i = 0, n_started = 0, n_estimates, max_jobs;
	long n_cpus;

	while ((job = queue_at(s->queue, i)))
		if (!job->is_started || !settle_started(s, job, is_behind)) {
			n_started += job->is_started;
			i++;
		}
	n_estimates = service_estimate_running(s, 1);
	if (turns_take(s->queue, s->starting.queue_uid, &jobs, &n) < 0)
		log_warning("no memory left to start what waits, which is tried again");
	max_jobs = s->settings.config->limits.max_concurrent_jobs;
	if (n > 0 && max_jobs == 0) {
		n_cpus = sysconf(_SC_NPROCESSORS_ONLN); /* reads a file */
		max_jobs = n_cpus > 0 ? (size_t)n_cpus : 1;
	}
	for (i = 0; i < n; i++)
		if (!s->store)
			snprintf(jobs[i]->reason, sizeof(jobs[i]->reason), "%.150s",
				 s->database.err.code < 0 ? s->database.err.text
							  : "the database is not open yet");
		else if (n_started >= max_jobs)
			snprintf(jobs[i]->reason, sizeof(jobs[i]->reason),
				 max_jobs == 1 ? "%zu job runs already" : "%zu jobs run already",
				 max_jobs);
		else
			n_started += start_if_allowed(s, jobs[i], &n_estimates);
}

void service_run_queue_soon(struct service *s)
{
	loop_timer_set(s->starting.queue_timer, RUNNER_ENDS_MS, 0);
}

static void on_queue_timer(void *ctx)
{
	struct service *s = ctx;
	const struct queued *job;

	service_run_queue(s);
	/* Whether the runner of one is about to end, or has just begun. */
	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (job->is_started && !watch_find_of(s->watch, job->job_id, job->uid)) {
			service_run_queue_soon(s);
			return;
		}
}

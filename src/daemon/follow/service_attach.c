#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

struct attach_params {
	uint64_t pid;
	const char *job_id;
};

static const struct rpc_field attach_fields[] = {
	{ "pid", RPC_U64, offsetof(struct attach_params, pid), .is_required = true, .min = 1,
	  .max = INT_MAX },
	{ "job_id", RPC_STRING, offsetof(struct attach_params, job_id), .is_required = true },
};

/* ---- whether it may be ---- */

/* True for the process itself, too. */
static bool is_above(int root_fd, pid_t above, pid_t pid)
{
	struct process_facts facts = { .ppid = pid };

	for (int i = 0; i < 1024 && facts.ppid > 0; i++)
		if (facts.ppid == above)
			return true;
		else if (process_facts_read(root_fd, facts.ppid, &facts) < 0)
			return false;
	return false;
}

static int check_process(const struct service *s, const struct process_facts *facts,
			 struct err *err)
{
	int pid = facts->key.pid;

	if (pid == 1)
		return err_set(err, -EINVAL, "pid 1 is the host's own: it is no job");
	if (pid == getpid())
		return err_set(err, -EINVAL, "pid %d is the daemon itself", pid);
	if (facts->is_kernel)
		return err_set(err, -EINVAL, "pid %d is a thread of the kernel: it is no job", pid);
	if (facts->state == 'Z' || facts->state == 'X')
		return err_set(err, -ENOENT, "pid %d has ended", pid);
	if (is_above(s->root_fd, pid, getpid()))
		return err_set(err, -EINVAL, "the daemon itself runs below pid %d", pid);
	return 0;
}

/* All its users must be the caller: a program of another user's is that user's, whoever began it.
 */
static int check_owner(const struct rpc_peer *peer, const struct process_facts *facts,
		       struct err *err)
{
	int pid = facts->key.pid;

	if (peer->uid != 0 && (facts->uid != peer->uid || !facts->is_pure))
		return err_set(err, -EPERM, "pid %d is another user's", pid);
	if (geteuid() != 0 && facts->uid != geteuid())
		return err_set(err, -EPERM,
			       "pid %d is another user's than the daemon's, which may not end it",
			       pid);
	return 0;
}

static int check_job(struct service *s, const struct rpc_peer *peer, const char *job_id,
		     struct err *err)
{
	struct job_params params = JOB_PARAMS_INIT;
	struct found_job found;

	params.job_id = job_id;
	if (!job_id_is_valid(job_id))
		return err_set(err, -EINVAL, "'%.150s' cannot be the id of a job", job_id);
	if (service_find_job(s, peer, &params, SERVICE_READ, &found))
		return err_set(err, -EEXIST, "a job %s is there already", job_id);
	return 0;
}

/* Of others' jobs not even the name is told. */
static int refuse_member(const struct service *s, const struct rpc_peer *peer,
			 const struct watched *job, int pid, struct err *err)
{
	if (!service_may_read(s, peer, job->a.uid))
		return err_set(err, -EEXIST, "pid %d belongs to a job already", pid);
	return err_set(err, -EEXIST, "pid %d belongs to the job %s already", pid, job->job_id);
}

static int check_free(struct service *s, const struct rpc_peer *peer, pid_t pid, struct err *err)
{
	const struct watched *job = service_job_of(s, pid);

	return job ? refuse_member(s, peer, job, pid, err) : 0;
}

/* Each is looked at out of turn when it begins and when it is cancelled, and all of it is for us
 * to write down. */
#define ATTACHED_PER_USER 64

static int check_share(struct service *s, const struct rpc_peer *peer, struct err *err)
{
	size_t n, n_attached = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	if (service_is_owner(peer))
		return 0;
	for (size_t i = 0; i < n; i++)
		n_attached += jobs[i]->a.is_attached && jobs[i]->a.uid == peer->uid;
	if (n_attached >= ATTACHED_PER_USER)
		return err_set(err, -EBUSY, "one user may have %d trees attached at a time",
			       ATTACHED_PER_USER);
	return guest_check_share(s, peer, err);
}

/* What costs the least comes first: who may not attach it has nothing looked at for them. */
static int check_all(struct service *s, const struct rpc_peer *peer,
		     const struct process_facts *facts, struct err *err)
{
	int r = check_process(s, facts, err);

	if (r == 0)
		r = check_owner(peer, facts, err);
	if (r == 0)
		r = check_free(s, peer, facts->key.pid, err);
	if (r == 0)
		r = check_share(s, peer, err);
	if (r < 0)
		return r;
	service_rescan(s); /* it may be of a job whose other processes have ended since */
	return check_free(s, peer, facts->key.pid, err);
}

/* ---- attaching ---- */

static const char *folder_of(struct arena *arena, pid_t pid)
{
	char link[48], folder[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
	n = readlink(link, folder, sizeof(folder));
	return n > 0 ? arena_strndup(arena, folder, (size_t)n) : NULL;
}

static const char *command_of(const struct service *s, struct arena *arena, pid_t pid)
{
	CLEANUP(buf_release) struct buf command = BUF_INIT;

	if (sources_read_command(s->root_fd, pid, s->settings.mask, &command) < 0)
		return NULL;
	return arena_strdup(arena, command.data);
}

/* It began when the process did, although nobody looked at it then. */
static uint64_t began_at(const struct service *s, const struct proc_key *key)
{
	for (size_t i = 0; i < s->scan.snap.n_processes; i++)
		if (s->scan.snap.processes[i].key.pid == key->pid &&
		    s->scan.snap.processes[i].key.start_ticks == key->start_ticks)
			return s->scan.snap.processes[i].start_wall_ns;
	return U64_UNKNOWN;
}

/* Not the hash that a run of the same command has: only a part of this one was seen. */
static uint64_t hash_of(const char *command)
{
	static const char kind[] = "attached";
	uint64_t h = hash_bytes(HASH_INIT, kind, sizeof(kind));

	return command ? hash_bytes(h, command, strlen(command)) : h;
}

static void describe(const struct service *s, const struct process_facts *facts, const char *job_id,
		     struct attempt *a)
{
	a->job_id = arena_strdup(&a->arena, job_id);
	a->command = command_of(s, &a->arena, facts->key.pid);
	a->argv_hash = hash_of(a->command);
	a->uid = facts->uid;
	a->host = own_host(&a->arena);
	a->workdir = folder_of(&a->arena, facts->key.pid);
	memcpy(a->boot_id, s->record.boot_id, sizeof(a->boot_id));
	a->pid_ns = own_pid_ns();
	a->runner = facts->key;
	a->is_attached = true;
	a->is_running = true;
	a->interval_seconds = s->interval_seconds;
	a->started_wall_ns = began_at(s, &facts->key);
	a->clock = clock_read_quality();
}

/* Answered when its log is made. */
static int begin(struct service *s, const struct process_facts *facts, const char *job_id,
		 struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct json *j = rpc_call_result(call);
	struct attached *at;
	uint64_t disk_wait_ns = 0;
	int attempt_num, r;

	attempt_init(&a);
	describe(s, facts, job_id, &a);
	r = attached_begin(s, &a, &at, err);
	if (r < 0)
		return r;
	attempt_num = at->begin.attempt_num;
	service_look(s);
	service_rescan(s);
	(void)service_settle_life(s, NULL);
	(void)service_record_attached(s, &disk_wait_ns,
				      NULL); /* it may be over before the next tick */
	json_begin_object(j);
	json_key_string(j, "job_id", job_id);
	json_key_i64(j, "attempt", attempt_num);
	json_end_object(j);
	return 0;
}

/* ---- the method ---- */

/* The start time is taken once: from here on the pid alone means nothing. */
static int job_attach(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct attach_params params = { 0 };
	struct process_facts facts;
	int r = rpc_call_read(call, attach_fields, ARRAY_SIZE(attach_fields), &params, err);

	if (r < 0)
		return r;
	service_look(s);
	r = check_job(s, rpc_call_peer(call), params.job_id, err);
	if (r < 0)
		return r;
	r = process_facts_read(s->root_fd, (pid_t)params.pid, &facts);
	if (r < 0)
		return err_set(err, -ENOENT, "there is no process %llu",
			       (unsigned long long)params.pid);
	r = check_all(s, rpc_call_peer(call), &facts, err);
	return r < 0 ? r : begin(s, &facts, params.job_id, call, err);
}

const struct rpc_method service_attach_methods[] = {
	{ "job.attach", job_attach, RPC_FOR_ALL },
	{ 0 },
};

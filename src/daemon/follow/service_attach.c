#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

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

static int check_free(struct service *s, const struct rpc_peer *peer, pid_t pid, struct err *err)
{
	const struct watched *job = service_job_of(s, pid);

	if (!job)
		return 0;
	if (!service_may_read(s, peer, job->a.uid)) /* of others' jobs not even the name is told */
		return err_set(err, -EEXIST, "pid %d belongs to a job already", pid);
	return err_set(err, -EEXIST, "pid %d belongs to the job %s already", pid, job->job_id);
}

/* Each is looked at out of turn when it begins and when it is cancelled, and all of it is for us
 * to write down. */
#define ATTACHED_PER_USER 64
#define MAX_ANCESTORS 1024

/* What costs the least comes first: who may not attach it has nothing looked at for them. */
static int check(struct service *s, const struct rpc_peer *peer, const struct process_facts *facts,
		 struct err *err)
{
	struct process_facts above = { .ppid = getpid() };
	int pid = facts->key.pid, r;
	size_t n, n_attached = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	if (pid == 1)
		return err_set(err, -EINVAL, "pid 1 is the host's own: it is no job");
	if (pid == getpid())
		return err_set(err, -EINVAL, "pid %d is the daemon itself", pid);
	if (facts->is_kernel)
		return err_set(err, -EINVAL, "pid %d is a thread of the kernel: it is no job", pid);
	if (facts->state == 'Z' || facts->state == 'X')
		return err_set(err, -ENOENT, "pid %d has ended", pid);
	for (int i = 0; i < MAX_ANCESTORS && above.ppid > 0; i++)
		if (above.ppid == pid)
			return err_set(err, -EINVAL, "the daemon itself runs below pid %d", pid);
		else if (process_facts_read(s->root_fd, above.ppid, &above) < 0)
			break;

	/* All its users must be the caller: a program of another user's is that user's, whoever
	 * began it. */
	if (peer->uid != 0 && (facts->uid != peer->uid || !facts->is_pure))
		return err_set(err, -EPERM, "pid %d is another user's", pid);
	if (geteuid() != 0 && facts->uid != geteuid())
		return err_set(err, -EPERM,
			       "pid %d is another user's than the daemon's, which may not end it",
			       pid);
	r = check_free(s, peer, pid, err);
	for (size_t i = 0; i < n; i++)
		n_attached += jobs[i]->a.is_attached && jobs[i]->a.uid == peer->uid;
	if (r == 0 && !service_is_owner(peer) && n_attached >= ATTACHED_PER_USER)
		return err_set(err, -EBUSY, "one user may have %d trees attached at a time",
			       ATTACHED_PER_USER);
	if (r == 0)
		r = guest_check_share(s, peer, err);
	if (r < 0)
		return r;
	service_rescan(s); /* it may be of a job whose other processes have ended since */
	return check_free(s, peer, pid, err);
}

/* ---- attaching ---- */

static void describe(const struct service *s, const struct process_facts *facts, const char *job_id,
		     struct attempt *a)
{
	static const char kind[] = "attached";
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	char link[48], folder[PATH_MAX];
	ssize_t n;

	a->job_id = arena_strdup(&a->arena, job_id);
	if (sources_read_command(s->root_fd, facts->key.pid, s->settings.mask, &command) == 0)
		a->command = arena_strdup(&a->arena, command.data);
	/* Not the hash that a run of the same command has: only a part of this one was seen. */
	a->argv_hash = hash_bytes(HASH_INIT, kind, sizeof(kind));
	if (a->command)
		a->argv_hash = hash_bytes(a->argv_hash, a->command, strlen(a->command));
	a->uid = facts->uid;
	a->host = own_host(&a->arena);
	snprintf(link, sizeof(link), "/proc/%d/cwd", (int)facts->key.pid);
	n = readlink(link, folder, sizeof(folder));
	a->workdir = n > 0 ? arena_strndup(&a->arena, folder, (size_t)n) : NULL;
	memcpy(a->boot_id, s->record.boot_id, sizeof(a->boot_id));
	a->pid_ns = own_pid_ns();
	a->runner = facts->key;
	a->is_attached = true;
	a->is_running = true;
	a->interval_seconds = s->interval_seconds;
	a->clock = clock_read_quality();
	/* It began when the process did, although nobody looked at it then. */
	a->started_wall_ns = U64_UNKNOWN;
	for (size_t i = 0; i < s->scan.snap.n_processes; i++)
		if (s->scan.snap.processes[i].key.pid == facts->key.pid &&
		    s->scan.snap.processes[i].key.start_ticks == facts->key.start_ticks)
			a->started_wall_ns = s->scan.snap.processes[i].start_wall_ns;
}

/* Answered when its log is made. The start time is taken once: from there on the pid alone means
 * nothing. */
int method_job_attach(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct attach_params params = { 0 };
	struct job_params named = JOB_PARAMS_INIT;
	struct found_job found;
	struct process_facts facts;
	struct attached *at;
	struct json *j;
	uint64_t disk_wait_ns = 0;
	int attempt_num,
		r = rpc_call_read(call, attach_fields, ARRAY_SIZE(attach_fields), &params, err);

	attempt_init(&a);
	if (r < 0)
		return r;
	service_look(s);
	named.job_id = params.job_id;
	if (!job_id_is_valid(params.job_id))
		return err_set(err, -EINVAL, "'%.150s' cannot be the id of a job", params.job_id);
	if (service_find_job(s, peer, &named, SERVICE_READ, &found))
		return err_set(err, -EEXIST, "a job %s is there already", params.job_id);
	if (process_facts_read(s->root_fd, (pid_t)params.pid, &facts) < 0)
		return err_set(err, -ENOENT, "there is no process %llu",
			       (unsigned long long)params.pid);
	r = check(s, peer, &facts, err);
	if (r < 0)
		return r;
	describe(s, &facts, params.job_id, &a);
	r = attached_begin(s, &a, &at, err);
	if (r < 0)
		return r;
	attempt_num = at->begin.attempt_num;
	service_look(s);
	service_rescan(s);
	(void)service_settle_life(s, NULL);
	(void)service_record_attached(s, &disk_wait_ns,
				      NULL); /* it may be over before the next tick */
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", params.job_id);
	json_key_i64(j, "attempt", attempt_num);
	json_end_object(j);
	return 0;
}

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/caller.h"
#include "daemon/guest.h"
#include "daemon/own.h"
#include "daemon/service_guest.h"
#include "daemon/service_follow.h"
#include "daemon/service_tell.h"
#include "daemon/service_work.h"

struct hello_params {
	const char *job_id;
	uint64_t attempt;
	uint64_t device, inode; /* of the database that the runner writes to */
	double interval_seconds;
	bool keeps_calls;	     /* counts its system calls itself, or nobody is to */
	bool wants_calls;	     /* they are to be counted before the answer */
	const struct rpc_value *job; /* all about it, for who does not have that database */
};

static const struct rpc_field hello_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct hello_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct hello_params, attempt), .is_required = true },
	{ "device", RPC_U64, offsetof(struct hello_params, device), .is_required = false },
	{ "inode", RPC_U64, offsetof(struct hello_params, inode), .is_required = false },
	{ "interval_seconds", RPC_F64, offsetof(struct hello_params, interval_seconds),
	  .is_required = true },
	{ "keeps_calls", RPC_BOOL, offsetof(struct hello_params, keeps_calls),
	  .is_required = false },
	{ "wants_calls", RPC_BOOL, offsetof(struct hello_params, wants_calls),
	  .is_required = false },
	{ "job", RPC_OBJECT, offsetof(struct hello_params, job), .is_required = false },
};

static bool is_own_database(const struct service *s, const struct hello_params *params)
{
	struct stat st;

	return s->store && stat(s->options->paths->db, &st) == 0 &&
	       (uint64_t)st.st_dev == params->device && (uint64_t)st.st_ino == params->inode;
}

/* The runner's own: a job may run twice at once. NULL: it runs none that is in our database. */
static struct watched *find_own(struct service *s, const struct rpc_peer *peer,
				const struct hello_params *params)
{
	struct watched *job =
		is_own_database(s, params) ? service_find_own_job(s, peer, params->job_id) : NULL;

	return job && (uint64_t)job->a.attempt_num == params->attempt ? job : NULL;
}

void guest_identify(const struct service *s, const struct rpc_peer *peer,
		    const struct proc_key *key, struct attempt *a)
{
	uint64_t now = clock_wall_ns(), booted = now - clock_boot_ns();

	a->uid = peer->uid;
	a->runner = *key;
	a->clock = clock_read_quality();
	memcpy(a->boot_id, s->record.boot_id, sizeof(a->boot_id));
	a->pid_ns = own_pid_ns();
	a->host = own_host(&a->arena);
	if (!u64_known(a->started_wall_ns) || a->started_wall_ns < booted)
		a->started_wall_ns = now;
}

static int find_begun(struct service *s, int64_t id, struct watched **ret, struct err *err)
{
	*ret = watch_find_attempt(s->watch, id);
	return *ret ? 0 : err_set(err, -EBUSY, "the job cannot be watched now");
}

static int begin_guest(struct service *s, const struct rpc_peer *peer, const struct proc_key *key,
		       struct attempt *a, struct watched **ret, struct err *err)
{
	int r = guest_check_share(s, peer, err);

	if (r < 0)
		return r;
	guest_bound_sheets(s, peer->uid, NULL, a);
	guest_identify(s, peer, key, a);
	r = store_begin_attempt(s->store, a, err);
	if (r < 0)
		return r;
	service_look(s);
	return find_begun(s, a->id, ret, err);
}

/* It is there again: what was told before stays, what has changed since is written. */
static int rejoin(struct service *s, uid_t uid, const struct watched *job, struct attempt *a,
		  struct err *err)
{
	int r;

	if (job->a.uid != uid || strcmp(job->job_id, a->job_id) != 0)
		return err_set(err, -EEXIST, "this process runs the job %s already", job->job_id);
	a->id = job->a.id;
	guest_bound_sheets(s, uid, &job->a, a);
	r = store_write_sheets(s->store, a, a->sheets, a->n_sheets, err);
	service_look(s);
	return r;
}

/*
 * One that nobody watches, and that is in the database all the same: it was begun when the
 * database could not be looked at, or its end was told before an older word of its beginning was
 * heard. It does not begin twice.
 */
static int find_or_begin(struct service *s, const struct rpc_peer *peer, const struct proc_key *key,
			 struct attempt *a, struct err *err)
{
	struct watched *job = watch_find_runner(s->watch, key);
	bool is_over = false;
	int r = job ? 0 : guest_find_attempt(s, peer->uid, key, a, &is_over, err);

	if (r == 0 && is_over)
		return err_set(err, -EEXIST, "the job %s is over already", a->job_id);
	if (r == 0 && !job)
		r = find_begun(s, a->id, &job, err);
	if (r == -ENOENT)
		return begin_guest(s, peer, key, a, &job, err);
	return r < 0 ? r : rejoin(s, peer->uid, job, a, err);
}

static int receive(struct service *s, struct rpc_call *call, const struct hello_params *params,
		   bool *ret_counts, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct watched *job;
	struct proc_key key;
	int r = service_need_store(s, err);

	attempt_init(&a);
	if (r == 0)
		r = caller_find_process(peer, &key, err);
	if (r == 0)
		r = guest_read(params->job, clock_wall_ns(), &a, err);
	if (r < 0)
		return r;
	a.is_running = true; /* the end is told when we know it */
	r = find_or_begin(s, peer, &key, &a, err);
	if (r < 0)
		return r;
	job = watch_find_attempt(s->watch,
				 a.id); /* after the last look, maybe at another database */
	if (!job || job->a.uid != peer->uid || strcmp(job->job_id, a.job_id) != 0)
		return err_set(err, -EEXIST, "the job %s is over already", a.job_id);
	if (params->keeps_calls)
		service_leave_calls_of(s, job);
	if (params->wants_calls)
		*ret_counts = service_count_calls_now(s, job);
	return guest_hold_line(s, call, job, true, err);
}

/* *ret_records: its ticks are written by us, as it wants them no more often, and knows nothing to
 * write there that we do not. One whose command waits to be counted says hello again later: at
 * first it looks more often than we do. */
static int take_over(struct service *s, struct rpc_call *call, const struct hello_params *params,
		     bool *ret_records, bool *ret_counts, struct err *err)
{
	struct watched *job = find_own(s, rpc_call_peer(call), params);

	if (job && params->keeps_calls)
		service_leave_calls_of(s, job);
	if (job && params->wants_calls)
		*ret_counts = service_count_calls_now(s, job);
	if (params->wants_calls)
		return 0;
	*ret_records =
		job && !params->keeps_calls && params->interval_seconds >= s->interval_seconds;
	return *ret_records ? guest_hold_line(s, call, job, false, err) : 0;
}

/* A runner says that it is there. */
static int runner_hello(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct hello_params params = { 0 };
	bool records = false, counts = false, is_foreign;
	struct json *j;
	int r = rpc_call_read(call, hello_fields, ARRAY_SIZE(hello_fields), &params, err);

	if (r == 0 && guest_find_by_line(s, rpc_call_peer(call)))
		r = err_set(err, -EEXIST, "this connection is a runner's already");
	if (r < 0)
		return r;
	service_look(s);
	is_foreign = params.job && !is_own_database(s, &params);
	r = is_foreign ? receive(s, call, &params, &counts, err)
		       : take_over(s, call, &params, &records, &counts, err);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_bool(j, "records", records);
	json_key_bool(j, "guest", is_foreign);
	json_key_bool(j, "counts_calls", counts);
	json_key_f64(j, "interval_seconds", s->interval_seconds);
	json_end_object(j);
	return 0;
}

const struct rpc_method service_hello_methods[] = {
	{ "runner.hello", runner_hello, RPC_FOR_ALL },
	{ 0 },
};

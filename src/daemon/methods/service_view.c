#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "recorder/recorder.h"

/* What goes on at the moment, as far as the peer may see it. */

/* ---- what a process, a job or the host uses at the moment ---- */

static void write_host(struct json *j, const struct service *s)
{
	const struct system_sample *now = &s->scan.snap.system;
	double share =
		s->scan.has_host_before ? system_cpu_share(&s->scan.host_before, now) : F64_UNKNOWN;

	json_key_f64(j, "rss_mb", u64_to_mb(now->memory_used_bytes));
	json_key_f64(j, "cpu_pct", 100 * share * now->cpu_count);
	json_key_f64(j, "load_avg_1", now->load1);
}

static void write_point(struct json *j, const struct series_point *point)
{
	json_key_f64(j, "rss_mb", u64_to_mb(point->rss_bytes));
	json_key_f64(j, "cpu_pct", point->cpu_percent);
	json_key_u64(j, "processes", point->n_processes);
}

/* Whether the peer may know of what goes on in a job. */
static bool is_shown(const struct service *s, const struct rpc_peer *peer, const struct episode *e)
{
	const struct watched *job = watch_find_attempt(s->watch, e->attempt_id);

	return peer && service_may_read(s, peer, job ? job->a.uid : U64_UNKNOWN);
}

/* Those of the host and of the attempt; where that is 0, of all jobs that the peer may see. */
static void write_active(struct json *j, const struct service *s, const struct rpc_peer *peer,
			 int64_t attempt_id)
{
	const struct episode *e;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	json_key(j, "anomalies_active");
	json_begin_array(j);
	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		if (!e->worst.job_id ||
		    (attempt_id ? e->attempt_id == attempt_id : is_shown(s, peer, e)))
			json_str(j, anomaly_type_name(e->worst.type));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < jobs[i]->n_active; k++)
			if (attempt_id ? jobs[i]->a.id == attempt_id
				       : peer && service_may_read(s, peer, jobs[i]->a.uid))
				json_str(j, anomaly_type_name(jobs[i]->active[k].type));
	json_end_array(j);
}

/* By the last look. Two users may have jobs of one name. */
static bool is_of_job(const struct service *s, size_t i, const struct watched *job)
{
	int owner = s->scan.snap.processes[i].job_id ? membership_owner(s->scan.membership, i) : -1;

	return owner >= 0 && s->assigned.uids[owner] == job->a.uid &&
	       strcmp(s->scan.snap.processes[i].job_id, job->job_id) == 0;
}

/* "read 53%": the call with the most time on a CPU, and its share in that of all. */
static void write_hottest(struct json *j, struct call_sums *sums)
{
	double total_ns = 0;
	char text[128];

	call_sums_sort(sums);
	for (size_t i = 0; i < sums->n; i++)
		total_ns += u64_known(sums->uses[i].cpu_ns) ? (double)sums->uses[i].cpu_ns : 0;
	if (sums->n == 0 || !u64_known(sums->uses[0].cpu_ns) || !(total_ns > 0)) {
		json_key_string(j, "syscall_hotspot", NULL);
		return;
	}
	snprintf(text, sizeof(text), "%s %.0f%%", sums->uses[0].name,
		 100 * (double)sums->uses[0].cpu_ns / total_ns);
	json_key_string(j, "syscall_hotspot", text);
}

/* Of the process, or of all of the job, since the look before; null where nobody counts. */
static void write_hotspot(struct json *j, const struct service *s, const struct watched *job,
			  const struct proc_sample *p)
{
	CLEANUP(call_sums_release)
	struct call_sums sums = { .is_sampled = s->syscalls.time_every > 1 };

	if (p)
		call_sums_add(&sums, p->syscalls, p->n_syscalls);
	for (size_t i = 0; !p && job && s->scan.has_snap && i < s->scan.snap.n_processes; i++)
		if (is_of_job(s, i, job))
			call_sums_add(&sums, s->scan.snap.processes[i].syscalls,
				      s->scan.snap.processes[i].n_syscalls);
	write_hottest(j, &sums);
}

static void write_rest(struct json *j, const struct service *s, const struct rpc_peer *peer,
		       int64_t attempt_id)
{
	write_active(j, s, peer, attempt_id);
	json_key_f64(j, "daemon_rss_mb", u64_to_mb(s->scan.snap.daemon_rss_bytes));
	json_key_string(j, "pressure_level", s->scan.snap.pressure_level);
	json_key_f64(j, "system_memory_available_mb",
		     u64_to_mb(s->scan.snap.system.memory_available_bytes));
}

void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p)
{
	json_begin_object(j);
	if (p) {
		json_key_i64(j, "pid", p->key.pid);
		json_key_f64(j, "rss_mb", u64_to_mb(p->rss_bytes));
		json_key_f64(j, "cpu_pct", p->cpu_percent);
	} else {
		write_host(j, s);
	}
	write_hotspot(j, s, NULL, p);
	write_rest(j, s, peer, p ? p->attempt_id : 0);
	json_end_object(j);
}

/* Whether that tick was in this sheet; of a job, in its last one. */
static bool is_point_of(const struct series_point *point, const struct watched *job,
			const struct sheet_record *sheet)
{
	const struct attempt *a = &job->a;
	const struct sheet_record *of = sheet	      ? sheet
					: a->n_sheets ? &a->sheets[a->n_sheets - 1]
						      : NULL;
	uint64_t began = of ? of->started_wall_ns : a->started_wall_ns;
	uint64_t ended = of ? of->ended_wall_ns : a->ended_wall_ns;

	return u64_known(began) && point->wall_ns >= began && point->wall_ns <= ended;
}

/* The last tick; where that has shown that nothing is left, which may be how the end was noticed,
 * the last that showed something. */
static const struct series_point *find_point(const struct watched *job)
{
	return job->point.n_processes > 0 || job->lived.n_processes == 0 ? &job->point
									 : &job->lived;
}

/* A sheet that has just begun, or was over before a tick came, has used nobody knows how much. */
void service_write_change_context(struct json *j, const struct service *s,
				  const struct watched *job, const struct sheet_record *sheet)
{
	static const struct series_point unknown = { .rss_bytes = U64_UNKNOWN,
						     .cpu_percent = F64_UNKNOWN,
						     .n_processes = U64_UNKNOWN };
	const struct series_point *point = find_point(job);
	bool is_of_it = is_point_of(point, job, sheet);

	json_begin_object(j);
	write_point(j, is_of_it ? point : &unknown);
	write_hotspot(j, s, is_of_it ? job : NULL, NULL);
	write_rest(j, s, NULL, job->a.id);
	json_end_object(j);
}

/* ---- snapshots ---- */

/* Whose job process number i of the last snapshot is of; U64_UNKNOWN: of none. */
static uint64_t uid_of_process(const struct service *s, size_t i)
{
	int owner = s->scan.snap.processes[i].job_id ? membership_owner(s->scan.membership, i) : -1;

	return owner >= 0 ? s->assigned.uids[owner] : U64_UNKNOWN;
}

static void release_shown(struct snapshot *shown)
{
	free(shown->processes);
	free(shown->progress);
}

/* The host, and the jobs of one user. All but its two arrays is that of the last snapshot. */
static int show_to(const struct service *s, uid_t uid, struct snapshot *ret)
{
	const struct snapshot *snap = &s->scan.snap;

	*ret = *snap;
	ret->n_processes = ret->n_progress = 0;
	ret->active_sheets = 0;
	ret->processes = reallocarray(NULL, snap->n_processes + 1, sizeof(*ret->processes));
	ret->progress = reallocarray(NULL, snap->n_progress + 1, sizeof(*ret->progress));
	if (!ret->processes || !ret->progress)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (uid_of_process(s, i) == uid)
			ret->processes[ret->n_processes++] = snap->processes[i];
	for (size_t i = 0; i < snap->n_progress; i++) { /* in the order of the roots */
		if (s->assigned.uids[i] != uid)
			continue;
		ret->active_sheets += snap->progress[i].current_sheet != SHEET_NONE;
		ret->progress[ret->n_progress++] = snap->progress[i];
	}
	ret->running_jobs = (int)ret->n_progress;
	return 0;
}

int service_write_shown(const struct service *s, uid_t uid, struct json *j)
{
	CLEANUP(release_shown) struct snapshot shown = { 0 };
	int r = show_to(s, uid, &shown);

	if (r == 0)
		snapshot_write_json(j, &shown, SNAPSHOT_JOBS);
	return r;
}

const struct buf *service_snapshot_json(struct service *s)
{
	struct json j;

	if (s->clients.has_snapshot_json)
		return &s->clients.snapshot_json;
	buf_reset(&s->clients.snapshot_json);
	json_init(&j, &s->clients.snapshot_json);
	snapshot_write_json(&j, &s->scan.snap, SNAPSHOT_JOBS);
	s->clients.has_snapshot_json = buf_error(&s->clients.snapshot_json) == 0;
	return &s->clients.snapshot_json;
}

static int daemon_top(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct service *s = ctx;
	int r = rpc_call_read(call, NULL, 0, NULL, err);

	if (r < 0)
		return r;
	if (!s->scan.has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (service_reads_all(s, peer)) {
		const struct buf *json = service_snapshot_json(s);

		if (buf_error(json) < 0)
			return err_set(err, -ENOMEM, "no memory left for a snapshot");
		json_raw(rpc_call_result(call), json->data, json->len);
		return 0;
	}
	if (service_write_shown(s, peer->uid, rpc_call_result(call)) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	return 0;
}

/* ---- contexts ---- */

struct context_params {
	uint64_t pid;
};

static const struct rpc_field context_fields[] = {
	{ "pid", RPC_U64, offsetof(struct context_params, pid), .min = 1, .max = 4194304 },
};

/* One of a job that the peer may read. */
static const struct proc_sample *find_process(const struct service *s, const struct rpc_peer *peer,
					      uint64_t pid)
{
	for (size_t i = 0; i < s->scan.snap.n_processes; i++)
		if ((uint64_t)s->scan.snap.processes[i].key.pid == pid)
			return s->scan.snap.processes[i].job_id &&
					       service_may_read(s, peer, uid_of_process(s, i))
				       ? &s->scan.snap.processes[i]
				       : NULL;
	return NULL;
}

static int resource_context(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct context_params params = { .pid = U64_UNKNOWN };
	const struct proc_sample *p = NULL;
	int r = rpc_call_read(call, context_fields, ARRAY_SIZE(context_fields), &params, err);

	if (r < 0)
		return r;
	if (!s->scan.has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (u64_known(params.pid)) {
		p = find_process(s, rpc_call_peer(call), params.pid);
		if (!p)
			return err_set(err, -ENOENT, "pid %llu is of no job that runs",
				       (unsigned long long)params.pid);
	}
	service_write_context(rpc_call_result(call), s, rpc_call_peer(call), p);
	return 0;
}

const struct rpc_method service_view_methods[] = {
	{ "daemon.top", daemon_top, RPC_FOR_ALL },
	{ "resource.context", resource_context, RPC_FOR_ALL },
	{ 0 },
};

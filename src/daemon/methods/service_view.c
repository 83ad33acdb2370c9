#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

/* What goes on at the moment, as far as the peer may see it. */

/* ---- what a process, a job or the host uses at the moment ---- */

/* "read 53%": the call with the most time on a CPU, and its share in that of all. Of the process,
 * or of all of the job, since the look before; null where nobody counts. */
static void write_hotspot(struct json *j, const struct service *s, const struct watched *job,
			  const struct proc_sample *p)
{
	CLEANUP(call_sums_release)
	struct call_sums sums = { .is_sampled = s->syscalls.time_every > 1 };
	const struct snapshot *snap = &s->scan.snap;
	double total_ns = 0;
	char text[128];

	if (p)
		call_sums_add(&sums, p->syscalls, p->n_syscalls);
	for (size_t i = 0; !p && job && s->scan.has_snap && i < snap->n_processes; i++)
		if (snap->processes[i].job_id && snap->processes[i].attempt_id == job->a.id)
			call_sums_add(&sums, snap->processes[i].syscalls,
				      snap->processes[i].n_syscalls);
	call_sums_sort(&sums);
	for (size_t i = 0; i < sums.n; i++)
		total_ns += u64_known(sums.uses[i].cpu_ns) ? (double)sums.uses[i].cpu_ns : 0;
	if (sums.n == 0 || !u64_known(sums.uses[0].cpu_ns) || !(total_ns > 0)) {
		json_key_string(j, "syscall_hotspot", NULL);
		return;
	}
	snprintf(text, sizeof(text), "%s %.0f%%", sums.uses[0].name,
		 100 * (double)sums.uses[0].cpu_ns / total_ns);
	json_key_string(j, "syscall_hotspot", text);
}

/* Anomalies of the host and of the attempt, or (0) of all jobs that the peer may see; and what else
 * is the same in all contexts. */
static void write_rest(struct json *j, const struct service *s, const struct rpc_peer *peer,
		       int64_t attempt_id)
{
	const struct episode *e;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	json_key(j, "anomalies_active");
	json_begin_array(j);
	for (size_t i = 0; (e = detect_active(s->detect, i)); i++) {
		const struct watched *job = watch_find_attempt(s->watch, e->attempt_id);

		if (!e->worst.job_id ||
		    (attempt_id
			     ? e->attempt_id == attempt_id
			     : peer && service_may_read(s, peer, job ? job->a.uid : U64_UNKNOWN)))
			json_str(j, anomaly_type_name(e->worst.type));
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < jobs[i]->n_active; k++)
			if (attempt_id ? jobs[i]->a.id == attempt_id
				       : peer && service_may_read(s, peer, jobs[i]->a.uid))
				json_str(j, anomaly_type_name(jobs[i]->active[k].type));
	json_end_array(j);
	json_key_f64(j, "daemon_rss_mb", u64_to_mb(s->scan.snap.daemon_rss_bytes));
	json_key_string(j, "pressure_level", s->scan.snap.pressure_level);
	json_key_f64(j, "system_memory_available_mb",
		     u64_to_mb(s->scan.snap.system.memory_available_bytes));
}

void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p)
{
	const struct system_sample *now = &s->scan.snap.system;
	double share =
		s->scan.has_host_before ? system_cpu_share(&s->scan.host_before, now) : F64_UNKNOWN;

	json_begin_object(j);
	if (p) {
		json_key_i64(j, "pid", p->key.pid);
		json_key_f64(j, "rss_mb", u64_to_mb(p->rss_bytes));
		json_key_f64(j, "cpu_pct", p->cpu_percent);
	} else {
		json_key_f64(j, "rss_mb", u64_to_mb(now->memory_used_bytes));
		json_key_f64(j, "cpu_pct", 100 * share * now->cpu_count);
		json_key_f64(j, "load_avg_1", now->load1);
	}
	write_hotspot(j, s, NULL, p);
	write_rest(j, s, peer, p ? p->attempt_id : 0);
	json_end_object(j);
}

/* A sheet that has just begun, or was over before a tick came, has used nobody knows how much. */
void service_write_change_context(struct json *j, const struct service *s,
				  const struct watched *job, const struct sheet_record *sheet)
{
	static const struct series_point unknown = { .rss_bytes = U64_UNKNOWN,
						     .cpu_percent = F64_UNKNOWN,
						     .n_processes = U64_UNKNOWN };
	const struct attempt *a = &job->a;
	/* Whether the tick was in this sheet; of a job, in its last one. */
	const struct sheet_record *of = sheet	      ? sheet
					: a->n_sheets ? &a->sheets[a->n_sheets - 1]
						      : NULL;
	uint64_t began = of ? of->started_wall_ns : a->started_wall_ns;
	uint64_t ended = of ? of->ended_wall_ns : a->ended_wall_ns;
	/* The last tick; where that has shown that nothing is left, which may be how the end was
	 * noticed, the last that showed something. */
	const struct series_point *point = job->point.n_processes > 0 || job->lived.n_processes == 0
						   ? &job->point
						   : &job->lived;
	bool is_of_it = u64_known(began) && point->wall_ns >= began && point->wall_ns <= ended;

	point = is_of_it ? point : &unknown;
	json_begin_object(j);
	json_key_f64(j, "rss_mb", u64_to_mb(point->rss_bytes));
	json_key_f64(j, "cpu_pct", point->cpu_percent);
	json_key_u64(j, "processes", point->n_processes);
	write_hotspot(j, s, is_of_it ? job : NULL, NULL);
	write_rest(j, s, NULL, job->a.id);
	json_end_object(j);
}

/* ---- snapshots ---- */

/* Whose job process number i of the last snapshot is of; U64_UNKNOWN: of none. Jobs stand in the
 * order in which they were assigned. */
static uint64_t uid_of_process(const struct service *s, size_t i)
{
	const struct snapshot *snap = &s->scan.snap;
	int owner = snap->processes[i].job_id ? membership_owner(s->scan.membership, i) : -1;

	return owner >= 0 && (size_t)owner < snap->n_progress ? snap->progress[owner].uid
							      : U64_UNKNOWN;
}

/* The host, and the jobs of one user. All but its two arrays is that of the last snapshot. */
int service_write_shown(const struct service *s, uid_t uid, struct json *j)
{
	const struct snapshot *snap = &s->scan.snap;
	CLEANUP(free_ptr)
	struct proc_sample *processes =
		reallocarray(NULL, snap->n_processes + 1, sizeof(*processes));
	CLEANUP(free_ptr)
	struct job_progress *progress = reallocarray(NULL, snap->n_progress + 1, sizeof(*progress));
	struct snapshot shown = *snap;

	if (!processes || !progress)
		return -ENOMEM;
	shown.processes = processes;
	shown.progress = progress;
	shown.n_processes = shown.n_progress = 0;
	shown.active_sheets = 0;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (uid_of_process(s, i) == uid)
			processes[shown.n_processes++] = snap->processes[i];
	for (size_t i = 0; i < snap->n_progress; i++) {
		if (snap->progress[i].uid != uid)
			continue;
		shown.active_sheets += snap->progress[i].current_sheet != SHEET_NONE;
		progress[shown.n_progress++] = snap->progress[i];
	}
	shown.running_jobs = (int)shown.n_progress;
	snapshot_write_json(j, &shown, SNAPSHOT_JOBS);
	return 0;
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

int method_daemon_top(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct service *s = ctx;

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

int method_resource_context(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct snapshot *snap = &s->scan.snap;
	struct context_params params = { .pid = U64_UNKNOWN };
	const struct proc_sample *p = NULL;
	int r = rpc_call_read(call, context_fields, ARRAY_SIZE(context_fields), &params, err);

	if (r < 0)
		return r;
	if (!s->scan.has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	/* One of a job that the peer may read. */
	for (size_t i = 0; u64_known(params.pid) && i < snap->n_processes; i++)
		if ((uint64_t)snap->processes[i].key.pid == params.pid &&
		    snap->processes[i].job_id &&
		    service_may_read(s, rpc_call_peer(call), uid_of_process(s, i)))
			p = &snap->processes[i];
	if (u64_known(params.pid) && !p)
		return err_set(err, -ENOENT, "pid %llu is of no job that runs",
			       (unsigned long long)params.pid);
	service_write_context(rpc_call_result(call), s, rpc_call_peer(call), p);
	return 0;
}

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

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

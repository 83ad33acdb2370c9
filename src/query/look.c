#include "query/query.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "jobs/jobs.h"
#include "sources/sources.h"

int look_open(struct look *l, const struct look_options *options, struct err *err)
{
	struct gpus_options gpus = { .at_once = true,
				     .interval_seconds = options->interval_seconds };
	struct collector_options sources = { .mask = options->mask,
					     .want_ebpf = options->want_ebpf };
	int r;

	*l = (struct look){ .root_fd = proc_open_root(err) };
	if (l->root_fd < 0)
		return l->root_fd;
	gpus.root_fd = sources.root_fd = l->root_fd;
	if (options->reads_gpus)
		gpus_open(&gpus, &l->gpus, NULL); /* without, none are seen */
	sources.gpus = l->gpus;
	r = collector_new(&sources, &l->collector, err);
	if (r < 0)
		look_close(l);
	return r;
}

void look_close(struct look *l)
{
	collector_free(l->collector);
	gpus_close(l->gpus);
	attempt_list_release(&l->running);
	if (l->root_fd >= 0)
		close(l->root_fd);
	*l = (struct look){ .root_fd = -1 };
}

/*
 * Marks the processes of a scan that belong to these attempts, and adds the progress of their jobs.
 * With a tracker of its own each time: the record may be late with the sheet that runs, and what
 * was marked by it then must not stay. -ENOMEM.
 */
static int assign(struct snapshot *snap, const struct attempt_list *attempts)
{
	struct membership_job *jobs = arena_alloc(&snap->arena, (attempts->n + 1) * sizeof(*jobs));
	struct membership *membership = membership_new();
	int r = jobs && membership ? 0 : -ENOMEM;

	snap->progress = arena_alloc(&snap->arena, (attempts->n + 1) * sizeof(*snap->progress));
	if (!snap->progress)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < attempts->n; i++) {
		const struct attempt *a = &attempts->items[i];
		const char *job_id;

		if (!a->is_running)
			continue; /* it is lost */
		job_id = arena_strdup(&snap->arena, a->job_id);
		if (!job_id)
			r = -ENOMEM;
		jobs[snap->n_progress] = (struct membership_job){
			.kind = a->is_attached ? MEMBERSHIP_ATTACHED : MEMBERSHIP_RUNNER,
			.root = a->runner,
			.job_id = job_id,
			.attempt_id = a->id,
			.sheet_num = a->current_sheet,
		};
		snap->active_sheets += a->current_sheet != SHEET_NONE;
		snap->progress[snap->n_progress++] = (struct job_progress){
			.job_id = job_id,
			.attempt_id = a->id,
			.total_sheets = a->total_sheets,
			.last_completed_sheet = a->last_completed_sheet,
			.current_sheet = a->current_sheet,
			.status = attempt_status_name(a),
			.attempt_num = a->attempt_num,
			.uid = a->uid,
		};
	}
	snap->running_jobs = (int)snap->n_progress;
	if (r == 0)
		r = membership_set_jobs(membership, jobs, snap->n_progress);
	if (r == 0)
		r = membership_scan(membership, snap, MEMBERSHIP_FORGET_MISSING, NULL);
	membership_free(membership);
	return r;
}

int look_take(struct look *l, struct store *store, enum snapshot_scope scope, struct snapshot *ret,
	      struct err *trouble, struct err *err)
{
	const struct attempt_filter filter = { .running_only = true };
	struct attempt_list list = { 0 };
	int r = collector_scan(l->collector, ret, err);

	if (r < 0)
		return r;
	if (store && store_list_attempts(store, &filter, &list, trouble) == 0) {
		attempt_list_release(&l->running);
		l->running = list;
	} else {
		attempt_list_release(&list);
	}
	r = assign(ret, &l->running);
	if (r < 0)
		return err_set(err, r, "cannot take a snapshot: %s", strerror(-r));
	collector_fill(l->collector, ret, scope);
	return 0;
}

/*
 * service_scan - looks at the processes of the host, and whose they are.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"

/* ---- collect: what the processes of the host do ---- */

static int collect_by(struct service *s, struct collector *collector, struct err *err)
{
	int r;

	service_drain_life(s);
	s->clients.has_snapshot_json = false;
	r = collector_scan(collector, &s->scan.snap, err);
	s->scan.has_snap = r == 0;
	return r;
}

int service_collect(struct service *s, struct err *err)
{
	s->scan.has_host_before = s->scan.has_snap;
	s->scan.host_before = s->scan.snap.system;
	return collect_by(s, s->scan.collector, err);
}

/* ---- assign: whose they are ---- */

struct membership_job service_membership_of(const struct watched *job)
{
	return (struct membership_job){
		.kind = job->a.is_attached ? MEMBERSHIP_ATTACHED : MEMBERSHIP_RUNNER,
		.root = job->a.runner,
		.job_id = job->job_id,
		.attempt_id = job->a.id,
		.sheet_num = job->a.current_sheet,
	};
}

/*
 * Samples of a job are shown to its user: what programs with rights that the user lacks have read
 * and written there is not among them.
 */
static void withhold_io(struct service *s, struct watched *const *jobs, size_t n_jobs)
{
	bool is_needed = false;

	for (size_t i = 0; i < n_jobs; i++)
		is_needed |= jobs[i]->a.uid != 0;
	for (size_t i = 0; is_needed && i < s->scan.snap.n_processes; i++) {
		struct proc_sample *p = &s->scan.snap.processes[i];
		int job = membership_owner(s->scan.membership, i);
		uint64_t uid = job >= 0 ? jobs[job]->a.uid : 0;

		if (uid == 0)
			continue;
		if (!u64_known(p->owner) && p->state == 'Z') /* its files are root's */
			p->owner = p->uid;
		else if (!u64_known(p->owner)) /* without eBPF */
			p->owner = may_see(uid, U64_UNKNOWN, s->root_fd, p->key.pid) ? uid : 0;
		if (may_see(uid, p->owner, -1, 0))
			continue;
		p->rchar = p->wchar = p->syscr = p->syscw = U64_UNKNOWN;
		p->read_bytes = p->write_bytes = U64_UNKNOWN;
	}
}

/* What a job uses at this moment: the sum over its processes. */
void service_add_to_point(struct series_point *point, const struct proc_sample *p)
{
	point->rss_bytes = u64_add_known(point->rss_bytes, p->rss_bytes);
	if (f64_known(p->cpu_percent))
		point->cpu_percent = f64_known(point->cpu_percent)
					     ? point->cpu_percent + p->cpu_percent
					     : p->cpu_percent;
	point->n_processes++;
}

/*
 * What is started for a sheet has its number in its environment, before anybody has written down
 * that it began: of a process that is too young for the record to know its sheet, and that has no
 * ancestor with one. A job's processes may say what they like there, as of their ranks; but it is
 * one of the sheets that there are, and none that is over.
 */
static void ask_sheets(struct service *s, struct watched *const *jobs)
{
	size_t n_found = 0;

	for (size_t k = 0; k < s->scan.snap.n_processes; k++) {
		struct proc_sample *p = &s->scan.snap.processes[k];
		int owner = membership_owner(s->scan.membership, k), last, num;
		const struct attempt *a = owner >= 0 ? &jobs[owner]->a : NULL;

		if (!a || p->sheet_num != SHEET_NONE || a->is_attached)
			continue;
		last = a->n_sheets ? a->sheets[a->n_sheets - 1].num : 1;
		num = sources_read_sheet(s->root_fd, p->key.pid, a->job_id);
		if (num < last || num > a->total_sheets)
			continue;
		p->sheet_num = num;
		n_found++;
	}
	if (n_found > 0)
		membership_inherit_sheets(s->scan.membership, &s->scan.snap);
}

static void add_up(struct service *s, struct watched **jobs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		jobs[i]->n_processes = jobs[i]->n_living = 0;
		if (jobs[i]->point.n_processes > 0)
			jobs[i]->lived = jobs[i]->point;
		jobs[i]->point = (struct series_point){ .wall_ns = s->scan.snap.wall_ns,
							.sheet_num = jobs[i]->a.current_sheet,
							.rss_bytes = U64_UNKNOWN,
							.cpu_percent = F64_UNKNOWN };
	}
	for (size_t k = 0; k < s->scan.snap.n_processes; k++) {
		int owner = membership_owner(s->scan.membership, k);

		if (owner < 0)
			continue;
		s->scan.snap.processes[k].sheet_num = watch_sheet_at(
			s->watch, jobs[owner], s->scan.snap.processes[k].start_wall_ns);
		service_add_to_point(&jobs[owner]->point, &s->scan.snap.processes[k]);
		jobs[owner]->n_processes++;
		jobs[owner]->n_living += s->scan.snap.processes[k].state != 'Z';
	}
	membership_inherit_sheets(s->scan.membership, &s->scan.snap);
	ask_sheets(s, jobs);
}

static void tell_progress(struct service *s, struct watched *const *jobs, size_t n)
{
	struct snapshot *snap = &s->scan.snap;

	snap->progress = arena_alloc(&snap->arena, (n + 1) * sizeof(*snap->progress));
	snap->running_jobs = (int)n;
	for (size_t i = 0; snap->progress && i < n; i++) {
		const struct attempt *a = &jobs[i]->a;

		snap->active_sheets += a->current_sheet != SHEET_NONE;
		snap->progress[snap->n_progress++] = (struct job_progress){
			.job_id = jobs[i]->job_id,
			.attempt_id = a->id,
			.total_sheets = a->total_sheets,
			.last_completed_sheet = a->last_completed_sheet,
			.current_sheet = a->current_sheet,
			.status = attempt_status_name(a),
			.attempt_num = a->attempt_num,
			.uid = a->uid,
		};
	}
}

static int assign_by(struct service *s, struct collector *collector, struct err *err)
{
	CLEANUP(free_ptr) struct membership_job *roots = NULL;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	if (!s->scan.has_snap)
		return 0;
	service_recall_attached(s);
	roots = reallocarray(NULL, n + 1, sizeof(*roots));
	if (!roots)
		return err_set(err, -ENOMEM, "no memory left to watch %zu jobs", n);
	for (size_t i = 0; i < n; i++)
		roots[i] = service_membership_of(jobs[i]);
	if (membership_set_jobs(s->scan.membership, roots, n) < 0 ||
	    membership_scan(s->scan.membership, &s->scan.snap,
			    s->life.life ? MEMBERSHIP_KEEP_ONCE : MEMBERSHIP_FORGET_MISSING,
			    NULL) < 0)
		return err_set(err, -ENOMEM, "no memory left to tell whose each process is");
	watch_drop_ended(s->watch);
	collector_fill(collector, &s->scan.snap, SNAPSHOT_JOBS);
	withhold_io(s, jobs, n);
	add_up(s, jobs, n);
	tell_progress(s, jobs, n);
	return 0;
}

int service_assign(struct service *s, struct err *err)
{
	return assign_by(s, s->scan.collector, err);
}

/* ---- judge: how the host and the daemon itself are ---- */

int service_judge(struct service *s, struct err *err)
{
	const struct config_limits *c = &s->settings.config->limits;
	const struct pressure_limits limits = {
		.memory_bytes = c->max_memory_mb ? c->max_memory_mb << 20 : U64_UNKNOWN,
		.processes = c->max_processes ? c->max_processes : U64_UNKNOWN,
	};

	(void)err;
	if (!s->scan.has_snap) {
		pressure_cannot_tell(&s->pressure);
		return 0;
	}
	pressure_judge(&s->scan.snap.system, &limits, &s->pressure);
	s->scan.snap.pressure_level = pressure_name(s->pressure.level);
	s->scan.snap.daemon_pid = getpid();
	s->scan.snap.daemon_rss_bytes = sources_read_rss(s->root_fd, getpid());
	s->scan.snap.daemon_uptime_seconds =
		clock_ns_to_seconds(clock_boot_ns() - s->ticking.started_boot_ns);
	return 0;
}

/*
 * With a collector of its own: what the ticks tell of CPU time is what was used between two
 * ticks, however shortly before one somebody else has looked.
 */
void service_rescan(struct service *s)
{
	/* Loading the program takes longer than some looks do. */
	const struct collector_options options = { .root_fd = s->root_fd,
						   .mask = s->settings.mask,
						   .gpus = s->gpus.reader,
						   .is_between = true };
	struct err err = ERR_INIT;
	int r = s->scan.between ? 0 : collector_new(&options, &s->scan.between, &err);
	if (r == 0)
		r = collect_by(s, s->scan.between, &err);
	if (r == 0)
		r = assign_by(s, s->scan.between, &err);
	if (r == 0)
		r = service_judge(s, &err); /* whoever asks for the snapshot gets this one */
	if (r < 0)
		log_warning("cannot look at the processes now: %s", err.text);
}

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* ---- look: which jobs there are ---- */

/* When a job that was attached is over is ours to say: it may outlive what was attached. */
enum store_alive service_check_alive(void *ctx, const struct attempt *a)
{
	enum store_alive alive = daemon_check_alive(ctx, a);

	return a->is_attached && alive == STORE_CANNOT_TELL ? STORE_ALIVE : alive;
}

static int try_to_open(struct service *s, struct err *err)
{
	struct stat st;
	int r = store_open_timeout(s->settings.options->paths->db, STORE_WRITE, LOOP_PATIENCE_MS,
				   &s->store, err);

	if (r < 0)
		return r;
	store_set_alive_check(s->store, service_check_alive, NULL);
	store_leave_disk(s->store);
	if (stat(s->settings.options->paths->db, &st) < 0)
		r = err_set(err, -errno, "%s is gone", s->settings.options->paths->db);
	if (r < 0) {
		s->store = store_close(s->store);
		return r;
	}
	s->database.device = st.st_dev;
	s->database.inode = st.st_ino;
	return 0;
}

static int open_store(struct service *s, struct err *err)
{
	int r = s->store ? 0 : try_to_open(s, err);

	if (r < 0 && upkeep_make_room(s->upkeep, s->settings.options->paths->db, r))
		r = try_to_open(s, err);
	return r;
}

/* What we write to a file that somebody has moved or removed nobody will find. */
static void leave_replaced(struct service *s)
{
	struct stat st;

	if (!s->store)
		return;
	if (stat(s->settings.options->paths->db, &st) == 0 && st.st_dev == s->database.device &&
	    st.st_ino == s->database.inode)
		return;
	log_error("%s was removed or replaced: another is made", s->settings.options->paths->db);
	upkeep_leave(s->upkeep);
	s->database.record_err = (struct err)ERR_INIT;
	s->anomaly.adopt_until_ns = 0; /* in the next one others may last */
	s->store = store_close(s->store);
}

static int look(struct service *s, struct err *err)
{
	int r = watch_look(s->watch, err);

	service_tend_guests(s);
	service_record_calls(s);
	return r;
}

/* ---- store: what logs have becomes rows of the database ---- */

/* A batch each minute, and before it when a job has ended or somebody reads the database. One that
 * failed is tried again at each tick. */
#define INGEST_NS UINT64_C(60000000000)

static int ingest(struct service *s, struct err *err)
{
	bool is_new;
	int r;

	leave_replaced(s);
	is_new = !s->store;
	r = open_store(s, err);
	if (r < 0) {
		s->database.err = *err;
		return r;
	}
	s->database.ingest_err = (struct err)ERR_INIT;
	s->database.ingested_boot_ns = clock_boot_ns();
	s->database.is_ingest_due = false;
	store_take_in(s->store, &s->database.ingest_err);
	if (is_new)
		service_recall_lost(s);
	return 0;
}

static int ingest_if_due(struct service *s, struct err *err)
{
	if (s->store && !s->database.is_ingest_due && s->database.ingest_err.code == 0 &&
	    clock_boot_ns() - s->database.ingested_boot_ns < INGEST_NS)
		return 0;
	return ingest(s, err);
}

int64_t service_attempt_of_row(struct service *s, int64_t row)
{
	struct stored_log stored;
	struct log_id id;
	int64_t found;

	if (row == 0 || !s->store || store_find_log_of(s->store, row, id.bytes, &stored, NULL) < 0)
		return 0;
	found = watch_id_of(s->watch, &id, stored.uid);
	return found > 0 ? found : 0;
}

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

static int collect(struct service *s, struct err *err)
{
	s->scan.has_host_before = s->scan.has_snap;
	s->scan.host_before = s->scan.snap.system;
	return collect_by(s, s->scan.collector, err);
}

/* ---- assign: whose they are ---- */

static int reserve_roots(struct service *s, size_t n)
{
	struct membership_job *roots;
	uint64_t *uids;
	size_t *n_of;

	if (n <= s->assigned.cap)
		return 0;
	uids = reallocarray(s->assigned.uids, n, sizeof(*uids));
	if (uids)
		s->assigned.uids = uids;
	roots = reallocarray(s->assigned.roots, n, sizeof(*roots));
	if (roots)
		s->assigned.roots = roots;
	n_of = reallocarray(s->assigned.n_of, n, sizeof(*n_of));
	if (n_of)
		s->assigned.n_of = n_of;
	if (!roots || !n_of || !uids)
		return -ENOMEM;
	s->assigned.cap = n;
	return 0;
}

static void list_roots(struct service *s, struct watched *const *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->assigned.roots[i] = (struct membership_job){
			.kind = jobs[i]->a.is_attached ? MEMBERSHIP_ATTACHED : MEMBERSHIP_RUNNER,
			.root = jobs[i]->a.runner,
			.job_id = jobs[i]->job_id,
			.attempt_id = jobs[i]->a.id,
			.sheet_num = jobs[i]->a.current_sheet,
		};
		s->assigned.uids[i] = jobs[i]->a.uid;
	}
}

/*
 * Samples of a job are shown to its user: what programs with rights that the user lacks have read
 * and written there is not among them.
 */
static void withhold_io(struct service *s, size_t n_jobs)
{
	bool is_needed = false;

	for (size_t i = 0; i < n_jobs; i++)
		is_needed |= s->assigned.uids[i] != 0;
	for (size_t i = 0; is_needed && i < s->scan.snap.n_processes; i++) {
		struct proc_sample *p = &s->scan.snap.processes[i];
		int job = membership_owner(s->scan.membership, i);
		uint64_t uid = job >= 0 ? s->assigned.uids[job] : 0;

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
 * Of a process that is too young for the record to know its sheet, and that has no ancestor with
 * one. A job's processes may say what they like there, as of their ranks; but it is one of the
 * sheets that there are, and none that is over.
 */
static int ask_sheet(const struct service *s, const struct watched *job,
		     const struct proc_sample *p)
{
	int last = job->a.n_sheets ? job->a.sheets[job->a.n_sheets - 1].num : 1;
	int num = sources_read_sheet(s->root_fd, p->key.pid, job->job_id);

	return num >= last && num <= job->a.total_sheets ? num : SHEET_NONE;
}

/* What is started for a sheet has its number in its environment, before anybody has written down
 * that it began. */
static void ask_sheets(struct service *s, struct watched *const *jobs)
{
	size_t n_found = 0;

	for (size_t k = 0; k < s->scan.snap.n_processes; k++) {
		struct proc_sample *p = &s->scan.snap.processes[k];
		int owner = membership_owner(s->scan.membership, k);

		if (owner < 0 || p->sheet_num != SHEET_NONE || jobs[owner]->a.is_attached)
			continue;
		p->sheet_num = ask_sheet(s, jobs[owner], p);
		n_found += p->sheet_num != SHEET_NONE;
	}
	if (n_found > 0)
		membership_inherit_sheets(s->scan.membership, &s->scan.snap);
}

static void add_up(struct service *s, struct watched **jobs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		jobs[i]->n_processes = s->assigned.n_of[i];
		jobs[i]->n_living = 0;
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
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	if (!s->scan.has_snap)
		return 0;
	if (reserve_roots(s, n) < 0)
		return err_set(err, -ENOMEM, "no memory left to watch %zu jobs", n);
	service_recall_attached(s);
	list_roots(s, jobs, n);
	if (membership_set_jobs(s->scan.membership, s->assigned.roots, n) < 0 ||
	    membership_scan(s->scan.membership, &s->scan.snap, MEMBERSHIP_FORGET_MISSING,
			    s->assigned.n_of) < 0)
		return err_set(err, -ENOMEM, "no memory left to tell whose each process is");
	watch_drop_ended(s->watch);
	collector_fill(collector, &s->scan.snap, SNAPSHOT_JOBS);
	withhold_io(s, n);
	add_up(s, jobs, n);
	tell_progress(s, jobs, n);
	return 0;
}

static int assign(struct service *s, struct err *err)
{
	return assign_by(s, s->scan.collector, err);
}

/* ---- judge: how the host and the daemon itself are ---- */

static struct pressure_limits read_limits(const struct config_limits *limits)
{
	return (struct pressure_limits){
		.memory_bytes = limits->max_memory_mb ? limits->max_memory_mb << 20 : U64_UNKNOWN,
		.processes = limits->max_processes ? limits->max_processes : U64_UNKNOWN,
	};
}

static int judge(struct service *s, struct err *err)
{
	const struct pressure_limits limits = read_limits(&s->settings.config->limits);

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

/* ---- run: jobs that wait for their turn ---- */

static int run_queue(struct service *s, struct err *err)
{
	(void)err;
	service_run_queue(s);
	return 0;
}

/* ---- record ---- */

static void note_recorded(struct service *s, int r, const struct err *err)
{
	if (r >= 0)
		s->database.record_err = (struct err)ERR_INIT;
	else if (s->database.record_err.code == 0)
		s->database.record_err_boot_ns = clock_boot_ns();
	if (r < 0)
		s->database.record_err = *err;
}

/* Trees without a runner, which would record them; what runners have logged is ingested in look().
 */
static int record(struct service *s, struct err *err)
{
	uint64_t disk_wait_ns = service_tend_host_log(s);
	int r = service_record_attached(s, &disk_wait_ns, err);

	s->stats.log_wait_ns = disk_wait_ns;
	if (!s->store)
		return r;
	upkeep_look(s->upkeep, s->store);
	if (r == 0 && s->database.ingest_err.code != 0)
		note_recorded(s, s->database.ingest_err.code, &s->database.ingest_err);
	else
		note_recorded(s, r, err);
	return r;
}

/* ---- the disk ---- */

static void sweep(void *ctx)
{
	struct service *s = ctx;

	s->database.sweep.swept =
		store_sweep(s->settings.options->paths->db, s->database.sweep.followed_wall_ns);
}

static void on_swept(void *ctx)
{
	struct service *s = ctx;

	s->database.sweep.is_under_way = false;
	s->database.sweep.last_ns = s->database.sweep.swept.wait_ns;
	if (s->store)
		store_end_sweep(s->store, &s->database.sweep.swept);
}

/* A wait for the disk that lasts longer is worth a warning. */
#define SLOW_DISK_NS UINT64_C(2000000000)

/* Another thread waits for the disk and removes logs that are stored. */
static int settle(struct service *s, struct err *err)
{
	struct sweep *sweeping = &s->database.sweep;
	uint64_t wait_ns = sweeping->is_under_way ? clock_boot_ns() - sweeping->began_boot_ns
						  : sweeping->last_ns;

	s->stats.disk_wait_ns = wait_ns > s->stats.log_wait_ns ? wait_ns : s->stats.log_wait_ns;
	if (s->store && !sweeping->is_under_way && store_wants_sweep(s->store)) {
		sweeping->began_boot_ns = clock_boot_ns();
		sweeping->followed_wall_ns = watch_looked_wall_ns(s->watch);
		sweeping->is_under_way = loop_queue_work(s->loop, sweep, on_swept, s) == 0;
		if (sweeping->is_under_way)
			store_begin_sweep(s->store);
	}
	if (s->store && store_check_disk(s->store, err) < 0)
		return err->code;
	if (s->stats.disk_wait_ns < SLOW_DISK_NS)
		return 0;
	return err_set(err, -ETIMEDOUT,
		       "the disk takes %.1f s for what is recorded: a power cut would lose what "
		       "came since",
		       clock_ns_to_seconds(s->stats.disk_wait_ns));
}

static int append_snapshot(struct service *s, struct err *err)
{
	const struct buf *json = service_snapshot_json(s);

	if (buf_error(json) < 0)
		return err_set(err, -ENOMEM, "no memory left for a line of the log");
	return jsonl_append(s->jsonl, json->data, json->len, err);
}

/* What could not be written is not kept: the samples of jobs are in the database. */
static int append_line(struct service *s, struct err *err)
{
	int r;

	if (!s->scan.has_snap || !s->jsonl)
		return 0;
	r = append_snapshot(s, err);
	if (r < 0) {
		s->stats.n_lines_lost++;
	} else if (s->stats.n_lines_lost > s->stats.n_lines_said) {
		log_warning("the log lacks %llu snapshots",
			    (unsigned long long)(s->stats.n_lines_lost - s->stats.n_lines_said));
		s->stats.n_lines_said = s->stats.n_lines_lost;
	}
	return r;
}

static int publish(struct service *s, struct err *err)
{
	(void)err;
	if (s->scan.has_snap)
		service_tell_snapshot(s);
	return 0;
}

/* ---- the tick ---- */

/* In this order. One that fails does not keep the others from their work. */
static const struct stage {
	const char *name;
	int (*run)(struct service *s, struct err *err);
} stages[] = {
	{ "look for jobs", look },
	{ "store what was logged", ingest_if_due },
	{ "collect", collect },
	{ "assign", assign },
	{ "count system calls", service_count_calls },
	{ "follow births and deaths", service_settle_life },
	{ "judge the pressure", judge },
	{ "look for anomalies", service_detect },
	{ "run what waits", run_queue },
	{ "record", record },
	{ "end what was attached", service_settle_attached },
	{ "bring what was recorded to the disk", settle },
	{ "look for orphans", service_look_for_orphans },
	{ "log", append_line },
	{ "publish", publish },
};

_Static_assert(ARRAY_SIZE(stages) == SERVICE_STAGES, "each has its count of failures");

/* Said when it begins, and when it is over. */
static void note_result(struct service *s, size_t i, int r, const struct err *err)
{
	struct stage_state *state = &s->stats.stages[i];

	if (r < 0) {
		state->n_failed++;
		if (!state->is_failing)
			log_warning("cannot %s, and goes on: %s", stages[i].name, err->text);
	} else if (state->is_failing) {
		log_info("can %s again", stages[i].name);
	}
	state->is_failing = r < 0;
}

static void daemon_tick(struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		struct err err = ERR_INIT;

		note_result(s, i, stages[i].run(s, &err), &err);
	}
	s->stats.n_ticks++;
}

/*
 * With a collector of its own: what the ticks tell of CPU time is what was used between two
 * ticks, however shortly before one somebody else has looked.
 */
void service_rescan(struct service *s)
{
	struct err err = ERR_INIT;
	int r = s->scan.between ? 0 : service_make_collector(s, &s->scan.between, &err);

	if (r == 0)
		r = collect_by(s, s->scan.between, &err);
	if (r == 0)
		r = assign_by(s, s->scan.between, &err);
	if (r == 0)
		r = judge(s, &err); /* whoever asks for the snapshot gets this one */
	if (r == 0)
		r = service_settle_life(s, &err);
	if (r < 0)
		log_warning("cannot look at the processes now: %s", err.text);
}

void service_record_now(struct service *s)
{
	struct err err = ERR_INIT;

	if (record(s, &err) < 0)
		log_debug("what was seen is recorded with the next tick: %s", err.text);
}

void service_look(struct service *s)
{
	struct err err = ERR_INIT;

	note_result(s, 0, look(s, &err), &err);
}

void service_take_in(struct service *s)
{
	struct err err = ERR_INIT;

	note_result(s, 1, ingest(s, &err), &err);
}

/* ---- when ---- */

static void plan_tick(struct service *s)
{
	struct cadence before = s->ticking.cadence;
	uint64_t wait_ns = cadence_plan(&s->ticking.cadence, s->interval_seconds, clock_wall_ns(),
					clock_boot_ns());

	s->stats.n_skipped += cadence_missed(&before, &s->ticking.cadence);
	loop_timer_set(s->ticking.timer, (wait_ns + 999999) / 1000000, 0);
}

/* What passes the cap is halved by looking half as often, until it is well below. */
#define MAX_INTERVAL_SECONDS 300
#define LOAD_WEIGHT 0.1 /* of the last tick */
#define TICKS_BEFORE_JUDGED 10

/*
 * What all threads have used since the end of the last tick, until this one began, and what the
 * process that asks GPUs had used when its last reading came.
 */
static void count_others(struct service *s, uint64_t cpu_ns, uint64_t boot_ns)
{
	struct tick_stats *stats = &s->stats;
	uint64_t elapsed_ns = boot_ns - stats->boot_before_ns;

	cpu_ns += service_take_gpu_cpu_ns(s);
	if (stats->boot_before_ns != 0 && elapsed_ns > 0)
		stats->other_load += ((double)(cpu_ns - stats->cpu_before_ns) / (double)elapsed_ns -
				      stats->other_load) *
				     LOAD_WEIGHT;
}

/* What requests cost does not go down with fewer ticks: that is said, and nothing done. */
static void tell_of_others(struct service *s, double cap)
{
	struct tick_stats *stats = &s->stats;
	bool is_costly = stats->other_load > cap;

	if (is_costly && !stats->is_costly_otherwise)
		log_warning(
			"requests, learning and GPUs take %.1f %% of a core, and ticks %.1f %%: the "
			"first do not get less by looking less often",
			stats->other_load * 100, stats->load * 100);
	if (is_costly || stats->other_load < cap / 2)
		stats->is_costly_otherwise = is_costly;
}

/* Whether fewer ticks would help: they are too dear, or the greater part of what is. */
static bool are_ticks_dear(const struct tick_stats *stats, double cap)
{
	return stats->load > cap ||
	       (stats->load + stats->other_load > cap && stats->load >= stats->other_load);
}

static void adapt_interval(struct service *s, uint64_t cpu_ns)
{
	double wanted = s->settings.config->interval_seconds;
	double cap = s->settings.config->limits.max_daemon_cpu_percent / 100;
	double share = (double)cpu_ns / (s->interval_seconds * 1e9);
	double before = s->interval_seconds;

	s->stats.load += (share - s->stats.load) * LOAD_WEIGHT;
	if (++s->stats.n_since_change < TICKS_BEFORE_JUDGED)
		return;
	tell_of_others(s, cap);
	if (are_ticks_dear(&s->stats, cap) && s->interval_seconds < MAX_INTERVAL_SECONDS)
		s->interval_seconds = fmin(s->interval_seconds * 2, MAX_INTERVAL_SECONDS);
	else if (s->stats.load < cap / 4 && s->interval_seconds > wanted)
		s->interval_seconds = fmax(s->interval_seconds / 2, wanted);
	if (s->interval_seconds == before)
		return;
	log_warning("ticks take %.1f %% of a core, and all else %.1f %%: looks every %g s from now "
		    "on instead of %g s",
		    s->stats.load * 100, s->stats.other_load * 100, s->interval_seconds, before);
	s->stats.load *= before / s->interval_seconds;
	s->stats.n_since_change = 0;
}

void service_set_interval(struct service *s, double seconds)
{
	s->interval_seconds = seconds;
	s->stats.load = 0;
	s->stats.n_since_change = 0;
	plan_tick(s);
}

static void on_tick_timer(void *ctx)
{
	struct service *s = ctx;
	uint64_t cpu_before = clock_cpu_ns();

	count_others(s, cpu_before, clock_boot_ns());
	s->stats.lag_ns = cadence_lag(&s->ticking.cadence, clock_boot_ns());
	daemon_tick(s);
	service_watch_gpus(s);
	s->stats.cpu_ns = clock_cpu_ns() - cpu_before;
	adapt_interval(s, s->stats.cpu_ns);
	s->stats.cpu_before_ns = clock_cpu_ns();
	s->stats.boot_before_ns = clock_boot_ns();
	plan_tick(s);
}

int service_begin_ticks(struct service *s, struct err *err)
{
	s->ticking.timer = loop_timer_new(s->loop, on_tick_timer, s);
	if (!s->ticking.timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	loop_timer_set(s->ticking.timer, 0, 0);
	return 0;
}

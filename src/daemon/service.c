#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/notify.h"
#include "daemon/service_internal.h"

/* ---- signals ---- */

static void on_signal(void *ctx)
{
	struct service *s = ctx;
	struct signalfd_siginfo info;

	while (read(s->signals_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGHUP) {
			log_info("stops: %s came from pid %u", strsignal((int)info.ssi_signo),
				 info.ssi_pid);
			loop_stop(s->loop);
		} else if (service_reload(s)) {
			service_set_interval(s, s->settings.config->interval_seconds);
		}
	}
}

/* SIGPIPE and SIGXFSZ would end us where a failed write is enough. */
static int watch_signals(struct service *s, struct err *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signals_fd < 0)
		return err_set(err, -errno, "cannot wait for signals: %s", strerror(errno));
	return loop_watch_fd(s->loop, s->signals_fd, on_signal, s)
		       ? 0
		       : err_set(err, -ENOMEM, "no memory left to begin");
}

/* ---- what logs report: the parts that follow jobs hear of it first ---- */

/* By then what is read once more of a job that is over has been read. */
#define TRIM_AFTER_NS UINT64_C(5000000000)

static void on_change(void *ctx, enum change change, struct watched *job,
		      const struct sheet_record *sheet)
{
	struct service *s = ctx;

	if (change == CHANGE_JOB_STARTED) {
		service_bind_stream(s, job);
		service_expect_births(s, job);
		service_count_calls_of(s, job);
	}
	if (change == CHANGE_JOB_STARTED && job->a.is_attached)
		service_follow_attached(s, job);
	if (change == CHANGE_JOB_ENDED) {
		service_drain_life(s); /* what killed it may wait there */
		service_end_signals_of(s, job);
		service_end_anomalies_of(s, job);
		service_sum_calls_of(s, job);
		service_answer_waiters(s, job);
		service_end_queued(s, job);
		service_leave_job(s, job);
		if (s->trim_boot_ns == 0) /* a job of many processes took megabytes to store */
			s->trim_boot_ns = clock_boot_ns() + TRIM_AFTER_NS;
		service_run_queue_soon(s);
		learner_note_end(s->learner);
		s->database.is_ingest_due = true;
	}
	service_tell_change(s, change, job, sheet);
}

static void on_event(void *ctx, const struct watched *job, const struct proc_event *ev)
{
	struct service *s = ctx;

	if (ev->type == EVENT_ORPHAN)
		service_follow_orphan(s, job, ev);
	s->life.n_told += ev->type == EVENT_SPAWN || ev->type == EVENT_EXIT;
	service_tell_process(s, ev, job->a.attempt_num, job->a.uid);
}

/* Who outlives a job the daemon judges. */
static void on_anomaly(void *ctx, const struct watched *job, const struct episode *e,
		       enum episode_change change)
{
	if (e->worst.type != ANOMALY_ORPHAN)
		service_publish_anomaly(ctx, e, change, job->a.uid);
}

static const struct watch_ops watch_ops = { on_change, on_event, on_anomaly, service_expects_word };

static int make_parts(struct service *s, struct err *err)
{
	s->loop = loop_new();
	s->scan.membership = membership_new();
	s->leftovers.orphans = orphans_new();
	s->watch = watch_new(s->database.path, &watch_ops, s);
	s->upkeep = s->loop ? upkeep_new(s->loop, &s->settings.options->config->retention,
					 s->settings.options->paths->jsonl)
			    : NULL;
	s->clients.recent = recent_new(RECENT_EVENTS, RECENT_BYTES);
	s->detect = detect_new(&s->settings.options->config->anomaly, DETECT_ALL);
	if (!s->loop || !s->upkeep || !s->scan.membership || !s->watch || !s->leftovers.orphans ||
	    !s->detect || !s->clients.recent)
		return err_set(err, -ENOMEM, "no memory left to begin");
	return 0;
}

/* What the socket answers: docs/rpc.md. */
static const struct rpc_method methods[] = {
	{ "daemon.config", method_daemon_config, RPC_NO_PARAMS },
	{ "daemon.events", method_daemon_events, RPC_FOR_ALL },
	{ "daemon.status", method_daemon_status, RPC_NO_PARAMS },
	{ "daemon.stop", method_daemon_stop, RPC_FOR_OWNER | RPC_NO_PARAMS },
	{ "daemon.top", method_daemon_top, RPC_NO_PARAMS },
	{ "daemon.top.stream", method_daemon_top_stream, RPC_NO_PARAMS },
	{ "admit", method_admit, RPC_FOR_ALL },
	{ "estimate", method_estimate, RPC_FOR_ALL },
	{ "correlate", method_correlate, RPC_FOR_OWNER | RPC_NO_PARAMS },
	{ "events.subscribe", method_events_subscribe, RPC_FOR_ALL },
	{ "resource.context", method_resource_context, RPC_FOR_ALL },
	{ "job.anomalies", method_job_anomalies, RPC_FOR_ALL },
	{ "job.attach", method_job_attach, RPC_FOR_ALL },
	{ "job.attempts", method_job_attempts, RPC_FOR_ALL },
	{ "job.cancel", method_job_cancel, RPC_FOR_ALL },
	{ "job.events", method_job_events, RPC_FOR_ALL },
	{ "job.list", method_job_list, RPC_NO_PARAMS },
	{ "job.outcome", method_job_outcome, RPC_FOR_ALL },
	{ "job.report", method_job_report, RPC_FOR_ALL },
	{ "job.samples", method_job_samples, RPC_FOR_ALL },
	{ "job.series", method_job_series, RPC_FOR_ALL },
	{ "job.submit", method_job_submit, RPC_FOR_ALL },
	{ "job.wait", method_job_wait, RPC_FOR_ALL },
	{ "learn.patterns", method_learn_patterns, RPC_NO_PARAMS },
	{ "phase", method_mark_phase, RPC_FOR_ALL },
	{ "runner.barrier", method_runner_barrier, RPC_FOR_ALL },
	{ "runner.calls", method_runner_calls, RPC_FOR_ALL },
	{ "runner.changed", method_runner_changed, RPC_FOR_ALL },
	{ "runner.frames", method_runner_frames, RPC_FOR_ALL },
	{ "runner.hello", method_runner_hello, RPC_FOR_ALL },
	{ "runner.samples", method_runner_samples, RPC_FOR_ALL },
	{ "runner.stream", method_runner_stream, RPC_FOR_ALL },
	{ "web.link", method_web_link, RPC_NO_PARAMS },
};

/* Of one user's connections, so that others have some as well: guests, and a few to ask. */
#define CLIENTS_PER_USER 320

static int listen_to_clients(struct service *s, struct err *err)
{
	struct rpc_limits limits = rpc_default_limits;
	struct rpc_options options = {
		.path = s->settings.options->socket_path,
		.mode = s->settings.options->socket_mode,
		.methods = methods,
		.n_methods = ARRAY_SIZE(methods),
		.limits = &limits,
		.ctx = s,
		.listen_fd = rpc_take_inherited_fd(err),
	};

	if (options.listen_fd < 0)
		return options.listen_fd;
	limits.max_clients_per_user = CLIENTS_PER_USER;
	return rpc_server_new(s->loop, &options, &s->server, err);
}

/* The daemon does all else without the page: another daemon of this host may have its address. */
static void open_page(struct service *s)
{
	const struct service_options *o = s->settings.options;
	const struct web_options options = {
		.loop = s->loop,
		.server = s->server,
		.listen = o->config->web.listen,
		.socket_path = o->socket_path,
		.is_for_all = o->socket_mode == 0666,
	};

	if (o->config->web.enabled && web_new(&options, &s->web, &s->web_err) < 0)
		log_info("serves no page: %s", s->web_err.text);
}

/* ---- what is looked after besides the ticks ---- */

int service_make_socket_folder(const char *path, mode_t socket_mode, struct err *err)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(free_ptr) char *folder = strndup(path, slash ? (size_t)(slash - path) : 0);
	int r;

	if (!folder)
		return err_set(err, -ENOMEM, "no memory left to begin");
	if (!folder[0])
		return 0; /* where we are, or the root: it is there */
	r = path_make_dir(folder, err);
	if (r == 0 && socket_mode == 0666 && chmod(folder, 0755) < 0)
		r = err_set(err, -errno, "cannot open %s to all users: %s", folder,
			    strerror(errno));
	return r;
}

/*
 * The socket is in a folder that others clean up: a session that ends takes its folder with it.
 * A daemon that nobody finds any more can be neither asked nor stopped, so the socket is made anew.
 * Who removes all that proctor has ever written takes the queue and the log as well.
 */
#define CARE_MS 2000

static void on_care_timer(void *ctx)
{
	struct service *s = ctx;
	const struct service_options *o = s->settings.options;
	struct err err = ERR_INIT;
	int r;

	/* What was freed goes back to the system, also what lies between memory in use. */
	if (s->trim_boot_ns && clock_boot_ns() >= s->trim_boot_ns) {
		s->trim_boot_ns = 0;
		malloc_trim(0);
	}
	/* Before the others have something to say; where that cannot be told, there is nobody to
	 * tell. */
	if (o->log_path && log_is_removed() && path_make_dir(o->paths->state_dir, NULL) == 0 &&
	    log_open(o->log_path) == 0)
		log_warning("the log was removed, and begins again");

	r = queue_renew(s->queue, &err);
	if (r < 0 && !s->starting.is_queue_gone)
		log_warning("no job can be submitted: %s", err.text);
	if (r > 0) {
		log_warning("the folder of the queue was gone, and is there again");
		service_look(s); /* the database is gone too, most likely: before a job begins */
	}
	s->starting.is_queue_gone = r < 0;

	r = rpc_server_renew(s->server, o->socket_path, o->socket_mode, &err);
	if (r == -ENOENT) {
		r = service_make_socket_folder(o->socket_path, o->socket_mode, &err);
		if (r == 0)
			r = rpc_server_renew(s->server, o->socket_path, o->socket_mode, &err);
	}
	if (r < 0 && !s->is_unreachable)
		log_warning("nobody can reach the daemon, which goes on: %s", err.text);
	else if (r > 0)
		log_warning("the socket was gone, and is there again: %s", o->socket_path);
	s->is_unreachable = r < 0;
}

/* A sign of life for the service manager. */
static void on_watchdog_timer(void *ctx)
{
	struct service *s = ctx;

	if (watchdog_is_content(&s->watchdog, s->stats.n_ticks, s->interval_seconds))
		notify_service_manager("WATCHDOG=1");
}

static int repeat(struct service *s, loop_fn *fn, uint64_t ms, struct err *err)
{
	struct loop_timer *timer = loop_timer_new(s->loop, fn, s);

	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	loop_timer_set(timer, ms, ms);
	return 0;
}

/* What clients, worker threads, system calls and jobs take besides the files that are open once we
 * listen; some of them are kept for who asks us to stop (struct rpc_limits). */
#define FILES_TO_SERVE 80
#define FILES_WANTED 4096

/* A daemon that cannot open another file answers nobody, not even who wants it to stop. */
static int check_files(const struct service *s, struct err *err)
{
	CLEANUP(close_fd) int free_fd = fcntl(s->root_fd, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    (free_fd >= 0 && (rlim_t)free_fd + FILES_TO_SERVE <= limit.rlim_cur))
		return 0;
	return err_set(
		err, -EMFILE,
		"the daemon needs %d open files, and may have %llu: raise the limit (ulimit -n, "
		"or LimitNOFILE= of its unit)",
		(free_fd >= 0 ? free_fd : (int)limit.rlim_cur) + FILES_TO_SERVE,
		(unsigned long long)limit.rlim_cur);
}

/* A daemon that was told to stop gives up its socket first, and writes for a moment. */
#define QUEUE_TRIES 60
#define QUEUE_PAUSE_NS 50000000L

static int open_service(struct service *s, struct err *err)
{
	const struct timespec pause = { 0, QUEUE_PAUSE_NS };
	const struct rlimit wanted = { FILES_WANTED, FILES_WANTED };
	int r = path_make_dir(s->settings.options->paths->state_dir, err);

	file_limit_raise(&s->starting.files);
	if (s->starting.files.rlim_max < FILES_WANTED) /* root may raise even the hard limit */
		(void)setrlimit(RLIMIT_NOFILE, &wanted);
	if (r == 0)
		r = make_parts(s, err);
	if (r < 0)
		return r;
	s->root_fd = proc_open_root(err);
	if (s->root_fd < 0)
		return s->root_fd;
	service_open_gpus(s);
	r = service_configure(s, err);
	if (r == 0)
		r = service_open_life(s, &service_life_ops, err);
	if (r == 0)
		r = watch_signals(s, err);
	if (r == 0)
		r = check_files(s, err);
	if (r == 0)
		r = listen_to_clients(s, err); /* whom nobody serves before the loop runs */
	if (r == 0)
		open_page(s);
	if (r == 0)
		r = repeat(s, on_care_timer, CARE_MS, err);
	if (r < 0)
		return r;
	r = service_open_queue(s, err);
	for (int i = 0; r == -EADDRINUSE && i < QUEUE_TRIES; i++) {
		nanosleep(&pause, NULL);
		r = service_open_queue(s, err);
	}
	if (r < 0)
		return r;
	r = service_begin_learning(s, err);
	if (r < 0)
		return r;

	s->ticking.started_boot_ns = clock_boot_ns();
	s->record.version = PROCTOR_VERSION;
	s->record.started_wall_ns = clock_wall_ns();
	s->record.key.pid = getpid();
	proc_boot_id(s->record.boot_id);
	if (proc_start_ticks(getpid(), &s->record.key.start_ticks) < 0)
		s->record.key.start_ticks = U64_UNKNOWN;
	s->interval_seconds = s->settings.config->interval_seconds;
	s->ladder.n = sources_probe_rungs(s->root_fd, NULL, &s->ladder.arena, s->ladder.rungs);
	service_set_rung(s, collector_rung(s->scan.collector));
	service_begin_calls(s);
	if (s->life.life)
		service_set_rung(s, life_rung(s->life.life));
	if (s->life.life && life_sees_oom(s->life.life))
		service_set_rung(s, (struct rung){ SOURCES_RUNG_OOM, SOURCES_RUNG_OOM_EBPF, "" });

	(void)service_tend_host_log(s);
	service_look(s);
	service_take_in(s); /* so that who waits for us is told if nothing can be recorded */
	r = service_begin_ticks(s, err);
	s->watchdog.period_ms = notify_watchdog_ms();
	if (r < 0 || s->watchdog.period_ms == 0)
		return r;
	return repeat(s, on_watchdog_timer, s->watchdog.period_ms, err);
}

/* ---- ending ---- */

/*
 * There is no tick to hold up any more: who holds the database is waited for, by all that is left
 * to write together. "proctor stop" waits for 10 s, a service manager for 20.
 */
#define LAST_PATIENCE_MS 7000

static void close_service(struct service *s)
{
	struct watched **jobs = NULL;
	size_t n = 0;

	learner_leave(s->learner);
	aside_leave(s->aside);
	aside_leave(s->starting.submitter);
	if (s->watch && s->queue)
		service_look(s); /* what has ended by now leaves the queue */
	s->web = web_free(s->web);
	s->server = rpc_server_free(s->server);
	if (s->store) {
		store_share_lock_timeout(s->store, LAST_PATIENCE_MS);
		store_leave_no_log(s->store);
	}
	if (s->upkeep)
		upkeep_leave(s->upkeep);
	if (s->watch)
		jobs = watch_jobs(s->watch, &n);
	service_close_syscalls(s);
	for (size_t i = 0; i < n; i++)
		service_end_signals_of(s, jobs[i]);
	unowned_release(&s->signals.unowned);
	service_end_anomalies(s);
	/* What is logged by now is in the database when we are gone, if that is not locked. */
	service_close_host_log(s);
	service_release_attached(s);
	if (s->store)
		(void)store_take_in(s->store, NULL);
	s->store = store_close(s->store);
	attempt_list_release(&s->leftovers.lost);
	s->leftovers.orphans = orphans_free(s->leftovers.orphans);
	service_forget_streams(s);
	service_close_life(s);
	s->watch = watch_free(s->watch);
	s->queue = queue_close(s->queue);
	s->upkeep = upkeep_free(s->upkeep);
	s->detect = detect_free(s->detect);
	s->clients.recent = recent_free(s->clients.recent);
	service_drop_guests(s);
	s->scan.collector = collector_free(s->scan.collector);
	s->scan.between = collector_free(s->scan.between);
	service_close_gpus(s);
	s->scan.membership = membership_free(s->scan.membership);
	s->jsonl = jsonl_free(s->jsonl);
	s->loop = loop_free(s->loop);
	s->learner = learner_free(s->learner);
	s->aside = aside_free(s->aside);
	s->starting.submitter = aside_free(s->starting.submitter);
	close_fd(&s->signals_fd);
	close_fd(&s->root_fd);
	snapshot_release(&s->scan.snap);
	buf_release(&s->clients.snapshot_json);
	arena_release(&s->ladder.arena);
	service_release_config(s);
}

int service_run(const struct service_options *options, struct err *err)
{
	CLEANUP(close_service)
	struct service s = {
		.settings = { .options = options,
			      .config = options->config,
			      .paths = options->paths,
			      .mask = options->mask },
		.database.path = options->paths->db,
		.signals_fd = -1,
		.root_fd = -1,
		.guests.copies_fd = -1,
		.ladder.arena = ARENA_INIT,
		.clients.snapshot_json = BUF_INIT,
		.syscalls.loading = PTHREAD_MUTEX_INITIALIZER,
	};
	const char ready = SERVICE_READY;
	int r;

	snapshot_init(&s.scan.snap);
	pressure_cannot_tell(&s.pressure); /* until the first tick */
	r = open_service(&s, err);
	if (r < 0)
		return r;
	log_info("listens on %s", options->socket_path);
	notify_service_manager("READY=1");
	/* Whoever started us in the background waits for this. */
	if (options->ready_fd >= 0 && write(options->ready_fd, &ready, 1) < 0)
		log_warning("nobody waits for the daemon any more");
	if (options->ready_fd >= 0)
		close(options->ready_fd);
	loop_run(s.loop);
	notify_service_manager("STOPPING=1");
	service_drain_life(&s); /* what the kernel has told by now */
	return 0;
}

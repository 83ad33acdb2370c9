#include "daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/io.h"
#include "daemon/notify.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* ---- signals ---- */

static void on_signal(void *ctx)
{
	struct service *s = ctx;
	struct signalfd_siginfo info;

	while (read(s->stop_signals.fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			service_reload(s);
			continue;
		}
		log_info("stops: %s came from pid %u", strsignal((int)info.ssi_signo),
			 info.ssi_pid);
		loop_stop(s->loop);
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
	s->stop_signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->stop_signals.fd < 0)
		return err_set(err, -errno, "cannot wait for signals: %s", strerror(errno));
	s->stop_signals.watch = loop_watch_fd(s->loop, s->stop_signals.fd, on_signal, s);
	return s->stop_signals.watch ? 0 : err_set(err, -ENOMEM, "no memory left to begin");
}

/* ---- opening ---- */

/* What a run would get, but for what the daemon itself has taken. */
void service_set_rung(struct service *s, struct rung taken)
{
	for (size_t i = 0; i < s->ladder.n; i++) {
		if (strcmp(s->ladder.rungs[i].measurement, taken.measurement) != 0)
			continue;
		snprintf(s->ladder.reasons[i], sizeof(s->ladder.reasons[i]), "%s", taken.reason);
		taken.reason = s->ladder.reasons[i];
		s->ladder.rungs[i] = taken;
		return;
	}
}

static void describe_rungs(struct service *s)
{
	s->ladder.n = sources_probe_rungs(s->root_fd, NULL, &s->ladder.arena, s->ladder.rungs);
	service_set_rung(s, collector_rung(s->scan.collector));
	service_describe_calls(s);
	if (!s->life.life)
		return;
	service_set_rung(s, life_rung(s->life.life));
	if (life_sees_oom(s->life.life))
		service_set_rung(s, (struct rung){ SOURCES_RUNG_OOM, SOURCES_RUNG_OOM_EBPF, "" });
}

static void describe(struct service *s)
{
	s->ticking.started_boot_ns = clock_boot_ns();
	s->record.version = PROCTOR_VERSION;
	s->record.started_wall_ns = clock_wall_ns();
	s->record.key.pid = getpid();
	proc_boot_id(s->record.boot_id);
	if (proc_start_ticks(getpid(), &s->record.key.start_ticks) < 0)
		s->record.key.start_ticks = U64_UNKNOWN;
	s->interval_seconds = s->settings.config->interval_seconds;
	describe_rungs(s);
}

static int open_sources(struct service *s, struct err *err)
{
	s->root_fd = proc_open_root(err);
	if (s->root_fd < 0)
		return s->root_fd;
	service_open_gpus(s);
	return service_configure(s, err);
}

static bool expects_end(void *ctx, const struct attempt *a)
{
	return service_expects_word(ctx, a);
}

static const struct watch_ops watch_ops = {
	.change = service_tell_change,
	.event = service_publish_event,
	.anomaly = service_publish_recorded_anomaly,
	.expects_end = expects_end,
};

static int make_parts(struct service *s, struct err *err)
{
	s->loop = loop_new();
	s->bus = bus_new();
	s->scan.membership = membership_new();
	s->leftovers.orphans = orphans_new();
	s->watch = watch_new(s->settings.options->paths->db, &watch_ops, s);
	s->upkeep = s->loop ? upkeep_new(s->loop, &s->settings.options->config->retention,
					 s->settings.options->paths->jsonl)
			    : NULL;
	s->detect = detect_new(&s->settings.options->config->anomaly, DETECT_ALL);
	if (!s->loop || !s->upkeep || !s->bus || !s->scan.membership || !s->watch ||
	    !s->leftovers.orphans || !s->detect)
		return err_set(err, -ENOMEM, "no memory left to begin");
	return service_keep_events(s, err);
}

static const struct rpc_method *const method_tables[] = {
	service_status_methods,	  service_config_methods,    service_view_methods,
	service_recent_methods,	  service_job_methods,	     service_attach_methods,
	service_submit_methods,	  service_phase_methods,     service_wait_methods,
	service_guest_methods,	  service_admit_methods,     service_learn_methods,
	service_estimate_methods, service_subscribe_methods, service_recorded_methods,
	service_stream_methods,
};

/* The server takes one table. */
static int gather_methods(struct service *s, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(method_tables); i++) {
		for (const struct rpc_method *m = method_tables[i]; m->name; m++) {
			struct rpc_method *all = reallocarray(
				s->answers.methods, s->answers.n_methods + 1, sizeof(*all));

			if (!all)
				return err_set(err, -ENOMEM, "no memory left to begin");
			s->answers.methods = all;
			all[s->answers.n_methods++] = *m;
		}
	}
	return 0;
}

/* Of one user's connections, so that others have some as well: guests, and a few to ask. */
#define CLIENTS_PER_USER 320

static int listen_to_clients(struct service *s, struct err *err)
{
	struct rpc_limits limits = rpc_default_limits;
	struct rpc_options options = {
		.path = s->settings.options->socket_path,
		.mode = s->settings.options->socket_mode,
		.limits = &limits,
		.ctx = s,
	};
	int fd = rpc_take_inherited_fd(err), r;

	if (fd < 0)
		return fd;
	r = gather_methods(s, err);
	if (r < 0)
		return r;
	options.methods = s->answers.methods;
	options.n_methods = s->answers.n_methods;
	options.listen_fd = fd;
	limits.max_clients_per_user = CLIENTS_PER_USER;
	return rpc_server_new(s->loop, &options, &s->server, err);
}

/* ---- a sign of life for the service manager ---- */

static void on_watchdog_timer(void *ctx)
{
	struct service *s = ctx;

	if (watchdog_is_content(&s->watchdog, s->stats.n_ticks, s->interval_seconds))
		notify_service_manager("WATCHDOG=1");
}

static int watch_over_ticks(struct service *s, struct err *err)
{
	struct loop_timer *timer;

	s->watchdog.period_ms = notify_watchdog_ms();
	if (s->watchdog.period_ms == 0)
		return 0;
	timer = loop_timer_new(s->loop, on_watchdog_timer, s);
	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	loop_timer_set(timer, s->watchdog.period_ms, s->watchdog.period_ms);
	return 0;
}

/* A daemon that was told to stop gives up its socket first, and writes for a moment. */
#define QUEUE_TRIES 60
#define QUEUE_PAUSE_NS 50000000L

static int open_queue(struct service *s, const struct rlimit *files, struct err *err)
{
	const struct timespec pause = { 0, QUEUE_PAUSE_NS };
	int r = service_open_queue(s, err);

	for (int i = 0; r == -EADDRINUSE && i < QUEUE_TRIES; i++) {
		nanosleep(&pause, NULL);
		r = service_open_queue(s, err);
	}
	if (r == 0)
		queue_set_file_limit(s->queue, files);
	return r;
}

static int open_service(struct service *s, struct err *err)
{
	int r = path_make_dir(s->settings.options->paths->state_dir, err);
	struct rlimit files;

	file_limit_raise(&files);
	if (r == 0)
		r = make_parts(s, err);
	if (r == 0)
		r = open_sources(s, err);
	if (r == 0)
		r = service_open_life(s, err);
	if (r == 0)
		r = service_open_phases(s, err);
	if (r == 0)
		r = watch_signals(s, err);
	if (r == 0)
		r = listen_to_clients(s, err); /* whom nobody serves before the loop runs */
	if (r == 0)
		r = service_watch_socket(s, err);
	if (r == 0)
		r = open_queue(s, &files, err);
	if (r == 0)
		r = service_begin_learning(s, err);
	if (r < 0)
		return r;
	describe(s);
	(void)service_tend_host_log(s);
	service_look(s);
	service_take_in(s); /* so that who waits for us is told if nothing can be recorded */
	r = service_begin_ticks(s, err);
	return r < 0 ? r : watch_over_ticks(s, err);
}

/* ---- ending ---- */

/* What is logged by now is in the database when we are gone, if that is not locked. */
static void end_record(struct service *s)
{
	service_close_host_log(s);
	service_release_attached(s);
	if (s->store)
		(void)store_take_in(s->store, NULL);
}

/*
 * There is no tick to hold up any more: who holds the database is waited for, by all that is left
 * to write together. "proctor stop" waits for 10 s, a service manager for 20.
 */
#define LAST_PATIENCE_MS 7000

static void close_service(struct service *s)
{
	learner_leave(s->learner);
	aside_leave(s->aside);
	aside_leave(s->starting.submitter);
	service_close_phases(s);
	if (s->watch && s->queue)
		service_look(s); /* what has ended by now leaves the queue */
	s->server = rpc_server_free(s->server);
	if (s->store) {
		store_share_lock_timeout(s->store, LAST_PATIENCE_MS);
		store_leave_no_log(s->store);
	}
	if (s->upkeep)
		upkeep_leave(s->upkeep);
	service_close_syscalls(s);
	service_end_trace(s);
	service_close_signals(s);
	service_end_anomalies(s);
	end_record(s);
	s->store = store_close(s->store);
	service_release_closer(s);
	service_release_lost(s);
	s->leftovers.orphans = orphans_free(s->leftovers.orphans);
	service_close_life(s);
	s->watch = watch_free(s->watch);
	s->queue = queue_close(s->queue);
	s->upkeep = upkeep_free(s->upkeep);
	s->detect = detect_free(s->detect);
	s->bus = bus_free(s->bus);
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
	close_fd(&s->stop_signals.fd);
	close_fd(&s->root_fd);
	snapshot_release(&s->scan.snap);
	buf_release(&s->clients.snapshot_json);
	arena_release(&s->ladder.arena);
	arena_release(&s->anomaly.ooms.arena);
	service_release_config(s);
	free(s->answers.methods);
	free(s->assigned.roots);
	free(s->assigned.uids);
	free(s->assigned.n_of);
}

/* Whoever started us in the background waits for this. */
static void tell_ready(int fd)
{
	const char ready = SERVICE_READY;

	notify_service_manager("READY=1");
	if (fd < 0)
		return;
	if (write(fd, &ready, 1) < 0)
		log_warning("nobody waits for the daemon any more");
	close(fd);
}

int service_run(const struct service_options *options, struct err *err)
{
	CLEANUP(close_service)
	struct service s = {
		.settings = { .options = options,
			      .config = options->config,
			      .paths = options->paths },
		.stop_signals.fd = -1,
		.root_fd = -1,
		.guests.copies_fd = -1,
		.ladder.arena = ARENA_INIT,
		.clients.snapshot_json = BUF_INIT,
	};
	int r;

	snapshot_init(&s.scan.snap);
	pressure_cannot_tell(&s.pressure); /* until the first tick */
	r = open_service(&s, err);
	if (r < 0)
		return r;
	log_info("listens on %s", options->socket_path);
	tell_ready(options->ready_fd);
	loop_run(s.loop);
	notify_service_manager("STOPPING=1");
	service_drain_life(&s); /* what the kernel has told by now */
	return 0;
}

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

static void write_rungs(struct json *j, const char *key, const struct service *s, bool are_reasons)
{
	json_key(j, key);
	json_begin_object(j);
	for (size_t i = 0; i < s->ladder.n; i++)
		json_key_string(j, s->ladder.rungs[i].measurement,
				are_reasons ? s->ladder.rungs[i].reason : s->ladder.rungs[i].rung);
	json_end_object(j);
}

/* To begin costs some hundredths of a second: over less than this that is no share of anything. */
#define SETTLED_NS UINT64_C(1000000000)

/* Somebody who has it locked for a moment is most likely about to be done. */
#define LOCK_UNSAID_NS UINT64_C(2000000000)

/* NULL: it records. */
static const char *why_not_recording(const struct service *s)
{
	const struct err *why = s->store ? &s->database.record_err : &s->database.err;
	bool may_pass =
		why->code == -EBUSY &&
		(s->store ? clock_boot_ns() - s->database.record_err_boot_ns < LOCK_UNSAID_NS
			  : s->stats.n_ticks < 2);

	return why->code == 0 || may_pass ? NULL : why->text;
}

static void write_recording(struct json *j, const struct service *s)
{
	uint64_t n_waiting = 0, n_lost = s->n_records_lost;
	uint64_t held_ns = upkeep_held_until_ns(s->upkeep);
	const char *why_not = why_not_recording(s);

	for (const struct attached *at = s->attached; at; at = at->next)
		if (at->log) {
			n_waiting += attempt_log_is_waiting(at->log);
			n_lost += attempt_log_lost(at->log);
		}
	json_key_string(j, "database", s->database.path);
	json_key_bool(j, "recording", s->store && !why_not);
	json_key_f64(j, "retention_held_until",
		     held_ns ? clock_ns_to_seconds(held_ns) : F64_UNKNOWN);
	json_key_u64(j, "over_max_bytes", upkeep_over_bytes(s->upkeep));
	json_key_string(j, "recording_error", why_not);
	json_key_f64(j, "disk_wait_seconds", clock_ns_to_seconds(s->stats.disk_wait_ns));
	json_key_u64(j, "ticks_waiting", n_waiting);
	json_key_u64(j, "ticks_lost", n_lost);
	json_key_u64(j, "log_lines_lost", s->stats.n_lines_lost);
}

/* How many processes of jobs have ended without the kernel's last word on what they used; where it
 * has none for us that is unknown. */
static uint64_t count_unaccounted(const struct service *s)
{
	uint64_t before = clock_wall_ns() - ACCOUNT_COMES_NS;
	uint64_t n = s->life.n_unaccounted + stream_count_unaccounted(s, before);

	if (!s->life.life || !life_sees_signals(s->life.life))
		return U64_UNKNOWN;
	for (const struct attached *at = s->attached; at; at = at->next)
		n += deaths_count_unaccounted(&at->deaths, before);
	return n;
}

int method_daemon_status(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct queued *job;
	struct json *j = rpc_call_result(call);
	uint64_t up_ns = clock_boot_ns() - s->ticking.started_boot_ns;
	uint64_t cpu_ns = clock_cpu_ns() + s->gpus.cpu_ns;
	struct rpc_stats stats;
	size_t n_running, n_queued = 0;

	(void)err;
	watch_jobs(s->watch, &n_running);
	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		n_queued += !job->is_started;
	rpc_server_get_stats(s->server, &stats);
	json_begin_object(j);
	json_key_string(j, "version", PROCTOR_VERSION);
	json_key_i64(j, "pid", getpid());
	json_key_f64(j, "uptime_seconds", clock_ns_to_seconds(up_ns));
	json_key_u64(j, "running_jobs", n_running);
	json_key_u64(j, "queued_jobs", n_queued);
	json_key_u64(j, "held_jobs", service_count_held(s));
	write_recording(j, s);
	json_key_string(j, "pressure_level", pressure_name(s->pressure.level));
	json_key_string(j, "pressure_reason", s->pressure.reason);
	json_key_f64(j, "cpu_seconds", clock_ns_to_seconds(cpu_ns));
	json_key_f64(j, "cpu_percent",
		     up_ns < SETTLED_NS ? F64_UNKNOWN : (double)cpu_ns * 100 / (double)up_ns);
	json_key_f64(j, "rss_mb", u64_to_mb(sources_read_rss(s->root_fd, getpid())));
	json_key_f64(j, "interval_seconds", s->interval_seconds);
	json_key_f64(j, "configured_interval_seconds", s->settings.config->interval_seconds);
	json_key_u64(j, "ticks", s->stats.n_ticks);
	json_key_u64(j, "ticks_skipped", s->stats.n_skipped);
	json_key_f64(j, "tick_lag_seconds", clock_ns_to_seconds(s->stats.lag_ns));
	json_key_f64(j, "tick_cpu_seconds", clock_ns_to_seconds(s->stats.cpu_ns));
	json_key_f64(j, "tick_cpu_percent", s->stats.load * 100);
	json_key_f64(j, "other_cpu_percent", s->stats.other_load * 100);
	json_key_u64(j, "process_events", s->life.n_told);
	json_key_u64(j, "process_events_lost", s->life.n_lost);
	json_key_u64(j, "process_accounts_missing", count_unaccounted(s));
	json_key_u64(j, "signals_unlisted", s->signals.n_unlisted);
	json_key_u64(j, "signals_unplaced", s->signals.unowned.n_dropped);
	json_key_u64(j, "syscalls_lost", s->syscalls.lost.calls);
	json_key_u64(j, "syscall_threads_lost", s->syscalls.lost.threads);
	json_key_u64(j, "syscall_totals_lost", s->syscalls.n_totals_lost);
	json_key_u64(j, "anomalies_lost", s->n_records_lost);
	json_key_u64(j, "phase_markers_lost", s->phases.n_lost);
	json_key_u64(j, "phase_markers_unplaced", s->phases.n_unplaced);
	json_key_u64(j, "anomalies_left_out", detect_count_left_out(s->detect));
	json_key_u64(j, "orphans", orphans_count(s->leftovers.orphans));
	json_key_u64(j, "orphans_found", s->leftovers.n_found);
	json_key_u64(j, "orphans_not_followed", s->leftovers.n_unlisted);
	json_key_u64(j, "zombies",
		     s->scan.has_snap ? snapshot_count_zombies(&s->scan.snap, SNAPSHOT_ALL)
				      : U64_UNKNOWN);
	json_key_u64(j, "children_reaped", s->leftovers.n_reaped);
	json_key_u64(j, "clients", stats.n_clients);
	json_key_u64(j, "subscribers", stats.n_subscribers);
	json_key_u64(j, "requests", stats.n_requests);
	json_key_u64(j, "events_lost", stats.n_events_lost);
	json_key_string(j, "web_address", s->web ? s->settings.options->config->web.listen : NULL);
	json_key_string(j, "web_error", s->web_err.code ? s->web_err.text : NULL);
	write_rungs(j, "rungs", s, false);
	write_rungs(j, "rung_reasons", s, true);
	json_key_string(j, "gpu_note", s->gpus.note[0] ? s->gpus.note : NULL);
	json_end_object(j);
	return 0;
}

int method_web_link(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(buf_release) struct buf link = BUF_INIT;
	struct service *s = ctx;
	struct json *j;
	int r = s->web ? web_issue_link(s->web, rpc_call_peer(call), &link, err)
		: s->web_err.code
			? err_set(err, -EOPNOTSUPP, "%s", s->web_err.text)
			: err_set(err, -EOPNOTSUPP, "web.enabled is false in the configuration");

	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "link", link.data);
	json_end_object(j);
	return 0;
}

static void on_stop_soon(void *ctx)
{
	loop_stop(((struct service *)ctx)->loop);
}

/* After the answer is on its way. */
int method_daemon_stop(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct loop_timer *timer = loop_timer_new(s->loop, on_stop_soon, s);
	struct json *j = rpc_call_result(call);

	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to stop");
	log_info("stops: pid %d of user %u asks for it", (int)rpc_call_peer(call)->pid,
		 (unsigned)rpc_call_peer(call)->uid);
	loop_timer_set(timer, 1, 0);
	json_begin_object(j);
	json_key_bool(j, "stopping", true);
	json_end_object(j);
	return 0;
}

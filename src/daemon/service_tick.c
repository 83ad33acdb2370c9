#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

static int look(struct service *s, struct err *err)
{
	int r = watch_look(s->watch, err);

	service_tend_guests(s);
	service_settle_accounts(s);
	return r;
}

/* ---- run: jobs that wait for their turn ---- */

static int run_queue(struct service *s, struct err *err)
{
	(void)err;
	service_run_queue(s);
	return 0;
}

/* ---- record ---- */

/* Trees without a runner, which would record them. */
static int record(struct service *s, struct err *err)
{
	uint64_t disk_wait_ns = service_tend_host_log(s);
	int r = service_record_attached(s, &disk_wait_ns, err);
	const struct err *failure = r < 0 ? err : &s->database.ingest_err;

	s->stats.log_wait_ns = disk_wait_ns;
	if (!s->store)
		return r;
	upkeep_look(s->upkeep, s->store);
	if (failure->code != 0 && s->database.record_err.code == 0)
		s->database.record_err_boot_ns = clock_boot_ns();
	s->database.record_err = *failure;
	return r;
}

/* What could not be written is not kept: the samples of jobs are in the database. */
static int append_line(struct service *s, struct err *err)
{
	const struct buf *json;
	int r;

	if (!s->scan.has_snap || !s->jsonl)
		return 0;
	json = service_snapshot_json(s);
	r = buf_error(json) < 0 ? err_set(err, -ENOMEM, "no memory left for a line of the log")
				: jsonl_append(s->jsonl, json->data, json->len, err);
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
	{ "store what was logged", service_ingest_if_due },
	{ "collect", service_collect },
	{ "assign", service_assign },
	{ "send samples to runners", service_send_samples },
	{ "count system calls", service_count_calls },
	{ "follow births and deaths", service_settle_life },
	{ "judge the pressure", service_judge },
	{ "look for anomalies", service_detect },
	{ "run what waits", run_queue },
	{ "record", record },
	{ "end what was attached", service_settle_attached },
	{ "bring what was recorded to the disk", service_settle_disk },
	{ "look for orphans", service_look_for_orphans },
	{ "log", append_line },
	{ "publish", publish },
};

_Static_assert(ARRAY_SIZE(stages) == SERVICE_STAGES, "each has its count of failures");

/* A failure is logged when it begins, and when it is over. */
static void daemon_tick(struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		struct err err = ERR_INIT;
		int r = stages[i].run(s, &err);

		if (r < 0 && !s->stats.is_failing[i])
			log_warning("cannot %s, and goes on: %s", stages[i].name, err.text);
		else if (r >= 0 && s->stats.is_failing[i])
			log_info("can %s again", stages[i].name);
		s->stats.is_failing[i] = r < 0;
	}
	s->stats.n_ticks++;
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

static void adapt_interval(struct service *s, uint64_t cpu_ns)
{
	struct tick_stats *stats = &s->stats;
	double wanted = s->settings.config->interval_seconds;
	double cap = s->settings.config->limits.max_daemon_cpu_percent / 100;
	double before = s->interval_seconds;
	bool is_costly_otherwise = stats->other_load > cap;

	stats->load += ((double)cpu_ns / (before * 1e9) - stats->load) * LOAD_WEIGHT;
	if (++stats->n_since_change < TICKS_BEFORE_JUDGED)
		return;
	/* What requests cost does not go down with fewer ticks: that is said, and nothing done. */
	if (is_costly_otherwise && !stats->is_costly_otherwise)
		log_warning(
			"requests, learning and GPUs take %.1f %% of a core, and ticks %.1f %%: the "
			"first do not get less by looking less often",
			stats->other_load * 100, stats->load * 100);
	if (is_costly_otherwise || stats->other_load < cap / 2)
		stats->is_costly_otherwise = is_costly_otherwise;
	/* Fewer ticks help where they are too dear, or the greater part of what is. */
	if ((stats->load > cap ||
	     (stats->load + stats->other_load > cap && stats->load >= stats->other_load)) &&
	    before < MAX_INTERVAL_SECONDS)
		s->interval_seconds = fmin(before * 2, MAX_INTERVAL_SECONDS);
	else if (stats->load < cap / 4 && before > wanted)
		s->interval_seconds = fmax(before / 2, wanted);
	if (s->interval_seconds == before)
		return;
	log_warning("ticks take %.1f %% of a core, and all else %.1f %%: looks every %g s from now "
		    "on instead of %g s",
		    stats->load * 100, stats->other_load * 100, s->interval_seconds, before);
	stats->load *= before / s->interval_seconds;
	stats->n_since_change = 0;
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
	struct tick_stats *stats = &s->stats;
	uint64_t cpu_ns = clock_cpu_ns(), now_ns = clock_boot_ns();
	/* What all threads have used since the last tick, and the process that asks GPUs. */
	uint64_t other_ns = cpu_ns + service_take_gpu_cpu_ns(s) - stats->cpu_before_ns;
	uint64_t elapsed_ns = now_ns - stats->boot_before_ns;

	if (stats->boot_before_ns != 0 && elapsed_ns > 0)
		stats->other_load +=
			((double)other_ns / (double)elapsed_ns - stats->other_load) * LOAD_WEIGHT;
	stats->lag_ns = cadence_lag(&s->ticking.cadence, now_ns);
	daemon_tick(s);
	service_watch_gpus(s);
	stats->cpu_ns = clock_cpu_ns() - cpu_ns;
	adapt_interval(s, stats->cpu_ns);
	stats->cpu_before_ns = clock_cpu_ns();
	stats->boot_before_ns = clock_boot_ns();
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

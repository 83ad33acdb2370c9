#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/service_internal.h"

/* Drivers that fail and answer by turns say so no more often. */
#define LOG_PERIOD_NS UINT64_C(3600000000000)
#define MAX_LOGGED 12
#define LOOK_EVERY_NS UINT64_C(60000000000)

/* The reader may be quicker than ticks that are dear, or far apart. */
static void on_reading(void *ctx)
{
	struct service_gpus *g = ctx;

	if (!gpus_take(g->reader))
		g->watch = loop_fd_close(g->watch);
}

void service_open_gpus(struct service *s)
{
	const struct gpus_options options = { .root_fd = s->root_fd,
					      .interval_seconds =
						      s->settings.config->interval_seconds };
	struct err err = ERR_INIT;

	if (s->settings.config->gpu_enabled && gpus_open(&options, &s->gpus.reader, &err) < 0)
		log_warning("GPUs are not read: %s", err.text);
	if (s->gpus.reader) /* without, ticks take what has come */
		s->gpus.watch =
			loop_watch_fd(s->loop, gpus_fd(s->gpus.reader), on_reading, &s->gpus);
}

void service_close_gpus(struct service *s)
{
	s->gpus.watch = loop_fd_close(s->gpus.watch);
	s->gpus.reader = gpus_close(s->gpus.reader);
}

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

static void change(struct service *s, const char *rung, const char *note)
{
	struct service_gpus *g = &s->gpus;
	uint64_t now_ns = clock_boot_ns();

	if (strcmp(g->rung, rung) == 0 && strcmp(g->note, note) == 0)
		return;
	snprintf(g->rung, sizeof(g->rung), "%s", rung);
	snprintf(g->note, sizeof(g->note), "%s", note);
	service_set_rung(s, (struct rung){ SOURCES_RUNG_GPU, g->rung, g->note });
	if (now_ns - g->logged_boot_ns >= LOG_PERIOD_NS) {
		g->logged_boot_ns = now_ns;
		g->n_logged = 0;
	}
	if (g->n_logged++ >= MAX_LOGGED)
		return;
	if (g->note[0])
		log_warning("GPUs are read by %s: %s", g->rung, g->note);
	else
		log_info("GPUs are read by %s", g->rung);
}

void service_watch_gpus(struct service *s)
{
	struct service_gpus *g = &s->gpus;
	const char *rung = g->reader ? gpus_rung(g->reader) : NULL;
	const char *note = g->reader ? gpus_note(g->reader) : NULL;
	uint64_t now_ns = clock_boot_ns();

	if (rung || note) /* else the first reading is not due yet, or there are none */
		change(s, rung ? rung : "none", note ? note : "");
	/* The process that asks is started before all else: one that comes later can only be told
	 * of. */
	if (g->reader || !s->settings.config->gpu_enabled ||
	    now_ns - g->looked_boot_ns < LOOK_EVERY_NS)
		return;
	g->looked_boot_ns = now_ns;
	if (sources_has_gpu(s->root_fd))
		change(s, "none",
		       "a driver has come after the daemon began, which reads GPUs when "
		       "it is started again");
}

uint64_t service_take_gpu_cpu_ns(struct service *s)
{
	uint64_t before_ns = s->gpus.cpu_ns;

	if (s->gpus.reader)
		s->gpus.cpu_ns = gpus_cpu_ns(s->gpus.reader);
	return s->gpus.cpu_ns - before_ns;
}

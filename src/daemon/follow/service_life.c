#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/follow/follow.h"

/*
 * What the kernel reports of processes, read and handed on (struct life_ops).
 */

void service_close_life(struct service *s)
{
	s->life.watch = loop_fd_close(s->life.watch);
	s->life.life = life_close(s->life.life);
}

static void on_event(void *ctx, const struct life_event *ev)
{
	struct service *s = ctx;

	s->life.n_taken++;
	s->life.ops->event(s, ev);
}

/* Returns how many have come, of at most about max. */
static uint64_t drain(struct service *s, size_t max)
{
	uint64_t before = s->life.n_taken;
	int64_t lost;

	if (!s->life.life)
		return 0;
	lost = life_drain(s->life.life, max, on_event, s);
	s->life.ops->drained(s);
	s->life.n_lost += lost > 0 ? (uint64_t)lost : lost < 0;
	if (lost >= 0)
		return s->life.n_taken - before;
	log_warning("the kernel's news of births and deaths ended, and the daemon goes on: %s",
		    strerror((int)-lost));
	service_close_life(s);
	return 0;
}

void service_drain_life(struct service *s)
{
	drain(s, SIZE_MAX);
}

/* To be woken for each birth of the host costs more than the births are worth: what comes
 * within this time is taken together. */
#define GATHER_MS 50

/* Each is handed to every subscriber: after so many it is the turn of others. */
#define MAX_PER_TURN 256

static void on_timer(void *ctx)
{
	struct service *s = ctx;

	if (drain(s, MAX_PER_TURN) >= MAX_PER_TURN)
		loop_timer_set(s->life.timer, 1, 0);
	else if (s->life.watch)
		loop_fd_set_interest(s->life.watch, LOOP_READABLE);
}

static void on_readable(void *ctx)
{
	struct service *s = ctx;

	loop_fd_set_interest(s->life.watch, 0);
	loop_timer_set(s->life.timer, GATHER_MS, 0);
}

void service_want_accounts(struct service *s)
{
	if (s->life.life)
		(void)life_want_accounts(s->life.life, true);
}

/* The kernel holds up for some milliseconds what is attached right after it was detached: so that
 * is not done between two short jobs. */
void service_settle_accounts(struct service *s)
{
	if (s->life.life && !s->attached && !s->facts.first)
		(void)life_want_accounts(s->life.life, false);
}

int service_open_life(struct service *s, const struct life_ops *ops, struct err *err)
{
	const struct life_options options = { .want_ebpf =
						      s->settings.options->config->ebpf_enabled,
					      .why_no_ebpf = SOURCES_EBPF_FORBIDDEN };

	s->life.ops = ops;
	membership_on_missing(s->scan.membership, ops->missing, s);
	s->life.timer = loop_timer_new(s->loop, on_timer, s);
	if (!s->life.timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	if (life_open_with(&options, &s->life.life, NULL) < 0)
		return 0; /* daemon.status says which rung it is instead */
	s->life.watch = loop_watch_fd(s->loop, life_fd(s->life.life), on_readable, s);
	if (s->life.watch)
		return 0;
	service_close_life(s);
	return err_set(err, -ENOMEM, "no memory left to begin");
}

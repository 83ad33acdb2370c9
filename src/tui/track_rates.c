#include "tui/track_rates.h"

#include "base/unknown.h"

#define TICK_NS UINT64_C(10000000) /* in which the kernel tells of children that have ended */
#define ROUNDED_NS (2 * TICK_NS)   /* user and system time are each rounded down */

/* ---- I/O ---- */

/*
 * Without what it got from children that it waited for. What is less than theirs cannot have it in
 * it: who does not care for their ends (SIGCHLD) gets nothing of them. The record does not say who
 * that is; but who gets their CPU time gets their bytes with it.
 */
static uint64_t own_growth(const struct track *track, const struct proc_sample *p, uint64_t bytes)
{
	uint64_t grown = u64_delta(bytes, track->io_bytes);
	uint64_t waited = track->waited_bytes, doubtful = track->doubtful_bytes;
	bool is_unsure = p->ignores_sigchld == SIGCHLD_UNKNOWN && !track->has_waited;

	if (!u64_known(grown) || p->ignores_sigchld > 0)
		return grown;
	if (is_unsure) {
		doubtful = u64_add(doubtful, waited);
		waited = 0;
	}
	if (grown >= waited)
		grown -= waited;
	return doubtful > 0 && grown >= doubtful ? U64_UNKNOWN : grown;
}

/* Per nanosecond. */
static double rate_of(uint64_t grown, uint64_t elapsed_ns)
{
	return u64_known(grown) && u64_known(elapsed_ns) && elapsed_ns > 0
		       ? (double)grown / (double)elapsed_ns
		       : F64_UNKNOWN;
}

static void set_io(struct track *track, const struct proc_sample *p, uint64_t elapsed_ns)
{
	uint64_t bytes = u64_add(p->rchar, p->wchar);

	track->io_rate = rate_of(own_growth(track, p, bytes), elapsed_ns) * 1e9;
	track->io_bytes = bytes;
	track->waited_bytes = track->doubtful_bytes = 0;
}

/* ---- CPU ---- */

/* What was rounded away may come in the next tick: it is kept back until then. */
static uint64_t ended_growth(struct track *track, uint64_t ended_ns)
{
	uint64_t grown = u64_delta(ended_ns, track->ended_cpu_ns);
	uint64_t told = track->told_cpu_ns;

	track->told_cpu_ns = 0;
	if (!u64_known(grown) || !u64_known(told))
		return grown == 0 ? 0 : U64_UNKNOWN;
	if (grown >= told)
		return grown - told;
	track->told_cpu_ns = told - grown < ROUNDED_NS ? told - grown : ROUNDED_NS;
	return 0;
}

/* It began after the snapshot before: all that it did it has done since. */
static bool is_born_since(const struct track *track, const struct proc_sample *p,
			  uint64_t elapsed_ns)
{
	return !u64_known(track->boot_ns) && u64_known(elapsed_ns) && f64_known(p->age_seconds) &&
	       p->age_seconds * 1e9 <= (double)(elapsed_ns + TICK_NS);
}

static uint64_t ended_cpu_of(const struct proc_sample *p)
{
	return u64_add(p->child_user_ns, p->child_system_ns);
}

static void set_cpu(struct track *track, const struct proc_sample *p, uint64_t elapsed_ns)
{
	uint64_t ended_ns = ended_cpu_of(p);
	double own = rate_of(u64_delta(p->cpu_ns, track->cpu_ns), elapsed_ns) * 100;
	double ended = rate_of(ended_growth(track, ended_ns), elapsed_ns) * 100;

	if (f64_known(p->cpu_percent))
		own = p->cpu_percent;
	track->cpu_percent = f64_known(ended) ? own + ended : own;
	track->cpu_ns = p->cpu_ns;
	track->ended_cpu_ns = ended_ns;
}

void track_set_rates(struct track *track, const struct proc_sample *p, uint64_t boot_ns,
		     uint64_t before_boot_ns)
{
	uint64_t elapsed_ns = u64_delta(boot_ns, track->boot_ns);
	uint64_t since_ns = u64_delta(boot_ns, before_boot_ns);
	uint64_t ended_ns = u64_delta(ended_cpu_of(p), track->ended_cpu_ns);

	track->has_waited |= u64_known(ended_ns) && ended_ns > 0;
	if (is_born_since(track, p, since_ns)) {
		track->io_bytes = track->cpu_ns = track->ended_cpu_ns = 0;
		elapsed_ns = since_ns;
	}
	set_io(track, p, elapsed_ns);
	set_cpu(track, p, elapsed_ns);
	track->boot_ns = boot_ns;
}

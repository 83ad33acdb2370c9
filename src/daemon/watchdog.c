#include "daemon/watchdog.h"

bool watchdog_is_content(struct watchdog *w, uint64_t n_ticks, double interval_seconds)
{
	w->n_without = n_ticks == w->n_ticks ? w->n_without + 1 : 0;
	w->n_ticks = n_ticks;
	return (double)(w->n_without * w->period_ms) <=
	       interval_seconds * 1000 + 2 * (double)w->period_ms;
}

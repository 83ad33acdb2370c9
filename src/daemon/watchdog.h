/*
 * watchdog - whether the service manager may believe that all is well.
 *
 * A daemon that hangs gives no sign of life by itself. This is for one that
 * answers and has stopped to tick.
 */
#ifndef PROCTOR_DAEMON_WATCHDOG_H
#define PROCTOR_DAEMON_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct watchdog {
	uint64_t period_ms; /* how often it is asked; 0: never */
	uint64_t n_ticks;   /* there were when it was asked last */
	uint64_t n_without; /* how often in a row there was none since */
};

/*
 * To be asked every period_ms, with the number of ticks so far: false when a tick
 * is more than two periods late. Time is counted in askings, since a clock that
 * goes on while the host sleeps would take the first moment after that for late.
 */
bool watchdog_is_content(struct watchdog *w, uint64_t n_ticks, double interval_seconds);

#endif

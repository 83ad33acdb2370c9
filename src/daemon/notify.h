/*
 * notify - tells the service manager (systemd) how the daemon is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "READY=1", "WATCHDOG=1", "STOPPING=1". Without a manager that listens it does nothing. */
void notify_service_manager(const char *state);

/* "RELOADING=1", which wants the time too; "READY=1" ends it. */
void notify_reloading(void);

/* How often the manager wants a sign of life, in ms; 0: it does not. */
uint64_t notify_watchdog_ms(void);

/*
 * ---- whether the service manager may believe that all is well ----
 *
 * A daemon that hangs gives no sign of life by itself. This is for one that
 * answers and has stopped to tick.
 */
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

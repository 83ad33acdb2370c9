/*
 * notify - tells the service manager (systemd) how the daemon is.
 */
#ifndef PROCTOR_DAEMON_NOTIFY_H
#define PROCTOR_DAEMON_NOTIFY_H

#include <stdint.h>

/* "READY=1", "WATCHDOG=1", "STOPPING=1". Without a manager that listens it does nothing. */
void notify_service_manager(const char *state);

/* "RELOADING=1", which wants the time too; "READY=1" ends it. */
void notify_reloading(void);

/* How often the manager wants a sign of life, in ms; 0: it does not. */
uint64_t notify_watchdog_ms(void);

#endif

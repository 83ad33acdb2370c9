/*
 * run_around - what else the host was doing, for a run, which looks at none but its own processes.
 */
#ifndef PROCTOR_DAEMON_RUN_AROUND_H
#define PROCTOR_DAEMON_RUN_AROUND_H

#include "model/anomaly.h"

struct run;

/*
 * Something began at this tick: all processes of the host are looked at, once for all that begins
 * within a second. Who takes the most CPU one look does not tell, nor how many jobs run: these are
 * unknown.
 */
void run_look_around(struct run *run, struct anomaly_host *host);

#endif

/*
 * run_life - what the kernel tells of births and deaths, into the run's tree and tally.
 *
 * Where it does not tell this user, or no longer, run->life is NULL, run->life_err says why, and
 * what a scan does not show is gone (run->forget_missing).
 */
#ifndef PROCTOR_DAEMON_RUN_LIFE_H
#define PROCTOR_DAEMON_RUN_LIFE_H

struct run;

void run_life_open(struct run *run);

/* Takes in all that has been told so far: before a scan, and before somebody is waited for. */
void run_life_drain(struct run *run);

#endif

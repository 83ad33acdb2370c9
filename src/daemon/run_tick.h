/*
 * run_tick - one look at the processes of a run, and when the next one is.
 *
 * Collect, assign to the job, add up, store, show: at a sheet's beginning often, later every
 * interval, and sooner while something that began is looked at closer. A look that fails is said
 * once, and the next one tries again.
 */
#ifndef PROCTOR_DAEMON_RUN_TICK_H
#define PROCTOR_DAEMON_RUN_TICK_H

#include <stdbool.h>

#include "daemon/daemon.h"

struct run;

/* Makes run->tick_timer, which closing the loop frees; nothing is looked at yet. -ENOMEM. */
int run_open_ticks(struct run *run);

/* A sheet begins: looks come often again, until run->tick_timer is stopped. */
void run_start_ticks(struct run *run);

/*
 * Which processes there are, of all the host if at_all, and which of them are ours: run->snap and
 * run->members. False: they could not be looked at.
 */
bool run_scan(struct run *run, bool at_all);

/* SHEET_NONE: between two sheets. */
int run_current_sheet(const struct run *run);

/* To whoever shows it, as of the last look. */
void run_tell_progress(struct run *run, enum progress_state state);

#endif

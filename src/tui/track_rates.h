/*
 * track_rates - how fast the counters of a process grow, from one look at it to the next.
 *
 * For track.c, which has noted what ended children have told already (see track.h).
 */
#ifndef PROCTOR_TUI_TRACK_RATES_H
#define PROCTOR_TUI_TRACK_RATES_H

#include "tui/track.h"

/* It was looked at at boot_ns, and the snapshot before was made at before_boot_ns, or that is
 * unknown. */
void track_set_rates(struct track *track, const struct proc_sample *p, uint64_t boot_ns,
		     uint64_t before_boot_ns);

#endif

/*
 * life - how the processes of an attempt ended, and which of it is worth a look.
 */
#ifndef PROCTOR_REPORT_LIFE_H
#define PROCTOR_REPORT_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"

#define LIFE_CODES 256
#define LIFE_SIGNALS 128

struct life_tally {
	uint64_t exited[LIFE_CODES];   /* by exit code */
	uint64_t killed[LIFE_SIGNALS]; /* by signal */
	uint64_t n_ended;	       /* sum of the above */
	uint64_t n_unseen;	       /* nobody saw how they ended, or they still run */
};

/* Of the recorded processes; without any, of the exit events. */
void life_count(const struct attempt *a, struct life_tally *ret);

/* "497 exited 0, 2 exited 1, 1 killed by SIGKILL (9), 3 whose end nobody saw"; "" for nothing. */
void life_add_tally(struct buf *out, const struct life_tally *tally, bool is_running);

/* True unless every process that ended exited 0. */
bool life_has_trouble(const struct life_tally *tally);

/*
 * The events that matter most: those of sheet_num first, then worst first (out
 * of memory, kills, signals, exits that are not 0), each kind in order of time.
 * Up to max of them go into ret. Returns how many there are in all.
 */
size_t life_find_notable(const struct attempt *a, int sheet_num, size_t max,
			 const struct proc_event **ret);

#endif

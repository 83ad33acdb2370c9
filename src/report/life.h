/*
 * life - how the processes of an attempt ended, and which of it is worth a look.
 */
#ifndef PROCTOR_REPORT_LIFE_H
#define PROCTOR_REPORT_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "report/facts.h"

#define LIFE_CODES 256
#define LIFE_SIGNALS 128

struct life_tally {
	bool has_ends;		       /* counted from the records of processes */
	uint64_t exited[LIFE_CODES];   /* by exit code */
	uint64_t killed[LIFE_SIGNALS]; /* by signal */
	uint64_t n_ended;	       /* sum of the above */
	uint64_t n_left;	       /* still running when the attempt had ended */
	uint64_t n_unseen;	       /* nobody saw how they ended, or they still run */
	uint64_t n_all;		       /* sum of the above */
	uint64_t n_oom;		       /* of those that were killed, for want of memory */
};

/* Of the recorded processes; of the exit events while there are no records of ends. */
void life_count(const struct facts *f, struct life_tally *ret);

/* "497 exited 0, 1 killed by SIGKILL (9), 1 still running when proctor ended, 3 whose end nobody
 * saw"; "" for nothing. */
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

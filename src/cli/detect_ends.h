/*
 * detect_ends - when those of which something lasts have ended, as a search of the record finds it.
 */
#ifndef PROCTOR_CLI_DETECT_ENDS_H
#define PROCTOR_CLI_DETECT_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "detect/detect.h"
#include "store/store.h"

/* What a look is handed. All zeros is empty. */
struct event_list {
	struct proc_event *items; /* their strings are those of others, or static */
	size_t n, cap;
};

void event_list_release(struct event_list *list);
int event_list_add(struct event_list *list, const struct proc_event *items, size_t n); /* -ENOMEM */

/* Whose, and from when to when: until is one of them, and 0 is no end. */
struct ends_of {
	const struct attempt *attempt;
	uint64_t since_wall_ns, until_wall_ns;
};

/* Adds the ends of processes that the detector follows, and who of them is left of the job. */
int ends_read(struct store *store, const struct detect *d, const struct ends_of *of,
	      struct event_list *list, struct err *err);

/* The job is over: those that the list tells nothing of have ended with it. -ENOMEM. */
int ends_add_gone(const struct detect *d, const struct attempt *a, struct event_list *list);

#endif

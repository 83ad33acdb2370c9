/*
 * Scenes for planted faults: each is found, and how long that takes is printed.
 */
#ifndef PROCTOR_TESTS_DETECT_SCENES_H
#define PROCTOR_TESTS_DETECT_SCENES_H

#include "detect_fixture.h"

#include <math.h>

/* Ticks until so many seconds have passed; fn makes the processes. */
typedef void scene(struct host *h, double t);

static inline void play(struct host *h, double seconds, scene *fn)
{
	double from = h->now;

	while (h->now - from < seconds) {
		host_begin(h);
		fn(h, h->now - from);
		host_tick(h);
	}
}

/* planted: when, in seconds. */
static inline const struct seen *begin_of(struct host *h, enum anomaly_type type, double planted)
{
	const struct seen *s = host_find(h, type, EPISODE_BEGAN);

	if (!s) {
		host_print(h);
		fail_msg("no %s was found", anomaly_type_name(type));
		return NULL;
	}
	print_message("# found after %3.0f s: %s: %s\n", s->at - planted, anomaly_type_name(type),
		      s->e.worst.text);
	assert_true(s->at >= planted);
	return s;
}

static inline void assert_quiet(struct host *h)
{
	if (h->n_seen > 0)
		host_print(h);
	assert_int_equal(h->n_seen, 0);
}

#endif

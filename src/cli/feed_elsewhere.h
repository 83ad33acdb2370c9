/*
 * feed_elsewhere - what happened to a job, a line each as in a feed, from a daemon's record.
 */
#ifndef PROCTOR_CLI_FEED_ELSEWHERE_H
#define PROCTOR_CLI_FEED_ELSEWHERE_H

#include "cli/feed.h"

/* As elsewhere_print(). */
int feed_print_elsewhere(const struct feed_options *options);

#endif

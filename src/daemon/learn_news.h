/*
 * learn_news - what an analysis has changed in what is believed.
 *
 * New ones, and those with another state. That one was found once more is no news, nor is
 * another score of a correlation: it has one after every run.
 */
#ifndef PROCTOR_DAEMON_LEARN_NEWS_H
#define PROCTOR_DAEMON_LEARN_NEWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "daemon/learning.h"

struct learn_news_item {
	const struct pattern *pattern; /* of the struct learning */
	uint64_t uid;		       /* whose jobs it is about; U64_UNKNOWN: of all users, or
					* nobody knows */
};

struct learn_news {
	struct map before;
	struct learn_news_item *items;
	size_t n;
};

/* Between learning_read() and learning_analyze(). -ENOMEM. */
int learn_news_begin(struct learn_news *news, const struct pattern_list *patterns);

/* After it; the store tells whose the jobs are. -ENOMEM. */
int learn_news_find(struct learn_news *news, const struct learning *l, struct store *store);

void learn_news_release(struct learn_news *news);

#endif

#include "daemon/learn_news.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

static uint64_t hash_text(uint64_t h, const char *text)
{
	return hash_bytes(h, text, strlen(text) + 1);
}

static uint64_t identity_of(const struct pattern *p)
{
	return hash_text(hash_text(HASH_INIT, p->type), p->name);
}

/* Of what would be news if it changed. */
static uint64_t content_of(const struct pattern *p)
{
	return hash_text(HASH_INIT, belief_state(p));
}

int learn_news_begin(struct learn_news *news, const struct pattern_list *patterns)
{
	*news = (struct learn_news){ .before = MAP_INIT };
	for (size_t i = 0; i < patterns->n; i++) {
		const struct pattern *p = &patterns->items[i];

		if (map_put(&news->before, identity_of(p), content_of(p)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool is_news(const struct learn_news *news, const struct pattern *p)
{
	uint64_t before;

	return !map_get(&news->before, identity_of(p), &before) || before != content_of(p);
}

static uint64_t read_uid(struct store *store, const struct run_record *run)
{
	CLEANUP(attempt_release) struct attempt a;

	attempt_init(&a);
	if (store_read_progress(store, run->job_id, run->attempt_num, &a, NULL) < 0)
		return U64_UNKNOWN;
	return a.uid;
}

/* A class is of one user: any of its runs tells whose. The newest are still there. */
static uint64_t find_owner(const struct pattern *p, const struct learning *l, struct store *store)
{
	for (size_t i = l->runs.n; p->grade && i-- > 0;)
		if (l->runs.items[i].class.command == p->class_key)
			return read_uid(store, &l->runs.items[i]);
	return U64_UNKNOWN;
}

int learn_news_find(struct learn_news *news, const struct learning *l, struct store *store)
{
	news->items = calloc(l->patterns.n ? l->patterns.n : 1, sizeof(*news->items));
	if (!news->items)
		return -ENOMEM;
	for (size_t i = 0; i < l->patterns.n; i++) {
		const struct pattern *p = &l->patterns.items[i];

		if (is_news(news, p))
			news->items[news->n++] =
				(struct learn_news_item){ p, find_owner(p, l, store) };
	}
	return 0;
}

void learn_news_release(struct learn_news *news)
{
	map_release(&news->before);
	free(news->items);
	*news = (struct learn_news){ .before = MAP_INIT };
}

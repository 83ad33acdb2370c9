#include "cli/detect_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/detect_pass.h"
#include "daemon/daemon.h"
#include "detect/detect.h"

/* Ticks at the ends of an attempt may be a little outside of it. */
#define MARGIN_NS UINT64_C(60000000000)

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory");
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* 0 is no end. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* As it was known when it began; the list has no sheets. */
static int look_up_usual(struct store *store, const struct attempt *listed,
			 struct detect_usual *ret, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_progress(store, listed->job_id, listed->attempt_num, &a, err);
	if (r == 0)
		r = learning_usual(store, &a, ret, err);
	ret->job_id = r == 0 ? listed->job_id : NULL;
	return r == -ENOENT ? 0 : r;
}

/* What is of this attempt: a little more than it, but nothing of those before and after it. */
struct span {
	uint64_t since_wall_ns, until_wall_ns; /* 0: no end */
};

static uint64_t hash_job(const struct attempt *a)
{
	return hash_bytes(HASH_INIT, a->job_id, strlen(a->job_id));
}

static struct span span_of(const struct attempt *a)
{
	struct span span = { 0 };

	if (u64_known(a->started_wall_ns) && a->started_wall_ns > MARGIN_NS)
		span.since_wall_ns = a->started_wall_ns - MARGIN_NS;
	if (u64_known(a->ended_wall_ns))
		span.until_wall_ns = a->ended_wall_ns + MARGIN_NS;
	return span;
}

/* Between two attempts of one job the earlier one ends where the later one begins. */
static void part(const struct attempt *before, const struct attempt *after, struct span *of_before,
		 struct span *of_after)
{
	if (!u64_known(before->ended_wall_ns) || !u64_known(after->started_wall_ns) ||
	    before->ended_wall_ns > after->started_wall_ns)
		return; /* side by side: who is whose is for the record to say */
	of_before->until_wall_ns = earlier(of_before->until_wall_ns, after->started_wall_ns - 1);
	of_after->since_wall_ns = later(of_after->since_wall_ns, before->ended_wall_ns);
}

/* For each of the list, which is by time. -ENOMEM. */
static int find_spans(const struct attempt_list *list, struct span *ret)
{
	CLEANUP(map_release) struct map last = MAP_INIT;
	uint64_t before;

	for (size_t i = 0; i < list->n; i++) {
		ret[i] = span_of(&list->items[i]);
		if (map_get(&last, hash_job(&list->items[i]), &before))
			part(&list->items[before], &list->items[i], &ret[before], &ret[i]);
		if (map_put(&last, hash_job(&list->items[i]), i) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What all passes are handed. */
struct search {
	struct store *store;
	const struct config_anomaly *config;
	const struct detect_period *period;
	struct kills kills;
	struct counted_list counted;
	struct found_list *list;
	uint64_t *looked_wall_ns; /* of each attempt */
};

static void search_release(struct search *s)
{
	kills_release(&s->kills);
	counted_list_release(&s->counted);
	free(s->looked_wall_ns);
}

static int look_at_attempt(struct search *s, const struct attempt *a, const struct span *span,
			   uint64_t *ret_looked, struct err *err)
{
	CLEANUP(pass_release)
	struct pass p = { .d = detect_new(s->config, DETECT_JOBS),
			  .kills = &s->kills,
			  .counted = &s->counted,
			  .list = s->list,
			  .attempt = a,
			  .err = err };
	const struct snapshot_filter filter = {
		.job_id = a->job_id,
		.since_wall_ns = later(s->period->since_wall_ns, span->since_wall_ns),
		.until_wall_ns = earlier(s->period->until_wall_ns, span->until_wall_ns),
	};
	int r = look_up_usual(s->store, a, &p.usual, err);

	if (r == 0)
		r = pass_run(s->store, &p, &filter);
	*ret_looked = p.looked_wall_ns;
	return r;
}

static int look_at_host(struct search *s, const struct attempt_list *attempts, struct err *err)
{
	const struct watchers watchers = { attempts, s->looked_wall_ns };
	CLEANUP(pass_release)
	struct pass p = { .d = detect_new(s->config, DETECT_HOST),
			  .kills = &s->kills,
			  .counted = &s->counted,
			  .list = s->list,
			  .watchers = &watchers,
			  .err = err };
	const struct snapshot_filter filter = { .since_wall_ns = s->period->since_wall_ns,
						.until_wall_ns = s->period->until_wall_ns };

	counted_list_sort(&s->counted);
	return pass_run(s->store, &p, &filter);
}

static int look_at_all(struct search *s, const struct attempt_list *attempts, struct err *err)
{
	CLEANUP(free_ptr)
	struct span *spans = calloc(attempts->n ? attempts->n : 1, sizeof(*spans));
	int r = 0;

	s->looked_wall_ns = calloc(attempts->n ? attempts->n : 1, sizeof(*s->looked_wall_ns));
	if (!spans || !s->looked_wall_ns || find_spans(attempts, spans) < 0)
		return no_memory(err);
	for (size_t i = 0; r == 0 && i < attempts->n; i++)
		r = look_at_attempt(s, &attempts->items[i], &spans[i], &s->looked_wall_ns[i], err);
	if (r == 0 && !s->period->job_id)
		r = look_at_host(s, attempts, err);
	return r;
}

int detect_history(struct store *store, const struct config_anomaly *config,
		   const struct detect_period *period, struct found_list *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(search_release)
	struct search s = {
		.store = store, .config = config, .period = period, .kills = KILLS_INIT, .list = ret
	};
	const struct attempt_filter filter = { .job_id = period->job_id,
					       .since_wall_ns = period->since_wall_ns };
	const struct event_filter events = { .since_wall_ns = period->since_wall_ns,
					     .until_wall_ns = period->until_wall_ns };
	int r = store_list_attempts(store, &filter, &list, err);

	if (r == 0)
		r = kills_read(store, &events, &s.kills, err);
	if (r == 0)
		r = look_at_all(&s, &list, err);
	if (r == 0)
		found_list_sort(ret);
	return r;
}

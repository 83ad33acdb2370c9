#include "cli/detect_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "detect/detect.h"

/* Ticks at the ends of an attempt may be a little outside of it. */
#define MARGIN_NS UINT64_C(60000000000)

void found_list_release(struct found_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct found_list){ 0 };
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory");
}

/* ---- what is found ---- */

static int add_found(struct found_list *list, int attempt_num, struct found **ret)
{
	struct found **grown;

	if (list->n == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 32;

		grown = reallocarray(list->items, cap, sizeof(struct found *));
		if (!grown)
			return -ENOMEM;
		list->items = grown;
		list->cap = cap;
	}
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->attempt_num = attempt_num;
	list->items[list->n++] = *ret;
	return 0;
}

/* One that is known already is among the last. */
static struct found *find_found(const struct found_list *list, const char *name)
{
	for (size_t i = list->n; i > 0; i--)
		if (strcmp(list->items[i - 1]->episode.name, name) == 0)
			return list->items[i - 1];
	return NULL;
}

static int keep(struct found_list *list, int attempt_num, const struct episode *e)
{
	struct found *found = find_found(list, e->name);

	if (!found && add_found(list, attempt_num, &found) < 0)
		return -ENOMEM;
	episode_copy(&found->episode, e);
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct episode *x = &(*(struct found *const *)a)->episode;
	const struct episode *y = &(*(struct found *const *)b)->episode;

	if (x->began_wall_ns != y->began_wall_ns)
		return x->began_wall_ns < y->began_wall_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* ---- OOM kills, by time ---- */

struct kills {
	struct proc_event *items;
	size_t n, cap, next;
	struct arena arena;
};

static void kills_release(struct kills *kills)
{
	free(kills->items);
	arena_release(&kills->arena);
}

static int on_event(void *ctx, const struct event_row *row)
{
	struct kills *kills = ctx;
	struct proc_event *grown, *ev;

	if (row->event.type != EVENT_OOM)
		return 0;
	if (kills->n == kills->cap) {
		size_t cap = kills->cap ? kills->cap * 2 : 16;

		grown = reallocarray(kills->items, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		kills->items = grown;
		kills->cap = cap;
	}
	ev = &kills->items[kills->n++];
	*ev = row->event;
	ev->job_id = arena_strdup(&kills->arena, row->event.job_id);
	ev->details = arena_strdup(&kills->arena, row->event.details);
	return ev->job_id && ev->details ? 0 : -ENOMEM;
}

/* Those up to this moment that were not handed out yet. */
static size_t take_kills(struct kills *kills, uint64_t wall_ns, const struct proc_event **ret)
{
	size_t from = kills->next;

	while (kills->next < kills->n && kills->items[kills->next].wall_ns <= wall_ns)
		kills->next++;
	*ret = kills->items ? kills->items + from : NULL;
	return kills->next - from;
}

/* ---- one pass ---- */

struct pass {
	struct detect *d;
	struct kills kills;
	struct found_list *list;
	int attempt_num;
	struct detect_usual usual; /* job_id NULL: nothing is known of jobs of its kind */
	struct err *err;
};

static int keep_changes(struct pass *p, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		if (keep(p->list, p->attempt_num, changes->items[i].episode) < 0)
			return no_memory(p->err);
	return 0;
}

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct pass *p = ctx;
	struct detect_news news = { .snap = snap,
				    .usual = &p->usual,
				    .n_usual = p->usual.job_id ? 1 : 0 };
	struct detect_changes changes;

	if (snap->covers == COVERS_LOOK)
		return 0; /* evidence, which nobody has looked for anomalies in then either */
	news.n_events = take_kills(&p->kills, snap->wall_ns, &news.events);
	p->list->n_snapshots++;
	if (detect_tick(p->d, &news, &changes) < 0)
		return no_memory(p->err);
	return keep_changes(p, &changes);
}

/* What lasts is as it was last, or over where there is nothing more to come. */
static int finish(struct pass *p, bool is_over)
{
	struct detect_changes changes = { 0 };
	const struct episode *e;
	int r = 0;

	if (is_over && detect_end(p->d, &changes) < 0)
		return no_memory(p->err);
	if (is_over)
		return keep_changes(p, &changes);
	for (size_t i = 0; r == 0 && (e = detect_active(p->d, i)); i++)
		r = keep(p->list, p->attempt_num, e) < 0 ? no_memory(p->err) : 0;
	return r;
}

static void add_looks(struct pass *p)
{
	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		struct detect_looks looks = detect_looks_of(p->d, type);

		p->list->looks[type].n_judged += looks.n_judged;
		p->list->looks[type].n_silent += looks.n_silent;
	}
}

static int run_pass(struct store *store, struct pass *p, const struct snapshot_filter *filter,
		    bool is_over)
{
	const struct event_filter events = { .job_id = filter->job_id,
					     .since_wall_ns = filter->since_wall_ns,
					     .until_wall_ns = filter->until_wall_ns };
	int r;

	if (!p->d)
		return no_memory(p->err);
	r = store_read_events(store, &events, on_event, &p->kills, p->err);
	if (r == -ENOMEM)
		return no_memory(p->err);
	if (r == 0)
		r = store_read_snapshots(store, filter, on_snapshot, p, p->err);
	if (r == 0)
		r = finish(p, is_over);
	add_looks(p);
	return r;
}

static void pass_release(struct pass *p)
{
	detect_free(p->d);
	kills_release(&p->kills);
}

/* ---- what could not be judged ---- */

/* Who looks at the time knows what becomes of what a job leaves behind; the record does not. */
static bool is_unjudged(const struct found_list *list, enum anomaly_type type)
{
	const struct detect_looks *looks = &list->looks[type];

	if (type == ANOMALY_ORPHAN)
		return looks->n_judged > 0;
	return looks->n_silent > 0 && looks->n_judged == 0;
}

void found_list_add_unjudged(const struct found_list *list, struct buf *out)
{
	const char *before = "not judged, as what they need was not recorded, or not for long "
			     "enough: ";

	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		if (!is_unjudged(list, type))
			continue;
		buf_printf(out, "%s%s", before, anomaly_type_name(type));
		before = ", ";
	}
	if (out->len > 0)
		buf_add_char(out, '\n');
	if (list->looks[ANOMALY_RUNAWAY_PROCESS].n_judged > 0)
		buf_add_str(out, "runaway_process was judged only where the process got its core: "
				 "what it waited for one is not recorded\n");
}

/* ---- all of them ---- */

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

static int look_at_attempt(struct store *store, const struct config_anomaly *config,
			   const struct detect_period *period, const struct attempt *a,
			   const struct span *span, struct found_list *list, struct err *err)
{
	CLEANUP(pass_release)
	struct pass p = { .d = detect_new(config, DETECT_JOBS),
			  .list = list,
			  .attempt_num = a->attempt_num,
			  .err = err };
	const struct snapshot_filter filter = {
		.job_id = a->job_id,
		.since_wall_ns = later(period->since_wall_ns, span->since_wall_ns),
		.until_wall_ns = earlier(period->until_wall_ns, span->until_wall_ns),
	};
	int r = look_up_usual(store, a, &p.usual, err);

	return r < 0 ? r : run_pass(store, &p, &filter, u64_known(a->ended_wall_ns));
}

static int look_at_host(struct store *store, const struct config_anomaly *config,
			const struct detect_period *period, struct found_list *list,
			struct err *err)
{
	CLEANUP(pass_release)
	struct pass p = { .d = detect_new(config, DETECT_HOST), .list = list, .err = err };
	const struct snapshot_filter filter = { .since_wall_ns = period->since_wall_ns,
						.until_wall_ns = period->until_wall_ns };

	return run_pass(store, &p, &filter, false);
}

int detect_history(struct store *store, const struct config_anomaly *config,
		   const struct detect_period *period, struct found_list *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(free_ptr) struct span *spans = NULL;
	const struct attempt_filter filter = { .job_id = period->job_id,
					       .since_wall_ns = period->since_wall_ns };
	int r = store_list_attempts(store, &filter, &list, err);

	spans = calloc(list.n ? list.n : 1, sizeof(*spans));
	if (r == 0 && (!spans || find_spans(&list, spans) < 0))
		r = no_memory(err);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = look_at_attempt(store, config, period, &list.items[i], &spans[i], ret, err);
	if (r == 0 && !period->job_id)
		r = look_at_host(store, config, period, ret, err);
	if (r == 0 && ret->n > 1)
		qsort(ret->items, ret->n, sizeof(struct found *), compare_found);
	return r;
}

#include "tui/changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "bus/bus.h"
#include "tui/feed.h"

#define MAX_CHANGES 1048576 /* that a replay knows of */

struct recorded_change {
	uint64_t wall_ns;
	const char *job_id;
	int attempt_num;
	enum change change;
	int sheet_num, try_num; /* of a sheet */
	const char *sheet_name; /* of one that begins, or NULL */
};

typedef int change_fn(void *ctx, enum change change, const struct attempt *a,
		      const struct sheet_record *sheet);

/* In the order in which they happen. */
static int each_change(const struct attempt *a, change_fn *fn, void *ctx)
{
	int r = attempt_has_begun(a) ? fn(ctx, CHANGE_JOB_STARTED, a, NULL) : 0;

	for (size_t i = 0; r == 0 && i < a->n_sheets; i++) {
		r = fn(ctx, CHANGE_SHEET_STARTED, a, &a->sheets[i]);
		if (r == 0 && u64_known(a->sheets[i].ended_wall_ns))
			r = fn(ctx, CHANGE_SHEET_ENDED, a, &a->sheets[i]);
	}
	if (r == 0 && u64_known(a->ended_wall_ns))
		r = fn(ctx, CHANGE_JOB_ENDED, a, NULL);
	return r;
}

/* Since when it runs, and how it is called. */
static void set_start(struct scene *s, const struct recorded_change *change, int attempt_num)
{
	uint64_t sheet = outline_key_of_sheet(change->job_id, attempt_num, change->sheet_num);

	if (change->change == CHANGE_JOB_STARTED)
		scene_set_start(s, track_key_of_attempt(change->job_id, attempt_num),
				change->wall_ns);
	if (change->change != CHANGE_SHEET_STARTED)
		return;
	scene_set_start(s, sheet, change->wall_ns);
	scene_name_sheet(s, sheet, change->sheet_name);
}

static struct recorded_change change_of(enum change change, const struct attempt *a,
					const struct sheet_record *sheet)
{
	return (struct recorded_change){
		.wall_ns = change_time(change, a, sheet),
		.job_id = a->job_id,
		.attempt_num = a->attempt_num,
		.change = change,
		.sheet_num = sheet ? sheet->num : SHEET_NONE,
		.try_num = sheet ? sheet->try_num : 0,
		.sheet_name = sheet && change == CHANGE_SHEET_STARTED ? sheet->name : NULL,
	};
}

/* ---- by time ---- */

void changes_release(struct changes *c)
{
	free(c->items);
	arena_release(&c->arena);
	*c = (struct changes){ 0 };
}

static int add_change(void *ctx, enum change change, const struct attempt *a,
		      const struct sheet_record *sheet)
{
	struct changes *c = ctx;
	struct recorded_change kept = change_of(change, a, sheet);

	if (!u64_known(kept.wall_ns) || c->n == MAX_CHANGES)
		return 0;
	if (kept.sheet_name)
		kept.sheet_name = arena_strdup(&c->arena, kept.sheet_name);
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 256;
		struct recorded_change *items = reallocarray(c->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		c->items = items;
		c->cap = cap;
	}
	c->items[c->n++] = kept;
	return 0;
}

int changes_add(struct changes *c, struct store *store, const struct attempt *listed,
		struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct attempt kept;
	int r;

	attempt_init(&a);
	r = store_read_progress(store, listed->job_id, listed->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* gone meanwhile */
	kept = a;
	kept.job_id = arena_strdup(&c->arena, a.job_id);
	r = kept.job_id ? each_change(&kept, add_change, c) : -ENOMEM;
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

/* At the same time a beginning comes before an end, and a job before its sheets. */
static int compare(const void *x, const void *y)
{
	const struct recorded_change *a = x, *b = y;

	if (a->wall_ns != b->wall_ns)
		return a->wall_ns < b->wall_ns ? -1 : 1;
	return (int)a->change - (int)b->change;
}

void changes_sort(struct changes *c)
{
	if (c->n > 1)
		qsort(c->items, c->n, sizeof(*c->items), compare);
}

void changes_rewind(struct changes *c, struct scene *s)
{
	c->at = 0;
	map_clear(&s->starts);
}

static const struct sheet_record *find_sheet(const struct attempt *a,
					     const struct recorded_change *change)
{
	for (size_t i = 0; i < a->n_sheets; i++)
		if (a->sheets[i].num == change->sheet_num &&
		    a->sheets[i].try_num == change->try_num)
			return &a->sheets[i];
	return NULL;
}

/* With the words that the record has; what is gone from it meanwhile is not told. */
static int tell(struct store *store, struct scene *s, const struct recorded_change *change,
		struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	const struct sheet_record *sheet;
	int r;

	attempt_init(&a);
	r = store_read_progress(store, change->job_id, change->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	sheet = find_sheet(&a, change);
	if (sheet || change->sheet_num == SHEET_NONE)
		feed_tell_change(s, change->change, &a, sheet);
	return 0;
}

int changes_tell(struct changes *c, struct store *store, struct scene *s, uint64_t told_ns,
		 uint64_t until_ns, struct err *err)
{
	int r = 0;

	for (; r == 0 && c->at < c->n && c->items[c->at].wall_ns <= until_ns; c->at++) {
		const struct recorded_change *change = &c->items[c->at];

		set_start(s, change, 0); /* a minute has no progress, which would say whose it is */
		set_start(s, change, change->attempt_num);
		if (change->wall_ns > told_ns)
			r = tell(store, s, change, err);
	}
	return r;
}

/* ---- what is new ---- */

void change_news_release(struct change_news *news)
{
	map_release(&news->told);
	map_release(&news->over);
}

struct telling {
	struct change_news *news;
	struct scene *scene;
	uint64_t since_ns;
};

static uint64_t identity(enum change change, const struct attempt *a,
			 const struct sheet_record *sheet)
{
	const int64_t parts[] = { a->id, change, sheet ? sheet->num : 0,
				  sheet ? sheet->try_num : 0 };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

static int tell_news(void *ctx, enum change change, const struct attempt *a,
		     const struct sheet_record *sheet)
{
	const struct telling *t = ctx;
	const struct recorded_change now = change_of(change, a, sheet);
	uint64_t id = identity(change, a, sheet);

	set_start(t->scene, &now, now.attempt_num);
	if (map_get(&t->news->told, id, NULL))
		return 0;
	if (u64_known(now.wall_ns) && now.wall_ns >= t->since_ns)
		feed_tell_change(t->scene, change, a, sheet);
	return map_put(&t->news->told, id, 1);
}

static int tell_attempt(const struct telling *t, struct store *store, const struct attempt *listed,
			struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	if (map_get(&t->news->over, (uint64_t)listed->id, NULL))
		return 0;
	attempt_init(&a);
	r = store_read_progress(store, listed->job_id, listed->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = each_change(&a, tell_news, (void *)t);
	if (r == 0 && u64_known(a.ended_wall_ns))
		r = map_put(&t->news->over, (uint64_t)a.id, 1);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

int change_news_tell(struct change_news *news, struct store *store, struct scene *s,
		     const char *job_id, uint64_t since_ns, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = job_id, .since_wall_ns = since_ns };
	struct telling telling = { news, s, since_ns };
	int r = store_list_attempts(store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = tell_attempt(&telling, store, &list.items[i], err);
	return r;
}

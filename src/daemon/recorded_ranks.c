#include "daemon/recorded_ranks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/rank_lives.h"
#include "daemon/rank_memory.h"

/* Ticks at the ends of an attempt may be a little outside of it. */
#define MARGIN_NS UINT64_C(60000000000)

void recorded_ranks_release(struct recorded_ranks *r)
{
	free(r->points);
	free(r->ranks);
	arena_release(&r->arena);
	*r = (struct recorded_ranks){ .arena = ARENA_INIT };
}

/* ---- reading ---- */

struct gathering {
	struct recorded_ranks *ranks;
	struct rank_memory memory;
	uint64_t wall_ns; /* of the tick whose processes are being gathered */
};

static int add_point(void *ctx, const struct rank_holding *h)
{
	struct gathering *g = ctx;
	struct recorded_ranks *r = g->ranks;
	struct rank_point *grown;

	if (r->n_points == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 256;

		grown = reallocarray(r->points, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		r->points = grown;
		r->cap = cap;
	}
	r->points[r->n_points++] = (struct rank_point){ .wall_ns = g->wall_ns,
							.rank = h->rank,
							.sheet_num = h->sheet_num,
							.bytes = h->bytes,
							.gpu_bytes = h->gpu_bytes,
							.uses_gpu = h->uses_gpu };
	return 0;
}

/* Rows come tick by tick. */
static int on_sample(void *ctx, const struct history_row *row)
{
	struct gathering *g = ctx;
	int r = 0;

	if (row->attempt_num != g->ranks->a->attempt_num || row->sample.rank == RANK_NONE)
		return 0;
	if (row->wall_ns != g->wall_ns)
		r = rank_memory_end_tick(&g->memory, add_point, g);
	g->wall_ns = row->wall_ns;
	return r < 0 ? r : rank_memory_add(&g->memory, &row->sample);
}

static int read_points(struct store *store, struct recorded_ranks *r, struct err *err)
{
	const struct attempt *a = r->a;
	struct history_filter filter = { .job_id = a->job_id };
	struct gathering g = { .ranks = r };
	int result;

	if (u64_known(a->started_wall_ns) && a->started_wall_ns > MARGIN_NS)
		filter.since_wall_ns = a->started_wall_ns - MARGIN_NS;
	if (u64_known(a->ended_wall_ns))
		filter.until_wall_ns = a->ended_wall_ns + MARGIN_NS;
	result = store_read_history(store, &filter, on_sample, &g, err);
	if (result == 0)
		result = rank_memory_end_tick(&g.memory, add_point, &g);
	rank_memory_release(&g.memory);
	return result;
}

/* ---- the last sheet with ranks, and the last try of it ---- */

static void choose_sheet(struct recorded_ranks *r)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < r->n_points; i++)
		if (r->points[i].wall_ns >= last_ns) {
			last_ns = r->points[i].wall_ns;
			r->sheet_num = r->points[i].sheet_num;
		}
	for (size_t i = 0; i < r->a->n_sheets; i++) {
		const struct sheet_record *sheet = &r->a->sheets[i];

		if (sheet->num == r->sheet_num && u64_known(sheet->started_wall_ns) &&
		    sheet->started_wall_ns > r->since_wall_ns && sheet->started_wall_ns <= last_ns)
			r->since_wall_ns = sheet->started_wall_ns;
	}
}

static bool is_of_try(const struct recorded_ranks *r, const struct rank_point *p)
{
	return p->sheet_num == r->sheet_num && p->wall_ns >= r->since_wall_ns &&
	       p->wall_ns <= INT64_MAX;
}

static bool is_wanted(const struct recorded_ranks *r, const struct rank_point *p)
{
	return is_of_try(r, p) && u64_known(r->is_gpu ? p->gpu_bytes : p->bytes);
}

static int compare_points(const void *left, const void *right)
{
	const struct rank_point *l = left, *r = right;

	if (l->rank != r->rank)
		return l->rank < r->rank ? -1 : 1;
	return (l->wall_ns > r->wall_ns) - (l->wall_ns < r->wall_ns);
}

/*
 * A rank that holds nothing of a GPU yet is still on its way there. Of one that never does, nothing
 * is what it holds.
 */
static void drop_before_first_use(struct recorded_ranks *r)
{
	size_t n = 0;

	for (size_t i = 0, first, end; i < r->n_points; i = end) {
		for (end = i; end < r->n_points && r->points[end].rank == r->points[i].rank;)
			end++;
		for (first = i; first < end && r->points[first].gpu_bytes == 0;)
			first++;
		for (first = first < end ? first : i; first < end; first++)
			r->points[n++] = r->points[first];
	}
	r->n_points = n;
}

static void keep_wanted(struct recorded_ranks *r)
{
	size_t n = 0;

	choose_sheet(r);
	for (size_t i = 0; i < r->n_points; i++)
		r->is_gpu |= r->points[i].uses_gpu && is_of_try(r, &r->points[i]);
	for (size_t i = 0; i < r->n_points; i++)
		if (is_wanted(r, &r->points[i]))
			r->points[n++] = r->points[i];
	r->n_points = n;
	if (n > 0)
		qsort(r->points, n, sizeof(*r->points), compare_points);
	if (r->is_gpu)
		drop_before_first_use(r);
}

/* ---- who they are ---- */

static struct recorded_rank describe(const struct rank_life *life)
{
	return (struct recorded_rank){ .rank = life->rank,
				       .local_rank = life->local_rank,
				       .pid = life->pid,
				       .born_wall_ns = life->born_wall_ns,
				       .ended_wall_ns = life->ended_wall_ns,
				       .peak_bytes = life->peak_bytes };
}

/* The points from `first` on are of the next rank. Returns the first of another. */
static size_t add_sampled(struct recorded_ranks *r, size_t first, const struct rank_life *life)
{
	struct recorded_rank *rank = &r->ranks[r->n_ranks++];
	int number = r->points[first].rank;

	*rank = life ? describe(life)
		     : (struct recorded_rank){ .rank = number,
					       .local_rank = number,
					       .pid = -1,
					       .born_wall_ns = U64_UNKNOWN,
					       .ended_wall_ns = U64_UNKNOWN,
					       .peak_bytes = U64_UNKNOWN };
	rank->first = first;
	while (first < r->n_points && r->points[first].rank == number)
		first++;
	rank->n = first - rank->first;
	return first;
}

/* Both are by rank. Those that ended before anybody sampled them are known by their lives alone. */
static void merge(struct recorded_ranks *r, const struct rank_life *lives, size_t n_lives)
{
	size_t life = 0, point = 0;

	while (point < r->n_points || life < n_lives) {
		if (point == r->n_points ||
		    (life < n_lives && lives[life].rank < r->points[point].rank)) {
			r->ranks[r->n_ranks++] = describe(&lives[life++]);
			continue;
		}
		if (life < n_lives && lives[life].rank == r->points[point].rank)
			point = add_sampled(r, point, &lives[life++]);
		else
			point = add_sampled(r, point, NULL);
	}
}

static int list_ranks(struct recorded_ranks *r)
{
	const struct rank_lives_of of = { r->sheet_num, r->since_wall_ns, r->is_gpu };
	CLEANUP(free_ptr) struct rank_life *lives = NULL;
	size_t n_lives = 0, n = 0;
	int result;

	if (r->n_points == 0)
		return 0;
	result = rank_lives_find(r->a, &of, &lives, &n_lives);
	if (result < 0)
		return result;
	for (size_t i = 0; i < r->n_points; i++)
		n += i == 0 || r->points[i].rank != r->points[i - 1].rank;
	r->ranks = calloc(n + n_lives, sizeof(*r->ranks));
	if (!r->ranks)
		return -ENOMEM;
	merge(r, lives, n_lives);
	return 0;
}

/* What the launcher said, or the job file; and no less than there are. */
static void find_world_size(struct recorded_ranks *r)
{
	for (size_t i = 0; i < r->a->n_processes; i++) {
		const struct proc_record *p = &r->a->processes[i];

		if (p->rank >= 0 && p->sheet_num == r->sheet_num && p->world_size > r->world_size)
			r->world_size = p->world_size;
	}
	for (size_t i = 0; i < r->a->n_sheets; i++)
		if (r->a->sheets[i].num == r->sheet_num &&
		    r->a->sheets[i].total_ranks > r->world_size)
			r->world_size = r->a->sheets[i].total_ranks;
	if (r->n_ranks > 0 && r->ranks[r->n_ranks - 1].rank >= r->world_size)
		r->world_size = r->ranks[r->n_ranks - 1].rank + 1;
}

int recorded_ranks_read(struct store *store, const struct attempt *a, struct recorded_ranks *ret,
			struct err *err)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks r = { .a = a, .arena = ARENA_INIT };
	int result = read_points(store, &r, err);

	if (result == 0) {
		keep_wanted(&r);
		result = list_ranks(&r);
	}
	if (result == -ENOMEM)
		err_set(err, result, "out of memory");
	if (result < 0)
		return result;
	find_world_size(&r);
	*ret = r;
	r = (struct recorded_ranks){ .arena = ARENA_INIT };
	return 0;
}

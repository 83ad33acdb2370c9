#include "query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "model/rank_memory.h"

/* Ticks at the ends of an attempt may be a little outside of it. */
#define MARGIN_NS UINT64_C(60000000000)

/* The birth of a process is rounded to a clock tick, and may seem to follow its death. */
#define BIRTH_SLACK_NS UINT64_C(10000000)

void recorded_ranks_release(struct recorded_ranks *r)
{
	for (size_t i = 0; i < r->n_joined; i++)
		attempt_release(&r->joined[i]);
	free(r->joined);
	free(r->points);
	free(r->ranks);
	arena_release(&r->arena);
	*r = (struct recorded_ranks){ .arena = ARENA_INIT };
}

/* ---- ranks that have a runner each ---- */

/* Of how many it is the only one here; 0: there are several here, or none. */
static int find_only_rank(const struct attempt *a, int *ret_rank)
{
	int world_size = 0;

	*ret_rank = RANK_NONE;
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		if (p->rank != RANK_NONE && *ret_rank != RANK_NONE && p->rank != *ret_rank)
			return 0;
		if (p->rank != RANK_NONE && p->world_size > world_size)
			world_size = p->world_size;
		*ret_rank = p->rank != RANK_NONE ? p->rank : *ret_rank;
	}
	return world_size > 1 ? world_size : 0;
}

/* All ranks get the clock of one boot, so an attempt of another boot is none of them. Of two that
 * have one rank the record cannot tell which belongs to this launch: none is joined. */
static int join_others(struct store *store, struct recorded_ranks *r, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(map_release) struct map ranks = MAP_INIT;
	const struct attempt *a = r->a;
	const struct attempt_filter filter = { .job_id = a->job_id,
					       .since_wall_ns = a->started_wall_ns,
					       .uid = &a->uid };
	int rank, world_size = a->boot_id[0] ? find_only_rank(a, &rank) : 0;
	int result = world_size ? store_list_attempts(store, &filter, &list, err) : 0;
	bool is_clear = true;

	if (result < 0 || !world_size)
		return result;
	r->joined = calloc(list.n + 1, sizeof(*r->joined));
	result = !r->joined || map_put(&ranks, (uint64_t)rank, 1) < 0 ? -ENOMEM : 0;
	for (size_t i = 0; result == 0 && i < list.n; i++) {
		int num = list.items[i].attempt_num;
		struct attempt *b = &r->joined[r->n_joined];

		if (num == a->attempt_num || list.items[i].started_wall_ns > a->ended_wall_ns)
			continue;
		attempt_init(b);
		result = store_read_attempt(store, a->job_id, num, b, err);
		if (result < 0 || strcmp(b->boot_id, a->boot_id) != 0 ||
		    find_only_rank(b, &rank) != world_size) {
			attempt_release(b);
			continue;
		}
		r->n_joined++;
		is_clear &= !map_get(&ranks, (uint64_t)rank, NULL);
		result = map_put(&ranks, (uint64_t)rank, 1);
	}
	while (!is_clear && r->n_joined > 0)
		attempt_release(&r->joined[--r->n_joined]);
	return result;
}

/* The attempt as it is with the joined ones; its lists are in the arena. */
static int make_whole(struct recorded_ranks *r)
{
	struct attempt *whole = arena_memdup(&r->arena, r->a, sizeof(*r->a));
	size_t n_processes = r->a->n_processes, n_phases = r->a->n_phases;

	for (size_t i = 0; i < r->n_joined; i++) {
		n_processes += r->joined[i].n_processes;
		n_phases += r->joined[i].n_phases;
	}
	if (!whole)
		return -ENOMEM;
	whole->processes = arena_alloc(&r->arena, (n_processes + 1) * sizeof(*whole->processes));
	whole->phases = arena_alloc(&r->arena, (n_phases + 1) * sizeof(*whole->phases));
	if (!whole->processes || !whole->phases)
		return -ENOMEM;
	whole->n_processes = whole->n_phases = 0;
	for (size_t i = 0; i <= r->n_joined; i++) {
		const struct attempt *from = i < r->n_joined ? &r->joined[i] : r->a;

		for (size_t k = 0; k < from->n_processes; k++)
			whole->processes[whole->n_processes++] = from->processes[k];
		for (size_t k = 0; k < from->n_phases; k++)
			whole->phases[whole->n_phases++] = from->phases[k];
		if (from->started_wall_ns < whole->started_wall_ns)
			whole->started_wall_ns = from->started_wall_ns;
		if (from->ended_wall_ns > whole->ended_wall_ns)
			whole->ended_wall_ns = from->ended_wall_ns;
	}
	r->a = whole;
	return 0;
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

	if (ARRAY_RESERVE(r->points, r->cap, r->n_points + 1) < 0)
		return -ENOMEM;
	r->points[r->n_points++] = (struct rank_point){ .wall_ns = g->wall_ns,
							.rank = h->rank,
							.sheet_num = h->sheet_num,
							.bytes = h->bytes,
							.gpu_bytes = h->gpu_bytes,
							.cpu_ns = h->cpu_ns,
							.gpu_percent = h->gpu_percent,
							.uses_gpu = h->uses_gpu };
	return 0;
}

static bool is_of(const struct recorded_ranks *r, int attempt_num)
{
	bool is_own = attempt_num == r->a->attempt_num;

	for (size_t i = 0; !is_own && i < r->n_joined; i++)
		is_own = attempt_num == r->joined[i].attempt_num;
	return is_own;
}

/* Rows come tick by tick. */
static int on_sample(void *ctx, const struct history_row *row)
{
	struct gathering *g = ctx;
	int r = 0;

	if (row->sample.rank == RANK_NONE || !is_of(g->ranks, row->attempt_num))
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

static int compare_points(const void *left, const void *right)
{
	const struct rank_point *l = left, *r = right;

	return COMPARE(l->rank, r->rank) ?: COMPARE(l->wall_ns, r->wall_ns);
}

/*
 * A rank that holds no GPU memory yet is still starting up. The points of a rank that never holds
 * any stay: it holds 0 bytes.
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
	for (size_t i = 0; i < r->n_points; i++) {
		const struct rank_point *p = &r->points[i];

		if (is_of_try(r, p) && u64_known(r->is_gpu ? p->gpu_bytes : p->bytes))
			r->points[n++] = *p;
	}
	r->n_points = n;
	if (n > 0)
		qsort(r->points, n, sizeof(*r->points), compare_points);
	if (r->is_gpu)
		drop_before_first_use(r);
}

/* ---- their processes ---- */

/* The start or the exit of a process. */
struct life_change {
	uint64_t wall_ns;
	const struct proc_record *process;
	bool is_exit;
};

/* By rank, then time. A process that starts when another exits has lived with it. */
static int compare_changes(const void *left, const void *right)
{
	const struct life_change *l = left, *r = right;
	int order = COMPARE(l->process->rank, r->process->rank);

	order = order ?: COMPARE(l->wall_ns, r->wall_ns);
	return order ?: l->is_exit - r->is_exit;
}

/* Of the processes of the try; ret has room for two changes of each. Returns how many there are. */
static size_t list_changes(const struct recorded_ranks *r, struct life_change *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < r->a->n_processes; i++) {
		const struct proc_record *p = &r->a->processes[i];
		uint64_t born = u64_known(p->born_wall_ns) && p->born_wall_ns > BIRTH_SLACK_NS
					? p->born_wall_ns - BIRTH_SLACK_NS
					: 0;

		if (p->rank < 0 || p->sheet_num != r->sheet_num ||
		    (u64_known(p->died_wall_ns) && p->died_wall_ns < r->since_wall_ns))
			continue;
		ret[n++] = (struct life_change){ born, p, false };
		/* U64_UNKNOWN is behind all others. */
		ret[n++] = (struct life_change){ p->died_wall_ns > born ? p->died_wall_ns : born, p,
						 true };
	}
	qsort(ret, n, sizeof(*ret), compare_changes);
	return n;
}

/* The changes [from, to) are those of one rank. */
static struct recorded_rank describe(const struct life_change *from, const struct life_change *to,
				     bool is_gpu)
{
	const struct proc_record *root = from->process;
	struct recorded_rank rank = { .rank = root->rank };
	uint64_t held = 0;

	for (const struct life_change *c = from; c < to; c++) {
		uint64_t peak = is_gpu ? c->process->max_gpu_bytes : c->process->max_rss_bytes;

		root = c->process < root ? c->process : root; /* they are in the order of births */
		if (c->process->died_wall_ns > rank.ended_wall_ns)
			rank.ended_wall_ns = c->process->died_wall_ns;
		if (c->is_exit)
			held -= u64_known(peak) ? peak : 0;
		else if (!u64_known(peak) || __builtin_add_overflow(held, peak, &held))
			rank.peak_bytes = U64_UNKNOWN;
		if (held > rank.peak_bytes)
			rank.peak_bytes = held;
	}
	rank.local_rank = root->local_rank >= 0 ? root->local_rank : root->rank;
	rank.pid = root->key.pid;
	rank.born_wall_ns = root->born_wall_ns;
	return rank;
}

/*
 * Merges the processes and the points, both by rank: a rank that ended before it was sampled has
 * processes alone.
 */
static int list_ranks(struct recorded_ranks *r)
{
	CLEANUP(free_ptr) struct life_change *changes = NULL;
	size_t n_changes, n = 0;

	if (r->n_points == 0)
		return 0;
	changes = calloc(2 * r->a->n_processes + 1, sizeof(*changes));
	if (!changes)
		return -ENOMEM;
	n_changes = list_changes(r, changes);
	for (size_t i = 0; i < n_changes; i++)
		n += i == 0 || changes[i].process->rank != changes[i - 1].process->rank;
	for (size_t i = 0; i < r->n_points; i++)
		n += i == 0 || r->points[i].rank != r->points[i - 1].rank;
	r->ranks = calloc(n, sizeof(*r->ranks));
	if (!r->ranks)
		return -ENOMEM;
	for (size_t point = 0, from = 0; point < r->n_points || from < n_changes;) {
		bool has_process =
			from < n_changes && (point == r->n_points ||
					     changes[from].process->rank <= r->points[point].rank);
		int number = has_process ? changes[from].process->rank : r->points[point].rank;
		struct recorded_rank *rank = &r->ranks[r->n_ranks++];
		size_t to = from;

		while (to < n_changes && changes[to].process->rank == number)
			to++;
		*rank = has_process ? describe(changes + from, changes + to, r->is_gpu)
				    : (struct recorded_rank){ .rank = number,
							      .local_rank = number,
							      .pid = -1,
							      .born_wall_ns = U64_UNKNOWN,
							      .ended_wall_ns = U64_UNKNOWN,
							      .peak_bytes = U64_UNKNOWN };
		from = to;
		rank->first = point;
		while (point < r->n_points && r->points[point].rank == number)
			point++;
		rank->n = point - rank->first;
	}
	return 0;
}

int recorded_ranks_read(struct store *store, const struct attempt *a, struct recorded_ranks *ret,
			struct err *err)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks r = { .a = a, .arena = ARENA_INIT };
	int result = join_others(store, &r, err);

	if (result == 0 && r.n_joined > 0)
		result = make_whole(&r);
	if (result == 0)
		result = read_points(store, &r, err);
	if (result == 0) {
		keep_wanted(&r);
		result = list_ranks(&r);
	}
	if (result == -ENOMEM)
		err_set(err, result, "out of memory");
	if (result < 0)
		return result;
	/* As the launcher or the job file states it, and no less than the ranks that there are. */
	for (size_t i = 0; i < r.a->n_processes; i++) {
		const struct proc_record *p = &r.a->processes[i];

		if (p->rank >= 0 && p->sheet_num == r.sheet_num && p->world_size > r.world_size)
			r.world_size = p->world_size;
	}
	for (size_t i = 0; i < r.a->n_sheets; i++)
		if (r.a->sheets[i].num == r.sheet_num && r.a->sheets[i].total_ranks > r.world_size)
			r.world_size = r.a->sheets[i].total_ranks;
	if (r.n_ranks > 0 && r.ranks[r.n_ranks - 1].rank >= r.world_size)
		r.world_size = r.ranks[r.n_ranks - 1].rank + 1;
	*ret = r;
	r = (struct recorded_ranks){ .arena = ARENA_INIT };
	return 0;
}

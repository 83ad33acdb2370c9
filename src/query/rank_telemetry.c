/*
 * The ranks of an attempt as telemetry records, and the answer of an analysis of these.
 */
#include "query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "crossrank/crossrank.h"

#define COLLECTOR "proctor"

/* How often a page counts that several processes of a rank share. */
#define SHARED_ONCE "once" /* of samples: rank_memory.h */
#define SHARED_EACH "each" /* of peaks: struct recorded_rank */

/* ---- the rank of each phase ---- */

struct rank_phase {
	int rank;
	size_t phase; /* its index in the attempt */
};

struct rank_phases {
	struct rank_phase *items; /* by rank, then as the attempt has them; of no rank: none */
	size_t n;
};

static void rank_phases_release(struct rank_phases *p)
{
	free(p->items);
}

/* By pid, then by birth; U64_UNKNOWN is behind all others. */
static int compare_processes(const void *left, const void *right)
{
	const struct proc_record *l = *(const struct proc_record *const *)left;
	const struct proc_record *r = *(const struct proc_record *const *)right;

	return COMPARE(l->key.pid, r->key.pid) ?: COMPARE(l->born_wall_ns, r->born_wall_ns) ?: COMPARE(l, r);
}

/*
 * A phase names its rank, or the process that entered it. Pids are reused, so that is the process
 * that was born last before the phase; the first one if all seem to be born later.
 */
static int rank_of(const struct phase_record *phase, const struct proc_record **processes, size_t n)
{
	size_t low = 0, high = n;

	if (phase->rank != RANK_NONE)
		return phase->rank;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (processes[middle]->key.pid < phase->pid ||
		    (processes[middle]->key.pid == phase->pid &&
		     processes[middle]->born_wall_ns <= phase->entered_wall_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && processes[low - 1]->key.pid == phase->pid)
		return processes[low - 1]->rank;
	return low < n && processes[low]->key.pid == phase->pid ? processes[low]->rank : RANK_NONE;
}

static int compare_phases(const void *left, const void *right)
{
	const struct rank_phase *l = left, *r = right;

	return COMPARE(l->rank, r->rank) ?: COMPARE(l->phase, r->phase);
}

/* Ranks, phases and processes may all be many: none is searched once for each of another. */
static int list_phases(const struct recorded_ranks *r, struct rank_phases *ret)
{
	const struct attempt *a = r->a;
	CLEANUP(free_ptr)
	const struct proc_record **processes = calloc(a->n_processes + 1, sizeof(*processes));
	struct rank_phase *items = calloc(a->n_phases + 1, sizeof(*items));
	size_t n = 0, n_processes = 0;

	if (!processes || !items) {
		free(items);
		return -ENOMEM;
	}
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].sheet_num == r->sheet_num)
			processes[n_processes++] = &a->processes[i];
	qsort(processes, n_processes, sizeof(*processes), compare_processes);
	for (size_t i = 0; i < a->n_phases; i++) {
		int rank = rank_of(&a->phases[i], processes, n_processes);

		if (rank != RANK_NONE)
			items[n++] = (struct rank_phase){ rank, i };
	}
	qsort(items, n, sizeof(*items), compare_phases);
	*ret = (struct rank_phases){ items, n };
	return 0;
}

/* ---- records ---- */

struct emitter {
	struct recorded_ranks *r;
	const char *session_id;
	rank_event_fn *fn;
	void *ctx;
};

/* One end of a phase. */
struct phase_edge {
	size_t phase; /* its index in the attempt */
	bool is_enter;
};

static struct text text_of(const char *s)
{
	return (struct text){ s, s ? strlen(s) : 0 };
}

/* "epoch/load" becomes its parts; the last is the name, which may have a slash itself. */
static void write_path(const struct phase_record *phase, struct json *j)
{
	const char *path = phase->path ? phase->path : phase->name;
	size_t n = strlen(path), name_len = strlen(phase->name);

	json_key_array(j, "path");
	n = n > name_len ? n - name_len - 1 : 0;
	for (size_t at = 0; at < n;) {
		const char *slash = memchr(path + at, '/', n - at);
		size_t end = slash ? (size_t)(slash - path) : n;

		if (end > at)
			json_str_n(j, path + at, end - at);
		at = end + 1;
	}
	json_str(j, phase->name);
	json_end_array(j);
}

/* The measure, the quality of the clock, and where there is one the edge of a phase. */
static int set_metadata(const struct emitter *e, const char *shared, const struct phase_edge *edge,
			struct telemetry_event *ev)
{
	CLEANUP(buf_release) struct buf metadata = BUF_INIT;
	const struct attempt *a = e->r->a;
	const char *text;
	struct json j;

	json_init_object(&j, &metadata);
	json_key_string(&j, "measure", e->r->is_gpu ? "gpu_memory" : "rss");
	if (!e->r->is_gpu)
		json_key_string(&j, "shared_pages", shared);
	if (a->boot_id[0])
		json_key_string(&j, "boot_id", a->boot_id);
	if (a->clock.is_synchronised >= 0)
		json_key_bool(&j, "clock_synchronised", a->clock.is_synchronised);
	if (u64_known(a->clock.error_ns))
		json_key_u64(&j, "clock_error_ns", a->clock.error_ns);
	if (edge) {
		const struct phase_record *phase = &a->phases[edge->phase];
		char number[32];

		json_key_object(&j, "phase_scope");
		json_key_string(&j, "action", edge->is_enter ? "enter" : "exit");
		json_key_string(&j, "name", phase->name);
		write_path(phase, &j);
		snprintf(number, sizeof(number), "%zu", edge->phase + 1);
		json_key_string(&j, "scope_id", number);
		json_key_null(&j, "parent_scope_id");
		json_key_i64(&j, "thread_id", phase->pid);
		snprintf(number, sizeof(number), "process %d", (int)phase->pid);
		json_key_string(&j, "thread_name", number);
		json_key_u64(&j, "sequence", 2 * (uint64_t)edge->phase + (edge->is_enter ? 1 : 2));
		json_key_object(&j, "attributes");
		json_end_object(&j);
		json_end_object(&j);
	}
	json_end_object(&j);
	text = arena_strndup(&e->r->arena, metadata.data, metadata.len);
	if (buf_error(&metadata) < 0 || !text)
		return -ENOMEM;
	return event_set_metadata(ev, text, metadata.len, &e->r->arena);
}

static void init_event(const struct emitter *e, const struct recorded_rank *rank, const char *type,
		       struct telemetry_event *ev)
{
	const struct attempt *a = e->r->a;
	double interval_ms = a->interval_seconds * 1000;

	event_init(ev);
	ev->event_type = text_of(type);
	ev->collector = text_of(COLLECTOR);
	ev->host = text_of(a->host && a->host[0] ? a->host : "localhost");
	ev->job_id = text_of(a->job_id);
	ev->session_id = text_of(e->session_id);
	ev->sampling_interval_ms =
		interval_ms >= 0 && interval_ms < 1e12 ? (int64_t)interval_ms : 0;
	ev->pid = rank->pid;
	ev->rank = rank->rank;
	ev->local_rank = rank->local_rank;
	ev->world_size = e->r->world_size;
	ev->device_id = -1; /* the sum over all devices of the rank */
}

/* proctor does not read an allocator: all memory in use counts as allocated and reserved. */
static void set_bytes(struct telemetry_event *ev, int64_t bytes, int64_t before)
{
	ev->device_used_bytes = bytes;
	ev->allocator_allocated_bytes = bytes;
	ev->allocator_reserved_bytes = bytes;
	ev->allocator_change_bytes = bytes - before;
}

static int64_t bytes_of(const struct recorded_ranks *r, const struct rank_point *p)
{
	uint64_t bytes = r->is_gpu ? p->gpu_bytes : p->bytes;

	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static int emit_samples(const struct emitter *e, const struct recorded_rank *rank)
{
	const struct rank_point *points = e->r->points + rank->first;
	struct telemetry_event ev;
	int64_t before = 0;
	double gpu_ns = 0;
	int result;

	init_event(e, rank, "sample", &ev);
	result = set_metadata(e, SHARED_ONCE, NULL, &ev);
	for (size_t i = 0; result == 0 && i < rank->n; i++) {
		int64_t bytes = bytes_of(e->r, &points[i]);
		double since_ns = i > 0 ? (double)(points[i].wall_ns - points[i - 1].wall_ns) : 0;

		/* Below all others: time that is not known is between two counters. */
		gpu_ns = f64_known(points[i].gpu_percent)
				 ? gpu_ns + since_ns * points[i].gpu_percent / 100
				 : -1;
		if (e->r->is_gpu)
			ev.used_ns[USE_GPU] = (int64_t)gpu_ns;
		ev.used_ns[USE_CPU] = (int64_t)points[i].cpu_ns; /* unknown: EVENT_UNKNOWN */
		set_bytes(&ev, bytes, i > 0 ? before : bytes);
		ev.timestamp_ns = (int64_t)points[i].wall_ns;
		before = bytes;
		result = e->fn(e->ctx, &ev);
	}
	return result;
}

/* The last memory of the rank at that time; before its first sample, the first. */
static uint64_t bytes_at(const struct recorded_ranks *r, const struct recorded_rank *rank,
			 uint64_t wall_ns)
{
	size_t low = rank->first, high = rank->first + rank->n;

	if (rank->n == 0)
		return 0;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (r->points[middle].wall_ns <= wall_ns)
			low = middle;
		else
			high = middle;
	}
	return (uint64_t)bytes_of(r, &r->points[low]);
}

/*
 * A start, an end, or the edge of a phase, with the memory of the rank then. One whose time or
 * memory is not known, which is larger than any, is left out.
 */
static int emit_moment(const struct emitter *e, const struct recorded_rank *rank, const char *type,
		       uint64_t wall_ns, uint64_t bytes, const char *shared,
		       const struct phase_edge *edge)
{
	struct telemetry_event ev;
	int result;

	if (wall_ns > INT64_MAX || bytes > INT64_MAX)
		return 0;
	init_event(e, rank, type, &ev);
	ev.timestamp_ns = (int64_t)wall_ns;
	set_bytes(&ev, (int64_t)bytes, (int64_t)bytes);
	result = set_metadata(e, shared, edge, &ev);
	return result < 0 ? result : e->fn(e->ctx, &ev);
}

/* Both edges of a phase. */
static int emit_phase(const struct emitter *e, const struct recorded_rank *rank, size_t number)
{
	const struct phase_record *phase = &e->r->a->phases[number];
	const struct phase_edge enter = { number, true }, leave = { number, false };
	int result = emit_moment(e, rank, "phase_enter", phase->entered_wall_ns,
				 bytes_at(e->r, rank, phase->entered_wall_ns), SHARED_ONCE, &enter);

	return result ? result
		      : emit_moment(e, rank, "phase_exit", phase->left_wall_ns,
				    bytes_at(e->r, rank, phase->left_wall_ns), SHARED_ONCE, &leave);
}

int recorded_ranks_each(struct recorded_ranks *r, rank_event_fn *fn, void *ctx)
{
	CLEANUP(rank_phases_release) struct rank_phases phases = { 0 };
	CLEANUP(buf_release) struct buf session = BUF_INIT;
	struct emitter e = { .r = r, .fn = fn, .ctx = ctx };
	int result = list_phases(r, &phases);

	buf_printf(&session, "%s/%d/%d", r->a->job_id, r->a->attempt_num, r->sheet_num);
	e.session_id = arena_strdup(&r->arena, session.data);
	if (!e.session_id)
		return -ENOMEM;
	for (size_t i = 0, next = 0; result == 0 && i < r->n_ranks; i++) {
		const struct recorded_rank *rank = &r->ranks[i];

		/* Samples may begin much later: those of GPU memory do. A process begins with 0. */
		result = emit_moment(&e, rank, "rank_start", rank->born_wall_ns, 0, SHARED_ONCE,
				     NULL);
		if (result == 0)
			result = emit_samples(&e, rank);
		while (next < phases.n && phases.items[next].rank < rank->rank)
			next++;
		for (; result == 0 && next < phases.n && phases.items[next].rank == rank->rank;
		     next++)
			result = emit_phase(&e, rank, phases.items[next].phase);
		/* With the bound on its memory, of which samples may have missed a part. */
		if (result == 0)
			result = emit_moment(&e, rank, "rank_end", rank->ended_wall_ns,
					     rank->peak_bytes, SHARED_EACH, NULL);
	}
	return result;
}

static int add_event(void *ctx, const struct telemetry_event *ev)
{
	return telemetry_add(ctx, ev);
}

int recorded_ranks_gather(struct recorded_ranks *r, struct telemetry *t)
{
	return recorded_ranks_each(r, add_event, t);
}

/* ---- the answer ---- */

/* The parts of the answer that outlive the analysis. */
static int copy_finding(const struct rank_analysis *analysis, struct attempt *a,
			struct rank_finding *ret)
{
	CLEANUP(buf_release) struct buf reason = BUF_INIT;
	CLEANUP(buf_release) struct buf remedy = BUF_INIT;
	CLEANUP(buf_release) struct buf cpu = BUF_INIT;
	CLEANUP(buf_release) struct buf gpu = BUF_INIT;
	const struct first_cause *f = analysis->finding;
	const struct culprit_rise *rise;
	const struct phase_place *place = &f->phase;
	int64_t onset_ns;

	finding_add_reason(&reason, analysis, f);
	finding_add_remedy(&remedy, f);
	facts_add_use(&cpu, analysis->facts, USE_CPU);
	facts_add_use(&gpu, analysis->facts, USE_GPU);
	if (buf_error(&reason) < 0 || buf_error(&remedy) < 0 || buf_error(&cpu) < 0 ||
	    buf_error(&gpu) < 0)
		return -ENOMEM;
	ret->verdict = finding_verdict_name(verdict_of(f->why));
	ret->has_passed = f->why == WHY_GIVEN_BACK;
	ret->reason = arena_strdup(&a->arena, reason.data);
	ret->remedy = arena_strdup(&a->arena, remedy.data);
	ret->cpu = arena_strdup(&a->arena, cpu.data);
	ret->gpu = arena_strdup(&a->arena, gpu.data);
	if (!ret->reason || !ret->remedy || !ret->cpu || !ret->gpu)
		return -ENOMEM;
	if (!finding_culprit(f))
		return 0;
	rise = &f->candidates[0].rise;
	onset_ns = finding_ns(f, rise->best);
	ret->rank = finding_culprit(f)->rank;
	ret->probability = rise->probability;
	ret->kind = finding_kind(f);
	ret->onset_wall_ns = onset_ns >= 0 ? (uint64_t)onset_ns : U64_UNKNOWN;
	if (place->n_paths > 0) {
		/* Of several possible paths, the likely one. */
		struct text phase = place->likely.s ? place->likely : place->paths[0];

		ret->is_phase_ambiguous = !place->only;
		ret->phase = arena_strndup(&a->arena, phase.s, phase.n);
		return ret->phase ? 0 : -ENOMEM;
	}
	return 0;
}

static int analyse(struct recorded_ranks *r, struct attempt *a, struct rank_finding *ret)
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = telemetry_new();
	struct rank_analysis analysis;
	int result = t ? recorded_ranks_gather(r, t) : -ENOMEM;

	if (result < 0)
		return result;
	result = rank_analysis_init(&analysis, t);
	if (result == 0)
		result = rank_analysis_run(&analysis, EVENT_UNKNOWN);
	if (result == 0)
		result = copy_finding(&analysis, a, ret);
	rank_analysis_release(&analysis);
	return result;
}

int recorded_ranks_judge(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks r = { .arena = ARENA_INIT };
	struct rank_finding *finding;
	int result;

	if (!attempt_has_ranks(a))
		return 0;
	result = recorded_ranks_read(store, a, &r, err);
	if (result < 0)
		return result;
	finding = arena_alloc(&a->arena, sizeof(*finding));
	if (!finding)
		return err_set(err, -ENOMEM, "out of memory");
	*finding = (struct rank_finding){
		.world_size = r.world_size,
		.n_samples = r.n_points,
		.measure = r.is_gpu ? "gpu_memory" : "rss",
		.rank = -1,
		.probability = F64_UNKNOWN,
		.onset_wall_ns = U64_UNKNOWN,
		.reason = "no samples of its ranks are kept any more",
		.remedy = "",
		.cpu = "",
		.gpu = "",
	};
	for (size_t i = 0; i < r.n_ranks; i++)
		finding->n_ranks += r.ranks[i].n > 0;
	if (r.n_points > 0)
		result = analyse(&r, a, finding);
	if (result < 0)
		return err_set(err, result, "out of memory");
	a->details.telemetry = finding;
	return 0;
}

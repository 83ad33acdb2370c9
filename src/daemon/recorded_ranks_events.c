#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "crossrank/crossrank.h"
#include "daemon/rank_phases.h"
#include "daemon/recorded_ranks.h"

#define COLLECTOR "proctor"

static struct text text_of(const char *s)
{
	return (struct text){ s, s ? strlen(s) : 0 };
}

static int64_t bytes_of(const struct recorded_ranks *r, const struct rank_point *p)
{
	uint64_t bytes = r->is_gpu ? p->gpu_bytes : p->bytes;

	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

/* What is known of the clock, and what is measured: how often a page that processes share counts.
 */
static void write_common(const struct recorded_ranks *r, const char *shared, struct json *j)
{
	const struct clock_quality *clock = &r->a->clock;

	json_key_string(j, "measure", r->is_gpu ? "gpu_memory" : "rss");
	if (!r->is_gpu)
		json_key_string(j, "shared_pages", shared);
	if (r->a->boot_id[0])
		json_key_string(j, "boot_id", r->a->boot_id);
	if (clock->is_synchronised >= 0)
		json_key_bool(j, "clock_synchronised", clock->is_synchronised);
	if (u64_known(clock->error_ns))
		json_key_u64(j, "clock_error_ns", clock->error_ns);
}

static int set_metadata(const struct buf *json, struct arena *arena, struct telemetry_event *ev)
{
	return buf_error(json) < 0 ? -ENOMEM : event_set_metadata(ev, json->data, json->len, arena);
}

static int describe_rank(struct recorded_ranks *r, const struct recorded_rank *rank,
			 struct telemetry_event *ev)
{
	CLEANUP(buf_release) struct buf session = BUF_INIT;
	const struct attempt *a = r->a;
	double interval_ms = a->interval_seconds * 1000;

	buf_printf(&session, "%s/%d/%d", a->job_id, a->attempt_num, r->sheet_num);
	event_init(ev);
	ev->collector = text_of(COLLECTOR);
	ev->host = text_of(a->host && a->host[0] ? a->host : "localhost");
	ev->job_id = text_of(a->job_id);
	ev->session_id = text_of(arena_strdup(&r->arena, session.data));
	ev->sampling_interval_ms =
		interval_ms >= 0 && interval_ms < 1e12 ? (int64_t)interval_ms : 0;
	ev->pid = rank->pid;
	ev->rank = rank->rank;
	ev->local_rank = rank->local_rank;
	ev->world_size = r->world_size;
	ev->device_id = -1; /* the sum over all that it uses */
	return ev->session_id.s ? 0 : -ENOMEM;
}

/* Nobody asks an allocator here: all that is in use counts as its own. */
static void set_bytes(struct telemetry_event *ev, int64_t bytes, int64_t before)
{
	ev->device_used_bytes = bytes;
	ev->allocator_allocated_bytes = bytes;
	ev->allocator_reserved_bytes = bytes;
	ev->allocator_change_bytes = bytes - before;
}

static int each_sample(struct recorded_ranks *r, const struct recorded_rank *rank,
		       rank_event_fn *fn, void *ctx)
{
	CLEANUP(buf_release) struct buf metadata = BUF_INIT;
	struct telemetry_event ev;
	struct json j;
	int result = describe_rank(r, rank, &ev);
	int64_t before = 0;

	json_init(&j, &metadata);
	json_begin_object(&j);
	write_common(r, "once", &j); /* rank_memory.h */
	json_end_object(&j);
	ev.event_type = text_of("sample");
	if (result == 0)
		result = set_metadata(&metadata, &r->arena, &ev);
	for (size_t i = 0; result == 0 && i < rank->n; i++) {
		const struct rank_point *p = &r->points[rank->first + i];
		int64_t bytes = bytes_of(r, p);

		set_bytes(&ev, bytes, i > 0 ? before : bytes);
		ev.timestamp_ns = (int64_t)p->wall_ns;
		before = bytes;
		result = fn(ctx, &ev);
	}
	return result;
}

/* ---- phases ---- */

/* "epoch/load" becomes its parts; the last is the name, which may have a slash itself. */
static void write_path(const struct phase_record *phase, struct json *j)
{
	const char *path = phase->path ? phase->path : phase->name;
	size_t n = strlen(path), name_len = strlen(phase->name);

	json_key(j, "path");
	json_begin_array(j);
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

static void write_scope(const struct phase_record *phase, size_t i, bool is_enter, struct json *j)
{
	char text[32];

	json_key(j, "phase_scope");
	json_begin_object(j);
	json_key_string(j, "action", is_enter ? "enter" : "exit");
	json_key_string(j, "name", phase->name);
	write_path(phase, j);
	snprintf(text, sizeof(text), "%zu", i + 1);
	json_key_string(j, "scope_id", text);
	json_key_null(j, "parent_scope_id");
	json_key_i64(j, "thread_id", phase->pid);
	snprintf(text, sizeof(text), "process %d", (int)phase->pid);
	json_key_string(j, "thread_name", text);
	json_key_u64(j, "sequence", 2 * (uint64_t)i + (is_enter ? 1 : 2));
	json_key(j, "attributes");
	json_begin_object(j);
	json_end_object(j);
	json_end_object(j);
}

/* The memory that the rank had last, or first. */
static int64_t bytes_at(const struct recorded_ranks *r, const struct recorded_rank *rank,
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
	return bytes_of(r, &r->points[low]);
}

static int tell_boundary(struct recorded_ranks *r, const struct recorded_rank *rank, size_t i,
			 bool is_enter, rank_event_fn *fn, void *ctx)
{
	const struct phase_record *phase = &r->a->phases[i];
	uint64_t wall_ns = is_enter ? phase->entered_wall_ns : phase->left_wall_ns;
	CLEANUP(buf_release) struct buf metadata = BUF_INIT;
	struct telemetry_event ev;
	struct json j;
	int64_t bytes;
	int result;

	if (wall_ns > INT64_MAX) /* unknown, too */
		return 0;
	result = describe_rank(r, rank, &ev);
	json_init(&j, &metadata);
	json_begin_object(&j);
	write_common(r, "once", &j); /* rank_memory.h */
	write_scope(phase, i, is_enter, &j);
	json_end_object(&j);
	ev.event_type = text_of(is_enter ? "phase_enter" : "phase_exit");
	ev.timestamp_ns = (int64_t)wall_ns;
	bytes = bytes_at(r, rank, wall_ns);
	set_bytes(&ev, bytes, bytes);
	if (result == 0)
		result = set_metadata(&metadata, &r->arena, &ev);
	return result == 0 ? fn(ctx, &ev) : result;
}

static int each_phase(struct recorded_ranks *r, const struct recorded_rank *rank,
		      const struct rank_phases *phases, rank_event_fn *fn, void *ctx)
{
	int result = 0;

	for (size_t i = rank_phases_first(phases, rank->rank);
	     result == 0 && i < phases->n && phases->items[i].rank == rank->rank; i++) {
		result = tell_boundary(r, rank, phases->items[i].phase, true, fn, ctx);
		if (result == 0)
			result = tell_boundary(r, rank, phases->items[i].phase, false, fn, ctx);
	}
	return result;
}

/* ---- the life of a rank ---- */

static int tell_life(struct recorded_ranks *r, const char *shared, struct telemetry_event *ev,
		     rank_event_fn *fn, void *ctx)
{
	CLEANUP(buf_release) struct buf metadata = BUF_INIT;
	struct json j;
	int result;

	json_init(&j, &metadata);
	json_begin_object(&j);
	write_common(r, shared, &j);
	json_end_object(&j);
	result = set_metadata(&metadata, &r->arena, ev);
	return result == 0 ? fn(ctx, ev) : result;
}

/* Samples may begin much later: those of GPU memory do. A process begins with nothing. */
static int tell_start(struct recorded_ranks *r, const struct recorded_rank *rank, rank_event_fn *fn,
		      void *ctx)
{
	struct telemetry_event ev;
	int result;

	if (rank->born_wall_ns > INT64_MAX) /* unknown, too */
		return 0;
	result = describe_rank(r, rank, &ev);
	ev.event_type = text_of("rank_start");
	ev.timestamp_ns = (int64_t)rank->born_wall_ns;
	set_bytes(&ev, 0, 0);
	return result == 0 ? tell_life(r, "once", &ev, fn, ctx) : result;
}

/* A rank that has ended, and what it never held more than: what samples may have missed. */
static int tell_end(struct recorded_ranks *r, const struct recorded_rank *rank, rank_event_fn *fn,
		    void *ctx)
{
	struct telemetry_event ev;
	int result;

	if (rank->ended_wall_ns > INT64_MAX || rank->peak_bytes > INT64_MAX) /* unknown, too */
		return 0;
	result = describe_rank(r, rank, &ev);
	ev.event_type = text_of("rank_end");
	ev.timestamp_ns = (int64_t)rank->ended_wall_ns;
	set_bytes(&ev, (int64_t)rank->peak_bytes, (int64_t)rank->peak_bytes);
	/* rank_lives.h */
	return result == 0 ? tell_life(r, "each", &ev, fn, ctx) : result;
}

int recorded_ranks_each(struct recorded_ranks *r, rank_event_fn *fn, void *ctx)
{
	CLEANUP(rank_phases_release) struct rank_phases phases = { 0 };
	int result = rank_phases_find(r->a, r->sheet_num, &phases);

	for (size_t i = 0; result == 0 && i < r->n_ranks; i++) {
		result = tell_start(r, &r->ranks[i], fn, ctx);
		if (result == 0)
			result = each_sample(r, &r->ranks[i], fn, ctx);
		if (result == 0)
			result = each_phase(r, &r->ranks[i], &phases, fn, ctx);
		if (result == 0)
			result = tell_end(r, &r->ranks[i], fn, ctx);
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

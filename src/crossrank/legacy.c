/*
 * Records of the time before schema_version: what they lack gets a default, and
 * older names of fields are known. The rules are those of the reference.
 */
#include "crossrank/record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"
#include "base/num.h"

#define METADATA_PREFIX "metadata_"
#define BYTES_PER_MB (1024.0 * 1024.0)
#define NO_DEVICE INT64_C(-1)

struct legacy {
	const struct jnode *record;
	struct jnode metadata; /* merged */
	struct telemetry_event *ev;
};

static const struct jnode *find(const struct legacy *l, const char *name)
{
	return jtree_find(l->record, name);
}

/* What the record says, or its metadata. */
static const struct jnode *find_either(const struct legacy *l, const char *name)
{
	const struct jnode *node = find(l, name);

	return node ? node : jtree_find(&l->metadata, name);
}

static bool is_null(const struct jnode *node)
{
	return !node || node->kind == JKIND_NULL;
}

/* ---- metadata ---- */

static int add_metadata(struct legacy *l, struct arena *arena, const struct jnode *node,
			struct text key)
{
	struct jnode *copy = arena_memdup(arena, node, sizeof(*node));

	if (!copy)
		return -ENOMEM;
	copy->key = key;
	copy->next = NULL;
	if (l->metadata.last)
		l->metadata.last->next = copy;
	else
		l->metadata.first = copy;
	l->metadata.last = copy;
	return 0;
}

/* The object "metadata", then every "metadata_NAME" as NAME. */
static enum reason merge_metadata(struct legacy *l, struct arena *arena, int *ret_error)
{
	const struct jnode *given = find(l, "metadata");
	size_t prefix = sizeof(METADATA_PREFIX) - 1;

	if (!is_null(given) && given->kind != JKIND_OBJECT)
		return REASON_METADATA_NOT_OBJECT;
	l->metadata.kind = JKIND_OBJECT;
	for (const struct jnode *c = given ? given->first : NULL; c; c = c->next)
		if (add_metadata(l, arena, c, c->key) < 0)
			*ret_error = -ENOMEM;
	for (const struct jnode *c = l->record->first; c; c = c->next)
		if (c->key.n >= prefix && memcmp(c->key.s, METADATA_PREFIX, prefix) == 0 &&
		    add_metadata(l, arena, c,
				 (struct text){ c->key.s + prefix, c->key.n - prefix }) < 0)
			*ret_error = -ENOMEM;
	return REASON_NONE;
}

/* What says who the rank is has its own fields. */
static void strip_identity(struct jnode *metadata)
{
	static const char *const names[] = { "job_id", "rank", "local_rank", "world_size" };
	struct jnode **link = &metadata->first, *last = NULL;

	while (*link) {
		bool is_identity = false;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			is_identity |= text_equals((*link)->key,
						   (struct text){ names[i], strlen(names[i]) });
		if (is_identity) {
			*link = (*link)->next;
			continue;
		}
		last = *link;
		link = &last->next;
	}
	metadata->last = last;
}

/* ---- numbers ---- */

/* A whole number of the given scale, cut towards zero. */
static enum reason scale(const struct jnode *node, double factor, int64_t *ret)
{
	double v = node->number * factor;

	if (!(fabs(v) < 9.2e18))
		return REASON_OUT_OF_RANGE;
	*ret = (int64_t)v;
	return REASON_NONE;
}

static bool is_number(const struct jnode *node)
{
	return node && (node->kind == JKIND_INT || node->kind == JKIND_BIG_INT ||
			node->kind == JKIND_FLOAT);
}

static enum reason read_timestamp(struct legacy *l)
{
	const struct jnode *exact = find(l, "timestamp_ns"), *seconds = find(l, "timestamp");

	if (exact)
		return record_take_int(exact, &l->ev->timestamp_ns);
	if (!is_number(seconds) || isnan(seconds->number))
		return REASON_LEGACY_NO_TIMESTAMP;
	return scale(seconds, 1e9, &l->ev->timestamp_ns);
}

/* The first of the names that the record has; *ret is untouched if it has none. */
static enum reason read_first_int(struct legacy *l, const char *const names[], size_t n,
				  int64_t *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct jnode *node = find(l, names[i]);

		if (node)
			return record_take_int(node, ret);
	}
	return REASON_NONE;
}

static enum reason read_allocated(struct legacy *l)
{
	static const char *const names[] = { "allocator_allocated_bytes", "memory_allocated" };
	const struct jnode *mb = find(l, "memory_mb"), *used = find(l, "device_used_bytes");
	int64_t *ret = &l->ev->allocator_allocated_bytes;

	if (!find(l, names[0]) && !find(l, names[1])) {
		if (is_number(mb))
			return scale(mb, BYTES_PER_MB, ret);
		return used ? record_take_int(used, ret) : REASON_NONE;
	}
	return read_first_int(l, names, ARRAY_SIZE(names), ret);
}

static enum reason read_memory(struct legacy *l)
{
	static const char *const reserved[] = { "allocator_reserved_bytes", "memory_reserved" };
	static const char *const change[] = { "allocator_change_bytes", "memory_change" };
	static const char *const used[] = { "device_used_bytes" };
	struct telemetry_event *ev = l->ev;
	enum reason reason = read_allocated(l);

	ev->allocator_reserved_bytes = ev->device_used_bytes = ev->allocator_allocated_bytes;
	if (reason == REASON_NONE)
		reason = read_first_int(l, reserved, 2, &ev->allocator_reserved_bytes);
	if (reason == REASON_NONE)
		reason = read_first_int(l, change, 2, &ev->allocator_change_bytes);
	if (reason == REASON_NONE)
		reason = read_first_int(l, used, 1, &ev->device_used_bytes);
	return reason;
}

/* Null is unknown, and so is what is not there. */
static enum reason read_counter(const struct jnode *node, int64_t *ret)
{
	if (is_null(node))
		return REASON_NONE;
	if (node->kind == JKIND_INT && node->integer < 0)
		return REASON_OUT_OF_RANGE;
	return record_take_int(node, ret);
}

static const struct jnode *find_total(const struct legacy *l)
{
	static const char *const names[] = { "total_memory", "device_total", "total_bytes" };
	const struct jnode *node = find(l, "device_total_bytes");

	for (size_t i = 0; !node && i < ARRAY_SIZE(names); i++)
		node = find(l, names[i]);
	for (size_t i = 0; !node && i < ARRAY_SIZE(names); i++)
		node = jtree_find(&l->metadata, names[i]);
	return node;
}

static enum reason read_counters(struct legacy *l)
{
	struct telemetry_event *ev = l->ev;
	const struct jnode *given = find(l, "device_free_bytes");
	enum reason reason =
		read_counter(find(l, "allocator_active_bytes"), &ev->allocator_active_bytes);

	if (reason == REASON_NONE)
		reason = read_counter(find(l, "allocator_inactive_bytes"),
				      &ev->allocator_inactive_bytes);
	if (reason == REASON_NONE)
		reason = read_counter(find_total(l), &ev->device_total_bytes);
	if (reason != REASON_NONE || given)
		return reason != REASON_NONE ? reason : read_counter(given, &ev->device_free_bytes);
	if (ev->device_total_bytes != EVENT_UNKNOWN && ev->device_used_bytes >= 0)
		ev->device_free_bytes = ev->device_total_bytes > ev->device_used_bytes
						? ev->device_total_bytes - ev->device_used_bytes
						: 0;
	return REASON_NONE;
}

/* ---- the device ---- */

static bool contains(struct text t, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= t.n; i++) {
		size_t same = 0;

		while (same < n && ascii_to_lower(t.s[i + same]) == word[same])
			same++;
		if (same == n)
			return true;
	}
	return false;
}

/* "/GPU:0" and "cuda:1" are numbered; a CPU is no device. */
static bool device_from_name(struct text name, int64_t *ret)
{
	const char *colon = memrchr(name.s, ':', name.n);
	uint64_t number;

	*ret = NO_DEVICE;
	if (contains(name, "cpu"))
		return true;
	if (colon &&
	    num_parse_u64_n(colon + 1, name.n - (size_t)(colon + 1 - name.s), &number) == 0 &&
	    number <= INT64_MAX) {
		*ret = (int64_t)number;
		return true;
	}
	*ret = 0;
	return name.n >= 4 && contains((struct text){ name.s, 4 }, "/gpu");
}

static enum reason read_device(struct legacy *l)
{
	const struct jnode *id = find(l, "device_id"), *name = find(l, "device");

	if (id)
		return record_take_int(id, &l->ev->device_id);
	if (name && name->kind == JKIND_TEXT && device_from_name(name->text, &l->ev->device_id))
		return REASON_NONE;
	l->ev->device_id = find(l, "memory_mb") ? 0 : NO_DEVICE;
	return REASON_NONE;
}

/* ---- who it was ---- */

static const struct {
	const char *backend, *collector;
} collectors[] = {
	{ "mps", "stormlog.mps_tracker" },
	{ "rocm", "stormlog.rocm_tracker" },
	{ "cuda", "stormlog.cuda_tracker" },
	{ "cpu", "stormlog.cpu_tracker" },
};

/* Blanks around it do not count. */
static bool is_word(struct text t, const char *word)
{
	while (t.n > 0 && text_is_blank(t.s, 1)) {
		t.s++;
		t.n--;
	}
	while (t.n > 0 && text_is_blank(t.s + t.n - 1, 1))
		t.n--;
	return t.n == strlen(word) && contains(t, word);
}

static const char *guess_collector(const struct legacy *l)
{
	const struct jnode *backend = find_either(l, "backend");

	if (backend && backend->kind == JKIND_TEXT)
		for (size_t i = 0; i < ARRAY_SIZE(collectors); i++)
			if (is_word(backend->text, collectors[i].backend))
				return collectors[i].collector;
	if (find(l, "memory_mb"))
		return "stormlog.tensorflow.memory_tracker";
	if (find(l, "memory_allocated"))
		return l->ev->device_id == NO_DEVICE ? "stormlog.cpu_tracker"
						     : "stormlog.cuda_tracker";
	return "legacy.unknown";
}

static void read_collector(struct legacy *l)
{
	const struct jnode *given = find(l, "collector");
	const char *guess;

	if (given && record_take_text(given, false, false, &l->ev->collector) == REASON_NONE)
		return;
	guess = guess_collector(l);
	l->ev->collector = (struct text){ guess, strlen(guess) };
}

static enum reason read_text_or(const struct jnode *node, const char *otherwise, struct text *ret)
{
	*ret = (struct text){ otherwise, strlen(otherwise) };
	return node ? record_take_text(node, false, false, ret) : REASON_NONE;
}

static enum reason read_names(struct legacy *l)
{
	const struct jnode *type = find(l, "event_type"), *context = find(l, "context");
	struct telemetry_event *ev = l->ev;
	enum reason reason = read_text_or(type ? type : find(l, "type"), "sample", &ev->event_type);

	if (reason == REASON_NONE)
		reason = read_text_or(find_either(l, "host"), "unknown", &ev->host);
	context = context ? context : find(l, "message");
	if (reason == REASON_NONE && context)
		reason = record_take_text(context, true, true, &ev->context);
	read_collector(l);
	return reason;
}

static const struct jnode *find_identity(const struct legacy *l, const char *name)
{
	const struct jnode *node = find(l, name);

	return is_null(node) ? jtree_find(&l->metadata, name) : node;
}

/* A point of a time line that was merged before does not say how many ranks there are. */
static bool is_timeline_point(const struct legacy *l)
{
	return is_number(find(l, "aligned_timestamp_ns")) &&
	       is_null(find_identity(l, "world_size"));
}

static enum reason read_identity(struct legacy *l)
{
	static const struct {
		const char *name;
		size_t offset;
	} rows[] = {
		{ "rank", offsetof(struct telemetry_event, rank) },
		{ "local_rank", offsetof(struct telemetry_event, local_rank) },
		{ "world_size", offsetof(struct telemetry_event, world_size) },
	};
	const struct jnode *job = find_identity(l, "job_id");
	enum reason reason = job ? record_take_text(job, true, false, &l->ev->job_id) : REASON_NONE;

	for (size_t i = 0; reason == REASON_NONE && i < ARRAY_SIZE(rows); i++) {
		const struct jnode *node = find_identity(l, rows[i].name);
		int64_t *to = (int64_t *)(void *)((char *)l->ev + rows[i].offset);

		if (i == 1)
			*to = l->ev->rank;
		if (!is_null(node))
			reason = record_take_int(node, to);
	}
	if (reason == REASON_NONE && is_timeline_point(l) && l->ev->rank < INT64_MAX)
		l->ev->world_size = l->ev->rank + 1;
	return reason;
}

static enum reason read_numbers(struct legacy *l)
{
	const struct jnode *interval = find(l, "sampling_interval_ms"),
			   *pid = find_either(l, "pid");
	enum reason reason =
		interval ? record_take_int(interval, &l->ev->sampling_interval_ms) : REASON_NONE;

	if (reason == REASON_NONE && pid)
		reason = record_take_int(pid, &l->ev->pid);
	return reason;
}

enum reason legacy_read(const struct jnode *record, struct arena *arena,
			struct telemetry_event *ret, int *ret_error)
{
	static enum reason (*const steps[])(struct legacy * l) = {
		read_timestamp, read_device,  read_memory,   read_counters,
		read_names,	read_numbers, read_identity,
	};
	struct legacy l = { .record = record, .ev = ret };
	enum reason reason = merge_metadata(&l, arena, ret_error);

	for (size_t i = 0; reason == REASON_NONE && i < ARRAY_SIZE(steps); i++)
		reason = steps[i](&l);
	if (reason != REASON_NONE)
		return reason;
	strip_identity(&l.metadata);
	ret->metadata = arena_memdup(arena, &l.metadata, sizeof(l.metadata));
	if (!ret->metadata)
		*ret_error = -ENOMEM;
	return event_check(ret);
}

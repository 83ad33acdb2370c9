#include "crossrank/reading/event_reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/utf8.h"

#define SESSION_FIELD (EVENT_FIELDS - 1)

static bool is_null(const struct jnode *node)
{
	return !node || node->kind == JKIND_NULL;
}

/* A text that is neither null nor blank, unless it may be. */
static enum reason take_text(const struct jnode *node, bool may_be_null, bool may_be_blank,
			     struct text *ret)
{
	if (node->kind == JKIND_NULL && may_be_null) {
		*ret = (struct text){ NULL, 0 };
		return REASON_NONE;
	}
	/* The reference calls a null where a text must be an empty one. */
	if (node->kind == JKIND_NULL)
		return REASON_BLANK_STRING;
	if (node->kind != JKIND_TEXT)
		return REASON_WRONG_TYPE;
	if (!may_be_blank && text_is_blank(node->text.s, node->text.n))
		return REASON_BLANK_STRING;
	*ret = node->text;
	return REASON_NONE;
}

static enum reason take_int(const struct jnode *node, int64_t *ret)
{
	if (node->kind == JKIND_BIG_INT)
		return REASON_OUT_OF_RANGE;
	if (node->kind != JKIND_INT)
		return REASON_WRONG_TYPE;
	*ret = node->integer;
	return REASON_NONE;
}

/* Null is unknown, and so is what is not there. -1 stands for unknown in an event, so it is
 * refused. */
static enum reason take_int_or_null(const struct jnode *node, int64_t *ret)
{
	if (is_null(node))
		return REASON_NONE;
	if (node->kind == JKIND_INT && node->integer < 0)
		return REASON_OUT_OF_RANGE;
	return take_int(node, ret);
}

static enum reason take_field(const struct event_field *f, const struct jnode *node,
			      struct telemetry_event *ev)
{
	switch (f->kind) {
	case FIELD_SCHEMA:
		if (node->kind == JKIND_INT && node->integer == 2)
			return REASON_NONE;
		return REASON_BAD_SCHEMA_VERSION;
	case FIELD_INT:
		return take_int(node, event_int(ev, f));
	case FIELD_INT_OR_NULL:
		return take_int_or_null(node, event_int(ev, f));
	case FIELD_METADATA:
		if (node->kind != JKIND_OBJECT)
			return REASON_METADATA_NOT_OBJECT;
		ev->metadata = node;
		return REASON_NONE;
	case FIELD_CONTEXT:
		return take_text(node, true, true, event_text(ev, f));
	default:
		return take_text(node, f->kind == FIELD_TEXT_OR_NULL, false, event_text(ev, f));
	}
}

/* ---- older records ---- */

/*
 * Records of the time before schema_version: what they lack gets a default, and
 * older names of fields are known. The rules are those of the reference.
 */
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
			is_identity |= text_is((*link)->key, names[i]);
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
		return take_int(exact, &l->ev->timestamp_ns);
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
			return take_int(node, ret);
	}
	return REASON_NONE;
}

/* Allocated memory by its name, an older one, or in MB; else what the device has in use. */
static enum reason read_memory(struct legacy *l)
{
	static const char *const allocated[] = { "allocator_allocated_bytes", "memory_allocated" };
	static const char *const reserved[] = { "allocator_reserved_bytes", "memory_reserved" };
	static const char *const change[] = { "allocator_change_bytes", "memory_change" };
	static const char *const used[] = { "device_used_bytes" };
	const struct jnode *mb = find(l, "memory_mb");
	struct telemetry_event *ev = l->ev;
	enum reason reason;

	if (find(l, allocated[0]) || find(l, allocated[1]))
		reason = read_first_int(l, allocated, 2, &ev->allocator_allocated_bytes);
	else if (is_number(mb))
		reason = scale(mb, BYTES_PER_MB, &ev->allocator_allocated_bytes);
	else
		reason = read_first_int(l, used, 1, &ev->allocator_allocated_bytes);
	ev->allocator_reserved_bytes = ev->device_used_bytes = ev->allocator_allocated_bytes;
	if (reason == REASON_NONE)
		reason = read_first_int(l, reserved, 2, &ev->allocator_reserved_bytes);
	if (reason == REASON_NONE)
		reason = read_first_int(l, change, 2, &ev->allocator_change_bytes);
	if (reason == REASON_NONE)
		reason = read_first_int(l, used, 1, &ev->device_used_bytes);
	return reason;
}

static enum reason read_counters(struct legacy *l)
{
	static const char *const totals[] = { "total_memory", "device_total", "total_bytes" };
	const struct jnode *given = find(l, "device_free_bytes");
	const struct jnode *total = find(l, "device_total_bytes");
	struct telemetry_event *ev = l->ev;
	enum reason reason =
		take_int_or_null(find(l, "allocator_active_bytes"), &ev->allocator_active_bytes);

	for (size_t i = 0; !total && i < ARRAY_SIZE(totals); i++)
		total = find(l, totals[i]);
	for (size_t i = 0; !total && i < ARRAY_SIZE(totals); i++)
		total = jtree_find(&l->metadata, totals[i]);
	if (reason == REASON_NONE)
		reason = take_int_or_null(find(l, "allocator_inactive_bytes"),
					  &ev->allocator_inactive_bytes);
	if (reason == REASON_NONE)
		reason = take_int_or_null(total, &ev->device_total_bytes);
	if (reason != REASON_NONE)
		return reason;
	if (given)
		return take_int_or_null(given, &ev->device_free_bytes);
	if (ev->device_total_bytes != EVENT_UNKNOWN && ev->device_used_bytes >= 0)
		ev->device_free_bytes = ev->device_total_bytes > ev->device_used_bytes
						? ev->device_total_bytes - ev->device_used_bytes
						: 0;
	return REASON_NONE;
}

/* ---- the device ---- */

/* "/GPU:0" and "cuda:1" are numbered; a CPU is no device. */
static bool device_from_name(struct text name, int64_t *ret)
{
	const char *colon = memrchr(name.s, ':', name.n);
	uint64_t number;

	*ret = NO_DEVICE;
	if (text_contains(name, "cpu"))
		return true;
	if (colon &&
	    num_parse_u64_n(colon + 1, name.n - (size_t)(colon + 1 - name.s), &number) == 0 &&
	    number <= INT64_MAX) {
		*ret = (int64_t)number;
		return true;
	}
	*ret = 0;
	return name.n >= 4 && text_contains((struct text){ name.s, 4 }, "/gpu");
}

static enum reason read_device(struct legacy *l)
{
	const struct jnode *id = find(l, "device_id"), *name = find(l, "device");

	if (id)
		return take_int(id, &l->ev->device_id);
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
	return t.n == strlen(word) && text_contains(t, word);
}

static enum reason read_text_or(const struct jnode *node, const char *otherwise, struct text *ret)
{
	*ret = (struct text){ otherwise, strlen(otherwise) };
	return node ? take_text(node, false, false, ret) : REASON_NONE;
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

static enum reason read_names(struct legacy *l)
{
	const struct jnode *type = find(l, "event_type"), *context = find(l, "context"),
			   *collector = find(l, "collector"),
			   *interval = find(l, "sampling_interval_ms"),
			   *pid = find_either(l, "pid");
	struct telemetry_event *ev = l->ev;
	enum reason reason = read_text_or(type ? type : find(l, "type"), "sample", &ev->event_type);

	if (reason == REASON_NONE)
		reason = read_text_or(find_either(l, "host"), "unknown", &ev->host);
	context = context ? context : find(l, "message");
	if (reason == REASON_NONE && context)
		reason = take_text(context, true, true, &ev->context);
	if (!collector || take_text(collector, false, false, &ev->collector) != REASON_NONE)
		read_text_or(NULL, guess_collector(l), &ev->collector);
	if (reason == REASON_NONE && interval)
		reason = take_int(interval, &ev->sampling_interval_ms);
	if (reason == REASON_NONE && pid)
		reason = take_int(pid, &ev->pid);
	return reason;
}

static const struct jnode *find_identity(const struct legacy *l, const char *name)
{
	const struct jnode *node = find(l, name);

	return is_null(node) ? jtree_find(&l->metadata, name) : node;
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
	enum reason reason = job ? take_text(job, true, false, &l->ev->job_id) : REASON_NONE;

	for (size_t i = 0; reason == REASON_NONE && i < ARRAY_SIZE(rows); i++) {
		const struct jnode *node = find_identity(l, rows[i].name);
		int64_t *to = (int64_t *)(void *)((char *)l->ev + rows[i].offset);

		if (i == 1)
			*to = l->ev->rank;
		if (!is_null(node))
			reason = take_int(node, to);
	}
	/* A point of a time line that was merged before does not say how many ranks there are. */
	if (reason == REASON_NONE && is_number(find(l, "aligned_timestamp_ns")) &&
	    is_null(find_identity(l, "world_size")) && l->ev->rank < INT64_MAX)
		l->ev->world_size = l->ev->rank + 1;
	return reason;
}

/* A record without schema_version. Its fields have several names: none is told. */
static struct refusal read_legacy(const struct jnode *record, struct arena *arena,
				  struct telemetry_event *ret)
{
	static enum reason (*const steps[])(struct legacy * l) = {
		read_timestamp, read_device, read_memory, read_counters, read_names, read_identity,
	};
	struct legacy l = { .record = record, .ev = ret };
	struct refusal refusal = { 0 };
	const char *field;

	refusal.reason = merge_metadata(&l, arena, &refusal.error);
	for (size_t i = 0; refusal.reason == REASON_NONE && i < ARRAY_SIZE(steps); i++)
		refusal.reason = steps[i](&l);
	if (refusal.reason != REASON_NONE)
		return refusal;
	strip_identity(&l.metadata);
	ret->metadata = arena_memdup(arena, &l.metadata, sizeof(l.metadata));
	if (!ret->metadata)
		refusal.error = -ENOMEM;
	refusal.reason = event_check(ret, &field);
	return refusal;
}

/* ---- records of version 2 ---- */

static struct refusal refuse(enum reason reason, const char *field)
{
	return (struct refusal){ reason, { field, field ? strlen(field) : 0 }, 0 };
}

/* Of a repeated field the last value counts. seen: a bit for each. */
static struct refusal read_v2(const struct jnode *record, const struct jnode *const *nodes,
			      uint32_t seen, enum record_rule rule, struct telemetry_event *ev)
{
	const char *field = NULL;
	enum reason reason;

	for (size_t i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required && !nodes[i])
			return refuse(REASON_MISSING_FIELD, event_fields[i].name);
	for (const struct jnode *c = record->first; c; c = c->next) {
		int i = event_field_find(c->key.s, c->key.n);

		if (i < 0 || (i == SESSION_FIELD && rule != RECORD_SESSION))
			return (struct refusal){ REASON_UNKNOWN_FIELD, c->key, 0 };
	}
	for (size_t i = 0; i < EVENT_FIELDS; i++) {
		reason = nodes[i] ? take_field(&event_fields[i], nodes[i], ev) : REASON_NONE;
		if (reason != REASON_NONE)
			return refuse(reason, event_fields[i].name);
	}
	event_fill_defaults(ev, seen);
	reason = event_check(ev, &field);
	return refuse(reason, field);
}

/*
 * What proctor notes about the clock; anything else in metadata is not looked at here. A bound that
 * is a text or below 0 bounds nothing. What is neither true nor false is not synchronised.
 */
static void take_clock(struct telemetry_event *ev)
{
	const struct jnode *node;

	if (!ev->metadata)
		return;
	node = jtree_find(ev->metadata, "clock_error_ns");
	if (node && node->kind == JKIND_INT && node->integer >= 0)
		ev->clock.error_ns = node->integer;
	else if (node && node->kind == JKIND_FLOAT && node->number >= 0 && node->number < 0x1p62)
		ev->clock.error_ns = (int64_t)ceil(node->number);
	else if (!is_null(node))
		ev->clock.is_free = true;
	node = jtree_find(ev->metadata, "clock_synchronised");
	if (!is_null(node) && (node->kind != JKIND_BOOL || !node->integer))
		ev->clock.is_free = true;
	node = jtree_find(ev->metadata, "boot_id");
	if (node && node->kind == JKIND_TEXT && node->text.n > 0)
		ev->clock.boot_id = node->text;
}

int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena)
{
	struct jnode *node = NULL;
	int r = jtree_parse(json, n, arena, &node);

	if (r == 0 && node->kind != JKIND_OBJECT)
		r = -EINVAL;
	if (r < 0)
		return r;
	ev->metadata = node;
	take_clock(ev);
	return 0;
}

struct refusal record_read(const char *text, size_t n, enum record_rule rule, struct arena *arena,
			   struct telemetry_event *ret)
{
	const struct jnode *nodes[EVENT_FIELDS] = { NULL };
	static const size_t before[] = { SESSION_FIELD, 0 }; /* what is looked at first */
	struct jnode *record = NULL;
	struct refusal refusal;
	uint32_t seen = 0;
	int r;

	event_init(ret);
	if (!utf8_is_valid(text, n))
		return refuse(REASON_BAD_UTF8, NULL);
	r = jtree_parse(text, n, arena, &record);
	if (r < 0)
		return (struct refusal){ REASON_BAD_JSON, { 0 }, r == -ENOMEM ? r : 0 };
	if (record->kind != JKIND_OBJECT)
		return refuse(REASON_NOT_OBJECT, NULL);
	for (const struct jnode *c = record->first; c; c = c->next) {
		int i = event_field_find(c->key.s, c->key.n);

		if (i >= 0) {
			nodes[i] = c;
			seen |= UINT32_C(1) << i;
		}
	}
	if (rule == RECORD_STRICT && !nodes[0])
		return refuse(REASON_MISSING_FIELD, event_fields[0].name);
	for (size_t k = 0; k < ARRAY_SIZE(before); k++) {
		const struct event_field *f = &event_fields[before[k]];
		enum reason reason = REASON_NONE;

		if (nodes[before[k]] && (k == 0 ? rule == RECORD_SESSION : rule != RECORD_STRICT))
			reason = take_field(f, nodes[before[k]], ret);
		if (reason != REASON_NONE)
			return refuse(reason, nodes[0] ? f->name : NULL);
	}
	refusal = nodes[0] ? read_v2(record, nodes, seen, rule, ret)
			   : read_legacy(record, arena, ret);
	if (refusal.reason == REASON_NONE && refusal.error == 0)
		take_clock(ret);
	return refusal;
}

#include "crossrank/reading/event_reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/utf8.h"
#include "crossrank/reading/jtree.h"

void event_reader_release(struct event_reader *r)
{
	arena_release(&r->arena);
	shapes_release(&r->shapes);
}

/* ---- values ---- */

static bool is_null(const struct jnode *node)
{
	return !node || node->kind == JKIND_NULL;
}

static bool is_number(const struct jnode *node)
{
	return node && (node->kind == JKIND_INT || node->kind == JKIND_BIG_INT ||
			node->kind == JKIND_FLOAT);
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

/* ---- metadata ---- */

/*
 * Where metadata are looked up: in an object, and of an older record, which may have each of them
 * as "metadata_NAME", too, in that first.
 */
struct metadata {
	const struct jnode *object, *older; /* either may be NULL */
};

static const struct jnode *find_metadata(const struct metadata *m, const char *name)
{
	const struct jnode *node = NULL;
	char flat[64];

	snprintf(flat, sizeof(flat), "metadata_%s", name);
	if (m->older)
		node = jtree_find(m->older, flat);
	return node || !m->object ? node : jtree_find(m->object, name);
}

/*
 * What analysis looks at. A bound of the clock that is a text or below 0 bounds nothing. What is
 * neither true nor false is not synchronised.
 */
static void take_metadata(const struct metadata *m, struct telemetry_event *ev)
{
	const struct jnode *node = find_metadata(m, "clock_error_ns");

	if (node && node->kind == JKIND_INT && node->integer >= 0)
		ev->clock.error_ns = node->integer;
	else if (node && node->kind == JKIND_FLOAT && node->number >= 0 && node->number < 0x1p62)
		ev->clock.error_ns = (int64_t)ceil(node->number);
	else if (!is_null(node))
		ev->clock.is_free = true;
	node = find_metadata(m, "clock_synchronised");
	if (!is_null(node) && (node->kind != JKIND_BOOL || !node->integer))
		ev->clock.is_free = true;
	node = find_metadata(m, "boot_id");
	if (node && node->kind == JKIND_TEXT && node->text.n > 0)
		ev->clock.boot_id = node->text;
	node = find_metadata(m, "phase_scope");
	if (node && node->kind == JKIND_OBJECT)
		ev->phase_scope = node;
}

int event_set_metadata(struct telemetry_event *ev, const char *json, size_t n, struct arena *arena)
{
	struct jnode *node = NULL;
	int r = jtree_parse(json, n, arena, &node);

	if (r == 0 && node->kind != JKIND_OBJECT)
		r = -EINVAL;
	if (r < 0)
		return r;
	ev->metadata = node->raw;
	take_metadata(&(struct metadata){ .object = node }, ev);
	return 0;
}

/* ---- older records ---- */

/*
 * Records of the time before schema_version: what they lack gets a default, and
 * older names of fields are known. The rules are those of the reference.
 */
#define BYTES_PER_MB (1024.0 * 1024.0)
#define NO_DEVICE INT64_C(-1)

struct older {
	const struct jnode *record;
	struct metadata metadata;
	struct telemetry_event *ev;
	enum reason reason; /* the first that was found */
};

static void note(struct older *o, enum reason reason)
{
	o->reason = o->reason == REASON_NONE ? reason : o->reason;
}

static const struct jnode *find(const struct older *o, const char *name)
{
	return jtree_find(o->record, name);
}

/* What the record says, or its metadata. */
static const struct jnode *find_either(const struct older *o, const char *name)
{
	const struct jnode *node = find(o, name);

	return node ? node : find_metadata(&o->metadata, name);
}

/* The same where null says nothing. */
static const struct jnode *find_known(const struct older *o, const char *name)
{
	const struct jnode *node = find(o, name);

	return is_null(node) ? find_metadata(&o->metadata, name) : node;
}

/* A whole number by its name, or by an older one. False: the record has neither. */
static bool take_named(struct older *o, const char *name, const char *older_name, int64_t *ret)
{
	const struct jnode *node = find(o, name);

	if (!node && older_name)
		node = find(o, older_name);
	if (node)
		note(o, take_int(node, ret));
	return node != NULL;
}

/* A whole number of the given scale, cut towards zero. */
static void take_scaled(struct older *o, const struct jnode *node, double factor, int64_t *ret)
{
	double v = node->number * factor;

	if (fabs(v) < 9.2e18)
		*ret = (int64_t)v;
	else
		note(o, REASON_OUT_OF_RANGE);
}

static void read_timestamp(struct older *o)
{
	const struct jnode *seconds = find(o, "timestamp");

	if (take_named(o, "timestamp_ns", NULL, &o->ev->timestamp_ns))
		return;
	if (is_number(seconds) && !isnan(seconds->number))
		take_scaled(o, seconds, 1e9, &o->ev->timestamp_ns);
	else
		note(o, REASON_LEGACY_NO_TIMESTAMP);
}

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

static void read_device(struct older *o)
{
	const struct jnode *name = find(o, "device");

	if (!take_named(o, "device_id", NULL, &o->ev->device_id) &&
	    !(name && name->kind == JKIND_TEXT && device_from_name(name->text, &o->ev->device_id)))
		o->ev->device_id = find(o, "memory_mb") ? 0 : NO_DEVICE;
}

/* Allocated memory by its name, an older one, or in MB; else what the device has in use. */
static void read_memory(struct older *o)
{
	const struct jnode *mb = find(o, "memory_mb");
	struct telemetry_event *ev = o->ev;

	if (!take_named(o, "allocator_allocated_bytes", "memory_allocated",
			&ev->allocator_allocated_bytes)) {
		if (is_number(mb))
			take_scaled(o, mb, BYTES_PER_MB, &ev->allocator_allocated_bytes);
		else
			take_named(o, "device_used_bytes", NULL, &ev->allocator_allocated_bytes);
	}
	ev->allocator_reserved_bytes = ev->device_used_bytes = ev->allocator_allocated_bytes;
	take_named(o, "allocator_reserved_bytes", "memory_reserved", &ev->allocator_reserved_bytes);
	take_named(o, "allocator_change_bytes", "memory_change", &ev->allocator_change_bytes);
	take_named(o, "device_used_bytes", NULL, &ev->device_used_bytes);
}

static void read_counters(struct older *o)
{
	static const char *const totals[] = { "total_memory", "device_total", "total_bytes" };
	const struct jnode *given = find(o, "device_free_bytes");
	const struct jnode *total = find(o, "device_total_bytes");
	struct telemetry_event *ev = o->ev;

	for (size_t i = 0; !total && i < ARRAY_SIZE(totals); i++)
		total = find(o, totals[i]);
	for (size_t i = 0; !total && i < ARRAY_SIZE(totals); i++)
		total = find_metadata(&o->metadata, totals[i]);
	note(o, take_int_or_null(find(o, "allocator_active_bytes"), &ev->allocator_active_bytes));
	note(o,
	     take_int_or_null(find(o, "allocator_inactive_bytes"), &ev->allocator_inactive_bytes));
	note(o, take_int_or_null(total, &ev->device_total_bytes));
	note(o, take_int_or_null(given, &ev->device_free_bytes));
	if (!given && ev->device_total_bytes != EVENT_UNKNOWN && ev->device_used_bytes >= 0)
		ev->device_free_bytes = ev->device_total_bytes > ev->device_used_bytes
						? ev->device_total_bytes - ev->device_used_bytes
						: 0;
}

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

static const char *guess_collector(const struct older *o)
{
	const struct jnode *backend = find_either(o, "backend");

	if (backend && backend->kind == JKIND_TEXT)
		for (size_t i = 0; i < ARRAY_SIZE(collectors); i++)
			if (is_word(backend->text, collectors[i].backend))
				return collectors[i].collector;
	if (find(o, "memory_mb"))
		return "stormlog.tensorflow.memory_tracker";
	if (find(o, "memory_allocated"))
		return o->ev->device_id == NO_DEVICE ? "stormlog.cpu_tracker"
						     : "stormlog.cuda_tracker";
	return "legacy.unknown";
}

static void read_names(struct older *o)
{
	const struct jnode *type = find(o, "event_type"), *host = find_either(o, "host"),
			   *context = find(o, "context"), *collector = find(o, "collector"),
			   *pid = find_either(o, "pid");
	struct telemetry_event *ev = o->ev;
	const char *guess = guess_collector(o);

	ev->event_type = (struct text){ "sample", strlen("sample") };
	ev->host = (struct text){ "unknown", strlen("unknown") };
	ev->collector = (struct text){ guess, strlen(guess) };
	type = type ? type : find(o, "type");
	context = context ? context : find(o, "message");
	if (type)
		note(o, take_text(type, false, false, &ev->event_type));
	if (host)
		note(o, take_text(host, false, false, &ev->host));
	if (context)
		note(o, take_text(context, true, true, &ev->context));
	if (collector)
		take_text(collector, false, false, &ev->collector); /* else the guess stays */
	take_named(o, "sampling_interval_ms", NULL, &ev->sampling_interval_ms);
	if (pid)
		note(o, take_int(pid, &ev->pid));
}

static void read_identity(struct older *o)
{
	const struct jnode *job = find_known(o, "job_id"), *rank = find_known(o, "rank"),
			   *local = find_known(o, "local_rank"),
			   *size = find_known(o, "world_size");
	struct telemetry_event *ev = o->ev;

	if (job)
		note(o, take_text(job, true, false, &ev->job_id));
	note(o, is_null(rank) ? REASON_NONE : take_int(rank, &ev->rank));
	ev->local_rank = ev->rank;
	note(o, is_null(local) ? REASON_NONE : take_int(local, &ev->local_rank));
	note(o, is_null(size) ? REASON_NONE : take_int(size, &ev->world_size));
	/* A point of a time line that was merged before does not say how many ranks there are. */
	if (is_number(find(o, "aligned_timestamp_ns")) && is_null(size) && ev->rank < INT64_MAX)
		ev->world_size = ev->rank + 1;
}

/* A record without schema_version. */
static enum reason read_older(const struct jnode *record, struct telemetry_event *ev)
{
	const struct jnode *metadata = jtree_find(record, "metadata");
	struct older o = { record, { metadata, record }, ev, REASON_NONE };
	const char *field;

	if (is_null(metadata))
		o.metadata.object = NULL;
	else if (metadata->kind != JKIND_OBJECT)
		return REASON_METADATA_NOT_OBJECT;
	read_timestamp(&o);
	read_device(&o);
	read_memory(&o);
	read_counters(&o);
	read_names(&o);
	read_identity(&o);
	take_metadata(&o.metadata, ev);
	return o.reason == REASON_NONE ? event_check(ev, &field) : o.reason;
}

/* ---- records of version 2 ---- */

static struct refusal refuse(enum reason reason, const char *field)
{
	return (struct refusal){ reason, { field, field ? strlen(field) : 0 }, 0 };
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
		ev->metadata = node->raw;
		take_metadata(&(struct metadata){ .object = node }, ev);
		return REASON_NONE;
	case FIELD_CONTEXT:
		return take_text(node, true, true, event_text(ev, f));
	default:
		return take_text(node, f->kind == FIELD_TEXT_OR_NULL, false, event_text(ev, f));
	}
}

/* Of a repeated field the last value counts. seen: a bit for each. */
static struct refusal read_v2(const struct jnode *record, const struct jnode *const *nodes,
			      uint32_t seen, struct telemetry_event *ev)
{
	const char *field = NULL;
	enum reason reason;

	for (size_t i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required && !nodes[i])
			return refuse(REASON_MISSING_FIELD, event_fields[i].name);
	for (const struct jnode *c = record->first; c; c = c->next)
		if (event_field_find(c->key.s, c->key.n) < 0)
			return (struct refusal){ REASON_UNKNOWN_FIELD, c->key, 0 };
	for (size_t i = 0; i < EVENT_FIELDS; i++) {
		reason = nodes[i] ? take_field(&event_fields[i], nodes[i], ev) : REASON_NONE;
		if (reason != REASON_NONE)
			return refuse(reason, event_fields[i].name);
	}
	event_fill_defaults(ev, seen);
	reason = event_check(ev, &field);
	return refuse(reason, field);
}

static struct refusal read_carefully(struct event_reader *r, const char *text, size_t n,
				     struct telemetry_event *ret)
{
	static const size_t before[] = { EVENT_SESSION, EVENT_VERSION }; /* are looked at first */
	const struct jnode *nodes[EVENT_FIELDS] = { NULL };
	struct jnode *record = NULL;
	struct refusal refusal;
	uint32_t seen = 0;
	int e;

	arena_reset(&r->arena);
	event_init(ret);
	if (!utf8_is_valid(text, n))
		return refuse(REASON_BAD_UTF8, NULL);
	e = jtree_parse(text, n, &r->arena, &record);
	if (e < 0)
		return (struct refusal){ REASON_BAD_JSON, { 0 }, e == -ENOMEM ? e : 0 };
	if (record->kind != JKIND_OBJECT)
		return refuse(REASON_NOT_OBJECT, NULL);
	for (const struct jnode *c = record->first; c; c = c->next) {
		int i = event_field_find(c->key.s, c->key.n);

		if (i >= 0) {
			nodes[i] = c;
			seen |= UINT32_C(1) << i;
		}
	}
	for (size_t k = 0; k < ARRAY_SIZE(before); k++) {
		const struct event_field *f = &event_fields[before[k]];
		enum reason reason =
			nodes[before[k]] ? take_field(f, nodes[before[k]], ret) : REASON_NONE;

		if (reason != REASON_NONE)
			return refuse(reason, nodes[EVENT_VERSION] ? f->name : NULL);
	}
	/* The fields of an older record have several names: none is kept. */
	if (!nodes[EVENT_VERSION])
		return refuse(read_older(record, ret), NULL);
	refusal = read_v2(record, nodes, seen, ret);
	if (refusal.reason == REASON_NONE)
		shapes_learn(&r->shapes, record, ret);
	return refusal;
}

struct refusal event_read(struct event_reader *r, const char *text, size_t n,
			  struct telemetry_event *ret)
{
	if (shapes_read(&r->shapes, text, n, ret))
		return (struct refusal){ .reason = REASON_NONE };
	return read_carefully(r, text, n, ret);
}

/*
 * event - one telemetry record (version 2), as it is after validation, and its fields.
 *
 * Numbers are int64_t as the format has them. Those that a record may leave open
 * are never negative when known, and EVENT_UNKNOWN otherwise. A text that is null has
 * s == NULL; it may hold a NUL, so its length counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a telemetry record was refused. */
enum reason {
	REASON_NONE, /* it is fine */
	REASON_BAD_JSON,
	REASON_BAD_UTF8,
	REASON_NOT_OBJECT,
	REASON_MISSING_FIELD,
	REASON_UNKNOWN_FIELD,
	REASON_BAD_SCHEMA_VERSION,
	REASON_WRONG_TYPE,
	REASON_BLANK_STRING,
	REASON_METADATA_NOT_OBJECT,
	REASON_NEGATIVE_RANK,
	REASON_RANK_NOT_BELOW_WORLD_SIZE,
	REASON_OUT_OF_RANGE,
	REASON_EXCEEDS_TOTAL,
	REASON_LEGACY_NO_TIMESTAMP,
	/* What no single record can tell of itself. */
	REASON_BAD_CSV,
	REASON_CUT_CSV,
	REASON_BAD_HEADING,
	REASON_BAD_COMPRESSION,
	REASON_LARGE_WINDOW,
	REASON_TOO_LONG,
};

/* "bad_json", … */
const char *reason_name(enum reason reason);

/* What is wrong, for people: "is not JSON". */
const char *reason_in_words(enum reason reason);

#define EVENT_UNKNOWN INT64_C(-1)

struct text {
	const char *s;
	size_t n;
};

static inline bool text_equals(struct text a, struct text b)
{
	return a.n == b.n && (a.n == 0 || __builtin_memcmp(a.s, b.s, a.n) == 0);
}

static inline int text_compare(struct text a, struct text b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n > 0 ? __builtin_memcmp(a.s, b.s, n) : 0;

	return r ? r : (a.n > b.n) - (a.n < b.n);
}

static inline bool text_is(struct text t, const char *s)
{
	return text_equals(t, (struct text){ s, __builtin_strlen(s) });
}

struct json;
struct jnode;

/* How well a stream's clock is known; from the keys of metadata that proctor writes. */
struct event_clock {
	struct text boot_id; /* streams of one boot share a clock */
	int64_t error_ns;    /* at most so far from the true time; EVENT_UNKNOWN */
	bool is_free;	     /* known to be synchronised with nothing */
};

/* What a rank uses beside memory, as time: of a CPU, of a GPU (2 s a second on two). */
enum use_kind { USE_CPU, USE_GPU, N_USES };

struct telemetry_event {
	int64_t timestamp_ns;
	int64_t sampling_interval_ms;
	int64_t pid; /* -1: unknown */
	int64_t rank, local_rank, world_size;
	int64_t device_id; /* -1: no device */
	int64_t allocator_allocated_bytes, allocator_reserved_bytes;
	int64_t allocator_active_bytes, allocator_inactive_bytes; /* may be unknown */
	int64_t allocator_change_bytes;
	int64_t device_used_bytes;
	int64_t device_free_bytes, device_total_bytes; /* may be unknown */
	struct text event_type, collector, host;
	struct text job_id, context, session_id; /* may be null */
	/* Metadata, and what analysis looks at of them: clocks and a phase. */
	struct text metadata; /* as JSON; s NULL: of an older record, or one like another */
	struct event_clock clock;
	const struct jnode *phase_scope; /* NULL: there is none */
	/* By the rank so far, from a store; may be unknown. A counter that falls starts again. No
	 * fields. */
	int64_t used_ns[N_USES];
};

enum field_kind {
	FIELD_SCHEMA,
	FIELD_INT,
	FIELD_INT_OR_NULL,
	FIELD_TEXT,	    /* not blank */
	FIELD_TEXT_OR_NULL, /* not blank */
	FIELD_CONTEXT,	    /* any text, or null */
	FIELD_METADATA,
};

struct event_field {
	const char *name;
	size_t name_len;
	enum field_kind kind;
	bool is_required;
	size_t offset; /* in struct telemetry_event */
	int64_t min;
	enum reason below_min;
};

#define EVENT_FIELDS 23
/* Places in event_fields[]. */
enum {
	EVENT_VERSION = 0,
	EVENT_TYPE = 2,
	EVENT_RANK = 8,
	EVENT_LOCAL_RANK = 9,
	EVENT_WORLD_SIZE = 10,
	EVENT_METADATA = 21,
	EVENT_SESSION = 22,
};
extern const struct event_field event_fields[EVENT_FIELDS];

/* The index of a field, or -1. */
int event_field_find(const char *name, size_t n);

/* As a record without any optional field is. */
void event_init(struct telemetry_event *ev);

/* What a missing rank, local_rank or world_size means: seen is a bit for each field. */
void event_fill_defaults(struct telemetry_event *ev, uint32_t seen);

/* Ranges, totals and ranks; types are the caller's. The field that is refused is in *ret_field. */
enum reason event_check(const struct telemetry_event *ev, const char **ret_field);

/* True if there is nothing but white space, that of Unicode included. */
bool text_is_blank(const char *s, size_t n);

/* In any case; word has small letters. */
bool text_begins_with(struct text t, const char *word);
bool text_contains(struct text t, const char *word);

/* "sample" in any case, as Unicode folds it. */
bool text_is_sample(struct text type);

/* The record as JSON, in the order of the format. */
void event_write_json(struct json *j, const struct telemetry_event *ev);

static inline int64_t *event_int(struct telemetry_event *ev, const struct event_field *f)
{
	return (int64_t *)(void *)((char *)ev + f->offset);
}

static inline struct text *event_text(struct telemetry_event *ev, const struct event_field *f)
{
	return (struct text *)(void *)((char *)ev + f->offset);
}

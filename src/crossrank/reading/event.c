#include "crossrank/reading/event.h"

#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/utf8.h"

static const struct {
	const char *name, *words;
} reasons[] = {
	[REASON_NONE] = { "none", "is fine" },
	[REASON_BAD_JSON] = { "bad_json", "is not JSON" },
	[REASON_BAD_UTF8] = { "bad_utf8", "is not UTF-8" },
	[REASON_NOT_OBJECT] = { "not_object", "is not a JSON object" },
	[REASON_MISSING_FIELD] = { "missing_field", "lacks a field that every record has" },
	[REASON_UNKNOWN_FIELD] = { "unknown_field", "has a field that no record has" },
	[REASON_BAD_SCHEMA_VERSION] = { "bad_schema_version", "has another schema_version than 2" },
	[REASON_WRONG_TYPE] = { "wrong_type", "has a value of the wrong type" },
	[REASON_BLANK_STRING] = { "blank_string", "has an empty text where one is needed" },
	[REASON_METADATA_NOT_OBJECT] = { "metadata_not_object",
					 "has metadata that are not a JSON object" },
	[REASON_NEGATIVE_RANK] = { "negative_rank", "has a rank below 0" },
	[REASON_RANK_NOT_BELOW_WORLD_SIZE] = { "rank_not_below_world_size",
					       "has a rank that is not below world_size" },
	[REASON_OUT_OF_RANGE] = { "out_of_range", "has a number out of its range" },
	[REASON_EXCEEDS_TOTAL] = { "exceeds_total", "uses more than device_total_bytes" },
	[REASON_LEGACY_NO_TIMESTAMP] = { "legacy_no_timestamp",
					 "has neither schema_version nor a timestamp" },
	[REASON_BAD_CSV] = { "bad_csv", "does not have the columns of the heading" },
	[REASON_CUT_CSV] = { "cut_csv", "has no line end, so its last value may be cut" },
	[REASON_BAD_HEADING] = { "bad_heading",
				 "is a heading without a column that every row needs" },
	[REASON_BAD_COMPRESSION] = { "bad_compression", "is damaged where it is compressed" },
	[REASON_LARGE_WINDOW] = { "window_too_large",
				  "is compressed with a window of more than 128 MiB; "
				  "'zstd -d --long=31' takes it out" },
	[REASON_TOO_LONG] = { "too_long", "is longer than a record may be" },
};

const char *reason_name(enum reason reason)
{
	return reasons[reason].name;
}

const char *reason_in_words(enum reason reason)
{
	return reasons[reason].words;
}

/* ---- fields ---- */

#define AT(member) offsetof(struct telemetry_event, member)
#define NAMED(name) #name, sizeof(#name) - 1
#define ANY INT64_MIN, REASON_NONE
#define COUNT(name) NAMED(name), FIELD_INT, true, AT(name), 0, REASON_OUT_OF_RANGE
#define COUNT_OR_NULL(name) NAMED(name), FIELD_INT_OR_NULL, true, AT(name), 0, REASON_OUT_OF_RANGE

/* In the order of the format; session_id comes beside it. */
const struct event_field event_fields[EVENT_FIELDS] = {
	[EVENT_VERSION] = { NAMED(schema_version), FIELD_SCHEMA, true, 0, ANY },
	{ COUNT(timestamp_ns) },
	[EVENT_TYPE] = { NAMED(event_type), FIELD_TEXT, true, AT(event_type), ANY },
	{ NAMED(collector), FIELD_TEXT, true, AT(collector), ANY },
	{ COUNT(sampling_interval_ms) },
	{ NAMED(pid), FIELD_INT, true, AT(pid), -1, REASON_OUT_OF_RANGE },
	{ NAMED(host), FIELD_TEXT, true, AT(host), ANY },
	{ NAMED(job_id), FIELD_TEXT_OR_NULL, false, AT(job_id), ANY },
	[EVENT_RANK] = { NAMED(rank), FIELD_INT, false, AT(rank), 0, REASON_NEGATIVE_RANK },
	[EVENT_LOCAL_RANK] = { NAMED(local_rank), FIELD_INT, false, AT(local_rank), 0,
			       REASON_NEGATIVE_RANK },
	[EVENT_WORLD_SIZE] = { NAMED(world_size), FIELD_INT, false, AT(world_size), 1,
			       REASON_OUT_OF_RANGE },
	{ NAMED(device_id), FIELD_INT, true, AT(device_id), ANY },
	{ COUNT(allocator_allocated_bytes) },
	{ COUNT(allocator_reserved_bytes) },
	{ COUNT_OR_NULL(allocator_active_bytes) },
	{ COUNT_OR_NULL(allocator_inactive_bytes) },
	{ NAMED(allocator_change_bytes), FIELD_INT, true, AT(allocator_change_bytes), ANY },
	{ COUNT(device_used_bytes) },
	{ COUNT_OR_NULL(device_free_bytes) },
	{ COUNT_OR_NULL(device_total_bytes) },
	{ NAMED(context), FIELD_CONTEXT, true, AT(context), ANY },
	[EVENT_METADATA] = { NAMED(metadata), FIELD_METADATA, true, AT(metadata), ANY },
	[EVENT_SESSION] = { NAMED(session_id), FIELD_TEXT_OR_NULL, false, AT(session_id), ANY },
};

int event_field_find(const char *name, size_t n)
{
	for (int i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].name_len == n && memcmp(event_fields[i].name, name, n) == 0)
			return i;
	return -1;
}

void event_init(struct telemetry_event *ev)
{
	*ev = (struct telemetry_event){
		.pid = -1,
		.world_size = 1,
		.device_id = -1,
		.allocator_active_bytes = EVENT_UNKNOWN,
		.allocator_inactive_bytes = EVENT_UNKNOWN,
		.device_free_bytes = EVENT_UNKNOWN,
		.device_total_bytes = EVENT_UNKNOWN,
		.clock = { .error_ns = EVENT_UNKNOWN },
		.used_ns = { EVENT_UNKNOWN, EVENT_UNKNOWN },
	};
}

void event_fill_defaults(struct telemetry_event *ev, uint32_t seen)
{
	if (!(seen & UINT32_C(1) << EVENT_RANK))
		ev->rank = 0;
	if (!(seen & UINT32_C(1) << EVENT_LOCAL_RANK))
		ev->local_rank = ev->rank;
	if (!(seen & UINT32_C(1) << EVENT_WORLD_SIZE))
		ev->world_size = 1;
}

enum reason event_check(const struct telemetry_event *ev, const char **ret_field)
{
	int64_t total = ev->device_total_bytes;

	for (const struct event_field *f = event_fields; f < event_fields + EVENT_FIELDS; f++) {
		int64_t value;

		if (f->kind != FIELD_INT && f->kind != FIELD_INT_OR_NULL)
			continue;
		value = *event_int((struct telemetry_event *)ev, f);
		if (value >= f->min || (f->kind == FIELD_INT_OR_NULL && value == EVENT_UNKNOWN))
			continue;
		*ret_field = f->name;
		return f->below_min;
	}
	if (total != EVENT_UNKNOWN &&
	    (ev->device_used_bytes > total || ev->device_free_bytes > total)) {
		*ret_field =
			ev->device_used_bytes > total ? "device_used_bytes" : "device_free_bytes";
		return REASON_EXCEEDS_TOTAL;
	}
	if (ev->rank >= ev->world_size || ev->local_rank >= ev->world_size) {
		*ret_field = ev->rank >= ev->world_size ? "rank" : "local_rank";
		return REASON_RANK_NOT_BELOW_WORLD_SIZE;
	}
	return REASON_NONE;
}

/* First and last of what Unicode calls white space. */
static const struct {
	unsigned first, last;
} blanks[] = {
	{ 0x09, 0x0d },	    { 0x1c, 0x20 },	{ 0x85, 0x85 },	    { 0xa0, 0xa0 },
	{ 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f },
	{ 0x205f, 0x205f }, { 0x3000, 0x3000 },
};

static bool is_blank(unsigned c)
{
	for (size_t i = 0; i < ARRAY_SIZE(blanks); i++)
		if (c >= blanks[i].first && c <= blanks[i].last)
			return true;
	return false;
}

bool text_is_blank(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = utf8_char_len(s + i, n - i);

		if (len == 0 || !is_blank(utf8_code_point(s + i, len)))
			return false;
		i += len;
	}
	return true;
}

bool text_begins_with(struct text t, const char *word)
{
	size_t i = 0;

	while (i < t.n && word[i] && ascii_to_lower(t.s[i]) == word[i])
		i++;
	return word[i] == '\0';
}

bool text_contains(struct text t, const char *word)
{
	while (t.n > 0 && !text_begins_with(t, word))
		t = (struct text){ t.s + 1, t.n - 1 };
	return t.n > 0;
}

bool text_is_sample(struct text type)
{
	static const char name[] = "sample";
	const char *s = type.s;
	size_t n = type.n;

	/* The long s (U+017F) is the one letter beyond ASCII that folds to one of these. */
	if (n == sizeof(name) && memcmp(s, "\xc5\xbf", 2) == 0) {
		s++;
		n--;
	} else if (n != sizeof(name) - 1 || ascii_to_lower(s[0]) != name[0]) {
		return false;
	}
	for (size_t i = 1; i < n; i++)
		if (ascii_to_lower(s[i]) != name[i])
			return false;
	return true;
}

/* ---- as JSON ---- */

#define SCHEMA_VERSION 2

void event_write_json(struct json *j, const struct telemetry_event *ev)
{
	json_begin_object(j);
	for (const struct event_field *f = event_fields; f < event_fields + EVENT_FIELDS; f++) {
		const void *at = (const char *)ev + f->offset;
		const struct text *text = at;

		json_key(j, f->name);
		if (f->kind == FIELD_SCHEMA)
			json_i64(j, SCHEMA_VERSION);
		else if (f->kind == FIELD_METADATA)
			json_raw(j, text->s ? text->s : "{}", text->s ? text->n : 2);
		else if (f->kind == FIELD_INT_OR_NULL && *(const int64_t *)at == EVENT_UNKNOWN)
			json_none(j);
		else if (f->kind == FIELD_INT || f->kind == FIELD_INT_OR_NULL)
			json_i64(j, *(const int64_t *)at);
		else if (text->s)
			json_str_n(j, text->s, text->n);
		else
			json_none(j);
	}
	json_end_object(j);
}

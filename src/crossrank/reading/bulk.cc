#define SIMDJSON_EXCEPTIONS 0
#include "crossrank/reading/bulk.h"

#include <string.h>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <simdjson.h>

extern "C" {
#include "crossrank/reading/jtree.h"
#include "crossrank/reading/event_reader.h"
}

namespace ondemand = simdjson::ondemand;

namespace
{
/* A value as it stood in the last record: most stand there again in the next. */
struct seen_text {
	std::string raw; /* with its quotes or braces */
	std::string text;
};

/* Metadata that were checked, and what they say of the clock. */
struct seen_metadata {
	std::string raw;
	struct event_clock clock;
	struct arena scratch; /* of the clock's text */
};

/* Records of several hosts take turns: each has its own. */
constexpr unsigned METADATA_SEEN = 16;

/* Which of these a record's metadata may not have: analysis reads them. */
constexpr std::string_view special_keys[] = { "phase_scope", "collective", "\\u" };

std::string_view trim(std::string_view s)
{
	while (!s.empty() &&
	       (s.back() == ' ' || s.back() == '\t' || s.back() == '\r' || s.back() == '\n'))
		s.remove_suffix(1);
	return s;
}

/* A letter or digit is no blank; what has neither is looked at elsewhere. */
bool is_surely_not_blank(std::string_view s)
{
	for (char c : s)
		if (c > ' ' && c < 0x7f)
			return true;
	return false;
}
} /* namespace */

struct bulk {
	ondemand::parser parser;
	seen_text texts[EVENT_FIELDS];
	seen_metadata metadata[METADATA_SEEN]; /* of the last hosts */
	unsigned last_metadata = 0;
	unsigned char order[EVENT_FIELDS + 1] = {}; /* the field at each place of the last record */
};

namespace
{
bool read_text(seen_text &seen, ondemand::value &value, std::string_view raw, bool may_be_blank,
	       struct text *ret)
{
	std::string_view text;

	if (raw.front() != '"')
		return false;
	if (seen.raw.empty() || raw != seen.raw) {
		if (value.get_string().get(text))
			return false;
		if (!may_be_blank && !is_surely_not_blank(text))
			return false;
		/* If memory runs out in between, nothing matches the raw one. */
		seen.raw.clear();
		seen.text.assign(text);
		seen.raw.assign(raw);
	}
	*ret = { seen.text.data(), seen.text.size() };
	return true;
}

/* Reads what it says of the clock, and so checks it. */
bool keep_metadata(seen_metadata &seen, std::string_view raw)
{
	struct telemetry_event said;

	for (auto key : special_keys)
		if (raw.find(key) != raw.npos)
			return false;
	seen.raw.clear();
	arena_reset(&seen.scratch);
	event_init(&said);
	if (event_set_metadata(&said, raw.data(), raw.size(), &seen.scratch) < 0)
		return false;
	seen.clock = said.clock;
	seen.raw.assign(raw);
	return true;
}

/* From the last one on, as turns go round; the place for a new one is behind it. */
const seen_metadata *find_metadata(struct bulk *bulk, std::string_view raw)
{
	for (unsigned i = 0; i < METADATA_SEEN; i++) {
		unsigned place = (bulk->last_metadata + i) % METADATA_SEEN;

		if (raw == bulk->metadata[place].raw) {
			bulk->last_metadata = place;
			return &bulk->metadata[place];
		}
	}
	bulk->last_metadata = (bulk->last_metadata + 1) % METADATA_SEEN;
	if (!keep_metadata(bulk->metadata[bulk->last_metadata], raw))
		return nullptr;
	return &bulk->metadata[bulk->last_metadata];
}

bool read_metadata(struct bulk *bulk, ondemand::value &value, std::string_view token,
		   struct telemetry_event *ev)
{
	const seen_metadata *seen;
	ondemand::object object;
	std::string_view raw;

	if (token.front() != '{' || value.get_object().get(object) || object.raw_json().get(raw))
		return false;
	seen = find_metadata(bulk, trim(raw));
	if (!seen)
		return false;
	ev->clock = seen->clock;
	return true;
}

bool read_field(struct bulk *bulk, int i, ondemand::value &value, struct telemetry_event *ev)
{
	const struct event_field *f = &event_fields[i];
	std::string_view raw = trim(value.raw_json_token());
	bool is_null = raw == "null";
	int64_t version;

	switch (f->kind) {
	case FIELD_SCHEMA:
		return !value.get_int64().get(version) && version == 2;
	case FIELD_INT:
		return !value.get_int64().get(*event_int(ev, f));
	case FIELD_INT_OR_NULL:
		if (is_null)
			return true;
		return !value.get_int64().get(*event_int(ev, f)) && *event_int(ev, f) >= 0;
	case FIELD_METADATA:
		return read_metadata(bulk, value, raw, ev);
	default:
		if (is_null)
			return f->kind != FIELD_TEXT;
		return read_text(bulk->texts[i], value, raw, f->kind == FIELD_CONTEXT,
				 event_text(ev, f));
	}
}

/* A field's name and the quote behind it, eight bytes at a time. */
struct key_words {
	uint64_t words[4] = {}, masks[4] = {};
};

struct key_table {
	key_words keys[EVENT_FIELDS];

	key_table()
	{
		for (int i = 0; i < EVENT_FIELDS; i++) {
			char name[32] = {}, mask[32] = {};
			size_t n = event_fields[i].name_len;

			memcpy(name, event_fields[i].name, n);
			name[n] = '"';
			memset(mask, 0xff, n + 1);
			memcpy(keys[i].words, name, sizeof(name));
			memcpy(keys[i].masks, mask, sizeof(mask));
		}
	}
};

/* Looks at 32 bytes: a key lies inside the text, and behind that is the padding. */
bool is_key(const key_words &key, const char *name)
{
	uint64_t at[4];

	memcpy(at, name, sizeof(at));
	return (((at[0] ^ key.words[0]) & key.masks[0]) | ((at[1] ^ key.words[1]) & key.masks[1]) |
		((at[2] ^ key.words[2]) & key.masks[2]) |
		((at[3] ^ key.words[3]) & key.masks[3])) == 0;
}

/* The field of that name, first tried where the last record had it. */
int find_field(struct bulk *bulk, size_t place, const char *name)
{
	static const key_table table;

	if (is_key(table.keys[bulk->order[place]], name))
		return bulk->order[place];
	for (int i = 0; i < EVENT_FIELDS; i++)
		if (is_key(table.keys[i], name)) {
			bulk->order[place] = static_cast<unsigned char>(i);
			return i;
		}
	return -1;
}

uint32_t required_fields()
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required)
			bits |= UINT32_C(1) << i;
	return bits;
}

bool read_fields(struct bulk *bulk, ondemand::object &object, struct telemetry_event *ev,
		 uint32_t *seen)
{
	size_t place = 0;

	for (auto found : object) {
		ondemand::field field;
		int i;

		if (place >= EVENT_FIELDS || std::move(found).get(field))
			return false;
		i = find_field(bulk, place++, field.key().raw());
		if (i < 0 || *seen & UINT32_C(1) << i || !read_field(bulk, i, field.value(), ev))
			return false;
		*seen |= UINT32_C(1) << i;
	}
	return true;
}
} /* namespace */

struct bulk *bulk_new(void)
{
	return new (std::nothrow) struct bulk();
}

struct bulk *bulk_free(struct bulk *bulk)
{
	if (bulk)
		for (auto &seen : bulk->metadata)
			arena_release(&seen.scratch);
	delete bulk;
	return nullptr;
}

namespace
{
bool read_record(struct bulk *bulk, const char *text, size_t n, struct telemetry_event *ret)
{
	static const uint32_t required = required_fields();
	ondemand::document document;
	ondemand::object object;
	uint32_t seen = 0;

	event_init(ret);
	if (bulk->parser.iterate(text, n, n + simdjson::SIMDJSON_PADDING).get(document) ||
	    document.get_object().get(object) || !read_fields(bulk, object, ret, &seen))
		return false;
	/* Nothing may follow; then there is no place to be at. */
	if ((seen & required) != required ||
	    document.current_location().error() == simdjson::SUCCESS)
		return false;
	event_fill_defaults(ret, seen);
	return text_is_sample(ret->event_type) && event_check(ret) == REASON_NONE;
}

} /* namespace */

bool bulk_read(struct bulk *bulk, const char *text, size_t n, struct telemetry_event *ret)
{
	try {
		return read_record(bulk, text, n, ret);
	} catch (const std::bad_alloc &) {
		return false;
	}
}

bool bulk_is_utf8(const char *text, size_t n)
{
	return simdjson::validate_utf8(text, n);
}

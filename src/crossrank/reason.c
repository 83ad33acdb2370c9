#include "crossrank/reason.h"

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

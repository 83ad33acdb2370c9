/*
 * reason - why a telemetry record was refused.
 */
#ifndef PROCTOR_CROSSRANK_REASON_H
#define PROCTOR_CROSSRANK_REASON_H

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif

/*
 * reference - the summary of the reference implementation, field by field.
 *
 * It aligns ranks by their first samples and has suspects with a confidence in words. Where it and
 * the finding (finding.h) differ, the finding is what may be believed.
 */
#pragma once

#include "base/json.h"
#include "crossrank/merging/merging.h"

/* In the order in which they are printed. */
enum note_code {
	NOTE_NO_EVENTS,
	NOTE_IGNORED_NON_SAMPLE_EVENTS,
	NOTE_NO_SAMPLE_EVENTS,
	NOTE_MULTIPLE_JOB_IDS,
	NOTE_MISSING_RANKS,
	NOTE_SKEWED_START,
	NOTE_SINGLE_RANK,
	NOTE_INSUFFICIENT_SAMPLES,
	NOTE_NO_SPIKES,
	NOTE_ONLY_ONE_SPIKE,
	N_NOTES,
};

struct note {
	enum note_code code;
	const struct rank *rank; /* of NOTE_SKEWED_START */
};

/* Suspects and the notes. -ENOMEM. */
int reference_find_suspects(struct rank_analysis *a);

/* The sentence of a note. */
void reference_note_text(const struct rank_analysis *a, const struct note *note, struct buf *out);

/* The members of an object that the caller begins and ends. */
void summary_write_compat(struct json *j, const struct rank_analysis *a);

/* A whole number of any size. */
void summary_add_i128(struct buf *out, __int128 v);

/* A key and its value, or null: a text that is not there, a number that is not known. */
void summary_write_text(struct json *j, const char *key, struct text text);
void summary_write_known(struct json *j, const char *key, bool is_known, int64_t v);

/* null, or an object with phase_resolution, phase_paths, … */
void summary_write_phase(struct json *j, const char *key, const struct phase_place *place);

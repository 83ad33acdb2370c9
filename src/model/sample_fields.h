/*
 * sample_fields - the rows of sample_fields.def: how many there are, and as members of JSON.
 */
#pragma once

#include <stddef.h>

#include "model/members.h"

/* How many of them are recorded, and how many of those a minute has an average of. */
enum sample_counts {
#define SAMPLE_RECORDED(kind_, member_, ...) RECORDED_##member_,
#include "model/sample_fields.def"
	SAMPLE_N_RECORDED,
};
enum gauge_counts {
#define SAMPLE_GAUGE(kind_, member_, ...) AVERAGED_##member_,
#include "model/sample_fields.def"
	SAMPLE_N_GAUGES,
};

extern const struct member sample_fields[];
extern const size_t n_sample_fields;

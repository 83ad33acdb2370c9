/*
 * figures - every number of an attempt or a sheet, with its evidence.
 *
 * One row of figures.def per number has its name in the JSON and in words, its
 * unit, and how it was measured. The JSON, the export, the page and the list of unknowns are
 * all written from these rows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"
#include "model/sample_fields.h"

/* How much too early a start time can be: a clock tick, and a little for making it a time of day.
 */
#define START_SLACK_NS UINT64_C(20000000)

enum figure {
#define FIGURE(id_, ...) FIGURE_##id_,
#include "report/figures.def"
	FIGURE_COUNT,
};

/* Kinds of values in a row, beside those of enum field_kind. FIELD_FLAG is none of these: a flag
 * here is a bool. */
enum row_kind {
	FIELD_INTERVAL = FIELD_KINDS, /* double; 0 was never asked for */
	FIELD_BYTES,		      /* uint64_t; on the page in their units, elsewhere a number */
	FIELD_BOOL,
	FIELD_HEX, /* a number that is a name */
	FIELD_OUTCOME,
	FIELD_EVIDENCE,
	FIELD_CAUSE, /* enum cause_kind */
	FIELD_EVENT_TYPE,
	FIELD_STATUS,  /* of the whole attempt */
	FIELD_ZOMBIES, /* of the whole snapshot */
	FIELD_LIST,    /* JSON, by write; in CSV one cell, and null is unknown */
};

struct figures {
	struct usage usage;
	struct containment contained; /* of the attempt; unknown for sheets */
	uint64_t cpu_ns;	      /* user and system */
	double average_cpu_percent;   /* CPU time over wall time, 100 = one core */
	uint64_t memory_bytes;	      /* at the peak, shared pages once */
	enum evidence memory_evidence;
	uint64_t unique_pids; /* of the attempt; unknown for sheets */
	enum evidence unique_pids_evidence;
	enum evidence evidence[FIGURE_COUNT];
};

/*
 * What the attempt used. Totals are written at the end. While it runs, and for ever when its
 * runner was lost, they are replaced by what the recorded samples, processes, events and ended
 * sheets show: lower bounds, or sampled, as the evidence states.
 */
void figures_of_attempt(const struct attempt *a, struct figures *ret);

/* The same for one try of a sheet. */
void figures_of_sheet(const struct attempt *a, const struct sheet_record *sheet,
		      struct figures *ret);

/* When the attempt was last seen: end, sample, event; at least its start. */
uint64_t figures_last_seen(const struct attempt *a);

/*
 * How far apart the samples of an attempt are. The first ones come quickly, then the gaps grow to
 * the interval, and a busy machine misses some: the configured interval would only be a claim.
 */
struct sample_gaps {
	uint64_t min_ns, max_ns; /* unknown with fewer than two samples */
};

/* of_cpu: only of samples with a CPU use, which takes two readings. */
struct sample_gaps sample_gaps_of(const struct attempt *a, bool of_cpu);

/* "20 ms to 700 ms apart", "1.00 s apart"; nothing when unknown. */
void sample_gaps_add(struct buf *out, const struct sample_gaps *gaps);

/*
 * The longest time without a sample, where that is longer than a busy machine explains: the
 * recorder was killed with samples that it had not stored yet, or stood still. False: there is
 * none.
 */
struct missing_samples {
	uint64_t from_wall_ns, until_wall_ns;
	size_t n; /* gaps that are too long; this is the longest */
};
bool sample_gaps_find_missing(const struct attempt *a, struct missing_samples *ret);

/* Whether it held memory of one. */
bool figures_used_gpu(const struct figures *f);

/* Of a GPU, a cgroup or a limit: most jobs have none, and it is not missed there. */
bool figure_is_optional(enum figure id);

bool figure_is_known(const struct figures *f, enum figure id);
const char *figure_key(enum figure id); /* "peak_rss_mb" */
/* "peak memory of the tree"; "I/O calls" for four of them. */
const char *figure_label(enum figure id);

/* As the page has it: "1.5 GB", "3.21 s", "35 %", "17"; "-" for an unknown one. */
void figure_add_value(struct buf *out, const struct figures *f, enum figure id);

/* "exact, wait4 of …"; "sampled, 20 ms to 700 ms apart"; "-" for an unknown one. */
void figure_add_source(struct buf *out, const struct figures *f, enum figure id,
		       const struct attempt *a);

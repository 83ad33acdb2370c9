/*
 * compat_input - documents of the reference implementation: what it judged, and profiles of jobs.
 *
 * A key that is absent (or null) has its default or is unknown, and one that is not known is
 * passed over. A value of another type is refused, with where it stands. "-" is standard input.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "detect/detect.h"
#include "learn/learn.h"
#include "model/run_record.h"

/* ---- {config, history, current}, for compat_detect() ---- */

struct detect_input {
	struct config_anomaly config;
	struct compat_snapshot *history; /* as the file has them */
	size_t n_history;
	struct compat_snapshot current;
	struct arena arena; /* owns all of it */
};

void detect_input_release(struct detect_input *in);

/* ret is overwritten. name is for messages. -EINVAL, -EBADMSG: not such a document. */
int detect_input_parse(const char *text, size_t len, const char *name, struct detect_input *ret,
		       struct err *err);
int detect_input_load(const char *path, struct detect_input *ret, struct err *err);

/*
 * ---- {"profiles": [...]}, as runs to learn from ----
 *
 * The keys are those of the reference implementation (job_id, peak_rss_mb, total_cpu_seconds,
 * process_spawn_count, syscall_hotspots, outcome) and those of run_record beside them.
 */

struct profiles {
	struct run_list runs;
	/* The same, as the rules of compat have them: n of runs, whose arena has their texts. */
	struct compat_profile *compat;
	struct buf ignored; /* "'peak_rss' (did you mean 'peak_rss_mb'?), 'x'"; "": none is */
};

#define PROFILES_INIT                                                 \
	{                                                             \
		.runs = { .arena = ARENA_INIT }, .ignored = BUF_INIT, \
	}

/* -EINVAL: err names the file, and what is wrong with which profile. */
int profiles_parse(const char *text, size_t len, const char *name, struct profiles *ret,
		   struct err *err);
int profiles_load(const char *path, struct profiles *ret, struct err *err);
void profiles_release(struct profiles *p);

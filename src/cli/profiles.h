/*
 * profiles - job profiles from a file, {"profiles": [...]}, as runs to learn from.
 *
 * The keys are those of the reference implementation (job_id, peak_rss_mb,
 * total_cpu_seconds, process_spawn_count, syscall_hotspots, outcome) and those of
 * run_record beside them. A key that is not there is unknown.
 */
#ifndef PROCTOR_CLI_PROFILES_H
#define PROCTOR_CLI_PROFILES_H

#include "base/err.h"
#include "learn/learn.h"
#include "model/run_record.h"

struct profiles {
	struct run_list runs;
	/* The same, as the rules of compat have them: n of runs. */
	struct compat_profile *compat;
	struct arena arena; /* owns what compat points at */
};

/* -EINVAL: err names the file, and what is wrong with which profile. */
int profiles_parse(const char *text, size_t len, const char *name, struct profiles *ret,
		   struct err *err);
int profiles_load(const char *path, struct profiles *ret, struct err *err); /* "-" is stdin */
void profiles_release(struct profiles *p);

#endif

#include "model/profile.h"

#include <math.h>
#include <stdio.h>

#include "base/unknown.h"

static void key_f64(struct json *j, const char *key, double v, enum profile_rules rules)
{
	json_key_f64(j, key, rules == PROFILE_COMPAT && !isfinite(v) ? 0.0 : v);
}

static void key_u64(struct json *j, const char *key, uint64_t v, enum profile_rules rules)
{
	json_key_u64(j, key, rules == PROFILE_COMPAT && !u64_known(v) ? 0 : v);
}

/* Opens the object of what was looked for; else null, since an empty one would be a claim. */
static bool begin_list(struct json *j, const char *key, enum evidence evidence,
		       enum profile_rules rules)
{
	json_key(j, key);
	if (evidence == EVIDENCE_UNKNOWN && rules == PROFILE_PROCTOR) {
		json_none(j);
		return false;
	}
	json_begin_object(j);
	return true;
}

static void write_hotspots(struct json *j, const struct job_profile *p, enum profile_rules rules)
{
	if (!begin_list(j, "syscall_hotspots", p->hotspot_evidence, rules))
		return;
	for (size_t i = 0; i < p->n_hotspots; i++)
		key_f64(j, p->hotspots[i].name, p->hotspots[i].pct, rules);
	json_end_object(j);
}

static void key_evidence(struct json *j, const char *key, enum evidence evidence)
{
	json_key_string(j, key, evidence_name(evidence));
}

static void write_sheet_evidence(struct json *j, const struct sheet_profile *sheet)
{
	json_key(j, "evidence");
	json_begin_object(j);
	key_evidence(j, "peak_rss_mb", sheet->peak_rss_evidence);
	key_evidence(j, "max_cpu_pct",
		     f64_known(sheet->max_cpu_pct) ? EVIDENCE_SAMPLED : EVIDENCE_UNKNOWN);
	json_end_object(j);
}

static void write_sheets(struct json *j, const struct job_profile *p, enum profile_rules rules)
{
	if (!begin_list(j, "sheet_metrics", p->sheet_evidence, rules))
		return;
	for (size_t i = 0; i < p->n_sheets; i++) {
		const struct sheet_profile *sheet = &p->sheets[i];
		char key[16];

		snprintf(key, sizeof(key), "%d", sheet->num);
		json_key(j, key);
		json_begin_object(j);
		key_f64(j, "peak_rss_mb", sheet->peak_rss_mb, rules);
		key_f64(j, "max_cpu_pct", sheet->max_cpu_pct, rules);
		if (rules == PROFILE_PROCTOR)
			write_sheet_evidence(j, sheet);
		json_end_object(j);
	}
	json_end_object(j);
}

static void write_evidence(struct json *j, const struct job_profile *p)
{
	json_key(j, "evidence");
	json_begin_object(j);
	key_evidence(j, "peak_rss_mb", p->peak_rss_evidence);
	key_evidence(j, "total_cpu_seconds", p->cpu_evidence);
	key_evidence(j, "process_spawn_count", p->spawn_evidence);
	key_evidence(j, "syscall_hotspots", p->hotspot_evidence);
	key_evidence(j, "sheet_metrics", p->sheet_evidence);
	key_evidence(j, "unique_pid_count", p->unique_pid_evidence);
	key_evidence(j, "unique_process_count", p->unique_process_evidence);
	json_end_object(j);
}

void profile_write_json(struct json *j, const struct job_profile *p, enum profile_rules rules)
{
	json_begin_object(j);
	json_key_string(j, "job_id", p->job_id);
	key_f64(j, "peak_rss_mb", p->peak_rss_mb, rules);
	key_f64(j, "total_cpu_seconds", p->total_cpu_seconds, rules);
	key_u64(j, "process_spawn_count", p->process_spawn_count, rules);
	write_hotspots(j, p, rules);
	write_sheets(j, p, rules);
	key_u64(j, "unique_pid_count", p->unique_pid_count, rules);
	if (rules == PROFILE_PROCTOR) {
		key_u64(j, "unique_process_count", p->unique_process_count, rules);
		write_evidence(j, p);
	}
	json_end_object(j);
}

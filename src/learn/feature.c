#include "learn/feature.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature_table.h"

/* ---- numbers ---- */

static double value_at(const struct run_record *run, size_t offset)
{
	return *(const double *)(const void *)((const char *)run + offset);
}

static double cpu_share(const struct run_record *run)
{
	return run->wall_seconds > 0 ? 100 * run->cpu_seconds / run->wall_seconds : F64_UNKNOWN;
}

#define NONE OUTCOME_NONE /* that it would tell */
const struct feature_number feature_numbers[FEATURE_NUMBERS] = {
	{ "peak_rss_mb", "whose peak memory was", UNIT_MB, true,
	  offsetof(struct run_record, peak_rss_mb), NULL, OUTCOME_OOM },
	{ "cpu_seconds", "whose CPU time was", UNIT_SECONDS, true,
	  offsetof(struct run_record, cpu_seconds), NULL, OUTCOME_TIMEOUT },
	{ "cpu_share_pct", "whose CPU share was", UNIT_PERCENT, false, 0, cpu_share, NONE },
	{ "wall_seconds", "that took", UNIT_SECONDS, true,
	  offsetof(struct run_record, wall_seconds), NULL, OUTCOME_TIMEOUT },
	{ "spawn_count", "whose number of processes was", UNIT_COUNT, true,
	  offsetof(struct run_record, spawn_count), NULL, NONE },
	{ "max_threads", "whose number of threads was", UNIT_COUNT, true,
	  offsetof(struct run_record, max_threads), NULL, NONE },
	{ "max_fds", "whose number of open files was", UNIT_COUNT, true,
	  offsetof(struct run_record, max_fds), NULL, NONE },
	{ "io_mb", "that read and wrote", UNIT_MB, true, offsetof(struct run_record, io_mb), NULL,
	  NONE },
	{ "major_faults", "whose number of major faults was", UNIT_COUNT, true,
	  offsetof(struct run_record, major_faults), NULL, NONE },
	{ "memory_stall_pct", "while which the share of time stalled for memory was", UNIT_PERCENT,
	  false, offsetof(struct run_record, memory_stall_pct), NULL, NONE },
	{ "io_stall_pct", "while which the share of time stalled for I/O was", UNIT_PERCENT, false,
	  offsetof(struct run_record, io_stall_pct), NULL, NONE },
	{ "cpu_stall_pct", "while which the share of time stalled for CPU was", UNIT_PERCENT, false,
	  offsetof(struct run_record, cpu_stall_pct), NULL, NONE },
	{ "gpu_memory_mb", "whose GPU memory was", UNIT_MB, true,
	  offsetof(struct run_record, gpu_memory_mb), NULL, NONE },
	{ "gpu_utilization_pct", "whose GPU utilisation was", UNIT_PERCENT, false,
	  offsetof(struct run_record, gpu_utilization_pct), NULL, NONE },
};
#undef NONE

const struct feature_early feature_earlies[FEATURE_EARLIES] = {
	{ "early_rss_mb", "whose memory reached", UNIT_MB,
	  offsetof(struct run_record, early_rss_mb) },
	{ "rss_slope_mb_s", "whose memory grew", UNIT_MB_PER_SECOND,
	  offsetof(struct run_record, rss_slope_mb_s) },
};

const char *const feature_horizons[RUN_HORIZONS] = {
	"in the first 5 s",
	"in the first 15 s",
	"in the first minute",
	"in the first 5 minutes",
};

double feature_number_value(const struct feature_number *number, const struct run_record *run)
{
	return number->compute ? number->compute(run) : value_at(run, number->offset);
}

bool feature_number_tells_outcome(const struct feature_number *number, const struct run_record *run)
{
	return number->outcome != OUTCOME_NONE && run_measured_outcome(run) == number->outcome;
}

double feature_early_value(const struct feature_early *early, size_t horizon,
			   const struct run_record *run)
{
	return value_at(run, early->offset + horizon * sizeof(double));
}

/* ---- shares, anomalies, hosts ---- */

/* The share of a call in the run's time in calls; NaN: nobody looked. */
static double share_of(const struct run_record *run, const char *name)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_share *shares;
	double total = 0, own = 0;
	size_t n;

	if (!run->syscalls || run_read_shares(run->syscalls, &arena, &shares, &n) < 0)
		return F64_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		total += shares[i].pct;
		if (strcmp(shares[i].name, name) == 0)
			own = shares[i].pct;
	}
	return total > 0 ? 100 * own / total : F64_UNKNOWN;
}

static double has_anomaly(const struct run_record *run, const char *type)
{
	return run->anomalies ? run_has_anomaly(run->anomalies, type) : F64_UNKNOWN;
}

static double is_on_host(const struct run_record *run, const char *host)
{
	return run->host ? strcmp(run->host, host) == 0 : F64_UNKNOWN;
}

const struct feature_named feature_nameds[FEATURE_NAMEDS] = {
	{ "syscall:", "whose share of time in calls that went to", UNIT_PERCENT, false, share_of,
	  FEATURE_MAX_NAMES },
	{ "anomaly:", "with the anomaly", UNIT_NONE, true, has_anomaly, FEATURE_MAX_NAMES },
	{ "host:", "on the host", UNIT_NONE, false, is_on_host, 8 },
};

/* Of a key like "rss_slope_mb_s@60". */
static double value_by_early_key(const char *key, const char *at, const struct run_record *run)
{
	double seconds = strtod(at + 1, NULL);

	for (size_t i = 0; i < FEATURE_EARLIES; i++) {
		const struct feature_early *early = &feature_earlies[i];

		if (strncmp(key, early->key, (size_t)(at - key)) != 0 || early->key[at - key])
			continue;
		for (size_t h = 0; h < RUN_HORIZONS; h++)
			if (run_horizons[h] == seconds)
				return feature_early_value(early, h, run);
	}
	return F64_UNKNOWN;
}

double feature_value(const char *key, const struct run_record *run)
{
	const char *at = strchr(key, '@');

	for (size_t i = 0; i < FEATURE_NUMBERS; i++)
		if (strcmp(key, feature_numbers[i].key) == 0)
			return feature_number_value(&feature_numbers[i], run);
	for (size_t i = 0; i < FEATURE_NAMEDS; i++)
		if (strncmp(key, feature_nameds[i].prefix, strlen(feature_nameds[i].prefix)) == 0)
			return feature_nameds[i].value(run, key + strlen(feature_nameds[i].prefix));
	return at ? value_by_early_key(key, at, run) : F64_UNKNOWN;
}

bool feature_tells_outcome(const char *key, const struct run_record *run)
{
	for (size_t i = 0; i < FEATURE_NUMBERS; i++)
		if (strcmp(key, feature_numbers[i].key) == 0)
			return feature_number_tells_outcome(&feature_numbers[i], run);
	return strcmp(key, FEATURE_OOM_KILL) == 0;
}

/* ---- words ---- */

static const char *const unit_words[] = {
	[UNIT_MB] = " MB",     [UNIT_MB_PER_SECOND] = " MB/s",
	[UNIT_SECONDS] = " s", [UNIT_PERCENT] = " %",
	[UNIT_COUNT] = "",     [UNIT_NONE] = "",
};

/* As many digits as one reads: 0.043, 4.3, 43, 4321. */
void feature_add_value(struct buf *out, enum feature_unit unit, double value)
{
	double size = fabs(value);
	int digits = size >= 100 || size == floor(size) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;

	if (size > 0 && size < 0.01)
		buf_printf(out, "%.2g%s", value, unit_words[unit]);
	else
		buf_printf(out, "%.*f%s", digits, value, unit_words[unit]);
}

static void add_name(struct buf *out, const char *key)
{
	const char *colon = strchr(key, ':');

	if (colon)
		buf_printf(out, " %s", colon + 1);
}

void feature_add_phrase(struct buf *out, const struct feature *f, bool is_above, double threshold)
{
	if (f->unit == UNIT_NONE && !is_above)
		buf_add_str(out, "not ");
	buf_add_str(out, f->what);
	add_name(out, f->key);
	if (f->unit == UNIT_NONE)
		return;
	if (strchr(f->key, ':'))
		buf_add_str(out, " was");
	if (f->unit == UNIT_MB_PER_SECOND)
		buf_add_str(out, is_above ? " faster than " : " no faster than ");
	else
		buf_add_str(out, is_above ? " more than " : " at most ");
	feature_add_value(out, f->unit, threshold);
	if (f->when[0])
		buf_printf(out, " %s", f->when);
}

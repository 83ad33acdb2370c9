#include "model/words.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

enum word_kind {
	WORD_U64,
	WORD_INT,   /* int or pid_t, by its sign-extended bits: -1 is unknown */
	WORD_COUNT, /* unsigned; 0 is unknown */
	WORD_STATE, /* one char; '?' is unknown */
	WORD_F64,   /* see f64_to_word() */
};

struct word_field {
	enum word_kind kind;
	double scale; /* of WORD_F64: 100 where the kernel prints two decimals */
	size_t offset;
};

#define FIELD(struct_, field_, kind_)                      \
	{                                                  \
		kind_, 0, offsetof(struct struct_, field_) \
	}
#define FIELD_F64(struct_, field_, scale_)                         \
	{                                                          \
		WORD_F64, scale_, offsetof(struct struct_, field_) \
	}

/* How a field of a sample becomes a word, by its kind; numbers with a point are percentages. */
#define WORD_OF_PID WORD_INT, 0
#define WORD_OF_CHAR WORD_STATE, 0
#define WORD_OF_U64 WORD_U64, 0
#define WORD_OF_LIMIT WORD_U64, 0
#define WORD_OF_SECONDS WORD_U64, 0
#define WORD_OF_MB WORD_U64, 0
#define WORD_OF_F64 WORD_F64, PERCENT_SCALE

static const struct word_field sample_words[SAMPLE_WORDS] = {
	[SAMPLE_START] = FIELD_F64(proc_sample, age_seconds, 1e9),
#define SAMPLE_RECORDED(kind_, member_, ...) \
	[SAMPLE_##member_] = { WORD_OF_##kind_, offsetof(struct proc_sample, member_) },
#include "model/sample_fields.def"
};

#define PSI_FIELDS(struct_, field_)                                                   \
	FIELD_F64(struct_, field_.avg10, 100), FIELD_F64(struct_, field_.avg60, 100), \
		FIELD_F64(struct_, field_.avg300, 100), FIELD(struct_, field_.total_us, WORD_U64)

#define HOST_WORD_OF_MB(scale_) WORD_U64, 0
#define HOST_WORD_OF_SECONDS(scale_) WORD_U64, 0
#define HOST_WORD_OF_U64(scale_) WORD_U64, 0
#define HOST_WORD_OF_POSITIVE(scale_) WORD_COUNT, 0
#define HOST_WORD_OF_F64(scale_) WORD_F64, scale_

static const struct word_field host_fields[HOST_WORDS] = {
	[HOST_WALL_NS] = FIELD(snapshot, wall_ns, WORD_U64),
	[HOST_BOOT_NS] = FIELD(snapshot, boot_ns, WORD_U64),
	FIELD(snapshot, daemon_pid, WORD_INT),
	FIELD(snapshot, daemon_rss_bytes, WORD_U64),
	FIELD_F64(snapshot, daemon_uptime_seconds, 1e9),
	FIELD(snapshot, running_jobs, WORD_INT),
	FIELD(snapshot, active_sheets, WORD_INT),
/* From HOST_SYSTEM on. */
#define HOST_FIELD(kind_, member_, key_, scale_, exact_, help_) \
	{ HOST_WORD_OF_##kind_(scale_), offsetof(struct snapshot, system.member_) },
#define HOST_PSI(member_, key_, help_) \
	PSI_FIELDS(snapshot, system.member_.some), PSI_FIELDS(snapshot, system.member_.full),
#include "model/host_fields.def"
};

static const struct word_field point_fields[POINT_WORDS] = {
	[POINT_WALL_NS] = FIELD(series_point, wall_ns, WORD_U64),
	[POINT_SHEET] = FIELD(series_point, sheet_num, WORD_INT),
	[POINT_RSS_BYTES] = FIELD(series_point, rss_bytes, WORD_U64),
	[POINT_CPU_PERCENT] = FIELD_F64(series_point, cpu_percent, 100),
	[POINT_PROCESSES] = FIELD(series_point, n_processes, WORD_U64),
};

static const struct word_field gpu_fields[GPU_WORDS] = {
	[GPU_INDEX] = FIELD(gpu_sample, index, WORD_INT),
	[GPU_UTILIZATION] = FIELD_F64(gpu_sample, utilization_pct, PERCENT_SCALE),
	[GPU_MEMORY_USED] = FIELD_F64(gpu_sample, memory_used_mb, MB_SCALE),
	FIELD_F64(gpu_sample, memory_total_mb, MB_SCALE),
	[GPU_TEMPERATURE] = FIELD_F64(gpu_sample, temperature_c, 100),
	[GPU_POWER] = FIELD_F64(gpu_sample, power_watts, POWER_SCALE),
	FIELD_F64(gpu_sample, energy_joules, 1000),
	[GPU_CLOCK] = FIELD_F64(gpu_sample, sm_clock_mhz, 1),
	FIELD(gpu_sample, throttle, WORD_U64),
	FIELD(gpu_sample, ecc_errors, WORD_U64),
	FIELD(gpu_sample, last_xid, WORD_U64),
};

#define PROGRESS_NUMBERS PROGRESS_JOB /* words that are no strings */

static const struct word_field progress_fields[PROGRESS_NUMBERS] = {
	[PROGRESS_TOTAL] = FIELD(job_progress, total_sheets, WORD_INT),
	[PROGRESS_COMPLETED] = FIELD(job_progress, last_completed_sheet, WORD_INT),
	[PROGRESS_CURRENT] = FIELD(job_progress, current_sheet, WORD_INT),
};

static const struct word_field cgroup_fields[CGROUP_WORDS - CGROUP_NUMBERS] = {
	FIELD(cgroup_sample, memory_current_bytes, WORD_U64),
	FIELD(cgroup_sample, memory_high_bytes, WORD_U64),
	FIELD(cgroup_sample, memory_max_bytes, WORD_U64),
	PSI_FIELDS(cgroup_sample, psi_memory.some),
	PSI_FIELDS(cgroup_sample, psi_memory.full),
	FIELD(cgroup_sample, oom_kills, WORD_U64),
};

/* ---- numbers with a point ---- */

/* Below it a word is a number of 1/scale, from it on the bits of the double. */
#define BITS_MIN (UINT64_C(1) << 60)
#define SCALED_MAX 9007199254740992.0 /* 2^53 */

static double scaled(uint64_t n, double scale)
{
	return (double)n / scale;
}

/*
 * Most numbers here are a whole number of 1/scale, which takes few bytes; the
 * others are kept by their bits. Bits below BITS_MIN are those of numbers below
 * 2^-767, which nothing measures: they come back as 0.
 */
static uint64_t f64_to_word(double v, double scale)
{
	uint64_t bits, n;

	if (isnan(v))
		return U64_UNKNOWN;
	memcpy(&bits, &v, sizeof(bits));
	if (v * scale < SCALED_MAX && bits >> 63 == 0) {
		n = (uint64_t)(v * scale + 0.5);
		if (scaled(n, scale) == v)
			return n;
	}
	return bits < BITS_MIN ? 0 : bits;
}

static double f64_from_word(uint64_t word, double scale)
{
	double v;

	if (word == U64_UNKNOWN)
		return F64_UNKNOWN;
	if (word < BITS_MIN)
		return scaled(word, scale);
	memcpy(&v, &word, sizeof(v));
	return v;
}

/* ---- structs ---- */

static __always_inline uint64_t field_to_word(const struct word_field *f, const void *field)
{
	switch (f->kind) {
	case WORD_U64:
		return *(const uint64_t *)field;
	case WORD_INT:
		return (uint64_t)(int64_t) * (const int *)field;
	case WORD_COUNT:
		return *(const unsigned *)field ? *(const unsigned *)field : U64_UNKNOWN;
	case WORD_STATE:
		return *(const char *)field == '?' || *(const char *)field == '\0'
			       ? U64_UNKNOWN
			       : *(const unsigned char *)field;
	case WORD_F64:
		return f64_to_word(*(const double *)field, f->scale);
	}
	return U64_UNKNOWN;
}

static int field_from_word(const struct word_field *f, uint64_t word, void *field)
{
	bool is_known = u64_known(word);

	switch (f->kind) {
	case WORD_U64:
		*(uint64_t *)field = word;
		return 0;
	case WORD_INT:
		*(int *)field = (int)(int64_t)word;
		return (int64_t)word < INT_MIN || (int64_t)word > INT_MAX ? -EBADMSG : 0;
	case WORD_COUNT:
		*(unsigned *)field = is_known ? (unsigned)word : 0;
		return is_known && word > UINT_MAX ? -EBADMSG : 0;
	case WORD_STATE:
		*(char *)field = is_known ? (char)word : '?';
		return is_known && (word == 0 || word > UCHAR_MAX) ? -EBADMSG : 0;
	case WORD_F64:
		*(double *)field = f64_from_word(word, f->scale);
		return 0;
	}
	return -EBADMSG;
}

/* Of a table that the compiler knows nothing is left but to fetch and to put, field by field. */
static __always_inline void to_words(const struct word_field *fields, size_t n, const void *from,
				     uint64_t *ret)
{
#pragma GCC unroll 64
	for (size_t i = 0; i < n; i++)
		ret[i] = field_to_word(&fields[i], (const char *)from + fields[i].offset);
}

static int from_words(const struct word_field *fields, size_t n, const uint64_t *words, void *ret)
{
	for (size_t i = 0; i < n; i++) {
		int r = field_from_word(&fields[i], words[i], (char *)ret + fields[i].offset);

		if (r < 0)
			return r;
	}
	return 0;
}

static void set_unknown(const struct word_field *fields, size_t n, void *ret)
{
	for (size_t i = 0; i < n; i++)
		(void)field_from_word(&fields[i], U64_UNKNOWN, (char *)ret + fields[i].offset);
}

/*
 * From the age to the start, and back. Unknown stays it; a process that began
 * 1 ns before the clock would become it, and none does.
 */
static uint64_t turn_age(uint64_t word, uint64_t boot_ns)
{
	if (!u64_known(word))
		return word;
	return (u64_known(boot_ns) ? boot_ns : 0) - word;
}

void sample_to_words(const struct proc_sample *p, uint64_t boot_ns, uint64_t *ret)
{
	to_words(sample_words, SAMPLE_WORDS, p, ret);
	ret[SAMPLE_START] = turn_age(ret[SAMPLE_START], boot_ns);
}

int sample_from_words(const uint64_t *words, uint64_t boot_ns, struct proc_sample *ret)
{
	const struct word_field *age = &sample_words[SAMPLE_START];

	ret->age_seconds = f64_from_word(turn_age(words[SAMPLE_START], boot_ns), age->scale);
	return from_words(sample_words + 1, SAMPLE_WORDS - 1, words + 1, ret);
}

unsigned sample_words_up_to(size_t offset)
{
	for (unsigned word = 0; word < SAMPLE_WORDS; word++)
		if (sample_words[word].offset == offset)
			return word + 1;
	return 0;
}

uint64_t word_to_scaled(uint64_t word, double scale)
{
	double v;

	if (word < BITS_MIN || !u64_known(word))
		return word;
	v = f64_from_word(word, scale) * scale;
	return v >= 0 && v < SCALED_MAX ? (uint64_t)(v + 0.5) : U64_UNKNOWN;
}

void host_to_words(const struct snapshot *s, uint64_t *ret)
{
	to_words(host_fields, HOST_WORDS, s, ret);
}

int host_from_words(const uint64_t *words, struct snapshot *ret)
{
	return from_words(host_fields, HOST_WORDS, words, ret);
}

void system_clear(struct snapshot *s)
{
	set_unknown(host_fields + HOST_SYSTEM, HOST_WORDS - HOST_SYSTEM, s);
}

void point_to_words(const struct series_point *point, uint64_t *ret)
{
	to_words(point_fields, POINT_WORDS, point, ret);
}

int point_from_words(const uint64_t *words, struct series_point *ret)
{
	return from_words(point_fields, POINT_WORDS, words, ret);
}

void gpu_sample_init(struct gpu_sample *gpu)
{
	*gpu = (struct gpu_sample){ .top_share_pct = F64_UNKNOWN };
	set_unknown(gpu_fields + GPU_UTILIZATION, GPU_WORDS - GPU_UTILIZATION, gpu);
}

void gpu_to_words(const struct gpu_sample *gpu, uint64_t *ret)
{
	to_words(gpu_fields, GPU_WORDS, gpu, ret);
}

int gpu_from_words(const uint64_t *words, struct gpu_sample *ret)
{
	gpu_sample_init(ret); /* not all of it is recorded */
	return from_words(gpu_fields, GPU_WORDS, words, ret);
}

void progress_to_words(const struct job_progress *progress, uint64_t *ret)
{
	to_words(progress_fields, PROGRESS_NUMBERS, progress, ret);
}

int progress_from_words(const uint64_t *words, struct job_progress *ret)
{
	return from_words(progress_fields, PROGRESS_NUMBERS, words, ret);
}

void cgroup_sample_init(struct cgroup_sample *c)
{
	*c = (struct cgroup_sample){ .pids_current = U64_UNKNOWN, .pids_max = U64_UNKNOWN };
	set_unknown(cgroup_fields, ARRAY_SIZE(cgroup_fields), c);
}

void cgroup_to_words(const struct cgroup_sample *c, uint64_t *ret)
{
	to_words(cgroup_fields, ARRAY_SIZE(cgroup_fields), c, ret + CGROUP_NUMBERS);
}

int cgroup_from_words(const uint64_t *words, struct cgroup_sample *ret)
{
	return from_words(cgroup_fields, ARRAY_SIZE(cgroup_fields), words + CGROUP_NUMBERS, ret);
}

#include "store/totals.h"

#include "base/macros.h"
#include "base/unknown.h"

void totals_init(struct totals *totals)
{
	totals->n = 0;
	totals->max_rss_bytes = U64_UNKNOWN;
	for (unsigned i = 0; i < TOTALS_WORDS; i++)
		totals->words[i] = U64_UNKNOWN;
}

static uint64_t rss_peak(uint64_t hwm_bytes, uint64_t rss_bytes)
{
	return u64_known(hwm_bytes) ? hwm_bytes : rss_bytes;
}

void totals_add(struct totals *totals, const struct table *chunk)
{
	totals->n += chunk->n;
	for (unsigned i = 0; i < chunk->n; i++)
		totals->max_rss_bytes = u64_max_known(
			totals->max_rss_bytes, rss_peak(chunk->columns[SAMPLE_HWM_BYTES][i],
							chunk->columns[SAMPLE_RSS_BYTES][i]));
	for (unsigned k = SAMPLE_USER_NS; k < TOTALS_WORDS; k++)
		for (unsigned i = 0; i < chunk->n; i++)
			totals->words[k] = u64_max_known(totals->words[k], chunk->columns[k][i]);
}

/* Which word is the largest that a field can have been. */
static const struct {
	size_t offset;
	enum sample_word word;
} fields[] = {
	{ offsetof(struct proc_record, user_ns), SAMPLE_USER_NS },
	{ offsetof(struct proc_record, system_ns), SAMPLE_SYSTEM_NS },
	{ offsetof(struct proc_record, rchar), SAMPLE_RCHAR },
	{ offsetof(struct proc_record, wchar), SAMPLE_WCHAR },
	{ offsetof(struct proc_record, read_bytes), SAMPLE_READ_BYTES },
	{ offsetof(struct proc_record, write_bytes), SAMPLE_WRITE_BYTES },
	{ offsetof(struct proc_record, major_faults), SAMPLE_MAJOR_FAULTS },
	{ offsetof(struct proc_record, max_threads), SAMPLE_THREADS },
	{ offsetof(struct proc_record, max_fds), SAMPLE_OPEN_FDS },
	{ offsetof(struct proc_record, max_gpu_bytes), SAMPLE_GPU_BYTES },
};

void totals_tell(const struct totals *totals, struct proc_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		uint64_t *field = (uint64_t *)((char *)record + fields[i].offset);

		*field = u64_max_known(*field, totals->words[fields[i].word]);
	}
	record->max_rss_bytes = u64_max_known(record->max_rss_bytes, totals->max_rss_bytes);
	record->n_samples += totals->n;
}

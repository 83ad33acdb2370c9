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
			totals->max_rss_bytes, rss_peak(chunk->columns[SAMPLE_hwm_bytes][i],
							chunk->columns[SAMPLE_rss_bytes][i]));
	for (unsigned k = SAMPLE_user_ns; k < TOTALS_WORDS; k++)
		for (unsigned i = 0; i < chunk->n; i++)
			totals->words[k] = u64_max_known(totals->words[k], chunk->columns[k][i]);
}

/* Which word is the largest that a field can have been. */
static const struct {
	size_t offset;
	enum sample_word word;
} fields[] = {
	{ offsetof(struct proc_record, user_ns), SAMPLE_user_ns },
	{ offsetof(struct proc_record, system_ns), SAMPLE_system_ns },
	{ offsetof(struct proc_record, rchar), SAMPLE_rchar },
	{ offsetof(struct proc_record, wchar), SAMPLE_wchar },
	{ offsetof(struct proc_record, read_bytes), SAMPLE_read_bytes },
	{ offsetof(struct proc_record, write_bytes), SAMPLE_write_bytes },
	{ offsetof(struct proc_record, major_faults), SAMPLE_major_faults },
	{ offsetof(struct proc_record, max_threads), SAMPLE_threads },
	{ offsetof(struct proc_record, max_fds), SAMPLE_open_fds },
	{ offsetof(struct proc_record, max_gpu_bytes), SAMPLE_gpu_memory_bytes },
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

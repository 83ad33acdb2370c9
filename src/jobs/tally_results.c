#include <stdlib.h>

#include "base/unknown.h"
#include "jobs/tally_internal.h"

/* Of this try, or of all (serial 0). U64_UNKNOWN: not all have a mark of all that they were. */
static uint64_t largest_mark(const struct tally *t, unsigned serial)
{
	uint64_t largest = U64_UNKNOWN;

	if (!t->sees_births || t->n_unlisted > 0)
		return U64_UNKNOWN;
	for (size_t i = 0; i < t->n; i++) {
		const struct entry *e = &t->entries[i];

		if (serial != 0 && e->serial != serial)
			continue;
		if (e->record.evidence != EVIDENCE_EXACT || e->n_execs > 1)
			return U64_UNKNOWN;
		largest = u64_max_known(largest, e->record.max_rss_bytes);
	}
	return largest;
}

/*
 * What a small process had at most, as wait4 cannot tell it from the runner's own mark before exec,
 * the kernel may have told at its end.
 */
static void settle_marks(const struct tally *t, unsigned serial, struct usage *u)
{
	uint64_t largest = largest_mark(t, serial);

	if (!u64_known(largest) || u->max_process_rss_evidence == EVIDENCE_EXACT)
		return;
	if (u->max_process_rss_evidence == EVIDENCE_LOWER_BOUND)
		largest = u64_max_known(largest, u->max_process_rss_bytes);
	if (u->spawn_count == 1) {
		u->peak_rss_bytes = largest;
		u->peak_rss_evidence = EVIDENCE_EXACT;
	}
	u->max_process_rss_bytes = largest;
	u->max_process_rss_evidence = EVIDENCE_EXACT;
}

void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->sheet, boot_ns, t->sees_births, is_complete, ret);
	settle_marks(t, t->serial, ret);
	peaks_add(&t->ended_peaks, ret->peak_rss_bytes, ret->peak_rss_evidence);
	t->sheet_is_open = false;
}

void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->attempt, boot_ns, t->sees_births, is_complete, ret);
	settle_marks(t, 0, ret);
	/* What was left running in the background makes sheets overlap: then the sums stand. */
	if (!t->sheet_is_open && is_complete)
		peaks_settle(&t->ended_peaks, &ret->peak_rss_bytes, &ret->peak_rss_evidence);
}

const struct proc_record *tally_processes(struct tally *t, size_t *ret_n)
{
	struct proc_record *listed = reallocarray(t->listed, t->n ? t->n : 1, sizeof(*listed));

	*ret_n = 0;
	if (!listed)
		return NULL;
	t->listed = listed;
	for (size_t i = 0; i < t->n; i++)
		listed[i] = t->entries[i].record;
	*ret_n = t->n;
	return listed;
}

uint64_t tally_untold_gpu_ns(const struct tally *t)
{
	return gpu_time_untold_ns(&t->attempt.gpu);
}

uint64_t tally_untold_gpu_idle_ns(const struct tally *t)
{
	return gpu_time_idle_untold_ns(&t->attempt.gpu);
}

uint64_t tally_unlisted_processes(const struct tally *t)
{
	return t->n_unlisted;
}

uint64_t tally_unlisted_events(const struct tally *t)
{
	return t->n_events_unlisted;
}

uint64_t tally_lost_events(const struct tally *t)
{
	return t->n_lost;
}

#include "crossrank/analysis.h"

#include <math.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/finding.h"

#define MAX_NAMED 16 /* ranks in a sentence; the JSON lists them */

static const struct {
	const char *name, *sentence;
} notes[] = {
	[NOTE_NO_EVENTS] = { "no_events", "There are no records." },
	[NOTE_IGNORED_NON_SAMPLE_EVENTS] = { "ignored_non_sample_events",
					     "Records that are no samples do not count as samples." },
	[NOTE_NO_SAMPLE_EVENTS] = { "no_sample_events", "There are no samples." },
	[NOTE_MULTIPLE_JOB_IDS] = { "multiple_job_ids",
				    "There are several jobs: only the most common one counts, and left "
				    "out are " },
	[NOTE_MISSING_RANKS] = { "missing_ranks", "There is nothing of these ranks: " },
	[NOTE_SKEWED_START] = { "skewed_start", NULL },
	[NOTE_SINGLE_RANK] = { "single_rank", "It takes two ranks to say which was first." },
	[NOTE_INSUFFICIENT_SAMPLES] = { "insufficient_samples",
					"With fewer than two samples these ranks show no rise: " },
	[NOTE_NO_SPIKES] = { "no_spikes", "No rank rose by enough to be a suspect." },
	[NOTE_ONLY_ONE_SPIKE] = { "only_one_spike",
				  "Only one rank rose by enough to be a suspect." },
};

const char *analysis_note_name(enum note_code code)
{
	return notes[code].name;
}

static void add_ranks(struct buf *out, const struct note *note)
{
	for (size_t i = 0; i < note->n_ranks && i < MAX_NAMED; i++)
		buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)note->ranks[i]);
	if (note->n_ranks_all > MAX_NAMED)
		buf_printf(out, " and %llu more",
			   (unsigned long long)(note->n_ranks_all - MAX_NAMED));
	buf_add_char(out, '.');
}

/* Names are of any length. */
#define MAX_NAME 200

static void add_name(struct buf *out, struct text name)
{
	size_t i = 0;

	while (i < name.n && i < MAX_NAME)
		i += utf8_add_shown(out, name.s + i, name.n - i);
	if (i < name.n)
		buf_add_str(out, "...");
}

static void add_others(struct buf *out, const struct note *note)
{
	for (size_t i = 0; i < note->n_others; i++) {
		const struct other_job *o = &note->others[i];

		buf_add_str(out, i > 0 ? ", " : "");
		if (o->job_id.s)
			add_name(out, o->job_id);
		else
			buf_add_str(out, "records that name no job");
		buf_printf(out, " (%llu sample%s)", (unsigned long long)o->n_samples,
			   o->n_samples == 1 ? "" : "s");
	}
	if (note->n_others_all > note->n_others)
		buf_printf(out, " and %zu more", note->n_others_all - note->n_others);
	buf_add_str(out, ". Hosts of one job need one id: \"proctor run --job ID\" on each.");
}

void analysis_note_text(const struct note *note, struct buf *out)
{
	if (note->code == NOTE_SKEWED_START) {
		buf_printf(out, "The first sample of rank %lld is ", (long long)note->rank);
		finding_add_seconds(out, fabs((double)note->offset_ns) / 1e9);
		buf_add_str(out, " away from that of the first rank: aligning the two is a guess.");
		return;
	}
	buf_add_str(out, notes[note->code].sentence);
	if (note->ranks)
		add_ranks(out, note);
	if (note->others)
		add_others(out, note);
}

#include "report/page.h"

#include <math.h>

#include "base/unknown.h"
#include "model/job.h"
#include "report/format.h"
#include "report/report.h"

#define ALMOST_SURE 0.999 /* nothing drawn from samples is sure */

static void add_heading(struct doc *d, const struct rank_finding *t)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_printf(&text, "Ranks (%llu of %lld, ", (unsigned long long)t->n_ranks,
		   (long long)t->world_size);
	format_plural(&text, t->n_samples, "sample", "s");
	buf_printf(&text, " of %s)", t->measure[0] == 'g' ? "GPU memory" : "resident memory");
	d->writer->section(d, text.data);
}

static void add_named(struct buf *text, const struct facts *f, const struct rank_finding *t)
{
	buf_printf(text, "Rank %lld was first%s", (long long)t->rank,
		   t->has_passed ? " in what has passed" : "");
	if (u64_known(t->onset_wall_ns)) {
		buf_add_str(text, ": its memory began to rise ");
		report_add_duration(text, u64_delta(t->onset_wall_ns, f->a->started_wall_ns));
		buf_add_str(text, " after the start");
	}
	if (t->phase)
		buf_printf(text, ", %sin the phase %s", t->is_phase_ambiguous ? "most likely " : "",
			   t->phase);
	if (t->probability > ALMOST_SURE)
		buf_printf(text, " (probability above %.3f). ", ALMOST_SURE);
	else
		buf_printf(text, " (probability %.3f). ", t->probability);
}

void page_add_ranks(struct doc *d, const struct facts *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct rank_finding *t = f->a->telemetry;

	if (!t)
		return;
	add_heading(d, t);
	if (t->rank >= 0)
		add_named(&text, f, t);
	else if (t->verdict && t->verdict[0] == 'c')
		buf_add_str(&text, "Cannot tell which was first. ");
	buf_add_str(&text, t->reason);
	if (t->remedy[0])
		buf_printf(&text, " %s", t->remedy);
	d->writer->paragraph(d, text.data);
}

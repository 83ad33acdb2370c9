#include "report/spacing.h"

#include <string.h>

#include "base/unknown.h"
#include "report/report.h"

static bool is_sample(const struct series_point *p)
{
	return u64_known(p->wall_ns);
}

static bool is_cpu_sample(const struct series_point *p)
{
	return is_sample(p) && isfinite(p->cpu_percent);
}

static struct spacing spacing_of(const struct attempt *a,
				 bool (*counts)(const struct series_point *p))
{
	struct spacing spacing = { U64_UNKNOWN, U64_UNKNOWN };
	uint64_t before = U64_UNKNOWN;

	for (size_t i = 0; i < a->n_series; i++) {
		uint64_t gap;

		if (!counts(&a->series[i]))
			continue;
		gap = u64_delta(a->series[i].wall_ns, before);
		before = a->series[i].wall_ns;
		if (gap < spacing.min_ns) /* unknown is never less */
			spacing.min_ns = gap;
		spacing.max_ns = u64_max_known(spacing.max_ns, gap);
	}
	return spacing;
}

struct spacing spacing_of_samples(const struct attempt *a)
{
	return spacing_of(a, is_sample);
}

struct spacing spacing_of_cpu(const struct attempt *a)
{
	return spacing_of(a, is_cpu_sample);
}

#define GAP_INTERVALS 5
#define GAP_SECONDS 5.0

static double longest_usual_ns(const struct attempt *a)
{
	return 1e9 * f64_max_known(GAP_INTERVALS * a->interval_seconds, GAP_SECONDS);
}

bool spacing_find_gap(const struct attempt *a, struct gap *ret)
{
	const double usual_ns = longest_usual_ns(a);
	uint64_t before = U64_UNKNOWN, longest_ns = 0;

	ret->n = 0;
	for (size_t i = 0; i < a->n_series; i++) {
		const uint64_t now = a->series[i].wall_ns, gap_ns = u64_delta(now, before);

		if (u64_known(gap_ns) && (double)gap_ns > usual_ns) {
			ret->n++;
			if (gap_ns > longest_ns) {
				ret->from_wall_ns = before;
				ret->until_wall_ns = now;
				longest_ns = gap_ns;
			}
		}
		before = u64_known(now) ? now : before;
	}
	return ret->n > 0;
}

void spacing_add(struct buf *out, const struct spacing *spacing)
{
	CLEANUP(buf_release) struct buf min = BUF_INIT;
	CLEANUP(buf_release) struct buf max = BUF_INIT;

	if (!u64_known(spacing->min_ns))
		return;
	report_add_duration(&min, spacing->min_ns);
	report_add_duration(&max, spacing->max_ns);
	if (strcmp(min.data, max.data) == 0)
		buf_printf(out, "%s apart", max.data);
	else
		buf_printf(out, "%s to %s apart", min.data, max.data);
}

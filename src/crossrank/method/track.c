#include "crossrank/method/track.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "stats/order.h"
#include "stats/select.h"

#define LEAST_MIB 16.0	  /* allocators take blocks of 2 to 20 MiB */
#define LEAST_SHARE 0.005 /* of what the rank holds */
#define SIGMAS 4.0
#define TEETH 1.5
#define TOOTH_QUANTILE 0.75
#define SIGMA_PER_MAD 1.4826
#define MIN_QUARTERED 16 /* second differences: fewer are halved */

void track_keep(const double *x, size_t n, double *ret)
{
	double least = INFINITY;

	for (size_t i = n; i-- > 0;) {
		least = fmin(least, x[i]);
		ret[i] = least;
	}
}

size_t track_count_to(const double *v, size_t n, double value)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (v[middle] <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

DEFINE_SELECT_NTH(select_nth, double)

double track_quantile(double *v, size_t n, double share)
{
	double at = share * (double)(n - 1), next = INFINITY;
	size_t low = (size_t)at;

	if (n == 0)
		return NAN;
	select_nth(v, n, low);
	if (at <= (double)low)
		return v[low];
	for (size_t i = low + 1; i < n; i++)
		next = fmin(next, v[i]);
	return v[low] + (at - (double)low) * (next - v[low]);
}

static double median_of_three(double a, double b, double c)
{
	return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* One odd sample, up or down, is no memory. A load may begin with one low sample: that stays. */
static void smooth(const double *m, size_t n, double *ret)
{
	for (size_t i = 1; i + 1 < n; i++)
		ret[i] = median_of_three(m[i - 1], m[i], m[i + 1]);
	ret[0] = fmin(m[0], ret[1]);
	ret[n - 1] = median_of_three(m[n - 1], ret[n - 2], m[n - 3]);
}

/*
 * The scatter between neighbours: the second lowest of four quarters, so that a coarse way up in
 * one part is not taken for noise. scratch has room for n.
 */
static double find_sigma(const double *m, size_t n, double *scratch)
{
	size_t n_seconds = n - 2, n_parts = n_seconds >= MIN_QUARTERED ? 4 : 2, from = 0;
	double medians[4];

	for (size_t i = 0; i < n_seconds; i++)
		scratch[i] = fabs(m[i + 2] - 2 * m[i + 1] + m[i]);
	for (size_t i = 0; i < n_parts; i++) {
		size_t length = n_seconds / n_parts + (i < n_seconds % n_parts);

		medians[i] = track_quantile(scratch + from, length, 0.5);
		from += length;
	}
	select_nth(medians, n_parts, n_parts == 4);
	return SIGMA_PER_MAD * medians[n_parts == 4] / sqrt(6);
}

/* A stretch above the kept memory that ended; one that the record ends in may yet be kept. */
static int find_spikes(struct track *track, struct arena *arena)
{
	track->n_spikes = 0;
	track->spikes = arena_alloc(arena, (track->n / 2 + 1) * sizeof(*track->spikes));
	if (!track->spikes)
		return -ENOMEM;
	for (size_t i = 0; i < track->n; i++) {
		size_t from = i;
		double most = 0;

		for (; i < track->n && track->x[i] - track->kept[i] > track->scale; i++)
			most = fmax(most, track->x[i] - track->kept[i]);
		if (i > from && i < track->n)
			track->spikes[track->n_spikes++] =
				(struct spike){ track->t[from], track->t[i] - track->t[from],
						most };
	}
	return 0;
}

int track_finish(struct track *track, struct arena *arena)
{
	double *scratch = arena_alloc(arena, track->n * sizeof(*scratch));
	size_t skipped = track->n / 4;

	if (!scratch)
		return -ENOMEM;
	track_keep(track->x, track->n, track->kept);
	for (size_t i = skipped; i < track->n; i++)
		scratch[i - skipped] = track->x[i] - track->kept[i];
	track->tooth = track_quantile(scratch, track->n - skipped, TOOTH_QUANTILE);
	memcpy(scratch, track->x, track->n * sizeof(*scratch));
	track->scale = fmax(fmax(LEAST_MIB, LEAST_SHARE * track_quantile(scratch, track->n, 0.5)),
			    fmax(SIGMAS * track->sigma, TEETH * track->tooth));
	return find_spikes(track, arena);
}

int track_make(const struct culprit_rank *in, size_t rank, struct arena *arena, struct track *ret)
{
	struct track track = { .rank = rank, .in = in, .t = in->t, .n = in->n };
	double *scratch = arena_alloc(arena, in->n * sizeof(*scratch)), half = 0;
	int r;

	track.x = arena_alloc(arena, in->n * sizeof(*track.x));
	track.kept = arena_alloc(arena, in->n * sizeof(*track.kept));
	if (!scratch || !track.x || !track.kept)
		return -ENOMEM;
	smooth(in->mib, in->n, track.x);
	for (size_t i = 0; i + 1 < in->n; i++)
		scratch[i] = in->t[i + 1] - in->t[i];
	order_sort(scratch, in->n - 1);
	for (size_t i = 0; i + 1 < in->n && half < (in->t[in->n - 1] - in->t[0]) / 2; i++) {
		half += scratch[i];
		track.interval = scratch[i];
	}
	track.sigma = find_sigma(in->mib, in->n, scratch);
	r = track_finish(&track, arena);
	if (r < 0)
		return r;
	track.all_spikes = track.spikes;
	track.n_all_spikes = track.n_spikes;
	*ret = track;
	return 0;
}

#include "detect/kills.h"

#include <math.h>

#include "base/unknown.h"

#define COUNT_LATE_SECONDS 10 /* and not before the next tick but one */

static void enter(uint64_t *n, double *since, uint64_t more, double now)
{
	if (*n == 0)
		*since = now;
	*n += more;
}

uint64_t kills_settle(struct kill_ledger *l, uint64_t n_counted, uint64_t n_known, double now,
		      double step, double wait_seconds)
{
	uint64_t settled, untold = 0;

	enter(&l->n_known, &l->known, n_known, now);
	enter(&l->n_counted, &l->counted, u64_known(n_counted) ? n_counted : 0, now);
	settled = l->n_known < l->n_counted ? l->n_known : l->n_counted;
	l->n_known -= settled;
	l->n_counted -= settled;
	if (now - l->known > fmax(COUNT_LATE_SECONDS, 2 * step))
		l->n_known = 0;
	if (now - l->counted >= wait_seconds) {
		untold = l->n_counted;
		l->n_counted = 0;
	}
	return u64_known(n_counted) || untold > 0 || l->n_counted > 0 ? untold : U64_UNKNOWN;
}

uint64_t kills_take_rest(struct kill_ledger *l)
{
	uint64_t n = l->n_counted;

	*l = (struct kill_ledger){ 0 };
	return n;
}

#include "detect/kills.h"

#include <math.h>

#include "base/unknown.h"

#define COUNT_LATE_SECONDS 10 /* and not before the next tick but one */
#define TOLD_SECONDS 60	      /* after which an event is of another kill */

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

	n_known -= n_known < l->n_late ? n_known : l->n_late;
	l->n_late = 0;
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
	if (untold > 0) {
		l->n_told += untold;
		l->told = now;
	}
	return u64_known(n_counted) || untold > 0 || l->n_counted > 0 ? untold : U64_UNKNOWN;
}

static bool has_told(const struct kill_ledger *l, double now)
{
	return l->n_told > 0 && now - l->told <= TOLD_SECONDS;
}

bool kills_is_open(const struct kill_ledger *l, double now)
{
	return l->n_counted > 0 || has_told(l, now);
}

bool kills_is_late(struct kill_ledger *l, double now, double at)
{
	if (!has_told(l, now)) {
		l->n_told = 0;
		return false;
	}
	if (at > l->told)
		return false;
	l->n_told--;
	l->n_late++;
	return true;
}

uint64_t kills_take_rest(struct kill_ledger *l)
{
	uint64_t n = l->n_counted;

	*l = (struct kill_ledger){ 0 };
	return n;
}

#include "store/damage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/query.h"

#define MAX_DAMAGES 256 /* that are told apart */
#define MAX_SENTENCES 8 /* parts of one */

static const struct {
	const char *one, *many;
} kind_names[N_DAMAGE_KINDS] = {
	[DAMAGED_TICKS] = { "tick", "ticks" },
	[DAMAGED_SAMPLES] = { "stretch of a process's samples", "stretches of processes' samples" },
	[DAMAGED_THINGS] = { "state of the host", "states of the host" },
	[DAMAGED_CURVE] = { "stretch of a curve", "stretches of curves" },
	[DAMAGED_MINUTES] = { "hour of a process's minutes", "hours of processes' minutes" },
	[DAMAGED_EVENTS] = { "event that this version cannot read",
			     "events that this version cannot read" },
	[DAMAGED_ANOMALIES] = { "anomaly that this version cannot read",
				"anomalies that this version cannot read" },
	[DAMAGED_ATTEMPTS] = { "attempt", "attempts" },
	[DAMAGED_ENDS] = { "file of attempts' ends", "files of attempts' ends" },
};

void damages_release(struct damages *d)
{
	free(d->items);
	*d = (struct damages){ 0 };
}

/* ---- meeting it ---- */

static bool has(const struct damages *d, const struct damage *one)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->items[i].kind == one->kind && d->items[i].id == one->id)
			return true;
	return false;
}

static void add(struct damages *d, const struct damage *one)
{
	if (has(d, one))
		return;
	if (d->n == MAX_DAMAGES || ARRAY_RESERVE(d->items, d->cap, d->n + 1) < 0)
		d->n_more++;
	else
		d->items[d->n++] = *one;
}

void damages_add(struct damages *d, const struct damages *more)
{
	for (size_t i = 0; i < more->n; i++)
		add(d, &more->items[i]);
	d->n_more += more->n_more;
}

bool damages_may_be_newer(const struct damages *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->items[i].kind != DAMAGED_EVENTS && d->items[i].kind != DAMAGED_ANOMALIES)
			return false;
	return true;
}

int damage_leave_out(struct store *store, const struct damage *d, struct err *err)
{
	struct store *teller = store->is_borrowed ? store->teller : store;

	if (!teller)
		return err_set(err, -EBADMSG,
			       "the database %s holds a %s that makes no sense, and is lost: "
			       "\"proctor sql\" leaves it out, and so does who limits the time; "
			       "\"proctor doctor\" says of when it is",
			       store->path, kind_names[d->kind].one);
	add(&teller->damages, d);
	return 0;
}

/* ---- telling it ---- */

/* The attempt, or the daemon; nothing if it is not there any more. */
static void write_recorder(struct store *store, int64_t recorder, struct buf *out)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const char *name;

	if (recorder == 0 || query_open(store, STATEMENT_NAME_RECORDER, &q, NULL) < 0)
		return;
	query_bind_i64(&q, recorder);
	if (query_step(&q, NULL) <= 0)
		return;
	name = query_read_text(&q);
	if (name)
		buf_printf(out, " of job %s, attempt %lld", name, (long long)query_read_i64(&q));
	else
		buf_printf(out, " of the daemon that was process %lld",
			   (long long)query_read_i64(&q));
}

static void write_times(const struct damage *d, struct buf *out)
{
	char first[32], last[32];

	if (d->last_ns == 0) /* nobody knows */
		return;
	clock_format_local((uint64_t)d->first_ns, first, sizeof(first));
	clock_format_local((uint64_t)d->last_ns, last, sizeof(last));
	if (strcmp(first, last) == 0)
		buf_printf(out, " (at %s)", first);
	else
		buf_printf(out, " (from %s to %s)", first, last);
}

static bool is_like(const struct damage *a, const struct damage *b)
{
	return a->kind == b->kind && a->recorder == b->recorder;
}

/* All of one kind and recorder, as one. */
static struct damage sum_up(const struct damages *d, size_t i)
{
	struct damage sum = d->items[i];

	for (size_t k = i + 1; k < d->n; k++) {
		const struct damage *more = &d->items[k];

		if (!is_like(more, &sum))
			continue;
		sum.n += more->n;
		sum.first_ns = more->first_ns < sum.first_ns ? more->first_ns : sum.first_ns;
		sum.last_ns = more->last_ns > sum.last_ns ? more->last_ns : sum.last_ns;
	}
	return sum;
}

static bool is_first_of_its_like(const struct damages *d, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (is_like(&d->items[k], &d->items[i]))
			return false;
	return true;
}

void damages_write(struct store *store, const struct damages *d, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n && n < MAX_SENTENCES; i++) {
		struct damage sum;

		if (!is_first_of_its_like(d, i))
			continue;
		sum = sum_up(d, i);
		buf_printf(out, "%s%llu %s", n++ ? ", " : "", (unsigned long long)sum.n,
			   sum.n == 1 ? kind_names[sum.kind].one : kind_names[sum.kind].many);
		write_recorder(store, sum.recorder, out);
		write_times(&sum, out);
	}
	if (d->n_more > 0 || n == MAX_SENTENCES)
		buf_add_str(out, ", and more");
}

bool store_tell_damage(struct store *store, struct buf *out)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(damages_release) struct damages met = store->damages;

	store->damages = (struct damages){ 0 };
	if (met.n + met.n_more == 0)
		return false;
	txn_begin(store, STATEMENT_BEGIN_READ, &txn, NULL);
	damages_write(store, &met, out);
	return true;
}

/*
 * retain_clock - whether the wall clock may be believed when it says that things are old.
 *
 * A clock that jumps years ahead makes all that there is look old. Each run of retention, and who
 * makes the database, notes what both clocks say. In the same boot they must have moved alike; over
 * a boot nobody knows for how long the machine was off, and only a long time is doubted. A clock
 * that is synchronised with another is believed. After a doubtful jump nothing is removed for its
 * age until the clock has stood by it for HOLD_NS, or goes back.
 */
#include <stdio.h>
#include <string.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/retain.h"
#include "store/rollup.h"

#define SAME_BOOT_NS HOUR_NS		  /* by so much more than the boot clock it may move */
#define OTHER_BOOT_NS (24 * 30 * HOUR_NS) /* a machine may be off for so long */
#define HOLD_NS (24 * 7 * HOUR_NS)

#define META_WALL "clock_wall_ns"
#define META_BOOT_NS "clock_boot_ns"
#define META_BOOT "clock_boot" /* a hash of its id */
#define META_HELD "clock_held_ns"

/* What the run before has noted; 0: nothing. */
struct seen {
	int64_t wall_ns, boot_ns, boot, held_ns;
};

static const struct {
	const char *key;
	size_t offset;
} notes[] = {
	{ META_WALL, offsetof(struct seen, wall_ns) },
	{ META_BOOT_NS, offsetof(struct seen, boot_ns) },
	{ META_BOOT, offsetof(struct seen, boot) },
	{ META_HELD, offsetof(struct seen, held_ns) },
};

static int64_t *note_of(struct seen *seen, size_t i)
{
	return (int64_t *)(void *)((char *)seen + notes[i].offset);
}

static struct seen look(uint64_t wall_ns, const struct retention_clock *clock)
{
	return (struct seen){
		.wall_ns = query_as_i64(wall_ns),
		.boot_ns = (int64_t)clock->boot_ns,
		.boot = (int64_t)hash_bytes(HASH_INIT, clock->boot_id, strlen(clock->boot_id)),
	};
}

static int read_seen(struct store *store, struct seen *ret, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(notes); i++)
		r = meta_read(store, notes[i].key, note_of(ret, i), err);
	return r;
}

static int write_seen(struct store *store, struct seen *seen, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(notes); i++)
		r = meta_write(store, notes[i].key, *note_of(seen, i), err);
	return r;
}

int retain_note_clock(sqlite3 *db)
{
	const struct retention_clock clock = retention_clock_now();
	struct seen seen = look(clock_wall_ns(), &clock);
	int rc = SQLITE_OK;

	for (size_t i = 0; rc == SQLITE_OK && i < ARRAY_SIZE(notes); i++) {
		char sql[96];

		snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO meta VALUES ('%s', %lld)",
			 notes[i].key, (long long)*note_of(&seen, i));
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	}
	return rc;
}

/* Further ahead than any time can have passed since; 0: not by much. */
static bool has_jumped(const struct seen *seen, const struct seen *now)
{
	uint64_t may_have_passed = OTHER_BOOT_NS;

	if (seen->wall_ns <= 0 || now->wall_ns <= seen->wall_ns)
		return false;
	if (seen->boot == now->boot && now->boot_ns >= seen->boot_ns)
		may_have_passed = (uint64_t)(now->boot_ns - seen->boot_ns) + SAME_BOOT_NS;
	return (uint64_t)(now->wall_ns - seen->wall_ns) > may_have_passed;
}

static int64_t hold_until(const struct seen *seen, const struct seen *now, bool is_synchronised)
{
	if (is_synchronised || now->wall_ns < seen->wall_ns)
		return 0;
	if (has_jumped(seen, now))
		return now->wall_ns > INT64_MAX - (int64_t)HOLD_NS
			       ? INT64_MAX
			       : now->wall_ns + (int64_t)HOLD_NS;
	return seen->held_ns > now->wall_ns ? seen->held_ns : 0;
}

/* Inside a transaction: what both clocks say now, and until when that holds what is old. */
static int look_at_clock(struct store *store, const struct retention *run, struct seen *ret,
			 struct err *err)
{
	const struct retention_clock *clock = &run->clock;
	struct seen seen = { 0 };
	int r = read_seen(store, &seen, err);

	*ret = look(run->now_wall_ns, clock);
	ret->held_ns = hold_until(&seen, ret, clock->is_synchronised);
	return r;
}

static bool believes_clock(const struct retention *run)
{
	return !u64_known(run->clock.boot_ns) || run->now_wall_ns > INT64_MAX;
}

int retain_judge_clock(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct seen now;
	int r;

	if (believes_clock(slice->run))
		return 0;
	r = txn_begin(slice->store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = look_at_clock(slice->store, slice->run, &now, err);
	if (r == 0)
		r = write_seen(slice->store, &now, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r == 0)
		slice->run->held_until_ns = (uint64_t)now.held_ns;
	return r;
}

int retain_foresee_hold(struct store *store, struct retention *run, struct err *err)
{
	struct seen now = { 0 };
	int r = believes_clock(run) ? 0 : look_at_clock(store, run, &now, err);

	run->held_until_ns = (uint64_t)now.held_ns;
	return r;
}

void store_retain_watch_clock(struct retention *run, const struct retention_clock *clock)
{
	run->clock = *clock;
}

struct retention_clock retention_clock_now(void)
{
	struct retention_clock clock = { .boot_ns = clock_boot_ns(),
					 .is_synchronised =
						 clock_read_quality().is_synchronised > 0 };

	_Static_assert(sizeof(clock.boot_id) == ALIVE_BOOT_ID_BYTES, "one and the same");
	proc_boot_id(clock.boot_id);
	return clock;
}

int store_read_retention_hold(struct store *store, uint64_t now_wall_ns, uint64_t *ret,
			      struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t until_ns = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = meta_read(store, META_HELD, &until_ns, err);
	if (r < 0)
		return r;
	*ret = until_ns > 0 && (uint64_t)until_ns > now_wall_ns ? (uint64_t)until_ns : 0;
	return 0;
}

#include "base/macros.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/retain.h"
#include "store/rollup.h"

#define INTERVAL_NS HOUR_NS
/* Who begins says so, for this long: of ten that find it due at once one does it. */
#define CLAIM_NS UINT64_C(600000000000)
/* Where there is too much it does not wait for the hour, but for this long after the last time. */
#define ROOM_INTERVAL_NS UINT64_C(60000000000)

typedef bool due_fn(uint64_t done_ns, uint64_t now_wall_ns);

static bool is_due(uint64_t done_ns, uint64_t now_wall_ns)
{
	return done_ns == 0 || done_ns > now_wall_ns || now_wall_ns - done_ns >= INTERVAL_NS;
}

/* As long ago as somebody who is at it right now says. */
static bool may_be_claimed(uint64_t age_ns)
{
	return age_ns >= INTERVAL_NS - CLAIM_NS;
}

static bool is_due_for_room(uint64_t done_ns, uint64_t now_wall_ns)
{
	return is_due(done_ns, now_wall_ns) || (now_wall_ns - done_ns >= ROOM_INTERVAL_NS &&
						!may_be_claimed(now_wall_ns - done_ns));
}

static int ask(struct store *store, due_fn *fn, uint64_t now_wall_ns, struct err *err)
{
	int64_t done_ns = 0;
	int r = meta_read(store, META_RETAINED, &done_ns, err);

	return r < 0 ? r : fn(done_ns > 0 ? (uint64_t)done_ns : 0, now_wall_ns);
}

static int ask_alone(struct store *store, due_fn *fn, uint64_t now_wall_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	return r < 0 ? r : ask(store, fn, now_wall_ns, err);
}

static int claim(struct store *store, due_fn *fn, uint64_t now_wall_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = ask_alone(store, fn, now_wall_ns, err);

	if (r <= 0)
		return r;
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = ask(store, fn, now_wall_ns, err); /* another may have been first */
	if (r <= 0)
		return r;
	r = meta_write(store, META_RETAINED, (int64_t)(now_wall_ns - INTERVAL_NS + CLAIM_NS), err);
	if (r == 0)
		r = txn_commit(&txn, err);
	return r < 0 ? r : 1;
}

int store_retention_is_due(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	return ask_alone(store, is_due, now_wall_ns, err);
}

int store_claim_retention(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	return claim(store, is_due, now_wall_ns, err);
}

int store_claim_room(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	return claim(store, is_due_for_room, now_wall_ns, err);
}

int store_return_retention(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = meta_write(store, META_RETAINED, (int64_t)(now_wall_ns - INTERVAL_NS), err);
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_read_over(struct store *store, const struct retention_policy *policy, uint64_t *ret,
		    struct err *err)
{
	uint64_t file_bytes, used_bytes = 0;
	int r = policy->max_bytes ? space_read(store, &file_bytes, &used_bytes, err) : 0;

	if (r < 0)
		return r;
	if (policy->max_bytes)
		used_bytes += space_beside(store, policy);
	*ret = used_bytes > policy->max_bytes ? used_bytes - policy->max_bytes : 0;
	return 0;
}

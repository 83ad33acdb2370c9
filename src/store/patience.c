#include "store/patience.h"

#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "store/handle.h"

/* Of different lengths, so that several who wait do not come back all at once. */
#define PAUSE_MIN_NS UINT64_C(500000)
#define PAUSE_SPREAD_NS UINT64_C(1000000)

void patience_renew(struct store *store)
{
	if (!store->is_patience_shared)
		store->waited_ns = 0;
}

bool patience_wait(struct store *store)
{
	uint64_t now_ns = clock_boot_ns();
	uint64_t pause_ns = PAUSE_MIN_NS + now_ns % PAUSE_SPREAD_NS;
	struct timespec pause = { 0 };

	if (store->waited_ns >= store->patience_ns)
		return false;
	if (pause_ns > store->patience_ns - store->waited_ns)
		pause_ns = store->patience_ns - store->waited_ns;
	pause.tv_nsec = (long)pause_ns;
	nanosleep(&pause, NULL);
	store->waited_ns += clock_boot_ns() - now_ns;
	return true;
}

void store_set_patience(struct store *store, unsigned ms)
{
	store->patience_ns = ms * UINT64_C(1000000);
	store->is_patience_shared = false;
}

void store_share_patience(struct store *store, unsigned ms)
{
	store_set_patience(store, ms);
	store->is_patience_shared = true;
	store->waited_ns = 0;
}

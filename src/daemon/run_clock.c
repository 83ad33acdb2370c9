#include "daemon/run_clock.h"

#include "base/clock.h"
#include "base/unknown.h"
#include "daemon/run_internal.h"

uint64_t run_now(const struct run *run)
{
	return run->attempt->started_wall_ns + (clock_boot_ns() - run->boot_ns);
}

uint64_t run_time_of(const struct run *run, uint64_t wall_ns)
{
	return u64_known(wall_ns) ? wall_ns + (run_now(run) - clock_wall_ns()) : U64_UNKNOWN;
}

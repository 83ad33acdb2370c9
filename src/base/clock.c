#include "base/clock.h"

#include <sys/timex.h>
#include <time.h>

#include "base/unknown.h"

static uint64_t clock_read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts); /* cannot fail for the clocks below */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_wall_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

uint64_t clock_boot_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_cpu_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

struct clock_quality clock_read_quality(void)
{
	struct clock_quality quality = { U64_UNKNOWN, -1 };
	struct timex asked = { 0 };
	int state = ntp_adjtime(&asked);

	if (state < 0)
		return quality;
	quality.is_synchronised = state != TIME_ERROR && !(asked.status & STA_UNSYNC);
	if (quality.is_synchronised && asked.maxerror >= 0) /* in microseconds */
		quality.error_ns = (uint64_t)asked.maxerror * 1000;
	return quality;
}

const char *clock_format_local(uint64_t wall_ns, char *text, size_t size)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		text[0] = '\0';
	return text;
}

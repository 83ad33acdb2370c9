/*
 * gpu_record - drivers that took the process that asked them with them.
 *
 * Such a driver is left alone for a while, so that the next one of its vendor has its turn. It
 * may have been an accident (an update of the driver), so it is asked again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sources/gpu.h"

#define MAX_DOUBLINGS 4

void gpu_record_death(struct gpu_record *record, int signal, uint64_t now_ns)
{
	record->n_deaths++;
	record->signal = signal;
	record->died_boot_ns = now_ns;
}

static uint64_t pause_ns(const struct gpu_record *record, uint64_t again_ns)
{
	unsigned doublings = record->n_deaths - 1;

	return again_ns << (doublings < MAX_DOUBLINGS ? doublings : MAX_DOUBLINGS);
}

bool gpu_is_given_up(const struct gpu_record *record, uint64_t again_ns, uint64_t now_ns)
{
	return record->n_deaths > 0 && now_ns - record->died_boot_ns < pause_ns(record, again_ns);
}

int gpu_tell_death(const struct gpu_record *record, uint64_t again_ns, const char *driver,
		   struct err *err)
{
	unsigned long long minutes = pause_ns(record, again_ns) / UINT64_C(60000000000);
	char how[96];

	if (record->signal == GPU_HUNG)
		snprintf(how, sizeof(how), "did not answer, and was ended");
	else if (record->signal > 0)
		snprintf(how, sizeof(how), "crashed (%s)", strsignal(record->signal));
	else
		snprintf(how, sizeof(how), "ended the process that asked it");
	return err_set(err, -EIO, "%s %s: it is asked again after %llu minutes", driver, how,
		       minutes);
}

#include <string.h>

#include "base/alive.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "recorder/own.h"

/* A pid says something only to who is in its pid namespace, on its host. */
enum store_alive daemon_check_alive(void *ctx, const struct attempt *a)
{
	char boot_id[ALIVE_BOOT_ID_BYTES];

	(void)ctx;
	proc_boot_id(boot_id);
	if (!boot_id[0] || !a->boot_id[0])
		return STORE_CANNOT_TELL;
	if (strcmp(boot_id, a->boot_id) != 0)
		return own_host_is(a->host) ? STORE_DEAD : STORE_CANNOT_TELL;
	if (u64_known(a->pid_ns) && own_pid_ns() != a->pid_ns)
		return STORE_CANNOT_TELL;
	if (proc_is_alive(a->boot_id, a->runner.pid, a->runner.start_ticks))
		return STORE_ALIVE;
	if (!u64_known(a->pid_ns))
		return STORE_CANNOT_TELL; /* it may be of another namespace, such as a daemon's */
	/* What was attached may have left others behind: only a daemon would know. */
	return a->is_attached ? STORE_CANNOT_TELL : STORE_DEAD;
}

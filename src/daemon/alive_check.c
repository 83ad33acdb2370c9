#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "daemon/daemon.h"

static bool is_own_pid_ns(uint64_t pid_ns)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == pid_ns;
}

static bool is_own_host(const char *host)
{
	char name[256] = "";

	return host && gethostname(name, sizeof(name) - 1) == 0 && strcmp(name, host) == 0;
}

/* A pid says something only to who is in its pid namespace, on its host. */
enum store_alive daemon_check_alive(void *ctx, const struct attempt *a)
{
	char boot_id[ALIVE_BOOT_ID_BYTES];

	(void)ctx;
	proc_boot_id(boot_id);
	if (!boot_id[0] || !a->boot_id[0])
		return STORE_CANNOT_TELL;
	if (strcmp(boot_id, a->boot_id) != 0)
		return is_own_host(a->host) ? STORE_DEAD : STORE_CANNOT_TELL;
	if (!is_own_pid_ns(a->pid_ns))
		return STORE_CANNOT_TELL;
	if (proc_is_alive(a->boot_id, a->runner.pid, a->runner.start_ticks))
		return STORE_ALIVE;
	/* What was attached may have left others behind: only a daemon would know. */
	return a->is_attached ? STORE_CANNOT_TELL : STORE_DEAD;
}

#include "daemon/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/macros.h"
#include "base/num.h"
#include "daemon/notify.h"

void notify_service_manager(const char *state)
{
	CLEANUP(close_fd) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *text = getenv("NOTIFY_SOCKET");
	size_t len = text ? strlen(text) : 0;

	/* A path, or with an @ before it a name of the abstract kind. */
	if (len < 2 || len >= sizeof(address.sun_path) || (text[0] != '/' && text[0] != '@'))
		return;
	memcpy(address.sun_path, text, len);
	if (text[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* It may be gone: then nobody wants to know. */
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

void notify_reloading(void)
{
	struct timespec now;
	char state[64];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%lld",
		 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	notify_service_manager(state);
}

uint64_t notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, wanted;

	if (!usec || num_parse_u64(usec, &us) < 0)
		return 0;
	if (pid && (num_parse_u64(pid, &wanted) < 0 || wanted != (uint64_t)getpid()))
		return 0;
	return us / 2000; /* twice as often as it must be */
}

bool watchdog_is_content(struct watchdog *w, uint64_t n_ticks, double interval_seconds)
{
	w->n_without = n_ticks == w->n_ticks ? w->n_without + 1 : 0;
	w->n_ticks = n_ticks;
	return (double)(w->n_without * w->period_ms) <=
	       interval_seconds * 1000 + 2 * (double)w->period_ms;
}

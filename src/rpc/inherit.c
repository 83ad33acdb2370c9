#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "rpc/server.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static uint64_t read_number(const char *variable)
{
	const char *text = getenv(variable);
	uint64_t v = 0;

	if (!text || num_parse_u64(text, &v) < 0)
		return 0;
	return v;
}

int rpc_take_inherited_fd(struct err *err)
{
	uint64_t pid = read_number("LISTEN_PID"), n = read_number("LISTEN_FDS");

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (pid != (uint64_t)getpid() || n == 0)
		return 0;
	if (n > 1)
		return err_set(err, -EINVAL, "systemd handed over %llu sockets, and one is needed",
			       (unsigned long long)n);
	return FIRST_FD;
}

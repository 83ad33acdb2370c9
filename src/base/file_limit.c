#include "base/file_limit.h"

#include <fcntl.h>

#include "base/macros.h"

void file_limit_raise(struct rlimit *ret)
{
	struct rlimit limit;

	if (ret)
		*ret = (struct rlimit){ 0 };
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (ret)
		*ret = limit;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void file_limit_set(const struct rlimit *limit)
{
	if (limit->rlim_max > 0)
		setrlimit(RLIMIT_NOFILE, limit);
}

/* By taking them: what the limit says is no help to who was started with half of them open. */
bool file_limit_has_room(int fd, size_t n)
{
	CLEANUP(close_fd) int taken = -1;

	if (n == 0)
		return true;
	taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return taken >= 0 && file_limit_has_room(fd, n - 1);
}

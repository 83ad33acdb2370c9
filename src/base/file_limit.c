#include "base/file_limit.h"

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

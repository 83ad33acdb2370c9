#include "daemon/may_hear.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unknown.h"

/* A daemon that is not root's is told no more than its user. */
static bool hears_all(uint64_t uid)
{
	return uid == 0 || geteuid() != 0;
}

bool may_hear(uint64_t uid, uint64_t owner)
{
	return hears_all(uid) || (u64_known(owner) && uid == owner);
}

/* Of one who may not be looked into, root's: unlike that of its folder. */
bool may_hear_of(int root_fd, uint64_t uid, pid_t pid)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "proc/%d/io", (int)pid);
	return hears_all(uid) || (fstatat(root_fd, path, &st, 0) == 0 && may_hear(uid, st.st_uid));
}

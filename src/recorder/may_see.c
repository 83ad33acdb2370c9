#include "recorder/may_see.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unknown.h"

bool may_see(uint64_t uid, uint64_t owner, int root_fd, pid_t pid)
{
	char path[48];
	struct stat st;

	/* To a daemon that is not root's the kernel reports no more than to its user. */
	if (uid == 0 || geteuid() != 0)
		return true;
	if (u64_known(owner) || pid <= 0)
		return u64_known(owner) && uid == owner;
	/* Of one that may not be looked into this file is root's, unlike its folder. */
	snprintf(path, sizeof(path), "proc/%d/io", (int)pid);
	return fstatat(root_fd, path, &st, 0) == 0 && uid == st.st_uid;
}

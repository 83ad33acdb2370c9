#include "recorder/own.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unknown.h"

#define HOST_BYTES 256

const char *own_host(struct arena *arena)
{
	char name[HOST_BYTES] = "";

	return gethostname(name, sizeof(name) - 1) < 0 ? NULL : arena_strdup(arena, name);
}

bool own_host_is(const char *host)
{
	char name[HOST_BYTES] = "";

	return host && gethostname(name, sizeof(name) - 1) == 0 && strcmp(name, host) == 0;
}

uint64_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : U64_UNKNOWN;
}

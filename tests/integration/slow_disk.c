/* For LD_PRELOAD: a disk that takes SLOW_DISK_MS longer for each sync. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_longer(void)
{
	const char *text = getenv("SLOW_DISK_MS");
	long ms = text ? strtol(text, NULL, 10) : 0;
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&pause, NULL);
}

int fsync(int fd)
{
	wait_longer();
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	wait_longer();
	return (int)syscall(SYS_fdatasync, fd);
}

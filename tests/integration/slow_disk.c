/* For LD_PRELOAD: a disk that takes SLOW_DISK_MS longer for each sync, and refuses the first
 * SLOW_DISK_ERRORS of files. */
#include <errno.h>
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
	static int n_refused;
	const char *errors = getenv("SLOW_DISK_ERRORS");

	wait_longer();
	if (errors && n_refused < atoi(errors)) {
		n_refused++;
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

#include "daemon/signal_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/macros.h"

/* The handle is for whoever has the pid now; its start time tells whether that is the one meant. */
int open_process(const struct proc_key *key)
{
	CLEANUP(close_fd) int fd = (int)syscall(SYS_pidfd_open, key->pid, 0);
	uint64_t start_ticks;

	if (fd < 0)
		return -errno;
	if (proc_start_ticks(key->pid, &start_ticks) < 0 || start_ticks != key->start_ticks)
		return -ESRCH;
	return TAKE_FD(fd);
}

int signal_process(const struct proc_key *key, int signal, int value)
{
	CLEANUP(close_fd) int fd = open_process(key);
	siginfo_t info = { .si_signo = signal, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = value;
	if (fd < 0)
		return fd;
	return syscall(SYS_pidfd_send_signal, fd, signal, &info, 0) < 0 ? -errno : 0;
}

#include "daemon/process_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/macros.h"
#include "recorder/recorder.h"

bool caller_is_process_of(pid_t pid, uid_t uid)
{
	struct process_facts facts = { 0 };
	char text[4096];

	if (pid <= 0 || proc_read_text(AT_FDCWD, pid, "status", text, sizeof(text)) <= 0 ||
	    process_facts_parse_status(text, &facts) < 0)
		return false;
	return facts.is_pure && facts.uid == uid;
}

/* Its start time is looked at twice: so the user is that of the same process. */
int caller_find_process(const struct rpc_peer *peer, struct proc_key *ret, struct err *err)
{
	uint64_t start_ticks = 0, again = 0;

	if (peer->pid <= 0 || proc_start_ticks(peer->pid, &start_ticks) < 0 ||
	    !caller_is_process_of(peer->pid, peer->uid) ||
	    proc_start_ticks(peer->pid, &again) < 0 || start_ticks != again)
		return err_set(err, -EOPNOTSUPP, "the daemon cannot see the process that asks");
	*ret = (struct proc_key){ .pid = peer->pid, .start_ticks = start_ticks };
	return 0;
}

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

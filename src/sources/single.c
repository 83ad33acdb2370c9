/*
 * single - looks at one process, or one number, between two ticks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/parse_host.h"
#include "sources/parse_process.h"
#include "sources/rank_env.h"
#include "sources/sources.h"

/* stat and io are far smaller. */
#define SINGLE_TEXT_BYTES 8192

static ssize_t read_file(int root_fd, pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/%s", (int)pid, file);
	return io_read_text_at(root_fd, path, text, size);
}

void sources_read_ending(int root_fd, pid_t pid, struct proc_sample *ret)
{
	long hz = sysconf(_SC_CLK_TCK);
	char text[SINGLE_TEXT_BYTES];
	struct pid_status status;
	struct pid_stat st;

	proc_sample_init(ret);
	ret->key.pid = pid;
	if (read_file(root_fd, pid, "stat", text, sizeof(text)) > 0 &&
	    pid_stat_parse(text, &st) == 0) {
		ret->key.start_ticks = st.start_ticks;
		ret->ppid = st.ppid;
		ret->state = st.state;
		memcpy(ret->comm, st.comm, sizeof(ret->comm));
		ret->user_ns = ticks_to_ns(st.user_ticks, hz);
		ret->system_ns = ticks_to_ns(st.system_ticks, hz);
		ret->cpu_ns = u64_add(ret->user_ns, ret->system_ns);
		ret->child_user_ns = ticks_to_ns(st.child_user_ticks, hz);
		ret->child_system_ns = ticks_to_ns(st.child_system_ticks, hz);
	}
	if (read_file(root_fd, pid, "status", text, sizeof(text)) > 0) {
		pid_status_parse(text, &status);
		ret->ignores_sigchld = status.ignores_sigchld;
	}
}

/*
 * The kernel adds a child's I/O to the account of the process that waits for
 * it, and keeps each thread's own apart. So the process less its only thread is
 * its children. Reading the first file is I/O of ours too, and the second one
 * counts it: one call, of so many bytes.
 */
void sources_read_waited_io(int root_fd, struct io_counts *ret)
{
	char text[SINGLE_TEXT_BYTES];
	struct pid_io all, own;
	ssize_t n;

	*ret = (struct io_counts){ U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN,
				   U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN };
	n = io_read_text_at(root_fd, "proc/self/io", text, sizeof(text));
	if (n <= 0)
		return;
	pid_io_parse(text, &all);
	if (io_read_text_at(root_fd, "proc/thread-self/io", text, sizeof(text)) <= 0)
		return;
	pid_io_parse(text, &own);
	ret->rchar = u64_delta(u64_add(all.rchar, (uint64_t)n), own.rchar);
	ret->wchar = u64_delta(all.wchar, own.wchar);
	ret->syscr = u64_delta(u64_add(all.syscr, 1), own.syscr);
	ret->syscw = u64_delta(all.syscw, own.syscw);
	ret->read_bytes = u64_delta(all.read_bytes, own.read_bytes);
	ret->write_bytes = u64_delta(all.write_bytes, own.write_bytes);
}

uint64_t sources_read_rss(int root_fd, pid_t pid)
{
	char text[SINGLE_TEXT_BYTES];
	struct pid_statm statm;

	if (read_file(root_fd, pid, "statm", text, sizeof(text)) <= 0 ||
	    pid_statm_parse(text, &statm) < 0)
		return U64_UNKNOWN;
	return statm.resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

int sources_read_rank(int root_fd, pid_t pid)
{
	CLEANUP(close_fd) int proc_fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[SINGLE_TEXT_BYTES];

	return rank_env_read(proc_fd, pid, text, sizeof(text)).rank;
}

int sources_read_sheet(int root_fd, pid_t pid, const char *job_id)
{
	CLEANUP(close_fd) int proc_fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[SINGLE_TEXT_BYTES];

	return rank_env_read_sheet(proc_fd, pid, job_id, text, sizeof(text));
}

int sources_read_command(int root_fd, pid_t pid, const struct mask *mask, struct buf *out)
{
	char text[SINGLE_TEXT_BYTES];
	ssize_t n = read_file(root_fd, pid, "cmdline", text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ENODATA;
	mask_command(mask, text, (size_t)n, out);
	return 0;
}

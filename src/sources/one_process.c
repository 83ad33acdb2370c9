/*
 * one_process - looks at one process, or one number, between two ticks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "sources/proc_text.h"
#include "sources/rank_env.h"
#include "sources/sources.h"

/* stat and io are far smaller. */
#define SINGLE_TEXT_BYTES 8192

void sources_read_ending(int root_fd, pid_t pid, struct proc_sample *ret)
{
	long hz = sysconf(_SC_CLK_TCK);
	char text[SINGLE_TEXT_BYTES];
	struct pid_status status;
	struct pid_stat st;

	proc_sample_init(ret);
	ret->key.pid = pid;
	if (proc_read_text(root_fd, pid, "stat", text, sizeof(text)) > 0 &&
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
	if (proc_read_text(root_fd, pid, "status", text, sizeof(text)) > 0) {
		pid_status_parse(text, &status);
		ret->ignores_sigchld = status.ignores_sigchld;
	}
}

/* ---- I/O of children ---- */

static void io_subtract(struct io_counts *from, const struct io_counts *io)
{
#define SUBTRACT(member_, ...) from->member_ = u64_delta(from->member_, io->member_);
	PID_IO(SUBTRACT)
#undef SUBTRACT
}

/*
 * The kernel adds a child's I/O to the account of the process that waits for
 * it, and keeps each thread's own apart. So the process less its threads is
 * its children. Reading the first file is I/O of ours too, and the second one
 * counts it: one call, of so many bytes.
 */
static int read_all_but_this(int root_fd, struct io_counts *ret)
{
	char text[SINGLE_TEXT_BYTES];
	struct io_counts own;
	ssize_t n = io_read_text_at(root_fd, "proc/self/io", text, sizeof(text));

	if (n <= 0)
		return -ENODATA;
	pid_io_parse(text, ret);
	ret->rchar = u64_add(ret->rchar, (uint64_t)n);
	ret->syscr = u64_add(ret->syscr, 1);
	if (io_read_text_at(root_fd, "proc/thread-self/io", text, sizeof(text)) <= 0)
		return -ENODATA;
	pid_io_parse(text, &own);
	io_subtract(ret, &own);
	return 0;
}

static int read_other_threads(int root_fd, struct io_counts *ret)
{
	CLEANUP(dir_close) DIR *dir = dir_open_at(root_fd, "proc/self/task");
	char text[SINGLE_TEXT_BYTES], path[NAME_MAX + sizeof("/io")];
	const struct dirent *e;
	struct io_counts io;

	*ret = (struct io_counts){ 0 };
	if (!dir)
		return -ENODATA;
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "%s/io", e->d_name);
		if (io_read_text_at(dirfd(dir), path, text, sizeof(text)) <= 0)
			return -ENODATA;
		pid_io_parse(text, &io);
#define ADD(member_, ...) ret->member_ = u64_add(ret->member_, io.member_);
		PID_IO(ADD)
#undef ADD
	}
	return 0;
}

#define MAX_LOOKS 10 /* until others have done nothing during one */

static int leave_out_threads(int root_fd, struct io_counts *ret)
{
	struct io_counts before, after;
	int r = read_other_threads(root_fd, &before);

	for (int i = 0; r == 0 && i < MAX_LOOKS; i++) {
		r = read_all_but_this(root_fd, ret);
		if (r == 0)
			r = read_other_threads(root_fd, &after);
		if (r == 0 && memcmp(&before, &after, sizeof(before)) == 0) {
			io_subtract(ret, &after);
			return 0;
		}
		before = after;
	}
	return -EAGAIN;
}

void sources_read_waited_io(int root_fd, bool leaves_out_threads, struct io_counts *ret)
{
	int r = leaves_out_threads ? leave_out_threads(root_fd, ret)
				   : read_all_but_this(root_fd, ret);

	if (r < 0)
		*ret = (struct io_counts){ U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN,
					   U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN };
}

/* ---- the rest ---- */

uint64_t sources_read_rss(int root_fd, pid_t pid)
{
	char text[SINGLE_TEXT_BYTES];
	struct pid_statm statm;

	if (proc_read_text(root_fd, pid, "statm", text, sizeof(text)) <= 0 ||
	    pid_statm_parse(text, &statm) < 0)
		return U64_UNKNOWN;
	return statm.resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t sources_read_pss(int root_fd, pid_t pid)
{
	char text[SINGLE_TEXT_BYTES];
	const char *line;
	uint64_t kb;

	if (proc_read_text(root_fd, pid, "smaps_rollup", text, sizeof(text)) <= 0)
		return U64_UNKNOWN;
	line = strstr(text, "\nPss:");
	return line && sscanf(line, "\nPss: %" SCNu64 " kB", &kb) == 1 && kb < UINT64_MAX / 1024
		       ? kb * 1024
		       : U64_UNKNOWN;
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
	ssize_t n = proc_read_text(root_fd, pid, "cmdline", text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ENODATA;
	mask_command(mask, text, (size_t)n, out);
	return 0;
}

/* ---- what a process has open, by the links in proc/PID/fd ---- */

#define STAT_BYTES 4096
#define MAX_COUNTED 65536 /* entries; a process with more is slow to list */

/* The folder stays that of one process: who takes the pid later has another. */
static int open_process(int root_fd, struct proc_key key)
{
	char path[32], text[STAT_BYTES];
	struct pid_stat st;
	int fd;

	snprintf(path, sizeof(path), "proc/%d", (int)key.pid);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (io_read_text_at(fd, "stat", text, sizeof(text)) > 0 && pid_stat_parse(text, &st) == 0 &&
	    st.start_ticks == key.start_ticks)
		return fd;
	close(fd);
	return -ESRCH;
}

static void add_file(DIR *folder, const char *name, const struct mask *mask,
		     struct anomaly_evidence *e)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	struct anomaly_file *file = &e->files[e->n_files];
	char link[PATH_MAX];
	uint64_t fd;
	size_t length;
	ssize_t n;

	if (num_parse_u64(name, &fd) < 0 || fd > INT_MAX)
		return;
	n = io_read_link_at(dirfd(folder), name, link, sizeof(link));
	if (n < 0)
		return; /* closed meanwhile */
	*file = (struct anomaly_file){ .fd = (int)fd };
	e->n_files++;
	/* A name may be as telling as a command line: it is shown as one. */
	mask_command(mask, link, (size_t)n + 1, &shown);
	length = utf8_cut(shown.data, shown.len, sizeof(file->target) - 1);
	if (buf_error(&shown) == 0)
		memcpy(file->target, shown.data, length);
}

int sources_read_open_files(int root_fd, struct proc_key key, const struct mask *mask,
			    struct anomaly_evidence *e)
{
	CLEANUP(close_fd) int process_fd = open_process(root_fd, key);
	CLEANUP(dir_close) DIR *folder = NULL;
	const struct dirent *entry;
	uint64_t n = 0;

	if (process_fd < 0)
		return process_fd;
	folder = dir_open_at(process_fd, "fd");
	if (!folder)
		return -errno;
	e->n_files = 0;
	while (n < MAX_COUNTED && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		if (e->n_files < ARRAY_SIZE(e->files))
			add_file(folder, entry->d_name, mask, e);
	}
	e->n_files_open = n < MAX_COUNTED ? n : U64_UNKNOWN;
	return 0;
}

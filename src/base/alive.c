#include "base/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"

/* Fields of proc/PID/stat, by their numbers in proc(5). */
#define STAT_STATE 3
#define STAT_PARENT 4
#define STAT_THREADS 20
#define STAT_START 22
#define STAT_BYTES 4096
#define MAX_ANCESTORS 1000 /* parents change while one looks: it is to end */

/* Where a field behind the name begins; NULL: the text is too short. */
static const char *find_field(const char *text, int field)
{
	/* The name (field 2) may hold spaces and parentheses itself. */
	const char *p = strrchr(text, ')');

	for (int i = STAT_STATE - 1; p && i < field; i++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p && *p ? p : NULL;
}

int alive_parse_stat(const char *text, char *ret_state, uint64_t *ret_start_ticks)
{
	const char *state = find_field(text, STAT_STATE), *start = find_field(text, STAT_START);
	const char *count = find_field(text, STAT_THREADS);
	uint64_t start_ticks, n_threads;

	if (!start || state[-2] != ')' || num_scan_u64(&start, &start_ticks) < 0 ||
	    (*start != ' ' && *start != '\n' && *start != '\0'))
		return -EINVAL;
	*ret_state = *state;
	if (*state == 'Z' && num_scan_u64(&count, &n_threads) == 0 && n_threads > 1)
		*ret_state = '?';
	*ret_start_ticks = start_ticks;
	return 0;
}

ssize_t proc_read_text(int root_fd, pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "%sproc/%d/%s", root_fd == AT_FDCWD ? "/" : "", (int)pid,
		 file);
	return io_read_text_at(root_fd, path, text, size);
}

void proc_add_name(struct buf *out, int root_fd, pid_t pid)
{
	char text[65];
	ssize_t n = proc_read_text(root_fd, pid, "comm", text, sizeof(text));

	while (n > 0 && text[n - 1] == '\n')
		n--;
	utf8_add_text(out, text, n > 0 ? (size_t)n : 0);
}

bool proc_is_own_program(pid_t pid)
{
	struct stat own, other;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static int read_stat(int root_fd, pid_t pid, char *ret_state, uint64_t *ret_start_ticks)
{
	char text[STAT_BYTES];
	ssize_t n = proc_read_text(root_fd, pid, "stat", text, sizeof(text));

	return n < 0 ? (int)n : alive_parse_stat(text, ret_state, ret_start_ticks);
}

/* "" where it cannot be read, or does not look like one. */
static void read_boot_id(int root_fd, char ret[ALIVE_BOOT_ID_BYTES])
{
	char text[64];
	ssize_t n = io_read_text_at(root_fd, "proc/sys/kernel/random/boot_id", text, sizeof(text));
	size_t len = n > 0 ? strcspn(text, "\n") : 0;

	if (len >= ALIVE_BOOT_ID_BYTES)
		len = 0;
	memcpy(ret, text, len);
	ret[len] = '\0';
}

bool proc_is_alive_at(int root_fd, const char *boot_id, pid_t pid, uint64_t start_ticks)
{
	char boot_now[ALIVE_BOOT_ID_BYTES], state;
	uint64_t start_now;
	int r;

	read_boot_id(root_fd, boot_now);
	if (boot_id[0] && boot_now[0] && strcmp(boot_id, boot_now) != 0)
		return false;
	r = read_stat(root_fd, pid, &state, &start_now);
	if (r < 0)
		return r != -ENOENT && r != -ESRCH;
	if (state == 'Z' || state == 'X')
		return false;
	return !u64_known(start_ticks) || start_now == start_ticks;
}

/* With -1 the relative paths above fail with EBADF: nothing can be told. */
int proc_open_root(struct err *err)
{
	CLEANUP(close_fd) int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	char self[32];

	if (fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	/* The link has our pid there, and is empty where we are not visible. */
	io_read_link_at(fd, "proc/self", self, sizeof(self));
	if (atoi(self) != getpid() && statfs("/proc", &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC)
		return err_set(err, -EXDEV,
			       PROC_IS_FOREIGN ": mount its own (unshare --mount-proc)");
	return TAKE_FD(fd);
}

bool proc_is_alive(const char *boot_id, pid_t pid, uint64_t start_ticks)
{
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);

	return proc_is_alive_at(root_fd, boot_id, pid, start_ticks);
}

void proc_boot_id(char ret[ALIVE_BOOT_ID_BYTES])
{
	/* That of the kernel is the same in all namespaces. */
	CLEANUP(close_fd) int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	read_boot_id(root_fd, ret);
}

int proc_start_ticks(pid_t pid, uint64_t *ret)
{
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);
	char state;

	return read_stat(root_fd, pid, &state, ret);
}

bool proc_is_ancestor(pid_t pid)
{
	CLEANUP(close_fd) int root_fd = proc_open_root(NULL);
	uint64_t above = (uint64_t)getppid();
	char text[STAT_BYTES];

	for (int i = 0; i < MAX_ANCESTORS && above > 0 && above != (uint64_t)pid; i++) {
		const char *parent = NULL;

		if (above <= INT_MAX &&
		    proc_read_text(root_fd, (pid_t)above, "stat", text, sizeof(text)) >= 0)
			parent = find_field(text, STAT_PARENT);
		if (!parent || num_scan_u64(&parent, &above) < 0)
			return false;
	}
	return pid > 0 && above == (uint64_t)pid;
}

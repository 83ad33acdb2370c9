#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "store/db/db.h"

/* What comes later is not looked at. */
#define MOUNTS_MAX_BYTES (1024 * 1024)

/*
 * " - ext4 /dev/vda ro,errors=continue" ends the line: type, source, options of the file system.
 * Blanks in names are written as \040, so those that stand there are ours.
 */
static bool parse_read_only(const char *line, const char *end)
{
	const char *p = memmem(line, (size_t)(end - line), " - ", 3);

	p = p ? memchr(p + 3, ' ', (size_t)(end - p - 3)) : NULL;
	p = p ? memchr(p + 1, ' ', (size_t)(end - p - 1)) : NULL;
	return p && end - p >= 3 && memcmp(p, " ro", 3) == 0 && (end - p == 3 || p[3] == ',');
}

/* "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw": the id comes first. */
int mount_parse(const char *text, uint64_t mount_id, bool *ret_is_read_only)
{
	const char *end;

	for (const char *line = text; (end = strchr(line, '\n')); line = end + 1) {
		const char *p = line;
		uint64_t id;

		if (num_scan_u64(&p, &id) < 0 || id != mount_id || *p != ' ')
			continue;
		*ret_is_read_only = parse_read_only(p, end);
		return 0;
	}
	return -ENOENT;
}

int mount_read(const char *path, bool *ret_is_read_only)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct statx stx;
	int r;

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_MNT_ID)) /* before Linux 5.8 */
		return -ENODATA;
	r = io_read_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_MAX_BYTES, &text);
	if (r < 0 && r != -EFBIG)
		return r;
	return mount_parse(text.data, stx.stx_mnt_id, ret_is_read_only);
}

/* 0 for what is none here: "-1", "0", or what does not fit. */
static pid_t parse_pid(const char *text)
{
	uint64_t pid;

	return num_parse_u64(text, &pid) < 0 || pid > INT_MAX ? 0 : (pid_t)pid;
}

/* Ours as this /proc has it: it may be that of another pid namespace. */
static pid_t own_pid(void)
{
	char text[32] = "";
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	return n > 0 ? parse_pid(text) : getpid();
}

static void close_folder(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The descriptor by which the process has the file open; -1: it has not. */
static int find_open(pid_t pid, const struct stat *file)
{
	CLEANUP(close_folder) DIR *dir = NULL;
	const struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		struct stat st;
		uint64_t fd;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_dev == file->st_dev &&
		    st.st_ino == file->st_ino && num_parse_u64(entry->d_name, &fd) == 0)
			return (int)fd;
	}
	return -1;
}

/* ---- who has a lock ---- */

/*
 * Where a lock keeps others waiting. The one writer of a log comes first. Readers
 * hold up the writer of a rollback journal; where there is a log they do not, and
 * have their lock as long as they have the file open.
 */
static const struct {
	const char *suffix;
	off_t first, last;
	bool by_readers;
} spots[] = {
	{ "-shm", LOCK_LOG_WRITER, LOCK_LOG_WRITER, false },
	{ "-shm", LOCK_LOG_RECOVERY, LOCK_LOG_RECOVERY, false },
	{ "-shm", LOCK_LOG_SETUP, LOCK_LOG_SETUP, false },
	{ "", LOCK_PENDING, LOCK_LAST, false },
	{ "", LOCK_SHARED, LOCK_LAST, true },
};

pid_t lock_owner_find(const char *db_path)
{
	/* The -shm lies beside the file, not beside a link to it. */
	CLEANUP(free_ptr) char *real = realpath(db_path, NULL);
	bool has_log = false;

	for (size_t i = 0; real && i < ARRAY_SIZE(spots); i++) {
		struct flock lock = { .l_type = spots[i].by_readers ? F_WRLCK : F_RDLCK,
				      .l_whence = SEEK_SET,
				      .l_start = spots[i].first,
				      .l_len = spots[i].last - spots[i].first + 1 };
		char path[PATH_MAX + 8];
		struct stat st;
		int fd;

		snprintf(path, sizeof(path), "%s%s", real, spots[i].suffix);
		if (stat(path, &st) < 0 || (spots[i].by_readers && has_log))
			continue;
		has_log = has_log || spots[i].suffix[0];
		fd = find_open(own_pid(), &st);
		if (fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
			return lock.l_pid > 0 ? lock.l_pid : 0;
	}
	return 0;
}

/* ---- who has it open ---- */

pid_t lock_owner_find_opener(const struct stat *file)
{
	CLEANUP(close_folder) DIR *proc = opendir("/proc");
	const struct dirent *entry;
	pid_t self = own_pid();

	while (proc && (entry = readdir(proc))) {
		pid_t pid = parse_pid(entry->d_name);

		if (pid > 0 && pid != self && find_open(pid, file) >= 0)
			return pid;
	}
	return 0;
}

/* A process names itself as it likes. */
void lock_owner_describe(pid_t pid, char ret[LOCK_OWNER_BYTES])
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;

	if (pid > 0)
		proc_add_name(&name, AT_FDCWD, pid);
	if (pid <= 0)
		snprintf(ret, LOCK_OWNER_BYTES, "another process");
	else if (name.len > 0)
		snprintf(ret, LOCK_OWNER_BYTES, "process %d (%s)", (int)pid, name.data);
	else
		snprintf(ret, LOCK_OWNER_BYTES, "process %d", (int)pid);
}

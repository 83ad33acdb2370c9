#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/utf8.h"
#include "store/db/db.h"

/* What comes later is not looked at. */
#define MOUNTS_MAX_BYTES (1024 * 1024)

/* "1 254:0 ": behind the id. */
static int parse_device(const char *p, dev_t *ret)
{
	uint64_t parent, major, minor;

	if (num_scan_u64(&p, &parent) < 0 || *p++ != ' ' || num_scan_u64(&p, &major) < 0 ||
	    *p++ != ':' || num_scan_u64(&p, &minor) < 0 || *p != ' ')
		return -EINVAL;
	if (major > UINT32_MAX || minor > UINT32_MAX)
		return -ERANGE;
	*ret = makedev((unsigned)major, (unsigned)minor);
	return 0;
}

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
int mount_parse(const char *text, uint64_t mount_id, struct mount_found *ret)
{
	const char *end;

	for (const char *line = text; (end = strchr(line, '\n')); line = end + 1) {
		struct mount_found found = { 0 };
		const char *p = line;
		uint64_t id;
		int r;

		if (num_scan_u64(&p, &id) < 0 || id != mount_id || *p++ != ' ')
			continue;
		r = parse_device(p, &found.device);
		if (r < 0)
			return r;
		found.is_read_only = parse_read_only(p, end);
		*ret = found;
		return 0;
	}
	return -ENOENT;
}

int mount_read(const char *path, struct mount_found *ret)
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
	return mount_parse(text.data, stx.stx_mnt_id, ret);
}

/* Of /proc/locks: some 4,000 locks; what comes later is not looked at. */
#define LOCKS_MAX_BYTES (256 * 1024)

/* 0 for what is none here: "-1", "0", or what does not fit. */
static pid_t parse_pid(const char *text)
{
	uint64_t pid;

	return num_parse_u64(text, &pid) < 0 || pid > INT_MAX ? 0 : (pid_t)pid;
}

static bool parse_offset(const char *text, uint64_t *ret)
{
	*ret = UINT64_MAX;
	return strcmp(text, "EOF") == 0 || num_parse_u64(text, ret) == 0;
}

/* "1: POSIX  ADVISORY  WRITE 4711 fe:00:1101 120 120", and "-> " before POSIX of who waits. */
pid_t lock_owner_parse(const char *text, const struct lock_place *places, size_t n, pid_t own_pid)
{
	size_t best = n;
	pid_t owner = 0;
	const char *end;

	/* A line without its end was cut: its last number may be another. */
	for (const char *at = text; (end = strchr(at, '\n')); at = end + 1) {
		char line[160], class[16], type[16], pid[24], file[48], first[24], last[24], more;
		uint64_t first_byte, last_byte;
		bool is_write;

		snprintf(line, sizeof(line), "%.*s", (int)(end - at < 159 ? end - at : 159), at);
		if (sscanf(line, "%*s %15s %*s %15s %23s %47s %23s %23s %c", class, type, pid, file,
			   first, last, &more) != 6 ||
		    (strcmp(class, "POSIX") != 0 && strcmp(class, "OFDLCK") != 0) ||
		    !parse_offset(first, &first_byte) || !parse_offset(last, &last_byte) ||
		    parse_pid(pid) == own_pid)
			continue;
		is_write = strcmp(type, "WRITE") == 0;
		for (size_t i = 0; i < best && (is_write || strcmp(type, "READ") == 0); i++) {
			if ((!is_write && !places[i].by_readers) || strcmp(file, places[i].file) ||
			    first_byte > places[i].last || last_byte < places[i].first)
				continue;
			best = i;
			owner = parse_pid(pid);
		}
	}
	return owner;
}

/* ---- looking ---- */

/*
 * Where a lock keeps others waiting. The one writer of a log comes first. Readers
 * hold up the writer of a rollback journal; where there is a log they do not, and
 * have their lock as long as they have the file open.
 */
static const struct {
	const char *suffix;
	uint64_t first, last;
	bool by_readers;
} spots[] = {
	{ "-shm", LOCK_LOG_WRITER, LOCK_LOG_WRITER, false },
	{ "-shm", LOCK_LOG_RECOVERY, LOCK_LOG_RECOVERY, false },
	{ "-shm", LOCK_LOG_SETUP, LOCK_LOG_SETUP, false },
	{ "", LOCK_PENDING, LOCK_LAST, false },
	{ "", LOCK_SHARED, LOCK_LAST, true },
};

/* device 0: the one that stat() tells. */
static size_t list_places(const char *db_path, dev_t device,
			  struct lock_place ret[ARRAY_SIZE(spots)])
{
	bool has_log = false;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(spots); i++) {
		char path[PATH_MAX + 8];
		struct stat st;

		snprintf(path, sizeof(path), "%s%s", db_path, spots[i].suffix);
		if (stat(path, &st) < 0 || (spots[i].by_readers && has_log))
			continue;
		has_log = has_log || spots[i].suffix[0];
		ret[n].first = spots[i].first;
		ret[n].last = spots[i].last;
		ret[n].by_readers = spots[i].by_readers;
		if (!device)
			device = st.st_dev;
		snprintf(ret[n].file, sizeof(ret[n].file), "%02x:%02x:%llu", major(device),
			 minor(device), (unsigned long long)st.st_ino);
		n++;
	}
	return n;
}

/* Ours as this /proc has it: it may be that of another pid namespace. */
static pid_t own_pid(void)
{
	char text[32] = "";
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	return n > 0 ? parse_pid(text) : getpid();
}

static pid_t look_up(const char *locks, const char *db_path, dev_t device)
{
	struct lock_place places[ARRAY_SIZE(spots)];
	size_t n = list_places(db_path, device, places);

	return lock_owner_parse(locks, places, n, own_pid());
}

pid_t lock_owner_find(const char *db_path)
{
	CLEANUP(buf_release) struct buf locks = BUF_INIT;
	/* The -shm lies beside the file, not beside a link to it. */
	CLEANUP(free_ptr) char *real = realpath(db_path, NULL);
	struct mount_found mount;
	pid_t pid;
	int r;

	if (!real)
		return 0;
	r = io_read_at(AT_FDCWD, "/proc/locks", LOCKS_MAX_BYTES, &locks);
	if (r < 0 && r != -EFBIG)
		return 0;
	pid = look_up(locks.data, real, 0);
	/* What stat() tells is not always what /proc/locks tells: btrfs has a device for each
	 * subvolume, overlayfs may show that of a layer. */
	if (pid == 0 && locks.len > 0 && mount_read(real, &mount) == 0)
		pid = look_up(locks.data, real, mount.device);
	return pid;
}

/* ---- who has it open ---- */

static void close_folder(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static bool has_open(pid_t pid, const struct stat *file)
{
	CLEANUP(close_folder) DIR *dir = NULL;
	const struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		struct stat st;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_dev == file->st_dev &&
		    st.st_ino == file->st_ino)
			return true;
	}
	return false;
}

pid_t lock_owner_find_opener(const struct stat *file)
{
	CLEANUP(close_folder) DIR *proc = opendir("/proc");
	const struct dirent *entry;
	pid_t self = own_pid();

	while (proc && (entry = readdir(proc))) {
		pid_t pid = parse_pid(entry->d_name);

		if (pid > 0 && pid != self && has_open(pid, file))
			return pid;
	}
	return 0;
}

/* A process names itself as it likes. */
void lock_owner_describe(pid_t pid, char ret[LOCK_OWNER_BYTES])
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;
	char path[64], text[65];
	ssize_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (pid > 0)
		n = io_read_text_at(AT_FDCWD, path, text, sizeof(text));
	if (n > 0 && text[n - 1] == '\n')
		n--;
	for (ssize_t i = 0; i < n;)
		i += (ssize_t)utf8_add_shown(&name, text + i, (size_t)(n - i));
	if (pid <= 0)
		snprintf(ret, LOCK_OWNER_BYTES, "another process");
	else if (name.len > 0)
		snprintf(ret, LOCK_OWNER_BYTES, "process %d (%s)", (int)pid, name.data);
	else
		snprintf(ret, LOCK_OWNER_BYTES, "process %d", (int)pid);
}

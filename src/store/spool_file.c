#include "store/spool_file.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/macros.h"
#include "store/spool_open.h"

#define MAGIC "PctrEnd1"
#define ASIDE ".damaged-"
#define HEAD_BYTES 64  /* the rest of it is zeros */
#define FRAME_BYTES 12 /* before a record: its length, and its hash */

/*
 * Who takes records out holds the lock for one transaction. The end of a run is worth more
 * waiting than that, and than any call waits for the database.
 */
#define APPEND_PATIENCE_NS UINT64_C(15000000000)

struct head {
	char magic[8];
	uint64_t used; /* bytes of records, little-endian */
};

/* ---- bytes ---- */

static int write_at(int fd, const void *bytes, size_t n, off_t offset)
{
	for (size_t done = 0; done < n;) {
		ssize_t written =
			pwrite(fd, (const char *)bytes + done, n - done, offset + (off_t)done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		done += (size_t)written;
	}
	return 0;
}

static int read_at(int fd, void *bytes, size_t n, off_t offset)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(fd, (char *)bytes + done, n - done, offset + (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		done += (size_t)got;
	}
	return 0;
}

/* ---- making it ---- */

/* Behind what is there: another may have put a record into it, or was killed while it did this. */
static void fill_up(int fd)
{
	static const char zeros[SPOOL_BYTES];
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size >= SPOOL_BYTES)
		return;
	if (write_at(fd, zeros, sizeof(zeros) - (size_t)st.st_size, st.st_size) == 0)
		fdatasync(fd); /* else who comes next tries again */
}

void spool_file_prepare(const char *db_path)
{
	CLEANUP(free_ptr) char *name = spool_name(db_path);
	CLEANUP(close_fd) int fd = -1;
	struct stat st;

	if (!name || (lstat(name, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size >= SPOOL_BYTES)))
		return;
	if (spool_open_or_make(db_path, 0, &fd) < 0)
		return;
	fill_up(fd);
	spool_sync_folder(db_path);
}

char *spool_file_aside_name(const char *db_path, uint64_t wall_ns)
{
	char *name = NULL;

	return asprintf(&name, "%s-spool" ASIDE "%llu", db_path, (unsigned long long)wall_ns) < 0
		       ? NULL
		       : name;
}

int spool_file_set_aside(const char *db_path, uint64_t wall_ns)
{
	CLEANUP(free_ptr) char *from = spool_name(db_path);
	CLEANUP(free_ptr) char *to = spool_file_aside_name(db_path, wall_ns);

	if (!from || !to)
		return -ENOMEM;
	if (rename(from, to) < 0)
		return -errno;
	spool_file_prepare(db_path);
	return spool_sync_folder(db_path);
}

static void close_folder(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

size_t spool_file_find_aside(const char *db_path, struct buf *out)
{
	CLEANUP(free_ptr) char *prefix = NULL, *folder = strdup(db_path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	CLEANUP(close_folder) DIR *dir = NULL;
	const struct dirent *entry;
	size_t n = 0;

	if (!folder || asprintf(&prefix, "%s-spool" ASIDE, slash ? slash + 1 : folder) < 0)
		return 0;
	if (slash)
		slash[1] = '\0';
	dir = opendir(slash ? folder : ".");
	while (dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && n++ == 0)
			buf_printf(out, "%s%s", slash ? folder : "", entry->d_name);
	return n;
}

/* ---- its head ---- */

/* How many bytes are records; a file of zeros has none. */
static int read_used(int fd, uint64_t *ret)
{
	struct head head;
	int r = read_at(fd, &head, sizeof(head), 0);

	*ret = 0;
	if (r == -EBADMSG) /* it was just made */
		return 0;
	if (r < 0)
		return r;
	if (head.magic[0] == '\0')
		return 0;
	if (memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0)
		return -EBADMSG;
	*ret = le64toh(head.used);
	return *ret > SPOOL_MAX_BYTES ? -EBADMSG : 0;
}

static int write_used(int fd, uint64_t used)
{
	struct head head = { .used = htole64(used) };
	int r;

	memcpy(head.magic, MAGIC, sizeof(head.magic));
	r = write_at(fd, &head, sizeof(head), 0);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	return r;
}

bool spool_file_has_records(const char *db_path)
{
	CLEANUP(close_fd) int fd = -1;
	uint64_t used = 0;

	if (spool_open(db_path, O_RDONLY, &fd) < 0)
		return false;
	return read_used(fd, &used) < 0 || used > 0;
}

/* ---- records ---- */

/* Behind the others; what is there of it if this fails is no record. */
static int append(int fd, const struct buf *frame)
{
	uint64_t used = 0;
	int r = read_used(fd, &used);

	if (r == 0 && used + frame->len > SPOOL_MAX_BYTES)
		r = -EFBIG;
	if (r == 0)
		r = write_at(fd, frame->data, frame->len, HEAD_BYTES + (off_t)used);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	return r < 0 ? r : write_used(fd, used + frame->len);
}

/* What was no spool of ours is left as it is. */
int spool_file_append(const char *db_path, const void *bytes, size_t n)
{
	CLEANUP(buf_release) struct buf frame = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	uint32_t len = htole32((uint32_t)n);
	uint64_t hash = htole64(hash_bytes(HASH_INIT, bytes, n));
	int r;

	if (n > SPOOL_MAX_BYTES)
		return -EFBIG;
	buf_add(&frame, (const char *)&len, sizeof(len));
	buf_add(&frame, (const char *)&hash, sizeof(hash));
	buf_add(&frame, bytes, n);
	r = buf_error(&frame);
	if (r == 0)
		r = spool_open_or_make(db_path, APPEND_PATIENCE_NS, &fd);
	if (r == 0)
		r = append(fd, &frame);
	return r < 0 ? r : spool_sync_folder(db_path); /* who made it may have been killed since */
}

int spool_file_open(const char *db_path, int *ret_fd)
{
	return spool_open_locked(db_path, O_RDWR, 0, ret_fd);
}

int spool_file_read(int fd, struct buf *ret)
{
	uint64_t used = 0;
	int r = read_used(fd, &used);

	if (r < 0 || used == 0)
		return r;
	if (buf_reserve(ret, (size_t)used) < 0)
		return -ENOMEM;
	r = read_at(fd, ret->data, (size_t)used, HEAD_BYTES);
	if (r == 0)
		ret->len = (size_t)used;
	return r;
}

int spool_file_clear(int fd)
{
	return write_used(fd, 0);
}

int spool_next(const char **at, const char *end, const void **ret, size_t *ret_len)
{
	const char *frame = *at, *record;
	uint32_t len;
	uint64_t hash;

	if (frame == end)
		return 0;
	*at = end;
	if (end - frame < FRAME_BYTES)
		return -EBADMSG;
	memcpy(&len, frame, sizeof(len));
	memcpy(&hash, frame + sizeof(len), sizeof(hash));
	len = le32toh(len);
	record = frame + FRAME_BYTES;
	if (len > (size_t)(end - record))
		return -EBADMSG;
	*at = record + len;
	if (hash_bytes(HASH_INIT, record, len) != le64toh(hash))
		return -EBADMSG;
	*ret = record;
	*ret_len = len;
	return 1;
}

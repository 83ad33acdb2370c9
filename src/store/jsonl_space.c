#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "store/jsonl.h"
#include "store/jsonl_file.h"

static uint64_t size_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Of the files from this one on. */
static uint64_t count_from(const char *path, size_t first)
{
	CLEANUP(jsonl_names_release) struct jsonl_names names;
	uint64_t n = 0;

	if (jsonl_names_init(&names, path) < 0)
		return 0;
	for (size_t i = first; i < JSONL_FILES; i++)
		n += size_of(names.names[i]);
	return n;
}

uint64_t jsonl_count_bytes(const char *path)
{
	return count_from(path, 0);
}

uint64_t jsonl_count_rotated_bytes(const char *path)
{
	return count_from(path, 1);
}

/* Nobody rotates while we hold the log: what is the oldest stays it. */
static int lock_log(const char *name, struct jsonl_file *ret)
{
	int r = jsonl_file_open(name, O_RDONLY, ret);

	if (r < 0)
		return r;
	if (flock(ret->fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return jsonl_file_is_at(ret, name) ? 0 : -EBUSY;
}

int jsonl_drop_oldest(const char *path)
{
	CLEANUP(jsonl_names_release) struct jsonl_names names;
	CLEANUP(jsonl_file_close) struct jsonl_file log = JSONL_FILE_NONE;
	int r = jsonl_names_init(&names, path);

	if (r == 0)
		r = lock_log(names.names[0], &log);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = JSONL_FILES - 1; i > 0; i--) {
		if (unlink(names.names[i]) == 0)
			return 1;
		if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

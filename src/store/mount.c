#include "store/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"

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

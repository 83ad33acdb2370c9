#include "store/vfs_frames.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEAD_BYTES 24 /* of a frame: its page follows */
#define COMMIT_AT 4   /* in the head, four bytes: 0 if others of its transaction follow */
#define HELD_BYTES (16 * (HEAD_BYTES + 4096))

/* Found by the file's methods, which are its first member. */
struct frames {
	sqlite3_io_methods methods; /* those of the VFS below, but for some */
	const sqlite3_io_methods *below;
	sqlite3_int64 at; /* in the file, of the first byte that is held */
	int n;		  /* bytes that are held */
	bool is_page_next, is_last;
	char *bytes;
};

static struct frames *frames_of(sqlite3_file *file)
{
	return (struct frames *)(uintptr_t)file->pMethods;
}

/* The VFS below may know the file by its methods: it gets it as it has opened it. */
static struct frames *step_down(sqlite3_file *file)
{
	struct frames *f = frames_of(file);

	file->pMethods = f->below;
	return f;
}

static int step_up(sqlite3_file *file, const struct frames *f, int r)
{
	file->pMethods = &f->methods;
	return r;
}

static int write_below(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
	struct frames *f = step_down(file);

	return step_up(file, f, f->below->xWrite(file, bytes, n, at));
}

static int let_go(sqlite3_file *file)
{
	struct frames *f = frames_of(file);
	int n = f->n;

	f->n = 0;
	f->is_page_next = false;
	return n > 0 ? write_below(file, f->bytes, n, f->at) : SQLITE_OK;
}

/* Only the head of a frame, and the page of one that is held. */
static bool is_of_frame(const struct frames *f, int n, sqlite3_int64 at)
{
	if (f->n > 0 && at != f->at + f->n)
		return false;
	return f->n + n <= HELD_BYTES && (f->is_page_next ? f->n > 0 : n == HEAD_BYTES);
}

static void hold(struct frames *f, const void *bytes, int n, sqlite3_int64 at)
{
	static const char none[4];

	if (f->n == 0)
		f->at = at;
	memcpy(f->bytes + f->n, bytes, (size_t)n);
	f->n += n;
	if (!f->is_page_next)
		f->is_last = memcmp((const char *)bytes + COMMIT_AT, none, sizeof(none)) != 0;
	f->is_page_next = !f->is_page_next;
}

static int write_frames(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
	struct frames *f = frames_of(file);
	int r = SQLITE_OK;

	if (!is_of_frame(f, n, at))
		r = let_go(file);
	if (r != SQLITE_OK)
		return r;
	if (!is_of_frame(f, n, at))
		return write_below(file, bytes, n, at);
	hold(f, bytes, n, at);
	return f->is_last && !f->is_page_next ? let_go(file) : SQLITE_OK;
}

static int read_frames(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
	int r = let_go(file);
	struct frames *f = step_down(file);

	return step_up(file, f, r == SQLITE_OK ? f->below->xRead(file, bytes, n, at) : r);
}

static int truncate_frames(sqlite3_file *file, sqlite3_int64 bytes)
{
	int r = let_go(file);
	struct frames *f = step_down(file);

	return step_up(file, f, r == SQLITE_OK ? f->below->xTruncate(file, bytes) : r);
}

static int sync_frames(sqlite3_file *file, int flags)
{
	int r = let_go(file);
	struct frames *f = step_down(file);

	return step_up(file, f, r == SQLITE_OK ? f->below->xSync(file, flags) : r);
}

static int size_frames(sqlite3_file *file, sqlite3_int64 *ret)
{
	int r = let_go(file);
	struct frames *f = step_down(file);

	return step_up(file, f, r == SQLITE_OK ? f->below->xFileSize(file, ret) : r);
}

static int close_frames(sqlite3_file *file)
{
	int r = let_go(file), closed;
	struct frames *f = step_down(file);

	sqlite3_free(f->bytes);
	closed = f->below->xClose(file);
	return closed != SQLITE_OK ? closed : r;
}

int vfs_frames_bytes(void)
{
	return (int)sizeof(struct frames);
}

void vfs_frames_hold(sqlite3_file *file, int distance)
{
	struct frames *f = (struct frames *)((char *)file + distance);
	char *bytes = file->pMethods ? sqlite3_malloc(HELD_BYTES) : NULL;

	if (!bytes)
		return;
	*f = (struct frames){ .methods = *file->pMethods, .below = file->pMethods, .bytes = bytes };
	f->methods.xWrite = write_frames;
	f->methods.xRead = read_frames;
	f->methods.xTruncate = truncate_frames;
	f->methods.xSync = sync_frames;
	f->methods.xFileSize = size_frames;
	f->methods.xClose = close_frames;
	file->pMethods = &f->methods;
}

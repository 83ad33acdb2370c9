#include "cli/outflow.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/io.h"

#define PATIENCE_MS 1000

/* 1: it takes up to PIPE_BUF bytes at once. 0: not within the time. */
static int wait_until_taken(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int r = poll(&out, 1, PATIENCE_MS);

	if (r < 0 && errno != EINTR)
		return -errno;
	return r != 0;
}

static ssize_t write_some(const char *bytes, size_t n)
{
	ssize_t written = write(STDOUT_FILENO, bytes, n < PIPE_BUF ? n : PIPE_BUF);

	if (written < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	return written < 0 ? -errno : written;
}

/* Where there is no room for a file the writer has to wait after all. */
static int keep(struct outflow *flow, const char *bytes, size_t n)
{
	if (!flow->kept)
		flow->kept = tmpfile();
	return io_write_all(flow->kept ? fileno(flow->kept) : STDOUT_FILENO, bytes, n);
}

int outflow_write(struct outflow *flow, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0 && !flow->kept) {
		ssize_t r = wait_until_taken();

		if (r == 0)
			break;
		if (r > 0)
			r = write_some(p, n);
		if (r < 0)
			return (int)r;
		p += r;
		n -= (size_t)r;
	}
	return n > 0 ? keep(flow, p, n) : 0;
}

int outflow_finish(struct outflow *flow)
{
	char bytes[65536];
	off_t at = 0;

	while (flow->kept) {
		ssize_t n = pread(fileno(flow->kept), bytes, sizeof(bytes), at);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = io_write_all(STDOUT_FILENO, bytes, (size_t)n);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

void outflow_release(struct outflow *flow)
{
	if (flow->kept)
		fclose(flow->kept);
	flow->kept = NULL;
}

#include "rpc/wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "rpc/address.h"

#define NS_PER_MS UINT64_C(1000000)
#define CONNECT_RETRY_MS 10

uint64_t wire_deadline(uint64_t timeout_ms)
{
	uint64_t now_ns = clock_boot_ns();

	if (timeout_ms > (UINT64_MAX - now_ns) / NS_PER_MS)
		return UINT64_MAX;
	return now_ns + timeout_ms * NS_PER_MS;
}

/* For poll(): -1 without a deadline; rounded up, so that it is over when poll() says so. */
static int ms_left(uint64_t deadline_ns)
{
	uint64_t now_ns = clock_boot_ns(), ms;

	if (deadline_ns == UINT64_MAX)
		return -1;
	if (deadline_ns <= now_ns)
		return 0;
	ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r = poll(&p, 1, ms_left(deadline_ns));

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r == 0 && clock_boot_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

/* ---- connecting ---- */

/* Not beyond the deadline. */
static void pause_before(uint64_t deadline_ns)
{
	uint64_t now_ns = clock_boot_ns(), ns = CONNECT_RETRY_MS * NS_PER_MS;

	if (now_ns < deadline_ns && deadline_ns - now_ns < ns)
		ns = deadline_ns - now_ns;
	nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

static int connect_patiently(const struct address *address, uint64_t deadline_ns)
{
	for (;;) {
		int fd = address_connect(address);

		/* A Unix socket does not say when there is room among those who wait. */
		if (fd != -EAGAIN && fd != -EINTR)
			return fd;
		if (clock_boot_ns() >= deadline_ns)
			return -ETIMEDOUT;
		pause_before(deadline_ns);
	}
}

static int check_daemon(int fd, const char *path, pid_t *ret_pid, struct err *err)
{
	CLEANUP(rpc_peer_release) struct rpc_peer peer = { 0 };
	int r = rpc_peer_read(fd, &peer, err);

	if (r < 0)
		return r;
	if (peer.uid != 0 && peer.uid != geteuid())
		return err_set(err, -EPERM,
			       "on %s listens uid %u, who is neither root nor this user", path,
			       (unsigned)peer.uid);
	*ret_pid = peer.pid;
	return 0;
}

int wire_connect(const char *path, uint64_t deadline_ns, int *ret_fd, pid_t *ret_pid,
		 struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	struct address address;
	int r;

	r = address_of_path(path, &address, err);
	if (r < 0)
		return r;
	fd = connect_patiently(&address, deadline_ns);
	if (fd < 0)
		return err_set(err, fd, "cannot connect to %s: %s", path, strerror(-fd));
	r = check_daemon(fd, path, ret_pid, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- writing and reading ---- */

int wire_write(struct wire *w, const char *bytes, size_t n, uint64_t deadline_ns)
{
	while (n > 0) {
		ssize_t done = send(w->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		int r = 0;

		if (done >= 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (errno == EAGAIN) {
			r = wait_for(w->fd, POLLOUT, deadline_ns);
		} else if (errno != EINTR) {
			r = errno == EPIPE ? -ECONNRESET : -errno;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* At least one byte. */
static int wire_fill(struct wire *w, uint64_t deadline_ns)
{
	for (;;) {
		ssize_t n = recv(w->fd, w->chunk, sizeof(w->chunk), MSG_DONTWAIT);
		int r = 0;

		if (n > 0) {
			w->bytes = w->chunk;
			w->n_bytes = (size_t)n;
			return 0;
		}
		if (n == 0)
			return -ECONNRESET;
		if (errno == EAGAIN)
			r = wait_for(w->fd, POLLIN, deadline_ns);
		else if (errno != EINTR)
			r = -errno;
		if (r < 0)
			return r;
	}
}

int wire_read(struct wire *w, uint64_t deadline_ns, const char **ret_line, size_t *ret_len)
{
	for (;;) {
		int r = lines_next(&w->lines, &w->bytes, &w->n_bytes, ret_line, ret_len);

		if (r != 0)
			return r < 0 ? r : 0;
		r = wire_fill(w, deadline_ns);
		if (r < 0)
			return r;
	}
}

bool wire_has_line(const struct wire *w)
{
	return w->n_bytes > 0 && memchr(w->bytes, '\n', w->n_bytes);
}

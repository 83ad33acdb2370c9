#include "rpc/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "rpc/server.h"

/* ---- addresses ---- */

int address_of_path(const char *path, struct address *ret, struct err *err)
{
	size_t n = strlen(path), max = sizeof(ret->un.sun_path) - 1;

	if (n == 0)
		return err_set(err, -ENOENT, "the path of the socket is empty");
	if (n > max)
		return err_set(
			err, -ENAMETOOLONG,
			"the path of the socket has %zu bytes, and a Unix socket's at most %zu: %s",
			n, max, path);
	*ret = (struct address){ .un.sun_family = AF_UNIX };
	memcpy(ret->un.sun_path, path, n + 1);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	return 0;
}

int address_connect(const struct address *address)
{
	CLEANUP(close_fd)
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address->un, address->len) < 0)
		return -errno;
	return TAKE_FD(fd);
}

#define BACKLOG 512 /* as many as a default server takes; the kernel cuts it to its own limit */

/* ---- the folder ---- */

static int check_folder(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(free_ptr)
	char *dir = !slash	    ? strdup(".")
		    : slash == path ? strdup("/")
				    : strndup(path, (size_t)(slash - path));
	struct stat st;

	if (!dir)
		return err_set(err, -ENOMEM, "out of memory");
	if (stat(dir, &st) < 0)
		return err_set(err, -errno, "cannot use the folder %s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "%s is not a folder", dir);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM,
			       "the folder %s belongs to another user (uid %u), who could replace "
			       "the socket",
			       dir, (unsigned)st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return err_set(err, -EPERM,
			       "others may write into the folder %s, and could replace the socket; "
			       "chmod go-w would help",
			       dir);
	return 0;
}

/* ---- the lock ---- */

static int refuse_live(const char *path, pid_t pid, struct err *err)
{
	if (pid > 0)
		return err_set(err, -EADDRINUSE, "another daemon (pid %d) listens on %s", (int)pid,
			       path);
	return err_set(err, -EADDRINUSE, "another daemon listens on %s", path);
}

/* The holder of the lock writes its pid into the file, for the message of a second daemon. */
static int lock_path_of(const char *path, int *ret_fd, struct err *err)
{
	CLEANUP(free_ptr) char *lock_path = NULL;
	CLEANUP(close_fd) int fd = -1;
	struct stat st;
	char text[32];
	ssize_t n;

	if (asprintf(&lock_path, "%s.lock", path) < 0) {
		lock_path = NULL;
		return err_set(err, -ENOMEM, "out of memory");
	}
	fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
		  0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", lock_path, strerror(errno));
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot use %s: %s", lock_path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, -EPERM, "%s is not a file of this user", lock_path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		uint64_t pid = 0;

		if (errno != EWOULDBLOCK)
			return err_set(err, -errno, "cannot lock %s: %s", lock_path,
				       strerror(errno));
		n = io_pread_text(fd, text, sizeof(text));
		if (n <= 0 || num_parse_u64_n(text, (size_t)n - (text[n - 1] == '\n'), &pid) < 0 ||
		    pid >= INT32_MAX)
			pid = 0;
		return refuse_live(path, (pid_t)pid, err);
	}
	n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0)
		errno = 0; /* the message would lack the pid */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- what is at the path already ---- */

static int remove_stale(const char *path, const struct address *address, struct err *err)
{
	CLEANUP(rpc_peer_release) struct rpc_peer peer = { 0 };
	CLEANUP(close_fd) int fd = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : err_set(err, -errno, "cannot use %s: %s", path, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return err_set(err, -ELOOP,
			       "%s is a symbolic link; a socket is not made through one", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "%s is there, and is not a socket", path);
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM, "the socket %s belongs to another user (uid %u)", path,
			       (unsigned)st.st_uid);
	fd = address_connect(address);
	if (fd >= 0 || fd == -EAGAIN) {
		if (fd >= 0)
			(void)rpc_peer_read(fd, &peer, NULL);
		return refuse_live(path, peer.pid, err);
	}
	if (fd != -ECONNREFUSED && fd != -ENOENT)
		return err_set(err, fd, "cannot tell whether somebody listens on %s: %s", path,
			       strerror(-fd));
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "cannot replace the old socket %s: %s", path,
			       strerror(errno));
	return 0;
}

/* ---- the socket ---- */

static int make_socket(const char *path, const struct address *address, mode_t mode,
		       struct err *err)
{
	CLEANUP(close_fd)
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address->un, address->len) < 0)
		return err_set(err, -errno, "cannot make the socket %s: %s", path, strerror(errno));
	/* Nobody can connect before listen(): so nobody gets in before the mode is right. */
	if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0) {
		int r = err_set(err, -errno, "cannot listen on %s: %s", path, strerror(errno));

		unlink(path);
		return r;
	}
	return TAKE_FD(fd);
}

int listener_open(const char *path, mode_t mode, struct listener *ret, struct err *err)
{
	CLEANUP(listener_close) struct listener l = LISTENER_INIT;
	struct address address;
	struct stat st;
	int r;

	r = address_of_path(path, &address, err);
	if (r == 0)
		r = check_folder(path, err);
	if (r == 0)
		r = lock_path_of(path, &l.lock_fd, err);
	if (r == 0)
		r = remove_stale(path, &address, err);
	if (r < 0)
		return r;
	l.fd = make_socket(path, &address, mode, err);
	if (l.fd < 0)
		return l.fd;
	l.path = strdup(path);
	if (!l.path || lstat(path, &st) < 0)
		return err_set(err, l.path ? -errno : -ENOMEM, "cannot use the socket %s", path);
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	*ret = l;
	l = (struct listener)LISTENER_INIT;
	return 0;
}

static bool has_option(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

int listener_adopt(int fd, struct listener *ret, struct err *err)
{
	if (!has_option(fd, SO_DOMAIN, AF_UNIX) || !has_option(fd, SO_TYPE, SOCK_STREAM) ||
	    !has_option(fd, SO_ACCEPTCONN, 1))
		return err_set(err, -EINVAL,
			       "file descriptor %d is not a Unix stream socket that listens", fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return err_set(err, -errno, "cannot use file descriptor %d: %s", fd,
			       strerror(errno));
	*ret = (struct listener)LISTENER_INIT;
	ret->fd = fd;
	return 0;
}

static bool is_own(const struct listener *l)
{
	struct stat st;

	return lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

bool listener_is_there(const struct listener *l)
{
	struct stat st;

	/* A lock file that was removed keeps nobody from making another one. */
	return l->fd >= 0 &&
	       (!l->path || (is_own(l) && fstat(l->lock_fd, &st) == 0 && st.st_nlink > 0));
}

void listener_close(struct listener *l)
{
	/* The lock is still held: nobody puts another socket there between the two calls. */
	if (l->path && is_own(l))
		unlink(l->path);
	close_fd(&l->fd);
	close_fd(&l->lock_fd);
	free(l->path);
	*l = (struct listener)LISTENER_INIT;
}

/* ---- a socket from systemd ---- */

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static uint64_t read_number(const char *variable)
{
	const char *text = getenv(variable);
	uint64_t v = 0;

	if (!text || num_parse_u64(text, &v) < 0)
		return 0;
	return v;
}

int rpc_take_inherited_fd(struct err *err)
{
	uint64_t pid = read_number("LISTEN_PID"), n = read_number("LISTEN_FDS");

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (pid != (uint64_t)getpid() || n == 0)
		return 0;
	if (n > 1)
		return err_set(err, -EINVAL, "systemd handed over %llu sockets, and one is needed",
			       (unsigned long long)n);
	return FIRST_FD;
}

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

int rpc_peer_read(int fd, struct rpc_peer *ret, struct err *err)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_set(err, -errno, "cannot tell who is on the socket: %s",
			       strerror(errno));
	*ret = (struct rpc_peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	/* Without room the kernel says how much it takes. Where it does not tell, only the peer's
	 * own group counts. */
	len = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
		return 0;
	ret->groups = malloc(len);
	if (!ret->groups)
		return err_set(err, -ENOMEM, "out of memory");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret->groups, &len) == 0)
		ret->n_groups = len / sizeof(*ret->groups);
	return 0;
}

int rpc_peer_copy(const struct rpc_peer *peer, struct rpc_peer *ret)
{
	gid_t *groups = calloc(peer->n_groups + 1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	if (peer->n_groups > 0)
		memcpy(groups, peer->groups, peer->n_groups * sizeof(*groups));
	*ret = *peer;
	ret->groups = groups;
	return 0;
}

void rpc_peer_release(struct rpc_peer *peer)
{
	free(peer->groups);
	*peer = (struct rpc_peer){ 0 };
}

bool rpc_peer_is_in(const struct rpc_peer *peer, gid_t group)
{
	if (peer->gid == group)
		return true;
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == group)
			return true;
	return false;
}

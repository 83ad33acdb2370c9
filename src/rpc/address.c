#include "rpc/address.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

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

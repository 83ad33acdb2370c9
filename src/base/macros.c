#include "base/macros.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void free_ptr(void *pp)
{
	free(*(void **)pp);
}

void close_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

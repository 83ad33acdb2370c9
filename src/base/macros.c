#include "base/macros.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

#define FIRST_CAP 16

int array_reserve(void *items, size_t *cap, size_t need, size_t size)
{
	size_t more = *cap ? *cap : FIRST_CAP;
	void *old, *grown;

	if (need <= *cap)
		return 0;
	while (more < need && more <= SIZE_MAX / 2)
		more *= 2;
	if (more < need || more > SIZE_MAX / size)
		return -ENOMEM;
	memcpy(&old, items, sizeof(old)); /* any type of pointer, without aliasing it as void * */
	grown = reallocarray(old, more, size);
	if (!grown)
		return -ENOMEM;
	memcpy(items, &grown, sizeof(grown));
	*cap = more;
	return 0;
}

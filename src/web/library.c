#include "web/library.h"

#include <dlfcn.h>
#include <errno.h>

#define LIBRARY "libmicrohttpd.so.12"

int http_library_load(struct http_library *ret, struct err *err)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return err_set(err, -ENOENT, "the page needs %s: %s", LIBRARY, dlerror());
#define HTTP_FUNCTION(name)                                 \
	*(void **)&ret->name = dlsym(handle, "MHD_" #name); \
	if (!ret->name)                                     \
		return err_set(err, -ENOENT, "%s lacks %s", LIBRARY, "MHD_" #name);
	HTTP_FUNCTIONS(HTTP_FUNCTION)
#undef HTTP_FUNCTION
	return 0;
}

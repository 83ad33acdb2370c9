#include "web/web.h"

#include <errno.h>

int web_new(const struct web_options *options, struct web **ret, struct err *err)
{
	(void)options;
	(void)ret;
	return err_set(
		err, -ENOTSUP,
		"this proctor was built without the page (libmicrohttpd-dev, libjs-dygraphs)");
}

struct web *web_free(struct web *web)
{
	(void)web;
	return NULL;
}

int web_issue_link(struct web *web, const struct rpc_peer *peer, struct buf *ret, struct err *err)
{
	(void)web;
	(void)peer;
	(void)ret;
	return err_set(err, -ENOTSUP, "this proctor was built without the page");
}

/*
 * web - the page: HTTP on a loopback address or a Unix socket, inside the daemon's loop.
 *
 * A user gets a link that is valid once and for a minute (web_issue_link(), asked for over the
 * daemon's socket, where the kernel names the user). The page exchanges it for a cookie. From then
 * on each request of that session is a call of JSON-RPC over a connection whose peer is that user:
 * what a user sees here is what the socket answers this user, by the same code.
 *
 * Clients are hostile until proven otherwise. Connections are counted per user, requests and
 * headers are bounded, and one that does not read is dropped. docs/web.md has the other side.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "rpc/rpc.h"

struct web;

struct web_options {
	struct loop *loop;
	struct rpc_server *server; /* that answers; borrowed, and freed after the page */
	const char *listen;	   /* as config_parse_listen() takes it */
	const char *socket_path;   /* of the daemon: sessions are stored beside it */
	bool is_for_all;	   /* whether other users may connect to a Unix socket */
};

/*
 * Listens. What HTTP costs in memory is not spent before the first connection. -EADDRINUSE: another
 * program has the address. -ENOTSUP: this proctor was built without the page.
 */
int web_new(const struct web_options *options, struct web **ret, struct err *err);

/* NULL is fine. Returns NULL. */
struct web *web_free(struct web *web);

/* A link to the page for this user. -EBUSY: this user has too many that are not used yet. */
int web_issue_link(struct web *web, const struct rpc_peer *peer, struct buf *ret, struct err *err);

/*
 * session - who a request is from.
 *
 * A link has a token that is valid once, for LINK_SECONDS. It is exchanged for a session, whose
 * secret is a cookie. Sessions outlive the daemon in a file of mode 0600 beside its socket, which
 * is gone with the next boot. The action token is for requests that change something: the page
 * holds it, and no other site can read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rpc/rpc.h"

#define SECRET_BYTES 32
#define SECRET_CHARS (2 * SECRET_BYTES)

#define LINK_SECONDS 60
#define SESSION_SECONDS (7 * 24 * 3600)

struct session {
	char secret[SECRET_CHARS + 1];
	char action_token[SECRET_CHARS + 1];
	struct rpc_peer peer;
	uint64_t expires; /* unix seconds */
};

struct sessions;

/* Reads those that an earlier daemon has stored in the file; what it cannot read it passes over. */
struct sessions *sessions_new(const char *path);
struct sessions *sessions_free(struct sessions *s);

/* The token of a new link for the peer. -EBUSY: too many of this user wait. */
int sessions_issue(struct sessions *s, const struct rpc_peer *peer, char ret[SECRET_CHARS + 1],
		   struct err *err);

/* Uses the token up. NULL: there is none such, or its time is over. Valid until the next call. */
const struct session *sessions_redeem(struct sessions *s, const char *token);

/* NULL: no session has this secret. Valid until the next sessions_redeem(). */
const struct session *sessions_find(const struct sessions *s, const char *secret);

bool secret_equals(const char *a, const char *b); /* takes as long whether or not they differ */

/* ---- headers, as they come from outside ---- */

/* The Host header names this host: a loopback address or "localhost", with any port (of a tunnel).
 * Another name that leads here is an attack (DNS rebinding). */
bool host_is_local(const char *host);

/* The Origin header is the page at this Host header. */
bool origin_is_own(const char *origin, const char *host);

/* The secret that the Cookie header has under this name. */
bool cookie_find(const char *header, const char *name, char ret[SECRET_CHARS + 1]);

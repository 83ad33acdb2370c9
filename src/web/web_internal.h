/*
 * web_internal - what the parts of the page share. The parts are:
 *
 *	web.c		listens, accepts connections and counts them, keeps a channel for each user
 *	http.c		requests and their answers, the stream of events
 *	session.c	links, cookies, and which Host and Origin are ours
 *	channel.c	one user's connection to the daemon's methods and events
 *	library.c	libmicrohttpd
 *	client_uid.c	whose a TCP connection of this host is
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "web/channel.h"
#include "web/library.h"
#include "web/session.h"
#include "web/web.h"

struct request;

/* A connection of a browser. */
struct client {
	uid_t uid;
	bool is_uid_known;
	bool is_there; /* this file descriptor is one */
};

/* A channel, and who reads its events. */
struct user {
	struct channel *channel;
	struct web *web;
	uint64_t used_boot_ns;
	size_t n_requests; /* and streams, that use it */
	size_t held_bytes; /* of answers that are being sent */
	struct user *next;
};

struct web {
	struct loop *loop;
	struct rpc_server *rpc;
	struct sessions *sessions;
	char *listen, *unix_path;
	char cookie[32]; /* its name: cookies of one host are shared by all its ports */
	struct sockaddr_storage address;
	socklen_t address_len;
	int fd;
	struct loop_fd *watch;

	struct http_library http;
	struct MHD_Daemon *mhd; /* NULL: no connection has come yet */
	struct loop_fd *mhd_watch;
	struct loop_soon *run_soon;
	struct loop_timer *run_timer, *sweep_timer;
	bool is_sweeping;

	struct client *clients; /* by file descriptor */
	size_t cap_clients, n_clients;
	struct user *users;
	struct request *requests; /* those that a channel answers, and streams */
	size_t held_bytes;	  /* of answers that are being sent */
};

/* ---- web.c ---- */

/* libmicrohttpd is run in the loop's next round. */
void web_run_soon(struct web *web);

/* The channel of the session's user, made where there is none. NULL: it cannot be. */
struct user *web_find_user(struct web *web, const struct session *session);

/* ---- http.c ---- */

int http_start(struct web *web, struct err *err);
void http_stop(struct web *web);

/* The user's channel has news. */
void http_wake(struct web *web, const struct user *user);

/* ---- client_uid.c ---- */

/*
 * Whose process has the other end of a TCP connection within this host. False: the kernel does not
 * say, as of a process in another network namespace.
 */
bool client_uid_find(const struct sockaddr_storage *client, const struct sockaddr_storage *server,
		     uid_t *ret);

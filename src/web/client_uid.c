#include "web/web_internal.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/macros.h"

/* Of each network namespace. */
#define LOOPBACK_IFINDEX 1

static void set_end(const struct sockaddr_storage *from, __be16 *port, __be32 address[4])
{
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)from;

		*port = in->sin_port;
		address[0] = in->sin_addr.s_addr;
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

		*port = in6->sin6_port;
		memcpy(address, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
}

static bool find_on(const struct sockaddr_storage *client, const struct sockaddr_storage *server,
		    __u32 ifindex, uid_t *ret)
{
	CLEANUP(close_fd)
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	const struct timeval patience = { .tv_usec = 100000 };
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} ask = { .head = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		  .body = { .sdiag_family = (__u8)client->ss_family,
			    .sdiag_protocol = IPPROTO_TCP,
			    .idiag_states = ~0u,
			    .id.idiag_if = ifindex,
			    .id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } };
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} answer;
	const struct inet_diag_msg *found;
	ssize_t n;

	/* The client's socket, seen from its end. */
	set_end(client, &ask.body.id.idiag_sport, ask.body.id.idiag_src);
	set_end(server, &ask.body.id.idiag_dport, ask.body.id.idiag_dst);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    send(fd, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
		return false;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*found)) || !NLMSG_OK(&answer.head, (size_t)n) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	found = NLMSG_DATA(&answer.head);
	/* A socket that its process has closed has no inode, and root's number. */
	if (found->idiag_inode == 0)
		return false;
	*ret = found->idiag_uid;
	return true;
}

bool client_uid_find(const struct sockaddr_storage *client, const struct sockaddr_storage *server,
		     uid_t *ret)
{
	/* A socket that is bound to an interface (SO_BINDTODEVICE) is found under that one alone.
	 */
	return find_on(client, server, 0, ret) || find_on(client, server, LOOPBACK_IFINDEX, ret);
}

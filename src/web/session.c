#include "web/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/num.h"

#define MAX_SESSIONS 512
#define MAX_SESSIONS_PER_USER 32
#define MAX_LINKS 256
#define MAX_LINKS_PER_USER 8
#define MAX_GROUPS 1024
#define MAX_FILE_BYTES (8 << 20)

struct link {
	char token[SECRET_CHARS + 1];
	struct rpc_peer peer;
	uint64_t expires_boot_ns;
};

struct sessions {
	char *path;
	struct session *items[MAX_SESSIONS]; /* oldest first */
	size_t n;
	struct link links[MAX_LINKS]; /* oldest first */
	size_t n_links;
};

static int make_secret(char ret[SECRET_CHARS + 1])
{
	unsigned char bytes[SECRET_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EAGAIN;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

bool secret_equals(const char *a, const char *b)
{
	unsigned char differs = 0;

	if (strlen(a) != SECRET_CHARS || strlen(b) != SECRET_CHARS)
		return false;
	for (size_t i = 0; i < SECRET_CHARS; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}

static uint64_t now_seconds(void)
{
	return clock_wall_ns() / 1000000000;
}

static struct session *session_free(struct session *session)
{
	if (session)
		rpc_peer_release(&session->peer);
	free(session);
	return NULL;
}

static void remove_session(struct sessions *s, size_t i)
{
	session_free(s->items[i]);
	memmove(&s->items[i], &s->items[i + 1], (--s->n - i) * sizeof(s->items[0]));
}

static void remove_link(struct sessions *s, size_t i)
{
	rpc_peer_release(&s->links[i].peer);
	memmove(&s->links[i], &s->links[i + 1], (--s->n_links - i) * sizeof(s->links[0]));
}

/* Takes it over. The oldest of a user with too many goes, and the oldest of all. */
static void add_session(struct sessions *s, struct session *session)
{
	size_t n_own = 0;

	for (size_t i = s->n; i-- > 0;) {
		n_own += s->items[i]->peer.uid == session->peer.uid;
		if (s->items[i]->expires <= now_seconds() ||
		    (s->items[i]->peer.uid == session->peer.uid && n_own >= MAX_SESSIONS_PER_USER))
			remove_session(s, i);
	}
	if (s->n == MAX_SESSIONS)
		remove_session(s, 0);
	s->items[s->n++] = session;
}

/* ---- the file: a line for each: secret, action token, expiry, uid, gid, groups ---- */

static void read_line(struct sessions *s, char *line)
{
	struct session *session = calloc(1, sizeof(*session));
	uint64_t numbers[3 + MAX_GROUPS];
	char *at = line, *word;
	size_t n = 0;

	if (session)
		session->peer.groups = calloc(MAX_GROUPS, sizeof(gid_t));
	if (!session || !session->peer.groups) {
		session_free(session);
		return;
	}
	for (int i = 0; (word = strsep(&at, " ")); i++)
		if (i < 2 && strlen(word) == SECRET_CHARS)
			memcpy(i == 0 ? session->secret : session->action_token, word,
			       SECRET_CHARS);
		else if (n == ARRAY_SIZE(numbers) || num_parse_u64(word, &numbers[n]) < 0)
			break;
		else
			n++;
	if (word || n < 3 || !session->action_token[0] || numbers[0] <= now_seconds()) {
		session_free(session);
		return;
	}
	session->expires = numbers[0];
	session->peer.uid = (uid_t)numbers[1];
	session->peer.gid = (gid_t)numbers[2];
	for (size_t i = 3; i < n; i++)
		session->peer.groups[session->peer.n_groups++] = (gid_t)numbers[i];
	add_session(s, session);
}

static void read_file(struct sessions *s)
{
	CLEANUP(close_fd) int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	CLEANUP(free_ptr) char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) != 0 || st.st_size > MAX_FILE_BYTES)
		return;
	text = malloc((size_t)st.st_size + 1);
	n = text ? read(fd, text, (size_t)st.st_size) : -1;
	if (n < 0)
		return;
	text[n] = '\0';
	for (char *at = text, *line; (line = strsep(&at, "\n"));)
		read_line(s, line);
}

static void write_file(const struct sessions *s)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT, path = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;

	for (size_t i = 0; i < s->n; i++) {
		const struct session *session = s->items[i];

		buf_printf(&out, "%s %s %llu %u %u", session->secret, session->action_token,
			   (unsigned long long)session->expires, session->peer.uid,
			   session->peer.gid);
		for (size_t k = 0; k < session->peer.n_groups && k < MAX_GROUPS; k++)
			buf_printf(&out, " %u", session->peer.groups[k]);
		buf_add_char(&out, '\n');
	}
	buf_printf(&path, "%s.new", s->path);
	if (buf_error(&out) < 0 || buf_error(&path) < 0)
		return;
	unlink(path.data);
	fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, out.data, out.len) != (ssize_t)out.len ||
	    rename(path.data, s->path) < 0)
		log_warning("cannot store the sessions of the page, which end with this daemon: %s",
			    strerror(errno));
}

/* ---- sessions ---- */

struct sessions *sessions_new(const char *path)
{
	struct sessions *s = calloc(1, sizeof(*s));

	if (s)
		s->path = strdup(path);
	if (!s || !s->path)
		return sessions_free(s);
	read_file(s);
	return s;
}

struct sessions *sessions_free(struct sessions *s)
{
	if (!s)
		return NULL;
	while (s->n > 0)
		remove_session(s, s->n - 1);
	while (s->n_links > 0)
		remove_link(s, s->n_links - 1);
	free(s->path);
	free(s);
	return NULL;
}

int sessions_issue(struct sessions *s, const struct rpc_peer *peer, char ret[SECRET_CHARS + 1],
		   struct err *err)
{
	struct link *link;
	size_t n_own = 0;

	for (size_t i = s->n_links; i-- > 0;)
		if (s->links[i].expires_boot_ns <= clock_boot_ns())
			remove_link(s, i);
		else
			n_own += s->links[i].peer.uid == peer->uid;
	if (n_own >= MAX_LINKS_PER_USER || s->n_links >= MAX_LINKS)
		return err_set(err, -EBUSY,
			       "too many links wait to be opened: try again in %d seconds",
			       LINK_SECONDS);
	link = &s->links[s->n_links];
	if (make_secret(link->token) < 0 || rpc_peer_copy(peer, &link->peer) < 0)
		return err_set(err, -ENOMEM, "cannot make a link: no memory, or no random numbers");
	link->expires_boot_ns = clock_boot_ns() + LINK_SECONDS * UINT64_C(1000000000);
	s->n_links++;
	memcpy(ret, link->token, sizeof(link->token));
	return 0;
}

const struct session *sessions_redeem(struct sessions *s, const char *token)
{
	struct session *session;
	size_t found = s->n_links;

	for (size_t i = 0; i < s->n_links; i++)
		if (secret_equals(s->links[i].token, token) &&
		    s->links[i].expires_boot_ns > clock_boot_ns())
			found = i;
	if (found == s->n_links)
		return NULL;
	session = calloc(1, sizeof(*session));
	if (!session || make_secret(session->secret) < 0 ||
	    make_secret(session->action_token) < 0) {
		free(session);
		return NULL;
	}
	session->expires = now_seconds() + SESSION_SECONDS;
	session->peer = s->links[found].peer;
	session->peer.pid = 0; /* the process that asked for the link is not the browser */
	s->links[found].peer = (struct rpc_peer){ 0 };
	remove_link(s, found);
	add_session(s, session);
	write_file(s);
	return session;
}

const struct session *sessions_find(const struct sessions *s, const char *secret)
{
	const struct session *found = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (secret_equals(s->items[i]->secret, secret))
			found = s->items[i];
	return found && found->expires > now_seconds() ? found : NULL;
}

/* ---- headers ---- */

bool host_is_local(const char *host)
{
	const char *end = strchr(host, ':');
	struct in_addr address;
	char name[16] = "";
	uint64_t port;
	size_t len;

	if (strncmp(host, "[::1]", 5) == 0)
		end = host[5] ? host + 5 : NULL;
	len = end ? (size_t)(end - host) : strlen(host);
	if (end && (*end != ':' || num_parse_u64(end + 1, &port) < 0 || port > UINT16_MAX))
		return false;
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	return strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
	       (inet_pton(AF_INET, name, &address) == 1 &&
		ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

bool origin_is_own(const char *origin, const char *host)
{
	static const char scheme[] = "http://";

	return strncasecmp(origin, scheme, strlen(scheme)) == 0 &&
	       strcasecmp(origin + strlen(scheme), host) == 0;
}

bool cookie_find(const char *header, const char *name, char ret[SECRET_CHARS + 1])
{
	size_t len = strlen(name);

	for (const char *at = header; at; at = strchr(at, ';')) {
		at += strspn(at, "; ");
		if (strncmp(at, name, len) != 0 || at[len] != '=')
			continue;
		at += len + 1;
		if (strspn(at, "0123456789abcdef") != SECRET_CHARS ||
		    (at[SECRET_CHARS] != '\0' && at[SECRET_CHARS] != ';'))
			continue;
		memcpy(ret, at, SECRET_CHARS);
		ret[SECRET_CHARS] = '\0';
		return true;
	}
	return false;
}

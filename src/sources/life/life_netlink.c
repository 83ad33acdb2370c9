#include "sources/life/life_netlink.h"

#include <errno.h>
#define proc_event kernel_proc_event /* ours is another */
#include <linux/cn_proc.h>
#undef proc_event
#include <linux/connector.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/life/life.h"
#include "sources/life/taskstats.h"
#include "sources/sources.h"

/* ---- messages ---- */

static void take_event(const struct cn_msg *cn, const struct kernel_proc_event *ev,
		       struct life_raw *ret)
{
	ret->cpu = ev->cpu;
	ret->seq = cn->seq;
	ret->mono_ns = ev->timestamp_ns;
	switch ((unsigned)ev->what) {
	case PROC_EVENT_NONE:
		ret->type = LIFE_RAW_ACK;
		ret->ack = cn->ack;
		ret->ack_errno = (int)ev->event_data.ack.err;
		break;
	case PROC_EVENT_FORK:
		ret->type = LIFE_RAW_FORK;
		ret->tid = ev->event_data.fork.child_pid;
		ret->pid = ev->event_data.fork.child_tgid;
		ret->parent_pid = ev->event_data.fork.parent_tgid;
		break;
	case PROC_EVENT_EXEC:
		ret->type = LIFE_RAW_EXEC;
		ret->tid = ev->event_data.exec.process_pid;
		ret->pid = ev->event_data.exec.process_tgid;
		break;
	case PROC_EVENT_EXIT:
		ret->type = LIFE_RAW_EXIT;
		ret->tid = ev->event_data.exit.process_pid;
		ret->pid = ev->event_data.exit.process_tgid;
		ret->parent_pid = ev->event_data.exit.parent_tgid;
		ret->wait_status = (int)ev->event_data.exit.exit_code;
		break;
	case PROC_EVENT_UID:
		ret->type = LIFE_RAW_UID;
		ret->tid = ev->event_data.id.process_pid;
		ret->pid = ev->event_data.id.process_tgid;
		ret->uid = ev->event_data.id.r.ruid;
		ret->euid = ev->event_data.id.e.euid;
		break;
	case PROC_EVENT_GID:
		ret->type = LIFE_RAW_GID;
		ret->tid = ev->event_data.id.process_pid;
		ret->pid = ev->event_data.id.process_tgid;
		break;
	default:
		ret->type = LIFE_RAW_OTHER;
	}
}

/* The payload of one netlink message. Kernels may send a longer or shorter event than ours. */
static int parse_payload(const char *bytes, size_t len, struct life_raw *ret)
{
	struct kernel_proc_event ev = { 0 };
	struct cn_msg cn;

	if (len < sizeof(cn))
		return -EBADMSG;
	memcpy(&cn, bytes, sizeof(cn));
	if (cn.id.idx != CN_IDX_PROC || cn.id.val != CN_VAL_PROC)
		return 0;
	if (cn.len > len - sizeof(cn) || cn.len < offsetof(struct kernel_proc_event, event_data))
		return -EBADMSG;
	memcpy(&ev, bytes + sizeof(cn), cn.len < sizeof(ev) ? cn.len : sizeof(ev));
	take_event(&cn, &ev, ret);
	return 0;
}

ssize_t life_parse(const void *bytes, size_t len, struct life_raw *ret)
{
	struct life_raw raw = { .type = LIFE_RAW_FOREIGN };
	struct nlmsghdr header;
	size_t step;

	if (len < sizeof(header))
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > len)
		return -EBADMSG;
	if (header.nlmsg_type == NLMSG_DONE &&
	    parse_payload((const char *)bytes + sizeof(header), header.nlmsg_len - sizeof(header),
			  &raw) < 0)
		return -EBADMSG;
	*ret = raw;
	step = NLMSG_ALIGN((size_t)header.nlmsg_len);
	return (ssize_t)(step < len ? step : len);
}

size_t life_write_request(bool is_listen, uint32_t ack, char ret[LIFE_REQUEST_BYTES])
{
	enum proc_cn_mcast_op op = is_listen ? PROC_CN_MCAST_LISTEN : PROC_CN_MCAST_IGNORE;
	struct cn_msg cn = { .id = { .idx = CN_IDX_PROC, .val = CN_VAL_PROC },
			     .ack = ack,
			     .len = sizeof(op) };
	struct nlmsghdr header = { .nlmsg_len = sizeof(header) + sizeof(cn) + sizeof(op),
				   .nlmsg_type = NLMSG_DONE };

	memcpy(ret, &header, sizeof(header));
	memcpy(ret + sizeof(header), &cn, sizeof(cn));
	memcpy(ret + sizeof(header) + sizeof(cn), &op, sizeof(op));
	return header.nlmsg_len;
}

/* ---- loss ---- */

#define MAX_CPUS 65536 /* the kernel's own bound is 8192 */

void life_loss_release(struct life_loss *loss)
{
	free(loss->cpus);
	*loss = (struct life_loss){ 0 };
}

static struct life_loss_cpu *get_cpu(struct life_loss *loss, uint32_t cpu)
{
	struct life_loss_cpu *cpus;
	size_t n = (size_t)cpu + 1;

	if (cpu >= MAX_CPUS)
		return NULL;
	if (n > loss->n_cpus) {
		cpus = reallocarray(loss->cpus, n, sizeof(*cpus));
		if (!cpus)
			return NULL;
		memset(cpus + loss->n_cpus, 0, (n - loss->n_cpus) * sizeof(*cpus));
		loss->cpus = cpus;
		loss->n_cpus = n;
	}
	return &loss->cpus[cpu];
}

bool life_loss_see(struct life_loss *loss, uint32_t cpu, uint32_t seq)
{
	struct life_loss_cpu *c = get_cpu(loss, cpu);
	int32_t gap;

	if (!c)
		return false;
	gap = c->is_seen ? (int32_t)(seq - c->next_seq) : 0;
	if (gap < 0) { /* late, not lost: old kernels number first and send later */
		if (loss->missing > 0)
			loss->missing--;
		return false;
	}
	loss->missing += (uint32_t)gap;
	*c = (struct life_loss_cpu){ .next_seq = seq + 1, .is_seen = true };
	return gap > 0;
}

void life_loss_overflow(struct life_loss *loss)
{
	loss->has_overflow = true;
}

uint64_t life_loss_take(struct life_loss *loss)
{
	uint64_t early = loss->missing < loss->told_early ? loss->missing : loss->told_early;
	uint64_t lost = loss->missing - early;

	loss->told_early -= early;
	loss->missing = 0;
	if (loss->has_overflow && lost == 0 && early == 0) {
		lost = 1;
		loss->told_early++;
	}
	loss->has_overflow = false;
	return lost;
}

/* ---- owners ---- */

/* Of all jobs together; who comes later is unknown. */
#define MAX_FOLLOWED 65536

void life_owners_follow(struct life_owners *o, pid_t pid, uint64_t uid)
{
	if (o->by_pid.len < MAX_FOLLOWED)
		(void)map_put(&o->by_pid, (uint64_t)pid, uid); /* or it is unknown */
}

void life_owners_feed(struct life_owners *o, const struct life_raw *raw)
{
	uint64_t uid;

	if (raw->type == LIFE_RAW_FORK && raw->tid == raw->pid) {
		if (map_get(&o->by_pid, (uint64_t)raw->parent_pid, &uid))
			life_owners_follow(o, raw->pid, uid);
		else
			map_remove(&o->by_pid, (uint64_t)raw->pid); /* of who had the pid before */
	} else if ((raw->type == LIFE_RAW_UID || raw->type == LIFE_RAW_GID) &&
		   map_get(&o->by_pid, (uint64_t)raw->pid, &uid) &&
		   /* No program of a user's own changes its group. */
		   (raw->type == LIFE_RAW_GID || raw->uid != uid || raw->euid != uid)) {
		map_remove(&o->by_pid, (uint64_t)raw->pid);
	}
}

uint64_t life_owners_take(struct life_owners *o, pid_t pid)
{
	uint64_t uid = U64_UNKNOWN;

	if (map_get(&o->by_pid, (uint64_t)pid, &uid))
		map_remove(&o->by_pid, (uint64_t)pid);
	return uid;
}

/* ---- threads ---- */

/* A value of the map: the count, and above it one bit. */
#define FIRST_ENDED (UINT64_C(1) << 63)

void life_threads_release(struct life_threads *t)
{
	map_release(&t->extra);
}

void life_threads_forget(struct life_threads *t)
{
	map_clear(&t->extra);
	t->n_forgotten++;
}

static uint64_t state_of(const struct life_threads *t, pid_t pid)
{
	uint64_t state = 0;

	map_get(&t->extra, (uint64_t)pid, &state);
	return state;
}

/* Without memory for it the process counts as one without further threads. */
static void set_state(struct life_threads *t, pid_t pid, uint64_t state)
{
	if (state == 0)
		map_remove(&t->extra, (uint64_t)pid);
	else if (map_put(&t->extra, (uint64_t)pid, state) < 0)
		map_remove(&t->extra, (uint64_t)pid);
}

static bool feed_exit(struct life_threads *t, const struct life_raw *raw)
{
	uint64_t state = state_of(t, raw->pid);

	if (raw->tid == raw->pid) {
		if (state == 0)
			return true;
		set_state(t, raw->pid, state | FIRST_ENDED);
		return false;
	}
	if ((state & ~FIRST_ENDED) == 0)
		return false; /* a thread from before our time */
	state--;
	set_state(t, raw->pid, state == FIRST_ENDED ? 0 : state);
	return state == FIRST_ENDED;
}

bool life_threads_feed(struct life_threads *t, struct life_loss *loss, const struct life_raw *raw,
		       struct life_event *ret)
{
	enum life_type type;

	if (raw->type == LIFE_RAW_FOREIGN)
		return false;
	if (life_loss_see(loss, raw->cpu, raw->seq))
		life_threads_forget(t);
	if (raw->type == LIFE_RAW_FORK && raw->tid != raw->pid) {
		set_state(t, raw->pid, state_of(t, raw->pid) + 1);
		return false;
	} else if (raw->type == LIFE_RAW_FORK) {
		set_state(t, raw->pid, 0); /* a former owner of the pid may have left something */
		type = LIFE_FORK;
	} else if (raw->type == LIFE_RAW_EXEC) {
		set_state(t, raw->pid, 0); /* by one thread: the kernel has ended all others */
		type = LIFE_EXEC;
	} else if (raw->type == LIFE_RAW_EXIT && feed_exit(t, raw)) {
		type = LIFE_EXIT;
	} else {
		return false;
	}
	life_event_init(ret);
	ret->type = type;
	ret->pid = raw->pid;
	ret->parent_pid = raw->parent_pid;
	ret->wait_status = raw->wait_status;
	return true;
}

/* ---- the socket ---- */

/* Holds 20,000 messages (measured): a second of 6,000 forks, execs and exits. */
#define RECEIVE_BYTES (8 * 1024 * 1024)

#define BATCH 32	  /* messages per recvmmsg() */
#define MESSAGE_BYTES 256 /* one is 76 bytes today */
#define ACK_WAIT_MS 20	  /* the kernel answers inside the send; this is patience for its queue */

/* Inodes of the first namespaces, fixed by the kernel: PROC_PID_INIT_INO, PROC_USER_INIT_INO. */
#define INIT_PID_NS UINT64_C(0xEFFFFFFC)
#define INIT_USER_NS UINT64_C(0xEFFFFFFD)

struct netlink {
	struct life base;
	int fd;
	bool is_listening;
	struct life_loss loss;
	struct life_threads threads;
	struct life_owners owners;
	unsigned n_forgotten;	      /* of the threads, when the owners were as well */
	uint64_t n_lost_accounts;     /* at least, since that was last told */
	struct taskstats_feed *stats; /* NULL: not for this user, or not in this kernel */
};

static struct netlink *netlink_of(struct life *life)
{
	return (struct netlink *)life; /* base is its first member */
}

#define TOO_OLD "before Linux 6.6 only root (CAP_NET_ADMIN) may listen to the proc connector"

static int send_request(int fd, bool is_listen, uint32_t ack)
{
	char bytes[LIFE_REQUEST_BYTES];
	size_t n = life_write_request(is_listen, ack, bytes);

	return send(fd, bytes, n, 0) < 0 ? -errno : 0;
}

/* ---- opening ---- */

static bool is_other_namespace(const char *path, uint64_t inode)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ino != inode;
}

int netlink_socket(int protocol, uint32_t groups, bool *ret_is_there)
{
	CLEANUP(close_fd)
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	const int bytes = RECEIVE_BYTES;

	*ret_is_there = fd >= 0;
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : TAKE_FD(fd);
}

/* The kernel's answer to our own request, among those to others and among events. */
static int await_ack(int fd, uint32_t ack)
{
	uint64_t deadline_ns = clock_boot_ns() + ACK_WAIT_MS * UINT64_C(1000000);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char bytes[MESSAGE_BYTES];

	do {
		struct life_raw raw = { .type = LIFE_RAW_FOREIGN };
		struct sockaddr_nl from = { 0 };
		socklen_t from_len = sizeof(from);
		ssize_t n =
			recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &from_len);

		if (n < 0 && errno == EAGAIN)
			(void)poll(&poll_fd, 1, 1);
		else if (n < 0 && errno != EINTR && errno != ENOBUFS)
			return -errno;
		else if (n > 0 && from.nl_pid == 0) /* others may send as well */
			(void)life_parse(bytes, (size_t)n, &raw);
		if (raw.type == LIFE_RAW_ACK && raw.ack == ack + 1)
			return -raw.ack_errno;
	} while (clock_boot_ns() < deadline_ns);
	return -EOPNOTSUPP;
}

static void close_netlink(struct life *base)
{
	struct netlink *life = netlink_of(base);

	/* Before Linux 6.6 a listener that just goes away leaves the kernel sending to nobody. */
	if (life->is_listening)
		(void)send_request(life->fd, false, 0);
	if (life->fd >= 0)
		close(life->fd);
	life_loss_release(&life->loss);
	life_threads_release(&life->threads);
	map_release(&life->owners.by_pid);
	taskstats_close(life->stats);
	free(life);
}

static void drop_netlink(struct netlink **life)
{
	if (*life)
		close_netlink(&(*life)->base);
}

static int open_netlink(const struct life_options *options, struct life **ret, struct err *err)
{
	CLEANUP(drop_netlink) struct netlink *life = NULL;
	uint32_t ack;
	bool is_there;
	int r;

	(void)options;
	/*
	 * Elsewhere than in the first pid and user namespace the kernel takes the
	 * request without a word and sends nothing, ever.
	 */
	if (is_other_namespace("/proc/self/ns/pid", INIT_PID_NS))
		return err_set(
			err, -EOPNOTSUPP,
			"the kernel tells process events only in its first pid namespace, and this is another (a container's)");
	if (is_other_namespace("/proc/self/ns/user", INIT_USER_NS))
		return err_set(
			err, -EOPNOTSUPP,
			"the kernel tells process events only in its first user namespace, and this is another (a container's)");
	life = calloc(1, sizeof(*life));
	if (!life)
		return err_set(err, -ENOMEM, "out of memory");
	life->base.kind = &life_by_netlink;
	life->fd = netlink_socket(NETLINK_CONNECTOR, CN_IDX_PROC, &is_there);
	if (life->fd == -EPERM && is_there)
		return err_set(err, -EPERM, TOO_OLD);
	if (life->fd < 0)
		return err_set(err, life->fd,
			       is_there ? "cannot listen to the proc connector: %s"
					: "no netlink connector here: %s",
			       strerror(-life->fd));
	/* Before the first end can be told: what it used is told earlier. */
	(void)taskstats_open(&life->stats, &life->base.lacks);
	life->base.has_accounts = life->stats != NULL;
	ack = (uint32_t)getpid() ^ (uint32_t)clock_boot_ns();
	r = send_request(life->fd, true, ack);
	if (r == -ECONNREFUSED)
		return err_set(err, -EOPNOTSUPP,
			       "the kernel has no proc connector in this network namespace");
	if (r < 0)
		return err_set(err, r, "cannot ask the proc connector: %s", strerror(-r));
	r = await_ack(life->fd, ack);
	if (r == -EPERM)
		return err_set(err, r, TOO_OLD);
	if (r == -EOPNOTSUPP)
		return err_set(err, r,
			       "the proc connector did not confirm that it will send events");
	if (r < 0)
		return err_set(err, r, "the proc connector refused: %s", strerror(-r));
	life->is_listening = true;
	*ret = &TAKE_PTR(life)->base;
	return 0;
}

static int netlink_fd(const struct life *life)
{
	return ((const struct netlink *)life)->fd;
}

/* ---- draining ---- */

static uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* What one life_drain() carries along. */
struct drain {
	struct netlink *life;
	life_handler *fn;
	void *ctx;
	uint64_t began_mono_ns, began_wall_ns;
	size_t n_left;
	bool is_done; /* an event from after the beginning has come, or enough have */
};

static void take_raw(struct drain *d, const struct life_raw *raw)
{
	struct netlink *life = d->life;
	struct life_event ev;
	bool is_whole;

	if (raw->type != LIFE_RAW_FOREIGN && raw->mono_ns > d->began_mono_ns)
		d->is_done = true;
	is_whole = life_threads_feed(&life->threads, &life->loss, raw, &ev);
	/* After the threads, which see whether messages are missing before this one. */
	if (life->n_forgotten != life->threads.n_forgotten)
		map_clear(&life->owners.by_pid);
	life->n_forgotten = life->threads.n_forgotten;
	life_owners_feed(&life->owners, raw);
	if (!is_whole)
		return;
	if (ev.type == LIFE_EXIT)
		ev.uid = life_owners_take(&life->owners, ev.pid);
	ev.wall_ns = d->began_wall_ns + raw->mono_ns - d->began_mono_ns;
	if (ev.type == LIFE_EXIT && life->stats)
		(void)taskstats_take(life->stats, ev.pid, &ev.account, ev.comm);
	d->fn(d->ctx, &ev);
	d->is_done = --d->n_left == 0 || d->is_done;
}

static void take_datagram(struct drain *d, const char *bytes, size_t len)
{
	struct life_raw raw;
	ssize_t step;

	for (; len > 0; bytes += step, len -= (size_t)step) {
		step = life_parse(bytes, len, &raw);
		if (step < 0)
			return;
		take_raw(d, &raw);
	}
}

/* Takes up to BATCH messages. Returns how many, or -errno. */
static int drain_batch(struct drain *d)
{
	char text[BATCH][MESSAGE_BYTES];
	struct sockaddr_nl from[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr messages[BATCH];
	int n, r;

	memset(messages, 0, sizeof(messages));
	for (size_t i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ text[i], sizeof(text[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &from[i],
						       .msg_namelen = sizeof(from[i]),
						       .msg_iov = &iov[i],
						       .msg_iovlen = 1 };
	}
	n = recvmmsg(d->life->fd, messages, BATCH, 0, NULL);
	if (n < 0)
		return -errno;
	/* What the dead among these used was told before their death, so it is all there. */
	r = d->life->stats ? taskstats_drain(d->life->stats) : 0;
	if (r < 0)
		d->life->stats = taskstats_close(d->life->stats);
	d->life->n_lost_accounts += r != 0;
	for (int i = 0; i < n; i++)
		if (from[i].nl_pid == 0) /* others may send as well; only the kernel is believed */
			take_datagram(d, text[i], messages[i].msg_len);
	return n;
}

static void follow_owner(struct life *base, pid_t pid, uint64_t uid)
{
	life_owners_follow(&netlink_of(base)->owners, pid, uid);
}

static int64_t drain_netlink(struct life *base, size_t max, life_handler *fn, void *ctx)
{
	struct netlink *life = netlink_of(base);
	struct drain d = {
		.life = life,
		.fn = fn,
		.ctx = ctx,
		.n_left = max,
		.began_mono_ns = clock_mono_ns(),
		.began_wall_ns = clock_wall_ns(),
	};
	uint64_t n_lost;

	/* Until one from after the call: so this ends, even on a host that forks without end. */
	while (!d.is_done) {
		int n = drain_batch(&d);

		if (n == -EAGAIN)
			break;
		if (n == -ENOBUFS) { /* where the gap is shows only later: counts go again then */
			life_loss_overflow(&life->loss);
			life_threads_forget(&life->threads);
		} else if (n < 0 && n != -EINTR) {
			return n;
		}
	}
	n_lost = life->n_lost_accounts + life_loss_take(&life->loss);
	life->n_lost_accounts = 0;
	return (int64_t)n_lost;
}

const struct life_kind life_by_netlink = {
	.name = "netlink proc connector",
	.name_with_accounts = "netlink proc connector + taskstats",
	.open = open_netlink,
	.close = close_netlink,
	.fd = netlink_fd,
	.drain = drain_netlink,
	.follow_owner = follow_owner,
};

#include "sources/life/taskstats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "base/unknown.h"
#include "sources/tasks.h"

#define HEADERS (sizeof(struct nlmsghdr) + sizeof(struct genlmsghdr))
/* The kernel's own macros for these are of signed numbers. */
#define TYPE_MASK 0x3fffu
#define PADDED(n) (((size_t)(n) + 3) & ~(size_t)3)

/* Since this version the struct says which process a thread belongs to. */
#define VERSION_WITH_TGID 12

/* ---- attributes ---- */

struct attribute {
	uint16_t type;
	const char *bytes;
	size_t len;
};

/* The next attribute of *bytes, which moves behind it. False: there is none, or it is cut off. */
static bool next_attribute(const char **bytes, size_t *len, struct attribute *ret)
{
	struct nlattr header;
	size_t step;

	if (*len < sizeof(header))
		return false;
	memcpy(&header, *bytes, sizeof(header));
	if (header.nla_len < sizeof(header) || header.nla_len > *len)
		return false;
	*ret = (struct attribute){ (uint16_t)(header.nla_type & TYPE_MASK), *bytes + sizeof(header),
				   header.nla_len - sizeof(header) };
	step = PADDED(header.nla_len);
	step = step < *len ? step : *len;
	*bytes += step;
	*len -= step;
	return true;
}

static bool find_attribute(const char *bytes, size_t len, uint16_t type, struct attribute *ret)
{
	while (next_attribute(&bytes, &len, ret))
		if (ret->type == type)
			return true;
	return false;
}

/* ---- answers ---- */

/* The header of the first message, if all of it is there. */
static bool take_header(const void *bytes, size_t len, struct nlmsghdr *ret)
{
	if (len < sizeof(*ret))
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	return ret->nlmsg_len >= sizeof(*ret) && ret->nlmsg_len <= len;
}

static uint64_t start_of_process(const struct taskstats *t)
{
	uint64_t ended_us = t->ac_btime64 * 1000000 + t->ac_etime;

	return t->ac_tgetime < ended_us ? (ended_us - t->ac_tgetime) / 1000000 : U64_UNKNOWN;
}

/* Kernels may send a longer struct than ours, or a shorter one. */
static bool parse_payload(const char *bytes, size_t len, struct thread_stats *ret)
{
	struct taskstats t = { 0 };
	struct attribute thread, stats;

	if (!find_attribute(bytes, len, TASKSTATS_TYPE_AGGR_PID, &thread) ||
	    !find_attribute(thread.bytes, thread.len, TASKSTATS_TYPE_STATS, &stats))
		return false;
	memcpy(&t, stats.bytes, stats.len < sizeof(t) ? stats.len : sizeof(t));
	if (t.version < VERSION_WITH_TGID ||
	    stats.len < offsetof(struct taskstats, ac_tgetime) + sizeof(t.ac_tgetime))
		return false;
	*ret = (struct thread_stats){
		.pid = (pid_t)t.ac_tgid,
		.start_wall_s = start_of_process(&t),
		.used = {
			.cpu_ns = t.cpu_run_virtual_total,
			.user_ns = t.ac_utime * 1000,
			.system_ns = t.ac_stime * 1000,
			.max_rss_bytes = t.hiwater_rss ? t.hiwater_rss * 1024 : U64_UNKNOWN,
			.minor_faults = t.ac_minflt,
			.major_faults = t.ac_majflt,
			.rchar = t.read_char,
			.wchar = t.write_char,
			.read_bytes = t.read_bytes,
			.write_bytes = t.write_bytes,
		},
	};
	if (t.ac_pid == t.ac_tgid)
		memcpy(ret->comm, t.ac_comm, strnlen(t.ac_comm, sizeof(ret->comm) - 1));
	if (ret->used.cpu_ns == 0) /* a kernel that does not count it: ticks are all there is */
		ret->used.cpu_ns = ret->used.user_ns + ret->used.system_ns;
	return true;
}

ssize_t taskstats_parse(const void *bytes, size_t len, uint16_t family, struct thread_stats *ret,
			bool *ret_has)
{
	struct nlmsghdr header;
	size_t step;

	if (!take_header(bytes, len, &header))
		return -EBADMSG;
	*ret_has = header.nlmsg_type == family && header.nlmsg_len >= HEADERS &&
		   parse_payload((const char *)bytes + HEADERS, header.nlmsg_len - HEADERS, ret);
	step = PADDED(header.nlmsg_len);
	return (ssize_t)(step < len ? step : len);
}

/* Parts of it are told in whole seconds, and the clock may be set by a little. */
#define SAME_START_S 3

static bool is_another(const struct thread_stats *a, const struct thread_stats *b)
{
	uint64_t x = a->start_wall_s, y = b->start_wall_s;

	return u64_known(x) && u64_known(y) && (x > y ? x - y : y - x) > SAME_START_S;
}

bool thread_stats_is_before(const struct thread_stats *stats, uint64_t wall_s)
{
	return wall_s > 0 &&
	       (!u64_known(stats->start_wall_s) || stats->start_wall_s <= wall_s + SAME_START_S);
}

void thread_stats_add(struct thread_stats *sum, const struct thread_stats *thread)
{
	struct exit_account *to = &sum->used;
	const struct exit_account *more = &thread->used;

	if (is_another(sum, thread)) {
		*sum = *thread;
		return;
	}
	to->cpu_ns += more->cpu_ns;
	to->user_ns += more->user_ns;
	to->system_ns += more->system_ns;
	to->max_rss_bytes = u64_max_known(to->max_rss_bytes, more->max_rss_bytes);
	to->minor_faults += more->minor_faults;
	to->major_faults += more->major_faults;
	to->rchar += more->rchar;
	to->wchar += more->wchar;
	to->read_bytes += more->read_bytes;
	to->write_bytes += more->write_bytes;
	if (thread->comm[0])
		memcpy(sum->comm, thread->comm, sizeof(sum->comm));
}

int taskstats_parse_ack(const void *bytes, size_t len)
{
	struct nlmsghdr header;
	struct nlmsgerr answer;

	if (!take_header(bytes, len, &header) || header.nlmsg_type != NLMSG_ERROR ||
	    header.nlmsg_len < sizeof(header) + sizeof(answer.error))
		return -EBADMSG;
	memcpy(&answer.error, (const char *)bytes + sizeof(header), sizeof(answer.error));
	return answer.error > 0 ? -EBADMSG : answer.error;
}

int taskstats_parse_probe(const void *bytes, size_t len, uint16_t family)
{
	struct thread_stats stats;
	struct nlmsghdr header;
	bool has = false;

	if (!take_header(bytes, len, &header))
		return -EBADMSG;
	if (header.nlmsg_type == NLMSG_ERROR)
		return taskstats_parse_ack(bytes, len);
	if (taskstats_parse(bytes, len, family, &stats, &has) < 0)
		return -EBADMSG;
	return has ? 0 : -EOPNOTSUPP;
}

int taskstats_parse_family(const void *bytes, size_t len, uint16_t *ret)
{
	struct nlmsghdr header;
	struct attribute id;

	if (!take_header(bytes, len, &header))
		return -EBADMSG;
	if (header.nlmsg_type == NLMSG_ERROR)
		return taskstats_parse_ack(bytes, len);
	if (header.nlmsg_len < HEADERS ||
	    !find_attribute((const char *)bytes + HEADERS, header.nlmsg_len - HEADERS,
			    CTRL_ATTR_FAMILY_ID, &id) ||
	    id.len < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, id.bytes, sizeof(*ret));
	return 0;
}

/* ---- requests ---- */

#define REQUEST_BYTES 512
#define CPUS_BYTES 256 /* leaves room for the headers of a request */

/* ---- the socket ---- */

#define MESSAGE_BYTES 4096 /* one is about 500 bytes */
#define ANSWER_MS 200
#define MAX_WAITING 16384 /* processes whose end the other queue has not told yet, or lost */

struct taskstats_feed {
	int fd;
	uint16_t family;
	bool has_lost;		/* since that was last told */
	uint64_t forgot_wall_s; /* sums of processes that were there before may lack threads */
	struct map by_pid;	/* struct thread_stats *, the sum of threads that have ended */
};

/* ---- opening ---- */

/* Sends a request with one attribute. Returns the length of the answer. Texts go with their NUL. */
static int ask(int fd, uint16_t type, uint16_t flags, uint8_t command, uint16_t attribute,
	       const void *bytes, size_t len, char answer[MESSAGE_BYTES])
{
	struct genlmsghdr genl = { .cmd = command, .version = 1 };
	struct nlattr attr = { .nla_len = (uint16_t)(sizeof(attr) + len), .nla_type = attribute };
	struct nlmsghdr header = { .nlmsg_type = type,
				   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) };
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char request[REQUEST_BYTES] = { 0 };
	ssize_t got;

	header.nlmsg_len = (uint32_t)(HEADERS + PADDED(attr.nla_len));
	memcpy(request, &header, sizeof(header));
	memcpy(request + sizeof(header), &genl, sizeof(genl));
	memcpy(request + HEADERS, &attr, sizeof(attr));
	memcpy(request + HEADERS + sizeof(attr), bytes, len);
	if (send(fd, request, header.nlmsg_len, 0) < 0)
		return -errno;
	if (poll(&poll_fd, 1, ANSWER_MS) <= 0)
		return -ETIMEDOUT;
	got = recv(fd, answer, MESSAGE_BYTES, 0);
	return got < 0 ? -errno : (int)got;
}

static int start(struct taskstats_feed *feed)
{
	char answer[MESSAGE_BYTES], cpus[CPUS_BYTES];
	uint32_t own = (uint32_t)getpid();
	bool is_there;
	ssize_t len;
	int got, r;

	feed->fd = netlink_socket(NETLINK_GENERIC, 0, &is_there);
	if (feed->fd < 0)
		return feed->fd;
	got = ask(feed->fd, GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
		  TASKSTATS_GENL_NAME, sizeof(TASKSTATS_GENL_NAME), answer);
	r = got < 0 ? got : taskstats_parse_family(answer, (size_t)got, &feed->family);
	if (r < 0)
		return r;
	/* Of ourselves: what is told of others when they end has the same shape. */
	got = ask(feed->fd, feed->family, 0, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &own,
		  sizeof(own), answer);
	r = got < 0 ? got : taskstats_parse_probe(answer, (size_t)got, feed->family);
	if (r < 0)
		return r;
	len = io_read_text_at(AT_FDCWD, "/sys/devices/system/cpu/possible", cpus, sizeof(cpus));
	if (len < 0)
		return (int)len;
	cpus[strcspn(cpus, "\n")] = '\0'; /* a list such as "0-3" */
	got = ask(feed->fd, feed->family, NLM_F_ACK, TASKSTATS_CMD_GET,
		  TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus, strlen(cpus) + 1, answer);
	return got < 0 ? got : taskstats_parse_ack(answer, (size_t)got);
}

static void close_feed(struct taskstats_feed **feed)
{
	*feed = taskstats_close(*feed);
}

int taskstats_open(struct taskstats_feed **ret, struct err *err)
{
	CLEANUP(close_feed) struct taskstats_feed *feed = calloc(1, sizeof(*feed));
	int r;

	if (!feed)
		return err_set(err, -ENOMEM, "out of memory");
	r = start(feed);
	if (r == -EPERM)
		return err_set(err, r, "only root (CAP_NET_ADMIN) may listen to taskstats");
	if (r == -ENOENT)
		return err_set(err, -EOPNOTSUPP, "this kernel has no taskstats");
	if (r == -EOPNOTSUPP)
		return err_set(err, r, "taskstats says whose a thread was since Linux 5.19");
	if (r < 0)
		return err_set(err, r, "cannot listen to taskstats: %s", strerror(-r));
	*ret = TAKE_PTR(feed);
	return 0;
}

static void forget_all(struct taskstats_feed *feed)
{
	for (size_t i = 0; i < feed->by_pid.cap; i++)
		if (feed->by_pid.slots[i].used)
			free((void *)(uintptr_t)feed->by_pid.slots[i].value);
	map_clear(&feed->by_pid);
	feed->forgot_wall_s = clock_wall_ns() / 1000000000;
}

struct taskstats_feed *taskstats_close(struct taskstats_feed *feed)
{
	if (!feed)
		return NULL;
	forget_all(feed);
	map_release(&feed->by_pid);
	close_fd(&feed->fd);
	free(feed);
	return NULL;
}

/* ---- taking in ---- */

static struct thread_stats *find(const struct taskstats_feed *feed, pid_t pid)
{
	uint64_t value;

	return map_get(&feed->by_pid, (uint64_t)pid, &value) ? (void *)(uintptr_t)value : NULL;
}

/* Without memory for it there will be no account, which is not an empty one. */
static void take_thread(struct taskstats_feed *feed, const struct thread_stats *stats)
{
	struct thread_stats *sum = find(feed, stats->pid);

	if (sum) {
		thread_stats_add(sum, stats);
		return;
	}
	if (feed->by_pid.len >= MAX_WAITING) {
		forget_all(feed);
		feed->has_lost = true;
	}
	sum = malloc(sizeof(*sum));
	if (!sum)
		return;
	*sum = *stats;
	if (map_put(&feed->by_pid, (uint64_t)stats->pid, (uintptr_t)sum) < 0)
		free(sum);
}

static void take_datagram(struct taskstats_feed *feed, const char *bytes, size_t len)
{
	struct thread_stats stats;
	bool has;
	ssize_t step;

	for (; len > 0; bytes += step, len -= (size_t)step) {
		step = taskstats_parse(bytes, len, feed->family, &stats, &has);
		if (step < 0)
			return;
		if (has)
			take_thread(feed, &stats);
	}
}

int taskstats_drain(struct taskstats_feed *feed)
{
	char bytes[MESSAGE_BYTES];
	bool is_overflow = false, has_lost;

	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(feed->fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from,
				     &from_len);

		if (n >= 0 && from.nl_pid == 0) /* only the kernel is believed */
			take_datagram(feed, bytes, (size_t)n);
		else if (n < 0 && errno == ENOBUFS)
			is_overflow = true;
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			return -errno;
	}
	/* Of a process of which a thread was lost the sum would be too small: better none. */
	if (is_overflow)
		forget_all(feed);
	has_lost = feed->has_lost || is_overflow;
	feed->has_lost = false;
	return has_lost;
}

/*
 * The kernel cuts each thread's bytes to whole KiB here, and does not add those of children that
 * were waited for: so it is the least that it can have been, and of less than a KiB nothing is
 * known.
 */
static uint64_t bytes_at_least(uint64_t bytes)
{
	return bytes > 0 ? bytes : U64_UNKNOWN;
}

bool taskstats_take(struct taskstats_feed *feed, pid_t pid, struct exit_account *ret,
		    char ret_comm[THREAD_COMM_BYTES])
{
	struct thread_stats *sum = find(feed, pid);
	bool is_whole;

	if (!sum)
		return false;
	is_whole = !thread_stats_is_before(sum, feed->forgot_wall_s);
	if (is_whole) {
		const struct task_counts counts = { .user_ns = sum->used.user_ns,
						    .system_ns = sum->used.system_ns,
						    .run_ns = sum->used.cpu_ns };
		struct cpu_split split = { 0 };

		task_split_cpu(&counts, &split);
		*ret = sum->used;
		ret->user_ns = split.user_ns;
		ret->system_ns = split.system_ns;
		ret->rchar = bytes_at_least(sum->used.rchar);
		ret->wchar = bytes_at_least(sum->used.wchar);
		memcpy(ret_comm, sum->comm, sizeof(sum->comm));
	}
	map_remove(&feed->by_pid, (uint64_t)pid);
	free(sum);
	return is_whole;
}

#include "sources/taskstats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "base/unknown.h"
#include "sources/taskstats_wire.h"
#include "sources/tasks_sample.h"

#define RECEIVE_BYTES (8 * 1024 * 1024) /* as for the proc connector, whose queue it goes with */
#define MESSAGE_BYTES 4096		/* one is about 500 bytes */
#define ANSWER_MS 200
#define CPUS_BYTES 256
#define MAX_WAITING 16384 /* processes whose end the other queue has not told yet, or lost */

struct taskstats_feed {
	int fd;
	uint16_t family;
	bool has_lost;		/* since that was last told */
	uint64_t forgot_wall_s; /* sums of processes that were there before may lack threads */
	struct map by_pid;	/* struct thread_stats *, the sum of threads that have ended */
};

/* ---- opening ---- */

static int ask(int fd, const char *bytes, size_t n, char *answer, size_t size)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	ssize_t got;

	if (send(fd, bytes, n, 0) < 0)
		return -errno;
	if (poll(&poll_fd, 1, ANSWER_MS) <= 0)
		return -ETIMEDOUT;
	got = recv(fd, answer, size, 0);
	return got < 0 ? -errno : (int)got;
}

static int find_family(int fd, uint16_t *ret)
{
	char request[TASKSTATS_REQUEST_BYTES], answer[MESSAGE_BYTES];
	size_t n = taskstats_write_lookup(request);
	int got = ask(fd, request, n, answer, sizeof(answer));

	return got < 0 ? got : taskstats_parse_family(answer, (size_t)got, ret);
}

/* Asks of ourselves: what is told of others when they end has the same shape. */
static int check_version(int fd, uint16_t family)
{
	char request[TASKSTATS_REQUEST_BYTES], answer[MESSAGE_BYTES];
	size_t n = taskstats_write_probe(family, getpid(), request);
	int got = ask(fd, request, n, answer, sizeof(answer));

	return got < 0 ? got : taskstats_parse_probe(answer, (size_t)got, family);
}

static int register_all_cpus(int fd, uint16_t family)
{
	char request[TASKSTATS_REQUEST_BYTES], answer[MESSAGE_BYTES], cpus[CPUS_BYTES];
	ssize_t len =
		io_read_text_at(AT_FDCWD, "/sys/devices/system/cpu/possible", cpus, sizeof(cpus));
	size_t n;
	int got;

	if (len < 0)
		return (int)len;
	cpus[strcspn(cpus, "\n")] = '\0';
	n = taskstats_write_register(family, cpus, request);
	got = ask(fd, request, n, answer, sizeof(answer));
	return got < 0 ? got : taskstats_parse_ack(answer, (size_t)got);
}

static int open_socket(void)
{
	CLEANUP(close_fd)
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_GENERIC);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int bytes = RECEIVE_BYTES;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int start(struct taskstats_feed *feed)
{
	int r;

	feed->fd = open_socket();
	if (feed->fd < 0)
		return feed->fd;
	r = find_family(feed->fd, &feed->family);
	if (r == 0)
		r = check_version(feed->fd, feed->family);
	return r < 0 ? r : register_all_cpus(feed->fd, feed->family);
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

/* Of a process of which a thread was lost the sum would be too small: better none. */
static int take_loss(struct taskstats_feed *feed, bool is_overflow)
{
	bool has_lost = feed->has_lost || is_overflow;

	if (is_overflow)
		forget_all(feed);
	feed->has_lost = false;
	return has_lost;
}

int taskstats_drain(struct taskstats_feed *feed)
{
	char bytes[MESSAGE_BYTES];
	bool is_overflow = false;

	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(feed->fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from,
				     &from_len);

		if (n >= 0 && from.nl_pid == 0) /* only the kernel is believed */
			take_datagram(feed, bytes, (size_t)n);
		else if (n < 0 && errno == ENOBUFS)
			is_overflow = true;
		else if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? take_loss(feed, is_overflow) : -errno;
	}
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

static struct exit_account account_of(const struct thread_stats *sum)
{
	const struct task_counts counts = { .user_ns = sum->user_ns,
					    .system_ns = sum->system_ns,
					    .run_ns = sum->run_ns };
	struct cpu_split split = { 0 };

	task_split_cpu(&counts, &split);
	return (struct exit_account){ .cpu_ns = sum->run_ns,
				      .user_ns = split.user_ns,
				      .system_ns = split.system_ns,
				      .max_rss_bytes = sum->max_rss_bytes,
				      .minor_faults = sum->minor_faults,
				      .major_faults = sum->major_faults,
				      .rchar = bytes_at_least(sum->rchar),
				      .wchar = bytes_at_least(sum->wchar),
				      .read_bytes = sum->read_bytes,
				      .write_bytes = sum->write_bytes };
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
		*ret = account_of(sum);
		memcpy(ret_comm, sum->comm, sizeof(sum->comm));
	}
	map_remove(&feed->by_pid, (uint64_t)pid);
	free(sum);
	return is_whole;
}

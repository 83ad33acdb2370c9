#include "sources/taskstats_wire.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <string.h>

#include "base/unknown.h"

#define HEADERS (sizeof(struct nlmsghdr) + sizeof(struct genlmsghdr))
/* The kernel's own macros for these are of signed numbers. */
#define TYPE_MASK 0x3fffu
#define PADDED(n) (((size_t)(n) + 3) & ~(size_t)3)

#define MAX_CPUS_TEXT (TASKSTATS_REQUEST_BYTES - HEADERS - 64)

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

static void take_stats(const struct taskstats *t, struct thread_stats *ret)
{
	*ret = (struct thread_stats){
		.pid = (pid_t)t->ac_tgid,
		.start_wall_s = start_of_process(t),
		.user_ns = t->ac_utime * 1000,
		.system_ns = t->ac_stime * 1000,
		.run_ns = t->cpu_run_virtual_total,
		.max_rss_bytes = t->hiwater_rss ? t->hiwater_rss * 1024 : U64_UNKNOWN,
		.minor_faults = t->ac_minflt,
		.major_faults = t->ac_majflt,
		.rchar = t->read_char,
		.wchar = t->write_char,
		.read_bytes = t->read_bytes,
		.write_bytes = t->write_bytes,
	};
	if (t->ac_pid == t->ac_tgid)
		memcpy(ret->comm, t->ac_comm, strnlen(t->ac_comm, sizeof(ret->comm) - 1));
	if (ret->run_ns == 0) /* a kernel that does not count it: ticks are all there is */
		ret->run_ns = ret->user_ns + ret->system_ns;
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
	take_stats(&t, ret);
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
	if (is_another(sum, thread)) {
		*sum = *thread;
		return;
	}
	sum->user_ns += thread->user_ns;
	sum->system_ns += thread->system_ns;
	sum->run_ns += thread->run_ns;
	sum->max_rss_bytes = u64_max_known(sum->max_rss_bytes, thread->max_rss_bytes);
	sum->minor_faults += thread->minor_faults;
	sum->major_faults += thread->major_faults;
	sum->rchar += thread->rchar;
	sum->wchar += thread->wchar;
	sum->read_bytes += thread->read_bytes;
	sum->write_bytes += thread->write_bytes;
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

static size_t write_request(uint16_t type, uint16_t flags, uint8_t command, uint16_t attribute,
			    const void *bytes, size_t len, char ret[TASKSTATS_REQUEST_BYTES])
{
	struct genlmsghdr genl = { .cmd = command, .version = 1 };
	struct nlattr attr = { .nla_len = (uint16_t)(sizeof(attr) + len), .nla_type = attribute };
	struct nlmsghdr header = { .nlmsg_type = type,
				   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) };

	header.nlmsg_len = (uint32_t)(HEADERS + PADDED(attr.nla_len));
	memset(ret, 0, TASKSTATS_REQUEST_BYTES);
	memcpy(ret, &header, sizeof(header));
	memcpy(ret + sizeof(header), &genl, sizeof(genl));
	memcpy(ret + HEADERS, &attr, sizeof(attr));
	memcpy(ret + HEADERS + sizeof(attr), bytes, len);
	return header.nlmsg_len;
}

/* With its NUL, which is there already. */
static size_t write_text(uint16_t type, uint16_t flags, uint8_t command, uint16_t attribute,
			 const char *text, char ret[TASKSTATS_REQUEST_BYTES])
{
	char bytes[MAX_CPUS_TEXT + 1] = "";
	size_t len = strnlen(text, MAX_CPUS_TEXT);

	memcpy(bytes, text, len);
	return write_request(type, flags, command, attribute, bytes, len + 1, ret);
}

size_t taskstats_write_lookup(char ret[TASKSTATS_REQUEST_BYTES])
{
	return write_text(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
			  TASKSTATS_GENL_NAME, ret);
}

size_t taskstats_write_probe(uint16_t family, pid_t pid, char ret[TASKSTATS_REQUEST_BYTES])
{
	uint32_t number = (uint32_t)pid;

	return write_request(family, 0, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &number,
			     sizeof(number), ret);
}

size_t taskstats_write_register(uint16_t family, const char *cpus,
				char ret[TASKSTATS_REQUEST_BYTES])
{
	return write_text(family, NLM_F_ACK, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK,
			  cpus, ret);
}

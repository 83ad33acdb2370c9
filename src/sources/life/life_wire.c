#include "sources/life/life_wire.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <string.h>

static void take_event(const struct cn_msg *cn, const struct proc_event *ev, struct life_raw *ret)
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
	struct proc_event ev = { 0 };
	struct cn_msg cn;

	if (len < sizeof(cn))
		return -EBADMSG;
	memcpy(&cn, bytes, sizeof(cn));
	if (cn.id.idx != CN_IDX_PROC || cn.id.val != CN_VAL_PROC)
		return 0;
	if (cn.len > len - sizeof(cn) || cn.len < offsetof(struct proc_event, event_data))
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

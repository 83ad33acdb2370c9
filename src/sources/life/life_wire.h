/*
 * life_wire - messages of the kernel's proc connector, from bytes to plain data and back.
 *
 * The kernel's header stays in here: its struct proc_event is not ours. The
 * messages tell of threads; life_netlink.h makes processes of them.
 */
#ifndef PROCTOR_SOURCES_LIFE_LIFE_WIRE_H
#define PROCTOR_SOURCES_LIFE_LIFE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum life_raw_type {
	LIFE_RAW_FOREIGN, /* not of the proc connector: has no sequence number */
	LIFE_RAW_ACK,	  /* the answer to somebody's request to listen */
	LIFE_RAW_OTHER,	  /* a change of name, session, …: only its sequence number matters */
	LIFE_RAW_UID,	  /* it has become another user's, or changes between two */
	LIFE_RAW_GID,	  /* the same of its group */
	LIFE_RAW_FORK,
	LIFE_RAW_EXEC,
	LIFE_RAW_EXIT,
};

struct life_raw {
	enum life_raw_type type;
	uint32_t cpu, seq;  /* the kernel numbers the messages of each CPU without gaps */
	uint64_t mono_ns;   /* CLOCK_MONOTONIC */
	pid_t tid, pid;	    /* the thread and its process; of the child for LIFE_RAW_FORK */
	pid_t parent_pid;   /* its process; 0: not told (before Linux 4.18 not for LIFE_RAW_EXIT) */
	int wait_status;    /* LIFE_RAW_EXIT */
	uint32_t uid, euid; /* LIFE_RAW_UID: real and effective */
	uint32_t ack;	    /* LIFE_RAW_ACK: the number in the request, plus one */
	int ack_errno;	    /* LIFE_RAW_ACK: 0, or why the request was refused */
};

/*
 * The first message of bytes[0..len). Returns how many bytes it takes, at
 * least 1 and at most len, or -EBADMSG if it is none or is cut off.
 */
ssize_t life_parse(const void *bytes, size_t len, struct life_raw *ret);

#define LIFE_REQUEST_BYTES 64

/*
 * A request to listen, or to stop it, into ret; returns its length. The kernel
 * answers with a message LIFE_RAW_ACK that bears ack + 1.
 */
size_t life_write_request(bool is_listen, uint32_t ack, char ret[LIFE_REQUEST_BYTES]);

#endif

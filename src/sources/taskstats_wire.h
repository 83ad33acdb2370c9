/*
 * taskstats_wire - messages of the kernel's taskstats, from bytes to plain data and back.
 */
#ifndef PROCTOR_SOURCES_TASKSTATS_WIRE_H
#define PROCTOR_SOURCES_TASKSTATS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define THREAD_COMM_BYTES 16

/* What one thread used. */
struct thread_stats {
	pid_t pid;	       /* of its process */
	uint64_t start_wall_s; /* of its process too, to a second or two */
	uint64_t user_ns, system_ns, run_ns;
	uint64_t max_rss_bytes; /* of the process, so far */
	uint64_t minor_faults, major_faults;
	uint64_t rchar, wchar, read_bytes, write_bytes;
	char comm[THREAD_COMM_BYTES]; /* raw bytes, NUL-terminated; "": of another than the first */
};

/*
 * Adds a thread to the sum of those of its process that have ended before. If that sum is of
 * another process, which had the same pid and of whose end nobody heard, it begins anew.
 */
void thread_stats_add(struct thread_stats *sum, const struct thread_stats *thread);

/* Whether its process may have been there at that time. 0: never. */
bool thread_stats_is_before(const struct thread_stats *stats, uint64_t wall_s);

/*
 * The first message of bytes[0..len): returns how many bytes it takes (at least 1,
 * at most len), or -EBADMSG. *ret_has is true if it tells of a thread: then *ret has
 * it. Messages of other families than this one's are passed over. A kernel that does
 * not say whose thread it was (before 5.19) tells nothing.
 */
ssize_t taskstats_parse(const void *bytes, size_t len, uint16_t family, struct thread_stats *ret,
			bool *ret_has);

/* The answer to taskstats_write_lookup(): the number of the family, or -errno as the kernel said.
 */
int taskstats_parse_family(const void *bytes, size_t len, uint16_t *ret);

/* The answer to taskstats_write_register(): 0, or -errno. -EBADMSG: it is none. */
int taskstats_parse_ack(const void *bytes, size_t len);

/*
 * The answer to taskstats_write_probe(): 0, or -EOPNOTSUPP where the kernel does not say whose
 * thread it is, or the errno it said.
 */
int taskstats_parse_probe(const void *bytes, size_t len, uint16_t family);

#define TASKSTATS_REQUEST_BYTES 512

/* Requests, into ret; return the length. cpus: a list such as "0-3". */
size_t taskstats_write_lookup(char ret[TASKSTATS_REQUEST_BYTES]);
size_t taskstats_write_probe(uint16_t family, pid_t pid, char ret[TASKSTATS_REQUEST_BYTES]);
size_t taskstats_write_register(uint16_t family, const char *cpus,
				char ret[TASKSTATS_REQUEST_BYTES]);

#endif

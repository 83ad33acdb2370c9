#include "recorder/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/num.h"
#include "base/unknown.h"
#include "recorder/recorder.h"

/* ---- where this process is ---- */

#define HOST_BYTES 256

const char *own_host(struct arena *arena)
{
	char name[HOST_BYTES] = "";

	return gethostname(name, sizeof(name) - 1) < 0 ? NULL : arena_strdup(arena, name);
}

/* NULL: it is not. */
static bool own_host_is(const char *host)
{
	char name[HOST_BYTES] = "";

	return host && gethostname(name, sizeof(name) - 1) == 0 && strcmp(name, host) == 0;
}

uint64_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : U64_UNKNOWN;
}

/* ---- whether a runner lives ---- */

/* A pid says something only to who is in its pid namespace, on its host. */
enum store_alive daemon_check_alive(void *ctx, const struct attempt *a)
{
	char boot_id[ALIVE_BOOT_ID_BYTES];

	(void)ctx;
	proc_boot_id(boot_id);
	if (!boot_id[0] || !a->boot_id[0])
		return STORE_CANNOT_TELL;
	if (strcmp(boot_id, a->boot_id) != 0)
		return own_host_is(a->host) ? STORE_DEAD : STORE_CANNOT_TELL;
	if (u64_known(a->pid_ns) && own_pid_ns() != a->pid_ns)
		return STORE_CANNOT_TELL;
	if (proc_is_alive(a->boot_id, a->runner.pid, a->runner.start_ticks))
		return STORE_ALIVE;
	if (!u64_known(a->pid_ns))
		return STORE_CANNOT_TELL; /* it may be of another namespace, such as a daemon's */
	/* What was attached may have left others behind: only a daemon would know. */
	return a->is_attached ? STORE_CANNOT_TELL : STORE_DEAD;
}

/* ---- who a process is ---- */

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD of the kernel's sched.h, since 2.6 */
#define STAT_BYTES 2048
#define STATUS_BYTES 8192

/* Fields of proc/PID/stat, by the numbers that proc(5) gives them. */
enum { STAT_STATE = 3, STAT_PPID = 4, STAT_FLAGS = 9, STAT_EXIT_CODE = 52 };

/* A whole number; false: there is none at that place. */
static bool read_field(const char *text, int wanted, uint64_t *ret)
{
	const char *p = strrchr(text, ')'); /* the name may hold anything */

	p = p ? strchr(p, ' ') : NULL;
	for (int field = STAT_STATE; p && field < wanted; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return false;
	p++;
	return num_scan_u64(&p, ret) == 0;
}

int process_facts_parse_stat(const char *text, struct process_facts *ret)
{
	uint64_t ppid, flags, exit_code;

	if (alive_parse_stat(text, &ret->state, &ret->key.start_ticks) < 0 ||
	    !read_field(text, STAT_PPID, &ppid) || !read_field(text, STAT_FLAGS, &flags))
		return -EINVAL;
	ret->ppid = (pid_t)ppid;
	ret->is_kernel = (flags & KERNEL_THREAD) != 0;
	ret->wait_status = -1;
	if (ret->state == 'Z' && read_field(text, STAT_EXIT_CODE, &exit_code))
		ret->wait_status = (int)(exit_code & 0xffff);
	return 0;
}

int process_facts_parse_status(const char *text, struct process_facts *ret)
{
	const char *line = strstr(text, "\nUid:");
	unsigned real, effective, saved, fs;

	if (!line || sscanf(line, "\nUid: %u %u %u %u", &real, &effective, &saved, &fs) != 4)
		return -EINVAL;
	ret->uid = real;
	ret->is_pure = real == effective && real == saved && real == fs;
	return 0;
}

static int read_file(int root_fd, pid_t pid, const char *name, char *text, size_t size)
{
	ssize_t n = proc_read_text(root_fd, pid, name, text, size);

	return n == -ENOENT ? -ESRCH : n < 0 ? (int)n : 0;
}

int process_facts_read(int root_fd, pid_t pid, struct process_facts *ret)
{
	struct process_facts facts = { .key = { .pid = pid } };
	char text[STATUS_BYTES];
	int r = read_file(root_fd, pid, "status", text, sizeof(text));

	if (r == 0)
		r = process_facts_parse_status(text, &facts);
	if (r == 0)
		r = read_file(root_fd, pid, "stat", text, STAT_BYTES);
	if (r == 0)
		r = process_facts_parse_stat(text, &facts);
	if (r < 0)
		return r;
	*ret = facts;
	return 0;
}

/* ---- who may see it ---- */

bool may_see(uint64_t uid, uint64_t owner, int root_fd, pid_t pid)
{
	char path[48];
	struct stat st;

	/* To a daemon that is not root's the kernel reports no more than to its user. */
	if (uid == 0 || geteuid() != 0)
		return true;
	if (u64_known(owner) || pid <= 0)
		return u64_known(owner) && uid == owner;
	/* Of one that may not be looked into this file is root's, unlike its folder. */
	snprintf(path, sizeof(path), "proc/%d/io", (int)pid);
	return fstatat(root_fd, path, &st, 0) == 0 && uid == st.st_uid;
}

#include "recorder/process_facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/num.h"

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
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "proc/%d/%s", (int)pid, name);
	n = io_read_text_at(root_fd, path, text, size);
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

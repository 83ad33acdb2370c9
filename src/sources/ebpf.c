#include "sources/ebpf.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "sources/proc_text.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"
#define LOCKDOWN_PATH "/sys/kernel/security/lockdown"
#define CPUS_PATH "/sys/devices/system/cpu/possible"
#define CPUS_BYTES 4096

/* The inode of the first pid namespace, fixed by the kernel: PROC_PID_INIT_INO. */
#define INIT_PID_NS UINT64_C(0xEFFFFFFC)

/* libbpf would write to stderr, and most of what it says is for programmers. */
static int print_to_log(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[512];

	(void)level;
	if (log_get_level() < LOG_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	log_debug("%s", line);
	return 0;
}

/* What is lacking; NULL: nothing. CAP_SYS_ADMIN has stood for both since before they were. */
static const char *lacking_rights(void)
{
	bool may_load = ebpf_has_capability(CAP_BPF), may_trace = ebpf_has_capability(CAP_PERFMON);

	if (ebpf_has_capability(CAP_SYS_ADMIN) || (may_load && may_trace))
		return NULL;
	return may_load	   ? "CAP_PERFMON beside CAP_BPF"
	       : may_trace ? "CAP_BPF beside CAP_PERFMON"
			   : "CAP_BPF and CAP_PERFMON";
}

/* A release that cannot be read is taken for an old one: that costs memory, not truth. */
bool ebpf_may_maps_grow(void)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 1));
}

int ebpf_cpu_ids(void)
{
	char text[CPUS_BYTES];
	ssize_t n = io_read_text_at(AT_FDCWD, CPUS_PATH, text, sizeof(text));

	return n < 0 ? (int)n : cpu_ids_parse(text);
}

int ebpf_check(struct err *err)
{
	const char *lacking = lacking_rights();
	struct stat st;

	libbpf_set_print(print_to_log);
	if (lacking)
		return err_set(err, -EPERM, "only root may load eBPF programs, or who has got %s",
			       lacking);
	if (access(BTF_PATH, R_OK) < 0)
		return err_set(err, -EOPNOTSUPP,
			       "this kernel does not describe itself (" BTF_PATH
			       "), which eBPF programs need");
	/* In the first pid namespace the pids that the programs see are those of /proc. */
	if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != INIT_PID_NS)
		return err_set(
			err, -EOPNOTSUPP,
			"eBPF programs see the pids of the first pid namespace, and this is another (a container's)");
	return 0;
}

/* The kernel's own ENOTSUPP has no words outside of it. */
#define KERNEL_ENOTSUPP 524

static const char *words_of(int code)
{
	return code == -KERNEL_ENOTSUPP ? "not supported" : strerror(-code);
}

int ebpf_fail(struct err *err, int code, const char *what)
{
	char text[128];

	if (code >= 0)
		code = -EIO;
	/* It then reads nothing of its own memory for anybody, and says so in many ways. */
	if (io_read_text_at(AT_FDCWD, LOCKDOWN_PATH, text, sizeof(text)) > 0 &&
	    strstr(text, "[confidentiality]") != NULL)
		return err_set(
			err, code,
			"the kernel is locked down (confidentiality), and refused the eBPF program for %s: %s",
			what, words_of(code));
	if (code == -EPERM || code == -EACCES)
		return err_set(err, code, "the kernel refused the eBPF program for %s: %s", what,
			       words_of(code));
	return err_set(err, code, "the eBPF program for %s does not work on this kernel: %s", what,
		       words_of(code));
}

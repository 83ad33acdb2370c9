#include "sources/syscall_name.h"

#include <linux/types.h>
#include <stdio.h>

#include "base/macros.h"
#include "bpf/syscalls.h"
#include "sources/syscall_names.inc.h"

const char *syscall_name(uint32_t nr, char text[SYSCALL_NAME_BYTES])
{
	if (nr == SYSCALL_OTHER)
		return "syscall_other";
	if (nr >= SYSCALL_COMPAT && nr < SYSCALL_COMPAT + SYSCALL_OTHER) {
		snprintf(text, SYSCALL_NAME_BYTES, "compat_%u", nr - SYSCALL_COMPAT);
		return text;
	}
	if (nr < ARRAY_SIZE(syscall_names) && syscall_names[nr])
		return syscall_names[nr];
	snprintf(text, SYSCALL_NAME_BYTES, "syscall_%u", nr);
	return text;
}

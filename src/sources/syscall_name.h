/*
 * syscall_name - what the system calls of this machine's architecture are called.
 */
#ifndef PROCTOR_SOURCES_SYSCALL_NAME_H
#define PROCTOR_SOURCES_SYSCALL_NAME_H

#include <stdint.h>

#define SYSCALL_NAME_BYTES 24

/*
 * The name, or "syscall_N" in text for a number that has none here. All that are beyond any
 * architecture's are told as one, "syscall_other" (bpf/syscalls.h).
 * Those of 32-bit programs are "compat_N".
 */
const char *syscall_name(uint32_t nr, char text[SYSCALL_NAME_BYTES]);

#endif

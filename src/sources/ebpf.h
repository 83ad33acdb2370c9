/*
 * ebpf - what all kernel programs have in common: may they be loaded, and if not, why.
 *
 * libbpf stays in the files that end in _ebpf.c, in ebpf.c and in tasks.c; a
 * build without it has ebpf_none.c in their place, with the same functions.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Whether it is worth trying: a kernel with BTF, CAP_BPF and CAP_PERFMON, the
 * first pid namespace. Costs a few system calls. err has one sentence.
 * -EOPNOTSUPP: not in this build or on this kernel; -EPERM: not for this user.
 */
int ebpf_check(struct err *err);

/* Of this process; false as well where it cannot be asked (rungs.c). */
bool ebpf_has_capability(unsigned capability);

/*
 * The sentence for a load or attach that failed all the same, and the negative errno
 * to return. libbpf's own words go to the debug log.
 */
int ebpf_fail(struct err *err, int code, const char *what);

/*
 * Before Linux 6.1 a map that allocates as it grows does so by the general allocator, which a
 * program that the scheduler runs may not enter: such maps have to be made whole.
 */
bool ebpf_may_maps_grow(void);

/*
 * One more than the highest number of a CPU that this machine can have: their numbers may have
 * holes. -errno: /sys does not say.
 */
int ebpf_cpu_ids(void);

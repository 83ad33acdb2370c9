/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * owner - whose alone a process is.
 *
 * As the kernel decides who may read proc/PID/io: it has one user and one group, and its program
 * has no rights that its user lacks. A program that is set-user-ID or set-group-ID or has
 * capabilities has more, also after it has given them up; the next one that it executes may not.
 */
#ifndef PROCTOR_BPF_OWNER_H
#define PROCTOR_BPF_OWNER_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "differs.h"

/* By its users and groups. 0: root's, or of several. */
static __always_inline __u32 user_of(const struct task_struct *t)
{
	const struct cred *c = t->cred;
	__u32 uid = c->uid.val, gid = c->gid.val;
	bool is_one = uid == c->euid.val && uid == c->suid.val && gid == c->egid.val &&
		      gid == c->sgid.val;

	return is_one ? uid : 0;
}

/* Whether its program has rights that its user lacks. One without memory has no program. */
static __always_inline bool has_more_rights(const struct task_struct *t)
{
	struct mm_struct *mm = t->mm;

	return mm && !is_dumpable(mm);
}

/* Of one that lives. 0: root's, or of several. */
static __always_inline __u32 owner_of(const struct task_struct *t)
{
	return has_more_rights(t) ? 0 : user_of(t);
}

#endif

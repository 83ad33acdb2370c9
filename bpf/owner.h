/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * owner - whose alone a process is.
 */
#ifndef PROCTOR_BPF_OWNER_H
#define PROCTOR_BPF_OWNER_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

/* 0: root's, or of several. A program that is set-user-ID is for root to know. */
static __always_inline __u32 owner_of(struct task_struct *t)
{
	const struct cred *c = t->cred;
	__u32 uid = c->uid.val;

	return uid == c->euid.val && uid == c->suid.val ? uid : 0;
}

#endif

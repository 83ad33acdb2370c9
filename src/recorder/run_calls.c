#include "recorder/run_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "recorder/calls.h"
#include "sources/sources.h"

/* All trees of a run are one job's. */
#define TAG 1

struct run_calls {
	struct membership *members;
	struct counted_calls calls;
	struct err trouble;	/* the first; code 0: none */
	struct err why_no_ebpf; /* where it is strace */

	struct syscalls *ebpf; /* NULL: by strace */

	struct strace **straces; /* one for each command */
	size_t n_straces;
	bool is_warned; /* of what it takes from the job */
};

/* ---- life cycle ---- */

static int open_ebpf(const struct run_syscalls *o, struct run_calls *c, struct err *err)
{
	const struct syscalls_options options = { .time_every = o->time_every };

	if (o->how == RUN_SYSCALLS_STRACE)
		return err_set(err, -EOPNOTSUPP, "strace was asked for");
	if (!o->may_ebpf && o->how != RUN_SYSCALLS_EBPF)
		return err_set(err, -EOPNOTSUPP,
			       "ebpf_enabled or syscalls_enabled is false in the configuration");
	return syscalls_open(&options, &c->ebpf, err);
}

static int find_rung(const struct run_syscalls *o, struct run_calls *c, struct err *err)
{
	bool may_strace =
		o->how == RUN_SYSCALLS_STRACE || (o->how != RUN_SYSCALLS_EBPF && o->may_strace);
	int r = open_ebpf(o, c, &c->why_no_ebpf);

	if (r == 0)
		return 0;
	if (!may_strace)
		return err_set(
			err, r, "%.400s%s", c->why_no_ebpf.text,
			o->how == RUN_SYSCALLS_EBPF ? "" : "; --syscalls=strace can, and is slow");
	return sources_has_strace() ? 0 : err_set(err, -ENOENT, "strace is not installed");
}

void run_calls_open(const struct run_syscalls *options, struct membership *members,
		    struct run_calls **ret, struct err *err)
{
	struct run_calls *c = calloc(1, sizeof(*c));

	*ret = NULL;
	if (!c) {
		err_set(err, -ENOMEM, "out of memory");
		return;
	}
	c->members = members;
	c->calls.processes.max_bytes = RUN_CALLS_MAX_TEXT_BYTES;
	*ret = find_rung(options, c, err) == 0 ? c : run_calls_close(c);
	if (*ret && c->ebpf)
		c->calls.time_every = options->time_every;
}

struct run_calls *run_calls_close(struct run_calls *c)
{
	if (!c)
		return NULL;
	c->ebpf = syscalls_close(c->ebpf);
	for (size_t i = 0; i < c->n_straces; i++)
		strace_free(c->straces[i]);
	free(c->straces);
	counted_calls_release(&c->calls);
	free(c);
	return NULL;
}

bool run_calls_traces(const struct run_calls *c)
{
	return c && !c->ebpf;
}

struct rung run_calls_rung(const struct run_calls *c)
{
	if (c->ebpf)
		return (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" };
	return (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_STRACE,
			      c->why_no_ebpf.text };
}

/* ---- counting ---- */

static void note_trouble(struct run_calls *c, const struct err *err)
{
	if (c->trouble.code != 0)
		return;
	c->trouble = *err;
	log_warning("system calls are not all counted, and the job goes on: %s", err->text);
}

/* It is our child, and no part of the job. */
static int set_apart(struct run_calls *c, const struct strace *s)
{
	return membership_add_stranger(c->members, strace_pid(s));
}

static int add_strace(struct run_calls *c, pid_t pid, struct err *err)
{
	struct strace **straces = reallocarray(c->straces, c->n_straces + 1, sizeof(*straces));
	struct strace *s = NULL;
	int r;

	if (!straces)
		return err_set(err, -ENOMEM, "out of memory");
	c->straces = straces;
	r = strace_start(pid, &s, err);
	if (r < 0)
		return r;
	if (set_apart(c, s) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = strace_await(s, err);
	if (r < 0)
		strace_free(s);
	else
		c->straces[c->n_straces++] = s;
	return r;
}

bool run_calls_withholds_rights(const struct run_calls *c)
{
	return c && !c->ebpf && geteuid() != 0;
}

static void begin_strace(struct run_calls *c, pid_t pid)
{
	struct err err = ERR_INIT;

	if (!c->is_warned && run_calls_withholds_rights(c))
		log_warning("strace counts the system calls: programs in this job that would run "
			    "as another user (setuid, sudo) do not get those rights, and may fail");
	c->is_warned = true;
	if (add_strace(c, pid, &err) < 0)
		note_trouble(c, &err);
}

void run_calls_begin(struct run_calls *c, pid_t pid)
{
	struct err err = ERR_INIT;
	int r;

	if (!c->ebpf) {
		begin_strace(c, pid);
		return;
	}
	r = syscalls_track(c->ebpf, pid, TAG);
	if (r < 0) {
		err_set(&err, r, "%s", strerror(-r));
		note_trouble(c, &err);
	}
}

static void add_process(void *ctx, const struct syscall_process *p)
{
	struct run_calls *c = ctx;

	counted_calls_add(&c->calls, p);
}

static bool take_in(struct run_calls *c)
{
	struct syscalls_lost lost;
	struct err err = ERR_INIT;
	int r = syscalls_read(c->ebpf, &lost);

	if (r == 0) {
		c->calls.lost.calls += lost.calls;
		c->calls.lost.threads += lost.threads;
		return true;
	}
	err_set(&err, r, "%s", strerror(-r));
	note_trouble(c, &err);
	return false;
}

void run_calls_fill(struct run_calls *c, struct snapshot *snap)
{
	if (!c->ebpf || !syscalls_is_armed(c->ebpf) || !take_in(c))
		return;
	syscalls_fill(c->ebpf, snap);
	syscalls_each_ended(c->ebpf, add_process, c);
}

/* ---- the end ---- */

static void end_straces(struct run_calls *c)
{
	for (size_t i = 0; i < c->n_straces; i++) {
		struct err err = ERR_INIT;

		if (strace_end_count(c->straces[i], add_process, c, &err) < 0)
			note_trouble(c, &err);
	}
	c->n_straces = 0;
}

void run_calls_end(struct run_calls *c, struct attempt *a)
{
	if (!c->ebpf)
		end_straces(c);
	else if (syscalls_is_armed(c->ebpf) && take_in(c))
		syscalls_each(c->ebpf, add_process, c);
	counted_calls_keep(&c->calls, c->trouble.code != 0 ? c->trouble.text : NULL, a);
}

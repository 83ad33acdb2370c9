#include "daemon/run_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/call_sums.h"
#include "model/syscall_text.h"
#include "sources/sources.h"

/* All trees of a run are one job's. */
#define TAG 1

/* Texts of so many bytes in all: those of 10,000 processes, mostly. */
#define MAX_TEXT_BYTES (4 << 20)

struct process_calls {
	struct proc_key key;
	const char *text; /* NULL: was given to its record */
};

struct run_calls {
	struct tree *tree;
	struct call_sums sums;
	struct process_calls *ended; /* what each has called, oldest first */
	size_t n_ended, cap_ended;
	struct arena arena; /* of their texts */
	size_t n_bytes;
	uint64_t n_untold;	/* processes that there was no room for */
	struct err trouble;	/* the first; code 0: none */
	struct err why_no_ebpf; /* where it is strace */

	struct syscalls *ebpf; /* NULL: by strace */
	uint64_t n_lost;

	struct strace **straces; /* one for each command */
	size_t n_straces;
};

/* ---- life cycle ---- */

static int open_ebpf(const struct run_syscalls *o, struct run_calls *c, struct err *err)
{
	if (o->how == RUN_SYSCALLS_STRACE)
		return err_set(err, -EOPNOTSUPP, "strace was asked for");
	if (!o->may_ebpf && o->how != RUN_SYSCALLS_EBPF)
		return err_set(err, -EOPNOTSUPP,
			       "ebpf_enabled or syscalls_enabled is false in the configuration");
	return syscalls_open(NULL, &c->ebpf, err);
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

void run_calls_open(const struct run_syscalls *options, struct tree *tree, struct run_calls **ret,
		    struct err *err)
{
	struct run_calls *c = calloc(1, sizeof(*c));

	*ret = NULL;
	if (!c) {
		err_set(err, -ENOMEM, "out of memory");
		return;
	}
	c->tree = tree;
	*ret = find_rung(options, c, err) == 0 ? c : run_calls_close(c);
}

struct run_calls *run_calls_close(struct run_calls *c)
{
	if (!c)
		return NULL;
	c->ebpf = syscalls_close(c->ebpf);
	for (size_t i = 0; i < c->n_straces; i++)
		strace_free(c->straces[i]);
	free(c->straces);
	free(c->ended);
	arena_release(&c->arena);
	call_sums_release(&c->sums);
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
	return tree_add_stranger(c->tree, strace_pid(s));
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

void run_calls_begin(struct run_calls *c, pid_t pid)
{
	struct err err = ERR_INIT;
	int r;

	if (!c->ebpf) {
		if (add_strace(c, pid, &err) < 0)
			note_trouble(c, &err);
		return;
	}
	r = syscalls_track(c->ebpf, pid, TAG);
	if (r < 0) {
		err_set(&err, r, "%s", strerror(-r));
		note_trouble(c, &err);
	}
}

static struct process_calls *grow_ended(struct run_calls *c)
{
	size_t cap = c->cap_ended ? 2 * c->cap_ended : 64;
	struct process_calls *ended;

	if (c->n_ended < c->cap_ended)
		return c->ended;
	ended = reallocarray(c->ended, cap, sizeof(*ended));
	if (!ended)
		return NULL;
	c->ended = ended;
	c->cap_ended = cap;
	return ended;
}

static bool keep_text(struct run_calls *c, const struct syscall_process *p)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const char *kept;

	syscall_text_write(&text, p->uses, p->n_uses);
	if (buf_error(&text) < 0 || c->n_bytes + text.len > MAX_TEXT_BYTES || !grow_ended(c))
		return false;
	kept = arena_strndup(&c->arena, text.data, text.len);
	if (!kept)
		return false;
	c->n_bytes += text.len;
	c->ended[c->n_ended++] = (struct process_calls){ { p->pid, p->start_ticks }, kept };
	return true;
}

/* By strace, and where there was no room to tell processes apart, they are of the whole tree. */
static void add_process(void *ctx, const struct syscall_process *p)
{
	struct run_calls *c = ctx;

	call_sums_add(&c->sums, p->uses, p->n_uses);
	if (p->pid > 0 && !keep_text(c, p))
		c->n_untold++;
}

static bool take_in(struct run_calls *c)
{
	int64_t lost = syscalls_read(c->ebpf);
	struct err err = ERR_INIT;

	if (lost >= 0) {
		c->n_lost += (uint64_t)lost;
		return true;
	}
	err_set(&err, (int)lost, "%s", strerror((int)-lost));
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

static void keep_sums(struct run_calls *c, struct attempt *a)
{
	struct syscall_use *uses = arena_alloc(&a->arena, (c->sums.n + 1) * sizeof(*uses));

	call_sums_sort(&c->sums);
	for (size_t i = 0; uses && i < c->sums.n; i++) {
		uses[i] = c->sums.uses[i];
		uses[i].name = arena_strdup(&a->arena, uses[i].name);
		if (!uses[i].name)
			return;
	}
	a->syscalls = uses;
	a->n_syscalls = uses ? c->sums.n : 0;
}

static bool is_of(const struct process_calls *calls, const struct proc_record *p)
{
	return calls->text && calls->key.pid == p->key.pid &&
	       (!u64_known(p->key.start_ticks) || calls->key.start_ticks == p->key.start_ticks);
}

static int compare_pid(const void *a, const void *b)
{
	const struct process_calls *x = a, *y = b;

	if (x->key.pid != y->key.pid)
		return x->key.pid < y->key.pid ? -1 : 1;
	return (x->key.start_ticks > y->key.start_ticks) -
	       (x->key.start_ticks < y->key.start_ticks);
}

static size_t find_first(const struct run_calls *c, pid_t pid)
{
	size_t low = 0, high = c->n_ended;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (c->ended[middle].key.pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A process that no sample saw has no start time: of several with its pid it is the first. */
static void tell_process(struct run_calls *c, struct proc_record *p, struct arena *arena)
{
	for (size_t i = find_first(c, p->key.pid);
	     i < c->n_ended && c->ended[i].key.pid == p->key.pid; i++)
		if (is_of(&c->ended[i], p)) {
			p->syscalls = arena_strdup(arena, c->ended[i].text);
			c->ended[i].text = NULL;
			return;
		}
}

static void tell_processes(struct run_calls *c, struct attempt *a)
{
	if (c->n_ended == 0)
		return;
	qsort(c->ended, c->n_ended, sizeof(*c->ended), compare_pid);
	for (size_t i = 0; i < a->n_processes; i++)
		tell_process(c, &a->processes[i], &a->arena);
}

static const char *say_trouble(const struct run_calls *c, struct arena *arena)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	uint64_t n_lost = u64_add(c->n_lost, c->sums.n_left_out);

	if (c->trouble.code != 0)
		buf_printf(&text, "some were not counted: %s", c->trouble.text);
	if (n_lost > 0)
		buf_printf(&text, "%s%llu calls or more found no room to be counted in",
			   text.len > 0 ? "; " : "", (unsigned long long)n_lost);
	if (c->n_untold > 0)
		buf_printf(&text, "%sthose of %llu processes are in the sums alone",
			   text.len > 0 ? "; " : "", (unsigned long long)c->n_untold);
	if (buf_error(&text) < 0)
		return "some were not counted";
	return text.len > 0 ? arena_strndup(arena, text.data, text.len) : NULL;
}

void run_calls_end(struct run_calls *c, struct attempt *a, const char **ret_why)
{
	if (!c->ebpf)
		end_straces(c);
	else if (syscalls_is_armed(c->ebpf) && take_in(c))
		syscalls_each(c->ebpf, add_process, c);
	keep_sums(c, a);
	tell_processes(c, a);
	*ret_why = say_trouble(c, &a->arena);
}

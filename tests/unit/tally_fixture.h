/*
 * tally_fixture - a tally and a snapshot for each test, and a job that is written in few words.
 */
#ifndef PROCTOR_TESTS_TALLY_FIXTURE_H
#define PROCTOR_TESTS_TALLY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"

#define MB (UINT64_C(1024) * 1024)
#define SECOND UINT64_C(1000000000)
#define RUNNER 100

static inline struct proc_sample zombie_of(pid_t pid)
{
	struct proc_sample z;

	proc_sample_init(&z);
	z.key.pid = pid;
	z.sheet_num = 1;
	return z;
}

static inline struct reaped ended(pid_t pid, int wait_status, long maxrss_mb, double user_seconds)
{
	struct reaped r = { .pid = pid,
			    .wait_status = wait_status,
			    .pre_exec_rss_bytes = U64_UNKNOWN };

	r.usage.ru_maxrss = maxrss_mb * 1024;
	r.usage.ru_utime.tv_sec = (time_t)user_seconds;
	r.usage.ru_utime.tv_usec =
		(suseconds_t)((user_seconds - (double)(time_t)user_seconds) * 1e6);
	return r;
}

static inline void add_sample(struct snapshot *snap, pid_t pid, uint64_t rss, uint64_t hwm,
			      uint64_t cpu_ns)
{
	struct proc_sample *p = snapshot_add_process(snap);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, 1 };
	p->job_id = "job";
	p->sheet_num = 1;
	p->rss_bytes = rss;
	p->hwm_bytes = hwm;
	p->user_ns = cpu_ns;
	p->system_ns = 0;
	p->child_user_ns = p->child_system_ns = 0;
}

static inline void root(struct tally *t, pid_t pid, int sheet_num, uint64_t wall_ns)
{
	tally_birth(t,
		    &(struct birth){ .pid = pid,
				     .ppid = RUNNER,
				     .sheet_num = sheet_num,
				     .rank = RANK_NONE,
				     .wall_ns = wall_ns,
				     .command = "root",
				     .uid = 7 },
		    true);
}

static inline void fork_of(struct tally *t, pid_t pid, pid_t ppid, uint64_t wall_ns)
{
	tally_birth(t,
		    &(struct birth){ .pid = pid,
				     .ppid = ppid,
				     .sheet_num = 1,
				     .rank = RANK_NONE,
				     .wall_ns = wall_ns,
				     .uid = U64_UNKNOWN },
		    false);
}

static inline struct usage total(struct tally *t, bool is_complete)
{
	struct usage u;

	tally_total(t, 10 * SECOND, is_complete, &u);
	return u;
}

/* Sheet 1, with its command. */
static inline void begin(struct tally *t)
{
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
}

/* Waited for, with what the kernel says then, and with no more than that. */
static inline void end(struct tally *t, pid_t pid, int wait_status, long maxrss_mb,
		       double user_seconds)
{
	struct proc_sample z = zombie_of(pid);
	struct reaped r = ended(pid, wait_status, maxrss_mb, user_seconds);

	tally_reap(t, &r, &z, 5, 5);
}

/* The kernel reports how it ended, and what it had used by then (NULL: nothing of that). */
static inline void report_end(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns,
			      const char *name, const struct exit_account *account)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key.pid = pid;
	p.died_wall_ns = wall_ns;
	p.status = exit_status_from_wait(wait_status);
	p.command = name;
	if (account)
		proc_record_account(&p, account);
	tally_merge_end(t, &p, false);
}

static inline void tally_exit(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns)
{
	report_end(t, pid, wait_status, wall_ns, NULL, NULL);
}

/* ---- what each test has ---- */

struct tally_fixture {
	struct tally *t; /* that is told of births */
	struct snapshot snap;
};

static inline int make_tally(void **state)
{
	struct tally_fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->t = tally_new("job", true);
	snapshot_init(&f->snap);
	*state = f;
	return f->t ? 0 : -1;
}

static inline int free_tally(void **state)
{
	struct tally_fixture *f = *state;

	tally_free(f->t);
	snapshot_release(&f->snap);
	free(f);
	return 0;
}

static inline struct tally *tally_of(void **state)
{
	struct tally_fixture *f = *state;

	return f->t;
}

static inline struct snapshot *snapshot_of(void **state)
{
	struct tally_fixture *f = *state;

	return &f->snap;
}

#define TALLY_TEST(name) cmocka_unit_test_setup_teardown(name, make_tally, free_tally)

#endif

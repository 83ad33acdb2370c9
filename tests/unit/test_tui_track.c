/*
 * Rates of I/O and CPU, where the kernel adds what a child did to its parent when that has waited
 * for it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "tui/tracks.h"

#define MB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

struct row {
	pid_t pid, ppid;
	uint64_t read_mb; /* U64_UNKNOWN */
	int ignores_sigchld;
};

static void begin_look(struct snapshot *s, unsigned at)
{
	snapshot_init(s);
	s->wall_ns = s->boot_ns = (1000 + at) * SECOND;
}

static struct proc_sample *add_row(struct snapshot *s, pid_t pid, pid_t ppid)
{
	struct proc_sample *p = snapshot_add_process(s);

	p->key = (struct proc_key){ pid, 7 };
	p->ppid = ppid;
	return p;
}

static void look(struct tracks *t, unsigned at, const struct row *rows, size_t n)
{
	CLEANUP(snapshot_release) struct snapshot s;

	begin_look(&s, at);
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = add_row(&s, rows[i].pid, rows[i].ppid);

		p->wchar = 0;
		p->rchar = u64_known(rows[i].read_mb) ? rows[i].read_mb * MB : U64_UNKNOWN;
		p->ignores_sigchld = (signed char)rows[i].ignores_sigchld;
	}
	assert_int_equal(tracks_add(t, &s), 0);
}

#define LOOK(t, at, ...)                                 \
	look(t, at, (const struct row[]){ __VA_ARGS__ }, \
	     ARRAY_SIZE(((const struct row[]){ __VA_ARGS__ })))

static double rate_of(const struct tracks *t, pid_t pid)
{
	const struct proc_key key = { pid, 7 };

	return tracks_find(t, track_key_of_process(&key))->io_rate / (double)MB;
}

static void test_a_child_is_told_once(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 1, 1, false }, { 11, 10, 100, false });
	assert_true(isnan(rate_of(&t, 11)));
	LOOK(&t, 1, { 10, 1, 1, false }, { 11, 10, 150, false });
	assert_true(rate_of(&t, 10) == 0 && rate_of(&t, 11) == 50);
	LOOK(&t, 2, { 10, 1, 161, false }); /* the child's 150, 8 more of it, and 2 of its own */
	assert_true(rate_of(&t, 10) == 10);
	LOOK(&t, 3, { 10, 1, 164, false });
	assert_true(rate_of(&t, 10) == 3);
	LOOK(&t, 4, { 10, 1, 169, false }); /* with one that nobody has seen */
	assert_true(rate_of(&t, 10) == 5);
}

/* A child that began so long before; all that it did it has done since the look before, or not. */
static double rate_of_new(double age_seconds)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	struct proc_sample *p;

	LOOK(&t, 0, { 10, 1, 1, false });
	begin_look(&s, 2);
	p = add_row(&s, 11, 10);
	p->rchar = 100 * MB;
	p->wchar = 0;
	p->age_seconds = age_seconds;
	assert_int_equal(tracks_add(&t, &s), 0);
	return rate_of(&t, 11);
}

static void test_a_child_that_is_new(void **state)
{
	(void)state;
	assert_true(rate_of_new(1.5) == 50);
	assert_true(isnan(rate_of_new(2.5))); /* it was there before, and nobody saw it */
	assert_true(isnan(rate_of_new(F64_UNKNOWN)));
}

/* Which of the two below it ended first decides whether the grandchild's bytes came: 31 or 1. */
static void test_all_below_it(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 1, 0, false }, { 11, 10, 20, false }, { 12, 11, 30, false });
	LOOK(&t, 1, { 10, 1, 51, false });
	assert_true(isnan(rate_of(&t, 10)));
	LOOK(&t, 2, { 10, 1, 53, false });
	assert_true(rate_of(&t, 10) == 2);
}

/* Too little for the grandchild's to be in it. */
static void test_a_grandchild_that_did_not_come(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 1, 0, false }, { 11, 10, 20, false }, { 12, 11, 30, false });
	LOOK(&t, 1, { 10, 1, 25, false });
	assert_true(rate_of(&t, 10) == 5);
}

/* The record does not say who ignores SIGCHLD. */
static void test_who_ignores_is_not_known(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 1, 0, SIGCHLD_UNKNOWN }, { 11, 10, 20, SIGCHLD_UNKNOWN });
	LOOK(&t, 1, { 10, 1, 4, SIGCHLD_UNKNOWN }, { 11, 10, 20, SIGCHLD_UNKNOWN });
	assert_true(rate_of(&t, 10) == 4);
	LOOK(&t, 2, { 10, 1, 29, SIGCHLD_UNKNOWN });
	assert_true(isnan(rate_of(&t, 10)));
	LOOK(&t, 3, { 10, 1, 30, SIGCHLD_UNKNOWN });
	assert_true(rate_of(&t, 10) == 1);
}

/* As the record has it: a process, what it has got of children, and one of them; 0: none. */
static void look_back(struct tracks *t, unsigned at, uint64_t read_mb, uint64_t ended_ms,
		      pid_t child)
{
	CLEANUP(snapshot_release) struct snapshot s;

	begin_look(&s, at);
	for (size_t i = 0; i < (child ? 2 : 1); i++) {
		struct proc_sample *p = add_row(&s, i == 0 ? 10 : child, i == 0 ? 1 : 10);

		p->wchar = 0;
		p->rchar = (i == 0 ? read_mb : 20) * MB;
		p->child_user_ns = i == 0 ? ended_ms * 1000000 : 0;
		p->child_system_ns = 0;
	}
	assert_int_equal(tracks_add(t, &s), 0);
}

/* But who has got the CPU time of a child does not. */
static void test_who_waits_is_found_out(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	look_back(&t, 0, 0, 0, 11);
	look_back(&t, 1, 29, 10, 12);
	assert_true(rate_of(&t, 10) == 9);
	look_back(&t, 2, 52, 10, 0); /* this one had less than a tick */
	assert_true(rate_of(&t, 10) == 3);
}

/* Those of which the kernel has told the parent nothing. */
static void test_nobody_waited(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 1, 0, true }, { 11, 10, 20, false }, { 20, 1, 0, false },
	     { 21, 20, 20, false }, { 30, 1, 0, false }, { 31, 30, U64_UNKNOWN, false });
	LOOK(&t, 1, { 10, 1, 25, true }, { 20, 1, 5, false }, { 30, 1, 5, false });
	assert_true(rate_of(&t, 10) == 25);
	assert_true(rate_of(&t, 20) == 5);
	assert_true(rate_of(&t, 30) == 5);
}

/* A process cannot be its own ancestor, whatever is told. */
static void test_circles(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK(&t, 0, { 10, 11, 5, false }, { 11, 10, 5, false }, { 12, 12, 5, false });
	LOOK(&t, 1, { 20, 1, 5, false });
	LOOK(&t, 2, { 20, 1, 6, false });
	assert_true(rate_of(&t, 20) == 1);
}

/* ---- CPU ---- */

#define MS UINT64_C(1000000)

struct cpu_row {
	pid_t pid, ppid;
	unsigned own_ms, ended_ms; /* its own, and of children that it has waited for */
	double age;
};

static void look_cpu(struct tracks *t, unsigned at, const struct cpu_row *rows, size_t n)
{
	CLEANUP(snapshot_release) struct snapshot s;

	begin_look(&s, at);
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = add_row(&s, rows[i].pid, rows[i].ppid);

		p->cpu_ns = rows[i].own_ms * MS;
		p->child_user_ns = rows[i].ended_ms * MS;
		p->child_system_ns = 0;
		p->age_seconds = rows[i].age;
	}
	assert_int_equal(tracks_add(t, &s), 0);
}

#define LOOK_CPU(t, at, ...)                                     \
	look_cpu(t, at, (const struct cpu_row[]){ __VA_ARGS__ }, \
		 ARRAY_SIZE(((const struct cpu_row[]){ __VA_ARGS__ })))

static void assert_percent(const struct tracks *t, pid_t pid, double percent)
{
	const struct proc_key key = { pid, 7 };
	double is = tracks_find(t, track_key_of_process(&key))->cpu_percent;

	if (isnan(percent))
		assert_true(isnan(is));
	else
		assert_float_equal(is, percent, 0.001);
}

static void test_children_that_nobody_saw(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK_CPU(&t, 0, { 10, 1, 500, 9000, 60 });
	assert_percent(&t, 10, F64_UNKNOWN); /* since when? */
	LOOK_CPU(&t, 1, { 10, 1, 510, 9270, 61 });
	assert_percent(&t, 10, 28);
	LOOK_CPU(&t, 2, { 10, 1, 510, 9270, 62 });
	assert_percent(&t, 10, 0);
}

/* What was told as the child's own is not told again as its parent's. */
static void test_a_child_that_was_seen(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK_CPU(&t, 0, { 10, 1, 0, 0, 60 });
	LOOK_CPU(&t, 1, { 10, 1, 0, 0, 61 }, { 11, 10, 200, 100, 0.5 });
	assert_percent(&t, 11, 30); /* it began after the look before */
	LOOK_CPU(&t, 2, { 10, 1, 0, 350, 62 });
	assert_percent(&t, 10, 5);
}

/* Its parent is gone as well: who has got it is not known, and it is told to none of them. */
static void test_orphans_are_not_told_again(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK_CPU(&t, 0, { 5, 1, 0, 0, 60 }, { 10, 5, 0, 0, 60 }, { 11, 10, 10, 0, 60 },
		 { 12, 11, 5000, 0, 60 });
	LOOK_CPU(&t, 1, { 5, 1, 0, 5000, 61 }, { 10, 5, 0, 20, 61 });
	assert_percent(&t, 5, 0);
	assert_percent(&t, 10, 0);
	LOOK_CPU(&t, 2, { 5, 1, 0, 5000, 62 }, { 10, 5, 0, 320, 62 });
	assert_percent(&t, 10, 28); /* 20 ms may have been rounded away before */
}

/* The kernel tells in whole ticks: five times 4 ms that were seen are not one more. */
static void test_ticks_are_not_told_again(void **state)
{
	CLEANUP(tracks_release) struct tracks t = TRACKS_INIT;

	(void)state;
	LOOK_CPU(&t, 0, { 10, 1, 0, 0, 60 }, { 11, 10, 4, 0, 60 });
	LOOK_CPU(&t, 1, { 10, 1, 0, 0, 61 }, { 12, 10, 4, 0, 60 });
	assert_percent(&t, 10, 0);
	LOOK_CPU(&t, 2, { 10, 1, 0, 0, 62 }, { 13, 10, 4, 0, 60 });
	assert_percent(&t, 10, 0);
	LOOK_CPU(&t, 3, { 10, 1, 0, 10, 63 });
	assert_percent(&t, 10, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_child_is_told_once),
		cmocka_unit_test(test_a_child_that_is_new),
		cmocka_unit_test(test_all_below_it),
		cmocka_unit_test(test_a_grandchild_that_did_not_come),
		cmocka_unit_test(test_who_ignores_is_not_known),
		cmocka_unit_test(test_who_waits_is_found_out),
		cmocka_unit_test(test_nobody_waited),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_children_that_nobody_saw),
		cmocka_unit_test(test_a_child_that_was_seen),
		cmocka_unit_test(test_orphans_are_not_told_again),
		cmocka_unit_test(test_ticks_are_not_told_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which cause the verdict of "proctor why" names, and that it names none without evidence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "report/report.h"
#include "report_cases.h"

static void write_why(const struct attempt *a, const char *reasons, bool as_json, struct buf *out)
{
	const struct why_known known = {
		.attempt = a, .waits = "", .reasons = reasons, .cpu_count = 2
	};

	assert_int_equal(report_write_why(&known, as_json, out), 0);
}

static void expect(const struct attempt *a, const char *reasons, bool as_json, const char *words)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	write_why(a, reasons, as_json, &out);
	if (!strstr(out.data, words))
		fail_msg("no '%s' in: %s", words, out.data);
}

static void test_at_most_ten_safe_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct attempt a;
		size_t n = 0;

		report_cases[i].build(&a);
		write_why(&a, "", false, &out);
		for (size_t k = 0; k < out.len; k++) {
			n += out.data[k] == '\n';
			assert_true(out.data[k] == '\n' || (unsigned char)out.data[k] >= ' ');
		}
		assert_true(n >= 1 && n <= 10);
		attempt_release(&a);
	}
}

/* ---- a run that took 10 s where 1 s is usual ---- */

static void slow_run(struct attempt *a, double cpu_seconds)
{
	struct standing *s;

	case_begin(a, "slow", "tar");
	case_end(a, 10, OUTCOME_SUCCESS, "exit code 0", exited(0));
	s = case_alloc(a, 1, sizeof(*s));
	s->n_others = 20;
	s->values[STANDING_WALL] = (struct standing_value){ .value = 10,
							    .median = 1,
							    .low = 1,
							    .high = 1.2,
							    .n = 20,
							    .n_below = 20,
							    .side = 1,
							    .is_unusual = true };
	s->values[STANDING_CPU] = s->values[STANDING_WALL];
	s->values[STANDING_CPU].value = cpu_seconds;
	s->values[STANDING_CPU].is_unusual = cpu_seconds > 1.2;
	s->values[STANDING_PEAK] = (struct standing_value){ .value = NAN };
	a->details.standing = s;
}

static void add_call(struct attempt *a, const char *name, double wait_seconds)
{
	if (!a->details.syscalls)
		a->details.syscalls = case_alloc(a, 8, sizeof(*a->details.syscalls));
	a->details.syscalls[a->details.n_syscalls++] =
		(struct syscall_use){ name, 1, 0, U64_UNKNOWN, SEC(wait_seconds) };
}

static void test_nothing_is_made_up(void **state)
{
	struct attempt a;

	(void)state;
	slow_run(&a, 2);
	add_call(&a, "wait4", 9);
	add_call(&a, "read", 4); /* less than half of 9 s */
	expect(&a, "", true, "\"cause\":\"unknown\"");
	expect(&a, "", true, "\"reasons\":null");
	expect(&a, "", false, "\nunknown   cannot tell why: ");
	attempt_release(&a);
}

static void test_the_longest_call(void **state)
{
	struct attempt a;

	(void)state;
	slow_run(&a, 1);
	add_call(&a, "futex", 30);
	expect(&a, "", true, "waited 30.0 s in futex (1 call)"); /* there is no better */
	expect(&a, "stalled for I/O 90 %", true, "\"reasons\":\"stalled for I/O 90 %\"");
	expect(&a, "stalled for I/O 90 %", true, "\"cause\":\"disk_stall\"");
	add_call(&a, "read", 5);
	add_call(&a, "flock", 8);
	expect(&a, "", true, "\"reasons\":\"waited 8.00 s in flock (1 call)\"");
	expect(&a, "", true, "\"cause\":\"lock\"");
	attempt_release(&a);
}

static void test_more_work(void **state)
{
	struct attempt a;

	(void)state;
	slow_run(&a, 9);
	expect(&a, "", true, "\"cause\":\"work\"");
	expect(&a, "", false, "\nbecause   computed 8.00 s longer\n");
	attempt_release(&a);
}

/* Without the grace period behind it. */
static void test_the_time_of_the_limit(void **state)
{
	struct attempt a;

	(void)state;
	case_begin(&a, "late", "flock");
	case_end(&a, 20, OUTCOME_TIMEOUT,
		 "time limit of 10 s reached; flock (pid 9) was waiting for a lock on /x, held by "
		 "tar (pid 7); killed by SIGKILL",
		 killed(9));
	a.cause = (struct cause){ CAUSE_LOCK, 9, 7 };
	a.n_events = 1;
	a.events = case_alloc(&a, 1, sizeof(*a.events));
	a.events[0] = (struct proc_event){ .wall_ns = AFTER(10),
					   .key = { 9, 1 },
					   .type = EVENT_SIGNAL,
					   .sheet_num = SHEET_NONE,
					   .details = EVENT_BY_PROCTOR "; it was waiting" };
	expect(&a, "", false, ", 10.0 s after the start\n");
	expect(&a, "", false, "\ntry       see what the holder does: proctor stack 7\n");
	attempt_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_most_ten_safe_lines),
		cmocka_unit_test(test_nothing_is_made_up),
		cmocka_unit_test(test_the_longest_call),
		cmocka_unit_test(test_more_work),
		cmocka_unit_test(test_the_time_of_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

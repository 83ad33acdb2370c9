#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/admission.h"

#define GB (UINT64_C(1) << 30)

static const struct pressure_limits no_limits = { U64_UNKNOWN, U64_UNKNOWN };

static struct system_sample host_with(uint64_t used_bytes)
{
	struct snapshot s;

	snapshot_init(&s);
	s.system.memory_total_bytes = 100 * GB;
	s.system.memory_used_bytes = used_bytes;
	return s.system;
}

static enum pressure_level judge(const struct system_sample *host,
				 const struct pressure_limits *limits)
{
	struct pressure p = { .reason = "" };

	pressure_judge(host, limits, &p);
	assert_true(p.reason[0] != '\0');
	return p.level;
}

static void test_shares_of_memory(void **state)
{
	static const struct {
		uint64_t used;
		enum pressure_level level;
	} cases[] = {
		{ 0, PRESSURE_NONE },		{ 50 * GB - 1, PRESSURE_NONE },
		{ 50 * GB, PRESSURE_LOW },	{ 70 * GB - 1, PRESSURE_LOW },
		{ 70 * GB, PRESSURE_MEDIUM },	{ 85 * GB - 1, PRESSURE_MEDIUM },
		{ 85 * GB, PRESSURE_HIGH },	{ 95 * GB - 1, PRESSURE_HIGH },
		{ 95 * GB, PRESSURE_CRITICAL }, { 200 * GB, PRESSURE_CRITICAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct system_sample host = host_with(cases[i].used);

		assert_int_equal(judge(&host, &no_limits), cases[i].level);
	}
}

/* Who cannot see waits. */
static void test_unknown_is_critical(void **state)
{
	struct system_sample host = host_with(U64_UNKNOWN);
	struct pressure p;

	(void)state;
	pressure_judge(&host, &no_limits, &p);
	assert_int_equal(p.level, PRESSURE_CRITICAL);
	assert_non_null(strstr(p.reason, "cannot be read"));
	host = host_with(GB);
	host.memory_total_bytes = U64_UNKNOWN;
	assert_int_equal(judge(&host, &no_limits), PRESSURE_CRITICAL);
	/* A limit of one's own needs no total. */
	assert_int_equal(judge(&host, &(struct pressure_limits){ 10 * GB, U64_UNKNOWN }),
			 PRESSURE_NONE);
}

/* So does who has a limit and cannot count. A kernel without PSI only has less to say. */
static void test_unknown_processes(void **state)
{
	struct system_sample host = host_with(GB);
	struct pressure p;

	(void)state;
	pressure_judge(&host, &(struct pressure_limits){ U64_UNKNOWN, 100 }, &p);
	assert_int_equal(p.level, PRESSURE_CRITICAL);
	assert_string_equal(p.reason, "the processes cannot be counted");
	assert_int_equal(judge(&host, &no_limits), PRESSURE_NONE);
	pressure_cannot_tell(&p);
	assert_int_equal(p.level, PRESSURE_CRITICAL);
	assert_true(p.reason[0] != '\0');
}

static void test_processes_and_stalls(void **state)
{
	struct system_sample host = host_with(GB);
	const struct pressure_limits limits = { U64_UNKNOWN, 100 };

	(void)state;
	host.process_count = 71;
	assert_int_equal(judge(&host, &limits), PRESSURE_MEDIUM);
	assert_int_equal(judge(&host, &no_limits), PRESSURE_NONE);
	host.psi_memory.full.avg10 = 20;
	assert_int_equal(judge(&host, &limits), PRESSURE_HIGH);
	host.psi_memory.full.avg10 = F64_UNKNOWN;
	host.psi_memory.some.avg10 = 100;
	assert_int_equal(judge(&host, &no_limits), PRESSURE_HIGH);
	host.memory_used_bytes = 96 * GB;
	assert_int_equal(judge(&host, &no_limits), PRESSURE_CRITICAL);
}

static void test_what_follows(void **state)
{
	(void)state;
	assert_string_equal(pressure_name(PRESSURE_MEDIUM), "medium");
	assert_int_equal(pressure_delay_seconds(PRESSURE_NONE), 0);
	assert_int_equal(pressure_delay_seconds(PRESSURE_LOW), 2);
	assert_int_equal(pressure_delay_seconds(PRESSURE_MEDIUM), 10);
	assert_int_equal(pressure_delay_seconds(PRESSURE_HIGH), 30);
	assert_int_equal(pressure_delay_seconds(PRESSURE_CRITICAL), 60);
	assert_false(pressure_refuses_jobs(PRESSURE_MEDIUM));
	assert_true(pressure_refuses_jobs(PRESSURE_HIGH));
	assert_false(pressure_holds_sheets(PRESSURE_HIGH));
	assert_true(pressure_holds_sheets(PRESSURE_CRITICAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_of_memory),
		cmocka_unit_test(test_unknown_is_critical),
		cmocka_unit_test(test_unknown_processes),
		cmocka_unit_test(test_processes_and_stalls),
		cmocka_unit_test(test_what_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/account.h"

static void test_peaks_one_after_the_other(void **state)
{
	static const struct {
		uint64_t a;
		enum evidence ea;
		uint64_t b;
		enum evidence eb;
		uint64_t peak;
		enum evidence evidence;
	} rows[] = {
		{ 3, EVIDENCE_EXACT, 2, EVIDENCE_EXACT, 3, EVIDENCE_EXACT },
		{ 3, EVIDENCE_EXACT, 2, EVIDENCE_SAMPLED, 3, EVIDENCE_LOWER_BOUND },
		{ 2, EVIDENCE_EXACT, 3, EVIDENCE_SAMPLED, 3, EVIDENCE_SAMPLED },
		{ 6, EVIDENCE_UPPER_BOUND, 5, EVIDENCE_SAMPLED, 5, EVIDENCE_SAMPLED },
		{ 6, EVIDENCE_UPPER_BOUND, 5, EVIDENCE_EXACT, 6, EVIDENCE_UPPER_BOUND },
		{ 4, EVIDENCE_UPPER_BOUND, 5, EVIDENCE_EXACT, 5, EVIDENCE_EXACT },
		{ 6, EVIDENCE_UPPER_BOUND, 5, EVIDENCE_UPPER_BOUND, 6, EVIDENCE_UPPER_BOUND },
		{ 6, EVIDENCE_UPPER_BOUND, U64_UNKNOWN, EVIDENCE_UNKNOWN, U64_UNKNOWN,
		  EVIDENCE_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum evidence evidence;
		struct peaks p;
		uint64_t peak;

		peaks_init(&p);
		peaks_add(&p, rows[i].a, rows[i].ea);
		peaks_add(&p, rows[i].b, rows[i].eb);
		peaks_settle(&p, &peak, &evidence);
		assert_true(peak == rows[i].peak);
		assert_int_equal(evidence, rows[i].evidence);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peaks_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

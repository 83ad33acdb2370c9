#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "model/time_ledger.h"

static struct time_ledger ledger_of(enum evidence evidence, uint64_t user, uint64_t system,
				    uint64_t disk, uint64_t child)
{
	struct time_ledger l = { .evidence = evidence };

	l.ns[TIME_USER] = user;
	l.ns[TIME_SYSTEM] = system;
	l.ns[TIME_DISK] = disk;
	l.ns[TIME_CHILD] = child;
	return l;
}

static void each_category_is_described(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++) {
		assert_non_null(time_categories[i].key);
		assert_non_null(time_categories[i].words);
		assert_non_null(time_categories[i].help);
		assert_true(strlen(time_categories[i].brief) <= 8);
	}
}

static void what_is_written_is_read(void **state)
{
	const struct time_ledger l = ledger_of(EVIDENCE_SAMPLED, 1, 0, UINT64_C(1) << 50, 7);
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct time_ledger back;

	(void)state;
	time_ledger_write(&text, &l);
	assert_string_equal(text.data, "{\"evidence\":\"sampled\",\"user\":1,"
				       "\"disk\":1125899906842624,\"child\":7}");
	assert_true(time_ledger_read(text.data, &back));
	assert_memory_equal(&back, &l, sizeof(l));
}

static void other_texts_are_no_ledger(void **state)
{
	static const char *const texts[] = {
		"",
		"{}",
		"[]",
		"null",
		"{\"evidence\":\"exact\"}",
		"{\"user\":5}",
		"{\"evidence\":\"exact\",\"user\":0}",
		"{\"evidence\":\"exact\",\"user\":-5}",
		"{\"evidence\":\"exact\",\"user\":18446744073709551614,\"disk\":9}",
		"{\"evidence\":\"exact\",\"user\":5",
		"{\"evidence\":\"\",\"user\":5}",
		"{\"evidence\":7,\"user\":5}",
	};
	struct time_ledger l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_false(time_ledger_read(texts[i], &l));
	assert_false(time_ledger_read(NULL, &l));
	assert_int_equal(l.evidence, EVIDENCE_UNKNOWN);
	assert_true(
		time_ledger_read("{\"later\":[1,{}],\"evidence\":\"at least\",\"user\":5}", &l));
	assert_int_equal(l.evidence, EVIDENCE_LOWER_BOUND);
}

static void a_sum_is_as_good_as_its_worst_part(void **state)
{
	struct time_ledger sum = { 0 };
	const struct time_ledger none = { 0 }, exact = ledger_of(EVIDENCE_EXACT, 1, 2, 3, 4),
				 least = ledger_of(EVIDENCE_LOWER_BOUND, 1, 2, 3, 4),
				 sampled = ledger_of(EVIDENCE_SAMPLED, 1, 2, 3, 4);

	(void)state;
	time_ledger_add(&sum, &none);
	assert_int_equal(sum.evidence, EVIDENCE_UNKNOWN);
	time_ledger_add(&sum, &exact);
	assert_int_equal(sum.evidence, EVIDENCE_EXACT);
	time_ledger_add(&sum, &least);
	assert_int_equal(sum.evidence, EVIDENCE_LOWER_BOUND);
	time_ledger_add(&sum, &sampled);
	time_ledger_add(&sum, &exact);
	assert_int_equal(sum.evidence, EVIDENCE_SAMPLED);
	assert_int_equal(time_ledger_total(&sum), 40);
}

static void assert_summary(struct time_ledger l, const char *wanted)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	time_ledger_add_summary(&text, &l);
	assert_string_equal(text.data, wanted);
}

static void the_summary_leaves_out_waits_for_children(void **state)
{
	(void)state;
	assert_summary(ledger_of(EVIDENCE_EXACT, 20, 9, 71, 1000),
		       "71 % waiting for disk, 29 % on a CPU");
	assert_summary(ledger_of(EVIDENCE_SAMPLED, 0, 0, 71, 1000), "~100 % waiting for disk");
	assert_summary(ledger_of(EVIDENCE_EXACT, 0, 0, 0, 5), "100 % waiting for children");
	assert_summary(ledger_of(EVIDENCE_EXACT, 97, 0, 3, 0), "97 % on a CPU");
	assert_summary((struct time_ledger){ 0 }, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_category_is_described),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(other_texts_are_no_ledger),
		cmocka_unit_test(a_sum_is_as_good_as_its_worst_part),
		cmocka_unit_test(the_summary_leaves_out_waits_for_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"

/* Published values of 64-bit FNV-1a. */
static void test_known_values(void **state)
{
	(void)state;
	assert_true(hash_bytes(HASH_INIT, "", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(hash_bytes(HASH_INIT, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(hash_bytes(HASH_INIT, "foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(hash_bytes(HASH_INIT, "\xff\x00\x00\x01", 4) == UINT64_C(0x6961196491cc682d));
}

static void test_pieces_give_the_hash_of_the_whole(void **state)
{
	uint64_t h = hash_bytes(HASH_INIT, "foo", 3);

	(void)state;
	assert_true(hash_bytes(h, "bar", 3) == hash_bytes(HASH_INIT, "foobar", 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_pieces_give_the_hash_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

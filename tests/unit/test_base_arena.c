#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"

#define N 3000

/* Sizes from 0 to a few, with some larger than a block between them. */
static size_t size_of(size_t i)
{
	return i % 500 == 499 ? 40000 + i : i % 97;
}

static void fill(struct arena *a, unsigned char **pieces)
{
	for (size_t i = 0; i < N; i++) {
		pieces[i] = arena_alloc(a, size_of(i));
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
		memset(pieces[i], (int)(i & 0xff), size_of(i));
	}
}

static void assert_intact(unsigned char **pieces)
{
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < size_of(i); k++)
			if (pieces[i][k] != (i & 0xff))
				fail_msg("piece %zu was overwritten", i);
}

/* The same requests after a reset get the same memory, so nothing was asked for anew. */
static bool gets_the_same(struct arena *a, unsigned char **pieces)
{
	unsigned char *before[N];

	memcpy(before, pieces, sizeof(before));
	arena_reset(a);
	fill(a, pieces);
	return memcmp(before, pieces, sizeof(before)) == 0;
}

static void test_pieces_are_apart_and_aligned(void **state)
{
	unsigned char *pieces[N];
	struct arena a = ARENA_INIT;

	(void)state;
	fill(&a, pieces);
	assert_intact(pieces);
	arena_release(&a);
	assert_null(a.first);
}

static void test_reset_keeps_the_memory(void **state)
{
	unsigned char *pieces[N];
	struct arena a = ARENA_INIT;

	(void)state;
	fill(&a, pieces);
	for (int i = 0; i < 5; i++)
		assert_true(gets_the_same(&a, pieces));
	assert_intact(pieces);
	arena_release(&a);
}

static void test_strings(void **state)
{
	struct arena a = ARENA_INIT;
	char *s = arena_strdup(&a, "abc"), *n = arena_strndup(&a, "abcdef", 2);

	(void)state;
	assert_string_equal(s, "abc");
	assert_string_equal(n, "ab");
	assert_string_equal(arena_strndup(&a, "x", 0), "");
	assert_null(arena_strdup(&a, NULL));
	arena_release(&a);
}

static void test_absurd_sizes_are_refused(void **state)
{
	struct arena a = ARENA_INIT;
	/* Read at run time, or the compiler warns that nobody can mean this. */
	volatile size_t most = SIZE_MAX;

	(void)state;
	assert_null(arena_alloc(&a, most));
	assert_null(arena_alloc(&a, most - 15));
	assert_null(arena_alloc(&a, most / 2 + 1));
	assert_null(arena_strndup(&a, "x", most));
	assert_non_null(arena_alloc(&a, 1));
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_are_apart_and_aligned),
		cmocka_unit_test(test_reset_keeps_the_memory),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_absurd_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

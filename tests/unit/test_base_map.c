#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "base/map.h"

/* A model that is too simple to be wrong: one entry per possible key. */
#define KEYS 512

struct model {
	bool has[KEYS];
	uint64_t value[KEYS];
	size_t len;
};

/* Keys that lie together, far apart, and at both ends. */
static uint64_t key_of(unsigned i, unsigned kind)
{
	switch (kind) {
	case 0:
		return i;
	case 1:
		return UINT64_MAX - i;
	case 2:
		return (uint64_t)i << 20;
	case 3:
		return (uint64_t)i << 55;
	default:
		return (uint64_t)i * UINT64_C(0x123456789abcdef1);
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void assert_same(const struct map *m, const struct model *model, unsigned kind)
{
	assert_int_equal(m->len, model->len);
	for (unsigned i = 0; i < KEYS; i++) {
		uint64_t v = 0;
		bool has = map_get(m, key_of(i, kind), &v);

		assert_int_equal(has, model->has[i]);
		if (has)
			assert_true(v == model->value[i]);
	}
}

static void do_one(struct map *m, struct model *model, unsigned kind, uint32_t *seed)
{
	unsigned i = next_random(seed) % KEYS, what = next_random(seed) % 100;

	if (what < 50) {
		uint64_t v = next_random(seed);

		assert_int_equal(map_put(m, key_of(i, kind), v), 0);
		model->len += !model->has[i];
		model->has[i] = true;
		model->value[i] = v;
	} else {
		assert_int_equal(map_remove(m, key_of(i, kind)), model->has[i]);
		model->len -= model->has[i];
		model->has[i] = false;
	}
}

static void test_like_the_model(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 5; kind++) {
		struct map m = MAP_INIT;
		struct model model = { 0 };
		uint32_t seed = 2463534242u + kind;

		for (int step = 0; step < 20000; step++) {
			do_one(&m, &model, kind, &seed);
			if (step % 97 == 0)
				assert_same(&m, &model, kind);
		}
		assert_same(&m, &model, kind);
		map_clear(&m);
		memset(&model, 0, sizeof(model));
		assert_same(&m, &model, kind);
		map_release(&m);
	}
}

static void test_empty(void **state)
{
	struct map m = MAP_INIT;

	(void)state;
	assert_false(map_get(&m, 0, NULL));
	assert_false(map_remove(&m, 0));
	map_clear(&m);
	assert_int_equal(map_put(&m, 0, UINT64_MAX), 0);
	assert_true(map_get(&m, 0, NULL));
	assert_false(map_get(&m, UINT64_MAX, NULL));
	map_release(&m);
	assert_false(map_get(&m, 0, NULL));
}

/* Looking at a key that is absent must end, however full the table is. */
static void test_is_never_full(void **state)
{
	struct map m = MAP_INIT;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(map_put(&m, i, i * 3), 0);
	assert_true(m.len < m.cap);
	for (uint64_t i = 0; i < 200000; i++) {
		uint64_t v = 0;

		assert_int_equal(map_get(&m, i, &v), i < 100000);
		assert_true(v == (i < 100000 ? i * 3 : 0));
	}
	map_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_the_model),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_is_never_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

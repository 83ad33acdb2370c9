#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/macros.h"
#include "model/anomaly.h"

#define N_EPISODES 600

/* Each move leaves its old place behind in the arena: with few of them that is as much again. */
static void test_episodes_of_an_attempt_move_seldom(void **state)
{
	CLEANUP(attempt_release) struct attempt a;
	const struct episode *was = NULL;
	struct episode e;
	size_t n_moves = 0;

	(void)state;
	attempt_init(&a);
	episode_init(&e);
	e.unit = "MB";
	for (unsigned i = 0; i < N_EPISODES; i++) {
		snprintf(e.name, sizeof(e.name), "leak/%u", i);
		episode_set_job(&e, "job");
		assert_int_equal(episode_append(&a, &e), 0);
		n_moves += a.details.anomalies != was;
		was = a.details.anomalies;
	}
	assert_int_equal(a.details.n_anomalies, N_EPISODES);
	assert_true(n_moves <= 11);
	for (unsigned i = 0; i < N_EPISODES; i++) {
		snprintf(e.name, sizeof(e.name), "leak/%u", i);
		assert_string_equal(a.details.anomalies[i].name, e.name);
		assert_ptr_equal(a.details.anomalies[i].worst.job_id,
				 a.details.anomalies[i].job_id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_episodes_of_an_attempt_move_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "daemon/daemon_rungs.h"

static const char rungs_of_daemon[] =
	"{\"process samples\": \"eBPF task iterator\", \"births, deaths, exit codes\": \"netlink\","
	" \"OOM kills\": \"unknown\", \"GPU\": \"NVML\", \"host pressure\": 7}";

/* Of a runner beside that daemon. */
static void check(bool has_sampled, const char *const want[])
{
	static const struct rpc_value_limits limits = { .max_depth = 4, .max_values = 100 };
	struct rung rungs[] = {
		{ "process samples", "/proc", "" }, { "births, deaths, exit codes", "netlink", "" },
		{ "OOM kills", "cgroup", "" },	    { "GPU", "none", "" },
		{ "host pressure", "PSI", "" },
	};
	struct rpc_value *v = NULL;
	struct attempt a;

	attempt_init(&a);
	a.rungs = rungs;
	a.n_rungs = ARRAY_SIZE(rungs);
	assert_int_equal(
		rpc_value_parse(rungs_of_daemon, strlen(rungs_of_daemon), &limits, &v, NULL), 0);
	daemon_rungs_add(&a, v, has_sampled);
	for (size_t i = 0; i < ARRAY_SIZE(rungs); i++)
		assert_string_equal(rungs[i].rung, want[i]);
	daemon_rungs_add(&a, NULL, has_sampled);
	assert_string_equal(rungs[0].rung, want[0]);
	rpc_value_free(v);
	attempt_release(&a);
}

static void test_both_are_named(void **state)
{
	static const char *const want[] = { "/proc; by the daemon: eBPF task iterator", "netlink",
					    "cgroup", "none", "PSI" };

	(void)state;
	check(true, want);
}

static void test_samples_are_the_runners(void **state)
{
	static const char *const want[] = { "/proc", "netlink", "cgroup", "none", "PSI" };

	(void)state;
	check(false, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_are_named),
		cmocka_unit_test(test_samples_are_the_runners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* That a submitted job could not begin is recorded. */
#include "store_fixture.h"

#include "daemon/daemon.h"

static void refuse(const struct fixture *f)
{
	const struct refusal refusal = {
		.job_id = "j",
		.command = "gone.yaml",
		.reason = "there is no such file",
		.db_path = f->db,
		.submission = 7,
	};

	run_record_refusal(&refusal);
}

static void assert_recorded(const struct fixture *f)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_READ);
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;

	attempt_init(&a);
	must(store_read_attempt(store, "j", 1, &a, &err), &err);
	assert_int_equal(a.outcome, OUTCOME_FAILURE);
	assert_string_equal(a.reason, "there is no such file");
	assert_int_equal(raw_sql(f->db, "SELECT submission FROM attempts"), 7);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
}

static void test_at_once(void **state)
{
	refuse(*state);
	assert_recorded(*state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* That a submitted job could not begin is recorded, also where the database cannot be written. */
#include "store_fixture.h"

#include "daemon/daemon.h"
#include "store/layout.h"

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

/* Any reason will do: this one need not be waited for, as a lock would be. */
static void test_when_it_can_be(void **state)
{
	struct fixture *f = *state;
	char sql[48];

	store_close(must_open(f->db, STORE_WRITE));
	raw_sql(f->db, "PRAGMA user_version = 1000");
	refuse(f);
	assert_true(store_has_kept(f->db));
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", LAYOUT);
	raw_sql(f->db, sql);
	assert_recorded(f);
	assert_false(store_has_kept(f->db));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_when_it_can_be, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

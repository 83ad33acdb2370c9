/* Ticks that waited, of attempts that somebody has removed meanwhile. */
#include "store_fixture.h"

#include "daemon/service_follow.h"
#include "daemon/service_work.h"

static void keep(struct service *s, const struct attempt *const *attempts, size_t n, unsigned k)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct tick_record tick = {
		.snap = &snap, .attempts = attempts, .n_attempts = n, .owner = TICK_BY_NAME
	};

	snapshot_init(&snap);
	fill_snapshot(&snap, attempts[n - 1]->job_id, 1, k);
	backlog_add(&s->backlog, &tick);
}

/* What was only of these nobody misses; what was of others, too, is stored for them. */
static void test_removed_attempts(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct service s = { .store = store };
	struct attempt gone = make_attempt("gone"), stays = make_attempt("stays");
	const struct attempt *both[] = { &gone, &stays };
	struct err err = ERR_INIT;

	must(store_begin_daemon(store, &s.record, &err), &err);
	must(store_begin_attempt(store, &gone, &err), &err);
	must(store_begin_attempt(store, &stays, &err), &err);
	keep(&s, both, 1, 1);
	keep(&s, both, 2, 2);
	keep(&s, both + 1, 1, 3);
	raw_sql(f->db, "DELETE FROM attempts WHERE id = 1");
	must(service_drain_backlog(&s, U64_UNKNOWN, &err), &err);
	assert_int_equal(s.backlog.n, 0);
	assert_int_equal(s.backlog.n_lost, 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_removed_attempts, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The log of an attempt that has no runner, from its beginning over several recorders to its end.
 */
#include "store_fixture.h"

#include "base/alive.h"
#include "base/clock.h"
#include "recorder/attempt_log.h"

static void describe(void *ctx, struct buf *out)
{
	record_write_begin(out, ctx);
	record_write_sheets(out, NULL, 0);
}

static struct attempt make_attached(void)
{
	struct attempt a = make_attempt("j");

	a.is_attached = true;
	a.started_wall_ns = clock_wall_ns();
	proc_boot_id(a.boot_id);
	return a;
}

static struct attempt_log *begin(const struct fixture *f, struct attempt *a)
{
	struct attempt_log *log = NULL;
	struct err err = ERR_INIT;

	must(attempt_log_open(
		     &(struct attempt_log_options){
			     .db_path = f->db, .a = a, .describe = describe, .ctx = a },
		     &log, &err),
	     &err);
	return log;
}

static int go_on(const struct fixture *f, struct attempt *a, const struct log_id *id,
		 uint64_t stored_to, struct attempt_log **ret)
{
	const struct attempt_log_options options = { .db_path = f->db,
						     .a = a,
						     .describe = describe,
						     .ctx = a,
						     .continues = id,
						     .stored_to = stored_to };

	return attempt_log_open(&options, ret, NULL);
}

static void put_event(struct attempt_log *log, pid_t pid)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	const struct proc_event ev = { .wall_ns = clock_wall_ns(),
				       .key = { pid, 5 },
				       .status = { -1, -1 } };

	record_write_list(&bytes, RECORD_LIST_EVENTS, &ev, 1);
	attempt_log_append(log, RECORD_EVENTS, &bytes);
}

static void end(struct attempt_log *log, struct attempt *a)
{
	struct err err = ERR_INIT;

	a->is_running = false;
	a->ended_wall_ns = clock_wall_ns();
	a->outcome = OUTCOME_SUCCESS;
	must(attempt_log_end(log, a, UINT64_MAX, &err), &err);
	attempt_log_close(log);
}

static void ingest(const struct fixture *f)
{
	store_close(must_open(f->db, STORE_READ));
}

/* Each that takes over goes on where the one before it was killed; what lives is not taken over. */
static void test_another_goes_on(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attached();
	struct attempt_log *log = begin(f, &a), *second = NULL;
	const struct log_id id = *attempt_log_id(log);

	put_event(log, 1);
	assert_int_equal(go_on(f, &a, &id, 0, &second), -EBUSY);
	for (pid_t pid = 2; pid < 5; pid++) {
		attempt_log_close(log);
		ingest(f);
		assert_int_equal(go_on(f, &a, &id, 0, &log), 0);
		assert_int_equal(a.attempt_num, 1);
		put_event(log, pid);
	}
	end(log, &a);
	assert_int_equal(go_on(f, &a, &id, 0, &second), -EEXIST);
	ingest(f);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(DISTINCT pid) FROM events"), 4);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 4);
	assert_int_equal(raw_sql(f->db, "SELECT outcome = 'success' FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns"), 0);
}

/* Its row stays the same one. */
static void test_what_was_removed_goes_on(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attached();
	struct attempt_log *log = begin(f, &a);
	const struct log_id id = *attempt_log_id(log);
	char folder[192];
	uint64_t offset;

	put_event(log, 1);
	ingest(f);
	snprintf(folder, sizeof(folder), "%s-logs", f->db);
	assert_int_equal(nftw(folder, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	assert_true(attempt_log_is_gone(log));
	offset = attempt_log_bytes(log);
	attempt_log_close(log);
	assert_int_equal(go_on(f, &a, &id, offset, &log), 0);
	assert_false(attempt_log_is_gone(log));
	put_event(log, 2);
	end(log, &a);
	ingest(f);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT outcome = 'success' FROM attempts"), 1);
}

static void test_one_that_is_over_at_once(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	a.outcome = OUTCOME_CANCELLED;
	a.ended_wall_ns = a.started_wall_ns;
	must(attempt_log_write_whole(f->db, &a, UINT64_MAX, NULL, &err), &err);
	ingest(f);
	assert_int_equal(raw_sql(f->db, "SELECT outcome = 'cancelled' FROM attempts"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT log_is_over FROM attempts"), 1);
}

static void describe_daemon(void *ctx, struct buf *out)
{
	record_write_struct(out, &daemon_columns, ctx);
}

static struct attempt_log *begin_host(const struct fixture *f, struct attempt *self,
				      const struct daemon_record *d)
{
	const struct attempt_log_options options = { .db_path = f->db,
						     .a = self,
						     .describe = describe_daemon,
						     .ctx = (void *)d,
						     .is_host = true };
	struct attempt_log *log = NULL;
	struct err err = ERR_INIT;

	must(attempt_log_open(&options, &log, &err), &err);
	return log;
}

static void test_a_daemon_stops(void **state)
{
	struct fixture *f = *state;
	const struct daemon_record d = { .key = { 7, 8 }, .version = "1", .started_wall_ns = 3 };
	struct attempt self = make_attached();
	struct attempt_log *log = begin_host(f, &self, &d);
	struct err err = ERR_INIT;

	must(attempt_log_end_host(log, 9, UINT64_MAX, &err), &err);
	attempt_log_close(log);
	ingest(f);
	assert_int_equal(raw_sql(f->db, "SELECT stopped_wall_ns FROM daemons WHERE pid = 7"), 9);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 0);
}

/* What a daemon has recorded of an attempt is stored with it, although its log is the older one. */
static void test_a_daemon_records_of_younger_logs(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct fixture *f = *state;
	const struct daemon_record d = { .key = { 7, 8 }, .version = "1", .started_wall_ns = 3 };
	const struct proc_event ev = { .wall_ns = clock_wall_ns(),
				       .key = { 9, 5 },
				       .status = { -1, -1 } };
	struct attempt self = make_attached(), a = make_attached();
	struct attempt_log *host = begin_host(f, &self, &d), *log;

	a.started_wall_ns = self.started_wall_ns + 1000;
	log = begin(f, &a);
	buf_add(&bytes, (const char *)attempt_log_id(log)->bytes,
		sizeof(attempt_log_id(log)->bytes));
	record_write_list(&bytes, RECORD_LIST_EVENTS, &ev, 1);
	attempt_log_append(host, RECORD_EVENTS, &bytes);
	attempt_log_close(host);
	end(log, &a);
	ingest(f);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events WHERE pid = 9"), 1);
}

/* At once, and then not before half a minute is over. */
static void test_what_lasts_is_renewed(void **state)
{
	uint64_t renewed = 0;

	(void)state;
	assert_true(attempt_log_is_renewal_due(&renewed));
	assert_false(attempt_log_is_renewal_due(&renewed));
	renewed -= UINT64_C(31000000000);
	assert_true(attempt_log_is_renewal_due(&renewed));
}

#define LOG_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(test_another_goes_on),
		cmocka_unit_test(test_what_lasts_is_renewed),
		LOG_TEST(test_what_was_removed_goes_on),
		LOG_TEST(test_one_that_is_over_at_once),
		LOG_TEST(test_a_daemon_stops),
		LOG_TEST(test_a_daemon_records_of_younger_logs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"

#include "query/query.h"
#include "rpc/rpc.h"
#include "store_writer.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)
#define N_EVENTS 40

static const struct rpc_value_limits limits = { .max_depth = 16, .max_values = 100000 };

typedef int read_fn(struct recorded *r, struct store *store, struct err *err);

/* One attempt with a tick at each of so many seconds, an event in each. */
static void add_attempt(struct store *store, const char *job_id, uint64_t uid, pid_t first_pid)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	a.uid = uid;
	a.started_wall_ns = START;
	must(store_begin_attempt(store, &a, &err), &err);
	for (int i = 0; i < N_EVENTS; i++) {
		CLEANUP(snapshot_release) struct snapshot snap;
		const struct proc_event ev = {
			.wall_ns = START + (uint64_t)i / 2 * SECOND, /* two at a time */
			.key = { first_pid + i, 5000 },
			.type = EVENT_EXIT,
			.status = { 0, -1 },
			.job_id = job_id,
			.sheet_num = SHEET_NONE,
		};

		snapshot_init(&snap);
		fill_snapshot(&snap, job_id, 1, (unsigned)i);
		must(write_tick(store, &a, &snap, NULL, &ev, 1, &err), &err);
	}
}

static struct rpc_value *read_rows(struct recorded *r, struct store *store, read_fn *read)
{
	struct rpc_value *rows = NULL;
	struct err err = ERR_INIT;

	must(read(r, store, &err), &err);
	assert_int_equal(rpc_value_parse(r->list.data, r->list.len, &limits, &rows, NULL), 0);
	assert_true(rpc_value_is_list(rows));
	return rows;
}

/* How many rows there are on all pages, each in its time; *ret_pages of them. */
static size_t count(struct store *store, read_fn *read, uint64_t uid, size_t page_bytes,
		    size_t *ret_pages)
{
	uint64_t next = 0;
	double last = 0;
	size_t n = 0;

	for (*ret_pages = 0; u64_known(next); ++*ret_pages) {
		CLEANUP(recorded_release) struct recorded r = RECORDED_INIT;
		struct rpc_value *rows;

		snprintf(r.job_id, sizeof(r.job_id), "same");
		r.uid = uid;
		r.page_bytes = page_bytes;
		r.since_wall_ns = next;
		rows = read_rows(&r, store, read);
		for (size_t i = 0; i < rpc_value_len(rows); i++, n++) {
			double at =
				rpc_value_f64(rpc_value_get(rpc_value_at(rows, i), "timestamp"));

			assert_true(at >= last);
			last = at;
		}
		rpc_value_free(rows);
		assert_true(!u64_known(r.next_wall_ns) || r.next_wall_ns > next);
		next = r.next_wall_ns;
	}
	return n;
}

static void test_pages(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	size_t n_pages, n_samples, n_events;

	add_attempt(store, "same", 1000, 100);
	n_events = count(store, recorded_read_events, 1000, 1 << 20, &n_pages);
	assert_int_equal(n_pages, 1);
	assert_true(n_events > N_EVENTS); /* and the beginning of the job */
	assert_int_equal(count(store, recorded_read_events, 1000, 500, &n_pages), n_events);
	assert_true(n_pages > 5);
	n_samples = count(store, recorded_read_samples, 1000, 1 << 20, &n_pages);
	assert_int_equal(n_pages, 1);
	assert_true(n_samples >= N_EVENTS);
	assert_int_equal(count(store, recorded_read_samples, 1000, 2000, &n_pages), n_samples);
	assert_true(n_pages > 5);
}

static void test_only_ones_own(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	read_fn *const reads[] = { recorded_read_events, recorded_read_samples };
	size_t n_pages, n_mine, n_hers, n_all;

	add_attempt(store, "same", 1000, 100);
	add_attempt(store, "same", 1001, 300);
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		n_mine = count(store, reads[i], 1000, 1 << 20, &n_pages);
		n_hers = count(store, reads[i], 1001, 1 << 20, &n_pages);
		n_all = count(store, reads[i], U64_UNKNOWN, 1 << 20, &n_pages);
		assert_true(n_mine > 0);
		assert_int_equal(n_mine, n_hers);
		assert_int_equal(n_all, n_mine + n_hers);
	}
}

/* One that was cancelled while it waited has an end, and no beginning. */
static void test_what_never_began_has_no_beginning(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_release) struct recorded r = RECORDED_INIT;
	struct attempt a = make_attempt("waited");
	struct err err = ERR_INIT;
	struct rpc_value *rows;

	a.runner = (struct proc_key){ 0 };
	a.started_wall_ns = a.ended_wall_ns = START;
	a.outcome = OUTCOME_CANCELLED;
	must(store_begin_attempt(store, &a, &err), &err);
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	snprintf(r.job_id, sizeof(r.job_id), "waited");
	rows = read_rows(&r, store, recorded_read_events);
	assert_int_equal(rpc_value_len(rows), 1);
	assert_string_equal(rpc_value_string(rpc_value_get(rpc_value_at(rows, 0), "event")),
			    "job.cancelled");
	rpc_value_free(rows);
}

static void test_who_has_none(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	read_fn *const reads[] = { recorded_read_events, recorded_read_samples,
				   recorded_read_anomalies };

	add_attempt(store, "same", 1000, 100);
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		CLEANUP(recorded_release) struct recorded r = RECORDED_INIT;
		struct err err = ERR_INIT;

		snprintf(r.job_id, sizeof(r.job_id), "same");
		r.uid = 1002;
		assert_int_equal(reads[i](&r, store, &err), -ENOENT);
	}
}

/* One of the attempt's processes was out of the ordinary while somebody else's was busy. */
static void add_anomaly(struct store *store, const char *job_id, uint64_t uid)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;
	struct episode e;

	a.uid = uid;
	must(store_begin_attempt(store, &a, &err), &err);
	episode_init(&e);
	e.worst.type = ANOMALY_MEMORY_LEAK;
	snprintf(e.worst.text, sizeof(e.worst.text), "it grows");
	snprintf(e.name, sizeof(e.name), "memory_leak/%llu", (unsigned long long)uid);
	e.began_wall_ns = e.peak_wall_ns = START;
	e.count = 1;
	e.host.load1 = 1.5;
	e.host.knows_cpu = true;
	e.host.n_top_cpu = 1;
	snprintf(e.host.top_cpu[0].job_id, sizeof(e.host.top_cpu[0].job_id), "secret");
	must(write_anomaly(store, a.id, &e, EPISODE_BEGAN, &err), &err);
}

static void test_the_host_is_for_who_sees_all(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	read_fn *const reads[] = { recorded_read_events, recorded_read_anomalies };

	add_anomaly(store, "same", 1000);
	add_anomaly(store, "same", 1001);
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		CLEANUP(recorded_release) struct recorded own = RECORDED_INIT, all = RECORDED_INIT;

		snprintf(own.job_id, sizeof(own.job_id), "same");
		own.uid = 1000;
		rpc_value_free(read_rows(&own, store, reads[i]));
		assert_non_null(strstr(own.list.data, "memory_leak/1000"));
		assert_null(strstr(own.list.data, "memory_leak/1001"));
		assert_null(strstr(own.list.data, "secret"));
		snprintf(all.job_id, sizeof(all.job_id), "same");
		rpc_value_free(read_rows(&all, store, reads[i]));
		assert_non_null(strstr(all.list.data, "memory_leak/1001"));
		assert_non_null(strstr(all.list.data, "secret"));
	}
}

static void test_attempts(void **state)
{
	const struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	const struct {
		uint64_t uid;
		bool latest_only;
		size_t n;
	} rows[] = { { 1000, false, 2 }, { 1000, true, 1 },	    { 1001, false, 1 },
		     { 1002, false, 0 }, { U64_UNKNOWN, false, 3 }, { U64_UNKNOWN, true, 2 } };

	add_attempt(store, "same", 1000, 100);
	add_attempt(store, "same", 1000, 100);
	add_attempt(store, "same", 1001, 300);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(recorded_release) struct recorded r = RECORDED_INIT;
		struct rpc_value *list;

		r.uid = rows[i].uid;
		r.latest_only = rows[i].latest_only;
		list = read_rows(&r, store, recorded_read_attempts);
		assert_int_equal(rpc_value_len(list), rows[i].n);
		rpc_value_free(list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pages, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_only_ones_own, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_who_has_none, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_never_began_has_no_beginning,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_attempts, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_host_is_for_who_sees_all, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

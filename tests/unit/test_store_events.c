#include "store_fixture.h"
#include "store_writer.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)
#define N_MANY 1500 /* more than are copied at a time */

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static struct proc_event make_event(const struct attempt *a, pid_t pid, uint64_t wall_ns)
{
	return (struct proc_event){
		.wall_ns = wall_ns,
		.key = { pid, 5000 },
		.type = EVENT_EXIT,
		.status = { 3, -1 },
		.job_id = a->job_id,
		.sheet_num = 1,
		.details = "a \"b\"",
	};
}

static void add_events(struct store *store, const struct attempt *a,
		       const struct proc_event *events, size_t n)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, a->job_id, 1, 0);
	must(write_tick(store, a, &snap, NULL, events, n, &err), &err);
}

struct heard {
	struct store *store;
	size_t n, stop_at;
	uint64_t last_ns;
	pid_t pids[N_MANY];
	int attempts[N_MANY];
	char job_id[64];
};

static int hear(void *ctx, const struct event_row *row)
{
	struct heard *h = ctx;

	assert_true(row->event.wall_ns >= h->last_ns);
	assert_true(h->n < N_MANY);
	h->last_ns = row->event.wall_ns;
	h->attempts[h->n] = row->attempt_num;
	h->pids[h->n++] = row->event.key.pid;
	snprintf(h->job_id, sizeof(h->job_id), "%s", row->event.job_id);
	return h->n == h->stop_at ? -EPIPE : 0;
}

static size_t count(struct store *store, struct event_filter filter, struct heard *ret)
{
	struct err err = ERR_INIT;

	*ret = (struct heard){ 0 };
	must(store_read_events(store, &filter, hear, ret, &err), &err);
	return ret->n;
}

static size_t count_of_attempt(struct store *store, const struct attempt *a,
			       struct event_filter filter, struct heard *ret)
{
	struct err err = ERR_INIT;

	*ret = (struct heard){ 0 };
	filter.attempt_id = a->id;
	must(store_read_events(store, &filter, hear, ret, &err), &err);
	return ret->n;
}

/* Of two that ran side by side. */
static void test_events_of_one_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), again = must_begin(store, "a");
	struct proc_event of_a[] = { make_event(&a, 11, START + 2 * SECOND),
				     make_event(&a, 12, START + 9 * SECOND) };
	struct proc_event later = make_event(&again, 13, START + 5 * SECOND);
	struct heard h;

	add_events(store, &a, of_a, 2);
	add_events(store, &again, &later, 1);
	assert_int_equal(count_of_attempt(store, &a, (struct event_filter){ 0 }, &h), 2);
	assert_true(h.pids[0] == 11 && h.pids[1] == 12 && h.attempts[1] == 1);
	assert_int_equal(count_of_attempt(store, &again, (struct event_filter){ 0 }, &h), 1);
	assert_true(h.pids[0] == 13 && h.attempts[0] == 2);
	assert_int_equal(
		count_of_attempt(store, &a,
				 (struct event_filter){ .until_wall_ns = START + 5 * SECOND }, &h),
		1);
	assert_true(h.pids[0] == 11);
}

static void test_order_and_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b"),
		       again = must_begin(store, "a");
	struct proc_event of_a[] = { make_event(&a, 11, START + 2 * SECOND),
				     make_event(&a, 12, START + 9 * SECOND) };
	struct proc_event of_b[] = { make_event(&b, 21, START + SECOND),
				     make_event(&b, 22, START + 2 * SECOND) };
	struct proc_event later = make_event(&again, 13, START + 5 * SECOND);
	struct heard h;

	add_events(store, &a, of_a, 2);
	add_events(store, &b, of_b, 2);
	add_events(store, &again, &later, 1);

	assert_int_equal(count(store, (struct event_filter){ 0 }, &h), 5);
	/* by time, and those of the same time as they were written */
	assert_true(h.pids[0] == 21 && h.pids[1] == 11 && h.pids[2] == 22 && h.pids[3] == 13 &&
		    h.pids[4] == 12);
	assert_int_equal(count(store, (struct event_filter){ .job_id = "a" }, &h), 3);
	assert_true(h.pids[0] == 11 && h.attempts[0] == 1 && h.pids[1] == 13 && h.attempts[1] == 2);
	assert_string_equal(h.job_id, "a");
	assert_int_equal(count(store, (struct event_filter){ .job_id = "none" }, &h), 0);

	/* both ends belong to it */
	assert_int_equal(count(store,
			       (struct event_filter){ .since_wall_ns = START + 2 * SECOND,
						      .until_wall_ns = START + 5 * SECOND },
			       &h),
			 3);
	assert_int_equal(count(store,
			       (struct event_filter){ .since_wall_ns = START + 2 * SECOND + 1,
						      .until_wall_ns = START + 5 * SECOND - 1 },
			       &h),
			 0);
	assert_int_equal(count(store, (struct event_filter){ .since_wall_ns = UINT64_MAX }, &h), 0);
}

/* Attempts that ran at the same time, and others between them: each event once, in order. */
static void test_attempts_of_a_job_are_merged(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	enum { ATTEMPTS = 4, EVENTS = 320 };
	struct attempt attempts[ATTEMPTS];
	static struct heard h;

	for (int i = 0; i < ATTEMPTS; i++)
		attempts[i] = must_begin(store, "j");
	for (int i = 0; i < ATTEMPTS; i++) {
		static struct proc_event events[EVENTS];
		uint64_t first = START + (i < 2 ? (uint64_t)i * 100 : 1000 * (uint64_t)i) * SECOND;

		for (int k = 0; k < EVENTS; k++)
			events[k] = make_event(&attempts[i], 1 + i * EVENTS + k,
					       first + (uint64_t)k * SECOND);
		add_events(store, &attempts[i], events, EVENTS);
	}
	assert_int_equal(count(store, (struct event_filter){ .job_id = "j" }, &h),
			 ATTEMPTS * EVENTS);
	for (int i = 0; i < 200; i++) /* the first alone, then both in turns */
		assert_int_equal(h.attempts[i], i < 100 ? 1 : 1 + i % 2);
	for (int i = 0; i < ATTEMPTS * EVENTS; i++)
		for (int k = 0; k < i; k++)
			assert_int_not_equal(h.pids[i], h.pids[k]);
	assert_int_equal(count(store,
			       (struct event_filter){ .job_id = "j",
						      .since_wall_ns = START + 2000 * SECOND,
						      .until_wall_ns = START + 2009 * SECOND },
			       &h),
			 10);
}

static int check_fields(void *ctx, const struct event_row *row)
{
	const struct proc_event *ev = &row->event;

	(void)ctx;
	assert_true(ev->wall_ns == START + 123456789);
	assert_int_equal(ev->key.start_ticks, 5000);
	assert_int_equal(ev->type, EVENT_EXIT);
	assert_true(ev->status.exit_code == 3 && ev->status.signal == -1);
	assert_int_equal(ev->sheet_num, 1);
	assert_string_equal(ev->details, "a \"b\"");
	return 0;
}

static void test_comes_back_as_it_was(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct proc_event ev = make_event(&a, 1, START + 123456789);
	struct err err = ERR_INIT;

	add_events(store, &a, &ev, 1);
	must(store_read_events(store, &(struct event_filter){ 0 }, check_fields, NULL, &err), &err);
}

static void add_many(struct store *store, const struct attempt *a)
{
	struct proc_event events[N_MANY];

	for (int i = 0; i < N_MANY; i++) /* many at the same time: the pages part them */
		events[i] = make_event(a, i + 1, START + (uint64_t)(i / 700) * SECOND);
	add_events(store, a, events, N_MANY);
}

static void test_many(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	struct heard h;

	add_many(store, &a);
	assert_int_equal(count(store, (struct event_filter){ 0 }, &h), N_MANY);
	for (int i = 0; i < N_MANY; i++)
		assert_int_equal(h.pids[i], i + 1);
	h = (struct heard){ .stop_at = 300 };
	assert_int_equal(store_read_events(store, &(struct event_filter){ 0 }, hear, &h, &err),
			 -EPIPE);
	assert_int_equal(h.n, 300);
	assert_int_equal(err.code, 0);
}

/* Each one heard makes another: they are not heard, or it would never end. */
static int make_another(void *ctx, const struct event_row *row)
{
	struct heard *h = ctx;
	struct attempt a = make_attempt("a");
	struct proc_event ev = make_event(&a, 9999, row->event.wall_ns + SECOND);
	struct heard inner;

	a.id = 1;
	assert_int_not_equal(row->event.key.pid, 9999);
	if (h->n++ % 500 == 0) {
		add_events(h->store, &a, &ev, 1);
		/* it may use the store, and read events too */
		assert_true(count(h->store, (struct event_filter){ .since_wall_ns = ev.wall_ns },
				  &inner) > 0);
	}
	return 0;
}

static void test_told_are_those_that_were_there(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct heard h = { .store = store };
	struct err err = ERR_INIT;

	assert_int_equal(a.id, 1);
	add_many(store, &a);
	must(store_read_events(store, &(struct event_filter){ 0 }, make_another, &h, &err), &err);
	assert_int_equal(h.n, N_MANY);
}

/* In the order in which they were written, however old they are; and none twice. */
static int hear_any(void *ctx, const struct event_row *row)
{
	struct heard *h = ctx;

	h->last_ns = 0;
	return hear(h, row);
}

static void test_following(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	struct proc_event many[700];
	struct proc_event late = make_event(&b, 21, START - SECOND);
	struct err err = ERR_INIT;
	struct heard h = { 0 };
	int64_t after = 0, after_a = 0;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = make_event(&a, 1000 + (pid_t)i, START + i);
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	assert_int_equal(h.n, 0);
	add_events(store, &a, many, ARRAY_SIZE(many));
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	assert_int_equal(h.n, 700);
	assert_true(h.pids[0] == 1000 && h.pids[699] == 1699);
	add_events(store, &b, &late, 1);
	must(store_follow_events(store, "a", &after_a, NULL, NULL, &err), &err);
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	assert_true(h.n == 701 && h.pids[700] == 21);
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	must(store_follow_events(store, "a", &after_a, hear_any, &h, &err), &err);
	assert_int_equal(h.n, 701);
}

/* One that is stopped goes on there: nothing was told for good. */
static void test_following_is_stopped(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct proc_event ev[] = { make_event(&a, 1, START), make_event(&a, 2, START) };
	struct err err = ERR_INIT;
	struct heard h = { .stop_at = 1 };
	int64_t after = 0;

	add_events(store, &a, ev, 2);
	assert_int_equal(store_follow_events(store, NULL, &after, hear_any, &h, &err), -EPIPE);
	assert_int_equal(after, 0);
}

/* Retention may take all of them: those that come then are new all the same. */
static void test_following_after_removal(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct proc_event ev[] = { make_event(&a, 1, START), make_event(&a, 2, START) };
	struct err err = ERR_INIT;
	struct heard h = { 0 };
	int64_t after = 0;

	add_events(store, &a, ev, 2);
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	raw_sql(f->db, "DELETE FROM events");
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	add_events(store, &a, ev, 2);
	must(store_follow_events(store, NULL, &after, hear_any, &h, &err), &err);
	assert_int_equal(h.n, 4);
}

/* ---- what is not listed ---- */

static int tell_cut(struct store *store, const char *job_id, uint64_t since_ns, uint64_t until_ns,
		    struct buf *ret)
{
	const struct event_filter filter = { job_id, since_ns, until_ns, 0 };
	struct err err = ERR_INIT;

	buf_reset(ret);
	return store_tell_cut_events(store, &filter, ret, &err);
}

static void test_who_lists_not_all(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(buf_release) struct buf told = BUF_INIT;
	struct unknown_note notes[] = { { "events", "7 more are not listed" }, { "gpus", "none" } };
	struct attempt storm = must_begin(store, "storm"), calm = must_begin(store, "calm");
	struct err err = ERR_INIT;

	assert_int_equal(tell_cut(store, NULL, 0, 0, &told), 0);
	storm.details.unknowns = notes;
	storm.details.n_unknowns = ARRAY_SIZE(notes);
	storm.ended_wall_ns = storm.started_wall_ns + SECOND;
	must(store_finish_attempt(store, &storm, NULL, 0, &err), &err);
	must(store_finish_attempt(store, &calm, NULL, 0, &err), &err);
	assert_int_equal(tell_cut(store, NULL, 0, 0, &told), 1);
	assert_string_equal(told.data, "job storm, attempt 1: 7 more are not listed");
	assert_int_equal(tell_cut(store, "storm", storm.ended_wall_ns, 0, &told), 1);
	assert_int_equal(tell_cut(store, "storm", storm.ended_wall_ns + 1, 0, &told), 0);
	assert_int_equal(tell_cut(store, "storm", 0, storm.started_wall_ns - 1, &told), 0);
	assert_int_equal(tell_cut(store, "calm", 0, 0, &told), 0);
	assert_int_equal(tell_cut(store, "nobody", 0, 0, &told), 0);
}

static int hear_pid(void *ctx, const struct event_row *row)
{
	struct heard *h = ctx;

	assert_true(h->n < N_MANY);
	h->attempts[h->n] = (int)row->attempt_id;
	h->pids[h->n++] = row->event.key.pid;
	return 0;
}

static size_t count_left(struct store *store, const char *boot_id, int64_t attempt_id,
			 struct heard *ret)
{
	const struct orphan_filter filter = { boot_id, attempt_id, 10 };
	struct err err = ERR_INIT;

	*ret = (struct heard){ 0 };
	must(store_read_orphans(store, &filter, hear_pid, ret, &err), &err);
	return ret->n;
}

/* A clock that was set does not make them those of another boot, nor others theirs. */
static void test_who_is_left_is_of_a_boot(void **state)
{
	static const char other[] = "11111111-0000-4000-8000-123456789abc";
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = make_attempt("b"), runs;
	struct proc_event left = make_event(&a, 11, START), later = make_event(&a, 12, START + 1);
	struct err err = ERR_INIT;
	struct heard h;

	left.type = later.type = EVENT_ORPHAN;
	snprintf(b.boot_id, sizeof(b.boot_id), "%s", other);
	must(store_begin_attempt(store, &b, &err), &err);
	runs = must_begin(store, "runs");
	a.ended_wall_ns = b.ended_wall_ns = START;
	must(store_finish_attempt(store, &a, (struct proc_event[]){ left, later }, 2, &err), &err);
	must(store_finish_attempt(store, &b, &left, 1, &err), &err);
	must(store_write_events(store, &runs, &left, 1, &err), &err);
	assert_int_equal(count_left(store, a.boot_id, 0, &h), 2);
	assert_int_equal(h.pids[0], 12); /* the newest first */
	assert_int_equal(h.attempts[1], a.id);
	assert_int_equal(count_left(store, a.boot_id, a.id, &h), 2);
	assert_int_equal(count_left(store, a.boot_id, b.id, &h), 0);
	assert_int_equal(count_left(store, other, 0, &h), 1);
	assert_int_equal(h.attempts[0], b.id);
	assert_int_equal(count_left(store, "", 0, &h), 0);
}

static enum store_alive is_alive_as(void *ctx, const struct attempt *a)
{
	(void)a;
	return *(const enum store_alive *)ctx;
}

/* A runner that was killed has written no end. */
static void test_who_is_left_by_a_killed_runner(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct proc_event left = make_event(&a, 11, START);
	enum store_alive alive = STORE_ALIVE;
	struct err err = ERR_INIT;
	struct heard h;

	left.type = EVENT_ORPHAN;
	must(store_write_events(store, &a, &left, 1, &err), &err);
	store_set_alive_check(store, is_alive_as, &alive);
	assert_int_equal(count_left(store, a.boot_id, 0, &h), 0);
	alive = STORE_CANNOT_TELL;
	assert_int_equal(count_left(store, a.boot_id, 0, &h), 0);
	alive = STORE_DEAD;
	assert_int_equal(count_left(store, a.boot_id, 0, &h), 1);
	assert_int_equal(count_left(store, a.boot_id, a.id, &h), 1);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_order_and_filters),
		STORE_TEST(test_events_of_one_attempt),
		STORE_TEST(test_attempts_of_a_job_are_merged),
		STORE_TEST(test_comes_back_as_it_was),
		STORE_TEST(test_many),
		STORE_TEST(test_told_are_those_that_were_there),
		STORE_TEST(test_following),
		STORE_TEST(test_following_is_stopped),
		STORE_TEST(test_following_after_removal),
		STORE_TEST(test_who_lists_not_all),
		STORE_TEST(test_who_is_left_is_of_a_boot),
		STORE_TEST(test_who_is_left_by_a_killed_runner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"
#include "store_writer.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static int mark(struct store *store, struct phase_mark mark)
{
	struct err err = ERR_INIT;

	must(store_mark_phases(store, &mark, 1, &err), &err);
	return mark.result;
}

static int enter(struct store *store, const struct attempt *a, pid_t pid, const char *name,
		 uint64_t seconds)
{
	return mark(store, (struct phase_mark){
				   .attempt_id = a->id,
				   .phase = { .name = name,
					      .pid = pid,
					      .rank = RANK_NONE,
					      .entered_wall_ns = START + seconds * SECOND } });
}

static int leave(struct store *store, const struct attempt *a, pid_t pid, const char *name,
		 uint64_t seconds)
{
	return mark(store,
		    (struct phase_mark){ .attempt_id = a->id,
					 .is_exit = true,
					 .phase = { .name = name,
						    .pid = pid,
						    .left_wall_ns = START + seconds * SECOND } });
}

/* The same, for a process that may be any of family: from its first pid down to its last. */
static bool are_in(void *ctx, pid_t a, pid_t b)
{
	const pid_t *family = ctx;

	return a >= family[0] && a <= family[1] && b >= family[0] && b <= family[1];
}

static struct phase_mark leaving(const struct attempt *a, pid_t pid, int rank, pid_t *family)
{
	return (struct phase_mark){
		.attempt_id = a->id,
		.is_exit = true,
		.phase = { .name = "load", .pid = pid, .rank = rank, .left_wall_ns = START },
		.are_kin = are_in,
		.ctx = family,
	};
}

static void enter_as(struct store *store, const struct attempt *a, pid_t pid, int rank)
{
	assert_int_equal(mark(store, (struct phase_mark){ .attempt_id = a->id,
							  .phase = { .name = "load",
								     .pid = pid,
								     .rank = rank,
								     .entered_wall_ns = START } }),
			 0);
}

static void test_phases_lie_in_each_other(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;

	assert_int_equal(enter(store, &a, 7, "epoch", 1), 0);
	assert_int_equal(enter(store, &a, 7, "load", 2), 0);
	assert_int_equal(enter(store, &a, 8, "load", 3), 0); /* another process's */
	assert_int_equal(leave(store, &a, 7, "load", 4), 0);
	assert_int_equal(enter(store, &a, 7, "train", 5), 0);
	attempt_init(&read);
	must(store_read_attempt(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.n_phases, 4);
	assert_string_equal(read.phases[0].path, "epoch");
	assert_string_equal(read.phases[1].path, "epoch/load");
	assert_int_equal(read.phases[1].left_wall_ns, START + 4 * SECOND);
	assert_string_equal(read.phases[2].path, "load");
	assert_int_equal(read.phases[2].pid, 8);
	assert_false(u64_known(read.phases[2].left_wall_ns));
	assert_string_equal(read.phases[3].path, "epoch/train");
	assert_int_equal(read.phases[3].rank, RANK_NONE);
}

static void test_leaving(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");

	assert_int_equal(leave(store, &a, 7, "load", 1), -ENOENT);
	assert_int_equal(enter(store, &a, 7, "load", 2), 0);
	assert_int_equal(leave(store, &b, 7, "load", 3), -ENOENT); /* of another job */
	assert_int_equal(leave(store, &a, 9, "load", 3), -ENOENT); /* of another process */
	assert_int_equal(leave(store, &a, 7, "load", 3), 0);
	assert_int_equal(leave(store, &a, 7, "load", 3), -ENOENT);
}

/* For a shell that is gone at once another may leave what it has entered: one of its family. */
static void test_leaving_what_another_has_entered(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	pid_t family[] = { 7, 9 }, nobody[] = { 0, 0 };
	struct phase_mark stranger = leaving(&a, 30, RANK_NONE, family);
	struct err err = ERR_INIT;

	enter_as(store, &a, 7, RANK_NONE);
	must(store_mark_phases(store, &stranger, 1, &err), &err);
	assert_true(stranger.result == -ENOENT && stranger.entered_by == 7);
	assert_int_equal(mark(store, leaving(&a, 9, RANK_NONE, family)), 0);
	enter_as(store, &a, 7, RANK_NONE);
	enter_as(store, &a, 8, RANK_NONE);
	assert_int_equal(mark(store, leaving(&a, 9, RANK_NONE, family)), -ENOENT); /* which? */
	assert_int_equal(mark(store, leaving(&a, 8, RANK_NONE, family)), 0);
	assert_int_equal(mark(store, leaving(&a, 7, RANK_NONE, family)), 0);
	enter_as(store, &a, 7, 3);
	assert_int_equal(mark(store, leaving(&a, 9, 4, nobody)), -ENOENT); /* another rank's */
	assert_int_equal(mark(store, leaving(&a, 9, 3, nobody)), 0);
}

/* A process that dies leaves its phases, and they are of its rank. */
static void test_what_the_process_tells(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	const struct event_filter filter = { .job_id = "a" };
	struct attempt a = must_begin(store, "a");
	struct proc_record processes[3];
	struct err err = ERR_INIT;

	for (int i = 0; i < 3; i++) {
		proc_record_init(&processes[i]);
		processes[i].key = (struct proc_key){ i < 2 ? 7 : 8, (uint64_t)i + 1 };
		processes[i].rank = 2 + i;
		processes[i].born_wall_ns = START + (uint64_t)i * 10 * SECOND;
		processes[i].died_wall_ns = processes[i].born_wall_ns + 9 * SECOND;
	}
	processes[2].died_wall_ns = U64_UNKNOWN;
	assert_int_equal(enter(store, &a, 7, "first", 1), 0);
	assert_int_equal(enter(store, &a, 7, "second", 15), 0); /* its pid was used again */
	assert_int_equal(enter(store, &a, 8, "lasting", 25), 0);
	a.processes = processes;
	a.n_processes = 3;
	a.ended_wall_ns = START + 60 * SECOND;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	attempt_init(&read);
	must(store_read_attempt(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.phases[0].left_wall_ns, START + 9 * SECOND);
	assert_int_equal(read.phases[1].left_wall_ns, START + 19 * SECOND);
	assert_false(u64_known(read.phases[2].left_wall_ns));
	must(store_list_phases(store, &filter, &list, &err), &err);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(read.phases[i].rank, 2 + i);
		assert_int_equal(list.items[i].phase.rank, 2 + i);
		assert_int_equal(list.items[i].phase.left_wall_ns, read.phases[i].left_wall_ns);
	}
}

static int fill_rank(struct store *store, const struct attempt *a, int rank)
{
	CLEANUP(free_ptr)
	struct phase_mark *marks = calloc((size_t)2 * PHASES_PER_RANK, sizeof(*marks));
	struct err err = ERR_INIT;

	for (int i = 0; i < 2 * PHASES_PER_RANK; i++)
		marks[i] = (struct phase_mark){
			.attempt_id = a->id,
			.is_exit = i % 2 == 1,
			.phase = { "step", NULL, 7 + rank, rank, START, START },
		};
	must(store_mark_phases(store, marks, (size_t)2 * PHASES_PER_RANK, &err), &err);
	for (int i = 0; i < 2 * PHASES_PER_RANK; i++)
		if (marks[i].result < 0)
			return marks[i].result;
	return 0;
}

/* One rank does not use up what the others may have; nor does a new handle forget. */
static void test_each_rank_has_its_bound(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	const struct phase_mark more = { .attempt_id = a.id,
					 .phase = { "step", NULL, 8, 1, START, U64_UNKNOWN } };

	assert_int_equal(fill_rank(store, &a, 0), 0);
	assert_int_equal(fill_rank(store, &a, 1), 0);
	assert_int_equal(mark(store, more), -ENOSPC);
	store_close(store);
	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(mark(store, more), -ENOSPC);
	assert_int_equal(enter(store, &a, 9, "other", 1), 0); /* of no rank */
	store_close(store);
}

static void test_lost_marks_are_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;

	must(store_add_lost_marks(store, a.id, 5, &err), &err);
	must(store_add_lost_marks(store, a.id, 2, &err), &err);
	a.ended_wall_ns = START + SECOND;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	attempt_init(&read);
	must(store_read_attempt(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.details.n_unknowns, 1);
	assert_string_equal(read.details.unknowns[0].what, "phases");
	assert_non_null(strstr(read.details.unknowns[0].why, "7 markers"));
}

/* A clock that was set back makes no phase end before it began. */
static void test_time_goes_forward(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	const struct event_filter filter = { .job_id = "a" };
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;

	assert_int_equal(enter(store, &a, 7, "load", 9), 0);
	assert_int_equal(leave(store, &a, 7, "load", 2), 0);
	must(store_list_phases(store, &filter, &list, &err), &err);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].phase.left_wall_ns, START + 9 * SECOND);
	assert_string_equal(list.items[0].job_id, "a");
}

static void test_there_is_an_end_to_them(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");

	for (int i = 0; i < 32; i++)
		assert_int_equal(enter(store, &a, 7, "deeper", 1), 0);
	assert_int_equal(enter(store, &a, 7, "deeper", 1), -ENOSPC);
	assert_int_equal(enter(store, &a, 8, "other", 1), 0);
}

/* One that fails does not keep the others back. */
static void test_many_at_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	const struct event_filter filter = { .job_id = "a" };
	struct attempt a = must_begin(store, "a");
	struct phase_mark marks[] = {
		{ .attempt_id = a.id, .phase = { "x", NULL, 7, 3, START, U64_UNKNOWN } },
		{ .attempt_id = a.id, .is_exit = true, .phase = { .name = "y", .pid = 7 } },
		{ .attempt_id = a.id,
		  .is_exit = true,
		  .phase = { .name = "x", .pid = 7, .left_wall_ns = START + 1 } },
	};
	struct err err = ERR_INIT;

	must(store_mark_phases(store, marks, 3, &err), &err);
	assert_true(marks[0].result == 0 && marks[1].result == -ENOENT && marks[2].result == 0);
	must(store_list_phases(store, &filter, &list, &err), &err);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].phase.rank, 3);
	assert_int_equal(list.items[0].phase.left_wall_ns, START + 1);
}

static void test_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	struct event_filter filter = { .since_wall_ns = START + 5 * SECOND };
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	struct err err = ERR_INIT;

	assert_int_equal(enter(store, &a, 7, "old", 1), 0);
	assert_int_equal(leave(store, &a, 7, "old", 2), 0);
	assert_int_equal(enter(store, &a, 7, "long", 3), 0);
	assert_int_equal(leave(store, &a, 7, "long", 6), 0);
	assert_int_equal(enter(store, &b, 9, "new", 7), 0);
	must(store_list_phases(store, &filter, &list, &err), &err);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.items[0].phase.name, "long");
	assert_string_equal(list.items[1].phase.name, "new");
	phase_list_release(&list);
	filter.job_id = "nobody";
	must(store_list_phases(store, &filter, &list, &err), &err);
	assert_int_equal(list.n, 0);
}

#define STORE_TEST(test_) cmocka_unit_test_setup_teardown(test_, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_phases_lie_in_each_other),
		STORE_TEST(test_leaving),
		STORE_TEST(test_leaving_what_another_has_entered),
		STORE_TEST(test_what_the_process_tells),
		STORE_TEST(test_each_rank_has_its_bound),
		STORE_TEST(test_lost_marks_are_told),
		STORE_TEST(test_time_goes_forward),
		STORE_TEST(test_there_is_an_end_to_them),
		STORE_TEST(test_many_at_once),
		STORE_TEST(test_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

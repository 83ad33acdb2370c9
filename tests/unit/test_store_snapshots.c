#include "store_fixture.h"
#include "store_host.h"

#include "base/json.h"
#include "store_writer.h"

#define N_TICKS 300

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

/* ---- what comes back ---- */

struct expected {
	struct snapshot made;
	unsigned k;
	size_t n;
	const char *job_id;
};

static void assert_same(const struct snapshot *got, const struct snapshot *want)
{
	CLEANUP(buf_release) struct buf a = BUF_INIT;
	CLEANUP(buf_release) struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &a);
	snapshot_write_json(&j, got, SNAPSHOT_ALL);
	json_init(&j, &b);
	snapshot_write_json(&j, want, SNAPSHOT_ALL);
	assert_string_equal(a.data, b.data);
	assert_string_equal(got->boot_id, want->boot_id);
}

static int check_snapshot(void *ctx, const struct snapshot *snap)
{
	struct expected *want = ctx;

	make_snapshot(&want->made, want->job_id, want->k);
	for (size_t i = 0; i < want->made.n_progress; i++) { /* of the job's only attempt */
		want->made.progress[i].attempt_id = snap->recorder;
		want->made.progress[i].attempt_num = 1;
		want->made.progress[i].uid = 1000;
	}
	assert_same(snap, &want->made);
	want->k++;
	want->n++;
	return 0;
}

static size_t check_all(struct store *store, struct snapshot_filter filter, unsigned first)
{
	struct expected want = { .k = first, .job_id = "j" };
	struct err err = ERR_INIT;

	snapshot_init(&want.made);
	must(store_read_snapshots(store, &filter, check_snapshot, &want, &err), &err);
	snapshot_release(&want.made);
	return want.n;
}

static void write_ticks(struct store *store, const struct attempt *a, unsigned n)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (unsigned k = 0; k < n; k++) {
		make_snapshot(&snap, a->job_id, k);
		must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	}
}

static uint64_t time_of(unsigned k)
{
	return UINT64_C(1700000001000000000) + k * UINT64_C(250000000);
}

/* ---- tests ---- */

/* Byte for byte as JSON: from folds, from ticks that are none yet, and when all is folded. */
static void test_snapshots_come_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	write_ticks(store, &a, N_TICKS);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), N_TICKS % 120);
	assert_int_equal(check_all(store, (struct snapshot_filter){ 0 }, 0), N_TICKS);
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), 0);
	assert_int_equal(check_all(store, (struct snapshot_filter){ 0 }, 0), N_TICKS);
	assert_is_sound(f->db);
}

static void test_the_newest_oldest_first(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "j");
	static const size_t limits[] = { 1, 59, 60, 61, 119, 180, 181, 299, 300, 301, 1000 };

	write_ticks(store, &a, N_TICKS);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		size_t n = limits[i] < N_TICKS ? limits[i] : N_TICKS;

		assert_int_equal(check_all(store, (struct snapshot_filter){ .limit = limits[i] },
					   (unsigned)(N_TICKS - n)),
				 n);
	}
	assert_int_equal(
		check_all(store, (struct snapshot_filter){ .since_wall_ns = time_of(290) }, 290),
		10);
	assert_int_equal(check_all(store,
				   (struct snapshot_filter){ .since_wall_ns = time_of(100),
							     .until_wall_ns = time_of(150),
							     .limit = 20 },
				   131),
			 20);
	assert_int_equal(check_all(store, (struct snapshot_filter){ .job_id = "none" }, 0), 0);
}

static int count_snapshot(void *ctx, const struct snapshot *snap)
{
	uint64_t *last = ctx;

	assert_true(snap->wall_ns >= last[0]);
	last[0] = snap->wall_ns;
	last[1]++;
	last[2] += snap->n_processes;
	return 0;
}

static int count_covered(void *ctx, const struct snapshot *snap)
{
	assert_int_equal(snap->covers, COVERS_JOB);
	assert_string_equal(snap->covered_job, ctx);
	assert_true(snapshot_covers(snap, "a"));
	assert_false(snapshot_covers(snap, "b"));
	return 0;
}

/* A tick is of one job, whoever else is in the snapshot: it does not say that the others were gone.
 */
static void test_what_a_tick_covers(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	uint64_t all[3] = { 0 };

	attempt_init(&back);
	snapshot_init(&snap);
	for (unsigned k = 0; k < 150; k++) {
		make_snapshot(&snap, "a", k);
		snap.processes[1].job_id = "b";
		snap.processes[2].job_id = k % 2 ? "a" : NULL; /* of no job: left out */
		must(store_write_tick(store, &a, &snap, NULL, &err), &err);
	}
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, count_snapshot, all, &err),
	     &err);
	assert_int_equal(all[1], 150);
	assert_int_equal(all[2], 225);
	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, count_covered, (void *)"a",
				  &err),
	     &err);
	must(store_read_attempt(store, "a", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, 2);
	assert_int_equal(back.processes[0].n_samples, 150);
	assert_int_equal(back.processes[1].n_samples, 75);
	assert_int_equal(back.details.n_series, 0); /* watched, without a point */
}

static void test_who_still_runs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	struct attempt_filter filter = { .running_only = true };
	struct err err = ERR_INIT;

	must_begin(store, "c");
	b.ended_wall_ns = 7;
	must(store_finish_attempt(store, &b, NULL, 0, &err), &err);
	must(store_list_attempts(store, &filter, &list, &err), &err);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[0].id, a.id);
	assert_string_equal(list.items[1].job_id, "c");
}

/* A program that writes its progress into its name for ever does not fill the disk. */
static void test_names_are_bounded(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;
	char command[32];

	snapshot_init(&snap);
	for (unsigned k = 0; k < 200; k++) {
		fill_snapshot(&snap, "j", 1, k);
		snprintf(command, sizeof(command), "step %u", k);
		snap.processes[0].command = command;
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM images"), 64);
	assert_int_equal(raw_sql(f->db, "SELECT command = 'step 199' FROM processes"), 1);
	assert_int_equal(count_samples(f->db), 200);
}

/* Ticks that cannot be read cost themselves and those that build on them, and no more. */
static void test_damaged_ticks_do_not_stop_recording(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	write_ticks(store, &a, 50);
	assert_int_equal(raw_sql(f->db, "UPDATE ticks SET data = x'00' WHERE id = 40"), -1);
	write_ticks(store, &a, 100);
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), 39 + 30); /* a fold of 39, 30 ticks behind */
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.details.n_unknowns, 1);
	assert_non_null(strstr(back.details.unknowns[0].why, "81 ticks from 2023-"));
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	store_close(store);
	assert_int_equal(count_samples(f->db), 69 * 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM unknowns"), 1);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_snapshots_come_back),
		STORE_TEST(test_the_newest_oldest_first),
		STORE_TEST(test_what_a_tick_covers),
		STORE_TEST(test_who_still_runs),
		STORE_TEST(test_names_are_bounded),
		STORE_TEST(test_damaged_ticks_do_not_stop_recording),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

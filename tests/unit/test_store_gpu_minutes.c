/* GPUs of the host when their ticks have become minutes. */
#include "retention_fixture.h"

#include "store/rollup.h"

#define N_TICKS 500
#define FIRST (NOW - 26 * HOUR)
#define N_MINUTES 70
#define N_GPUS 2

/* ---- what is written, and the naive way to add it up ---- */

struct naive {
	double n, n_temperatures, utilization, memory, temperature, power;
	double last_energy;
};

static uint64_t time_of(uint64_t k)
{
	return FIRST + k * 7 * SECOND_NS;
}

/* The temperature is not always known, and the second one falls off the bus now and then. */
static void make_gpus(struct snapshot *s, uint64_t k)
{
	s->n_gpus = k % 40 < 5 ? 1 : N_GPUS;
	s->gpus = arena_alloc(&s->arena, N_GPUS * sizeof(*s->gpus));
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct gpu_sample *gpu = &s->gpus[i];

		gpu_sample_init(gpu);
		gpu->index = (int)i;
		gpu->utilization_pct = (double)(k * 37 % 101);
		gpu->memory_used_mb = 1000.25 + (double)(k * (i + 1));
		gpu->memory_total_mb = 81559;
		gpu->temperature_c = k % 3 ? 40 + (double)(k % 17) : F64_UNKNOWN;
		gpu->power_watts = 100.125 + (double)k;
		gpu->energy_joules = 1e6 + (double)k;
		gpu->throttle = k % 9;
	}
}

static void naive_add(struct naive *naive, const struct gpu_sample *gpu)
{
	naive->n++;
	naive->utilization += gpu->utilization_pct;
	naive->memory += gpu->memory_used_mb;
	naive->power += gpu->power_watts;
	naive->last_energy = gpu->energy_joules;
	if (!f64_known(gpu->temperature_c))
		return;
	naive->n_temperatures++;
	naive->temperature += gpu->temperature_c;
}

struct expected {
	struct naive of[N_MINUTES][N_GPUS];
	unsigned n_seen;
};

static void write_ticks(struct store *store, const struct attempt *a, struct expected *want)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (uint64_t k = 0; k < N_TICKS; k++) {
		uint64_t minute = time_of(k) / MINUTE - FIRST / MINUTE;

		fill_snapshot(&snap, a->job_id, 3, 0);
		snap.wall_ns = time_of(k);
		make_gpus(&snap, k);
		for (size_t i = 0; i < snap.n_gpus; i++)
			naive_add(&want->of[minute][snap.gpus[i].index], &snap.gpus[i]);
		must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	}
}

/* ---- what comes back ---- */

static void check_gpu(const struct gpu_sample *gpu, const struct naive *want)
{
	assert_true(want->n > 0);
	assert_true(fabs(gpu->utilization_pct - want->utilization / want->n) < 1e-9);
	assert_true(fabs(gpu->memory_used_mb - want->memory / want->n) < 1e-9);
	assert_true(fabs(gpu->power_watts - want->power / want->n) < 1e-9);
	assert_true(fabs(gpu->temperature_c - want->temperature / want->n_temperatures) < 1e-9);
	assert_true(gpu->memory_total_mb == 81559);
	assert_true(gpu->energy_joules == want->last_energy);
	assert_false(f64_known(gpu->sm_clock_mhz)); /* nobody knew it */
	assert_int_equal(gpu->ecc_errors, U64_UNKNOWN);
}

static int check_minute(void *ctx, const struct snapshot *snap)
{
	struct expected *want = ctx;
	uint64_t minute = snap->wall_ns / MINUTE - FIRST / MINUTE;

	assert_true(snap->resolution_seconds == 60.0);
	assert_true(minute < N_MINUTES);
	assert_int_equal(snap->n_gpus, want->of[minute][1].n > 0 ? 2 : 1);
	for (size_t i = 0; i < snap->n_gpus; i++) {
		assert_int_equal(snap->gpus[i].index, i);
		check_gpu(&snap->gpus[i], &want->of[minute][i]);
	}
	want->n_seen++;
	return 0;
}

static void check_all(struct store *store, struct expected *want)
{
	struct snapshot_filter minutes = { .with_minutes = true };
	struct err err = ERR_INIT;

	want->n_seen = 0;
	must(store_read_snapshots(store, &minutes, check_minute, want, &err), &err);
	assert_int_equal(want->n_seen, time_of(N_TICKS - 1) / MINUTE - FIRST / MINUTE + 1);
}

/* ---- tests ---- */

/* However small the slices are, each sample counts once. */
static void test_averages(void **state)
{
	for (int is_sliced = 0; is_sliced < 2; is_sliced++) {
		struct fixture *f = NULL;
		struct expected want = { 0 };
		struct retention run;

		assert_int_equal(fixture_setup((void **)&f), 0);
		{
			CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
			struct attempt a = must_begin_at(store, "j", FIRST);

			write_ticks(store, &a, &want);
			must_finish_at(store, &a, NOW - 25 * HOUR);
			store_retain_begin(&run, &default_policy, NOW, NULL);
			if (is_sliced)
				run.slice_ns = 0; /* a piece of work each */
			must_retain(store, &run);
			assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM folds"), 0);
			check_all(store, &want);
		}
		fixture_teardown((void **)&f);
	}
	(void)state;
}

/* The row of process 0 is nobody's, and goes with the hour. */
static void test_it_is_no_process(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "j", FIRST);
	struct expected want = { 0 };
	CLEANUP(minute_list_release) struct minute_list list = { 0 };

	write_ticks(store, &a, &want);
	must_finish_at(store, &a, NOW - 25 * HOUR);
	must_retain_at(store, &default_policy, NOW);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM rollups WHERE id & 1"), 2);
	list = must_read_minutes(store, &(struct history_filter){ 0 });
	for (size_t i = 0; i < list.n; i++)
		assert_in_range(list.items[i].last.key.pid, 100, 102);
	must_retain_at(store, &default_policy, NOW + 8 * DAY);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM rollups"), 0);
}

static int count_minutes(void *ctx, const struct snapshot *snap)
{
	++*(size_t *)ctx;
	assert_null(snap->gpus);
	assert_int_equal(snap->n_processes, 3);
	return 0;
}

/* What cannot be read of it is left out, and told; the processes are there. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(buf_release) struct buf damage = BUF_INIT;
	struct snapshot_filter minutes = { .with_minutes = true };
	struct attempt a = must_begin_at(store, "j", FIRST);
	struct expected want = { 0 };
	struct err err = ERR_INIT;
	size_t n = 0;

	write_ticks(store, &a, &want);
	must_finish_at(store, &a, NOW - 25 * HOUR);
	must_retain_at(store, &default_policy, NOW);
	raw_sql(f->db, "UPDATE rollups SET data = substr(data, 1, 40) WHERE id & 1");
	must(store_read_snapshots(store, &minutes, count_minutes, &n, &err), &err);
	assert_int_equal(n, time_of(N_TICKS - 1) / MINUTE - FIRST / MINUTE + 1);
	assert_true(store_tell_damage(store, &damage));
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_averages),
		STORE_TEST(test_it_is_no_process),
		STORE_TEST(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

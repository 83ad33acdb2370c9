/* What shows an anomaly at full resolution is there as long as the anomaly is. */
#include "retention_fixture.h"

#define BEGAN (NOW - 2 * DAY)

static void put(struct store *store, int64_t attempt_id, pid_t pid, uint64_t start_ticks,
		const struct anomaly_evidence *evidence)
{
	struct err err = ERR_INIT;
	struct episode e;

	episode_init(&e);
	e.worst.type = ANOMALY_MEMORY_LEAK;
	e.worst.has_pid = pid > 0;
	e.worst.pid = pid;
	e.worst.start_ticks = start_ticks;
	snprintf(e.worst.text, sizeof(e.worst.text), "it grows");
	snprintf(e.name, sizeof(e.name), "memory_leak/%d.%llu/1", (int)pid,
		 (unsigned long long)start_ticks);
	e.unit = "MB";
	e.count = 1;
	e.began_wall_ns = e.peak_wall_ns = BEGAN;
	e.full_from_wall_ns = BEGAN - 60 * SECOND_NS;
	e.full_until_wall_ns = BEGAN + 10 * SECOND_NS;
	e.evidence = evidence;
	must(write_anomaly(store, attempt_id, &e, EPISODE_BEGAN, &err), &err);
}

struct found {
	size_t n;
	char evidence[3][32768]; /* in the order of their names */
};

static int find(void *ctx, const struct anomaly_row *row)
{
	struct found *f = ctx;

	assert_true(f->n < ARRAY_SIZE(f->evidence));
	snprintf(f->evidence[f->n++], sizeof(f->evidence[0]), "%s",
		 row->episode.evidence_json ? row->episode.evidence_json : "-");
	return 0;
}

static void read_all(struct store *store, struct found *ret)
{
	struct err err = ERR_INIT;

	ret->n = 0;
	must(store_read_anomalies(store, &(struct anomaly_filter){ 0 }, find, ret, &err), &err);
}

static size_t count_text(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

/* Every five seconds for five minutes around the beginning, then all of it is old. */
static void test_the_seconds_stay(void **state)
{
	static struct found before, after, again;
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct attempt a = must_begin_at(store, "a", BEGAN - 5 * MINUTE);
	struct anomaly_evidence evidence;

	for (uint64_t t = BEGAN - 150 * SECOND_NS; t <= BEGAN + 150 * SECOND_NS; t += 5 * SECOND_NS)
		must_tick_at(store, &a, t, 2);
	must_finish_at(store, &a, BEGAN + 200 * SECOND_NS);
	anomaly_evidence_init(&evidence);
	evidence.n_files_open = 5;
	put(store, a.id, 100, 5000, &evidence);
	put(store, a.id, 101, 1, NULL); /* another process, of which there are no samples */
	put(store, a.id, 0, U64_UNKNOWN, NULL);
	read_all(store, &before);
	assert_int_equal(before.n, 3);
	must_retain_at(store, &policy, NOW);
	assert_int_equal(count_samples(f->db), 0); /* they are minutes */
	read_all(store, &after);
	assert_int_equal(after.n, 3);
	assert_non_null(strstr(after.evidence[0], "\"open_file_count\":5"));
	assert_non_null(strstr(after.evidence[0], "\"seconds\":{\"columns\":[\"timestamp\","));
	assert_int_equal(count_text(after.evidence[0], "[1699"), 15);
	assert_non_null(strstr(after.evidence[1], "\"rows\":[],\"left_out\":0"));
	assert_string_equal(after.evidence[2], "-");
	must_retain_at(store, &policy, NOW + HOUR);
	read_all(store, &again);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(again.evidence[i], after.evidence[i]);
}

/* While samples may still come it is too early. */
static void test_what_is_not_complete_waits(void **state)
{
	static struct found found;
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct attempt a = must_begin_at(store, "a", BEGAN);

	put(store, a.id, 100, 1, NULL);
	must_retain_at(store, &policy, BEGAN + 30 * SECOND_NS);
	read_all(store, &found);
	assert_string_equal(found.evidence[0], "-");
	must_retain_at(store, &policy, BEGAN + 90 * SECOND_NS);
	read_all(store, &found);
	assert_non_null(strstr(found.evidence[0], "\"rows\":[]"));
}

/* Of too many those next to the beginning are kept: it is what they are there for. */
static void test_the_nearest_are_kept(void **state)
{
	static struct found found;
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct attempt a = must_begin_at(store, "a", BEGAN - 5 * MINUTE);
	char first[32], last[32];

	for (uint64_t t = BEGAN - 60 * SECOND_NS; t <= BEGAN + 10 * SECOND_NS; t += SECOND_NS / 10)
		must_tick_at(store, &a, t, 1);
	must_finish_at(store, &a, BEGAN + 20 * SECOND_NS);
	put(store, a.id, 100, 5000, NULL);
	must_retain_at(store, &policy, NOW);
	read_all(store, &found);
	assert_int_equal(count_text(found.evidence[0], "[1699"), 400);
	snprintf(first, sizeof(first), "[[%.1f,", (double)(BEGAN / SECOND_NS) - 29.9);
	snprintf(last, sizeof(last), "[%.1f,", (double)(BEGAN / SECOND_NS) + 9.9);
	assert_non_null(strstr(found.evidence[0], first));
	assert_non_null(strstr(found.evidence[0], last));
	assert_non_null(strstr(found.evidence[0], "],\"left_out\":301}"));
}

#define N_ANOMALIES 50

/* One after the other, however many there are, and not again and again. */
static void test_looking_takes_slices(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct attempt a = must_begin_at(store, "a", BEGAN);
	struct retention run;

	for (int i = 0; i < N_ANOMALIES; i++)
		put(store, a.id, 100 + i, 5000, NULL);
	must_retain_at(store, &policy, BEGAN + HOUR);
	raw_sql(f->db, "DELETE FROM meta WHERE key = 'seconds_kept_ns' RETURNING 1");
	store_retain_begin(&run, &policy, BEGAN + 2 * HOUR, NULL);
	run.slice_ns = 1;
	assert_true(must_retain(store, &run) > N_ANOMALIES); /* all have their seconds */
	store_retain_begin(&run, &policy, BEGAN + 26 * HOUR, NULL);
	must_retain(store, &run);
	store_retain_begin(&run, &policy, BEGAN + 27 * HOUR, NULL);
	run.slice_ns = 1;
	assert_true(must_retain(store, &run) < N_ANOMALIES); /* nothing is new */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_seconds_stay, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_not_complete_waits, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_nearest_are_kept, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_looking_takes_slices, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

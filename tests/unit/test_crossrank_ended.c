/*
 * A rank that died before the others rose keeps nobody from being named, if that is known of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "crossrank/finding.h"

#define RANKS 8
#define LEADER 5
#define DEAD                                                                                 \
	7 /* ended at 20 s, while the leader rises from 30 s on, and the others from 35 s on \
	   */
#define MIB INT64_C(1048576)
#define SECOND_NS INT64_C(1000000000)
#define T0_NS (INT64_C(1700000000) * SECOND_NS)

struct death {
	int seconds; /* of samples that it left; 0: it has none */
	bool is_told;
	int64_t at, peak_mib;
	const char *boot_id; /* NULL: that of the others */
};

static struct text text_of(const char *s)
{
	return (struct text){ s, __builtin_strlen(s) };
}

static struct telemetry_event make_event(int rank, int64_t second, int64_t mib)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.event_type = text_of("sample");
	ev.host = text_of("n0");
	ev.clock.boot_id = text_of("a boot");
	ev.rank = rank;
	ev.world_size = RANKS;
	ev.timestamp_ns = T0_NS + second * SECOND_NS + rank;
	ev.device_used_bytes = mib * MIB;
	return ev;
}

static int64_t level_of(int rank, int second)
{
	int since = second - (rank == LEADER ? 30 : 35);

	return 1000 + (rank * 7 + second * 3) % 5 + (since > 0 && rank != DEAD ? 200 * since : 0);
}

static struct telemetry *make_job(const struct death *death)
{
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;

	assert_non_null(t);
	for (int rank = 0; rank < RANKS; rank++)
		for (int second = 0; second < (rank == DEAD ? death->seconds : 60); second++) {
			ev = make_event(rank, second, level_of(rank, second));
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	if (!death->is_told)
		return t;
	ev = make_event(DEAD, death->at, death->peak_mib);
	ev.event_type = text_of("rank_end");
	if (death->boot_id) {
		ev.clock.boot_id = text_of(death->boot_id);
		ev.clock.is_free = true;
	}
	assert_int_equal(telemetry_add(t, &ev), 0);
	return t;
}

static void check(const struct death *death, enum verdict verdict, enum why why)
{
	struct telemetry *t = make_job(death);
	struct rank_analysis a;

	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(verdict_of(a.finding->why), verdict);
	assert_int_equal(a.finding->why, why);
	if (verdict == VERDICT_NAMED)
		assert_int_equal(finding_culprit(a.finding)->rank, LEADER);
	rank_analysis_release(&a);
	telemetry_free(t);
}

static void test_who_left_a_record(void **state)
{
	(void)state;
	check(&(struct death){ 60, false, 0, 0, NULL }, VERDICT_NAMED, WHY_FIRST);
	check(&(struct death){ 20, false, 0, 0, NULL }, VERDICT_CANNOT_TELL, WHY_UNSEEN);
	check(&(struct death){ 20, true, 20, 1010, NULL }, VERDICT_NAMED, WHY_FIRST);
	/* It held much more than any sample shows: nobody saw it rise. */
	check(&(struct death){ 20, true, 20, 9000, NULL }, VERDICT_CANNOT_TELL, WHY_UNSEEN);
	/* It lived on without samples; or ended after the first onset. */
	check(&(struct death){ 12, true, 28, 1010, NULL }, VERDICT_CANNOT_TELL, WHY_UNSEEN);
	check(&(struct death){ 20, true, 33, 1010, NULL }, VERDICT_CANNOT_TELL, WHY_UNSEEN);
}

static void test_who_left_none(void **state)
{
	(void)state;
	check(&(struct death){ 0, false, 0, 0, NULL }, VERDICT_CANNOT_TELL, WHY_MISSING);
	check(&(struct death){ 0, true, 1, 30, NULL }, VERDICT_NAMED, WHY_FIRST);
	check(&(struct death){ 0, true, 1, 9000, NULL }, VERDICT_CANNOT_TELL, WHY_MISSING);
	check(&(struct death){ 0, true, 50, 30, NULL }, VERDICT_CANNOT_TELL, WHY_MISSING);
	/* By a clock that follows nothing there is no before. */
	check(&(struct death){ 0, true, 1, 30, "another" }, VERDICT_CANNOT_TELL, WHY_MISSING);
}

/*
 * Of eight ranks two rise, 1.5 s apart in 120 s, which by chance they seldom do; the others died
 * after 10 s. How long those lived says nothing of when a rank may rise.
 */
static int64_t level_of_two(int rank, int second)
{
	int since = 2 * second - (rank == 1 ? 121 : 124);

	return 1000 + (rank * 7 + second * 3) % 5 + (since > 0 ? 100 * since : 0);
}

static void test_who_died_early_does_not_count(void **state)
{
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;
	struct rank_analysis a;

	(void)state;
	assert_non_null(t);
	for (int rank = 0; rank < RANKS; rank++) {
		for (int second = 0; second < (rank < 2 ? 240 : 10); second++) {
			ev = make_event(rank, second, level_of_two(rank, second));
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
		if (rank < 2)
			continue;
		ev = make_event(rank, 10, 1010);
		ev.event_type = text_of("rank_end");
		assert_int_equal(telemetry_add(t, &ev), 0);
	}
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(verdict_of(a.finding->why), VERDICT_NAMED);
	assert_int_equal(finding_culprit(a.finding)->rank, 1);
	rank_analysis_release(&a);
	telemetry_free(t);
}

/* A few records of a rank that is none of the job's, and its end, say nothing of a missing one. */
static void test_end_of_a_stray(void **state)
{
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;
	struct rank_analysis a;

	(void)state;
	assert_non_null(t);
	for (int rank = 0; rank < RANKS; rank++)
		for (int second = 0; second < (rank == DEAD ? 0 : 120); second++) {
			ev = make_event(rank, second, level_of(rank, second));
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	ev = make_event(RANKS + 1, 10, 100);
	ev.world_size = RANKS + 2;
	assert_int_equal(telemetry_add(t, &ev), 0);
	ev = make_event(RANKS + 1, 12, 100);
	ev.world_size = RANKS + 2;
	ev.event_type = text_of("rank_end");
	assert_int_equal(telemetry_add(t, &ev), 0);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(a.finding->n_ranks, RANKS - 1);
	assert_int_equal(verdict_of(a.finding->why), VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_MISSING);
	rank_analysis_release(&a);
	telemetry_free(t);
}

/*
 * Ranks that are taken apart at their end, in the last `n_exit` samples of n_ranks ranks, rose all
 * the same, however late that was. One of them that falls had a spike.
 */
static void check_exits(int n_ranks, int n_exit, enum verdict verdict)
{
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;
	struct rank_analysis a;

	assert_non_null(t);
	for (int rank = 0; rank < RANKS; rank++)
		for (int second = 0; second < 45; second++) {
			bool is_exit = rank < n_ranks && second >= 45 - n_exit;

			ev = make_event(rank, second, level_of(rank, is_exit ? 0 : second));
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(verdict_of(a.finding->why), verdict);
	if (verdict == VERDICT_NAMED) {
		assert_int_equal(finding_culprit(a.finding)->rank, LEADER);
		assert_int_equal(a.finding->n_candidates, RANKS - 1); /* but for DEAD */
	}
	rank_analysis_release(&a);
	telemetry_free(t);
}

static void test_exits(void **state)
{
	(void)state;
	check_exits(RANKS, 0, VERDICT_NAMED);
	check_exits(RANKS, 3, VERDICT_NAMED);
	check_exits(RANKS / 2, 3, VERDICT_NAMED);
	check_exits(RANKS, 10, VERDICT_NONE); /* that is no exit: it was given back */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_left_a_record),
		cmocka_unit_test(test_who_left_none),
		cmocka_unit_test(test_who_died_early_does_not_count),
		cmocka_unit_test(test_end_of_a_stray),
		cmocka_unit_test(test_exits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

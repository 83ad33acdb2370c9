/*
 * Records of two runs that were put together by mistake, and those that only look like it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/reference/reference.h"
#include "crossrank/wording/wording.h"

#define N 40
#define SECOND_NS INT64_C(1000000000)

/* One record of rank 0 or 1. */
struct made {
	int rank, pid, device;
	const char *host;
	int64_t second;
};

static void add(struct telemetry *t, const struct made *made)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.event_type = (struct text){ "sample", 6 };
	ev.host = (struct text){ made->host, strlen(made->host) };
	ev.rank = made->rank;
	ev.world_size = made->rank < 2 ? 2 : made->rank + 1;
	ev.pid = made->pid;
	ev.device_id = made->device;
	ev.timestamp_ns = made->second * SECOND_NS;
	ev.device_used_bytes = 1000;
	assert_int_equal(telemetry_add(t, &ev), 0);
}

/* The rank that is mixed, or -1. The function says what rank 1 has at a second. */
static int64_t find(void (*fill)(struct telemetry *t, int64_t second))
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	int64_t rank;

	assert_non_null(t);
	for (int64_t i = 0; i < N; i++) {
		add(t, &(struct made){ 0, 7, 0, "a", i });
		fill(t, i);
	}
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	rank = mixed_find(&a) ? mixed_find(&a)->rank : -1;
	assert_int_equal(a.finding->why == WHY_MIXED, rank >= 0);
	rank_analysis_release(&a);
	return rank;
}

static void fill_two_hosts(struct telemetry *t, int64_t second)
{
	add(t, &(struct made){ 1, 8, 0, "a", second });
	add(t, &(struct made){ 1, 8, 0, "b", second });
}

static void fill_two_processes(struct telemetry *t, int64_t second)
{
	add(t, &(struct made){ 1, second % 2 ? 8 : 9, 0, "a", second });
}

static void fill_restart(struct telemetry *t, int64_t second)
{
	add(t, &(struct made){ 1, second < N / 2 ? 8 : 9, 0, "a", second });
	if (second == N / 2) /* the last word of the first */
		add(t, &(struct made){ 1, 8, 0, "a", second + 2 });
}

static void fill_devices(struct telemetry *t, int64_t second)
{
	add(t, &(struct made){ 1, 8, 0, "a", second });
	add(t, &(struct made){ 1, 9, 1, "a", second });
}

static void test_who_takes_turns(void **state)
{
	(void)state;
	assert_int_equal(find(fill_two_hosts), 1);
	assert_int_equal(find(fill_two_processes), 1);
	assert_int_equal(find(fill_restart), -1);
	assert_int_equal(find(fill_devices), -1);
}

/* ---- a few records of others ---- */

#define MANY 1000

typedef bool stray_fn(int64_t second, int64_t number);

/* MANY records of ranks 0 and 1 each, and with them one of `stray` at the seconds that is asked. */
static struct telemetry *make_many(struct made stray, stray_fn *is_there, int64_t number)
{
	struct telemetry *t = telemetry_new();

	assert_non_null(t);
	for (int64_t i = 0; i < MANY; i++) {
		add(t, &(struct made){ 0, 7, 0, "a", i });
		add(t, &(struct made){ 1, 8, 0, "a", i });
		stray.second = i;
		if (is_there(i, number))
			add(t, &stray);
	}
	return t;
}

static void analyze(struct telemetry *t, struct rank_analysis *ret)
{
	assert_int_equal(rank_analysis_init(ret, t), 0);
	assert_int_equal(rank_analysis_run(ret, EVENT_UNKNOWN), 0);
}

static void expect_told(const struct rank_analysis *a, const char *text, bool is_told)
{
	CLEANUP(buf_release) struct buf reason = BUF_INIT;

	finding_add_reason(&reason, a, a->finding);
	assert_int_equal(strstr(reason.data, text) != NULL, is_told);
}

static bool is_every(int64_t second, int64_t every)
{
	return second > 0 && second % every == 0;
}

/* A rank of MANY records of process 8, and every so many seconds one of another. */
static void find_strays(int64_t every, size_t expected, bool is_mixed)
{
	CLEANUP(telemetry_cleanup)
	struct telemetry *t = make_many((struct made){ 1, 9, 0, "b", 0 }, is_every, every);
	struct rank_analysis a;

	analyze(t, &a);
	assert_int_equal(a.finding->why == WHY_MIXED, is_mixed);
	assert_int_equal(a.ranks[0].stream->n - a.ranks[0].own->n, 0);
	assert_int_equal(a.ranks[1].stream->n - a.ranks[1].own->n, expected);
	assert_int_equal(a.ranks[1].total->n, is_mixed ? a.ranks[1].stream->n : MANY);
	expect_told(&a, "left out", expected > 0);
	rank_analysis_release(&a);
}

static void test_a_few_are_left_out_and_told(void **state)
{
	(void)state;
	find_strays(2000, 0, false);
	find_strays(600, 1, false);
	find_strays(300, 3, false);
	find_strays(50, 0, true);
}

/* Records of another process that are all before, or all behind those of a rank. */
static void find_far(int64_t second, int n, size_t expected)
{
	CLEANUP(telemetry_cleanup)
	struct telemetry *t = make_many((struct made){ 1, 9, 0, "b", 0 }, is_every, 2 * MANY);
	struct rank_analysis a;

	for (int i = 0; i < n; i++)
		add(t, &(struct made){ 1, 9, 0, "b", second + i });
	analyze(t, &a);
	assert_int_not_equal(a.finding->why, WHY_MIXED);
	assert_int_equal(a.ranks[1].stream->n - a.ranks[1].own->n, expected);
	expect_told(&a, "left out", expected > 0);
	rank_analysis_release(&a);
}

static void test_far_ones_are_left_out_and_told(void **state)
{
	(void)state;
	find_far(-2 * MANY, 2, 2);
	find_far(3 * MANY, 2, 2);
	find_far(3 * MANY, 20, 0); /* so many are no mistake */
	find_far(-10, 2, 0);	   /* a program that was started again */
	find_far(MANY + 100, 2, 0);
}

static bool is_before(int64_t second, int64_t end)
{
	return second < end;
}

/* A rank far outside of the world of the others, with so many records. */
static void find_stray_rank(int64_t n_records, size_t n_ranks)
{
	CLEANUP(telemetry_cleanup)
	struct telemetry *t = make_many((struct made){ 70, 9, 0, "b", 0 }, is_before, n_records);
	struct rank_analysis a;

	analyze(t, &a);
	assert_int_equal(a.n_ranks, 3);
	assert_int_equal(a.n_missing_all, 68);
	assert_int_equal(a.finding->n_ranks, n_ranks);
	assert_int_equal(a.finding->n_missing, n_ranks == 2 ? 0 : 68);
	expect_told(&a, "Rank 70, ", n_ranks == 2);
	rank_analysis_release(&a);
}

static void test_a_rank_of_another_world_is_left_out(void **state)
{
	(void)state;
	find_stray_rank(2, 2);
	find_stray_rank(100, 3);
}

/* Ids are of any length and of any characters: what is left of one is said to be. */
static void test_left_out_jobs_are_told_apart(void **state)
{
	char longest[300];
	struct other_job others[] = { { { "a\0b", 3 }, 1 },
				      { { longest, sizeof(longest) }, 2 },
				      { { NULL, 0 }, 3 } };
	const struct rank_analysis a = { .others = others, .n_others = 3, .n_others_all = 3 };
	const struct note note = { .code = NOTE_MULTIPLE_JOB_IDS };
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = i == 0  ? 'x'
			     : i % 2 ? '\xc3'
				     : '\xa4'; /* the 200th byte is half a letter */
	reference_note_text(&a, &note, &text);
	assert_non_null(strstr(text.data, "are a?b (1 sample), x"));
	assert_non_null(strstr(text.data, "\xa4... (2 samples), records that name no job (3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_takes_turns),
		cmocka_unit_test(test_a_few_are_left_out_and_told),
		cmocka_unit_test(test_far_ones_are_left_out_and_told),
		cmocka_unit_test(test_a_rank_of_another_world_is_left_out),
		cmocka_unit_test(test_left_out_jobs_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

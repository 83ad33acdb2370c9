/*
 * The phase of an onset is as sure as the onset: a boundary inside its interval leaves two of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/finding.h"
#include "crossrank/reading/event_reader.h"

#define MIB INT64_C(1048576)
#define SECOND_NS INT64_C(1000000000)
#define MS_NS INT64_C(1000000)
#define T0_NS (INT64_C(1700000000) * SECOND_NS)
#define RANKS 4
#define SECONDS 80
#define RISES_MS 40300 /* rank 2, between two samples */

struct step {
	int ms;
	const char *action, *path;
};

static void add_line(struct telemetry *t, const char *line)
{
	CLEANUP(event_reader_release) struct event_reader reader = { 0 };
	struct telemetry_event ev;

	assert_int_equal(event_read(&reader, line, strlen(line), &ev).reason, REASON_NONE);
	assert_int_equal(telemetry_add(t, &ev), 0);
}

static void add_step(struct telemetry *t, const struct step *step, int sequence)
{
	char line[1024];

	snprintf(
		line, sizeof(line),
		"{\"timestamp_ns\": %lld, \"type\": \"phase_%s\", \"rank\": 2, \"world_size\": %d, "
		"\"host\": \"n0\", \"session_id\": \"s\", \"metadata\": {\"phase_scope\": "
		"{\"action\": \"%s\", \"name\": \"p\", \"path\": [%s], \"scope_id\": \"%zu\", "
		"\"thread_id\": 1, \"thread_name\": \"m\", \"sequence\": %d}}}",
		(long long)(T0_NS + step->ms * MS_NS), step->action, RANKS, step->action,
		step->path, strlen(step->path), sequence);
	add_line(t, line);
}

static void add_samples(struct telemetry *t)
{
	for (int rank = 0; rank < RANKS; rank++)
		for (int second = 0; second < SECONDS; second++) {
			int64_t above = rank == 2 && second * 1000 > RISES_MS ? 800 * MIB : 0;
			struct telemetry_event ev;

			event_init(&ev);
			ev.event_type = (struct text){ "sample", 6 };
			ev.host = (struct text){ "n0", 2 };
			ev.session_id = (struct text){ "s", 1 };
			ev.rank = rank;
			ev.world_size = RANKS;
			ev.timestamp_ns = T0_NS + second * SECOND_NS;
			ev.device_used_bytes = 1000 * MIB + above;
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
}

/* The phases of rank 2, which alone rises: all of them in one text, the likely one behind a bar. */
static void expect_phases(const struct step *steps, size_t n, const char *expected, bool is_unique)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	const struct phase_place *place;
	char told[256] = "";
	size_t len = 0;

	assert_non_null(t);
	add_samples(t);
	for (size_t i = 0; i < n; i++)
		add_step(t, &steps[i], (int)i);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(verdict_of(a.finding->why), VERDICT_NAMED);
	assert_int_equal(finding_culprit(a.finding)->rank, 2);
	place = &a.finding->phase;
	for (size_t i = 0; i < place->n_paths; i++)
		len += (size_t)snprintf(told + len, sizeof(told) - len, "%s%.*s", i ? "," : "",
					(int)place->paths[i].n, place->paths[i].s);
	snprintf(told + len, sizeof(told) - len, "|%.*s%s", (int)place->likely.n,
		 place->likely.s ? place->likely.s : "", place->may_be_none ? "|none" : "");
	assert_string_equal(told, expected);
	assert_int_equal(place->only != NULL, is_unique);
	rank_analysis_release(&a);
	telemetry_free(t);
}

#define FORWARD "\"forward\""
#define BACKWARD "\"backwards\""
#define TRAIN "\"train\""
#define LEAK "\"train\", \"leak\""

static void test_far_from_a_boundary(void **unused)
{
	const struct step steps[] = { { 5000, "enter", TRAIN },
				      { 20000, "enter", LEAK },
				      { 70000, "exit", LEAK },
				      { 75000, "exit", TRAIN } };

	(void)unused;
	expect_phases(steps, ARRAY_SIZE(steps), "train / leak|", true);
}

/* Early and late in the interval: the phase that was entered is the likely one. */
static void test_entered_in_between(void **unused)
{
	const int at[] = { 40100, RISES_MS - 20, 40700, 40900 };

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		const struct step nested[] = { { 5000, "enter", TRAIN }, { at[i], "enter", LEAK } };
		const struct step next[] = { { 5000, "enter", FORWARD },
					     { at[i] - 1, "exit", FORWARD },
					     { at[i], "enter", BACKWARD } };

		expect_phases(nested, ARRAY_SIZE(nested), "train,train / leak|train / leak", false);
		expect_phases(next, ARRAY_SIZE(next), "backwards,forward|backwards", false);
		expect_phases(next + 2, 1, "backwards|backwards|none", false);
	}
}

static void test_left_in_between(void **unused)
{
	const struct step nested[] = { { 5000, "enter", TRAIN },
				       { 20000, "enter", LEAK },
				       { 40400, "exit", LEAK } };
	const struct step alone[] = { { 5000, "enter", TRAIN }, { 40400, "exit", TRAIN } };

	(void)unused;
	expect_phases(nested, ARRAY_SIZE(nested), "train,train / leak|train", false);
	expect_phases(alone, ARRAY_SIZE(alone), "train|train|none", false);
}

/* Steps of one name: which of them it was does not matter. */
static void test_of_one_name(void **unused)
{
	const struct step steps[] = { { 39000, "enter", TRAIN },
				      { 40400, "exit", TRAIN },
				      { 40400, "enter", TRAIN },
				      { 42000, "exit", TRAIN } };

	(void)unused;
	expect_phases(steps, ARRAY_SIZE(steps), "train|", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_far_from_a_boundary),
		cmocka_unit_test(test_entered_in_between),
		cmocka_unit_test(test_left_in_between),
		cmocka_unit_test(test_of_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

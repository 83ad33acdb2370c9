/*
 * Curves of memory: by the clock, and with holes where nobody looked.
 */
#include "scene_fixture.h"

/* So many MB at each of the seconds after NOON. */
static struct track track_of(const double (*points)[2], size_t n)
{
	struct track track = { 0 };

	for (size_t i = 0; i < n; i++) {
		track.wall_ns[i] = NOON + (uint64_t)(points[i][0] * 1e9);
		track.rss_bytes[i] = points[i][1] * (double)MB;
	}
	track.n = track.next = (unsigned)n;
	return track;
}

static const char *chart_of(const struct track *track, int width, int rows)
{
	static struct buf text = BUF_INIT;
	struct grid g = GRID_INIT;
	struct area a;

	buf_reset(&text);
	assert_int_equal(grid_resize(&g, width, rows), 0);
	grid_clear(&g);
	a = grid_area(&g);
	draw_chart(&a, 0, rows, track);
	grid_to_text(&g, &text);
	grid_release(&g);
	return text.data;
}

static const char *sparkline_of(const struct track *track, int width, uint64_t step, uint64_t to)
{
	static struct buf text = BUF_INIT;
	struct grid g = GRID_INIT;
	struct area a;

	buf_reset(&text);
	assert_int_equal(grid_resize(&g, width, 1), 0);
	grid_clear(&g);
	a = grid_area(&g);
	draw_sparkline(&a, 0, 0, width, track, step, to);
	grid_to_text(&g, &text);
	grid_release(&g);
	return text.data;
}

/* Ten looks in the first second, and then one each: a straight line is one. */
static void test_by_the_clock(void **state)
{
	double points[10 + 19][2];
	struct track track;

	(void)state;
	for (int i = 0; i < 10; i++)
		points[i][0] = points[i][1] = i / 10.0;
	for (int i = 10; i < 29; i++)
		points[i][0] = points[i][1] = i - 9;
	track = track_of(points, ARRAY_SIZE(points));
	assert_string_equal(chart_of(&track, 20, 3), "    memory 0B to 19M\n"
						     "          ⣀⣀⣀⣠⣤⣤⣴⣶⣶⣾\n"
						     "         19s ago now\n");
}

/* What lasted for 10 s of 80 is no longer than that. */
static void test_short_beginning(void **state)
{
	double points[60 + 15][2];
	struct track track;

	(void)state;
	for (int i = 0; i < 60; i++) {
		points[i][0] = i / 10.0;
		points[i][1] = 1;
	}
	for (int i = 0; i < 15; i++) {
		points[60 + i][0] = 10 + i * 5;
		points[60 + i][1] = 100;
	}
	track = track_of(points, ARRAY_SIZE(points));
	assert_string_equal(chart_of(&track, 20, 3), " memory 1.0M to 100M\n"
						     "   ⢀⣀⣸⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿\n"
						     "   80s ago       now\n");
}

static void test_hole(void **state)
{
	const double points[][2] = { { 0, 8 },	{ 1, 8 },  { 2, 8 },  { 3, 8 },
				     { 16, 8 }, { 17, 8 }, { 18, 8 }, { 19, 8 } };
	struct track track = track_of(points, ARRAY_SIZE(points));

	(void)state;
	assert_non_null(strstr(chart_of(&track, 10, 3), "\n⣿⣿      ⣿⣿\n19s ago"));
	assert_string_equal(sparkline_of(&track, 12, 2 * SECOND, NOON + 19 * SECOND),
			    "  ██      ██\n");
}

/* Rows have one clock: who was looked at more closely is no longer than its neighbours. */
static void test_one_clock(void **state)
{
	double often[100][2];
	const double seldom[][2] = { { 0, 4 }, { 4, 8 }, { 8, 4 } };
	struct track track;

	(void)state;
	for (int i = 0; i < 100; i++) {
		often[i][0] = i / 10.0;
		often[i][1] = i < 40 || i >= 80 ? 4 : 8;
	}
	track = track_of(often, ARRAY_SIZE(often));
	assert_string_equal(sparkline_of(&track, 8, 2 * SECOND, NOON + 9 * SECOND), "   ▄▄██▄\n");
	track = track_of(seldom, ARRAY_SIZE(seldom));
	assert_string_equal(sparkline_of(&track, 8, 2 * SECOND, NOON + 9 * SECOND), "   ▄▄██▄\n");
	assert_string_equal(sparkline_of(&track, 8, 2 * SECOND, NOON + 13 * SECOND), " ▄▄██▄\n");
	assert_string_equal(sparkline_of(&track, 8, 2 * SECOND, NOON + 60 * SECOND), "\n");
}

/* Clocks that were set, and moments that nobody can tell. */
static void test_odd_clocks(void **state)
{
	const double back[][2] = { { 100, 1 }, { 101, 1 }, { 5, 1 }, { 6, 1 } };
	struct track track = track_of(back, ARRAY_SIZE(back));

	(void)state;
	assert_non_null(strstr(chart_of(&track, 20, 3), "⣿"));
	track.wall_ns[3] = U64_UNKNOWN;
	chart_of(&track, 20, 3);
	track.wall_ns[0] = 0;
	chart_of(&track, 20, 3);
	sparkline_of(&track, 13, 2 * SECOND, 0);
	chart_of(&track, 0, 3);
	chart_of(&track, 400, 9);
	track.n = track.next = 1;
	track.rss_bytes[0] = F64_UNKNOWN;
	chart_of(&track, 20, 3);
	sparkline_of(&track, 13, 2 * SECOND, NOON);
}

/* As the snapshots come; one that comes late, after a pause, changes nothing. */
static void test_step(void **state)
{
	static const unsigned at[] = { 13, 23, 33, 36, 43, 53, 600, 610 };
	struct scene *s = *state;
	struct snapshot snap;

	assert_true(scene_step_ns(s) == 2 * SECOND);
	snapshot_init(&snap);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		fill_host(&snap, at[i]);
		assert_int_equal(scene_add_snapshot(s, &snap), 0);
		assert_true(i == 0 || scene_step_ns(s) == 10 * SECOND);
	}
	snapshot_release(&snap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_the_clock), cmocka_unit_test(test_short_beginning),
		cmocka_unit_test(test_hole),	     cmocka_unit_test(test_one_clock),
		cmocka_unit_test(test_odd_clocks),   TEST(test_step),
	};

	return cmocka_run_group_tests_name("tui_curve", tests, NULL, NULL);
}

/*
 * What was recorded, replayed into a scene: ticks and what is kept as minutes, in order, step by
 * step, and back.
 */
#include "vtab_fixture.h"
#include "retention_fixture.h"

#include "tui/feed.h"

#define N_OLD 300 /* ticks a second apart, of which minutes are made */
#define N_NEW 20

static const struct retention_policy policy = RETENTION_POLICY_DEFAULT;

static void make_ticks(struct store *store)
{
	struct attempt a = must_begin_at(store, "old", NOW - 30 * HOUR);

	for (unsigned i = 0; i < N_OLD; i++)
		must_tick_at(store, &a, NOW - 30 * HOUR + i * SECOND_NS, 3);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	a = must_begin_at(store, "new", NOW - HOUR);
	for (unsigned i = 0; i < N_NEW; i++)
		must_tick_at(store, &a, NOW - HOUR + i * SECOND_NS, 3);
	must_retain_at(store, &policy, NOW);
}

static void step(struct feed *feed, struct scene *s, int steps)
{
	const struct wish wish = { .kind = WISH_STEP, .steps = steps };
	struct err err = ERR_INIT;

	must(feed->ops->grant(feed->ctx, s, &wish, &err), &err);
}

static void test_old_and_new(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct tui_options options = { .store = store, .since_wall_ns = NOW - 48 * HOUR };
	struct scene *s = calloc(1, sizeof(*s));
	struct err err = ERR_INIT;
	struct feed feed = { 0 };
	uint64_t last_ns = 0;
	size_t n_old = 0, n_new = 0;

	assert_non_null(s);
	make_ticks(store);
	scene_init(s);
	s->source = SOURCE_REPLAY;
	s->is_paused = true;
	must(feed_open_replay(&options, &feed, &err), &err);
	while (!s->replay.is_over) {
		step(&feed, s, 1);
		assert_true(s->has_snap && s->snap.wall_ns > last_ns);
		assert_int_equal(s->snap.n_processes, 3);
		last_ns = s->snap.wall_ns;
		n_old += strcmp(s->snap.processes[0].job_id, "old") == 0;
		n_new += strcmp(s->snap.processes[0].job_id, "new") == 0;
	}
	assert_in_range(n_old, N_OLD / 60, N_OLD / 60 + 1); /* a minute each */
	assert_int_equal(n_new, N_NEW);
	step(&feed, s, -1);
	assert_int_equal(s->snap.wall_ns, last_ns - SECOND_NS);
	feed.ops->close(feed.ctx);
	scene_release(s);
	free(s);
}

static void test_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct tui_options options = { .store = store, .since_wall_ns = 1 };
	struct err err = ERR_INIT;
	struct feed feed = { 0 };

	assert_int_equal(feed_open_replay(&options, &feed, &err), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_old_and_new),
		STORE_TEST(test_nothing),
	};

	return cmocka_run_group_tests_name("tui_replay", tests, NULL, NULL);
}

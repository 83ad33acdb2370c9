/*
 * What was recorded, in the order of time: once, and read on from where the last read ended.
 */
#include "vtab_fixture.h"
#include "retention_fixture.h"

#include "base/clock.h"
#include "query/query.h"

#define MAX_ITEMS 64

/* What came: a letter each, and when. */
struct seen {
	char kinds[MAX_ITEMS + 1];
	uint64_t wall_ns[MAX_ITEMS];
	size_t n, n_past;
};

static int note(void *ctx, const struct records_item *item)
{
	static const char changes[] = { [CHANGE_JOB_STARTED] = 'J',
					[CHANGE_SHEET_STARTED] = 'S',
					[CHANGE_SHEET_ENDED] = 's',
					[CHANGE_JOB_ENDED] = 'j' };
	static const char episodes[] = {
		[EPISODE_BEGAN] = 'A', [EPISODE_ESCALATED] = 'B', [EPISODE_CLEARED] = 'a'
	};
	struct seen *seen = ctx;

	assert_true(seen->n < MAX_ITEMS);
	seen->kinds[seen->n] = item->attempt	? changes[item->change]
			       : item->phase	? (item->is_enter ? 'P' : 'p')
			       : item->episode	? episodes[item->episode_change]
			       : item->snapshot ? 't'
			       : item->event->event.type == EVENT_SPAWN ? 'E'
									: 'e';
	seen->wall_ns[seen->n++] = item->wall_ns;
	seen->n_past += item->is_past;
	return 0;
}

static void read_on(struct records *records, uint64_t until_ns, struct seen *seen)
{
	struct err err = ERR_INIT;

	*seen = (struct seen){ 0 };
	must(records_read(records, until_ns, note, seen, &err), &err);
	for (size_t i = 1; i < seen->n; i++)
		assert_true(seen->wall_ns[i] >= seen->wall_ns[i - 1]);
}

static void write_event(struct store *store, const struct attempt *a, enum event_type type,
			uint64_t wall_ns)
{
	const struct proc_event ev = { .wall_ns = wall_ns,
				       .key = { 100, 5000 },
				       .type = type,
				       .status = { -1, -1 },
				       .job_id = a->job_id,
				       .sheet_num = SHEET_NONE,
				       .details = "" };
	struct err err = ERR_INIT;

	must(store_write_events(store, a, &ev, 1, &err), &err);
}

static void write_episode(struct store *store, const struct attempt *a, uint64_t began_ns,
			  uint64_t ended_ns)
{
	struct err err = ERR_INIT;
	struct episode e;

	episode_init(&e);
	e.worst.type = ANOMALY_ZOMBIE;
	snprintf(e.name, sizeof(e.name), "zombie/%llu", (unsigned long long)began_ns);
	episode_set_job(&e, a->job_id);
	e.began_wall_ns = e.peak_wall_ns = began_ns;
	must(write_anomaly(store, a->id, &e, EPISODE_BEGAN, &err), &err);
	e.ended_wall_ns = ended_ns;
	e.why_cleared = "gone";
	if (u64_known(ended_ns))
		must(write_anomaly(store, a->id, &e, EPISODE_CLEARED, &err), &err);
}

/* A job of ten seconds: it begins, and so does a process; a tick; an anomaly; all ends. */
static struct attempt write_job(struct store *store, uint64_t began)
{
	struct attempt a = must_begin_at(store, "a", began);

	write_event(store, &a, EVENT_SPAWN, began);
	must_tick_at(store, &a, began + 2 * SECOND_NS, 1);
	write_episode(store, &a, began + 3 * SECOND_NS, began + 5 * SECOND_NS);
	must_tick_at(store, &a, began + 6 * SECOND_NS, 1);
	write_event(store, &a, EVENT_EXIT, began + 8 * SECOND_NS);
	must_finish_at(store, &a, began + 8 * SECOND_NS);
	return a;
}

/* Of the same time, a process begins after its job and ends before it. */
static void test_order(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct records *records;
	struct seen seen;

	write_job(store, began);
	records = records_new(store, &(struct records_filter){ .with_snapshots = true });
	assert_non_null(records);
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "JEtAatej");
	read_on(records, UINT64_MAX, &seen);
	assert_int_equal(seen.n, 0);
	records_free(records);
	records = records_new(store,
			      &(struct records_filter){ .since_wall_ns = began + 4 * SECOND_NS,
							.until_wall_ns = began + 7 * SECOND_NS });
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "a");
	records_free(records);
}

/* Piece by piece it is the same; and back, with what lasted into that time as past. */
static void test_pieces(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct records *records;
	struct seen seen;

	write_job(store, began);
	records = records_new(
		store, &(struct records_filter){ .with_snapshots = true, .keeps_state = true });
	read_on(records, began + 3 * SECOND_NS, &seen);
	assert_string_equal(seen.kinds, "JEtA");
	read_on(records, began + 7 * SECOND_NS, &seen);
	assert_string_equal(seen.kinds, "at");
	assert_int_equal(seen.n_past, 0);
	records_seek(records, began + 4 * SECOND_NS, began + 6 * SECOND_NS);
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "JAatej");
	assert_int_equal(seen.n_past, 2);
	records_seek(records, began + 6 * SECOND_NS, began);
	records_skip_snapshots(records, began + 3 * SECOND_NS);
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "Jtej"); /* the anomaly was over by then */
	assert_true(records_next_anomaly(records, began) == began + 3 * SECOND_NS);
	assert_false(u64_known(records_next_anomaly(records, began + 3 * SECOND_NS)));
	assert_true(records_last(records) == began + 8 * SECOND_NS);
	records_free(records);
}

static enum store_alive tell_alive(void *ctx, const struct attempt *a)
{
	(void)a;
	return *(enum store_alive *)ctx;
}

/* An anomaly without a recorded end lasts as long as its attempt. */
static void test_without_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct attempt a = must_begin_at(store, "a", began);
	static const char *const kinds[] = { "JA", "JAa" };
	struct seen seen;

	write_episode(store, &a, began + SECOND_NS, U64_UNKNOWN);
	for (int is_dead = 0; is_dead < 2; is_dead++) {
		enum store_alive alive = is_dead ? STORE_DEAD : STORE_ALIVE;
		struct records *records = records_new(store, &(struct records_filter){ 0 });

		store_set_alive_check(store, tell_alive, &alive);
		read_on(records, UINT64_MAX, &seen);
		assert_string_equal(seen.kinds, kinds[is_dead]);
		records_free(records);
	}
	store_set_alive_check(store, NULL, NULL);
}

/* Nothing comes twice, and what is written late comes. */
static void test_following(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t now = clock_wall_ns();
	struct attempt a = must_begin_at(store, "a", now - 20 * SECOND_NS);
	struct records *records, *fresh;
	struct seen seen;

	write_event(store, &a, EVENT_SPAWN, now - 10 * SECOND_NS);
	records = records_new(store, &(struct records_filter){ .is_following = true });
	fresh = records_new(store,
			    &(struct records_filter){ .is_following = true, .is_from_now = true });
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "JE");
	read_on(fresh, UINT64_MAX, &seen);
	assert_int_equal(seen.n, 0);
	write_event(store, &a, EVENT_EXIT, now - 15 * SECOND_NS);
	write_episode(store, &a, now - 16 * SECOND_NS, now - 14 * SECOND_NS);
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "Aea");
	read_on(records, UINT64_MAX, &seen);
	assert_int_equal(seen.n, 0);
	must_finish_at(store, &a, clock_wall_ns());
	read_on(records, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "j");
	read_on(fresh, UINT64_MAX, &seen);
	assert_string_equal(seen.kinds, "ej"); /* the process ended before, and that came late */
	assert_int_equal(seen.n_past, 0);
	records_free(records);
	records_free(fresh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_order),
		STORE_TEST(test_pieces),
		STORE_TEST(test_without_end),
		STORE_TEST(test_following),
	};

	return cmocka_run_group_tests_name("query_records", tests, NULL, NULL);
}

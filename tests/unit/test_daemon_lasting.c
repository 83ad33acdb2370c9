/* The rows of what lasts follow it: a few at a look, each in its turn, and all before another
 * looks. */
#include "store_fixture.h"

#include "daemon/lasting.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000100) * SECOND) /* a multiple of 300 s */
#define N_MANY 70			      /* of which a look takes 32 */

static struct config_anomaly config;

/* What a daemon before has begun, of the host: this one has it as lasting. */
static void begin(struct store *store, struct detect *d, unsigned k)
{
	struct err err = ERR_INIT;
	struct episode e;

	episode_init(&e);
	e.worst.type = ANOMALY_GPU_HOT;
	snprintf(e.worst.text, sizeof(e.worst.text), "hot");
	snprintf(e.name, sizeof(e.name), "gpu_hot/%016x/1.0", k + 1);
	e.unit = "degrees C";
	e.began_wall_ns = e.peak_wall_ns = e.seen_wall_ns = START;
	e.count = 1;
	e.peak_value = 90;
	must(write_anomaly(store, 0, &e, EPISODE_BEGAN, &err), &err);
	assert_int_equal(detect_adopt(d, &e), 0);
}

/* By now, of all of them. */
static void go_on(struct detect *d, double peak, uint64_t seen_wall_ns)
{
	for (size_t i = 0; detect_active(d, i); i++) {
		struct episode *e = (struct episode *)detect_active(d, i);

		e->peak_value = peak;
		e->seen_wall_ns = seen_wall_ns;
	}
}

static int renew(void *ctx, const struct anomaly_renewal *list, size_t n)
{
	return store_renew_anomalies(ctx, list, n, NULL);
}

struct scene {
	struct store *store;
	struct detect *detect;
	struct lasting lasting;
	struct lasting_of of;
};

static void open_scene(struct scene *s, const char *db, unsigned n)
{
	*s = (struct scene){ .store = must_open(db, STORE_WRITE) };
	s->detect = detect_new(&config, DETECT_ALL);
	assert_non_null(s->detect);
	for (unsigned k = 0; k < n; k++)
		begin(s->store, s->detect, k);
	s->of = (struct lasting_of){ renew, s->store, s->detect };
}

static void close_scene(struct scene *s)
{
	lasting_release(&s->lasting);
	detect_free(s->detect);
	store_close(s->store);
}

static int64_t count(const char *db, double peak)
{
	char sql[96];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM anomalies WHERE peak_value = %g", peak);
	return raw_sql(db, sql);
}

/* Those that always get worse do not keep the others out, nor are they written at each look. */
static void test_each_has_its_turn(void **state)
{
	struct fixture *f = *state;
	struct scene s;

	open_scene(&s, f->db, N_MANY);
	for (int i = 0; i < 3; i++) {
		go_on(s.detect, 91 + i, START);
		lasting_look(&s.lasting, &s.of);
	}
	assert_int_equal(count(f->db, 91), 32);
	assert_int_equal(count(f->db, 92), 32);
	assert_int_equal(count(f->db, 93), N_MANY - 64);
	go_on(s.detect, 99, START);
	lasting_look(&s.lasting, &s.of); /* it is not time for the next round */
	assert_int_equal(count(f->db, 99), 0);
	close_scene(&s);
}

/* "As of" is not when it began, where its peak was then. */
static void test_what_is_flat_was_seen(void **state)
{
	struct fixture *f = *state;
	struct scene s;

	open_scene(&s, f->db, 1);
	lasting_look(&s.lasting, &s.of);
	s.lasting.next_boot_ns = 0;
	go_on(s.detect, 90, START + 30 * SECOND);
	lasting_look(&s.lasting, &s.of);
	assert_int_equal(raw_sql(f->db, "SELECT seen_wall_ns FROM anomalies"), START);
	s.lasting.next_boot_ns = 0;
	go_on(s.detect, 90, START + 330 * SECOND);
	lasting_look(&s.lasting, &s.of);
	assert_int_equal(raw_sql(f->db, "SELECT seen_wall_ns FROM anomalies"),
			 START + 330 * SECOND);
	close_scene(&s);
}

static void test_all_before_another_looks(void **state)
{
	struct fixture *f = *state;
	struct scene s;

	open_scene(&s, f->db, N_MANY);
	lasting_write_all(&s.lasting, &s.of);
	go_on(s.detect, 90, START + SECOND);
	lasting_write_all(&s.lasting, &s.of);
	assert_int_equal(raw_sql(f->db, "SELECT min(seen_wall_ns) FROM anomalies"), START + SECOND);
	close_scene(&s);
}

/* The database is well, but for this row. */
static void test_one_that_is_refused(void **state)
{
	struct fixture *f = *state;
	struct scene s;

	open_scene(&s, f->db, N_MANY);
	raw_sql(f->db, "CREATE TRIGGER refuse BEFORE UPDATE ON anomalies WHEN new.id = 1"
		       " BEGIN SELECT RAISE(ABORT, 'no'); END");
	go_on(s.detect, 91, START);
	for (int i = 0; i < 3; i++)
		lasting_look(&s.lasting, &s.of);
	assert_int_equal(count(f->db, 91), N_MANY - 1);
	go_on(s.detect, 92, START);
	lasting_write_all(&s.lasting, &s.of);
	assert_int_equal(count(f->db, 92), N_MANY - 1);
	close_scene(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_has_its_turn, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_flat_was_seen, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_all_before_another_looks, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_one_that_is_refused, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

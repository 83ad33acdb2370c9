#include "store_fixture.h"

#include "base/loop.h"
#include "daemon/aside.h"

/* What was done, as letters in order; and the loop, which ends with the last. */
struct log {
	struct loop *loop;
	size_t n_left;
	char text[ASIDE_MAX_WAITING + 8];
};

struct item {
	struct log *log;
	struct aside *aside;
	char letter;
	int wanted; /* what the work comes to */
	bool has_worked, is_closed;
	struct item *then; /* is asked for when this one is done; NULL: nothing */
};

static int add(struct item *item, uid_t uid);

static int work(void *ctx, struct store *store, struct err *err)
{
	struct item *item = ctx;

	item->has_worked = store != NULL;
	return item->wanted < 0 ? err_set(err, item->wanted, "as was wanted") : 0;
}

static void done(void *ctx, int r, const struct err *err)
{
	struct item *item = ctx;
	size_t n = strlen(item->log->text);

	assert_int_equal(r, item->is_closed ? -ESHUTDOWN : item->wanted);
	assert_true(r == 0 || err->text[0]);
	if (n + 1 < sizeof(item->log->text))
		item->log->text[n] = item->letter;
	if (item->then)
		assert_int_equal(add(item->then, 5), 0);
	if (--item->log->n_left == 0)
		loop_stop(item->log->loop);
}

static int add(struct item *item, uid_t uid)
{
	const struct aside_task task = { .uid = uid, .work = work, .done = done, .ctx = item };
	struct err err = ERR_INIT;
	int r = aside_add(item->aside, &task, &err);

	item->log->n_left += r == 0;
	return r;
}

static struct aside *make(const struct fixture *f, struct log *log)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(store_open(f->db, STORE_WRITE, &store, &err), 0);
	store_close(store);
	*log = (struct log){ .loop = loop_new() };
	assert_non_null(log->loop);
	return aside_new(log->loop, f->db, NULL);
}

/* Who has asked for much waits for themselves, and each user's first comes first. */
static void test_users_in_turn(void **state)
{
	static const struct {
		char letter;
		uid_t uid;
	} asked[] = { { 'a', 7 }, { 'b', 7 }, { 'c', 7 },     { 'd', 7 },
		      { 'e', 3 }, { 'f', 3 }, { 'g', 400000 } };
	struct item items[ARRAY_SIZE(asked)];
	struct log log;
	struct aside *aside = make(*state, &log);

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		items[i] = (struct item){ .log = &log,
					  .aside = aside,
					  .letter = asked[i].letter,
					  .wanted = i == 1 ? -EINVAL : 0 };
		assert_int_equal(add(&items[i], asked[i].uid), 0);
	}
	loop_run(log.loop);
	assert_string_equal(log.text, "agebfcd");
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		assert_true(items[i].has_worked);
	loop_free(log.loop);
	aside_free(aside);
}

/* Whoever is answered may ask again at once: that waits for its turn like any other. */
static void test_asked_again_when_done(void **state)
{
	struct log log;
	struct aside *aside = make(*state, &log);
	struct item again = { .log = &log, .aside = aside, .letter = 'c', .wanted = -EIO };
	struct item first = { .log = &log, .aside = aside, .letter = 'a', .then = &again };
	struct item second = { .log = &log, .aside = aside, .letter = 'b' };

	assert_int_equal(add(&first, 5), 0);
	assert_int_equal(add(&second, 6), 0);
	loop_run(log.loop);
	assert_string_equal(log.text, "abc");
	assert_true(again.has_worked && second.has_worked);
	loop_free(log.loop);
	aside_free(aside);
}

static void test_bound_and_end(void **state)
{
	struct log log;
	struct aside *aside = make(*state, &log);
	struct item first = { .log = &log, .aside = aside, .letter = 'x' }, rest = first;

	assert_int_equal(add(&first, 7), 0); /* which is under way */
	for (size_t i = 0; i < ASIDE_MAX_WAITING; i++)
		assert_int_equal(add(&rest, 7), 0);
	assert_int_equal(add(&rest, 7), -EBUSY);
	assert_int_equal(add(&rest, 8), 0);
	rest.is_closed = true;
	log.n_left++; /* what is under way is done later */
	aside_leave(aside);
	assert_false(rest.has_worked);
	loop_free(log.loop);
	assert_true(first.has_worked);
	assert_int_equal(log.n_left, 1);
	aside_free(aside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_users_in_turn, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_asked_again_when_done, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_bound_and_end, fixture_setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

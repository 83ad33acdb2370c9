#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "bus/bus.h"

/* What was handed to whom, as letters in order. */
struct log {
	struct bus *bus;
	char text[64];
};

struct listener {
	struct log *log;
	char letter;
	int id;	      /* its own */
	int other_id; /* whom it unsubscribes; -1: nobody */
	struct listener *newcomer;
	int nested; /* what publishing from inside came to */
};

static struct listener listener(struct log *log, char letter)
{
	return (struct listener){ .log = log, .letter = letter, .other_id = -1 };
}

static void publish(struct log *log, enum topic topic)
{
	const struct event ev = { .topic = topic, .owner = EVENT_NO_OWNER, .json = "{}", .len = 2 };

	assert_int_equal(bus_publish(log->bus, &ev), 0);
}

static void on_event(void *ctx, const struct event *ev)
{
	struct listener *l = ctx;
	size_t n = strlen(l->log->text);

	assert_int_equal(ev->len, strlen(ev->json));
	assert_true(n + 1 < sizeof(l->log->text));
	l->log->text[n] = l->letter;
	l->log->text[n + 1] = '\0';
	l->nested = bus_publish(l->log->bus, ev);
	if (l->other_id >= 0)
		bus_unsubscribe(l->log->bus, l->other_id);
	if (l->newcomer) {
		struct listener *newcomer = TAKE_PTR(l->newcomer);

		newcomer->id = bus_subscribe(l->log->bus, ~0u, on_event, newcomer);
	}
}

static void subscribe(struct listener *l, unsigned topics)
{
	l->id = bus_subscribe(l->log->bus, topics, on_event, l);
	assert_true(l->id >= 0);
}

static int make_bus(void **state)
{
	static struct log log;

	memset(&log, 0, sizeof(log));
	log.bus = bus_new();
	*state = &log;
	return log.bus ? 0 : -1;
}

static int free_bus(void **state)
{
	struct log *log = *state;

	log->bus = bus_free(log->bus);
	return 0;
}

static void test_topics_and_order(void **state)
{
	struct log *log = *state;
	struct listener a = listener(log, 'a'), b = listener(log, 'b'), c = listener(log, 'c');

	assert_false(bus_is_wanted(log->bus, TOPIC_SNAPSHOT));
	publish(log, TOPIC_SNAPSHOT);
	subscribe(&a, topic_bit(TOPIC_SNAPSHOT) | topic_bit(TOPIC_ANOMALY));
	subscribe(&b, topic_bit(TOPIC_ANOMALY));
	subscribe(&c, ~0u);
	publish(log, TOPIC_SNAPSHOT);
	publish(log, TOPIC_ANOMALY);
	publish(log, TOPIC_PATTERN);
	assert_string_equal(log->text, "acabcc");
	assert_true(bus_is_wanted(log->bus, TOPIC_PATTERN));
	bus_unsubscribe(log->bus, c.id);
	assert_false(bus_is_wanted(log->bus, TOPIC_PATTERN));
}

static void test_unsubscribing(void **state)
{
	struct log *log = *state;
	struct listener a = listener(log, 'a'), b = listener(log, 'b'), c = listener(log, 'c');

	subscribe(&a, ~0u);
	subscribe(&b, ~0u);
	bus_unsubscribe(log->bus, a.id);
	bus_unsubscribe(log->bus, a.id);
	bus_unsubscribe(log->bus, 4711);
	subscribe(&c, ~0u);
	assert_int_not_equal(c.id, a.id);
	publish(log, TOPIC_SNAPSHOT);
	assert_string_equal(log->text, "bc");
}

static void test_handlers_that_change_the_bus(void **state)
{
	struct log *log = *state;
	struct listener a = listener(log, 'a'), b = listener(log, 'b'), c = listener(log, 'c');
	struct listener many[4];

	subscribe(&a, ~0u);
	subscribe(&b, ~0u);
	a.other_id = b.id; /* the one behind it, which then gets nothing */
	a.newcomer = &c;
	publish(log, TOPIC_SNAPSHOT);
	assert_string_equal(log->text, "a");
	a.other_id = a.id; /* itself */
	publish(log, TOPIC_SNAPSHOT);
	assert_string_equal(log->text, "aac");
	publish(log, TOPIC_SNAPSHOT);
	assert_string_equal(log->text, "aacc");
	assert_int_equal(c.nested, -EDEADLK);

	/* The array, of 16 at first, grows while it is walked through. */
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = listener(log, '.');
		many[i].newcomer = i + 1 < ARRAY_SIZE(many) ? &many[i + 1] : NULL;
	}
	for (int i = 0; i < 14; i++)
		subscribe(&b, 0);
	subscribe(&many[0], ~0u);
	for (int i = 0; i < 4; i++)
		publish(log, TOPIC_SNAPSHOT);
	assert_string_equal(log->text, "aaccc.c..c...c....");
}

static void test_too_many(void **state)
{
	struct log *log = *state;
	struct listener a = listener(log, 'a');

	for (int i = 0; i < BUS_MAX_SUBSCRIBERS; i++)
		subscribe(&a, 0);
	assert_int_equal(bus_subscribe(log->bus, 0, on_event, &a), -ENOSPC);
	bus_unsubscribe(log->bus, 0);
	assert_true(bus_subscribe(log->bus, 0, on_event, &a) >= 0);
	assert_null(bus_free(NULL));
}

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern;
		unsigned topics;
		const char *said;
	} rows[] = {
		{ "snapshot", 1u << TOPIC_SNAPSHOT, NULL },
		{ "monitor.anomaly", 1u << TOPIC_ANOMALY, NULL },
		{ "learn.pattern", 1u << TOPIC_PATTERN, NULL },
		{ "sheet.*",
		  1u << TOPIC_SHEET_STARTED | 1u << TOPIC_SHEET_COMPLETED |
			  1u << TOPIC_SHEET_FAILED,
		  NULL },
		{ "*", (1u << N_TOPICS) - 1, NULL },
		{ "sheet.start", 0, "no topic 'sheet.start'; did you mean 'sheet.started'?" },
		{ "jobs.*", 0, "no topic 'jobs.*'; did you mean 'job.*'?" },
		{ "Snapshot", 0, "no topic 'Snapshot'; did you mean 'snapshot'?" },
		{ "zzz", 0, "no topic 'zzz'; there are snapshot, monitor.anomaly, " },
		{ "", 0, "no topic ''; there are " },
		{ "sheet.*.*", 0, "no topic 'sheet.*.*'" },
		{ "snapshot.*", 0, "no topic 'snapshot.*'" },
		{ "\033[2J", 0, "no topic '?[2J'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;
		unsigned topics = 0;
		int r = topics_add(rows[i].pattern, &topics, &err);

		assert_int_equal(r, rows[i].said ? -EINVAL : 0);
		assert_int_equal(topics, rows[i].topics);
		if (rows[i].said && strncmp(err.text, rows[i].said, strlen(rows[i].said)) != 0)
			fail_msg("%s", err.text);
	}
}

/* Every topic is found by its own name. */
static void test_names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < N_TOPICS; i++) {
		unsigned topics = 0;

		assert_int_equal(topics_add(topic_name((enum topic)i), &topics, NULL), 0);
		assert_int_equal(topics, 1u << i);
	}
}

static void test_who_may_see(void **state)
{
	const struct event mine = { .owner = 1000 }, hosts = { .owner = EVENT_NO_OWNER };

	(void)state;
	assert_true(event_is_visible(&mine, 1000, false));
	assert_true(event_is_visible(&mine, 0, false));
	assert_true(event_is_visible(&mine, 1001, true));
	assert_false(event_is_visible(&mine, 1001, false));
	assert_true(event_is_visible(&hosts, 1001, false));
}

static void test_other_topics(void **state)
{
	struct log *log = *state;
	struct listener a = listener(log, 'a'), b = listener(log, 'b');

	subscribe(&a, topic_bit(TOPIC_ANOMALY));
	subscribe(&b, topic_bit(TOPIC_ANOMALY));
	bus_set_topics(log->bus, a.id, topic_bit(TOPIC_ANOMALY) | topic_bit(TOPIC_PATTERN));
	bus_set_topics(log->bus, b.id + 1, ~0u); /* nobody */
	assert_true(bus_is_wanted(log->bus, TOPIC_PATTERN));
	assert_false(bus_is_wanted(log->bus, TOPIC_SNAPSHOT));
	publish(log, TOPIC_PATTERN);
	publish(log, TOPIC_ANOMALY);
	assert_string_equal(log->text, "aab"); /* in the order they subscribed */
}

int main(void)
{
#define BUS_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_bus, free_bus)
	const struct CMUnitTest tests[] = {
		BUS_TEST(test_topics_and_order), BUS_TEST(test_other_topics),
		BUS_TEST(test_unsubscribing),	 BUS_TEST(test_handlers_that_change_the_bus),
		BUS_TEST(test_too_many),	 cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_who_may_see),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

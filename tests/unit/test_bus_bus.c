#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "bus/bus.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

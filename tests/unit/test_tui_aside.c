#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "tui/screen.h"

/* A terminal in the place of stderr. */
struct stage {
	int terminal, stderr_before;
};

static void open_stage(struct stage *st)
{
	int end;

	assert_int_equal(openpty(&st->terminal, &end, NULL, NULL, NULL), 0);
	st->stderr_before = dup(STDERR_FILENO);
	assert_true(st->stderr_before >= 0);
	assert_int_equal(dup2(end, STDERR_FILENO), STDERR_FILENO);
	close(end);
}

static void close_stage(struct stage *st)
{
	dup2(st->stderr_before, STDERR_FILENO);
	close(st->stderr_before);
	close(st->terminal);
}

/* All that is on the terminal so far. */
static const char *seen(const struct stage *st)
{
	static char text[4096];
	struct pollfd fd = { .fd = st->terminal, .events = POLLIN };
	ssize_t n = 0;

	if (poll(&fd, 1, 200) == 1) /* the kernel hands it on with some delay */
		n = read(st->terminal, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* What is said comes to who asks for it, and not onto the picture. */
static void test_said_aside(void **state)
{
	struct stage st;
	char text[64], first[64] = "";
	bool was_said;

	(void)state;
	open_stage(&st);
	aside_begin();
	log_warning("one");
	log_warning("two is the last");
	was_said = aside_read(first, sizeof(first));
	assert_string_equal(seen(&st), "");
	assert_false(aside_read(text, sizeof(text)));
	aside_end();
	log_warning("three");
	assert_string_equal(seen(&st), "proctor: warning: three\r\n");
	close_stage(&st);
	assert_true(was_said);
	assert_string_equal(first, "warning: two is the last");
}

/* What nobody has read is not lost, and a line that is too long is cut. */
static void test_unread(void **state)
{
	struct stage st;
	char text[8], lines[128];

	(void)state;
	open_stage(&st);
	aside_begin();
	aside_begin(); /* is one */
	log_warning("long enough");
	assert_true(aside_read(text, sizeof(text)));
	log_warning("left");
	aside_end();
	snprintf(lines, sizeof(lines), "%s", seen(&st));
	aside_end();
	close_stage(&st);
	assert_string_equal(text, "warning");
	assert_string_equal(lines, "proctor: warning: left\r\n");
}

/* More than a pipe holds: nobody waits. */
static void test_full(void **state)
{
	static char line[1000];
	struct stage st;
	char text[32];
	bool was_said;

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	open_stage(&st);
	aside_begin();
	for (int i = 0; i < 200; i++)
		log_warning("%s", line);
	was_said = aside_read(text, sizeof(text));
	aside_end();
	close_stage(&st);
	assert_true(was_said);
}

/* A file keeps all that is said. */
static void test_no_terminal(void **state)
{
	int before = dup(STDERR_FILENO), fds[2];
	char text[64] = "", said[64];
	bool was_said;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	aside_begin();
	log_warning("one");
	was_said = aside_read(said, sizeof(said));
	aside_end();
	dup2(before, STDERR_FILENO);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	for (size_t i = 0; i < 2; i++)
		close(fds[i]);
	close(before);
	assert_false(was_said);
	assert_string_equal(text, "proctor: warning: one\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_said_aside),
		cmocka_unit_test(test_unread),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_no_terminal),
	};

	return cmocka_run_group_tests_name("tui_aside", tests, NULL, NULL);
}

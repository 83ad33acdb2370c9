#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macros.h"
#include "rpc/outbox.h"

struct pair {
	struct outbox out;
	int fds[2];
	struct buf heard;
};

static int make_pair(void **state)
{
	static const struct outbox_limits limits = { .max_events = 4, .max_event_bytes = 1000 };
	struct pair *p = calloc(1, sizeof(*p));

	if (!p || socketpair(AF_UNIX, SOCK_STREAM, 0, p->fds) < 0)
		return -1;
	p->heard = (struct buf)BUF_INIT;
	outbox_init(&p->out, &limits);
	*state = p;
	return 0;
}

static int free_pair(void **state)
{
	struct pair *p = *state;

	outbox_release(&p->out);
	buf_release(&p->heard);
	close(p->fds[0]);
	close(p->fds[1]);
	free(p);
	return 0;
}

static struct message *message(const char *text)
{
	struct buf line = BUF_INIT;
	struct message *m;

	buf_add_str(&line, text);
	m = message_new(&line);
	assert_non_null(m);
	return m;
}

static void add_event(struct pair *p, const char *text)
{
	assert_int_equal(outbox_add_event(&p->out, message(text)), 0);
}

static void add_reply(struct pair *p, const char *text)
{
	assert_int_equal(outbox_add_reply(&p->out, message(text)), 0);
}

/* What has been written so far. */
static const char *hear(struct pair *p)
{
	static char bytes[65536];
	ssize_t n;

	buf_reset(&p->heard);
	assert_true(outbox_write(&p->out, p->fds[0]) >= 0);
	while ((n = recv(p->fds[1], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		buf_add(&p->heard, bytes, (size_t)n);
	return p->heard.data;
}

#define LOST(n)                                                                     \
	"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"topic\":\"lost\"," \
	"\"count\":" #n "}}\n"

static void test_replies_go_first(void **state)
{
	struct pair *p = *state;

	add_event(p, "e1");
	add_reply(p, "r1");
	add_event(p, "e2");
	add_reply(p, "r2");
	assert_int_equal(p->out.reply_bytes, 6);
	assert_false(outbox_is_empty(&p->out));
	assert_string_equal(hear(p), "r1\nr2\ne1\ne2\n");
	assert_int_equal(p->out.reply_bytes, 0);
	assert_true(outbox_is_empty(&p->out));
	assert_int_equal(outbox_write(&p->out, p->fds[0]), 0);
}

static void test_the_oldest_are_lost(void **state)
{
	static const char *const names[] = { "e1", "e2", "e3", "e4", "e5", "e6" };
	struct pair *p = *state;

	for (size_t i = 0; i < 4; i++)
		add_event(p, names[i]);
	assert_true(outbox_is_full(&p->out));
	add_event(p, names[4]);
	add_event(p, names[5]);
	add_reply(p, "r");
	assert_string_equal(hear(p), "r\n" LOST(2) "e3\ne4\ne5\ne6\n");
	add_event(p, "e7");
	assert_string_equal(hear(p), "e7\n"); /* it is told once */
	for (size_t i = 0; i < 6; i++)
		add_event(p, names[i]);
	assert_string_equal(hear(p), LOST(2) "e3\ne4\ne5\ne6\n");
	assert_int_equal(p->out.n_lost, 4);
}

static void test_bytes_count_too(void **state)
{
	struct pair *p = *state;
	char large[1501];

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	add_event(p, "e1");
	add_event(p, large); /* more than may wait, and still the newest is kept */
	assert_int_equal(p->out.n_lost, 1);
	add_event(p, "e2"); /* and goes for the next one */
	assert_int_equal(p->out.n_lost, 2);
	assert_string_equal(hear(p), LOST(2) "e2\n");
}

/* Of a message that is half written the rest follows, whatever comes and is lost meanwhile. */
static void test_half_written(void **state)
{
	struct pair *p = *state;
	CLEANUP(buf_release) struct buf heard = BUF_INIT;
	size_t len = 3000000;
	char *large = malloc(len + 1);

	memset(large, 'x', len);
	large[len] = '\0';
	add_event(p, large);
	assert_true(outbox_write(&p->out, p->fds[0]) > 0);
	assert_false(outbox_is_empty(&p->out));
	for (int i = 0; i < 10; i++)
		add_event(p, "e");
	add_reply(p, "r");
	assert_int_equal(p->out.n_lost, 6);
	while (!outbox_is_empty(&p->out)) {
		hear(p);
		buf_add(&heard, p->heard.data, p->heard.len);
	}
	assert_memory_equal(heard.data, large, len);
	assert_string_equal(heard.data + len, "\nr\n" LOST(6) "e\ne\ne\ne\n");
	free(large);
}

/* More than go in one call, and shared with another. */
static void test_sharing(void **state)
{
	struct pair *p = *state;
	struct message *m = message("shared");
	size_t n = 0;

	for (int i = 0; i < 100; i++)
		assert_int_equal(outbox_add_reply(&p->out, message_ref(m)), 0);
	assert_int_equal(m->n_refs, 101);
	hear(p);
	for (const char *at = p->heard.data; (at = strstr(at, "shared\n")); at++)
		n++;
	assert_int_equal(n, 100);
	assert_int_equal(m->n_refs, 1);
	assert_null(message_unref(m));
	assert_null(message_unref(NULL));
}

#define LONG_BYTES 3000000

/* Different everywhere, so that a part at the wrong place shows. */
static struct message *long_message(void)
{
	struct buf line = BUF_INIT;
	struct message *m;

	for (int i = 0; line.len < LONG_BYTES; i++)
		buf_printf(&line, "%d,", i);
	m = message_new(&line);
	assert_non_null(m);
	return m;
}

static void hear_all(struct pair *p, struct buf *heard)
{
	while (!outbox_is_empty(&p->out)) {
		hear(p);
		buf_add(heard, p->heard.data, p->heard.len);
	}
}

/* Its pages, and not copies, go to all of them; and if that ends half-way, the bytes do. */
static void test_a_long_one_for_many(void **state)
{
	struct message *m = long_message();
	struct pair *pairs[6] = { *state };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		if (i > 0)
			assert_int_equal(make_pair((void **)&pairs[i]), 0);
		fcntl(pairs[i]->fds[0], F_SETFL, O_NONBLOCK);
		assert_int_equal(outbox_add_reply(&pairs[i]->out, message_ref(m)), 0);
		add_reply(pairs[i], "after");
	}
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		CLEANUP(buf_release) struct buf heard = BUF_INIT;

		assert_true(outbox_write(&pairs[i]->out, pairs[i]->fds[0]) > 0);
		assert_false(outbox_is_empty(&pairs[i]->out));
		assert_int_equal(m->fd >= 0, i < ARRAY_SIZE(pairs) - 1);
		if (i == ARRAY_SIZE(pairs) - 2)
			message_unshare(m);
		hear_all(pairs[i], &heard);
		assert_int_equal(heard.len, m->len + strlen("after\n"));
		assert_memory_equal(heard.data, m->bytes, m->len);
		assert_string_equal(heard.data + m->len, "after\n");
		if (i > 0)
			free_pair((void **)&pairs[i]);
	}
	message_unref(m);
}

static void test_a_long_one_for_few(void **state)
{
	struct pair *p = *state;
	struct message *m = long_message();

	assert_int_equal(outbox_add_reply(&p->out, message_ref(m)), 0);
	assert_true(outbox_write(&p->out, p->fds[0]) > 0);
	assert_true(m->fd < 0);
	message_unref(m);
}

static void test_a_long_one_and_nobody_reads(void **state)
{
	struct pair *p = *state;
	struct message *m = long_message();

	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 4; i++)
		assert_int_equal(outbox_add_reply(&p->out, message_ref(m)), 0);
	close(p->fds[1]);
	assert_int_equal(outbox_write(&p->out, p->fds[0]), -EPIPE);
	assert_true(m->fd >= 0);
	p->fds[1] = dup(p->fds[0]);
	message_unref(m);
	signal(SIGPIPE, SIG_DFL);
}

static void test_nobody_reads(void **state)
{
	struct pair *p = *state;

	add_reply(p, "r");
	close(p->fds[1]);
	assert_int_equal(outbox_write(&p->out, p->fds[0]), -EPIPE); /* and no signal */
	p->fds[1] = dup(p->fds[0]);
}

int main(void)
{
#define OUTBOX_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_pair, free_pair)
	const struct CMUnitTest tests[] = {
		OUTBOX_TEST(test_replies_go_first),
		OUTBOX_TEST(test_the_oldest_are_lost),
		OUTBOX_TEST(test_bytes_count_too),
		OUTBOX_TEST(test_half_written),
		OUTBOX_TEST(test_sharing),
		OUTBOX_TEST(test_nobody_reads),
		OUTBOX_TEST(test_a_long_one_for_many),
		OUTBOX_TEST(test_a_long_one_for_few),
		OUTBOX_TEST(test_a_long_one_and_nobody_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "sources/sample_feed.h"
#include "sources/tasks.h"

#define N 5

struct fixture {
	struct task_process items[N], *list_items[N];
	struct task_list list;
	struct feed_sender sender;
	struct feed feed;
	struct buf bytes;
};

static const pid_t pids[N] = { 10, 11, 300, 4000, 70000 };

static void begin(struct fixture *f)
{
	*f = (struct fixture){ .bytes = BUF_INIT };
	for (size_t i = 0; i < N; i++) {
		f->items[i] = (struct task_process){
			.head = { TASK_PROCESS, sizeof(f->items[i]), (uint32_t)pids[i], 1 },
			.own = { .run_ns = 1000000000 * (i + 1), .wait_ns = UINT64_MAX },
			.file_pages = -3,
			.comm = "sleep",
		};
		f->list_items[i] = &f->items[i];
	}
	f->list = (struct task_list){ f->list_items, N };
}

static void end(struct fixture *f)
{
	feed_sender_release(&f->sender);
	feed_release(&f->feed);
	buf_release(&f->bytes);
}

static int pass(struct fixture *f, uint64_t boot_ns, const pid_t *wanted, size_t n)
{
	buf_reset(&f->bytes);
	assert_int_equal(feed_write(&f->sender, &f->list, boot_ns, wanted, n, &f->bytes), 0);
	return feed_read(&f->feed, f->bytes.data, f->bytes.len);
}

static void assert_has(const struct fixture *f, const size_t *which, size_t n)
{
	assert_int_equal(f->feed.n, n);
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(f->feed.items[i], &f->items[which[i]], sizeof(f->items[0]));
}

static void test_receiver_has_what_the_sender_has(void **state)
{
	struct fixture f;
	size_t n_bytes;

	(void)state;
	begin(&f);
	assert_int_equal(pass(&f, 7, pids, N), 0);
	assert_int_equal(f.feed.boot_ns, 7);
	assert_has(&f, (const size_t[]){ 0, 1, 2, 3, 4 }, 5);
	n_bytes = f.bytes.len;

	/* What has not changed takes no bytes. */
	assert_int_equal(pass(&f, 8, pids, N), 0);
	assert_true(f.bytes.len < 10 && n_bytes > 100);
	assert_int_equal(f.feed.boot_ns, 8);
	assert_has(&f, (const size_t[]){ 0, 1, 2, 3, 4 }, 5);

	f.items[2].own.run_ns++;
	assert_int_equal(pass(&f, 9, pids, N), 0);
	assert_has(&f, (const size_t[]){ 0, 1, 2, 3, 4 }, 5);

	/* Neither wanted nor listed any more; and back. */
	f.list_items[1] = &f.items[2];
	f.list_items[2] = &f.items[3];
	f.list_items[3] = &f.items[4];
	f.list.n = 4;
	f.items[4].own.run_ns++;
	assert_int_equal(pass(&f, 10, pids + 1, N - 1), 0);
	assert_has(&f, (const size_t[]){ 2, 3, 4 }, 3);
	assert_int_equal(pass(&f, 11, pids, N), 0);
	assert_has(&f, (const size_t[]){ 0, 2, 3, 4 }, 4);
	assert_int_equal(pass(&f, 12, NULL, 0), 0);
	assert_has(&f, NULL, 0);
	end(&f);
}

static void test_lost_message_empties_the_feed(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	assert_int_equal(pass(&f, 7, pids, N), 0);
	assert_int_equal(feed_write(&f.sender, &f.list, 8, pids, N, &f.bytes), 0); /* unread */
	assert_int_equal(pass(&f, 9, pids, N), -EBADMSG);
	assert_int_equal(f.feed.n, 0);
	assert_int_equal(pass(&f, 10, pids, N), -EBADMSG);
	feed_sender_release(&f.sender);
	assert_int_equal(pass(&f, 11, pids, N), 0);
	assert_has(&f, (const size_t[]){ 0, 1, 2, 3, 4 }, 5);
	end(&f);
}

/* Each ending, and any byte that is another: an error, or a feed in order. */
static void test_damaged_messages(void **state)
{
	CLEANUP(buf_release) struct buf whole = BUF_INIT;
	struct fixture f;

	(void)state;
	begin(&f);
	assert_int_equal(feed_write(&f.sender, &f.list, 8, pids, N, &whole), 0);
	for (size_t n = 0; n < whole.len; n++)
		assert_int_equal(feed_read(&f.feed, whole.data, n), -EBADMSG);
	for (size_t i = 0; i < whole.len; i++) {
		char *copy = memcpy(malloc(whole.len), whole.data, whole.len);

		copy[i] = (char)(copy[i] ^ 0x41);
		if (feed_read(&f.feed, copy, whole.len) < 0)
			assert_int_equal(f.feed.n, 0);
		for (size_t k = 1; k < f.feed.n; k++)
			assert_true(f.feed.items[k - 1]->head.pid < f.feed.items[k]->head.pid);
		free(copy);
	}
	end(&f);
}

/* Of a flood of changes the rest is left out at first; once it is quiet it comes. */
static void test_flood(void **state)
{
	enum { MANY = 20000 };
	struct task_process *items = calloc(MANY, sizeof(*items));
	struct task_process **list_items = calloc(MANY, sizeof(struct task_process *));
	pid_t *many = calloc(MANY, sizeof(*many));
	struct fixture f = { .bytes = BUF_INIT };
	size_t n_before = 0;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		many[i] = (pid_t)i + 100;
		items[i].head.pid = (uint32_t)many[i];
		items[i].own.run_ns = 1;
		list_items[i] = &items[i];
	}
	f.list = (struct task_list){ list_items, MANY };
	for (int i = 0; i < 4 && n_before < MANY; i++) {
		assert_int_equal(pass(&f, 7, many, MANY), 0);
		assert_true(f.feed.n > n_before);
		n_before = f.feed.n;
	}
	assert_int_equal(n_before, MANY);
	for (size_t i = 0; i < MANY; i++)
		items[i].own.run_ns++;
	assert_int_equal(pass(&f, 8, many, MANY), 0);
	for (size_t i = 0; i < f.feed.n; i++) /* none that is old */
		assert_int_equal(f.feed.items[i]->own.run_ns, 2);
	end(&f);
	free(items);
	free(list_items);
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receiver_has_what_the_sender_has),
		cmocka_unit_test(test_lost_message_empties_the_feed),
		cmocka_unit_test(test_damaged_messages),
		cmocka_unit_test(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/unknown.h"
#include "sources/sources.h"

#define CHILD_BYTES 5000
#define THREAD_BYTES 700

static char bytes[CHILD_BYTES];

/* Another thread of ours, which writes once, or on and on. */
struct thread {
	pthread_t id;
	int fd;
	sem_t go, is_done;
	atomic_bool is_over;
	bool goes_on;
};

static void *write_something(void *arg)
{
	struct thread *t = arg;

	sem_wait(&t->go);
	do
		if (write(t->fd, bytes, THREAD_BYTES) != THREAD_BYTES)
			abort();
	while (t->goes_on && !t->is_over);
	sem_post(&t->is_done);
	while (!t->is_over)
		usleep(1000);
	return NULL;
}

static void start(struct thread *t, int fd, bool goes_on)
{
	*t = (struct thread){ .fd = fd, .goes_on = goes_on };
	sem_init(&t->go, 0, 0);
	sem_init(&t->is_done, 0, 0);
	assert_int_equal(pthread_create(&t->id, NULL, write_something, t), 0);
}

static void stop(struct thread *t)
{
	t->is_over = true;
	assert_int_equal(pthread_join(t->id, NULL), 0);
}

/* What a child that writes so much adds while the thread writes, too. */
static uint64_t added(int root_fd, struct thread *t, int fd, bool leaves_out)
{
	struct io_counts before, after;
	pid_t pid;

	sources_read_waited_io(root_fd, leaves_out, &before);
	sem_post(&t->go);
	if (!t->goes_on)
		sem_wait(&t->is_done);
	pid = fork();
	if (pid == 0)
		_exit(write(fd, bytes, CHILD_BYTES) == CHILD_BYTES ? 0 : 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	sources_read_waited_io(root_fd, leaves_out, &after);
	return u64_delta(after.wchar, before.wchar);
}

static int open_file(void)
{
	char path[] = "/tmp/proctor-single.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static uint64_t added_beside(bool goes_on, bool leaves_out)
{
	int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = goes_on ? open("/dev/null", O_WRONLY | O_CLOEXEC) : open_file();
	struct thread t;
	uint64_t n;

	start(&t, fd, goes_on);
	n = added(root_fd, &t, fd, leaves_out);
	stop(&t);
	close(fd);
	close(root_fd);
	return n;
}

static void test_a_child_is_not_a_thread(void **state)
{
	(void)state;
	assert_int_equal(added_beside(false, true), CHILD_BYTES);
	/* Why it is asked for at all. */
	assert_int_equal(added_beside(false, false), CHILD_BYTES + THREAD_BYTES);
}

/* One that never rests is no reason for a wrong number. */
static void test_busy_threads(void **state)
{
	uint64_t n;

	(void)state;
	for (int i = 0; i < 20; i++) {
		n = added_beside(true, true);
		assert_true(!u64_known(n) || n == CHILD_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_child_is_not_a_thread),
		cmocka_unit_test(test_busy_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

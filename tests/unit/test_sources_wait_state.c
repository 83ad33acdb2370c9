#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alive.h"
#include "base/clock.h"
#include "sources/wait_state.h"

#define COME_NS UINT64_C(10000000000) /* until a child must have come to its call */

struct fixture {
	int root_fd;
	pid_t pids[2];
	size_t n;
	char path[64];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(f->path, sizeof(f->path), "/tmp/proctor-wait-XXXXXX");
	close(mkstemp(f->path));
	*state = f;
	return f->root_fd < 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++) {
		kill(f->pids[i], SIGKILL);
		waitpid(f->pids[i], NULL, 0);
	}
	unlink(f->path);
	close(f->root_fd);
	free(f);
	return 0;
}

/* A child that does this, and ends with us. */
static pid_t start(struct fixture *f, void (*fn)(struct fixture *f))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "a child");
		fn(f);
		_exit(0);
	}
	f->pids[f->n++] = pid;
	return pid;
}

/* Looks at all children until the last of them is in that state; the looks of them all are in ret.
 */
static struct wait_state *look_for(struct fixture *f, enum wait_kind kind, struct wait_state *ret)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	uint64_t until = clock_boot_ns() + COME_NS;
	struct wait_counts counts;
	struct proc_key keys[2];

	for (size_t i = 0; i < f->n; i++) {
		keys[i].pid = f->pids[i];
		assert_int_equal(proc_start_ticks(f->pids[i], &keys[i].start_ticks), 0);
	}
	do {
		assert_int_equal(sources_read_waits(f->root_fd, keys, f->n, NULL, ret, NULL), f->n);
		if (ret[f->n - 1].kind == kind) {
			assert_true(sources_count_waits(f->root_fd, &keys[f->n - 1], 8, &counts));
			/* Which of several files counts, and who listens, takes their names. */
			assert_true(counts.n[kind] > 0 || counts.n[WAIT_EVENTS] > 0 ||
				    counts.n[WAIT_SOCKET] > 0);
			return &ret[f->n - 1];
		}
		nanosleep(&pause, NULL);
	} while (clock_boot_ns() < until);
	assert_string_equal(wait_kind_name(ret[f->n - 1].kind), wait_kind_name(kind));
	return NULL;
}

static void assert_text(const struct wait_state *w, const char *wanted)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	wait_state_add(&text, w);
	assert_string_equal(text.data, wanted);
}

static void hold_lock(struct fixture *f)
{
	if (flock(open(f->path, O_RDWR), LOCK_EX) == 0)
		for (;;)
			pause();
}

static void wait_for_lock(struct fixture *f)
{
	flock(open(f->path, O_RDWR), LOCK_EX);
}

static void wait_for_record_lock(struct fixture *f)
{
	struct flock lock = { .l_type = F_WRLCK };

	fcntl(open(f->path, O_RDWR), F_OFD_SETLKW, &lock);
}

static void hold_record_lock(struct fixture *f)
{
	struct flock lock = { .l_type = F_WRLCK };

	if (fcntl(open(f->path, O_RDWR), F_SETLK, &lock) == 0)
		for (;;)
			pause();
}

static void assert_held(struct fixture *f, const struct wait_state *w)
{
	char wanted[200];

	snprintf(wanted, sizeof(wanted), "waiting for a lock on %s, held by a child (pid %d)",
		 f->path, (int)f->pids[0]);
	assert_text(w, wanted);
	assert_int_equal(w->other, f->pids[0]);
}

static void test_a_lock_and_its_holder(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[2];

	start(f, hold_lock);
	assert_text(look_for(f, WAIT_SIGNAL, states), "waiting for a signal");
	start(f, wait_for_lock);
	assert_held(f, look_for(f, WAIT_FILE_LOCK, states));
	assert_ptr_equal(wait_state_pick(states, 2), &states[1]);
}

static void test_a_record_lock(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[2];

	start(f, hold_record_lock);
	look_for(f, WAIT_SIGNAL, states);
	start(f, wait_for_record_lock);
	assert_held(f, look_for(f, WAIT_FILE_LOCK, states));
}

static int ends[2];

static void write_later(struct fixture *f)
{
	(void)f;
	close(ends[0]);
	pause();
}

static void read_pipe(struct fixture *f)
{
	char c;

	(void)f;
	close(ends[1]);
	(void)!read(ends[0], &c, 1);
}

static void test_a_pipe_and_its_writer(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[2];
	char wanted[100];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	start(f, write_later);
	look_for(f, WAIT_SIGNAL, states);
	start(f, read_pipe);
	close(ends[0]);
	close(ends[1]);
	look_for(f, WAIT_PIPE, states);
	snprintf(wanted, sizeof(wanted),
		 "waiting for data from a pipe, written by a child (pid %d)", (int)f->pids[0]);
	assert_text(&states[1], wanted);
	/* The reader waits for the writer: that is the one to look at. */
	assert_ptr_equal(wait_state_pick(states, 2), &states[0]);
}

static uint16_t port;

static int connect_to_listener(int listener)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(at);

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 4) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &size) < 0 ||
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return -1;
	port = ntohs(at.sin_port);
	return fd;
}

static int connected;

static void receive(struct fixture *f)
{
	char c;

	(void)f;
	recv(connected, &c, 1, 0);
}

static void poll_for_a_minute(struct fixture *f)
{
	struct pollfd p = { .fd = connected, .events = POLLIN };

	(void)f;
	poll(&p, 1, 60000);
}

static void test_a_socket(void **state)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct fixture *f = *state;
	struct wait_state states[2];
	char wanted[100];

	connected = connect_to_listener(listener);
	assert_true(connected >= 0);
	start(f, receive);
	snprintf(wanted, sizeof(wanted), "waiting for data from TCP 127.0.0.1:%u", port);
	assert_text(look_for(f, WAIT_SOCKET, states), wanted);
	start(f, poll_for_a_minute);
	strcat(wanted, ", for a limited time");
	assert_text(look_for(f, WAIT_SOCKET, states), wanted);
	close(connected);
	close(listener);
}

static void open_fifo(struct fixture *f)
{
	unlink(f->path);
	if (mkfifo(f->path, 0600) == 0)
		close(open(f->path, O_RDONLY));
}

static void test_a_fifo_that_nobody_opens(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[1];
	char wanted[120];

	start(f, open_fifo);
	look_for(f, WAIT_PIPE, states);
	snprintf(wanted, sizeof(wanted), "waiting for another process to open %s", f->path);
	assert_text(states, wanted);
}

static void *lock_twice(void *arg)
{
	pthread_mutex_t *mutex = arg;

	pthread_mutex_lock(mutex);
	return NULL;
}

static void deadlock(struct fixture *f)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;

	(void)f;
	pthread_mutex_lock(&mutex);
	if (pthread_create(&thread, NULL, lock_twice, &mutex) == 0)
		pthread_join(thread, NULL);
}

static void test_threads_that_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[1];

	start(f, deadlock);
	for (uint64_t until = clock_boot_ns() + COME_NS; clock_boot_ns() < until;)
		if (look_for(f, WAIT_FUTEX, states)->n_futex == 2)
			break;
	assert_text(states, "waiting for another thread (futex), as all its 2 threads are");
}

static volatile int never;

static void compute(struct fixture *f)
{
	(void)f;
	while (!never)
		;
}

static void rest(struct fixture *f)
{
	(void)f;
	for (;;)
		sleep(60);
}

static void test_what_runs_sleeps_or_is_stopped(void **state)
{
	struct fixture *f = *state;
	struct wait_state states[2];
	pid_t pid = start(f, rest);

	assert_text(look_for(f, WAIT_TIMER, states), "sleeping (clock_nanosleep)");
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_text(look_for(f, WAIT_STOPPED, states), "stopped by a signal");
	start(f, compute);
	assert_text(look_for(f, WAIT_NONE, states), "running");
	assert_ptr_equal(wait_state_pick(states, 2),
			 &states[0]); /* what is stopped explains more */
}

static void test_another_with_the_number_is_left_out(void **state)
{
	struct fixture *f = *state;
	struct proc_key key = { start(f, rest), 1 };
	struct wait_state one;

	assert_int_equal(sources_read_waits(f->root_fd, &key, 1, NULL, &one, NULL), 0);
	assert_null(wait_state_pick(&one, 0));
}

static void test_fields(void **state)
{
	struct wait_state w = {
		.key = { 12, 34 },
		.tid = 13,
		.comm = "na\"me",
		.state = 'S',
		.kind = WAIT_FILE_LOCK,
		.call = "flock",
		.object = "/x",
		.n_threads = 2,
		.other = 7,
	};
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &out);
	json_begin_object(&j);
	wait_state_write_fields(&j, &w);
	json_end_object(&j);
	assert_string_equal(
		out.data,
		"{\"pid\":12,\"start_ticks\":34,\"comm\":\"na\\\"me\",\"state\":\"S\","
		"\"waits_for\":\"file_lock\",\"text\":\"waiting for a lock on /x, held by pid 7, which "
		"has ended (a child of it may have the file)\",\"thread\":13,\"threads\":2,"
		"\"syscall\":\"flock\",\"object\":\"/x\",\"other_pid\":7,\"other_comm\":null}");
}

#define WAIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAIT_TEST(test_a_lock_and_its_holder),
		WAIT_TEST(test_a_record_lock),
		WAIT_TEST(test_a_pipe_and_its_writer),
		WAIT_TEST(test_a_socket),
		WAIT_TEST(test_a_fifo_that_nobody_opens),
		WAIT_TEST(test_threads_that_wait_for_each_other),
		WAIT_TEST(test_what_runs_sleeps_or_is_stopped),
		WAIT_TEST(test_another_with_the_number_is_left_out),
		cmocka_unit_test(test_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

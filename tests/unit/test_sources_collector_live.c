/* The collector over the real /proc, with processes of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector_fixture.h"

struct live {
	int root_fd;
	struct collector *collector;
	struct snapshot snap;
};

static void live_open(struct live *l)
{
	struct collector_options options = { 0 };

	l->root_fd = options.root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(collector_new(&options, &l->collector, NULL), 0);
	snapshot_init(&l->snap);
}

static void live_scan(struct live *l)
{
	assert_int_equal(collector_scan(l->collector, &l->snap, NULL), 0);
	collector_fill(l->collector, &l->snap, SNAPSHOT_ALL);
}

static void live_close(struct live *l)
{
	snapshot_release(&l->snap);
	collector_free(l->collector);
	close(l->root_fd);
}

static pid_t start_child(void (*run)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run();
	for (;;)
		pause();
}

static void stop_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void do_nothing(void)
{
}

static uint64_t count_own_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the folder itself */
}

static void test_live_self(void **state)
{
	const struct proc_sample *p;
	struct rlimit limit;
	struct live l;

	(void)state;
	live_open(&l);
	for (int i = 0; i < 3; i++)
		live_scan(&l);
	p = find(&l.snap, getpid());
	assert_non_null(p);
	assert_int_equal(p->ppid, getppid());
	assert_int_equal(p->uid, geteuid());
	assert_int_equal(p->threads, 1);
	assert_true(u64_known(p->rss_bytes) && p->rss_bytes > 0 && p->rss_bytes <= p->vms_bytes);
	assert_true(u64_known(p->hwm_bytes) && p->hwm_bytes > 0);
	assert_true(f64_known(p->age_seconds) && p->age_seconds >= 0 && p->age_seconds < 3600);
	assert_true(p->start_wall_ns <= clock_wall_ns());
	assert_non_null(strstr(p->command, "test_sources_collector"));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(p->fd_limit ==
		    (limit.rlim_cur == RLIM_INFINITY ? FD_LIMIT_UNLIMITED : limit.rlim_cur));
	assert_true(l.snap.system.memory_total_bytes > l.snap.system.memory_used_bytes);
	assert_true(l.snap.system.cpu_count > 0);
	assert_int_equal(strlen(l.snap.boot_id), 36);
	live_close(&l);
}

static void open_twenty(void)
{
	for (int i = 0; i < 20; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			_exit(1);
}

static void test_live_open_files(void **state)
{
	uint64_t own = count_own_fds();
	pid_t pid = start_child(open_twenty);
	struct live l;
	uint64_t fds = 0;

	(void)state;
	live_open(&l);
	/* Until the child has opened its files; the test's own time limit is the bound. */
	while (fds != own + 20) {
		const struct proc_sample *p;

		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_true(u64_known(p->open_fds) && p->open_fds <= own + 20);
		fds = p->open_fds;
	}
	stop_child(pid);
	live_close(&l);
}

static void test_live_kept_files_do_not_outlive_the_process(void **state)
{
	struct live l;
	pid_t pid;

	(void)state;
	live_open(&l);
	live_scan(&l);
	live_scan(&l);
	for (int round = 0; round < 3; round++) {
		pid = start_child(do_nothing);
		for (int i = 0; i < 4; i++)
			live_scan(&l);
		assert_non_null(find(&l.snap, pid));
		stop_child(pid);
		live_scan(&l);
		assert_null(find(&l.snap, pid));
	}
	live_close(&l);
}

static void burn(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

/* One that never sleeps: its time is known finer than a tick, grows, and is not more than passed.
 */
static void test_live_cpu_time(void **state)
{
	pid_t pid = start_child(burn);
	uint64_t before = 0, began = clock_boot_ns();
	bool is_fine = false;
	struct live l;

	(void)state;
	live_open(&l);
	while (!is_fine || before < SECOND / 20) {
		const struct proc_sample *p;

		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_true(u64_known(p->cpu_ns) && p->cpu_ns >= before);
		assert_true(p->cpu_ns <= clock_boot_ns() - began + SECOND / 10);
		is_fine = is_fine || p->cpu_ns % (SECOND / 1000) != 0;
		before = p->cpu_ns;
		if (access("/proc/self/schedstat", R_OK) < 0)
			is_fine = true; /* a kernel that does not count */
	}
	stop_child(pid);
	live_close(&l);
}

static void test_live_zombie(void **state)
{
	const struct proc_sample *p = NULL;
	pid_t pid = fork();
	struct live l;

	(void)state;
	if (pid == 0)
		_exit(3);
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
	} while (p->state != 'Z');
	assert_int_equal(p->rss_bytes, 0);
	assert_false(u64_known(p->hwm_bytes));
	waitpid(pid, NULL, 0);
	live_close(&l);
}

static void *wait_for_end(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

static void leave_to_another(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_end, NULL) == 0)
		syscall(SYS_exit, 0); /* of this thread alone */
	_exit(1);
}

/* Its first thread has ended, and another has not. */
static void test_live_headless_is_no_zombie(void **state)
{
	const struct proc_sample *p = NULL;
	pid_t pid = fork();
	struct live l;

	(void)state;
	if (pid == 0)
		leave_to_another();
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_int_not_equal(p->state, 'Z');
	} while (p->state != '?');
	assert_false(u64_known(p->rss_bytes));
	stop_child(pid);
	live_close(&l);
}

/* Peak memory that came and went between two samples. */
static void touch_and_release(void)
{
	size_t n = 48 << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, n);
	munmap(p, n);
}

static void test_live_high_water_mark(void **state)
{
	pid_t pid = start_child(touch_and_release);
	const struct proc_sample *p;
	struct live l;

	(void)state;
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
	} while (p->state != 'S' || p->hwm_bytes < (48 << 20));
	assert_true(p->rss_bytes < (48 << 20));
	stop_child(pid);
	live_close(&l);
}

/* With few files allowed the collector still sees everything, and leaves most of them to others. */
static void test_live_above_the_budget(void **state)
{
	struct rlimit old, low;
	pid_t pids[60];
	struct live l;
	uint64_t before;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = start_child(do_nothing);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	live_open(&l);
	before = count_own_fds();
	for (int i = 0; i < 4; i++)
		live_scan(&l);
	assert_int_equal(count_own_fds() - before, 32); /* half, and not one more */
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		const struct proc_sample *p = find(&l.snap, pids[i]);

		assert_non_null(p);
		assert_true(u64_known(p->rss_bytes) && u64_known(p->hwm_bytes));
		assert_true(u64_known(p->open_fds) && f64_known(p->cpu_percent));
	}
	live_close(&l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		stop_child(pids[i]);
}

static int highest_fd(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int highest = -1;

	while ((e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (fd != dirfd(dir) && fd > highest)
			highest = fd;
	}
	closedir(dir);
	return highest;
}

struct want {
	struct rlimit old;
	int fds[4096];
	size_t n;
};

/* Not one more file can be opened. Holes are filled, or what is above them were given back in vain.
 */
static void begin_want(struct want *w)
{
	int fd, highest = highest_fd();
	struct rlimit low;

	w->n = 0;
	while ((fd = dup(STDIN_FILENO)) < highest) {
		assert_true(fd >= 0 && w->n < ARRAY_SIZE(w->fds));
		w->fds[w->n++] = fd;
	}
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &w->old), 0);
	low = w->old;
	low.rlim_cur = (rlim_t)highest + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void end_want(struct want *w)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &w->old), 0);
	for (size_t i = 0; i < w->n; i++)
		close(w->fds[i]);
}

/* Others took the rest of the files: the collector gives its own back and carries on. */
static void test_live_want_of_files(void **state)
{
	pid_t old = start_child(do_nothing), young; /* there is one at least whose files are kept */
	struct want want;
	struct live l;

	(void)state;
	live_open(&l);
	for (int i = 0; i < 3; i++)
		live_scan(&l);
	young = start_child(do_nothing);
	begin_want(&want);
	for (int i = 0; i < 2; i++) {
		live_scan(&l);
		assert_true(u64_known(l.snap.system.memory_total_bytes));
		assert_non_null(find(&l.snap, old)); /* never left out */
		assert_non_null(find(&l.snap, young));
		assert_true(u64_known(find(&l.snap, old)->rss_bytes));
		assert_true(u64_known(find(&l.snap, young)->rss_bytes));
	}
	end_want(&want);
	stop_child(old);
	stop_child(young);
	live_close(&l);
}

/* Without a single file to open nothing can be said: an error, not an empty host. */
static void test_live_no_files_at_all(void **state)
{
	struct rlimit old, low;
	struct err err = ERR_INIT;
	struct live l;

	(void)state;
	live_open(&l);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(collector_scan(l.collector, &l.snap, &err), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(strlen(err.text) > 0);
	live_scan(&l);
	assert_non_null(find(&l.snap, getpid()));
	live_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live_self),
		cmocka_unit_test(test_live_open_files),
		cmocka_unit_test(test_live_kept_files_do_not_outlive_the_process),
		cmocka_unit_test(test_live_cpu_time),
		cmocka_unit_test(test_live_zombie),
		cmocka_unit_test(test_live_headless_is_no_zombie),
		cmocka_unit_test(test_live_high_water_mark),
		cmocka_unit_test(test_live_above_the_budget),
		cmocka_unit_test(test_live_want_of_files),
		cmocka_unit_test(test_live_no_files_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

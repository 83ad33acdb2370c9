#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/taskstats.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"
#include "sources/life/life.h"
#include "sources/life/taskstats.h"

#define FAMILY 30

/* ---- the wire ---- */

/* A message as the kernel lays it out, without its headers, so that these check each other. */
struct wire {
	uint32_t length;
	uint16_t type, flags;
	uint32_t seq, port;
	uint8_t command, version;
	uint16_t reserved;
	uint16_t aggr_len, aggr_type;
	uint16_t pid_len, pid_type;
	uint32_t pid;
	uint16_t stats_len, stats_type;
	struct taskstats stats;
} __attribute__((packed));

static struct wire wire_of(void)
{
	struct wire w = { .length = sizeof(w),
			  .type = FAMILY,
			  .aggr_len = sizeof(w) - 20,
			  .aggr_type = 4,
			  .pid_len = 8,
			  .pid_type = 1,
			  .stats_len = 4 + sizeof(struct taskstats),
			  .stats_type = 3 };

	w.stats.version = 13;
	w.stats.ac_tgid = 77;
	w.stats.ac_utime = 5;
	w.stats.ac_stime = 6;
	w.stats.cpu_run_virtual_total = 7000;
	w.stats.hiwater_rss = 8;
	w.stats.write_bytes = 9;
	w.stats.ac_btime64 = 1000; /* a thread that began 100 s after its process */
	w.stats.ac_etime = 5 * 1000000;
	w.stats.ac_tgetime = 105 * 1000000;
	return w;
}

static void test_wire(void **state)
{
	struct wire w = wire_of();
	struct thread_stats stats;
	bool has;

	(void)state;
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), sizeof(w));
	assert_true(has);
	assert_int_equal(stats.pid, 77);
	assert_int_equal(stats.used.user_ns, 5000);
	assert_int_equal(stats.used.system_ns, 6000);
	assert_int_equal(stats.used.cpu_ns, 7000);
	assert_int_equal(stats.used.max_rss_bytes, 8192);
	assert_int_equal(stats.used.write_bytes, 9);
	assert_int_equal(stats.start_wall_s, 900);
	assert_string_equal(stats.comm, ""); /* a thread's is not its process's */
	w.stats.ac_pid = 77;
	memset(w.stats.ac_comm, 'x', sizeof(w.stats.ac_comm));
	assert_true(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has) > 0 && has);
	assert_string_equal(stats.comm, "xxxxxxxxxxxxxxx");
	w.stats.cpu_run_virtual_total = 0;
	assert_true(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has) > 0 && has);
	assert_int_equal(stats.used.cpu_ns, 11000);
}

static void test_wire_that_tells_nothing(void **state)
{
	struct wire w = wire_of();
	struct thread_stats stats;
	bool has;

	(void)state;
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY + 1, &stats, &has), sizeof(w));
	assert_false(has);
	assert_int_equal(taskstats_parse_probe(&w, sizeof(w), FAMILY), 0);
	w.stats.hiwater_rss = 0; /* a kernel that does not count it */
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), sizeof(w));
	assert_true(has && !u64_known(stats.used.max_rss_bytes));
	w.stats.version = 11; /* whose thread it was is not said */
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), sizeof(w));
	assert_false(has);
	assert_int_equal(taskstats_parse_probe(&w, sizeof(w), FAMILY), -EOPNOTSUPP);
	assert_int_equal(taskstats_parse_probe(&w, 7, FAMILY), -EBADMSG);
	w = wire_of();
	w.stats_len = 4;
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), sizeof(w));
	assert_false(has);
	w = wire_of();
	w.stats_len = UINT16_MAX;
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), sizeof(w));
	assert_false(has);
	w.length = sizeof(w) + 1;
	assert_int_equal(taskstats_parse(&w, sizeof(w), FAMILY, &stats, &has), -EBADMSG);
	assert_int_equal(taskstats_parse(&w, 7, FAMILY, &stats, &has), -EBADMSG);
}

/* An end that nobody heard of leaves its sum behind, for the next process with the pid. */
static void test_a_pid_that_is_used_again(void **state)
{
	const struct thread_stats next = {
		.pid = 7, .start_wall_s = 101, .used.cpu_ns = 5, .used.rchar = 6
	};
	const struct thread_stats another = { .pid = 7, .start_wall_s = 160, .used.cpu_ns = 8 };
	struct thread_stats sum = {
		.pid = 7, .start_wall_s = 100, .used.cpu_ns = 1, .used.rchar = 2
	};

	(void)state;
	thread_stats_add(&sum, &next);
	assert_int_equal(sum.used.cpu_ns, 6);
	assert_int_equal(sum.used.rchar, 8);
	thread_stats_add(&sum, &another);
	assert_int_equal(sum.used.cpu_ns, 8);
	assert_int_equal(sum.used.rchar, 0);
	assert_false(thread_stats_is_before(&sum, 0));
	assert_true(thread_stats_is_before(&sum, 159)); /* to a second or two */
	assert_true(thread_stats_is_before(&sum, 161));
	assert_false(thread_stats_is_before(&sum, 150));
}

static void test_answers(void **state)
{
	struct {
		uint32_t length;
		uint16_t type, flags;
		uint32_t seq, port;
		int32_t error;
	} answer = { sizeof(answer), 2, 0, 0, 0, -1 };
	uint16_t family;

	(void)state;
	assert_int_equal(taskstats_parse_ack(&answer, sizeof(answer)), -EPERM);
	assert_int_equal(taskstats_parse_family(&answer, sizeof(answer), &family), -EPERM);
	answer.error = 0;
	assert_int_equal(taskstats_parse_ack(&answer, sizeof(answer)), 0);
	answer.error = 5;
	assert_int_equal(taskstats_parse_ack(&answer, sizeof(answer)), -EBADMSG);
	assert_int_equal(taskstats_parse_ack(&answer, 16), -EBADMSG);
	answer.type = 16;
	assert_int_equal(taskstats_parse_family(&answer, sizeof(answer), &family), -EBADMSG);
}

/* ---- the kernel ---- */

static void burn_ms(uint64_t ms)
{
	struct timespec ts;
	uint64_t until_ns, now_ns = 0;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	until_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec + ms * 1000000;
	while (now_ns < until_ns) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	}
}

static void *burn_in_a_thread(void *arg)
{
	burn_ms(60);
	return arg;
}

static void be_child(void)
{
	volatile char *memory = malloc(20 << 20);
	const char few[100] = "";
	pthread_t thread;

	for (size_t i = 0; i < 20 << 20; i += 4096)
		memory[i] = 1;
	pthread_create(&thread, NULL, burn_in_a_thread, NULL);
	pthread_join(thread, NULL);
	burn_ms(20);
	_exit(write(open("/dev/null", O_WRONLY), few, sizeof(few)) == sizeof(few) ? 9 : 1);
}

struct wanted {
	pid_t pid;
	struct life_event exit;
	int n;
};

static void take_exit(void *ctx, const struct life_event *ev)
{
	struct wanted *wanted = ctx;

	if (ev->type != LIFE_EXIT || ev->pid != wanted->pid)
		return;
	wanted->exit = *ev;
	wanted->n++;
}

/* All threads together, by the time that the proc connector tells of the end. */
static void test_an_exit_has_an_account(void **state)
{
	struct wanted wanted = { 0 };
	struct life *life = NULL;
	struct rusage usage = { 0 };
	struct err err = ERR_INIT;
	char own[LIFE_COMM_BYTES];
	uint64_t cpu_ns;

	(void)state;
	if (life_open_with(NULL, &life, &err) < 0 || !life->has_accounts) {
		life_close(life);
		skip();
	}
	assert_string_equal(life_rung(life).rung, "netlink proc connector + taskstats");
	wanted.pid = fork();
	if (wanted.pid == 0)
		be_child();
	assert_int_equal(wait4(wanted.pid, NULL, 0, &usage), wanted.pid);
	for (int i = 0; i < 100 && wanted.n == 0; i++) {
		assert_true(life_drain(life, SIZE_MAX, take_exit, &wanted) >= 0);
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	assert_int_equal(wanted.n, 1);
	cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
		 (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	assert_true(wanted.exit.account.cpu_ns + 25000000 >= cpu_ns); /* a tick for each thread */
	assert_true(wanted.exit.account.cpu_ns <= cpu_ns + 25000000);
	assert_int_equal(wanted.exit.account.cpu_ns,
			 wanted.exit.account.user_ns + wanted.exit.account.system_ns);
	assert_true(wanted.exit.account.max_rss_bytes >= 20 << 20);
	assert_true(wanted.exit.account.max_rss_bytes < 100 << 20);
	assert_true(wanted.exit.account.minor_faults >= 5000);
	assert_false(
		u64_known(wanted.exit.account.wchar)); /* 100 bytes are no whole KiB, and not 0 */
	prctl(PR_GET_NAME, own);
	assert_string_equal(wanted.exit.comm, own);
	life_close(life);
}

static void test_who_has_not_ended_has_none(void **state)
{
	struct taskstats_feed *feed = NULL;
	char comm[THREAD_COMM_BYTES];
	struct exit_account account;
	struct err err = ERR_INIT;

	(void)state;
	if (taskstats_open(&feed, &err) < 0) {
		assert_true(err.text[0]);
		skip();
	}
	assert_true(taskstats_drain(feed) >= 0);
	assert_false(taskstats_take(feed, getpid(), &account, comm));
	assert_null(taskstats_close(feed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_wire_that_tells_nothing),
		cmocka_unit_test(test_a_pid_that_is_used_again),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_an_exit_has_an_account),
		cmocka_unit_test(test_who_has_not_ended_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

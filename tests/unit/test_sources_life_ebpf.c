#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/ebpf.h"
#include "sources/life/life.h"
#include "sources/sources.h"

/* ---- records ---- */

static const struct life_units units = { 4096, 100, 5000, 1000000 };

static void test_record_of_a_death(void **state)
{
	struct life_death d = { .head = { .type = LIFE_RECORD_EXIT,
					  .pid = 7,
					  .mono_ns = 5100,
					  .tag = 9,
					  .start_boot_ns = 1230000000,
					  .comm = "0123456789abcdef" },
				.parent_pid = 3,
				.wait_status = 0x300,
				.uid = 1000,
				.user_ns = 1,
				.system_ns = 3,
				.run_ns = 400,
				.max_rss_pages = 10,
				.wchar = 77 };
	struct life_event ev;

	(void)state;
	assert_int_equal(life_record_parse(&d, sizeof(d), &units, &ev), 0);
	assert_int_equal(ev.type, LIFE_EXIT);
	assert_int_equal(ev.pid, 7);
	assert_int_equal(ev.parent_pid, 3);
	assert_int_equal(ev.wall_ns, 1000100);
	assert_int_equal(ev.start_ticks, 123);
	assert_int_equal(ev.tag, 9);
	assert_string_equal(ev.comm, "0123456789abcde"); /* without its NUL it would have no end */
	assert_int_equal(WEXITSTATUS(ev.wait_status), 3);
	assert_int_equal(ev.uid, 1000);
	assert_int_equal(ev.account.cpu_ns, 400);
	assert_int_equal(ev.account.user_ns, 100);
	assert_int_equal(ev.account.system_ns, 300);
	assert_int_equal(ev.account.max_rss_bytes, 40960);
	assert_int_equal(ev.account.wchar, 77);
	d.head.type = LIFE_RECORD_FREE;
	assert_int_equal(life_record_parse(&d, sizeof(d), &units, &ev), 0);
	assert_int_equal(ev.type, LIFE_ACCOUNT);
	assert_false(u64_known(ev.account.max_rss_bytes));
}

static void put_call(struct life_call *c, uint64_t ms, uint16_t nr, uint16_t error, uint16_t kind,
		     const char *object, size_t len)
{
	*c = (struct life_call){ .mono_ns = ms * 1000000,
				 .nr = nr,
				 .error = error,
				 .kind = kind,
				 .len = (uint16_t)len };
	memcpy(c->object, object, len);
}

/* The last first, whichever half of the places they are in; and what was printed, a ring. */
static void test_record_of_failed_calls(void **state)
{
	static const char address[] = { 2, 0, 0, 80, 127, 0, 0, 1 };
	struct life_failure f = { .death = { .head = { .type = LIFE_RECORD_EXIT,
						       .pid = 7,
						       .mono_ns = UINT64_C(1000000000) } } };
	CLEANUP(buf_release) struct buf calls = BUF_INIT, said = BUF_INIT;
	const char *text;
	struct failed_call call;
	struct life_event ev;
	struct mask *mask = NULL;

	(void)state;
	assert_int_equal(mask_new(NULL, 0, &mask, NULL), 0);
	put_call(&f.calls.calls[0], 900, SYS_write, ENOSPC, LIFE_CALL_FILE, "x\0data", 7);
	put_call(&f.calls.calls[1], 990, SYS_connect, ECONNREFUSED, LIFE_CALL_ADDRESS, address,
		 sizeof(address));
	put_call(&f.calls.calls[4], 950, SYS_openat, ENOENT, LIFE_CALL_AT, "a\nb --token=abc", 15);
	put_call(&f.calls.calls[5], 1, SYS_pipe2, EMFILE, LIFE_CALL_PLAIN, "", 0);
	f.calls.said_len = LIFE_SAID_BYTES + 8;
	memset(f.calls.said, 'a', LIFE_SAID_BYTES);
	memcpy(f.calls.said, " is full", 8); /* the end of the ring is before its beginning */
	memcpy(f.calls.said + LIFE_SAID_BYTES - 6, "\n\ndisk", 6);
	assert_int_equal(life_record_parse(&f, sizeof(f), &units, &ev), 0);
	life_add_calls(&calls, &ev, mask);
	assert_string_equal(calls.data, "connect ECONNREFUSED 10 127.0.0.1:80\n"
					"openat ENOENT 50 a b --token=***\n"
					"write ENOSPC 100 /data/x\n"
					"pipe2 EMFILE 999 \n");
	text = calls.data;
	for (int i = 0; i < 4; i++)
		assert_true(failed_call_next(&text, &call));
	assert_string_equal(call.error, "EMFILE");
	assert_int_equal(call.before_end_ms, 999);
	assert_int_equal(call.object_len, 0);
	assert_false(failed_call_next(&text, &call));
	life_add_said(&said, &ev, mask);
	assert_string_equal(said.data, "disk is full\n");
	/* A long write was cut: what came before it on its line, and what is left of that, is not
	 * kept. */
	buf_reset(&said);
	f.calls.said_len = 26;
	memcpy(f.calls.said, "first\nKEY=\0Zq9Zq9\nthe last", 26);
	assert_int_equal(life_record_parse(&f, sizeof(f), &units, &ev), 0);
	life_add_said(&said, &ev, mask);
	assert_string_equal(said.data, "first\nthe last\n");
	assert_int_equal(life_record_parse(&f.death, sizeof(f.death), &units, &ev), 0);
	assert_null(ev.calls);
	mask_free(mask);
}

static void test_records_that_are_none(void **state)
{
	struct life_birth b = { .head = { .type = LIFE_RECORD_FORK } };
	struct life_event ev;

	(void)state;
	assert_int_equal(life_record_parse(&b, sizeof(b), &units, &ev), 0);
	assert_false(u64_known(ev.account.cpu_ns));
	assert_false(u64_known(ev.start_ticks));
	assert_int_equal(life_record_parse(&b, sizeof(b) - 1, &units, &ev), -EBADMSG);
	assert_int_equal(life_record_parse(&b, 3, &units, &ev), -EBADMSG);
	b.head.type = 0;
	assert_int_equal(life_record_parse(&b, sizeof(b), &units, &ev), -EBADMSG);
	b.head.type = 12345;
	assert_int_equal(life_record_parse(&b, sizeof(b), &units, &ev), -EBADMSG);
	b.head.type = LIFE_RECORD_OOM; /* longer than that */
	assert_int_equal(life_record_parse(&b, sizeof(b), &units, &ev), -EBADMSG);
}

static void test_record_of_an_oom_kill(void **state)
{
	struct life_oom o = { .head = { .type = LIFE_RECORD_OOM, .pid = 7 },
			      .rss_pages = 5,
			      .cgroup_pages = 6,
			      .cgroup_limit_pages = 7,
			      .cgroup_id = 1,
			      .cgroup = "box" };
	struct life_event ev;

	(void)state;
	assert_int_equal(life_record_parse(&o, sizeof(o), &units, &ev), 0);
	assert_int_equal(ev.victim.rss_bytes, 5 * 4096);
	assert_int_equal(ev.victim.cgroup_bytes, 6 * 4096);
	assert_int_equal(ev.victim.cgroup_limit_bytes, 7 * 4096);
	assert_string_equal(ev.victim.cgroup, "box");
	o.cgroup_limit_pages = UINT64_C(0x7ffffffffffff); /* nobody has set one */
	o.rss_pages = LIFE_NO_COUNT;
	assert_int_equal(life_record_parse(&o, sizeof(o), &units, &ev), 0);
	assert_false(u64_known(ev.victim.cgroup_limit_bytes));
	assert_false(u64_known(ev.victim.rss_bytes));
}

/* ---- the kernel ---- */

#define MAX_EVENTS 60000
#define TAG 4711

struct seen {
	struct life_event *events;
	size_t n;
	uint64_t lost;
};

static void keep(void *ctx, const struct life_event *ev)
{
	struct seen *seen = ctx;

	assert_true(seen->n < MAX_EVENTS);
	seen->events[seen->n++] = *ev;
}

static struct life *open_ebpf(struct life_options options, struct seen *seen)
{
	struct life *life = NULL;
	struct err err = ERR_INIT;

	options.wants_accounts = true;
	if (ebpf_check(&err) < 0) {
		print_message("# %s\n", err.text);
		skip();
	}
	options.want_ebpf = true;
	if (life_open_with(&options, &life, &err) < 0)
		fail_msg("%s", err.text);
	if (!life->has_accounts)
		fail_msg("%s", life_rung(life).reason);
	assert_string_equal(life_rung(life).reason, "");
	*seen = (struct seen){ .events = calloc(MAX_EVENTS, sizeof(*seen->events)) };
	assert_non_null(seen->events);
	return life;
}

static void drain(struct life *life, struct seen *seen)
{
	int64_t lost = life_drain(life, SIZE_MAX, keep, seen);

	assert_true(lost >= 0);
	seen->lost += (uint64_t)lost;
}

static const struct life_event *find(const struct seen *seen, enum life_type type, pid_t pid)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->events[i].type == type && seen->events[i].pid == pid)
			return &seen->events[i];
	return NULL;
}

static size_t count(const struct seen *seen, enum life_type type, pid_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < seen->n; i++)
		n += seen->events[i].type == type && seen->events[i].pid == pid;
	return n;
}

/* NULL: it has not come in so many tenths of a second. */
static const struct life_event *await_for(struct life *life, struct seen *seen, enum life_type type,
					  pid_t pid, int tenths)
{
	struct pollfd fd = { .fd = life_fd(life), .events = POLLIN };

	for (int i = 0; i < tenths; i++) {
		drain(life, seen);
		if (find(seen, type, pid))
			return find(seen, type, pid);
		assert_true(poll(&fd, 1, 100) >= 0);
	}
	return NULL;
}

static const struct life_event *await(struct life *life, struct seen *seen, enum life_type type,
				      pid_t pid)
{
	const struct life_event *ev = await_for(life, seen, type, pid, 300);

	if (!ev)
		fail_msg("event %d of process %d did not come", (int)type, (int)pid);
	return ev;
}

static void done(struct life *life, struct seen *seen)
{
	assert_null(life_close(life));
	free(seen->events);
}

static void burn_ms(uint64_t ms)
{
	uint64_t until_ns = clock_cpu_ns() + ms * 1000000;

	while (clock_cpu_ns() < until_ns)
		;
}

static uint64_t ns_of(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * UINT64_C(1000000000) + (uint64_t)tv.tv_usec * 1000;
}

static pid_t start_user(void)
{
	char *memory;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	memory = mmap(NULL, 20 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, 20 << 20, MADV_NOHUGEPAGE); /* or a fault is for 2 MiB */
	memset(memory, 1, 20 << 20);
	(void)!write(open("/dev/null", O_WRONLY), memory, 12345);
	burn_ms(20);
	_exit(42);
}

/* slack_ns: by how much less the kernel may have counted. */
static void check_account(const struct exit_account *account, const struct rusage *usage,
			  uint64_t slack_ns)
{
	uint64_t cpu_ns = ns_of(usage->ru_utime) + ns_of(usage->ru_stime);

	assert_true(account->cpu_ns + slack_ns >= cpu_ns);
	assert_true(account->cpu_ns <= cpu_ns + 20000000);
	assert_int_equal(account->user_ns + account->system_ns, account->cpu_ns);
	assert_true(account->wchar >= 12345);
	assert_true(account->minor_faults >= 20 * 256 / 2);
}

static void test_a_life_is_told_with_what_it_used(void **state)
{
	const struct life_event *ev = NULL;
	struct rusage usage = { 0 };
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	int status;
	pid_t pid = 0;

	(void)state;
	/* For a few in a thousand the kernel does not say that it has let go of them. */
	for (int tries = 0; tries < 5 && !ev; tries++) {
		pid = start_user();
		assert_int_equal(wait4(pid, &status, 0, &usage), pid);
		ev = await_for(life, &seen, LIFE_ACCOUNT, pid, 20);
	}
	assert_non_null(ev);
	check_account(&ev->account, &usage, 2000000);
	ev = find(&seen, LIFE_FORK, pid);
	assert_non_null(ev);
	assert_int_equal(ev->parent_pid, getpid());
	assert_true(u64_known(ev->start_ticks));
	ev = find(&seen, LIFE_EXIT, pid);
	assert_non_null(ev);
	check_account(&ev->account, &usage, 12000000); /* up to a tick of 10 ms */
	assert_int_equal(ev->wait_status, status);
	assert_int_equal(ev->parent_pid, getpid());
	assert_true(ev->account.max_rss_bytes >= 20 << 20);
	assert_true(ev->account.max_rss_bytes <= (uint64_t)usage.ru_maxrss * 1024 + (1 << 20));
	assert_int_equal(ev->tag, 0);
	assert_int_equal(count(&seen, LIFE_EXIT, pid), 1);
	done(life, &seen);
}

static pid_t run_true(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static bool is_woken(struct life *life, int ms)
{
	struct pollfd fd = { .fd = life_fd(life), .events = POLLIN };

	return poll(&fd, 1, ms) == 1;
}

/* Strangers are read now and then; who is marked is waited for. */
static void test_the_reader_is_woken_once(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	pid_t pid = run_true();

	(void)state;
	waitpid(pid, NULL, 0);
	assert_false(is_woken(life, 200));
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(1);
	}
	assert_int_equal(life_track(life, pid, 7), 0);
	assert_false(is_woken(life, 100));
	kill(pid, SIGKILL);
	assert_true(is_woken(life, 10000));
	waitpid(pid, NULL, 0);
	drain(life, &seen);
	assert_non_null(find(&seen, LIFE_SIGNAL, pid));
	while (is_woken(life, 200)) /* its end may come after that */
		drain(life, &seen);
	assert_non_null(find(&seen, LIFE_EXIT, pid));
	assert_false(is_woken(life, 200));
	done(life, &seen);
}

static void test_the_reader_is_woken_before_the_ring_is_full(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ .ring_bytes = 1 << 18 }, &seen);
	int n = 0;

	(void)state;
	drain(life, &seen);
	for (; n < 2000 && !is_woken(life, 0); n++)
		waitpid(run_true(), NULL, 0);
	assert_true(n > 10 && n < 2000);
	drain(life, &seen);
	assert_int_equal(seen.lost, 0);
	assert_false(is_woken(life, 0));
	done(life, &seen);
}

#define N_SHORT 500

static void test_none_is_too_short(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	pid_t pids[N_SHORT];
	int n_accounts = 0;

	(void)state;
	for (int i = 0; i < N_SHORT; i++) {
		pids[i] = run_true();
		waitpid(pids[i], NULL, 0);
	}
	await_for(life, &seen, LIFE_ACCOUNT, pids[N_SHORT - 1], 20);
	assert_int_equal(seen.lost, 0);
	for (int i = 0; i < N_SHORT; i++) {
		const struct life_event *ev = find(&seen, LIFE_ACCOUNT, pids[i]);

		n_accounts += ev && ev->account.cpu_ns > 0;
		assert_non_null(find(&seen, LIFE_FORK, pids[i]));
		ev = find(&seen, LIFE_EXEC, pids[i]);
		assert_non_null(ev);
		assert_string_equal(ev->comm, "true");
		ev = find(&seen, LIFE_EXIT, pids[i]);
		assert_non_null(ev);
		assert_int_equal(ev->wait_status, 0);
		assert_true(ev->account.max_rss_bytes > 100 << 10);
	}
	assert_true(n_accounts > N_SHORT * 9 / 10);
	done(life, &seen);
}

static void *fork_from_a_thread(void *arg)
{
	*(pid_t *)arg = fork();
	if (*(pid_t *)arg == 0)
		_exit(5);
	return NULL;
}

/* A child that starts its own, which is somebody else's by the time it ends; and one by a thread.
 */
static void be_ancestor(int fd)
{
	pthread_t thread;
	pid_t pids[2];

	pids[0] = fork();
	if (pids[0] == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0) {
			nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
			_exit(6);
		}
		(void)!write(fd, &grandchild, sizeof(grandchild));
		_exit(0);
	}
	waitpid(pids[0], NULL, 0);
	pthread_create(&thread, NULL, fork_from_a_thread, &pids[1]);
	pthread_join(thread, NULL);
	(void)!write(fd, &pids[1], sizeof(pids[1]));
	waitpid(pids[1], NULL, 0);
	_exit(0);
}

static void follow_a_tree(bool is_as_old)
{
	const struct life_options options = { .is_tracked_only = true, .is_as_old = is_as_old };
	struct seen seen;
	struct life *life = open_ebpf(options, &seen);
	pid_t pid, stranger, orphan, of_thread;
	int ready[2], go[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		be_ancestor(ready[1]);
	}
	assert_int_equal(life_track(life, pid, TAG), 0);
	assert_int_equal(life_tag_of(life, pid), TAG);
	assert_int_equal(life_tag_of(life, getpid()), 0);
	assert_int_equal(life_track(life, pid, 0), -EINVAL);
	assert_int_equal(life_track(life, 4194303, TAG), -ESRCH);
	stranger = run_true();
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(read(ready[0], &orphan, sizeof(orphan)), sizeof(orphan));
	assert_int_equal(read(ready[0], &of_thread, sizeof(of_thread)), sizeof(of_thread));
	waitpid(pid, NULL, 0);
	waitpid(stranger, NULL, 0);
	assert_int_equal(await(life, &seen, LIFE_EXIT, orphan)->tag, TAG);
	assert_int_equal(WEXITSTATUS(find(&seen, LIFE_EXIT, orphan)->wait_status), 6);
	assert_int_equal(find(&seen, LIFE_EXIT, of_thread)->tag, TAG);
	assert_int_equal(WEXITSTATUS(find(&seen, LIFE_EXIT, of_thread)->wait_status), 5);
	assert_int_equal(find(&seen, LIFE_FORK, of_thread)->parent_pid, pid);
	assert_null(find(&seen, LIFE_EXIT, stranger));
	for (size_t i = 0; i < seen.n; i++)
		assert_int_equal(seen.events[i].tag, TAG);
	assert_int_equal(seen.lost, 0);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	done(life, &seen);
}

static void test_a_tree_keeps_its_mark(void **state)
{
	(void)state;
	follow_a_tree(false);
}

static void test_a_tree_keeps_its_mark_on_old_kernels(void **state)
{
	(void)state;
	follow_a_tree(true);
}

/* Returns who it was that it ended as. */
static uint64_t end_as(struct life *life, struct seen *seen, uid_t uid, uid_t euid, uid_t suid)
{
	pid_t pid = fork();

	if (pid == 0) /* who was root may not be looked into without its leave */
		_exit(setresuid(uid, euid, suid) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0);
	waitpid(pid, NULL, 0);
	assert_int_equal(await(life, seen, LIFE_EXIT, pid)->wait_status, 0);
	return find(seen, LIFE_EXIT, pid)->uid;
}

static void test_whose_a_process_was(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);

	(void)state;
	assert_int_equal(end_as(life, &seen, 4001, 4001, 4001), 4001);
	assert_int_equal(end_as(life, &seen, 0, 0, 0), 0);
	assert_int_equal(end_as(life, &seen, 4001, 0, 0), 0);
	assert_int_equal(end_as(life, &seen, 4001, 4001, 4002), 0);
	done(life, &seen);
}

/* Returns for whom the kernel reports a signal that ends it. */
static uint64_t signal_as(struct life *life, struct seen *seen, uid_t uid, uid_t euid, uid_t suid)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (setresuid(uid, euid, suid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0)
			kill(getpid(), SIGUSR1);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(await(life, seen, LIFE_EXIT, pid)->wait_status, SIGUSR1);
	return find(seen, LIFE_SIGNAL, pid)->uid;
}

static void test_whose_a_signal_is(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);

	(void)state;
	assert_int_equal(signal_as(life, &seen, 4001, 4001, 4001), 4001);
	assert_int_equal(signal_as(life, &seen, 0, 0, 0), 0);
	assert_int_equal(signal_as(life, &seen, 4001, 0, 0), 0);
	done(life, &seen);
}

/* Makes a program that does nothing, and returns its path. */
static const char *make_program(mode_t mode)
{
	static const char path[] = "/tmp/test_sources_life_ebpf.true";

	unlink(path);
	assert_int_equal(system("cp -L /bin/true /tmp/test_sources_life_ebpf.true"), 0);
	assert_int_equal(chown(path, 0, 4002), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/* A user runs it, in a tree that is marked. Returns who it was that it ended as. */
static uint64_t end_with(struct life *life, struct seen *seen, mode_t mode)
{
	const char *path = make_program(mode);
	int go[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		if (setresgid(4001, 4001, 4001) == 0 && setresuid(4001, 4001, 4001) == 0)
			execl(path, path, NULL);
		_exit(1);
	}
	assert_int_equal(life_track(life, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	assert_int_equal(await(life, seen, LIFE_EXIT, pid)->wait_status, 0);
	close(go[0]);
	close(go[1]);
	unlink(path);
	return find(seen, LIFE_EXIT, pid)->uid;
}

static void run_programs(bool is_as_old)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ .is_as_old = is_as_old }, &seen);

	assert_int_equal(end_with(life, &seen, 0755), 4001);
	assert_int_equal(end_with(life, &seen, 04755), 0);
	assert_int_equal(end_with(life, &seen, 02755), 0);
	assert_int_equal(end_with(life, &seen, 0711), 0); /* it may not be read */
	done(life, &seen);
}

static void test_a_program_with_more_rights_is_not_its_users(void **state)
{
	(void)state;
	run_programs(false);
	run_programs(true);
}

static void *exec_from_a_thread(void *arg)
{
	(void)arg;
	execl("/bin/sh", "sh", "-c", "/bin/true; exit 4", NULL);
	return NULL;
}

/* Its thread takes the place of the first one, which had the mark. */
static void test_an_exec_by_a_thread_keeps_the_mark(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ .is_tracked_only = true }, &seen);
	const struct life_event *child;
	pthread_t thread;
	int go[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		pthread_create(&thread, NULL, exec_from_a_thread, NULL);
		for (;;)
			pause();
	}
	assert_int_equal(life_track(life, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	assert_int_equal(WEXITSTATUS(await(life, &seen, LIFE_EXIT, pid)->wait_status), 4);
	assert_int_equal(count(&seen, LIFE_EXEC, pid), 1);
	child = NULL;
	for (size_t i = 0; i < seen.n; i++)
		if (seen.events[i].type == LIFE_FORK && seen.events[i].parent_pid == pid)
			child = &seen.events[i];
	assert_non_null(child);
	assert_int_equal(find(&seen, LIFE_EXIT, child->pid)->tag, TAG);
	close(go[0]);
	close(go[1]);
	done(life, &seen);
}

#define N_ENDS 60

static void *linger(void *arg)
{
	(void)arg;
	nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
	syscall(SYS_exit, 0); /* of this thread */
	return NULL;
}

/* The first thread ends early, and the rest all at once: told once, with the status of wait4(). */
static void test_a_process_ends_once(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	pthread_t thread;

	(void)state;
	for (int round = 0; round < N_ENDS; round++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			for (int i = 0; i < 1 + round % 8; i++)
				pthread_create(&thread, NULL, linger, NULL);
			syscall(SYS_exit, 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (round % 20 == 0)
			await_for(life, &seen, LIFE_ACCOUNT, pid, 20);
		else
			await(life, &seen, LIFE_EXIT, pid);
		assert_int_equal(count(&seen, LIFE_EXIT, pid), 1);
		assert_in_range(count(&seen, LIFE_ACCOUNT, pid), 0, 1);
		assert_int_equal(find(&seen, LIFE_EXIT, pid)->wait_status, status);
	}
	done(life, &seen);
}

#define READ_BYTES (1 << 20)

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Which of its two threads is the last to go is chance; the first has done all. */
static void test_all_threads_are_in_the_account(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	static char bytes[READ_BYTES];
	pthread_t thread;

	(void)state;
	for (int round = 0; round < 12; round++) {
		const struct life_event *ev;
		pid_t pid = fork();

		if (pid == 0) {
			pthread_create(&thread, NULL, idle, NULL);
			(void)!read(open("/dev/zero", O_RDONLY), bytes, sizeof(bytes));
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		ev = await(life, &seen, LIFE_EXIT, pid);
		assert_true(ev->account.rchar >= READ_BYTES);
		assert_true(ev->account.rchar < 2 * READ_BYTES);
		assert_true(ev->account.minor_faults >= READ_BYTES / 4096 / 2);
	}
	done(life, &seen);
}

static void test_who_sent_a_signal(void **state)
{
	const struct life_event *ev;
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	pid_t victim, killer;

	(void)state;
	assert_true(life_sees_signals(life));
	victim = fork();
	if (victim == 0)
		for (;;)
			pause();
	assert_int_equal(life_track(life, getpid(), TAG), 0);
	killer = fork();
	if (killer == 0) {
		kill(victim, SIGTERM);
		_exit(0);
	}
	waitpid(victim, NULL, 0);
	waitpid(killer, NULL, 0);
	ev = await(life, &seen, LIFE_SIGNAL, victim);
	assert_int_equal(ev->sender.signal, SIGTERM);
	assert_int_equal(ev->sender.pid, killer);
	assert_int_equal(ev->sender.tag, TAG);
	assert_int_equal(ev->tag, 0); /* it was there before the mark */
	assert_false(ev->sender.is_kernel);
	assert_string_equal(ev->sender.comm, ev->comm);
	ev = await(life, &seen, LIFE_EXIT, victim);
	assert_true(WIFSIGNALED(ev->wait_status) && WTERMSIG(ev->wait_status) == SIGTERM);
	assert_null(find(&seen, LIFE_SIGNAL, getpid())); /* SIGCHLD is not told */
	done(life, &seen);
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* Whose timer rings 50 times, and once more when nobody is there to hear it. */
static void be_timed(void)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };

	signal(SIGALRM, do_nothing);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 50; i++)
		pause();
	signal(SIGALRM, SIG_DFL);
	for (;;)
		pause();
}

static void test_a_timer_is_told_when_it_kills(void **state)
{
	const struct life_event *ev;
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		be_timed();
	waitpid(pid, NULL, 0);
	ev = await(life, &seen, LIFE_SIGNAL, pid);
	assert_int_equal(ev->sender.signal, SIGALRM);
	assert_true(ev->sender.is_kernel);
	await(life, &seen, LIFE_EXIT, pid);
	assert_int_equal(count(&seen, LIFE_SIGNAL, pid), 1);
	done(life, &seen);
}

/* What does not fit is counted, to the last one. */
static void test_losses_are_counted(void **state)
{
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ .ring_bytes = 4096 }, &seen);
	pid_t last = 0;
	size_t n_ours = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		last = run_true();
		waitpid(last, NULL, 0);
	}
	drain(life, &seen);
	for (size_t i = 0; i < seen.n; i++)
		n_ours += seen.events[i].type == LIFE_EXIT;
	assert_true(seen.lost > 0);
	assert_true(n_ours < 200);
	assert_true(seen.n + seen.lost >= 600); /* fork, exec, exit; some are not let go of yet */
	/* And it goes on; what all others on the host do may fill so small a ring again. */
	last = 0;
	for (int i = 0; i < 300 && !find(&seen, LIFE_EXIT, last); i++) {
		last = run_true();
		waitpid(last, NULL, 0);
		await_for(life, &seen, LIFE_EXIT, last, 2);
	}
	assert_non_null(find(&seen, LIFE_EXIT, last));
	done(life, &seen);
}

/* ---- OOM ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, text, strlen(text));
	close_fd(&fd);
}

/* A memory cgroup of our own with a limit of 16 MiB; false: not on this machine. */
static bool make_box(char *folder, size_t size)
{
	static const char *const parents[] = { "/sys/fs/cgroup/memory", "/sys/fs/cgroup" };
	char limit[320];

	for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
		snprintf(folder, size, "%s/proctor-test-%d", parents[i], (int)getpid());
		if (mkdir(folder, 0700) < 0)
			continue;
		write_file(folder, "memory.swap.max", "0");
		write_file(folder, "memory.max", "16777216");
		write_file(folder, "memory.limit_in_bytes", "16777216");
		snprintf(limit, sizeof(limit), "%s/memory.max", folder);
		if (access(limit, F_OK) == 0)
			return true;
		snprintf(limit, sizeof(limit), "%s/memory.limit_in_bytes", folder);
		if (access(limit, F_OK) == 0)
			return true;
		rmdir(folder);
	}
	return false;
}

static pid_t start_greedy(const char *folder)
{
	volatile char *memory;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	write_file(folder, "cgroup.procs", "0");
	memory = malloc(64 << 20);
	for (size_t i = 0; i < 64 << 20; i += 4096)
		memory[i] = 1;
	_exit(0);
}

/* In a cgroup of its own inside the one that has the limit, or in that. */
static void check_oom_kill(bool is_inside)
{
	char folder[256], inner[300];
	const struct life_event *ev;
	struct seen seen;
	struct life *life = open_ebpf((struct life_options){ 0 }, &seen);
	int status;
	pid_t pid;

	assert_true(life_sees_oom(life));
	if (!make_box(folder, sizeof(folder))) {
		done(life, &seen);
		skip();
	}
	snprintf(inner, sizeof(inner), "%s%s", folder, is_inside ? "/inner" : "");
	if (is_inside) {
		write_file(folder, "cgroup.subtree_control", "+memory");
		assert_int_equal(mkdir(inner, 0700), 0);
	}
	pid = start_greedy(inner);
	waitpid(pid, &status, 0);
	if (is_inside)
		rmdir(inner);
	rmdir(folder);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ev = await(life, &seen, LIFE_OOM, pid);
	assert_true(ev->victim.rss_bytes > 8 << 20);
	assert_int_equal(ev->victim.cgroup_limit_bytes, 16 << 20);
	assert_true(ev->victim.cgroup_bytes > 8 << 20);
	assert_string_equal(ev->victim.cgroup, strrchr(folder, '/') + 1);
	ev = find(&seen, LIFE_SIGNAL, pid);
	assert_non_null(ev);
	assert_true(ev->sender.is_kernel);
	done(life, &seen);
}

static void test_an_oom_kill_is_told(void **state)
{
	(void)state;
	check_oom_kill(false);
}

static void test_an_oom_kill_by_a_limit_above(void **state)
{
	(void)state;
	check_oom_kill(true);
}

static void test_without_rights_there_is_a_reason(void **state)
{
	int status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		const struct life_options options = { .want_ebpf = true };
		struct life *life = NULL;
		struct err err = ERR_INIT;

		if (setuid(65534) < 0)
			_exit(1);
		if (life_open_with(&options, &life, &err) < 0)
			_exit(err.text[0] ? 0 : 2);
		_exit(life_rung(life).reason[0] && !life_sees_oom(life) ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_of_a_death),
		cmocka_unit_test(test_record_of_failed_calls),
		cmocka_unit_test(test_records_that_are_none),
		cmocka_unit_test(test_record_of_an_oom_kill),
		cmocka_unit_test(test_a_life_is_told_with_what_it_used),
		cmocka_unit_test(test_the_reader_is_woken_once),
		cmocka_unit_test(test_the_reader_is_woken_before_the_ring_is_full),
		cmocka_unit_test(test_none_is_too_short),
		cmocka_unit_test(test_a_tree_keeps_its_mark),
		cmocka_unit_test(test_a_tree_keeps_its_mark_on_old_kernels),
		cmocka_unit_test(test_whose_a_process_was),
		cmocka_unit_test(test_whose_a_signal_is),
		cmocka_unit_test(test_a_program_with_more_rights_is_not_its_users),
		cmocka_unit_test(test_an_exec_by_a_thread_keeps_the_mark),
		cmocka_unit_test(test_a_process_ends_once),
		cmocka_unit_test(test_all_threads_are_in_the_account),
		cmocka_unit_test(test_who_sent_a_signal),
		cmocka_unit_test(test_a_timer_is_told_when_it_kills),
		cmocka_unit_test(test_losses_are_counted),
		cmocka_unit_test(test_an_oom_kill_is_told),
		cmocka_unit_test(test_an_oom_kill_by_a_limit_above),
		cmocka_unit_test(test_without_rights_there_is_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whose a GPU is: which process has the pid that a driver tells, and whether it can be looked into.
 */
#include "gpu_tree.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"

/* By who has never looked. */
static bool find_owner(const struct tree *t, uint64_t pid, const struct gpu_files *files,
		       struct proc_key *ret)
{
	struct gpu_owners *owners = calloc(1, sizeof(*owners));
	bool is_found;

	assert_non_null(owners);
	is_found = gpu_owners_find(owners, t->fd, pid, files, ret);
	free(owners);
	return is_found;
}

static void test_owner(void **state)
{
	const struct tree *t = *state;
	struct proc_key key;

	put_process(t, 100, 1, "/dev/nvidia0");
	put_process(t, 200, 17, "/dev/nvidiactl");
	put_process(t, 300, 3, "/dev/null");
	assert_true(find_owner(t, 100, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 100);
	assert_int_equal(key.start_ticks, 1000);
	/* 17 is there as the pid inside a container. */
	assert_true(find_owner(t, 17, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 200);
	/* A process that holds no GPU is not meant, though it has the pid. */
	assert_false(find_owner(t, 300, &gpu_nvidia_files, &key));
	assert_false(find_owner(t, 999, &gpu_nvidia_files, &key));
	/* Two could be meant: nobody knows which. */
	put_process(t, 400, 17, "/dev/nvidia0");
	assert_false(find_owner(t, 17, &gpu_nvidia_files, &key));
}

/* A program that is more than its user may not be looked into: then it may hold one. */
static void test_own_process_that_is_closed(void **state)
{
	const struct tree *t = *state;
	struct gpu_reading *r = calloc(1, sizeof(*r));
	const uid_t uid = geteuid(), stranger = uid == 0 ? 65534 : uid;

	assert_non_null(r);
	put_process(t, 300, 300, "/dev/nvidia0");
	put_process(t, 301, 301, "/dev/nvidia0");
	give_away(t, stranger);
	run("chmod -R a+rX '%s' && chmod 0 '%s'/proc/30?/fd", t->path, t->path);
	assert_int_equal(seteuid(stranger), 0);
	gpu_add_holders(t->fd, &gpu_nvidia_files, r);
	assert_int_equal(seteuid(uid), 0);
	run("chmod 700 '%s'/proc/30?/fd", t->path);
	assert_int_equal(r->n_processes, 1);
	assert_int_equal(r->processes[0].key.pid, 300);
	assert_false(u64_known(r->processes[0].memory_bytes));
	assert_int_equal(r->only_own, uid == 0);
	free(r);
}

/* Says when it may not be looked into, and waits to be ended. */
static void be_closed(uid_t user, int tell_fd)
{
	if (geteuid() != user && setuid(user) < 0)
		_exit(1);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    write(tell_fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* So says the kernel: the folder of one that may not be looked into is its user's all the same. */
static void test_whose_a_closed_process_is(void **state)
{
	const uid_t uid = geteuid(), user = uid == 0 ? 65534 : uid;
	int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fds[2];
	enum gpu_holds holds;
	bool is_own, is_other;
	char said;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_closed(user, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &said, 1), 1);
	is_other = !gpu_is_own(root_fd, (uint64_t)pid);
	assert_int_equal(seteuid(user), 0);
	holds = gpu_holds_device(root_fd, (uint64_t)pid, &gpu_nvidia_files, NULL);
	is_own = gpu_is_own(root_fd, (uint64_t)pid);
	assert_int_equal(seteuid(uid), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	assert_int_equal(holds, GPU_HOLDS_MAYBE);
	assert_true(is_own && is_other == (uid == 0));
	assert_false(gpu_is_own(root_fd, INT32_MAX)); /* nobody's pid */
	close(root_fd);
}

/* What a search found stands for a while, but not for another process. */
static void test_owners_are_remembered(void **state)
{
	static struct gpu_owners owners;
	const struct tree *t = *state;
	struct proc_key key;

	put_process(t, 200, 17, "/dev/nvidiactl");
	assert_true(gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 200);
	assert_false(gpu_owners_find(&owners, t->fd, 18, &gpu_nvidia_files, &key));
	run("rm -r '%s/proc/200'", t->path);
	put_process(t, 300, 17, "/dev/nvidiactl");
	/* An older look does not know it, and stands for a second only. */
	for (int left = 1000; left > 0; left--, usleep(30000))
		if (gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key))
			break;
	assert_int_equal(key.pid, 300);
	put_process(t, 400, 18, "/dev/nvidiactl");
	for (int left = 1000; left > 0; left--, usleep(30000))
		if (gpu_owners_find(&owners, t->fd, 18, &gpu_nvidia_files, &key))
			break;
	assert_int_equal(key.pid, 400);
}

/* However many pids are nobody's here, processes are looked through once for all of them. */
static void test_one_look_for_all(void **state)
{
	static struct gpu_owners owners;
	const struct tree *t = *state;
	uint64_t before_ns = clock_boot_ns(), seconds;
	struct proc_key key;

	put_process(t, 200, 17, "/dev/nvidiactl");
	for (uint64_t pid = 1000; pid < 1000 + 4 * GPU_MAX_OWNERS; pid++)
		assert_false(gpu_owners_find(&owners, t->fd, pid, &gpu_nvidia_files, &key));
	assert_true(gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key));
	seconds = (clock_boot_ns() - before_ns) / 1000000000;
	assert_true(owners.n_looks <= 1 + seconds);
}

/* From outside a chroot its device files have longer names. */
static void test_device_in_a_chroot(void **state)
{
	static const struct gpu_files files = { "/dev/nvidia", 1 }, others = { "/dev/nvidia", 2 };
	const struct tree *t = *state;
	char jail[128];
	struct proc_key key;

	run("mkdir -p '%s/jail/dev' && ln -s /dev/null '%s/jail/dev/nvidia0'", t->path, t->path);
	snprintf(jail, sizeof(jail), "%s/jail/dev/nvidia0", t->path);
	put_process(t, 100, 100, jail);
	assert_true(find_owner(t, 100, &files, &key));
	assert_false(find_owner(t, 100, &others, &key)); /* a file of that name */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_owner, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_own_process_that_is_closed, open_tree,
						close_tree),
		cmocka_unit_test(test_whose_a_closed_process_is),
		cmocka_unit_test_setup_teardown(test_owners_are_remembered, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_one_look_for_all, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_device_in_a_chroot, open_tree, close_tree),
	};

	return cmocka_run_group_tests_name("sources_gpu_owner", tests, NULL, NULL);
}

#include "rpc_fixture.h"

#include "rpc/listen.h"

static void must_open(struct fixture *f, struct listener *ret)
{
	struct err err = ERR_INIT;

	if (listener_open(f->path, 0600, ret, &err) < 0)
		fail_msg("%s", err.text);
}

/* It fails so, and err has this part. */
static void assert_refused(const char *path, int error, const char *part)
{
	struct listener l = LISTENER_INIT;
	struct err err = ERR_INIT;
	int r = listener_open(path, 0600, &l, &err);

	if (r != error || !strstr(err.text, part))
		fail_msg("%d, %s", r, err.text);
	assert_int_equal(l.fd, -1);
}

/* A socket at the path that was made without any care. */
static int bind_plain(const char *path, bool is_listening)
{
	struct address address;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(address_of_path(path, &address, NULL), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address.un, address.len), 0);
	if (is_listening)
		assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static bool can_connect(const char *path)
{
	struct address address;
	int fd;

	assert_int_equal(address_of_path(path, &address, NULL), 0);
	fd = address_connect(&address);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void test_mode(void **state)
{
	static const mode_t umasks[] = { 0, 022, 077, 0777 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(umasks); i++) {
		struct listener l = LISTENER_INIT;
		mode_t before = umask(umasks[i]);

		assert_int_equal(listener_open(f->path, 0666, &l, NULL), 0);
		assert_int_equal(mode_of(f->path), 0666);
		listener_close(&l);
		assert_int_equal(access(f->path, F_OK), -1);
		assert_int_equal(listener_open(f->path, 0600, &l, NULL), 0);
		assert_int_equal(mode_of(f->path), 0600);
		assert_true(can_connect(f->path));
		listener_close(&l);
		listener_close(&l);
		umask(before);
	}
}

static void test_stale_socket(void **state)
{
	struct fixture *f = *state;
	struct listener l = LISTENER_INIT;

	close(bind_plain(f->path, true));
	assert_false(can_connect(f->path));
	must_open(f, &l);
	assert_true(can_connect(f->path));
	listener_close(&l);
}

static void test_live_socket(void **state)
{
	struct fixture *f = *state;
	struct listener l = LISTENER_INIT;
	char who[64];
	int fd = bind_plain(f->path, true);

	snprintf(who, sizeof(who), "another daemon (pid %d) listens on ", (int)getpid());
	assert_refused(f->path, -EADDRINUSE, who); /* which knows nothing of our lock */
	assert_true(can_connect(f->path));
	close(fd);
	must_open(f, &l);
	assert_refused(f->path, -EADDRINUSE, who);
	assert_true(can_connect(f->path));
	/* Also when somebody has removed the socket: the lock tells. */
	assert_int_equal(unlink(f->path), 0);
	assert_refused(f->path, -EADDRINUSE, who);
	listener_close(&l);
	must_open(f, &l);
	listener_close(&l);
}

/* A server that is killed leaves a socket and a lock file; the next one takes both. */
static void test_killed_server(void **state)
{
	struct fixture *f = *state;
	struct raw c;
	int status;

	for (int i = 0; i < 3; i++) {
		start_server(f, NULL);
		assert_refused(f->path, -EADDRINUSE, "another daemon");
		assert_int_equal(kill(f->server, SIGKILL), 0);
		assert_int_equal(waitpid(f->server, &status, 0), f->server);
		assert_int_equal(access(f->path, F_OK), 0);
	}
	start_server(f, NULL);
	c = raw_open(f->path);
	assert_serves(&c);
	raw_close(&c);
}

static void test_what_is_not_a_socket(void **state)
{
	struct fixture *f = *state;
	char other[192];
	int fd;

	snprintf(other, sizeof(other), "%s/other", f->dir);
	assert_int_equal(symlink(other, f->path), 0); /* to nothing */
	assert_refused(f->path, -ELOOP, "is a symbolic link");
	assert_int_equal(access(other, F_OK), -1);
	fd = bind_plain(other, false);
	assert_refused(f->path, -ELOOP, "is a symbolic link"); /* to a stale socket */
	close(fd);
	assert_int_equal(access(other, F_OK), 0);
	unlink(f->path);

	close(open(f->path, O_CREAT | O_WRONLY, 0600));
	assert_refused(f->path, -EEXIST, "is not a socket");
	unlink(f->path);
	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_refused(f->path, -EEXIST, "is not a socket");
	rmdir(f->path);
}

static void test_lock_that_is_not_ours(void **state)
{
	struct fixture *f = *state;
	char lock[192], other[192];

	snprintf(lock, sizeof(lock), "%s.lock", f->path);
	snprintf(other, sizeof(other), "%s/other", f->dir);
	assert_int_equal(symlink(other, lock), 0);
	assert_refused(f->path, -ELOOP, lock);
	assert_int_equal(access(other, F_OK), -1);
	unlink(lock);
	assert_int_equal(mkfifo(lock, 0600), 0);
	assert_refused(f->path, -EPERM, "is not a file of this user");
	unlink(lock);
	if (geteuid() == 0) {
		close(open(lock, O_CREAT | O_WRONLY, 0666));
		assert_int_equal(chown(lock, NOBODY, NOBODY), 0);
		assert_refused(f->path, -EPERM, "is not a file of this user");
	}
}

static void test_folder(void **state)
{
	struct fixture *f = *state;
	struct listener l = LISTENER_INIT;
	char path[256];

	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_refused(f->path, -EPERM, "others may write into the folder");
	assert_int_equal(chmod(f->dir, 0770), 0);
	assert_refused(f->path, -EPERM, "others may write into the folder");
	assert_int_equal(chmod(f->dir, 01777), 0);
	must_open(f, &l);
	listener_close(&l);
	assert_int_equal(chmod(f->dir, 0700), 0);
	must_open(f, &l);
	listener_close(&l);

	snprintf(path, sizeof(path), "%s/none/proctor.sock", f->dir);
	assert_refused(path, -ENOENT, "cannot use the folder");
	snprintf(path, sizeof(path), "%s/proctor.sock.lock/proctor.sock", f->dir);
	assert_refused(path, -ENOTDIR, "folder");
	if (geteuid() == 0) {
		assert_int_equal(chown(f->dir, NOBODY, NOBODY), 0);
		assert_refused(f->path, -EPERM, "belongs to another user (uid 65534)");
	}
}

static void test_socket_of_another_user(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	close(bind_plain(f->path, true));
	assert_int_equal(lchown(f->path, NOBODY, NOBODY), 0);
	assert_refused(f->path, -EPERM, "belongs to another user (uid 65534)");
}

static void test_long_path(void **state)
{
	struct fixture *f = *state;
	struct listener l = LISTENER_INIT;
	char path[256];

	memset(path, 'x', sizeof(path));
	memcpy(path, f->dir, strlen(f->dir));
	path[strlen(f->dir)] = '/';
	path[108] = '\0';
	assert_refused(path, -ENAMETOOLONG,
		       "the path of the socket has 108 bytes, and a Unix socket's at most 107");
	path[107] = '\0';
	assert_int_equal(listener_open(path, 0600, &l, NULL), 0);
	listener_close(&l);
	assert_refused("", -ENOENT, "is empty");
}

/* What somebody has put into our place is not ours to remove. */
static void test_replaced_socket(void **state)
{
	struct fixture *f = *state;
	struct listener l = LISTENER_INIT;
	char moved[192];
	int fd;

	must_open(f, &l);
	snprintf(moved, sizeof(moved), "%s/moved", f->dir);
	assert_int_equal(rename(f->path, moved), 0);
	fd = bind_plain(f->path, true);
	listener_close(&l);
	assert_true(can_connect(f->path));
	close(fd);
}

/* Tries once, and holds on to it until the pipe is closed. Exits with 0 if it won. */
static void race(struct fixture *f, int go_fd, int done_fd)
{
	struct listener l = LISTENER_INIT;
	char byte;
	int r;

	CHILD_CHECK(read(go_fd, &byte, 1) == 0);
	r = listener_open(f->path, 0600, &l, NULL);
	CHILD_CHECK(r == 0 || r == -EADDRINUSE);
	CHILD_CHECK(write(done_fd, r == 0 ? "w" : "l", 1) == 1);
	if (r == 0)
		pause();
	_exit(0);
}

/* Of many that start at once one wins, over a stale socket too. */
static void test_race(void **state)
{
	enum { N_ROUNDS = 20, N_STARTERS = 8 };
	struct fixture *f = *state;

	for (int i = 0; i < N_ROUNDS; i++) {
		int go[2], done[2], n_winners = 0;
		pid_t pids[N_STARTERS];

		assert_int_equal(pipe(go), 0);
		assert_int_equal(pipe(done), 0);
		for (size_t k = 0; k < N_STARTERS; k++) {
			pids[k] = fork_child();
			if (pids[k] == 0) {
				close(go[1]);
				race(f, go[0], done[1]);
			}
		}
		close(go[0]);
		close(go[1]);
		for (size_t k = 0; k < N_STARTERS; k++) {
			char byte = 0;

			assert_int_equal(read(done[0], &byte, 1), 1);
			n_winners += byte == 'w';
		}
		assert_int_equal(n_winners, 1);
		assert_true(can_connect(f->path));
		for (size_t k = 0; k < N_STARTERS; k++) {
			kill(pids[k], SIGKILL); /* which leaves a stale socket for the next round */
			assert_int_equal(waitpid(pids[k], NULL, 0), pids[k]);
		}
		close(done[0]);
		close(done[1]);
	}
}

/* ---- a socket that was handed over ---- */

static void serve_inherited(int fd)
{
	struct service s = { .loop = loop_new() };
	struct rpc_options options = {
		.methods = test_methods,
		.n_methods = ARRAY_SIZE(test_methods),
		.ctx = &s,
	};
	struct err err = ERR_INIT;
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	CHILD_CHECK(fd == 3 || dup2(fd, 3) == 3);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	options.listen_fd = rpc_take_inherited_fd(&err);
	CHILD_CHECK(options.listen_fd == 3);
	CHILD_CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS"));
	CHILD_CHECK(rpc_take_inherited_fd(&err) == 0);
	CHILD_CHECK(rpc_server_new(s.loop, &options, &s.server, &err) == 0);
	CHILD_CHECK(fcntl(3, F_GETFD) & FD_CLOEXEC);
	loop_run(s.loop);
	rpc_server_free(s.server);
	loop_free(s.loop);
	_exit(0);
}

static void test_inherited_socket(void **state)
{
	struct fixture *f = *state;
	int fd = bind_plain(f->path, true);
	struct raw c;

	f->server = fork_child();
	if (f->server == 0)
		serve_inherited(fd);
	c = raw_open(f->path);
	assert_serves(&c);
	raw_close(&c);
	assert_int_equal(stop_server(f), 0);
	assert_int_equal(access(f->path, F_OK), 0); /* whose it is removes it */
	close(fd);
}

static void test_what_is_not_inherited(void **state)
{
	static const struct {
		const char *pid, *fds;
		int result;
	} rows[] = {
		{ NULL, NULL, 0 }, { "1", "1", 0 },    { "own", "0", 0 }, { "own", NULL, 0 },
		{ "own", "x", 0 }, { "own", "-1", 0 }, { "own", "1", 3 }, { "own", "2", -EINVAL },
	};
	struct listener l = LISTENER_INIT;
	char own[32];

	(void)state;
	snprintf(own, sizeof(own), "%d", (int)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].pid)
			setenv("LISTEN_PID", strcmp(rows[i].pid, "own") == 0 ? own : rows[i].pid,
			       1);
		if (rows[i].fds)
			setenv("LISTEN_FDS", rows[i].fds, 1);
		assert_int_equal(rpc_take_inherited_fd(NULL), rows[i].result);
	}
	assert_int_equal(listener_adopt(STDIN_FILENO, &l, NULL), -EINVAL);
	assert_int_equal(listener_adopt(-1, &l, NULL), -EINVAL);
	assert_int_equal(l.fd, -1);
}

int main(void)
{
#define LISTEN_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		LISTEN_TEST(test_mode),
		LISTEN_TEST(test_stale_socket),
		LISTEN_TEST(test_live_socket),
		LISTEN_TEST(test_killed_server),
		LISTEN_TEST(test_what_is_not_a_socket),
		LISTEN_TEST(test_lock_that_is_not_ours),
		LISTEN_TEST(test_folder),
		LISTEN_TEST(test_socket_of_another_user),
		LISTEN_TEST(test_long_path),
		LISTEN_TEST(test_replaced_socket),
		LISTEN_TEST(test_race),
		LISTEN_TEST(test_inherited_socket),
		cmocka_unit_test(test_what_is_not_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"

#include <signal.h>

#include "cli/cli.h"
#include "cli/output.h"

static void path_in(const struct fixture *f, const char *name, char ret[192])
{
	snprintf(ret, 192, "%s/%s", f->dir, name);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *path, const char *expected)
{
	char text[64] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(text, expected);
}

static int count_files(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int n = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.';
	closedir(d);
	return n;
}

static void test_file_is_whole_or_not_there(void **state)
{
	struct fixture *f = *state;
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	struct stat st;
	char path[192];

	path_in(f, "x.csv", path);
	must(output_open(&out, path, &err), &err);
	buf_add_str(&out.buf, "a\n");
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(output_end(&out, 0, &err), CLI_DONE);
	assert_file(path, "a\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	output_release(&out);
	assert_int_equal(count_files(f->dir), 1);
}

static void test_failure_leaves_what_was_there(void **state)
{
	struct fixture *f = *state;
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	char path[192];

	path_in(f, "x.csv", path);
	write_file(path, "old\n");
	must(output_open(&out, path, &err), &err);
	buf_add_str(&out.buf, "half");
	err_set(&err, -EBADMSG, "the test wants it to fail");
	assert_int_equal(output_end(&out, -EBADMSG, &err), CLI_FAILED);
	output_release(&out);
	assert_file(path, "old\n");
	assert_int_equal(count_files(f->dir), 1);
}

static void test_link_stays(void **state)
{
	struct fixture *f = *state;
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	char path[192], link_path[192];
	struct stat st;

	path_in(f, "real.csv", path);
	path_in(f, "link.csv", link_path);
	write_file(path, "old\n");
	assert_int_equal(symlink("real.csv", link_path), 0);
	must(output_open(&out, link_path, &err), &err);
	buf_add_str(&out.buf, "new\n");
	assert_int_equal(output_end(&out, 0, &err), CLI_DONE);
	output_release(&out);
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_file(path, "new\n");
}

/* Root would replace /dev/null for all if this took every name for a file's. */
static void test_devices_stay(void **state)
{
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	struct stat st;

	(void)state;
	must(output_open(&out, "/dev/null", &err), &err);
	buf_add_str(&out.buf, "x");
	assert_int_equal(output_end(&out, 0, &err), CLI_DONE);
	output_release(&out);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));

	must(output_open(&out, "/dev/full", &err), &err);
	buf_add_str(&out.buf, "x");
	assert_int_equal(output_end(&out, 0, &err), CLI_FAILED);
	assert_int_equal(err.code, -ENOSPC);
	output_release(&out);
}

static void test_folder_is_refused(void **state)
{
	struct fixture *f = *state;
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	char path[192];

	assert_int_equal(output_open(&out, f->dir, &err), -EISDIR);
	output_release(&out);
	path_in(f, "none/x.csv", path);
	assert_int_equal(output_open(&out, path, &err), -ENOENT);
	output_release(&out);
	assert_int_equal(count_files(f->dir), 0);
}

static void write_until_ended(const char *path)
{
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;
	int r = output_open(&out, path, &err);

	while (r == 0) {
		buf_printf(&out.buf, "%1000d\n", 1);
		r = output_pass(&out);
	}
	output_end(&out, r, &err);
	output_release(&out);
	_exit(7); /* the signal was to end us before */
}

static void test_signal_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	char path[192];
	int status = 0;
	pid_t pid;

	path_in(f, "x.csv", path);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		write_until_ended(path);
	while (count_files(f->dir) == 0)
		usleep(1000);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(count_files(f->dir), 0);
}

static void ignore_hangup(const char *path)
{
	struct output out = OUTPUT_INIT;
	struct err err = ERR_INIT;

	signal(SIGHUP, SIG_IGN);
	CHILD_CHECK(output_open(&out, path, &err) == 0);
	raise(SIGHUP);
	for (int i = 0; i < 100; i++) {
		buf_printf(&out.buf, "%10000d\n", i);
		CHILD_CHECK(output_pass(&out) == 0);
	}
	CHILD_CHECK(output_end(&out, 0, &err) == CLI_DONE);
	output_release(&out);
	_exit(0);
}

static void test_ignored_signal_is_ignored(void **state)
{
	struct fixture *f = *state;
	char path[192];
	int status = 0;
	pid_t pid;

	path_in(f, "x.csv", path);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		ignore_hangup(path);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(path, F_OK), 0);
}

#define OUTPUT_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OUTPUT_TEST(test_file_is_whole_or_not_there),
		OUTPUT_TEST(test_failure_leaves_what_was_there),
		OUTPUT_TEST(test_link_stays),
		OUTPUT_TEST(test_devices_stay),
		OUTPUT_TEST(test_folder_is_refused),
		OUTPUT_TEST(test_signal_leaves_nothing),
		OUTPUT_TEST(test_ignored_signal_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

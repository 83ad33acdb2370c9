#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"

struct folder {
	char dir[128];
};

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->dir, sizeof(f->dir), "%.90s/proctor-identity-XXXXXX", tmp ? tmp : "/tmp");
	*state = f;
	return mkdtemp(f->dir) ? 0 : -1;
}

static void path_in(const struct folder *f, const char *name, char ret[256])
{
	snprintf(ret, 256, "%s/%s", f->dir, name);
}

static int teardown(void **state)
{
	struct folder *f = *state;
	char path[256];

	path_in(f, "a", path);
	unlink(path);
	path_in(f, "b", path);
	unlink(path);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void write_file(const struct folder *f, const char *name, size_t size)
{
	char path[256];
	int fd;

	path_in(f, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static struct job_input measure(const struct folder *f, const char *const *argv)
{
	const struct sheet_spec sheet = { .num = 1, .argv = argv, .workdir = f->dir, .ranks = 1 };
	const struct job_spec spec = { .sheets = &sheet, .n_sheets = 1 };

	return job_spec_measure_input(&spec);
}

static void test_files_are_the_input(void **state)
{
	const char *both[] = { "train", "a", "--data=b", "--verbose", "no-such-file", ".", NULL };
	const char *none[] = { "a", "--verbose", NULL }; /* the program is no input */
	struct folder *f = *state;
	struct job_input before, after;
	char path[256];
	const struct timespec times[2] = { { 1000, 5 }, { 1000, 5 } };

	write_file(f, "a", 1000);
	write_file(f, "b", 24);
	before = measure(f, both);
	assert_int_equal(before.bytes, 1024);
	after = measure(f, both);
	assert_true(before.hash == after.hash && before.hash != 0);
	path_in(f, "a", path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0); /* as if it were written again */
	after = measure(f, both);
	assert_int_equal(after.bytes, 1024);
	assert_true(before.hash != after.hash);
	after = measure(f, none);
	assert_false(u64_known(after.bytes));
	assert_int_equal(after.hash, 0);
}

static uint64_t hash_of(const char *const *argv, int ranks)
{
	const struct sheet_spec sheet = { .num = 1, .argv = argv, .ranks = ranks };
	const struct job_spec spec = { .sheets = &sheet, .n_sheets = 1 };

	return job_spec_hash(&spec, NULL);
}

static void test_commands_are_told_apart(void **state)
{
	const char *one[] = { "a b", NULL }, *two[] = { "a", "b", NULL };

	(void)state;
	assert_true(hash_of(one, 1) != hash_of(two, 1));
	assert_true(hash_of(two, 1) == hash_of(two, 1));
	assert_true(hash_of(two, 1) != hash_of(two, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_are_the_input, setup, teardown),
		cmocka_unit_test(test_commands_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "sources/rank_env.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "base/io.h"
#include "base/macros.h"
#include "model/snapshot.h"

/* Entries with a blank between two. */
static struct rank_env scan(const char *entries)
{
	struct rank_env_scan s;

	rank_env_begin(&s);
	while (*entries) {
		size_t n = strcspn(entries, " ");

		rank_env_take(&s, entries, n);
		entries += n + strspn(entries + n, " ");
	}
	return rank_env_end(&s);
}

static void assert_env(const char *entries, int rank, int local_rank, int world_size)
{
	struct rank_env env = scan(entries);

	assert_int_equal(env.rank, rank);
	assert_int_equal(env.local_rank, local_rank);
	assert_int_equal(env.world_size, world_size);
}

static void test_launchers(void **state)
{
	(void)state;
	assert_env("RANK=5 LOCAL_RANK=1 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=x", 5, 1, 8);
	assert_env("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=4", 3,
		   1, 4);
	assert_env("PMI_RANK=2 PMI_SIZE=3", 2, -1, 3);
	assert_env("PMIX_RANK=7", 7, -1, -1);
	assert_env("SLURM_JOB_ID=99 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NTASKS=2", 1, 0, 2);
	assert_env("PROCTOR_RANK=0 RANK=0 LOCAL_RANK=0 WORLD_SIZE=8", 0, 0, 8);
}

static void test_who_is_no_rank(void **state)
{
	(void)state;
	assert_env("", -1, -1, -1);
	assert_env("RANK=5 LOCAL_RANK=1 WORLD_SIZE=8", 5, 1, 8);
	assert_env("RANK=5 WORLD_SIZE=8", 5, -1, 8);
	/* anybody uses these words */
	assert_env("RANK=5 LOCAL_RANK=1", -1, -1, -1);
	assert_env("RANK=8 WORLD_SIZE=8", -1, -1, -1);
	assert_env("RANK=gold WORLD_SIZE=8", -1, -1, -1);
	assert_env("RANK=1 WORLD_SIZE=large", -1, -1, -1);
	assert_env("SLURM_PROCID=1 SLURM_NTASKS=2", -1, -1, -1);
	assert_env("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4", -1, -1, -1);
	assert_env("PMIX_RANKS=1 XPMIX_RANK=1 PMIX_RANK", -1, -1, -1);
	assert_env("PMIX_RANK= PMI_RANK=-1", -1, -1, -1);
	assert_env("PMIX_RANK=99999999999999999999 PMI_RANK=1x", -1, -1, -1);
	assert_env("PMIX_RANK=2147483647", -1, -1, -1);
	assert_env("=1 == =PMIX_RANK=1", -1, -1, -1);
}

/* What makes no sense is named; what is not there, or is nobody's, is not. */
static void test_odd_variables(void **state)
{
	(void)state;
	assert_string_equal(scan("PMI_RANK=-1 PMI_SIZE=4").odd, "PMI_RANK");
	assert_string_equal(scan("RANK=8 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=x").odd, "RANK");
	assert_string_equal(scan("RANK=one WORLD_SIZE=8 TORCHELASTIC_RUN_ID=x").odd, "RANK");
	assert_string_equal(scan("RANK=1 WORLD_SIZE=many TORCHELASTIC_RUN_ID=x").odd, "WORLD_SIZE");
	assert_int_equal(scan("RANK=1 WORLD_SIZE=many TORCHELASTIC_RUN_ID=x").rank, 1);
	assert_string_equal(scan("RANK=0 WORLD_SIZE=0 TORCHELASTIC_RUN_ID=x").odd, "WORLD_SIZE");
	assert_null(scan("RANK=-1 WORLD_SIZE=many").odd);
	assert_null(scan("RANK=1 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=x").odd);
	assert_null(scan("PMIX_RANK=3").odd);
	assert_null(scan("SLURM_JOB_ID=3 SLURM_NTASKS=2").odd);
}

static void test_launchers_in_each_other(void **state)
{
	(void)state;
	assert_env("SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=1 OMPI_COMM_WORLD_RANK=3 "
		   "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3",
		   3, 3, 4);
	/* srun with PMIx: the same ranks, and one of the two says how many there are. */
	assert_env("PMIX_RANK=1 SLURM_JOB_ID=1 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NTASKS=2", 1, 0,
		   2);
	assert_env("PMIX_RANK=5 SLURM_JOB_ID=1 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NTASKS=2", 5,
		   -1, -1);
	assert_env("PMIX_RANK=1 PMIX_RANK=2", 1, -1, -1);
}

/* ---- files ---- */

/* A folder proc with process 42 in it, whose environment this is. */
static int make_proc(char *folder, const char *bytes, size_t n)
{
	int proc_fd, fd;

	assert_non_null(mkdtemp(folder));
	proc_fd = open(folder, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(proc_fd, "42", 0700), 0);
	fd = openat(proc_fd, "42/environ", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(io_write_all(fd, bytes, n), 0);
	close(fd);
	return proc_fd;
}

static void remove_proc(const char *folder, int proc_fd)
{
	unlinkat(proc_fd, "42/environ", 0);
	unlinkat(proc_fd, "42", AT_REMOVEDIR);
	rmdir(folder);
	close(proc_fd);
}

static struct rank_env read_file(const char *bytes, size_t n, size_t room)
{
	char folder[] = "/tmp/rank-env-XXXXXX", *text = malloc(room);
	int proc_fd = make_proc(folder, bytes, n);
	struct rank_env env = rank_env_read(proc_fd, 42, text, room);

	for (size_t i = 0; i < room; i++)
		assert_int_equal(text[i], 0); /* nothing stays */
	free(text);
	remove_proc(folder, proc_fd);
	return env;
}

static void assert_sheet(const char *bytes, size_t n, const char *job_id, int sheet)
{
	char folder[] = "/tmp/rank-env-XXXXXX", text[64];
	int proc_fd = make_proc(folder, bytes, n);

	assert_int_equal(rank_env_read_sheet(proc_fd, 42, job_id, text, sizeof(text)), sheet);
	remove_proc(folder, proc_fd);
}

/* Of the job that is asked about alone: a job may start another. */
static void test_sheets(void **state)
{
	static const char plain[] = "PROCTOR_JOB_ID=a\0PROCTOR_SHEET=3";
	static const char other[] = "PROCTOR_SHEET=3\0PROCTOR_JOB_ID=ab";
	static const char none[] = "PROCTOR_JOB_ID=a\0PROCTOR_SHEET=0";
	static const char nobody[] = "PROCTOR_SHEET=3";

	(void)state;
	assert_sheet(plain, sizeof(plain), "a", 3);
	assert_sheet(other, sizeof(other), "a", SHEET_NONE);
	assert_sheet(other, sizeof(other), "ab", 3);
	assert_sheet(none, sizeof(none), "a", SHEET_NONE);
	assert_sheet(nobody, sizeof(nobody), "a", SHEET_NONE);
}

/* The interesting ones at every place relative to the end of the room. */
static void test_entries_across_reads(void **state)
{
	static const char wanted[] = "PMI_RANK=2\0PMI_SIZE=3";
	char bytes[400];

	(void)state;
	for (size_t before = 2; before < 200; before++) {
		memset(bytes, 'a', before);
		bytes[1] = '=';
		bytes[before - 1] = '\0';
		memcpy(bytes + before, wanted, sizeof(wanted));
		assert_int_equal(read_file(bytes, before + sizeof(wanted), 64).rank, 2);
		assert_int_equal(read_file(bytes, before + sizeof(wanted), 64).world_size, 3);
		/* And where the last NUL was overwritten. */
		assert_int_equal(read_file(bytes, before + sizeof(wanted) - 1, 64).world_size, 3);
	}
}

/* The middle of a long value is no variable. */
static void test_a_long_value_is_passed_over(void **state)
{
	char bytes[300];

	(void)state;
	for (size_t at = 60; at < 70; at++) {
		memset(bytes, 'L', sizeof(bytes));
		bytes[1] = '=';
		memcpy(bytes + at, "PMIX_RANK=1", 12);
		assert_int_equal(read_file(bytes, at + 12, 64).rank, RANK_NONE);
		memcpy(bytes + at + 12, "PMIX_RANK=4", 12);
		assert_int_equal(read_file(bytes, at + 24, 64).rank, 4);
	}
}

static void test_an_endless_environment(void **state)
{
	size_t n = RANK_ENV_MAX_BYTES + 4096;
	CLEANUP(free_ptr) char *bytes = malloc(n);

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 'x', n);
	memcpy(bytes + n - 13, "\0PMIX_RANK=1", 13);
	assert_int_equal(read_file(bytes, n, 4096).rank, RANK_NONE);
}

static void test_nothing_to_read(void **state)
{
	CLEANUP(close_fd) int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	char text[64] = "";

	(void)state;
	assert_int_equal(rank_env_read(fd, 999999999, text, sizeof(text)).rank, RANK_NONE);
	assert_int_equal(read_file("", 0, 64).rank, RANK_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launchers),
		cmocka_unit_test(test_who_is_no_rank),
		cmocka_unit_test(test_odd_variables),
		cmocka_unit_test(test_launchers_in_each_other),
		cmocka_unit_test(test_sheets),
		cmocka_unit_test(test_entries_across_reads),
		cmocka_unit_test(test_a_long_value_is_passed_over),
		cmocka_unit_test(test_an_endless_environment),
		cmocka_unit_test(test_nothing_to_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * bench_log - what the record of a short run costs: a log of its own (a number, a file, four
 * frames, the end, syncs) beside the same in a database (a beginning and an end), for one run after
 * the other and for 40 at once. In the folder that TMPDIR says, so other file systems can be tried.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "log/log.h"
#include "store/store.h"

#define N_RUNS 200
#define N_AT_ONCE 40
#define RUNS_EACH 10
#define FRAME_BYTES 300

struct bench {
	char dir[200], db[220];
	int dir_fd, numbers_fd;
};

typedef void record_fn(const struct bench *b);

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void must(int r, const struct err *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench_log: %s\n", err->text);
	_exit(1);
}

static void record_log(const struct bench *b)
{
	struct log_options options = { .end_bytes = 4000 };
	const struct log_fs fs = log_fs_real(b->dir_fd);
	char bytes[FRAME_BYTES] = { 0 };
	struct log_writer *w;
	struct err err = ERR_INIT;
	int num;

	must(log_take_number(b->numbers_fd, "bench", &num, &err), &err);
	must(log_id_make(&options.origin.id), &err);
	must(log_create(&fs, &options, &w, &err), &err);
	for (int i = 0; i < 4; i++)
		must(log_append(w, 1, i == 0 ? LOG_KEY : 0, bytes, sizeof(bytes), &err), &err);
	must(log_end(w, bytes, sizeof(bytes), &err), &err);
	log_writer_free(w);
}

static void record_database(const struct bench *b)
{
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	struct store *store;

	attempt_init(&a);
	a.job_id = "bench";
	a.command = "true";
	must(store_open(b->db, STORE_WRITE, &store, &err), &err);
	must(store_begin_attempt(store, &a, &err), &err);
	a.is_running = false;
	a.outcome = OUTCOME_SUCCESS;
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	store_close(store);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, const char *how, double *ms, size_t n)
{
	qsort(ms, n, sizeof(*ms), compare);
	printf("{\"bench\": \"log\", \"what\": \"%s\", \"runs\": \"%s\", \"median_ms\": %.3f, "
	       "\"p95_ms\": %.3f}\n",
	       name, how, ms[n / 2], ms[n * 95 / 100]);
}

static void measure(const struct bench *b, const char *name, record_fn *record)
{
	size_t bytes = sizeof(double) * N_AT_ONCE * RUNS_EACH;
	double *ms = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double one[N_RUNS];

	if (ms == MAP_FAILED)
		_exit(1);
	record(b);
	for (int i = 0; i < N_RUNS; i++) {
		double before = now_ms();

		record(b);
		one[i] = now_ms() - before;
	}
	print(name, "one after the other", one, N_RUNS);
	fflush(stdout);
	for (int k = 0; k < N_AT_ONCE; k++) {
		if (fork() != 0)
			continue;
		for (int i = 0; i < RUNS_EACH; i++) {
			double before = now_ms();

			record(b);
			ms[k * RUNS_EACH + i] = now_ms() - before;
		}
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	print(name, "40 at once", ms, N_AT_ONCE * RUNS_EACH);
	munmap(ms, bytes);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char command[256];
	struct bench b;

	snprintf(b.dir, sizeof(b.dir), "%s/bench-log-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(b.dir))
		return 1;
	snprintf(b.db, sizeof(b.db), "%s/proctor.db", b.dir);
	b.numbers_fd = open(b.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	b.dir_fd = b.numbers_fd;
	measure(&b, "log", record_log);
	measure(&b, "database", record_database);
	snprintf(command, sizeof(command), "rm -rf %s", b.dir);
	return system(command) == 0 ? 0 : 1;
}

/*
 * bench_log - what the record of a short run costs: a log of its own (a number, a file, four
 * frames, the end, syncs) beside the same in a database (a beginning and an end), for one run after
 * the other and for 40 at once; and what a tick of many processes costs in both. In the folder that
 * TMPDIR says, so other file systems can be tried.
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
#include "made_up.h"
#include "model/tick_record.h"
#include "store/store.h"
#include "store_writer.h"

#define N_RUNS 200
#define N_AT_ONCE 40
#define RUNS_EACH 10
#define FRAME_BYTES 300
#define N_PROCESSES 1000
#define N_TICKS 600
#define KEY_EVERY 60

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

	must(log_take_number(b->numbers_fd, "bench", 0, &num, &err), &err);
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

/* ---- ticks ---- */

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Written as a frame, read from it again, and into a database: the time on a CPU. */
static void measure_ticks(const struct bench *b)
{
	CLEANUP(snapshot_release) struct snapshot snap, decoded;
	CLEANUP(buf_release) struct buf frame = BUF_INIT;
	struct tick_writer *writer = tick_writer_new();
	struct tick_decoder *decoder = tick_decoder_new();
	double write_ns = 0, read_ns = 0, store_ns = 0, bytes = 0, n = N_PROCESSES * N_TICKS;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct attempt a;
	unsigned seed = 1;

	attempt_init(&a);
	a.job_id = JOB;
	a.command = "bench";
	must(store_open(b->db, STORE_WRITE, &store, &err), &err);
	must(store_begin_attempt(store, &a, &err), &err);
	snapshot_init(&snap);
	snapshot_init(&decoded);
	for (unsigned i = 0; i < N_PROCESSES; i++)
		begin_process(snapshot_add_process(&snap), i);
	for (unsigned k = 0; k < N_TICKS; k++) {
		struct series_point point = { .rss_bytes = k, .cpu_percent = k };
		double times[4];

		go_on_all(&snap, UINT64_C(1700000000000000000), k, &seed);
		point.wall_ns = snap.wall_ns;
		times[0] = cpu_ns();
		if (k % KEY_EVERY == 0)
			tick_writer_begin_key(writer);
		must(tick_writer_write(writer, &snap, &point, &frame), &err);
		times[1] = cpu_ns();
		if (k % KEY_EVERY == 0)
			tick_decoder_begin_key(decoder);
		must(tick_decoder_read(decoder, frame.data, frame.len, a.job_id, &decoded, &point),
		     &err);
		times[2] = cpu_ns();
		must(store_write_tick(store, &a, &decoded, &point, &err), &err);
		times[3] = cpu_ns();
		write_ns += times[1] - times[0];
		read_ns += times[2] - times[1];
		store_ns += times[3] - times[2];
		bytes += (double)frame.len;
	}
	printf("{\"bench\": \"log\", \"what\": \"ticks of %d processes\", \"key_every\": %d, "
	       "\"bytes_per_sample\": %.1f, \"write_ns_per_sample\": %.0f, "
	       "\"read_ns_per_sample\": %.0f, \"store_ns_per_sample\": %.0f}\n",
	       N_PROCESSES, KEY_EVERY, bytes / n, write_ns / n, read_ns / n, store_ns / n);
	tick_writer_free(writer);
	tick_decoder_free(decoder);
	store_close(store);
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
	measure_ticks(&b);
	snprintf(command, sizeof(command), "rm -rf %s", b.dir);
	return system(command) == 0 ? 0 : 1;
}

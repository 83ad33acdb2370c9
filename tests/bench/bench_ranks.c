/*
 * bench_ranks - telemetry of many ranks: checking, reading, merging and analysing it.
 *
 * Beside it the floor (reading the same file and finding its line ends) and a peer: what
 * Python's json.loads() alone takes for the same lines, which the reference does before it
 * validates or analyses anything. The same records once more with what proctor notes of clocks, of
 * four hosts in turn. Last, 64 ranks with 100,000 samples each, through a pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/macros.h"
#include "crossrank/crossrank.h"

#define RANKS 8
#define SAMPLES 37500 /* of each: 300,000 records */
#define MANY_RANKS 64
#define MANY_SAMPLES 100000
#define CHUNK (1 << 20)

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench_ranks: %s: %s\n", what, strerror(-r));
	exit(1);
}

static double cpu_seconds(void)
{
	return (double)clock_cpu_ns() / 1e9;
}

/* ---- records as the reference writes them ---- */

static void add_clock(struct buf *out, int host)
{
	buf_printf(out,
		   "\"measure\": \"rss\", \"shared_pages\": \"once\", "
		   "\"boot_id\": \"db53dd83-655b-497a-b25b-9074c757780%d\", "
		   "\"clock_synchronised\": true, \"clock_error_ns\": %d",
		   host, 1000000 + host);
}

static void add_record(struct buf *out, int rank, int n_ranks, long i, bool has_clock)
{
	long rise = i - 20000 - (rank == 3 ? 0 : 20);
	long long used = 8000000000LL + i * 7919 % 20011 * 1009 + (rise > 0 ? rise * 20000LL : 0);

	buf_printf(out,
		   "{\"schema_version\": 2, \"timestamp_ns\": %lld, \"event_type\": \"sample\", "
		   "\"collector\": \"stormlog.cuda_tracker\", \"sampling_interval_ms\": 100, "
		   "\"pid\": %d, \"host\": \"node-%d\", \"job_id\": \"train-42\", \"rank\": %d, "
		   "\"local_rank\": %d, \"world_size\": %d, \"device_id\": %d, "
		   "\"allocator_allocated_bytes\": %lld, \"allocator_reserved_bytes\": %lld, "
		   "\"allocator_active_bytes\": null, \"allocator_inactive_bytes\": null, "
		   "\"allocator_change_bytes\": -12345, \"device_used_bytes\": %lld, "
		   "\"device_free_bytes\": %lld, \"device_total_bytes\": 85899345920, "
		   "\"context\": null, \"metadata\": {",
		   1700000000000000000LL + i * 100000000LL + rank * 1000, 1000 + rank, rank / 8,
		   rank, rank % 8, n_ranks, rank % 8, used - 300000000, used - 100000000, used,
		   85899345920LL - used);
	if (has_clock)
		add_clock(out, rank / 2);
	buf_add_str(out, "}}\n");
}

static void write_records(int fd, int n_ranks, long n_samples, bool has_clock)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	for (long i = 0; i < n_samples; i++)
		for (int rank = 0; rank < n_ranks; rank++) {
			add_record(&text, rank, n_ranks, i, has_clock);
			if (text.len < CHUNK)
				continue;
			must(io_write_all(fd, text.data, text.len), "writing");
			buf_reset(&text);
		}
	must(io_write_all(fd, text.data, text.len), "writing");
}

static int refuse(void *ctx, const struct fault *fault)
{
	(void)ctx;
	fprintf(stderr, "bench_ranks: line %llu: %s\n", (unsigned long long)fault->line,
		reason_name(fault->reason));
	return -1;
}

/* ---- one file ---- */

static int open_again(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	must(fd, path);
	return fd;
}

static double measure_floor(const char *path)
{
	static char chunk[CHUNK];
	CLEANUP(close_fd) int fd = open_again(path);
	double before = cpu_seconds();
	size_t n_lines = 0;
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		for (char *s = chunk; (s = memchr(s, '\n', (size_t)(chunk + n - s))); s++)
			n_lines++;
	if (n_lines != RANKS * SAMPLES)
		must(-EIO, "reading back");
	return cpu_seconds() - before;
}

static double measure_reading(const char *path, struct telemetry *t)
{
	struct err err = ERR_INIT;
	struct intake in;
	double before = cpu_seconds();

	intake_init(&in, t, refuse, NULL);
	must(intake_read(&in, path, &err), err.text);
	intake_release(&in);
	return cpu_seconds() - before;
}

static int count_point(void *ctx, const struct timeline_point *p)
{
	*(__int128 *)ctx += p->aligned_ns;
	return 0;
}

static void add_rate(struct json *j, const char *key, double n, double seconds)
{
	json_key_f64(j, key, n / seconds);
}

/* Returns the events per second from the file to the finding. */
static double bench_file(const char *path, struct json *j)
{
	double n = RANKS * SAMPLES, check, reading, sorting, merging, analysing, before;
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;
	__int128 sum = 0;

	if (!t)
		must(-ENOMEM, "telemetry_new");
	add_rate(j, "floor_lines_per_second", n, measure_floor(path));
	check = measure_reading(path, NULL);
	reading = measure_reading(path, t);
	before = cpu_seconds();
	must(rank_analysis_init(&a, t), "analysis_init");
	sorting = cpu_seconds() - before;
	before = cpu_seconds();
	must(analysis_walk_timeline(&a, count_point, &sum), "walk");
	merging = cpu_seconds() - before;
	before = cpu_seconds();
	must(rank_analysis_run(&a, EVENT_UNKNOWN), "rank_analysis_run");
	analysing = cpu_seconds() - before;
	add_rate(j, "check_events_per_second", n, check);
	add_rate(j, "read_events_per_second", n, reading);
	add_rate(j, "merge_events_per_second", n, sorting + merging);
	add_rate(j, "analyse_events_per_second", n, sorting + analysing);
	add_rate(j, "end_to_end_events_per_second", n, reading + sorting + analysing);
	rank_analysis_release(&a);
	telemetry_free(t);
	return n / (reading + sorting + analysing);
}

/* The same records with the clocks of four hosts; t is let go of before the peak counts. */
static void bench_clocks(const char *path, struct json *j)
{
	struct telemetry *t = telemetry_new();
	double n = RANKS * SAMPLES;

	if (!t)
		must(-ENOMEM, "telemetry_new");
	add_rate(j, "clock_check_events_per_second", n, measure_reading(path, NULL));
	add_rate(j, "clock_read_events_per_second", n, measure_reading(path, t));
	telemetry_free(t);
}

static void make_file(char *path, bool has_clock)
{
	int fd = mkstemp(path);

	must(fd, path);
	write_records(fd, RANKS, SAMPLES, has_clock);
	close(fd);
}

/* 0 where there is no Python. */
static double measure_python(const char *path)
{
	char command[512];
	double rate = 0;
	FILE *out;

	snprintf(command, sizeof(command),
		 "python3 -c 'import json, sys, time\n"
		 "lines = open(sys.argv[1]).readlines()[:50000]\n"
		 "before = time.process_time()\n"
		 "for line in lines: json.loads(line)\n"
		 "print(len(lines) / (time.process_time() - before))' %s 2>/dev/null",
		 path);
	out = popen(command, "r");
	if (out && fscanf(out, "%lf", &rate) != 1)
		rate = 0;
	if (out)
		pclose(out);
	return rate;
}

/* ---- very many, through a pipe ---- */

static double peak_bytes(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss * 1024;
}

static void analyse_pipe(int fd, struct json *j)
{
	double n = (double)MANY_RANKS * MANY_SAMPLES, cpu = cpu_seconds();
	double wall = (double)clock_boot_ns() / 1e9, before = peak_bytes();
	struct telemetry *t = telemetry_new();
	struct err err = ERR_INIT;
	struct rank_analysis a;
	struct intake in;

	intake_init(&in, t, refuse, NULL);
	must(intake_read_fd(&in, fd, "pipe.jsonl", &err), err.text);
	intake_release(&in);
	must(rank_analysis_init(&a, t), "analysis_init");
	must(rank_analysis_run(&a, EVENT_UNKNOWN), "rank_analysis_run");
	json_key_f64(j, "many_events", n);
	json_key_f64(j, "many_cpu_seconds", cpu_seconds() - cpu);
	json_key_f64(j, "many_wall_seconds", (double)clock_boot_ns() / 1e9 - wall);
	add_rate(j, "many_events_per_cpu_second", n, cpu_seconds() - cpu);
	json_key_f64(j, "many_peak_bytes_per_event", (peak_bytes() - before) / n);
	json_key_f64(j, "many_peak_rss_mb", peak_bytes() / 1048576);
	json_key_string(j, "many_verdict", finding_verdict_name(verdict_of(a.finding->why)));
	rank_analysis_release(&a);
	telemetry_free(t);
}

static void bench_many(struct json *j)
{
	int fds[2];

	must(pipe2(fds, O_CLOEXEC), "pipe");
	if (fork() == 0) {
		close(fds[0]);
		write_records(fds[1], MANY_RANKS, MANY_SAMPLES, false);
		_exit(0);
	}
	close(fds[1]);
	analyse_pipe(fds[0], j);
	wait(NULL);
}

int main(void)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	char path[] = "/tmp/proctor-bench-XXXXXX", clock_path[] = "/tmp/proctor-bench-XXXXXX";
	double rate, python;
	struct json j;

	make_file(path, false);
	make_file(clock_path, true);
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "ranks");
	json_key_u64(&j, "events", RANKS * SAMPLES);
	rate = bench_file(path, &j);
	python = measure_python(path);
	json_key_f64(&j, "peer_python_json_loads_per_second", python);
	json_key_f64(&j, "times_python_json_loads", python > 0 ? rate / python : NAN);
	bench_clocks(clock_path, &j);
	unlink(path);
	unlink(clock_path);
	bench_many(&j);
	json_end_object(&j);
	puts(out.data);
	return 0;
}

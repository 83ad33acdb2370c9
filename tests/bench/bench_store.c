/*
 * bench_store - what storing costs: ticks, a whole empty run, the end of a run
 * with very many processes, and reading back a long one. Beside it the floor: as many bytes
 * appended to a plain file and made durable.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/store.h"

#define N_PROCESSES 100
#define N_TICKS 600
#define N_SAMPLES (N_PROCESSES * N_TICKS)
#define N_RUNS 50
#define N_RECORDS 50000
#define LONG_TICKS 17280 /* 24 hours at 5 s */
#define LONG_PROCESSES 50
#define JOB "bench"
#define LONG_JOB "long"

static double now_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void must(int r, const struct err *err)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_store: %s\n", err->text);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double *values, size_t n, double q)
{
	qsort(values, n, sizeof(*values), compare);
	return values[(size_t)(q * (double)(n - 1))];
}

/* What a folder of ours holds. */
static const char *const names[] = { "proctor.db", "proctor.db-wal", "proctor.db-shm", "floor" };

static void remove_folder(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[192];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* ---- data: of the processes 30 % are active, as on a busy host ---- */

static void begin_process(struct proc_sample *p, unsigned i)
{
	p->key = (struct proc_key){ (pid_t)(20000 + i), 1000000 + i };
	p->ppid = 20000;
	p->state = 'S';
	snprintf(p->comm, sizeof(p->comm), "worker-%u", i);
	p->command = "python3 /srv/pipeline/worker.py --queue default --concurrency 4";
	p->cgroup = "/user.slice/user-1000.slice/session-3.scope";
	p->job_id = JOB;
	p->sheet_num = 1;
	p->start_wall_ns = UINT64_C(1700000000000000000) + i;
	p->uid = 1000;
	p->ns_pid = 20000 + i;
	p->vms_bytes = UINT64_C(512) << 20;
	p->rss_bytes = p->hwm_bytes = (UINT64_C(20) << 20) + i * 4096;
	p->rss_anon_bytes = p->rss_bytes / 2;
	p->rss_file_bytes = p->rss_bytes / 2;
	p->rss_shmem_bytes = p->swap_bytes = p->major_faults = 0;
	p->cpu_ns = p->user_ns = p->system_ns = p->child_user_ns = p->child_system_ns = 0;
	p->rchar = p->wchar = p->syscr = p->syscw = p->read_bytes = p->write_bytes = 0;
	p->minor_faults = p->voluntary_switches = p->involuntary_switches = 0;
	p->threads = 4;
	p->open_fds = 32;
	p->fd_limit = 1024;
}

static void go_on(struct proc_sample *p, uint64_t boot_ns, unsigned *seed)
{
	unsigned x = (unsigned)rand_r(seed);

	p->boot_ns = boot_ns + x % 50000;
	p->age_seconds = (double)p->boot_ns / 1e9;
	p->cpu_percent = 0;
	if (x % 10 >= 3)
		return;
	p->cpu_percent = (double)(x % 1000) / 10.0;
	p->cpu_ns += (x % 107) * UINT64_C(10000019);
	p->user_ns += (x % 100) * UINT64_C(10000000);
	p->system_ns += (x % 7) * UINT64_C(10000000);
	p->rss_bytes += (x % 64) * UINT64_C(4096);
	p->hwm_bytes = u64_max_known(p->hwm_bytes, p->rss_bytes);
	p->rss_anon_bytes += (x % 64) * UINT64_C(4096);
	p->rchar += x % 100000;
	p->wchar += x % 50000;
	p->syscr += x % 100;
	p->syscw += x % 50;
	p->write_bytes += (x % 16) * UINT64_C(4096);
	p->minor_faults += x % 500;
	p->voluntary_switches += x % 300;
	p->involuntary_switches += x % 20;
}

static void begin_attempt(struct store *store, const char *job_id, struct attempt *a)
{
	struct err err = ERR_INIT;

	attempt_init(a);
	a->job_id = job_id;
	a->command = "bench";
	a->interval_seconds = 1;
	a->started_wall_ns = UINT64_C(1700000000000000000);
	a->total_sheets = 1;
	must(store_begin_attempt(store, a, &err), &err);
}

/* ---- measurements ---- */

static void bench_ticks(const char *db, struct json *j)
{
	static double wall_us[N_TICKS];
	CLEANUP(snapshot_release) struct snapshot snap;
	struct store *store = NULL;
	struct attempt a;
	struct err err = ERR_INIT;
	unsigned seed = 1;
	double cpu_us = 0;

	must(store_open(db, STORE_WRITE, &store, &err), &err);
	begin_attempt(store, JOB, &a);
	snapshot_init(&snap);
	for (unsigned i = 0; i < N_PROCESSES; i++)
		begin_process(snapshot_add_process(&snap), i);
	for (unsigned k = 0; k < N_TICKS; k++) {
		struct series_point point = { .rss_bytes = k, .cpu_percent = k };
		double cpu_before, before;

		snap.wall_ns = point.wall_ns = a.started_wall_ns + k * UINT64_C(1000000000);
		snap.boot_ns = k * UINT64_C(1000000000);
		for (unsigned i = 0; i < N_PROCESSES; i++)
			go_on(&snap.processes[i], snap.boot_ns, &seed);
		before = now_us(CLOCK_MONOTONIC);
		cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
		must(store_write_tick(store, &a, &snap, &point, NULL, 0, &err), &err);
		cpu_us += now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
		wall_us[k] = now_us(CLOCK_MONOTONIC) - before;
	}
	store_close(store);
	json_key_f64(j, "cpu_us_per_sample", cpu_us / N_SAMPLES);
	json_key_f64(j, "tick_p50_us", quantile(wall_us, N_TICKS, 0.5));
	json_key_f64(j, "tick_p99_us", quantile(wall_us, N_TICKS, 0.99));
}

/* The database with what its log holds. Its last writer has left, so the log is short. */
static double bench_size(const char *db, struct json *j)
{
	char log[256];
	struct stat st;
	double bytes = 0;

	snprintf(log, sizeof(log), "%s-wal", db);
	if (stat(db, &st) == 0)
		bytes += (double)st.st_size;
	if (stat(log, &st) == 0)
		bytes += (double)st.st_size;
	json_key_f64(j, "bytes_per_sample", bytes / N_SAMPLES);
	return bytes / N_TICKS;
}

static void bench_floor(const char *path, double bytes_per_tick, struct json *j)
{
	static double wall_us[N_TICKS];
	CLEANUP(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	size_t n = (size_t)bytes_per_tick;
	char *bytes = calloc(1, n);

	for (unsigned k = 0; bytes && k < N_TICKS; k++) {
		double before = now_us(CLOCK_MONOTONIC);

		if (write(fd, bytes, n) != (ssize_t)n || fdatasync(fd) < 0)
			perror("bench_store");
		wall_us[k] = now_us(CLOCK_MONOTONIC) - before;
	}
	free(bytes);
	json_key_f64(j, "floor_append_p50_us", quantile(wall_us, N_TICKS, 0.5));
	json_key_f64(j, "floor_append_p99_us", quantile(wall_us, N_TICKS, 0.99));
}

/* What "proctor run -- true" pays: open, begin, finish, close. */
static void bench_empty_run(const char *db, struct json *j)
{
	static double wall_us[N_RUNS];

	for (int i = 0; i < N_RUNS; i++) {
		double before = now_us(CLOCK_MONOTONIC);
		struct store *store = NULL;
		struct err err = ERR_INIT;
		struct attempt a;

		must(store_open(db, STORE_WRITE, &store, &err), &err);
		begin_attempt(store, JOB, &a);
		a.ended_wall_ns = a.started_wall_ns;
		must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
		store_close(store);
		wall_us[i] = now_us(CLOCK_MONOTONIC) - before;
	}
	json_key_f64(j, "empty_run_p50_us", quantile(wall_us, N_RUNS, 0.5));
	json_key_f64(j, "empty_run_max_us", wall_us[N_RUNS - 1]);
}

static void bench_many_processes(const char *db, struct json *j)
{
	struct proc_record *processes = calloc(N_RECORDS, sizeof(*processes));
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct attempt a;
	double before;

	if (!processes)
		exit(1);
	must(store_open(db, STORE_WRITE, &store, &err), &err);
	begin_attempt(store, JOB, &a);
	for (unsigned i = 0; i < N_RECORDS; i++) {
		proc_record_init(&processes[i]);
		processes[i].key = (struct proc_key){ (pid_t)(i % 32768) + 1, i };
		processes[i].command = "/bin/true";
		processes[i].born_wall_ns = a.started_wall_ns + i;
		processes[i].user_ns = i * UINT64_C(1000);
		processes[i].max_rss_bytes = i * UINT64_C(4096);
		processes[i].evidence = EVIDENCE_EXACT;
	}
	a.processes = processes;
	a.n_processes = N_RECORDS;
	a.ended_wall_ns = a.started_wall_ns;
	before = now_us(CLOCK_MONOTONIC);
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	json_key_f64(j, "finish_50000_processes_ms", (now_us(CLOCK_MONOTONIC) - before) / 1e3);
	store_close(store);
	free(processes);
}

static int count_row(void *ctx, const struct history_row *row)
{
	(void)row;
	++*(size_t *)ctx;
	return 0;
}

static void bench_history(const char *db, struct json *j)
{
	double before = now_us(CLOCK_MONOTONIC);
	struct history_filter filter = { .job_id = JOB };
	struct store *store = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	must(store_open(db, STORE_READ, &store, &err), &err);
	must(store_read_history(store, &filter, count_row, &n, &err), &err);
	store_close(store);
	json_key_f64(j, "history_us_per_sample", (now_us(CLOCK_MONOTONIC) - before) / (double)n);
}

/* ---- a long job that has not ended: its processes are told from its samples ---- */

static void write_long_job(struct store *store)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	struct attempt a;
	unsigned seed = 2;

	begin_attempt(store, LONG_JOB, &a);
	snapshot_init(&snap);
	for (unsigned i = 0; i < LONG_PROCESSES; i++) {
		struct proc_sample *p = snapshot_add_process(&snap);

		begin_process(p, i);
		p->job_id = LONG_JOB;
	}
	for (unsigned k = 0; k < LONG_TICKS; k++) {
		struct series_point point = { .rss_bytes = k, .cpu_percent = k };

		snap.wall_ns = point.wall_ns = a.started_wall_ns + k * UINT64_C(5000000000);
		snap.boot_ns = k * UINT64_C(5000000000);
		for (unsigned i = 0; i < LONG_PROCESSES; i++)
			go_on(&snap.processes[i], snap.boot_ns, &seed);
		must(store_write_tick(store, &a, &snap, &point, NULL, 0, &err), &err);
	}
}

/* Only reading is measured (from the page cache), so writing need not wait for a disk. */
static void bench_report(struct json *j)
{
	CLEANUP(attempt_release) struct attempt a;
	char dir[32] = "/dev/shm/proctor-bench-XXXXXX", db[64];
	struct store *store = NULL;
	struct err err = ERR_INIT;
	double before;

	attempt_init(&a);
	if (!mkdtemp(dir))
		return;
	snprintf(db, sizeof(db), "%s/%s", dir, names[0]);
	must(store_open(db, STORE_WRITE, &store, &err), &err);
	write_long_job(store);
	store_close(store);
	before = now_us(CLOCK_MONOTONIC);
	must(store_open(db, STORE_READ, &store, &err), &err);
	must(store_read_attempt(store, LONG_JOB, 0, &a, &err), &err);
	store_close(store);
	json_key_f64(j, "read_24h_50_processes_so_far_ms",
		     (now_us(CLOCK_MONOTONIC) - before) / 1e3);
	remove_folder(dir);
}

int main(void)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *tmp = getenv("TMPDIR");
	char dir[128], db[160], floor_path[160];
	double bytes_per_tick;
	struct json j;

	snprintf(dir, sizeof(dir), "%.90s/proctor-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	snprintf(db, sizeof(db), "%s/%s", dir, names[0]);
	snprintf(floor_path, sizeof(floor_path), "%s/%s", dir, names[3]);

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "store");
	json_key_u64(&j, "processes", N_PROCESSES);
	json_key_u64(&j, "ticks", N_TICKS);
	bench_ticks(db, &j);
	bytes_per_tick = bench_size(db, &j);
	bench_floor(floor_path, bytes_per_tick, &j);
	bench_history(db, &j);
	bench_empty_run(db, &j);
	bench_many_processes(db, &j);
	bench_report(&j);
	json_end_object(&j);
	puts(out.data);
	remove_folder(dir);
	return 0;
}

/*
 * bench_store - what storing costs: ticks, a whole empty run, the end of a run
 * with very many processes, and reading back a long one. Beside it the floor (as many bytes
 * appended to a plain file and made durable) and the reference: one wide row per sample, with
 * its tables as JSON text.
 */
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
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
#include "made_up.h"
#include "report/report.h"
#include "store/store.h"
#include "store_writer.h"

#define N_PROCESSES 100
#define N_TICKS 7200 /* 10 hours at 5 s */
#define N_SAMPLES (N_PROCESSES * N_TICKS)
#define N_RUNS 50
#define N_RECORDS 50000
#define LONG_TICKS 17280 /* 24 hours at 5 s */
#define LONG_PROCESSES 50
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
static const char *const names[] = {
	"proctor.db",	    "proctor.db-wal",	"proctor.db-shm", "floor",	  "reference.db",
	"reference.db-wal", "reference.db-shm", "eight.db",	  "eight.db-wal", "eight.db-shm",
};

static void remove_folder(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[192];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* The values that the bars of other stores were measured with; the others are unknown. */
static void keep_eight(struct proc_sample *p)
{
	struct proc_sample all = *p;

	proc_sample_init(p);
	p->key = all.key;
	p->ppid = all.ppid;
	p->job_id = all.job_id;
	p->command = all.command;
	p->state = all.state;
	p->cpu_ns = all.cpu_ns;
	p->cpu_percent = all.cpu_percent;
	p->rss_bytes = all.rss_bytes;
	p->vms_bytes = all.vms_bytes;
	p->threads = all.threads;
	p->open_fds = all.open_fds;
	p->age_seconds = all.age_seconds;
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

static int write_tick(struct store *store, const struct attempt *a, const struct snapshot *snap,
		      const struct series_point *point, struct err *err)
{
	return store_write_tick(store, a, snap, point, err);
}

/* ---- measurements ---- */

/* What this process has had written to disks so far; 0 where the kernel does not count. */
static double bytes_written(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	char line[128];
	double bytes = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "write_bytes: %lf", &bytes) == 1)
			break;
	if (f)
		fclose(f);
	return bytes;
}

/* What is measured while all ticks are written. */
struct cost {
	double cpu_us, written;
	double wall_us[N_TICKS];
};

static void write_ticks(struct store *store, struct attempt *a, bool is_eight, struct cost *ret)
{
	CLEANUP(snapshot_release) struct snapshot snap, kept;
	unsigned seed = 1;

	snapshot_init(&snap);
	snapshot_init(&kept);
	for (unsigned i = 0; i < N_PROCESSES; i++)
		begin_process(snapshot_add_process(&snap), i);
	for (unsigned k = 0; k < N_TICKS; k++) {
		struct series_point point = { .rss_bytes = k, .cpu_percent = k };
		struct err err = ERR_INIT;
		double before, cpu_before;

		go_on_all(&snap, a->started_wall_ns, k, &seed);
		snapshot_copy(&kept, &snap, SNAPSHOT_JOBS);
		for (size_t i = 0; is_eight && i < kept.n_processes; i++)
			keep_eight(&kept.processes[i]);
		point.wall_ns = snap.wall_ns;
		before = now_us(CLOCK_MONOTONIC);
		cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
		must(write_tick(store, a, &kept, &point, &err), &err);
		ret->cpu_us += now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
		ret->wall_us[k] = now_us(CLOCK_MONOTONIC) - before;
	}
	a->ended_wall_ns = snap.wall_ns;
}

static void measure_ticks(const char *db, bool is_eight, struct cost *ret)
{
	struct store *store = NULL;
	struct attempt a;
	struct err err = ERR_INIT;
	double written = bytes_written(), cpu_before;

	must(store_open(db, STORE_WRITE, &store, &err), &err);
	begin_attempt(store, JOB, &a);
	write_ticks(store, &a, is_eight, ret);
	cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	store_close(store);
	ret->cpu_us += now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
	ret->written = bytes_written() - written;
}

static void bench_ticks(const char *db, struct json *j)
{
	static struct cost cost;

	measure_ticks(db, false, &cost);
	json_key_f64(j, "cpu_us_per_sample", cost.cpu_us / N_SAMPLES);
	json_key_f64(j, "written_bytes_per_sample", cost.written / N_SAMPLES);
	json_key_f64(j, "tick_p50_us", quantile(cost.wall_us, N_TICKS, 0.5));
	json_key_f64(j, "tick_p99_us", quantile(cost.wall_us, N_TICKS, 0.99));
}

static double file_size(const char *path, const char *suffix)
{
	char name[256];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return stat(name, &st) == 0 ? (double)st.st_size : 0;
}

static void run_sql(const char *db, const char *sql)
{
	sqlite3 *handle = NULL;

	if (sqlite3_open(db, &handle) != SQLITE_OK ||
	    sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK) {
		fprintf(stderr, "bench_store: %s: %s\n", sql, sqlite3_errmsg(handle));
		exit(1);
	}
	sqlite3_close(handle);
}

/* As it was left, and when the pages that its ticks were on are given back. */
static double bench_size(const char *db, struct json *j)
{
	double bytes = file_size(db, "") + file_size(db, "-wal");

	json_key_f64(j, "bytes_per_sample", bytes / N_SAMPLES);
	run_sql(db, "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)");
	json_key_f64(j, "bytes_per_sample_compacted", file_size(db, "") / N_SAMPLES);
	return bytes / N_TICKS;
}

static void bench_eight(const char *db, struct json *j)
{
	static struct cost cost;

	measure_ticks(db, true, &cost);
	json_key_f64(j, "eight_values_cpu_us_per_sample", cost.cpu_us / N_SAMPLES);
	json_key_f64(j, "eight_values_written_bytes_per_sample", cost.written / N_SAMPLES);
	run_sql(db, "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)");
	json_key_f64(j, "eight_values_bytes_per_sample_compacted", file_size(db, "") / N_SAMPLES);
}

/* ---- the reference: a wide row per sample ---- */

#define REFERENCE_SCHEMA                                                                   \
	"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"                            \
	"CREATE TABLE process_metrics (id INTEGER PRIMARY KEY, timestamp REAL NOT NULL,"   \
	" pid INTEGER NOT NULL, ppid INTEGER, command TEXT, state TEXT, cpu_percent REAL," \
	" rss_mb REAL, vms_mb REAL, threads INTEGER, open_fds INTEGER, age_seconds REAL,"  \
	" job_id TEXT, sheet_num INTEGER, syscall_counts TEXT, syscall_time_pct TEXT);"    \
	"CREATE INDEX by_time ON process_metrics (timestamp);"                             \
	"CREATE INDEX by_job ON process_metrics (job_id, timestamp);"

static void bind_reference(sqlite3_stmt *q, const struct snapshot *s, const struct proc_sample *p)
{
	char counts[128];

	snprintf(counts, sizeof(counts), "{\"read\": %u, \"write\": %u, \"futex\": %u}",
		 (unsigned)p->syscr, (unsigned)p->syscw, (unsigned)p->voluntary_switches);
	sqlite3_bind_double(q, 1, (double)s->wall_ns / 1e9);
	sqlite3_bind_int(q, 2, p->key.pid);
	sqlite3_bind_int(q, 3, p->ppid);
	sqlite3_bind_text(q, 4, p->command, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 5, &p->state, 1, SQLITE_TRANSIENT);
	sqlite3_bind_double(q, 6, p->cpu_percent);
	sqlite3_bind_double(q, 7, u64_to_mb(p->rss_bytes));
	sqlite3_bind_double(q, 8, u64_to_mb(p->vms_bytes));
	sqlite3_bind_int64(q, 9, (sqlite3_int64)p->threads);
	sqlite3_bind_int64(q, 10, (sqlite3_int64)p->open_fds);
	sqlite3_bind_double(q, 11, p->age_seconds);
	sqlite3_bind_text(q, 12, p->job_id, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 13, p->sheet_num);
	sqlite3_bind_text(q, 14, counts, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(q, 15, "{\"read\": 40.1, \"write\": 31.2, \"futex\": 28.7}", -1,
			  SQLITE_STATIC);
}

static void write_reference(sqlite3 *db, sqlite3_stmt *q, const struct snapshot *s)
{
	sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	for (size_t i = 0; i < s->n_processes; i++) {
		bind_reference(q, s, &s->processes[i]);
		sqlite3_step(q);
		sqlite3_reset(q);
	}
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

static void bench_reference(const char *path, struct json *j)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	double cpu_us = 0, written = bytes_written();
	sqlite3_stmt *q = NULL;
	sqlite3 *db = NULL;
	unsigned seed = 1;

	snapshot_init(&snap);
	for (unsigned i = 0; i < N_PROCESSES; i++)
		begin_process(snapshot_add_process(&snap), i);
	if (sqlite3_open(path, &db) != SQLITE_OK ||
	    sqlite3_exec(db, REFERENCE_SCHEMA, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db,
			       "INSERT INTO process_metrics VALUES "
			       "(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			       -1, &q, NULL) != SQLITE_OK)
		exit(1);
	for (unsigned k = 0; k < N_TICKS; k++) {
		double cpu_before;

		go_on_all(&snap, UINT64_C(1700000000000000000), k, &seed);
		cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
		write_reference(db, q, &snap);
		cpu_us += now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
	}
	sqlite3_finalize(q);
	sqlite3_close(db);
	json_key_f64(j, "reference_cpu_us_per_sample", cpu_us / N_SAMPLES);
	json_key_f64(j, "reference_written_bytes_per_sample",
		     (bytes_written() - written) / N_SAMPLES);
	json_key_f64(j, "reference_bytes_per_sample", file_size(path, "") / N_SAMPLES);
}

static void bench_floor(const char *path, double bytes_per_tick, struct json *j)
{
	static double wall_us[N_TICKS];
	CLEANUP(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	size_t n = (size_t)bytes_per_tick;
	char *bytes = calloc(1, n);
	double cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned k = 0; bytes && k < N_TICKS; k++) {
		double before = now_us(CLOCK_MONOTONIC);

		if (write(fd, bytes, n) != (ssize_t)n || fdatasync(fd) < 0)
			perror("bench_store");
		wall_us[k] = now_us(CLOCK_MONOTONIC) - before;
	}
	free(bytes);
	json_key_f64(j, "floor_append_cpu_us_per_sample",
		     (now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before) / N_SAMPLES);
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

/* ---- a long job ---- */

static void write_long_job(struct store *store, struct attempt *a)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	unsigned seed = 2;

	begin_attempt(store, LONG_JOB, a);
	snapshot_init(&snap);
	for (unsigned i = 0; i < LONG_PROCESSES; i++) {
		struct proc_sample *p = snapshot_add_process(&snap);

		begin_process(p, i);
		p->job_id = LONG_JOB;
	}
	for (unsigned k = 0; k < LONG_TICKS; k++) {
		struct series_point point = { .rss_bytes = k, .cpu_percent = k };

		go_on_all(&snap, a->started_wall_ns, k, &seed);
		point.wall_ns = snap.wall_ns;
		must(write_tick(store, a, &snap, &point, &err), &err);
	}
}

static void ask(const char *db, const char *text)
{
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	int r;

	must(store_open(db, STORE_READ, &store, &err), &err);
	must(store_sql_open(store, text, NULL, NULL, &sql, &err), &err);
	while ((r = store_sql_next(sql, &err)) > 0)
		;
	must(r, &err);
	store_sql_close(&sql);
	store_close(store);
}

/* What people ask of the long job, as "proctor sql" does. */
static void bench_sql(const char *db, struct json *j)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{ "sql_24h_peak_of_each_process_ms",
		  "SELECT pid, max(rss_mb) FROM process_metrics WHERE job_id = '" LONG_JOB
		  "' GROUP BY pid" },
		{ "sql_24h_of_one_process_ms",
		  "SELECT avg(cpu_percent) FROM process_metrics WHERE pid = 20007" },
		{ "sql_24h_load_of_the_host_ms", "SELECT avg(load_avg_1) FROM snapshots" },
		{ "sql_24h_samples_with_their_snapshots_ms",
		  "SELECT sum(m.rss_mb * s.load_avg_1) FROM process_metrics m"
		  " JOIN snapshots s ON s.id = m.snapshot_id" },
		{ "sql_last_ten_snapshots_ms",
		  "SELECT * FROM snapshots ORDER BY timestamp DESC LIMIT 10" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		double before = now_us(CLOCK_MONOTONIC);

		ask(db, cases[i].text);
		json_key_f64(j, cases[i].key, (now_us(CLOCK_MONOTONIC) - before) / 1e3);
	}
}

/* From opening the database to the page: so long, and in CPU time, which others do not change. */
static void bench_page(const char *db, const char *key, const char *cpu_key, struct json *j)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(buf_release) struct buf page = BUF_INIT;
	double before = now_us(CLOCK_MONOTONIC), cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
	struct store *store = NULL;
	struct err err = ERR_INIT;

	attempt_init(&a);
	must(store_open(db, STORE_READ, &store, &err), &err);
	must(store_read_attempt(store, LONG_JOB, 0, &a, &err), &err);
	store_close(store);
	must(report_write(&a, REPORT_JSON, &page), &err);
	json_key_f64(j, key, (now_us(CLOCK_MONOTONIC) - before) / 1e3);
	json_key_f64(j, cpu_key, (now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before) / 1e3);
}

static void bench_one_process(const char *db, struct json *j)
{
	const struct history_filter filter = { .job_id = LONG_JOB, .pid = 20007 };
	double before = now_us(CLOCK_MONOTONIC);
	struct store *store = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	must(store_open(db, STORE_READ, &store, &err), &err);
	must(store_read_history(store, &filter, count_row, &n, &err), &err);
	store_close(store);
	json_key_f64(j, "history_24h_of_one_process_ms", (now_us(CLOCK_MONOTONIC) - before) / 1e3);
}

static void end_long_job(struct store *store, struct attempt *a)
{
	struct proc_record processes[LONG_PROCESSES];
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < LONG_PROCESSES; i++) {
		struct proc_sample p;

		proc_record_init(&processes[i]);
		begin_process(&p, i);
		processes[i].key = p.key;
		processes[i].command = p.command;
	}
	a->processes = processes;
	a->n_processes = LONG_PROCESSES;
	a->ended_wall_ns = a->started_wall_ns + LONG_TICKS * UINT64_C(5000000000);
	must(store_finish_attempt(store, a, NULL, 0, &err), &err);
}

/* Only reading is measured (from the page cache), so writing need not wait for a disk. */
static void bench_report(struct json *j)
{
	char dir[32] = "/dev/shm/proctor-bench-XXXXXX", db[64];
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct attempt a;

	if (!mkdtemp(dir))
		return;
	snprintf(db, sizeof(db), "%s/%s", dir, names[0]);
	must(store_open(db, STORE_WRITE, &store, &err), &err);
	write_long_job(store, &a);
	/* Its processes are told from its samples. */
	bench_page(db, "report_24h_50_processes_so_far_ms", "report_24h_50_processes_so_far_cpu_ms",
		   j);
	end_long_job(store, &a);
	store_close(store);
	bench_page(db, "report_24h_50_processes_ms", "report_24h_50_processes_cpu_ms", j);
	bench_one_process(db, j);
	bench_sql(db, j);
	remove_folder(dir);
}

int main(void)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *tmp = getenv("TMPDIR");
	char dir[128], db[160], floor_path[160], reference[160], eight[160];
	double bytes_per_tick;
	struct json j;

	snprintf(dir, sizeof(dir), "%.90s/proctor-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	snprintf(db, sizeof(db), "%s/%s", dir, names[0]);
	snprintf(floor_path, sizeof(floor_path), "%s/%s", dir, names[3]);
	snprintf(reference, sizeof(reference), "%s/%s", dir, names[4]);

	snprintf(eight, sizeof(eight), "%s/%s", dir, names[7]);

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "store");
	json_key_u64(&j, "processes", N_PROCESSES);
	json_key_u64(&j, "ticks", N_TICKS);
	bench_ticks(db, &j);
	bytes_per_tick = bench_size(db, &j);
	bench_reference(reference, &j);
	bench_eight(eight, &j);
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

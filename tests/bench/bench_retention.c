/*
 * bench_retention - what it takes to make minutes of 10 million samples, in memory so that
 * no disk is measured; and on a disk, how long ticks of another process wait for it meanwhile,
 * beside how long they take without it. The reference deletes rows of a wide table by their
 * time, in one statement: see bench_store.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "made_up.h"
#include "store/store.h"
#include "store_writer.h"

#define N_PROCESSES 1000
#define N_TICKS 10000 /* nearly 14 hours at 5 s */
#define DISK_PROCESSES 200
#define DISK_TICKS 15000
#define REFERENCE_ROWS 500000
#define BASELINE_MS 3000
#define TICKER_PROCESSES 100
#define TICKER_PAUSE_MS 5
#define START_NS UINT64_C(1700000000000000000)

static const struct retention_policy policy = RETENTION_POLICY_DEFAULT;

static double read_ms(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static double now_ms(void)
{
	return read_ms(CLOCK_MONOTONIC);
}

static double cpu_ms(void)
{
	return read_ms(CLOCK_PROCESS_CPUTIME_ID);
}

static void pause_ms(long ms)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&pause, NULL);
}

static void must(int r, const struct err *err)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_retention: %s\n", err->text);
	exit(1);
}

/* Lengths of time, of which the first MAX_TIMES are kept. */
#define MAX_TIMES 10000
struct times {
	unsigned n;
	double total_ms, ms[MAX_TIMES];
};

static void add_time(struct times *t, double ms)
{
	t->total_ms += ms;
	if (t->n < MAX_TIMES)
		t->ms[t->n++] = ms;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* name_p50_ms, name_p99_ms and name_longest_ms */
static void tell_times(struct times *t, const char *name, struct json *j)
{
	static const struct {
		const char *suffix;
		double q;
	} quantiles[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "longest", 1 } };

	qsort(t->ms, t->n, sizeof(*t->ms), compare);
	for (size_t i = 0; t->n > 0 && i < ARRAY_SIZE(quantiles); i++) {
		char key[64];

		snprintf(key, sizeof(key), "%s_%s_ms", name, quantiles[i].suffix);
		json_key_f64(j, key, t->ms[(size_t)(quantiles[i].q * (t->n - 1))]);
	}
}

static double file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (double)st.st_size : 0;
}

/* ---- folders ---- */

struct folder {
	char dir[128], db[160], reference[160];
};

static void folder_make(struct folder *f, const char *where)
{
	snprintf(f->dir, sizeof(f->dir), "%.90s/proctor-bench-XXXXXX", where);
	if (!mkdtemp(f->dir)) {
		perror("bench_retention: a folder");
		exit(1);
	}
	snprintf(f->db, sizeof(f->db), "%s/proctor.db", f->dir);
	snprintf(f->reference, sizeof(f->reference), "%s/reference.db", f->dir);
}

static void folder_remove(const struct folder *f)
{
	static const char *const suffixes[] = { "", "-wal", "-shm" };
	const char *const names[] = { f->db, f->reference };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (size_t k = 0; k < ARRAY_SIZE(suffixes); k++) {
			char path[200];

			snprintf(path, sizeof(path), "%s%s", names[i], suffixes[k]);
			unlink(path);
		}
	rmdir(f->dir);
}

/* ---- samples ---- */

static struct attempt begin_job(struct store *store, const char *job_id)
{
	struct err err = ERR_INIT;
	struct attempt a;

	attempt_init(&a);
	a.job_id = job_id;
	a.started_wall_ns = START_NS;
	a.total_sheets = 1;
	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static void tick(struct store *store, const struct attempt *a, const struct snapshot *snap)
{
	struct series_point point = { .wall_ns = snap->wall_ns };
	struct err err = ERR_INIT;

	must(store_write_tick(store, a, snap, &point, &err), &err);
}

static void begin_snapshot(struct snapshot *snap, unsigned n)
{
	snapshot_init(snap);
	for (unsigned i = 0; i < n; i++)
		begin_process(snapshot_add_process(snap), i);
}

static void write_job(struct store *store, unsigned n_processes, unsigned n_ticks)
{
	struct attempt a = begin_job(store, JOB);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	unsigned seed = 1;

	begin_snapshot(&snap, n_processes);
	for (unsigned k = 0; k < n_ticks; k++) {
		go_on_all(&snap, START_NS, k, &seed);
		tick(store, &a, &snap);
	}
	a.ended_wall_ns = snap.wall_ns;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
}

/* When all of it is older than a day. */
static uint64_t two_days_later(void)
{
	return START_NS + UINT64_C(4) * 86400000000000;
}

/* ---- retention ---- */

/* How long each slice took, and how much of that it had a CPU. */
struct slices {
	struct times wall, cpu;
};

static void tell_slices(struct slices *slices, const char *name, struct json *j)
{
	char cpu[64];

	snprintf(cpu, sizeof(cpu), "%s_cpu", name);
	tell_times(&slices->wall, name, j);
	tell_times(&slices->cpu, cpu, j);
}

static struct retention_result retain(struct store *store, long pause, struct slices *ret)
{
	struct retention run;
	struct err err = ERR_INIT;
	int r;

	store_retain_begin(&run, &policy, two_days_later(), NULL);
	do {
		double before = now_ms(), cpu_before = cpu_ms();

		r = store_retain_slice(store, &run, &err);
		add_time(&ret->wall, now_ms() - before);
		add_time(&ret->cpu, cpu_ms() - cpu_before);
		if (pause)
			pause_ms(pause);
	} while (r > 0 || r == -EBUSY);
	must(r, &err);
	return run.result;
}

static int count_minute(void *ctx, const struct minute_row *row)
{
	(void)row;
	++*(uint64_t *)ctx;
	return 0;
}

/* Of all processes, and of one. */
static void bench_reading(struct store *store, struct json *j)
{
	struct err err = ERR_INIT;
	uint64_t n = 0, n_of_one = 0;
	double before = now_ms();

	must(store_read_minutes(store, &(struct history_filter){ 0 }, count_minute, &n, &err),
	     &err);
	json_key_u64(j, "minutes", n);
	json_key_f64(j, "read_us_per_minute", (now_ms() - before) * 1e3 / (double)n);
	before = now_ms();
	must(store_read_minutes(store, &(struct history_filter){ .job_id = JOB, .pid = 20007 },
				count_minute, &n_of_one, &err),
	     &err);
	json_key_f64(j, "read_14h_of_one_process_ms", now_ms() - before);
}

static void bench_in_memory(struct json *j)
{
	static struct slices slices;
	struct retention_result result;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct folder f = { "", "", "" };
	double before;

	folder_make(&f, "/dev/shm");
	must(store_open(f.db, STORE_WRITE, &store, &err), &err);
	before = now_ms();
	write_job(store, N_PROCESSES, N_TICKS);
	json_key_f64(j, "writing_seconds", (now_ms() - before) / 1e3);
	result = retain(store, 0, &slices);
	json_key_u64(j, "samples", result.n_samples);
	json_key_f64(j, "seconds", slices.wall.total_ms / 1e3);
	json_key_f64(j, "seconds_per_million",
		     slices.wall.total_ms / 1e3 / ((double)result.n_samples / 1e6));
	json_key_u64(j, "slices", slices.wall.n);
	tell_slices(&slices, "slice", j);
	json_key_u64(j, "bytes_before", result.bytes_before);
	json_key_u64(j, "bytes_after", result.bytes_after);
	json_key_f64(j, "file_bytes_after", file_size(f.db));
	bench_reading(store, j);
	store_close(store);
	folder_remove(&f);
}

/* ---- a ticker beside it ---- */

enum phase { PHASE_BASELINE, PHASE_RETENTION, N_PHASES, PHASE_END };

/* Shared with the ticker. */
struct ticker {
	volatile enum phase phase;
	struct times times[N_PHASES];
};

static void run_ticker(const char *db, struct ticker *t)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct attempt a;
	unsigned seed = 3;
	enum phase phase;

	must(store_open(db, STORE_WRITE, &store, &err), &err);
	a = begin_job(store, JOB);
	begin_snapshot(&snap, TICKER_PROCESSES);
	for (unsigned k = 0; (phase = t->phase) != PHASE_END; k++) {
		double before;

		go_on_all(&snap, two_days_later(), k, &seed);
		before = now_ms();
		tick(store, &a, &snap);
		add_time(&t->times[phase], now_ms() - before);
		pause_ms(TICKER_PAUSE_MS);
	}
	store_close(store);
}

static void copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	static char bytes[1 << 20];
	size_t n;

	if (!in || !out) {
		perror("bench_retention: a copy");
		exit(1);
	}
	while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0)
		fwrite(bytes, 1, n, out);
	fclose(in);
	fclose(out);
}

/* Its samples are written in memory: how long a disk takes for those is not asked here. */
static void make_on_disk(const struct folder *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct folder memory = { "", "", "" };

	folder_make(&memory, "/dev/shm");
	must(store_open(memory.db, STORE_WRITE, &store, &err), &err);
	write_job(store, DISK_PROCESSES, DISK_TICKS);
	store_close(store); /* so much was written that its log is gone */
	copy_file(memory.db, f->db);
	folder_remove(&memory);
}

static void bench_on_disk(const struct folder *f, struct json *j)
{
	struct ticker *t =
		mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct slices slices;
	struct retention_result result;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	pid_t pid;

	if (t == MAP_FAILED)
		exit(1);
	make_on_disk(f);
	pid = fork();
	if (pid == 0) {
		run_ticker(f->db, t);
		_exit(0);
	}
	must(store_open(f->db, STORE_WRITE, &store, &err), &err);
	pause_ms(BASELINE_MS);
	t->phase = PHASE_RETENTION;
	result = retain(store, RETENTION_PAUSE_MS, &slices);
	t->phase = PHASE_END;
	waitpid(pid, NULL, 0);
	store_close(store);
	json_key_u64(j, "disk_samples", result.n_samples);
	json_key_f64(j, "disk_seconds", slices.wall.total_ms / 1e3);
	tell_slices(&slices, "disk_slice", j);
	json_key_u64(j, "ticks_alone", t->times[PHASE_BASELINE].n);
	tell_times(&t->times[PHASE_BASELINE], "tick_alone", j);
	json_key_u64(j, "ticks_beside", t->times[PHASE_RETENTION].n);
	tell_times(&t->times[PHASE_RETENTION], "tick_beside", j);
}

/* ---- the reference ---- */

static void run_sql(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
		return;
	fprintf(stderr, "bench_retention: %s: %s\n", sql, sqlite3_errmsg(db));
	exit(1);
}

#define FILL_REFERENCE                                                                         \
	"WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < %d)"        \
	" INSERT INTO process_metrics SELECT n, 1.7e9 + n / 100, 20000 + n %% 100, 20000,"     \
	" 'python3 /srv/pipeline/worker.py --queue default --concurrency 4', 'S', 1.5, 20.25," \
	" 512.0, 4, 32, n / 20.0, 'bench', 1, '{\"read\": 12, \"write\": 7, \"futex\": 30}',"  \
	" '{\"read\": 40.1, \"write\": 31.2, \"futex\": 28.7}' FROM k"

static void bench_reference(const struct folder *f, struct json *j)
{
	sqlite3 *db = NULL;
	double before;
	char sql[1024];

	if (sqlite3_open(f->reference, &db) != SQLITE_OK)
		exit(1);
	run_sql(db, "PRAGMA journal_mode = WAL;"
		    "CREATE TABLE process_metrics (id INTEGER PRIMARY KEY, timestamp REAL NOT NULL,"
		    " pid INTEGER NOT NULL, ppid INTEGER, command TEXT, state TEXT,"
		    " cpu_percent REAL, rss_mb REAL, vms_mb REAL, threads INTEGER,"
		    " open_fds INTEGER, age_seconds REAL, job_id TEXT, sheet_num INTEGER,"
		    " syscall_counts TEXT, syscall_time_pct TEXT);"
		    "CREATE INDEX by_time ON process_metrics (timestamp);"
		    "CREATE INDEX by_job ON process_metrics (job_id, timestamp);");
	snprintf(sql, sizeof(sql), FILL_REFERENCE, REFERENCE_ROWS);
	run_sql(db, sql);
	before = now_ms();
	run_sql(db, "DELETE FROM process_metrics WHERE timestamp < 1e10");
	json_key_u64(j, "reference_samples", REFERENCE_ROWS);
	json_key_f64(j, "reference_seconds_per_million",
		     (now_ms() - before) / 1e3 / (REFERENCE_ROWS / 1e6));
	json_key_f64(j, "reference_lock_ms", now_ms() - before);
	json_key_f64(j, "reference_file_bytes_after", file_size(f->reference));
	sqlite3_close(db);
}

int main(void)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *tmp = getenv("TMPDIR");
	struct folder f = { "", "", "" };
	struct json j;

	folder_make(&f, tmp ? tmp : "/tmp");
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "retention");
	bench_in_memory(&j);
	bench_on_disk(&f, &j);
	bench_reference(&f, &j);
	json_end_object(&j);
	puts(out.data);
	folder_remove(&f);
	return 0;
}

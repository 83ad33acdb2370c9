/*
 * bench_learn - an analysis of 100,000 recorded runs of 1,000 kinds of jobs: seconds of
 * one core and memory, beside reading the same rows, which is the floor. What an estimate
 * costs whoever asks for it, of a program with 2,000 of these runs; the floor is the sorted
 * peaks alone. Then the bars of docs/statistics.md, with every n from 5 to 200.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/learn_bars.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "query/query.h"
#include "store/store.h"

#define N_RUNS 100000
#define N_CLASSES 1000
#define N_REAL 20 /* classes in which one feature does go with failure */
#define NOISE_ROUNDS 60
#define POWER_ROUNDS 10000
#define START_NS UINT64_C(1700000000000000000)

static double cpu_seconds(void)
{
	return (double)clock_cpu_ns() / 1e9;
}

static void must(int r, const struct err *err)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_learn: %s\n", err->text);
	exit(1);
}

static void must_sql(sqlite3 *db, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
		return;
	fprintf(stderr, "bench_learn: %s\n", sqlite3_errmsg(db));
	exit(1);
}

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	must_sql(db, sqlite3_open(path, &db));
	must_sql(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
	sqlite3_close(db);
}

/* ---- a record ---- */

/*
 * One statement for all runs: made up in SQL, since who fills in 100,000 attempts one
 * by one measures the disk. Of 14 numbers that are known one goes with failure in some
 * classes.
 */
#define MADE_UP "(abs(random()) % 1000000) / 1000.0"
static const char *const fill[] = {
	"PRAGMA synchronous = OFF",
	"BEGIN",
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
	" INSERT INTO jobs (id, job_id) SELECT i, 'job-' || i FROM n",
	"INSERT INTO attempts (id, job, attempt_num, runner_pid, argv_hash, total_sheets, host,"
	" uid, started_wall_ns, ended_wall_ns, outcome) SELECT id, id, 1, 1, id % 1000, 1,"
	" 'host-' || (id % 3), 1000, 1700000000000000000 + id * 4000000000,"
	" 1700000002000000000 + id * 4000000000,"
	" CASE WHEN abs(random()) % 10 < 4 THEN 'failure' ELSE 'success' END FROM jobs",
	"INSERT INTO runs (attempt, sheet_num, is_whole, class_exact, class_masked, class_program,"
	" class_command, label, started_wall_ns, ended_wall_ns, peak_rss_mb, early_rss_60s_mb,"
	" rss_slope_60s_mb_s, cpu_seconds, wall_seconds, spawn_count, max_threads, max_fds, io_mb,"
	" major_faults, memory_stall_pct, io_stall_pct, cpu_stall_pct, syscalls, anomalies)"
	" SELECT id, 1, 1, id % 1000, id % 1000, id % 50, id % 1000, 'train-' || (id % 1000),"
	" started_wall_ns, ended_wall_ns, " MADE_UP ", " MADE_UP ", " MADE_UP
	" + CASE WHEN id % 1000 < 20 AND outcome = 'failure' THEN 600 ELSE 0 END, " MADE_UP
	", " MADE_UP ", " MADE_UP ", " MADE_UP ", " MADE_UP ", " MADE_UP ", " MADE_UP ", " MADE_UP
	", " MADE_UP ", " MADE_UP ", 'futex ' || (abs(random()) % 60) || ' read ' ||"
	" (abs(random()) % 60) || ' write ' || (abs(random()) % 60),"
	" CASE abs(random()) % 4 WHEN 0 THEN 'memory_spike' WHEN 1 THEN 'zombie' ELSE '' END"
	" FROM attempts",
	"INSERT INTO estimates (id, attempt, sheet_num, peak_rss_mb, peak_coverage, rung)"
	" SELECT id, id, 1, 1000, 0.95, 0 FROM attempts",
	"INSERT INTO scores (estimate, is_peak_covered, is_cpu_covered) SELECT id, 1, 1"
	" FROM estimates",
	"COMMIT",
};

/* 13 of each class, as old as the record: each of its runs judges all of them. */
static const char believe[] =
	"INSERT OR IGNORE INTO patterns (type, name, grade, class_command, feature, is_above,"
	" threshold, rate_in, rate_out, base_rate, frozen_wall_ns, first_wall_ns, last_wall_ns,"
	" occurrences) SELECT 'FINDING', 'made up ' || id, 'supported', id % 1000,"
	" 'syscall:call-' || (id / 1000), 1, 50, 0.41, 0.39, 0.4, 1700000000000000000,"
	" 1700000000000000000, 1700000000000000000, 1 FROM jobs WHERE id <= 13000";

static void make_record(const char *path)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	struct store *store = NULL;
	struct err err = ERR_INIT;

	must(store_open(path, STORE_WRITE, &store, &err), &err);
	store_close(store);
	for (size_t i = 0; i < ARRAY_SIZE(fill); i++)
		buf_printf(&sql, "%s;", fill[i]);
	run_sql(path, sql.data);
}

/* ---- the analysis ---- */

struct cost {
	double read_seconds, analyze_seconds, write_seconds, seconds;
	double rss_mb;
	size_t n_runs, n_patterns, n_tested, n_supported, n_false;
};

static double peak_rss_mb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static void count_findings(const struct analysis *a, struct cost *cost)
{
	for (size_t i = 0; i < a->n; i++) {
		if (a->findings[i].grade != GRADE_SUPPORTED)
			continue;
		cost->n_supported++;
		cost->n_false += a->findings[i].class_key >= N_REAL;
	}
}

static void analyze(const char *path, struct cost *cost)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct learning l;
	double start = cpu_seconds();

	learning_init(&l, 5);
	must(store_open(path, STORE_WRITE, &store, &err), &err);
	must(learning_read(store, 1, &l, &err), &err);
	cost->read_seconds = cpu_seconds() - start;
	cost->n_patterns = l.patterns.n;
	learning_analyze(&l);
	cost->analyze_seconds = cpu_seconds() - start - cost->read_seconds;
	must(learning_write(store, &l, &err), &err);
	cost->seconds = cpu_seconds() - start;
	cost->write_seconds = cost->seconds - cost->read_seconds - cost->analyze_seconds;
	cost->rss_mb = peak_rss_mb();
	cost->n_runs = l.analysis.n_runs;
	cost->n_tested = l.analysis.n_tested;
	count_findings(&l.analysis, cost);
	learning_release(&l);
	store_close(store);
}

/* In a process of its own, so that memory is that of the analysis alone. */
static void analyze_apart(const char *path, struct cost *cost)
{
	int ends[2], status = -1;
	pid_t pid;

	if (pipe(ends) < 0)
		exit(1);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		analyze(path, cost);
		_exit(write(ends[1], cost, sizeof(*cost)) == (ssize_t)sizeof(*cost) ? 0 : 1);
	}
	close(ends[1]);
	if (pid < 0 || read(ends[0], cost, sizeof(*cost)) != (ssize_t)sizeof(*cost) ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
	close(ends[0]);
}

static void print_line(struct buf *out)
{
	puts(out->data);
	fflush(stdout);
	buf_reset(out);
}

static void print_cost(const char *what, const struct cost *cost)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", what);
	json_key_u64(&j, "runs", cost->n_runs);
	json_key_u64(&j, "patterns_before", cost->n_patterns);
	json_key_u64(&j, "classes", N_CLASSES);
	json_key_u64(&j, "classes_tested", cost->n_tested);
	json_key_f64(&j, "cpu_seconds", cost->seconds);
	json_key_f64(&j, "cpu_seconds_bar", 10);
	json_key_f64(&j, "read_seconds_floor", cost->read_seconds);
	json_key_f64(&j, "analyze_seconds", cost->analyze_seconds);
	json_key_f64(&j, "write_seconds", cost->write_seconds);
	json_key_f64(&j, "peak_rss_mb", cost->rss_mb);
	json_key_f64(&j, "peak_rss_mb_bar", 200);
	json_key_u64(&j, "supported", cost->n_supported);
	json_key_u64(&j, "supported_of_noise", cost->n_false);
	json_end_object(&j);
	print_line(&out);
}

/* ---- an estimate ---- */

#define N_ASKED 200
#define N_PROGRAMS 50
#define BENCH_UID 1000 /* as recorded */

/* Of a command that has never run, so that the whole ladder is climbed. */
static void ask(struct store *store, uint64_t program)
{
	const struct run_class class = { { UINT64_MAX, UINT64_MAX, program }, 0, NULL };
	const struct run_kind kind = { &class, RUNG_PROGRAM, BENCH_UID, U64_UNKNOWN,
				       ESTIMATE_MAX_RUNS };
	struct calibration c;
	struct err err = ERR_INIT;
	struct estimate e;

	must(learning_estimate_kind(store, &kind, &e, &err), &err);
	must(store_read_calibration(store, &kind, &c, &err), &err);
	if (e.n_runs < ESTIMATE_ENOUGH || c.n_peak < ESTIMATE_ENOUGH)
		exit(1);
}

static double floor_seconds(const char *path)
{
	static const char sql[] = "SELECT peak_rss_mb FROM runs WHERE class_program = ?"
				  " ORDER BY ended_wall_ns DESC LIMIT 500";
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	double start;

	must_sql(db, sqlite3_open(path, &db));
	must_sql(db, sqlite3_prepare_v2(db, sql, -1, &stmt, NULL));
	start = cpu_seconds();
	for (int i = 0; i < N_ASKED; i++) {
		sqlite3_bind_int(stmt, 1, i % N_PROGRAMS);
		while (sqlite3_step(stmt) == SQLITE_ROW)
			sqlite3_column_double(stmt, 0);
		sqlite3_reset(stmt);
	}
	start = cpu_seconds() - start;
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return start / N_ASKED;
}

static void bench_estimate(const char *path)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	double worst = 0, total = 0;
	struct json j;

	must(store_open(path, STORE_READ, &store, &err), &err);
	for (int i = 0; i < N_ASKED; i++) {
		double start = cpu_seconds(), took;

		ask(store, (uint64_t)(i % N_PROGRAMS));
		took = cpu_seconds() - start;
		worst = took > worst ? took : worst;
		total += took;
	}
	store_close(store);
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "learn estimate");
	json_key_u64(&j, "runs_of_the_program", N_RUNS / N_PROGRAMS);
	json_key_f64(&j, "ms", 1e3 * total / N_ASKED);
	json_key_f64(&j, "worst_ms", 1e3 * worst);
	json_key_f64(&j, "ms_bar", 5);
	json_key_f64(&j, "ms_floor", 1e3 * floor_seconds(path));
	json_end_object(&j);
	print_line(&out);
}

static void bench_analysis(void)
{
	char dir[] = "/dev/shm/proctor-bench-XXXXXX", path[64], rest[80];
	struct cost cost = { 0 };

	if (!mkdtemp(dir))
		exit(1);
	snprintf(path, sizeof(path), "%s/proctor.db", dir);
	make_record(path);
	analyze_apart(path, &cost);
	print_cost("learn", &cost);
	run_sql(path, believe);
	cost = (struct cost){ 0 };
	analyze_apart(path, &cost);
	print_cost("learn with patterns", &cost);
	bench_estimate(path);
	unlink(path);
	snprintf(rest, sizeof(rest), "%s-wal", path);
	unlink(rest);
	snprintf(rest, sizeof(rest), "%s-shm", path);
	unlink(rest);
	rmdir(dir);
}

/* ---- the bars ---- */

static void print_share(const char *what, size_t n, size_t n_of, double share, double bar)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", what);
	json_key_u64(&j, "runs", n);
	json_key_u64(&j, "analyses", n_of);
	json_key_f64(&j, "share", share);
	json_key_f64(&j, "bar", bar);
	json_end_object(&j);
	print_line(&out);
}

/* Every n on its own; told are all of them together and the one that is hardest to put down to
 * chance. */
static void bench_noise(void)
{
	struct bars_case c = { BARS_NORMAL, 0, 1, 0.3, false, 0 };
	size_t n_all = 0, n_supported = 0, worst_n = 0, worst = 0;
	double least_doubt = 2;
	struct rng rng;

	rng_seed(&rng, 1);
	for (c.n = 5; c.n <= BARS_MAX_RUNS; c.n++) {
		size_t n_here = bars_count(&rng, &c, NOISE_ROUNDS, ANALYSIS_LEVEL);
		double doubt = bars_doubt(n_here, NOISE_ROUNDS, ANALYSIS_LEVEL);

		n_all += NOISE_ROUNDS;
		n_supported += n_here;
		if (doubt < least_doubt) {
			least_doubt = doubt;
			worst = n_here;
			worst_n = c.n;
		}
	}
	print_share("learn noise, all n from 5 to 200", 0, n_all,
		    (double)n_supported / (double)n_all, 0.05);
	print_share("learn noise, worst n of 196", worst_n, NOISE_ROUNDS,
		    (double)worst / NOISE_ROUNDS, 0.05);
	print_share("learn noise, chance of that in one of 196", worst_n, NOISE_ROUNDS,
		    fmin(196 * least_doubt, 1), 0.05);
}

static void bench_power(size_t n, size_t rounds, double bar)
{
	const struct bars_case c = { BARS_NORMAL, n, 1, 0.4, true, 2.5 };
	struct rng rng;

	rng_seed(&rng, 2);
	print_share("learn power", n, rounds,
		    (double)bars_count(&rng, &c, rounds, 0.10) / (double)rounds, bar);
}

int main(void)
{
	bench_analysis();
	bench_noise();
	bench_power(12, POWER_ROUNDS, 0.7);
	bench_power(20, POWER_ROUNDS / 4, 0.95);
	return 0;
}

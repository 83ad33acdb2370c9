/*
 * bench_detect [N...] - what looking for anomalies costs, in CPU microseconds per process and tick.
 *
 * Makes up N processes of a job (100, 1000 and 10000 unless told) that grow, read and use CPU, and
 * measures, after a history of 60 ticks:
 *
 *	proctor		detect_tick(), all checks
 *	busy		the same with every tenth process over a threshold
 *	left		the same with an event for each process, which its job has left behind
 *	ends		detect_leave_job() for all jobs, of five processes each, at once
 *	compat		the five checks of the reference implementation over the 60 snapshots
 *	floor		one walk through the samples that adds up their memory
 *
 * One JSON line each: the median of several rounds; and what is kept per process.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/num.h"
#include "detect/detect.h"

#define HISTORY 60
#define ROUNDS 31
#define MB (UINT64_C(1024) * 1024)

static double cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *method, size_t n, double *us)
{
	qsort(us, ROUNDS, sizeof(*us), compare_doubles);
	printf("{\"bench\":\"detect\",\"n\":%zu,\"method\":\"%s\",\"us_per_process\":%.3f,"
	       "\"min\":%.3f,\"rounds\":%d}\n",
	       n, method, us[ROUNDS / 2] / (double)n, us[0] / (double)n, ROUNDS);
}

/* ---- a made-up tick ---- */

static void fill_sample(struct proc_sample *p, size_t i, unsigned tick, bool is_busy)
{
	p->key = (struct proc_key){ (pid_t)(1000 + i), 7 * i };
	p->ppid = (pid_t)(i % 10 ? 1000 + i / 10 * 10 : 1);
	p->state = i % 3 ? 'S' : 'R';
	snprintf(p->comm, sizeof(p->comm), "worker%zu", i % 7);
	p->job_id = i % 2 ? "training" : "nightly-build";
	p->sheet_num = 1;
	p->cpu_percent = is_busy && i % 10 == 0 ? 100 : (double)(i % 80);
	p->cpu_ns = (uint64_t)tick * 1000000 * (i % 50);
	p->rss_bytes = 20 * MB + (i * 7919 + tick * 104729) % (8 * MB);
	p->rss_anon_bytes = p->rss_bytes - 4 * MB;
	p->rss_shmem_bytes = 0;
	p->rchar = tick * 4000 * i;
	p->wchar = tick * 1000 * i;
	p->minor_faults = tick * (i % 100);
	p->threads = 1 + i % 8;
	p->open_fds = 10 + i % 50;
	p->fd_limit = 1024;
	p->age_seconds = 1000 + tick;
}

static void fill(struct snapshot *s, size_t n, unsigned tick, bool is_busy)
{
	snapshot_reset(s);
	s->wall_ns = UINT64_C(1763000000000000000) + tick * UINT64_C(5000000000);
	s->boot_ns = tick * UINT64_C(5000000000) + 1;
	s->system.memory_total_bytes = 65536 * MB;
	s->system.memory_available_bytes = 32768 * MB;
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = snapshot_add_process(s);

		if (!p)
			exit(1);
		fill_sample(p, i, tick, is_busy);
	}
}

/* ---- what is measured ---- */

/* What happens at a tick: an event for each process, or none. */
static struct proc_event *make_events(const struct snapshot *s, size_t n)
{
	struct proc_event *events = calloc(n ? n : 1, sizeof(*events));

	if (!events)
		exit(1);
	for (size_t i = 0; i < n; i++)
		events[i] = (struct proc_event){ .type = EVENT_ORPHAN,
						 .key = s->processes[i].key,
						 .job_id = s->processes[i].job_id,
						 .wall_ns = s->wall_ns };
	return events;
}

static void bench_detect(const char *method, size_t n, bool is_busy, bool is_left)
{
	const struct mallinfo2 before = mallinfo2();
	struct config config;
	struct detect *d;
	struct snapshot s;
	double us[ROUNDS];
	size_t kept;

	config_init(&config);
	d = detect_new(&config.anomaly, DETECT_ALL);
	snapshot_init(&s);
	for (unsigned tick = 0; tick < HISTORY + ROUNDS; tick++) {
		struct detect_news news = { .snap = &s, .n_events = is_left ? n : 0 };
		struct detect_changes changes;
		struct proc_event *events;
		double start;

		fill(&s, n, tick, is_busy);
		news.events = events = make_events(&s, news.n_events);
		start = cpu_us();
		if (!d || detect_tick(d, &news, &changes) < 0)
			exit(1);
		if (tick >= HISTORY)
			us[tick - HISTORY] = cpu_us() - start;
		free(events);
	}
	snapshot_release(&s);
	kept = mallinfo2().uordblks - before.uordblks;
	kept += mallinfo2().hblkhd - before.hblkhd;
	print(method, n, us);
	if (!is_busy && !is_left)
		printf("{\"bench\":\"detect\",\"n\":%zu,\"method\":\"proctor\",\"kept_bytes_per_process\":%.0f}\n",
		       n, (double)kept / (double)n);
	detect_free(d);
	config_release(&config);
}

#define PER_JOB 5

static char (*make_names(size_t n))[24]
{
	char(*names)[24] = calloc(n, sizeof(*names));

	if (!names)
		exit(1);
	for (size_t i = 0; i < n; i++)
		snprintf(names[i], sizeof(names[i]), "job-%zu", i);
	return names;
}

static double end_jobs(const struct config_anomaly *config, const struct snapshot *s,
		       char (*names)[24])
{
	const struct detect_news news = { .snap = s };
	const struct detect_ending ending = { .wall_ns = s->wall_ns };
	struct detect *d = detect_new(config, DETECT_ALL);
	struct detect_changes changes;
	double start;

	if (!d || detect_tick(d, &news, &changes) < 0)
		exit(1);
	start = cpu_us();
	for (size_t i = 0; i < s->n_processes / PER_JOB; i++)
		if (detect_leave_job(d, &(struct detect_job){ .job_id = names[i] }, &ending,
				     &changes) < 0)
			exit(1);
	start = cpu_us() - start;
	detect_free(d);
	return start;
}

static void bench_ends(size_t n)
{
	char(*names)[24] = make_names(n / PER_JOB + 1);
	struct config config;
	struct snapshot s;
	double us[ROUNDS];

	config_init(&config);
	snapshot_init(&s);
	fill(&s, n, 1, false);
	for (size_t i = 0; i < n; i++)
		s.processes[i].job_id = names[i / PER_JOB];
	for (int round = 0; round < ROUNDS; round++)
		us[round] = end_jobs(&config.anomaly, &s, names);
	print("ends", n, us);
	snapshot_release(&s);
	config_release(&config);
	free(names);
}

static void bench_floor(size_t n)
{
	volatile uint64_t sum = 0;
	struct snapshot s;
	double us[ROUNDS];

	snapshot_init(&s);
	fill(&s, n, 1, false);
	for (int round = 0; round < ROUNDS; round++) {
		double start = cpu_us();

		for (size_t i = 0; i < s.n_processes; i++)
			sum += s.processes[i].rss_bytes;
		us[round] = cpu_us() - start;
	}
	print("floor", n, us);
	snapshot_release(&s);
}

static void ignore(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	(void)a;
}

static void fill_compat(struct compat_snapshot *to, struct compat_process *items, size_t n,
			unsigned tick, bool is_busy)
{
	for (size_t i = 0; i < n; i++)
		items[i] = (struct compat_process){
			.pid = (int64_t)(1000 + i),
			.state = 'S',
			.cpu_percent = is_busy && i % 10 == 0 ? 100 : (double)(i % 80),
			.rss_mb = 20 + (double)((i * 7919 + tick * 104729) % 8),
			.open_fds = 10,
			.job_id = "training",
		};
	*to = (struct compat_snapshot){ .timestamp = tick * 5.0,
					.memory_total_mb = 65536,
					.memory_available_mb = 32768,
					.processes = items,
					.n_processes = n };
}

static void bench_compat(size_t n)
{
	struct compat_process *items = calloc(n * (HISTORY + 1), sizeof(*items));
	struct compat_snapshot snapshots[HISTORY + 1];
	struct config config;
	double us[ROUNDS];

	if (!items)
		exit(1);
	config_init(&config);
	for (unsigned tick = 0; tick <= HISTORY; tick++)
		fill_compat(&snapshots[tick], items + n * tick, n, tick, true);
	for (int round = 0; round < ROUNDS; round++) {
		double start = cpu_us();

		if (compat_detect(&config.anomaly, snapshots, HISTORY, &snapshots[HISTORY], ignore,
				  NULL) < 0)
			exit(1);
		us[round] = cpu_us() - start;
	}
	print("compat, busy", n, us);
	config_release(&config);
	free(items);
}

static void bench(size_t n)
{
	bench_detect("proctor", n, false, false);
	bench_detect("busy", n, true, false);
	bench_detect("left", n, false, true);
	bench_ends(n);
	if (n <= 1000) /* it searches each snapshot for each busy process */
		bench_compat(n);
	bench_floor(n);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 100, 1000, 10000 };
	uint64_t n;

	for (int i = 1; i < argc; i++) {
		if (num_parse_u64(argv[i], &n) < 0 || n == 0 || n > 60000)
			return 2;
		bench((size_t)n);
	}
	for (size_t i = 0; argc == 1 && i < ARRAY_SIZE(sizes); i++)
		bench(sizes[i]);
	return 0;
}

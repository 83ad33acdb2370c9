/*
 * bench_life [N] - how much of N (5000 unless told) x fork+exec+exit is seen, and at what cost.
 *
 * For the eBPF ring and for the proc connector, each drained every 0.1 s; then once
 * more with a reader that looks away for the first second.
 * One JSON line each: how many of the N were told with exit status, CPU time and
 * peak memory, what a told event cost in CPU microseconds, and how many were lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/sources.h"

struct seen {
	struct map statuses, cpu, peaks; /* by pid */
	uint64_t n_events, lost, reader_ns;
};

static void take(void *ctx, const struct life_event *ev)
{
	struct seen *seen = ctx;
	uint64_t pid = (uint64_t)ev->pid;

	seen->n_events++;
	if (ev->type == LIFE_EXIT)
		map_put(&seen->statuses, pid, (uint64_t)ev->wait_status);
	if ((ev->type == LIFE_EXIT || ev->type == LIFE_ACCOUNT) && u64_known(ev->account.cpu_ns))
		map_put(&seen->cpu, pid, ev->account.cpu_ns);
	if (ev->type == LIFE_EXIT && u64_known(ev->account.max_rss_bytes))
		map_put(&seen->peaks, pid, ev->account.max_rss_bytes);
}

static void drain(struct life *life, struct seen *seen)
{
	uint64_t began_ns = clock_cpu_ns();
	int64_t lost = life_drain(life, SIZE_MAX, take, seen);

	seen->reader_ns += clock_cpu_ns() - began_ns;
	seen->lost += lost > 0 ? (uint64_t)lost : 0;
}

static pid_t run_true(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* Starts them one after the other, and drains every 0.1 s, or after a second at first. */
static void run_all(struct life *life, pid_t *pids, size_t n, bool is_stalled, struct seen *seen)
{
	uint64_t next_ns = clock_boot_ns() + (is_stalled ? 10 : 1) * UINT64_C(100000000);

	for (size_t i = 0; i < n; i++) {
		pids[i] = run_true();
		waitpid(pids[i], NULL, 0);
		if (clock_boot_ns() < next_ns)
			continue;
		drain(life, seen);
		next_ns = clock_boot_ns() + UINT64_C(100000000);
	}
	for (int i = 0; i < 10; i++) {
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
		drain(life, seen);
	}
}

static size_t count_in(const struct map *map, const pid_t *pids, size_t n)
{
	size_t found = 0;
	uint64_t value;

	for (size_t i = 0; i < n; i++)
		found += map_get(map, (uint64_t)pids[i], &value);
	return found;
}

static void bench(const char *name, bool want_ebpf, bool is_stalled, size_t n)
{
	const struct life_options options = { .want_ebpf = want_ebpf, .wants_accounts = true };
	struct seen seen = { MAP_INIT, MAP_INIT, MAP_INIT, 0, 0, 0 };
	pid_t *pids = calloc(n, sizeof(*pids));
	struct life *life = NULL;
	struct err err = ERR_INIT;

	if (!pids || life_open_with(&options, &life, &err) < 0 ||
	    (want_ebpf && life_rung(life).reason[0])) {
		fprintf(stderr, "bench_life: %s: %s\n", name,
			life ? life_rung(life).reason : err.text);
	} else {
		run_all(life, pids, n, is_stalled, &seen);
		printf("{\"bench\":\"life\",\"n\":%zu,\"method\":\"%s\",\"with_status\":%zu,"
		       "\"with_cpu\":%zu,\"with_peak\":%zu,\"events\":%llu,"
		       "\"reader_us_per_event\":%.3f,\"lost\":%llu}\n",
		       n, name, count_in(&seen.statuses, pids, n), count_in(&seen.cpu, pids, n),
		       count_in(&seen.peaks, pids, n), (unsigned long long)seen.n_events,
		       seen.n_events ? (double)seen.reader_ns / 1e3 / (double)seen.n_events : 0.0,
		       (unsigned long long)seen.lost);
		fflush(stdout);
	}
	life_close(life);
	map_release(&seen.statuses);
	map_release(&seen.cpu);
	map_release(&seen.peaks);
	free(pids);
}

int main(int argc, char **argv)
{
	uint64_t n = 5000;

	if (argc > 1 && num_parse_u64(argv[1], &n) < 0) {
		fprintf(stderr, "bench_life: how many processes, not '%s'\n", argv[1]);
		return 2;
	}
	bench("eBPF", true, false, n);
	bench("eBPF, reader away for 1 s", true, true, n);
	bench("proc connector", false, false, n);
	bench("proc connector, reader away for 1 s", false, true, n);
	return 0;
}

/*
 * report_cases - attempts made by hand, as the store would hand them over.
 *
 * Everything but the strings of the program text lives in the attempt's arena.
 */
#ifndef PROCTOR_TESTS_REPORT_CASES_H
#define PROCTOR_TESTS_REPORT_CASES_H

#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/run_record.h"

#define MB(n) ((uint64_t)((n)*1024.0 * 1024.0))
#define SEC(n) ((uint64_t)((n)*1e9))
#define START SEC(1794714308) /* 2026-11-15 03:45:08 UTC */
#define AFTER(n) (START + SEC(n))

static void *case_alloc(struct attempt *a, size_t n, size_t size)
{
	void *p = arena_alloc(&a->arena, n * size);

	assert_non_null(p);
	memset(p, 0, n * size);
	return p;
}

static struct exit_status exited(int code)
{
	return (struct exit_status){ code, -1 };
}

static struct exit_status killed(int sig)
{
	return (struct exit_status){ -1, sig };
}

static void case_begin(struct attempt *a, const char *job_id, const char *command)
{
	attempt_init(a);
	a->id = 7;
	a->job_id = job_id;
	a->attempt_num = 1;
	a->command = command;
	a->argv_hash = 0x0123456789abcdef;
	a->uid = 1000;
	a->host = "builder";
	a->workdir = "/home/ada/proctor";
	memcpy(a->boot_id, "6f1d2c3b-0000-4000-8000-000000000001", BOOT_ID_BYTES);
	a->runner = (struct proc_key){ 4000, 100 };
	a->interval_seconds = 1;
	a->started_wall_ns = START;
	a->total_sheets = 1;
}

static void case_end(struct attempt *a, double after, enum outcome outcome, const char *reason,
		     struct exit_status status)
{
	a->ended_wall_ns = AFTER(after);
	a->usage.wall_ns = SEC(after);
	a->outcome = outcome;
	a->reason = reason;
	a->status = status;
}

static void case_usage(struct usage *u, double wall, double user, double system, double peak_mb,
		       double process_mb, uint64_t spawned)
{
	usage_init(u);
	u->wall_ns = SEC(wall);
	u->user_ns = SEC(user);
	u->system_ns = SEC(system);
	u->cpu_evidence = EVIDENCE_EXACT;
	u->peak_rss_bytes = MB(peak_mb);
	u->peak_rss_evidence = EVIDENCE_SAMPLED;
	u->max_process_rss_bytes = MB(process_mb);
	u->max_process_rss_evidence = EVIDENCE_EXACT;
	u->rchar = MB(41.5);
	u->wchar = MB(3.2);
	u->syscr = 1201;
	u->syscw = 1;
	u->read_bytes = MB(12);
	u->write_bytes = MB(3);
	u->io_evidence = EVIDENCE_LOWER_BOUND;
	u->minor_faults = 90210;
	u->major_faults = 2;
	u->voluntary_switches = 1530;
	u->involuntary_switches = 221;
	u->spawn_count = spawned;
	u->spawn_evidence = EVIDENCE_EXACT;
	u->peak_processes = spawned < 12 ? spawned : 12;
	u->peak_cpu_percent = 198.4;
}

/* There is room for it. */
static void case_anomaly(struct attempt *a, enum anomaly_type type, enum severity severity,
			 double after, const char *text)
{
	struct episode *e = &a->details.anomalies[a->details.n_anomalies++];

	episode_init(e);
	e->worst.type = type;
	e->worst.severity = severity;
	e->worst.has_pid = true;
	e->worst.pid = 4001;
	e->worst.sheet_num = 1;
	e->worst.metric_value = e->peak_value = 15890;
	snprintf(e->worst.text, sizeof(e->worst.text), "%s", text);
	snprintf(e->comm, sizeof(e->comm), "%s", text);
	episode_set_job(e, a->job_id);
	e->began_wall_ns = e->peak_wall_ns = AFTER(after);
	e->worst.timestamp = u64_to_seconds(e->began_wall_ns);
	e->ended_wall_ns = a->ended_wall_ns;
	e->count = 1;
}

/* As the record has it: JSON. */
static void case_evidence(struct episode *e)
{
	snprintf(e->comm, sizeof(e->comm), "eat-memory");
	e->unit = "MB";
	e->before_value = 90;
	e->first_value = 1340;
	e->worst.threshold = 122;
	e->seconds_to_limit = 3480;
	e->host_json =
		"{\"memory_total_mb\":16384,\"memory_available_mb\":14500,\"load_avg_1\":1.25,"
		"\"psi_cpu_some\":3.5,\"psi_memory_some\":0,\"psi_io_some\":null,"
		"\"top_cpu\":[{\"pid\":4001,\"comm\":\"eat-memory\",\"cpu_percent\":99.2,"
		"\"rss_mb\":1340},{\"pid\":7,\"comm\":\"cc1\",\"cpu_percent\":40}],"
		"\"top_rss\":[{\"pid\":4001,\"comm\":\"eat-memory\",\"rss_mb\":1340}]}";
	e->evidence_json = "{\"fast_interval_seconds\":0.1,\"open_file_count\":5,\"open_files\":["
			   "{\"fd\":0,\"target\":\"/dev/null\"},{\"fd\":1,\"target\":"
			   "\"pipe:[17]\"},{\"fd\":2,\"target\":\"pipe:[17]\"}],"
			   "\"top_syscalls\":[{\"name\":\"brk\",\"count\":312,\"time_pct\":88},"
			   "{\"name\":\"write\",\"count\":4,\"time_pct\":null}],"
			   "\"trace\":\"/var/lib/proctor/traces/memory_leak-4001.7-1.trace\"}";
}

static void case_rungs(struct attempt *a)
{
	static const struct rung rungs[] = {
		{ "process samples", "/proc/PID/* with kept-open files",
		  "the eBPF iterator is not built in" },
		{ "births, deaths, exit codes", "netlink proc connector", "" },
		{ "memory truth", "smaps_rollup/VmHWM",
		  "no cgroup of its own: the memory controller is not delegated to this user, and a "
		  "job cannot be moved" },
	};

	a->details.rungs = case_alloc(a, 3, sizeof(*a->details.rungs));
	memcpy(a->details.rungs, rungs, sizeof(rungs));
	a->details.n_rungs = 3;
}

static void case_unknowns(struct attempt *a)
{
	a->details.unknowns = case_alloc(a, 2, sizeof(*a->details.unknowns));
	a->details.unknowns[0] =
		(struct unknown_note){ "io", "some processes ended before their I/O could "
					     "be read, or were not ours to read" };
	a->details.unknowns[1] =
		(struct unknown_note){ "anomalies", "this version does not look for anomalies" };
	a->details.n_unknowns = 2;
}

static struct proc_record *case_process(struct attempt *a, pid_t pid, int sheet_num,
					const char *command, double born, double lived, double mb,
					double cpu, struct exit_status status)
{
	struct proc_record *p = &a->processes[a->n_processes++];

	proc_record_init(p);
	p->key = (struct proc_key){ pid, 50000 + (uint64_t)pid };
	p->ppid = 4001;
	p->sheet_num = sheet_num;
	p->command = command;
	p->uid = 1000;
	p->born_wall_ns = AFTER(born);
	p->died_wall_ns = AFTER(born + lived);
	p->status = status;
	p->user_ns = SEC(cpu);
	p->system_ns = 0;
	p->max_rss_bytes = MB(mb);
	p->evidence = EVIDENCE_EXACT;
	p->n_samples = 1;
	return p;
}

static void case_event(struct attempt *a, const struct proc_record *p, enum event_type type)
{
	bool is_birth = type == EVENT_SPAWN;

	a->events[a->n_events++] = (struct proc_event){
		.wall_ns = is_birth ? p->born_wall_ns : p->died_wall_ns,
		.key = p->key,
		.type = type,
		.status = is_birth ? (struct exit_status){ -1, -1 } : p->status,
		.job_id = a->job_id,
		.sheet_num = p->sheet_num,
		.details = is_birth ? "" : p->command,
	};
}

/* Birth and death of every process. */
static void case_events(struct attempt *a, size_t extra)
{
	a->events = case_alloc(a, 2 * a->n_processes + extra, sizeof(*a->events));
	for (size_t i = 0; i < a->n_processes; i++) {
		case_event(a, &a->processes[i], EVENT_SPAWN);
		if (u64_known(a->processes[i].died_wall_ns))
			case_event(a, &a->processes[i], EVENT_EXIT);
	}
}

static struct sheet_record *case_sheet(struct attempt *a, int num, int try_num, const char *name,
				       double from, double to, enum outcome outcome,
				       struct exit_status status, const char *reason)
{
	struct sheet_record *s = &a->sheets[a->n_sheets++];

	*s = (struct sheet_record){
		.num = num,
		.try_num = try_num,
		.name = name,
		.command = "/bin/sh -c …",
		.total_ranks = 1,
		.started_wall_ns = AFTER(from),
		.ended_wall_ns = isnan(to) ? U64_UNKNOWN : AFTER(to),
		.outcome = outcome,
		.status = status,
		.reason = reason,
		.cause = CAUSE_INIT,
	};
	usage_init(&s->usage);
	return s;
}

static void case_ranks(struct attempt *a, struct sheet_record *s, int n, int failed,
		       struct exit_status status)
{
	s->total_ranks = n;
	s->ranks = case_alloc(a, (size_t)n, sizeof(*s->ranks));
	s->n_ranks = (size_t)n;
	for (int i = 0; i < n; i++)
		s->ranks[i] = (struct rank_record){ i, 4100 + i, i == failed ? status : exited(0),
						    s->ended_wall_ns - (i == failed ? SEC(1) : 0) };
}

/* One point a second: memory climbs and falls, the first has no CPU, three are missing at gap. */
static void case_series(struct attempt *a, int n, int gap)
{
	a->details.series = case_alloc(a, (size_t)n, sizeof(*a->details.series));
	for (int i = 0; i < n; i++) {
		int step = i % 10;

		if (gap && i >= gap && i < gap + 3)
			continue;
		a->details.series[a->details.n_series++] = (struct series_point){
			.wall_ns = AFTER(i + 0.05),
			.sheet_num = 1 + i / 5,
			.rss_bytes = MB(20 + 30 * step),
			.cpu_percent = i == 0	  ? F64_UNKNOWN
				       : step < 5 ? 20.0 * step
						  : 198.4,
			.n_processes = (uint64_t)(1 + step),
		};
	}
}

/* As they come: quickly at first, then further and further apart. */
static void case_growing_series(struct attempt *a, double first, double last, double until)
{
	double gap = first;

	a->details.series = case_alloc(a, 1000, sizeof(*a->details.series));
	for (double at = 0.001; at < until && a->details.n_series < 1000; at += gap) {
		a->details.series[a->details.n_series] = (struct series_point){
			.wall_ns = AFTER(at),
			.sheet_num = 1,
			.rss_bytes = MB((double)a->details.n_series + 1),
			.cpu_percent = at < 0.1 ? F64_UNKNOWN : 50,
			.n_processes = 2,
		};
		a->details.n_series++;
		gap = gap * 1.1 < last ? gap * 1.1 : last;
	}
}

/* How it compares with 40 others; of one that runs nothing is compared yet. */
static void case_standing(struct attempt *a)
{
	struct standing *s = case_alloc(a, 1, sizeof(*s));
	bool is_over = u64_known(a->ended_wall_ns);

	*s = (struct standing){
		.n_others = 43,
		.n_failed = 3,
		.is_by_success = true,
		.basis = "exact command",
		.values = { { 3.21, 3, 2.5, 4, 40, 30, 10, 0, false },
			    { 1.12, 0.5, 0.4, 0.6, 40, 40, 0, 1, true },
			    { 312, 320, 315, 330, 12, 0, 12, -1, false } },
		.expected = { .n_runs = 25,
			      .peak_rss_mb = 330,
			      .peak_coverage = 0.95,
			      .cpu_seconds = 0.5,
			      .cpu_high_seconds = 0.6,
			      .cpu_coverage = 0.9,
			      .wall_seconds = 3 },
		.expected_basis = "masked command",
		.score = { is_over ? 1 : -1, is_over ? 0 : -1 },
	};
	for (size_t q = 0; q < STANDING_COUNT && !is_over; q++) {
		s->values[q].value = F64_UNKNOWN;
		s->values[q].n_below = s->values[q].n_above = 0;
		s->values[q].is_unusual = false;
		s->values[q].side = 0;
	}
	a->details.standing = s;
}

static void case_success(struct attempt *a)
{
	case_begin(a, "sleep-20261115-034512", "sh -c 'for i in $(seq 3); do /bin/true; done'");
	case_end(a, 3.21, OUTCOME_SUCCESS, "exit code 0", exited(0));
	a->last_completed_sheet = 1;
	case_standing(a);
	case_usage(&a->usage, 3.21, 1.02, 0.1, 312, 300, 4);
	a->usage.peak_rss_evidence = EVIDENCE_EXACT;
	a->usage.io_evidence = EVIDENCE_EXACT;
	a->usage.time = "{\"evidence\":\"sampled\",\"user\":1020000000,\"system\":100000000,"
			"\"disk\":2090000000,\"child\":3210000000}";
	a->sheets = case_alloc(a, 1, sizeof(*a->sheets));
	case_sheet(a, 1, 1, NULL, 0, 3.21, OUTCOME_SUCCESS, exited(0), "exit code 0")->usage =
		a->usage;
	a->processes = case_alloc(a, 4, sizeof(*a->processes));
	case_process(a, 4001, 1, a->command, 0, 3.2, 300, 1.0, exited(0));
	for (int i = 0; i < 3; i++)
		case_process(a, 4002 + i, 1, "/bin/true", 0.5 + i, 0.002, 1.5, 0.001, exited(0));
	case_events(a, 0);
	case_series(a, 4, 0);
	case_rungs(a);
}

/* Five sheets: one ranked, one retried, one with 500 children, the last one fails. */
static void case_failure(struct attempt *a)
{
	case_begin(a, "tour", "examples/tour.yaml");
	a->attempt_num = 2;
	case_end(a, 21.4, OUTCOME_FAILURE, "sheet 5 (fail): exit code 3", exited(3));
	a->total_sheets = 5;
	a->last_completed_sheet = 4;
	case_usage(&a->usage, 21.4, 8.21, 1.02, 312, 296.5, 514);
	a->sheets = case_alloc(a, 6, sizeof(*a->sheets));
	case_usage(&case_sheet(a, 1, 1, "allocate", 0, 6, OUTCOME_SUCCESS, exited(0), "exit code 0")
			    ->usage,
		   6, 0.9, 0.3, 312, 296.5, 2);
	case_usage(&case_sheet(a, 2, 1, "burn", 6, 11.2, OUTCOME_SUCCESS, exited(0), "exit code 0")
			    ->usage,
		   5.2, 7, 0.1, 40, 10.2, 4);
	case_ranks(a, &a->sheets[1], 4, -1, exited(0));
	case_usage(&case_sheet(a, 3, 1, "children", 11.2, 15, OUTCOME_SUCCESS, exited(0),
			       "exit code 0")
			    ->usage,
		   3.8, 0.21, 0.52, 9, 3.5, 501);
	case_sheet(a, 4, 1, "files", 15, 16.5, OUTCOME_TIMEOUT, killed(15),
		   "time limit of 1.5 s reached; signal 15");
	case_usage(&case_sheet(a, 4, 2, "files", 16.5, 21.196, OUTCOME_SUCCESS, exited(0),
			       "exit code 0")
			    ->usage,
		   4.696, 0.1, 0.1, 15, 12, 3);
	case_usage(&case_sheet(a, 5, 1, "fail", 21.196, 21.4, OUTCOME_FAILURE, exited(3),
			       "exit code 3")
			    ->usage,
		   0.204, 0.002, 0.001, 3.5, 3.5, 1);
	a->sheets[2].usage.max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
	a->sheets[2].usage.cpu_evidence = EVIDENCE_LOWER_BOUND;
	a->sheets[4].usage.peak_rss_evidence = EVIDENCE_LOWER_BOUND;
	a->sheets[5].usage.peak_rss_evidence = EVIDENCE_UPPER_BOUND;
	a->sheets[5].usage.max_process_rss_evidence = EVIDENCE_UPPER_BOUND;

	a->processes = case_alloc(a, 512, sizeof(*a->processes));
	case_process(a, 4001, 1, "python3 allocate.py --steps 300 --token=***", 0.1, 5.8, 296.5,
		     1.1, exited(0));
	for (int i = 0; i < 4; i++)
		case_process(a, 4100 + i, 2, "./burn --seconds 5", 6.01, 5.1, 10.2, 1.7 + 0.01 * i,
			     exited(0))
			->rank = i;
	case_process(a, 4110, 3, "/bin/sh -c 'for i in $(seq 500); do ./child $i; done'", 11.2, 3.8,
		     3.5, 0.1, exited(0))
		->evidence = EVIDENCE_SAMPLED;
	for (int i = 0; i < 500; i++)
		case_process(a, 4200 + i, 3, i == 499 ? NULL : "./child", 11.2 + i * 0.007, 0.004,
			     1 + i * 0.001, 0.001, i % 200 == 7 ? exited(1) : exited(0));
	case_process(a, 4900, 4, "./hold-files 200", 15, 1.5, 12, 0.05, killed(15));
	case_process(a, 4901, 4, "./hold-files 200", 16.5, 4.6, 12, 0.05, exited(0))->max_fds = 203;
	case_process(a, 4902, 4, "sleep 1000", 16.6, 4.5, 1.1, 0, killed(9));
	case_process(a, 4910, 5, "/bin/sh -c 'sleep 0.2; exit 3'", 21.196, 0.203, 3.5, 0.001,
		     exited(3))
		->evidence = EVIDENCE_UPPER_BOUND;
	case_events(a, 1);
	a->events[a->n_events++] = (struct proc_event){
		.wall_ns = AFTER(21.1),
		.key = { 4902, U64_UNKNOWN },
		.type = EVENT_KILL,
		.status = killed(9),
		.job_id = "tour",
		.sheet_num = 4,
		.details = "sent by proctor",
	};
	case_series(a, 22, 12);
	case_rungs(a);
	case_unknowns(a);
}

/* What a launcher does: one rank fails, all others are ended. A helper of rank 0 failed before. */
static void case_rank_processes(struct attempt *a)
{
	a->processes = case_alloc(a, 5, sizeof(*a->processes));
	for (int i = 0; i < 4; i++) {
		case_process(a, 4100 + i, 1, "./step", 30, i == 2 ? 31 : 32, 600 + i, 50,
			     killed(i == 2 ? 11 : 15));
		a->processes[i].rank = i;
	}
	case_process(a, 4200, 1, "grep -q x", 31, 1, 3, 0.01, exited(1));
	a->processes[4].rank = 0;
	a->processes[4].ppid = 4100;
}

/* Each rank waits and loads, again and again; the last one of rank 2 was not left. */
static void case_phases(struct attempt *a)
{
	a->phases = case_alloc(a, 16, sizeof(*a->phases));
	for (int i = 0; i < 16; i++)
		a->phases[a->n_phases++] = (struct phase_record){
			.name = i % 2 ? "load" : "epoch",
			.path = i % 2 ? "epoch/load" : "epoch",
			.pid = 4100 + i / 4,
			.rank = i / 4,
			.entered_wall_ns = AFTER(31 + i),
			.left_wall_ns = i == 11 ? U64_UNKNOWN : AFTER(31.5 + i),
		};
}

static void case_ranks_failed(struct attempt *a)
{
	case_begin(a, "train", "train.yaml");
	case_end(a, 62, OUTCOME_FAILURE, "signal 11", killed(11));
	a->total_sheets = 3;
	case_usage(&a->usage, 62, 200, 10, 5000, 2500, 9);
	a->usage.spawn_evidence = EVIDENCE_LOWER_BOUND;
	a->usage.peak_cpu_percent = 398.5;
	a->sheets = case_alloc(a, 2, sizeof(*a->sheets));
	case_sheet(a, 1, 1, "step", 0, 30, OUTCOME_FAILURE, exited(137), "exit code 137");
	case_ranks(a, case_sheet(a, 1, 2, "step", 30, 62, OUTCOME_FAILURE, killed(11), "signal 11"),
		   4, 2, killed(11));
	case_rank_processes(a);
	case_phases(a);
}

static void case_oom(struct attempt *a)
{
	case_begin(a, "big", "./eat-memory");
	case_end(a, 3725, OUTCOME_OOM,
		 "signal 9; its cgroup's count of out-of-memory kills rose by 1", killed(9));
	case_usage(&a->usage, 3725, 3600, 90, 15900, 15890, 1);
	a->usage.peak_rss_evidence = EVIDENCE_LOWER_BOUND;
	a->usage.max_process_rss_evidence = EVIDENCE_EXACT;
	a->sheets = case_alloc(a, 1, sizeof(*a->sheets));
	case_sheet(a, 1, 1, NULL, 0, 3725, OUTCOME_OOM, killed(9), a->reason);
	a->processes = case_alloc(a, 1, sizeof(*a->processes));
	case_process(a, 4001, 1, "./eat-memory", 0, 3725, 15890, 3690, killed(9));
	case_events(a, 1);
	a->events[a->n_events++] = (struct proc_event){
		.wall_ns = AFTER(3725),
		.key = { 0, U64_UNKNOWN },
		.type = EVENT_OOM,
		.status = killed(9),
		.job_id = "big",
		.sheet_num = 1,
		.details = "its cgroup's count of out-of-memory kills rose by 1",
	};
	a->details.anomalies = case_alloc(a, 2, sizeof(*a->details.anomalies));
	case_anomaly(a, ANOMALY_MEMORY_LEAK, SEVERITY_HIGH, 310,
		     "eat-memory (pid 4001) grows by 250.0 MB a minute, from 90 MB to 1340 MB in "
		     "300 s; memory is full in 58 min");
	case_evidence(&a->details.anomalies[0]);
	case_anomaly(a, ANOMALY_OOM_KILL, SEVERITY_CRITICAL, 3725,
		     "the kernel killed pid 4001 for want of memory");
	a->details.anomalies[1].comm[0] = '\0';
	case_rungs(a);
}

/* Out of memory for all that is known, which is not enough to say so. */
static void case_guess(struct attempt *a)
{
	case_begin(a, "guess", "guess.yaml");
	case_end(
		a, 9, OUTCOME_OOM,
		"sheet 2 (eat): exit code 137; probably out of memory: less than 1 % of it was free",
		exited(137));
	a->cause = (struct cause){ CAUSE_MEMORY_LIKELY, 4001, -1 };
	a->total_sheets = 4;
	case_usage(&a->usage, 9, 3, 1, 7000, 6900, 5);
	a->sheets = case_alloc(a, 4, sizeof(*a->sheets));
	case_sheet(a, 1, 1, NULL, 0, 1, OUTCOME_SUCCESS, exited(0), "exit code 0");
	case_sheet(a, 2, 1, "eat", 1, 7, OUTCOME_OOM, exited(137),
		   "exit code 137; probably out of memory: less than 1 % of it was free")
		->cause = a->cause;
	case_sheet(a, 3, 1, NULL, 7, 8, OUTCOME_OOM, killed(9),
		   "signal 9; its cgroup's count of out-of-memory kills rose by 1");
	case_sheet(a, 4, 1, NULL, 8, 9, OUTCOME_OOM, killed(9),
		   "signal 9; probably out of memory: less than 1 % of it was free")
		->cause = a->cause;
}

/* A process goes on in the background, samples come in growing gaps, the root's start time is cut
 * to a tick before the attempt's, and the end could not be written. */
static void case_left(struct attempt *a)
{
	case_begin(a, "left", "sh -c 'sleep 600 & sleep 7'");
	case_end(a, 7.01, OUTCOME_SUCCESS, "exit code 0", exited(0));
	a->last_completed_sheet = 1;
	case_usage(&a->usage, 7.01, 0.01, 0.01, 37, 3, 4);
	a->usage.cpu_evidence = EVIDENCE_LOWER_BOUND;
	a->usage.max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
	a->usage.peak_cpu_percent = 50;
	a->sheets = case_alloc(a, 1, sizeof(*a->sheets));
	case_sheet(a, 1, 1, NULL, 0, 7.01, OUTCOME_SUCCESS, exited(0), "exit code 0");
	a->processes = case_alloc(a, 4, sizeof(*a->processes));
	case_process(a, 4001, 1, "sh -c 'sleep 600 & sleep 7'", 0.002, 7, 3, 0.01, exited(0));
	case_process(a, 4002, 1, "sleep 600", 0.003, 0, 2, 0.001, (struct exit_status){ -1, -1 });
	case_process(a, 4003, 1, "sleep 7", 0.003, 7, 1.9, 0.001, exited(0));
	case_process(a, 4004, 1, "nobody", 1, 1, 1, 0, (struct exit_status){ -1, -1 });
	a->processes[1].died_wall_ns = U64_UNKNOWN;
	a->processes[1].evidence = EVIDENCE_SAMPLED;
	a->processes[1].ppid = 0;
	a->processes[3].max_rss_bytes = U64_UNKNOWN; /* seen by nobody but wait4 */
	a->processes[3].evidence = EVIDENCE_UNKNOWN;
	a->processes[3].n_samples = 0;
	case_events(a, 0);
	a->processes[0].born_wall_ns = START - SEC(0.008); /* its event says 2 ms after the start */
	a->processes[2].born_wall_ns = START - SEC(0.001);
	a->events[3].key.pid = 4999; /* and this one has no event */
	case_growing_series(a, 0.02, 0.7, 7.01);
	a->details.unknowns = case_alloc(a, 1, sizeof(*a->details.unknowns));
	a->details.unknowns[0] = (struct unknown_note){
		"recording",
		"the end of this run could not be recorded: No space left on device",
	};
	a->details.n_unknowns = 1;
}

/* As the store has it while the runner works: sheets, samples and what they show of processes,
 * events, no totals. */
static void case_running(struct attempt *a)
{
	case_begin(a, "nightly", "nightly.yaml");
	a->is_running = true;
	case_standing(a);
	a->total_sheets = 4;
	a->last_completed_sheet = 1;
	a->current_sheet = 2;
	a->sheets = case_alloc(a, 2, sizeof(*a->sheets));
	case_usage(&case_sheet(a, 1, 1, "fetch", 0, 5, OUTCOME_SUCCESS, exited(0), "exit code 0")
			    ->usage,
		   5, 1, 1, 100, 90, 3);
	case_sheet(a, 2, 1, "build", 5, NAN, OUTCOME_NONE, (struct exit_status){ -1, -1 }, NULL);
	case_series(a, 9, 0);
	a->processes = case_alloc(a, 2, sizeof(*a->processes));
	case_process(a, 4001, 1, "./fetch", 0, 5, 90, 2, exited(0));
	case_process(a, 4002, 2, "./build", 4.992, 1, 150, 0.5, exited(0))->died_wall_ns =
		U64_UNKNOWN;
	case_events(a, 0);
	for (size_t i = 0; i < a->n_processes; i++) {
		a->processes[i].died_wall_ns = U64_UNKNOWN;
		a->processes[i].status = (struct exit_status){ -1, -1 };
		a->processes[i].evidence = EVIDENCE_SAMPLED;
	}
}

static void case_lost(struct attempt *a)
{
	case_running(a);
	a->job_id = "lost-one";
	a->is_running = false;
	a->is_lost = true;
	a->n_processes = 0;
}

/* An attempt of which nothing is known but that it was. */
static void case_unknown(struct attempt *a)
{
	attempt_init(a);
	a->job_id = "blank";
	a->attempt_num = 1;
}

#define ESC "\033[31m"
/* Everything that comes from outside tries to reach the terminal or to break a table. */
static void case_hostile(struct attempt *a)
{
	static const char evil[] = "a|b`c`\n" ESC "red\033]0;title\a\tX\xff\xc2\x9b"
				   "31m \xe2\x80\xae"
				   "txt <b>&lt; *_[x](y)_* $1 \\ ünïcödé";

	case_begin(a, "hostile", evil);
	a->id = 0;
	a->host = evil;
	a->workdir = evil;
	case_end(a, 1, OUTCOME_FAILURE, evil, exited(127));
	case_usage(&a->usage, 1, 0.5, 0.1, 10, 10, 2);
	a->sheets = case_alloc(a, 2, sizeof(*a->sheets));
	a->total_sheets = 2;
	case_sheet(a, 1, 1, evil, 0, 0.5, OUTCOME_SUCCESS, exited(0), evil);
	case_sheet(a, 2, 1, evil, 0.5, 1, OUTCOME_FAILURE, exited(127), evil);
	a->processes = case_alloc(a, 2, sizeof(*a->processes));
	case_process(a, 4001, 1, evil, 0, 0.5, 10, 0.5, killed(11));
	case_process(a, 4002, 2, "", 0.5, 0.5, 8, 0.6, killed(40));
	case_events(a, 0);
	a->details.rungs = case_alloc(a, 1, sizeof(*a->details.rungs));
	a->details.rungs[0] = (struct rung){ evil, evil, evil };
	a->details.anomalies = case_alloc(a, 1, sizeof(*a->details.anomalies));
	case_anomaly(a, ANOMALY_MEMORY_SPIKE, SEVERITY_LOW, 0.5, evil);
	a->details.n_rungs = 1;
	a->details.unknowns = case_alloc(a, 2, sizeof(*a->details.unknowns));
	a->details.unknowns[0] = (struct unknown_note){ evil, evil };
	a->details.unknowns[1] = (struct unknown_note){ "recording", "cannot write " ESC };
	a->details.n_unknowns = 2;
}

static const struct report_case {
	const char *name;
	void (*build)(struct attempt *a);
} report_cases[] = {
	{ "success", case_success }, { "failure", case_failure }, { "ranks", case_ranks_failed },
	{ "oom", case_oom },	     { "guess", case_guess },	  { "left", case_left },
	{ "running", case_running }, { "lost", case_lost },	  { "unknown", case_unknown },
	{ "hostile", case_hostile },
};

#endif

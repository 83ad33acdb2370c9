#include "store_fixture.h"

#include <math.h>
#include "store_writer.h"

/* Quotes, newlines, a tab, bytes that are no UTF-8, SQL. */
#define AWKWARD "it's \"so\"\n\t\xff\xfe\x80 \xc3\xa4; DROP TABLE jobs; --"

#define BIG UINT64_C(0x8000000000000001) /* negative as SQLite keeps it */

#define assert_string_or_null(a, b)                    \
	do {                                           \
		if (!(a) || !(b))                      \
			assert_ptr_equal((a), (b));    \
		else                                   \
			assert_string_equal((a), (b)); \
	} while (0)

static void assert_f64(double a, double b)
{
	assert_true(a == b || (isnan(a) && isnan(b)));
}

static void assert_status(struct exit_status a, struct exit_status b)
{
	assert_int_equal(a.exit_code, b.exit_code);
	assert_int_equal(a.signal, b.signal);
}

/* ---- what is written: each value another ---- */

static struct usage make_usage(uint64_t base)
{
	return (struct usage){
		.wall_ns = base + 1,
		.user_ns = base + 2,
		.system_ns = base + 3,
		.cpu_evidence = EVIDENCE_EXACT,
		.peak_rss_bytes = base + 4,
		.peak_rss_evidence = EVIDENCE_SAMPLED,
		.peak_memory_bytes = base + 30,
		.max_process_rss_bytes = base + 5,
		.max_process_rss_evidence = EVIDENCE_LOWER_BOUND,
		.rchar = base + 6,
		.wchar = base + 7,
		.syscr = base + 8,
		.syscw = base + 9,
		.read_bytes = base + 10,
		.write_bytes = base + 11,
		.io_evidence = EVIDENCE_UPPER_BOUND,
		.minor_faults = base + 12,
		.major_faults = base + 13,
		.voluntary_switches = base + 14,
		.involuntary_switches = base + 15,
		.spawn_count = base + 16,
		.spawn_evidence = EVIDENCE_EXACT,
		.peak_processes = base + 17,
		.peak_cpu_percent = 398.12345678901234,
		.peak_gpu_bytes = base + 18,
		.gpu_busy_ns = base + 19,
		.gpu_idle_ns = base + 20,
		.time = "{\"evidence\":\"exact\",\"disk\":5}",
	};
}

static struct sheet_record make_sheet(int num, int try_num)
{
	return (struct sheet_record){
		.num = num,
		.try_num = try_num,
		.name = AWKWARD,
		.command = "make " AWKWARD,
		.total_ranks = 4,
		.started_wall_ns = UINT64_C(1700000000123456789),
		.ended_wall_ns = UINT64_C(1700000009123456789),
		.outcome = OUTCOME_OOM,
		.reason = "rank 3 was first: signal 9",
		.cause = { CAUSE_LOCK, 12, 7 },
		.status = { -1, 9 },
		.usage = make_usage((uint64_t)num * 1000),
	};
}

static struct proc_record make_process(pid_t pid, uint64_t start, uint64_t born)
{
	return (struct proc_record){
		.key = { pid, start },
		.ppid = 1,
		.sheet_num = 2,
		.rank = 3,
		.local_rank = 1,
		.world_size = 8,
		.command = AWKWARD,
		.uid = 1001,
		.born_wall_ns = born,
		.died_wall_ns = born + 5,
		.status = { 7, -1 },
		.user_ns = 11,
		.system_ns = 12,
		.max_rss_bytes = 13,
		.evidence = EVIDENCE_EXACT,
		.cpu_evidence = EVIDENCE_LOWER_BOUND,
		.syscalls = "read 1 0 5 -",
		.rchar = 14,
		.wchar = 15,
		.read_bytes = 16,
		.write_bytes = 17,
		.major_faults = 18,
		.max_threads = 19,
		.max_fds = 20,
		.max_gpu_bytes = 22,
		.gpu_busy_ns = 23,
		.gpu_idle_ns = 24,
		.n_samples = 21,
	};
}

static struct proc_event make_event(uint64_t wall_ns, enum event_type type, const char *details)
{
	return (struct proc_event){
		.wall_ns = wall_ns,
		.key = { 101, 5001 },
		.type = type,
		.status = { -1, 11 },
		.job_id = "j",
		.sheet_num = 2,
		.details = details,
	};
}

/* ---- and what must come back ---- */

static void assert_usage(const struct usage *a, const struct usage *b)
{
	/* A field that was added needs a column (store/tables.c), a migration, and a line here. */
	assert_int_equal(sizeof(*a), 28 * 8);
	assert_int_equal(a->wall_ns, b->wall_ns);
	assert_int_equal(a->user_ns, b->user_ns);
	assert_int_equal(a->system_ns, b->system_ns);
	assert_int_equal(a->cpu_evidence, b->cpu_evidence);
	assert_int_equal(a->peak_rss_bytes, b->peak_rss_bytes);
	assert_int_equal(a->peak_rss_evidence, b->peak_rss_evidence);
	assert_int_equal(a->peak_memory_bytes, b->peak_memory_bytes);
	assert_int_equal(a->max_process_rss_bytes, b->max_process_rss_bytes);
	assert_int_equal(a->max_process_rss_evidence, b->max_process_rss_evidence);
	assert_int_equal(a->rchar, b->rchar);
	assert_int_equal(a->wchar, b->wchar);
	assert_int_equal(a->syscr, b->syscr);
	assert_int_equal(a->syscw, b->syscw);
	assert_int_equal(a->read_bytes, b->read_bytes);
	assert_int_equal(a->write_bytes, b->write_bytes);
	assert_int_equal(a->io_evidence, b->io_evidence);
	assert_int_equal(a->minor_faults, b->minor_faults);
	assert_int_equal(a->major_faults, b->major_faults);
	assert_int_equal(a->voluntary_switches, b->voluntary_switches);
	assert_int_equal(a->involuntary_switches, b->involuntary_switches);
	assert_int_equal(a->spawn_count, b->spawn_count);
	assert_int_equal(a->spawn_evidence, b->spawn_evidence);
	assert_int_equal(a->peak_processes, b->peak_processes);
	assert_f64(a->peak_cpu_percent, b->peak_cpu_percent);
	assert_int_equal(a->peak_gpu_bytes, b->peak_gpu_bytes);
	assert_int_equal(a->gpu_busy_ns, b->gpu_busy_ns);
	assert_int_equal(a->gpu_idle_ns, b->gpu_idle_ns);
	assert_int_equal(!a->time, !b->time);
	if (a->time)
		assert_string_equal(a->time, b->time);
}

static void assert_cause(struct cause a, struct cause b)
{
	assert_int_equal(a.kind, b.kind);
	assert_int_equal(a.pid, b.pid);
	assert_int_equal(a.other_pid, b.other_pid);
}

static void assert_sheet(const struct sheet_record *a, const struct sheet_record *b)
{
	assert_int_equal(sizeof(*a), 13 * 8 + sizeof(struct usage));
	assert_int_equal(a->num, b->num);
	assert_int_equal(a->try_num, b->try_num);
	assert_string_or_null(a->name, b->name);
	assert_string_or_null(a->command, b->command);
	assert_int_equal(a->total_ranks, b->total_ranks);
	assert_int_equal(a->started_wall_ns, b->started_wall_ns);
	assert_int_equal(a->ended_wall_ns, b->ended_wall_ns);
	assert_int_equal(a->outcome, b->outcome);
	assert_string_or_null(a->reason, b->reason);
	assert_cause(a->cause, b->cause);
	assert_status(a->status, b->status);
	assert_usage(&a->usage, &b->usage);
	assert_int_equal(a->n_ranks, b->n_ranks);
	for (size_t i = 0; i < a->n_ranks; i++) {
		assert_int_equal(a->ranks[i].rank, b->ranks[i].rank);
		assert_int_equal(a->ranks[i].pid, b->ranks[i].pid);
		assert_status(a->ranks[i].status, b->ranks[i].status);
		assert_int_equal(a->ranks[i].ended_wall_ns, b->ranks[i].ended_wall_ns);
	}
}

static void assert_process(const struct proc_record *a, const struct proc_record *b)
{
	assert_int_equal(sizeof(*a), 30 * 8); /* is_unaccounted is not stored */
	assert_int_equal(a->key.pid, b->key.pid);
	assert_int_equal(a->key.start_ticks, b->key.start_ticks);
	assert_int_equal(a->ppid, b->ppid);
	assert_int_equal(a->sheet_num, b->sheet_num);
	assert_int_equal(a->rank, b->rank);
	assert_int_equal(a->local_rank, b->local_rank);
	assert_int_equal(a->world_size, b->world_size);
	assert_string_or_null(a->command, b->command);
	assert_string_or_null(a->syscalls, b->syscalls);
	assert_string_or_null(a->failed_calls, b->failed_calls);
	assert_int_equal(a->cpu_evidence, b->cpu_evidence);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->born_wall_ns, b->born_wall_ns);
	assert_int_equal(a->died_wall_ns, b->died_wall_ns);
	assert_status(a->status, b->status);
	assert_int_equal(a->user_ns, b->user_ns);
	assert_int_equal(a->system_ns, b->system_ns);
	assert_int_equal(a->max_rss_bytes, b->max_rss_bytes);
	assert_int_equal(a->evidence, b->evidence);
	assert_int_equal(a->rchar, b->rchar);
	assert_int_equal(a->wchar, b->wchar);
	assert_int_equal(a->read_bytes, b->read_bytes);
	assert_int_equal(a->write_bytes, b->write_bytes);
	assert_int_equal(a->major_faults, b->major_faults);
	assert_int_equal(a->max_threads, b->max_threads);
	assert_int_equal(a->max_fds, b->max_fds);
	assert_int_equal(a->max_gpu_bytes, b->max_gpu_bytes);
	assert_int_equal(a->gpu_busy_ns, b->gpu_busy_ns);
	assert_int_equal(a->gpu_idle_ns, b->gpu_idle_ns);
	assert_int_equal(a->n_samples, b->n_samples);
}

static void assert_event(const struct proc_event *a, const struct proc_event *b)
{
	assert_int_equal(a->wall_ns, b->wall_ns);
	assert_int_equal(a->key.pid, b->key.pid);
	assert_int_equal(a->key.start_ticks, b->key.start_ticks);
	assert_int_equal(a->type, b->type);
	assert_status(a->status, b->status);
	assert_string_equal(a->job_id, b->job_id);
	assert_int_equal(a->sheet_num, b->sheet_num);
	assert_string_equal(a->details, b->details ? b->details : "");
}

/* Everything but the arrays. */
static void assert_attempt(const struct attempt *a, const struct attempt *b)
{
	assert_int_equal(offsetof(struct attempt, usage), 30 * 8);
	assert_int_equal(a->id, b->id);
	assert_string_equal(a->job_id, b->job_id);
	assert_int_equal(a->attempt_num, b->attempt_num);
	assert_string_or_null(a->command, b->command);
	assert_int_equal(a->clock.error_ns, b->clock.error_ns);
	assert_int_equal(a->clock.is_synchronised, b->clock.is_synchronised);
	assert_true(a->argv_hash == b->argv_hash);
	assert_true(a->input_bytes == b->input_bytes && a->input_hash == b->input_hash);
	assert_int_equal(a->uid, b->uid);
	assert_true(a->submission == b->submission);
	assert_string_or_null(a->host, b->host);
	assert_string_or_null(a->workdir, b->workdir);
	assert_string_equal(a->boot_id, b->boot_id);
	assert_int_equal(a->runner.pid, b->runner.pid);
	assert_int_equal(a->runner.start_ticks, b->runner.start_ticks);
	assert_int_equal(a->is_attached, b->is_attached);
	assert_int_equal(a->pid_ns, b->pid_ns);
	assert_f64(a->interval_seconds, b->interval_seconds);
	assert_int_equal(a->started_wall_ns, b->started_wall_ns);
	assert_int_equal(a->ended_wall_ns, b->ended_wall_ns);
	assert_int_equal(a->outcome, b->outcome);
	assert_string_or_null(a->reason, b->reason);
	assert_cause(a->cause, b->cause);
	assert_status(a->status, b->status);
	assert_int_equal(a->total_sheets, b->total_sheets);
	assert_int_equal(a->last_completed_sheet, b->last_completed_sheet);
	assert_int_equal(a->current_sheet, b->current_sheet);
	assert_usage(&a->usage, &b->usage);
}

/* ---- tests ---- */

static void end_attempt(struct attempt *a)
{
	a->ended_wall_ns = a->started_wall_ns + 1;
	a->outcome = OUTCOME_SUCCESS;
	a->status = (struct exit_status){ 0, -1 };
	a->reason = "exit code 0";
}

static void test_everything_comes_back(void **state)
{
	struct fixture *f = *state;
	struct rank_record ranks[] = {
		{ 0, 900, { 0, -1 }, UINT64_C(1700000009000000000) },
		{ 1, 901, { -1, 9 }, UINT64_C(1700000009000000001) },
		{ 2, 902, { -1, -1 }, U64_UNKNOWN },
	};
	struct sheet_record sheets[] = { make_sheet(1, 1), make_sheet(2, 1), make_sheet(2, 2) };
	struct proc_record processes[] = { make_process(100, 5000, 10), make_process(101, 5001, 10),
					   make_process(90, 6000, 11) };
	struct proc_event events[] = { make_event(10, EVENT_SPAWN, ""),
				       make_event(11, EVENT_EXIT, AWKWARD),
				       make_event(11, EVENT_SIGNAL, "x"),
				       make_event(11, EVENT_KILL, "y"),
				       make_event(12, EVENT_OOM, NULL) };
	struct rung rungs[] = { { "process samples", "/proc", AWKWARD }, { "GPU", "none", "" } };
	struct unknown_note unknowns[] = { { "syscalls", "nobody counted" }, { AWKWARD, "" } };
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	a.command = AWKWARD;
	a.workdir = "/tmp/" AWKWARD;
	a.uid = BIG;
	must(store_begin_attempt(store, &a, &err), &err);
	end_attempt(&a);
	sheets[1].ranks = ranks;
	sheets[1].n_ranks = ARRAY_SIZE(ranks);
	a.usage = make_usage(BIG);
	a.last_completed_sheet = 2;
	a.current_sheet = 3;
	a.sheets = sheets;
	a.n_sheets = ARRAY_SIZE(sheets);
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.details.rungs = rungs;
	a.details.n_rungs = ARRAY_SIZE(rungs);
	a.details.unknowns = unknowns;
	a.details.n_unknowns = ARRAY_SIZE(unknowns);
	must(store_finish_attempt(store, &a, events, ARRAY_SIZE(events), &err), &err);

	must(store_read_attempt(store, "j", 1, &back, &err), &err);
	assert_attempt(&back, &a);
	assert_false(back.is_running);
	assert_false(back.is_lost);
	assert_int_equal(back.n_sheets, ARRAY_SIZE(sheets));
	for (size_t i = 0; i < ARRAY_SIZE(sheets); i++)
		assert_sheet(&back.sheets[i], &sheets[i]);
	assert_null(back.sheets[0].ranks);
	assert_int_equal(back.n_processes, ARRAY_SIZE(processes));
	for (size_t i = 0; i < ARRAY_SIZE(processes); i++)
		assert_process(&back.processes[i], &processes[i]);
	assert_int_equal(back.n_events, ARRAY_SIZE(events));
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		assert_event(&back.events[i], &events[i]);
	assert_int_equal(back.details.n_rungs, ARRAY_SIZE(rungs));
	for (size_t i = 0; i < ARRAY_SIZE(rungs); i++) {
		assert_string_equal(back.details.rungs[i].measurement, rungs[i].measurement);
		assert_string_equal(back.details.rungs[i].rung, rungs[i].rung);
		assert_string_equal(back.details.rungs[i].reason, rungs[i].reason);
	}
	assert_int_equal(back.details.n_unknowns, ARRAY_SIZE(unknowns));
	for (size_t i = 0; i < ARRAY_SIZE(unknowns); i++) {
		assert_string_equal(back.details.unknowns[i].what, unknowns[i].what);
		assert_string_equal(back.details.unknowns[i].why, unknowns[i].why);
	}
	assert_int_equal(back.details.n_series, 0);
	assert_null(back.details.series);
}

static void test_unknown_stays_unknown(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct sheet_record sheet = { .num = 1,
				      .try_num = 1,
				      .total_ranks = 1,
				      .started_wall_ns = U64_UNKNOWN,
				      .ended_wall_ns = U64_UNKNOWN,
				      .status = { -1, -1 } };
	struct proc_record process;
	struct proc_event event = { .wall_ns = 1,
				    .key = { 5, U64_UNKNOWN },
				    .status = { -1, -1 },
				    .job_id = "j",
				    .sheet_num = SHEET_NONE };
	struct attempt a;
	struct err err = ERR_INIT;

	attempt_init(&back);
	attempt_init(&a);
	a.job_id = "j";
	a.runner.start_ticks = U64_UNKNOWN;
	a.interval_seconds = F64_UNKNOWN;
	must(store_begin_attempt(store, &a, &err), &err);
	usage_init(&sheet.usage);
	proc_record_init(&process);
	a.ended_wall_ns = 5;
	a.sheets = &sheet;
	a.n_sheets = 1;
	a.processes = &process;
	a.n_processes = 1;
	must(store_finish_attempt(store, &a, &event, 1, &err), &err);

	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_attempt(&back, &a);
	assert_string_equal(back.boot_id, "");
	assert_int_equal(back.n_sheets, 1);
	assert_sheet(&back.sheets[0], &sheet);
	assert_int_equal(back.n_processes, 1);
	assert_process(&back.processes[0], &process);
	assert_int_equal(back.n_events, 1);
	assert_event(&back.events[0], &event);
	/* NULL in the file too, not 0. */
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE user_ns IS NULL AND "
					"peak_cpu_percent IS NULL AND spawn_evidence IS NULL AND "
					"exit_code IS NULL AND outcome IS NULL"),
			 1);
}

static void test_order_is_stable(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct sheet_record sheets[] = { make_sheet(10, 1), make_sheet(2, 2), make_sheet(2, 1) };
	struct proc_record processes[] = { make_process(300, 1, 20), make_process(200, 1, 20),
					   make_process(400, 1, 10),
					   make_process(500, U64_UNKNOWN, 30),
					   make_process(500, U64_UNKNOWN, 31) };
	struct proc_event events[] = { make_event(20, EVENT_EXIT, "third"),
				       make_event(10, EVENT_SPAWN, "first"),
				       make_event(10, EVENT_SPAWN, "second") };
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	end_attempt(&a);
	a.sheets = sheets;
	a.n_sheets = ARRAY_SIZE(sheets);
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	must(store_finish_attempt(store, &a, events, ARRAY_SIZE(events), &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_sheets, 3);
	assert_sheet(&back.sheets[0], &sheets[2]);
	assert_sheet(&back.sheets[1], &sheets[1]);
	assert_sheet(&back.sheets[2], &sheets[0]);
	/* Two with the same pid whose start nobody saw are two. */
	assert_int_equal(back.n_processes, 5);
	assert_process(&back.processes[0], &processes[2]);
	assert_process(&back.processes[1], &processes[1]);
	assert_process(&back.processes[2], &processes[0]);
	assert_process(&back.processes[3], &processes[3]);
	assert_process(&back.processes[4], &processes[4]);
	assert_string_equal(back.events[0].details, "first");
	assert_string_equal(back.events[1].details, "second");
	assert_string_equal(back.events[2].details, "third");
}

static void test_a_sheet_is_replaced(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct rank_record ranks[] = { { 0, 900, { -1, -1 }, U64_UNKNOWN },
				       { 1, 901, { -1, -1 }, U64_UNKNOWN } };
	struct sheet_record sheet = make_sheet(1, 1);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	sheet.ended_wall_ns = U64_UNKNOWN;
	sheet.outcome = OUTCOME_NONE;
	sheet.reason = NULL;
	usage_init(&sheet.usage);
	sheet.ranks = ranks;
	sheet.n_ranks = 2;
	a.current_sheet = 1;
	must(store_write_sheets(store, &a, &sheet, 1, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_attempt(&back, &a);
	assert_int_equal(back.n_sheets, 1);
	assert_sheet(&back.sheets[0], &sheet);
	attempt_release(&back);

	sheet = make_sheet(1, 1);
	ranks[0].status.exit_code = 3;
	sheet.ranks = ranks;
	sheet.n_ranks = 1;
	a.current_sheet = SHEET_NONE;
	a.last_completed_sheet = 1;
	must(store_write_sheets(store, &a, &sheet, 1, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_attempt(&back, &a);
	assert_int_equal(back.n_sheets, 1);
	assert_sheet(&back.sheets[0], &sheet);
}

static void test_attempts_are_counted_per_job(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	const char *const jobs[] = { "a", "b", "a", "a", "b" };
	const int nums[] = { 1, 1, 2, 3, 2 };
	struct err err = ERR_INIT;

	attempt_init(&back);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct attempt a = make_attempt(jobs[i]);

		must(store_begin_attempt(store, &a, &err), &err);
		assert_int_equal(a.attempt_num, nums[i]);
		assert_int_equal(a.id, i + 1);
	}
	must(store_read_attempt(store, "a", 0, &back, &err), &err);
	assert_int_equal(back.attempt_num, 3);
	attempt_release(&back);
	must(store_read_attempt(store, "a", 2, &back, &err), &err);
	assert_int_equal(back.id, 3);

	assert_int_equal(store_read_attempt(store, "a", 4, &back, &err), -ENOENT);
	assert_string_equal(err.text, "job a has no attempt 4");
	assert_int_equal(store_read_attempt(store, "c", 0, &back, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no job c"));
	assert_int_equal(back.id, 3); /* untouched */
}

static void test_what_was_not_begun_cannot_go_on(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct sheet_record sheet = make_sheet(1, 1);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 1, 0);
	a.id = 77;
	assert_int_equal(store_write_sheets(store, &a, &sheet, 1, &err), -EINVAL);
	assert_int_equal(write_tick(store, &a, &snap, NULL, NULL, 0, &err), -EINVAL);
	assert_int_equal(store_finish_attempt(store, &a, NULL, 0, &err), -ENOENT);
	a.job_id = NULL;
	assert_int_equal(store_begin_attempt(store, &a, &err), -EINVAL);
	assert_int_equal(raw_sql(f->db, "SELECT (SELECT count(*) FROM sheets) + (SELECT count(*) "
					"FROM ticks) + (SELECT count(*) FROM jobs)"),
			 0);
}

static void test_finishing_twice_doubles_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	struct sheet_record sheet = make_sheet(1, 1);
	struct proc_record process = make_process(100, 5000, 10);
	struct rung rung = { "a", "b", "c" };
	struct unknown_note note = { "a", "b" };
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	end_attempt(&a);
	a.sheets = &sheet;
	a.processes = &process;
	a.details.rungs = &rung;
	a.details.unknowns = &note;
	a.n_sheets = a.n_processes = a.details.n_rungs = a.details.n_unknowns = 1;
	for (int i = 0; i < 2; i++)
		must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_sheets, 1);
	assert_int_equal(back.n_processes, 1);
	assert_int_equal(back.details.n_rungs, 1);
	assert_int_equal(back.details.n_unknowns, 1);
}

static void test_a_reader_sees_what_was_committed(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *writer = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *reader = must_open(f->db, STORE_READ);
	struct attempt a = make_attempt("j"), back;
	struct err err = ERR_INIT;

	assert_int_equal(store_read_attempt(reader, "j", 0, &back, &err), -ENOENT);
	must(store_begin_attempt(writer, &a, &err), &err);
	must(store_read_attempt(reader, "j", 0, &back, &err), &err);
	assert_attempt(&back, &a);
	attempt_release(&back);
	assert_int_equal(store_begin_attempt(reader, &a, &err), -EACCES);
	assert_non_null(strstr(err.text, f->db));
}

static void test_calls_that_are_not_all(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	const struct syscall_use use = { "read", 3, 0, 10, 0 };
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must(store_add_syscalls(store, &a, &use, 1, NULL, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.details.n_unknowns, 0);
	attempt_release(&back);
	attempt_init(&back);
	must(store_add_syscalls(store, &a, &use, 1, "no room", &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.details.n_syscalls, 1);
	assert_int_equal(back.details.syscalls[0].count, 6);
	assert_int_equal(back.details.n_unknowns, 1);
	assert_string_equal(back.details.unknowns[0].what, "syscalls");
	assert_string_equal(back.details.unknowns[0].why, "no room");
}

/* A runner may not know when a process started that the daemon has sampled. */
static void test_who_was_told_is_who_was_sampled(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt back;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("j");
	struct proc_record told[2];
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	attempt_init(&back);
	must(store_begin_attempt(store, &a, &err), &err);
	fill_snapshot(&snap, "j", 1, 0);
	snap.processes[0].start_wall_ns = snap.wall_ns - 5000000;
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	for (size_t i = 0; i < 2; i++) {
		proc_record_init(&told[i]);
		told[i].key.pid = snap.processes[0].key.pid;
		told[i].key.start_ticks = U64_UNKNOWN;
		told[i].born_wall_ns = snap.processes[0].start_wall_ns + 8000000;
	}
	told[1].born_wall_ns += 3600 * UINT64_C(1000000000); /* another of that number */
	told[0].died_wall_ns = told[0].born_wall_ns + 1;
	a.processes = told;
	a.n_processes = 2;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, 2);
	assert_int_equal(back.processes[0].key.start_ticks, snap.processes[0].key.start_ticks);
	assert_int_equal(back.processes[0].died_wall_ns, told[0].died_wall_ns);
	assert_false(u64_known(back.processes[1].key.start_ticks));
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_who_was_told_is_who_was_sampled),
		STORE_TEST(test_calls_that_are_not_all),
		STORE_TEST(test_everything_comes_back),
		STORE_TEST(test_unknown_stays_unknown),
		STORE_TEST(test_order_is_stable),
		STORE_TEST(test_a_sheet_is_replaced),
		STORE_TEST(test_attempts_are_counted_per_job),
		STORE_TEST(test_what_was_not_begun_cannot_go_on),
		STORE_TEST(test_finishing_twice_doubles_nothing),
		STORE_TEST(test_a_reader_sees_what_was_committed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"

#include "crossrank/crossrank.h"
#include "model/job.h"
#include "query/query.h"
#include "store_writer.h"

#define MIB (UINT64_C(1024) * 1024)
#define N_TICKS 500U
#define BEGIN 60U /* the tick at which all ranks begin to rise */
#define LEADER 1  /* but for this one, */
#define LEAD 12U  /* which begins so many before: of three ranks 1 s is too little for a name */
#define WORLD 3

/* 0.25 s apart: three ranks of two processes each, and a launcher that is none. */
static void fill(struct snapshot *s, unsigned k, int sheet_num)
{
	fill_snapshot(s, "j", 7, k);
	for (int i = 0; i < 7; i++) {
		struct proc_sample *p = &s->processes[i];
		int rank = i < 6 ? i / 2 : RANK_NONE;
		unsigned begin = rank == LEADER ? BEGIN - LEAD : BEGIN;

		p->sheet_num = sheet_num;
		p->rank = rank;
		p->local_rank = rank;
		p->world_size = rank < 0 ? RANK_NONE : WORLD;
		p->rss_bytes = 10 * MIB;
		p->gpu_memory_bytes = 0;
		if (i % 2 == 0 && rank >= 0 && k > begin)
			p->rss_bytes += (k - begin) * 40 * MIB;
	}
}

/* Each rank but the last comes to its GPU when it gets there, rests, and rises as above. */
static void use_gpu(struct snapshot *s, unsigned k)
{
	for (int i = 0; i < 4; i += 2) {
		unsigned begin = i / 2 == LEADER ? BEGIN - LEAD : BEGIN, there = 3U + (unsigned)i;

		s->processes[i].gpu_memory_bytes =
			(k >= there ? 500 * MIB : 0) + (k > begin ? (k - begin) * 40 * MIB : 0);
	}
}

static void record_as(struct store *store, struct attempt *a, int sheet_num, bool is_gpu)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, a, &err), &err);
	for (unsigned k = 0; k < N_TICKS; k++) {
		fill(&snap, k, sheet_num);
		if (is_gpu)
			use_gpu(&snap, k);
		must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	}
}

static void record(struct store *store, struct attempt *a, int sheet_num)
{
	record_as(store, a, sheet_num, false);
}

/* What the process 102, rank 1, said. */
static void mark_phase(struct store *store, const struct attempt *a)
{
	struct phase_mark marks[] = {
		{ .attempt_id = a->id,
		  .phase = { .name = "epoch",
			     .pid = 102,
			     .rank = RANK_NONE,
			     .entered_wall_ns = UINT64_C(1700000001000000000),
			     .left_wall_ns = U64_UNKNOWN } },
		{ .attempt_id = a->id,
		  .phase = { .name = "load/it",
			     .pid = 102,
			     .rank = RANK_NONE,
			     .entered_wall_ns = UINT64_C(1700000002000000000),
			     .left_wall_ns = U64_UNKNOWN } },
	};
	struct err err = ERR_INIT;

	must(store_mark_phases(store, marks, ARRAY_SIZE(marks), &err), &err);
	assert_int_equal(marks[0].result | marks[1].result, 0);
}

static struct attempt must_read(struct store *store)
{
	struct err err = ERR_INIT;
	struct attempt a;

	must(store_read_attempt(store, "j", 0, &a, &err), &err);
	return a;
}

static void test_memory_is_the_sum_over_processes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	record(store, &a, 1);
	read = must_read(store);
	assert_true(attempt_has_ranks(&read));
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, 3);
	assert_int_equal(ranks.world_size, WORLD);
	assert_false(ranks.is_gpu);
	for (size_t i = 0; i < ranks.n_ranks; i++) {
		const struct recorded_rank *rank = &ranks.ranks[i];
		const struct rank_point *last = &ranks.points[rank->first + N_TICKS - 1];

		assert_int_equal(rank->rank, i);
		assert_int_equal(rank->pid, 100 + 2 * i);
		assert_int_equal(rank->n, N_TICKS);
		assert_int_equal(ranks.points[rank->first].bytes, 20 * MIB);
		assert_int_equal(last->bytes,
				 20 * MIB + (N_TICKS - 1 - BEGIN + (i == LEADER ? LEAD : 0U)) * 40 *
						    MIB);
	}
	attempt_release(&a);
}

static void test_the_leader_and_its_phase_are_named(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	record(store, &a, 1);
	mark_phase(store, &a);
	read = must_read(store);
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_non_null(read.details.telemetry);
	assert_string_equal(read.details.telemetry->verdict, "named");
	assert_int_equal(read.details.telemetry->rank, LEADER);
	assert_string_equal(read.details.telemetry->kind, "first");
	assert_true(read.details.telemetry->probability >= 0.8);
	assert_string_equal(read.details.telemetry->phase, "epoch / load/it");
	assert_int_equal(read.details.telemetry->n_samples, 3 * N_TICKS);
	attempt_release(&a);
}

/* To get to a GPU first is no rise. */
static void test_gpu_memory_counts_from_its_first_use(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	record_as(store, &a, 1, true);
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_true(ranks.is_gpu);
	assert_int_equal(ranks.n_ranks, 3);
	assert_int_equal(ranks.ranks[0].n, N_TICKS - 3);
	assert_int_equal(ranks.ranks[1].n, N_TICKS - 5);
	assert_int_equal(ranks.ranks[2].n, N_TICKS); /* which never uses one */
	assert_int_equal(ranks.points[ranks.ranks[1].first].gpu_bytes, 500 * MIB);
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_string_equal(read.details.telemetry->verdict, "named");
	assert_int_equal(read.details.telemetry->rank, LEADER);
	attempt_release(&a);
}

/* Rank 1 has two GPUs that rest from tick 200 on; the GPU time of a rank at tick 100 is unknown. */
static void test_a_rank_whose_gpu_rests_is_named(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	for (unsigned k = 0; k < N_TICKS; k++) {
		fill(&snap, k, 1);
		for (int i = 0; i < 6; i++) {
			double percent = i / 2 == 1 ? (k < 200 ? 90 : 1) : 180 * (i % 2 == 0);

			snap.processes[i].gpu_memory_bytes = 500 * MIB;
			snap.processes[i].gpu_percent = k == 100 && i == 4 ? F64_UNKNOWN : percent;
		}
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	read = must_read(store);
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_memory_equal(read.details.telemetry->gpu, "GPU rank 1: 0.02 of a GPU since ", 32);
	assert_non_null(strstr(read.details.telemetry->gpu, ", its peers 1.80. It waits"));
	attempt_release(&a);
}

/* ---- "srun proctor run --job j": an attempt for each rank, at the same time ---- */

/* boot_ids[i] NULL: that of the other attempts. */
static void record_in_boots(struct store *store, const int ranks[], const char *const boot_ids[],
			    size_t n)
{
	struct attempt attempts[WORLD + 1];
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (size_t i = 0; i < n; i++) {
		attempts[i] = make_attempt("j");
		if (boot_ids[i])
			snprintf(attempts[i].boot_id, sizeof(attempts[i].boot_id), "%s",
				 boot_ids[i]);
		must(store_begin_attempt(store, &attempts[i], &err), &err);
	}
	for (unsigned k = 0; k < N_TICKS; k++)
		for (size_t i = 0; i < n; i++) {
			fill(&snap, k, 1);
			memmove(snap.processes, snap.processes + (ptrdiff_t)2 * ranks[i],
				2 * sizeof(*snap.processes));
			snap.processes[0].key.pid += 100 * (int)i;
			snap.processes[1].key.pid += 100 * (int)i;
			snap.n_processes = 2;
			must(write_tick(store, &attempts[i], &snap, NULL, NULL, 0, &err), &err);
		}
	for (size_t i = 0; i < n; i++)
		attempt_release(&attempts[i]);
}

static void record_apart(struct store *store, const int ranks[], size_t n)
{
	static const char *const boot_ids[WORLD + 1];

	record_in_boots(store, ranks, boot_ids, n);
}

static void test_ranks_with_a_runner_each_are_of_one_job(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct err err = ERR_INIT;

	record_apart(store, (const int[]){ 0, 2, 1 }, WORLD);
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, WORLD);
	assert_int_equal(ranks.world_size, WORLD);
	for (int i = 0; i < WORLD; i++) {
		assert_int_equal(ranks.ranks[i].rank, i);
		assert_int_equal(ranks.ranks[i].n, N_TICKS);
	}
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_int_equal(read.details.telemetry->rank, LEADER);
	assert_int_equal(read.n_processes, 2); /* the report is of one attempt all the same */
}

/* Two launches of one name at the same time: which rank 1 belongs to which rank 0 is not known. */
static void test_of_two_launches_at_once_none_is_joined(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct err err = ERR_INIT;

	record_apart(store, (const int[]){ 1, 1, 0 }, WORLD);
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, 1);
	assert_int_equal(ranks.ranks[0].rank, 0);
	assert_int_equal(ranks.ranks[0].n, N_TICKS);
}

/* They have clocks of their own: only the ranks of the boot that is asked about are compared. */
static void test_ranks_of_two_boots_are_apart(void **state)
{
	static const char *const boots[] = { "11111111-0000-4000-8000-123456789abc", NULL, NULL };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(recorded_ranks_release) struct recorded_ranks first = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read, other;
	struct err err = ERR_INIT;

	record_in_boots(store, (const int[]){ 0, 2, 1 }, boots, WORLD);
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, 2);
	assert_int_equal(ranks.ranks[0].rank, 1);
	assert_int_equal(ranks.ranks[1].rank, 2);
	must(store_read_attempt(store, "j", 1, &other, &err), &err);
	must(recorded_ranks_read(store, &other, &first, &err), &err);
	assert_int_equal(first.n_ranks, 1);
	assert_int_equal(first.ranks[0].rank, 0);
}

/* Two without a boot may be of two hosts. */
static void test_ranks_of_unknown_boots_are_apart(void **state)
{
	static const char *const boots[] = { "", "", "" };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct err err = ERR_INIT;

	record_in_boots(store, (const int[]){ 0, 2, 1 }, boots, WORLD);
	read = must_read(store);
	assert_string_equal(read.boot_id, "");
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, 1);
	assert_int_equal(ranks.ranks[0].rank, 1);
}

/* ---- starts ---- */

/* All rise as above, so long after they came to their GPU, the first of them first. */
static void come_first(struct snapshot *s, unsigned k)
{
	for (int i = 0; i < 6; i += 2) {
		unsigned begin = i / 2 == LEADER ? BEGIN - LEAD : BEGIN, there = begin - 12;

		s->processes[i].gpu_memory_bytes =
			(k >= there ? 500 * MIB : 0) + (k > begin ? (k - begin) * 40 * MIB : 0);
	}
}

/* Programs start a second before the first tick, the leader's so much before the others'. */
static void record_starts(struct store *store, struct attempt *a, uint64_t earlier_ns)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, a, &err), &err);
	for (unsigned k = 0; k < N_TICKS; k++) {
		fill(&snap, k, 1);
		come_first(&snap, k);
		for (int i = 0; i < 6; i++)
			snap.processes[i].start_wall_ns =
				UINT64_C(1700000000000000000) - (i / 2 == LEADER ? earlier_ns : 0);
		must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	}
}

static const struct rank_finding *judge_starts(struct fixture *f, uint64_t earlier_ns,
					       struct attempt *ret)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	record_starts(store, &a, earlier_ns);
	*ret = must_read(store);
	must(recorded_ranks_judge(store, ret, &err), &err);
	attempt_release(&a);
	return ret->details.telemetry;
}

/* All rise as long after they came to the GPU: who came first is no culprit. */
static void test_who_comes_and_rises_first_is_not(void **state)
{
	CLEANUP(attempt_release) struct attempt read;
	const struct rank_finding *finding = judge_starts(*state, 0, &read);

	assert_string_not_equal(finding->verdict, "named");
}

static void test_who_starts_and_rises_first_is_not(void **state)
{
	CLEANUP(attempt_release) struct attempt read;
	const struct rank_finding *finding = judge_starts(*state, 2000000000, &read);

	assert_string_not_equal(finding->verdict, "named");
}

/* ---- ends ---- */

static int count_end(void *ctx, const struct telemetry_event *ev)
{
	size_t *n = ctx;

	if (text_is_sample(ev->event_type) ||
	    strncmp(ev->event_type.s, "rank_start", ev->event_type.n) == 0)
		return 0;
	assert_int_equal(ev->rank, WORLD);
	assert_int_equal(ev->timestamp_ns, 1700000001000000000);
	assert_int_equal(ev->device_used_bytes, 17 * MIB);
	assert_int_equal(strncmp(ev->event_type.s, "rank_end", ev->event_type.n), 0);
	(*n)++;
	return 0;
}

/* A fourth rank died before anybody sampled it; the others live. */
static void test_who_ended_unsampled_is_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct proc_record processes[16];
	struct err err = ERR_INIT;
	size_t n_ends = 0;

	record(store, &a, 1);
	read = must_read(store);
	assert_true(read.n_processes < ARRAY_SIZE(processes));
	memcpy(processes, read.processes, read.n_processes * sizeof(*processes));
	processes[read.n_processes] = processes[0];
	processes[read.n_processes].rank = WORLD;
	processes[read.n_processes].died_wall_ns = UINT64_C(1700000001000000000);
	processes[read.n_processes].max_rss_bytes = 12 * MIB;
	processes[read.n_processes + 1] = processes[read.n_processes];
	processes[read.n_processes + 1].max_rss_bytes = 5 * MIB; /* at the same time */
	read.processes = processes; /* the attempt's own are its arena's */
	read.n_processes += 2;
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.n_ranks, WORLD + 1);
	assert_int_equal(ranks.ranks[WORLD].n, 0);
	assert_int_equal(recorded_ranks_each(&ranks, count_end, &n_ends), 0);
	assert_int_equal(n_ends, 1);
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_int_equal(read.details.telemetry->n_ranks, WORLD);
	assert_int_equal(read.details.telemetry->rank, LEADER);
	attempt_release(&a);
}

/* ---- what a rank can have held ---- */

#define SECOND_NS UINT64_C(1000000000)

static struct proc_record make_process(int rank, uint64_t born_s, uint64_t died_s, uint64_t mib)
{
	struct proc_record p;

	proc_record_init(&p);
	p.sheet_num = 1;
	p.rank = rank;
	p.born_wall_ns = born_s * SECOND_NS;
	p.died_wall_ns = died_s * SECOND_NS;
	p.max_rss_bytes = mib * MIB;
	return p;
}

/* The ranks of an attempt with three sampled ranks, which has these processes instead. */
static void read_ranks(struct store *store, struct attempt *a, struct proc_record *processes,
		       size_t n, struct recorded_ranks *ret)
{
	struct err err = ERR_INIT;

	a->processes = processes; /* the attempt's own are its arena's */
	a->n_processes = n;
	must(recorded_ranks_read(store, a, ret, &err), &err);
}

/* Samples add processes up, so a peak that they are held against does, too. */
static void test_peaks_at_once_add_up(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(recorded_ranks_release) struct recorded_ranks again = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct proc_record processes[] = {
		make_process(0, 100, 200, 10),	/* a launcher, */
		make_process(0, 110, 120, 500), /* workers at once, */
		make_process(0, 111, 120, 700),
		make_process(0, 150, 160, 600), /* and one after the other */
		make_process(0, 170, 180, 600),
		make_process(2, 100, 130, 40),
	};

	record(store, &a, 1);
	read = must_read(store);
	processes[0].key.pid = 7;
	read_ranks(store, &read, processes, ARRAY_SIZE(processes), &ranks);
	assert_int_equal(ranks.n_ranks, WORLD);
	assert_int_equal(ranks.ranks[0].peak_bytes, 1210 * MIB);
	assert_int_equal(ranks.ranks[0].pid, 7);
	assert_int_equal(ranks.ranks[0].ended_wall_ns, 200 * SECOND_NS);
	assert_int_equal(ranks.ranks[1].pid, -1); /* it has samples alone */
	assert_int_equal(ranks.ranks[1].n, N_TICKS);
	assert_false(u64_known(ranks.ranks[1].peak_bytes));
	assert_int_equal(ranks.ranks[2].rank, 2);
	assert_int_equal(ranks.ranks[2].peak_bytes, 40 * MIB);
	processes[3].max_rss_bytes = U64_UNKNOWN;
	processes[5].died_wall_ns = U64_UNKNOWN;
	read_ranks(store, &read, processes, ARRAY_SIZE(processes), &again);
	assert_false(u64_known(again.ranks[0].peak_bytes));
	assert_false(u64_known(again.ranks[2].ended_wall_ns));
	attempt_release(&a);
}

/* A job says itself which rank a process has: as many as it likes. */
#define N_MANY 200000

static void test_many_ranks(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(free_ptr) struct proc_record *processes = calloc(N_MANY, sizeof(*processes));
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");

	assert_non_null(processes);
	record(store, &a, 1);
	read = must_read(store);
	for (int i = 0; i < N_MANY; i++)
		processes[i] = make_process(N_MANY - 1 - i, 1700000100, 1700000101, (uint64_t)i);
	read_ranks(store, &read, processes, N_MANY, &ranks);
	assert_int_equal(ranks.n_ranks, N_MANY);
	for (int i = 0; i < N_MANY; i++)
		assert_true(ranks.ranks[i].rank == i && (ranks.ranks[i].n > 0) == (i < WORLD) &&
			    ranks.ranks[i].peak_bytes == (uint64_t)(N_MANY - 1 - i) * MIB);
	attempt_release(&a);
}

/* ---- phases ---- */

static struct phase_record make_phase(pid_t pid, uint64_t entered_s)
{
	return (struct phase_record){ .name = "step",
				      .pid = pid,
				      .rank = RANK_NONE,
				      .entered_wall_ns = entered_s * SECOND_NS,
				      .left_wall_ns = U64_UNKNOWN };
}

struct entered {
	int rank;
	uint64_t wall_s;
};

struct entries {
	struct entered items[8];
	size_t n;
};

static int take_entry(void *ctx, const struct telemetry_event *ev)
{
	struct entries *found = ctx;

	if (strncmp(ev->event_type.s, "phase_enter", ev->event_type.n) != 0)
		return 0;
	assert_true(found->n < ARRAY_SIZE(found->items));
	found->items[found->n++] =
		(struct entered){ (int)ev->rank, (uint64_t)ev->timestamp_ns / SECOND_NS };
	return 0;
}

/* A pid is that of several processes, one after the other, and of other sheets. */
static void test_phases_are_of_who_lived_then(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct proc_record processes[] = {
		make_process(3, 100, 200, 1), make_process(1, 300, 400, 1),
		make_process(5, 350, 400, 1), make_process(2, 0, 400, 1),
		make_process(4, 100, 200, 1),
	};
	struct phase_record phases[] = { make_phase(7, 350), make_phase(7, 150), make_phase(7, 50),
					 make_phase(8, 151), make_phase(9, 150) };
	static const struct entered expected[] = { { 1, 350 }, { 2, 151 }, { 3, 150 }, { 3, 50 } };
	struct entries found = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(processes); i++)
		processes[i].key.pid = 7;
	processes[2].sheet_num = 2;
	processes[3].key.pid = 8;
	processes[3].born_wall_ns = U64_UNKNOWN; /* nobody saw it: it is the only one */
	processes[4].key.pid = 10;
	record(store, &a, 1);
	read = must_read(store);
	read.phases = phases;
	read.n_phases = ARRAY_SIZE(phases);
	read_ranks(store, &read, processes, ARRAY_SIZE(processes), &ranks);
	assert_int_equal(ranks.n_ranks, 5); /* 0 to 2 have samples; 3 and 4 have processes alone */
	assert_int_equal(recorded_ranks_each(&ranks, take_entry, &found), 0);
	assert_int_equal(found.n, ARRAY_SIZE(expected));
	for (size_t i = 0; i < found.n; i++) {
		assert_int_equal(found.items[i].rank, expected[i].rank);
		assert_int_equal(found.items[i].wall_s, expected[i].wall_s);
	}
	attempt_release(&a);
}

static int count_phase(void *ctx, const struct telemetry_event *ev)
{
	*(size_t *)ctx += strncmp(ev->event_type.s, "phase_enter", ev->event_type.n) == 0;
	return 0;
}

/* Each of very many ranks has one, told by the pid: looking each up everywhere never ends. */
static void test_many_phases(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(free_ptr) struct proc_record *processes = calloc(N_MANY, sizeof(*processes));
	CLEANUP(free_ptr) struct phase_record *phases = calloc(N_MANY, sizeof(*phases));
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	size_t n = 0;

	assert_true(processes && phases);
	record(store, &a, 1);
	read = must_read(store);
	for (int i = 0; i < N_MANY; i++) {
		processes[i] = make_process(i, 1700000100, 1700000101, 1);
		processes[i].key.pid = N_MANY - i;
		phases[i] = make_phase(i + 1, 1700000100);
	}
	read.phases = phases;
	read.n_phases = N_MANY;
	read_ranks(store, &read, processes, N_MANY, &ranks);
	assert_int_equal(recorded_ranks_each(&ranks, count_phase, &n), 0);
	assert_int_equal(n, N_MANY);
	attempt_release(&a);
}

/* ---- records ---- */

struct count {
	size_t samples, phases;
	struct buf lines;
};

static int take_event(void *ctx, const struct telemetry_event *ev)
{
	struct count *count = ctx;
	struct telemetry_event checked = *ev;
	const char *field;
	struct json j;

	assert_int_equal(event_check(&checked, &field), REASON_NONE);
	assert_int_equal(ev->clock.error_ns, 1500000);
	assert_false(ev->clock.is_free);
	assert_int_equal(ev->clock.boot_id.n, 36);
	assert_int_equal(ev->world_size, WORLD);
	if (text_is_sample(ev->event_type))
		count->samples++;
	else
		count->phases++;
	json_init(&j, &count->lines);
	event_write_json(&j, ev);
	buf_add_char(&count->lines, '\n');
	return 0;
}

static void test_records_are_valid(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct count count = { .lines = BUF_INIT };
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	record(store, &a, 1);
	mark_phase(store, &a);
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(recorded_ranks_each(&ranks, take_event, &count), 0);
	assert_int_equal(count.samples, 3 * N_TICKS);
	assert_int_equal(count.phases, 2); /* nobody left them */
	assert_non_null(strstr(count.lines.data, "\"path\":[\"epoch\",\"load/it\"]"));
	assert_non_null(strstr(count.lines.data, "\"session_id\":\"j/1/1\""));
	buf_release(&count.lines);
	attempt_release(&a);
}

/* Rank 0 of one sheet has nothing to do with rank 0 of another, nor has its GPU. */
static void test_the_last_sheet_is_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	record_as(store, &a, 1, true);
	for (unsigned k = N_TICKS; k < N_TICKS + 3; k++) {
		fill(&snap, k, 2);
		for (size_t i = 0; i < snap.n_processes; i++)
			snap.processes[i].key.pid += 100;
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	read = must_read(store);
	must(recorded_ranks_read(store, &read, &ranks, &err), &err);
	assert_int_equal(ranks.sheet_num, 2);
	assert_int_equal(ranks.n_points, 3 * 3);
	assert_false(ranks.is_gpu);
	assert_int_equal(ranks.ranks[0].pid, 200);
	attempt_release(&a);
}

static void test_no_ranks(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	fill_snapshot(&snap, "j", 3, 1);
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	read = must_read(store);
	must(recorded_ranks_judge(store, &read, &err), &err);
	assert_null(read.details.telemetry);
	attempt_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory_is_the_sum_over_processes,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_gpu_memory_counts_from_its_first_use,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_rank_whose_gpu_rests_is_named, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_ranks_with_a_runner_each_are_of_one_job,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_ranks_of_two_boots_are_apart, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_ranks_of_unknown_boots_are_apart,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_of_two_launches_at_once_none_is_joined,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_who_comes_and_rises_first_is_not,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_who_starts_and_rises_first_is_not,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_who_ended_unsampled_is_told, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_peaks_at_once_add_up, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_many_ranks, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_leader_and_its_phase_are_named,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_phases_are_of_who_lived_then, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_many_phases, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_records_are_valid, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_last_sheet_is_told, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_no_ranks, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"

#include <math.h>

#include "store/codec/codec.h"
#include "store_writer.h"

#define AWKWARD "it's \"so\"\n\t\xff\xfe\x80 \xc3\xa4; DROP TABLE jobs; --"

/* ---- what came back ---- */

struct seen {
	struct history_row rows[64];
	size_t n;
	size_t stop_after; /* 0: never */
	struct arena arena;
};

static void seen_release(struct seen *seen)
{
	arena_release(&seen->arena);
}

static void copy_calls(struct seen *seen, struct proc_sample *p)
{
	struct syscall_use *uses;

	if (!p->syscalls)
		return;
	uses = arena_alloc(&seen->arena, (p->n_syscalls + 1) * sizeof(*uses));
	assert_non_null(uses);
	for (size_t i = 0; i < p->n_syscalls; i++) {
		uses[i] = p->syscalls[i];
		uses[i].name = arena_strdup(&seen->arena, uses[i].name);
	}
	p->syscalls = uses;
}

static int note_row(void *ctx, const struct history_row *row)
{
	struct seen *seen = ctx;
	struct history_row *copy = &seen->rows[seen->n++];

	assert_true(seen->n <= ARRAY_SIZE(seen->rows));
	*copy = *row;
	copy->sample.command = arena_strdup(&seen->arena, row->sample.command);
	copy->sample.cgroup = arena_strdup(&seen->arena, row->sample.cgroup);
	copy->sample.job_id = arena_strdup(&seen->arena, row->sample.job_id);
	copy_calls(seen, &copy->sample);
	return seen->n == seen->stop_after ? 42 : 0;
}

static int read_history(struct store *store, struct history_filter filter, struct seen *seen)
{
	struct err err = ERR_INIT;
	int r;

	arena_release(&seen->arena);
	seen->n = 0;
	r = store_read_history(store, &filter, note_row, seen, &err);
	must(r, &err);
	return r;
}

/* "1:100 1:101 2:100 ": attempt and pid of each row. */
static const char *row_names(const struct seen *seen, char *ret)
{
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < seen->n; i++)
		len += (size_t)sprintf(ret + len, "%d:%d ", seen->rows[i].attempt_num,
				       seen->rows[i].sample.key.pid);
	return ret;
}

/* ---- one sample, every field another value ---- */

static const struct syscall_use calls[] = {
	{ "read", 12, 3, 1500, UINT64_C(123456789012) },
	{ "futex", 0, 0, U64_UNKNOWN, 0 },
	{ "syscall_4711", UINT64_C(1) << 62, 1, 2, 3 },
};

static void fill_sample(struct proc_sample *p)
{
	p->key = (struct proc_key){ 4194303, 123456789 };
#define FILL_PID(word_) 77
#define FILL_CHAR(word_) 'D'
#define FILL_F64(word_) (99.999999999999986 + (word_))
#define FILL_U64(word_) (1000 + (word_))
#define FILL_MB(word_) (1000 + (word_))
#define FILL_SECONDS(word_) (1000 + (word_))
#define FILL_LIMIT(word_) FD_LIMIT_UNLIMITED
#define SAMPLE_RECORDED(kind_, member_, key_, word_, help_) p->member_ = FILL_##kind_(word_);
#include "model/sample_fields.def"
	snprintf(p->comm, sizeof(p->comm), "x) (\n'\xff");
	p->command = AWKWARD;
	p->start_wall_ns = UINT64_C(1700000000000000001);
	p->age_seconds = 0.1;
	p->vms_bytes = UINT64_C(0x8000000000000000);
	p->hwm_bytes = INT64_MAX;
	p->rss_file_bytes = 0;
	p->uid = 4294967294;
	p->cgroup = "/a b/" AWKWARD;
	p->ns_pid = 1022;
	p->syscalls = calls;
	p->n_syscalls = ARRAY_SIZE(calls);
	p->job_id = "j";
	p->sheet_num = 3;
	p->rank = 0;
	p->local_rank = 2;
	p->world_size = 64;
}

static void assert_f64(double a, double b)
{
	assert_true(a == b || (isnan(a) && isnan(b)));
}

static void assert_string_or_null(const char *a, const char *b)
{
	if (a && b)
		assert_string_equal(a, b);
	else
		assert_ptr_equal(a, b);
}

static const struct syscall_use *find_call(const struct proc_sample *p, const char *name)
{
	for (size_t i = 0; i < p->n_syscalls; i++)
		if (strcmp(p->syscalls[i].name, name) == 0)
			return &p->syscalls[i];
	return NULL;
}

/* In any order. None is not the same as nobody counted. */
static void assert_calls(const struct proc_sample *a, const struct proc_sample *b)
{
	assert_int_equal(a->n_syscalls, b->n_syscalls);
	assert_int_equal(a->syscalls != NULL, b->syscalls != NULL);
	for (size_t i = 0; i < a->n_syscalls; i++) {
		const struct syscall_use *x = &a->syscalls[i], *y = find_call(b, x->name);

		assert_non_null(y);
		assert_int_equal(x->count, y->count);
		assert_int_equal(x->errors, y->errors);
		assert_int_equal(x->cpu_ns, y->cpu_ns);
		assert_int_equal(x->wait_ns, y->wait_ns);
	}
}

static void assert_sample(const struct proc_sample *a, const struct proc_sample *b)
{
	/* attempt_id is that of the recorder's attempt; cpu_wait_ns, process_limit, owner and
	 * gpu_idle_devices are of now. */
#define SAME_PID(a_, b_) assert_int_equal(a_, b_)
#define SAME_CHAR(a_, b_) assert_int_equal(a_, b_)
#define SAME_F64(a_, b_) assert_f64(a_, b_)
#define SAME_U64(a_, b_) assert_true((a_) == (b_))
#define SAME_MB(a_, b_) assert_true((a_) == (b_))
#define SAME_SECONDS(a_, b_) assert_true((a_) == (b_))
#define SAME_LIMIT(a_, b_) assert_true((a_) == (b_))
#define SAMPLE_RECORDED(kind_, member_, ...) SAME_##kind_(a->member_, b->member_);
#include "model/sample_fields.def"
	assert_int_equal(a->key.pid, b->key.pid);
	assert_int_equal(a->key.start_ticks, b->key.start_ticks);
	assert_string_equal(a->comm, b->comm);
	assert_string_or_null(a->command, b->command);
	assert_int_equal(a->start_wall_ns, b->start_wall_ns);
	assert_f64(a->age_seconds, b->age_seconds);
	assert_string_or_null(a->cgroup, b->cgroup);
	assert_int_equal(a->ns_pid, b->ns_pid);
	assert_calls(a, b);
	assert_string_equal(a->job_id, b->job_id);
	assert_int_equal(a->sheet_num, b->sheet_num);
	assert_int_equal(a->local_rank, b->local_rank);
	assert_int_equal(a->world_size, b->world_size);
	assert_int_equal(a->rank, b->rank);
}

/* ---- tests ---- */

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static void must_tick(struct store *store, const struct attempt *a, const struct snapshot *snap)
{
	struct err err = ERR_INIT;

	must(write_tick(store, a, snap, NULL, NULL, 0, &err), &err);
}

static void test_a_sample_comes_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt a = must_begin(store, "j");
	struct proc_sample known, unknown;

	snapshot_init(&snap);
	snap.wall_ns = UINT64_C(1700000001123456789);
	proc_sample_init(&known);
	fill_sample(&known);
	proc_sample_init(&unknown);
	unknown.key.pid = 9;
	unknown.job_id = "j";
	*snapshot_add_process(&snap) = known;
	*snapshot_add_process(&snap) = unknown;
	must_tick(store, &a, &snap);

	assert_int_equal(read_history(store, (struct history_filter){ 0 }, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.rows[0].wall_ns, snap.wall_ns);
	assert_int_equal(seen.rows[0].attempt_num, 1);
	assert_sample(&seen.rows[0].sample, &known);
	assert_sample(&seen.rows[1].sample, &unknown);
}

/* What process i has called before tick k: nothing, unknown, or some, in changing order. */
static void make_calls(unsigned i, unsigned k, struct syscall_use *uses, struct proc_sample *p)
{
	static const char *const names[] = { "read", "write", "futex", "syscall_999" };
	unsigned n = (i + k) % 5;

	p->syscalls = k % 7 == 3 ? NULL : uses;
	p->n_syscalls = p->syscalls ? n : 0;
	for (unsigned c = 0; c < n; c++)
		uses[c] = (struct syscall_use){ names[(c + k) % 4], k * 100 + c, c, 1000 * k + i,
						k % 2 ? U64_UNKNOWN : c };
}

static void fill_with_calls(struct snapshot *snap, unsigned k, struct syscall_use (*uses)[4])
{
	fill_snapshot(snap, "j", 3, k);
	for (unsigned i = 0; i < 3; i++)
		make_calls(i, k, uses[i], &snap->processes[i]);
}

/* Before they are folded, and after: 150 ticks are more than a fold. */
static void test_system_calls_come_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt a = must_begin(store, "j");
	struct syscall_use uses[3][4];

	(void)state;
	snapshot_init(&snap);
	for (unsigned k = 0; k < 150; k++) {
		fill_with_calls(&snap, k, uses);
		must_tick(store, &a, &snap);
	}
	for (unsigned k = 0; k < 150; k++) {
		fill_with_calls(&snap, k, uses);
		read_history(store,
			     (struct history_filter){ .since_wall_ns = snap.wall_ns,
						      .until_wall_ns = snap.wall_ns },
			     &seen);
		assert_int_equal(seen.n, 3);
		for (unsigned i = 0; i < 3; i++)
			assert_calls(&snap.processes[i], &seen.rows[i].sample);
	}
}

static void test_only_the_jobs_processes_are_kept(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt a = must_begin(store, "j");
	char names[256];

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 3, 0);
	snap.processes[0].job_id = NULL;
	snap.processes[1].job_id = "j2";
	must_tick(store, &a, &snap);
	read_history(store, (struct history_filter){ 0 }, &seen);
	assert_string_equal(row_names(&seen, names), "1:102 ");
}

static void test_filters_and_order(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt first = must_begin(store, "a"), other = must_begin(store, "b"),
		       second = must_begin(store, "a");
	uint64_t at_tick_2;
	char names[256];

	snapshot_init(&snap);
	/* Written out of order, as when the clock is set back. */
	fill_snapshot(&snap, "a", 2, 3);
	must_tick(store, &second, &snap);
	fill_snapshot(&snap, "a", 2, 1);
	must_tick(store, &first, &snap);
	fill_snapshot(&snap, "b", 1, 2);
	at_tick_2 = snap.wall_ns;
	must_tick(store, &other, &snap);

	read_history(store, (struct history_filter){ 0 }, &seen);
	assert_string_equal(row_names(&seen, names), "1:100 1:101 1:100 2:100 2:101 ");
	assert_string_equal(seen.rows[2].sample.job_id, "b");
	read_history(store, (struct history_filter){ .job_id = "a" }, &seen);
	assert_string_equal(row_names(&seen, names), "1:100 1:101 2:100 2:101 ");
	read_history(store, (struct history_filter){ .pid = 101 }, &seen);
	assert_string_equal(row_names(&seen, names), "1:101 2:101 ");
	read_history(store, (struct history_filter){ .pid = 100, .job_id = "b" }, &seen);
	assert_string_equal(row_names(&seen, names), "1:100 ");
	read_history(store, (struct history_filter){ .since_wall_ns = at_tick_2 }, &seen);
	assert_string_equal(row_names(&seen, names), "1:100 2:100 2:101 ");
	read_history(store, (struct history_filter){ .since_wall_ns = at_tick_2 + 1 }, &seen);
	assert_string_equal(row_names(&seen, names), "2:100 2:101 ");
	read_history(store, (struct history_filter){ .pid = 7 }, &seen);
	assert_int_equal(seen.n, 0);

	seen.stop_after = 3;
	assert_int_equal(read_history(store, (struct history_filter){ 0 }, &seen), 42);
	assert_int_equal(seen.n, 3);
	seen.stop_after = 0;
	assert_int_equal(read_history(store, (struct history_filter){ 0 }, &seen), 0);
	assert_int_equal(seen.n, 5);
}

/* ---- pages ---- */

struct counted {
	size_t n;
	struct proc_key last;
	uint64_t last_wall_ns;
};

/* Each row once, in order: ticks by time, processes by pid. */
static int count_in_order(void *ctx, const struct history_row *row)
{
	struct counted *counted = ctx;
	const struct proc_sample *p = &row->sample;

	assert_true(row->wall_ns > counted->last_wall_ns ||
		    (row->wall_ns == counted->last_wall_ns && p->key.pid > counted->last.pid));
	assert_string_equal(p->command, "worker --fast");
	assert_string_equal(p->job_id, "j");
	assert_int_equal(p->rss_bytes, 4096 * (uint64_t)(p->key.pid - 99));
	*counted = (struct counted){ counted->n + 1, p->key, row->wall_ns };
	return 0;
}

/* 1900: pages end within ticks. 2000: with them. 1: many ticks on a page. 4100: ticks of pages. */
static void test_no_row_is_lost_between_pages(void **state)
{
	static const struct {
		int n_ticks, n_processes;
	} cases[] = { { 4, 1900 }, { 3, 2000 }, { 2100, 1 }, { 2, 4100 } };
	struct fixture *f = *state;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(store_cleanup) struct store *store = NULL;
		struct counted all = { 0 }, one = { 0 };
		int n = cases[i].n_processes;
		struct attempt a;
		char path[192];

		snprintf(path, sizeof(path), "%s/%zu.db", f->dir, i);
		store = must_open(path, STORE_WRITE);
		a = must_begin(store, "j");
		for (int k = 0; k < cases[i].n_ticks; k++) {
			fill_snapshot(&snap, "j", n, (unsigned)k);
			must_tick(store, &a, &snap);
		}
		must(store_read_history(store, &(struct history_filter){ 0 }, count_in_order, &all,
					&err),
		     &err);
		assert_int_equal(all.n, cases[i].n_ticks * n);
		must(store_read_history(store, &(struct history_filter){ .pid = 99 + n },
					count_in_order, &one, &err),
		     &err);
		assert_int_equal(one.n, cases[i].n_ticks);
	}
}

static int64_t size_of_log(const struct fixture *f)
{
	char name[256];
	struct stat st;

	snprintf(name, sizeof(name), "%s-wal", f->db);
	return stat(name, &st) < 0 ? 0 : st.st_size;
}

struct blocked {
	struct fixture *f;
	struct store *writer;
	const struct attempt *attempt;
	size_t n_rows;
};

/* A reader that is not listened to, while the job goes on: 2,000 ticks of about 10 KB. */
static int block_at_first(void *ctx, const struct history_row *row)
{
	struct blocked *b = ctx;
	CLEANUP(snapshot_release) struct snapshot snap;

	(void)row;
	snapshot_init(&snap);
	if (b->n_rows++ > 0)
		return 0;
	for (unsigned k = 10; k < 2010; k++) {
		fill_snapshot(&snap, "j", 50, k);
		must_tick(b->writer, b->attempt, &snap);
	}
	return 0;
}

static void test_a_blocked_reader_holds_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *writer = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *reader = must_open(f->db, STORE_READ);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(writer, "j");
	struct blocked blocked = { f, writer, &a, 0 };
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 3, 0);
	must_tick(writer, &a, &snap);
	must(store_read_history(reader, &(struct history_filter){ 0 }, block_at_first, &blocked,
				&err),
	     &err);
	assert_int_equal(blocked.n_rows, 3); /* as of the call */
	assert_int_equal(raw_sql(f->db, COUNT_TICKS), 2001);
	assert_in_range(size_of_log(f), 1, 4 << 20);
}

static void test_a_process_has_one_row(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt a = must_begin(store, "j");
	struct proc_sample *p;

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 1, 0);
	p = &snap.processes[0];
	p->command = "sh -c true";
	p->cgroup = "/x";
	must_tick(store, &a, &snap);
	p->command = "true"; /* exec */
	must_tick(store, &a, &snap);
	p->state = 'Z'; /* its command line is gone */
	p->command = "[true]";
	p->cgroup = NULL;
	must_tick(store, &a, &snap);
	store = store_close(store);
	store = must_open(f->db, STORE_WRITE); /* a handle that knows no rows */
	p->state = 'S';
	p->command = NULL;
	must_tick(store, &a, &snap);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM processes"), 1);
	read_history(store, (struct history_filter){ 0 }, &seen);
	assert_int_equal(seen.n, 4);
	for (size_t i = 0; i < seen.n; i++) {
		assert_string_equal(seen.rows[i].sample.command, i ? "true" : "sh -c true");
		assert_string_equal(seen.rows[i].sample.cgroup, "/x");
	}
	assert_int_equal(seen.rows[2].sample.state, 'Z');

	/* Another process with that pid is another row. */
	p->key.start_ticks++;
	p->command = "other";
	must_tick(store, &a, &snap);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM processes"), 2);
}

static void test_a_process_listed_twice_loses_no_tick(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(seen_release) struct seen seen = { 0 };
	struct attempt a = must_begin(store, "j");

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 2, 0);
	snap.processes[1] = snap.processes[0];
	snap.processes[1].rss_bytes = 12345;
	must_tick(store, &a, &snap);
	read_history(store, (struct history_filter){ 0 }, &seen);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.rows[0].sample.rss_bytes, 12345);
}

static void test_series_and_events_of_ticks(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt back;
	struct series_point points[] = {
		{ 30, 2, 4096, 12.5, 3 },
		{ 10, 1, U64_UNKNOWN, F64_UNKNOWN, U64_UNKNOWN },
		{ 20, SHEET_NONE, 0, 0.0, 0 },
	};
	const size_t order[] = { 1, 2, 0 };
	struct proc_event event = { .wall_ns = 15,
				    .key = { 100, 5000 },
				    .type = EVENT_SPAWN,
				    .status = { -1, -1 },
				    .sheet_num = 1,
				    .details = "" };
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	snapshot_init(&snap);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		must(write_tick(store, &a, &snap, &points[i], &event, i == 0, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.details.n_series, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct series_point *want = &points[order[i]];

		assert_int_equal(back.details.series[i].wall_ns, want->wall_ns);
		assert_int_equal(back.details.series[i].sheet_num, want->sheet_num);
		assert_int_equal(back.details.series[i].rss_bytes, want->rss_bytes);
		assert_f64(back.details.series[i].cpu_percent, want->cpu_percent);
		assert_int_equal(back.details.series[i].n_processes, want->n_processes);
	}
	assert_int_equal(back.n_events, 1);
	assert_string_equal(back.events[0].job_id, "j");
	assert_int_equal(back.events[0].key.start_ticks, 5000);
}

/* A runner that was killed wrote no records of its processes; its samples tell. */
static void test_processes_of_an_attempt_without_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt back;
	struct attempt a = must_begin(store, "j");
	const struct proc_record *p;
	struct err err = ERR_INIT;

	attempt_init(&back);
	snapshot_init(&snap);
	for (unsigned k = 1; k <= 3; k++) {
		fill_snapshot(&snap, "j", k == 2 ? 2 : 1, k);
		snap.processes[0].start_wall_ns = 77;
		snap.processes[0].hwm_bytes = k == 3 ? U64_UNKNOWN : 8192 * k;
		snap.processes[0].threads = 10 - k;
		must_tick(store, &a, &snap);
	}
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, 2);
	p = &back.processes[1]; /* unknown birth comes first */
	assert_int_equal(p->key.pid, 100);
	assert_int_equal(p->key.start_ticks, 5000);
	assert_string_equal(p->command, "worker --fast");
	assert_int_equal(p->ppid, 1);
	assert_int_equal(p->sheet_num, 1);
	assert_int_equal(p->rank, RANK_NONE);
	assert_int_equal(p->born_wall_ns, 77);
	assert_false(u64_known(p->died_wall_ns));
	assert_int_equal(p->status.exit_code, -1);
	assert_int_equal(p->user_ns, 3000000);
	assert_false(u64_known(p->system_ns));
	assert_int_equal(p->max_rss_bytes, 16384);
	assert_int_equal(p->max_threads, 9);
	assert_int_equal(p->evidence, EVIDENCE_SAMPLED);
	assert_int_equal(p->n_samples, 3);
	assert_int_equal(back.processes[0].n_samples, 1);
}

/* The record at the end and the row of the samples are the same process. */
static void test_records_and_samples_meet(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(attempt_release) struct attempt back;
	struct proc_record records[2];
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	attempt_init(&back);
	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 1, 0);
	must_tick(store, &a, &snap);
	for (int i = 0; i < 2; i++) {
		proc_record_init(&records[i]);
		records[i].key = (struct proc_key){ 100 + i, 5000 };
		records[i].n_samples = 1;
	}
	a.processes = records;
	a.n_processes = 2;
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must(store_read_attempt(store, "j", 0, &back, &err), &err);
	assert_int_equal(back.n_processes, 2);
	assert_string_equal(back.processes[0].command, "worker --fast"); /* as it was sampled */
	assert_null(back.processes[1].command);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_sample_comes_back),
		STORE_TEST(test_system_calls_come_back),
		STORE_TEST(test_only_the_jobs_processes_are_kept),
		STORE_TEST(test_filters_and_order),
		STORE_TEST(test_no_row_is_lost_between_pages),
		STORE_TEST(test_a_blocked_reader_holds_nothing),
		STORE_TEST(test_a_process_has_one_row),
		STORE_TEST(test_a_process_listed_twice_loses_no_tick),
		STORE_TEST(test_series_and_events_of_ticks),
		STORE_TEST(test_processes_of_an_attempt_without_end),
		STORE_TEST(test_records_and_samples_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store_fixture.h"
#include "store_host.h"

#include "base/json.h"
#include "model/tick_record.h"
#include "store_writer.h"

#define N_TICKS 300
#define KEY_EVERY 60

/* ---- a job that is never the same for two ticks ---- */

#define N_PLACES 120

/* Numbers that are the same in every run. */
static uint64_t random_u64(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

static const char *const commands[] = {
	"sh -c ./train", "python train.py --password=***", "[sh]", "x\xff\x01", "", NULL
};

/* A process that may be there; its pid is used again by another one. */
struct place {
	struct proc_sample p;
	bool is_there;
};

struct world {
	uint64_t seed;
	struct place places[N_PLACES];
	uint64_t start_ticks;
};

static void be_born(struct world *w, int i, unsigned k)
{
	struct proc_sample *p = &w->places[i].p;

	proc_sample_init(p);
	p->key = (struct proc_key){ 1000 + i * 7, i % 30 == 9 ? U64_UNKNOWN : w->start_ticks++ };
	p->start_wall_ns = i % 13 ? UINT64_C(1700000000000000000) + k : U64_UNKNOWN;
	p->ppid = i % 5 ? 1000 : 1;
	p->uid = i % 9 ? 1000 : U64_UNKNOWN;
	p->ns_pid = i % 3 ? (uint64_t)i : U64_UNKNOWN;
	p->sheet_num = i % 17 ? (int)k / 100 : SHEET_NONE;
	p->rank = i % 4 ? RANK_NONE : i / 4;
	p->local_rank = i % 8 ? RANK_NONE : i / 8;
	p->world_size = i % 8 ? RANK_NONE : 30;
	p->command = "sh -c ./train";
	p->cgroup = i % 6 ? "/user.slice/a" : NULL;
	snprintf(p->comm, sizeof(p->comm), "worker-%d\xfe", i);
	w->places[i].is_there = true;
}

static void live_on(struct world *w, int i, unsigned k)
{
	struct proc_sample *p = &w->places[i].p;
	uint64_t r = random_u64(&w->seed);

	p->state = "RSDZ?"[r % 5];
	p->age_seconds = r % 40 ? 0.25 * k : F64_UNKNOWN;
	p->cpu_percent = r % 7 ? (double)(r % 1000) / 10 : 0.1 + (double)(r % 99) / 7;
	p->cpu_ns += p->cpu_ns == U64_UNKNOWN ? 1 + r % 1000 : r % 4 * 12345;
	p->rss_bytes = r % 11 ? r % 100000 * 4096 : U64_UNKNOWN;
	p->threads = r % 3;
	p->fd_limit = r % 19 ? 1024 : FD_LIMIT_UNLIMITED;
	p->rchar = r >> r % 64;
	if (r % 23 == 0) /* exec */
		p->command = commands[r / 23 % ARRAY_SIZE(commands)];
	if (r % 41 == 0)
		snprintf(p->comm, sizeof(p->comm), "%s", r % 2 ? "python" : "");
	if (r % 67 == 0)
		p->cgroup = r % 2 ? "/moved" : NULL;
	if (r % 71 == 0)
		p->sheet_num++;
	if (r % 73 == 0)
		p->ppid = 1; /* its parent has died */
	if (r % 79 == 0)
		p->local_rank = (int)(r % 5) - 1;
}

/* Some were counted, of some of those there was none; the order is any. */
static void call(struct snapshot *s, struct proc_sample *p, uint64_t r)
{
	static const char *const names[] = { "read", "write", "futex", "syscall_999", "openat" };
	struct syscall_use *uses;

	if (r % 3)
		return;
	uses = arena_alloc(&s->arena, ARRAY_SIZE(names) * sizeof(*uses));
	assert_non_null(uses);
	p->n_syscalls = r / 3 % (ARRAY_SIZE(names) + 1);
	p->syscalls = uses;
	for (size_t i = 0; i < p->n_syscalls; i++)
		uses[i] = (struct syscall_use){ .name = names[(i + r / 18) % ARRAY_SIZE(names)],
						.count = r % 100000,
						.errors = i,
						.cpu_ns = r % 2 ? r % 777 : U64_UNKNOWN,
						.wait_ns = i % 2 ? 0 : U64_UNKNOWN };
}

/* Tick k, which comes after k - 1. job_id and a neighbour's processes, which are of no job. */
static void go_on(struct world *w, const char *job_id, unsigned k, struct snapshot *s)
{
	make_snapshot(s, job_id, k);
	for (int i = 0; i < N_PLACES; i++) {
		struct place *place = &w->places[i];
		uint64_t r = random_u64(&w->seed);
		struct proc_sample *p;

		if (place->is_there && r % 50 == 0)
			place->is_there = false;
		else if (!place->is_there && r % (k < 200 ? 20 : 4) == 0)
			be_born(w, i, k);
		if (!place->is_there)
			continue;
		live_on(w, i, k);
		p = snapshot_add_process(s);
		assert_non_null(p);
		*p = place->p;
		p->job_id = r % 97 ? job_id : NULL;
		call(s, p, r);
	}
	if (k % 31 == 8 && s->n_processes > 4) { /* one is listed twice: the last counts */
		struct proc_sample *p = snapshot_add_process(s);

		assert_non_null(p);
		*p = s->processes[s->n_processes - 2];
		p->threads = 77;
	}
}

static bool make_point(unsigned k, struct series_point *ret)
{
	*ret = (struct series_point){ .wall_ns = 1000 + k,
				      .sheet_num = k % 5 ? (int)k : SHEET_NONE,
				      .rss_bytes = k % 6 ? k * UINT64_C(4096) : U64_UNKNOWN,
				      .cpu_percent = k % 7 ? k / 10.0 : F64_UNKNOWN,
				      .n_processes = k };
	return k % 9 != 4;
}

/* ---- a log of it ---- */

struct log {
	struct buf frames[N_TICKS];
	struct snapshot snaps[N_TICKS];
	struct series_point points[N_TICKS];
	bool has_point[N_TICKS];
};

static int log_setup(void **state)
{
	static struct world w;
	struct log *log = calloc(1, sizeof(*log));
	struct tick_writer *writer = tick_writer_new();

	if (!log || !writer)
		return -1;
	w = (struct world){ .seed = 1, .start_ticks = 5000 };
	for (unsigned k = 0; k < N_TICKS; k++) {
		log->frames[k] = (struct buf)BUF_INIT;
		snapshot_init(&log->snaps[k]);
		go_on(&w, "j", k, &log->snaps[k]);
		log->has_point[k] = make_point(k, &log->points[k]);
		if (k % KEY_EVERY == 0)
			tick_writer_begin_key(writer);
		if (tick_writer_write(writer, &log->snaps[k],
				      log->has_point[k] ? &log->points[k] : NULL,
				      &log->frames[k]) < 0)
			return -1;
	}
	tick_writer_free(writer);
	*state = log;
	return 0;
}

static int log_teardown(void **state)
{
	struct log *log = *state;

	for (unsigned k = 0; k < N_TICKS; k++) {
		buf_release(&log->frames[k]);
		snapshot_release(&log->snaps[k]);
	}
	free(log);
	return 0;
}

static struct log *the_log;

static int both_setup(void **state)
{
	if (fixture_setup(state) < 0)
		return -1;
	return log_setup((void **)&the_log);
}

static int both_teardown(void **state)
{
	log_teardown((void **)&the_log);
	return fixture_teardown(state);
}

static void decoder_cleanup(struct tick_decoder **d)
{
	*d = tick_decoder_free(*d);
}

/* In memory of exactly its size, so that reading behind it shows. */
static int decode(struct tick_decoder *d, const struct buf *frame, struct snapshot *ret,
		  struct series_point *ret_point)
{
	CLEANUP(free_ptr) void *copy = malloc(frame->len ? frame->len : 1);

	assert_non_null(copy);
	memcpy(copy, frame->data, frame->len);
	return tick_decoder_read(d, copy, frame->len, "j", ret, ret_point);
}

/* ---- in two databases ---- */

/* All rows of a table. */
static void dump_table(sqlite3 *db, const char *table, struct buf *out)
{
	char *sql = sqlite3_mprintf("SELECT * FROM \"%w\" ORDER BY 1, 2", table);
	sqlite3_stmt *stmt = NULL;

	assert_non_null(sql);
	buf_printf(out, "\n%s:\n", table);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK) { /* one column */
		sqlite3_free(sql);
		sql = sqlite3_mprintf("SELECT * FROM \"%w\"", table);
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	}
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			const uint8_t *bytes = sqlite3_column_blob(stmt, i);
			int n = sqlite3_column_bytes(stmt, i);

			buf_printf(out, "%s=%d:", sqlite3_column_name(stmt, i),
				   sqlite3_column_type(stmt, i));
			for (int k = 0; k < n; k++)
				buf_printf(out, "%02x", bytes[k]);
			buf_add_str(out, "|");
		}
		buf_add_str(out, "\n");
	}
	sqlite3_finalize(stmt);
	sqlite3_free(sql);
}

/* All tables but meta, which has the time of the database itself. */
static void dump(const char *path, struct buf *out)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	int n = 0;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db,
					    "SELECT name FROM sqlite_master WHERE type = 'table'"
					    " AND name <> 'meta' ORDER BY name",
					    -1, &stmt, NULL),
			 SQLITE_OK);
	for (; sqlite3_step(stmt) == SQLITE_ROW; n++)
		dump_table(db, (const char *)sqlite3_column_text(stmt, 0), out);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	assert_true(n > 10);
	assert_int_equal(buf_error(out), 0);
}

static int add_snapshot(void *ctx, const struct snapshot *snap)
{
	struct json j;

	json_init(&j, ctx);
	snapshot_write_json(&j, snap, SNAPSHOT_ALL);
	buf_printf(ctx, "\n%s %d\n", snap->boot_id, (int)snap->covers);
	return 0;
}

static int add_history(void *ctx, const struct history_row *row)
{
	struct json j;

	json_init(&j, ctx);
	json_begin_object(&j);
	json_key_u64(&j, "wall_ns", row->wall_ns);
	proc_sample_write_fields(&j, &row->sample);
	json_end_object(&j);
	buf_add_str(ctx, "\n");
	return 0;
}

static void read_back(struct store *store, struct buf *out)
{
	struct err err = ERR_INIT;

	must(store_read_snapshots(store, &(struct snapshot_filter){ 0 }, add_snapshot, out, &err),
	     &err);
	must(store_read_history(store, &(struct history_filter){ 0 }, add_history, out, &err),
	     &err);
	assert_int_equal(buf_error(out), 0);
}

static struct attempt must_begin(struct store *store)
{
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static void assert_same(const struct buf *a, const struct buf *b)
{
	size_t at = 0;

	while (at < a->len && at < b->len && a->data[at] == b->data[at])
		at++;
	if (a->len != b->len || at < a->len)
		fail_msg("they differ at byte %zu: %.200s -- %.200s", at,
			 a->data + (at > 80 ? at - 80 : 0), b->data + (at > 80 ? at - 80 : 0));
}

/* What is decoded is stored as what was measured: the same bytes in every row. */
static void test_decoded_ticks_are_stored_as_the_original(void **state)
{
	struct fixture *f = *state;
	char other[200];
	CLEANUP(buf_release) struct buf a = BUF_INIT, b = BUF_INIT;
	CLEANUP(decoder_cleanup) struct tick_decoder *d = tick_decoder_new();
	CLEANUP(snapshot_release) struct snapshot decoded;
	CLEANUP(store_cleanup) struct store *first = must_open(f->db, STORE_WRITE);
	CLEANUP(store_cleanup) struct store *second = NULL;
	struct attempt in_first = must_begin(first), in_second;
	struct err err = ERR_INIT;

	snprintf(other, sizeof(other), "%s/other.db", f->dir);
	second = must_open(other, STORE_WRITE);
	in_second = must_begin(second);
	snapshot_init(&decoded);
	for (unsigned k = 0; k < N_TICKS; k++) {
		const struct series_point *point =
			the_log->has_point[k] ? &the_log->points[k] : NULL;
		struct series_point decoded_point;

		if (k % KEY_EVERY == 0)
			tick_decoder_begin_key(d);
		assert_int_equal(decode(d, &the_log->frames[k], &decoded, &decoded_point), 0);
		assert_int_equal(u64_known(decoded_point.wall_ns), point != NULL);
		must(write_tick(first, &in_first, &the_log->snaps[k], point, NULL, 0, &err), &err);
		for (size_t i = 0; i < decoded.n_processes; i++) {
			assert_string_equal(decoded.processes[i].job_id, "j");
			decoded.processes[i].job_id = in_second.job_id; /* found by its address */
		}
		must(write_tick(second, &in_second, &decoded, &decoded_point, NULL, 0, &err), &err);
	}
	read_back(first, &a);
	read_back(second, &b);
	assert_true(a.len > 1000000);
	assert_same(&a, &b);
	in_first.ended_wall_ns = in_second.ended_wall_ns = 1;
	must(store_finish_attempt(first, &in_first, NULL, 0, &err), &err);
	must(store_finish_attempt(second, &in_second, NULL, 0, &err), &err);
	buf_reset(&a);
	buf_reset(&b);
	dump(f->db, &a);
	dump(other, &b);
	assert_true(a.len > 100000);
	assert_same(&a, &b);
}

/* ---- going on in the middle ---- */

static void write_json(const struct snapshot *s, struct buf *out)
{
	buf_reset(out);
	add_snapshot(out, s);
}

/* Who has stored some ticks begins at the key before, and gets the same. */
static void test_a_reader_goes_on_where_it_was(void **state)
{
	CLEANUP(buf_release) struct buf a = BUF_INIT, b = BUF_INIT;
	CLEANUP(decoder_cleanup) struct tick_decoder *all = tick_decoder_new();
	CLEANUP(snapshot_release) struct snapshot one, two;

	(void)state;
	snapshot_init(&one);
	snapshot_init(&two);
	for (unsigned k = 0; k < N_TICKS; k++) {
		CLEANUP(decoder_cleanup) struct tick_decoder *late = tick_decoder_new();

		if (k % KEY_EVERY == 0)
			tick_decoder_begin_key(all);
		assert_int_equal(decode(all, &the_log->frames[k], &one, NULL), 0);
		if (k % 7)
			continue;
		tick_decoder_begin_key(late);
		for (unsigned i = k / KEY_EVERY * KEY_EVERY; i < k; i++)
			assert_int_equal(decode(late, &the_log->frames[i], NULL, NULL), 0);
		assert_int_equal(decode(late, &the_log->frames[k], &two, NULL), 0);
		write_json(&one, &a);
		write_json(&two, &b);
		assert_same(&a, &b);
	}
}

/* ---- loss and damage ---- */

/* Decodes all but one; returns how many of the others were refused. */
static unsigned lose(unsigned lost, unsigned *ret_last)
{
	CLEANUP(buf_release) struct buf a = BUF_INIT, b = BUF_INIT;
	CLEANUP(decoder_cleanup) struct tick_decoder *d = tick_decoder_new();
	CLEANUP(decoder_cleanup) struct tick_decoder *all = tick_decoder_new();
	CLEANUP(snapshot_release) struct snapshot got, want;
	unsigned n_refused = 0;

	snapshot_init(&got);
	snapshot_init(&want);
	for (unsigned k = 0; k < N_TICKS; k++) {
		int r;

		assert_int_equal(decode(all, &the_log->frames[k], &want, NULL), 0);
		if (k == lost)
			continue;
		r = decode(d, &the_log->frames[k], &got, NULL);
		if (r < 0) {
			assert_int_equal(r, -EBADMSG);
			assert_int_equal(got.n_processes, 0);
			n_refused++;
			*ret_last = k;
			continue;
		}
		write_json(&want, &a);
		write_json(&got, &b);
		assert_same(&a, &b);
	}
	return n_refused;
}

/* No tick is ever read as something else, though nobody calls tick_decoder_begin_key(). */
static void test_a_lost_tick_costs_no_more_than_up_to_the_key(void **state)
{
	unsigned last = 0;

	(void)state;
	assert_in_range(lose(KEY_EVERY, &last), 1, KEY_EVERY - 1);
	assert_true(last < 2 * KEY_EVERY);
	for (unsigned k = 1; k < KEY_EVERY; k += 13) {
		unsigned n;

		last = 0;
		n = lose(k, &last);
		assert_true(n <= KEY_EVERY - 1 - k);
		assert_true(last < KEY_EVERY);
	}
	assert_int_equal(lose(N_TICKS - 1, &last), 0);
}

/* Processes that are younger than the last whole tick do not cost all of their words for long. */
static void test_young_processes_that_sleep_cost_some_bytes(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct tick_writer *w = tick_writer_new();
	size_t n_bytes = 0;

	(void)state;
	snapshot_init(&snap);
	for (unsigned k = 0; k < 100; k++) {
		snapshot_reset(&snap);
		for (int i = 0; i < (k ? 500 : 1); i++) {
			struct proc_sample *p = snapshot_add_process(&snap);

			p->key = (struct proc_key){ 1000 + i, 5 };
			p->job_id = "j";
			p->rss_bytes = UINT64_C(123456789);
			p->minor_faults = UINT64_C(987654321);
		}
		assert_int_equal(tick_writer_write(w, &snap, NULL, &out), 0);
		n_bytes += out.len;
	}
	assert_true(n_bytes < (size_t)100 * 500 * 5);
	tick_writer_free(w);
}

/* A tick without a new description is needed by no other one. */
static void test_a_lost_tick_of_the_same_processes_costs_itself(void **state)
{
	CLEANUP(decoder_cleanup) struct tick_decoder *d = tick_decoder_new();
	CLEANUP(snapshot_release) struct snapshot snap, got;
	CLEANUP(buf_release) struct buf frame = BUF_INIT;
	struct tick_writer *w = tick_writer_new();

	(void)state;
	snapshot_init(&snap);
	snapshot_init(&got);
	for (unsigned k = 0; k < 4; k++) {
		fill_snapshot(&snap, "j", 30, k);
		if (k == 3)
			snap.processes[7].command = "another";
		assert_int_equal(tick_writer_write(w, &snap, NULL, &frame), 0);
		if (k == 1)
			continue;
		assert_int_equal(decode(d, &frame, &got, NULL), 0);
		assert_int_equal(got.n_processes, 30);
		assert_int_equal(got.processes[29].user_ns, k * 1000000);
	}
	assert_string_equal(got.processes[7].command, "another");
	assert_int_equal(got.processes[7].key.pid, 107); /* by pid, however they are numbered */
	tick_writer_free(w);
}

static void test_cut_and_damaged_ticks_are_refused_or_sound(void **state)
{
	static const unsigned ticks[] = { 0, 5, 61 };
	CLEANUP(snapshot_release) struct snapshot got;
	CLEANUP(buf_release) struct buf json = BUF_INIT;
	struct series_point point;

	(void)state;
	snapshot_init(&got);
	for (size_t i = 0; i < ARRAY_SIZE(ticks); i++) {
		unsigned key = ticks[i] / KEY_EVERY * KEY_EVERY;
		CLEANUP(decoder_cleanup) struct tick_decoder *d = tick_decoder_new();
		struct buf frame = the_log->frames[ticks[i]];

		for (size_t n = 0; n < frame.len; n += 1 + n / 50) {
			struct buf cut = { frame.data, n, 0, false };

			for (unsigned k = key; k < ticks[i]; k++)
				assert_int_equal(decode(d, &the_log->frames[k], NULL, NULL), 0);
			assert_int_equal(decode(d, &cut, &got, &point), -EBADMSG);
			tick_decoder_begin_key(d);
		}
		for (size_t bit = 0; bit < frame.len * 8; bit += 1 + bit / 400) {
			for (unsigned k = key; k < ticks[i]; k++)
				assert_int_equal(decode(d, &the_log->frames[k], NULL, NULL), 0);
			frame.data[bit / 8] = (char)(frame.data[bit / 8] ^ 1 << bit % 8);
			if (decode(d, &frame, &got, &point) == 0)
				write_json(&got, &json);
			else
				assert_int_equal(got.n_processes, 0);
			frame.data[bit / 8] = (char)(frame.data[bit / 8] ^ 1 << bit % 8);
			/* And what it left behind is sound, too. */
			if (decode(d, &the_log->frames[ticks[i] + 1], &got, &point) == 0)
				write_json(&got, &json);
			tick_decoder_begin_key(d);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decoded_ticks_are_stored_as_the_original),
		cmocka_unit_test(test_a_reader_goes_on_where_it_was),
		cmocka_unit_test(test_a_lost_tick_costs_no_more_than_up_to_the_key),
		cmocka_unit_test(test_young_processes_that_sleep_cost_some_bytes),
		cmocka_unit_test(test_a_lost_tick_of_the_same_processes_costs_itself),
		cmocka_unit_test(test_cut_and_damaged_ticks_are_refused_or_sound),
	};

	return cmocka_run_group_tests(tests, both_setup, both_teardown);
}

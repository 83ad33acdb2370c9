/*
 * Who writes in the loop does not wait for the disk with each tick: here a sync on the other thread
 * does not end before so much more was written, which nobody could do who had to wait for it.
 */
#include "store_fixture.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/loop.h"
#include "daemon/settler.h"
#include "store/handle.h"
#include "store/db/db.h"

#define N_TICKS 400 /* more than the log takes before it is copied and begun anew */
#define N_PROCESSES 20
#define N_MEANWHILE 3 /* ticks */

/* ---- a disk that takes its time ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_changed;
	pthread_t loop_thread;
	unsigned n_ticks;	     /* that are written */
	unsigned n_waits, n_in_loop; /* syncs: elsewhere, and where nobody should have to wait */
	unsigned n_to_fail;	     /* the next so many */
	bool is_on, is_stuck;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .has_changed = PTHREAD_COND_INITIALIZER };

static bool is_over(unsigned until)
{
	return !disk.is_stuck && (!disk.is_on || disk.n_ticks >= until);
}

/* False: the disk refuses. Until the loop has gone on by some ticks, or is at its end. */
static bool take_time(void)
{
	unsigned until;
	bool is_refused;

	pthread_mutex_lock(&disk.lock);
	disk.n_waits++;
	until = disk.n_ticks + N_MEANWHILE < N_TICKS ? disk.n_ticks + N_MEANWHILE : N_TICKS;
	while (!is_over(until))
		pthread_cond_wait(&disk.has_changed, &disk.lock);
	is_refused = disk.n_to_fail > 0;
	disk.n_to_fail -= is_refused;
	pthread_mutex_unlock(&disk.lock);
	return !is_refused;
}

/* In place of the system's, for us and for SQLite. */
int fdatasync(int fd)
{
	bool is_loop = disk.is_on && pthread_equal(pthread_self(), disk.loop_thread);

	disk.n_in_loop += is_loop;
	if (disk.is_on && !is_loop && !take_time()) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void set_disk(bool is_on, bool is_stuck)
{
	pthread_mutex_lock(&disk.lock);
	disk.is_on = is_on;
	disk.is_stuck = is_stuck;
	pthread_cond_broadcast(&disk.has_changed);
	pthread_mutex_unlock(&disk.lock);
}

static void count_tick(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.n_ticks++;
	pthread_cond_broadcast(&disk.has_changed);
	pthread_mutex_unlock(&disk.lock);
}

/* ---- who looks ---- */

struct looker {
	struct loop *loop;
	struct loop_timer *timer;
	struct store *store;
	struct settler *settler;
	struct attempt a;
	struct snapshot snap;
	char log[PATH_MAX];
	off_t log_bytes;    /* at most */
	unsigned n_refused; /* ticks before which the disk had refused something */
};

static void note_log(struct looker *l)
{
	struct stat st;

	assert_int_equal(stat(l->log, &st), 0);
	l->log_bytes = st.st_size > l->log_bytes ? st.st_size : l->log_bytes;
}

static void write_one(struct looker *l)
{
	struct err err = ERR_INIT;

	fill_snapshot(&l->snap, "j", N_PROCESSES, disk.n_ticks);
	must(write_tick(l->store, &l->a, &l->snap, NULL, NULL, 0, &err), &err);
}

static void on_tick(void *ctx)
{
	struct looker *l = ctx;

	l->n_refused += store_check_disk(l->store, NULL) < 0;
	write_one(l);
	note_log(l);
	count_tick();
	if (disk.n_ticks >= N_TICKS)
		loop_stop(l->loop);
}

static void set_up(const struct fixture *f, struct looker *l)
{
	struct err err = ERR_INIT;

	*l = (struct looker){ .loop = loop_new(), .a = make_attempt("j") };
	snprintf(l->log, sizeof(l->log), "%s-wal", f->db);
	snapshot_init(&l->snap);
	l->store = must_open(f->db, STORE_WRITE);
	l->timer = loop_timer_new(l->loop, on_tick, l);
	disk.n_ticks = disk.n_waits = disk.n_in_loop = 0;
	disk.loop_thread = pthread_self();
	set_disk(true, false);
	l->settler = settler_new(l->loop, l->store);
	assert_non_null(l->settler);
	must(store_begin_attempt(l->store, &l->a, &err), &err);
}

static void look(struct looker *l)
{
	loop_timer_set(l->timer, 1, 1);
	loop_run(l->loop);
	loop_timer_stop(l->timer);
}

static void tear_down(struct looker *l)
{
	set_disk(false, false);
	assert_int_equal(settler_finish(l->settler, UINT64_MAX), 0);
	l->settler = settler_leave(l->settler);
	l->store = store_close(l->store);
	l->loop = loop_free(l->loop);
	snapshot_release(&l->snap);
}

/* ---- */

/* It waits only where the log is copied and begun anew, which keeps that short. */
static void test_the_loop_goes_on(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	set_up(f, &l);
	look(&l);
	assert_true(disk.n_waits > 1);
	assert_in_range(disk.n_in_loop, 1, N_TICKS / 20);
	assert_in_range(l.log_bytes, WAL_MAX_PAGES * 4096, 2 * WAL_MAX_PAGES * 4120);
	assert_int_equal(l.n_refused, 0);
	tear_down(&l);
	assert_int_equal(count_samples(f->db), N_TICKS * N_PROCESSES);
	assert_is_sound(f->db);
}

/* It is told in the loop, and over when what was refused is written anew. */
static void test_a_disk_that_refuses(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	disk.n_to_fail = 2;
	set_up(f, &l);
	look(&l);
	assert_int_equal(disk.n_to_fail, 0);
	assert_true(l.n_refused > 0);
	assert_int_equal(store_check_disk(l.store, NULL), 0);
	tear_down(&l);
	assert_int_equal(count_samples(f->db), N_TICKS * N_PROCESSES);
	assert_is_sound(f->db);
}

/* After that it is as if there had been none: what is written is on the disk. */
static void test_left(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	set_up(f, &l);
	look(&l);
	l.settler = settler_leave(l.settler);
	disk.n_in_loop = 0;
	write_one(&l);
	assert_true(disk.n_in_loop > 0);
	assert_false(l.store->is_unsettled);
	tear_down(&l);
}

/* What is not on the disk by then is not waited for, and is said to be so; later it is. */
static void test_finish(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	set_up(f, &l);
	set_disk(true, true);
	write_one(&l);
	write_one(&l);
	assert_int_equal(settler_finish(l.settler, clock_boot_ns() + 1000000), -ETIMEDOUT);
	assert_true(settler_is_working(l.settler));
	assert_true(l.store->is_unsettled);
	set_disk(false, false);
	assert_int_equal(settler_finish(l.settler, UINT64_MAX), 0);
	assert_false(settler_is_working(l.settler));
	assert_false(l.store->is_unsettled);
	tear_down(&l);
}

/* Beginning an attempt waits for nothing, and is not taken for settled with what came before. */
static void test_what_need_not_come(void **state)
{
	struct fixture *f = *state;
	struct attempt b = make_attempt("k");
	struct err err = ERR_INIT;
	struct looker l;

	set_up(f, &l);
	assert_false(settler_is_working(l.settler));
	set_disk(true, true);
	write_one(&l);
	must(store_begin_attempt(l.store, &b, &err), &err);
	set_disk(false, false);
	assert_int_equal(settler_finish(l.settler, UINT64_MAX), 0);
	assert_true(l.store->is_unsettled);
	tear_down(&l);
}

/* A wait is told while it lasts, and stays told when it is over. */
static void test_how_long(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	uint64_t ns, again;
	struct looker l;

	set_up(f, &l);
	set_disk(true, true);
	write_one(&l);
	usleep(20000);
	assert_int_equal(settler_check(l.settler, &ns, &err), 0);
	assert_true(ns >= 20000000);
	set_disk(false, false);
	assert_int_equal(settler_finish(l.settler, UINT64_MAX), 0);
	settler_check(l.settler, &again, &err);
	assert_true(again >= ns);
	settler_check(l.settler, &ns, &err);
	assert_int_equal(ns, again);
	tear_down(&l);
}

/* Without a log each transaction waits, and nobody can do it for them. */
static void test_no_log(void **state)
{
	struct fixture *f = *state;
	struct loop *loop = loop_new();
	struct store *store = must_open(f->db, STORE_WRITE);

	assert_int_equal(sqlite3_exec(store->db, "PRAGMA journal_mode = delete", NULL, NULL, NULL),
			 SQLITE_OK);
	store->journal[0] = '\0';
	assert_null(settler_new(loop, store));
	assert_int_equal(settler_finish(NULL, 0), 0);
	store_close(store);
	loop_free(loop);
}

#define SETTLER_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTLER_TEST(test_the_loop_goes_on),
		SETTLER_TEST(test_a_disk_that_refuses),
		SETTLER_TEST(test_left),
		SETTLER_TEST(test_finish),
		SETTLER_TEST(test_what_need_not_come),
		SETTLER_TEST(test_how_long),
		SETTLER_TEST(test_no_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Who writes in the loop does not wait for the disk: here a sync does not end before so much
 * more was written, which nobody could do who had to wait for it.
 */
#include "store_fixture.h"

#include <pthread.h>

#include "base/loop.h"
#include "daemon/settler.h"
#include "store/handle.h"

#define N_TICKS 400 /* more than the log takes before it is copied and begun anew */
#define N_PROCESSES 20
#define N_MEANWHILE 3 /* ticks */

/* ---- a file system that takes its time ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_changed;
	pthread_t loop_thread;
	unsigned n_ticks;	     /* that are written */
	unsigned n_waits, n_in_loop; /* syncs: elsewhere, and where nobody is to wait */
	unsigned n_to_fail;	     /* the next so many */
	bool is_on;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .has_changed = PTHREAD_COND_INITIALIZER };

static struct {
	const sqlite3_io_methods *own;
	sqlite3_io_methods methods;
} kinds[8];
static size_t n_kinds;

static const sqlite3_io_methods *own_methods(const sqlite3_file *file)
{
	for (size_t i = 0; i < n_kinds; i++)
		if (file->pMethods == &kinds[i].methods)
			return kinds[i].own;
	abort();
}

/* False: the disk refuses. Until the loop has gone on by some ticks, or is at its end. */
static bool take_time(void)
{
	unsigned until;
	bool is_refused;

	pthread_mutex_lock(&disk.lock);
	disk.n_waits++;
	until = disk.n_ticks + N_MEANWHILE < N_TICKS ? disk.n_ticks + N_MEANWHILE : N_TICKS;
	while (disk.is_on && disk.n_ticks < until)
		pthread_cond_wait(&disk.has_changed, &disk.lock);
	is_refused = disk.n_to_fail > 0;
	disk.n_to_fail -= is_refused;
	pthread_mutex_unlock(&disk.lock);
	return !is_refused;
}

static int slow_sync(sqlite3_file *file, int flags)
{
	bool is_loop = disk.is_on && pthread_equal(pthread_self(), disk.loop_thread);

	disk.n_in_loop += is_loop;
	if (disk.is_on && !is_loop && !take_time()) {
		errno = EIO;
		return SQLITE_IOERR_FSYNC;
	}
	return own_methods(file)->xSync(file, flags);
}

static const sqlite3_io_methods *slow_methods(const sqlite3_io_methods *own)
{
	for (size_t i = 0; i < n_kinds; i++)
		if (kinds[i].own == own)
			return &kinds[i].methods;
	assert_true(n_kinds < ARRAY_SIZE(kinds));
	kinds[n_kinds].own = own;
	kinds[n_kinds].methods = *own;
	kinds[n_kinds].methods.xSync = slow_sync;
	return &kinds[n_kinds++].methods;
}

/* Two threads may come at once, but each kind of file has been opened by one before. */
static int open_slow(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		     int *ret_flags)
{
	sqlite3_vfs *own = vfs->pAppData;
	int rc = own->xOpen(own, name, file, flags, ret_flags);

	if (rc == SQLITE_OK)
		file->pMethods = slow_methods(file->pMethods);
	return rc;
}

static int slow_down(void **state)
{
	static sqlite3_vfs vfs;

	(void)state;
	assert_int_equal(sqlite3_initialize(), SQLITE_OK);
	vfs = *sqlite3_vfs_find(NULL);
	vfs.pAppData = sqlite3_vfs_find(NULL);
	vfs.zName = "slow";
	vfs.pNext = NULL;
	vfs.xOpen = open_slow;
	assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
	return 0;
}

/* ---- who looks ---- */

struct looker {
	struct loop *loop;
	struct loop_timer *timer;
	struct store *store;
	struct settler *settler;
	struct attempt a;
	struct snapshot snap;
	unsigned n_busy;    /* the other held the lock: as it is for who records, tried again */
	unsigned n_refused; /* ticks that found that the disk had refused something */
};

static void count_tick(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.n_ticks++;
	pthread_cond_broadcast(&disk.has_changed);
	pthread_mutex_unlock(&disk.lock);
}

static void on_tick(void *ctx)
{
	struct looker *l = ctx;
	struct err err = ERR_INIT;
	int r;

	fill_snapshot(&l->snap, "j", N_PROCESSES, disk.n_ticks);
	r = write_tick(l->store, &l->a, &l->snap, NULL, NULL, 0, &err);
	l->n_busy += r == -EBUSY;
	l->n_refused += store_check_disk(l->store, NULL) < 0;
	if (r < 0 && r != -EBUSY)
		fail_msg("%s", err.text);
	count_tick(); /* also one that has to be tried again: the disk is not to wait for it */
	if (disk.n_ticks >= N_TICKS)
		loop_stop(l->loop);
}

static void set_up(const struct fixture *f, struct looker *l)
{
	struct err err = ERR_INIT;

	*l = (struct looker){ .loop = loop_new(), .a = make_attempt("j") };
	snapshot_init(&l->snap);
	l->store = must_open(f->db, STORE_WRITE);
	store_set_patience(l->store, 5);
	l->timer = loop_timer_new(l->loop, on_tick, l);
	disk.n_ticks = disk.n_waits = disk.n_in_loop = 0;
	disk.loop_thread = pthread_self();
	disk.is_on = true;
	l->settler = settler_new(l->loop, f->db, l->store);
	assert_non_null(l->settler);
	must(store_begin_attempt(l->store, &l->a, &err), &err);
	loop_timer_set(l->timer, 1, 1);
	loop_run(l->loop);
	loop_timer_stop(l->timer);
}

static void tear_down(struct looker *l)
{
	pthread_mutex_lock(&disk.lock);
	disk.is_on = false;
	pthread_cond_broadcast(&disk.has_changed);
	pthread_mutex_unlock(&disk.lock);
	l->settler = settler_leave(l->settler);
	l->store = store_close(l->store);
	l->loop = loop_free(l->loop);
	snapshot_release(&l->snap);
}

static void test_the_loop_goes_on(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	set_up(f, &l);
	assert_true(disk.n_waits > 1);
	assert_int_equal(disk.n_in_loop, 0);
	tear_down(&l);
	assert_int_equal(count_samples(f->db), (N_TICKS - l.n_busy) * N_PROCESSES);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM meta WHERE key = 'log_begun_ns'"), 1);
	assert_is_sound(f->db);
}

/* It is told in the loop, and over when what was refused is written anew. */
static void test_a_disk_that_refuses(void **state)
{
	struct fixture *f = *state;
	struct looker l;

	disk.n_to_fail = 2;
	set_up(f, &l);
	assert_int_equal(disk.n_to_fail, 0);
	assert_int_equal(disk.n_in_loop, 0);
	assert_true(l.n_refused > 0);
	assert_int_equal(store_check_disk(l.store, NULL), 0);
	tear_down(&l);
	assert_int_equal(count_samples(f->db), (N_TICKS - l.n_busy) * N_PROCESSES);
	assert_is_sound(f->db);
}

/* After that it is as if there had been none: what is written is on the disk. */
static void test_left(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct looker l;

	set_up(f, &l);
	disk.is_on = false;
	l.settler = settler_leave(l.settler);
	disk.is_on = true;
	disk.n_in_loop = 0;
	must(write_tick(l.store, &l.a, &l.snap, NULL, NULL, 0, &err), &err);
	assert_true(disk.n_in_loop > 0);
	tear_down(&l);
}

#define SETTLER_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTLER_TEST(test_the_loop_goes_on),
		SETTLER_TEST(test_a_disk_that_refuses),
		SETTLER_TEST(test_left),
	};

	return cmocka_run_group_tests(tests, slow_down, NULL);
}

/*
 * A power cut at any moment: what was told to be written is there, and the database is sound.
 *
 * All that SQLite writes in a run is noted down, with when it waited for the disk. Then for each
 * cut the files are made anew as a disk may have them: what was written before the last sync of
 * a file whole, and of what came behind that some, some torn, and some not at all.
 */
#include "store_fixture.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/io.h"
#include "store/handle.h"
#include "store/db/db.h"
#include "store_writer.h"

#define N_TICKS 260 /* two folds, and some */
#define N_PROCESSES 40
#define CHECKPOINT_EVERY 23 /* ticks */
#define N_CUTS 150
#define SECTOR 512

/* ---- what is noted ---- */

enum which { FILE_DB, FILE_WAL, N_FILES };
enum op_type { OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_TOLD };

struct op {
	enum op_type type;
	enum which file;
	size_t at, len; /* of a write; len is the size of a truncation */
	size_t bytes;	/* where they stand */
};

static struct {
	struct op *ops;
	size_t n, cap;
	struct buf bytes;
	bool is_on;
} run = { .bytes = BUF_INIT };

static void note(struct op op, const void *bytes)
{
	if (!run.is_on)
		return;
	if (run.n == run.cap) {
		run.cap = run.cap ? run.cap * 2 : 1024;
		run.ops = reallocarray(run.ops, run.cap, sizeof(*run.ops));
		assert_non_null(run.ops);
	}
	op.bytes = run.bytes.len;
	if (bytes)
		buf_add(&run.bytes, bytes, op.len);
	run.ops[run.n++] = op;
}

/* ---- a file system that notes ---- */

static struct noting {
	sqlite3_file *file;
	const sqlite3_io_methods *own;
	sqlite3_io_methods methods;
} open_files[N_FILES];

static const sqlite3_io_methods *own_of(const sqlite3_file *file, enum which *ret)
{
	*ret = file == open_files[FILE_WAL].file ? FILE_WAL : FILE_DB;
	assert_ptr_equal(file, open_files[*ret].file);
	return open_files[*ret].own;
}

static int note_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
	enum which which;
	const sqlite3_io_methods *own = own_of(file, &which);

	note((struct op){ OP_WRITE, which, (size_t)at, (size_t)n, 0 }, bytes);
	return own->xWrite(file, bytes, n, at);
}

static int note_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	enum which which;
	const sqlite3_io_methods *own = own_of(file, &which);

	note((struct op){ .type = OP_TRUNCATE, .file = which, .len = (size_t)size }, NULL);
	return own->xTruncate(file, size);
}

static int note_sync(sqlite3_file *file, int flags)
{
	enum which which;
	const sqlite3_io_methods *own = own_of(file, &which);

	note((struct op){ .type = OP_SYNC, .file = which }, NULL);
	return own->xSync(file, flags);
}

/* Only of the run: what is opened to look at it afterwards is left alone. */
static int open_noting(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		       int *ret_flags)
{
	sqlite3_vfs *unix_vfs = vfs->pAppData;
	int rc = unix_vfs->xOpen(unix_vfs, name, file, flags, ret_flags);
	struct noting *n = &open_files[flags & SQLITE_OPEN_WAL ? FILE_WAL : FILE_DB];

	if (rc != SQLITE_OK || !(flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_DB)) || !run.is_on)
		return rc;
	n->file = file;
	n->own = file->pMethods;
	n->methods = *file->pMethods;
	n->methods.xWrite = note_write;
	n->methods.xTruncate = note_truncate;
	n->methods.xSync = note_sync;
	file->pMethods = &n->methods;
	return rc;
}

static int note_all(void **state)
{
	static sqlite3_vfs vfs;

	(void)state;
	assert_int_equal(sqlite3_initialize(), SQLITE_OK);
	vfs = *sqlite3_vfs_find(NULL);
	vfs.pAppData = sqlite3_vfs_find(NULL);
	vfs.zName = "noting";
	vfs.pNext = NULL;
	vfs.xOpen = open_noting;
	return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK ? 0 : -1;
}

/* ---- the run ---- */

/* Ticks in which another waits for the disk once. */
#define WAIT_EVERY 7

enum who { NOBODY, WRITER, ANOTHER }; /* waits for the disk */

/* All that was written is on the disk by now, if anybody waits for it. */
static void tell(unsigned *n_untold)
{
	for (; *n_untold > 0; --*n_untold)
		note((struct op){ .type = OP_TOLD }, NULL);
}

/* As store_sweep(), through the same file. */
static void let_another_wait(struct store *store)
{
	assert_int_equal(store_settle(store), 0);
}

/* A tick that is told to be written; the end of the attempt comes last. */
static void record(const char *db, enum who who)
{
	unsigned n_untold = 0;
	struct store *store;
	struct attempt a = make_attempt("j");
	struct snapshot snap;
	struct err err = ERR_INIT;

	run.n = 0;
	buf_reset(&run.bytes);
	run.is_on = true;
	snapshot_init(&snap);
	store = must_open(db, STORE_WRITE);
	must(store_begin_attempt(store, &a, &err), &err);
	store->syncs_log = who == WRITER;
	if (who == ANOTHER)
		store_leave_disk(store);
	if (who == NOBODY)
		sqlite3_exec(store->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	for (unsigned k = 0; k < N_TICKS; k++) {
		fill_snapshot(&snap, "j", N_PROCESSES, k);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
		n_untold++;
		if (who == ANOTHER && k % WAIT_EVERY == 0)
			let_another_wait(store);
		if (who != ANOTHER || k % WAIT_EVERY == 0)
			tell(&n_untold);
		if (k % CHECKPOINT_EVERY == 0)
			sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
						  NULL);
	}
	a.ended_wall_ns = a.started_wall_ns + 1;
	a.outcome = OUTCOME_SUCCESS;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	if (who == ANOTHER)
		let_another_wait(store);
	n_untold++;
	tell(&n_untold);
	run.is_on = false;
	assert_int_equal(buf_error(&run.bytes), 0);
	snapshot_release(&snap);
	store_close(store);
}

/* ---- the cut ---- */

struct image {
	char *data;
	size_t len, cap;
};

static void image_resize(struct image *image, size_t len)
{
	if (len > image->cap) {
		image->data = realloc(image->data, len * 2);
		assert_non_null(image->data);
		image->cap = len * 2;
	}
	if (len > image->len)
		memset(image->data + image->len, 0, len - image->len);
	image->len = len;
}

static void image_apply(struct image *image, const struct op *op, size_t len)
{
	if (op->type == OP_TRUNCATE) {
		image_resize(image, op->len);
		return;
	}
	if (op->at + len > image->len)
		image_resize(image, op->at + len);
	memcpy(image->data + op->at, run.bytes.data + op->bytes, len);
}

/* Before this one of its file waits for the disk, if it does so before the cut. */
static bool is_synced(size_t i, size_t cut)
{
	for (size_t k = i + 1; k < cut; k++)
		if (run.ops[k].type == OP_SYNC && run.ops[k].file == run.ops[i].file)
			return true;
	return false;
}

static void apply_by_chance(struct image *image, const struct op *op, unsigned *seed)
{
	unsigned chance = (unsigned)rand_r(seed) % 4;

	if (chance == 0 && op->type == OP_WRITE) /* torn */
		image_apply(image, op, op->len / SECTOR / 2 * SECTOR);
	else if (chance > 1)
		image_apply(image, op, op->len);
}

static void write_image(const char *path, const struct image *image)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(image->data ? image->data : "", 1, image->len, file), image->len);
	assert_int_equal(fclose(file), 0);
}

/* As a disk may have the files after ops up to cut. Returns how much was told to be written. */
static int64_t cut_power(const struct fixture *f, size_t cut, unsigned *seed)
{
	struct image images[N_FILES] = { 0 };
	char wal[192];
	int64_t told = 0;

	for (size_t i = 0; i < cut; i++) {
		const struct op *op = &run.ops[i];

		told += op->type == OP_TOLD;
		if (op->type == OP_TOLD || op->type == OP_SYNC)
			continue;
		if (is_synced(i, cut))
			image_apply(&images[op->file], op, op->len);
		else
			apply_by_chance(&images[op->file], op, seed);
	}
	snprintf(wal, sizeof(wal), "%s-wal", f->db);
	write_image(f->db, &images[FILE_DB]);
	write_image(wal, &images[FILE_WAL]);
	for (size_t i = 0; i < N_FILES; i++)
		free(images[i].data);
	return told;
}

static size_t first_told(void)
{
	size_t i = 0;

	while (run.ops[i].type != OP_TOLD)
		i++;
	return i;
}

/* What is there after it: ticks, and one more for the end of the attempt; -1: not sound. */
static int64_t count_after(const struct fixture *f)
{
	struct store *store = NULL;
	char text[256];
	int64_t n;

	if (store_open(f->db, STORE_WRITE, &store, NULL) < 0)
		return -1;
	store_close(store);
	if (strcmp(raw_text(f->db, "PRAGMA integrity_check", text), "ok") != 0)
		return -1;
	n = raw_sql(f->db, COUNT_TICKS);
	if (count_samples(f->db) != n * N_PROCESSES)
		return -1;
	return n + raw_sql(f->db, "SELECT count(*) FROM attempts WHERE outcome NOT NULL");
}

/* Cuts all over the run; how many of them took what was told to be written. */
static unsigned cut_often(unsigned seed, int64_t n_more)
{
	size_t first = first_told();
	unsigned n_bad = 0;

	for (unsigned i = 0; i < N_CUTS; i++) {
		size_t cut = first + 1 + (size_t)rand_r(&seed) % (run.n - first);
		struct fixture *f = NULL;
		int64_t told, found;

		assert_int_equal(fixture_setup((void **)&f), 0);
		told = cut_power(f, cut, &seed);
		found = count_after(f);
		n_bad += found < told || found > told + n_more;
		fixture_teardown((void **)&f);
	}
	return n_bad;
}

static void test_cuts(void **state)
{
	struct fixture *f = *state;

	record(f->db, WRITER);
	assert_int_equal(cut_often(1, 1), 0);
}

/* What was written before the last wait that was over began is there, and nothing is torn. */
static void test_another_waits(void **state)
{
	struct fixture *f = *state;

	record(f->db, ANOTHER);
	assert_int_equal(cut_often(1, WAIT_EVERY + 1), 0);
}

/* That the above can fail: nobody waits for the disk. */
static void test_without_syncs(void **state)
{
	struct fixture *f = *state;

	record(f->db, NOBODY);
	assert_true(cut_often(1, 1) > 0);
	free(run.ops);
	buf_release(&run.bytes);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_cuts),
		STORE_TEST(test_another_waits),
		STORE_TEST(test_without_syncs),
	};

	return cmocka_run_group_tests(tests, note_all, NULL);
}

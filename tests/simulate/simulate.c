/*
 * simulate - recorder, log and ingest on a disk that fails, in an order that one seed decides.
 *
 *	simulate [FIRST [COUNT]]
 *
 * One recorder appends frames, syncs and ends; two processes ingest into a database that may lose
 * what it has not synced; readers read; a sweeper sweeps. Any of them runs within any call of
 * another one, and may be killed there. The disk fills up, fails and loses its power. Afterwards
 * all that was acknowledged is in the database once, in order, and no reader ever saw anything
 * else than what was appended. Prints TAP, a case for 100 seeds; of a seed that fails the number:
 * the same one fails again.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

#define FRAMES_MAX 4096
#define COMMITS_MAX 4096
#define STEPS_MAX 400
#define SEEDS_PER_CASE 100

struct truth {
	uint64_t offset;
	size_t n;
	bool is_lost;
};

/* What the database has: which frames, and how far. */
struct database {
	uint64_t seqs[FRAMES_MAX];
	size_t n;
	struct log_cursor cursor;
	bool has_end, is_lost;
};

struct world {
	uint64_t seed;
	struct dice dice;
	struct disk *disk;
	struct log_origin origin;
	unsigned depth; /* of steps within calls of others */
	bool is_dying;	/* nobody else runs any more */

	struct actor recorder;
	struct log_writer *writer;
	struct log_sync sync;
	bool is_syncing, has_tried_to_end;
	struct truth truth[FRAMES_MAX];
	uint64_t n_frames;
	uint64_t kernel_mark, disk_mark; /* offsets that were acknowledged */
	bool end_is_acknowledged;

	struct database db, db_disk; /* as all see it; as a power cut leaves it at least */
	struct database txn;	     /* of who ingests */
	bool is_txn_used;

	char failure[300];
};

static void fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failure[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->failure, sizeof(w->failure), fmt, ap);
	va_end(ap);
}

static void fill(uint8_t *bytes, size_t n, uint64_t seed, uint64_t seq)
{
	struct dice dice = { seed ^ seq * UINT64_C(0x9e3779b97f4a7c15) };

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)dice_roll(&dice);
}

static bool is_what_was_appended(struct world *w, const struct log_frame *frame)
{
	static uint8_t bytes[LOG_SEGMENT_BYTES];

	if (frame->seq >= w->n_frames || w->truth[frame->seq].is_lost ||
	    w->truth[frame->seq].offset != frame->offset || w->truth[frame->seq].n != frame->n)
		return false;
	fill(bytes, frame->n, w->seed, frame->seq);
	return memcmp(bytes, frame->bytes, frame->n) == 0;
}

/* ---- the recorder ---- */

static void note_append(struct world *w, int r, size_t n, uint64_t offset)
{
	struct truth *t = &w->truth[w->n_frames++];

	*t = (struct truth){ offset, n, r == -ENOBUFS };
	if (r == 0)
		w->kernel_mark = log_appended(w->writer);
}

static void recorder_append(struct world *w)
{
	static uint8_t bytes[LOG_SEGMENT_BYTES];
	size_t n =
		dice_chance(&w->dice, 10) ? dice_below(&w->dice, 5000) : dice_below(&w->dice, 200);
	bool is_key = log_wants_key(w->writer) || dice_chance(&w->dice, 8);
	unsigned flags = (is_key ? LOG_KEY : 0) | (dice_chance(&w->dice, 2) ? LOG_TICK : 0);
	uint64_t offset = log_appended(w->writer);
	int r;

	if (w->n_frames == FRAMES_MAX)
		return;
	fill(bytes, n, w->seed, w->n_frames);
	/* Readers within the call may see it at once: the truth comes first. */
	w->truth[w->n_frames] = (struct truth){ offset, n, false };
	w->n_frames++;
	r = log_append(w->writer, 7, flags, bytes, n, NULL);
	w->n_frames--;
	note_append(w, r, n, offset);
}

static void recorder_step(struct world *w)
{
	static const char end[] = "the end";

	switch (dice_below(&w->dice, 40)) {
	case 0 ... 5:
		if (!w->is_syncing)
			log_sync_begin(w->writer, &w->sync);
		w->is_syncing = true;
		break;
	case 6 ... 11:
		if (!w->is_syncing)
			break;
		log_sync_run(&w->sync);
		w->is_syncing = false;
		if (log_sync_end(w->writer, &w->sync) == 0 && !w->recorder.is_dead)
			w->disk_mark = log_durable(w->writer);
		break;
	case 12:
		if (w->is_syncing)
			break;
		log_sync_begin(w->writer, &w->sync);
		log_sync_run(&w->sync);
		if (log_sync_end(w->writer, &w->sync) == 0 && !w->recorder.is_dead)
			w->disk_mark = log_durable(w->writer);
		break;
	case 13:
		if (w->is_syncing || dice_chance(&w->dice, 2))
			break;
		w->has_tried_to_end = true;
		if (log_end(w->writer, end, sizeof(end), NULL) == 0 && !w->recorder.is_dead)
			w->end_is_acknowledged = true;
		w->recorder.is_dead = true;
		disk_end(w->disk, &w->recorder);
		break;
	default:
		recorder_append(w);
	}
}

/* ---- the database ---- */

static int sink_find(void *ctx, const struct log_origin *origin, struct log_cursor *ret)
{
	struct world *w = ctx;

	if (memcmp(&origin->id, &w->origin.id, sizeof(origin->id)) != 0)
		fail(w, "a log is not what it was");
	*ret = w->txn.cursor;
	return w->txn.n == 0 && !w->txn.cursor.is_over ? -ENOENT : 0;
}

static int sink_frame(void *ctx, const struct log_frame *frame, bool is_new)
{
	struct world *w = ctx;

	if (!is_what_was_appended(w, frame))
		fail(w, "frame %llu is not what was appended", (unsigned long long)frame->seq);
	if (!is_new)
		return 0;
	if (w->txn.n > 0 && frame->seq <= w->txn.seqs[w->txn.n - 1])
		fail(w, "frame %llu is stored after %llu", (unsigned long long)frame->seq,
		     (unsigned long long)w->txn.seqs[w->txn.n - 1]);
	if (w->txn.n < FRAMES_MAX)
		w->txn.seqs[w->txn.n++] = frame->seq;
	return 0;
}

static int sink_end(void *ctx, const struct log_frame *end)
{
	struct world *w = ctx;

	if (!w->has_tried_to_end || end->n != sizeof("the end"))
		fail(w, "an end that nobody wrote");
	w->txn.has_end = true;
	return 0;
}

static int sink_is_gone(void *ctx, const struct log_origin *origin)
{
	(void)ctx;
	(void)origin;
	return 1;
}

static int sink_lost(void *ctx)
{
	struct world *w = ctx;

	if (!w->recorder.is_dead)
		fail(w, "a recorder that lives is taken for lost");
	w->txn.is_lost = true;
	return 0;
}

static int sink_move(void *ctx, const struct log_origin *origin, const struct log_cursor *from,
		     const struct log_cursor *to, uint64_t lost_bytes)
{
	struct world *w = ctx;

	(void)origin;
	(void)lost_bytes;
	if (w->txn.cursor.offset != from->offset || w->txn.cursor.is_over != from->is_over)
		return -EAGAIN;
	w->txn.cursor = *to;
	return 0;
}

/* One transaction; then maybe a sync, and only then may the log lose what is stored. */
static void ingester_step(struct world *w, struct actor *actor)
{
	const struct log_sink sink = { w,	  sink_find, sink_frame, sink_end, sink_is_gone,
				       sink_lost, sink_move };
	struct log_fs fs = disk_fs(actor);
	struct log_cursor cursor;
	int r;

	if (w->is_txn_used) /* the database is locked */
		return;
	w->is_txn_used = true;
	w->txn = w->db;
	r = log_ingest(&fs, &w->origin.id, &sink, dice_below(&w->dice, 4000), &cursor, NULL);
	if (r >= 0 && !actor->is_dead && !dice_chance(&w->dice, 10)) /* else it is rolled back */
		w->db = w->txn;
	else
		r = -EAGAIN;
	w->is_txn_used = false;
	if (r < 0 || dice_chance(&w->dice, 2))
		return;
	w->db_disk = w->db;
	(void)log_remove(&fs, &w->origin.id, cursor.offset, cursor.is_over);
}

/* ---- readers ---- */

struct reading {
	struct world *w;
	uint64_t last_seq;
	bool has_last;
};

static int on_read(void *ctx, const struct log_frame *frame)
{
	struct reading *reading = ctx;
	struct world *w = reading->w;

	if (!is_what_was_appended(w, frame))
		fail(w, "a reader sees frame %llu, which was not appended so",
		     (unsigned long long)frame->seq);
	if (reading->has_last && frame->seq <= reading->last_seq)
		fail(w, "a reader sees frame %llu twice", (unsigned long long)frame->seq);
	reading->last_seq = frame->seq;
	reading->has_last = true;
	return 0;
}

static void reader_step(struct world *w, struct actor *actor)
{
	struct reading reading = { .w = w };
	struct log_fs fs = disk_fs(actor);
	struct log_read_result result;
	struct log_reader *r;
	int alive;

	if (log_reader_open(&fs, &w->origin.id, &r, NULL) < 0)
		return;
	alive = log_is_alive(r);
	if (alive == 0 && !w->recorder.is_dead)
		fail(w, "a reader takes a recorder that lives for dead");
	if (alive >= 0)
		(void)log_read(r, log_key_before(r, 0), alive, on_read, &reading, &result);
	log_reader_close(r);
}

/* ---- the run ---- */

static void other_step(struct world *w)
{
	struct actor actor = { .disk = w->disk };
	struct log_fs fs = disk_fs(&actor);

	actor.kill_one_in = dice_chance(&w->dice, 8) ? 20 : 0;
	switch (dice_below(&w->dice, 8)) {
	case 0 ... 3:
		ingester_step(w, &actor);
		break;
	case 4 ... 6:
		reader_step(w, &actor);
		break;
	default:
		(void)log_sweep(&fs);
	}
	disk_end(w->disk, &actor);
}

static void between(void *ctx)
{
	struct world *w = ctx;

	if (w->is_dying || w->depth > 0 || !dice_chance(&w->dice, 10))
		return;
	w->depth++;
	other_step(w);
	w->depth--;
}

static void change_weather(struct world *w)
{
	switch (dice_below(&w->dice, 6)) {
	case 0:
		disk_set_room(w->disk, dice_below(&w->dice, 3000));
		break;
	case 1:
		disk_set_sync_failures(w->disk, 1 + (unsigned)dice_below(&w->dice, 4));
		break;
	default:
		disk_set_room(w->disk, SIZE_MAX);
		disk_set_sync_failures(w->disk, 0);
	}
}

static void cut_power(struct world *w)
{
	w->recorder.is_dead = true;
	disk_cut_power(w->disk);
	/* Commits that were not synced may have come to the disk or not. */
	if (dice_chance(&w->dice, 2))
		w->db = w->db_disk;
	w->db_disk = w->db;
}

static bool has_frame(const struct database *db, uint64_t seq)
{
	size_t low = 0, high = db->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (db->seqs[middle] == seq)
			return true;
		if (db->seqs[middle] < seq)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static void check(struct world *w, uint64_t mark, bool has_begun)
{
	for (uint64_t i = 0; i < w->n_frames; i++)
		if (!w->truth[i].is_lost && w->truth[i].offset < mark && !has_frame(&w->db, i))
			fail(w, "frame %llu of %llu was acknowledged and is lost",
			     (unsigned long long)i, (unsigned long long)w->n_frames);
	if (w->end_is_acknowledged && !w->db.has_end)
		fail(w, "the end was acknowledged and is lost");
	if (has_begun && !w->db.cursor.is_over)
		fail(w, "the attempt is never over");
	if (w->db.cursor.is_over && !w->db.has_end && !w->db.is_lost)
		fail(w, "over, with neither an end nor a loss");
}

/* Later, on a machine that works: what is left is ingested by whoever comes. */
static void ingest_rest(struct world *w)
{
	disk_set_room(w->disk, SIZE_MAX);
	disk_set_sync_failures(w->disk, 0);
	for (int i = 0; i < 2000 && disk_count_files(w->disk) > 0; i++)
		other_step(w);
	/* All of it was ingested but for what the power took: an attempt without a log is lost. */
	if (disk_count_files(w->disk) == 0 && w->db.n > 0 && !w->db.cursor.is_over)
		w->db.cursor.is_over = w->db.is_lost = true;
	if (disk_count_files(w->disk) > 0)
		fail(w, "%zu files are left for ever", disk_count_files(w->disk));
}

static void run_world(struct world *w)
{
	struct log_options options = { .end_bytes = 16, .segment_bytes = 2000 };
	bool is_cut = false, has_begun;
	struct log_fs fs;

	w->dice.state = w->seed;
	w->disk = disk_new(&w->dice);
	w->recorder = (struct actor){ .disk = w->disk, .between = between, .ctx = w };
	w->recorder.kill_one_in =
		dice_chance(&w->dice, 2) ? 10 + (unsigned)dice_below(&w->dice, 500) : 0;
	for (size_t i = 0; i < LOG_ID_BYTES; i++)
		w->origin.id.bytes[i] = (uint8_t)dice_roll(&w->dice);
	options.origin = w->origin;
	options.queue_bytes = dice_chance(&w->dice, 2) ? 2000 : 0;
	fs = disk_fs(&w->recorder);
	if (log_create(&fs, &options, &w->writer, NULL) == 0) {
		size_t steps = dice_below(&w->dice, STEPS_MAX);

		for (size_t i = 0; i < steps && !w->recorder.is_dead && !w->failure[0]; i++) {
			if (dice_chance(&w->dice, 20))
				change_weather(w);
			if (dice_chance(&w->dice, 5))
				other_step(w);
			recorder_step(w);
			if (dice_chance(&w->dice, 300)) {
				is_cut = true;
				cut_power(w);
			}
		}
	}
	if (!w->recorder.is_dead && dice_chance(&w->dice, 2)) {
		is_cut = true;
		cut_power(w);
	}
	w->recorder.is_dead = true;
	w->is_dying = true;
	disk_end(w->disk, &w->recorder);
	log_writer_free(w->writer);
	/* The power may fail again while what is left is ingested. */
	while (dice_chance(&w->dice, 3) && !w->failure[0]) {
		for (size_t i = dice_below(&w->dice, 10); i > 0; i--)
			other_step(w);
		if (dice_chance(&w->dice, 2)) {
			is_cut = true;
			cut_power(w);
		}
	}
	has_begun = w->disk_mark > 0 || (!is_cut && w->kernel_mark > 0);
	ingest_rest(w);
	check(w, is_cut ? w->disk_mark : w->kernel_mark, has_begun);
	disk_free(w->disk);
}

static bool run_seed(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	bool is_ok;

	if (!w)
		return false;
	w->seed = seed;
	run_world(w);
	is_ok = !w->failure[0];
	if (!is_ok)
		printf("# seed %llu: %s\n", (unsigned long long)seed, w->failure);
	free(w);
	return is_ok;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, n_failed = 0;
	uint64_t n_cases = (count + SEEDS_PER_CASE - 1) / SEEDS_PER_CASE;

	printf("1..%llu\n", (unsigned long long)n_cases);
	for (uint64_t i = 0; i < n_cases; i++) {
		uint64_t from = first + i * SEEDS_PER_CASE, to = from + SEEDS_PER_CASE;
		bool is_ok = true;

		if (to > first + count)
			to = first + count;
		for (uint64_t seed = from; seed < to; seed++)
			is_ok = run_seed(seed) && is_ok;
		n_failed += !is_ok;
		printf("%s %llu - seeds %llu to %llu\n", is_ok ? "ok" : "not ok",
		       (unsigned long long)i + 1, (unsigned long long)from,
		       (unsigned long long)to - 1);
		fflush(stdout);
	}
	return n_failed > 0;
}

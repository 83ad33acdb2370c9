#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "log/log.h"

/* tests/simulate has what may happen to a disk. This is the real one. */

struct folder {
	char path[64];
	int fd;
	struct log_fs fs;
};

static int make_folder(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/proctor-log-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	f->fs = log_fs_real(f->fd);
	*state = f;
	return 0;
}

static int remove_folder(void **state)
{
	struct folder *f = *state;
	char command[128];

	close(f->fd);
	snprintf(command, sizeof(command), "rm -rf %s", f->path);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static struct log_writer *create(const struct folder *f, size_t segment_bytes, struct log_id *ret)
{
	struct log_options options = { .end_bytes = 100, .segment_bytes = segment_bytes };
	struct log_writer *w;

	assert_int_equal(log_id_make(&options.origin.id), 0);
	options.origin.uid = 1000;
	assert_int_equal(log_create(&f->fs, &options, &w, NULL), 0);
	*ret = options.origin.id;
	return w;
}

static void append(struct log_writer *w, unsigned from, unsigned to, unsigned flags)
{
	for (unsigned i = from; i < to; i++) {
		unsigned all = flags | (log_wants_key(w) ? LOG_KEY : 0);

		assert_int_equal(log_append(w, 3, all, &i, sizeof(i), NULL), 0);
	}
}

static int count(void *ctx, const struct log_frame *frame)
{
	unsigned *n = ctx;

	assert_int_equal(frame->type, 3);
	assert_int_equal(frame->seq, *n);
	assert_int_equal(frame->n, sizeof(*n));
	assert_memory_equal(frame->bytes, n, sizeof(*n));
	++*n;
	return 0;
}

static int count_any(void *ctx, const struct log_frame *frame)
{
	(void)frame;
	++*(unsigned *)ctx;
	return 0;
}

static int count_files(const struct folder *f)
{
	DIR *dir = opendir(f->path);
	int n = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static int see_end(void *ctx, const struct log_frame *end)
{
	assert_int_equal(end->n, 4);
	assert_memory_equal(end->bytes, "over", 4);
	*(uint64_t *)ctx = end->offset;
	return 0;
}

static void test_frames_come_back_in_order_over_segments(void **state)
{
	struct folder *f = *state;
	struct log_read_result result;
	struct log_reader *r;
	struct log_writer *w;
	struct log_sync sync;
	struct log_id id;
	uint64_t end = 0;
	unsigned n = 0;

	w = create(f, 300, &id);
	append(w, 0, 100, 0);
	assert_true(count_files(f) > 3);
	log_sync_begin(w, &sync);
	log_sync_run(&sync);
	assert_int_equal(log_sync_end(w, &sync), 0);
	assert_int_equal(log_durable(w), log_appended(w));
	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), 0);
	assert_int_equal(log_reader_origin(r)->uid, 1000);
	assert_int_equal(log_is_alive(r), 1);
	assert_int_equal(log_read_end(r, true, see_end, &end), 0);
	assert_int_equal(log_read(r, 0, true, count, &n, &result), 0);
	assert_int_equal(n, 100);
	assert_int_equal(result.next, log_appended(w));
	assert_int_equal(result.lost_bytes, 0);

	append(w, 100, 150, LOG_TICK);
	assert_int_equal(log_end(w, "over", 4, NULL), 0);
	log_writer_free(w);
	assert_int_equal(log_is_alive(r), 0);
	assert_int_equal(log_read(r, result.next, false, count, &n, &result), 0);
	assert_int_equal(n, 150);
	assert_int_equal(log_read_end(r, false, see_end, &end), 1);
	assert_int_equal(end, result.next);
	log_reader_close(r);
}

static void test_what_is_stored_may_go_and_the_rest_is_read(void **state)
{
	struct folder *f = *state;
	struct log_read_result result;
	struct log_reader *r;
	struct log_writer *w;
	struct log_id id;
	unsigned n = 60;
	uint64_t middle;

	w = create(f, 300, &id);
	append(w, 0, 60, 0);
	middle = log_appended(w);
	append(w, 60, 100, 0);
	assert_int_equal(log_remove(&f->fs, &id, middle, false), 0);
	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), 0);
	assert_true(log_key_before(r, 0) > 0);
	assert_true(log_key_before(r, middle) <= middle);
	assert_int_equal(log_read(r, middle, true, count, &n, &result), 0);
	assert_int_equal(n, 100);
	log_reader_close(r);
	log_writer_free(w);
	assert_int_equal(log_remove(&f->fs, &id, 0, true), 0);
	assert_int_equal(count_files(f), 0);
	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), -ENOENT);
}

static void test_kill_leaves_all_that_was_appended(void **state)
{
	struct folder *f = *state;
	struct log_read_result result;
	struct log_reader *r;
	struct log_id id;
	int pipes[2], status;
	unsigned n = 0;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct log_writer *w = create(f, 5000, &id);

		append(w, 0, 1000, 0);
		if (write(pipes[1], &id, sizeof(id)) == sizeof(id))
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &id, sizeof(id)), sizeof(id));
	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), 0);
	assert_int_equal(log_is_alive(r), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(log_is_alive(r), 0);
	assert_int_equal(log_read(r, 0, false, count, &n, &result), 0);
	assert_int_equal(n, 1000);
	log_reader_close(r);
	close(pipes[0]);
	close(pipes[1]);
}

/* Room for another frame, or one that was damaged, is not one. */
static int count_some(void *ctx, const struct log_frame *frame)
{
	(void)frame;
	++*(unsigned *)ctx;
	return 0;
}

static void test_another_recorder_goes_on(void **state)
{
	const struct folder *f = *state;
	struct log_options options = { .end_bytes = 100, .segment_bytes = 400 };
	struct log_read_result read;
	struct log_reader *r;
	struct log_writer *w;
	struct log_id id, other;
	unsigned n = 0;

	w = create(f, 400, &id);
	append(w, 0, 50, 0);
	assert_int_equal(log_continue(&f->fs, &id, &options, NULL), -EBUSY);
	log_writer_free(w); /* as if it had been killed */
	assert_int_equal(log_id_make(&other), 0);
	assert_int_equal(log_continue(&f->fs, &other, &options, NULL), -ENOENT);

	assert_int_equal(log_continue(&f->fs, &id, &options, NULL), 0);
	assert_int_equal(options.origin.uid, 1000);
	assert_int_equal(options.first_seq, 50);
	assert_int_equal(log_create(&f->fs, &options, &w, NULL), 0);
	assert_true(log_wants_key(w));
	assert_int_equal(log_append(w, 3, 0, &n, sizeof(n), NULL), -EINVAL);
	append(w, 50, 90, 0);
	assert_int_equal(log_end(w, "over", 4, NULL), 0);
	log_writer_free(w);

	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), 0);
	assert_int_equal(log_read(r, 0, false, count, &n, &read), 0);
	assert_int_equal(n, 90);
	assert_int_equal(read.lost_bytes, 0);
	assert_int_equal(log_read_end(r, false, NULL, NULL), 1);
	log_reader_close(r);
}

/* ---- copies ---- */

struct copying {
	struct folder *to;
	struct log_options options;
	struct log_writer *writer;
	uint64_t stop, skip_from, skip_to; /* offsets */
};

/* As a daemon does: bytes over a wire, and a new segment where some are missing. */
static int copy_frame(void *ctx, const struct log_frame *frame)
{
	CLEANUP(buf_release) struct buf wire = BUF_INIT, text = BUF_INIT, again = BUF_INIT;
	struct copying *c = ctx;
	struct log_frame got;

	if (frame->offset >= c->stop)
		return 1;
	if (frame->offset >= c->skip_from && frame->offset < c->skip_to)
		return 0;
	log_frame_write(frame, &wire);
	buf_add_base64(&text, wire.data, wire.len);
	assert_int_equal(buf_add_unbase64(&again, text.data), 0);
	assert_int_equal(log_frame_read(again.data, again.len, &got), 0);
	assert_int_equal(got.next, frame->next - frame->offset);
	got.next += frame->offset;
	got.offset = frame->offset;
	if (c->writer && log_appended(c->writer) != got.offset)
		c->writer = log_writer_free(c->writer);
	if (!c->writer && !(got.flags & LOG_KEY))
		return 0;
	if (!c->writer) {
		c->options.first_offset = got.offset;
		c->options.first_seq = got.seq;
		assert_int_equal(log_create(&c->to->fs, &c->options, &c->writer, NULL), 0);
		c->options.first_index++;
	}
	assert_int_equal(log_append_frame(c->writer, &got, NULL), 0);
	got.offset += 1;
	assert_int_equal(log_append_frame(c->writer, &got, NULL), -EINVAL);
	return 0;
}

static int make_log_to_copy(struct folder *f, struct log_id *ret)
{
	struct log_writer *w = create(f, 400, ret);

	append(w, 0, 90, 0);
	assert_int_equal(log_end(w, "over", 4, NULL), 0);
	log_writer_free(w);
	return 0;
}

static void copy(struct folder *f, const struct log_id *id, uint64_t from, struct copying *c)
{
	struct log_read_result read;
	struct log_reader *r;

	assert_int_equal(log_reader_open(&f->fs, id, &r, NULL), 0);
	log_read(r, from, false, copy_frame, c, &read);
	log_reader_close(r);
	c->writer = log_writer_free(c->writer);
}

/* Stops in the middle, goes on from the last key, and has all that the log has at the same place.
 */
static void test_a_copy_has_the_same_frames(void **state)
{
	struct folder *f = *state, other = *f;
	struct copying c = {
		.to = &other, .options = { .end_bytes = 100 }, .stop = 1000, .skip_from = UINT64_MAX
	};
	struct log_read_result read;
	struct log_memory *memory = log_memory_new();
	struct log_reader *r;
	struct log_id id;
	unsigned n = 0;

	make_log_to_copy(f, &id);
	c.options.origin = (struct log_origin){ .id = id,
						.uid = 4001,
						.runner_pid = 7,
						.runner_start_ticks = 8,
						.pid_ns = 9,
						.is_copy = true };
	other.fs = log_fs_memory(memory);
	copy(f, &id, 0, &c);
	assert_int_equal(log_continue(&other.fs, &id, &c.options, NULL), 0);
	assert_true(c.options.origin.is_copy);
	assert_int_equal(c.options.origin.uid, 4001);
	assert_int_equal(c.options.origin.runner_pid, 7);
	assert_int_equal(c.options.origin.runner_start_ticks, 8);
	assert_int_equal(c.options.origin.pid_ns, 9);
	assert_true(c.options.first_offset >= 1000 && c.options.key_offset < 1000);
	c.stop = UINT64_MAX;
	copy(f, &id, c.options.key_offset, &c);
	assert_int_equal(log_reader_open(&other.fs, &id, &r, NULL), 0);
	assert_int_equal(log_read(r, 0, false, count, &n, &read), 0);
	assert_int_equal(n, 90);
	assert_int_equal(read.lost_bytes, 0);
	assert_int_equal(log_read_end(r, false, NULL, NULL), 0);
	log_reader_close(r);
	assert_int_equal(log_continue(&f->fs, &id, &c.options, NULL), -EEXIST);
	log_memory_free(memory);
}

/* What was removed before it could be sent is missing, and the rest is read. */
static void test_a_copy_with_a_gap(void **state)
{
	struct folder *f = *state, other = *f;
	struct copying c = { .to = &other,
			     .options = { .end_bytes = 100 },
			     .stop = UINT64_MAX,
			     .skip_from = 280,
			     .skip_to = 500 };
	struct log_read_result read;
	struct log_memory *memory = log_memory_new();
	struct log_reader *r;
	struct log_id id;
	unsigned n = 0;

	make_log_to_copy(f, &id);
	c.options.origin.id = id;
	other.fs = log_fs_memory(memory);
	copy(f, &id, 0, &c);
	assert_int_equal(log_reader_open(&other.fs, &id, &r, NULL), 0);
	assert_int_equal(log_read(r, 0, false, count_any, &n, &read), 0);
	assert_true(n >= 60 && n < 90);
	assert_true(read.lost_bytes >= 220);
	assert_int_equal(read.next, 90 * 28);
	log_reader_close(r);
	log_memory_free(memory);
}

static void test_a_bad_frame_costs_one_frame(void **state)
{
	struct folder *f = *state;
	char text[LOG_ID_TEXT_BYTES], path[200];
	struct log_read_result result;
	struct log_reader *r;
	struct log_writer *w;
	struct log_id id;
	unsigned n = 0;
	int fd;

	w = create(f, 0, &id);
	append(w, 0, 100, 0);
	log_writer_free(w);
	log_id_format(&id, text);
	snprintf(path, sizeof(path), "%s/%s.0", f->path, text);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	/* Frames of 28 bytes behind a header of 128 and a slot of 24 + 8 + 100. */
	assert_int_equal(pwrite(fd, "X", 1, 128 + 132 + 28 * 40 + 26), 1);
	close(fd);
	assert_int_equal(log_reader_open(&f->fs, &id, &r, NULL), 0);
	assert_int_equal(log_read(r, 0, true, count_some, &n, &result), 0);
	assert_int_equal(n, 40);
	assert_true(result.is_waiting);
	n = 0;
	assert_int_equal(log_read(r, 0, false, count_some, &n, &result), 0);
	assert_int_equal(n, 99);
	assert_int_equal(result.lost_bytes, 28);
	log_reader_close(r);
}

static void test_the_end_has_its_limits(void **state)
{
	struct folder *f = *state;
	struct log_writer *w;
	char bytes[200] = { 0 };
	struct log_id id;

	w = create(f, 0, &id);
	assert_int_equal(log_append(w, 1, 0, "", 0, NULL), -EINVAL);
	append(w, 0, 1, 0);
	assert_int_equal(log_end(w, bytes, 101, NULL), -EMSGSIZE);
	assert_int_equal(log_end(w, bytes, 100, NULL), 0);
	log_writer_free(w);
}

#define TAKERS 8
#define TAKEN 50

static void test_numbers_never_repeat(void **state)
{
	struct folder *f = *state;
	bool seen[TAKERS * TAKEN + 2] = { false };
	int pipes[2], n;

	assert_int_equal(pipe(pipes), 0);
	for (int i = 0; i < TAKERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid > 0)
			continue;
		for (int j = 0; j < TAKEN; j++)
			if (log_take_number(f->fd, "a/job", 0, &n, NULL) < 0 ||
			    write(pipes[1], &n, sizeof(n)) != sizeof(n))
				_exit(1);
		_exit(0);
	}
	for (int i = 0; i < TAKERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < TAKERS * TAKEN; i++) {
		assert_int_equal(read(pipes[0], &n, sizeof(n)), sizeof(n));
		assert_true(n >= 1 && n <= TAKERS * TAKEN);
		assert_false(seen[n]);
		seen[n] = true;
	}
	assert_int_equal(log_take_number(f->fd, "a/job", 0, &n, NULL), 0);
	assert_int_equal(n, TAKERS * TAKEN + 1);
	assert_int_equal(log_take_number(f->fd, "..", 0, &n, NULL), -EINVAL);
	assert_int_equal(log_take_number(f->fd, "a%b", 0, &n, NULL), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_frames_come_back_in_order_over_segments),
		CASE(test_what_is_stored_may_go_and_the_rest_is_read),
		CASE(test_kill_leaves_all_that_was_appended),
		CASE(test_another_recorder_goes_on),
		CASE(test_a_copy_has_the_same_frames),
		CASE(test_a_copy_with_a_gap),
		CASE(test_a_bad_frame_costs_one_frame),
		CASE(test_the_end_has_its_limits),
		CASE(test_numbers_never_repeat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

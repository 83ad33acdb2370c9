/*
 * Files of every kind give the same records; damage costs no more than what is damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "crossrank/reading/reading.h"

#define N 50

static char folder[96];

/* ---- records ---- */

static void add_record(struct buf *out, int i)
{
	buf_printf(
		out,
		"{\"schema_version\":2,\"timestamp_ns\":%d,\"event_type\":\"sample\","
		"\"collector\":\"c\",\"sampling_interval_ms\":100,\"pid\":7,\"host\":\"n, \\\"0\\\"\","
		"\"job_id\":null,\"rank\":%d,\"local_rank\":0,\"world_size\":4,\"device_id\":0,"
		"\"allocator_allocated_bytes\":1,\"allocator_reserved_bytes\":2,"
		"\"allocator_active_bytes\":null,\"allocator_inactive_bytes\":null,"
		"\"allocator_change_bytes\":-3,\"device_used_bytes\":%d,\"device_free_bytes\":null,"
		"\"device_total_bytes\":null,\"context\":null,\"metadata\":{\"a\":[1,\"]\"]}}",
		1000 + i, i % 4, 100 * i);
}

static void add_lines(struct buf *out, int n)
{
	for (int i = 0; i < n; i++) {
		add_record(out, i);
		buf_add_str(out, i % 7 == 3 ? "\n\n" : "\n");
	}
}

static void add_array(struct buf *out, const char *before, const char *behind)
{
	buf_add_str(out, before);
	for (int i = 0; i < N; i++) {
		buf_add_str(out, i > 0 ? " ,\n" : "");
		add_record(out, i);
	}
	buf_add_str(out, behind);
}

/* ---- reading ---- */

static struct buf told; /* the last fault, in words */

struct seen {
	int n_faults, n_cut;
	struct fault last;
};

static int note_fault(void *ctx, const struct fault *fault)
{
	struct seen *seen = ctx;

	seen->n_faults++;
	seen->n_cut += fault->is_cut;
	seen->last = *fault;
	seen->last.file = NULL;
	seen->last.field.s = NULL;
	buf_reset(&told);
	fault_add_text(&told, fault);
	return buf_error(&told);
}

static struct telemetry *read_path(const char *path, struct seen *seen)
{
	struct telemetry *t = telemetry_new();
	struct err err = ERR_INIT;
	struct intake in;

	*seen = (struct seen){ 0 };
	assert_non_null(t);
	intake_init(&in, t, note_fault, seen);
	if (intake_read(&in, path, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(in.n_valid, t->n_events);
	assert_int_equal(in.n_invalid + in.n_cut, seen->n_faults);
	intake_release(&in);
	return t;
}

static struct telemetry *read_bytes(const char *name, const void *bytes, size_t n,
				    struct seen *seen)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, bytes, n), 0);
	close(fd);
	return read_path(path, seen);
}

static void check_samples(const struct telemetry *t, int n)
{
	int found = 0;

	assert_int_equal(t->n_samples, n);
	for (size_t i = 0; i < t->n_streams; i++)
		for (size_t k = 0; k < t->streams[i].n; k++) {
			const struct sample *s = &t->streams[i].samples[k];

			assert_int_equal(s->used_bytes, (s->timestamp_ns - 1000) * 100);
			assert_int_equal(t->streams[i].rank, (s->timestamp_ns - 1000) % 4);
			assert_int_equal(s->change_bytes, -3);
			found++;
		}
	assert_int_equal(found, n);
}

static void check_whole(const char *name, const struct buf *text)
{
	struct seen seen;
	struct telemetry *t = read_bytes(name, text->data, text->len, &seen);

	if (seen.n_faults > 0)
		fail_msg("%s:%d: %s", name, (int)seen.last.line, reason_name(seen.last.reason));
	check_samples(t, N);
	telemetry_free(t);
}

static void test_json(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, array = BUF_INIT, spread = BUF_INIT;
	CLEANUP(buf_release) struct buf events = BUF_INIT, one_line = BUF_INIT;

	(void)state;
	add_lines(&lines, N);
	check_whole("a.jsonl", &lines);
	check_whole("a.json", &lines);
	check_whole("a", &lines);
	buf_truncate(&lines, lines.len - 1);
	check_whole("no_newline.jsonl", &lines);
	add_array(&array, "\n [", "]\n");
	check_whole("array.json", &array);
	add_array(&events, "{\"note\": \"events [\", \"n\": {\"events\": [1]},\n\"events\" : [",
		  "], \"z\": 1}");
	check_whole("events.json", &events);
	add_array(&one_line, "{\"events\":[", "]}\n");
	check_whole("one_line", &one_line);
	add_array(&spread, "{\n \"events\": [\n", "\n ]\n}\n");
	check_whole("spread.json", &spread);
}

/* A NUL is a byte like others: the line that it begins is no element. */
static void test_nul_between_elements(void **state)
{
	static const char text[] = "[\n{\"a\":}\n\0\n]\n";
	struct seen seen;

	(void)state;
	telemetry_free(read_bytes("nul.json", text, sizeof(text) - 1, &seen));
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.last.reason, REASON_BAD_JSON);
}

static void check_marked(const char *name, const struct buf *text)
{
	CLEANUP(buf_release) struct buf marked = BUF_INIT;

	buf_add_str(&marked, "\xef\xbb\xbf");
	buf_add(&marked, text->data, text->len);
	check_whole(name, &marked);
}

static void test_byte_order_mark(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, array = BUF_INIT, events = BUF_INIT;

	(void)state;
	add_lines(&lines, N);
	check_marked("marked.jsonl", &lines);
	check_marked("marked", &lines);
	add_array(&array, "[", "]");
	check_marked("marked.json", &array);
	add_array(&events, "{\"events\": [", "]}");
	check_marked("marked_events.json", &events);
}

static void test_one_spread_record(void **state)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	buf_add_str(&text, "{\n  ");
	add_record(&text, 0);
	text.data[4] = ' '; /* the brace of the record itself */
	t = read_bytes("one.json", text.data, text.len, &seen);
	assert_int_equal(seen.n_faults, 0);
	check_samples(t, 1);
	telemetry_free(t);
}

/* ---- CSV ---- */

static void test_csv(void **state)
{
	static const char text[] =
		"\xef\xbb\xbftimestamp_ns,schema_version,event_type,collector,sampling_interval_ms,pid,"
		"host,rank,world_size,device_id,allocator_allocated_bytes,allocator_reserved_bytes,"
		"allocator_active_bytes,allocator_inactive_bytes,allocator_change_bytes,"
		"device_used_bytes,device_free_bytes,device_total_bytes,context,metadata\r\n"
		"1001,2,sample,c,100,7,\"a \"\"b\"\",\nc\",1,4,0,1,2,,,-3,100,,500.0,,\r\n"
		"1002,2,sample,c,100,7,h,2,4,0,1,2,,,-3,200,,,,\"{\"\"a\"\": 1}\"\r\n"
		"1003,2,sample,c,100,7,h,x,4,0,1,2,,,-3,300,,,,\r\n"
		"1004,2,sample\r\n"
		"1005,2,sample,c,100,7,h,1,4,0,1,2,,,-3,500,,,,{}\r\n"
		"1006,2,sample,c,100,7,h,1,4,0,1,2,,,-3,500,,,,";
	struct telemetry *t;
	struct seen seen;

	(void)state;
	t = read_bytes("a.csv", text, sizeof(text) - 1, &seen);
	check_samples(t, 3);
	assert_int_equal(seen.n_faults, 3);
	assert_int_equal(seen.last.reason, REASON_CUT_CSV);
	assert_int_equal(seen.n_cut, 1);
	assert_int_equal(seen.last.line, 8); /* a row before it has two lines */
	telemetry_free(t);
	t = read_bytes("no_name", text + 3, sizeof(text) - 4, &seen);
	check_samples(t, 3);
	telemetry_free(t);
}

/* A last row without its line end counts where no part of its last cell can be missing. */
static void test_csv_last_row(void **state)
{
	static const struct {
		const char *heading, *rows;
		bool is_whole;
	} cases[] = {
		{ "timestamp_ns,rank,device_used_bytes", "1,0,5\n2,0,6", false },
		{ "timestamp_ns,rank,device_used_bytes", "1,0,5\r\n2,0,6\r", true },
		{ "timestamp_ns,rank,device_used_bytes", "1,0,\"5\"\n\"2\",\"0\",\"6\"", true },
		{ "timestamp_ns,rank,device_used_bytes", "1,0,5\n2,0,\"6", false },
		{ "timestamp_ns,device_used_bytes,rank", "1,5,0\n2,6,", false },
		{ "timestamp_ns,device_used_bytes,host", "1,5,h\n2,6,\"a\"\"b\"", true },
		{ "timestamp_ns,device_used_bytes,host", "1,5,h\n2,6,\"a\"\"", false },
		{ "timestamp_ns,device_used_bytes,host", "1,5,h\n\"2\",6,a", false },
		{ "timestamp_ns,device_used_bytes,metadata", "1,5,{}\n2,6,{}", true },
		{ "timestamp_ns,device_used_bytes,metadata", "1,5,{}\n2,6,\"{\"\"a\"\":1}\"",
		  true },
		{ "timestamp_ns,device_used_bytes,metadata", "1,5,{}\n2,6,\"{\"", false },
	};
	struct seen seen;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		struct telemetry *t;

		buf_printf(&text, "%s\n%s", cases[i].heading, cases[i].rows);
		t = read_bytes("a.csv", text.data, text.len, &seen);
		assert_int_equal(t->n_samples, 1 + cases[i].is_whole);
		assert_int_equal(seen.n_faults, !cases[i].is_whole);
		assert_int_equal(seen.n_cut, !cases[i].is_whole);
		telemetry_free(t);
	}
}

/* A heading that no telemetry has is one fault, however many rows there are. */
static void test_csv_heading(void **state)
{
	static const char text[] = "a,b\n1,2\n3,4\n", none[] = "a,b\n";
	struct seen seen;

	(void)state;
	telemetry_free(read_bytes("a.csv", text, sizeof(text) - 1, &seen));
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.last.reason, REASON_BAD_HEADING);
	assert_int_equal(seen.last.line, 1);
	assert_false(seen.last.is_cut);
	telemetry_free(read_bytes("a.csv", none, sizeof(none) - 1, &seen));
	assert_int_equal(seen.n_faults, 1);
}

static void check_heading(const char *name, const char *text, size_t n, enum reason reason,
			  const char *field)
{
	struct seen seen;

	telemetry_free(read_bytes(name, text, n, &seen));
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.last.reason, reason);
	assert_int_equal(seen.last.line, 1);
	assert_non_null(strstr(told.data, field));
}

static void test_csv_bad_headings(void **state)
{
	static const char tabs[] = "timestamp_ns\trank\n1\t0\n2\t0\n";
	static const char semicolons[] = "timestamp_ns;rank\n1;0\n2;0\n";
	static const char no_pid[] =
		"timestamp_ns,schema_version,event_type,collector,sampling_interval_ms\n"
		"1,2,sample,c,100\n2,2,sample,c,100\n";
	CLEANUP(buf_release) struct buf one_line = BUF_INIT;

	(void)state;
	check_heading("a.tsv", tabs, sizeof(tabs) - 1, REASON_BAD_HEADING, ": timestamp_ns");
	check_heading("a", semicolons, sizeof(semicolons) - 1, REASON_BAD_HEADING,
		      ": timestamp_ns");
	check_heading("a.csv", no_pid, sizeof(no_pid) - 1, REASON_BAD_HEADING, ": pid");
	buf_add_str(&one_line, "timestamp_ns,rank");
	for (int i = 0; i < 5000; i++)
		buf_printf(&one_line, "\r%d,0", i);
	check_heading("a.csv", one_line.data, one_line.len, REASON_TOO_LONG, "too_long");
}

/* A row without a version is an older record, also where others could have one. */
static void test_csv_empty_versions(void **state)
{
	static const char rows[] = "schema_version,timestamp_ns,rank,device_used_bytes\n\n"
				   ",1000000000,0,5\n,2000000000,0,6\n";
	struct telemetry *t;
	struct seen seen;

	(void)state;
	t = read_bytes("older.csv", rows, sizeof(rows) - 1, &seen);
	assert_int_equal(seen.n_faults, 0);
	assert_int_equal(t->n_samples, 2);
	telemetry_free(t);
}

/* ---- compressed ---- */

static void add_gzip(struct buf *out, const char *bytes, size_t n)
{
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(buf_reserve(out, deflateBound(&z, n)), 0);
	z.next_in = (Bytef *)(uintptr_t)bytes;
	z.avail_in = (uInt)n;
	z.next_out = (Bytef *)out->data + out->len;
	z.avail_out = (uInt)(out->cap - out->len - 1);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	out->len += z.total_out;
	deflateEnd(&z);
}

static void add_zstd(struct buf *out, const char *bytes, size_t n)
{
	size_t got;

	assert_int_equal(buf_reserve(out, ZSTD_compressBound(n)), 0);
	got = ZSTD_compress(out->data + out->len, out->cap - out->len, bytes, n, 3);
	assert_false(ZSTD_isError(got));
	out->len += got;
}

/* With a window of so many bits, as "zstd --long=BITS" says; no memory of that size is needed. */
static void add_long_zstd(struct buf *out, const char *bytes, size_t n, int window_log)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer from = { bytes, n, 0 };
	ZSTD_outBuffer to;

	assert_non_null(c);
	assert_int_equal(buf_reserve(out, ZSTD_compressBound(n) + 64), 0);
	to = (ZSTD_outBuffer){ out->data, out->cap, 0 };
	/* Where the size is not known beforehand the sixth byte has the window. */
	assert_false(ZSTD_isError(ZSTD_compressStream2(c, &to, &from, ZSTD_e_continue)));
	assert_int_equal(ZSTD_compressStream2(c, &to, &from, ZSTD_e_end), 0);
	out->len = to.pos;
	out->data[5] = (char)((window_log - 10) << 3);
	ZSTD_freeCCtx(c);
}

static void test_windows_of_zstd(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT, large = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	add_lines(&lines, N);
	add_long_zstd(&packed, lines.data, lines.len, 27);
	check_whole("l.jsonl.zst", &packed);
	add_long_zstd(&large, lines.data, lines.len, 28);
	t = read_bytes("h.jsonl.zst", large.data, large.len, &seen);
	assert_int_equal(seen.last.reason, REASON_LARGE_WINDOW);
	assert_false(seen.last.is_cut);
	assert_non_null(strstr(told.data, "zstd -d --long=31"));
	assert_int_equal(t->n_samples, 0);
	telemetry_free(t);
}

static void check_compressed(const char *name, void (*add)(struct buf *, const char *, size_t))
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT;
	struct telemetry *t;
	struct seen seen;
	size_t half, first;

	add_lines(&lines, N);
	half = lines.len / 2;
	/* In two members, the second beginning in the middle of a line. */
	add(&packed, lines.data, half);
	first = packed.len;
	add(&packed, lines.data + half, lines.len - half);
	check_whole(name, &packed);
	/* Cut: what came before is there. */
	t = read_bytes(name, packed.data, packed.len - 5, &seen);
	assert_true(seen.n_cut > 0);
	assert_int_equal(seen.last.reason, REASON_BAD_COMPRESSION);
	assert_non_null(strstr(told.data, "compressed data end (bad_compression): the file"));
	assert_true(t->n_samples >= N / 2 - 1);
	telemetry_free(t);
	/* Damaged in its second part: the same. */
	memset(packed.data + first + 30, 0xff, 20);
	t = read_bytes(name, packed.data, packed.len, &seen);
	assert_int_equal(seen.last.reason, REASON_BAD_COMPRESSION);
	assert_false(seen.last.is_cut);
	assert_true(t->n_samples >= N / 2 - 1);
	telemetry_free(t);
	/* In its first. */
	memset(packed.data + 30, 0xff, 20);
	t = read_bytes(name, packed.data, packed.len, &seen);
	assert_int_equal(seen.last.reason, REASON_BAD_COMPRESSION);
	assert_false(seen.last.is_cut);
	telemetry_free(t);
}

/* What stands behind compressed data costs nothing of them, and is told. */
static void check_garbage_behind(const char *name, void (*add)(struct buf *, const char *, size_t))
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	add_lines(&lines, N);
	add(&packed, lines.data, lines.len);
	buf_add_str(&packed, "garbage behind it\n");
	t = read_bytes(name, packed.data, packed.len, &seen);
	check_samples(t, N);
	telemetry_free(t);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.n_cut, 0);
	assert_int_equal(seen.last.reason, REASON_BAD_COMPRESSION);
}

/* One bit in the magic number of the second part: it is lost, and nothing was cut off. */
static void check_bad_magic(const char *name, void (*add)(struct buf *, const char *, size_t))
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT;
	struct telemetry *t;
	struct seen seen;
	size_t first;

	add_lines(&lines, N);
	add(&packed, lines.data, lines.len);
	first = packed.len;
	add(&packed, lines.data, lines.len);
	packed.data[first] ^= 1;
	t = read_bytes(name, packed.data, packed.len, &seen);
	check_samples(t, N);
	telemetry_free(t);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.n_cut, 0);
	assert_int_equal(seen.last.reason, REASON_BAD_COMPRESSION);
}

static void test_bad_magic(void **state)
{
	(void)state;
	check_bad_magic("m.jsonl.gz", add_gzip);
	check_bad_magic("m.jsonl.zst", add_zstd);
}

/* As parallel compressors do: a frame to be skipped has the size of the next. */
static void test_skipped_frames(void **state)
{
	static const char skipped[] = "\x50\x2a\x4d\x18\x04\x00\x00\x00size";
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT;
	size_t half;

	(void)state;
	add_lines(&lines, N);
	half = lines.len / 2;
	buf_add(&packed, skipped, sizeof(skipped) - 1);
	add_zstd(&packed, lines.data, half);
	buf_add(&packed, skipped, sizeof(skipped) - 1);
	add_zstd(&packed, lines.data + half, lines.len - half);
	check_whole("p.jsonl.zst", &packed);
}

static void check_zeros_behind(const char *name, void (*add)(struct buf *, const char *, size_t))
{
	static const char zeros[5000];
	CLEANUP(buf_release) struct buf lines = BUF_INIT, packed = BUF_INIT;

	add_lines(&lines, N);
	add(&packed, lines.data, lines.len);
	buf_add(&packed, zeros, sizeof(zeros));
	check_whole(name, &packed);
}

static void test_zeros_behind(void **state)
{
	(void)state;
	check_zeros_behind("z.jsonl.gz", add_gzip);
	check_zeros_behind("z.jsonl.zst", add_zstd);
}

static void test_garbage_behind(void **state)
{
	(void)state;
	check_garbage_behind("b.jsonl.gz", add_gzip);
	check_garbage_behind("b.jsonl.zst", add_zstd);
}

static void test_compressed(void **state)
{
	(void)state;
	check_compressed("a.jsonl.gz", add_gzip);
	check_compressed("a.jsonl.zst", add_zstd);
	check_compressed("gzip_without_name", add_gzip);
}

/* ---- damage ---- */

static void test_cut_lines(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	add_lines(&lines, N);
	t = read_bytes("cut.jsonl", lines.data, lines.len - 20, &seen);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.n_cut, 1);
	assert_int_equal(seen.last.reason, REASON_BAD_JSON);
	assert_int_equal(seen.last.line, N + N / 7);
	check_samples(t, N - 1);
	telemetry_free(t);
}

static void test_cut_array(void **state)
{
	CLEANUP(buf_release) struct buf array = BUF_INIT, more = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	add_array(&array, "[", "]");
	t = read_bytes("cut.json", array.data, array.len - 20, &seen);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.n_cut, 1);
	check_samples(t, N - 1);
	telemetry_free(t);
	/* Whole elements, and no bracket behind them. */
	t = read_bytes("cut.json", array.data, array.len - 1, &seen);
	assert_int_equal(seen.n_faults, 1);
	check_samples(t, N);
	telemetry_free(t);
	add_array(&more, "[", "] x");
	t = read_bytes("more.json", more.data, more.len, &seen);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.last.line, N);
	check_samples(t, N);
	telemetry_free(t);
}

/* Takes the first `what` behind record k out of a text with a record in each line. */
static void break_line(struct buf *text, int k, const char *what, const char *by)
{
	char *at = text->data, *behind;
	size_t n = strlen(what), m = strlen(by);

	for (int i = 0; i < k; i++)
		at = strchr(at, '\n') + 1;
	at = strstr(at, what);
	assert_non_null(at);
	assert_true(m <= n);
	behind = at + n;
	memcpy(at, by, m);
	memmove(at + m, behind, strlen(behind) + 1);
	text->len -= n - m;
}

static void expect_one_lost(const char *name, const struct buf *text, uint64_t line)
{
	struct seen seen;
	struct telemetry *t = read_bytes(name, text->data, text->len, &seen);

	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.n_cut, 0);
	assert_int_equal(seen.last.line, line);
	assert_int_equal(t->n_events, N - 1);
	telemetry_free(t);
}

/* One that swallows all that follow costs no more than itself. */
static void test_broken_element(void **state)
{
	static const struct {
		const char *what, *by;
	} faults[] = {
		{ "\"collector\":\"c\"", "\"collector\":\"c" },
		{ "]\"]}}", "]\"]}" },
		{ "{\"a\":[1,", "{\"a\":1," },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		CLEANUP(buf_release) struct buf array = BUF_INIT;

		add_array(&array, "[", "]");
		break_line(&array, 7, faults[i].what, faults[i].by);
		expect_one_lost("broken.json", &array, 8);
		buf_reset(&array);
		add_array(&array, "{\"events\":[", "]}");
		break_line(&array, 7, faults[i].what, faults[i].by);
		expect_one_lost("broken.json", &array, 8);
	}
}

static void test_bad_lines(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	buf_add_str(&lines, "{\n[]\n5\n");
	add_lines(&lines, N);
	buf_add_str(&lines, "\xff\n{}\n");
	t = read_bytes("bad.jsonl", lines.data, lines.len, &seen);
	assert_int_equal(seen.n_faults, 5);
	assert_int_equal(seen.n_cut, 0);
	assert_int_equal(seen.last.reason, REASON_LEGACY_NO_TIMESTAMP);
	check_samples(t, N);
	telemetry_free(t);
}

/* One record with from replaced by to: what is told of it. */
static void check_told(const char *from, const char *to, const char *want)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT, changed = BUF_INIT;
	const char *at;
	struct seen seen;

	add_record(&line, 1);
	at = strstr(line.data, from);
	assert_non_null(at);
	buf_add(&changed, line.data, (size_t)(at - line.data));
	buf_printf(&changed, "%s%s\n", to, at + strlen(from));
	telemetry_free(read_bytes("told.jsonl", changed.data, changed.len, &seen));
	assert_int_equal(seen.n_faults, 1);
	if (!strstr(told.data, want))
		fail_msg("'%s' has no '%s'", told.data, want);
}

static void test_the_field_is_told(void **state)
{
	(void)state;
	check_told("\"pid\":7,", "",
		   "':1: lacks a field that every record has: pid (missing_field)");
	check_told("\"pid\":7", "\"pid\":\"7\"", "wrong type: pid (wrong_type)");
	check_told("\"pid\":7", "\"p\\u0007d\":1,\"pid\":7", "has: p?d (unknown_field)");
	check_told("\"pid\":7", "\"pid\":-2", "range: pid (out_of_range)");
	check_told("\"pid\":7", "\"pid\":99999999999999999999", "range: pid (out_of_range)");
	check_told("\"rank\":1", "\"rank\":-1", "below 0: rank (negative_rank)");
	check_told("\"rank\":1", "\"rank\":4", "below world_size: rank (rank_not");
	check_told("\"device_total_bytes\":null", "\"device_total_bytes\":1",
		   "device_total_bytes: device_used_bytes (exceeds_total)");
	check_told("\"collector\":\"c\"", "\"collector\":\" \"", ": collector (blank_string)");
	check_told("\"schema_version\":2", "\"schema_version\":3", ": schema_version (bad_schema");
	check_told("\"metadata\":{\"a\":[1,\"]\"]}", "\"metadata\":[]", ": metadata (metadata_not");
	check_told("\"metadata\"", "\"session_id\":7,\"metadata\"", ": session_id (wrong_type)");
}

/* Longer than a record may be: passed over without being kept. */
static void test_long_line(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT, one = BUF_INIT;
	struct telemetry *t;
	struct seen seen;

	(void)state;
	add_lines(&lines, 2);
	for (int i = 0; i < 36 << 10; i++)
		buf_printf(&lines, "%1024d", 0);
	buf_add_char(&lines, '\n');
	add_record(&one, 2);
	buf_add_str(&lines, one.data);
	t = read_bytes("long.jsonl", lines.data, lines.len, &seen);
	assert_int_equal(seen.n_faults, 1);
	assert_int_equal(seen.last.reason, REASON_TOO_LONG);
	assert_int_equal(seen.last.line, 3);
	check_samples(t, 3);
	telemetry_free(t);
}

/* ---- folders, many files, nothing ---- */

static void test_folder(void **state)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	char home[sizeof(folder)];
	struct telemetry *t;
	struct seen seen;

	(void)state;
	snprintf(home, sizeof(home), "%s", folder);
	snprintf(folder, sizeof(folder), "%.64s/many", home);
	assert_int_equal(mkdir(folder, 0700), 0);
	for (int i = 0; i < 1200; i++) {
		CLEANUP(buf_release) struct buf line = BUF_INIT;
		char name[32];

		add_record(&line, i);
		snprintf(name, sizeof(name), "r%04d.jsonl", i);
		telemetry_free(read_bytes(name, line.data, line.len, &seen));
	}
	telemetry_free(read_bytes("notes.txt", "not telemetry", 13, &seen));
	t = read_path(folder, &seen);
	assert_int_equal(seen.n_faults, 0);
	check_samples(t, 1200);
	telemetry_free(t);
	snprintf(folder, sizeof(folder), "%s", home);
}

/* Nothing is left out without a word. */
static void test_too_many_folders(void **state)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	struct err err = ERR_INIT;
	struct intake in;

	(void)state;
	buf_printf(&path, "%s/deep", folder);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(mkdir(path.data, 0700), 0);
		buf_add_str(&path, "/x");
	}
	intake_init(&in, NULL, NULL, NULL);
	buf_truncate(&path, strlen(folder) + strlen("/deep"));
	assert_int_equal(intake_read(&in, path.data, &err), -ELOOP);
	assert_non_null(strstr(err.text, "/deep/x/x"));
	intake_release(&in);
}

/* After so many entries of the folder named "bad" the disk fails; negative: it does not. */
static int n_good_entries = -1;

struct dirent *readdir(DIR *dir)
{
	struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
	char link[48], path[160];
	ssize_t n;

	assert_non_null(real);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd(dir));
	n = readlink(link, path, sizeof(path));
	assert_true(n > 4);
	if (n_good_entries >= 0 && memcmp(path + n - 4, "/bad", 4) == 0 && n_good_entries-- == 0) {
		errno = EIO;
		return NULL;
	}
	return real(dir);
}

/* Files that could not be read are not left out in silence. */
static void test_a_walk_that_fails(void **state)
{
	CLEANUP(buf_release) struct buf lines = BUF_INIT;
	char home[sizeof(folder)], path[160];
	struct seen seen;

	(void)state;
	memcpy(home, folder, sizeof(home));
	snprintf(path, sizeof(path), "%s/walk", home);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(folder, sizeof(folder), "%.80s/walk", home);
	add_lines(&lines, N);
	telemetry_free(read_bytes("a.jsonl", lines.data, lines.len, &seen));
	snprintf(path, sizeof(path), "%.80s/walk/bad", home);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int i = -1; i < 2; i++) {
		struct err err = ERR_INIT;
		struct intake in;

		n_good_entries = i;
		intake_init(&in, NULL, NULL, NULL);
		assert_int_equal(intake_read(&in, folder, &err), i < 0 ? 0 : -EIO);
		assert_true(i < 0 || strstr(err.text, "cannot read the folder"));
		intake_release(&in);
	}
	n_good_entries = -1;
	memcpy(folder, home, sizeof(folder));
}

static void test_nothing(void **state)
{
	struct err err = ERR_INIT;
	struct intake in;
	struct seen seen;

	(void)state;
	telemetry_free(read_bytes("empty.jsonl", "", 0, &seen));
	assert_int_equal(seen.n_faults, 0);
	telemetry_free(read_bytes("empty.csv", "", 0, &seen));
	telemetry_free(read_bytes("empty", "\n \n", 3, &seen));
	assert_int_equal(seen.n_faults, 0);
	intake_init(&in, NULL, NULL, NULL);
	assert_int_equal(intake_read(&in, "/does/not/exist", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/does/not/exist"));
	intake_release(&in);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/proctor-intake-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_nul_between_elements),
		cmocka_unit_test(test_byte_order_mark),
		cmocka_unit_test(test_one_spread_record),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_csv_last_row),
		cmocka_unit_test(test_csv_heading),
		cmocka_unit_test(test_csv_bad_headings),
		cmocka_unit_test(test_csv_empty_versions),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_windows_of_zstd),
		cmocka_unit_test(test_garbage_behind),
		cmocka_unit_test(test_bad_magic),
		cmocka_unit_test(test_zeros_behind),
		cmocka_unit_test(test_skipped_frames),
		cmocka_unit_test(test_broken_element),
		cmocka_unit_test(test_cut_lines),
		cmocka_unit_test(test_cut_array),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_the_field_is_told),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_too_many_folders),
		cmocka_unit_test(test_a_walk_that_fails),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

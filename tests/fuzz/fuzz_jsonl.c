/*
 * Any bytes as the files of a log, the oldest first and 0xff between them. A reader gives
 * exactly what stands before each newline; a writer keeps that, drops the half line at
 * the end, and leaves alone what does not begin like a log or may be one whole document.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz_text.h"

#include "base/buf.h"
#include "base/io.h"
#include "store/jsonl/jsonl.h"

#include "jsonl_tail.h"

#define LINE "{}"
#define MAX_BYTES 64
#define N_FILES 3

static char folder[64];
static char paths[N_FILES][96]; /* oldest first */

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void remove_files(void)
{
	for (int i = 0; i < N_FILES; i++)
		unlink(paths[i]);
}

static void remove_folder(void)
{
	remove_files();
	rmdir(folder);
}

static void make_folder(void)
{
	static const char *const suffixes[N_FILES] = { ".2", ".1", "" };

	if (folder[0])
		return;
	strcpy(folder, "/tmp/proctor-fuzz-XXXXXX");
	require(mkdtemp(folder));
	atexit(remove_folder);
	for (int i = 0; i < N_FILES; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/p.jsonl%s", folder, suffixes[i]);
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
	CLEANUP(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && io_write_all(fd, data, size) == 0);
}

static size_t whole_len(const uint8_t *data, size_t size)
{
	while (size > 0 && data[size - 1] != '\n')
		size--;
	return size;
}

static void check_lines(struct jsonl_tail *tail, const uint8_t *data, size_t size)
{
	struct jsonl_line line;

	for (size_t at = 0, end = whole_len(data, size); at < end; at += line.len + 1) {
		require(jsonl_tail_next(tail, &line, NULL) == 1 && !line.is_after_loss);
		require(at + line.len < end && memcmp(line.text, data + at, line.len) == 0);
		require(data[at + line.len] == '\n' && line.text[line.len] == '\0');
	}
}

static void check_file(const char *path, const uint8_t *data, size_t size, const char *more)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	require(io_read_at(AT_FDCWD, path, size + 100, &text) == 0);
	require(text.len == size + strlen(more));
	require(memcmp(text.data, data, size) == 0 && strcmp(text.data + size, more) == 0);
}

/* A file without a whole line may be a document of another program, which ends as one of ours
 * would: the writer drops half a line only where it is not. */
static bool is_foreign(const uint8_t *data, size_t size)
{
	static const char ours[] = "{\"timestamp\":";
	size_t n = size < strlen(ours) ? size : strlen(ours);

	if (size == 0 || whole_len(data, size) > 0)
		return size > 0 && data[0] != '{';
	return data[0] != '{' || (data[size - 1] == '}' && memcmp(data, ours, n) != 0);
}

/* data is what the log holds. */
static void check_writer(struct jsonl_tail *tail, const uint8_t *data, size_t size)
{
	struct jsonl *log = jsonl_new(paths[N_FILES - 1], MAX_BYTES);
	size_t whole = whole_len(data, size);
	struct jsonl_line line;
	int r = jsonl_append(log, LINE, strlen(LINE), NULL);

	jsonl_free(log);
	if (is_foreign(data, size)) {
		require(r == -EBADMSG);
		check_file(paths[N_FILES - 1], data, size, "");
		return;
	}
	require(r == 0);
	if (whole > 0 && whole + strlen(LINE "\n") > MAX_BYTES) {
		check_file(paths[N_FILES - 2], data, whole, "");
		check_file(paths[N_FILES - 1], data, 0, LINE "\n");
	} else {
		check_file(paths[N_FILES - 1], data, whole, LINE "\n");
	}
	require(jsonl_tail_next(tail, &line, NULL) == 1);
	require(strcmp(line.text, LINE) == 0 && !line.is_after_loss);
}

struct part {
	const uint8_t *data;
	size_t size;
};

/* Returns how many files there are; the last is the log. */
static int split(const uint8_t *data, size_t size, struct part parts[N_FILES])
{
	const uint8_t *end;
	int n = 0;

	while (n < N_FILES - 1 && size > 0 && (end = memchr(data, 0xff, size))) {
		parts[n++] = (struct part){ data, (size_t)(end - data) };
		size -= (size_t)(end + 1 - data);
		data = end + 1;
	}
	parts[n++] = (struct part){ data, size };
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct part parts[N_FILES];
	int n = split(data, size, parts);
	struct jsonl_tail *tail = NULL;
	struct jsonl_line line;

	make_folder();
	remove_files();
	for (int i = 0; i < n; i++)
		write_file(paths[N_FILES - n + i], parts[i].data, parts[i].size);
	require(jsonl_tail_open(paths[N_FILES - 1], JSONL_OLDEST, &tail, NULL) == 0);
	for (int i = 0; i < n; i++)
		check_lines(tail, parts[i].data, parts[i].size);
	require(jsonl_tail_next(tail, &line, NULL) == 0);
	check_writer(tail, parts[n - 1].data, parts[n - 1].size);
	jsonl_tail_close(tail);
	return 0;
}

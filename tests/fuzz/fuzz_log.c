#include "fuzz_text.h"

#include <errno.h>

#include "log/frame.h"

/*
 * Two segments of a hostile log: the first byte says where the second begins. Headers are as they
 * should be, as nothing else would be read.
 */
struct files {
	struct {
		uint8_t header[SEGMENT_HEADER_BYTES];
		const uint8_t *data;
		size_t n;
		char name[SEGMENT_NAME_BYTES];
	} items[2];
};

static const struct log_id some_id = { { 1, 2, 3 } };

static int open_one(void *ctx, const char *name)
{
	struct files *f = ctx;

	return strcmp(name, f->items[0].name) == 0 ? 0 : 1;
}

static void close_one(void *ctx, int file)
{
	(void)ctx;
	(void)file;
}

static ssize_t read_one(void *ctx, int file, void *ret, size_t n, uint64_t at)
{
	struct files *f = ctx;
	const uint8_t *from = f->items[file].header;
	size_t len = SEGMENT_HEADER_BYTES;

	if (at >= len) {
		from = f->items[file].data;
		at -= len;
		len = f->items[file].n;
	}
	if (at >= len)
		return 0;
	if (n > len - at)
		n = len - at;
	memcpy(ret, from + at, n);
	return (ssize_t)n;
}

static int list_both(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	struct files *f = ctx;
	int r = fn(fn_ctx, f->items[0].name);

	return r != 0 ? r : fn(fn_ctx, f->items[1].name);
}

static int is_locked(void *ctx, int file)
{
	(void)ctx;
	(void)file;
	return 0;
}

struct seen {
	uint64_t next, seq;
	bool has_any;
};

static int on_frame(void *ctx, const struct log_frame *frame)
{
	struct seen *seen = ctx;

	if (seen->has_any && (frame->offset < seen->next || frame->seq <= seen->seq))
		abort();
	*seen = (struct seen){ frame->next, frame->seq, true };
	for (size_t i = 0; i < frame->n; i++)
		seen->has_any |= frame->bytes[i] == 0; /* each byte can be read */
	seen->has_any = true;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct files files = { 0 };
	const struct log_fs fs = { .ctx = &files,
				   .open = open_one,
				   .close = close_one,
				   .pread = read_one,
				   .list = list_both,
				   .is_locked = is_locked };
	struct log_read_result result;
	struct seen seen = { 0 };
	struct log_reader *r;
	size_t first;

	if (size < 2)
		return 0;
	first = (size_t)data[0] * (size - 2) / 255;
	for (uint32_t i = 0; i < 2; i++) {
		struct segment_header head = { .origin.id = some_id,
					       .index = i,
					       .end_bytes = 32,
					       .base = i == 0 ? 0 : (uint64_t)data[1] * 4 };

		segment_header_write(&head, files.items[i].header);
		segment_name_format(&some_id, i, files.items[i].name);
		files.items[i].data = data + 2 + (i == 0 ? 0 : first);
		files.items[i].n = i == 0 ? first : size - 2 - first;
	}
	if (log_reader_open(&fs, &some_id, &r, NULL) < 0)
		return 0;
	(void)log_read_end(r, false, on_frame, &seen);
	for (int alive = 0; alive < 2; alive++) {
		seen = (struct seen){ 0 };
		if (log_read(r, 0, alive, on_frame, &seen, &result) < 0)
			abort();
	}
	log_reader_close(r);
	return 0;
}

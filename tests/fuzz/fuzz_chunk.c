#include "fuzz_text.h"

#include "store/codec/codec.h"

/* Writes what was read once more, and reads that: it must be the same. */
static void read_again(const struct table *t, const uint64_t *boot_ns)
{
	static struct table again;
	struct buf out = BUF_INIT;

	table_write(&out, t, SAMPLE_WORDS, boot_ns);
	if (buf_error(&out) == 0 &&
	    table_read(out.data, out.len, CODEC_ROWS, SAMPLE_WORDS, boot_ns, &again) < 0)
		abort();
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		if (memcmp(t->columns[k], again.columns[k], t->n * sizeof(uint64_t)) != 0)
			abort();
	buf_release(&out);
}

static void read_fold(const uint8_t *data, size_t size, struct table *t)
{
	struct fold_strings strings = { 0 };
	struct fold_reader r;

	t->n = size > 0 && data[0] <= CODEC_ROWS ? data[0] : 1;
	if (fold_read_head(&r, data, size, t, &strings) == 0) {
		for (size_t i = 0; i < strings.n; i++)
			if (strings.items[i] + strlen(strings.items[i]) >=
			    (const char *)data + size)
				abort();
		while (fold_read_thing(&r, LIST_GPUS, t) > 0)
			;
		while (fold_read_thing(&r, LIST_PROGRESS, t) > 0)
			;
	}
	fold_strings_release(&strings);
}

static void read_pack(const uint8_t *data, size_t size)
{
	struct buf raw = BUF_INIT;
	int64_t ids[CODEC_ROWS], process;
	static struct table t;
	const void *item;
	size_t len;

	if (pack_read(data, size, &raw) == 0) {
		struct item_reader items = item_reader(&raw, GROUP_PROCESSES);

		while (item_read(&items, &process, &item, &len) > 0)
			if (group_of(process) != GROUP_PROCESSES)
				abort();
	}
	buf_release(&raw);
	fold_read_times(data, size, ids, &t);
}

/* As a table, as a pack, and as the head of a fold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t boot_ns[CODEC_ROWS];
	static struct table t;

	if (table_read(data, size, CODEC_ROWS, SAMPLE_WORDS, boot_ns, &t) > 0) {
		for (unsigned i = 0; i < t.n; i++)
			if (t.tick[i] >= CODEC_ROWS || (i > 0 && t.tick[i] <= t.tick[i - 1]))
				abort();
		read_again(&t, boot_ns);
	}
	read_fold(data, size, &t);
	read_pack(data, size);
	return 0;
}

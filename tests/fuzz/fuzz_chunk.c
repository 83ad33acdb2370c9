#include "fuzz_text.h"

#include "store/codec.h"

/* Writes what was read once more, and reads that: it must be the same. */
static void read_again(const struct chunk *c, const uint64_t *boot_ns)
{
	static struct chunk again;
	struct buf out = BUF_INIT;

	chunk_write(&out, c, boot_ns);
	if (buf_error(&out) == 0 &&
	    chunk_read(out.data, out.len, boot_ns, CODEC_ROWS, SAMPLE_WORDS, &again) < 0)
		abort();
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		if (memcmp(c->columns[k], again.columns[k], c->n * sizeof(uint64_t)) != 0)
			abort();
	buf_release(&out);
}

/* As a chunk, and as the head of a fold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t boot_ns[CODEC_ROWS];
	static struct chunk c;
	static struct fold_head head;

	if (chunk_read(data, size, boot_ns, CODEC_ROWS, SAMPLE_WORDS, &c) == 0) {
		for (unsigned i = 0; i < c.n; i++)
			if (c.tick[i] >= CODEC_ROWS || (i > 0 && c.tick[i] <= c.tick[i - 1]))
				abort();
		read_again(&c, boot_ns);
	}
	if (fold_head_read(data, size, &head) == 0)
		for (unsigned i = 0; i < head.n; i++)
			if (head.levels[i] &&
			    head.levels[i] + head.level_lens[i] > (const char *)data + size)
				abort();
	return 0;
}

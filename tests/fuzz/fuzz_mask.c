/*
 * Command lines of any bytes. Whatever they are, what may be shown is at most
 * COMMAND_MAX_BYTES of valid UTF-8 without control characters, and a password
 * that is put between them does not appear in it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mask.h"
#include "base/utf8.h"

#define SECRET "Qz7#hidden#7zQ"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As arguments of their own (behind one that is no "-c"), and inside a script. */
static const struct {
	const char *text;
	size_t n;
} carriers[] = {
#define CARRIER(s)               \
	{                        \
		s, sizeof(s) - 1 \
	}
	CARRIER("\0x\0--password=" SECRET "\0"),
	CARRIER("\0x\0--password=a " SECRET " b\0"),
	CARRIER("\0x\0--token\0" SECRET "\0"),
	CARRIER("\0x\0MY_API_KEY=" SECRET "\n" SECRET "\0"),
	CARRIER("\0x\0https://me:" SECRET "@host/\0"),
	CARRIER("\0x\0curl\0-su\0me:" SECRET "\0"),
	CARRIER("\0x\0Server=h;Pwd=" SECRET ";\0"),
	CARRIER("\0x\0OPENAI_KEY=" SECRET "\0"),
	CARRIER("\0x\0--dbpass\0" SECRET "\0"),
	CARRIER("\0x\0--bearer\0" SECRET "\0"),
	CARRIER("\0x\0aws\0configure\0set\0aws_secret_access_key\0" SECRET "\0"),
	CARRIER("\0sh\0-c\0PASSWORD='x " SECRET " y' cmd\0"),
	CARRIER("\0sh\0-c\0curl -H \"Authorization: Bearer " SECRET "\" url\0"),
};

static void check(const struct buf *out)
{
	for (size_t i = 0; i < out->len;) {
		size_t n = utf8_char_len(out->data + i, out->len - i);

		if (n == 0 || ascii_is_control(out->data[i]))
			abort();
		i += n;
	}
	if (out->len > COMMAND_MAX_BYTES || memmem(out->data, out->len, SECRET, strlen(SECRET)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const patterns[] = { "^pin$", "flavou?r" };
	static struct mask *mask;
	struct buf args = BUF_INIT, out = BUF_INIT;
	size_t before, i;

	if (size < 3 || memmem(data, size, SECRET, strlen(SECRET)))
		return 0;
	if (!mask && mask_new(patterns, 2, &mask, NULL) < 0)
		abort();
	i = data[0] % (sizeof(carriers) / sizeof(carriers[0]));
	before = (size_t)(data[1] | data[2] << 8) % (size - 2);
	buf_add(&args, data + 3, before);
	buf_add(&args, carriers[i].text, carriers[i].n);
	buf_add(&args, data + 3 + before, size - 3 - before);

	mask_command(mask, args.data, args.len, &out);
	check(&out);
	buf_reset(&out);
	mask_command(mask, (const char *)data, size, &out);
	check(&out);
	buf_release(&args);
	buf_release(&out);
	return 0;
}

/*
 * fuzz_text - the input as the NUL-terminated text that parsers take.
 *
 * In memory of exactly its size, so that AddressSanitizer sees one byte too many.
 */
#ifndef PROCTOR_TESTS_FUZZ_TEXT_H
#define PROCTOR_TESTS_FUZZ_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The caller frees it. Where a parser breaks its promise, a target calls abort(). */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

/*
 * {config, history, current} of any bytes: refused with a sentence that names the file, or judged,
 * with anomalies that can be told.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "cli/compat_input.h"
#include "fuzz_text.h"

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void check(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	require(anomaly_type_name(a->type) && severity_name(a->severity) && a->text[0]);
	require(memchr(a->text, '\0', sizeof(a->text)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_INIT;
	struct detect_input in;
	int r = detect_input_parse((const char *)data, size, "f", &in, &err);

	if (r < 0) {
		require(err.code == r && strncmp(err.text, "f: ", 3) == 0);
		return 0;
	}
	require(compat_detect(&in.config, in.history, in.n_history, &in.current, check, NULL) == 0);
	detect_input_release(&in);
	return 0;
}

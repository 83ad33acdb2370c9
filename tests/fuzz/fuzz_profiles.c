/*
 * Files of profiles of any bytes: each is refused with a sentence that names the file, or
 * is analysed, by both rules, into numbers that can be. Commands are made into classes.
 */
#include "fuzz_text.h"

#include <math.h>
#include <stdbool.h>

#include "cli/compat_input.h"
#include "learn/learn.h"

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void check_analysis(const struct profiles *p)
{
	struct analysis a;
	struct compat c;

	if (p->runs.n > 200)
		return; /* that it takes long is no fault */
	require(analysis_run(p->runs.items, p->runs.n, 1, &a) == 0);
	for (size_t i = 0; i < a.n; i++) {
		const struct finding *f = &a.findings[i];

		require(f->is_tested ? f->p > 0 && f->p <= 0.1 : isnan(f->p));
		require(f->effect.in.n + f->effect.out.n <= f->n_runs && f->sentence[0]);
		require(f->effect.in.interval.low >= 0 && f->effect.in.interval.high <= 1);
	}
	analysis_release(&a);
	require(compat_analyze(p->compat, p->runs.n, 1, &c) == 0);
	for (size_t i = 0; i < c.n; i++)
		require(c.results[i].confidence >= 0.5 && c.results[i].confidence <= 0.95);
	compat_release(&c);
}

static void check_class(const char *text)
{
	struct buf masked = BUF_INIT;

	class_mask_command(text, &masked);
	require(buf_error(&masked) == 0 && masked.len > 0);
	buf_release(&masked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct err err = ERR_INIT;
	struct profiles p;

	check_class(text);
	if (profiles_parse(text, size, "f", &p, &err) == 0) {
		check_analysis(&p);
		profiles_release(&p);
	} else {
		require(strncmp(err.text, "f: ", 3) == 0);
	}
	free(text);
	return 0;
}

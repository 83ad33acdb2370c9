#include "fuzz_text.h"

#include "model/record.h"

/* What is understood is written as bytes that are understood as the same. */
static void read_anomaly(struct record_reader r)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT, again = BUF_INIT;
	struct anomaly_evidence evidence;
	struct episode e;
	int change;

	if (record_read_anomaly(&r, &e, &evidence, &change) < 0)
		return;
	record_write_anomaly(&out, &e, change);
	r.p = (const uint8_t *)out.data;
	r.end = r.p + out.len;
	if (record_read_anomaly(&r, &e, &evidence, &change) < 0)
		abort();
	record_write_anomaly(&again, &e, change);
	if (again.len != out.len || memcmp(again.data, out.data, out.len) != 0)
		abort();
}

static void read_rest(const uint8_t *data, size_t size, size_t text_max, struct attempt *a)
{
	const struct record_reader all = { data, data + size, &a->arena, 0, text_max };
	struct anomaly_evidence evidence;
	struct phase_change *phases;
	struct record_reader r = all;
	const char *text;
	size_t n;

	record_read_sheets_changed(&r, a);
	r = all;
	phases = record_read_phases(&r, &n);
	for (size_t i = 0; i < n; i++)
		if (!phase_name_is_valid(phases[i].phase.name))
			abort();
	r = all;
	if (record_read_evidence(&r, &text, &evidence) == 0 && !text[0])
		abort();
	r = all;
	record_read_details(&r, a, &text);
	r = all;
	record_read_final(&r, a);
	read_anomaly(all);
}

/* Each kind of record from the same bytes, and what was understood of a beginning written again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	struct record_reader r;
	size_t n;

	attempt_init(&a);
	r = (struct record_reader){ data, data + size, &a.arena, 0, 0 };
	record_read_begin(&r, &a);
	if (r.error == 0) {
		record_write_begin(&out, &a);
		if (buf_error(&out) < 0 || out.len == 0)
			abort();
	}
	record_read_end(&r, &a);
	(void)record_read_sheets(&r, &n);
	for (enum record_list list = 0; list < N_RECORD_LISTS; list++) {
		r = (struct record_reader){ data, data + size, &a.arena, 0, 0 };
		if (!record_read_list(&r, list, &n) != !n)
			abort();
	}
	read_rest(data, size, 0, &a);
	read_rest(data, size, 10, &a);
	attempt_release(&a);
	return 0;
}

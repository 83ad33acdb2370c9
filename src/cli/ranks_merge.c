#include "cli/ranks.h"

#include <errno.h>
#include <string.h>

#include "base/csv.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/output.h"

struct options {
	struct ranks_input input;
	bool is_csv;
	const char *path;
};

static const struct argp_option option_table[] = {
	{ "csv", 'C', NULL, 0, "Print comma-separated values instead of one JSON object per line",
	  0 },
	{ "output", 'o', "FILE", 0, "Write to FILE", 0 },
	{ "skip-invalid", 'S', NULL, 0, "Go on without invalid records", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'C':
		o->is_csv = true;
		return 0;
	case 'o':
		if (arg[0] == '\0')
			cli_usage_error(state, "-o wants the name of a file");
		o->path = arg;
		return 0;
	case 'S':
		o->input.skips_invalid = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->input.files = state->argv + state->next;
		o->input.n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage_error(state, "which files? Also folders, and - for standard input");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ranks_merge_argp = {
	option_table,
	parse_option,
	"FILE...",
	"Prints the samples of all ranks in the order of time, each rank moved so that all begin "
	"together (aligned_timestamp_ns). Where start times differ that alignment is a guess: "
	"\"proctor ranks analyze\" does not rest on it.",
	NULL,
	NULL,
	NULL,
};

static const char *const columns[] = {
	"rank",
	"timestamp_ns",
	"aligned_timestamp_ns",
	"device_used_bytes",
	"allocator_reserved_bytes",
	"allocator_allocated_bytes",
	"allocator_change_bytes",
};

static void write_csv(struct output *out, const struct timeline_point *p)
{
	const struct sample *s = p->sample;
	struct csv csv;

	csv_init(&csv, &out->buf);
	csv_i64(&csv, p->rank);
	csv_i64(&csv, s->timestamp_ns);
	buf_add_char(&out->buf, ',');
	summary_add_i128(&out->buf, p->aligned_ns);
	csv_i64(&csv, s->used_bytes);
	csv_i64(&csv, s->reserved_bytes);
	csv_i64(&csv, s->allocated_bytes);
	csv_i64(&csv, s->change_bytes);
	csv_end_row(&csv);
}

static void write_json(struct output *out, const struct timeline_point *p)
{
	const struct sample *s = p->sample;
	struct json j;

	json_init(&j, &out->buf);
	json_begin_object(&j);
	json_key_i64(&j, columns[0], p->rank);
	json_key_i64(&j, columns[1], s->timestamp_ns);
	json_key(&j, columns[2]);
	summary_add_i128(&out->buf, p->aligned_ns);
	j.need_comma = true;
	json_key_i64(&j, columns[3], s->used_bytes);
	json_key_i64(&j, columns[4], s->reserved_bytes);
	json_key_i64(&j, columns[5], s->allocated_bytes);
	json_key_i64(&j, columns[6], s->change_bytes);
	json_end_object(&j);
	buf_add_char(&out->buf, '\n');
}

struct writer {
	struct output *out;
	bool is_csv;
	struct timeline_point last; /* sample NULL: none yet */
	uint64_t n_repeats;
};

/*
 * Files that are given twice, or beside what was merged of them, have the same samples again; what
 * was merged does not say of which device.
 */
static bool is_repeat(const struct timeline_point *a, const struct timeline_point *b)
{
	const struct sample *x = a->sample, *y = b->sample;

	return x && a->rank == b->rank && x->timestamp_ns == y->timestamp_ns &&
	       x->used_bytes == y->used_bytes && x->reserved_bytes == y->reserved_bytes &&
	       x->allocated_bytes == y->allocated_bytes && x->change_bytes == y->change_bytes &&
	       (x->device == y->device || x->device < 0 || y->device < 0);
}

static int write_point(void *ctx, const struct timeline_point *p)
{
	struct writer *w = ctx;

	if (is_repeat(&w->last, p)) {
		w->n_repeats++;
		return 0;
	}
	w->last = *p;
	if (w->is_csv)
		write_csv(w->out, p);
	else
		write_json(w->out, p);
	return output_pass(w->out);
}

static void write_heading(struct buf *out)
{
	struct csv csv;

	csv_init(&csv, out);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		csv_word(&csv, columns[i]);
	csv_end_row(&csv);
}

/* What is not on the time line; the rest of the notes is for who analyses. */
static void tell_left_out(const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT, shown = BUF_INIT;

	for (size_t i = 0; i < a->n_notes; i++)
		if (a->notes[i].code == NOTE_MULTIPLE_JOB_IDS)
			analysis_note_text(&a->notes[i], &text);
	for (size_t i = 0; i < text.len;)
		i += utf8_add_shown(&shown, text.data + i, text.len - i);
	if (shown.len > 0)
		log_warning("%s", shown.data);
}

static int merge(const struct options *o, struct telemetry *t)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct writer w = { .out = &out, .is_csv = o->is_csv };
	struct err err = ERR_INIT;
	struct rank_analysis a;
	int r = rank_analysis_init(&a, t);

	if (r < 0)
		err_set(&err, r, "cannot merge: %s", strerror(-r));
	else
		r = output_open(&out, o->path, &err);
	if (r == 0)
		tell_left_out(&a);
	if (r == 0 && o->is_csv)
		write_heading(&out.buf);
	if (r == 0)
		r = analysis_walk_timeline(&a, write_point, &w);
	if (w.n_repeats > 0)
		log_warning("%llu samples were given more than once, and are printed once",
			    (unsigned long long)w.n_repeats);
	rank_analysis_release(&a);
	return output_end(&out, r, &err);
}

int ranks_merge(int argc, char **argv)
{
	CLEANUP(telemetry_cleanup) struct telemetry *t = telemetry_new();
	struct options o = { 0 };
	struct err err = ERR_INIT;
	int status;

	cli_parse(&ranks_merge_argp, argc, argv, 0, &o);
	if (!t) {
		err_set(&err, -ENOMEM, "there is no memory left");
		return cli_fail(CLI_FAILED, &err);
	}
	status = ranks_load(&o.input, t);
	return status == CLI_DONE ? merge(&o, t) : status;
}

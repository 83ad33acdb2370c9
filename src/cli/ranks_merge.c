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
	"device_id", /* only where a rank has several */
};

/* Samples of one rank and moment that are looked through for one that is given twice: hostile files
 * have millions. Farther away it is printed again; nothing is left out. */
#define MAX_COMPARED 256

struct writer {
	struct output *out;
	bool is_csv, has_devices;
	const struct identity *identities;
	uint64_t n_repeats;
};

static void write_csv(const struct writer *w, const struct timeline_point *p)
{
	struct buf *out = &w->out->buf;
	const struct sample *s = p->sample;
	struct csv csv;

	csv_init(&csv, out);
	csv_i64(&csv, p->rank);
	csv_i64(&csv, s->timestamp_ns);
	buf_add_char(out, ',');
	summary_add_i128(out, p->aligned_ns);
	csv_i64(&csv, s->used_bytes);
	csv_i64(&csv, s->reserved_bytes);
	csv_i64(&csv, s->allocated_bytes);
	csv_i64(&csv, s->change_bytes);
	if (w->has_devices)
		csv_i64(&csv, s->device);
	csv_end_row(&csv);
}

static void write_json(const struct writer *w, const struct timeline_point *p)
{
	struct buf *out = &w->out->buf;
	const struct sample *s = p->sample;
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_i64(&j, columns[0], p->rank);
	json_key_i64(&j, columns[1], s->timestamp_ns);
	json_key(&j, columns[2]);
	summary_add_i128(out, p->aligned_ns);
	j.need_comma = true;
	json_key_i64(&j, columns[3], s->used_bytes);
	json_key_i64(&j, columns[4], s->reserved_bytes);
	json_key_i64(&j, columns[5], s->allocated_bytes);
	json_key_i64(&j, columns[6], s->change_bytes);
	if (w->has_devices)
		json_key_i64(&j, columns[7], s->device);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* ---- what is given twice ---- */

/* It says neither of which process it is nor of which device. */
static bool is_vague(const struct writer *w, const struct sample *s)
{
	return s->device < 0 && w->identities[s->identity].pid < 0;
}

/* What was merged does not say of which process a sample is, nor always of which device. */
static bool is_of_same(const struct writer *w, const struct sample *a, const struct sample *b)
{
	if (a->identity == b->identity)
		return a->device == b->device;
	if (w->identities[a->identity].pid >= 0 && w->identities[b->identity].pid >= 0)
		return false;
	return a->device == b->device || is_vague(w, a) || is_vague(w, b);
}

/* Files that are given twice, or beside what was merged of them, have the same samples again. */
static bool is_repeat(const struct writer *w, const struct sample *a, const struct sample *b)
{
	return a->used_bytes == b->used_bytes && a->reserved_bytes == b->reserved_bytes &&
	       a->allocated_bytes == b->allocated_bytes && a->change_bytes == b->change_bytes &&
	       is_of_same(w, a, b);
}

/* Those of one rank and moment lie one behind the other, those of its devices by turns. */
static const struct sample *moment_begin(const struct stream *stream, const struct sample *s)
{
	const struct sample *o = s;

	while (o > stream->samples && s - o < MAX_COMPARED && o[-1].timestamp_ns == s->timestamp_ns)
		o--;
	return o;
}

static const struct sample *moment_end(const struct stream *stream, const struct sample *s)
{
	const struct sample *end = stream->samples + stream->n, *o = s;

	while (o < end && o - s <= MAX_COMPARED && o->timestamp_ns == s->timestamp_ns)
		o++;
	return o;
}

/* The first is printed, or one that has a device before one that does not say. */
static bool is_given_again(const struct writer *w, const struct stream *stream,
			   const struct sample *s)
{
	const struct sample *begin = moment_begin(stream, s), *end;
	bool is_of_device = false;

	for (const struct sample *o = begin; o < s; o++)
		if (o->device == s->device && is_repeat(w, o, s))
			return true;
	if (!is_vague(w, s))
		return false;
	end = moment_end(stream, s);
	for (const struct sample *o = begin; o < end; o++) {
		if (is_vague(w, o) || !is_repeat(w, o, s))
			continue;
		if (o->device == s->device)
			return false;
		is_of_device = true;
	}
	return is_of_device;
}

static int write_point(void *ctx, const struct timeline_point *p)
{
	struct writer *w = ctx;

	if (is_given_again(w, p->stream, p->sample)) {
		w->n_repeats++;
		return 0;
	}
	if (w->is_csv)
		write_csv(w, p);
	else
		write_json(w, p);
	return output_pass(w->out);
}

/* ---- all of it ---- */

static void write_heading(const struct writer *w)
{
	struct csv csv;

	csv_init(&csv, &w->out->buf);
	for (size_t i = 0; i < ARRAY_SIZE(columns) - !w->has_devices; i++)
		csv_word(&csv, columns[i]);
	csv_end_row(&csv);
}

static bool is_of_devices(const struct writer *w, const struct stream *s)
{
	const struct sample *first = NULL;

	for (const struct sample *o = s->samples; o < s->samples + s->n; o++) {
		if ((first && o->device == first->device) || is_given_again(w, s, o))
			continue;
		if (first)
			return true;
		first = o;
	}
	return false;
}

/* Whether samples of several devices of a rank are printed, which its number does not tell apart.
 */
static bool has_devices(const struct writer *w, const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_ranks; i++)
		if (is_of_devices(w, a->ranks[i].stream))
			return true;
	return false;
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
	struct writer w = { .out = &out, .is_csv = o->is_csv, .identities = t->identities };
	struct err err = ERR_INIT;
	struct rank_analysis a;
	int r = rank_analysis_init(&a, t);

	if (r < 0)
		err_set(&err, r, "cannot merge: %s", strerror(-r));
	else
		r = output_open(&out, o->path, &err);
	if (r == 0)
		tell_left_out(&a);
	w.has_devices = r == 0 && has_devices(&w, &a);
	if (r == 0 && o->is_csv)
		write_heading(&w);
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

#include "cli/ranks.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cli/output.h"

struct options {
	bool is_json;
	char **files;
	int n_files;
};

static const struct argp_option option_table[] = {
	{ "json", 'J', NULL, 0, "Print one JSON object with all faults", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	(void)arg;
	switch (key) {
	case 'J':
		o->is_json = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->files = state->argv + state->next;
		o->n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage_error(state, "which files? Also folders, and - for standard input");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ranks_validate_argp = {
	option_table,
	parse_option,
	"FILE...",
	"Checks every telemetry record of the files (JSON Lines, a JSON array, an object with events, "
	"CSV; also in gzip or zstd; folders; - is standard input). Prints one line per fault and "
	"exits with 2 if there is one.",
	NULL,
	NULL,
	NULL,
};

struct listing {
	struct output *out;
	struct json json;
	bool is_json;
	uint64_t n_unreadable; /* files */
};

static int list_fault(void *ctx, const struct fault *fault)
{
	struct listing *l = ctx;

	if (!l->is_json) {
		fault_add_text(&l->out->buf, fault);
		buf_add_char(&l->out->buf, '\n');
		return output_pass(l->out);
	}
	json_begin_object(&l->json);
	json_key_string(&l->json, "file", fault->file);
	json_key_u64(&l->json, "line", fault->line);
	json_key_string(&l->json, "reason", reason_name(fault->reason));
	if (fault->field.s) {
		json_key(&l->json, "field");
		json_str_n(&l->json, fault->field.s, fault->field.n);
	}
	json_end_object(&l->json);
	return output_pass(l->out);
}

/* A file that cannot be read is a fault like others, without a line; the rest is still checked. */
static int list_unreadable(struct listing *l, const char *file, struct err *err)
{
	log_error("%s", err->text);
	*err = (struct err)ERR_INIT;
	l->n_unreadable++;
	if (!l->is_json)
		return 0;
	json_begin_object(&l->json);
	json_key_string(&l->json, "file", file);
	json_key_null(&l->json, "line");
	json_key_string(&l->json, "reason", "unreadable");
	json_end_object(&l->json);
	return output_pass(l->out);
}

/* The faults come while reading, so the counts come last. */
static int read_all(const struct options *o, struct intake *intake, struct listing *l,
		    struct err *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < o->n_files; i++) {
		r = intake_read(intake, o->files[i], err);
		if (r < 0 && err->code != 0 && r != -ENOMEM)
			r = list_unreadable(l, o->files[i], err);
	}
	return r;
}

static void write_counts(struct listing *l, const struct intake *intake)
{
	uint64_t n_invalid = intake->n_invalid + intake->n_cut;

	if (!l->is_json && intake->n_files > 0)
		buf_printf(&l->out->buf, "%llu valid, %llu invalid\n",
			   (unsigned long long)intake->n_valid, (unsigned long long)n_invalid);
	if (!l->is_json)
		return;
	json_end_array(&l->json);
	json_key_u64(&l->json, "valid", intake->n_valid);
	json_key_u64(&l->json, "invalid", n_invalid);
	json_key_u64(&l->json, "files", intake->n_files);
	json_end_object(&l->json);
	buf_add_char(&l->out->buf, '\n');
}

static int validate(const struct options *o, struct output *out, struct err *err, bool *ret_is_fine)
{
	struct listing l = { .out = out, .is_json = o->is_json };
	struct intake intake;
	int r = intake_init(&intake, NULL, list_fault, &l);

	json_init(&l.json, &out->buf);
	if (o->is_json) {
		json_begin_object(&l.json);
		json_key(&l.json, "errors");
		json_begin_array(&l.json);
	}
	if (r == 0)
		r = read_all(o, &intake, &l, err);
	if (r == 0)
		write_counts(&l, &intake);
	*ret_is_fine = intake.n_valid > 0 && intake.n_invalid + intake.n_cut + l.n_unreadable == 0;
	if (r == 0 && intake.n_valid + intake.n_invalid + intake.n_cut + l.n_unreadable == 0)
		ranks_tell_empty(intake.n_files);
	intake_release(&intake);
	return r;
}

int ranks_validate(int argc, char **argv)
{
	CLEANUP(output_release) struct output out = OUTPUT_INIT;
	struct options o = { 0 };
	struct err err = ERR_INIT;
	bool is_fine = false;
	int r, status;

	cli_parse(&ranks_validate_argp, argc, argv, 0, &o);
	r = output_open(&out, NULL, &err);
	if (r == 0)
		r = validate(&o, &out, &err, &is_fine);
	if (r < 0 && err.code != 0)
		return cli_fail(CLI_USAGE, &err);
	status = output_end(&out, r, &err);
	return status == CLI_DONE && !is_fine ? CLI_USAGE : status;
}

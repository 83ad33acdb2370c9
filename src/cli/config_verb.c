#include <errno.h>
#include <grp.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"

#define COMMENT_COLUMN 44

struct config_args {
	const char *check; /* the file; NULL: the settings in force are wanted */
	bool json;
};

static const struct argp_option config_options[] = {
	CLI_OPTION("check", config_args, check, "FILE", "Check this file and use it for nothing"),
	CLI_OPTION("json", config_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp config_argp = {
	.options = config_options,
	.doc = "Prints the settings in force and where each comes from. What it prints is a "
	       "configuration file itself.\v"
	       "A daemon that runs has read the file when it began, or when it last got SIGHUP: "
	       "\"proctor status\" tells when that was.",
};

/* ---- what both forms print ---- */

static const void *value_of(const struct config *c, const struct config_setting *s)
{
	return (const char *)c + s->offset;
}

/* A place, and the variable or the key that put it there; NULL: nobody did. */
struct place {
	const char *name, *path, *variable, *key;
};

#define N_PLACES 4

static void find_places(const struct settings *s, struct place ret[N_PLACES])
{
	const bool has_db = config_line(&s->config, "storage_path") != 0;
	const bool has_jsonl = config_line(&s->config, "jsonl_path") != 0;

	ret[0] = (struct place){ "configuration", s->paths.config, s->paths.config_variable, NULL };
	ret[1] = (struct place){ "folder", s->paths.state_dir, s->paths.state_variable, NULL };
	ret[2] = (struct place){ "database", s->paths.db, s->paths.state_variable,
				 has_db ? "storage_path" : NULL };
	ret[3] = (struct place){ "log", s->paths.jsonl[0] ? s->paths.jsonl : NULL,
				 s->paths.state_variable, has_jsonl ? "jsonl_path" : NULL };
}

/* ---- as YAML ---- */

struct listing {
	struct buf *out;
	const char *path;
	const char *section; /* that is open; NULL: none */
};

static void add_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	struct listing *list = ctx;
	size_t begin;
	struct json j;

	if (s->section && s->section != list->section)
		buf_printf(list->out, "%s:\n", s->section);
	list->section = s->section;
	begin = list->out->len;
	buf_printf(list->out, "%s%s: ", s->section ? "  " : "", s->key);
	json_init(&j, list->out);
	yaml_write_value(&j, s->field, value_of(c, s));
	while (list->out->len < begin + COMMENT_COLUMN && buf_error(list->out) == 0)
		buf_add_char(list->out, ' ');
	if (s->line == 0) {
		buf_add_str(list->out, "  # default");
	} else {
		buf_add_str(list->out, "  # ");
		cli_add_text(list->out, list->path, PATH_BYTES);
		buf_printf(list->out, ":%d", s->line);
	}
	if (s->not_yet)
		buf_printf(list->out, "; this version does not %s yet", s->not_yet);
	buf_add_char(list->out, '\n');
}

static void write_yaml(const struct settings *s, struct buf *out)
{
	struct listing list = { out, s->paths.config, NULL };
	struct place places[N_PLACES];

	find_places(s, places);
	for (size_t i = 0; i < N_PLACES; i++) {
		const char *who = places[i].key ? places[i].key : places[i].variable;

		buf_printf(out, "# %-14s ", places[i].name);
		cli_add_text(out, places[i].path ? places[i].path : "none", PATH_BYTES);
		if (i == 0 && !s->config.was_read)
			buf_add_str(out, " (not there)");
		if (who)
			buf_printf(out, "  by %s", who);
		buf_add_char(out, '\n');
	}
	config_each(&s->config, add_setting, &list);
}

/* ---- as JSON ---- */

static void write_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	CLEANUP(buf_release) struct buf allowed = BUF_INIT;
	struct json *j = ctx;

	yaml_describe_field(&allowed, s->field);
	json_key_object(j, s->name);
	json_key(j, "value");
	yaml_write_value(j, s->field, value_of(c, s));
	json_key_string(j, "source", s->line ? "file" : "default");
	json_key(j, "line");
	if (s->line)
		json_i64(j, s->line);
	else
		json_none(j);
	json_key_string(j, "allowed", allowed.data);
	json_key_bool(j, "has_effect", !s->not_yet);
	json_end_object(j);
}

static void write_json(const struct settings *s, struct buf *out)
{
	struct place places[N_PLACES];
	struct json j;

	find_places(s, places);
	json_init_object(&j, out);
	json_key_bool(&j, "was_read", s->config.was_read);
	json_key_object(&j, "places");
	for (size_t i = 0; i < N_PLACES; i++) {
		json_key_object(&j, places[i].name);
		json_key_string(&j, "path", places[i].path);
		json_key_string(&j, "source",
				places[i].key	     ? "file"
				: places[i].variable ? "environment"
						     : "default");
		json_key_string(&j, "by", places[i].key ? places[i].key : places[i].variable);
		json_end_object(&j);
	}
	json_end_object(&j);
	json_key_object(&j, "settings");
	config_each(&s->config, write_setting, &j);
	json_end_object(&j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* ---- checking a file ---- */

struct verdict {
	const char *path;
	size_t n_given;
	struct json *notes;
};

static void judge_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	CLEANUP(buf_release) struct buf note = BUF_INIT;
	struct verdict *v = ctx;

	(void)c;
	if (s->line == 0)
		return;
	v->n_given++;
	if (!s->not_yet)
		return;
	buf_printf(&note, "%s:%d: '%s' has no effect: this version does not %s yet", v->path,
		   s->line, s->name, s->not_yet);
	json_str(v->notes, note.data);
	log_warning("%s", note.data);
}

static int load_file(const char *path, struct config *c, struct err *err)
{
	struct paths paths;
	int r = config_load(path, c, NULL, err);

	if (r < 0)
		return r;
	if (!c->was_read)
		return err_set(err, -ENOENT, "cannot read %s: %s", path, strerror(ENOENT));
	if (paths_find(&paths, NULL) < 0)
		return 0; /* whose it is has no place here */
	return settings_place(&paths, path, c, err);
}

/* r and err are what came of loading it. */
static void write_verdict(const struct config *c, const char *path, int r, const struct err *err,
			  bool json, struct buf *out)
{
	CLEANUP(buf_release) struct buf unused = BUF_INIT, note = BUF_INIT;
	struct verdict v = { .path = path };
	struct json j;

	json_init(&j, json ? out : &unused);
	v.notes = &j;
	json_begin_object(&j);
	json_key_string(&j, "file", path);
	json_key_bool(&j, "valid", r == 0);
	json_key_string(&j, "error", r < 0 ? err->text : NULL);
	json_key_array(&j, "notes");
	config_each(c, judge_setting, &v);
	if (c->access.read_group &&
	    !getgrnam(c->access.read_group)) { /* on another host it may be */
		buf_printf(&note,
			   "%s: there is no group '%s' here that could read (access.read_group)",
			   path, c->access.read_group);
		json_str(&j, note.data);
		log_warning("%s", note.data);
	}
	json_end_array(&j);
	json_end_object(&j);
	if (json) {
		buf_add_char(out, '\n');
	} else if (r == 0) {
		cli_add_text(out, path, PATH_BYTES);
		buf_printf(out, " is good: it has %zu setting%s\n", v.n_given,
			   v.n_given == 1 ? "" : "s");
	}
}

int cli_config(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct config_args args = { 0 };
	struct settings settings;
	struct err err = ERR_INIT;
	int status;

	cli_parse(&config_argp, argc, argv, 0, &args);
	if (args.check) {
		CLEANUP(config_release) struct config config;
		int r, printed;

		config_init(&config);
		r = load_file(args.check, &config, &err);
		write_verdict(&config, args.check, r, &err, args.json, &out);
		printed = cli_print(&out);
		if (r < 0)
			return cli_fail(CLI_USAGE, &err);
		return printed;
	}
	if (settings_open(&settings, &err) < 0) {
		status = cli_fail(CLI_USAGE, &err);
	} else {
		(args.json ? write_json : write_yaml)(&settings, &out);
		status = cli_print(&out);
	}
	settings_close(&settings);
	return status;
}

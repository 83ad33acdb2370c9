#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/doctor_checks.h"
#include "sources/sources.h"

enum doctor_key { KEY_JSON = 256, KEY_REPAIR, KEY_ALL };

struct doctor_args {
	bool json, repair, all;
};

static const struct argp_option doctor_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ "repair", KEY_REPAIR, NULL, 0,
	  "Only this: move the database aside if it cannot be used, so that a new one can begin",
	  0 },
	{ "all", KEY_ALL, NULL, 0, "With --repair: also if only a part of what it holds is damaged",
	  0 },
	{ 0 },
};

static error_t parse_doctor_option(int key, char *arg, struct argp_state *state)
{
	struct doctor_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_REPAIR:
		args->repair = true;
		return 0;
	case KEY_ALL:
		args->all = true;
		return 0;
	case ARGP_KEY_END:
		if (args->all && !args->repair)
			cli_usage_error(state, "--all goes with --repair");
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp doctor_argp = {
	.options = doctor_options,
	.parser = parse_doctor_option,
	.doc = "Tells which rung each measurement takes on this machine for this user and why not a "
	       "better one, and whether proctor's own files are in order.\v"
	       "Exits with 1 if something is broken; a lower rung is not. The database is looked "
	       "through for 5 seconds, with --repair to its end.",
};

static const char *const health_names[] = { "ok", "note", "broken" };

struct result {
	enum health health;
	struct buf detail;
};

/* ---- the visit ---- */

/* What is wrong with a file is told by its check. */
static void find_files(struct patient *p)
{
	config_init(&p->config);
	if (paths_find(&p->paths, &p->paths_err) < 0)
		return;
	if (config_load(p->paths.config, &p->config, &p->config_err) < 0)
		return;
	settings_place(&p->paths, p->paths.config, &p->config, &p->config_err);
}

static int examine(struct patient *p, struct err *err)
{
	struct collector_options options = { 0 };
	struct collector *collector;
	int r;

	find_files(p);
	p->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	options.root_fd = p->root_fd;
	r = collector_new(&options, &collector, err);
	if (r < 0)
		return r;
	r = collector_scan(collector, &p->snap, err);
	collector_free(collector);
	doctor_find_rungs(p->root_fd, &p->config, &p->arena, &p->rungs);
	return r;
}

static void release(struct patient *p)
{
	close_fd(&p->root_fd);
	doctor_release_rungs(&p->rungs);
	snapshot_release(&p->snap);
	config_release(&p->config);
	arena_release(&p->arena);
}

static void write_json(const struct patient *p, const struct result *results, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	doctor_write_rungs(&j, &p->rungs);
	json_key(&j, "checks");
	json_begin_array(&j);
	for (size_t i = 0; i < DOCTOR_N_CHECKS; i++) {
		json_begin_object(&j);
		json_key_string(&j, "name", doctor_checks[i].name);
		json_key_string(&j, "health", health_names[results[i].health]);
		json_key_string(&j, "detail", results[i].detail.data);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* Those behind the first stand below it. */
static void add_lines(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			buf_printf(out, "\n%25s", "");
		else
			buf_add_char(out, *text);
	buf_add_char(out, '\n');
}

static void write_text(const struct patient *p, const struct result *results, struct buf *out)
{
	buf_add_str(out, "What is measured here, and how\n");
	doctor_add_rungs(out, &p->rungs);
	buf_add_str(out, "\nThis machine and proctor's files\n");
	for (size_t i = 0; i < DOCTOR_N_CHECKS; i++) {
		buf_printf(out, "  %-14s %-7s ", doctor_checks[i].name,
			   health_names[results[i].health]);
		add_lines(out, results[i].detail.data);
	}
}

static int run_checks(struct patient *p, bool json)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct result results[DOCTOR_N_CHECKS];
	int status = CLI_DONE, printed;

	for (size_t i = 0; i < DOCTOR_N_CHECKS; i++) {
		results[i] = (struct result){ .detail = BUF_INIT };
		results[i].health = doctor_checks[i].fn(p, &results[i].detail);
		if (results[i].health == HEALTH_BROKEN)
			status = CLI_FAILED;
	}
	if (json)
		write_json(p, results, &out);
	else
		write_text(p, results, &out);
	printed = cli_print(&out);
	for (size_t i = 0; i < DOCTOR_N_CHECKS; i++)
		buf_release(&results[i].detail);
	return printed == CLI_DONE ? status : printed;
}

/* ---- the operation ---- */

/* aside is where the database went, NULL if there was no need; why says that. */
static void write_repair_json(const struct paths *paths, const char *aside, const char *why,
			      struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "database", paths->db);
	json_key_bool(&j, "repaired", aside != NULL);
	json_key_string(&j, "moved_to", aside);
	json_key_string(&j, "reason", why);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static void write_repair_text(const struct paths *paths, const char *aside, const char *why,
			      struct buf *out)
{
	if (!aside) {
		buf_printf(out, "nothing to repair: %s\n", why);
		return;
	}
	buf_printf(
		out,
		"The damaged database %s is now\n"
		"  %s\n"
		"with its -wal and -shm, if it had any, as they were. A new one, which is empty, has "
		"begun.\n"
		"To look into it, copy these files into an empty folder under the name proctor.db, and "
		"set\n"
		"PROCTOR_HOME to that; \"sqlite3 FILE .recover\", or .dump where there is no .recover, "
		"may\n"
		"still read what proctor does not. proctor(1) has how to use what they give.\n",
		paths->db, aside);
}

/* What may stay as it is. */
static bool is_usable(int r)
{
	return r == -EALREADY || r == -ENOENT || r == -EUCLEAN;
}

static int repair(bool json, bool all)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(free_ptr) char *aside = NULL;
	struct err err = ERR_INIT;
	struct paths paths;
	int r;

	if (cli_find_paths(&paths, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	r = store_set_aside(paths.db, all, &aside, &err);
	if (r < 0 && !is_usable(r))
		return cli_fail(CLI_FAILED, &err);
	(json ? write_repair_json : write_repair_text)(&paths, aside, r < 0 ? err.text : NULL,
						       &out);
	return cli_print(&out);
}

static int visit(bool json)
{
	struct patient patient = { .root_fd = -1 };
	struct err err = ERR_INIT;
	int status;

	snapshot_init(&patient.snap);
	if (examine(&patient, &err) < 0)
		status = cli_fail(CLI_FAILED, &err);
	else
		status = run_checks(&patient, json);
	release(&patient);
	return status;
}

int cli_doctor(int argc, char **argv)
{
	struct doctor_args args = { 0 };

	cli_parse(&doctor_argp, argc, argv, 0, &args);
	return args.repair ? repair(args.json, args.all) : visit(args.json);
}

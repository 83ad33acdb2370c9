#include "cli/export.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/suggest.h"

/* One row per kind: its name, its function, its options, and its line in "export --help". */
static const struct {
	const char *name;
	cli_verb *fn;
	const struct argp *argp;
	const char *summary;
} kinds[] = {
	{ "csv", export_csv, &export_csv_argp, "comma-separated values, for data frames and SQL" },
	{ "telemetry", export_telemetry, &export_telemetry_argp,
	  "the memory and phases of a job's ranks, for \"proctor ranks\"" },
};

static void name_kind(size_t i, char name[64])
{
	snprintf(name, 64, "proctor export %s", kinds[i].name);
}

static int print_help(void)
{
	fputs("Usage: proctor export KIND [OPTION...]\n"
	      "Hands what was recorded to other programs. The kinds:\n\n",
	      stdout);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		printf("  %-10s %s\n", kinds[i].name, kinds[i].summary);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char name[64];

		name_kind(i, name);
		putchar('\n');
		argp_help(kinds[i].argp, stdout, ARGP_HELP_STD_HELP, name);
	}
	return CLI_DONE;
}

static int tell_kinds(const char *name)
{
	struct suggest near = suggest_for(name ? name : "");
	CLEANUP(buf_release) struct buf list = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		suggest_offer(&near, kinds[i].name);
		buf_printf(&list, "%s%s", i > 0 ? ", " : "", kinds[i].name);
	}
	if (!name)
		log_error("export as what? There is: %s (see \"proctor export --help\")",
			  list.data);
	else if (name[0] == '-')
		log_error("export wants a kind before '%s'; there is: %s", name, list.data);
	else
		log_error("there is no export '%s'; %s%s%sthere is: %s", name,
			  near.best ? "did you mean '" : "", near.best ? near.best : "",
			  near.best ? "'? " : "", list.data);
	return CLI_USAGE;
}

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "--usage") == 0 || strcmp(arg, "-?") == 0;
}

int cli_export(int argc, char **argv)
{
	if (argc > 1 && is_help(argv[1]))
		return print_help();
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(kinds); i++) {
		char name[64];

		if (strcmp(argv[1], kinds[i].name) != 0)
			continue;
		name_kind(i, name);
		argv[1] = name;
		return kinds[i].fn(argc - 1, argv + 1);
	}
	return tell_kinds(argc > 1 ? argv[1] : NULL);
}

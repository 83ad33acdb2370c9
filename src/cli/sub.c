#include "cli/sub.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/suggest.h"
#include "cli/cli.h"

#define NAME_BYTES 64

static void name_item(const struct sub_table *t, size_t i, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "proctor %s %s", t->verb, t->items[i].name);
}

static int print_help(const struct sub_table *t)
{
	fputs(t->usage, stdout);
	for (size_t i = 0; i < t->n; i++)
		printf("  %-10s %s\n", t->items[i].name, t->items[i].summary);
	for (size_t i = 0; i < t->n; i++) {
		char name[NAME_BYTES];

		name_item(t, i, name);
		putchar('\n');
		argp_help(t->items[i].argp, stdout, ARGP_HELP_STD_HELP, name);
	}
	return CLI_DONE;
}

static int tell_items(const struct sub_table *t, const char *name)
{
	struct suggest near = suggest_for(name ? name : "");
	CLEANUP(buf_release) struct buf list = BUF_INIT;

	for (size_t i = 0; i < t->n; i++) {
		suggest_offer(&near, t->items[i].name);
		buf_printf(&list, "%s%s", i > 0 ? ", " : "", t->items[i].name);
	}
	if (!name)
		log_error("%s wants %s; there is: %s (see \"proctor %s --help\")", t->verb, t->what,
			  list.data, t->verb);
	else if (name[0] == '-')
		log_error("%s wants %s before '%s'; there is: %s", t->verb, t->what, name,
			  list.data);
	else
		log_error("there is no %s '%s'; %s%s%sthere is: %s", t->verb, name,
			  near.best ? "did you mean '" : "", near.best ? near.best : "",
			  near.best ? "'? " : "", list.data);
	return CLI_USAGE;
}

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "--usage") == 0 || strcmp(arg, "-?") == 0;
}

int sub_run(const struct sub_table *t, int argc, char **argv)
{
	if (argc > 1 && is_help(argv[1]))
		return print_help(t);
	for (size_t i = 0; argc > 1 && i < t->n; i++) {
		char name[NAME_BYTES];

		if (strcmp(argv[1], t->items[i].name) != 0)
			continue;
		name_item(t, i, name);
		argv[1] = name;
		return t->items[i].fn(argc - 1, argv + 1);
	}
	return tell_items(t, argc > 1 ? argv[1] : NULL);
}

#include "cli/export.h"

#include "base/macros.h"
#include "cli/sub.h"

/* One row per kind: its name, its function, its options, and its line in "export --help". */
static const struct sub_verb kinds[] = {
	{ "csv", export_csv, &export_csv_argp, "comma-separated values, for data frames and SQL" },
	{ "prometheus", export_prometheus, &export_prometheus_argp,
	  "the host, its GPUs and the running jobs as they are now, for Prometheus" },
	{ "telemetry", export_telemetry, &export_telemetry_argp,
	  "the memory and phases of a job's ranks, for \"proctor ranks\"" },
};

int cli_export(int argc, char **argv)
{
	static const struct sub_table table = {
		.verb = "export",
		.what = "a kind",
		.usage = "Usage: proctor export KIND [OPTION...]\n"
			 "Hands what was recorded to other programs. The kinds:\n\n",
		.items = kinds,
		.n = ARRAY_SIZE(kinds),
	};

	return sub_run(&table, argc, argv);
}

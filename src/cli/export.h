/*
 * export - the kinds that "proctor export KIND" knows, each in a file of its own.
 */
#ifndef PROCTOR_CLI_EXPORT_H
#define PROCTOR_CLI_EXPORT_H

#include "cli/cli.h"

/* argv[0] is "proctor export KIND". */
cli_verb export_csv, export_prometheus, export_telemetry;
extern const struct argp export_csv_argp, export_prometheus_argp, export_telemetry_argp;

#endif

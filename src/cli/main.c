#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "cli/cli.h"

#ifndef PROCTOR_VERSION
#define PROCTOR_VERSION "unknown"
#endif

/* One row per verb: its name, its function, and its line in "proctor --help". */
static const struct {
	const char *name;
	cli_verb *fn;
	const char *summary;
} verbs[] = {
	{ "run", cli_run, "run a command or a job file, profile it and record it" },
	{ "jobs", cli_jobs, "list recorded jobs and how they ended" },
	{ "why", cli_why, "print what ended a job, slowed it or holds it up" },
	{ "report", cli_report, "tell what a job used and why it ended" },
	{ "history", cli_history, "print recorded samples of a job or a process" },
	{ "events", cli_events, "print recorded events of processes" },
	{ "top", cli_top, "watch jobs in the terminal, live or replayed" },
	{ "export", cli_export, "hand what was recorded to other programs" },
	{ "anomalies", cli_anomalies, "print what was out of the ordinary" },
	{ "detect", cli_detect, "tell what would have been, by other thresholds" },
	{ "ranks", cli_ranks, "analyse telemetry of many ranks: which was first" },
	{ "sql", cli_sql, "ask the record in SQL" },
	{ "snapshot", cli_snapshot, "show the host and its jobs' processes now" },
	{ "correlate", cli_correlate, "tell which resource patterns go with failure" },
	{ "patterns", cli_patterns, "list what has been learned about failures" },
	{ "estimate", cli_estimate, "tell what a job is expected to need" },
	{ "diff", cli_diff, "compare what two runs used" },
	{ "outcome", cli_outcome, "say what came of a job" },
	{ "stack", cli_stack, "show what each process of a running job waits for" },
	{ "trace", cli_trace, "write every system call of a process, for a while" },
	{ "start", cli_start, "start the daemon, which watches all jobs of this host" },
	{ "stop", cli_stop, "stop the daemon; jobs go on" },
	{ "status", cli_status, "tell how the daemon is" },
	{ "web", cli_web, "open the daemon's page in a browser" },
	{ "submit", cli_submit, "hand a job file to the daemon" },
	{ "wait", cli_wait, "wait until a job is over" },
	{ "cancel", cli_cancel, "end a job" },
	{ "attach", cli_attach, "make a running process and its tree a job" },
	{ "phase", cli_phase, "mark, inside a job, that a phase of its work begins or ends" },
	{ "config", cli_config, "print the settings in force, or check a file" },
	{ "doctor", cli_doctor, "tell what can be measured here, and why not more" },
	{ "gc", cli_gc, "remove what is old now, and give the space back" },
};

static void print_help(FILE *out)
{
	fputs("Usage: proctor VERB [OPTION...]\n"
	      "Watches jobs: what their processes use, what went wrong, and when it began.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
	fputs("\n\"proctor VERB --help\" tells the options of a verb. \"man proctor\" tells more.\n",
	      out);
}

/*
 * Whoever closed stdin, stdout or stderr gets /dev/null there, so that no file of
 * ours ends up with their numbers. It closes at exec: a command finds them closed.
 */
static void fill_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	struct suggest near;
	char name[64];

	fill_standard_files();
	if (getenv("PROCTOR_DEBUG"))
		log_set_level(LOG_DEBUG);
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return CLI_DONE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("proctor %s\n", PROCTOR_VERSION);
		return CLI_DONE;
	}
	near = suggest_for(argv[1]);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		suggest_offer(&near, verbs[i].name);
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "proctor %s", verbs[i].name);
		argv[1] = name;
		return verbs[i].fn(argc - 1, argv + 1);
	}
	log_error("there is no verb '%s'; %s%s%s\"proctor --help\" lists them", argv[1],
		  near.best ? "did you mean '" : "", near.best ? near.best : "",
		  near.best ? "'? " : "");
	return CLI_USAGE;
}

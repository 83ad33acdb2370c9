#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "report/report.h"
#include "store/store.h"

/* For so long somebody else may keep the database locked without a break. */
#define BUSY_NS UINT64_C(10000000000)
/* Work that is done by then is not worth a line that comes and goes. */
#define QUIET_NS UINT64_C(500000000)

#define NOTHING_DONE                                                     \
	{                                                                \
		.bytes_before = U64_UNKNOWN, .bytes_after = U64_UNKNOWN, \
		.beside_bytes = U64_UNKNOWN,                             \
	}

struct gc_args {
	bool json, dry_run, trust_clock;
};

static const struct argp_option gc_options[] = {
	CLI_OPTION("dry-run", gc_args, dry_run, NULL, "Only print what would be removed"),
	CLI_OPTION("trust-clock", gc_args, trust_clock, NULL,
		   "Remove what is old also when the clock has jumped ahead"),
	CLI_OPTION("json", gc_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp gc_argp = {
	.options = gc_options,
	.doc = "Removes what is older than the configuration says and gives the space back: samples "
	       "become 1-minute values, and those are removed in their turn. What jobs used and how "
	       "they ended stays.",
};

/* One row per thing that is counted: its key in JSON, and its line for people. */
static const struct {
	const char *key, *one, *many;
	size_t offset;
} counts[] = {
	{ "samples_rolled", "sample at full resolution, made into a 1-minute value",
	  "samples at full resolution, made into 1-minute values",
	  offsetof(struct retention_result, n_samples) },
	{ "folds_removed", "stretch of ticks of the host", "stretches of ticks of the host",
	  offsetof(struct retention_result, n_folds) },
	{ "minute_rows_removed", "hour of 1-minute values of a process",
	  "hours of 1-minute values of processes", offsetof(struct retention_result, n_minutes) },
	{ "curves_removed", "stretch of a job's curve", "stretches of jobs' curves",
	  offsetof(struct retention_result, n_curves) },
	{ "events_removed", "process event", "process events",
	  offsetof(struct retention_result, n_events) },
	{ "anomalies_removed", "anomaly", "anomalies",
	  offsetof(struct retention_result, n_anomalies) },
	{ "anomaly_seconds_removed", "anomaly's seconds at full resolution",
	  "anomalies' seconds at full resolution", offsetof(struct retention_result, n_seconds) },
	{ "phases_removed", "phase of a job that ended", "phases of jobs that ended",
	  offsetof(struct retention_result, n_phases) },
	{ "processes_removed", "process of a job that ended", "processes of jobs that ended",
	  offsetof(struct retention_result, n_processes) },
	{ "attempts_removed", "whole attempt", "whole attempts",
	  offsetof(struct retention_result, n_attempts) },
	{ "logs_removed", "rotated log of snapshots", "rotated logs of snapshots",
	  offsetof(struct retention_result, n_logs) },
	{ "damaged", "damaged piece", "damaged pieces",
	  offsetof(struct retention_result, n_damaged) },
};

static uint64_t count_of(const struct retention_result *result, size_t i)
{
	return *(const uint64_t *)((const char *)result + counts[i].offset);
}

static bool has_removed(const struct retention_result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		if (count_of(result, i) > 0)
			return true;
	return false;
}

/* ---- doing it ---- */

/* Pauses let others who wait to write have their turn. A line on a terminal, which is written over,
 * shows how far it is. */
static int run_slices(struct store *store, struct retention *run, struct err *err)
{
	const struct timespec pause = { .tv_nsec = RETENTION_PAUSE_MS * 1000000L };
	const char *term = getenv("TERM");
	bool has_line = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
	bool was_shown = false;
	uint64_t begun_ns = clock_boot_ns(), moved_ns = begun_ns;
	int r;

	while ((r = store_retain_step(store, run, err)) != 0) {
		if (r < 0 && (r != -EBUSY || clock_boot_ns() - moved_ns > BUSY_NS))
			break;
		if (r > 0)
			moved_ns = clock_boot_ns();
		if (has_line && clock_boot_ns() - begun_ns >= QUIET_NS) {
			fprintf(stderr,
				"\r\033[K%llu samples became 1-minute values (%llu of %llu "
				"stretches)%s",
				(unsigned long long)run->result.n_samples,
				(unsigned long long)run->result.n_folds,
				(unsigned long long)run->n_folds_due,
				r == -EBUSY ? "; waits for another who writes" : "");
			was_shown = true;
		}
		nanosleep(&pause, NULL);
	}
	if (was_shown)
		fputs("\r\033[K", stderr);
	return r;
}

/* Of now, as the user has it. */
static struct retention_clock read_clock(bool trusts_clock)
{
	struct retention_clock clock = retention_clock_now();

	clock.is_synchronised |= trusts_clock;
	return clock;
}

static int collect_once(const struct paths *paths, const struct retention_policy *policy,
			bool trusts_clock, struct retention *ret, struct err *err)
{
	struct retention_clock clock = read_clock(trusts_clock);
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r = cli_open_store(paths, STORE_WRITE, &store, err);

	if (r < 0)
		return r;
	store_retain_begin(ret, policy, clock_wall_ns(), &clock);
	return run_slices(store, ret, err);
}

/* Removing rows takes room. On a full disk the rotated logs that are too much make some, and what
 * was removed before; then there may be enough for the rest. */
static int collect(const struct paths *paths, const struct retention_policy *policy,
		   bool trusts_clock, struct retention *ret, struct err *err)
{
	struct retention_result before;
	struct retention p;
	int r;

	do {
		p = (struct retention){ .result = NOTHING_DONE };
		r = collect_once(paths, policy, trusts_clock, &p, err);
		if (retention_is_full(r))
			p.result.n_logs += store_drop_logs(paths->db, policy);
		/* what was done before, too: all that went, and how it is by now */
		before = ret->result;
		if (u64_known(p.result.bytes_after))
			ret->result = p.result;
		ret->result.bytes_before = u64_known(before.bytes_before) ? before.bytes_before
									  : p.result.bytes_before;
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
			*(uint64_t *)((char *)&ret->result + counts[i].offset) =
				count_of(&before, i) + count_of(&p.result, i);
		ret->held_until_ns = p.held_until_ns;
	} while (retention_is_full(r) &&
		 (p.result.n_logs > 0 || (u64_known(p.result.bytes_after) &&
					  p.result.bytes_after < p.result.bytes_before)));
	return r;
}

/* What it cannot do then, and what helps. */
static void tell_no_room(const struct paths *paths, const struct retention_result *result,
			 const struct err *err)
{
	uint64_t log_bytes = jsonl_count_bytes(paths->jsonl, true);
	CLEANUP(buf_release) struct buf size = BUF_INIT;

	cli_fail(CLI_FAILED, err);
	log_error("%s on a full disk: what changes is written to its log first, which takes some "
		  "room for a while",
		  (has_removed(result) ? "no more can be removed from the database"
				       : "nothing can be removed from the database"));
	report_add_bytes(&size, log_bytes);
	if (log_bytes > 0 && buf_error(&size) == 0)
		log_error("%s.1 and .2 have %s: the database does not need them, and they can be "
			  "removed by hand",
			  paths->jsonl, size.data);
}

static int preview(const struct paths *paths, const struct retention_policy *policy,
		   bool trusts_clock, struct retention *ret, struct err *err)
{
	struct retention_clock clock = read_clock(trusts_clock);
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r = cli_open_store(paths, STORE_READ, &store, err);

	return r < 0 ? r
		     : store_preview_retention(store, policy, clock_wall_ns(), &clock, ret, err);
}

/* ---- telling ---- */

/* What max_bytes is about; unknown if there is no database. */
static uint64_t total_bytes(const struct retention_result *result)
{
	uint64_t database =
		u64_known(result->bytes_after) ? result->bytes_after : result->bytes_before;

	return u64_add(database, result->beside_bytes);
}

static void write_json(const struct gc_args *args, const struct retention_policy *policy,
		       const struct retention *p, struct buf *out)
{
	const struct retention_result *result = &p->result;
	struct json j;

	json_init_object(&j, out);
	json_key_bool(&j, "dry_run", args->dry_run);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		json_key_u64(&j, counts[i].key, count_of(result, i));
	json_key_u64(&j, "bytes_before", result->bytes_before);
	json_key_u64(&j, "bytes_after", result->bytes_after);
	json_key_u64(&j, "bytes_given_back", u64_delta(result->bytes_before, result->bytes_after));
	if (args->dry_run)
		json_key_u64(&j, "removable_bytes",
			     u64_delta(result->bytes_before, result->bytes_after));
	json_key_u64(&j, "total_bytes", total_bytes(result));
	json_key_u64(&j, "wal_bytes", result->wal_bytes);
	json_key_u64(&j, "max_bytes", policy->max_bytes ? policy->max_bytes : U64_UNKNOWN);
	json_key_u64(&j, "over_max_bytes", result->over_bytes);
	json_key_f64(&j, "retention_held_until",
		     p->held_until_ns ? clock_ns_to_seconds(p->held_until_ns) : F64_UNKNOWN);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static void write_text(const struct retention *p, bool is_dry, struct buf *out)
{
	const struct retention_result *result = &p->result;

	if (has_removed(result))
		buf_add_str(out, is_dry ? "Would be removed:\n" : "Removed:\n");
	else
		buf_add_str(out, "Nothing is old enough to be removed.\n");
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		uint64_t n = count_of(result, i);

		if (n > 0)
			buf_printf(out, "%12llu  %s\n", (unsigned long long)n,
				   n == 1 ? counts[i].one : counts[i].many);
	}
	buf_add_str(out, is_dry ? "The database has " : "The database had ");
	report_add_bytes(out, result->bytes_before);
	buf_add_str(out, is_dry ? ", and would have " : ", and has ");
	report_add_bytes(out, result->bytes_after);
	buf_add_str(out, is_dry ? " then.\n" : " now.\n");
	buf_add_str(out, "With what waits beside it and the log of snapshots that is ");
	report_add_bytes(out, total_bytes(result));
	buf_add_str(out, ".\n");
	if (!is_dry || result->over_bytes == 0)
		return;
	buf_add_str(out, "That would still be ");
	report_add_bytes(out, result->over_bytes);
	buf_add_str(out, " above max_bytes.\n");
}

static int print(const struct gc_args *args, const struct retention_policy *policy,
		 const struct retention *p)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (args->json)
		write_json(args, policy, p, &out);
	else
		write_text(p, args->dry_run, &out);
	return cli_print(&out);
}

int cli_gc(int argc, char **argv)
{
	CLEANUP(settings_close) struct settings settings;
	struct retention p = { .result = NOTHING_DONE };
	struct retention_policy policy;
	struct gc_args args = { 0 };
	struct err err = ERR_INIT;
	char until[32];
	int r;

	cli_parse(&gc_argp, argc, argv, 0, &args);
	if (settings_open(&settings, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	policy = upkeep_policy(&settings.config.retention, settings.paths.jsonl);
	r = (args.dry_run ? preview : collect)(&settings.paths, &policy, args.trust_clock, &p,
					       &err);
	if (p.held_until_ns)
		log_warning("the clock has jumped ahead: nothing is removed for its age until %s, "
			    "but with --trust-clock",
			    clock_format_local(p.held_until_ns, until, sizeof(until)));
	if (retention_is_full(r))
		tell_no_room(&settings.paths, &p.result, &err);
	else if (r < 0 && (r != -ENOENT || !args.json))
		cli_fail(CLI_FAILED, &err);
	if (r < 0 && r != -ENOENT) {
		if (!args.dry_run && has_removed(&p.result))
			print(&args, &policy, &p);
		return CLI_FAILED;
	}
	if (r == -ENOENT && !args.json) /* nothing recorded yet: nothing removed */
		return CLI_DONE;
	if (p.result.over_bytes > 0 && !args.dry_run)
		log_warning("all together is still above max_bytes: what is left is of attempts "
			    "that may still run, or the newest, or what was learned of them");
	return print(&args, &policy, &p);
}

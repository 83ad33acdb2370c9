#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/live.h"
#include "daemon/daemon.h"

void cli_usage_error(const struct argp_state *state, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("%s (see \"%s --help\")", text, state->name);
	exit(CLI_USAGE);
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--usage") == 0 ||
		    strcmp(argv[i], "-?") == 0)
			return true;
	return false;
}

static bool is_known_option(const struct argp *argp, const char *arg)
{
	size_t n = strcspn(arg, "=");

	for (const struct argp_option *o = argp->options; o && (o->name || o->key); o++) {
		if (strncmp(arg, "--", 2) == 0 && o->name && n > 2 &&
		    strncmp(arg + 2, o->name, n - 2) == 0)
			return true;
		if (arg[1] != '-' && o->key == arg[1])
			return true;
	}
	return false;
}

/* The first that is not known; else the last one, which then lacks its value or has one too many.
 */
static const char *find_bad_option(const struct argp *argp, int argc, char **argv)
{
	const char *last = NULL;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (argv[i][0] != '-' || argv[i][1] == '\0')
			continue;
		last = argv[i];
		if (!is_known_option(argp, last))
			break;
	}
	return last;
}

/*
 * With ARGP_NO_ERRS argp keeps quiet about options that it does not know, and
 * only returns; its own message would take two lines and the raw argument. It
 * would give no help either.
 */
void cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	struct argp_state state = { .name = argv[0] };
	const char *bad;

	argp_err_exit_status = CLI_USAGE;
	if (!asks_for_help(argc, argv))
		flags |= ARGP_NO_ERRS;
	if (argp_parse(argp, argc, argv, flags, NULL, input) == 0)
		return;
	bad = find_bad_option(argp, argc, argv);
	if (bad && !is_known_option(argp, bad))
		cli_usage_error(&state, "there is no option '%s'", bad);
	cli_usage_error(&state, "the option '%s' lacks its value, or has one that it does not take",
			bad ? bad : "");
}

int cli_fail(enum cli_exit status, const struct err *err)
{
	log_error("%s", err->text);
	return status;
}

int cli_find_paths(struct paths *ret, struct err *err)
{
	struct settings settings;
	int r = settings_open(&settings, err);

	*ret = settings.paths;
	settings_close(&settings);
	if (r == -EINVAL)
		exit(cli_fail(CLI_USAGE, err));
	return r;
}

int cli_find_paths_to_ask(struct paths *ret, struct err *err)
{
	struct settings settings;
	int r = settings_open(&settings, err);

	*ret = settings.paths;
	settings_close(&settings);
	if (r == 0)
		live_follow_daemon(ret, R_OK);
	return r;
}

int cli_find_paths_to_read(struct paths *ret, struct err *err)
{
	int r = cli_find_paths_to_ask(ret, err);

	if (r != -EINVAL)
		return r;
	if (access(ret->db, R_OK) < 0)
		exit(cli_fail(CLI_USAGE, err));
	log_warning("%s; %s is read all the same, as without that file", err->text, ret->db);
	return 0;
}

static int open_store(const struct paths *paths, enum store_mode mode, struct store **ret,
		      struct err *err)
{
	/* To write it would be made. */
	int r = access(paths->db, F_OK) < 0 && errno == ENOENT
			? -ENOENT
			: store_open(paths->db, mode, ret, err);

	if (r == -ENOENT)
		return err_set(
			err, r,
			"nothing has been recorded yet in %s: try \"proctor run -- COMMAND\"",
			paths->state_dir);
	if (r == 0)
		store_set_alive_check(*ret, daemon_check_alive, NULL);
	return r;
}

static void tell_kept(const struct paths *paths)
{
	if (store_has_kept(paths->db))
		log_warning("how some attempts ended waits in %s-spool until the database can be "
			    "written: they may look lost",
			    paths->db);
}

int cli_open_store(const struct paths *paths, struct store **ret, struct err *err)
{
	int r = open_store(paths, STORE_READ, ret, err);

	if (r == 0)
		tell_kept(paths);
	return r;
}

int cli_open_store_again(const struct paths *paths, struct store **ret, struct err *err)
{
	return open_store(paths, STORE_READ, ret, err);
}

int cli_open_store_to_write(const struct paths *paths, struct store **ret, struct err *err)
{
	int r = open_store(paths, STORE_WRITE, ret, err);

	if (r == 0)
		tell_kept(paths);
	return r;
}

static void tell_damage(struct store *store)
{
	CLEANUP(buf_release) struct buf what = BUF_INIT;

	if (store_tell_damage(store, &what))
		log_warning("left out, as it is damaged in the database or a newer proctor wrote "
			    "it: %s; \"proctor doctor\" looks through all of it",
			    what.data);
}

void cli_warn_of_cut_events(struct store *store, const struct event_filter *filter)
{
	CLEANUP(buf_release) struct buf whose = BUF_INIT;

	if (store_tell_cut_events(store, filter, &whose, NULL) > 0)
		log_warning("not all process events are listed: %s", whose.data);
}

void cli_store_cleanup(struct store **store)
{
	if (*store)
		tell_damage(*store);
	*store = store_close(*store);
}

static int check_job(struct store *store, const char *job_id, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt_filter filter = { .job_id = job_id, .latest_only = true, .limit = 1 };
	int r = job_id ? store_list_attempts(store, &filter, &list, err) : 0;

	if (r == 0 && job_id && list.n == 0)
		return err_set(err, -ENOENT,
			       "no job %s was recorded: \"proctor jobs\" lists those there are",
			       job_id);
	return r;
}

int cli_open_record(const char *job_id, struct store **ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct paths paths;
	int r = cli_find_paths_to_read(&paths, err);

	if (r < 0)
		return r;
	r = cli_open_store(&paths, &store, err);
	if (r == -ENOENT && !job_id)
		r = 0;
	else if (r == 0)
		r = check_job(store, job_id, err);
	if (r == 0)
		*ret = TAKE_PTR(store);
	return r;
}

const char *cli_parse_job_id(const struct argp_state *state, const char *text)
{
	if (text[0] == '\0')
		cli_usage_error(state, "the id of the job is empty");
	return text;
}

double cli_parse_duration(const struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_duration(text, &seconds) < 0 || !isfinite(seconds) || seconds <= 0)
		cli_usage_error(state,
				"%s wants a length of time such as 30s, 5m, 2h30m or 7d, not '%s'",
				option, text);
	return seconds;
}

uint64_t cli_parse_ago(const struct argp_state *state, const char *option, const char *text)
{
	return cli_time_ago(cli_parse_duration(state, option, text));
}

uint64_t cli_time_ago(double seconds)
{
	uint64_t now = clock_wall_ns();

	return seconds * 1e9 < (double)now ? now - (uint64_t)(seconds * 1e9) : 1;
}

void cli_check_period(const struct argp_state *state, uint64_t since_ns, uint64_t until_ns)
{
	if (until_ns != 0 && since_ns >= until_ns)
		cli_usage_error(state, "--until wants a shorter time ago than the beginning: from "
				       "2h ago until 1h ago");
}

int cli_parse_int(const struct argp_state *state, const char *option, const char *text, int min,
		  int max)
{
	int64_t value = 0;

	if (num_parse_i64(text, &value) < 0 || value < min || value > max)
		cli_usage_error(state, "%s wants a whole number from %d to %d, not '%s'", option,
				min, max, text);
	return (int)value;
}

int cli_print(const struct buf *out)
{
	int r = buf_error(out);

	/* By now no child can inherit this. */
	signal(SIGPIPE, SIG_IGN);
	if (r == 0)
		r = io_write_all(STDOUT_FILENO, out->data, out->len);
	if (r == 0)
		return CLI_DONE;
	if (r != -EPIPE) /* a reader that has seen enough, as in "| head", is no news */
		log_error("cannot write the output: %s", strerror(-r));
	return CLI_FAILED;
}

void cli_add_text(struct buf *out, const char *text, size_t max)
{
	size_t n = strlen(text), columns = 0;

	for (size_t i = 0; i < n && columns < max; columns++)
		i += utf8_add_shown(out, text + i, n - i);
}

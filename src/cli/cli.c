#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/suggest.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/daemon.h"
#include "query/query.h"
#include "rpc/rpc.h"

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

void cli_reject(char **argv, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cli_usage_error(&(struct argp_state){ .name = argv[0] }, "%s", text);
}

/* ---- options that set a member ---- */

static const char *parse_job_id(const struct argp_state *state, const char *text)
{
	if (text[0] == '\0')
		cli_usage_error(state, "the id of the job is empty");
	return text;
}

/* argp puts the table below one of its own, with --help. */
static const struct argp_option *rows_of(const struct argp_state *state)
{
	const struct argp *root = state->root_argp;

	return root->options || !root->children ? root->options : root->children[0].argp->options;
}

/* NULL: there is none, or another parser has it. */
static const struct argp_option *find_row(const struct argp_state *state, int key, const char *name)
{
	const struct argp_option *real = NULL;

	for (const struct argp_option *o = rows_of(state); o && (o->name || o->key); o++) {
		real = o->flags & OPTION_ALIAS ? real : o;
		if (name ? o->name && strcmp(o->name, name) == 0 : o->key == key)
			return real->key >> 16 ? real : NULL;
	}
	return NULL;
}

static void *member_of(const struct argp_state *state, const struct argp_option *o)
{
	return (char *)state->input + (o->key & 0xffff);
}

static void parse_word(const struct argp_state *state, const char *arg)
{
	for (const struct argp_option *o = rows_of(state); o->name || o->key; o++) {
		const char **word = member_of(state, o);

		if (o->key >> 16 != CLI_THE_WORD || *word)
			continue;
		*word = strstr(o->arg ? o->arg : "", "job?") ? parse_job_id(state, arg) : arg;
		return;
	}
	if (find_row(state, 0, "job"))
		cli_usage_error(state, "'%s' is one word too many; say --job %s", arg, arg);
	cli_usage_error(state, "'%s' is one word too many", arg);
}

static uint64_t moment_of(const struct argp_state *state, const char *name)
{
	const struct argp_option *o = find_row(state, 0, name);

	return o && o->key >> 16 == CLI_AGO ? *(uint64_t *)member_of(state, o) : 0;
}

static error_t end_parsing(const struct argp_state *state)
{
	uint64_t since = moment_of(state, "since"), until = moment_of(state, "until");

	for (const struct argp_option *o = rows_of(state); o->name || o->key; o++)
		if (o->key >> 16 == CLI_THE_WORD && o->arg && !*(char **)member_of(state, o))
			cli_usage_error(state, "%s", o->arg);
	since = since ? since : moment_of(state, "history");
	if (until != 0 && since >= until)
		cli_usage_error(state, "--until wants a shorter time ago than the beginning: from "
				       "2h ago until 1h ago");
	return 0;
}

/* The words of the help are those that there are. */
static int parse_choice(const struct argp_state *state, const struct argp_option *o,
			const char *arg)
{
	const size_t len = strcspn(o->doc, "("), end = len - (o->doc[len] == '(');
	const size_t n = strlen(arg);
	int value = 0;

	for (size_t at = 0; at < end; value++) {
		size_t word = strcspn(o->doc + at, ", ");

		word = word < end - at ? word : end - at;
		if (word == n && strncmp(o->doc + at, arg, n) == 0)
			return value;
		at += word;
		at += strspn(o->doc + at, ", ");
		at += strncmp(o->doc + at, "or ", 3) == 0 ? 3 : 0;
	}
	cli_usage_error(state, "--%s wants %.*s, not '%s'", o->name, (int)end, o->doc, arg);
}

error_t cli_parse_option(int key, char *arg, struct argp_state *state)
{
	const struct argp_option *o = find_row(state, key, NULL);
	void *member = o ? member_of(state, o) : NULL;
	struct cli_words *rest = NULL;
	char name[64];

	for (const struct argp_option *row = rows_of(state); row && (row->name || row->key); row++)
		rest = row->key >> 16 == CLI_THE_REST ? member_of(state, row) : rest;

	if (rest && key == ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN; /* they come together */
	if (rest && key == ARGP_KEY_ARGS) {
		*rest = (struct cli_words){ state->argv + state->next, state->argc - state->next };
		state->next = state->argc;
		return 0;
	}
	if (key == ARGP_KEY_ARG)
		parse_word(state, arg);
	if (key == ARGP_KEY_ARG || key == ARGP_KEY_END)
		return key == ARGP_KEY_END ? end_parsing(state) : 0;
	if (!o)
		return ARGP_ERR_UNKNOWN;
	snprintf(name, sizeof(name), "--%s", o->name);
	switch (o->key >> 16) {
	case CLI_FLAG:
		*(bool *)member = true;
		return 0;
	case CLI_TEXT:
		if (arg[0] == '\0' && strcmp(o->name, "job") == 0)
			parse_job_id(state, arg);
		if (arg[0] == '\0')
			cli_usage_error(state, "%s wants %s, not nothing", name, o->arg);
		*(const char **)member = arg;
		return 0;
	case CLI_NUMBER:
		*(int *)member = cli_parse_int(state, name, arg, 1, INT32_MAX);
		return 0;
	case CLI_AGO:
		*(uint64_t *)member = cli_time_ago(cli_parse_duration(state, name, arg));
		return 0;
	case CLI_A_CHOICE:
		*(int *)member = parse_choice(state, o, arg);
		return 0;
	case CLI_A_COUNT:
		if (num_parse_u64(arg, member) < 0 || !u64_known(*(uint64_t *)member))
			cli_usage_error(state, "%s wants a number, not '%s'", name, arg);
		return 0;
	default:
		*(double *)member = cli_parse_duration(state, name, arg);
		return 0;
	}
}

/* ---- all of them ---- */

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "--usage") == 0 || strcmp(arg, "-?") == 0;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (is_help(argv[i]))
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
	struct argp own = *argp;
	const char *bad;

	own.parser = argp->parser ? argp->parser : cli_parse_option;
	argp_err_exit_status = CLI_USAGE;
	if (!asks_for_help(argc, argv))
		flags |= ARGP_NO_ERRS;
	if (argp_parse(&own, argc, argv, flags, NULL, input) == 0)
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

/* ---- where the daemon records ---- */

#define DAEMON_TIMEOUT_MS 2000 /* a driver of GPUs that begins takes about as long */

struct rpc_value *cli_ask_soon(const char *path, const char *method)
{
	const struct rpc_client_options options = { .path = path, .timeout_ms = DAEMON_TIMEOUT_MS };
	struct rpc_client *client = NULL;
	struct rpc_value *answer = NULL;

	if (rpc_client_open(&options, &client, NULL) == 0)
		rpc_client_call(client, method, NULL, &answer, NULL);
	rpc_client_close(client);
	return answer;
}

void cli_follow_daemon(struct paths *paths, int mode)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL;
	struct socket_paths sockets;
	struct stat file, socket;
	const char *db;

	/* A file that is older than the socket is in force. Another socket is not of this place. */
	if (socket_paths_find(&sockets, NULL) < 0 || stat(paths->config, &file) < 0 ||
	    lstat(sockets.items[0], &socket) < 0 || file.st_mtime < socket.st_mtime)
		return;
	status = cli_ask_soon(sockets.items[0], "daemon.status");
	db = rpc_value_string(rpc_value_get(status, "database"));
	if (!db || strcmp(db, paths->db) == 0 || strlen(db) >= sizeof(paths->db) ||
	    access(db, mode) < 0)
		return;
	log_warning("the daemon records into %s until it is started again: that is used, and not "
		    "%s",
		    db, paths->db);
	snprintf(paths->db, sizeof(paths->db), "%s", db);
}

/* ---- our own files ---- */

int cli_find_paths(struct paths *ret, struct err *err)
{
	struct settings settings;
	int r = cli_open_settings(&settings, err);

	*ret = settings.paths;
	settings_close(&settings);
	return r;
}

int cli_find_paths_to_ask(struct paths *ret, struct err *err)
{
	struct settings settings;
	int r = settings_open(&settings, err);

	*ret = settings.paths;
	settings_close(&settings);
	if (r == 0)
		cli_follow_daemon(ret, R_OK);
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

int cli_open_store(const struct paths *paths, enum store_mode mode, struct store **ret,
		   struct err *err)
{
	/* Of logs alone it is made by a reader; to write it would be made of nothing. */
	int r = access(paths->db, F_OK) < 0 && errno == ENOENT
			? store_open(paths->db, STORE_READ, ret, err)
			: 0;

	if (r == 0) {
		*ret = store_close(*ret);
		r = store_open(paths->db, mode, ret, err);
	}
	if (r == -ENOENT)
		return err_set(
			err, r,
			"nothing has been recorded yet in %s: try \"proctor run -- COMMAND\"",
			paths->state_dir);
	if (r == 0)
		store_set_alive_check(*ret, daemon_check_alive, NULL);
	return r;
}

void cli_warn_of_cut_events(struct store *store, const struct event_filter *filter)
{
	CLEANUP(buf_release) struct buf whose = BUF_INIT;

	if (store_tell_cut_events(store, filter, &whose, NULL) > 0)
		log_warning("not all process events are listed: %s", whose.data);
}

void cli_store_cleanup(struct store **store)
{
	CLEANUP(buf_release) struct buf what = BUF_INIT;

	if (*store && store_tell_damage(*store, &what))
		log_warning("left out, as it is damaged in the database or a newer proctor wrote "
			    "it: %s; \"proctor doctor\" looks through all of it",
			    what.data);
	*store = store_close(*store);
}

int cli_open_record(const char *job_id, struct store **ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt_filter filter = { .job_id = job_id, .latest_only = true, .limit = 1 };
	struct paths paths;
	int r = cli_find_paths_to_read(&paths, err);

	if (r < 0)
		return r;
	r = cli_open_store(&paths, STORE_READ, &store, err);
	if (r == -ENOENT && !job_id)
		return 0;
	if (r == 0 && job_id)
		r = store_list_attempts(store, &filter, &list, err);
	if (r == 0 && job_id && list.n == 0)
		r = err_set(err, -ENOENT,
			    "no job %s was recorded: \"proctor jobs\" lists those there are",
			    job_id);
	if (r == 0)
		*ret = TAKE_PTR(store);
	return r;
}

double cli_parse_duration(const struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_time(text, &seconds) < 0 || !isfinite(seconds) || seconds <= 0)
		cli_usage_error(state,
				"%s wants a length of time such as 30s, 5m, 2h30m or 7d, not '%s'",
				option, text);
	return seconds;
}

uint64_t cli_time_ago(double seconds)
{
	uint64_t now = clock_wall_ns();

	return seconds * 1e9 < (double)now ? now - (uint64_t)(seconds * 1e9) : 1;
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

void cli_parse_subject(char **argv, const char *text, struct cli_subject *ret)
{
	const struct argp_state state = { .name = argv[0] };
	const char *mark = strchr(text, '#');
	size_t len = mark ? (size_t)(mark - text) : strlen(text);

	if (len == 0 || len > JOB_ID_MAX)
		cli_reject(argv, "'%s' is no job; \"proctor jobs\" lists them", text);
	*ret = (struct cli_subject){ 0 };
	memcpy(ret->job_id, text, len);
	if (mark)
		ret->attempt_num = cli_parse_int(&state, "JOB#", mark + 1, 1, 1000000000);
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

int cli_print_answer(const struct rpc_value *answer)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	rpc_value_write(answer, &j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	json_key(ctx, key);
	rpc_value_write(member, ctx);
}

void cli_write_members(struct json *j, const struct rpc_value *object)
{
	rpc_value_each(object, write_member, j);
}

void cli_add_text(struct buf *out, const char *text, size_t max)
{
	size_t n = strlen(text), columns = 0;

	for (size_t i = 0; i < n && columns < max; columns++)
		i += utf8_add_shown(out, text + i, n - i);
}

int cli_open_stop_fd(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the daemon ---- */

int cli_call(const char *method, const char *params, struct rpc_value **ret, struct err *err)
{
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = rpc_client_call(client, method, params, ret, err);
	rpc_client_close(client);
	return r;
}

void cli_value_cleanup(struct rpc_value **value)
{
	*value = rpc_value_free(*value);
}

/* ---- verbs of verbs ---- */

#define NAME_BYTES 64

static void name_item(const struct cli_sub_table *t, size_t i, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "proctor %s %s", t->verb, t->items[i].name);
}

static int tell_items(const struct cli_sub_table *t, const char *name)
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

int cli_run_sub(const struct cli_sub_table *t, int argc, char **argv)
{
	if (argc > 1 && is_help(argv[1])) {
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

/* ---- for verbs that learn from the record ---- */

int cli_open_settings(struct settings *ret, struct err *err)
{
	int r = settings_open(ret, err);

	if (r == -EINVAL)
		exit(cli_fail(CLI_USAGE, err));
	return r;
}

int cli_open_learned(const struct settings *settings, struct store **ret, bool *ret_is_writable,
		     struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r = cli_open_store(&settings->paths, STORE_WRITE, &store, err);

	*ret = NULL;
	*ret_is_writable = r == 0;
	if (r == 0)
		r = learning_catch_up(store, 0, NULL, err);
	if (r == -EACCES || r == -EPERM || r == -EROFS) {
		store = store_close(store);
		*ret_is_writable = false;
		log_error("%s; what has ended since is left out, and nothing is kept", err->text);
		r = cli_open_store(&settings->paths, STORE_READ, &store, err);
	}
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		*ret = TAKE_PTR(store);
	return r;
}

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"
#include "rpc/rpc.h"

#define FILE_MAX_BYTES (15 << 20) /* so that the request is below 16 MiB */

struct submit_args {
	const char *file, *job_id;
	bool json;
};

static const struct argp_option submit_options[] = {
	CLI_WORD(submit_args, file, "which job file?"),
	CLI_OPTION("job", submit_args, job_id, "ID",
		   "The job's id instead of the file's or a made-up one"),
	CLI_OPTION("json", submit_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp submit_argp = {
	.options = submit_options,
	.args_doc = "JOB_FILE",
	.doc = "Hands a job file to the daemon, which runs it when its turn comes, in this folder.\v"
	       "Prints the job's id; without --job, and none in the file, each time another, so that "
	       "a file can be submitted again while it runs (\"run -f\" names a job after its "
	       "file). Its output goes to logs/ID.log (with % for /) beside the database. It gets the "
	       "environment, umask and limits of the daemon, not of this shell. A job that runs does "
	       "not depend on the daemon.",
};

/*
 * What can be seen from here is refused here, with its line: the daemon does not look at the
 * folders of others, and by the time that it starts the job nobody may be reading. Nor does it
 * look at the files that the job names.
 */
static int read_file(const char *path, struct buf *text, uint64_t *ret_input_bytes, struct err *err)
{
	CLEANUP(job_spec_release) struct job_spec spec;
	int r = io_read_document(path, FILE_MAX_BYTES, text, err);

	job_spec_init(&spec);
	if (r < 0)
		return r;
	if (text->len == 0)
		return err_set(err, -EINVAL, "%s is empty: it is no job file", path);
	if (strlen(text->data) != text->len)
		return err_set(err, -EINVAL, "%s holds a NUL: it is no job file", path);
	r = job_file_parse(text->data, text->len, path, true, &spec, err);
	if (r == 0)
		*ret_input_bytes = job_spec_measure_input(&spec).bytes;
	return r;
}

static int write_request(const struct submit_args *args, struct buf *out, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);
	uint64_t input_bytes = U64_UNKNOWN;
	struct json j;
	int r = read_file(args->file, &text, &input_bytes, err);

	if (r < 0)
		return r;
	if (!folder)
		return err_set(err, -errno, "the folder that the job would run in: %s",
			       strerror(errno));
	json_init_object(&j, out);
	json_key_string(&j, "file", text.data);
	json_key_string(&j, "name", args->file);
	json_key_string(&j, "workdir", folder);
	if (args->job_id)
		json_key_string(&j, "job_id", args->job_id);
	if (u64_known(input_bytes))
		json_key_u64(&j, "input_bytes", input_bytes);
	json_end_object(&j);
	return buf_error(out);
}

int cli_submit(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf request = BUF_INIT, out = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	struct submit_args args = { 0 };
	struct err err = ERR_INIT;
	const char *warning, *job_id;
	int r;

	cli_parse(&submit_argp, argc, argv, 0, &args);
	if (write_request(&args, &request, &err) < 0)
		return cli_fail(CLI_USAGE, &err);
	r = cli_call("job.submit", request.data, &answer, &err);
	/* The request is on its way, and may be read when nobody waits for the answer any more. */
	if (r == -ETIMEDOUT)
		err_set(&err, r,
			"the daemon did not answer in time: it may take the job all the same, see "
			"\"proctor jobs\" before you try again");
	if (r == -ECONNRESET)
		err_set(&err, r,
			"the daemon went away before it answered: it may have taken the job, see "
			"\"proctor jobs\" before you try again");
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
	warning = remote_text(answer, "warning");
	job_id = remote_text(answer, "job_id") ?: "";
	if (warning)
		log_warning("job %s: %s", job_id, warning);
	if (args.json)
		return cli_print_answer(answer);
	cli_add_text(&out, job_id, 200);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}

struct attach_args {
	int pid;
	const char *job_id;
	bool json;
};

static const struct argp_option attach_options[] = {
	CLI_OPTION("pid", attach_args, pid, "PID",
		   "The process to attach, with all that it has started (required)"),
	CLI_OPTION("job", attach_args, job_id, "ID", "The job's id (required)"),
	CLI_OPTION("json", attach_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp attach_argp = {
	.options = attach_options,
	.args_doc = "--pid=PID --job=ID",
	.doc = "Makes a process that something else started, and all below it, a job.\v"
	       "The daemon records it from now on, and its end when the last of its processes is "
	       "gone. How it ended is known only where the kernel tells of it.",
};

int cli_attach(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct attach_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;
	int r;

	cli_parse(&attach_argp, argc, argv, 0, &args);
	if (!args.pid)
		cli_reject(argv, "which process? say --pid PID");
	if (!args.job_id)
		cli_reject(argv, "as which job? say --job ID");
	json_init_object(&j, &params);
	json_key_i64(&j, "pid", args.pid);
	json_key_string(&j, "job_id", args.job_id);
	json_end_object(&j);
	r = cli_call("job.attach", params.data, &answer, &err);
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
	/* It may be meant; but mostly somebody has looked for the wrong pid. */
	if (proc_is_ancestor(args.pid))
		log_warning("process %d has started this very command: all that it starts from now "
			    "on is of the job %s, and canceling that ends it",
			    args.pid, args.job_id);
	return args.json ? cli_print_answer(answer) : CLI_DONE;
}

#define NO_DAEMON (-ENODEV)

/* ---- "wait" and "cancel": a job, and the answer of the daemon, or of our own database ---- */

struct job_question {
	const char *job_id;
	int attempt;	  /* 0: the last, or to cancel: all that run */
	const char *user; /* as it is given */
	uint64_t uid;	  /* whose; U64_UNKNOWN: one's own, or the only one */
	bool only_queued;
	bool must_be_sure; /* of the number: the attempt is ended */
	bool json;
};

#define JOB_QUESTION_INIT          \
	{                          \
		.uid = U64_UNKNOWN \
	}

static void parse_question(const struct argp *argp, int argc, char **argv,
			   struct job_question *args)
{
	const struct passwd *account;

	cli_parse(argp, argc, argv, 0, args);
	account = args->user ? getpwnam(args->user) : NULL;
	if (account)
		args->uid = account->pw_uid;
	else if (args->user &&
		 (num_parse_u64(args->user, &args->uid) < 0 || args->uid >= UINT32_MAX))
		cli_reject(argv, "--user wants a user of this host, not '%s'", args->user);
	if (args->only_queued && args->attempt > 0)
		cli_reject(argv, "--attempt or --queued, not both: what waits has no number yet");
}

/* What our own database has of the job, which may be nothing. */
static int read_own(const char *job_id, struct attempt_list *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	const struct attempt_filter filter = { .job_id = job_id };
	struct paths paths;
	int r = cli_find_paths_to_ask(&paths, err);

	if (r < 0 && r != -EINVAL) /* a bad configuration is no reason not to end a job */
		return r;
	r = cli_open_store(&paths, STORE_READ, &store, err);
	if (r == 0)
		r = store_list_attempts(store, &filter, ret, err);
	return r == -ENOENT ? 0 : r;
}

/*
 * "jobs" and "report" count by our own database, the daemon by its own: it is asked by its number.
 * A database that cannot be read is no reason not to wait for a job, or not to end it: whoever
 * waits is warned that the number may be another's. An attempt is ended only where the daemon knows
 * but that one of this user, as what is ended by mistake is lost.
 */
static int translate(const struct job_question *args, int *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 }, theirs = { 0 };
	uint64_t uid = u64_known(args->uid) ? args->uid : geteuid();
	struct err why = ERR_INIT;
	size_t n = 0, n_meant = 0;
	int r = read_own(args->job_id, &own, &why);

	if (r == -ENOMEM) {
		*err = why;
		return r;
	}
	r = remote_add_all(&(struct remote_question){ .job_id = args->job_id }, &theirs, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < theirs.n; i++) {
		n += theirs.items[i].uid == uid;
		n_meant +=
			theirs.items[i].uid == uid && theirs.items[i].attempt_num == args->attempt;
	}
	if (why.code && args->must_be_sure && (n != 1 || n_meant != 1)) {
		log_warning("%s", why.text);
		return err_set(
			err, -EINVAL,
			"attempt %d of %s may be another as the daemon counts, which knows of %zu",
			args->attempt, args->job_id, n);
	}
	if (why.code)
		log_warning("%s; attempt %d is taken as the daemon counts", why.text,
			    args->attempt);
	*ret = remote_match_number(&own, &theirs, args->attempt);
	return *ret > 0 ? 0
			: err_set(err, -ENOENT, "the daemon knows of no attempt %d of a job %s",
				  args->attempt, args->job_id);
}

/* Asks a daemon, and waits for the answer however long it takes. NO_DAEMON: none runs. */
static int ask_about(const char *method, const struct job_question *args, struct rpc_value **ret,
		     struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int attempt = 0, r = rpc_client_open(&options, &client, err);
	struct json j;

	if (r < 0)
		return r == -ENOENT ? NO_DAEMON : r;
	if (args->attempt > 0)
		r = translate(args, &attempt, err);
	json_init_object(&j, &params);
	json_key_string(&j, "job_id", args->job_id);
	if (attempt > 0)
		json_key_i64(&j, "attempt", attempt);
	if (u64_known(args->uid))
		json_key_u64(&j, "uid", args->uid);
	if (args->only_queued)
		json_key_bool(&j, "queued", true);
	json_end_object(&j);
	rpc_client_set_timeout(client, RPC_FOREVER);
	if (r == 0)
		r = rpc_client_call(client, method, params.data, ret, err);
	rpc_client_close(client);
	return r;
}

/*
 * How many submissions of a job have not begun, of those that wait for a daemon with this database.
 * uid: whose; U64_UNKNOWN: of anybody. recorded: those that were started and are not among these
 * count too, unless it is NULL.
 */
static size_t count_queued(const struct paths *paths, const char *job_id, uint64_t uid,
			   const struct attempt_list *recorded)
{
	char folder[PATH_BYTES + 16];
	struct queue *queue = NULL;
	const struct queued *job;
	size_t n = 0;

	snprintf(folder, sizeof(folder), "%s/queue", paths->state_dir);
	if (queue_open(folder, NULL, &queue, NULL) < 0)
		return 0;
	for (size_t i = 0; (job = queue_at(queue, i)); i++) {
		bool has_begun = job->is_started && !recorded;

		for (size_t k = 0; job->is_started && recorded && k < recorded->n; k++)
			has_begun |= u64_known(job->submission) &&
				     recorded->items[k].submission == job->submission;
		n += strcmp(job->job_id, job_id) == 0 && (!u64_known(uid) || job->uid == uid) &&
		     !has_begun;
	}
	queue_close(queue);
	return n;
}

#define BACK_PATIENCE_NS UINT64_C(30000000000)

static const struct argp_option wait_options[] = {
	CLI_WORD(job_question, job_id, "which job? \"proctor jobs\" lists them"),
	CLI_OPTION("attempt", job_question, attempt, "N",
		   "This attempt of it, as \"jobs\" numbers them, instead of the last"),
	CLI_OPTION("json", job_question, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp wait_argp = {
	.options = wait_options,
	.args_doc = "JOB",
	.doc = "Waits until a job is over, and tells how it ended.\v"
	       "Exits with 0 if that was success, else with 1; with 3 if nobody can tell: there is no "
	       "daemon, or it went away and none came back within 30 seconds, and the job is not "
	       "recorded here. One that is needs no daemon.",
};

/* ---- how it ended ---- */

/* How the job ended: of the attempt the number is that of our own database, and its memory is that
 * of own, which has what that database has of the job. */
/* Attempt num of it, or if that is 0 the last one: one's own, where other users have some of that
 * name. */
static const struct attempt *choose(const struct attempt_list *recorded, int num)
{
	const struct attempt *best = NULL;

	for (size_t i = 0; i < recorded->n; i++) {
		const struct attempt *a = &recorded->items[i];
		bool is_own = a->uid == geteuid(), was_own = best && best->uid == geteuid();

		if (num != 0 && a->attempt_num != num)
			continue;
		if (!best || (is_own != was_own ? is_own : a->attempt_num > best->attempt_num))
			best = a;
	}
	return best;
}

/*
 * By our own database. -EINPROGRESS: it runs. NO_DAEMON: nobody can tell. Whether another was to
 * come after the last one only its daemon would know.
 */
static int look_alone(const struct job_question *args, struct attempt_list *own,
		      struct attempt *ret, struct err *err)
{
	const struct attempt *a;
	struct paths paths;

	attempt_list_release(own);
	if (read_own(args->job_id, own, err) < 0)
		return NO_DAEMON;
	if (args->attempt == 0 && cli_find_paths_to_read(&paths, NULL) == 0 &&
	    count_queued(&paths, args->job_id, geteuid(), own) > 0)
		return err_set(err, NO_DAEMON, "job %s waits for a daemon, and none is running",
			       args->job_id);
	a = choose(own, args->attempt);
	if (!a)
		return err_set(err, NO_DAEMON,
			       "no daemon is running, and %s of job %s is recorded here",
			       args->attempt > 0 ? "no such attempt" : "nothing", args->job_id);
	if (!u64_known(a->ended_wall_ns) && a->is_attached)
		return err_set(err, NO_DAEMON,
			       "job %s was attached, and no daemon is running that would hear how "
			       "it ends",
			       args->job_id);
	if (a->is_running)
		return -EINPROGRESS;
	*ret = *a;
	if (args->attempt == 0)
		log_warning("no daemon is running: this is attempt %d, the last that is recorded",
			    a->attempt_num);
	return 0;
}

/* -EINPROGRESS: there is no daemon, and it runs. NO_DAEMON: there is none, and we cannot tell. */
static int look_for_end(const struct job_question *args, struct attempt_list *own,
			struct attempt *ret, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(attempt_list_release) struct attempt_list now = { 0 };
	int r = ask_about("job.wait", args, &answer, err);

	if (r == NO_DAEMON)
		return look_alone(args, own, ret, err);
	if (r < 0)
		return r;
	if (remote_attempt(answer, &own->arena, ret) < 0)
		return err_set(err, -EBADMSG, "what the daemon says of %s cannot be read",
			       args->job_id);
	if (read_own(args->job_id, &now, NULL) == 0)
		ret->attempt_num = remote_number_here(&now, ret);
	return 0;
}

/*
 * A daemon may be killed or upgraded while we wait: its jobs go on, and the next one knows them.
 * Until it is there, and until it knows how those ended that are not its own (-EBUSY), it is asked
 * again; meanwhile our own database is, and what runs by that is waited for in any case. A job that
 * was never there is an error at once.
 */
static enum cli_exit wait_for(const struct job_question *args, struct attempt_list *own,
			      struct attempt *ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 500000000 };
	uint64_t until_ns = 0;

	for (;;) {
		int r = look_for_end(args, own, ret, err);
		/* the daemon that was asked is there no more */
		bool is_gone = r == -ECONNRESET || r == -ENOTCONN || r == -EPIPE || r == -ESHUTDOWN;

		if (r == 0)
			return CLI_DONE;
		if (is_gone || r == -EINPROGRESS || (r == -EBUSY && until_ns == 0))
			until_ns = clock_boot_ns() + BACK_PATIENCE_NS;
		else if (until_ns == 0 || (r != -ENOENT && r != -EBUSY && r != NO_DAEMON))
			return r == NO_DAEMON ? CLI_UNKNOWN : CLI_FAILED;
		if (clock_boot_ns() >= until_ns)
			return CLI_UNKNOWN;
		nanosleep(&pause, NULL);
	}
}

int cli_wait(int argc, char **argv)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const struct attempt *recorded = NULL;
	struct attempt end;
	struct job_question args = JOB_QUESTION_INIT;
	enum cli_exit status = CLI_DONE;
	struct err err = ERR_INIT;
	struct json j;

	parse_question(&wait_argp, argc, argv, &args);
	/* what our own database knows the end of needs no daemon, which may not have it */
	if (args.attempt > 0 && read_own(args.job_id, &own, NULL) == 0)
		recorded = choose(&own, args.attempt);
	if (recorded && u64_known(recorded->ended_wall_ns))
		end = *recorded;
	else
		status = wait_for(&args, &own, &end, &err);
	if (status != CLI_DONE)
		return cli_fail(status, &err);
	json_init(&j, &out);
	if (args.json) {
		json_begin_object(&j);
		attempt_write_fields(&j, &end, attempt_status_name(&end));
		json_end_object(&j);
	} else {
		/* where there is no outcome its runner has vanished, or nobody told how it ended */
		buf_printf(&out, "%s %s", args.job_id,
			   end.outcome != OUTCOME_NONE ? outcome_name(end.outcome)
			   : end.is_lost	       ? "lost"
						       : "unknown");
	}
	buf_add_char(&out, '\n');
	status = cli_print(&out);
	return status != CLI_DONE || end.outcome != OUTCOME_SUCCESS ? CLI_FAILED : CLI_DONE;
}

#define START_PATIENCE_NS UINT64_C(5000000000) /* a runner begins within this */

static const struct argp_option cancel_options[] = {
	CLI_WORD(job_question, job_id, "which job? \"proctor jobs\" lists them"),
	CLI_OPTION("attempt", job_question, attempt, "N",
		   "Only this attempt of it, as \"jobs\" numbers them, and not all that run"),
	CLI_OPTION("queued", job_question, only_queued, NULL,
		   "Only what waits of it, and nothing that runs"),
	CLI_OPTION("user", job_question, user, "USER",
		   "The job of this user, where several have one of that name"),
	CLI_OPTION("json", job_question, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp cancel_argp = {
	.options = cancel_options,
	.args_doc = "JOB",
	.doc = "Ends a job: its processes get SIGTERM, and what is left of them SIGKILL.\v"
	       "All attempts of it that run are ended, and what waits of it never begins; more "
	       "than one that runs, and it says how many. "
	       "Without a daemon what waits is left, and said to be. "
	       "Who may end the jobs of others, and has none of that name, says whose if several "
	       "users have one: by --user, or by --attempt.",
};

/* ---- without a daemon ---- */

static bool is_meant(const struct attempt *a, int attempt_num, uint64_t uid)
{
	return a->is_running && (attempt_num == 0 || a->attempt_num == attempt_num) &&
	       (!u64_known(uid) || a->uid == uid);
}

#define MAX_NAMES_BYTES 200

/*
 * As a daemon takes a name: one's own, or else that of the only user who has one. Where nobody is
 * meant, whose was asked for stays.
 */
static int choose_user(const struct attempt_list *list, const struct job_question *q, uint64_t *uid,
		       struct err *err)
{
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	uint64_t chosen = U64_UNKNOWN;
	bool is_unclear = false;

	for (size_t i = 0; i < list->n; i++) {
		const struct attempt *a = &list->items[i];

		if (!is_meant(a, q->attempt, *uid))
			continue;
		is_unclear |= u64_known(chosen) && chosen != a->uid;
		if (chosen != geteuid())
			chosen = a->uid;
		if (names.len <= MAX_NAMES_BYTES)
			buf_printf(&names, "%suser %llu, attempt %d", names.len > 0 ? "; " : "",
				   (unsigned long long)a->uid, a->attempt_num);
	}
	if (is_unclear && chosen != geteuid())
		return err_set(err, -EINVAL, "several users have a job %s: say whose (%s)",
			       q->job_id, names.data);
	if (u64_known(chosen))
		*uid = chosen;
	return 0;
}

/* Who can write what the database says, if that is not root. */
static uint64_t find_keeper(const char *db)
{
	char folder[PATH_BYTES];
	struct stat st;

	if (stat(db, &st) < 0)
		return U64_UNKNOWN;
	if (st.st_uid != 0)
		return st.st_uid;
	snprintf(folder, sizeof(folder), "%s", db);
	return stat(dirname(folder), &st) < 0 ? U64_UNKNOWN : st.st_uid;
}

/*
 * The runner of an attached one is what was attached: it would end, and nothing below it. Root can
 * signal any process, so whoever keeps the database could name one that is not theirs.
 */
static int tell_runner(const struct attempt *a, uint64_t keeper, struct err *err)
{
	uint64_t uid = keeper == 0 ? a->uid : keeper;
	int r;

	if (a->is_attached)
		return err_set(err, -EOPNOTSUPP, "job %s was attached: only a daemon can end it",
			       a->job_id);
	if (!u64_known(uid) || !caller_is_process_of(a->runner.pid, (uid_t)uid))
		return err_set(err, -EPERM,
			       "pid %d, which is recorded as the runner of %s, is not of the user "
			       "whose record that is: it is left alone",
			       (int)a->runner.pid, a->job_id);
	r = signal_process(&a->runner, SIGTERM, RUNNER_CANCEL);
	return r < 0 ? err_set(err, r, "cannot cancel %s: %s", a->job_id, strerror(-r)) : 0;
}

/* *uid is whose are meant, in the end. */
static int end_running(const struct paths *paths, const struct job_question *q, uint64_t *uid,
		       size_t *ret_n, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = q->job_id };
	int r = cli_open_store(paths, STORE_READ, &store, err), failed = 0;

	if (r == 0)
		r = store_list_attempts(store, &filter, &list, err);
	if (r == 0 && list.n == 0)
		r = err_set(err, -ENOENT,
			    "no job %s was recorded: \"proctor jobs\" lists those there are",
			    q->job_id);
	if (r == 0)
		r = choose_user(&list, q, uid, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (!is_meant(&list.items[i], q->attempt, *uid))
			continue;
		r = tell_runner(&list.items[i], find_keeper(paths->db), failed ? NULL : err);
		*ret_n += r == 0;
		failed = failed ? failed : r;
	}
	if (!failed && *ret_n == 0)
		return err_set(err, -ESRCH, "job %s does not run any more", q->job_id);
	return failed;
}

/* The queue is a daemon's to change: so what waits is not cancelled, and nobody is to think so. */
static int cancel_alone(const struct job_question *q, size_t *ret_n, struct err *err)
{
	uint64_t uid = q->uid;
	struct paths paths;
	size_t n_waiting;
	int r = cli_find_paths_to_read(&paths, err);

	*ret_n = 0;
	if (r < 0)
		return r;
	if (q->only_queued)
		r = err_set(err, -ENOENT, "no job %s waits, and no daemon is running", q->job_id);
	else
		r = end_running(&paths, q, &uid, ret_n, err);
	if (q->attempt > 0 || (r < 0 && r != -ENOENT && r != -ESRCH))
		return r;
	n_waiting = count_queued(&paths, q->job_id, u64_known(uid) ? uid : q->uid, NULL);
	if (n_waiting == 0)
		return r;
	return err_set(err, -EBUSY,
		       "%zu of job %s in the queue cannot be cancelled without a daemon, and would "
		       "begin with the next one: \"proctor start\", and cancel again (%zu that ran "
		       "%s being ended)",
		       n_waiting, q->job_id, *ret_n, *ret_n == 1 ? "is" : "are");
}

int cli_cancel_alone(const char *job_id, int attempt_num, struct err *err)
{
	const struct job_question question = { .job_id = job_id,
					       .attempt = attempt_num,
					       .uid = U64_UNKNOWN };
	size_t n;

	return cancel_alone(&question, &n, err);
}

/* A job that was submitted just now has no runner yet that could be told: it will. */
int cli_cancel(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t until_ns = clock_boot_ns() + START_PATIENCE_NS, n;
	struct job_question args = JOB_QUESTION_INIT;
	struct err err = ERR_INIT;
	struct json j;
	size_t n_alone = 0;
	int r;

	args.must_be_sure = true;
	parse_question(&cancel_argp, argc, argv, &args);
	while ((r = ask_about("job.cancel", &args, &answer, &err)) == -EBUSY &&
	       clock_boot_ns() < until_ns)
		nanosleep(&pause, NULL);
	if (r == NO_DAEMON)
		r = cancel_alone(&args, &n_alone, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	n = answer ? rpc_value_u64(rpc_value_get(answer, "attempts")) : n_alone;
	if (args.json && answer)
		return cli_print_answer(answer);
	json_init(&j, &out);
	if (args.json) { /* as a daemon answers */
		json_begin_object(&j);
		json_key_string(&j, "job_id", args.job_id);
		json_key_bool(&j, "cancelling", true);
		json_key_u64(&j, "attempts", n);
		json_end_object(&j);
	} else if (u64_known(n) && n > 1) { /* more than who has one job in mind thinks of */
		buf_printf(&out, "%llu attempts of %s are being ended", (unsigned long long)n,
			   args.job_id);
	}
	if (out.len > 0)
		buf_add_char(&out, '\n');
	return out.len > 0 ? cli_print(&out) : CLI_DONE;
}

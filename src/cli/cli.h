/*
 * cli - the verbs, and what they share.
 *
 * Each verb is one file with one function of this type, and one row in the
 * table of main.c. Data goes to stdout, everything else to stderr.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "base/path.h"
#include "model/snapshot.h"
#include "store/store.h"

/* CLI_UNKNOWN is of "wait" alone: how the job ended cannot be found out. */
enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_UNKNOWN = 3 };

struct json;
struct rpc_value;

/* argv[0] is "proctor VERB". Returns the exit status. */
typedef int cli_verb(int argc, char **argv);

cli_verb cli_run, cli_snapshot, cli_jobs, cli_report, cli_history, cli_events, cli_top, cli_export,
	cli_sql, cli_doctor, cli_gc, cli_start, cli_stop, cli_submit, cli_wait, cli_cancel,
	cli_status, cli_config, cli_attach, cli_phase, cli_correlate, cli_patterns, cli_estimate,
	cli_outcome, cli_stack, cli_diff, cli_detect, cli_anomalies, cli_trace, cli_ranks, cli_why,
	cli_web;

/*
 * Rows of a table of options that only set a member of the parser's input. The type of the member
 * says how: bool is set, const char * is the text (not empty), int is a whole number from 1 on,
 * uint64_t is a moment so long ago, double is a length of time in seconds. CLI_SHORT() below such a
 * row gives it a letter.
 */
enum cli_kind {
	CLI_FLAG = 1,
	CLI_TEXT,
	CLI_NUMBER,
	CLI_AGO,
	CLI_SECONDS,
	CLI_A_CHOICE,
	CLI_A_COUNT,
	CLI_THE_WORD,
	CLI_THE_REST,
};
#define CLI_OPTION(name_, struct_, member_, arg_, help_)                                    \
	{                                                                                   \
		.name = name_, .arg = arg_, .doc = help_,                                 \
		.key = _Generic(((struct struct_ *)NULL)->member_,                        \
			bool: CLI_FLAG,                                                   \
			const char *: CLI_TEXT,                                           \
			int: CLI_NUMBER,                                                  \
			uint64_t: CLI_AGO,                                                \
			double: CLI_SECONDS)                                              \
				       << 16 |                                            \
			       (int)offsetof(struct struct_, member_), \
	}
/* An enum: help_ lists the words for its values in their order, "text, json or md", and what
 * follows in brackets. */
#define CLI_CHOICE(name_, struct_, member_, arg_, help_)                            \
	{                                                                           \
		.name = name_, .arg = arg_, .doc = help_,                           \
		.key = CLI_A_CHOICE << 16 | (int)offsetof(struct struct_, member_), \
	}
/* A uint64_t that is a number, from 0 on. */
#define CLI_COUNT(name_, struct_, member_, help_)                                  \
	{                                                                          \
		.name = name_, .arg = "N", .doc = help_,                           \
		.key = CLI_A_COUNT << 16 | (int)offsetof(struct struct_, member_), \
	}
/* All words, as those of a command (struct cli_words). */
struct cli_words {
	char **items;
	int n;
};
#define CLI_REST(struct_, member_)                                                  \
	{                                                                           \
		.key = CLI_THE_REST << 16 | (int)offsetof(struct struct_, member_), \
		.flags = OPTION_HIDDEN,                                             \
	}
/* A word that is no option; the question is for whoever leaves it out, or NULL where one may. */
#define CLI_WORD(struct_, member_, question_)                                       \
	{                                                                           \
		.key = CLI_THE_WORD << 16 | (int)offsetof(struct struct_, member_), \
		.flags = OPTION_HIDDEN, .arg = question_,                           \
	}
/* Of a verb that has no other option. */
struct cli_flag {
	bool is_set;
};
#define CLI_SHORT(letter_)                                 \
	{                                                  \
		NULL, letter_, NULL, OPTION_ALIAS, NULL, 0 \
	}

/*
 * The parser of such rows; a verb that has others calls it for what it does not know. A word is one
 * too many, an empty job is a variable that was not set, and --since (or --history) has to lie
 * before --until.
 */
error_t cli_parse_option(int key, char *arg, struct argp_state *state);

/* argp_parse() with the house rules: bad usage is one line, and exits with 2. Without a parser of
 * its own the table has cli_parse_option(). */
void cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* For option parsers: says what is wrong and what would be right, and exits with 2. */
void cli_usage_error(const struct argp_state *state, const char *fmt, ...) PRINTF_LIKE(2, 3)
	__attribute__((noreturn));

/* The same for verbs, of their arguments as a whole. */
void cli_reject(char **argv, const char *fmt, ...) PRINTF_LIKE(2, 3) __attribute__((noreturn));

/* Says "proctor: text" on stderr and returns status. */
int cli_fail(enum cli_exit status, const struct err *err);

/*
 * Where things are, for verbs that need no more than that. A bad configuration may
 * have named another database: it is told, and exits with 2.
 */
int cli_find_paths(struct paths *ret, struct err *err);

/*
 * The same for verbs that only read what was recorded, where secrets are masked already: a bad
 * configuration is warned of, and the database is the one that is used without any. Where there is
 * none it exits with 2, as above.
 */
int cli_find_paths_to_read(struct paths *ret, struct err *err);

/*
 * The same for verbs that ask a daemon as well, which may know more: -EINVAL is the bad
 * configuration, and ret as without it.
 */
int cli_find_paths_to_ask(struct paths *ret, struct err *err);

/*
 * A daemon keeps to the database that it began with until it is started again. If that is not the
 * one that the configuration has by now, and we may do with it what mode says (access(2)), it is
 * what paths->db says then, and that is warned of.
 */
void cli_follow_daemon(struct paths *paths, int mode);

/* The database, with lost runners distinguished from live ones; none is made. -ENOENT: nothing was
 * ever recorded. */
int cli_open_store(const struct paths *paths, enum store_mode mode, struct store **ret,
		   struct err *err);

/* An attempt (0: the latest) with all that a report has, and the store that it is from. */
int cli_read_judged(const char *job_id, int attempt_num, struct store **ret_store,
		    struct attempt *ret, struct err *err);

struct look;
struct wait_state;

/*
 * What each process of a running job does now or, where the word may be a pid, of its tree; *ret is
 * the caller's, also after a failure. look is zero but for root_fd -1, and to be closed. -ESRCH:
 * there is none.
 */
int cli_read_waits(const char *word, bool may_be_pid, struct look *look, struct wait_state **ret,
		   size_t *ret_n, struct err *err);

/* Asks the daemon. -ENOENT: none runs. ret may be NULL; its owner frees it. */
int cli_call(const char *method, const char *params, struct rpc_value **ret, struct err *err);
void cli_value_cleanup(struct rpc_value **value); /* for CLEANUP() */

/* The answer of a daemon that is there and answers within 2 s; NULL otherwise. path NULL: any. */
struct rpc_value *cli_ask_soon(const char *path, const char *method);

/* For CLEANUP(). Says what was left out of what was read, if something had to be. */
void cli_store_cleanup(struct store **store);

/* Says whose process events, of those that the filter has, are not all listed. */
void cli_warn_of_cut_events(struct store *store, const struct event_filter *filter);

/*
 * The same for verbs that print what was recorded, wherever that is. -ENOENT: no such job
 * (NULL is any). Where nothing was ever recorded *ret is NULL, and err says so.
 */
int cli_open_record(const char *job_id, struct store **ret, struct err *err);

/* A length of time that --since and the like take; cli_usage_error() for anything else. */
double cli_parse_duration(const struct argp_state *state, const char *option, const char *text);

/* The moment so many seconds ago, as unix nanoseconds; 1 for before 1970. */
uint64_t cli_time_ago(double seconds);

/* A whole number between min and max; cli_usage_error() otherwise. */
int cli_parse_int(const struct argp_state *state, const char *option, const char *text, int min,
		  int max);

/* "nightly", or "nightly#2" for its second attempt; cli_reject() for anything else. */
struct cli_subject {
	char job_id[JOB_ID_MAX + 1];
	int attempt_num; /* 0: the latest */
};
void cli_parse_subject(char **argv, const char *text, struct cli_subject *ret);

/* Writes out to stdout; CLI_FAILED with a message if that fails (disk full, closed pipe). */
int cli_print(const struct buf *out);

/* The answer of a daemon, as JSON on a line. */
int cli_print_answer(const struct rpc_value *answer);

/* All members of an object into one that has begun. */
void cli_write_members(struct json *j, const struct rpc_value *object);

/* Foreign text made safe for a terminal (utf8_add_shown()), cut to max columns. */
void cli_add_text(struct buf *out, const char *text, size_t max);

/* Readable when somebody wants us to end (INT, TERM, HUP). Those that are ignored, as nohup does,
 * stay so. */
int cli_open_stop_fd(void);

/* As "proctor trace PID --start-ticks N" does it, for its 10 s at most; signals are as before then.
 */
int cli_trace_shortly(const struct proc_key *key, struct err *err);

/*
 * Where no daemon runs: signals the runners of a job to end all of it, as far as the own database
 * knows them. A runner that cannot be signalled does not keep the others alive. -ENOENT: there is
 * no such job. -ESRCH: it does not run. -EINVAL: several users have one. -EOPNOTSUPP: it was
 * attached, and has no runner. -EPERM: the recorded runner is a process of another user. -EBUSY:
 * some of it waits in the queue, where only a daemon can cancel it.
 */
int cli_cancel_alone(const char *job_id, int attempt_num, struct err *err);

/* ---- the host as it is now ---- */

/*
 * Fills ret (initialised). Looks twice, a fifth of a second apart: one look tells no CPU
 * percentages. The database says which jobs run; one that cannot be read is warned about, and no
 * process belongs to a job then. A daemon that answers is asked about itself, and about GPUs.
 */
int cli_take_snapshot(const struct settings *ctx, enum snapshot_scope scope, struct snapshot *ret,
		      struct err *err);

/*
 * The GPUs as a daemon has read them, and what processes use of them: drivers take a second to
 * begin, may hang, and tell some things (the last XID) only to who has listened. Of a process that
 * the daemon does not show, as it may have begun since, that stays unknown.
 */
void cli_take_gpus(const struct snapshot *from, struct snapshot *snap);

/* ---- verbs that have verbs of their own: "proctor export csv", "proctor ranks merge" ---- */

struct cli_sub_table {
	const char *verb;  /* "export" */
	const char *what;  /* what its words are called: "a kind" */
	const char *usage; /* the help's first lines */
	const struct cli_sub {
		const char *name;
		cli_verb *fn;
		const struct argp *argp;
		const char *summary;
	} * items;
	size_t n;
};

/* Runs the one that argv[1] names, helps, or says what there is. Returns the exit status. */
int cli_run_sub(const struct cli_sub_table *table, int argc, char **argv);

/* ---- verbs that learn from the record ---- */

/*
 * The record with all that has ended made into runs. *ret is NULL where nothing was
 * ever recorded. Who may not write reads what is there: *ret_is_writable is false,
 * and it is said.
 */
int cli_open_learned(const struct settings *settings, struct store **ret, bool *ret_is_writable,
		     struct err *err);

/* Why the second attempt took longer than the first, as far as the waits of their threads show. */
int cli_add_difference(struct store *store, const struct cli_subject *before,
		       const struct cli_subject *after, struct buf *out, struct err *err);

/* settings_open() with a bad file told, and exit status 2. */
int cli_open_settings(struct settings *ret, struct err *err);

/*
 * facts - an attempt sorted and counted, ready to be told in any format.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "model/job.h"
#include "report/figures.h"

/* One sheet with all its tries; the last one is what came of it. */
struct sheet_fact {
	const struct sheet_record *const *tries; /* first to last */
	size_t n_tries;
	const struct sheet_record *last;
	struct figures figures; /* of the last try */
};

/* Borrows the attempt until facts_release(). */
struct facts {
	const struct attempt *a;
	struct figures figures;
	struct sheet_fact *sheets; /* by number */
	size_t n_sheets;
	const struct proc_record **processes; /* largest peak first, unknown last */
	size_t n_processes;
	const struct proc_record *top_cpu; /* most CPU time; NULL: not known of any */
	struct unknown_note *notes; /* the attempt's, and those of numbers that are missing */
	size_t n_notes;
	struct arena arena;
};

/* -ENOMEM: then there is nothing to release. */
int facts_init(struct facts *f, const struct attempt *a);
void facts_release(struct facts *f);

/* The sheet that gave the attempt its outcome, or the first that did not succeed; NULL: none. */
const struct sheet_fact *facts_culprit(const struct facts *f);

/* The sheet that runs, or ran when the runner was lost; NULL: none. */
const struct sheet_fact *facts_current(const struct facts *f);

/* The rank of a sheet that failed first; NULL: none did. */
const struct rank_record *facts_first_failed_rank(const struct sheet_record *sheet);

/* User and system time. */
uint64_t facts_process_cpu_ns(const struct proc_record *p);

/*
 * When it was born. Its own start time is cut to clock ticks and can lie before
 * the attempt's: then the event of its birth knows better, or it is the attempt's.
 */
uint64_t facts_born_ns(const struct facts *f, const struct proc_record *p);

/* It ran on when the attempt had ended, and that is certain. */
bool facts_is_left_running(const struct facts *f, const struct proc_record *p);

/*
 * That of its record, unless this is about memory alone: what no sample saw, and
 * a peak that is only "at most", both come from the end of the process, and the
 * CPU time that comes from there is exact.
 */
enum evidence facts_cpu_evidence(const struct proc_record *p);

/* Of the system calls, where there are any: who ran the job has counted all, a daemon from when it
 * heard of it. */
enum evidence facts_syscall_evidence(const struct facts *f);

/* Of their times: not all calls may have been timed, or not finely. */
enum evidence facts_hotspot_evidence(const struct facts *f);

/* The first process of a rank that failed before those of all others; NULL: none did, or the
 * attempt is a success. */
const struct proc_record *facts_first_dead_rank(const struct facts *f);

/* Number i of its rungs. That of system calls is the daemon's where the runner has counted none. */
struct rung facts_rung(const struct facts *f, size_t i);

/* The process of an event; NULL: not recorded. */
const struct proc_record *facts_find_process(const struct facts *f, const struct proc_event *ev);

/* ---- notes: what could not be measured, and why ---- */

/* Whether there is a note about this. */
bool facts_has_note(const struct facts *f, const char *what);

/* The subject of a note in words: "peak memory of the tree" for "peak_rss_mb"; else what itself. */
const char *facts_note_label(const char *what);

/* ---- how the processes ended ---- */

#define EXIT_CODES 256
#define EXIT_SIGNALS 128

struct exit_tally {
	bool has_ends;		       /* counted from the records of processes */
	uint64_t exited[EXIT_CODES];   /* by exit code */
	uint64_t killed[EXIT_SIGNALS]; /* by signal */
	uint64_t n_ended;	       /* sum of the above */
	uint64_t n_left;	       /* still running when the attempt had ended */
	uint64_t n_unseen;	       /* exit status not observed, or still running */
	uint64_t n_all;		       /* sum of the above */
	uint64_t n_oom;		       /* OOM-killed, among those killed */
};

/* Of the recorded processes; of the exit events while there are no records of ends. */
void exit_tally_count(const struct facts *f, struct exit_tally *ret);

/* "497 exited 0, 1 killed by SIGKILL (9), 1 still running when proctor ended, 3 whose end nobody
 * saw"; "" for nothing. */
void exit_tally_add(struct buf *out, const struct exit_tally *tally, bool is_running);

/*
 * The events that matter most: those of sheet_num first, then worst first (out
 * of memory, kills, signals, exits that are not 0), each kind in order of time.
 * Up to max of them go into ret. Returns how many there are in all.
 */
size_t facts_find_notable(const struct attempt *a, int sheet_num, size_t max,
			  const struct proc_event **ret);

/* ---- verdict: what ended the attempt, in one word, one sentence, and its evidence ---- */

/* "success", "failure", …, "running", "lost"; "unknown" when nobody said. */
const char *verdict_word(const struct facts *f);

/* "sheet 5 (fail) ended with exit code 3 after 204 ms; sheets 1-4 succeeded": no full stop. */
void verdict_add_sentence(struct buf *out, const struct facts *f);

/* Why the verdict is what it is, as the runner wrote it down; "" when it did not. */
void verdict_add_evidence(struct buf *out, const struct facts *f);

/*
 * ---- the report as an object of the contract, with proctor's own fields beside it ----
 *
 * Long jobs have more samples than a report needs: then each point of series[]
 * stands for series_samples_per_point of them (fewer where a sheet ends), with
 * the highest of each value and the time of the last. History has them all.
 */

/* One line. -ENOMEM. */
int json_report_write(struct buf *out, const struct facts *f);

/* The value of syscalls of a process, from its text (syscall_text_write()); null: nobody counted.
 */
void json_write_calls(struct json *j, const char *text);

/* ---- rows.c: members of the object that is open, which are columns of the export, too ---- */

/* All numbers in the units of the contract, and "evidence": {"wall_seconds": "exact", …, which
 * stays open. */
void rows_write_figures(struct json *j, const struct figures *f, bool is_attempt);

void rows_write_attempt(struct json *j, const struct attempt *a);
void rows_write_try(struct json *j, const struct sheet_record *sheet);
void rows_write_process(struct json *j, const struct facts *f, const struct proc_record *p);

/*
 * time_ledger - where the time of threads went: on a CPU, or waiting for what.
 *
 * Each moment of each thread is in one category, so the categories of a process add up to the lives
 * of its threads, as far as they were observed. Of several processes the ledgers are added.
 *
 * By eBPF each change is counted (exact). Without it the CPU time and the wait for a CPU are the
 * scheduler's, and the rest is divided by what samples of the threads show (sampled).
 *
 * It is recorded as one JSON object of nanoseconds, with the evidence:
 *
 *	{"evidence":"exact","user":12000,"disk":345}
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "model/job.h"

enum time_category {
	TIME_USER,
	TIME_SYSTEM,
	TIME_CPU_WAIT,
	TIME_DISK,
	TIME_PAGE_FAULT,
	TIME_FILE_LOCK,
	TIME_FUTEX,
	TIME_PIPE,
	TIME_SOCKET,
	TIME_EVENTS,
	TIME_CHILD,
	TIME_SIGNAL,
	TIME_TIMER,
	TIME_GPU,
	TIME_STOPPED,
	TIME_OTHER,
	TIME_UNKNOWN,
	N_TIME_CATEGORIES,
};

/* What each is called. */
struct time_category_row {
	const char *key;   /* in JSON, SQL and keys of diff */
	const char *words; /* "waiting for disk" */
	const char *brief; /* in a column of top; at most 8 bytes */
	const char *help;
	bool is_wait;	 /* it can be a reason for a longer run */
	bool is_passive; /* what others of the job do meanwhile says more */
};
extern const struct time_category_row time_categories[N_TIME_CATEGORIES];

struct time_ledger {
	uint64_t ns[N_TIME_CATEGORIES]; /* all are known */
	enum evidence evidence;		/* EVIDENCE_UNKNOWN: nothing is in it */
};

/* Thread-seconds: all of them added up. */
uint64_t time_ledger_total(const struct time_ledger *l);

/* The sum is as good as the worse of the two. */
void time_ledger_add(struct time_ledger *sum, const struct time_ledger *part);

/* As recorded; nothing where nothing is in it. */
void time_ledger_write(struct buf *out, const struct time_ledger *l);

/* The text may be NULL, or anything. False: it is no ledger, or an empty one. */
bool time_ledger_read(const char *text, struct time_ledger *ret);

/* The value of "time" in JSON, in seconds; null: the text is no ledger. */
void time_ledger_write_json(struct json *j, const char *text);

/*
 * "71 % waiting for disk, 20 % on a CPU": the largest shares, of 5 % and more, at most three; with
 * a ~ where they are sampled. A process that waits for its child does what the child does: passive
 * waits count only where there is nothing else. Nothing: the ledger is empty.
 */
void time_ledger_add_summary(struct buf *out, const struct time_ledger *l);

/* That of the largest share, and how much it is in percent; N_TIME_CATEGORIES: there is none. */
enum time_category time_ledger_largest(const struct time_ledger *l, double *ret_percent);

/*
 * outline - the rows of the jobs panel: jobs, their sheets, ranks and processes.
 *
 * Made anew from each snapshot. Nodes below one that is folded, and those that
 * the filter leaves out, are not among the rows.
 */
#pragma once

#include <stdbool.h>

#include "base/map.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "tui/tracks.h"

enum node_kind { NODE_JOB, NODE_SHEET, NODE_RANK, NODE_PROCESS };

/* A job that waits for its start, or that runs, and waits with its next sheet. */
struct waiting_job {
	char job_id[JOB_ID_MAX + 1];
	uint64_t uid;  /* whose; U64_UNKNOWN */
	uint64_t key;  /* of one that runs: track_key_of_attempt(), by its number; else 0 */
	char why[128]; /* "pressure is high: …"; "": unknown */
};

/* Sums over all that is below; a process stands for itself. */
struct node {
	enum node_kind kind;
	uint64_t id; /* stays the same from one snapshot to the next */
	int parent;  /* -1: none */
	int depth;
	const char *job_id;		     /* NULL: processes of no job */
	int64_t attempt_id;		     /* as its processes have it */
	int attempt_num;		     /* of the job; 0: it is not known */
	uint64_t uid;			     /* whose, where that is */
	int next_attempt;		     /* of a job: another that runs, or waits; -1 */
	bool has_twin;			     /* of a job: there is another */
	int sheet_num, rank;		     /* SHEET_NONE, RANK_NONE */
	const char *sheet_name;		     /* of the sheet that it is, or is of; or NULL */
	const struct proc_sample *p;	     /* of a process */
	const struct job_progress *progress; /* of a job; or NULL */
	const struct waiting_job *queued;    /* of a job that waits; NULL: it runs */
	const char *why_held;		     /* of a job that waits with its next sheet; NULL */
	size_t n_processes;
	double cpu_percent, io_rate, age_seconds; /* NaN: unknown */
	bool has_hidden_io;    /* of a process of which it is not known: no sum has it */
	double cpu_with_ended; /* of a process: what the sums have of it, see track.h */
	uint64_t rss_bytes, gpu_bytes;
	bool has_children, is_folded;
	bool is_flagged; /* itself, or something below it */
	bool is_match;	 /* passes the filter itself */
	bool is_shown;	 /* itself or something below it passes the filter */
};

enum sort { SORT_CPU, SORT_MEMORY, SORT_IO, SORT_AGE, SORT_NAME, SORTS };
extern const char *const sort_names[SORTS];

struct outline_options {
	enum sort sort;
	bool is_tree;		  /* false: processes alone, in a list */
	const char *filter;	  /* "": none; the text of a row, or of what it is of */
	const char *job_id;	  /* only this one; NULL: all */
	const struct map *folded; /* ids; what the filter shows for the sake of something below it
				     is unfolded all the same */
	const struct waiting_job *waiting;
	size_t n_waiting;
	const struct map *starts;      /* by track_key_of_attempt() of a job's number, or
					  outline_key_of_sheet(): when it began, in ns of the wall clock;
					  of others the oldest process counts */
	const struct map *sheet_names; /* by outline_key_of_sheet(): the address of its text,
					  borrowed as the snapshot is; a sheet that is not there
					  has none */
};

struct outline {
	struct node *nodes;
	size_t n, cap;
	int *rows; /* what is shown, from top to bottom: indices of nodes */
	size_t n_rows;
	int *order; /* indices of nodes, siblings together */
	int *walk;  /* all that passes the filter, also below what is folded: indices of nodes */
	size_t n_walk;
	struct map by_id;
	struct map by_job; /* the first of its attempts */
	bool is_list;	   /* of processes alone */
};

#define OUTLINE_INIT                                                          \
	{                                                                     \
		NULL, 0, 0, NULL, 0, NULL, NULL, 0, MAP_INIT, MAP_INIT, false \
	}

void outline_release(struct outline *o);

/* The snapshot and the tracks are borrowed until the next call. -ENOMEM. */
int outline_make(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
		 const struct outline_options *options);

const struct node *outline_row(const struct outline *o, size_t row); /* NULL: beyond the end */

/* The next node behind this one (of all, around the end) whose row has the text in it, whether
 * it is folded away or not; NULL: there is none. */
const struct node *outline_search(const struct outline *o, uint64_t from_id, const char *text);

/* The row of this node; -1: it is not shown. */
int outline_find(const struct outline *o, uint64_t id);

bool outline_has(const struct outline *o, uint64_t id); /* shown or not */

/* Of a process the id, if it has a row, else that of the first attempt of the job
 * (track_key_of_job()) that has one; 0: none has. */
uint64_t outline_nearest(const struct outline *o, uint64_t process, uint64_t job);

/* Flags a process and all that it is below; where it is not there (it is of another attempt, or
 * none is meant), all attempts of the job that run. */
void outline_flag(struct outline *o, uint64_t process, uint64_t job);
void outline_forget_flags(struct outline *o);

/* Whether an attempt of another number runs of the job (track_key_of_job()). */
bool outline_has_other(const struct outline *o, uint64_t job, int attempt_num);

/* Whether an attempt of the same user runs of a job that waits. */
bool outline_runs_too(const struct outline *o, const struct node *queued);

/* Whether the node of this id is there, and is the other or below it. */
bool outline_is_below(const struct outline *o, uint64_t id, uint64_t ancestor);

/* Before the texts of sheet_names go. */
void outline_forget_names(struct outline *o);

/* A sheet, as it is told of: by the number of its attempt, or 0 where that is not known. */
uint64_t outline_key_of_sheet(const char *job_id, int attempt_num, int num);

/* Whether its row has the text in it, whatever the case: the job, "sheet 2 train", "rank 1", or the
 * command, as long as it is; or its pid begins with it. */
bool outline_shows(const struct outline *o, const struct node *node, const char *text);

/*
 * The command of a process where there is little room: without the folder of the program, and
 * behind an interpreter without that of its script. Other words stay as they are. Cut to size,
 * between characters.
 */
#define COMMAND_BYTES 1024
void outline_command(const struct proc_sample *p, char *ret, size_t size);

/*
 * rank_env - which rank of a distributed job a process is, as its launcher told it, and which sheet
 * of a job file.
 *
 * Launchers tell it in the environment. That is the process's own and may hold
 * anything, secrets above all: only the variables of one table are looked at, their
 * values are kept as numbers, and nothing else of it is stored, logged or passed on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* More of an environment than this is not read. */
#define RANK_ENV_MAX_BYTES (2 * 1024 * 1024)

/* All RANK_NONE: none that we know. local_rank and world_size may be unknown by themselves. */
struct rank_env {
	int rank;
	int local_rank; /* among those of its host */
	int world_size;
	const char *
		odd; /* a launcher's variable that says no rank, or no number of them; NULL: none */
};

enum rank_variable {
	VARIABLE_NONE, /* a launcher that does not say */
	VARIABLE_PROCTOR_RANK,
	VARIABLE_RANK,
	VARIABLE_LOCAL_RANK,
	VARIABLE_WORLD_SIZE,
	VARIABLE_TORCHELASTIC_RUN_ID,
	VARIABLE_OMPI_RANK,
	VARIABLE_OMPI_LOCAL_RANK,
	VARIABLE_OMPI_SIZE,
	VARIABLE_PMI_RANK,
	VARIABLE_PMI_SIZE,
	VARIABLE_PMIX_RANK,
	VARIABLE_SLURM_PROCID,
	VARIABLE_SLURM_LOCALID,
	VARIABLE_SLURM_NTASKS,
	VARIABLE_SLURM_JOB_ID,
	VARIABLE_PROCTOR_SHEET,
	N_RANK_VARIABLES,
};

/* What was found of them: numbers, or RANK_NONE where one is not there or holds something else. */
struct rank_env_scan {
	int values[N_RANK_VARIABLES];
	unsigned seen;	    /* a bit for each that is there, whatever it holds */
	const char *job_id; /* the job in question; NULL: none is */
	bool is_of_job;	    /* PROCTOR_JOB_ID says that it is of that */
};

void rank_env_begin(struct rank_env_scan *scan);

/* One "NAME=value" of n bytes. Of a repeated name the first counts, as for getenv(). */
void rank_env_take(struct rank_env_scan *scan, const char *entry, size_t n);

/*
 * What the variables say together. Who launches inside of what another launched comes
 * first: torchrun within srun starts ranks of torchrun. A rank that is not below its
 * world size is none, and nor is what is no number: `odd` names the first such variable.
 */
struct rank_env rank_env_end(const struct rank_env_scan *scan);

/*
 * Reads proc/PID/environ through text, which has room for size bytes, and wipes that. A
 * variable longer than size is passed over. Nothing is found where this user may not read it.
 */
struct rank_env rank_env_read(int proc_fd, pid_t pid, char *text, size_t size);

/*
 * The same for the sheet, or SHEET_NONE: of this job alone, since what was forked and has not
 * executed its program yet still has the environment of who forked it.
 */
int rank_env_read_sheet(int proc_fd, pid_t pid, const char *job_id, char *text, size_t size);

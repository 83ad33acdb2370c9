#include "sources/rank_env.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "model/snapshot.h"

static const char *const names[N_RANK_VARIABLES] = {
	[VARIABLE_NONE] = "",
	[VARIABLE_PROCTOR_RANK] = "PROCTOR_RANK",
	[VARIABLE_RANK] = "RANK",
	[VARIABLE_LOCAL_RANK] = "LOCAL_RANK",
	[VARIABLE_WORLD_SIZE] = "WORLD_SIZE",
	[VARIABLE_TORCHELASTIC_RUN_ID] = "TORCHELASTIC_RUN_ID",
	[VARIABLE_OMPI_RANK] = "OMPI_COMM_WORLD_RANK",
	[VARIABLE_OMPI_LOCAL_RANK] = "OMPI_COMM_WORLD_LOCAL_RANK",
	[VARIABLE_OMPI_SIZE] = "OMPI_COMM_WORLD_SIZE",
	[VARIABLE_PMI_RANK] = "PMI_RANK",
	[VARIABLE_PMI_SIZE] = "PMI_SIZE",
	[VARIABLE_PMIX_RANK] = "PMIX_RANK",
	[VARIABLE_SLURM_PROCID] = "SLURM_PROCID",
	[VARIABLE_SLURM_LOCALID] = "SLURM_LOCALID",
	[VARIABLE_SLURM_NTASKS] = "SLURM_NTASKS",
	[VARIABLE_SLURM_JOB_ID] = "SLURM_JOB_ID",
	[VARIABLE_PROCTOR_SHEET] = "PROCTOR_SHEET",
};

/*
 * One row per launcher, the innermost first: its rank, that on the host, how many there
 * are; and what must be there too, since others use the first three. proctor's own stands
 * before all: who asks for ranks in a job file means those.
 */
static const struct {
	enum rank_variable rank, local_rank, world_size, sign;
} launchers[] = {
	{ VARIABLE_PROCTOR_RANK, VARIABLE_LOCAL_RANK, VARIABLE_WORLD_SIZE, VARIABLE_NONE },
	{ VARIABLE_RANK, VARIABLE_LOCAL_RANK, VARIABLE_WORLD_SIZE, VARIABLE_TORCHELASTIC_RUN_ID },
	/* Launchers that somebody wrote, DeepSpeed: both numbers, or these are anybody's words. */
	{ VARIABLE_RANK, VARIABLE_LOCAL_RANK, VARIABLE_WORLD_SIZE, VARIABLE_WORLD_SIZE },
	{ VARIABLE_OMPI_RANK, VARIABLE_OMPI_LOCAL_RANK, VARIABLE_OMPI_SIZE, VARIABLE_NONE },
	{ VARIABLE_PMI_RANK, VARIABLE_NONE, VARIABLE_PMI_SIZE, VARIABLE_NONE },
	{ VARIABLE_PMIX_RANK, VARIABLE_NONE, VARIABLE_NONE, VARIABLE_NONE },
	{ VARIABLE_SLURM_PROCID, VARIABLE_SLURM_LOCALID, VARIABLE_SLURM_NTASKS,
	  VARIABLE_SLURM_JOB_ID },
};

void rank_env_begin(struct rank_env_scan *scan)
{
	*scan = (struct rank_env_scan){ .seen = 1U << VARIABLE_NONE };
	for (size_t i = 0; i < N_RANK_VARIABLES; i++)
		scan->values[i] = RANK_NONE;
}

#define JOB_VARIABLE "PROCTOR_JOB_ID="

void rank_env_take(struct rank_env_scan *scan, const char *entry, size_t n)
{
	const char *equals = memchr(entry, '=', n);
	size_t name_len = equals ? (size_t)(equals - entry) : 0;

	if (name_len == 0 || !strchr("LOPRSTW", entry[0])) /* no name begins otherwise */
		return;
	if (name_len + 1 == strlen(JOB_VARIABLE) && memcmp(entry, JOB_VARIABLE, name_len) == 0) {
		size_t at = strlen(JOB_VARIABLE);

		if (scan->job_id && n - at == strlen(scan->job_id))
			scan->is_of_job = memcmp(entry + at, scan->job_id, n - at) == 0;
	}
	for (unsigned i = 1; i < N_RANK_VARIABLES; i++) {
		if (strlen(names[i]) != name_len || memcmp(names[i], entry, name_len) != 0)
			continue;
		if (!(scan->seen & 1U << i)) {
			uint64_t v;

			scan->values[i] = num_parse_u64_n(equals + 1, n - name_len - 1, &v) == 0 &&
							  v < INT_MAX
						  ? (int)v
						  : RANK_NONE;
		}
		scan->seen |= 1U << i;
		return;
	}
}

/* What this launcher does not tell another around it may, if both call it by the same number. */
static void fill_from_others(const struct rank_env_scan *scan, size_t from, struct rank_env *env)
{
	for (size_t i = from; i < ARRAY_SIZE(launchers); i++) {
		if (scan->values[launchers[i].rank] != env->rank ||
		    !(scan->seen & 1U << launchers[i].sign))
			continue;
		if (env->local_rank == RANK_NONE)
			env->local_rank = scan->values[launchers[i].local_rank];
		if (env->world_size == RANK_NONE &&
		    env->rank < scan->values[launchers[i].world_size])
			env->world_size = scan->values[launchers[i].world_size];
	}
}

static bool is_odd(const struct rank_env_scan *scan, enum rank_variable variable)
{
	return variable != VARIABLE_NONE && scan->seen & 1U << variable &&
	       scan->values[variable] == RANK_NONE;
}

/* What this launcher says that makes no sense. */
static const char *find_odd(const struct rank_env_scan *scan, size_t launcher)
{
	enum rank_variable rank = launchers[launcher].rank, size = launchers[launcher].world_size;

	if (!(scan->seen & 1U << launchers[launcher].sign) || !(scan->seen & 1U << rank) ||
	    launchers[launcher].sign == VARIABLE_WORLD_SIZE)
		return NULL;
	if (is_odd(scan, rank))
		return names[rank];
	if (is_odd(scan, size) || scan->values[size] == 0)
		return names[size];
	return scan->values[size] != RANK_NONE && scan->values[rank] >= scan->values[size]
		       ? names[rank]
		       : NULL;
}

struct rank_env rank_env_end(const struct rank_env_scan *scan)
{
	struct rank_env env = { RANK_NONE, RANK_NONE, RANK_NONE, NULL };

	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++) {
		int rank = scan->values[launchers[i].rank];
		int size = scan->values[launchers[i].world_size];

		env.odd = env.odd ? env.odd : find_odd(scan, i);
		if (rank == RANK_NONE || !(scan->seen & 1U << launchers[i].sign) ||
		    (size != RANK_NONE && rank >= size) ||
		    (size == RANK_NONE && launchers[i].sign == VARIABLE_WORLD_SIZE))
			continue;
		env.rank = rank;
		fill_from_others(scan, i, &env);
		break;
	}
	return env;
}

/* Takes the whole entries of text, and returns how many bytes of one are left at its start. */
static size_t take_entries(struct rank_env_scan *scan, char *text, size_t n)
{
	size_t at = 0;
	const char *end;

	while ((end = memchr(text + at, '\0', n - at))) {
		rank_env_take(scan, text + at, (size_t)(end - text) - at);
		at = (size_t)(end - text) + 1;
	}
	memmove(text, text + at, n - at);
	return n - at;
}

static void read_entries(struct rank_env_scan *scan, int fd, char *text, size_t size)
{
	size_t kept = 0, total = 0;
	bool is_too_long =
		false; /* what begins the text is the rest of an entry that is passed over */
	ssize_t n;

	while (total < RANK_ENV_MAX_BYTES && (n = read(fd, text + kept, size - kept)) > 0) {
		char *end = is_too_long ? memchr(text, '\0', (size_t)n) : NULL;

		total += (size_t)n;
		if (is_too_long && !end)
			continue;
		if (end) /* as an entry without a name: nobody's */
			memset(text, '=', (size_t)(end - text));
		kept = take_entries(scan, text, kept + (size_t)n);
		is_too_long = kept == size;
		kept = is_too_long ? 0 : kept;
	}
	if (total < RANK_ENV_MAX_BYTES && !is_too_long)
		rank_env_take(scan, text, kept); /* a process may write over its environment */
}

static void read_environ(struct rank_env_scan *scan, int proc_fd, pid_t pid, char *text,
			 size_t size)
{
	CLEANUP(close_fd) int fd = -1;
	char path[32];

	snprintf(path, sizeof(path), "%d/environ", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	read_entries(scan, fd, text, size);
	explicit_bzero(text, size);
}

struct rank_env rank_env_read(int proc_fd, pid_t pid, char *text, size_t size)
{
	struct rank_env_scan scan;

	rank_env_begin(&scan);
	read_environ(&scan, proc_fd, pid, text, size);
	return rank_env_end(&scan);
}

int rank_env_read_sheet(int proc_fd, pid_t pid, const char *job_id, char *text, size_t size)
{
	struct rank_env_scan scan;
	int sheet;

	rank_env_begin(&scan);
	scan.job_id = job_id;
	read_environ(&scan, proc_fd, pid, text, size);
	sheet = scan.values[VARIABLE_PROCTOR_SHEET];
	return scan.is_of_job && sheet > 0 ? sheet : SHEET_NONE;
}

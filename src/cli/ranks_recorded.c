#include "cli/ranks_recorded.h"

#include <errno.h>
#include <string.h>

static int refuse_empty(const struct attempt *a, struct err *err)
{
	if (attempt_has_ranks(a))
		return err_set(err, -ENODATA,
			       "attempt %d of job %s has ranks, but no samples of them are kept",
			       a->attempt_num, a->job_id);
	return err_set(err, -ENODATA,
		       "attempt %d of job %s has no ranks: they are known by what torchrun, mpirun "
		       "or srun tell their processes, or by \"ranks:\" in a job file",
		       a->attempt_num, a->job_id);
}

#define SQLITE "sqlite:"

static const char *parse_store(const struct argp_state *state, const char *url)
{
	bool is_sqlite = strncmp(url, SQLITE, strlen(SQLITE)) == 0;

	if (is_sqlite ? url[strlen(SQLITE)] == '\0' : url[0] == '\0' || strstr(url, "://"))
		cli_usage_error(state, "--store wants a database, as PATH or sqlite:PATH, not '%s'",
				url);
	return url;
}

error_t ranks_parse_job_option(struct ranks_job *job, int key, char *arg,
			       const struct argp_state *state)
{
	switch (key) {
	case RANKS_KEY_JOB:
		job->job_id = cli_parse_job_id(state, arg);
		return 0;
	case RANKS_KEY_ATTEMPT:
		job->attempt_num = cli_parse_int(state, "--attempt", arg, 1, 1000000000);
		return 0;
	case RANKS_KEY_STORE:
		job->store = parse_store(state, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* "sqlite:///var/x.db" is as good as "sqlite:/var/x.db". */
static const char *path_of(const char *url)
{
	if (strncmp(url, SQLITE, strlen(SQLITE)) != 0)
		return url;
	url += strlen(SQLITE);
	return strncmp(url, "///", 3) == 0 ? url + 2 : url;
}

/* One that is named has to be there; our own may not have been made yet. */
static int open_store(const char *url, struct store **ret, struct err *err)
{
	struct paths paths;
	int r;

	if (url)
		return store_open(path_of(url), STORE_READ, ret, err);
	r = cli_find_paths_to_read(&paths, err);
	return r < 0 ? r : cli_open_store(&paths, ret, err);
}

int ranks_read_job(const struct ranks_job *job, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	int r = open_store(job->store, &store, err);

	if (r == 0)
		r = store_read_attempt(store, job->job_id, job->attempt_num, ret_attempt, err);
	if (r == 0)
		r = recorded_ranks_read(store, ret_attempt, ret, err);
	if (r == 0 && ret->n_points == 0)
		r = refuse_empty(ret_attempt, err);
	return r;
}

int ranks_load_job(const struct ranks_job *job, struct ranks_input *input, struct telemetry *t)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	r = ranks_read_job(job, &a, &ranks, &err);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	r = recorded_ranks_gather(&ranks, t);
	if (r < 0) {
		err_set(&err, r, "cannot gather the telemetry: %s", strerror(-r));
		return cli_fail(CLI_FAILED, &err);
	}
	input->n_valid = t->n_events;
	return CLI_DONE;
}

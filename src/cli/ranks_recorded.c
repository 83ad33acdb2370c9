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

int ranks_read_job(const char *job_id, int num, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct paths paths;
	int r = cli_find_paths_to_read(&paths, err);

	if (r == 0)
		r = cli_open_store(&paths, &store, err);
	if (r == 0)
		r = store_read_attempt(store, job_id, num, ret_attempt, err);
	if (r == 0)
		r = recorded_ranks_read(store, ret_attempt, ret, err);
	if (r == 0 && ret->n_ranks == 0)
		r = refuse_empty(ret_attempt, err);
	return r;
}

int ranks_load_job(const char *job_id, int num, struct ranks_input *input, struct telemetry *t)
{
	CLEANUP(recorded_ranks_release) struct recorded_ranks ranks = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	int r;

	attempt_init(&a);
	r = ranks_read_job(job_id, num, &a, &ranks, &err);
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

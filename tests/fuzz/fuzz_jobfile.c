/*
 * Job files of any bytes: each is refused with a sentence that names file and
 * line, or gives a job whose every sheet can be run.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/jobs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void check_sheet(const struct sheet_spec *s, int num)
{
	require(s->num == num);
	require(s->argv && s->argv[0] && s->argv[0][0]);
	for (size_t i = 0; i < s->n_env; i++)
		require(s->env[i].name[0] && !strchr(s->env[i].name, '=') && s->env[i].value);
	require(s->retries >= 0 && s->retries <= 100);
	require(isnan(s->timeout_seconds) ||
		(s->timeout_seconds > 0 && isfinite(s->timeout_seconds)));
	require(s->ranks >= 1 && s->ranks <= 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_INIT;
	struct job_spec spec;
	int r = job_file_parse((const char *)data, size, "f", true, &spec, &err);

	if (r < 0) {
		require(err.code == r && strncmp(err.text, "f:", 2) == 0);
		require(atoi(err.text + 2) > 0 && spec.n_sheets == 0);
		return 0;
	}
	require(spec.n_sheets > 0 && (!spec.job_id || job_id_is_valid(spec.job_id)));
	for (size_t i = 0; i < spec.n_sheets; i++)
		check_sheet(&spec.sheets[i], (int)i + 1);
	job_spec_release(&spec);
	return 0;
}

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
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
	.parser = cli_parse_option,
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
	r = job_file_parse(text->data, text->len, path, &spec, err);
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
	json_init(&j, out);
	json_begin_object(&j);
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

static void tell_warning(const struct rpc_value *answer)
{
	const char *warning = rpc_value_string(rpc_value_get(answer, "warning"));
	const char *job_id = rpc_value_string(rpc_value_get(answer, "job_id"));

	if (warning)
		log_warning("job %s: %s", job_id ? job_id : "", warning);
}

int cli_submit(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf request = BUF_INIT, out = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	struct submit_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;
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
	tell_warning(answer);
	json_init(&j, &out);
	if (args.json)
		rpc_value_write(answer, &j);
	else
		cli_add_text(&out, rpc_value_string(rpc_value_get(answer, "job_id")), 200);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}

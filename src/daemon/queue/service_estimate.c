#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

struct learning_question service_ask_about(const struct service *s, const struct job_spec *spec,
					   uid_t uid, uint64_t input_bytes)
{
	return (struct learning_question){
		.spec = spec,
		.mask = s->settings.mask,
		.uid = uid,
		.input_bytes = input_bytes,
		.only_own = u64_known(learning_scope(uid)),
	};
}

/* ---- of what somebody asks about ---- */

/* Copies them: the answer is worked out when the request is gone. */
static int spec_of_command(const struct rpc_value *words, uint64_t sheet, struct job_spec *spec,
			   struct err *err)
{
	size_t n = rpc_value_len(words);
	const char **argv = arena_alloc(&spec->arena, (n + 1) * sizeof(*argv));

	if (n == 0)
		return err_set(err, -EINVAL, "'command' is empty");
	if (!argv)
		return err_set(err, -ENOMEM, "no memory left for the command");
	for (size_t i = 0; i < n; i++) {
		argv[i] = arena_strdup(&spec->arena, rpc_value_string(rpc_value_at(words, i)));
		if (!argv[i])
			return err_set(err, -ENOMEM, "no memory left for the command");
	}
	argv[n] = NULL;
	if (job_spec_set_command(spec, argv, (int)sheet) < 0)
		return err_set(err, -ENOMEM, "no memory left for the command");
	return 0;
}

/* Whoever may do everything has their jobs run as us. */
int service_estimate_task(struct service *s, const struct rpc_peer *peer,
			  const struct estimate_params *params, struct estimate_task **ret,
			  struct err *err)
{
	uid_t uid = service_is_owner(peer) ? geteuid() : peer->uid;
	struct estimate_task *task;
	int r = 0;

	if (!params->file == !params->command)
		return err_set(err, -EINVAL, "of what? either 'file' or 'command' is wanted");
	if (params->file && params->sheet)
		return err_set(err, -EINVAL,
			       "'sheet' goes with a command; a job file numbers its sheets itself");
	task = calloc(1, sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left for an estimate");
	job_spec_init(&task->spec);
	task->mask = mask_ref(s->settings.mask);
	task->question = service_ask_about(s, &task->spec, uid, params->input_bytes);
	task->file = params->file ? strdup(params->file) : NULL; /* takes its time to be parsed */
	if (!params->file)
		r = spec_of_command(params->command, params->sheet ? params->sheet : 1, &task->spec,
				    err);
	else if (!task->file)
		r = err_set(err, -ENOMEM, "no memory left for the job file");
	if (r < 0)
		estimate_task_free(task);
	else
		*ret = task;
	return r;
}

int estimate_task_work(void *ctx, struct store *store, struct err *err)
{
	struct estimate_task *task = ctx;
	int r = 0;

	if (task->file)
		r = job_file_parse(task->file, strlen(task->file), "the job file", false,
				   &task->spec, err);
	if (r < 0)
		job_spec_init(&task->spec); /* the parser has released it */
	return r < 0 ? r : learning_estimate(store, &task->question, &task->answer, err);
}

void estimate_task_free(void *ctx)
{
	struct estimate_task *task = ctx;

	if (!task)
		return;
	job_spec_release(&task->spec);
	mask_free(task->mask);
	free(task->file);
	free(task);
}

static const struct rpc_field estimate_fields[] = {
	{ "file", RPC_STRING, offsetof(struct estimate_params, file), .is_required = false },
	{ "command", RPC_STRINGS, offsetof(struct estimate_params, command), .is_required = false },
	{ "sheet", RPC_U64, offsetof(struct estimate_params, sheet), .min = 1, .max = 1000000 },
	{ "input_bytes", RPC_U64, offsetof(struct estimate_params, input_bytes),
	  .is_required = false },
};

static int write_estimate(void *ctx, struct service *s, struct rpc_call *call, struct err *err)
{
	const struct estimate_task *task = ctx;

	(void)s;
	(void)err;
	learning_write_answer(rpc_call_result(call), &task->answer);
	return 0;
}

static const struct aside_answer answer_estimate = { estimate_task_work, write_estimate,
						     estimate_task_free };

int method_estimate(void *ctx, struct rpc_call *call, struct err *err)
{
	struct estimate_params params = { .input_bytes = U64_UNKNOWN };
	struct estimate_task *task = NULL;
	int r = rpc_call_read(call, estimate_fields, ARRAY_SIZE(estimate_fields), &params, err);

	if (r == 0)
		r = service_estimate_task(ctx, rpc_call_peer(call), &params, &task, err);
	return r < 0 ? r : service_answer_aside(ctx, call, &answer_estimate, task, err);
}

/* ---- of what waits ---- */

/* Of a job that is put together from its sheets: everybody waits meanwhile. */
#define MAX_SHEETS 32

/* Of one that cannot be had nothing is known: its runner will say what is wrong. Files that the job
 * names are not looked at: that is for who may read them. */
void service_estimate_queued(struct service *s, struct queued *job)
{
	CLEANUP(job_spec_release) struct job_spec spec;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct learning_question question;
	struct learning_answer answer;
	char path[QUEUE_PATH_BYTES];

	queued_path(job, path);
	job_spec_init(&spec);
	learning_answer_init(&answer);
	question = service_ask_about(s, &spec, job->uid, job->input_bytes);
	question.max_sheets = MAX_SHEETS;
	if (s->store && io_read_at(AT_FDCWD, path, QUEUE_FILE_MAX_BYTES + 65536, &text) >= 0 &&
	    job_file_parse(text.data, text.len, job->name, false, &spec, NULL) == 0)
		(void)learning_estimate(s->store, &question, &answer, NULL);
	service_keep_estimate(job, &answer.estimate);
}

void service_keep_estimate(struct queued *job, const struct estimate *e)
{
	job->estimate = *e;
	job->estimated_boot_ns = clock_boot_ns();
}

/* ---- of what runs ---- */

size_t service_estimate_running(struct service *s, size_t max)
{
	size_t n, n_read = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++) {
		struct watched *job = jobs[i];
		const struct queued *queued =
			job->is_estimated ? NULL
					  : queue_find(s->queue, job->job_id, (uid_t)job->a.uid);
		struct attempt asked = job->a;
		struct learning_answer answer;

		if (job->is_estimated)
			continue;
		/* One that came from the queue goes on with what was expected when it was let in.
		 */
		if (queued && queued->estimated_boot_ns) {
			job->estimate = queued->estimate;
		} else if (n_read < max) {
			asked.id = 0; /* that is no row's */
			learning_answer_init(&answer);
			if (s->store)
				learning_estimate_attempt(s->store, &asked,
							  u64_known(learning_scope(job->a.uid)),
							  &answer, NULL);
			job->estimate = answer.estimate;
			n_read++;
		} else {
			continue;
		}
		job->is_estimated = true;
	}
	return n_read;
}

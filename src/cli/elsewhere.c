#include "cli/elsewhere.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"

#define LATEST_SECONDS 9e9 /* a time from outside has to fit into 64 bits of ns */

/* What each is asked by, and where it is in the answer. */
static const struct {
	const char *method, *list;
} asked[] = {
	[ELSEWHERE_ATTEMPTS] = { "job.attempts", "attempts" },
	[ELSEWHERE_EVENTS] = { "job.events", "events" },
	[ELSEWHERE_SAMPLES] = { "job.samples", "samples" },
	[ELSEWHERE_ANOMALIES] = { "job.anomalies", "anomalies" },
};

uint64_t elsewhere_time(const struct rpc_value *row, const char *key)
{
	double seconds = rpc_value_f64(rpc_value_get(row, key));

	return seconds >= 0 && seconds < LATEST_SECONDS ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

int elsewhere_int(const struct rpc_value *row, const char *key, int otherwise)
{
	int64_t n = rpc_value_i64(rpc_value_get(row, key), otherwise);

	return n >= INT_MIN && n <= INT_MAX ? (int)n : otherwise;
}

static void write_question(struct buf *out, const struct elsewhere_question *q, uint64_t since_ns)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	if (q->job_id)
		json_key_string(&j, "job_id", q->job_id);
	json_key_u64(&j, "since_ns", since_ns);
	json_key_u64(&j, "until_ns", q->until_wall_ns);
	json_key_u64(&j, "pid", (uint64_t)q->pid);
	json_key_u64(&j, "limit", q->limit);
	json_key_bool(&j, "latest", q->latest_only);
	json_end_object(&j);
}

/* *next is from when on the next page is; U64_UNKNOWN: there is none. */
static int read_page(struct rpc_client *client, enum elsewhere_rows rows,
		     const struct elsewhere_question *q, uint64_t *next, elsewhere_fn *fn,
		     void *ctx, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf question = BUF_INIT;
	const struct rpc_value *list;
	int r;

	write_question(&question, q, *next);
	r = rpc_client_call(client, asked[rows].method, question.data, &answer, err);
	list = r == 0 ? rpc_value_get(answer, asked[rows].list) : NULL;
	for (size_t i = 0; r == 0 && i < rpc_value_len(list); i++)
		r = fn(ctx, rpc_value_at(list, i));
	*next = r == 0 ? rpc_value_u64(rpc_value_get(answer, "next_ns")) : U64_UNKNOWN;
	return r;
}

int elsewhere_read(enum elsewhere_rows rows, const struct elsewhere_question *question,
		   elsewhere_fn *fn, void *ctx, struct err *err)
{
	const struct rpc_client_options options = { 0 };
	uint64_t next = question->since_wall_ns, before;
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0 && question->only_of_others && rpc_client_daemon_uid(client) == geteuid())
		r = err_set(err, -ENOENT, "the daemon is this user's own");
	while (r == 0 && u64_known(next)) {
		before = next;
		r = read_page(client, rows, question, &next, fn, ctx, err);
		if (r == 0 && u64_known(next) && next <= before)
			r = err_set(err, -EBADMSG, "the daemon goes round in circles");
	}
	rpc_client_close(client);
	return r;
}

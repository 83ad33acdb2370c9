#include "cli/top_stream.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "rpc/rpc.h"
#include "store/store.h"

#define POLL_MS 200
#define PATIENCE_MS 5000 /* without a snapshot, and it is said what is waited for */

struct stream {
	const char *job_id;
	struct output out;
	bool has_come; /* something was printed… */
	bool was_said; /* …or that nothing is there yet */
	int r;	       /* what went wrong with it */
};

/* ---- waiting ---- */

/* Once: who is at a terminal knows at once, and a script's log after a while. */
static void say_waiting(struct stream *s, const char *whence)
{
	if (s->has_come || s->was_said)
		return;
	s->was_said = true;
	if (s->job_id)
		log_warning("waiting for snapshots of job %s, %s", s->job_id, whence);
	else
		log_warning("waiting for snapshots %s", whence);
}

static bool is_watched(void)
{
	return isatty(STDERR_FILENO);
}

/* ---- of one job ---- */

static bool is_of_job(const struct rpc_value *element, const char *job_id)
{
	const char *its = rpc_value_string(rpc_value_get(element, "job_id"));

	return its && strcmp(its, job_id) == 0;
}

struct filter {
	struct json *j;
	const char *job_id;
};

static void write_list(struct json *j, const struct rpc_value *list, const char *job_id)
{
	json_begin_array(j);
	for (size_t i = 0; i < rpc_value_len(list); i++)
		if (is_of_job(rpc_value_at(list, i), job_id))
			rpc_value_write(rpc_value_at(list, i), j);
	json_end_array(j);
}

static void write_member(void *ctx, const char *key, const struct rpc_value *member)
{
	const struct filter *filter = ctx;

	json_key(filter->j, key);
	if (strcmp(key, "processes") == 0 || strcmp(key, "job_progress") == 0)
		write_list(filter->j, member, filter->job_id);
	else
		rpc_value_write(member, filter->j);
}

static bool lists_job(const struct rpc_value *list, const char *job_id)
{
	for (size_t i = 0; i < rpc_value_len(list); i++)
		if (is_of_job(rpc_value_at(list, i), job_id))
			return true;
	return false;
}

/* Between two sheets it has no process, and runs. */
static bool has_job(const struct rpc_value *snapshot, const char *job_id)
{
	return lists_job(rpc_value_get(snapshot, "processes"), job_id) ||
	       lists_job(rpc_value_get(snapshot, "job_progress"), job_id);
}

static void write_snapshot(struct stream *s, const struct rpc_value *snapshot)
{
	struct json j;
	struct filter filter = { &j, s->job_id };

	if (!has_job(snapshot, s->job_id))
		return;
	s->has_come = true;
	json_init(&j, &s->out.buf);
	json_begin_object(&j);
	rpc_value_each(snapshot, write_member, &filter);
	json_end_object(&j);
	buf_add_char(&s->out.buf, '\n');
}

/* As it came, or what is left of it for the job. */
static void take_text(struct stream *s, const char *text, size_t len)
{
	static const struct rpc_value_limits limits = { 64, 4000000 };
	struct rpc_value *value = NULL;

	if (!s->job_id) {
		s->has_come = true;
		buf_add(&s->out.buf, text, len);
		buf_add_char(&s->out.buf, '\n');
	} else if (rpc_value_parse(text, len, &limits, &value, NULL) == 0) {
		write_snapshot(s, value);
		rpc_value_free(value);
	}
}

/* ---- of a daemon ---- */

static int on_event(void *ctx, const struct rpc_value *params)
{
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));

	(void)ctx;
	if (topic && strcmp(topic, "lost") == 0)
		log_warning("too slow: snapshots were left out");
	return 0;
}

static int on_snapshot(void *ctx, struct json_cursor *data)
{
	struct stream *s = ctx;
	const char *text;
	size_t len;

	json_cursor_value(data, &text, &len);
	if (len > 0)
		take_text(s, text, len);
	s->r = output_flush(&s->out);
	return s->r < 0 ? 1 : 0;
}

static int listen_to(struct stream *s, struct rpc_client *client, struct err *err)
{
	int r = rpc_client_listen(client, is_watched() ? 0 : PATIENCE_MS, err);

	if (r != -ETIMEDOUT)
		return r;
	*err = (struct err)ERR_INIT;
	say_waiting(s, "which the daemon makes");
	return rpc_client_listen(client, RPC_FOREVER, err);
}

static int follow_daemon(struct stream *s, struct err *err)
{
	const struct rpc_client_options options = {
		.on_event = on_event,
		.text_topic = "snapshot",
		.on_text = on_snapshot,
		.ctx = s,
	};
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = rpc_client_call(client, "daemon.top.stream", NULL, NULL, err);
	if (r == 0)
		r = listen_to(s, client, err);
	rpc_client_close(client);
	return r > 0 ? s->r : r;
}

/* ---- of the log ---- */

static int take_line(struct stream *s, const struct jsonl_line *line)
{
	if (line->is_after_loss)
		log_warning("too slow: snapshots were left out");
	take_text(s, line->text, line->len);
	return output_flush(&s->out);
}

static void wait_for_lines(struct stream *s, const char *path, unsigned *waited_ms)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
	char whence[PATH_MAX + 64];

	snprintf(whence, sizeof(whence), "in %s, which runs write: no daemon runs", path);
	if (is_watched() || *waited_ms >= PATIENCE_MS)
		say_waiting(s, whence);
	*waited_ms += s->was_said ? 0 : POLL_MS;
	nanosleep(&pause, NULL);
}

static int follow_log(struct stream *s, const char *path, struct err *err)
{
	struct jsonl_tail *tail = NULL;
	struct jsonl_line line;
	unsigned waited_ms = 0;
	int r = jsonl_tail_open(path, JSONL_END, &tail, err);

	while (r >= 0) {
		r = jsonl_tail_next(tail, &line, err);
		if (r > 0)
			r = take_line(s, &line);
		else if (r == 0)
			wait_for_lines(s, path, &waited_ms);
	}
	jsonl_tail_close(tail);
	return r;
}

static int follow(struct stream *s, const struct paths *paths, struct err *err)
{
	int r = follow_daemon(s, err);

	if (r != -ENOENT)
		return r;
	*err = (struct err)ERR_INIT;
	if (!paths->jsonl[0])
		return err_set(err, -ENOENT,
			       "no daemon runs, and the log of snapshots is switched off "
			       "(jsonl_path in the configuration)");
	return follow_log(s, paths->jsonl, err);
}

int top_stream(const struct paths *paths, const char *job_id)
{
	struct stream s = { .job_id = job_id, .out = OUTPUT_INIT };
	struct err err = ERR_INIT;
	int r = output_open(&s.out, NULL, &err);

	if (r == 0)
		r = follow(&s, paths, &err);
	r = output_end(&s.out, r, &err);
	output_release(&s.out);
	return r;
}

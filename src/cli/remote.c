#include "cli/remote.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/output.h"

#define LATEST_SECONDS 9e9 /* a time from outside has to fit into 64 bits of ns */

/* The method for each, and where the rows are in its answer. */
static const struct {
	const char *method, *list;
} methods[] = {
	[REMOTE_ATTEMPTS] = { "job.attempts", "attempts" },
	[REMOTE_EVENTS] = { "job.events", "events" },
	[REMOTE_SAMPLES] = { "job.samples", "samples" },
	[REMOTE_ANOMALIES] = { "job.anomalies", "anomalies" },
};

/* *next is from when on the next page is; U64_UNKNOWN: there is none. */
static int read_page(struct rpc_client *client, enum remote_rows rows,
		     const struct remote_question *q, uint64_t *next, remote_fn *fn, void *ctx,
		     struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const struct rpc_value *list;
	struct json j;
	int r;

	json_init_object(&j, &params);
	if (q->job_id)
		json_key_string(&j, "job_id", q->job_id);
	json_key_u64(&j, "since_ns", *next);
	json_key_u64(&j, "until_ns", q->until_wall_ns);
	json_key_u64(&j, "pid", (uint64_t)q->pid);
	json_key_u64(&j, "limit", q->limit);
	json_key_bool(&j, "latest", q->latest_only);
	json_end_object(&j);
	r = rpc_client_call(client, methods[rows].method, params.data, &answer, err);
	list = r == 0 ? rpc_value_get(answer, methods[rows].list) : NULL;
	for (size_t i = 0; r == 0 && fn && i < rpc_value_len(list); i++)
		r = fn(ctx, rpc_value_at(list, i));
	*next = r == 0 ? rpc_value_u64(rpc_value_get(answer, "next_ns")) : U64_UNKNOWN;
	return r;
}

int remote_read(enum remote_rows rows, const struct remote_question *question, remote_fn *fn,
		void *ctx, struct err *err)
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

/* ---- printing ---- */

struct printer {
	struct lister *lister;
	int (*add_row)(struct lister *l, const struct rpc_value *row);
};

static int print_row(void *ctx, const struct rpc_value *row)
{
	struct printer *p = ctx;

	if (p->lister->form == LISTER_TABLE)
		return p->add_row(p->lister, row);
	rpc_value_write(row, &p->lister->json);
	return lister_pass(p->lister);
}

int remote_print(enum remote_rows rows, const struct remote_question *question, struct lister *l,
		 int (*add_row)(struct lister *l, const struct rpc_value *row), const char *none)
{
	struct err err = ERR_INIT;
	int r = lister_open(l, &err);

	if (r == 0)
		r = remote_read(rows, question, print_row, &(struct printer){ l, add_row }, &err);
	if (r != -ENOENT)
		return lister_end(l, r, none, &err);
	lister_release(l);
	return r;
}

/* ---- members ---- */

uint64_t remote_time(const struct rpc_value *row, const char *key)
{
	double seconds = rpc_value_f64(rpc_value_get(row, key));

	return seconds >= 0 && seconds < LATEST_SECONDS ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

int remote_int(const struct rpc_value *row, const char *key, int otherwise)
{
	int64_t n = rpc_value_i64(rpc_value_get(row, key), otherwise);

	return n >= INT_MIN && n <= INT_MAX ? (int)n : otherwise;
}

const char *remote_text(const struct rpc_value *row, const char *key)
{
	return rpc_value_string(rpc_value_get(row, key));
}

int remote_attempt(const struct rpc_value *row, struct arena *arena, struct attempt *ret)
{
	const char *status = remote_text(row, "status");

	attempt_init(ret);
	if (!remote_text(row, "job_id"))
		return -EBADMSG;
	ret->job_id = arena_strdup(arena, remote_text(row, "job_id"));
	ret->command = arena_strdup(arena, remote_text(row, "command"));
	ret->host = arena_strdup(arena, remote_text(row, "host"));
	ret->reason = arena_strdup(arena, remote_text(row, "reason"));
	ret->uid = rpc_value_u64(rpc_value_get(row, "uid"));
	ret->attempt_num = remote_int(row, "attempt", 0);
	ret->is_running = status && strcmp(status, "running") == 0;
	ret->is_lost = rpc_value_bool(rpc_value_get(row, "lost"), false);
	(void)cause_from_name(remote_text(row, "cause"), &ret->cause.kind);
	ret->outcome = outcome_from_name(remote_text(row, "outcome"));
	ret->status = (struct exit_status){ remote_int(row, "exit_code", -1),
					    remote_int(row, "signal", -1) };
	ret->started_wall_ns = remote_time(row, "started");
	ret->ended_wall_ns = remote_time(row, "ended");
	ret->usage.wall_ns = remote_time(row, "wall_seconds");
	ret->total_sheets = remote_int(row, "total_sheets", 0);
	ret->last_completed_sheet = remote_int(row, "last_completed_sheet", 0);
	ret->current_sheet = remote_int(row, "current_sheet", SHEET_NONE);
	return ret->job_id ? 0 : -ENOMEM;
}

/* ---- the same attempts in two databases ---- */

/* Both have the same number, but for what a fraction of seconds has lost on its way. */
#define SAME_START_NS 2000000.0

static bool is_same_job(const struct attempt *a, const struct attempt *b)
{
	return a->uid == b->uid && strcmp(a->job_id, b->job_id) == 0;
}

static double lead_ns(const struct attempt *a, const struct attempt *over)
{
	return (double)a->started_wall_ns - (double)over->started_wall_ns;
}

static const struct attempt *find_same(const struct attempt_list *list, const struct attempt *a)
{
	for (size_t i = 0; i < list->n; i++)
		if (is_same_job(&list->items[i], a) &&
		    fabs(lead_ns(&list->items[i], a)) < SAME_START_NS)
			return &list->items[i];
	return NULL;
}

int remote_add(struct attempt_list *list, size_t n_own, bool latest_only, const struct attempt *a)
{
	struct attempt *items;

	for (size_t i = 0; i < n_own; i++) {
		struct attempt *own = &list->items[i];

		if (!is_same_job(own, a))
			continue;
		if (latest_only ? lead_ns(own, a) > -SAME_START_NS
				: fabs(lead_ns(own, a)) < SAME_START_NS)
			return 0;
		if (latest_only) {
			*own = *a;
			return 1;
		}
	}
	items = reallocarray(list->items, list->n + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->items[list->n++] = *a;
	return 1;
}

struct adding {
	struct attempt_list *list;
	size_t n_own;
	bool latest_only, has_changed;
};

static int add_row(void *ctx, const struct rpc_value *row)
{
	struct adding *adding = ctx;
	struct attempt a;
	int r = remote_attempt(row, &adding->list->arena, &a);

	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	r = remote_add(adding->list, adding->n_own, adding->latest_only, &a);
	adding->has_changed |= r > 0;
	return r < 0 ? r : 0;
}

int remote_add_all(const struct remote_question *question, struct attempt_list *list,
		   struct err *err)
{
	struct adding adding = { list, list->n, question->latest_only, false };
	int r = remote_read(REMOTE_ATTEMPTS, question, add_row, &adding, err);

	return r < 0 && r != -ENOENT ? r : adding.has_changed;
}

static const struct attempt *find_number(const struct attempt_list *list, int num)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].attempt_num == num)
			return &list->items[i];
	return NULL;
}

/* In a database that is the daemon's own, too, each has the number that it had. */
int remote_match_number(const struct attempt_list *own, const struct attempt_list *theirs, int num)
{
	const struct attempt *ours = find_number(own, num);
	const struct attempt *same = find_number(theirs, num);

	if (!ours)
		return same && !find_same(own, same) ? num : 0;
	if (!same || !is_same_job(same, ours) || fabs(lead_ns(same, ours)) >= SAME_START_NS)
		same = find_same(theirs, ours);
	return same ? same->attempt_num : 0;
}

int remote_number_here(const struct attempt_list *own, const struct attempt *a)
{
	const struct attempt *same = find_same(own, a);

	return same ? same->attempt_num : a->attempt_num;
}

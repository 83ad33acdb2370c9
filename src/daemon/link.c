#include "daemon/link.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/guest.h"
#include "daemon/link_internal.h"

#define BEGIN_TIMEOUT_MS 5    /* the command waits: for all of it together */
#define COUNT_TIMEOUT_MS 3000 /* loading eBPF programs takes some tenths of a second */
#define RETRY_NS UINT64_C(5000000000)

struct link *link_new(struct loop *loop)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link)
		link->loop = loop;
	return link;
}

static void hang_up(struct link *link)
{
	link->watch = link->watch ? loop_fd_close(link->watch) : NULL;
	link->client = rpc_client_close(link->client);
	link->has_begun = false;
	link->records = false;
	link->counts_calls = false;
}

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	hang_up(link);
	free(link);
	return NULL;
}

/* The daemon has nothing to say to us: what comes is its end. */
static void on_readable(void *ctx)
{
	struct link *link = ctx;
	int r = rpc_client_listen(link->client, 0, NULL);

	if (r != -ETIMEDOUT)
		hang_up(link);
}

/* False: it follows nobody, or not yet. */
static bool say_begin(struct link *link, const char *job_id, uint64_t timeout_ms)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct rpc_value *answer = NULL;
	struct json j;
	bool follows;
	int r;

	if (rpc_client_daemon_uid(link->client) != 0)
		return false;
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job_id);
	json_end_object(&j);
	rpc_client_set_timeout(link->client, timeout_ms);
	r = timeout_ms ? rpc_client_call(link->client, "runner.begins", params.data, &answer, NULL)
		       : -ETIMEDOUT;
	link->began_late = r == -ETIMEDOUT;
	if (r < 0)
		return false;
	follows = rpc_value_bool(rpc_value_get(answer, "follows"), false);
	rpc_value_free(answer);
	return follows;
}

void link_begin(struct link *link, const char *job_id)
{
	const struct rpc_client_options options = { .timeout_ms = BEGIN_TIMEOUT_MS };
	uint64_t began_ns = clock_boot_ns(), ms;

	int r = link->client ? -EALREADY : rpc_client_open(&options, &link->client, NULL);

	link->began_late = r == -ETIMEDOUT;
	if (r < 0)
		return;
	ms = (clock_boot_ns() - began_ns) / 1000000;
	link->has_begun =
		say_begin(link, job_id, ms < BEGIN_TIMEOUT_MS ? BEGIN_TIMEOUT_MS - ms : 0);
	if (link->has_begun)
		link->watch =
			loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	if (link->watch)
		rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	else
		hang_up(link);
}

bool link_has_begun(const struct link *link)
{
	return link->has_begun;
}

bool link_began_late(const struct link *link)
{
	return link->began_late;
}

static void write_hello(struct buf *out, const struct link_job *job)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job->a->job_id);
	json_key_i64(&j, "attempt", job->a->attempt_num);
	if (job->inode) {
		json_key_u64(&j, "device", (uint64_t)job->device);
		json_key_u64(&j, "inode", (uint64_t)job->inode);
	}
	json_key_f64(&j, "interval_seconds", job->a->interval_seconds);
	json_key_bool(&j, "keeps_calls", job->keeps_calls);
	json_key_bool(&j, "wants_calls", job->wants_calls);
	json_key(&j, "job");
	guest_write(&j, job->a, job->sheets, job->n_sheets);
	json_end_object(&j);
}

static int say_hello(struct link *link, const struct link_job *job, struct err *err)
{
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_value *answer = NULL;
	int r;

	write_hello(&hello, job);
	r = rpc_client_call(link->client, "runner.hello", hello.data, &answer, err);
	if (r == -ETIMEDOUT) /* it may read that later, and then waits for word of our end */
		link->is_guest |= rpc_client_daemon_uid(link->client) != geteuid();
	if (r < 0)
		return r;
	link->records = rpc_value_bool(rpc_value_get(answer, "records"), false);
	link->is_guest = rpc_value_bool(rpc_value_get(answer, "guest"), false);
	if (rpc_value_bool(rpc_value_get(answer, "counts_calls"), false))
		link->counts_calls = true; /* and still does when hello is said again */
	rpc_value_free(answer);
	if (!link->watch)
		link->watch =
			loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	return link->watch ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/*
 * -EAGAIN: it is too early for this daemon. If it has our database, which is likely as it
 * is our own user's, it is enough to say that there is something to see, now and whenever there
 * is more: so the connection stays.
 */
static int greet(struct link *link, const struct link_job *job, bool is_lasting)
{
	const struct rpc_client_options options = { .timeout_ms = LINK_TIMEOUT_MS };
	int r = link->client ? 0 : rpc_client_open(&options, &link->client, NULL);

	if (r < 0)
		return r;
	link->has_begun = false;
	if (is_lasting || rpc_client_daemon_uid(link->client) != geteuid())
		return say_hello(link, job, NULL);
	r = rpc_client_notify(link->client, "runner.changed", NULL, NULL);
	return r < 0 ? r : -EAGAIN;
}

void link_greet(struct link *link, const struct link_job *job, bool is_lasting)
{
	uint64_t now = clock_boot_ns();
	int r;

	if (link->is_early ? !is_lasting : link_is_there(link))
		return;
	if (link->tried_boot_ns && now - link->tried_boot_ns < RETRY_NS)
		return;
	r = greet(link, job, is_lasting);
	link->is_early = r == -EAGAIN && !is_lasting;
	link->tried_boot_ns = link->is_early ? 0 : now;
	if (r < 0 && !link->is_early)
		hang_up(link);
}

/* With an answer in either case: by then it has looked. */
static int greet_at_once(struct link *link, const struct link_job *job)
{
	const struct rpc_client_options options = { .timeout_ms = LINK_END_TIMEOUT_MS };
	int r = link->client ? 0 : rpc_client_open(&options, &link->client, NULL);

	if (r < 0)
		return r;
	link->has_begun = false;
	rpc_client_set_timeout(link->client, LINK_END_TIMEOUT_MS);
	if (rpc_client_daemon_uid(link->client) != geteuid())
		return say_hello(link, job, NULL);
	r = rpc_client_call(link->client, "runner.changed", NULL, NULL, NULL);
	return r < 0 ? r : -EAGAIN;
}

void link_greet_at_once(struct link *link, const struct link_job *job)
{
	int r = 0;

	if (!link_is_there(link))
		r = greet_at_once(link, job);
	else if (!link->is_guest) /* it is there, and may not have looked since */
		(void)rpc_client_call(link->client, "runner.changed", NULL, NULL, NULL);
	if (r == -EAGAIN)
		link->is_early = true;
	if (r < 0)
		hang_up(link);
}

/* One of our own user may do no more than we may. Where it has our database it only counts. */
static int greet_counter(struct link *link, const struct link_job *job, bool may_be_own,
			 struct err *err)
{
	const struct rpc_client_options options = { .timeout_ms = COUNT_TIMEOUT_MS };
	int r = rpc_client_open(&options, &link->client, err);

	if (r < 0)
		return r;
	if (!may_be_own && rpc_client_daemon_uid(link->client) == geteuid())
		return err_set(err, -EPERM, "the daemon is this user's own");
	r = say_hello(link, job, err);
	if (r < 0)
		return r;
	link->is_early = !link->is_guest;
	rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	return 0;
}

int link_ask_to_count(struct link *link, const struct link_job *job, bool may_be_own,
		      struct err *err)
{
	int r = link->client ? 0 : greet_counter(link, job, may_be_own, err);

	if (r < 0)
		hang_up(link);
	if (r < 0 || link->counts_calls)
		return r;
	return err_set(err, -EOPNOTSUPP, "the daemon does not count them");
}

bool link_counts_calls(const struct link *link)
{
	return link->counts_calls;
}

bool link_is_shared(const struct link *link)
{
	return link_is_there(link) && !link->is_guest;
}

bool link_is_there(const struct link *link)
{
	return link->client && !link->has_begun;
}

bool link_is_guest(const struct link *link)
{
	return link->is_guest;
}

bool link_records(const struct link *link)
{
	return link->records;
}

/* {"job":…} */
static void write_change(struct buf *out, const struct link_job *job, size_t n_from)
{
	size_t from = n_from < job->n_sheets ? n_from : job->n_sheets;
	struct attempt a = *job->a;
	struct json j;

	a.events = job->events;
	a.n_events = job->n_events;

	json_init(&j, out);
	json_begin_object(&j);
	json_key(&j, "job");
	guest_write(&j, &a, job->sheets + from, job->n_sheets - from);
	json_end_object(&j);
}

void link_tell_changed(struct link *link, const struct link_job *job, size_t n_from)
{
	CLEANUP(buf_release) struct buf change = BUF_INIT;

	if (!link_is_there(link))
		return;
	if (link->is_guest)
		write_change(&change, job, n_from);
	if (rpc_client_notify(link->client, "runner.changed", link->is_guest ? change.data : NULL,
			      NULL) < 0)
		hang_up(link);
}

/* One that was only told to look finds nothing if there is no database of ours to look into. */
static bool must_greet_at_end(const struct link *link, const struct link_job *job, bool is_expected)
{
	if (!link->client)
		return is_expected || link->is_early;
	return link->is_early && !job->inode;
}

/*
 * With an answer: before it comes we do not end, or the daemon could see us dead before
 * it has read what we said. A daemon that was there and is gone may have come back.
 */
bool link_tell_end(struct link *link, const struct link_job *job, bool is_awaited)
{
	bool is_expected = link->is_guest || is_awaited;
	CLEANUP(buf_release) struct buf end = BUF_INIT;
	int r = 0;

	if (link->has_begun) /* and was over before anything else was worth saying */
		hang_up(link);
	if (must_greet_at_end(link, job, is_expected))
		r = greet(link, job, is_awaited);
	if (r < 0)
		hang_up(link);
	if (!link->client)
		return !is_expected || r == -EAGAIN;
	if (!link->is_guest) {
		link_tell_changed(link, job, 0);
		return true;
	}
	write_change(&end, job, 0);
	rpc_client_set_timeout(link->client, LINK_END_TIMEOUT_MS);
	return rpc_client_call(link->client, "runner.changed", end.data, NULL, NULL) == 0;
}

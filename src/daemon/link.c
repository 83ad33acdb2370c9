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
#define FIRST_RETRY_NS UINT64_C(250000000) /* one that has gone may be about to come back */

struct link *link_new(struct loop *loop)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link)
		link->loop = loop;
	return link;
}

void link_hang_up(struct link *link)
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
	link_hang_up(link);
	free(link);
	return NULL;
}

/* The daemon has nothing to say to us: what comes is its end. */
static void on_readable(void *ctx)
{
	struct link *link = ctx;
	int r = rpc_client_listen(link->client, 0, NULL);

	if (r == -ETIMEDOUT)
		return;
	link_hang_up(link);
	link->retry_ns = FIRST_RETRY_NS;
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
	link->was_followed = link->has_begun;
	if (link->has_begun)
		link->watch =
			loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	if (link->watch)
		rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	else
		link_hang_up(link);
}

bool link_has_begun(const struct link *link)
{
	return link->has_begun;
}

bool link_was_followed(const struct link *link)
{
	return link->was_followed;
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

int link_say_hello(struct link *link, const struct link_job *job, struct err *err)
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

int link_say_greeting(struct link *link, const struct link_job *job, bool is_lasting,
		      uint64_t timeout_ms)
{
	const struct rpc_client_options options = { .timeout_ms = timeout_ms };
	int r = link->client ? 0 : rpc_client_open(&options, &link->client, NULL);

	if (r < 0)
		return r;
	link->has_begun = false;
	if (is_lasting || rpc_client_daemon_uid(link->client) != geteuid())
		return link_say_hello(link, job, NULL);
	r = rpc_client_notify(link->client, "runner.changed", NULL, NULL);
	return r < 0 ? r : -EAGAIN;
}

static bool is_time_to_try(const struct link *link, uint64_t now)
{
	uint64_t pause_ns = link->retry_ns ? link->retry_ns : RETRY_NS;

	return link->tried_boot_ns == 0 || now - link->tried_boot_ns >= pause_ns;
}

/* To find out that nobody is there costs nothing; one that hangs is left alone. */
static void plan_retry(struct link *link, int r)
{
	if (r != -ENOENT || link->retry_ns > RETRY_NS / 2)
		link->retry_ns = 0;
	else
		link->retry_ns *= 2;
}

void link_greet(struct link *link, const struct link_job *job, bool is_lasting)
{
	uint64_t now = clock_boot_ns();
	int r;

	if (link->is_early ? !is_lasting : link_is_there(link))
		return;
	if (!is_time_to_try(link, now))
		return;
	r = link_say_greeting(link, job, is_lasting, LINK_TIMEOUT_MS);
	link->is_early = r == -EAGAIN && !is_lasting;
	link->tried_boot_ns = link->is_early ? 0 : now;
	plan_retry(link, r);
	link->began_late |= r == -ETIMEDOUT;
	if (r < 0 && !link->is_early)
		link_hang_up(link);
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
	r = link_say_hello(link, job, err);
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
		link_hang_up(link);
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

void link_write_change(struct buf *out, const struct link_job *job, size_t n_from)
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
		link_write_change(&change, job, n_from);
	if (rpc_client_notify(link->client, "runner.changed", link->is_guest ? change.data : NULL,
			      NULL) < 0)
		link_hang_up(link);
}

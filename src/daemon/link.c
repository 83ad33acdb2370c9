#include "daemon/link.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/log.h"
#include "daemon/deaths.h"
#include "sources/sources.h"

/* A daemon that is busy for longer is done without. */
#define LINK_TIMEOUT_MS 100

/* What is left of the time that a run waits for the daemon when its job is over. */
struct link_patience {
	uint64_t spare_ns;  /* for what nobody has asked for */
	uint64_t wanted_ns; /* for the rest */
	bool is_late;	    /* a question other than for ends was not answered in time */
};

struct link {
	struct loop *loop;
	struct rpc_client *client; /* NULL: there is no connection */
	struct loop_fd *watch;
	bool has_begun;	   /* nothing else was said to it yet than that */
	bool was_followed; /* a daemon has said so, whatever has become of it since */
	bool began_late;
	bool is_early;		     /* our own daemon is there: hello is said to it later */
	bool is_guest;		     /* of the daemon that is there, or was; or it may be */
	bool counts_calls;	     /* the daemon does, from before the first of them */
	uint64_t tried_boot_ns;	     /* 0: never */
	uint64_t retry_ns;	     /* how long after that it is tried again; 0: RETRY_NS */
	uint64_t counts_due_boot_ns; /* before this it is not asked for counts */
	struct link_patience patience;

	/* Of a guest: its log. */
	const struct attempt_log *log;
	struct log_sender *sender; /* NULL: no daemon was told of the log yet, or it is its own */
	bool is_sending;	   /* the answer to this is awaited: */
	uint64_t sending_id;
	uint64_t send_due_boot_ns; /* the daemon has refused some: not before this */
};

/* ---- talking ---- */

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

static void hang_up(struct link *link)
{
	link->watch = link->watch ? loop_fd_close(link->watch) : NULL;
	link->client = rpc_client_close(link->client);
	link->has_begun = false;
	link->counts_calls = false;
	link->is_sending = false;
}

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	hang_up(link);
	log_sender_close(link->sender);
	free(link);
	return NULL;
}

/* ---- frames of a guest ---- */

#define REFUSED_PAUSE_NS UINT64_C(1000000000)

static void on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
		      const struct err *err)
{
	struct link *link = ctx;

	(void)result;
	if (!link->is_sending || id != link->sending_id)
		return;
	link->is_sending = false;
	if (r == 0) {
		log_sender_accept(link->sender);
		return;
	}
	log_debug("the daemon does not take what is recorded now: %s", err->text);
	link->send_due_boot_ns = clock_boot_ns() + REFUSED_PAUSE_NS;
}

void link_send(struct link *link)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;

	if (!link_is_there(link) || !link->is_guest || !link->sender || link->is_sending ||
	    clock_boot_ns() < link->send_due_boot_ns ||
	    !log_sender_next(link->sender, attempt_log_bytes(link->log), &params))
		return;
	link->is_sending = rpc_client_ask(link->client, "runner.frames", params.data,
					  &link->sending_id, NULL) == 0;
	if (!link->is_sending)
		hang_up(link);
}

void link_leave_log(struct link *link)
{
	hang_up(link);
	link->sender = log_sender_close(link->sender);
	link->log = NULL;
}

/* An answer, or the daemon's end. */
static void on_readable(void *ctx)
{
	struct link *link = ctx;
	int r = rpc_client_listen(link->client, 0, NULL);

	if (r == -ETIMEDOUT) {
		link_send(link);
		return;
	}
	hang_up(link);
	link->retry_ns = FIRST_RETRY_NS;
}

static int open_client(struct link *link, uint64_t timeout_ms, struct err *err)
{
	const struct rpc_client_options options = { .timeout_ms = timeout_ms,
						    .on_answer = on_answer,
						    .ctx = link };

	return rpc_client_open(&options, &link->client, err);
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
	uint64_t began_ns = clock_boot_ns(), ms;
	int r = link->client ? -EALREADY : open_client(link, BEGIN_TIMEOUT_MS, NULL);

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
		hang_up(link);
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

int link_open_log(struct link *link, const struct link_job *job)
{
	link->log = job->log;
	if (!job->log)
		return -ENOENT;
	return link->sender ? 0 : attempt_log_open_sender(job->log, &link->sender, NULL);
}

static void write_hello(struct buf *out, struct link *link, const struct link_job *job)
{
	dev_t device;
	ino_t inode;
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job->a->job_id);
	attempt_log_place(job->log, &device, &inode);
	if (inode) {
		json_key_u64(&j, "device", (uint64_t)device);
		json_key_u64(&j, "inode", (uint64_t)inode);
	}
	json_key_bool(&j, "keeps_calls", job->keeps_calls);
	json_key_bool(&j, "wants_calls", job->wants_calls);
	log_sender_write_hello(link->sender, &j);
	json_end_object(&j);
}

static int say_hello(struct link *link, const struct link_job *job, struct err *err)
{
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_value *answer = NULL;
	int r;

	r = link_open_log(link, job);
	if (r < 0)
		return err_set(err, r, "there is no log to tell a daemon of");
	write_hello(&hello, link, job);
	r = rpc_client_call(link->client, "runner.hello", hello.data, &answer, err);
	if (r == -ETIMEDOUT) /* it may read that later, and then waits for word of our end */
		link->is_guest |= rpc_client_daemon_uid(link->client) != geteuid();
	if (r < 0)
		return r;
	link->is_guest = rpc_value_bool(rpc_value_get(answer, "guest"), false);
	if (rpc_value_bool(rpc_value_get(answer, "counts_calls"), false))
		link->counts_calls = true; /* and still does when hello is said again */
	if (link->is_guest)
		log_sender_begin(link->sender, rpc_value_u64(rpc_value_get(answer, "from")));
	else
		link->sender = log_sender_close(link->sender);
	link->is_sending = false;
	rpc_value_free(answer);
	if (!link->watch)
		link->watch =
			loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	if (!link->watch)
		return err_set(err, -ENOMEM, "out of memory");
	link_send(link);
	return 0;
}

/*
 * -EAGAIN: it is too early for this daemon. If it has our folder of logs, which is likely as it is
 * our own user's, it is enough to say that there is something to see, now and whenever there is
 * more: so the connection stays.
 */
static int say_greeting(struct link *link, const struct link_job *job, bool is_lasting,
			uint64_t timeout_ms)
{
	int r = link->client ? 0 : open_client(link, timeout_ms, NULL);

	if (r < 0)
		return r;
	link->has_begun = false;
	if (is_lasting || rpc_client_daemon_uid(link->client) != geteuid())
		return say_hello(link, job, NULL);
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
	r = say_greeting(link, job, is_lasting, LINK_TIMEOUT_MS);
	link->is_early = r == -EAGAIN && !is_lasting;
	link->tried_boot_ns = link->is_early ? 0 : now;
	plan_retry(link, r);
	link->began_late |= r == -ETIMEDOUT;
	if (r < 0 && !link->is_early)
		hang_up(link);
}

/* One of our own user may do no more than we may. Where it has our database it only counts. */
static int greet_counter(struct link *link, const struct link_job *job, bool may_be_own,
			 struct err *err)
{
	int r = open_client(link, COUNT_TIMEOUT_MS, err);

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

void link_tell_changed(struct link *link)
{
	if (!link_is_there(link))
		return;
	if (link->is_guest)
		link_send(link);
	else if (rpc_client_notify(link->client, "runner.changed", NULL, NULL) < 0)
		hang_up(link);
}

/* ---- the job is over: for how long it waits ---- */

/*
 * The end of a run waits for a daemon that hangs, or is busy, for no longer than this in all,
 * however much there is to ask and to tell: for what nobody has asked for, a tenth of what the run
 * took, and half a second more for the rest. Only waiting for the daemon counts, not what the run
 * does meanwhile.
 */
#define SPARE_LEAST_NS UINT64_C(5000000)
#define SPARE_MOST_NS UINT64_C(500000000)
#define WANTED_NS UINT64_C(500000000)
#define NS_PER_MS UINT64_C(1000000)

void link_begin_end(struct link *link, uint64_t run_ns)
{
	uint64_t spare_ns = run_ns / 10;

	spare_ns = spare_ns < SPARE_LEAST_NS ? SPARE_LEAST_NS : spare_ns;
	spare_ns = spare_ns > SPARE_MOST_NS ? SPARE_MOST_NS : spare_ns;
	link->patience = (struct link_patience){ .spare_ns = spare_ns, .wanted_ns = WANTED_NS };
}

static void spend(uint64_t *left_ns, uint64_t began_boot_ns)
{
	uint64_t ns = clock_boot_ns() - began_boot_ns;

	*left_ns = ns < *left_ns ? *left_ns - ns : 0;
}

/* What is not said at once has been said too late: nothing is asked in less than a millisecond. */
static int ask(struct link *link, uint64_t *left_ns, const char *method, const char *params,
	       struct rpc_value **ret, struct err *err)
{
	uint64_t began_boot_ns = clock_boot_ns();
	int r = -ETIMEDOUT;

	if (*left_ns < NS_PER_MS)
		return err_set(err, r, "the daemon does not answer");
	rpc_client_set_timeout(link->client, *left_ns / NS_PER_MS);
	r = rpc_client_call(link->client, method, params, ret, err);
	rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	spend(left_ns, began_boot_ns);
	return r;
}

static int ask_wanted(struct link *link, const char *method, const char *params,
		      struct rpc_value **ret, struct err *err)
{
	int r = ask(link, &link->patience.wanted_ns, method, params, ret, err);

	link->patience.is_late |= r == -ETIMEDOUT;
	return r;
}

static int ask_spare(struct link *link, const char *method, const char *params,
		     struct rpc_value **ret)
{
	return ask(link, &link->patience.spare_ns, method, params, ret, NULL);
}

/* Where the daemon hangs all of them together cost a run no more than the first. One that is late
 * with the ends, which may take less than this, is not taken to hang. */
#define UNASKED_MOST_NS UINT64_C(200000000)

static int ask_unasked(struct link *link, const char *method, struct rpc_value **ret,
		       struct err *err)
{
	uint64_t most_ns = link->patience.wanted_ns, left_ns;
	int r;

	if (link->patience.is_late)
		return err_set(err, -ETIMEDOUT, "the daemon does not answer");
	most_ns = most_ns < UNASKED_MOST_NS ? most_ns : UNASKED_MOST_NS;
	left_ns = most_ns;
	r = ask(link, &left_ns, method, NULL, ret, err);
	link->patience.is_late = r == -ETIMEDOUT;
	link->patience.wanted_ns -= most_ns - left_ns;
	return r;
}

static uint64_t spare_ms(const struct link *link)
{
	return link->patience.spare_ns / NS_PER_MS;
}

/* ---- it may not have heard of the job yet ---- */

/* Connects, unless that is done. */
static int reach(struct link *link)
{
	uint64_t began_boot_ns = clock_boot_ns();
	int r;

	if (link->client)
		return 0;
	if (link->patience.wanted_ns < NS_PER_MS)
		return -ETIMEDOUT;
	r = open_client(link, LINK_TIMEOUT_MS, NULL);
	spend(&link->patience.wanted_ns, began_boot_ns);
	return r;
}

/* With an answer in either case: by then it has looked. */
static int greet_at_once(struct link *link, const struct link_job *job)
{
	uint64_t began_boot_ns;
	int r = reach(link);

	if (r < 0)
		return r;
	link->has_begun = false;
	if (rpc_client_daemon_uid(link->client) == geteuid()) {
		r = ask_wanted(link, "runner.changed", NULL, NULL, NULL);
		return r < 0 ? r : -EAGAIN;
	}
	began_boot_ns = clock_boot_ns();
	rpc_client_set_timeout(link->client, link->patience.wanted_ns / NS_PER_MS);
	r = say_hello(link, job, NULL);
	spend(&link->patience.wanted_ns, began_boot_ns);
	rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	return r;
}

void link_greet_at_once(struct link *link, const struct link_job *job)
{
	int r = 0;

	if (!link_is_there(link))
		r = greet_at_once(link, job);
	else if (!link->is_guest) /* it is there, and may not have looked since */
		(void)ask_wanted(link, "runner.changed", NULL, NULL, NULL);
	if (r == -EAGAIN)
		link->is_early = true;
	if (r < 0)
		hang_up(link);
}

/* ---- that it is over ---- */

/* One that was only told to look finds nothing if there is no database of ours to look into. */
static bool must_greet_at_end(const struct link *link, const struct link_job *job, bool is_expected)
{
	if (!link->client)
		return is_expected || link->is_early;
	return link->is_early && !attempt_log_is_stored(job->log);
}

static int greet_at_end(struct link *link, const struct link_job *job, bool is_awaited)
{
	uint64_t ms = link->patience.wanted_ns / NS_PER_MS, began_boot_ns = clock_boot_ns();
	int r = -ETIMEDOUT;

	ms = ms > LINK_TIMEOUT_MS ? LINK_TIMEOUT_MS : ms;
	if (ms > 0)
		r = say_greeting(link, job, is_awaited, ms);
	spend(&link->patience.wanted_ns, began_boot_ns);
	return r;
}

/* Also where nothing is left to wait for its answer with: it may read it when it goes on. */
static bool send_end(struct link *link)
{
	uint64_t began_boot_ns = clock_boot_ns();
	int r;

	link->is_sending = false; /* what is on its way is sent again, and passed over there */
	log_sender_hold(link->sender);
	r = log_sender_finish(link->sender, link->client, began_boot_ns + link->patience.wanted_ns);
	spend(&link->patience.wanted_ns, began_boot_ns);
	return r == 0;
}

struct log_sender *link_take_log(struct link *link)
{
	hang_up(link);
	if (link->sender)
		log_sender_hold(link->sender);
	return TAKE_PTR(link->sender);
}

/*
 * With an answer: before it comes we do not end, or the daemon could see us dead before
 * it has read what we said. A daemon that was there and is gone may have come back.
 */
bool link_tell_end(struct link *link, const struct link_job *job, bool is_awaited)
{
	bool is_expected = link->is_guest || is_awaited;
	int r = 0;

	if (link->has_begun) /* and was over before anything else was worth saying */
		hang_up(link);
	if (must_greet_at_end(link, job, is_expected))
		r = greet_at_end(link, job, is_awaited);
	if (r < 0)
		hang_up(link);
	if (!link->client)
		return !is_expected || r == -EAGAIN;
	if (link->is_guest)
		return link->sender && send_end(link);
	link_tell_changed(link);
	return true;
}

int link_await_record(struct link *link)
{
	int r = reach(link);

	if (r < 0)
		return r == -ETIMEDOUT ? r : 0;
	if (rpc_client_daemon_uid(link->client) != geteuid())
		return 0;
	return ask_wanted(link, "runner.changed", NULL, NULL, NULL) == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

/* ---- the rungs of a daemon ---- */

static bool is_shared(const char *measurement)
{
	return strcmp(measurement, SOURCES_RUNG_BIRTHS) == 0 ||
	       strcmp(measurement, SOURCES_RUNG_OOM) == 0;
}

static void name_both(struct attempt *a, struct rung *rung, const char *theirs)
{
	CLEANUP(buf_release) struct buf both = BUF_INIT;
	const char *kept;

	buf_printf(&both, "%s; by the daemon: %s", rung->rung, theirs);
	kept = buf_error(&both) == 0 ? arena_strdup(&a->arena, both.data) : NULL;
	if (kept)
		rung->rung = kept;
}

static void add_rungs(struct attempt *a, const struct rpc_value *rungs)
{
	for (size_t i = 0; i < a->n_rungs; i++) {
		struct rung *rung = &a->rungs[i];
		const char *theirs = rpc_value_string(rpc_value_get(rungs, rung->measurement));

		if (theirs && strcmp(theirs, rung->rung) != 0 &&
		    strcmp(theirs, RUNG_UNKNOWN) != 0 && is_shared(rung->measurement))
			name_both(a, rung, theirs);
	}
}

/* ---- what the daemon knows ---- */

int link_take_calls(struct link *link, bool is_wanted, struct told_calls *calls, struct err *err)
{
	struct rpc_value *answer = NULL;
	int r;

	if (!link_is_there(link))
		return err_set(err, -ENOENT, "no daemon is there");
	r = is_wanted ? ask_wanted(link, "runner.calls", NULL, &answer, err)
		      : ask_unasked(link, "runner.calls", &answer, err);
	if (r < 0)
		return r;
	if (rpc_value_bool(rpc_value_get(answer, "counted"), false))
		r = told_calls_read(answer, calls);
	else
		r = -ENODATA;
	rpc_value_free(answer);
	return r < 0 ? err_set(err, r, "the daemon has none of them") : 0;
}

/* One that does not count now may do so soon; one that has no time now is left alone. */
#define COUNTS_PAUSE_NS UINT64_C(1000000000)

/* Only root's counts. */
static bool tells_counts(const struct link *link)
{
	return link->client && (link->is_guest || geteuid() == 0) &&
	       clock_boot_ns() >= link->counts_due_boot_ns;
}

int link_take_counts(struct link *link, struct process_calls *ret)
{
	struct rpc_value *answer = NULL;
	int r;

	if (!tells_counts(link))
		return -ENODATA;
	r = rpc_client_call(link->client, "runner.counts", NULL, &answer, NULL);
	if (r == 0 && !rpc_value_bool(rpc_value_get(answer, "counted"), false))
		r = -ENODATA;
	if (r == 0)
		r = told_calls_read_processes(rpc_value_get(answer, "processes"), ret);
	if (r < 0)
		link->counts_due_boot_ns = clock_boot_ns() + COUNTS_PAUSE_NS;
	rpc_value_free(answer);
	return r;
}

/* Half of the time is for the kernel's last words, and half for a busy daemon to answer in. */
static int ask_for_deaths(struct link *link, struct rpc_value **ret)
{
	char params[64];

	snprintf(params, sizeof(params), "{\"patience_ms\":%" PRIu64 "}", spare_ms(link) / 2);
	return ask_spare(link, "runner.deaths", params, ret);
}

/* 0 where the answer has none. */
static uint64_t read_count(const struct rpc_value *answer, const char *key)
{
	uint64_t n = rpc_value_u64(rpc_value_get(answer, key));

	return u64_known(n) ? n : 0;
}

void link_take_deaths(struct link *link, struct arena *arena, struct link_deaths *ret)
{
	struct rpc_value *answer = NULL;
	int r = link->client ? ask_for_deaths(link, &answer) : -ENOENT;

	*ret = (struct link_deaths){ .is_late = r == -ETIMEDOUT,
				     .is_refused = r < 0 && r != -ETIMEDOUT };
	if (r < 0)
		return;
	deaths_read(rpc_value_get(answer, "processes"), arena, &ret->items, &ret->n);
	ret->n_unlisted = read_count(answer, "unlisted");
	ret->n_withheld = read_count(answer, "withheld");
	ret->is_rough = !rpc_value_bool(rpc_value_get(answer, "last_words"), true);
	ret->n_lost = read_count(answer, "lost");
	rpc_value_free(answer);
}

/* False: it is none that a daemon tells. */
static bool read_signal(const struct rpc_value *v, struct proc_event *ret)
{
	const char *type = rpc_value_string(rpc_value_get(v, "type"));
	const char *details = rpc_value_string(rpc_value_get(v, "details"));
	int64_t signal = rpc_value_i64(rpc_value_get(v, "signal"), 0);
	uint64_t pid = rpc_value_u64(rpc_value_get(v, "pid"));

	*ret = (struct proc_event){
		.wall_ns = rpc_value_u64(rpc_value_get(v, "wall_ns")),
		.key = { (pid_t)pid, rpc_value_u64(rpc_value_get(v, "start_ticks")) },
		.status = { -1, (int)signal },
		.sheet_num = (int)rpc_value_i64(rpc_value_get(v, "sheet_num"), SHEET_NONE),
		.details = details ? details : "",
	};
	return type && event_type_from_name(type, &ret->type) == 0 &&
	       event_type_is_signal(ret->type) && pid > 0 && pid <= INT32_MAX && signal > 0 &&
	       signal < NSIG && u64_known(ret->wall_ns);
}

int link_take_signals(struct link *link, link_signal_fn *fn, void *ctx)
{
	struct rpc_value *answer = NULL;
	const struct rpc_value *list;
	struct proc_event ev;
	int r;

	if (!link->client || !link->is_guest)
		return 0;
	r = ask_wanted(link, "runner.signals", NULL, &answer, NULL);
	list = r < 0 ? NULL : rpc_value_get(answer, "signals");
	for (size_t i = 0; list && i < rpc_value_len(list); i++)
		if (read_signal(rpc_value_at(list, i), &ev))
			fn(ctx, &ev);
	rpc_value_free(answer);
	return r;
}

bool link_saw_oom_kill(struct link *link, pid_t pid, struct buf *why)
{
	struct rpc_value *answer = NULL;
	const struct rpc_value *list = NULL;
	struct proc_event ev;
	bool has_seen = false;

	if (link_is_there(link) &&
	    rpc_client_call(link->client, "runner.signals", NULL, &answer, NULL) == 0)
		list = rpc_value_get(answer, "signals");
	for (size_t i = 0; list && !has_seen && i < rpc_value_len(list); i++) {
		has_seen = read_signal(rpc_value_at(list, i), &ev) && ev.type == EVENT_OOM &&
			   ev.key.pid == pid;
		if (has_seen)
			buf_add_str(why, ev.details);
	}
	rpc_value_free(answer);
	return has_seen;
}

int link_take_rungs(struct link *link, struct attempt *a)
{
	struct rpc_value *status = NULL;
	int r;

	if (!link_is_there(link))
		return 0;
	r = ask_unasked(link, "daemon.status", &status, NULL);
	if (r == 0)
		add_rungs(a, rpc_value_get(status, "rungs"));
	rpc_value_free(status);
	return r;
}

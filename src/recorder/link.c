#include "recorder/link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
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
#include "model/record.h"
#include "sources/sources.h"

/* A daemon that is busy for longer is done without. */
#define LINK_TIMEOUT_MS 100
#define BARRIER_TIMEOUT_MS 400 /* a command has failed: the daemon of a busy host may know why */

/* What is left of the time that a run waits for the daemon when its job is over. */
struct link_patience {
	uint64_t spare_ns;  /* for what nobody has asked for */
	uint64_t wanted_ns; /* for the rest */
	bool is_late;	    /* a question other than for ends was not answered in time */
};

struct link {
	struct loop *loop;
	const struct link_job *job;
	struct rpc_client *client; /* NULL: there is no connection */
	struct loop_fd *watch;
	struct link_state state;
	bool is_followed;   /* the stream is open, on this connection */
	bool wants_samples; /* it was asked for them, on this connection */
	char rungs[3][96];  /* of the daemon that follows us: as in followed[] */
	link_facts_fn *facts_fn;
	link_samples_fn *samples_fn;
	void *ctx;
	uint64_t n_facts; /* of this stream, with those that were lost on the way */
	uint64_t n_kernel_lost, n_withheld; /* of this stream, as of its last barrier */
	uint64_t tried_boot_ns;		    /* 0: never */
	uint64_t retry_ns;		    /* how long after that it is tried again; 0: RETRY_NS */
	uint64_t counts_due_boot_ns;	    /* before this it is not asked for counts */
	bool has_counts;		    /* all that it has told so far */
	struct link_patience patience;

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

struct link *link_new(struct loop *loop, const struct link_job *job, link_facts_fn *facts_fn,
		      link_samples_fn *samples_fn, void *ctx)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link)
		*link = (struct link){ .loop = loop,
				       .job = job,
				       .facts_fn = facts_fn,
				       .samples_fn = samples_fn,
				       .ctx = ctx };
	return link;
}

static void hang_up(struct link *link)
{
	link->watch = link->watch ? loop_fd_close(link->watch) : NULL;
	link->client = rpc_client_close(link->client);
	link->state.was_broken |= link->is_followed;
	link->is_followed = link->is_sending = link->has_counts = link->wants_samples = false;
	link->state.is_there = link->state.counts_calls = false;
}

/* One question, for which the daemon is waited for so long. */
static int ask_within(struct link *link, uint64_t ms, const char *method, const char *params,
		      struct rpc_value **ret, struct err *err)
{
	int r;

	if (ms == 0) /* an answer takes longer */
		return err_set(err, -ETIMEDOUT, "the daemon does not answer");
	rpc_client_set_timeout(link->client, ms);
	r = rpc_client_call(link->client, method, params, ret, err);
	rpc_client_set_timeout(link->client, LINK_TIMEOUT_MS);
	return r;
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

static void send_frames(struct link *link)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;

	if (!link->state.is_there || !link->state.is_guest || !link->sender || link->is_sending ||
	    clock_boot_ns() < link->send_due_boot_ns ||
	    !log_sender_next(link->sender, attempt_log_bytes(link->job->log), &params))
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
}

/* An answer, or the daemon's end. */
static void on_readable(void *ctx)
{
	struct link *link = ctx;
	int r = rpc_client_listen(link->client, 0, NULL);

	if (r == -ETIMEDOUT) {
		send_frames(link);
		return;
	}
	hang_up(link);
	link->retry_ns = FIRST_RETRY_NS;
}

/* ---- the rungs of a daemon ---- */

static const char *const followed[] = { SOURCES_RUNG_BIRTHS, SOURCES_RUNG_OOM,
					SOURCES_RUNG_SAMPLES };

void link_name_rungs(const struct link *link, struct attempt *a)
{
	for (size_t i = 0; i < a->details.n_rungs * ARRAY_SIZE(followed); i++) {
		const char *theirs = link->rungs[i % ARRAY_SIZE(followed)];
		struct rung *rung = &a->details.rungs[i / ARRAY_SIZE(followed)];
		CLEANUP(buf_release) struct buf both = BUF_INIT;
		const char *kept;

		if (strcmp(rung->measurement, followed[i % ARRAY_SIZE(followed)]) != 0 ||
		    (strcmp(rung->measurement, SOURCES_RUNG_SAMPLES) == 0 &&
		     !link->state.has_samples) ||
		    !theirs[0] || strcmp(theirs, rung->rung) == 0 ||
		    strcmp(theirs, RUNG_UNKNOWN) == 0)
			continue;
		buf_printf(&both, "%s; by the daemon: %s", rung->rung, theirs);
		kept = buf_error(&both) == 0 ? arena_strdup(&a->arena, both.data) : NULL;
		if (kept)
			rung->rung = kept;
	}
}

/* ---- the stream of facts ---- */

/* NULL and 0 where the text is none. */
static void *read_list(const struct rpc_value *v, enum record_list list, struct arena *arena,
		       size_t *ret_n)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	const char *text = rpc_value_string(v);
	struct record_reader r = { .arena = arena };

	*ret_n = 0;
	if (!text || buf_add_unbase64(&bytes, text) < 0)
		return NULL;
	r.p = (const uint8_t *)bytes.data;
	r.end = r.p + bytes.len;
	return record_read_list(&r, list, ret_n);
}

/* Each message has the number of facts before it: those that were lost show by that. */
static int on_event(void *ctx, const struct rpc_value *params)
{
	struct link *link = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	const struct rpc_value *data = rpc_value_get(params, "data");
	uint64_t before = rpc_value_u64(rpc_value_get(data, "before"));
	uint64_t n = rpc_value_u64(rpc_value_get(data, "n"));
	struct arena arena = ARENA_INIT;
	struct link_facts facts;
	struct proc_event *events;
	size_t n_events, kept = 0;

	if (!topic || strcmp(topic, "runner.facts") != 0 || !u64_known(before) || !u64_known(n) ||
	    before < link->n_facts)
		return 0;
	facts.ends = read_list(rpc_value_get(data, "processes"), RECORD_LIST_PROCESSES, &arena,
			       &facts.n_ends);
	events = read_list(rpc_value_get(data, "events"), RECORD_LIST_EVENTS, &arena, &n_events);
	link->state.n_lost += before - link->n_facts;
	link->n_facts = before + n;
	for (size_t i = 0; i < n_events; i++) { /* what no daemon sends is left out */
		const struct proc_event *ev = &events[i];

		if (event_type_is_signal(ev->type) && ev->key.pid > 0 && ev->status.signal > 0 &&
		    ev->status.signal < NSIG && u64_known(ev->wall_ns) && ev->details)
			events[kept++] = *ev;
	}
	facts.events = events;
	facts.n_events = kept;
	link->facts_fn(link->ctx, &facts);
	arena_release(&arena);
	return 0;
}

static int on_samples(void *ctx, struct json_cursor *data)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct link *link = ctx;
	const char *key, *text = NULL;
	size_t len;

	if (!json_cursor_enter(data, '{'))
		return 0;
	while (json_cursor_next_key(data, &key, &len))
		if (json_cursor_is(key, len, "samples"))
			text = json_cursor_string(data, &arena);
		else
			json_cursor_skip(data);
	if (text && buf_add_unbase64(&bytes, text) == 0 &&
	    link->samples_fn(link->ctx, bytes.data, bytes.len))
		link->state.has_samples = true;
	else
		link->wants_samples = false;
	return 0;
}

void link_want_samples(struct link *link, double interval_seconds)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const struct proc_key *runner = &link->job->a->runner;
	struct json j;

	if (!link->is_followed || link->wants_samples || !u64_known(runner->start_ticks))
		return;
	json_init_object(&j, &params);
	json_key_f64(&j, "interval_seconds", interval_seconds);
	json_key_u64(&j, "layout", FEED_LAYOUT);
	json_key_u64(&j, "pid", (uint64_t)runner->pid);
	json_key_u64(&j, "start_ticks", runner->start_ticks);
	json_end_object(&j);
	link->wants_samples = true;
	if (rpc_client_notify(link->client, "runner.samples", params.data, NULL) < 0)
		hang_up(link);
}

static int open_client(struct link *link, uint64_t timeout_ms, struct err *err)
{
	const struct rpc_client_options options = { .timeout_ms = timeout_ms,
						    .on_event = on_event,
						    .text_topic = "runner.samples",
						    .on_text = on_samples,
						    .on_answer = on_answer,
						    .ctx = link };

	return rpc_client_open(&options, &link->client, err);
}

static void note_followed(struct link *link, const struct rpc_value *answer)
{
	if (link->is_followed || !rpc_value_bool(rpc_value_get(answer, "follows"), false))
		return;
	link->is_followed = link->state.was_followed = true;
	link->state.sees_calls = rpc_value_bool(rpc_value_get(answer, "failed_calls"), false);
	link->state.is_rough = !rpc_value_bool(rpc_value_get(answer, "accounts"), true);
	link->n_facts = link->n_kernel_lost = link->n_withheld = 0;
	for (size_t i = 0; i < ARRAY_SIZE(followed); i++) {
		const struct rpc_value *rungs = rpc_value_get(answer, "rungs");
		const char *theirs = rpc_value_string(rpc_value_get(rungs, followed[i]));

		snprintf(link->rungs[i], sizeof(link->rungs[i]), "%s", theirs ? theirs : "");
	}
}

/* From a daemon of root, as another hears no more than we do. */
static void open_stream(struct link *link, uint64_t timeout_ms)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct rpc_value *answer = NULL;
	struct json j;
	int r;

	if (link->is_followed || rpc_client_daemon_uid(link->client) != 0)
		return;
	json_init_object(&j, &params);
	json_key_string(&j, "job_id", link->job->a->job_id);
	json_end_object(&j);
	r = ask_within(link, timeout_ms, "runner.stream", params.data, &answer, NULL);
	link->state.began_late |= r == -ETIMEDOUT;
	if (r == 0)
		note_followed(link, answer);
	rpc_value_free(answer);
}

static bool watch_client(struct link *link)
{
	if (!link->watch)
		link->watch =
			loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	return link->watch != NULL;
}

void link_begin(struct link *link)
{
	uint64_t began_ns = clock_boot_ns(), ms;
	int r = link->client ? -EALREADY : open_client(link, BEGIN_TIMEOUT_MS, NULL);

	link->state.began_late = r == -ETIMEDOUT;
	if (r < 0)
		return;
	ms = (clock_boot_ns() - began_ns) / 1000000;
	open_stream(link, ms < BEGIN_TIMEOUT_MS ? BEGIN_TIMEOUT_MS - ms : 0);
	if (!link->is_followed || !watch_client(link))
		hang_up(link);
}

const struct link_state *link_state(const struct link *link)
{
	return &link->state;
}

bool link_is_shared(const struct link *link)
{
	return link->state.is_there && !link->state.is_guest;
}

/* 0 where the answer has none. */
static uint64_t read_count(const struct rpc_value *answer, const char *key)
{
	uint64_t n = rpc_value_u64(rpc_value_get(answer, key));

	return u64_known(n) ? n : 0;
}

/* Of this stream, which only grows, into that of all. */
static void take_count(uint64_t *of_stream, uint64_t *of_all, uint64_t n)
{
	*of_all += n > *of_stream ? n - *of_stream : 0;
	*of_stream = n;
}

/* The answer overtakes facts that were sent before it: it says how many there are. */
static int take_barrier(struct link *link, const struct rpc_value *answer, uint64_t until_boot_ns)
{
	uint64_t n = read_count(answer, "facts"), now;

	take_count(&link->n_withheld, &link->state.n_withheld, read_count(answer, "withheld"));
	take_count(&link->n_kernel_lost, &link->state.n_lost, read_count(answer, "lost"));
	while (link->n_facts < n && (now = clock_boot_ns()) < until_boot_ns) {
		int r = rpc_client_listen(link->client, 0, NULL);
		struct pollfd fd = { .fd = rpc_client_fd(link->client), .events = POLLIN };

		if (r != -ETIMEDOUT)
			return r;
		if (link->n_facts < n)
			(void)poll(&fd, 1, (int)((until_boot_ns - now) / 1000000) + 1);
	}
	return link->n_facts < n ? -ETIMEDOUT : 0;
}

static int ask_barrier(struct link *link, uint64_t timeout_ms, uint64_t patience_ms, bool is_final)
{
	uint64_t until_boot_ns = clock_boot_ns() + timeout_ms * 1000000;
	struct rpc_value *answer = NULL;
	char params[80];
	int r;

	snprintf(params, sizeof(params), "{\"patience_ms\":%" PRIu64 ",\"final\":%s}", patience_ms,
		 is_final ? "true" : "false");
	r = ask_within(link, timeout_ms, "runner.barrier", params, &answer, NULL);
	if (r == 0)
		r = take_barrier(link, answer, until_boot_ns);
	rpc_value_free(answer);
	return r;
}

int link_barrier(struct link *link)
{
	return link->is_followed ? ask_barrier(link, BARRIER_TIMEOUT_MS, 0, false) : -ENOENT;
}

/* ---- hello ---- */

int link_open_log(struct link *link)
{
	if (!link->job->log)
		return -ENOENT;
	return link->sender ? 0 : attempt_log_open_sender(link->job->log, &link->sender, NULL);
}

/* Connects, unless that is done, and says hello. wants_calls: the daemon is to count the system
 * calls before it answers. */
static int greet(struct link *link, bool wants_calls, uint64_t timeout_ms, struct err *err)
{
	const struct link_job *job = link->job;
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_value *answer = NULL;
	dev_t device;
	ino_t inode;
	struct json j;
	int r;

	r = link->client ? 0 : open_client(link, timeout_ms, err);
	if (r < 0)
		return r;
	r = link_open_log(link);
	if (r < 0)
		return err_set(err, r, "there is no log to tell a daemon of");
	json_init_object(&j, &hello);
	json_key_string(&j, "job_id", job->a->job_id);
	attempt_log_place(job->log, &device, &inode);
	if (inode) {
		json_key_u64(&j, "device", (uint64_t)device);
		json_key_u64(&j, "inode", (uint64_t)inode);
	}
	json_key_bool(&j, "keeps_calls", job->keeps_calls && !wants_calls);
	json_key_bool(&j, "wants_calls", wants_calls);
	log_sender_write_hello(link->sender, &j);
	json_end_object(&j);
	r = ask_within(link, timeout_ms, "runner.hello", hello.data, &answer, err);
	if (r == -ETIMEDOUT ||
	    r == -ECONNRESET) /* the daemon may have read it, and waits for our end */
		link->state.is_guest |= rpc_client_daemon_uid(link->client) != geteuid();
	if (r < 0)
		return r;
	link->state.is_there = true;
	link->state.is_guest = rpc_value_bool(rpc_value_get(answer, "guest"), false);
	note_followed(link, answer);
	if (rpc_value_bool(rpc_value_get(answer, "counts_calls"), false))
		link->state.counts_calls = true; /* and still does when hello is said again */
	if (link->state.is_guest)
		log_sender_begin(link->sender, rpc_value_u64(rpc_value_get(answer, "from")));
	else
		link->sender = log_sender_close(link->sender);
	link->is_sending = false;
	rpc_value_free(answer);
	if (!watch_client(link))
		return err_set(err, -ENOMEM, "out of memory");
	send_frames(link);
	return 0;
}

void link_greet(struct link *link)
{
	uint64_t now = clock_boot_ns(), pause_ns = link->retry_ns ? link->retry_ns : RETRY_NS;
	int r;

	if (link->state.is_there || (link->tried_boot_ns && now - link->tried_boot_ns < pause_ns))
		return;
	r = greet(link, false, LINK_TIMEOUT_MS, NULL);
	link->tried_boot_ns = now;
	/* To find out that nobody is there costs nothing; one that hangs is left alone. */
	link->retry_ns = r != -ENOENT || link->retry_ns > RETRY_NS / 2 ? 0 : 2 * link->retry_ns;
	link->state.began_late |= r == -ETIMEDOUT;
	if (r < 0 && (r == -ETIMEDOUT || r == -ECONNRESET || !link->is_followed))
		hang_up(link); /* else hello is refused, and the facts still come */
}

int link_ask_to_count(struct link *link, bool may_be_own, struct err *err)
{
	const bool is_greeted = link->state.is_there;
	int r = link->client ? 0 : open_client(link, COUNT_TIMEOUT_MS, err);

	/* One of our own user may do no more than we may. */
	if (r == 0 && !may_be_own && rpc_client_daemon_uid(link->client) == geteuid())
		r = err_set(err, -EPERM, "the daemon is this user's own");
	if (r == 0 && !is_greeted)
		r = greet(link, true, COUNT_TIMEOUT_MS, err);
	if (r < 0)
		hang_up(link);
	if (r < 0 || link->state.counts_calls)
		return r;
	return err_set(err, -EOPNOTSUPP, "the daemon does not count them");
}

void link_tell_changed(struct link *link, bool is_tick)
{
	if (!link->state.is_there)
		return;
	if (link->state.is_guest)
		send_frames(link);
	else if (!is_tick && rpc_client_notify(link->client, "runner.changed", NULL, NULL) < 0)
		hang_up(link);
}

/* ---- whether the next sheet may start ---- */

#define ASK_AGAIN_MS 1000
#define HOLD_TIMEOUT_MS 500
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

/* A host that is short of everything may have a daemon that is slow to say so. */
#define SILENCE_NS (10 * NS_PER_SECOND)

/* A daemon delays for no longer; more is not believed. */
#define MAX_DELAY_SECONDS 60

/* A delay counts from when the sheet could have started, also when the level changes meanwhile. */
static void note_hold(struct hold *h, const struct rpc_value *value, uint64_t now_ns)
{
	const char *word = rpc_value_string(rpc_value_get(value, "answer"));
	const char *reason = rpc_value_string(rpc_value_get(value, "reason"));
	uint64_t seconds = rpc_value_u64(rpc_value_get(value, "delay_seconds"));
	const bool is_delayed = word && strcmp(word, "delay") == 0;
	const bool is_rejected = word && strcmp(word, "reject") == 0;

	h->is_silent = false;
	if (!u64_known(seconds))
		seconds = 0;
	if (seconds > MAX_DELAY_SECONDS)
		seconds = MAX_DELAY_SECONDS;
	h->until_boot_ns = now_ns;
	if (is_delayed || is_rejected)
		h->until_boot_ns =
			(is_delayed ? h->since_boot_ns : now_ns) + seconds * NS_PER_SECOND;
	if ((is_delayed || is_rejected) && !h->is_told) { /* for the log of the job */
		h->is_told = true;
		log_warning("the next sheet waits: the host is under pressure%s%s",
			    reason && reason[0] ? ": " : "", reason ? reason : "");
	}
}

uint64_t link_hold_ms(struct link *link, struct hold *h)
{
	CLEANUP(buf_release) struct buf question = BUF_INIT;
	struct rpc_value *value = NULL;
	uint64_t now_ns;
	struct json j;
	int r = link->client ? 0 : open_client(link, HOLD_TIMEOUT_MS, NULL);

	json_init_object(&j, &question);
	json_key_string(&j, "for", "sheet");
	json_key_string(&j, "job_id", link->job->a->job_id);
	json_end_object(&j);
	if (r == 0)
		r = ask_within(link, HOLD_TIMEOUT_MS, "admit", question.data, &value, NULL);
	if ((r < 0 && r != -ETIMEDOUT) || (link->client && !watch_client(link)))
		hang_up(link);
	now_ns = clock_boot_ns();
	if (h->since_boot_ns == 0)
		h->since_boot_ns = h->until_boot_ns = now_ns;
	if (r == 0)
		note_hold(h, value, now_ns);
	else if (r == -ETIMEDOUT && !h->is_silent && h->until_boot_ns == h->since_boot_ns)
		h->until_boot_ns = h->since_boot_ns + SILENCE_NS;
	rpc_value_free(value);
	if (now_ns < h->until_boot_ns) {
		uint64_t ms = (h->until_boot_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

		return ms < ASK_AGAIN_MS ? ms : ASK_AGAIN_MS;
	}
	if (r == -ETIMEDOUT && !h->is_silent)
		log_warning("the daemon does not answer: sheets start without its word");
	*h = (struct hold){ .is_silent = h->is_silent || r == -ETIMEDOUT };
	return 0;
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

/* For what nobody has asked for no more than this. */
#define UNASKED_MOST_NS UINT64_C(200000000)

/*
 * A daemon that hangs is waited for once: by all questions together no longer than by the first.
 * One that is late with the last facts, which may take less, is not taken to hang.
 */
static int ask(struct link *link, bool is_wanted, const char *method, const char *params,
	       struct rpc_value **ret, struct err *err)
{
	uint64_t began_boot_ns = clock_boot_ns(), left_ns = link->patience.wanted_ns;
	int r;

	if (!is_wanted && (link->patience.is_late || left_ns > UNASKED_MOST_NS))
		left_ns = link->patience.is_late ? 0 : UNASKED_MOST_NS;
	r = ask_within(link, left_ns / NS_PER_MS, method, params, ret, err);
	spend(&link->patience.wanted_ns, began_boot_ns);
	link->patience.is_late |= r == -ETIMEDOUT;
	return r;
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

int link_end_facts(struct link *link, bool needs_accounts, bool was_killed)
{
	uint64_t *left_ns = was_killed ? &link->patience.wanted_ns : &link->patience.spare_ns;
	uint64_t began_boot_ns, spare_ms = link->patience.spare_ns / NS_PER_MS;
	int r;

	if (!link->is_followed && was_killed && reach(link) == 0) {
		began_boot_ns = clock_boot_ns();
		open_stream(link, *left_ns / NS_PER_MS);
		spend(left_ns, began_boot_ns);
	}
	if (!link->is_followed)
		return -ENOENT;
	if (*left_ns < NS_PER_MS)
		return -ETIMEDOUT;
	began_boot_ns = clock_boot_ns();
	/* Half of the time is for the kernel's accounts, and half for a busy daemon to answer in.
	 */
	r = ask_barrier(link, *left_ns / NS_PER_MS, needs_accounts ? spare_ms / 2 : 0, true);
	spend(left_ns, began_boot_ns);
	link->patience.is_late |= was_killed && r == -ETIMEDOUT;
	return r;
}

/* ---- that it is over ---- */

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
bool link_tell_end(struct link *link, bool is_awaited)
{
	const bool is_expected = link->state.is_guest || is_awaited;
	uint64_t ms = link->patience.wanted_ns / NS_PER_MS, began_boot_ns = clock_boot_ns();

	if (!link->state.is_there && is_expected && ms > 0) {
		int r = greet(link, false, ms > LINK_TIMEOUT_MS ? LINK_TIMEOUT_MS : ms, NULL);

		if (r < 0)
			hang_up(link);
		spend(&link->patience.wanted_ns, began_boot_ns);
	}
	if (!link->state.is_there) {
		hang_up(link);
		return !is_expected;
	}
	if (link->state.is_guest) {
		int r;

		if (!link->sender)
			return false;
		/* Also where nothing is left to wait for its answer with: it may read it when it
		 * goes on. What is on its way is sent again, and passed over there. */
		began_boot_ns = clock_boot_ns();
		link->is_sending = false;
		log_sender_hold(link->sender);
		r = log_sender_finish(link->sender, link->client,
				      began_boot_ns + link->patience.wanted_ns);
		spend(&link->patience.wanted_ns, began_boot_ns);
		return r == 0;
	}
	link_tell_changed(link, false);
	return true;
}

int link_await_record(struct link *link)
{
	int r = reach(link);

	if (r < 0)
		return r == -ETIMEDOUT ? r : 0;
	if (rpc_client_daemon_uid(link->client) != geteuid())
		return 0;
	return ask(link, true, "runner.changed", NULL, NULL, NULL) == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

/* ---- what the daemon knows ---- */

int link_take_calls(struct link *link, bool is_wanted, struct counted_calls *calls, struct err *err)
{
	struct rpc_value *answer = NULL;
	int r;

	if (!link->state.is_there)
		return err_set(err, -ENOENT, "no daemon is there");
	r = ask(link, is_wanted, "runner.calls", "{\"final\":true}", &answer, err);
	if (r < 0)
		return r;
	if (rpc_value_bool(rpc_value_get(answer, "counted"), false))
		r = counted_calls_read(answer, calls);
	else
		r = -ENODATA;
	rpc_value_free(answer);
	return r < 0 ? err_set(err, r, "the daemon has none of them") : 0;
}

/* One that does not count now may do so soon; one that has no time now is left alone. */
#define COUNTS_PAUSE_NS UINT64_C(1000000000)

int link_take_counts(struct link *link, struct process_calls *ret, bool *ret_is_all)
{
	struct rpc_value *answer = NULL;
	int r;

	/* Only root's counts. */
	if (!link->client || !(link->state.is_guest || geteuid() == 0) ||
	    clock_boot_ns() < link->counts_due_boot_ns)
		return -ENODATA;
	r = rpc_client_call(link->client, "runner.calls",
			    link->has_counts ? "{}" : "{\"all\":true}", &answer, NULL);
	if (r == 0 && !rpc_value_bool(rpc_value_get(answer, "counted"), false))
		r = -ENODATA;
	if (r == 0)
		r = counted_calls_read_processes(rpc_value_get(answer, "processes"), ret);
	if (r < 0)
		link->counts_due_boot_ns = clock_boot_ns() + COUNTS_PAUSE_NS;
	*ret_is_all = rpc_value_bool(rpc_value_get(answer, "all"), true);
	link->has_counts = r == 0;
	rpc_value_free(answer);
	return r;
}

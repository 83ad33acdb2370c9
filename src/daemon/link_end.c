#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "daemon/link_internal.h"

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

int link_ask_wanted(struct link *link, const char *method, const char *params,
		    struct rpc_value **ret, struct err *err)
{
	int r = ask(link, &link->patience.wanted_ns, method, params, ret, err);

	link->patience.is_late |= r == -ETIMEDOUT;
	return r;
}

int link_ask_spare(struct link *link, const char *method, const char *params,
		   struct rpc_value **ret)
{
	return ask(link, &link->patience.spare_ns, method, params, ret, NULL);
}

/* Where the daemon hangs all of them together cost a run no more than the first. One that is late
 * with the ends, which may take less than this, is not taken to hang. */
#define UNASKED_MOST_NS UINT64_C(200000000)

int link_ask_unasked(struct link *link, const char *method, struct rpc_value **ret, struct err *err)
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

uint64_t link_spare_ms(const struct link *link)
{
	return link->patience.spare_ns / NS_PER_MS;
}

/* ---- it may not have heard of the job yet ---- */

/* Connects, unless that is done. */
static int reach(struct link *link)
{
	const struct rpc_client_options options = { .timeout_ms = LINK_TIMEOUT_MS };
	uint64_t began_boot_ns = clock_boot_ns();
	int r;

	if (link->client)
		return 0;
	if (link->patience.wanted_ns < NS_PER_MS)
		return -ETIMEDOUT;
	r = rpc_client_open(&options, &link->client, NULL);
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
		r = link_ask_wanted(link, "runner.changed", NULL, NULL, NULL);
		return r < 0 ? r : -EAGAIN;
	}
	began_boot_ns = clock_boot_ns();
	rpc_client_set_timeout(link->client, link->patience.wanted_ns / NS_PER_MS);
	r = link_say_hello(link, job, NULL);
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
		(void)link_ask_wanted(link, "runner.changed", NULL, NULL, NULL);
	if (r == -EAGAIN)
		link->is_early = true;
	if (r < 0)
		link_hang_up(link);
}

/* ---- that it is over ---- */

/* One that was only told to look finds nothing if there is no database of ours to look into. */
static bool must_greet_at_end(const struct link *link, const struct link_job *job, bool is_expected)
{
	if (!link->client)
		return is_expected || link->is_early;
	return link->is_early && !job->inode;
}

static int greet_at_end(struct link *link, const struct link_job *job, bool is_awaited)
{
	uint64_t ms = link->patience.wanted_ns / NS_PER_MS, began_boot_ns = clock_boot_ns();
	int r = -ETIMEDOUT;

	ms = ms > LINK_TIMEOUT_MS ? LINK_TIMEOUT_MS : ms;
	if (ms > 0)
		r = link_say_greeting(link, job, is_awaited, ms);
	spend(&link->patience.wanted_ns, began_boot_ns);
	return r;
}

/* Also where nothing is left to wait for its answer with: it may read it when it goes on. */
static bool tell_guests_end(struct link *link, const struct link_job *job)
{
	uint64_t began_boot_ns = clock_boot_ns();
	CLEANUP(buf_release) struct buf end = BUF_INIT;
	int r;

	link_write_change(&end, job, 0);
	rpc_client_set_timeout(link->client, link->patience.wanted_ns / NS_PER_MS);
	r = rpc_client_call(link->client, "runner.changed", end.data, NULL, NULL);
	spend(&link->patience.wanted_ns, began_boot_ns);
	return r == 0;
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
		link_hang_up(link);
	if (must_greet_at_end(link, job, is_expected))
		r = greet_at_end(link, job, is_awaited);
	if (r < 0)
		link_hang_up(link);
	if (!link->client)
		return !is_expected || r == -EAGAIN;
	if (link->is_guest)
		return tell_guests_end(link, job);
	link_tell_changed(link, job, 0);
	return true;
}

int link_await_record(struct link *link)
{
	int r = reach(link);

	if (r < 0)
		return r == -ETIMEDOUT ? r : 0;
	if (rpc_client_daemon_uid(link->client) != geteuid())
		return 0;
	return link_ask_wanted(link, "runner.changed", NULL, NULL, NULL) == -ETIMEDOUT ? -ETIMEDOUT
										       : 0;
}

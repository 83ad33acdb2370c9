#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "daemon/daemon_rungs.h"
#include "daemon/guest.h"
#include "daemon/link_internal.h"

int link_take_calls(struct link *link, bool is_wanted, struct told_calls *calls, struct err *err)
{
	struct rpc_value *answer = NULL;
	int r;

	if (!link_is_there(link))
		return err_set(err, -ENOENT, "no daemon is there");
	r = is_wanted ? link_ask_wanted(link, "runner.calls", NULL, &answer, err)
		      : link_ask_unasked(link, "runner.calls", &answer, err);
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

/* Only root's counts, and where it records what the run has looked at it knows them itself. */
static bool tells_counts(const struct link *link)
{
	return link->client && !link->records && (link->is_guest || geteuid() == 0) &&
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

	snprintf(params, sizeof(params), "{\"patience_ms\":%" PRIu64 "}", link_spare_ms(link) / 2);
	return link_ask_spare(link, "runner.deaths", params, ret);
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
	const struct rpc_value *list;
	int r = link->client ? ask_for_deaths(link, &answer) : -ENOENT;

	*ret = (struct link_deaths){ .is_late = r == -ETIMEDOUT,
				     .is_refused = r < 0 && r != -ETIMEDOUT };
	if (r < 0)
		return;
	list = rpc_value_get(answer, "processes");
	if (guest_read_deaths(list, arena, &ret->items, &ret->n) < 0)
		ret->n = 0;
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
	r = link_ask_wanted(link, "runner.signals", NULL, &answer, NULL);
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

int link_take_rungs(struct link *link, struct attempt *a, bool has_sampled)
{
	struct rpc_value *status = NULL;
	int r;

	if (!link_is_there(link))
		return 0;
	r = link_ask_unasked(link, "daemon.status", &status, NULL);
	if (r == 0)
		daemon_rungs_add(a, rpc_value_get(status, "rungs"), has_sampled);
	rpc_value_free(status);
	return r;
}

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/raw_event.h"
#include "daemon/methods/methods.h"

#define MAX_EVENTS 4096
#define MAX_BYTES (4 << 20)
#define DEFAULT_LIMIT 50

/* Of everything that happens; a snapshot is none of that. */
static unsigned kept_topics(void)
{
	unsigned topics = ~topic_bit(TOPIC_SNAPSHOT);

	for (enum event_type type = 0; type < N_EVENT_TYPES; type++)
		topics &= ~topic_bit(process_event_topic(type)); /* kept raw, below */
	return topics;
}

int service_keep_events(struct service *s, struct err *err)
{
	unsigned topics = kept_topics();

	s->clients.recent = recent_new(MAX_EVENTS, MAX_BYTES);
	if (!s->clients.recent || bus_subscribe(s->bus, topics, recent_add, s->clients.recent) < 0)
		return err_set(err, -ENOMEM, "no memory left to begin");
	return 0;
}

void service_keep_process_event(struct service *s, const struct proc_event *ev, int attempt_num,
				uint64_t uid)
{
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	struct event event = {
		.topic = process_event_topic(ev->type),
		.wall_ns = ev->wall_ns,
		.owner = service_event_owner(uid),
		.is_raw = true,
	};

	raw_event_pack(&raw, ev, attempt_num);
	event.json = raw.data;
	event.len = raw.len;
	if (buf_error(&raw) == 0)
		recent_add(s->clients.recent, &event);
}

struct events_params {
	double since;
	uint64_t limit;
	const char *job_id;
};

static const struct rpc_field events_fields[] = {
	{ "limit", RPC_U64, offsetof(struct events_params, limit), .min = 1, .max = MAX_EVENTS },
	{ "since", RPC_F64, offsetof(struct events_params, since), .max = 1e11 },
	{ "job_id", RPC_STRING, offsetof(struct events_params, job_id), .is_required = false },
};

/* In a JSON text a quote that is not escaped is never inside a string: so this is the member. */
static bool names_job(const struct event *ev, const char *job_id)
{
	char member[JOB_ID_MAX + 16];
	int n;

	if (ev->is_raw)
		return strcmp(raw_event_job_id(ev->json), job_id) == 0;
	n = snprintf(member, sizeof(member), "\"job_id\":\"%s\"", job_id);
	return memmem(ev->json, ev->len, member, (size_t)n) != NULL;
}

static bool is_asked_for(const struct service *s, const struct rpc_peer *peer,
			 const struct events_params *params, const struct event *ev)
{
	return event_is_visible(ev, peer->uid, service_reads_all(s, peer)) &&
	       !(u64_to_seconds(ev->wall_ns) < params->since) &&
	       (!params->job_id || names_job(ev, params->job_id));
}

/* The newest so many, told oldest first: the first of them. NULL: there are none. */
static const struct event *find_first(const struct service *s, const struct rpc_peer *peer,
				      const struct events_params *params)
{
	const struct event *ev = recent_newest(s->clients.recent), *first = NULL;

	for (size_t n = 0; ev && n < params->limit; ev = recent_older(ev)) {
		if (!is_asked_for(s, peer, params, ev))
			continue;
		first = ev;
		n++;
	}
	return first;
}

static void write_event(struct json *j, const struct event *ev)
{
	if (ev->is_raw)
		raw_event_write_json(j, ev->json);
	else
		json_raw(j, ev->json, ev->len);
}

static int daemon_events(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct events_params params = { .limit = DEFAULT_LIMIT };
	struct json *j = rpc_call_result(call);
	const struct event *ev;
	int r = rpc_call_read(call, events_fields, ARRAY_SIZE(events_fields), &params, err);

	if (r == 0 && params.job_id && !job_id_is_valid(params.job_id))
		r = err_set(err, -EINVAL, "'job_id' is not the id of a job");
	if (r < 0)
		return r;
	json_begin_array(j);
	for (ev = find_first(s, peer, &params); ev; ev = recent_newer(ev))
		if (is_asked_for(s, peer, &params, ev))
			write_event(j, ev);
	json_end_array(j);
	return 0;
}

const struct rpc_method service_recent_methods[] = {
	{ "daemon.events", daemon_events, RPC_FOR_ALL },
	{ 0 },
};

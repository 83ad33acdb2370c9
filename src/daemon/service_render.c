#include "daemon/service_internal.h"

const struct buf *service_snapshot_json(struct service *s)
{
	struct rendered *r = &s->rendered;
	struct json j;

	if (r->has_snapshot)
		return &r->snapshot;
	buf_reset(&r->snapshot);
	json_init(&j, &r->snapshot);
	snapshot_write_json(&j, &s->snap, SNAPSHOT_JOBS);
	r->has_snapshot = buf_error(&r->snapshot) == 0;
	return &r->snapshot;
}

struct rpc_event *service_render_event(struct service *s, const struct event *ev)
{
	struct rendered *r = &s->rendered;

	if (r->event && r->event_count == bus_count(s->bus))
		return r->event;
	rpc_event_unref(r->event);
	r->event = rpc_event_new(topic_name(ev->topic), ev->wall_ns, ev->json, ev->len);
	r->event_count = bus_count(s->bus);
	return r->event;
}

void service_forget_snapshot(struct service *s)
{
	s->rendered.has_snapshot = false;
}

void service_release_rendered(struct service *s)
{
	buf_release(&s->rendered.snapshot);
	s->rendered.event = rpc_event_unref(s->rendered.event);
}

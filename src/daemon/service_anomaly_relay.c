/*
 * service_anomaly_relay - changes of anomalies, told on the bus as the record has them, whoever has
 * seen them: a runner may look more often than we do. Each is told once.
 */
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "daemon/service_anomaly.h"
#include "daemon/service_tell.h"

#define MAX_TOLD 8192 /* then they are forgotten, and one that lasts may be told again */

/* It gets worse more than once. */
static uint64_t key_of(const struct episode *e, enum episode_change change)
{
	const int parts[] = { (int)change,
			      change == EPISODE_ESCALATED ? (int)e->worst.severity : 0 };

	return hash_bytes(hash_bytes(HASH_INIT, e->name, strlen(e->name)), parts, sizeof(parts));
}

void service_tell_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			  uint64_t uid)
{
	struct map *told = &s->anomaly_relay.told;
	uint64_t key = key_of(e, change), is_told;

	if (map_get(told, key, &is_told))
		return;
	if (told->len >= MAX_TOLD)
		map_clear(told);
	map_put(told, key, 1); /* without memory it may be told twice */
	service_publish_anomaly(s, e, change, uid);
}

static int relay(void *ctx, const struct anomaly_change_row *row)
{
	struct service *s = ctx;

	s->anomaly_relay.last_id = row->id;
	if (row->moment.wall_ns >= s->anomaly_relay.from_wall_ns)
		service_tell_anomaly(s, &row->episode, row->moment.change, row->uid);
	return 0;
}

/*
 * From the moment that the database was opened; where it came in place of another, from when that
 * was last there.
 */
static int begin_relay(struct service *s, struct err *err)
{
	struct anomaly_relay *a = &s->anomaly_relay;
	int r = store_follow_anomalies(s->store, &a->last_id, a->from_wall_ns ? relay : NULL, s,
				       err);

	a->from_wall_ns = r == 0 ? 0 : a->from_wall_ns;
	a->is_relaying = r == 0;
	return r;
}

int service_relay_anomalies(struct service *s, struct err *err)
{
	if (!s->store)
		return 0;
	if (!s->anomaly_relay.is_relaying)
		return begin_relay(s, err);
	return store_follow_anomalies(s->store, &s->anomaly_relay.last_id, relay, s, err);
}

void service_forget_anomalies(struct service *s)
{
	s->anomaly_relay.last_id = 0;
	s->anomaly_relay.is_relaying = false;
	s->anomaly_relay.from_wall_ns = s->store_seen_wall_ns;
}

void service_release_anomalies(struct service *s)
{
	map_release(&s->anomaly_relay.told);
	map_release(&s->anomaly_relay.left);
}

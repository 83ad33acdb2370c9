#include "cli/detect_ends.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

void event_list_release(struct event_list *list)
{
	free(list->items);
	*list = (struct event_list){ 0 };
}

static int reserve(struct event_list *list, size_t n)
{
	size_t cap = list->cap ? list->cap : 16;
	struct proc_event *grown;

	if (n <= list->cap)
		return 0;
	while (cap < n)
		cap *= 2;
	grown = reallocarray(list->items, cap, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->items = grown;
	list->cap = cap;
	return 0;
}

int event_list_add(struct event_list *list, const struct proc_event *items, size_t n)
{
	if (n == 0)
		return 0;
	if (reserve(list, list->n + n) < 0)
		return -ENOMEM;
	memcpy(list->items + list->n, items, n * sizeof(*items));
	list->n += n;
	return 0;
}

static int add(struct event_list *list, enum event_type type, const struct proc_key *key,
	       const char *job_id, uint64_t wall_ns)
{
	const struct proc_event ev = { .wall_ns = wall_ns,
				       .key = *key,
				       .type = type,
				       .status = { -1, -1 },
				       .job_id = job_id,
				       .sheet_num = SHEET_NONE,
				       .details = "" };

	return event_list_add(list, &ev, 1);
}

struct reading {
	const struct detect *d;
	const struct attempt *attempt;
	struct event_list *list;
};

static int on_event(void *ctx, const struct event_row *row)
{
	const struct reading *reading = ctx;
	const struct proc_event *ev = &row->event;

	if (ev->type != EVENT_EXIT && ev->type != EVENT_ORPHAN)
		return 0;
	if (!detect_follows(reading->d, ev->key.pid))
		return 0;
	return add(reading->list, ev->type, &ev->key, reading->attempt->job_id, ev->wall_ns);
}

/* The record is asked only where something lasts, which is seldom. */
int ends_read(struct store *store, const struct detect *d, const struct ends_of *of,
	      struct event_list *list, struct err *err)
{
	struct reading reading = { d, of->attempt, list };
	const struct event_filter filter = {
		.since_wall_ns = of->since_wall_ns,
		.until_wall_ns = of->until_wall_ns,
	};
	int r = detect_active(d, 0) ? store_read_attempt_events(store, of->attempt->id, &filter,
								on_event, &reading, err)
				    : 0;

	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

/* A runner knows its child by the pid alone. */
static bool has(const struct event_list *list, const struct proc_key *key)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct proc_key *told = &list->items[i].key;

		if (told->pid == key->pid &&
		    (told->start_ticks == key->start_ticks || !u64_known(told->start_ticks)))
			return true;
	}
	return false;
}

int ends_add_gone(const struct detect *d, const struct attempt *a, struct event_list *list)
{
	const struct episode *e;
	int r = 0;

	for (size_t i = 0; r == 0 && (e = detect_active(d, i)); i++) {
		const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };

		if (e->worst.has_pid && u64_known(key.start_ticks) && detect_follows(d, key.pid) &&
		    !has(list, &key))
			r = add(list, EVENT_EXIT, &key, a->job_id, a->ended_wall_ns);
	}
	return r;
}

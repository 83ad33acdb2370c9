#include "daemon/signal_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"

/* ---- of one job ---- */

/* When there are more, some are listed once more. */
#define MAX_KINDS 16384

struct unlisted {
	struct proc_event last; /* its details are these */
	char details[320];
	uint64_t n;
};

void signal_list_release(struct signal_list *list)
{
	map_release(&list->n_same);
	free(list->unlisted);
	*list = (struct signal_list){ 0 };
}

bool signal_list_take(struct signal_list *list, const struct proc_event *ev, pid_t sender)
{
	const int64_t kind[] = { ev->key.pid, ev->status.signal, sender };
	uint64_t hash = hash_bytes(HASH_INIT, kind, sizeof(kind)), n_same = 0;
	struct unlisted *u;
	size_t limit = 0;

	if (list->n_same.len >= MAX_KINDS)
		map_clear(&list->n_same);
	map_get(&list->n_same, hash, &n_same);
	(void)map_put(&list->n_same, hash, n_same + 1); /* without memory it counts as the first */
	if (ev->type == EVENT_KILL || ev->type == EVENT_OOM)
		limit = SIGNAL_LIST_KILLS;
	else if (n_same == 0)
		limit = SIGNAL_LIST_FIRST;
	else if (n_same < SIGNAL_LIST_SAME)
		limit = SIGNAL_LIST_REPEATED;
	if (list->n < limit) {
		list->n++;
		return true;
	}
	u = list->unlisted = list->unlisted ? list->unlisted : calloc(1, sizeof(*u));
	if (u && (u->n++ == 0 || u->last.type == EVENT_SIGNAL || ev->type != EVENT_SIGNAL)) {
		u->last = *ev;
		snprintf(u->details, sizeof(u->details), "%s", ev->details ? ev->details : "");
	}
	return false;
}

const struct proc_event *signal_list_end(struct signal_list *list)
{
	struct unlisted *u = list->unlisted;
	char number[64] = "";
	size_t len;

	if (!u)
		return NULL;
	if (u->n > 1)
		snprintf(number, sizeof(number), "; %llu others are not listed",
			 (unsigned long long)u->n - 1);
	len = utf8_cut(u->details, strlen(u->details), sizeof(u->details) - 1 - strlen(number));
	snprintf(u->details + len, sizeof(u->details) - len, "%s", number);
	u->last.details = u->details;
	return &u->last;
}

/* ---- of processes of which nobody knows yet whose they are ---- */

/* A runner says hello well within this; the daemon's own look may be later. */
#define KEEP_NS UINT64_C(10000000000)

/* Against a host that forks, or signals, without end. */
#define MAX_BIRTHS 8192
#define MAX_KEPT 512

void unowned_release(struct unowned *u)
{
	map_release(&u->parents[0]);
	map_release(&u->parents[1]);
	free(u->items);
	*u = (struct unowned){ 0 };
}

void unowned_note_birth(struct unowned *u, const struct life_event *ev)
{
	/* The newer ones become the older ones, which are forgotten. */
	if (u->parents[0].len >= MAX_BIRTHS || ev->wall_ns > u->turned_wall_ns + KEEP_NS) {
		struct map older = u->parents[1];

		map_clear(&older);
		u->parents[1] = u->parents[0];
		u->parents[0] = older;
		u->turned_wall_ns = ev->wall_ns;
	}
	/* Without memory it stays nobody's. */
	(void)map_put(&u->parents[0], (uint64_t)ev->pid, (uint64_t)ev->parent_pid);
}

pid_t unowned_parent(const struct unowned *u, pid_t pid)
{
	uint64_t parent = 0;

	if (!map_get(&u->parents[0], (uint64_t)pid, &parent))
		map_get(&u->parents[1], (uint64_t)pid, &parent);
	return (pid_t)parent;
}

/* Room is made only where there is none: of strangers this is most of the time. */
static void forget_old(struct unowned *u, uint64_t now_wall_ns)
{
	size_t n = 0;

	while (n < u->n && u->items[n].wall_ns + KEEP_NS < now_wall_ns)
		n++;
	u->n -= n;
	if (n > 0) /* before the first there is no list at all */
		memmove(u->items, u->items + n, u->n * sizeof(*u->items));
}

void unowned_keep(struct unowned *u, const struct life_event *ev)
{
	if (!u->items)
		u->items = calloc(MAX_KEPT, sizeof(*u->items));
	if (!u->items) {
		u->n_dropped++;
		return;
	}
	if (u->n == MAX_KEPT)
		forget_old(u, ev->wall_ns);
	if (u->n == MAX_KEPT) {
		memmove(u->items, u->items + 1, --u->n * sizeof(*u->items));
		u->n_dropped++;
	}
	u->items[u->n++] = *ev;
}

void unowned_place(struct unowned *u, uint64_t now_wall_ns, unowned_fn *fn, void *ctx)
{
	size_t n = 0;

	for (size_t i = 0; i < u->n; i++)
		if (!fn(ctx, &u->items[i]))
			u->items[n++] = u->items[i];
	u->n = n;
	forget_old(u, now_wall_ns);
}

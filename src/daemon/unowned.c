#include "daemon/unowned.h"

#include <stdlib.h>
#include <string.h>

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

/* The newer ones become the older ones, which are forgotten. */
static void turn(struct unowned *u, uint64_t wall_ns)
{
	struct map older = u->parents[1];

	map_clear(&older);
	u->parents[1] = u->parents[0];
	u->parents[0] = older;
	u->turned_wall_ns = wall_ns;
}

void unowned_note_birth(struct unowned *u, const struct life_event *ev)
{
	if (u->parents[0].len >= MAX_BIRTHS || ev->wall_ns > u->turned_wall_ns + KEEP_NS)
		turn(u, ev->wall_ns);
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

static void drop_oldest(struct unowned *u)
{
	u->n--;
	memmove(u->items, u->items + 1, u->n * sizeof(*u->items));
	u->n_dropped++;
}

/* Room is made only where there is none: of strangers this is most of the time. */
static void forget_old(struct unowned *u, uint64_t now_wall_ns)
{
	size_t n = 0;

	while (n < u->n && u->items[n].wall_ns + KEEP_NS < now_wall_ns)
		n++;
	u->n -= n;
	if (n > 0)
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
	if (u->n == MAX_KEPT)
		drop_oldest(u);
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

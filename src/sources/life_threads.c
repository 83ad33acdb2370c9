#include "sources/life_threads.h"

#include "sources/life_rung.h"

/* A value of the map: the count, and above it one bit. */
#define FIRST_ENDED (UINT64_C(1) << 63)

void life_threads_release(struct life_threads *t)
{
	map_release(&t->extra);
}

void life_threads_forget(struct life_threads *t)
{
	map_clear(&t->extra);
	t->n_forgotten++;
}

static uint64_t state_of(const struct life_threads *t, pid_t pid)
{
	uint64_t state = 0;

	map_get(&t->extra, (uint64_t)pid, &state);
	return state;
}

/* Without memory for it the process counts as one without further threads. */
static void set_state(struct life_threads *t, pid_t pid, uint64_t state)
{
	if (state == 0)
		map_remove(&t->extra, (uint64_t)pid);
	else if (map_put(&t->extra, (uint64_t)pid, state) < 0)
		map_remove(&t->extra, (uint64_t)pid);
}

static bool feed_fork(struct life_threads *t, const struct life_raw *raw)
{
	if (raw->tid != raw->pid) {
		set_state(t, raw->pid, state_of(t, raw->pid) + 1);
		return false;
	}
	set_state(t, raw->pid, 0); /* a former owner of the pid may have left something */
	return true;
}

static bool feed_exit(struct life_threads *t, const struct life_raw *raw)
{
	uint64_t state = state_of(t, raw->pid);

	if (raw->tid == raw->pid) {
		if (state == 0)
			return true;
		set_state(t, raw->pid, state | FIRST_ENDED);
		return false;
	}
	if ((state & ~FIRST_ENDED) == 0)
		return false; /* a thread from before our time */
	state--;
	set_state(t, raw->pid, state == FIRST_ENDED ? 0 : state);
	return state == FIRST_ENDED;
}

/* A program is executed by one thread, after the kernel has ended all others. */
static bool feed_exec(struct life_threads *t, const struct life_raw *raw)
{
	set_state(t, raw->pid, 0);
	return true;
}

bool life_threads_feed(struct life_threads *t, struct life_loss *loss, const struct life_raw *raw,
		       struct life_event *ret)
{
	static const struct {
		bool (*feed)(struct life_threads *t, const struct life_raw *raw);
		enum life_type type;
	} rows[] = {
		[LIFE_RAW_FORK] = { feed_fork, LIFE_FORK },
		[LIFE_RAW_EXEC] = { feed_exec, LIFE_EXEC },
		[LIFE_RAW_EXIT] = { feed_exit, LIFE_EXIT },
	};

	if (raw->type == LIFE_RAW_FOREIGN)
		return false;
	if (life_loss_see(loss, raw->cpu, raw->seq))
		life_threads_forget(t);
	if (!rows[raw->type].feed || !rows[raw->type].feed(t, raw))
		return false;
	life_event_init(ret);
	ret->type = rows[raw->type].type;
	ret->pid = raw->pid;
	ret->parent_pid = raw->parent_pid;
	ret->wait_status = raw->wait_status;
	return true;
}

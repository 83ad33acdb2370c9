#include <errno.h>

#include "base/unknown.h"
#include "daemon/guest.h"
#include "daemon/guest_reading.h"

/* A list that comes with the end: how each element begins, and whether it makes sense. */
struct list {
	const char *name;
	const struct member_table *table;
	size_t bytes, max;
	void (*init)(void *to);
	bool (*is_good)(const void *from);
};

static void init_process(void *to)
{
	proc_record_init(to);
}

static bool is_good_process(const void *from)
{
	const struct proc_record *p = from;

	return p->key.pid > 0;
}

static void init_event(void *to)
{
	*(struct proc_event *)to = (struct proc_event){
		.wall_ns = U64_UNKNOWN,
		.key = { 0, U64_UNKNOWN },
		.status = { -1, -1 },
		.sheet_num = SHEET_NONE,
		.details = "",
	};
}

/* Signals are noted by who watches. */
static bool is_good_event(const void *from)
{
	const struct proc_event *ev = from;

	return ev->key.pid > 0 && u64_known(ev->wall_ns) && !event_type_is_signal(ev->type);
}

static void init_rung(void *to)
{
	*(struct rung *)to = (struct rung){ NULL, NULL, "" };
}

static bool is_good_rung(const void *from)
{
	const struct rung *rung = from;

	return rung->measurement && rung->rung;
}

static void init_note(void *to)
{
	*(struct unknown_note *)to = (struct unknown_note){ NULL, NULL };
}

static bool is_good_note(const void *from)
{
	const struct unknown_note *note = from;

	return note->what && note->why;
}

static const struct list processes_list = {
	"processes",	     &guest_process_members, sizeof(struct proc_record),
	GUEST_MAX_PROCESSES, init_process,	     is_good_process
};
static const struct list events_list = {
	"events",	  &guest_event_members, sizeof(struct proc_event),
	GUEST_MAX_EVENTS, init_event,		is_good_event
};
static const struct list rungs_list = { "rungs",	 &guest_rung_members, sizeof(struct rung),
					GUEST_MAX_RUNGS, init_rung,	      is_good_rung };
static const struct list notes_list = {
	"unknowns",	 &guest_note_members, sizeof(struct unknown_note),
	GUEST_MAX_NOTES, init_note,	      is_good_note
};

/* *ret_items stays as it is where the list is missing or empty. */
static int read_list(const struct guest_reading *r, const struct list *list,
		     const struct rpc_value *v, void *ret_items, size_t *ret_n)
{
	size_t n = rpc_value_len(v);
	char *items;

	if (!v || rpc_value_is_null(v) || (rpc_value_is_list(v) && n == 0))
		return 0;
	if (!rpc_value_is_list(v) || n > list->max)
		return err_set(r->err, -EINVAL, "'%s' is no list of at most %zu", list->name,
			       list->max);
	items = arena_alloc(r->arena, n * list->bytes);
	if (!items)
		return err_set(r->err, -ENOMEM, "no memory left for a job");
	for (size_t i = 0; i < n; i++) {
		void *to = items + i * list->bytes;
		int result;

		list->init(to);
		result = guest_read_members(r, list->table, rpc_value_at(v, i), to);
		if (result == 0 && !list->is_good(to))
			result = err_set(r->err, -EINVAL, "one of '%s' makes no sense", list->name);
		if (result < 0)
			return result;
	}
	*(void **)ret_items = items;
	*ret_n = n;
	return 0;
}

int guest_read_lives(const struct guest_reading *r, const struct rpc_value *v, struct attempt *a)
{
	int result = read_list(r, &processes_list, rpc_value_get(v, processes_list.name),
			       &a->processes, &a->n_processes);

	if (result == 0)
		result = read_list(r, &events_list, rpc_value_get(v, events_list.name), &a->events,
				   &a->n_events);
	if (result == 0)
		result = read_list(r, &rungs_list, rpc_value_get(v, rungs_list.name), &a->rungs,
				   &a->n_rungs);
	if (result == 0)
		result = read_list(r, &notes_list, rpc_value_get(v, notes_list.name), &a->unknowns,
				   &a->n_unknowns);
	for (size_t i = 0; i < a->n_events; i++)
		a->events[i].job_id = a->job_id;
	return result;
}

int guest_read_deaths(const struct rpc_value *list, struct arena *arena, struct proc_record **ret,
		      size_t *ret_n)
{
	const struct guest_reading r = { arena, UINT64_MAX, NULL };
	struct list deaths = processes_list;

	deaths.max = GUEST_MAX_DEATHS;
	*ret_n = 0;
	return read_list(&r, &deaths, list, ret, ret_n) < 0 ? -EBADMSG : 0;
}

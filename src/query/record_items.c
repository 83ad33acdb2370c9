#include "query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

/*
 * How long after it happened something may still be written: a runner that waits for
 * the disk or for others, a clock that is set. What is older was passed, or is of before.
 */
#define LATE_NS UINT64_C(600000000000)

/*
 * The end of an anomaly is recorded a tick or two after the end of its attempt. It is passed once,
 * so it waits for that record for so long.
 */
#define END_LATE_NS UINT64_C(30000000000)

/* An end may be recorded this long after it: an anomaly that flaps has to be clear for a while. */
#define MAX_END_DELAY_NS UINT64_C(3600000000000)

struct kept_episode {
	struct anomaly_row row;
	uint64_t ended_ns; /* when that was known; U64_UNKNOWN: it lasts */
};

/* One record that is kept until its time comes. What it points to is in the arena. */
struct entry {
	struct records_item item;
	size_t order;			 /* in which they were read: among those of one time… */
	int rank;			 /* …after this */
	const struct kept_episode *kept; /* of the item's episode */
	const struct episode_moment *moment; /* its state then; NULL: the change is inferred */
};

struct records {
	struct store *store;
	struct records_filter filter;
	struct entry *entries; /* by time */
	size_t n, cap, next;
	struct arena arena;
	uint64_t since_ns; /* what happened before it is past */
	uint64_t next_event_ns, next_snapshot_ns;
	bool has_read;

	/* of one that follows: */
	struct map told[2];	 /* identities of what was passed lately, and before that */
	uint64_t turned_boot_ns; /* when the older one was emptied */
	int64_t last_event_id;

	records_fn *fn; /* of the call that is under way */
	void *ctx;
	struct err *err;
};

struct records *records_new(struct store *store, const struct records_filter *filter)
{
	struct records *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->store = store;
	t->filter = *filter;
	if (filter->is_from_now)
		t->filter.since_wall_ns = clock_wall_ns();
	t->since_ns = t->next_event_ns = t->next_snapshot_ns = t->filter.since_wall_ns;
	t->turned_boot_ns = clock_boot_ns();
	return t;
}

struct records *records_free(struct records *t)
{
	if (!t)
		return NULL;
	free(t->entries);
	arena_release(&t->arena);
	map_release(&t->told[0]);
	map_release(&t->told[1]);
	free(t);
	return NULL;
}

/* ---- reading all but events of processes and snapshots ---- */

static uint64_t identity(int64_t row, int kind, int num, int try_num)
{
	const int64_t parts[] = { row, kind, num, try_num };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

/* id: the same whenever the record is read again. Events of processes are read once, by when they
 * were written: one from before since is late. -ENOMEM. */
static int add_entry(struct records *t, struct entry e, uint64_t id)
{
	const struct records_filter *f = &t->filter;
	bool is_event = e.item.event != NULL;
	uint64_t wall_ns = e.item.wall_ns, before;

	if (!u64_known(wall_ns) || (f->until_wall_ns && wall_ns > f->until_wall_ns) ||
	    (wall_ns < f->since_wall_ns && !f->keeps_state && !is_event))
		return 0;
	if (f->is_following && !is_event) {
		bool was_told =
			map_get(&t->told[0], id, &before) || map_get(&t->told[1], id, &before);

		if (map_put(&t->told[0], id, 1) < 0)
			return -ENOMEM;
		if (was_told)
			return 0;
	}
	if (ARRAY_RESERVE(t->entries, t->cap, t->n + 1) < 0)
		return -ENOMEM;
	e.order = t->n;
	t->entries[t->n++] = e;
	return 0;
}

static int add_change(struct records *t, enum change change, const struct attempt *a,
		      const struct sheet_record *sheet)
{
	const struct entry e = { .item = { .wall_ns = change_time(change, a, sheet),
					   .job_id = a->job_id,
					   .attempt_num = a->attempt_num,
					   .attempt = a,
					   .sheet = sheet,
					   .change = change } };

	return add_entry(
		t, e,
		identity(a->id, (int)change, sheet ? sheet->num : 0, sheet ? sheet->try_num : 0));
}

/* As much as a change of it is written with: an attempt with an arena of its own takes 16 KiB. */
static struct attempt *keep_attempt(struct records *t, const struct attempt *from)
{
	struct attempt *a = arena_memdup(&t->arena, from, sizeof(*from));

	if (!a)
		return NULL;
	a->job_id = arena_strdup(&t->arena, from->job_id);
	a->command = arena_strdup(&t->arena, from->command);
	a->reason = arena_strdup(&t->arena, from->reason);
	a->host = a->workdir = NULL;
	if (from->n_sheets > 0)
		a->sheets = arena_memdup(&t->arena, from->sheets,
					 from->n_sheets * sizeof(*from->sheets));
	if (!a->job_id || (from->n_sheets > 0 && !a->sheets))
		return NULL;
	for (size_t i = 0; i < a->n_sheets; i++) {
		struct sheet_record *sheet = &a->sheets[i];

		sheet->name = arena_strdup(&t->arena, sheet->name);
		sheet->command = arena_strdup(&t->arena, sheet->command);
		sheet->reason = arena_strdup(&t->arena, sheet->reason);
		sheet->ranks = NULL;
		sheet->n_ranks = 0;
	}
	return a;
}

static int load_attempt(struct records *t, const struct attempt *listed)
{
	CLEANUP(attempt_release) struct attempt read;
	const struct attempt *a;
	int r;

	attempt_init(&read);
	r = store_read_progress(t->store, listed->job_id, listed->attempt_num, &read, t->err);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* removed since it was listed */
	a = keep_attempt(t, &read);
	if (!a)
		return -ENOMEM;
	if (attempt_has_begun(a))
		r = add_change(t, CHANGE_JOB_STARTED, a, NULL);
	for (size_t i = 0; r == 0 && i < a->n_sheets; i++) {
		r = add_change(t, CHANGE_SHEET_STARTED, a, &a->sheets[i]);
		if (r == 0)
			r = add_change(t, CHANGE_SHEET_ENDED, a, &a->sheets[i]);
	}
	if (r == 0)
		r = add_change(t, CHANGE_JOB_ENDED, a, NULL);
	return r;
}

/* moment: its state at the change; NULL: not recorded. */
static int add_episode(struct records *t, const struct kept_episode *kept,
		       enum episode_change change, uint64_t wall_ns,
		       const struct episode_moment *moment)
{
	const struct episode *e = &kept->row.episode;
	int severity = (int)(moment ? moment->severity : e->worst.severity);
	const struct entry entry = { .item = { .wall_ns = wall_ns,
					       .job_id = e->worst.job_id,
					       .attempt_num = kept->row.attempt_num,
					       .episode = e,
					       .episode_change = change },
				     .kept = kept,
				     .moment = moment };

	if (t->filter.is_following && !moment && change == EPISODE_CLEARED &&
	    u64_add(wall_ns, END_LATE_NS) > clock_wall_ns())
		return 0;
	return add_entry(t, entry,
			 identity((int64_t)hash_bytes(HASH_INIT, e->name, strlen(e->name)),
				  200 + (int)change, change == EPISODE_ESCALATED ? severity : 0,
				  0));
}

static int load_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct records *t = ctx;
	struct kept_episode *kept = arena_alloc(&t->arena, sizeof(*kept));
	const struct episode *e;
	bool has_end = false;
	int r;

	if (!kept || episode_keep(&kept->row.episode, &row->episode, &t->arena) < 0)
		return -ENOMEM;
	e = &kept->row.episode;
	kept->row.attempt_num = row->attempt_num;
	kept->row.n_changes = row->n_changes;
	kept->row.changes = NULL;
	if (row->n_changes > 0) {
		kept->row.changes = arena_memdup(&t->arena, row->changes,
						 row->n_changes * sizeof(*row->changes));
		if (!kept->row.changes)
			return -ENOMEM;
	}
	kept->ended_ns = e->ended_wall_ns;
	r = row->n_changes == 0 ? add_episode(t, kept, EPISODE_BEGAN, e->began_wall_ns, NULL) : 0;
	/*
	 * A row without changes has the last state alone. While the episode is active, its peak was
	 * written when it began or escalated. Once it has ended the peak may be later than any
	 * change: then the time of an escalation is unknown.
	 */
	if (r == 0 && row->n_changes == 0 && !u64_known(e->ended_wall_ns) &&
	    u64_known(e->peak_wall_ns) && e->peak_wall_ns > e->began_wall_ns)
		r = add_episode(t, kept, EPISODE_ESCALATED, e->peak_wall_ns, NULL);
	for (size_t i = 0; r == 0 && i < row->n_changes; i++) {
		const struct episode_moment *moment = &kept->row.changes[i];

		if (moment->change == EPISODE_CLEARED) {
			has_end = true;
			kept->ended_ns = u64_max_known(kept->ended_ns, moment->wall_ns);
		}
		r = add_episode(t, kept, moment->change, moment->wall_ns, moment);
	}
	if (r == 0 && !has_end)
		r = add_episode(t, kept, EPISODE_CLEARED, e->ended_wall_ns, NULL);
	return r;
}

static int load_phase(struct records *t, const struct phase_row *from)
{
	struct phase_row *row = arena_memdup(&t->arena, from, sizeof(*from));
	struct entry e;
	int r;

	if (!row)
		return -ENOMEM;
	row->job_id = arena_strdup(&t->arena, from->job_id);
	row->phase.name = arena_strdup(&t->arena, from->phase.name);
	row->phase.path = arena_strdup(&t->arena, from->phase.path);
	e = (struct entry){ .item = { .wall_ns = row->phase.entered_wall_ns,
				      .job_id = row->job_id,
				      .attempt_num = row->attempt_num,
				      .phase = row,
				      .is_enter = true } };
	r = add_entry(t, e, identity(row->id, 100 + TOPIC_PHASE_ENTER, 0, 0));
	e.item.wall_ns = row->phase.left_wall_ns;
	e.item.is_enter = false;
	return r < 0 ? r : add_entry(t, e, identity(row->id, 100 + TOPIC_PHASE_EXIT, 0, 0));
}

static int compare_entries(const void *left, const void *right)
{
	const struct entry *l = left, *r = right;

	return COMPARE(l->item.wall_ns, r->item.wall_ns) ?: COMPARE(l->rank, r->rank) ?: COMPARE(l->order, r->order);
}

static int load(struct records *t)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	CLEANUP(phase_list_release) struct phase_list entered = { .arena = ARENA_INIT };
	uint64_t now = clock_wall_ns(), since = t->filter.since_wall_ns;
	struct attempt_filter attempts = { .job_id = t->filter.job_id };
	struct anomaly_filter anomalies = { .job_id = t->filter.job_id,
					    .until_wall_ns = t->filter.until_wall_ns,
					    .with_changes = true };
	struct event_filter phases = { .job_id = t->filter.job_id };
	int r;

	if (t->has_read)
		since = now > LATE_NS ? now - LATE_NS : 0;
	attempts.since_wall_ns = phases.since_wall_ns = since;
	anomalies.lasting_wall_ns = since > MAX_END_DELAY_NS ? since - MAX_END_DELAY_NS : since;
	r = store_list_attempts(t->store, &attempts, &list, t->err);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = load_attempt(t, &list.items[i]);
	if (r == 0)
		r = store_list_phases(t->store, &phases, &entered, t->err);
	for (size_t i = 0; r == 0 && i < entered.n; i++)
		r = load_phase(t, &entered.items[i]);
	if (r == 0)
		r = store_read_anomalies(t->store, &anomalies, load_anomaly, t, t->err);
	if (t->n > 1)
		qsort(t->entries, t->n, sizeof(*t->entries), compare_entries);
	return r;
}

/* ---- passing them on ---- */

static int pass_entry(struct records *t, const struct entry *e)
{
	struct records_item item = e->item;
	struct episode shown;

	item.is_past = !item.event && item.wall_ns < t->since_ns;
	if (item.episode) {
		if (item.is_past && e->kept->ended_ns < t->since_ns)
			return 0; /* it is over since long */
		episode_copy(&shown, item.episode);
		if (e->moment)
			episode_recall(&shown, e->moment);
		item.episode = &shown;
	}
	return t->fn(t->ctx, &item);
}

static int pass_entries(struct records *t, uint64_t until_ns)
{
	int r = 0;

	while (r == 0 && t->next < t->n && t->entries[t->next].item.wall_ns <= until_ns)
		r = pass_entry(t, &t->entries[t->next++]);
	return r;
}

static struct entry entry_of(const struct event_row *row)
{
	return (struct entry){
		.item = { .wall_ns = row->event.wall_ns,
			  .job_id = row->event.job_id,
			  .attempt_num = row->attempt_num,
			  .event = row },
		/* Of one time, processes begin after the others and end before them. */
		.rank = row->event.type == EVENT_SPAWN ? 1 : -1
	};
}

/* There may be more of them than memory holds: the others come in between. */
static int on_event(void *ctx, const struct event_row *row)
{
	struct records *t = ctx;
	uint64_t wall_ns = row->event.wall_ns;
	const struct entry e = entry_of(row);
	int r;

	if (t->filter.is_following && row->id > t->last_event_id)
		return 0; /* written meanwhile: the next round's */
	r = pass_entries(t, wall_ns - (e.rank < 0 && wall_ns > 0));
	return r ? r : pass_entry(t, &e);
}

static int pass_events(struct records *t, uint64_t until_ns)
{
	const struct event_filter filter = { t->filter.job_id, t->next_event_ns,
					     until_ns == UINT64_MAX ? 0 : until_ns, 0 };
	int r = 0;

	if (until_ns >= t->next_event_ns && t->next_event_ns < UINT64_MAX) {
		r = store_read_events(t->store, &filter, on_event, t, t->err);
		t->next_event_ns = until_ns == UINT64_MAX ? until_ns : until_ns + 1;
	}
	return r ? r : pass_entries(t, until_ns);
}

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	struct records *t = ctx;
	int r = pass_events(t, snap->wall_ns);

	return r ? r
		 : t->fn(t->ctx,
			 &(struct records_item){ .wall_ns = snap->wall_ns, .snapshot = snap });
}

static int pass_snapshots(struct records *t, uint64_t until_ns)
{
	const struct snapshot_filter filter = {
		.job_id = t->filter.job_id,
		.since_wall_ns = t->next_snapshot_ns,
		.until_wall_ns = until_ns == UINT64_MAX ? 0 : until_ns,
		.with_minutes = true,
		.with_attempts = true,
	};
	int r;

	if (until_ns < t->next_snapshot_ns || t->next_snapshot_ns == UINT64_MAX)
		return 0;
	r = store_read_snapshots(t->store, &filter, on_snapshot, t, t->err);
	if (r == 0)
		t->next_snapshot_ns = until_ns == UINT64_MAX ? until_ns : until_ns + 1;
	return r;
}

/* ---- what was recorded since ---- */

static int keep_event(void *ctx, const struct event_row *row)
{
	struct records *t = ctx;
	struct event_row *kept = arena_memdup(&t->arena, row, sizeof(*row));

	if (!kept)
		return -ENOMEM;
	kept->event.job_id = arena_strdup(&t->arena, row->event.job_id);
	kept->event.details = arena_strdup(&t->arena, row->event.details);
	return add_entry(t, entry_of(kept), 0);
}

/* All is passed. Identities that are not asked for any more are forgotten, too. */
static void forget(struct records *t)
{
	struct map older = t->told[1];

	t->n = t->next = 0;
	arena_reset(&t->arena);
	if (clock_boot_ns() - t->turned_boot_ns < 2 * LATE_NS)
		return;
	map_clear(&older);
	t->told[1] = t->told[0];
	t->told[0] = older;
	t->turned_boot_ns = clock_boot_ns();
}

int records_read(struct records *t, uint64_t until_ns, records_fn *fn, void *ctx, struct err *err)
{
	const struct records_filter *f = &t->filter;
	bool is_further = f->is_following && t->has_read;
	int r = 0;

	t->fn = fn;
	t->ctx = ctx;
	t->err = err;
	if (f->until_wall_ns && until_ns > f->until_wall_ns)
		until_ns = f->until_wall_ns;
	if (f->is_following)
		r = store_follow_events(t->store, is_further ? f->job_id : NULL, &t->last_event_id,
					is_further ? keep_event : NULL, t, err);
	if (r == 0 && (f->is_following || !t->has_read))
		r = load(t);
	if (r == 0 && !is_further && f->with_snapshots)
		r = pass_snapshots(t, until_ns);
	if (r == 0 && !is_further && !f->is_from_now)
		r = pass_events(t, until_ns);
	if (r == 0)
		r = pass_entries(t, until_ns);
	if (r == 0 && f->is_following)
		forget(t);
	t->has_read |= r == 0;
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

int records_load(struct records *t, struct err *err)
{
	int r;

	t->err = err;
	r = load(t);
	t->has_read |= r == 0;
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

void records_seek(struct records *t, uint64_t wall_ns, uint64_t snapshots_wall_ns)
{
	t->next = 0;
	t->since_ns = t->next_event_ns = wall_ns;
	t->next_snapshot_ns = snapshots_wall_ns;
}

void records_skip_snapshots(struct records *t, uint64_t wall_ns)
{
	if (wall_ns > t->next_snapshot_ns)
		t->next_snapshot_ns = wall_ns;
}

uint64_t records_next_anomaly(const struct records *t, uint64_t after_ns)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct records_item *item = &t->entries[i].item;

		if (item->episode && item->episode_change == EPISODE_BEGAN &&
		    item->wall_ns > after_ns)
			return item->wall_ns;
	}
	return U64_UNKNOWN;
}

uint64_t records_last(const struct records *t)
{
	uint64_t last = t->n > 0 ? t->entries[t->n - 1].item.wall_ns : U64_UNKNOWN;

	return last >= t->filter.since_wall_ns ? last : U64_UNKNOWN;
}

void records_write_json(struct buf *out, const struct records_item *item)
{
	char name[32];
	struct json j;

	json_init(&j, out);
	if (item->episode) {
		episode_write_event(&j, item->episode, item->episode_change, item->wall_ns);
		return;
	}
	json_begin_object(&j);
	if (item->attempt) {
		change_write_fields(&j, item->change, item->attempt, item->sheet);
	} else if (item->phase) {
		json_key_string(&j, "event", records_topic(item));
		json_key_f64(&j, "timestamp", u64_to_seconds(item->wall_ns));
		json_key_string(&j, "job_id", item->job_id);
		json_key_i64(&j, "attempt", item->attempt_num);
		phase_record_write_fields(&j, &item->phase->phase);
	} else {
		snprintf(name, sizeof(name), "process.%s", records_topic(item));
		json_key_string(&j, "event", name);
		proc_event_write_fields(&j, &item->event->event);
		json_key_i64(&j, "attempt", item->event->attempt_num);
	}
	json_end_object(&j);
}

const char *records_topic(const struct records_item *item)
{
	if (item->attempt)
		return topic_name(change_topic(item->change, item->attempt, item->sheet));
	if (item->phase)
		return topic_name(item->is_enter ? TOPIC_PHASE_ENTER : TOPIC_PHASE_EXIT);
	if (item->episode)
		return topic_name(TOPIC_ANOMALY);
	return event_type_name(item->event->event.type);
}

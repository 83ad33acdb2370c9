#include "query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

/* An end may be recorded this long after it: an anomaly that flaps has to be clear for a while. */
#define MAX_END_DELAY_NS UINT64_C(3600000000000)

struct reading {
	struct store *store;
	const struct event_filter *filter;
	event_log_fn *fn;
	void *ctx;
};

static uint64_t identity(int64_t row, int kind, int num, int try_num)
{
	const int64_t parts[] = { row, kind, num, try_num };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

static int pass(const struct reading *in, const struct event_log_item *item)
{
	return u64_known(item->wall_ns) ? in->fn(in->ctx, item) : 0;
}

/* ---- jobs and sheets ---- */

static int pass_change(const struct reading *in, enum change change, const struct attempt *a,
		       const struct sheet_record *sheet)
{
	return pass(in, &(struct event_log_item){
				.wall_ns = change_time(change, a, sheet),
				.id = identity(a->id, (int)change, sheet ? sheet->num : 0,
					       sheet ? sheet->try_num : 0),
				.job_id = a->job_id,
				.attempt_num = a->attempt_num,
				.attempt = a,
				.sheet = sheet,
				.change = change,
			});
}

static int read_attempt(const struct reading *in, const struct attempt *listed, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_progress(in->store, listed->job_id, listed->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* removed since it was listed */
	if (attempt_has_begun(&a))
		r = pass_change(in, CHANGE_JOB_STARTED, &a, NULL);
	for (size_t i = 0; r == 0 && i < a.n_sheets; i++) {
		r = pass_change(in, CHANGE_SHEET_STARTED, &a, &a.sheets[i]);
		if (r == 0 && u64_known(a.sheets[i].ended_wall_ns))
			r = pass_change(in, CHANGE_SHEET_ENDED, &a, &a.sheets[i]);
	}
	if (r == 0 && u64_known(a.ended_wall_ns))
		r = pass_change(in, CHANGE_JOB_ENDED, &a, NULL);
	return r;
}

static int read_attempts(const struct reading *in, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = in->filter->job_id,
					       .since_wall_ns = in->filter->since_wall_ns };
	int r = store_list_attempts(in->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = read_attempt(in, &list.items[i], err);
	return r;
}

/* ---- phases ---- */

static int read_phases(const struct reading *in, struct err *err)
{
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	int r = store_list_phases(in->store, in->filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct phase_row *row = &list.items[i];
		struct event_log_item item = {
			.wall_ns = row->phase.entered_wall_ns,
			.id = identity(row->id, 100 + TOPIC_PHASE_ENTER, 0, 0),
			.job_id = row->job_id,
			.attempt_num = row->attempt_num,
			.phase = row,
			.is_enter = true,
		};

		r = pass(in, &item);
		item.wall_ns = row->phase.left_wall_ns;
		item.id = identity(row->id, 100 + TOPIC_PHASE_EXIT, 0, 0);
		item.is_enter = false;
		if (r == 0)
			r = pass(in, &item);
	}
	return r;
}

/* ---- anomalies ---- */

/* moment: its state at the change; NULL: not recorded. */
static int pass_episode(const struct reading *in, const struct anomaly_row *row,
			enum episode_change change, uint64_t wall_ns,
			const struct episode_moment *moment)
{
	uint64_t until = in->filter->until_wall_ns;
	struct episode shown;
	int severity;

	if (wall_ns < in->filter->since_wall_ns || (until != 0 && wall_ns > until))
		return 0;
	episode_copy(&shown, &row->episode);
	if (moment)
		episode_recall(&shown, moment);
	severity = (int)(moment ? moment->severity : shown.worst.severity);
	return pass(in, &(struct event_log_item){
				.wall_ns = wall_ns,
				.id = identity((int64_t)hash_bytes(HASH_INIT, shown.name,
								   strlen(shown.name)),
					       200 + (int)change,
					       change == EPISODE_ESCALATED ? severity : 0, 0),
				.job_id = shown.worst.job_id,
				.attempt_num = row->attempt_num,
				.episode = &shown,
				.episode_change = change,
				.is_inferred = !moment,
			});
}

static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	const struct episode *e = &row->episode;
	const struct reading *in = ctx;
	bool has_end = false;
	int r = 0;

	if (row->n_changes == 0)
		r = pass_episode(in, row, EPISODE_BEGAN, e->began_wall_ns, NULL);
	/*
	 * A row without changes has the last state alone. While the episode is active, its peak was
	 * written when it began or escalated. Once it has ended the peak may be later than any
	 * change: then the time of an escalation is unknown.
	 */
	if (r == 0 && row->n_changes == 0 && !u64_known(e->ended_wall_ns) &&
	    u64_known(e->peak_wall_ns) && e->peak_wall_ns > e->began_wall_ns)
		r = pass_episode(in, row, EPISODE_ESCALATED, e->peak_wall_ns, NULL);
	for (size_t i = 0; r == 0 && i < row->n_changes; i++) {
		has_end |= row->changes[i].change == EPISODE_CLEARED;
		r = pass_episode(in, row, row->changes[i].change, row->changes[i].wall_ns,
				 &row->changes[i]);
	}
	if (r == 0 && !has_end)
		r = pass_episode(in, row, EPISODE_CLEARED, e->ended_wall_ns, NULL);
	return r;
}

int event_log_read(struct store *store, const struct event_filter *filter, event_log_fn *fn,
		   void *ctx, struct err *err)
{
	const uint64_t since = filter->since_wall_ns;
	const struct anomaly_filter anomalies = {
		.job_id = filter->job_id,
		.until_wall_ns = filter->until_wall_ns,
		.lasting_wall_ns = since > MAX_END_DELAY_NS ? since - MAX_END_DELAY_NS : since,
		.with_changes = true
	};
	struct reading in = { store, filter, fn, ctx };
	int r = read_attempts(&in, err);

	if (r == 0)
		r = read_phases(&in, err);
	if (r == 0)
		r = store_read_anomalies(store, &anomalies, on_anomaly, &in, err);
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

void event_log_write_json(struct buf *out, const struct event_log_item *item)
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
		json_key_string(&j, "event",
				topic_name(item->is_enter ? TOPIC_PHASE_ENTER : TOPIC_PHASE_EXIT));
		json_key_f64(&j, "timestamp", u64_to_seconds(item->wall_ns));
		json_key_string(&j, "job_id", item->job_id);
		json_key_i64(&j, "attempt", item->attempt_num);
		phase_record_write_fields(&j, &item->phase->phase);
	} else {
		snprintf(name, sizeof(name), "process.%s",
			 event_type_name(item->event->event.type));
		json_key_string(&j, "event", name);
		proc_event_write_fields(&j, &item->event->event);
		json_key_i64(&j, "attempt", item->event->attempt_num);
	}
	json_end_object(&j);
}

/* ---- lines ---- */

void event_log_lines_release(struct event_log_lines *lines)
{
	free(lines->items);
	buf_release(&lines->text);
}

int event_log_lines_begin(struct event_log_lines *lines, uint64_t wall_ns, int rank)
{
	if (ARRAY_RESERVE(lines->items, lines->cap, lines->n + 1) < 0)
		return -ENOMEM;
	lines->items[lines->n++] =
		(struct event_log_line){ .wall_ns = wall_ns, .rank = rank, .at = lines->text.len };
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct event_log_line *l = left, *r = right;

	if (l->wall_ns != r->wall_ns)
		return l->wall_ns < r->wall_ns ? -1 : 1;
	if (l->rank != r->rank)
		return l->rank - r->rank;
	return (l->at > r->at) - (l->at < r->at);
}

void event_log_lines_sort(struct event_log_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		lines->items[i].len =
			(i + 1 < lines->n ? lines->items[i + 1].at : lines->text.len) -
			lines->items[i].at;
	if (lines->n > 1)
		qsort(lines->items, lines->n, sizeof(*lines->items), compare);
}

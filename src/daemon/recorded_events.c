#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "bus/bus.h"
#include "daemon/recorded.h"
#include "daemon/told.h"

/* What a callback returns to be called no more. */
#define STOP 1

struct line {
	uint64_t wall_ns;
	size_t seq, at, len; /* in the text */
};

/* The events of a page, which wait to be put in order. */
struct page {
	struct recorded *r;
	struct store *store;
	struct line *items;
	size_t n, cap;
	struct buf text;
	bool is_short; /* of memory */
};

static void page_release(struct page *page)
{
	free(page->items);
	buf_release(&page->text);
}

/* NULL: it is not asked for, or there is no memory. Its text begins where that of the others ends.
 */
static struct line *add(struct page *page, uint64_t wall_ns)
{
	const struct recorded *r = page->r;
	size_t cap = page->cap ? page->cap * 2 : 64;
	struct line *items;

	if (!u64_known(wall_ns) || wall_ns < r->since_wall_ns ||
	    (r->until_wall_ns && wall_ns > r->until_wall_ns))
		return NULL;
	if (page->n == page->cap) {
		items = reallocarray(page->items, cap, sizeof(*items));
		page->is_short = !items;
		if (!items)
			return NULL;
		page->items = items;
		page->cap = cap;
	}
	page->items[page->n] =
		(struct line){ .wall_ns = wall_ns, .seq = page->n, .at = page->text.len };
	return &page->items[page->n++];
}

static void end(struct page *page, struct line *line)
{
	line->len = page->text.len - line->at;
}

/* ---- jobs and sheets ---- */

static void add_change(struct page *page, enum change change, const struct attempt *a,
		       const struct sheet_record *sheet)
{
	struct line *line = add(page, change_time(change, a, sheet));
	struct json j;

	if (!line)
		return;
	json_init(&j, &page->text);
	json_begin_object(&j);
	change_write_fields(&j, change, a, sheet);
	json_end_object(&j);
	end(page, line);
}

/* One that is gone in the meantime has nothing to tell. */
static int add_attempt(struct page *page, const struct attempt *listed, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_progress(page->store, listed->job_id, listed->attempt_num, &a, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (attempt_has_begun(&a))
		add_change(page, CHANGE_JOB_STARTED, &a, NULL);
	for (size_t i = 0; i < a.n_sheets; i++) {
		add_change(page, CHANGE_SHEET_STARTED, &a, &a.sheets[i]);
		add_change(page, CHANGE_SHEET_ENDED, &a, &a.sheets[i]);
	}
	add_change(page, CHANGE_JOB_ENDED, &a, NULL);
	return 0;
}

static int add_jobs(struct page *page, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct recorded *r = page->r;
	const struct attempt_filter filter = { .job_id = r->job_id,
					       .uid = u64_known(r->uid) ? &r->uid : NULL,
					       .since_wall_ns = r->since_wall_ns };
	int result = store_list_attempts(page->store, &filter, &list, err);

	for (size_t i = 0; result == 0 && i < list.n; i++)
		result = add_attempt(page, &list.items[i], err);
	return result;
}

/* ---- phases ---- */

static void add_phase(struct page *page, const struct phase_row *row, enum topic topic,
		      uint64_t wall_ns)
{
	struct line *line = add(page, wall_ns);
	struct json j;

	if (!line)
		return;
	json_init(&j, &page->text);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(topic));
	json_key_f64(&j, "timestamp", u64_to_seconds(wall_ns));
	json_key_string(&j, "job_id", row->job_id);
	json_key_i64(&j, "attempt", row->attempt_num);
	phase_record_write_fields(&j, &row->phase);
	json_end_object(&j);
	end(page, line);
}

static int add_phases(struct page *page, const struct event_filter *filter, struct err *err)
{
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	int r = store_list_phases(page->store, filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct phase_row *row = &list.items[i];

		if (!recorded_is_shown(page->r, row->job_id, row->attempt_num))
			continue;
		add_phase(page, row, TOPIC_PHASE_ENTER, row->phase.entered_wall_ns);
		add_phase(page, row, TOPIC_PHASE_EXIT, row->phase.left_wall_ns);
	}
	return r;
}

/* ---- anomalies ---- */

static void add_anomaly(struct page *page, const struct told *told)
{
	struct line *line = add(page, told->wall_ns);
	struct episode shown;
	struct json j;

	if (!line)
		return;
	told_episode(told, &shown);
	if (u64_known(page->r->uid))
		recorded_hide_host(&shown);
	json_init(&j, &page->text);
	episode_write_event(&j, &shown, told->change, told->wall_ns);
	end(page, line);
}

static int add_anomalies(struct page *page, const struct event_filter *filter, struct err *err)
{
	CLEANUP(told_list_release) struct told_list list = { 0 };
	int r = told_list_read(page->store, filter, &list, err);
	const struct told *told;

	while (r == 0 && (told = told_take(&list, UINT64_MAX)))
		if (recorded_is_shown(page->r, page->r->job_id, told->attempt_num))
			add_anomaly(page, told);
	return r;
}

/* ---- processes ---- */

static int add_event(void *ctx, const struct event_row *row)
{
	struct page *page = ctx;
	struct line *line;
	struct json j;
	char name[32];

	if (!recorded_is_shown(page->r, row->event.job_id, row->attempt_num))
		return 0;
	if (recorded_is_full(page->r, page->text.len, row->event.wall_ns))
		return STOP;
	line = add(page, row->event.wall_ns);
	if (!line)
		return 0;
	snprintf(name, sizeof(name), "process.%s", event_type_name(row->event.type));
	json_init(&j, &page->text);
	json_begin_object(&j);
	json_key_string(&j, "event", name);
	proc_event_write_fields(&j, &row->event);
	json_key_i64(&j, "attempt", row->attempt_num);
	json_end_object(&j);
	end(page, line);
	return buf_error(&page->text);
}

/* ---- all together ---- */

static int compare(const void *l, const void *r)
{
	const struct line *a = l, *b = r;

	if (a->wall_ns != b->wall_ns)
		return a->wall_ns < b->wall_ns ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

/* What is of the next page is found again there. */
static void write_page(struct page *page)
{
	struct recorded *r = page->r;

	if (page->n > 0)
		qsort(page->items, page->n, sizeof(*page->items), compare);
	json_init(&r->json, &r->list);
	json_begin_array(&r->json);
	for (size_t i = 0; i < page->n && page->items[i].wall_ns < r->next_wall_ns; i++)
		json_raw(&r->json, page->text.data + page->items[i].at, page->items[i].len);
	json_end_array(&r->json);
}

static int fill_page(struct page *page, struct err *err)
{
	const struct recorded *r = page->r;
	const struct event_filter filter = { r->job_id, r->since_wall_ns, r->until_wall_ns };
	int result = add_jobs(page, err);

	if (result == 0)
		result = add_phases(page, &filter, err);
	if (result == 0)
		result = add_anomalies(page, &filter, err);
	if (result == 0)
		result = store_read_events(page->store, &filter, add_event, page, err);
	return result == STOP ? 0 : result;
}

int recorded_read_events(struct recorded *r, struct store *store, struct err *err)
{
	CLEANUP(page_release) struct page page = { .r = r, .store = store, .text = BUF_INIT };
	int result = recorded_find_shown(r, store, err);

	if (result == 0)
		result = fill_page(&page, err);
	if (result == 0)
		write_page(&page);
	if (result == 0 && (page.is_short || buf_error(&page.text) < 0 || buf_error(&r->list) < 0))
		return err_set(err, -ENOMEM, "out of memory");
	return result;
}

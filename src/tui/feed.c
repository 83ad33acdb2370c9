#include "tui/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/unknown.h"

#define MAX_EVENT_BYTES 16384 /* that are kept of one */

/* ---- events as JSON ---- */

const char *feed_text(const struct rpc_value *v, const char *key)
{
	return rpc_value_string(rpc_value_get(v, key));
}

uint64_t feed_time(const struct rpc_value *v, const char *key)
{
	double seconds = rpc_value_f64(rpc_value_get(v, key));

	return seconds > 0 && seconds < 1e10 ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

int feed_number(const struct rpc_value *v, const char *key)
{
	int64_t n = rpc_value_i64(rpc_value_get(v, key), 0);

	return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

bool feed_is_anomaly(const char *topic)
{
	return strncmp(topic, "monitor.", 8) == 0;
}

static enum event_kind kind_of(const char *topic, const struct rpc_value *data)
{
	static const char *const bad[] = { "failed", "cancelled", "process.oom", "process.kill",
					   "process.signal" };

	if (feed_is_anomaly(topic))
		return EVENT_KIND_ANOMALY;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strstr(topic, bad[i]))
			return EVENT_KIND_TROUBLE;
	if (strncmp(topic, "process.", 8) != 0)
		return EVENT_KIND_JOB;
	if (strcmp(topic, "process.exit") == 0 &&
	    (rpc_value_i64(rpc_value_get(data, "exit_code"), 0) > 0 ||
	     rpc_value_i64(rpc_value_get(data, "signal_num"), -1) >= 0))
		return EVENT_KIND_TROUBLE;
	return EVENT_KIND_PROCESS;
}

/* "it grows by 60 MB a minute (memory_leak, high, of train)": the reason comes first, as there may
 * be no room for more. */
static void describe_anomaly(struct buf *out, const struct rpc_value *data)
{
	const char *change = feed_text(data, "change"), *text = feed_text(data, "description");
	const char *type = feed_text(data, "anomaly_type");

	if (change && strcmp(change, "began") != 0)
		buf_printf(out, "%s: ", change);
	buf_printf(out, "%s (%s", text && text[0] ? text : "anomaly", type ? type : "-");
	if (feed_text(data, "severity"))
		buf_printf(out, ", %s", feed_text(data, "severity"));
	if (feed_text(data, "job_id"))
		buf_printf(out, ", of %s", feed_text(data, "job_id"));
	buf_add_char(out, ')');
}

/* The topic, and the members that an event may have in the order of a sentence. */
static void describe(struct buf *out, const char *topic, const struct rpc_value *data,
		     size_t *ret_which_at)
{
	static const struct {
		const char *key, *before;
		bool is_in_reason; /* the reason says it too */
	} members[] = {
		{ "pid", " pid ", false },	    { "job_id", " of ", false },
		{ "sheet_num", ", sheet ", false }, { "exit_code", ": exit code ", true },
		{ "signal", ": signal ", true },    { "signal_num", ": signal ", true },
		{ "reason", ": ", false },	    { "description", ": ", false },
		{ "details", ": ", false },
	};
	const char *reason = feed_text(data, "reason");

	buf_add_str(out, topic);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const char *text = feed_text(data, members[i].key);
		uint64_t number = rpc_value_u64(rpc_value_get(data, members[i].key));

		if (reason && reason[0] && members[i].is_in_reason)
			continue;
		if (text && text[0])
			buf_printf(out, "%s%s", members[i].before, text);
		else if (u64_known(number))
			buf_printf(out, "%s%llu", members[i].before, (unsigned long long)number);
		if (strcmp(members[i].key, "job_id") == 0)
			*ret_which_at = out->len;
	}
	if (strncmp(topic, "phase.", 6) == 0 && feed_text(data, "name"))
		buf_printf(out, ": %s", feed_text(data, "name"));
}

/* What an anomaly is about is flagged from when it began until it is over. */
static void set_flag(struct scene *s, const struct scene_event *event, const struct rpc_value *data)
{
	const char *episode = feed_text(data, "episode"),
		   *description = feed_text(data, "description");
	const char *type = feed_text(data, "anomaly_type"), *severity = feed_text(data, "severity");
	uint64_t peak_ns = feed_time(data, "peak");
	struct scene_flag flag = {
		.began_ns = feed_time(data, "began"),
		.ended_ns = feed_time(data, "ended"),
		.told_ns = u64_known(peak_ns) ? peak_ns : event->wall_ns, /* the text is of then */
		.process = event->process,
		.job = event->job,
	};

	if (!episode)
		return;
	flag.id = scene_flag_id(episode);
	snprintf(flag.text, sizeof(flag.text), "%s", description ? description : "-");
	snprintf(flag.kind, sizeof(flag.kind), "%s, %s", type ? type : "-",
		 severity ? severity : "-");
	scene_set_flag(s, &flag);
}

static bool is_in_timeline(const struct scene *s, const struct scene_event *event)
{
	for (size_t i = 0; i < s->past.n_events; i++)
		if (s->past.events[i].wall_ns == event->wall_ns &&
		    s->past.events[i].process == event->process &&
		    strcmp(s->past.events[i].text, event->text) == 0)
			return true;
	return false;
}

void feed_add_event(struct scene *s, const char *topic, uint64_t wall_ns,
		    const struct rpc_value *data, bool is_again)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	const struct proc_key key = { (pid_t)rpc_value_i64(rpc_value_get(data, "pid"), 0),
				      rpc_value_u64(rpc_value_get(data, "start_ticks")) };
	const char *job_id = feed_text(data, "job_id");
	int sheet_num = feed_number(data, "sheet_num");
	struct scene_event event = {
		.wall_ns = wall_ns,
		.kind = kind_of(topic, data),
		.process = key.pid > 0 ? track_key_of_process(&key) : 0,
		.job = job_id ? track_key_of_job(job_id) : 0,
	};
	struct json j;

	if (s->job_id && job_id && strcmp(job_id, s->job_id) != 0)
		return;
	if (strcmp(topic, "sheet.started") == 0 && job_id && sheet_num > 0) {
		uint64_t sheet =
			outline_key_of_sheet(job_id, feed_number(data, "attempt"), sheet_num);

		scene_set_start(s, sheet, wall_ns);
		scene_name_sheet(s, sheet, feed_text(data, "name"));
	}
	if (event.kind == EVENT_KIND_ANOMALY) {
		set_flag(s, &event, data);
		describe_anomaly(&text, data);
	} else {
		describe(&text, topic, data, &event.which_at);
	}
	snprintf(event.text, sizeof(event.text), "%s", buf_error(&text) == 0 ? text.data : topic);
	if (event.job && event.which_at > 0 && event.which_at <= strlen(event.text))
		event.attempt_num = feed_number(data, "attempt");
	json_init(&j, &all);
	rpc_value_write(data, &j);
	event.json = buf_error(&all) == 0 && all.len < MAX_EVENT_BYTES ? all.data : NULL;
	if (!is_again || !is_in_timeline(s, &event))
		scene_add_event(s, &event);
}

/* ---- what was recorded: in the words in which the bus has it ---- */

/* Text has no births and quiet deaths: there may be millions. */
static bool is_left_out(const struct scene *s, const struct proc_event *event)
{
	return s->is_text && (event->type == EVENT_SPAWN ||
			      (event->type == EVENT_EXIT && event->status.exit_code <= 0 &&
			       event->status.signal < 0));
}

int feed_add_item(void *scene, const struct records_item *item)
{
	struct scene *s = scene;
	static const struct rpc_value_limits limits = { 64, 100000 };
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct rpc_value *data = NULL;
	bool is_start = item->attempt && (item->change == CHANGE_JOB_STARTED ||
					  item->change == CHANGE_SHEET_STARTED);

	/* Also by the job alone: a minute has no progress, which would name the attempt. */
	if (is_start) {
		const int nums[] = { 0, item->attempt_num };

		for (size_t i = 0; i < ARRAY_SIZE(nums); i++) {
			uint64_t key = item->sheet ? outline_key_of_sheet(item->job_id, nums[i],
									  item->sheet->num)
						   : track_key_of_attempt(item->job_id, nums[i]);

			scene_set_start(s, key, item->wall_ns);
			if (item->sheet)
				scene_name_sheet(s, key, item->sheet->name);
		}
	}
	if (!item->is_past && !(item->event && is_left_out(s, &item->event->event))) {
		records_write_json(&all, item);
		if (buf_error(&all) == 0 &&
		    rpc_value_parse(all.data, all.len, &limits, &data, NULL) == 0)
			feed_add_event(s, feed_text(data, "event"), item->wall_ns, data, false);
		rpc_value_free(data); /* without memory it is left out */
	}
	/* With times that JSON would round. */
	if (item->episode) {
		const struct episode *e = item->episode;
		const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
		struct scene_flag flag = {
			.id = scene_flag_id(e->name),
			.began_ns = e->began_wall_ns,
			.ended_ns = item->episode_change == EPISODE_CLEARED ? item->wall_ns
									    : U64_UNKNOWN,
			.told_ns = e->peak_wall_ns,
			.process = e->worst.has_pid ? track_key_of_process(&key) : 0,
			.job = e->worst.job_id ? track_key_of_job(e->worst.job_id) : 0,
		};

		snprintf(flag.text, sizeof(flag.text), "%s", e->worst.text);
		snprintf(flag.kind, sizeof(flag.kind), "%s, %s", anomaly_type_name(e->worst.type),
			 severity_name(e->worst.severity));
		scene_set_flag(s, &flag);
	}
	return 0;
}

/* ---- recall ---- */

#define MAX_SAMPLES 1024 /* that are read for one curve: a megabyte or so of a daemon's answers */
#define MAX_READ 16384	 /* of more processes than there are now */
#define LEAST_POINTS 8	 /* fewer are no curve */

bool recall_begin(struct recall *r, const struct scene *s, const struct node *node, uint64_t gap_ns)
{
	size_t n = node->p || node->n_processes == 0 ? 1 : node->n_processes;
	size_t points = MAX_SAMPLES / n < TRACK_POINTS ? MAX_SAMPLES / n : TRACK_POINTS;
	const struct track *track = tracks_find(&s->tracks, node->id);
	uint64_t seen_ns = track && track->n > 0 ? track_wall_ns(track, 0) : s->snap.wall_ns;
	uint64_t span_ns = points * gap_ns;

	if (!node->job_id || node->queued || points < LEAST_POINTS)
		return false;
	*r = (struct recall){
		.id = node->id,
		.attempt_num = node->attempt_num,
		.sheet_num = node->sheet_num,
		.rank = node->rank,
		.since_wall_ns = seen_ns > span_ns ? seen_ns - span_ns : 1,
		.until_wall_ns = seen_ns - 1,
	};
	if (node->p)
		r->key = node->p->key;
	snprintf(r->job_id, sizeof(r->job_id), "%s", node->job_id);
	return true;
}

/* A process is known by itself, whatever sheet it was in. */
static bool is_recalled(const struct recall *r, int attempt_num, const struct proc_sample *p)
{
	if (r->key.pid)
		return p->key.pid == r->key.pid && p->key.start_ticks == r->key.start_ticks;
	return (r->attempt_num == 0 || attempt_num == r->attempt_num) &&
	       (r->sheet_num == SHEET_NONE || p->sheet_num == r->sheet_num) &&
	       (r->rank == RANK_NONE || p->rank == r->rank);
}

void recall_add(struct recall *r, uint64_t wall_ns, int attempt_num, const struct proc_sample *p)
{
	r->n_read++;
	r->read_wall_ns = wall_ns;
	if (wall_ns > r->until_wall_ns || !u64_known(p->rss_bytes) ||
	    !is_recalled(r, attempt_num, p))
		return;
	if (r->n == 0 || r->points[r->n - 1].wall_ns != wall_ns) {
		if (r->n == TRACK_POINTS)
			memmove(r->points, r->points + 1, --r->n * sizeof(*r->points));
		r->points[r->n++] = (struct track_point){ wall_ns, 0 };
	}
	r->points[r->n - 1].rss_bytes += (double)p->rss_bytes;
}

bool recall_is_full(const struct recall *r, uint64_t wall_ns)
{
	return r->n_read >= MAX_READ && wall_ns != r->read_wall_ns;
}

void recall_end(const struct recall *r, struct scene *s)
{
	tracks_put_before(&s->tracks, r->id, r->points, r->n);
}

#define LOOK_SECONDS 2.0
#define PAST_NS UINT64_C(60000000000)	     /* told when it begins */
#define RECORDED_GAP_NS UINT64_C(5000000000) /* between two ticks, as runs have it */

struct own_feed {
	const struct tui_options *options;
	double interval_seconds;
	struct look look;
	struct store *store; /* NULL: not there (yet) */
	struct records *records;
	struct snapshot snap;
	uint64_t next_boot_ns;
};

/* What runs have recorded since the last look. */
static int read_record(struct own_feed *f, struct scene *s, struct err *err)
{
	const struct records_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = clock_wall_ns() - PAST_NS,
		.keeps_state = true,
		.is_following = true,
	};
	int r = f->store ? 0 : f->options->helpers->open_store(&f->store, err);

	if (r < 0 || !f->store)
		return r;
	store_take_in(f->store, NULL);
	if (!f->records)
		f->records = records_new(f->store, &filter);
	return f->records ? records_read(f->records, UINT64_MAX, feed_add_item, s, err)
			  : err_set(err, -ENOMEM, "out of memory");
}

static int own_pump(void *ctx, struct scene *s, struct err *err)
{
	struct own_feed *f = ctx;
	uint64_t now = clock_boot_ns();
	struct err trouble = ERR_INIT, record = ERR_INIT; /* which says that there is none, too */
	int r;

	if (now < f->next_boot_ns)
		return 0;
	f->next_boot_ns = now + (uint64_t)(f->interval_seconds * 1e9);
	/* what it does comes first: there may be no room for the reason */
	if (s->is_text)
		snprintf(s->source_note, sizeof(s->source_note), "looking by itself: %s",
			 s->no_daemon[0] ? s->no_daemon : "no daemon runs");
	else if (s->no_daemon[0])
		snprintf(s->source_note, sizeof(s->source_note), "looking every %g s by itself: %s",
			 f->interval_seconds, s->no_daemon);
	else
		snprintf(s->source_note, sizeof(s->source_note),
			 "no daemon runs: looking every %g s by itself", f->interval_seconds);
	s->is_late = false;
	if (s->is_paused)
		return 0;
	/* before the snapshot is shown: since when its jobs and sheets run is known then */
	if (read_record(f, s, &record) < 0)
		trouble = record;
	r = look_take(&f->look, f->store, SNAPSHOT_ALL, &f->snap, &trouble, err);
	if (r < 0)
		return r;
	if (scene_add_snapshot(s, &f->snap) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	s->past.n_anomalies = f->store && !trouble.code ? scene_count_flags(s) : U64_UNKNOWN;
	if (trouble.code) /* the host is shown; what the record has comes later */
		scene_set_message(s, "%s", trouble.text);
	return 1;
}

static int own_timeout(void *ctx, const struct scene *s)
{
	struct own_feed *f = ctx;
	uint64_t now = clock_boot_ns();

	(void)s;
	return now >= f->next_boot_ns ? 0 : (int)((f->next_boot_ns - now) / 1000000) + 1;
}

static int own_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	struct own_feed *f = ctx;

	(void)s;
	if (wish->kind != WISH_CANCEL_JOB)
		return -EOPNOTSUPP;
	return f->options->helpers->cancel(wish->job_id, wish->attempt_num, err);
}

static int recall_sample(void *ctx, const struct history_row *row)
{
	if (recall_is_full(ctx, row->wall_ns))
		return 1; /* the keys wait meanwhile */
	recall_add(ctx, row->wall_ns, row->attempt_num, &row->sample);
	return 0;
}

static bool own_recall(void *ctx, struct scene *s, const struct node *node)
{
	struct own_feed *f = ctx;
	struct recall recall;
	struct history_filter filter = { 0 };

	if (!f->store)
		return false;
	if (!recall_begin(&recall, s, node, RECORDED_GAP_NS))
		return true;
	filter.job_id = recall.job_id;
	filter.pid = recall.key.pid;
	filter.since_wall_ns = recall.since_wall_ns;
	filter.until_wall_ns = recall.until_wall_ns;
	if (store_read_history(f->store, &filter, recall_sample, &recall, NULL) >= 0)
		recall_end(&recall, s); /* else the curve begins where top did */
	return true;
}

static void own_close(void *ctx)
{
	struct own_feed *f = ctx;

	records_free(f->records);
	store_close(f->store);
	look_close(&f->look);
	snapshot_release(&f->snap);
	free(f);
}

int feed_open_own(const struct tui_options *options, struct feed *ret, struct err *err)
{
	static const struct feed_ops ops = {
		.timeout_ms = own_timeout,
		.pump = own_pump,
		.grant = own_grant,
		.recall = own_recall,
		.close = own_close,
	};
	struct own_feed *f = calloc(1, sizeof(*f));
	struct look_options look = { .mask = options->mask,
				     .reads_gpus = options->reads_gpus,
				     .want_ebpf = true };
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	f->interval_seconds = look.interval_seconds =
		options->interval_seconds > 0 ? options->interval_seconds : LOOK_SECONDS;
	snapshot_init(&f->snap);
	file_limit_raise(NULL); /* for files of /proc that stay open */
	r = look_open(&f->look, &look, err);
	if (r < 0) {
		own_close(f);
		return r;
	}
	*ret = (struct feed){ &ops, f };
	return 0;
}

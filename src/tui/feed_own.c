/*
 * The feed where no daemon runs: top collects all processes by itself.
 *
 * The database says which jobs run and what happened to them; without one, all processes are of no
 * job. What runs have recorded since the last look is ingested first.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/unknown.h"
#include "tui/feed.h"

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

static int tell_item(void *ctx, const struct records_item *item)
{
	feed_add_item(ctx, item);
	return 0;
}

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
	return f->records ? records_read(f->records, UINT64_MAX, tell_item, s, err)
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

static int take_sample(void *ctx, const struct history_row *row)
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
	if (store_read_history(f->store, &filter, take_sample, &recall, NULL) >= 0)
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

#include "daemon/learner.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "recorder/recorder.h"

#define MINUTE_NS UINT64_C(60000000000)
#define PATIENCE_MS 5000 /* for another writer: nobody waits for this thread */
#define SLICE_ATTEMPTS 16
/* After an end: others may follow, and its runner has its last words to write. */
#define SOON_MS 1000
#define PAUSE_MS 100
#define RETRY_MS 60000

/* What the other thread has, and nobody else meanwhile. */
struct work {
	bool is_analysis;
	bool has_more; /* attempts that are no runs yet */
	struct learning learned;
	struct learning_change *changes;
	size_t n_changes;
	struct err err;
	int r;
};

struct learner {
	struct learner_options options;
	struct loop_timer *catch_up_timer, *analysis_timer;
	struct learn_plan plan;
	atomic_bool is_leaving;
	bool is_busy, wants_catch_up, wants_analysis;
	bool is_timed;	      /* the timer for catching up is set */
	bool cannot_catch_up; /* said once */
	uint64_t n_begun;     /* analyses */
	struct work work;
};

/* ---- when the next analysis is due ---- */

void learn_plan_begin(struct learn_plan *p, unsigned interval_minutes, uint64_t now_ns)
{
	*p = (struct learn_plan){ interval_minutes * MINUTE_NS, .since_ns = now_ns };
}

uint64_t learn_plan_wait_ns(const struct learn_plan *p, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns > p->since_ns ? now_ns - p->since_ns : 0;
	uint64_t wanted_ns = p->interval_ns;

	if (p->is_failing && wanted_ns > LEARN_RETRY_NS)
		wanted_ns = LEARN_RETRY_NS;
	return wanted_ns > passed_ns ? wanted_ns - passed_ns : 0;
}

bool learn_plan_note_end(struct learn_plan *p, bool has_failed, uint64_t now_ns)
{
	bool is_news = has_failed != p->is_failing;

	p->is_failing = has_failed;
	p->since_ns = now_ns;
	return is_news;
}

/* ---- on the other thread ---- */

static void do_work(void *ctx)
{
	CLEANUP(store_closep) struct store *store = NULL;
	struct learner *l = ctx;
	struct work *work = &l->work;
	uint64_t oldest_ns = clock_wall_ns() - COMPAT_LOOKBACK_DAYS * UINT64_C(86400000000000);
	size_t n = SLICE_ATTEMPTS;

	work->r = store_open_timeout(l->options.db, STORE_WRITE, PATIENCE_MS, &store, &work->err);
	if (work->r < 0)
		return;
	store_set_alive_check(store, daemon_check_alive, NULL);
	store_leave_no_log(store); /* if the daemon ends meanwhile, ours is the last handle */
	/* All of them before an analysis, else a slice. */
	do {
		work->r = learning_catch_up(store, SLICE_ATTEMPTS, &n, &work->err);
	} while (work->r == 0 && n == SLICE_ATTEMPTS && work->is_analysis && !l->is_leaving);
	work->has_more = n == SLICE_ATTEMPTS;
	if (work->r < 0 || !work->is_analysis || l->is_leaving)
		return;
	work->r = learning_read(store, oldest_ns, &work->learned, &work->err);
	if (work->r < 0 || l->is_leaving)
		return;
	learning_analyze(&work->learned);
	work->r = learning_write(store, &work->learned, &work->err);
	if (work->r == 0 &&
	    learning_list_changes(&work->learned, store, &work->changes, &work->n_changes) < 0)
		work->r = err_set(&work->err, -ENOMEM, "out of memory");
}

/* ---- in the loop ---- */

static void plan_analysis(struct learner *l)
{
	uint64_t wait_ns = learn_plan_wait_ns(&l->plan, clock_boot_ns());

	loop_timer_set(l->analysis_timer, (wait_ns + 999999) / 1000000, 0);
}

/* One that is set stays: ends that follow each other closely do not put it off. */
static void catch_up_in(struct learner *l, uint64_t ms)
{
	if (!l->is_timed && !l->is_leaving)
		loop_timer_set(l->catch_up_timer, ms, 0);
	l->is_timed = true;
}

static void begin_wanted(struct learner *l);

static void on_done(void *ctx)
{
	struct learner *l = ctx;
	const struct learner_options *to = &l->options;
	struct work *work = &l->work;
	bool has_failed = work->r < 0;

	l->is_busy = false;
	if (!l->is_leaving && work->is_analysis) {
		if (learn_plan_note_end(&l->plan, has_failed, clock_boot_ns())) {
			if (has_failed)
				log_warning("the runs cannot be analysed, and are tried again: %s",
					    work->err.text);
			else
				log_info("the runs can be analysed again");
		}
		for (size_t i = 0; !has_failed && i < work->n_changes; i++)
			to->on_news(to->ctx, work->changes[i].pattern, work->changes[i].uid);
		to->on_analysis(to->ctx, l->n_begun, has_failed ? NULL : &work->learned,
				&work->err);
		plan_analysis(l);
	} else if (!l->is_leaving) {
		if (has_failed && !l->cannot_catch_up)
			log_warning("what has ended cannot be learned from, and is tried again: %s",
				    work->err.text);
		l->cannot_catch_up = has_failed;
		if (has_failed || work->has_more)
			catch_up_in(l, has_failed ? RETRY_MS : PAUSE_MS);
	}
	learning_release(&work->learned);
	free(work->changes);
	begin_wanted(l);
}

static void begin_wanted(struct learner *l)
{
	if (l->is_busy || l->is_leaving || (!l->wants_analysis && !l->wants_catch_up))
		return;
	l->work = (struct work){ .is_analysis = l->wants_analysis, .err = ERR_INIT };
	learning_init(&l->work.learned, l->options.min_jobs);
	l->n_begun += l->wants_analysis;
	l->wants_analysis = l->wants_catch_up = false; /* the one does the other */
	l->is_busy = true;
	if (loop_queue_work(l->options.loop, do_work, on_done, l) == 0)
		return;
	l->work.r = err_set(&l->work.err, -ENOMEM, "out of memory");
	on_done(l);
}

static void on_catch_up_timer(void *ctx)
{
	struct learner *l = ctx;

	l->is_timed = false;
	l->wants_catch_up = true;
	begin_wanted(l);
}

static void on_analysis_timer(void *ctx)
{
	struct learner *l = ctx;

	if (learn_plan_wait_ns(&l->plan, clock_boot_ns()) > 0) {
		plan_analysis(l);
		return;
	}
	l->wants_analysis = true;
	begin_wanted(l);
}

struct learner *learner_new(const struct learner_options *options)
{
	struct learner *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->options = *options;
	l->catch_up_timer = loop_timer_new(options->loop, on_catch_up_timer, l);
	l->analysis_timer = loop_timer_new(options->loop, on_analysis_timer, l);
	if (!l->catch_up_timer || !l->analysis_timer)
		return learner_free(l);
	learn_plan_begin(&l->plan, options->interval_minutes, clock_boot_ns());
	plan_analysis(l);
	learner_note_end(l);
	return l;
}

void learner_set(struct learner *l, unsigned interval_minutes, size_t min_jobs)
{
	l->options.min_jobs = min_jobs;
	l->plan.interval_ns = interval_minutes * MINUTE_NS;
	plan_analysis(l);
}

void learner_note_end(struct learner *l)
{
	catch_up_in(l, SOON_MS);
}

uint64_t learner_analyze_now(struct learner *l)
{
	uint64_t num = l->n_begun + 1;

	l->wants_analysis = true;
	begin_wanted(l);
	return num;
}

void learner_leave(struct learner *l)
{
	if (!l)
		return;
	l->is_leaving = true;
	loop_timer_stop(l->catch_up_timer);
	loop_timer_stop(l->analysis_timer);
}

/* The timers are the loop's. */
struct learner *learner_free(struct learner *l)
{
	free(l);
	return NULL;
}

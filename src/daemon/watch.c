#include "daemon/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "daemon/signal_process.h"

struct watch {
	watch_fn *fn;
	watch_word_fn *may_be_told; /* NULL: nobody knows */
	void *ctx;
	char boot_id[BOOT_ID_BYTES];
	struct watched **jobs;
	size_t n, cap;
	struct map by_id;	 /* attempt -> address of its job */
	struct watched *ended;	 /* until watch_drop_ended() */
	int64_t last_id;	 /* attempts up to it were looked at; -1: none yet */
	uint64_t looked_wall_ns; /* when it was last known what is in the database */
	bool has_version;
	uint64_t version; /* of the database, before the last look at it */
};

struct watch *watch_new(watch_fn *fn, void *ctx)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fn = fn;
	w->ctx = ctx;
	w->last_id = -1;
	proc_boot_id(w->boot_id);
	return w;
}

void watch_set_word_check(struct watch *w, watch_word_fn *fn)
{
	w->may_be_told = fn;
}

static void watched_free(struct watched **job)
{
	if (!*job)
		return;
	attempt_release(&(*job)->a);
	close_fd(&(*job)->runner_fd);
	free((*job)->job_id);
	free(*job);
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < w->n; i++)
		watched_free(&w->jobs[i]);
	watch_drop_ended(w);
	free(w->jobs);
	map_release(&w->by_id);
	free(w);
	return NULL;
}

void watch_drop_ended(struct watch *w)
{
	struct watched *next;

	for (struct watched *job = w->ended; job; job = next) {
		next = job->next;
		watched_free(&job);
	}
	w->ended = NULL;
}

struct watched **watch_jobs(struct watch *w, size_t *ret_n)
{
	*ret_n = w->n;
	return w->jobs;
}

struct watched *watch_find_of(struct watch *w, const char *job_id, uint64_t uid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i]->a.uid == uid && strcmp(w->jobs[i]->job_id, job_id) == 0)
			return w->jobs[i];
	return NULL;
}

struct watched *watch_find_attempt(struct watch *w, int64_t id)
{
	uint64_t found;

	return map_get(&w->by_id, (uint64_t)id, &found) ? (struct watched *)(uintptr_t)found : NULL;
}

struct watched *watch_find_runner(struct watch *w, const struct proc_key *runner)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i]->a.runner.pid == runner->pid &&
		    w->jobs[i]->a.runner.start_ticks == runner->start_ticks)
			return w->jobs[i];
	return NULL;
}

/* ---- what has changed ---- */

/* Whether a comes before b, as the store has them in order. */
static bool is_earlier(const struct sheet_record *a, const struct sheet_record *b)
{
	return a->num < b->num || (a->num == b->num && a->try_num < b->try_num);
}

/* *at is where the last one was found: both stand in the same order. */
static const struct sheet_record *find_sheet(const struct attempt *a,
					     const struct sheet_record *wanted, size_t *at)
{
	while (*at < a->n_sheets && is_earlier(&a->sheets[*at], wanted))
		(*at)++;
	if (*at == a->n_sheets || is_earlier(wanted, &a->sheets[*at]))
		return NULL;
	return &a->sheets[*at];
}

static void tell_sheet(const struct watch *w, const struct watched *job,
		       const struct sheet_record *old, const struct sheet_record *sheet)
{
	if (!old)
		w->fn(w->ctx, CHANGE_SHEET_STARTED, job, sheet);
	if (u64_known(sheet->ended_wall_ns) && (!old || !u64_known(old->ended_wall_ns)))
		w->fn(w->ctx, CHANGE_SHEET_ENDED, job, sheet);
}

/* The job has a new state; before is what it had. */
static void tell_changes(const struct watch *w, const struct watched *job,
			 const struct attempt *before, bool is_new)
{
	if (is_new)
		w->fn(w->ctx, CHANGE_JOB_STARTED, job, NULL);
	for (size_t i = 0, at = 0; i < job->a.n_sheets; i++)
		tell_sheet(w, job, find_sheet(before, &job->a.sheets[i], &at), &job->a.sheets[i]);
	if (!job->a.is_running)
		w->fn(w->ctx, CHANGE_JOB_ENDED, job, NULL);
}

/* ---- looking ---- */

/*
 * What a runner has left to say it said before it was gone. While that may lie somewhere the job
 * goes on; when it does not, somebody may have brought it here since we read.
 */
static int read_progress(const struct watch *w, struct store *store, struct watched *job,
			 struct attempt *ret, struct err *err)
{
	int r = store_read_progress(store, job->job_id, job->a.attempt_num, ret, err);

	job->is_awaited = false;
	if (r < 0 || !ret->is_lost || !w->may_be_told)
		return r;
	job->is_awaited = w->may_be_told(w->ctx, ret);
	if (job->is_awaited) {
		ret->is_lost = false;
		ret->is_running = true;
		return 0;
	}
	attempt_release(ret);
	return store_read_progress(store, job->job_id, job->a.attempt_num, ret, err);
}

static int refresh(struct watch *w, struct store *store, struct watched *job, bool is_new,
		   struct err *err)
{
	CLEANUP(attempt_release) struct attempt before;
	struct attempt now;
	int r = read_progress(w, store, job, &now, err);

	attempt_init(&before);
	if (r < 0)
		return r;
	before = job->a;
	job->a = now;
	job->a.job_id = job->job_id;
	tell_changes(w, job, &before, is_new);
	return 0;
}

static int grow(struct watch *w)
{
	size_t cap = w->cap ? w->cap * 2 : 16;
	struct watched **jobs;

	if (w->n < w->cap)
		return 0;
	jobs = reallocarray(w->jobs, cap, sizeof(struct watched *));
	if (!jobs)
		return -ENOMEM;
	w->jobs = jobs;
	w->cap = cap;
	return 0;
}

static struct watched *watched_new(const struct attempt *a)
{
	CLEANUP(watched_free) struct watched *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	attempt_init(&job->a);
	estimate_init(&job->estimate);
	job->runner_fd = -1;
	job->job_id = strdup(a->job_id);
	if (!job->job_id)
		return NULL;
	job->a.id = a->id;
	job->a.attempt_num = a->attempt_num;
	job->a.is_running = true;
	job->point = (struct series_point){ .rss_bytes = U64_UNKNOWN, .cpu_percent = F64_UNKNOWN };
	return TAKE_PTR(job);
}

static int add_job(struct watch *w, struct store *store, const struct attempt *a, struct err *err)
{
	struct watched *job = grow(w) == 0 ? watched_new(a) : NULL;
	int r;

	if (!job || map_put(&w->by_id, (uint64_t)a->id, (uintptr_t)job) < 0) {
		watched_free(&job);
		return err_set(err, -ENOMEM, "no memory left to watch the job %s", a->job_id);
	}
	w->jobs[w->n++] = job;
	job->was_seen = true;
	r = refresh(w, store, job, true, err);
	if (r < 0) {
		w->n--; /* the next look finds it new */
		map_remove(&w->by_id, (uint64_t)a->id);
		watched_free(&job);
		return r;
	}
	if (job->a.is_running)
		job->runner_fd = open_process(&job->a.runner);
	return 0;
}

/* Of this boot, and with a runner: those that nobody runs any more are only looked up at the end.
 */
static bool is_watchable(const struct watch *w, const struct attempt *a)
{
	return a->is_running && strcmp(a->boot_id, w->boot_id) == 0;
}

static int look_at(struct watch *w, struct store *store, const struct attempt *a, struct err *err)
{
	struct watched *job = watch_find_attempt(w, a->id);

	if (!is_watchable(w, a))
		return 0;
	if (!job)
		return add_job(w, store, a, err);
	job->was_seen = true;
	return refresh(w, store, job, false, err);
}

/* Somebody has removed it, or it makes no sense any more: nobody will know how it ended, and who
 * waits is told so. */
static int tell_removal(const struct watch *w, struct watched *job)
{
	job->a.is_running = false;
	job->a.is_lost = true;
	w->fn(w->ctx, CHANGE_JOB_ENDED, job, NULL);
	return 0;
}

/* A pidfd can be read when the process has ended. */
static bool is_alive(const struct watched *job)
{
	struct pollfd p = { .fd = job->runner_fd, .events = POLLIN };

	if (job->runner_fd >= 0)
		return poll(&p, 1, 0) == 0;
	return proc_is_alive("", job->a.runner.pid, job->a.runner.start_ticks);
}

/* One that makes no sense is no reason not to look at the others. */
static bool is_of_one(int r)
{
	return r == -EBADMSG;
}

/* It is not among the running any more: with its end, if it has one. */
static int look_for_end(struct watch *w, struct store *store, struct watched *job, struct err *err)
{
	int r = refresh(w, store, job, false, err);

	if (is_of_one(r) && is_alive(job))
		return 0;
	if (r == -ENOENT || is_of_one(r))
		r = tell_removal(w, job);
	if (r == 0 && !job->is_awaited)
		job->a.is_running = false;
	return r;
}

static int look_for_ends(struct watch *w, struct store *store, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (!w->jobs[i]->was_seen)
			r = look_for_end(w, store, w->jobs[i], err);
	return r;
}

/*
 * Those whose rows were added since the last look, and may be over by now; or since the running
 * ones were listed, and may be over before they are listed again.
 */
static int look_at_new(struct watch *w, struct store *store, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter all = { 0 }, since = { .after_id = w->last_id };
	int r = store_list_attempts(store, w->last_id ? &since : &all, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct attempt *a = &list.items[i];

		if (strcmp(a->boot_id, w->boot_id) == 0 && !watch_find_attempt(w, a->id))
			r = add_job(w, store, a, err);
		r = is_of_one(r) ? 0 : r;
	}
	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (list.items[i].id > w->last_id)
			w->last_id = list.items[i].id;
	return r;
}

/* Those that are over are told and forgotten; add_job() has told of the ones that were new. */
static void forget_ended(struct watch *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct watched *job = w->jobs[i];

		if (job->a.is_running) {
			w->jobs[kept++] = job;
			continue;
		}
		map_remove(&w->by_id, (uint64_t)job->a.id);
		job->next = w->ended;
		w->ended = job;
	}
	w->n = kept;
}

static int look_at_running(struct watch *w, struct store *store, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .running_only = true };
	int r = store_list_attempts(store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		r = look_at(w, store, &list.items[i], err);
		r = is_of_one(r) ? 0 : r;
	}
	return r;
}

static int look(struct watch *w, struct store *store, struct err *err)
{
	int r;

	for (size_t i = 0; i < w->n; i++)
		w->jobs[i]->was_seen = false;
	r = w->last_id < 0 ? store_last_attempt(store, &w->last_id, err) : 0;
	if (r == 0)
		r = look_at_running(w, store, err);
	if (r == 0)
		r = look_for_ends(w, store, err);
	if (r == 0)
		r = look_at_new(w, store, err);
	forget_ended(w);
	return r;
}

int watch_look(struct watch *w, struct store *store, struct err *err)
{
	uint64_t version, now = clock_wall_ns();
	/* First: what is written meanwhile is for the next look. */
	int r = store_read_version(store, &version, err);

	if (r == 0)
		r = look(w, store, err);
	w->has_version = r == 0;
	if (r < 0)
		return r;
	w->version = version;
	w->looked_wall_ns = now;
	return 0;
}

/* One that was killed writes nothing. What was attached has none, and may outlive its root. */
static bool all_runners_live(const struct watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (!w->jobs[i]->a.is_attached && !is_alive(w->jobs[i]))
			return false;
	return true;
}

int watch_glance(struct watch *w, struct store *store, struct err *err)
{
	uint64_t version, now = clock_wall_ns();

	if (!w->has_version || store_read_version(store, &version, NULL) < 0 ||
	    version != w->version || !all_runners_live(w))
		return watch_look(w, store, err);
	w->looked_wall_ns = now;
	return 0;
}

void watch_forget(struct watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		tell_removal(w, w->jobs[i]);
	forget_ended(w);
	w->last_id = -1;
	w->has_version = false;
}

/* ---- sheets ---- */

#define UNTOLD_NS UINT64_C(500000000)
#define CLOCK_TICK_NS UINT64_C(10000000) /* births are told by the kernel's ticks */

/* The last that had begun by then; NULL. */
static const struct sheet_record *find_begun(const struct attempt *a, uint64_t wall_ns)
{
	const struct sheet_record *found = NULL;

	for (size_t i = 0; i < a->n_sheets; i++)
		if (u64_known(a->sheets[i].started_wall_ns) &&
		    a->sheets[i].started_wall_ns <= wall_ns + CLOCK_TICK_NS)
			found = &a->sheets[i];
	return found;
}

int watch_sheet_at(const struct watch *w, const struct watched *job, uint64_t born_wall_ns)
{
	const struct attempt *a = &job->a;
	const struct sheet_record *last = a->n_sheets ? &a->sheets[a->n_sheets - 1] : NULL;
	bool is_final = last && last->num >= a->total_sheets;

	if (a->total_sheets <= 1 || !last)
		return last ? last->num : a->current_sheet;
	if (!u64_known(born_wall_ns) || (!is_final && born_wall_ns + UNTOLD_NS > w->looked_wall_ns))
		return SHEET_NONE;
	last = find_begun(a, born_wall_ns);
	return last ? last->num : SHEET_NONE;
}

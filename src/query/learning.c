#include "query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"

#define PAGE_ATTEMPTS 64
#define MAX_OLDER_EACH 5000 /* runs of a class with an older pattern… */
#define MAX_OLDER 40000	    /* …and about so many of all such classes */

/* ---- runs ---- */

static int on_snapshot(void *ctx, const struct snapshot *snap)
{
	gather_add_snapshot(ctx, snap);
	return 0;
}

int learning_gather(struct store *store, const struct attempt *a, struct run_list *list,
		    struct err *err)
{
	struct gather g = { .attempt = a };
	CLEANUP(buf_release) struct buf types = BUF_INIT;
	struct snapshot_filter filter = {
		.job_id = a->job_id,
		.since_wall_ns = u64_known(a->started_wall_ns) ? a->started_wall_ns : 0,
		.until_wall_ns = a->ended_wall_ns,
	};
	bool was_watched =
		!attempt_find_note(a, "anomalies"); /* else, that there are none is unknown */
	int r = store_read_snapshots(store, &filter, on_snapshot, &g, err);

	if (r == 0 && was_watched)
		r = store_read_anomaly_types(store, a->id, 0, &types, err);
	if (r == 0 && gather_finish(&g, was_watched ? types.data : NULL, list) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	return r;
}

static int note_attempt(struct store *store, const struct attempt *a, struct err *err)
{
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	CLEANUP(free_ptr) struct run_estimate *estimates = NULL;
	enum outcome measured;
	int r = learning_gather(store, a, &list, err);

	if (r == 0)
		r = store_read_measured_outcome(store, a->id, &measured, err);
	if (r < 0)
		return r;
	estimates = calloc(list.n, sizeof(*estimates));
	if (!estimates)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < list.n; i++) {
		struct run_record *run = &list.items[i];
		/* The estimate that its user would have had: runs that ended later do not count. */
		const struct run_kind past = { .class = &run->class,
					       .uid = learning_scope(a->uid),
					       .until_wall_ns = run->started_wall_ns,
					       .limit = ESTIMATE_MAX_RUNS };

		if (run->is_whole)
			run->measured = measured; /* the user may have set another outcome since */
		r = learning_estimate_kind(store, &past, &estimates[i].estimate, err);
		if (r == 0)
			estimates[i].score = estimate_judge(&estimates[i].estimate, run);
	}
	return r < 0 ? r : store_put_runs(store, list.items, estimates, list.n, err);
}

/*
 * A damaged attempt is stored as an empty run: the attempts behind it do not wait for it for ever.
 */
static int note_damaged(struct store *store, const struct unnoted *which, struct err *err)
{
	struct run_record nothing;

	log_warning("attempt %d of job %s is not learned from: %s", which->attempt_num,
		    which->job_id, err ? err->text : "it cannot be read");
	run_record_init(&nothing);
	nothing.attempt = which->attempt;
	class_of_command(NULL, &nothing.class);
	return store_put_runs(store, &nothing, NULL, 1, err);
}

static int note_one(struct store *store, const struct unnoted *which, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_attempt(store, which->job_id, which->attempt_num, &a, err);
	if (r == -ENOENT)
		return 0; /* removed since it was listed */
	if (r == 0)
		r = note_attempt(store, &a, err);
	return r == -EBADMSG ? note_damaged(store, which, err) : r;
}

int learning_catch_up(struct store *store, size_t max, size_t *ret_n, struct err *err)
{
	CLEANUP(free_ptr) struct unnoted *page = calloc(PAGE_ATTEMPTS, sizeof(*page));
	size_t n_page = PAGE_ATTEMPTS, n = 0;
	int r = page ? 0 : err_set(err, -ENOMEM, "out of memory");

	while (r == 0 && n_page == PAGE_ATTEMPTS && (max == 0 || n < max)) {
		r = store_list_unnoted(store, page, PAGE_ATTEMPTS, &n_page, err);
		for (size_t i = 0; r == 0 && i < n_page && (max == 0 || n < max); i++, n++)
			r = note_one(store, &page[i], err);
	}
	if (ret_n)
		*ret_n = n;
	return r;
}

/* ---- an analysis ---- */

void learning_init(struct learning *l, size_t min_jobs)
{
	*l = (struct learning){
		.runs = { .arena = ARENA_INIT },
		.patterns = { .arena = ARENA_INIT },
		.before = MAP_INIT,
		.analysis = { .arena = ARENA_INIT },
		.compat = { .arena = ARENA_INIT },
		.min_jobs = min_jobs,
	};
}

void learning_release(struct learning *l)
{
	run_list_release(&l->runs);
	pattern_list_release(&l->patterns);
	map_release(&l->before);
	analysis_release(&l->analysis);
	compat_release(&l->compat);
}

/* A class with patterns that are older than the look-back, and the oldest of them. */
struct older {
	uint64_t class_key, frozen_wall_ns;
};

static int by_class(const void *a, const void *b)
{
	const struct older *x = a, *y = b;

	return COMPARE(x->class_key, y->class_key) ?: COMPARE(x->frozen_wall_ns, y->frozen_wall_ns);
}

/* ret has room for all patterns; returns how many classes there are. */
static size_t list_older(const struct pattern_list *patterns, uint64_t since_wall_ns,
			 struct older *ret)
{
	size_t n = 0, n_classes = 0;

	for (size_t i = 0; i < patterns->n; i++) {
		const struct pattern *p = &patterns->items[i];

		if (p->grade && !u64_known(p->retired_wall_ns) &&
		    p->frozen_wall_ns < since_wall_ns + UNIT_RETRY_NS)
			ret[n++] = (struct older){ p->class_key, p->frozen_wall_ns };
	}
	qsort(ret, n, sizeof(*ret), by_class);
	for (size_t i = 0; i < n; i++)
		if (n_classes == 0 || ret[n_classes - 1].class_key != ret[i].class_key)
			ret[n_classes++] = ret[i];
	return n_classes;
}

/*
 * A pattern is judged by all runs of its class since it was frozen, however long ago that was; the
 * limits keep them within memory. The hour before shows which of them are retries of runs that it
 * was found on.
 */
static int read_older(struct store *store, uint64_t since_wall_ns, struct learning *l,
		      struct err *err)
{
	CLEANUP(free_ptr) struct older *older = calloc(l->patterns.n + 1, sizeof(*older));
	size_t n = older ? list_older(&l->patterns, since_wall_ns, older) : 0;
	int r = older ? 0 : err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; r == 0 && i < n && l->runs.n < MAX_OLDER; i++) {
		uint64_t frozen = older[i].frozen_wall_ns;
		const struct run_span span = {
			.after_wall_ns = frozen > UNIT_RETRY_NS ? frozen - UNIT_RETRY_NS : 0,
			.until_wall_ns = since_wall_ns,
			.command = &older[i].class_key,
			.limit = MAX_OLDER_EACH,
		};

		r = store_list_runs(store, &span, &l->runs, err);
	}
	l->n_older = l->runs.n;
	return r;
}

static uint64_t hash_text(uint64_t h, const char *text)
{
	return hash_bytes(h, text, strlen(text) + 1);
}

static uint64_t identity_of(const struct pattern *p)
{
	return hash_text(hash_text(HASH_INIT, p->type), p->name);
}

static uint64_t state_of(const struct pattern *p)
{
	return hash_text(HASH_INIT, belief_state(p));
}

int learning_read(struct store *store, uint64_t since_wall_ns, struct learning *l, struct err *err)
{
	const struct run_span span = { .after_wall_ns = since_wall_ns,
				       .until_wall_ns = U64_UNKNOWN,
				       .limit = LEARNING_MAX_RUNS };
	int r = store_list_patterns(store, &l->patterns, err);

	for (size_t i = 0; r == 0 && i < l->patterns.n; i++) {
		const struct pattern *p = &l->patterns.items[i];

		if (map_put(&l->before, identity_of(p), state_of(p)) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	}
	if (r == 0)
		r = read_older(store, since_wall_ns, l, err);
	if (r == 0)
		r = store_list_runs(store, &span, &l->runs, err);
	l->now_wall_ns = clock_wall_ns();
	return r;
}

/*
 * Whether it is the last run of its job, for the old rules: runs are given by the time of their
 * end, the last first. 1, 0, -ENOMEM.
 */
static int is_last_of_job(const struct run_list *runs, size_t i, struct map *seen)
{
	const char *id = runs->items[i].job_id;
	uint64_t key = hash_bytes(HASH_INIT, id, strlen(id)), place;

	for (; map_get(seen, key, &place); key++)
		if (strcmp(runs->items[place].job_id, id) == 0)
			return 0;
	return map_put(seen, key, i) < 0 ? -ENOMEM : 1;
}

static int fill_compat(const struct run_record *run, struct arena *arena,
		       struct compat_profile *ret)
{
	struct syscall_share *shares;
	int r = run_read_shares(run->syscalls, arena, &shares, &ret->n_hotspots);

	ret->hotspots = shares;
	ret->peak_rss_mb = f64_known(run->max_process_rss_mb) ? run->max_process_rss_mb : 0;
	ret->process_spawn_count = f64_known(run->spawn_count) ? run->spawn_count : 0;
	ret->has_failed = run_has_failed(run);
	return r;
}

static int analyze_compat(struct learning *l)
{
	CLEANUP(free_ptr)
	struct compat_profile *profiles = calloc(l->runs.n ? l->runs.n : 1, sizeof(*profiles));
	CLEANUP(map_release) struct map seen = MAP_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	size_t first = l->runs.n;
	int r = profiles ? 0 : -ENOMEM;

	for (size_t i = l->runs.n; r == 0 && i-- > l->n_older;) { /* filled from behind */
		const struct run_record *run = &l->runs.items[i];

		if (!run->is_whole || !run_is_decided(run))
			continue;
		r = is_last_of_job(&l->runs, i, &seen);
		if (r > 0)
			r = fill_compat(run, &arena, &profiles[--first]);
	}
	return r < 0 ? r
		     : compat_analyze(profiles + first, l->runs.n - first, l->min_jobs, &l->compat);
}

void learning_analyze(void *ctx)
{
	struct learning *l = ctx;

	l->r = analysis_run(l->runs.items + l->n_older, l->runs.n - l->n_older, LEARNING_SEED,
			    &l->analysis);
	if (l->r == 0)
		l->r = beliefs_update(&l->patterns, &l->analysis, l->runs.items, l->runs.n,
				      l->now_wall_ns);
	if (l->r == 0)
		l->r = analyze_compat(l);
	if (l->r == 0)
		l->r = beliefs_note_compat(&l->patterns, &l->compat, l->now_wall_ns);
}

int learning_write(struct store *store, const struct learning *l, struct err *err)
{
	if (l->r < 0)
		return err_set(err, l->r, "cannot analyse the runs: %s", strerror(-l->r));
	return store_put_patterns(store, &l->patterns, err);
}

void learning_write_json(struct json *j, const struct learning *l)
{
	json_begin_object(j);
	json_key(j, "compat");
	compat_write_json(j, &l->compat);
	json_key(j, "findings");
	analysis_write_findings(j, &l->analysis);
	json_key_u64(j, "runs", l->analysis.n_runs);
	json_key_u64(j, "retries_left_out", l->analysis.n_retries);
	json_key_u64(j, "undecided_left_out", l->analysis.n_undecided);
	json_key_u64(j, "classes", l->analysis.n_classes);
	json_key_u64(j, "classes_tested", l->analysis.n_tested);
	json_key_u64(j, "seed", l->analysis.seed);
	json_end_object(j);
}

/* A class is of one user: any of its runs has the owner. The newest are still in the store. */
static uint64_t find_owner(const struct pattern *p, const struct learning *l, struct store *store)
{
	CLEANUP(attempt_release) struct attempt a;
	size_t i = p->grade ? l->runs.n : 0;

	attempt_init(&a);
	while (i > 0 && l->runs.items[i - 1].class.command != p->class_key)
		i--;
	if (i == 0 || store_read_progress(store, l->runs.items[i - 1].job_id,
					  l->runs.items[i - 1].attempt_num, &a, NULL) < 0)
		return U64_UNKNOWN;
	return a.uid;
}

int learning_list_changes(const struct learning *l, struct store *store,
			  struct learning_change **ret, size_t *ret_n)
{
	struct learning_change *changes = calloc(l->patterns.n + 1, sizeof(*changes));
	size_t n = 0;

	if (!changes)
		return -ENOMEM;
	for (size_t i = 0; i < l->patterns.n; i++) {
		const struct pattern *p = &l->patterns.items[i];
		uint64_t before;

		if (!map_get(&l->before, identity_of(p), &before) || before != state_of(p))
			changes[n++] = (struct learning_change){ p, find_owner(p, l, store) };
	}
	*ret = changes;
	*ret_n = n;
	return 0;
}

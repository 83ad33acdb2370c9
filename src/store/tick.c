#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/fold_calls.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/tables.h"

/* More than a host has at once; beyond it the cache starts anew instead of growing for ever. */
#define SEEN_MAX 65536

/* ---- which row a process has ---- */

static void forget_processes(struct store *store)
{
	map_clear(&store->seen.row_ids);
	map_clear(&store->seen.fingerprints);
}

/*
 * Pids are below 2^22 (the kernel's PID_MAX_LIMIT), and 2^42 clock ticks are
 * centuries, so both fit into one number; false for a key that does not.
 */
static bool process_cache_key(struct proc_key key, uint64_t *ret)
{
	const uint64_t limit = UINT64_C(1) << 42;
	uint64_t start = u64_known(key.start_ticks) ? key.start_ticks : limit - 1;

	if (key.pid < 0 || key.pid >= 1 << 22 || start >= limit)
		return false;
	*ret = (uint64_t)key.pid << 42 | start;
	return true;
}

/* Eight bytes at a time: this is done for every sample. */
static uint64_t hash_string(uint64_t h, const char *s)
{
	size_t len = s ? strlen(s) + 1 : 0;

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = 0;

		memcpy(&word, s + at, len - at < 8 ? len - at : 8);
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h * 31 + len;
}

/* Of what can change about a process in its row: exec gives it another command. */
static uint64_t process_fingerprint(int64_t attempt_id, const struct proc_sample *p)
{
	const int64_t belongs[] = { attempt_id, p->sheet_num, p->rank };
	uint64_t h = hash_bytes(HASH_INIT, belongs, sizeof(belongs));

	h = hash_string(h, p->comm);
	h = hash_string(h, p->command);
	return hash_string(h, p->cgroup);
}

static int put_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SEE_PROCESS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_columns(&q, &sample_process_columns, p);
	query_bind_columns(&q, &sample_shared_columns, p);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	*ret_id = query_read_i64(&q);
	return query_run(&q, err);
}

/* True and the row's id if the row is there and says what p says. */
static bool find_seen(const struct store *store, uint64_t key, const struct proc_sample *p,
		      uint64_t fingerprint, int64_t *ret_id)
{
	uint64_t id, known;

	if (!map_get(&store->seen.row_ids, key, &id) ||
	    !map_get(&store->seen.fingerprints, key, &known))
		return false;
	/* The command line of a zombie is gone; the row keeps the one it lived with. */
	if (known != fingerprint && p->state != 'Z')
		return false;
	*ret_id = (int64_t)id;
	return true;
}

/* The row of this process, made or brought up to date if need be. */
static int see_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		       int64_t *ret_id, struct err *err)
{
	uint64_t fingerprint = process_fingerprint(attempt_id, p);
	uint64_t key = 0;
	bool is_cacheable = process_cache_key(p->key, &key);
	int r;

	if (store->seen.row_ids.len >= SEEN_MAX)
		forget_processes(store);
	if (is_cacheable && find_seen(store, key, p, fingerprint, ret_id))
		return 0;
	r = put_process(store, attempt_id, p, ret_id, err);
	if (r < 0 || !is_cacheable)
		return r;
	if (map_put(&store->seen.row_ids, key, (uint64_t)*ret_id) < 0 ||
	    map_put(&store->seen.fingerprints, key, fingerprint) < 0)
		return err_set(err, -ENOMEM, "no memory left to record a tick");
	return 0;
}

/* ---- the tick ---- */

static int list_process(struct tick_writing *w, size_t n, int64_t id, size_t index)
{
	if (n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct listed_process *listed = reallocarray(w->listed, cap, sizeof(*listed));

		if (!listed)
			return -ENOMEM;
		w->listed = listed;
		w->cap = cap;
	}
	w->listed[n] = (struct listed_process){ id, index };
	return 0;
}

/* By job, for many of them. */
static const struct attempt *find_attempt(const struct tick_record *record, const char *job_id)
{
	if (!job_id)
		return NULL;
	for (size_t i = 0; i < record->n_attempts; i++)
		if (record->attempts[i]->job_id == job_id)
			return record->attempts[i];
	for (size_t i = 0; record->owner == TICK_BY_NAME && i < record->n_attempts; i++)
		if (strcmp(record->attempts[i]->job_id, job_id) == 0)
			return record->attempts[i];
	return NULL;
}

static const struct attempt *find_owner(const struct tick_record *record,
					const struct proc_sample *p)
{
	if (record->owner != TICK_BY_ID)
		return find_attempt(record, p->job_id);
	for (size_t i = 0; p->job_id && i < record->n_attempts; i++)
		if (record->attempts[i]->id == p->attempt_id)
			return record->attempts[i];
	return NULL;
}

/* Ids go up for ever, and have come to where a chunk's id has no room for more of them. */
static int refuse_full(const struct store *store, const char *what, struct err *err)
{
	return err_set(err, -EOVERFLOW,
		       "the database %s has had as many %s as one can have: move it away, or set "
		       "PROCTOR_HOME to another folder",
		       store->path, what);
}

/* The rows of the attempts' processes, as they stand in the snapshot. */
static int list_processes(struct store *store, const struct tick_record *record, size_t *ret_n,
			  struct err *err)
{
	const struct snapshot *snap = record->snap;
	size_t n = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		const struct attempt *a = find_owner(record, p);
		int64_t id = 0;
		int r;

		if (!a)
			continue;
		r = see_process(store, a->id, p, &id, err);
		if (r == 0 && id > CHUNK_PROCESS_MAX)
			r = refuse_full(store, "processes", err);
		if (r < 0)
			return r;
		if (list_process(&store->writing, n++, id, i) < 0)
			return store_no_memory(store, err);
	}
	*ret_n = n;
	return 0;
}

static int compare_listed(const void *a, const void *b)
{
	const struct listed_process *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static bool is_ascending(const struct listed_process *listed, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (listed[i].id <= listed[i - 1].id)
			return false;
	return true;
}

/* By process. One that was listed twice is not worth losing the tick: the last counts. */
static size_t sort_listed(struct listed_process *listed, size_t n)
{
	size_t kept = 0;

	if (is_ascending(listed, n))
		return n;
	qsort(listed, n, sizeof(*listed), compare_listed);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || listed[i + 1].id != listed[i].id)
			listed[kept++] = listed[i];
	return kept;
}

static int fill_head(struct tick *t, const struct snapshot *s)
{
	host_to_words(s, t->head);
	t->head[HEAD_LEVEL] = tick_add_string(t, s->pressure_level);
	t->head[HEAD_HAS_GPUS] = s->gpus ? 1 : U64_UNKNOWN;
	for (size_t i = 0; i < s->n_gpus; i++) {
		uint64_t *words = tick_add(t, LIST_GPUS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		gpu_to_words(&s->gpus[i], words);
	}
	for (size_t i = 0; i < s->n_progress; i++) {
		uint64_t *words = tick_add(t, LIST_PROGRESS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		progress_to_words(&s->progress[i], words);
		words[PROGRESS_JOB] = tick_add_string(t, s->progress[i].job_id);
		words[PROGRESS_STATUS] = tick_add_string(t, s->progress[i].status);
	}
	return 0;
}

/* Where somebody looked and there was none, a row without a path says so. */
static int fill_cgroups(struct tick *t, const struct snapshot *s)
{
	size_t n = s->cgroups && s->n_cgroups == 0 ? 1 : s->n_cgroups;

	for (size_t i = 0; i < n; i++) {
		uint64_t *words = tick_add(t, LIST_CGROUPS, (int64_t)i);

		if (!words)
			return -ENOMEM;
		memset(words, 0xff, CGROUP_WORDS * sizeof(*words)); /* all unknown */
		if (i == s->n_cgroups)
			continue;
		words[CGROUP_PATH] = tick_add_string(t, s->cgroups[i].path);
		cgroup_to_words(&s->cgroups[i], words);
	}
	return 0;
}

/* The attempt behind this one by its row; NULL: it is the last. */
static const struct attempt *next_attempt(const struct tick_record *record, int64_t id,
					  size_t *ret_index)
{
	const struct attempt *next = NULL;

	for (size_t i = 0; i < record->n_attempts; i++) {
		const struct attempt *a = record->attempts[i];

		if (a->id <= id || (next && a->id >= next->id))
			continue;
		next = a;
		*ret_index = i;
	}
	return next;
}

/* Also of attempts without a point: that they have rows tells that they were watched. */
static int fill_points(struct tick *t, const struct tick_record *record)
{
	const struct attempt *a;
	int64_t id = 0;
	size_t i = 0;

	while ((a = next_attempt(record, id, &i))) {
		uint64_t *words = tick_add(t, LIST_POINTS, a->id);

		if (!words)
			return -ENOMEM;
		if (record->points)
			point_to_words(&record->points[i], words);
		else
			memset(words, 0xff, POINT_WORDS * sizeof(*words)); /* all unknown */
		id = a->id;
	}
	return 0;
}

static int fill_samples(struct tick *t, const struct snapshot *s,
			const struct listed_process *listed, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t *words = tick_add(t, LIST_SAMPLES, listed[i].id);

		if (!words)
			return -ENOMEM;
		sample_to_words(&s->processes[listed[i].index], s->boot_ns, words);
	}
	return 0;
}

static int fill_calls(struct tick *t, struct call_names *names, const struct snapshot *s,
		      const struct listed_process *listed, size_t n)
{
	int r = 0;

	call_names_begin_tick(names);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = tick_add_calls(t, names, listed[i].id, &s->processes[listed[i].index]);
	return r;
}

static bool is_segment_full(const struct tick_writing *w)
{
	return w->n_segment >= FOLD_TICKS || w->segment_bytes >= FOLD_BYTES;
}

/* From the tick that this one would differ from. */
static bool has_gap(const struct tick_writing *w, uint64_t wall_ns)
{
	return fold_has_gap((int64_t)w->before.head[HOST_WALL_NS], (int64_t)wall_ns);
}

/* Retention folds what a recorder has left, also that of one who was only asleep. */
static int check_before(struct store *store, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = store->writing.before_id ? query_open(store, STATEMENT_HAS_TICK, &q, err) : 0;

	if (r < 0 || !store->writing.before_id)
		return r;
	query_bind_i64(&q, store->writing.before_id);
	query_bind_i64(&q, store->writing.recorder);
	r = query_step(&q, err);
	if (r == 0)
		store->writing.before_id = 0;
	return r < 0 ? r : 0;
}

/* The tick with n of the listed processes, into store->writing.bytes. */
static int encode_tick(struct store *store, const struct tick_record *record, size_t n,
		       struct err *err)
{
	struct tick_writing *w = &store->writing;

	if (w->before_id && (is_segment_full(w) || has_gap(w, record->snap->wall_ns)))
		w->before_id = 0;
	tick_reset(&w->now);
	buf_reset(&w->bytes);
	if (fill_head(&w->now, record->snap) < 0 || fill_points(&w->now, record) < 0 ||
	    fill_samples(&w->now, record->snap, w->listed, n) < 0 ||
	    fill_calls(&w->now, &w->call_names, record->snap, w->listed, n) < 0 ||
	    fill_cgroups(&w->now, record->snap) < 0)
		return store_no_memory(store, err);
	tick_write(&w->bytes, &w->now, w->before_id ? &w->before : NULL, w->before_id);
	return buf_error(&w->bytes) < 0 ? store_no_memory(store, err) : 0;
}

static int add_tick(struct store *store, uint64_t wall_ns, int64_t *ret_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ADD_TICK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, store->writing.recorder);
	if (u64_known(wall_ns))
		query_bind_i64(&q, (int64_t)wall_ns);
	else
		query_bind_text(&q, NULL);
	query_bind_blob(&q, store->writing.bytes.data, store->writing.bytes.len);
	r = query_run(&q, err);
	*ret_id = sqlite3_last_insert_rowid(store->db);
	return r == 0 && *ret_id > TICK_ID_MAX ? refuse_full(store, "ticks", err) : r;
}

/* Each to the attempt of its job. */
static int add_events(struct store *store, const struct tick_record *record, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < record->n_events; i++) {
		const struct attempt *a = find_attempt(record, record->events[i].job_id);

		if (!a && record->n_attempts == 1)
			a = record->attempts[0];
		if (a)
			r = rows_write(store, STATEMENT_ADD_EVENT, a->id, &event_columns,
				       &record->events[i], 1, sizeof(*record->events), err);
	}
	return r;
}

static int write_tick(struct store *store, const struct tick_record *record, int64_t *ret_id,
		      struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	size_t n = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = list_processes(store, record, &n, err);
	if (r == 0)
		r = check_before(store, err);
	if (r == 0)
		r = encode_tick(store, record, sort_listed(store->writing.listed, n), err);
	if (r == 0)
		r = add_tick(store, record->snap->wall_ns, ret_id, err);
	if (r == 0)
		r = add_events(store, record, err);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* ---- what is written so far ---- */

static void begin_recorder(struct store *store, int64_t recorder)
{
	struct tick_writing *w = &store->writing;

	if (w->recorder == recorder)
		return;
	left_fold_free(&store->own);
	w->recorder = recorder;
	w->before_id = 0;
	w->n_pending = -1;
	w->n_fold = FOLD_TICKS;
	forget_processes(store);
}

/* The next tick may differ from this one. */
static void remember_tick(struct tick_writing *w, int64_t id)
{
	struct tick written = w->now;

	w->now = w->before;
	w->before = written;
	if (w->before_id == 0) {
		w->n_segment = 0;
		w->segment_bytes = 0;
	}
	w->before_id = id;
	w->n_segment++;
	w->segment_bytes += w->bytes.len;
}

static int count_pending(struct store *store, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_COUNT_TICKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, store->writing.recorder);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	store->writing.n_pending = query_read_i64(&q);
	return 0;
}

static bool is_fold_due(struct store *store)
{
	struct tick_writing *w = &store->writing;

	if (w->n_pending >= 0)
		w->n_pending++;
	else if (count_pending(store, NULL) < 0)
		return false;
	return store->own || w->n_pending >= w->n_fold || w->segment_bytes >= FOLD_BYTES;
}

static uint64_t fold_until(const struct tick_writing *w)
{
	uint64_t more_ns = FOLD_SLICE_NS * w->before.lists[LIST_SAMPLES].n / FOLD_SLICE_PROCESSES;

	if (w->slice_ns == 0)
		more_ns = 0;
	return clock_boot_ns() + w->slice_ns +
	       (more_ns < FOLD_SLICE_MORE_NS ? more_ns : FOLD_SLICE_MORE_NS);
}

/* The tick is safe by now, so a fold that fails is no failure: it is tried again later. */
static void fold_if_due(struct store *store)
{
	struct tick_writing *w = &store->writing;
	int r;

	if (!is_fold_due(store))
		return;
	r = fold_own(store, w->recorder, fold_until(w), NULL);
	if (r < 0 && !store->own)
		w->n_fold = w->n_pending + FOLD_TICKS / 4;
	if (r != 0)
		return;
	w->n_fold = FOLD_TICKS;
	w->n_pending = -1;
}

int store_write_tick(struct store *store, int64_t recorder, const struct tick_record *record,
		     struct err *err)
{
	int64_t id = 0;
	int r;

	begin_recorder(store, recorder);
	r = write_tick(store, record, &id, err);
	if (r < 0) {
		forget_processes(store); /* rows that it added are gone again */
		store->writing.before_id = 0;
		return r;
	}
	remember_tick(&store->writing, id);
	if (store_check_disk(store, NULL) < 0) /* what comes next does not hang on what may go */
		store->writing.before_id = 0;
	fold_if_due(store);
	return 0;
}

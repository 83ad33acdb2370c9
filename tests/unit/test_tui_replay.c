/*
 * What was recorded, replayed into a scene: ticks and what is kept as minutes, in order, step by
 * step, and back.
 */
#include "vtab_fixture.h"
#include "retention_fixture.h"

#include "tui/feed.h"
#include "store_writer.h"

#define N_OLD 300 /* ticks a second apart, of which minutes are made */
#define N_NEW 20

static const struct retention_policy policy = RETENTION_POLICY_DEFAULT;

static void make_ticks(struct store *store)
{
	struct attempt a = must_begin_at(store, "old", NOW - 30 * HOUR);

	for (unsigned i = 0; i < N_OLD; i++)
		must_tick_at(store, &a, NOW - 30 * HOUR + i * SECOND_NS, 3);
	must_finish_at(store, &a, NOW - 29 * HOUR);
	a = must_begin_at(store, "new", NOW - HOUR);
	for (unsigned i = 0; i < N_NEW; i++)
		must_tick_at(store, &a, NOW - HOUR + i * SECOND_NS, 3);
	must_retain_at(store, &policy, NOW);
}

static void step(struct feed *feed, struct scene *s, int steps)
{
	const struct wish wish = { .kind = WISH_STEP, .steps = steps };
	struct err err = ERR_INIT;

	must(feed->ops->grant(feed->ctx, s, &wish, &err), &err);
}

static void test_old_and_new(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct tui_options options = { .store = store, .since_wall_ns = NOW - 48 * HOUR };
	struct scene *s = calloc(1, sizeof(*s));
	struct err err = ERR_INIT;
	struct feed feed = { 0 };
	uint64_t last_ns = 0;
	size_t n_old = 0, n_new = 0;

	assert_non_null(s);
	make_ticks(store);
	scene_init(s);
	s->source = SOURCE_REPLAY;
	s->is_paused = true;
	must(feed_open_stored(&options, &feed, &err), &err);
	while (!s->replay.is_over) {
		step(&feed, s, 1);
		assert_true(s->has_snap && s->snap.wall_ns > last_ns);
		assert_int_equal(s->snap.n_processes, 3);
		last_ns = s->snap.wall_ns;
		n_old += strcmp(s->snap.processes[0].job_id, "old") == 0;
		n_new += strcmp(s->snap.processes[0].job_id, "new") == 0;
	}
	assert_in_range(n_old, N_OLD / 60, N_OLD / 60 + 1); /* a minute each */
	assert_int_equal(n_new, N_NEW);
	step(&feed, s, -1);
	assert_int_equal(s->snap.wall_ns, last_ns - SECOND_NS);
	feed.ops->close(feed.ctx);
	scene_release(s);
	free(s);
}

/* ---- several recorders ---- */

struct player {
	struct store *store;
	const char *job_id;
	uint64_t since_wall_ns; /* 0: an hour ago */
	struct tui_options options;
	struct scene *scene;
	struct feed feed;
};

static void open_player(struct player *p)
{
	struct err err = ERR_INIT;

	p->options = (struct tui_options){ .store = p->store,
					   .job_id = p->job_id,
					   .since_wall_ns = p->since_wall_ns ? p->since_wall_ns
									     : NOW - HOUR };
	p->scene = calloc(1, sizeof(*p->scene));
	assert_non_null(p->scene);
	scene_init(p->scene);
	p->scene->source = SOURCE_REPLAY;
	p->scene->is_paused = true;
	must(feed_open_stored(&p->options, &p->feed, &err), &err);
}

static void close_player(struct player *p)
{
	p->feed.ops->close(p->feed.ctx);
	scene_release(p->scene);
	free(p->scene);
}

static void fill_own(struct snapshot *snap, const char *job_id, uint64_t wall_ns, pid_t pid)
{
	fill_snapshot(snap, job_id, 1, 0);
	snap->wall_ns = wall_ns;
	snap->boot_ns = wall_ns - DAY;
	snap->processes[0].key.pid = pid;
}

/* As a run without a daemon does: of its own job, with pids that are its own. */
static void write_own(struct store *store, const struct attempt *a, uint64_t wall_ns, pid_t pid)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct job_progress progress = { a->job_id, a->id, 1, 0, 1, "running", 0, 0 };
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_own(&snap, a->job_id, wall_ns, pid);
	snap.running_jobs = snap.active_sheets = 1;
	snap.progress = &progress;
	snap.n_progress = 1;
	must(write_tick(store, a, &snap, NULL, NULL, 0, &err), &err);
	snap.progress = NULL;
}

static bool has_process(const struct scene *s, pid_t pid)
{
	for (size_t i = 0; i < s->snap.n_processes; i++)
		if (s->snap.processes[i].key.pid == pid)
			return true;
	return false;
}

/* Two at once, each a moment after the other: both are there all the time, until one is over. */
static void test_two_recorders(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "a", NOW - MINUTE);
	struct attempt b = must_begin_at(store, "b", NOW - MINUTE);
	struct player p = { .store = store };

	for (unsigned i = 0; i < 10; i++) {
		write_own(store, &a, NOW - MINUTE + i * SECOND_NS, 100);
		if (i < 5)
			write_own(store, &b, NOW - MINUTE + i * SECOND_NS + SECOND_NS / 3, 200);
	}
	must_finish_at(store, &b, NOW - MINUTE + 4 * SECOND_NS + SECOND_NS / 2);
	open_player(&p);
	for (unsigned i = 0; i < 5; i++) {
		step(&p.feed, p.scene, 1);
		assert_true(has_process(p.scene, 100) && has_process(p.scene, 200));
		assert_int_equal(p.scene->snap.n_processes, 2);
		assert_int_equal(p.scene->snap.running_jobs, 2);
		assert_int_equal(p.scene->snap.active_sheets, 2);
		assert_int_equal(p.scene->snap.n_progress, 2);
	}
	step(&p.feed, p.scene, 1);
	assert_false(has_process(p.scene, 200));
	assert_int_equal(p.scene->snap.running_jobs, 1);
	step(&p.feed, p.scene, -1);
	assert_true(has_process(p.scene, 100) && has_process(p.scene, 200));
	for (unsigned i = 0; i < 5; i++)
		step(&p.feed, p.scene, 1);
	assert_true(p.scene->replay.is_over); /* ten moments, and not fifteen */
	assert_int_equal(p.feed.ops->pump(p.feed.ctx, p.scene, NULL), 0);
	assert_int_equal(p.scene->replay.to_ns - p.scene->replay.from_ns,
			 9 * SECOND_NS - SECOND_NS / 3);
	close_player(&p);
}

/* Its rate is that of its own recorder's looks, also where another looks more often. */
static void test_rates(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "a", NOW - MINUTE);
	struct attempt b = must_begin_at(store, "b", NOW - MINUTE);
	const struct proc_key key = { 200, 5000 };
	struct player p = { .store = store };

	for (unsigned i = 0; i < 12; i++) {
		write_own(store, &a, NOW - MINUTE + i * SECOND_NS, 100);
		if (i % 4 == 0)
			write_own(store, &b, NOW - MINUTE + i * SECOND_NS + 1000, 200);
	}
	open_player(&p);
	while (!p.scene->replay.is_over)
		step(&p.feed, p.scene, 1);
	assert_int_equal(tracks_find(&p.scene->tracks, track_key_of_process(&key))->n, 3);
	close_player(&p);
}

/* ---- attempts of one job at once ---- */

static const struct node *find_attempt(const struct scene *s, int64_t id)
{
	for (size_t i = 0; i < s->outline.n; i++)
		if (s->outline.nodes[i].kind == NODE_JOB && s->outline.nodes[i].attempt_id == id)
			return &s->outline.nodes[i];
	return NULL;
}

static void assert_attempt(const struct scene *s, const struct attempt *a, int n_sheets)
{
	const struct node *job = find_attempt(s, a->id);

	assert_true(job && job->progress);
	assert_int_equal(job->n_processes, 1);
	assert_int_equal(job->attempt_num, a->attempt_num);
	assert_int_equal(job->progress->total_sheets, n_sheets);
}

/* Each has recorded its own, and is over by itself. */
static void test_twins_of_two_runners(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	struct attempt a = must_begin_at(store, "twin", NOW - MINUTE);
	struct attempt b = must_begin_at(store, "twin", NOW - MINUTE);
	struct player p = { .store = store };

	for (unsigned i = 0; i < 8; i++) {
		uint64_t wall_ns = NOW - MINUTE + i * SECOND_NS;

		if (i < 3)
			write_own(store, &b, wall_ns + SECOND_NS / 3, 200);
		write_own(store, &a, wall_ns, 100);
	}
	must_finish_at(store, &b, NOW - MINUTE + 3 * SECOND_NS);
	open_player(&p);
	step(&p.feed, p.scene, 1);
	step(&p.feed, p.scene, 1);
	assert_int_equal(p.scene->snap.running_jobs, 2);
	assert_int_equal(p.scene->snap.n_progress, 2);
	assert_attempt(p.scene, &a, 1);
	assert_attempt(p.scene, &b, 1);
	for (unsigned i = 2; i < 8; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(p.scene->snap.n_progress, 1);
	assert_attempt(p.scene, &a, 1);
	assert_null(find_attempt(p.scene, b.id));
	close_player(&p);
}

/* ---- anomalies ---- */

static void fill_anomaly(struct episode *e, const struct attempt *a, unsigned k, uint64_t began_ns)
{
	episode_init(e);
	e->worst.type = ANOMALY_ZOMBIE;
	e->worst.has_pid = true;
	e->worst.pid = 99 + (pid_t)k; /* of one process they would be one */
	e->worst.start_ticks = 5000;
	snprintf(e->worst.text, sizeof(e->worst.text), "number %u", k);
	snprintf(e->name, sizeof(e->name), "zombie%u/1", k);
	episode_set_job(e, a->job_id);
	e->began_wall_ns = e->peak_wall_ns = began_ns;
}

static void write_anomaly_of(struct store *store, const struct attempt *a, unsigned k,
			     uint64_t began_ns, uint64_t ended_ns)
{
	struct episode e;
	struct err err = ERR_INIT;

	fill_anomaly(&e, a, k, began_ns);
	must(write_anomaly(store, a->id, &e, EPISODE_BEGAN, &err), &err);
	e.ended_wall_ns = ended_ns;
	e.why_cleared = "gone";
	if (u64_known(ended_ns))
		must(write_anomaly(store, a->id, &e, EPISODE_CLEARED, &err), &err);
}

/* Ten seconds of a job, with an anomaly that begins after two of them. */
static struct attempt write_ailing(struct store *store, uint64_t began, struct episode *ret)
{
	struct attempt a = must_begin_at(store, "a", began);
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 10; i++)
		write_own(store, &a, began + i * SECOND_NS, 100);
	fill_anomaly(ret, &a, 1, began + 2 * SECOND_NS);
	must(write_anomaly(store, a.id, ret, EPISODE_BEGAN, &err), &err);
	return a;
}

static size_t count_events(const struct scene *s, const char *part)
{
	size_t n = 0;

	for (size_t i = 0; i < s->past.n_events; i++)
		n += strstr(scene_event(s, i)->text, part) != NULL;
	return n;
}

/* Flagged from when it begins until it is over, or until its run is, whichever way one comes. */
static void test_flags(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct attempt a = must_begin_at(store, "a", began);
	struct player p = { .store = store };

	for (unsigned i = 0; i < 10; i++)
		write_own(store, &a, began + i * SECOND_NS, 100);
	write_anomaly_of(store, &a, 1, began + 2 * SECOND_NS, began + 5 * SECOND_NS);
	write_anomaly_of(store, &a, 2, began + 2 * SECOND_NS, U64_UNKNOWN);
	must_finish_at(store, &a, began + 8 * SECOND_NS);
	open_player(&p);
	for (unsigned i = 0; i < 3; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(scene_count_flags(p.scene), 2);
	assert_int_equal(p.scene->past.n_anomalies, 2);
	for (unsigned i = 3; i < 6; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(scene_count_flags(p.scene), 1);
	assert_int_equal(count_events(p.scene, "cleared: "), 1);
	step(&p.feed, p.scene, -1);
	assert_int_equal(scene_count_flags(p.scene), 2); /* told again, as of then */
	for (unsigned i = 5; i < 10; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(scene_count_flags(p.scene), 0);
	assert_int_equal(count_events(p.scene, "cleared: "), 2);
	close_player(&p);
}

/* One that is over at once, and of which that is told five seconds later. */
static void write_end_told_late(struct store *store, uint64_t began)
{
	struct err err = ERR_INIT;
	struct episode e;
	struct attempt a = write_ailing(store, began, &e);

	e.ended_wall_ns = began + 2 * SECOND_NS;
	e.cleared_wall_ns = began + 7 * SECOND_NS;
	e.why_cleared = EPISODE_NO_MORE;
	must(write_anomaly(store, a.id, &e, EPISODE_CLEARED, &err), &err);
}

static void assert_anomalies(const struct scene *s, unsigned n_there, unsigned n_cleared)
{
	assert_int_equal(s->past.n_anomalies, n_there);
	assert_int_equal(scene_count_flags(s), n_there);
	assert_int_equal(count_events(s, "cleared: "), n_cleared);
}

/* A kill is over at once; that it is, is told when no other has followed. Until then it counts. */
static void test_end_told_late(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct player p = { .store = store };

	write_end_told_late(store, began);
	open_player(&p);
	for (unsigned i = 0; i < 7; i++) {
		step(&p.feed, p.scene, 1);
		assert_anomalies(p.scene, i < 2 ? 0 : 1, 0);
	}
	step(&p.feed, p.scene, 1);
	assert_anomalies(p.scene, 0, 1);
	assert_int_equal(count_events(p.scene, "cleared: number 1"), 1);
	assert_true(scene_event(p.scene, 0)->wall_ns == began + 7 * SECOND_NS);
	close_player(&p);
}

/* Also where the replay begins between the two. */
static void test_end_told_late_after_the_beginning(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct player p = { .store = store, .since_wall_ns = began + 5 * SECOND_NS };

	write_end_told_late(store, began);
	open_player(&p);
	for (unsigned i = 5; i < 7; i++) {
		step(&p.feed, p.scene, 1);
		assert_anomalies(p.scene, 1, 0);
	}
	step(&p.feed, p.scene, 1);
	assert_anomalies(p.scene, 0, 1);
	close_player(&p);
}

/* Whoever is taken to an anomaly sees its line, however much else happened then, and what it is of.
 */
static void test_next_anomaly(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct wish wish = { .kind = WISH_NEXT_ANOMALY };
	const uint64_t began = NOW - MINUTE;
	struct attempt first = must_begin_at(store, "a", began);
	struct attempt a = must_begin_at(store, "b", began);
	struct player p = { .store = store };
	struct err err = ERR_INIT;
	struct proc_event events[20] = { 0 };

	for (unsigned i = 0; i < 10; i++) {
		write_own(store, &first, began + i * SECOND_NS, 300);
		write_own(store, &a, began + i * SECOND_NS, 100); /* the culprit */
	}
	write_anomaly_of(store, &a, 1, began + 5 * SECOND_NS - 1000, U64_UNKNOWN);
	for (unsigned i = 0; i < 20; i++)
		events[i] = (struct proc_event){ .wall_ns = began + 5 * SECOND_NS - 20 + i,
						 .key = { 1000 + (pid_t)i, 7 },
						 .type = EVENT_SPAWN,
						 .status = { -1, -1 },
						 .job_id = a.job_id,
						 .sheet_num = 1,
						 .details = "" };
	must(store_write_events(store, &a, events, 20, &err), &err);
	open_player(&p);
	step(&p.feed, p.scene, 1);
	p.scene->view.event_rows = 5;
	must(p.feed.ops->grant(p.feed.ctx, p.scene, &wish, &err), &err);
	assert_true(p.scene->view.events_up > 0);
	for (int i = 0; i < 5; i++)
		if (strstr(scene_event(p.scene, (size_t)(p.scene->view.events_up + i))->text,
			   "number 1"))
			p.scene->view.event_rows = 0; /* it is seen */
	assert_int_equal(p.scene->view.event_rows, 0);
	assert_int_equal(scene_refresh(p.scene), 0);
	assert_int_equal(scene_selected(p.scene)->p->key.pid, 100);
	close_player(&p);
}

/* What it came to later is not told before: neither in the timeline nor of what is flagged. */
static void test_words_of_then(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct player p = { .store = store };
	struct err err = ERR_INIT;
	struct episode e;
	struct attempt a = write_ailing(store, began, &e);

	snprintf(e.worst.text, sizeof(e.worst.text), "much worse");
	e.worst.severity = SEVERITY_CRITICAL;
	e.peak_wall_ns = began + 5 * SECOND_NS;
	must(write_anomaly(store, a.id, &e, EPISODE_ESCALATED, &err), &err);
	open_player(&p);
	for (unsigned i = 0; i < 5; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "number 1 "), 1);
	assert_int_equal(count_events(p.scene, "much worse"), 0);
	assert_string_equal(p.scene->past.flags[0].text, "number 1");
	assert_int_equal(p.scene->past.flags[0].told_ns, began + 2 * SECOND_NS);
	step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "number 1 "), 1);
	assert_int_equal(count_events(p.scene, "escalated: much worse"), 1);
	assert_string_equal(p.scene->past.flags[0].text, "much worse");
	assert_int_equal(p.scene->past.flags[0].told_ns, began + 5 * SECOND_NS);
	step(&p.feed, p.scene, -1);
	assert_string_equal(p.scene->past.flags[0].text, "number 1");
	close_player(&p);
}

/* ---- jobs and sheets ---- */

/* Each is told when its time has come, and a sheet is as old as it was then. */
static void test_changes(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct attempt a = must_begin_at(store, "a", began - SECOND_NS);
	struct sheet_record sheet = { .num = 1,
				      .try_num = 1,
				      .total_ranks = 1,
				      .started_wall_ns = began - SECOND_NS / 2,
				      .ended_wall_ns = began + 3 * SECOND_NS,
				      .outcome = OUTCOME_FAILURE,
				      .reason = "exit code 3",
				      .status = { 3, -1 } };
	struct player p = { .store = store };
	struct err err = ERR_INIT;

	must(store_write_sheets(store, &a, &sheet, 1, &err), &err);
	for (unsigned i = 0; i < 10; i++)
		write_own(store, &a, began + i * SECOND_NS, 100);
	must_finish_at(store, &a, began + 8 * SECOND_NS);
	open_player(&p);
	step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "job.started of a"), 1);
	assert_int_equal(count_events(p.scene, "sheet.started of a, sheet 1"), 1);
	assert_int_equal(count_events(p.scene, "sheet.failed"), 0);
	step(&p.feed, p.scene, 1);
	assert_true(outline_row(&p.scene->outline, 0)->age_seconds == 2);
	assert_true(outline_row(&p.scene->outline, 1)->age_seconds == 1.5);
	for (unsigned i = 2; i < 10; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "sheet.failed of a, sheet 1: exit code 3"), 1);
	assert_int_equal(count_events(p.scene, "job.completed of a"), 1);
	step(&p.feed, p.scene, -1);
	assert_int_equal(count_events(p.scene, "job.started of a"), 1);
	close_player(&p);
}

/* ---- one job ---- */

#define N_BEFORE 20 /* seconds */
#define N_AFTER 40

static enum store_alive tell_alive(void *ctx, const struct attempt *a)
{
	(void)a;
	return *(enum store_alive *)ctx;
}

/* Another job is recorded for a minute; this one begins and ends meanwhile. */
static struct attempt write_among_others(struct store *store, uint64_t began)
{
	struct attempt other = must_begin_at(store, "other", began - N_BEFORE * SECOND_NS);
	struct attempt a = must_begin_at(store, "a", began);

	for (unsigned i = 0; i < N_BEFORE + N_AFTER; i++) {
		uint64_t wall_ns = began + i * SECOND_NS - N_BEFORE * SECOND_NS;

		write_own(store, &other, wall_ns, 100);
		if (i >= N_BEFORE && i <= N_BEFORE + 10)
			write_own(store, &a, wall_ns, 200);
	}
	return a;
}

static void assert_kept_to(struct player *p, uint64_t began, uint64_t ended)
{
	open_player(p);
	step(&p->feed, p->scene, 1);
	assert_true(p->scene->snap.wall_ns >= began);
	while (!p->scene->replay.is_over)
		step(&p->feed, p->scene, 1);
	assert_true(p->scene->snap.wall_ns <= ended);
}

/* Of one job it begins and ends with that, whoever looks at others before and after. */
static void test_one_job(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE, ended = began + 10 * SECOND_NS + SECOND_NS / 2;
	struct attempt a = write_among_others(store, began);
	struct player p = { .store = store, .job_id = "a" };

	must_finish_at(store, &a, ended);
	assert_kept_to(&p, began, ended);
	assert_int_equal(p.scene->snap.n_processes, 1);
	assert_int_equal(count_events(p.scene, "job.completed of a"), 1);
	close_player(&p);
}

/* One whose end is not known has a beginning all the same, whether it runs or is lost. */
static void test_one_job_without_an_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct player p = { .store = store, .job_id = "a" };

	write_among_others(store, began);
	for (int i = 0; i < 2; i++) {
		enum store_alive alive = i == 0 ? STORE_ALIVE : STORE_DEAD;

		store_set_alive_check(store, tell_alive, &alive);
		assert_kept_to(&p, began, NOW);
		close_player(&p);
	}
	store_set_alive_check(store, NULL, NULL);
}

/* What nobody has recorded is said; who looks but every minute was there all the time. */
static void test_gaps(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - HOUR;
	struct attempt a = must_begin_at(store, "a", began);
	struct player p = { .store = store };

	for (unsigned i = 0; i < 4; i++)
		write_own(store, &a, began + i * SECOND_NS / 2, 100);
	write_own(store, &a, began + 1200 * SECOND_NS, 100);
	for (unsigned i = 1; i < 4; i++)
		write_own(store, &a, began + (1200 + i * 60) * SECOND_NS, 100);
	open_player(&p);
	step(&p.feed, p.scene, 1);
	assert_true(p.scene->replay.has_fractions);
	for (unsigned i = 1; i < 4; i++)
		step(&p.feed, p.scene, 1);
	assert_int_equal(p.scene->replay.gap_ns, 0);
	step(&p.feed, p.scene, 1);
	assert_int_equal(p.scene->replay.gap_ns / SECOND_NS, 1198);
	assert_int_equal(count_events(p.scene, "gap of 19 min skipped"), 1);
	assert_false(p.scene->replay.has_fractions);
	for (unsigned i = 0; i < 3; i++)
		step(&p.feed, p.scene, 1);
	assert_true(p.scene->replay.is_over);
	assert_int_equal(count_events(p.scene, "skipped"), 2); /* the first minute, for once */
	close_player(&p);
}

/* Phases are told as they are entered and left. */
static void test_phases(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const uint64_t began = NOW - MINUTE;
	struct attempt a = must_begin_at(store, "a", began);
	struct phase_mark marks[] = {
		{ .attempt_id = a.id,
		  .phase = { .name = "load",
			     .pid = 100,
			     .rank = RANK_NONE,
			     .entered_wall_ns = began + SECOND_NS,
			     .left_wall_ns = U64_UNKNOWN } },
		{ .attempt_id = a.id,
		  .is_exit = true,
		  .phase = { .name = "load",
			     .pid = 100,
			     .rank = RANK_NONE,
			     .left_wall_ns = began + 3 * SECOND_NS } },
	};
	struct player p = { .store = store };
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 5; i++)
		write_own(store, &a, began + i * SECOND_NS, 100);
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		must(store_mark_phases(store, &marks[i], 1, &err), &err);
	open_player(&p);
	step(&p.feed, p.scene, 1);
	step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "phase.enter pid 100 of a: load"), 1);
	assert_int_equal(count_events(p.scene, "phase.exit"), 0);
	step(&p.feed, p.scene, 1);
	step(&p.feed, p.scene, 1);
	assert_int_equal(count_events(p.scene, "phase.exit pid 100 of a: load"), 1);
	close_player(&p);
}

/* ---- as text ---- */

static int count_pages(void *ctx)
{
	(*(int *)ctx)++;
	return 0;
}

static size_t count_parts(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* A screen for each interval and for the last moment, each with what happened since the one before;
 * nothing is selected, and births are left out. */
static void test_text(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const uint64_t began = NOW - HOUR;
	struct attempt a = must_begin_at(store, "a", began);
	struct proc_event birth = { .wall_ns = began,
				    .key = { 100, 5000 },
				    .type = EVENT_SPAWN,
				    .status = { -1, -1 },
				    .job_id = a.job_id,
				    .sheet_num = 1,
				    .details = "" };
	struct tui_options options = { .store = store, .since_wall_ns = NOW - 2 * HOUR };
	struct err err = ERR_INIT;
	int n_pages = 0;

	must(store_write_events(store, &a, &birth, 1, &err), &err);
	for (unsigned i = 0; i < 100; i++)
		write_own(store, &a, began + i * SECOND_NS, 100);
	must_finish_at(store, &a, began + 99 * SECOND_NS);
	must(tui_print(&options, &out, count_pages, &n_pages, &err), &err);
	/* 21:13:20 to 21:14:59: the first, at 21:14:00, and the last */
	assert_int_equal(n_pages, 3);
	assert_int_equal(count_parts(out.data, "proctor recorded "), 3);
	assert_int_equal(count_parts(out.data, "\n- a 1"), 3);
	assert_int_equal(count_parts(out.data, "job.started of a"), 1);
	assert_int_equal(count_parts(out.data, "job.completed of a"), 1);
	assert_int_equal(count_parts(out.data, "process.spawn"), 0);
	assert_null(strchr(out.data, '>'));
	buf_reset(&out);
	options.interval_seconds = 10;
	must(tui_print(&options, &out, count_pages, &n_pages, &err), &err);
	assert_int_equal(n_pages, 3 + 11);
	options.job_id = "none";
	assert_int_equal(tui_print(&options, &out, count_pages, &n_pages, &err), -ENODATA);
	assert_int_equal(n_pages, 3 + 11);
}

static void test_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open_fast(f->db);
	const struct tui_options options = { .store = store, .since_wall_ns = 1 };
	struct err err = ERR_INIT;
	struct feed feed = { 0 };

	assert_int_equal(feed_open_stored(&options, &feed, &err), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_old_and_new),	STORE_TEST(test_two_recorders),
		STORE_TEST(test_rates),		STORE_TEST(test_twins_of_two_runners),
		STORE_TEST(test_flags),		STORE_TEST(test_changes),
		STORE_TEST(test_gaps),		STORE_TEST(test_phases),
		STORE_TEST(test_text),		STORE_TEST(test_nothing),
		STORE_TEST(test_end_told_late), STORE_TEST(test_end_told_late_after_the_beginning),
		STORE_TEST(test_words_of_then), STORE_TEST(test_next_anomaly),
		STORE_TEST(test_one_job),	STORE_TEST(test_one_job_without_an_end),
	};

	return cmocka_run_group_tests_name("tui_replay", tests, NULL, NULL);
}

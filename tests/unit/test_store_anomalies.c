#include "store_fixture.h"

#include "base/clock.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)

static struct attempt must_begin(struct store *store, const char *job_id)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	return a;
}

static void make_episode(struct episode *e, pid_t pid, uint64_t began)
{
	episode_init(e);
	e->worst.type = ANOMALY_MEMORY_LEAK;
	e->worst.severity = SEVERITY_MEDIUM;
	e->worst.has_pid = pid > 0;
	e->worst.pid = pid;
	e->worst.start_ticks = pid > 0 ? 77 : U64_UNKNOWN;
	e->worst.sheet_num = 3;
	e->worst.metric_value = 120.5;
	e->worst.threshold = 100;
	snprintf(e->worst.text, sizeof(e->worst.text), "it \"grows\"");
	snprintf(e->name, sizeof(e->name), "memory_leak/%d/%llu", (int)pid,
		 (unsigned long long)began);
	snprintf(e->comm, sizeof(e->comm), "py");
	e->unit = "MB";
	e->began_wall_ns = e->peak_wall_ns = began;
	e->count = 1;
	e->before_value = 90;
	e->first_value = 100;
	e->peak_value = 120.5;
	e->host.load1 = 1.5;
}

static void put(struct store *store, int64_t attempt, const struct episode *e,
		enum episode_change change)
{
	struct err err = ERR_INIT;

	must(store_write_anomaly(store, attempt, e, change, &err), &err);
}

struct heard {
	size_t n;
	int attempt_num;
	struct episode last;
	char host[512], evidence[512];
};

static int hear(void *ctx, const struct anomaly_row *row)
{
	struct heard *h = ctx;
	const struct episode *e = &row->episode;

	assert_true(h->n == 0 || e->began_wall_ns >= h->last.began_wall_ns);
	h->n++;
	h->attempt_num = row->attempt_num;
	episode_copy(&h->last, e);
	snprintf(h->host, sizeof(h->host), "%s", e->host_json ? e->host_json : "-");
	snprintf(h->evidence, sizeof(h->evidence), "%s", e->evidence_json ? e->evidence_json : "-");
	return 0;
}

static size_t count(struct store *store, struct anomaly_filter filter, struct heard *ret)
{
	struct err err = ERR_INIT;

	memset(ret, 0, sizeof(*ret));
	must(store_read_anomalies(store, &filter, hear, ret, &err), &err);
	return ret->n;
}

static void test_an_episode_comes_back_as_it_was(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.attempt_num, 1);
	assert_string_equal(h.last.worst.job_id, "a");
	assert_int_equal(h.last.worst.type, ANOMALY_MEMORY_LEAK);
	assert_int_equal(h.last.worst.severity, SEVERITY_MEDIUM);
	assert_true(h.last.worst.has_pid);
	assert_int_equal(h.last.worst.pid, 42);
	assert_int_equal(h.last.worst.start_ticks, 77);
	assert_int_equal(h.last.worst.sheet_num, 3);
	assert_string_equal(h.last.worst.text, "it \"grows\"");
	assert_true(h.last.worst.metric_value == 120.5 && h.last.before_value == 90);
	assert_true(isnan(h.last.after_value) && isnan(h.last.seconds_to_limit));
	assert_int_equal(h.last.gpu, -1);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_non_null(strstr(h.host, "\"load_avg_1\":1.5"));
	assert_string_equal(h.evidence, "-");
}

static void test_a_change_is_no_new_row(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_evidence evidence;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	anomaly_evidence_init(&evidence);
	evidence.n_files_open = 5;
	e.evidence = &evidence;
	put(store, a.id, &e, EPISODE_BEGAN);
	e.evidence = NULL;
	e.worst.severity = SEVERITY_HIGH;
	put(store, a.id, &e, EPISODE_ESCALATED);
	e.ended_wall_ns = START + 60 * SECOND;
	e.why_cleared = "the process ended";
	put(store, a.id, &e, EPISODE_CLEARED);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.worst.severity, SEVERITY_HIGH);
	assert_int_equal(h.last.ended_wall_ns, START + 60 * SECOND);
	assert_non_null(strstr(h.evidence, "\"open_file_count\":5")); /* of when it began */
	snprintf(evidence.trace, sizeof(evidence.trace), "/x.trace");
	assert_int_equal(store_set_evidence(store, e.name, &evidence, NULL), 0);
	assert_int_equal(store_set_evidence(store, "another", &evidence, NULL), -ENOENT);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_non_null(strstr(h.evidence, "\"trace\":\"/x.trace\""));
	assert_int_equal(h.last.ended_wall_ns, START + 60 * SECOND);
}

static void test_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b"),
		       again = must_begin(store, "a");
	struct episode e;
	struct heard h;

	for (int i = 0; i < 100; i++) { /* more than are copied at a time */
		make_episode(&e, 100 + i, START + (uint64_t)(i / 2) * SECOND);
		put(store, i % 2 ? a.id : b.id, &e, EPISODE_BEGAN);
	}
	make_episode(&e, 7, START + 200 * SECOND);
	put(store, again.id, &e, EPISODE_BEGAN);
	make_episode(&e, 0, START + 300 * SECOND);
	put(store, 0, &e, EPISODE_BEGAN);

	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 102);
	assert_null(h.last.worst.job_id);
	assert_false(h.last.worst.has_pid);
	assert_int_equal(h.attempt_num, 0);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 51);
	assert_int_equal(h.attempt_num, 2);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .job_id = "a", .attempt_num = 2 }, &h), 1);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "x" }, &h), 0);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .since_wall_ns = START + 49 * SECOND }, &h),
		4);
	assert_int_equal(count(store, (struct anomaly_filter){ .until_wall_ns = START }, &h), 2);
}

/* Not of the last attempt of that name: it may be another user's. */
static void test_whose_attempt_is_unknown_is_nobodys(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt first = must_begin(store, "a");
	struct episode e;
	struct heard h;

	must_begin(store, "a");
	make_episode(&e, 42, START);
	episode_set_job(&e, "a");
	put(store, first.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START);
	episode_set_job(&e, "a");
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.attempt_num, 1);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_null(h.last.worst.job_id);
}

/* Two runs of a host, or a runner and the daemon that goes on. */
static void test_what_two_see_is_told_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode first, second;
	struct heard h;

	make_episode(&first, 42, START);
	put(store, a.id, &first, EPISODE_BEGAN);
	make_episode(&second, 42, START + 20 * SECOND);
	put(store, a.id, &second, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 1);
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 1);
	second.ended_wall_ns = START + 22 * SECOND; /* a short run ends, and the other goes on */
	second.why_cleared = EPISODE_UNWATCHED;
	put(store, a.id, &second, EPISODE_CLEARED);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE ended_wall_ns"), 0);
	make_episode(&second, 42, START + 23 * SECOND);
	put(store, a.id, &second, EPISODE_BEGAN);
	second.worst.severity = SEVERITY_HIGH;
	second.peak_wall_ns = START + 30 * SECOND;
	second.peak_value = 500;
	put(store, a.id, &second, EPISODE_ESCALATED);
	first.ended_wall_ns = START + 25 * SECOND; /* of no consequence: the other lasts */
	put(store, a.id, &first, EPISODE_CLEARED);
	second.ended_wall_ns = START + 40 * SECOND;
	put(store, a.id, &second, EPISODE_CLEARED);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.began_wall_ns, START);
	assert_int_equal(h.last.ended_wall_ns, START + 40 * SECOND);
	assert_int_equal(h.last.worst.severity, SEVERITY_HIGH);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 3);
	make_episode(&second, 42, START + 50 * SECOND); /* it comes back */
	put(store, a.id, &second, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 2);
	make_episode(&second, 42, START + 55 * SECOND); /* of no attempt: that is another's */
	put(store, 0, &second, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 3);
}

static void make_explosion(struct episode *e, pid_t pid, const char *comm, uint64_t began)
{
	make_episode(e, pid, began);
	e->worst.type = ANOMALY_PROCESS_EXPLOSION;
	snprintf(e->name, sizeof(e->name), "process_explosion/a/%llu", (unsigned long long)began);
	snprintf(e->comm, sizeof(e->comm), "%s", comm);
}

#define COLUMNS_OF_CULPRIT                                                                     \
	"SELECT pid || ' ' || start_ticks || ' ' || comm || ' ' || pattern || ' ' || severity" \
	" FROM anomalies"

/* One sees it first, and another, as something worse, a second later: whose it is then. */
static void assert_culprit(const struct fixture *f, struct episode *first, uint64_t second_ticks,
			   const char *want)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode second;
	char text[256];

	put(store, a.id, first, EPISODE_BEGAN);
	make_explosion(&second, 43, "sh", START + SECOND);
	second.worst.start_ticks = second_ticks;
	second.worst.severity = SEVERITY_HIGH;
	put(store, a.id, &second, EPISODE_BEGAN);
	assert_string_equal(raw_text(f->db, COLUMNS_OF_CULPRIT, text), want);
}

/* Each blames the process that it saw first: the evidence, and the pattern, are of the first. */
static void test_two_who_blame_another(void **state)
{
	struct fixture *f = *state;
	struct episode first;

	make_explosion(&first, 42, "make", START);
	assert_culprit(f, &first, 78, "42 77 make process_explosion:make high");
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM patterns WHERE tags LIKE '%high'"),
			 1);
}

/* Who knows no culprit leaves it to who does. */
static void test_one_of_two_knows_the_culprit(void **state)
{
	struct episode first;

	make_explosion(&first, 0, "", START);
	assert_culprit(*state, &first, 77, "43 77 sh process_explosion high");
}

static int hear_changes(void *ctx, const struct anomaly_row *row)
{
	char *text = ctx;

	for (size_t i = 0; i < row->n_changes; i++)
		sprintf(text + strlen(text), "%s %s %s %.0f;",
			episode_change_name(row->changes[i].change),
			severity_name(row->changes[i].severity), row->changes[i].text,
			row->changes[i].value);
	return 0;
}

/* Each as it was told then, however it went on. */
static void test_what_was_told_stays(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	const struct anomaly_filter filter = { .with_changes = true };
	char text[512] = "";
	struct err err = ERR_INIT;
	struct episode e;

	make_episode(&e, 42, START);
	e.seconds_to_limit = 60;
	put(store, a.id, &e, EPISODE_BEGAN);
	e.worst.severity = SEVERITY_CRITICAL;
	e.worst.metric_value = 900;
	e.before_value = e.seconds_to_limit = F64_UNKNOWN;
	snprintf(e.worst.text, sizeof(e.worst.text), "all of it");
	put(store, a.id, &e, EPISODE_ESCALATED);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE before_value IS NULL"
					" AND seconds_to_limit IS NULL"),
			 1);
	e.ended_wall_ns = START + 40 * SECOND;
	e.after_value = 7;
	put(store, a.id, &e, EPISODE_CLEARED);
	must(store_read_anomalies(store, &filter, hear_changes, text, &err), &err);
	assert_string_equal(text, "began medium it \"grows\" 120;escalated critical all of it 900;"
				  "cleared critical all of it 7;");
	for (int i = 0; i < 40; i++)
		put(store, a.id, &e, EPISODE_ESCALATED);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 16);
}

static void end_as(struct store *store, int64_t attempt, struct episode *e, uint64_t ended,
		   const char *why)
{
	e->ended_wall_ns = e->cleared_wall_ns = ended;
	e->why_cleared = why;
	put(store, attempt, e, EPISODE_CLEARED);
}

/* A runner that looks more often than the daemon has told it before that one notices. */
static void test_the_first_who_sees_the_end_tells_it(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode mine, others;
	struct heard h;

	make_episode(&mine, 42, START);
	make_episode(&others, 42, START + SECOND);
	put(store, a.id, &mine, EPISODE_BEGAN);
	put(store, a.id, &others, EPISODE_BEGAN);
	end_as(store, a.id, &mine, START + 3 * SECOND, EPISODE_UNWATCHED);
	end_as(store, a.id, &others, START + 4 * SECOND, "it was clear for long enough");
	count(store, (struct anomaly_filter){ 0 }, &h);
	assert_int_equal(h.last.ended_wall_ns, START + 4 * SECOND);
	end_as(store, a.id, &others, START + 9 * SECOND, "the process ended");
	end_as(store, a.id, &mine, START + 9 * SECOND, "the process ended");
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 4 * SECOND);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes c JOIN anomalies n ON"
					" c.change = 'cleared' AND c.wall_ns = n.ended_wall_ns"),
			 1);
}

/* Two runs see a fault of the host; one takes it to be over, and the other sees it come back. */
static void test_what_came_back_ends_later(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct episode mine, others;
	struct heard h;

	make_episode(&mine, 0, START);
	make_episode(&others, 0, START + SECOND);
	put(store, 0, &mine, EPISODE_BEGAN);
	put(store, 0, &others, EPISODE_BEGAN);
	others.over_wall_ns = START + 2 * SECOND;
	end_as(store, 0, &others, START + 3 * SECOND, "it was clear for long enough");
	mine.worst.severity = SEVERITY_CRITICAL;
	mine.peak_wall_ns = mine.over_wall_ns = START + 7 * SECOND;
	mine.count = 2;
	put(store, 0, &mine, EPISODE_ESCALATED);
	end_as(store, 0, &mine, START + 9 * SECOND, "it was clear for long enough");
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 9 * SECOND);
	assert_int_equal(h.last.count, 2);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes c JOIN anomalies n ON"
					" c.change = 'cleared' AND c.wall_ns = n.ended_wall_ns"),
			 1);
}

/* The pid of the row, or that of another process which has it by now. */
static void test_evidence_is_of_the_culprit(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_evidence of_mine, of_others;
	struct episode mine, others;
	struct heard h;

	anomaly_evidence_init(&of_mine);
	anomaly_evidence_init(&of_others);
	of_mine.n_files_open = 5;
	of_others.n_files_open = 6;
	make_episode(&mine, 42, START);
	mine.evidence = &of_mine;
	put(store, a.id, &mine, EPISODE_BEGAN);
	for (pid_t pid = 42; pid <= 43; pid++) {
		make_episode(&others, 42, START + SECOND);
		others.worst.severity = pid == 42 ? SEVERITY_HIGH : SEVERITY_CRITICAL;
		others.worst.pid = pid;
		others.worst.start_ticks = pid == 42 ? 9999 : 77;
		others.evidence = &of_others;
		put(store, a.id, &others, EPISODE_BEGAN);
		assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
		assert_int_equal(h.last.worst.severity, others.worst.severity);
		assert_int_equal(h.last.worst.pid, 42);
		assert_int_equal(h.last.worst.start_ticks, 77);
		assert_non_null(strstr(h.evidence, "5"));
		assert_null(strstr(h.evidence, "6"));
	}
}

/* Who tells of it second may trace the culprit, too, if it is the same. */
static void test_more_is_found_out_by_another(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_identity id = { .name = "" };
	struct anomaly_evidence evidence;
	struct episode mine, others;
	const struct anomaly_news news = { a.id, &others, EPISODE_BEGAN, .takes_over = false };
	struct err err = ERR_INIT;
	struct heard h;

	make_episode(&mine, 42, START);
	put(store, a.id, &mine, EPISODE_BEGAN);
	make_episode(&others, 42, START + SECOND);
	must(store_tell_anomaly(store, &news, &id, &err), &err);
	assert_string_equal(id.name, mine.name);
	assert_false(id.blames_another);
	anomaly_evidence_init(&evidence);
	snprintf(evidence.trace, sizeof(evidence.trace), "/x.trace");
	must(store_set_evidence(store, id.name, &evidence, &err), &err);
	count(store, (struct anomaly_filter){ 0 }, &h);
	assert_non_null(strstr(h.evidence, "/x.trace"));
	others.worst.start_ticks++;
	must(store_tell_anomaly(store, &news, &id, &err), &err);
	assert_true(id.blames_another);
}

/* Several runs have seen it, each a moment later, and each tells that no other came. */
static void test_a_kill_of_the_host_is_one(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct episode runs[3];
	struct heard h;

	for (size_t i = 0; i < 3; i++) {
		make_episode(&runs[i], 0, START + i * SECOND / 4);
		runs[i].worst.type = ANOMALY_OOM_KILL;
		put(store, 0, &runs[i], EPISODE_BEGAN);
	}
	for (size_t i = 0; i < 3; i++)
		end_as(store, 0, &runs[i], runs[i].began_wall_ns, EPISODE_NO_MORE);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 2);
	make_episode(&runs[0], 0, START + 5 * SECOND); /* another one */
	runs[0].worst.type = ANOMALY_OOM_KILL;
	put(store, 0, &runs[0], EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
}

static void test_an_attempt_has_its_own(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	CLEANUP(attempt_release) struct attempt read;
	struct err err = ERR_INIT;
	struct episode e;

	attempt_init(&read);
	make_episode(&e, 43, START + SECOND);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 44, START);
	put(store, b.id, &e, EPISODE_BEGAN);
	must(store_read_attempt(store, "a", 1, &read, &err), &err);
	assert_int_equal(read.n_anomalies, 2);
	assert_int_equal(read.anomalies[0].worst.pid, 42);
	assert_int_equal(read.anomalies[1].worst.pid, 43);
	assert_string_equal(read.anomalies[1].worst.job_id, "a");
	assert_string_equal(read.anomalies[1].unit, "MB");
	assert_non_null(strstr(read.anomalies[1].host_json, "load_avg_1"));
}

/* A daemon that was killed has left it behind. */
static void test_a_new_daemon_ends_those_of_the_host(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct daemon_record d = { .version = "1", .started_wall_ns = START + 9 * SECOND };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START);
	episode_set_job(&e, NULL);
	e.worst.has_pid = false;
	e.peak_wall_ns = START + 5 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_int_equal(h.last.ended_wall_ns, START + 5 * SECOND);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .lasting_wall_ns = START + 6 * SECOND }, &h),
		1); /* that lasts */
}

/* Of a runner; of a daemon, which has no name, what ctx says. */
static enum store_alive is_gone(void *ctx, const struct attempt *a)
{
	const enum store_alive *daemon = ctx;

	return a->job_id || a->id ? STORE_DEAD : *daemon;
}

/* The one runner that saw it begin was killed. */
static void test_nobody_looks_at_the_host_any_more(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	enum store_alive daemon = STORE_ALIVE;
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	must(store_end_daemon(store, &d, START, &err), &err);
	must_begin(store, "a");
	make_episode(&e, 0, START);
	e.peak_wall_ns = START + 5 * SECOND;
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	store_set_alive_check(store, is_gone, &daemon);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, START + 9 * SECOND);
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns)); /* the daemon looks */
}

/* It was killed, and none has come since. */
static void test_a_daemon_that_vanished_does_not_look(void **state)
{
	static const enum store_alive gone[] = { STORE_DEAD, STORE_CANNOT_TELL };
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	enum store_alive daemon = STORE_ALIVE;
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, START);
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, 0, &e, EPISODE_BEGAN);
	store_set_alive_check(store, is_gone, &daemon);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		daemon = gone[i];
		assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
		assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	}
	d.started_wall_ns = clock_wall_ns(); /* a moment ago; nobody can tell */
	must(store_begin_daemon(store, &d, &err), &err);
	make_episode(&e, 0, clock_wall_ns());
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns));
}

static void test_patterns(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	char text[256];
	struct episode e;

	make_episode(&e, 1, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	put(store, a.id, &e, EPISODE_CLEARED);
	make_episode(&e, 2, START + SECOND);
	put(store, b.id, &e, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM patterns"), 1);
	assert_string_equal(raw_text(f->db, "SELECT type || ' ' || name FROM patterns", text),
			    "RESOURCE_ANOMALY memory_leak:py");
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT last_wall_ns - first_wall_ns FROM patterns"),
			 SECOND);
	assert_string_equal(raw_text(f->db, "SELECT jobs FROM patterns", text), "b\na");
	e.worst.severity = SEVERITY_CRITICAL;
	snprintf(e.worst.text, sizeof(e.worst.text), "it grows fast");
	put(store, b.id, &e, EPISODE_ESCALATED);
	assert_string_equal(raw_text(f->db, "SELECT tags FROM patterns", text),
			    "resource\nanomaly\nmemory_leak\ncritical");
	assert_string_equal(raw_text(f->db, "SELECT description FROM patterns", text),
			    "it grows fast");
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 2);
	raw_sql(f->db, "DELETE FROM anomalies"); /* as retention does */
	make_episode(&e, 3, START + 2 * SECOND);
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_string_equal(raw_text(f->db, "SELECT jobs FROM patterns", text), "a\nb");
	assert_int_equal(raw_sql(f->db, "SELECT n_jobs FROM patterns"), 2);
}

/* More than there is room to name. */
static void test_a_pattern_of_many_jobs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	int64_t first = 0;
	char name[32];
	struct episode e;

	for (int i = 0; i < 60; i++) {
		struct attempt a;

		snprintf(name, sizeof(name), "job-%d", i);
		a = must_begin(store, name);
		first = i == 0 ? a.id : first;
		make_episode(&e, 100 + i, START + (uint64_t)i * SECOND);
		put(store, a.id, &e, EPISODE_BEGAN);
	}
	make_episode(&e, 99, START + 99 * SECOND); /* the first again, whose name was pushed out */
	put(store, first, &e, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT n_jobs FROM patterns"), 60);
	assert_int_equal(raw_sql(f->db, "SELECT length(jobs) - length(replace(jobs, char(10), ''))"
					" FROM patterns"),
			 49);
}

static void test_one_without_an_end_ends_with_its_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	a.ended_wall_ns = START + 9 * SECOND;
	a.outcome = OUTCOME_SUCCESS;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 9 * SECOND);
}

/* Who is left of a job goes on after it: nothing is over before it began. */
static void test_an_orphan_outlives_its_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = must_begin(store, "a");
	const struct anomaly_filter lasting = { .lasting_wall_ns = START + 60 * SECOND };
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	attempt_init(&read);
	must(store_begin_daemon(store, &d, &err), &err);
	a.ended_wall_ns = START + 9 * SECOND;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	make_episode(&e, 42, START + 40 * SECOND); /* a leak of who is left */
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START + 9 * SECOND);
	e.worst.type = ANOMALY_ORPHAN;
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(count(store, lasting, &h), 2);
	must(store_read_attempt(store, "a", 1, &read, &err), &err);
	assert_int_equal(read.n_anomalies, 2);
	assert_false(u64_known(read.anomalies[0].ended_wall_ns));
	assert_false(u64_known(read.anomalies[1].ended_wall_ns));
	e.ended_wall_ns = START + 99 * SECOND;
	put(store, a.id, &e, EPISODE_CLEARED);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE ended_wall_ns"), 1);
}

static void begin_another(struct store *store, struct daemon_record *d, const char *boot_id)
{
	struct err err = ERR_INIT;

	must(store_end_daemon(store, d, START, &err), &err);
	snprintf(d->boot_id, sizeof(d->boot_id), "%s", boot_id);
	must(store_begin_daemon(store, d, &err), &err);
}

/* The next daemon goes on with one that lives, and not after a boot; without one nobody looks. */
static void test_an_orphan_outlives_the_daemon(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct daemon_record d = { .version = "1", .started_wall_ns = START };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	must(store_begin_daemon(store, &d, &err), &err);
	a.ended_wall_ns = START;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	must_begin(store, "runs"); /* and does not look at it */
	make_episode(&e, 43, START + SECOND);
	e.worst.type = ANOMALY_ORPHAN;
	e.seen_wall_ns = START + 7 * SECOND;
	put(store, a.id, &e, EPISODE_BEGAN);
	begin_another(store, &d, a.boot_id);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	must(store_end_daemon(store, &d, START, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 7 * SECOND);
	assert_int_equal(raw_sql(f->db, "SELECT count(ended_wall_ns) FROM anomalies"), 0);
	begin_another(store, &d, "11111111-0000-4000-8000-123456789abc");
	assert_int_equal(raw_sql(f->db, "SELECT ended_wall_ns FROM anomalies"), START + 7 * SECOND);
}

/* Those that were over before are not even looked at; those that lasted into it are there. */
static void test_what_lasted(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "j");
	const struct anomaly_filter filter = { .lasting_wall_ns = START + 50 * SECOND };
	struct err err = ERR_INIT;
	struct heard h = { 0 };
	struct episode e;

	for (int i = 0; i < 100; i++) { /* each for 5 s */
		make_episode(&e, 100 + i, START + (uint64_t)i * SECOND);
		e.ended_wall_ns = e.began_wall_ns + 5 * SECOND;
		put(store, a.id, &e, EPISODE_CLEARED);
	}
	make_episode(&e, 7, START); /* nobody saw the end of it */
	put(store, a.id, &e, EPISODE_BEGAN);
	must(store_read_anomalies(store, &filter, hear, &h, &err), &err);
	assert_int_equal(h.n, 56);
	a.ended_wall_ns = START + 20 * SECOND; /* it is over with its attempt */
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	h = (struct heard){ 0 };
	must(store_read_anomalies(store, &filter, hear, &h, &err), &err);
	assert_int_equal(h.n, 55);
}

/* after: seconds. */
static void make_kill(struct episode *e, const char *job_id, pid_t pid, uint64_t start_ticks,
		      uint64_t after)
{
	make_episode(e, pid, START + after * SECOND);
	e->worst.type = ANOMALY_OOM_KILL;
	e->worst.start_ticks = start_ticks;
	snprintf(e->name, sizeof(e->name), "oom_kill/%s.%d.%llx/%llu", job_id, (int)pid,
		 (unsigned long long)start_ticks, (unsigned long long)after);
}

/* A runner knows the pid of its child, the daemon also when that began: it was killed once. */
static void test_a_kill_that_two_have_seen(void **state)
{
	static const struct {
		uint64_t start_ticks, after;
		pid_t pid;
		size_t n_rows;
	} cases[] = {
		{ U64_UNKNOWN, 1, 42, 1 },  { 77, 1, 42, 1 },
		{ 78, 1, 42, 2 },	    /* another with the same pid */
		{ U64_UNKNOWN, 60, 42, 2 }, /* maybe another */
		{ U64_UNKNOWN, 1, 43, 2 },
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		size_t k = i % ARRAY_SIZE(cases), first = i / ARRAY_SIZE(cases);
		struct episode e[2];
		char job_id[16];
		struct attempt a;
		struct heard h;

		snprintf(job_id, sizeof(job_id), "job%zu", i);
		a = must_begin(store, job_id);
		make_kill(&e[0], job_id, 42, 77, 0);
		make_kill(&e[1], job_id, cases[k].pid, cases[k].start_ticks, cases[k].after);
		put(store, a.id, &e[first], EPISODE_BEGAN);
		put(store, a.id, &e[!first], EPISODE_BEGAN);
		assert_int_equal(count(store, (struct anomaly_filter){ .job_id = job_id }, &h),
				 cases[k].n_rows);
	}
}

static void tell(struct store *store, const struct anomaly_news *news, struct anomaly_identity *ret)
{
	struct err err = ERR_INIT;

	must(store_tell_anomaly(store, news, ret, &err), &err);
}

/* Each begins and ends it; the second 20 s later. It is told by the one who was first. */
static void tell_by_two(struct store *store, int64_t attempt, struct episode e[2],
			struct anomaly_identity *ret)
{
	for (int i = 0; i < 2; i++)
		tell(store, &(struct anomaly_news){ attempt, &e[i], EPISODE_BEGAN, i == 1 }, NULL);
	for (int i = 0; i < 2; i++) {
		e[i].ended_wall_ns = e[i].began_wall_ns + (i ? 20 : 1) * SECOND;
		e[i].why_cleared = i ? "it was clear for long enough" : EPISODE_UNWATCHED;
		tell(store, &(struct anomaly_news){ attempt, &e[i], EPISODE_CLEARED, i == 1 }, ret);
	}
}

/* A runner that was there when its command was killed, and the daemon, which waits a while. */
static void test_a_kill_ends_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_identity id;
	struct episode e[2];
	struct heard h;

	make_kill(&e[0], "a", 42, U64_UNKNOWN, 0);
	make_kill(&e[1], "a", 42, 77, 1);
	tell_by_two(store, a.id, e, &id);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, e[0].ended_wall_ns);
	assert_string_equal(h.last.name, e[0].name);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 2);
	assert_string_equal(id.name, e[0].name); /* what the second is to call it */
	assert_int_equal(id.began_wall_ns, e[0].began_wall_ns);
	assert_int_equal(id.ended_wall_ns, e[0].ended_wall_ns);
}

/* The other has seen no more of it, and later: what was told stands. */
static void test_a_kill_is_as_it_was_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode e[2];
	struct heard h;

	for (int i = 0; i < 2; i++) {
		make_kill(&e[i], "a", 42, 77, i ? 1 : 0);
		e[i].seen_wall_ns = e[i].began_wall_ns;
		snprintf(e[i].worst.text, sizeof(e[i].worst.text), "it had %d MB", i ? 4 : 62);
	}
	put(store, a.id, &e[0], EPISODE_BEGAN);
	e[0].ended_wall_ns = START;
	e[0].why_cleared = EPISODE_NO_MORE;
	put(store, a.id, &e[0], EPISODE_CLEARED);
	put(store, a.id, &e[1], EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_string_equal(h.last.worst.text, "it had 62 MB");
	assert_int_equal(h.last.peak_wall_ns, START);
	assert_int_equal(h.last.seen_wall_ns, START);
	assert_int_equal(h.last.ended_wall_ns, START);
}

/* What lasts is over for who began it, unless that one has left it to another. */
static void test_who_does_not_take_over_ends_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_identity id;
	struct episode first, second;
	struct anomaly_news news = { a.id, &first, EPISODE_BEGAN, false };
	struct heard h;

	make_episode(&first, 42, START);
	tell(store, &news, NULL);
	make_episode(&second, 42, START + 2 * SECOND);
	news.episode = &second;
	tell(store, &news, &id);
	assert_string_equal(id.name, first.name);
	second.ended_wall_ns = START + 9 * SECOND;
	news.change = EPISODE_CLEARED;
	tell(store, &news, &id);
	assert_true(id.is_left);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	news.takes_over = true;
	tell(store, &news, &id);
	assert_false(id.is_left);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 9 * SECOND);
}

struct followed {
	size_t n;
	uint64_t uid[8];
	struct episode_moment moments[8];
	struct episode last;
};

static int follow(void *ctx, const struct anomaly_change_row *row)
{
	struct followed *f = ctx;

	assert_true(f->n < ARRAY_SIZE(f->moments));
	f->uid[f->n] = row->uid;
	f->moments[f->n++] = row->moment;
	episode_copy(&f->last, &row->episode);
	return 0;
}

static size_t follow_on(struct store *store, int64_t *after_id, struct followed *f)
{
	struct err err = ERR_INIT;

	memset(f, 0, sizeof(*f));
	must(store_follow_anomalies(store, after_id, follow, f, &err), &err);
	return f->n;
}

static void test_changes_are_followed_as_they_were_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct followed told;
	struct episode e, host;
	int64_t after = 0;

	make_episode(&e, 42, START);
	make_episode(&host, 0, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	put(store, 0, &host, EPISODE_BEGAN);
	assert_int_equal(follow_on(store, &after, &told), 2);
	assert_true(told.uid[0] == a.uid);
	assert_false(u64_known(told.uid[1]));
	assert_null(told.last.worst.job_id);
	assert_int_equal(follow_on(store, &after, &told), 0);

	e.worst.severity = SEVERITY_HIGH;
	e.peak_wall_ns = START + SECOND;
	put(store, a.id, &e, EPISODE_ESCALATED);
	e.ended_wall_ns = START + 2 * SECOND;
	e.cleared_wall_ns = START + 70 * SECOND;
	put(store, a.id, &e, EPISODE_CLEARED);
	assert_int_equal(follow_on(store, &after, &told), 2);
	assert_int_equal(told.moments[0].change, EPISODE_ESCALATED);
	assert_int_equal(told.moments[0].severity, SEVERITY_HIGH);
	assert_int_equal(told.moments[0].wall_ns, START + SECOND);
	assert_int_equal(told.moments[1].change, EPISODE_CLEARED);
	assert_string_equal(told.last.name, e.name);
	assert_string_equal(told.last.worst.job_id, "a");
	assert_int_equal(told.last.ended_wall_ns, START + 2 * SECOND);
	assert_int_equal(told.last.cleared_wall_ns, START + 70 * SECOND);
}

static int count_change(void *ctx, const struct anomaly_change_row *row)
{
	size_t *n = ctx;

	assert_int_equal(row->episode.worst.pid, 100 + *n);
	(*n)++;
	return 0;
}

static void test_many_changes_are_followed_in_pages(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;
	struct followed told;
	struct episode e;
	int64_t after = 0, none = 0;
	size_t n = 0;

	for (int i = 0; i < 70; i++) {
		make_episode(&e, 100 + i, START);
		put(store, 0, &e, EPISODE_BEGAN);
		if (i == 64)
			must(store_follow_anomalies(store, &after, NULL, NULL, &err), &err);
	}
	assert_int_equal(follow_on(store, &after, &told), 5);
	assert_int_equal(told.last.worst.pid, 169);
	must(store_follow_anomalies(store, &none, count_change, &n, &err), &err);
	assert_int_equal(n, 70);
}

/* It has the name that the other has given it: and is that one's, until it is taken over. */
static void test_what_was_adopted(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_identity id;
	struct episode e;
	struct anomaly_news news = { a.id, &e, EPISODE_BEGAN, false };
	struct heard h;

	make_episode(&e, 42, START);
	tell(store, &news, NULL);
	e.is_adopted = true;
	e.ended_wall_ns = START + 9 * SECOND;
	e.why_cleared = "it was clear";
	e.after_value = 3;
	news.change = EPISODE_CLEARED;
	tell(store, &news, &id);
	assert_true(id.is_left);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(h.last.attempt_id, a.id);
	news.takes_over = true;
	tell(store, &news, &id);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 9 * SECOND);
	assert_true(h.last.after_value == 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 2);
}

/* Its numbers follow it while it lasts, and nothing is told. */
static void test_what_lasts_is_renewed(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	struct episode e;
	const struct anomaly_renewal renewal = { a.id, &e };
	struct heard h;

	make_episode(&e, 42, START);
	must(store_renew_anomalies(store, &renewal, 1, &err), &err); /* it is not there yet */
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 0);
	put(store, a.id, &e, EPISODE_BEGAN);
	e.count = 8;
	e.peak_value = e.worst.metric_value = 200;
	e.peak_wall_ns = e.seen_wall_ns = START + 30 * SECOND;
	snprintf(e.worst.text, sizeof(e.worst.text), "it has grown");
	must(store_renew_anomalies(store, &renewal, 1, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.count, 8);
	assert_true(h.last.peak_value == 200 && h.last.worst.metric_value == 200);
	assert_int_equal(h.last.peak_wall_ns, START + 30 * SECOND);
	assert_int_equal(h.last.seen_wall_ns, START + 30 * SECOND);
	assert_string_equal(h.last.worst.text, "it has grown");
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 1);
	e.ended_wall_ns = START + 40 * SECOND;
	put(store, a.id, &e, EPISODE_CLEARED);
	e.ended_wall_ns = U64_UNKNOWN;
	e.count = 9;
	must(store_renew_anomalies(store, &renewal, 1, &err), &err); /* it is over */
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.count, 8);
}

/* A runner has seen the worst of it, and a daemon how it ended. */
static void test_the_worst_of_two_stays(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode first, second;
	struct heard h;

	make_episode(&first, 42, START);
	first.count = 5;
	first.peak_value = first.worst.metric_value = 300;
	snprintf(first.worst.text, sizeof(first.worst.text), "at its worst");
	put(store, a.id, &first, EPISODE_BEGAN);
	make_episode(&second, 42, START + SECOND);
	second.ended_wall_ns = START + 9 * SECOND;
	second.why_cleared = "it was clear";
	put(store, a.id, &second, EPISODE_CLEARED);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.count, 5);
	assert_true(h.last.peak_value == 300);
	assert_string_equal(h.last.worst.text, "at its worst");
	make_episode(&second, 43, START + SECOND); /* and the other way round */
	put(store, a.id, &second, EPISODE_BEGAN);
	make_episode(&first, 43, START + 2 * SECOND);
	first.count = 4;
	first.peak_value = 700;
	first.peak_wall_ns = START + 3 * SECOND;
	first.ended_wall_ns = START + 9 * SECOND;
	put(store, a.id, &first, EPISODE_CLEARED);
	assert_int_equal(count(store, (struct anomaly_filter){ .since_wall_ns = START + 1 }, &h),
			 1);
	assert_int_equal(h.last.began_wall_ns, START + SECOND);
	assert_int_equal(h.last.count, 4);
	assert_true(h.last.peak_value == 700);
	assert_int_equal(h.last.peak_wall_ns, START + 3 * SECOND);
}

/* Somebody looked a moment ago: what lasts of the host goes on with the new daemon. */
static void test_a_new_daemon_leaves_what_is_watched(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct daemon_record d = { .version = "1", .started_wall_ns = START + 65 * SECOND };
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 0, START);
	put(store, 0, &e, EPISODE_BEGAN);
	raw_sql(f->db, "INSERT INTO ticks (recorder, wall_ns, data)"
		       " VALUES (-1, 1700000010000000000, x'00') RETURNING id");
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_false(u64_known(h.last.ended_wall_ns));
	d.started_wall_ns = START + 71 * SECOND;
	must(store_begin_daemon(store, &d, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_was_adopted, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_new_daemon_leaves_what_is_watched,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_lasts_is_renewed, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_worst_of_two_stays, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_kill_ends_once, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_kill_is_as_it_was_told, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_who_does_not_take_over_ends_nothing,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_lasted, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_an_episode_comes_back_as_it_was, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_change_is_no_new_row, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_an_orphan_outlives_its_attempt, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_an_orphan_outlives_the_daemon, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_filters, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_whose_attempt_is_unknown_is_nobodys,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_two_see_is_told_once, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_two_who_blame_another, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_one_of_two_knows_the_culprit, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_was_told_stays, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_the_first_who_sees_the_end_tells_it,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_came_back_ends_later, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_evidence_is_of_the_culprit, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_more_is_found_out_by_another, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_kill_of_the_host_is_one, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_an_attempt_has_its_own, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_daemon_that_vanished_does_not_look,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_new_daemon_ends_those_of_the_host,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_nobody_looks_at_the_host_any_more,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_patterns, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_pattern_of_many_jobs, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_one_without_an_end_ends_with_its_attempt,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_kill_that_two_have_seen, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_changes_are_followed_as_they_were_told,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_many_changes_are_followed_in_pages,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

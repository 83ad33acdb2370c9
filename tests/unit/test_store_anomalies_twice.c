/* What two see at the same time is one episode, with what both know. */
#include "anomaly_fixture.h"

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

/* A damaged row is still one: its end, and that it blames no process, stay. */
static void assert_damaged_row_stays(struct fixture *f, const char *damage)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode mine, others;

	make_episode(&mine, 42, START);
	make_episode(&others, 42, START + SECOND);
	put(store, a.id, &mine, EPISODE_BEGAN);
	end_as(store, a.id, &mine, START + 4 * SECOND, "it was clear for long enough");
	raw_sql(f->db, damage);
	end_as(store, a.id, &others, START + 9 * SECOND, "the process ended");
	assert_int_equal(raw_sql(f->db, "SELECT ended_wall_ns FROM anomalies"), START + 4 * SECOND);
	make_explosion(&mine, 0, "", START);
	make_explosion(&others, 43, "sh", START + SECOND);
	others.worst.severity = SEVERITY_HIGH;
	put(store, a.id, &mine, EPISODE_BEGAN);
	raw_sql(f->db, damage);
	put(store, a.id, &others, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT pid FROM anomalies WHERE id = 2"), 43);
	assert_int_equal(raw_sql(f->db, "SELECT start_ticks FROM anomalies WHERE id = 2"), 77);
}

static void test_a_row_of_no_type_stays(void **state)
{
	assert_damaged_row_stays(*state, "UPDATE anomalies SET type = 'nonsense'");
}

static void test_a_row_of_no_severity_stays(void **state)
{
	assert_damaged_row_stays(*state, "UPDATE anomalies SET severity = 'nonsense'");
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_what_two_see_is_told_once),
		STORE_TEST(test_two_who_blame_another),
		STORE_TEST(test_one_of_two_knows_the_culprit),
		STORE_TEST(test_what_was_told_stays),
		STORE_TEST(test_the_first_who_sees_the_end_tells_it),
		STORE_TEST(test_what_came_back_ends_later),
		STORE_TEST(test_evidence_is_of_the_culprit),
		STORE_TEST(test_the_worst_of_two_stays),
		STORE_TEST(test_a_row_of_no_type_stays),
		STORE_TEST(test_a_row_of_no_severity_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

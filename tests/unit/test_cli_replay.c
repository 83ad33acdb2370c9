#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "cli/replay.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1794714300) * SECOND) /* 2026-11-15 03:45:00 UTC */
#define MB (UINT64_C(1) << 20)

static const struct replay_options all = { 60 * SECOND, 0, UINT64_MAX, NULL };

static int use_utc(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	return 0;
}

static void add_process(struct snapshot *s, const char *job_id, pid_t pid, double cpu, uint64_t mb)
{
	struct proc_sample *p = snapshot_add_process(s);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, 7 };
	p->state = 'R';
	p->job_id = job_id;
	p->cpu_percent = cpu;
	p->rss_bytes = mb == 0 ? U64_UNKNOWN : mb * MB;
	snprintf(p->comm, sizeof(p->comm), "p%d", (int)pid);
}

static void take(struct replay *replay, struct snapshot *s, uint64_t wall_ns)
{
	s->wall_ns = wall_ns;
	assert_int_equal(replay_snapshot(replay, s), 0);
	snapshot_reset(s);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
}

static void assert_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" in:\n%s", part, text);
}

/* Of a minute that is not over, or was not asked for as a whole, it is said how much it is. */
static void test_parts_of_frames(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	const struct replay_options part = { 60 * SECOND, START + 50 * SECOND, START + 138 * SECOND,
					     NULL };
	struct replay *replay = replay_new(&out, &part);

	(void)state;
	assert_non_null(replay);
	snapshot_init(&s);
	for (unsigned i = 51; i < 138; i += 28)
		take(replay, &s, START + i * SECOND);
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, "2026-11-15 03:45:50.000  1 snapshot in 10.0 s\n");
	assert_has(out.data, "2026-11-15 03:46:00.000  2 snapshots in 1m00s\n");
	assert_has(out.data, "2026-11-15 03:47:00.000  1 snapshot in 18.0 s\n");
}

static struct event_row failure_of(const char *job_id, int attempt_num)
{
	return (struct event_row){ .attempt_num = attempt_num,
				   .event = { .wall_ns = START + 3 * SECOND,
					      .key = { 2, 7 },
					      .type = EVENT_EXIT,
					      .status = { 3, -1 },
					      .job_id = job_id,
					      .details = "" } };
}

/* Two attempts of one name are two; a job of one attempt has no number. */
static void test_twins(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	CLEANUP(twins_release) struct twins twins = { 0 };
	const struct replay_options options = { 60 * SECOND, 0, UINT64_MAX, &twins };
	const struct attempt attempts[] = {
		{ .id = 11, .job_id = "a", .attempt_num = 1 },
		{ .id = 11, .job_id = "a", .attempt_num = 1 }, /* again */
		{ .id = 12, .job_id = "a", .attempt_num = 2 },
		{ .id = 13, .job_id = "b", .attempt_num = 7 },
	};
	const struct event_row failed = failure_of("a", 2);
	struct replay *replay = replay_new(&out, &options);

	(void)state;
	assert_non_null(replay);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		assert_int_equal(twins_add(&twins, &attempts[i]), 0);
	snapshot_init(&s);
	add_process(&s, "a", 1, 10, 100);
	add_process(&s, "a", 2, 80, 20);
	add_process(&s, "b", 3, 5, 7);
	for (int i = 0; i < 3; i++)
		s.processes[i].attempt_id = 11 + i;
	take(replay, &s, START + 2 * SECOND);
	assert_int_equal(replay_event(replay, &failed), 0);
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, "  job a#1: at most 1 process, CPU 10.0 % (03:45:02), memory 100 MB");
	assert_has(out.data, "  job a#2: at most 1 process, CPU 80.0 % (03:45:02), memory 20 MB");
	assert_has(out.data, "  job b: at most 1 process,");
	assert_has(out.data, " exit pid 2, exit 3, job a#2\n");
	assert_has(out.data, "  a#2  p2\n");
}

/* What tells two attempts apart is at the end of the name, and is not cut off. */
static void test_twins_of_long_names(void **state)
{
	static const char name[] = "train-with-a-name-that-is-longer-than-its-column";
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	CLEANUP(twins_release) struct twins twins = { 0 };
	const struct replay_options options = { 60 * SECOND, 0, UINT64_MAX, &twins };
	const struct event_row failed = failure_of(name, 12);
	struct replay *replay = replay_new(&out, &options);

	(void)state;
	assert_non_null(replay);
	for (int i = 1; i <= 12; i++)
		twins_add(&twins, &(struct attempt){ .id = i, .job_id = name, .attempt_num = i });
	snapshot_init(&s);
	add_process(&s, name, 2, 80, 20);
	s.processes[0].attempt_id = 12;
	take(replay, &s, START + 2 * SECOND);
	assert_int_equal(replay_event(replay, &failed), 0);
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, " exit pid 2, exit 3, job train-with-a-name-that-is-…#12\n");
	assert_has(out.data, "  train-with-a-name-that-is-…#12  p2\n");
}

/* A process is shown as it was at its busiest; a job at its most is a sum of one moment. */
static void test_frames(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	struct replay *replay = replay_new(&out, &all);

	(void)state;
	assert_non_null(replay);
	snapshot_init(&s);
	add_process(&s, "a", 1, 10, 100);
	add_process(&s, "a", 2, 80, 20);
	take(replay, &s, START + 2 * SECOND);
	add_process(&s, "b", 3, F64_UNKNOWN, 7); /* another recorder */
	take(replay, &s, START + 3 * SECOND);
	add_process(&s, "a", 1, 50, 300);
	add_process(&s, "a", 2, 30, 50);
	take(replay, &s, START + 4 * SECOND);
	add_process(&s, "a", 1, 1, 1);
	take(replay, &s, START + 61 * SECOND);
	replay_end(replay);
	replay_free(replay);

	assert_has(out.data, "2026-11-15 03:45:00.000  3 snapshots in 1m00s\n");
	assert_has(out.data, "  job a: at most 2 processes, CPU 90.0 % (03:45:02), memory 350 MB "
			     "(03:45:04)\n  job b: at most 1 process, CPU -, memory 7 MB "
			     "(03:45:03)\n");
	assert_has(out.data, "      2  R    80.0      20 MB  a  p2\n"
			     "      1  R    50.0     300 MB  a  p1\n"
			     "      3  R       -       7 MB  b  p3\n");
	assert_has(out.data, "2026-11-15 03:46:00.000  1 snapshot in 1m00s\n");
	assert_has(out.data, "From 2026-11-15 03:45:02 to 2026-11-15 03:46:01, 4 snapshots:\n"
			     "  job a: at most 2 processes, CPU 90.0 % (2026-11-15 03:45:02)");
}

/* What else happened has a line of its own, in the frame of its time. */
static void test_others(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	struct replay *replay = replay_new(&out, &all);

	(void)state;
	assert_non_null(replay);
	snapshot_init(&s);
	add_process(&s, "a", 1, 10, 100);
	take(replay, &s, START + 2 * SECOND);
	assert_int_equal(replay_other(replay, START + 3 * SECOND, "it grows", 8), 0);
	assert_int_equal(replay_other(replay, START + 63 * SECOND, "it is overX", 10), 0);
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, "\n  it grows\n");
	assert_has(out.data, "03:46:00.000  0 snapshots in 1m00s\n  it is over\n");
	assert_true(strstr(out.data, "it grows") < strstr(out.data, "03:46:00"));
}

/* Minutes are not snapshots, and have nothing to say of the host. */
static void test_minutes(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	struct replay *replay = replay_new(&out, &all);

	(void)state;
	assert_non_null(replay);
	snapshot_init(&s);
	add_process(&s, "a", 1, 10, 100);
	s.resolution_seconds = 60;
	take(replay, &s, START);
	add_process(&s, "a", 1, 20, 200);
	s.resolution_seconds = 60;
	take(replay, &s, START + 60 * SECOND);
	add_process(&s, "b", 2, 30, 300);
	s.system.load1 = s.system.load5 = s.system.load15 = 1.5;
	take(replay, &s, START + 62 * SECOND);
	replay_end(replay);
	replay_free(replay);

	assert_has(out.data, "03:45:00.000  1 minute of averages in 1m00s\n"
			     "  job a: highest average of a minute: CPU 10.0 % (03:45:00), memory "
			     "100 MB (03:45:00)\n");
	assert_has(out.data,
		   "03:46:00.000  1 snapshot, 1 minute of averages in 1m00s\n  memory - of "
		   "- used, - available; load 1.50 ");
	assert_has(out.data, "03:46:02, 1 snapshot, 2 minutes of averages:\n"
			     "  job a: highest average of a minute: CPU 20.0 %");
	assert_has(out.data, "  job b: at most 1 process, CPU 30.0 %");
}

/* Of many the busiest, whenever in the frame they were. */
static void test_busiest_of_many(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot s;
	struct replay *replay = replay_new(&out, &all);
	const char *at;

	(void)state;
	assert_non_null(replay);
	snapshot_init(&s);
	for (int tick = 0; tick < 50; tick++) {
		for (pid_t pid = 1; pid <= 40; pid++) /* each has its turn once, most of all 7 */
			add_process(&s, "a", pid, tick == pid ? pid == 7 ? 999 : pid : 0.5, 1);
		take(replay, &s, START + (uint64_t)tick * SECOND);
	}
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, "      7  R   999.0       1 MB  a  p7\n"
			     "     40  R    40.0       1 MB  a  p40\n"
			     "     39  R    39.0       1 MB  a  p39\n");
	at = strstr(out.data, "     32  R    32.0       1 MB  a  p32\n");
	assert_non_null(at);
	assert_has_not(out.data, "p31\n"); /* the tenth was the last */
}

static void tell(struct replay *replay, enum event_type type, struct exit_status status,
		 uint64_t wall_ns, const char *details)
{
	const struct event_row row = { .attempt_num = 1,
				       .event = { .wall_ns = wall_ns,
						  .key = { 99, 7 },
						  .type = type,
						  .status = status,
						  .job_id = "a",
						  .sheet_num = 1,
						  .details = details } };

	assert_int_equal(replay_event(replay, &row), 0);
}

static void test_events(void **state)
{
	const struct exit_status none = { -1, -1 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct replay *replay = replay_new(&out, &all);

	(void)state;
	assert_non_null(replay);
	tell(replay, EVENT_SPAWN, none, START, "");
	tell(replay, EVENT_SPAWN, none, START + 1, "");
	tell(replay, EVENT_EXIT, (struct exit_status){ 0, -1 }, START + SECOND, "quiet");
	tell(replay, EVENT_EXIT, (struct exit_status){ 3, -1 }, START + 2 * SECOND, "x\x1b[31m\n");
	for (int i = 0; i < 20; i++)
		tell(replay, EVENT_KILL, (struct exit_status){ -1, 9 }, START + 3 * SECOND, "why");
	tell(replay, EVENT_OOM, none, START + 60 * SECOND, "");
	replay_end(replay);
	replay_free(replay);
	assert_has(out.data, "2026-11-15 03:45:00.000  0 snapshots in 1m00s\n"
			     "  events: 2 spawn, 2 exit, 20 kill\n"
			     "    2026-11-15 03:45:02.000  exit pid 99, exit 3, job a: x?[31m \n"
			     "    2026-11-15 03:45:03.000  kill pid 99, SIGKILL, job a: why\n");
	assert_has_not(out.data, "quiet");
	assert_has(out.data, "03:46:00.000  0 snapshots in 1m00s\n  events: 1 oom\n");
	assert_has_not(out.data, "From ");
}

static void test_nothing(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct replay *replay = replay_new(&out, &all);

	(void)state;
	assert_non_null(replay);
	replay_end(replay);
	replay_free(replay);
	assert_string_equal(out.data, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),		cmocka_unit_test(test_parts_of_frames),
		cmocka_unit_test(test_twins),		cmocka_unit_test(test_twins_of_long_names),
		cmocka_unit_test(test_others),		cmocka_unit_test(test_minutes),
		cmocka_unit_test(test_busiest_of_many), cmocka_unit_test(test_events),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, use_utc, NULL);
}

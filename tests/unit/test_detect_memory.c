/* Planted faults of memory: each is found, and what looks like it and is none is not. */
#include "detect_scenes.h"

static void leak(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->rss_anon_bytes = (uint64_t)((100 + t * 0.5) * 1048576); /* 30 MB a minute */
}

static void test_leak(void **state)
{
	struct host h;
	const struct seen *s;
	char expected[64];

	(void)state;
	host_open(&h, 5);
	play(&h, 600, leak);
	s = begin_of(&h, ANOMALY_MEMORY_LEAK, 0);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_true(fabs(s->e.seconds_to_limit - 6144 / 0.5) < 600);
	assert_true(fabs(s->e.before_value - 100) < 10);
	assert_true(s->at < 330);
	snprintf(expected, sizeof(expected), " to %.0f MB in ", s->e.first_value);
	assert_non_null(strstr(s->e.worst.text, expected));
	assert_non_null(strstr(s->e.worst.text, "(threshold: 32 MB more)"));
	assert_true(fabs(s->e.first_value - (100 + s->at * 0.5)) < 1);
	assert_int_equal(s->e.worst.pid, 10);
	assert_string_equal(s->e.worst.job_id, "job");
	assert_int_equal(s->e.worst.sheet_num, 2);
	assert_int_equal(h.n_seen, 1);
	host_close(&h);
}

static void fast_leak(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->rss_anon_bytes = (uint64_t)((100 + t * 4) * 1048576);
	h->snap.system.memory_available_bytes -= (uint64_t)(t * 4 * 1048576);
}

/* What has an hour left is told before the window is over. */
static void test_a_fast_leak_is_told_early(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 900, fast_leak);
	assert_true(begin_of(&h, ANOMALY_MEMORY_LEAK, 0)->at < 150);
	assert_non_null(host_find(&h, ANOMALY_MEMORY_LEAK, EPISODE_ESCALATED));
	host_close(&h);
}

/* 3 MB a second, and memory for 130 s. */
static void deadly_leak(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((10 + t * 3) * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)((390 - t * 3) * 1048576);
}

/* Nobody will see the whole window. */
static void test_a_leak_that_ends_before_the_window(void **state)
{
	const struct seen *s;
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 130, deadly_leak);
	s = begin_of(&h, ANOMALY_MEMORY_LEAK, 0);
	assert_true(s->at < 125);
	assert_int_equal(s->e.worst.severity, SEVERITY_CRITICAL);
	host_close(&h);
}

/* Grows and gives back, loads once and stays, or breathes with the page cache. */
static void no_leak(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((50 + fmod(t, 60) * 4) * 1048576);
	host_add(h, 11, 1)->rss_anon_bytes = (uint64_t)((50 + fmin(t, 100)) * 1048576);
	host_add(h, 12, 1)->rss_bytes = (uint64_t)((50 + t) * 1048576);
	host_add(h, 13, 1)->rss_anon_bytes = (uint64_t)((2 + t * 0.01) * 1048576);
}

static void test_no_leak(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 3600, no_leak);
	for (size_t i = 0; i < h.n_seen; i++) /* the first tooth is a spike, and a small one */
		assert_int_equal(h.seen[i].e.worst.severity, SEVERITY_LOW);
	assert_null(host_find(&h, ANOMALY_MEMORY_LEAK, EPISODE_BEGAN));
	host_close(&h);
}

static double slow_mb_per_minute;

/* Slower than any window of five minutes shows, and with some of it given back now and then. */
static void slow_leak(struct host *h, double t)
{
	double mb = 60 + t * slow_mb_per_minute / 60 + 3 * fmod(t, 45) / 45;

	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)(mb * 1048576);
}

static void test_a_slow_leak(void **state)
{
	static const double rates[] = { 5, 1, 0.3, 0.05 };
	struct host h;
	const struct seen *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		double seconds = 32 * 60 / rates[i]; /* until it is 32 MB more */

		slow_mb_per_minute = rates[i];
		host_open(&h, seconds / 200 > 10 ? 10 : 5);
		play(&h, 1.7 * seconds + 900, slow_leak);
		s = begin_of(&h, ANOMALY_MEMORY_LEAK, 0);
		print_message("# a leak of %g MB a minute: after %.0f s (32 MB take %.0f s): %s\n",
			      rates[i], s->at, seconds, s->e.worst.text);
		assert_true(s->at >= seconds && s->at < 1.25 * seconds + 600);
		assert_int_equal(h.n_seen, 1);
		host_close(&h);
	}
}

/* Caches fill and are full; a server that takes 40 MB in its first hour keeps them; many waves. */
static void fills_up(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((50 + 60 * (1 - exp(-t / 2400))) * 1048576);
	host_add(h, 11, 1)->rss_anon_bytes = (uint64_t)((50 + 15 * log1p(t / 60)) * 1048576);
	host_add(h, 12, 1)->rss_anon_bytes = (uint64_t)((90 + 40 * sin(t / 3000)) * 1048576);
}

static void test_what_fills_up_is_no_leak(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 10);
	play(&h, 12 * 3600, fills_up);
	host_print(&h);
	for (size_t i = 0; i < h.n_seen; i++)
		assert_int_not_equal(h.seen[i].e.worst.pid, 11);
	assert_true(host_count(&h, EPISODE_BEGAN) <= 2);
	host_close(&h);
}

static void ends_slowly(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((60 + fmin(t, 3600) / 60) * 1048576);
}

/* What was told is over when it has not grown any more for about as long. */
static void test_a_slow_leak_ends(void **state)
{
	const struct seen *s;
	struct host h;

	(void)state;
	host_open(&h, 10);
	play(&h, 5 * 3600, ends_slowly);
	begin_of(&h, ANOMALY_MEMORY_LEAK, 0);
	s = host_find(&h, ANOMALY_MEMORY_LEAK, EPISODE_CLEARED);
	assert_non_null(s);
	print_message("# over after %.0f s\n", s->at);
	assert_true(s->at < 3 * 3600);
	host_close(&h);
}

static void spike(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = t < 60 ? 100 : fmin(100 + (t - 60) * 200, 5000);

	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)((6144 - mb) * 1048576);
}

static void test_spike(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, spike);
	s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 60);
	assert_true(s->at <= 62);
	assert_true(fabs(s->e.before_value - 100) < 1);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_ESCALATED);
	assert_non_null(s);
	assert_true(s->e.worst.severity >= SEVERITY_MEDIUM);
	s = host_find(&h, ANOMALY_MEMORY_SPIKE, EPISODE_CLEARED);
	assert_non_null(s);
	assert_true(s->e.peak_value > 4000);
	assert_true(s->e.worst.severity >= SEVERITY_HIGH);
	assert_string_equal(s->e.why_cleared, "it was clear for long enough");
	host_close(&h);
}

/* A small one doubles; a new one starts up. */
static void no_spike(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = t < 60 ? 2 * MB : 4 * MB;
	if (t >= 60)
		host_add(h, 11, 1)->rss_anon_bytes =
			(uint64_t)(fmin(1 + (t - 60) * 40, 400) * 1048576);
}

static void test_no_spike(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, no_spike);
	assert_quiet(&h);
	host_close(&h);
}

/* Loads 300 MB within 3 s, and takes as much again when it is 20 s old. */
static void early_spike(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = 10 + fmin(t, 3) * 100 + (t < 20 ? 0 : 300);

	p->age_seconds = t;
	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
}

/* Most jobs are short. */
static void test_a_spike_soon_after_the_start(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	for (int step = 1; step <= 5; step += 4) {
		host_open(&h, step);
		play(&h, 40, early_spike);
		s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 20);
		assert_true(s->at <= 25);
		assert_true(fabs(s->e.before_value - 310) < 1);
		assert_int_equal(h.n_seen, 1);
		host_close(&h);
	}
}

/* A sixth of what is there, as fast as it can: once, or again and again. */
static void load_much(struct host *h, double t, double period)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = 10 + fmin(fmod(t, period), 4) * 350;

	p->age_seconds = t;
	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)((6144 - mb) * 1048576);
}

static void load_once(struct host *h, double t)
{
	load_much(h, t, 1e9);
}

static void sawtooth(struct host *h, double t)
{
	load_much(h, t, 20);
}

/* The same, and it goes on. */
static void load_without_end(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->age_seconds = t;
	p->rss_anon_bytes = (uint64_t)((10 + fmin(t, 24) * 250) * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)(6144 - fmin(t, 24) * 250) * MB;
}

static enum severity worst_of(double step, double seconds, scene *play_it)
{
	enum severity worst = SEVERITY_LOW;
	struct host h;

	host_open(&h, step);
	play(&h, seconds, play_it);
	for (size_t i = 0; i < h.n_seen; i++)
		if (h.seen[i].e.worst.type == ANOMALY_MEMORY_SPIKE &&
		    h.seen[i].e.worst.severity > worst)
			worst = h.seen[i].e.worst.severity;
	host_close(&h);
	return worst;
}

/* At that rate memory is full within seconds, if it goes on. */
static void test_it_is_worse_if_it_goes_on(void **state)
{
	(void)state;
	for (int step = 1; step <= 5; step += 4) {
		assert_true(worst_of(step, 120, load_once) <= SEVERITY_MEDIUM);
		assert_true(worst_of(step, 120, sawtooth) <= SEVERITY_MEDIUM);
		assert_int_equal(worst_of(step, 16, load_without_end), SEVERITY_CRITICAL);
	}
	assert_int_equal(worst_of(1, 7, load_without_end), SEVERITY_MEDIUM);
	assert_int_equal(worst_of(1, 11, load_without_end), SEVERITY_CRITICAL);
}

/* After a minute, so fast and for so long. */
static void load_late(struct host *h, double t, double mb_per_second, double seconds)
{
	struct proc_sample *p = host_add(h, 10, 1);
	double mb = 10 + fmin(fmax(t - 63, 0), seconds) * mb_per_second;

	p->rss_anon_bytes = (uint64_t)(mb * 1048576);
	h->snap.system.memory_available_bytes = (uint64_t)((6144 - mb) * 1048576);
}

static void fill_the_host(struct host *h, double t)
{
	load_late(h, t, 6144 / 2.0, 2);
	h->snap.system.memory_available_bytes =
		t > 64 ? 4096 : h->snap.system.memory_available_bytes; /* one page is left */
}

static void test_memory_that_is_full_has_no_time_left(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 1);
	play(&h, 70, fill_the_host);
	s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 0);
	assert_non_null(strstr(s->e.worst.text, "MB); memory is full"));
	assert_null(strstr(s->e.worst.text, "full in"));
	host_close(&h);
}

static void load_within_a_second(struct host *h, double t)
{
	load_late(h, t, 1000, 1);
}

static void load_for_long(struct host *h, double t)
{
	load_late(h, t, 90, 60);
}

/* Two looks further apart than the time that makes it sure show nothing of what was between. */
static void test_it_goes_on_if_two_looks_have_seen_it(void **state)
{
	const double steps[] = { 1, 5, 5.0003, 7, 8, 9.9996, 10, 15 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		print_message("# every %g s\n", steps[i]);
		assert_int_equal(worst_of(steps[i], 180, load_within_a_second), SEVERITY_MEDIUM);
		assert_int_equal(worst_of(steps[i], 91, load_for_long), SEVERITY_HIGH);
	}
}

/* At once, for half a minute without a rest, after a while, and given back in part. */
static void loading(struct host *h, double t)
{
	const double mb[] = {
		10 + fmin(t, 2) * 300,
		10 + fmin(t, 35) * 20,
		t < 8 ? 30 : 500,
		t < 10 ? 900 : fmin(500 + fmax(t - 20, 0) * 40, 900),
	};

	for (int i = 0; i < (int)ARRAY_SIZE(mb); i++) {
		struct proc_sample *p = host_add(h, 10 + i, 1);

		p->age_seconds = t;
		p->rss_anon_bytes = (uint64_t)(mb[i] * 1048576);
	}
}

static void test_loading_is_no_spike(void **state)
{
	struct host h;

	(void)state;
	for (int step = 1; step <= 5; step += 4) {
		host_open(&h, step);
		play(&h, 120, loading);
		assert_quiet(&h);
		host_close(&h);
	}
}

/* Grows without a rest until it is 40 s old. */
static void slow_loading(struct host *h, double t)
{
	struct proc_sample *p = host_add(h, 10, 1);

	p->age_seconds = t;
	p->rss_anon_bytes = (uint64_t)((10 + fmin(t, 40) * 7.5) * 1048576);
}

/* Ticks come a little late or early, or rarely: none of them is the one before itself. */
static void test_slow_loading_is_no_spike_at_any_tick(void **state)
{
	const double steps[] = { 1, 1.0003, 4.9996, 5, 5.0001, 5.0004, 5.001, 7, 10, 10.0003 };
	struct host h;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		host_open(&h, steps[i]);
		play(&h, 120, slow_loading);
		assert_quiet(&h);
		host_close(&h);
	}
}

/* What is told of the threshold does not change while it grows. */
static void test_the_threshold_is_that_of_the_beginning(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	play(&h, 300, spike);
	for (size_t i = 0; i < h.n_seen; i++)
		assert_true(h.seen[i].e.worst.threshold == 164);
	host_close(&h);
}

/* 3 MB a second, a minute after it has started. */
static void slow_spike(struct host *h, double t)
{
	host_add(h, 10, 1)->rss_anon_bytes = (uint64_t)((70 + fmax(t - 60, 0) * 3) * 1048576);
}

/* Who compares what was before with what is now comes to the same verdict. */
static void test_a_slow_spike_is_told_as_it_was_judged(void **state)
{
	const struct seen *s;
	struct host h;
	double from, to;

	(void)state;
	host_open(&h, 5);
	play(&h, 90, slow_spike);
	s = begin_of(&h, ANOMALY_MEMORY_SPIKE, 60);
	assert_true(s->e.first_value >= s->e.before_value * 1.5);
	assert_true(s->e.first_value >= s->e.before_value + 64);
	assert_true(fabs(s->e.worst.threshold - (s->e.before_value + 64)) < 0.01);
	assert_int_equal(
		sscanf(s->e.worst.text, "worker (pid 10) grew from %lf MB to %lf MB", &from, &to),
		2);
	assert_true(to - from >= 64 && to >= from * 1.5);
	host_close(&h);
}

static void test_what_is_usual_is_no_news(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 1);
	h.usual =
		(struct detect_usual){ "job", 0, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, 6000 * MB };
	play(&h, 300, spike);
	assert_quiet(&h);
	host_close(&h);
}

static void pressure(struct host *h, double t)
{
	h->snap.system.memory_available_bytes = t < 30	  ? 6144 * MB
						: t < 60  ? 700 * MB
						: t < 90  ? 300 * MB
						: t < 120 ? 900 * MB
							  : 6144 * MB;
}

static void test_pressure(void **state)
{
	struct host h;
	const struct seen *s;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, pressure);
	s = begin_of(&h, ANOMALY_MEMORY_PRESSURE, 30);
	assert_int_equal(s->e.worst.severity, SEVERITY_MEDIUM);
	assert_false(s->e.worst.has_pid);
	assert_null(s->e.worst.job_id);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_ESCALATED);
	assert_int_equal(s->e.worst.severity, SEVERITY_HIGH);
	s = host_find(&h, ANOMALY_MEMORY_PRESSURE, EPISODE_CLEARED);
	assert_true(s->at >= 180); /* 11 % is not enough, and then it takes a minute */
	assert_true(fabs(s->e.peak_value - 300.0 / 81.92) < 0.1);
	assert_true(fabs(s->e.after_value - 75) < 0.1);
	assert_int_equal(h.n_seen, 3);
	host_close(&h);
}

static void stalled(struct host *h, double t)
{
	h->snap.system.memory_available_bytes = 2048 * MB;
	h->snap.system.psi_memory.full.avg10 = t < 60 ? 0 : 50;
	h->snap.system.psi_io.full.avg10 = t < 60 ? 0 : 60;
	h->snap.system.swap_in_bytes = (uint64_t)(fmax(t - 60, 0) * 10) * MB;
	h->snap.system.swap_out_bytes = (uint64_t)(fmax(t - 60, 0) * 10) * MB;
}

static void test_the_host_stalls(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, stalled);
	assert_int_equal(begin_of(&h, ANOMALY_MEMORY_PRESSURE, 60)->e.worst.severity,
			 SEVERITY_CRITICAL);
	assert_true(begin_of(&h, ANOMALY_IO_STALL, 60)->at <= 95);
	assert_int_equal(begin_of(&h, ANOMALY_SWAP_STORM, 60)->e.worst.severity, SEVERITY_HIGH);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_a_fast_leak_is_told_early),
		cmocka_unit_test(test_a_leak_that_ends_before_the_window),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_a_slow_leak),
		cmocka_unit_test(test_what_fills_up_is_no_leak),
		cmocka_unit_test(test_a_slow_leak_ends),
		cmocka_unit_test(test_spike),
		cmocka_unit_test(test_memory_that_is_full_has_no_time_left),
		cmocka_unit_test(test_no_spike),
		cmocka_unit_test(test_a_spike_soon_after_the_start),
		cmocka_unit_test(test_it_is_worse_if_it_goes_on),
		cmocka_unit_test(test_it_goes_on_if_two_looks_have_seen_it),
		cmocka_unit_test(test_loading_is_no_spike),
		cmocka_unit_test(test_slow_loading_is_no_spike_at_any_tick),
		cmocka_unit_test(test_the_threshold_is_that_of_the_beginning),
		cmocka_unit_test(test_a_slow_spike_is_told_as_it_was_judged),
		cmocka_unit_test(test_what_is_usual_is_no_news),
		cmocka_unit_test(test_pressure),
		cmocka_unit_test(test_the_host_stalls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

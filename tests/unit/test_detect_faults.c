/* Faults of GPUs, and how severe each of the host is. */
#include "detect_scenes.h"

/* ---- GPUs ---- */

static void gpu(struct host *h, double t)
{
	struct gpu_sample *g = arena_alloc(&h->snap.arena, 2 * sizeof(*g));

	assert_non_null(g);
	gpu_sample_init(&g[0]);
	g[0].utilization_pct = t < 60 ? 80 : 0;
	g[0].memory_used_mb = 70000;
	g[0].memory_total_mb = 80000;
	g[0].temperature_c = t < 600 ? 60 : 92;
	g[0].throttle = GPU_THROTTLE_IDLE | GPU_THROTTLE_POWER_CAP; /* as it should */
	gpu_sample_init(&g[1]);
	g[1].index = 1;
	g[1].utilization_pct = 101;
	g[1].memory_used_mb = t < 60 ? 1000 : 79500;
	g[1].memory_total_mb = 80000;
	g[1].throttle = t < 60 ? U64_UNKNOWN : GPU_THROTTLE_HARDWARE_THERMAL;
	h->snap.gpus = g;
	h->snap.n_gpus = 2;
}

static void test_gpus(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 700, gpu);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_MEMORY, 60)->e.gpu, 1);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_HOT, 60)->e.gpu, 1);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_HOT, 60)->e.worst.severity, SEVERITY_HIGH);
	assert_int_equal(begin_of(&h, ANOMALY_GPU_IDLE, 60)->e.gpu, 0);
	assert_true(begin_of(&h, ANOMALY_GPU_IDLE, 60)->at <= 365);
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 4);
	host_close(&h);
}

/* Its use is of moments in which it rests; a process has a share of it all the same. */
static void work_in_bursts(struct host *h, double t)
{
	gpu(h, t);
	h->snap.gpus[0].top_share_pct = 18;
}

static void test_a_gpu_that_works_in_bursts_is_not_idle(void **state)
{
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 700, work_in_bursts);
	assert_null(host_find(&h, ANOMALY_GPU_IDLE, EPISODE_BEGAN));
	host_close(&h);
}

/* Lost from 60 to 120 s; of the other one its driver tells nothing in that time. */
static void lose_gpu(struct host *h, double t)
{
	struct gpu_sample *g = arena_alloc(&h->snap.arena, 2 * sizeof(*g));

	assert_non_null(g);
	for (int i = 0; i < 2; i++) {
		gpu_sample_init(&g[i]);
		g[i].index = i;
		if (t < 60 || t >= 120)
			g[i].temperature_c = 40;
	}
	g[1].is_lost = t >= 60 && t < 120;
	g[1].last_xid = 79;
	h->snap.gpus = g;
	h->snap.n_gpus = 2;
}

static void test_gpu_is_lost(void **state)
{
	const struct seen *began;
	struct host h;

	(void)state;
	host_open(&h, 5);
	play(&h, 300, lose_gpu);
	began = begin_of(&h, ANOMALY_GPU_LOST, 60);
	assert_true(began->at <= 65);
	assert_int_equal(began->e.gpu, 1);
	assert_int_equal(began->e.worst.severity, SEVERITY_HIGH);
	assert_string_equal(began->e.worst.text,
			    "GPU 1 is lost: its driver does not reach it any more (its last error "
			    "was XID 79)");
	assert_int_equal(host_count(&h, EPISODE_BEGAN), 1); /* once, and of no other */
	assert_non_null(host_find(&h, ANOMALY_GPU_LOST, EPISODE_CLEARED));
	host_close(&h);
}

/* ---- how severe ---- */

struct rule {
	double celsius, memory_percent; /* of a GPU; NaN: there is none */
	uint64_t throttle;
	double swap_mb, stall; /* a second; PSI full */
	enum anomaly_type type;
	int severity; /* -1: nothing is told */
};

static struct rule rule_at_hand;

static void break_rule(struct host *h, double t)
{
	struct gpu_sample *g = arena_alloc(&h->snap.arena, sizeof(*g));

	assert_non_null(g);
	gpu_sample_init(g);
	g->index = 0;
	g->temperature_c = rule_at_hand.celsius;
	g->throttle = rule_at_hand.throttle;
	g->utilization_pct = 50;
	g->memory_total_mb = 1000;
	g->memory_used_mb = 10 * rule_at_hand.memory_percent;
	h->snap.gpus = g;
	h->snap.n_gpus = f64_known(rule_at_hand.celsius);
	h->snap.system.swap_in_bytes = (uint64_t)(t * rule_at_hand.swap_mb) * MB;
	h->snap.system.swap_out_bytes = 0;
	h->snap.system.psi_memory.full.avg10 = rule_at_hand.stall;
}

static void test_how_severe(void **state)
{
	static const struct rule rules[] = {
		{ 84, 10, 0, 0, 0, ANOMALY_GPU_HOT, -1 },
		{ 85, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_MEDIUM },
		{ 90, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_HIGH },
		{ 95, 10, 0, 0, 0, ANOMALY_GPU_HOT, SEVERITY_CRITICAL },
		{ 60, 10, GPU_THROTTLE_POWER_BRAKE, 0, 0, ANOMALY_GPU_HOT, SEVERITY_MEDIUM },
		{ 60, 10, GPU_THROTTLE_THERMAL, 0, 0, ANOMALY_GPU_HOT, SEVERITY_HIGH },
		{ 60, 10, GPU_THROTTLE_POWER_CAP, 0, 0, ANOMALY_GPU_HOT, -1 },
		{ 60, 94, 0, 0, 0, ANOMALY_GPU_MEMORY, -1 },
		{ 60, 95, 0, 0, 0, ANOMALY_GPU_MEMORY, SEVERITY_LOW },
		{ 60, 99, 0, 0, 0, ANOMALY_GPU_MEMORY, SEVERITY_MEDIUM },
		{ NAN, 0, 0, 15, 0, ANOMALY_SWAP_STORM, -1 },
		{ NAN, 0, 0, 16, 0, ANOMALY_SWAP_STORM, SEVERITY_MEDIUM },
		{ NAN, 0, 0, 16, 10, ANOMALY_SWAP_STORM, SEVERITY_HIGH },
		{ NAN, 0, 0, 64, 0, ANOMALY_SWAP_STORM, SEVERITY_HIGH },
		{ NAN, 0, 0, 64, 10, ANOMALY_SWAP_STORM, SEVERITY_CRITICAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct seen *s;
		struct host h;

		rule_at_hand = rules[i];
		host_open(&h, 5);
		play(&h, 60, break_rule);
		s = host_find(&h, rules[i].type, EPISODE_BEGAN);
		assert_int_equal(s ? (int)s->e.worst.severity : -1, rules[i].severity);
		host_close(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpus),
		cmocka_unit_test(test_a_gpu_that_works_in_bursts_is_not_idle),
		cmocka_unit_test(test_gpu_is_lost),
		cmocka_unit_test(test_how_severe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

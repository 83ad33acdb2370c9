/*
 * Ticks with any values, as a damaged record may have them: whatever they are, an episode begins
 * before it gets worse and ends after, and what is told can be told.
 *
 * The bytes are ticks. Each begins with how many processes it has and how much later it is; a
 * value is a byte that says which of a few it is, or that the next eight are it.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/unknown.h"
#include "detect/detect.h"
#include "fuzz_text.h"

#define MAX_PROCESSES 16

struct bytes {
	const uint8_t *p, *end;
};

static void require(bool truth)
{
	if (!truth)
		abort();
}

static uint8_t take_byte(struct bytes *b)
{
	return b->p < b->end ? *b->p++ : 0;
}

static uint64_t take_u64(struct bytes *b)
{
	static const uint64_t some[] = { 0,	  1,	   100,	       4096,
					 1 << 26, 1 << 30, UINT64_MAX, UINT64_MAX - 1 };
	uint8_t kind = take_byte(b);
	uint64_t v = 0;

	if (kind < 128)
		return some[kind % 8] * (uint64_t)(1 + kind / 8);
	for (int i = 0; i < 8; i++)
		v = v << 8 | take_byte(b);
	return v;
}

static double take_f64(struct bytes *b)
{
	uint8_t kind = take_byte(b);
	uint64_t bits;
	double v;

	if (kind < 200)
		return kind;
	if (kind < 220)
		return F64_UNKNOWN;
	bits = take_u64(b);
	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void fill_process(struct bytes *b, struct proc_sample *p)
{
	static const char *const jobs[] = { NULL, "a", "b", "a" };

	p->key = (struct proc_key){ 1 + take_byte(b) % 20, take_byte(b) % 4 };
	p->ppid = take_byte(b) % 20;
	p->state = "RSDZTtX?"[take_byte(b) % 8];
	p->job_id = jobs[take_byte(b) % 4];
	p->rank = take_byte(b) % 3 - 1;
	p->cpu_percent = take_f64(b);
	p->age_seconds = take_f64(b);
	p->cpu_ns = take_u64(b);
	p->rss_bytes = take_u64(b);
	p->rss_anon_bytes = take_u64(b);
	p->rchar = take_u64(b);
	p->minor_faults = take_u64(b);
	p->threads = take_u64(b);
	p->open_fds = take_u64(b);
	p->fd_limit = take_u64(b);
	p->cgroup = take_byte(b) % 2 ? "/c" : NULL;
}

static void fill_host(struct bytes *b, struct snapshot *s, struct gpu_sample *gpu,
		      struct cgroup_sample *c)
{
	s->system.memory_total_bytes = take_u64(b);
	s->system.memory_available_bytes = take_u64(b);
	s->system.psi_memory.full.avg10 = take_f64(b);
	s->system.psi_io.full.avg10 = take_f64(b);
	s->system.swap_in_bytes = take_u64(b);
	s->system.swap_out_bytes = take_u64(b);
	s->system.oom_kills_total = take_u64(b);
	gpu_sample_init(gpu);
	gpu->index = take_byte(b) - 3;
	gpu->utilization_pct = take_f64(b);
	gpu->memory_used_mb = take_f64(b);
	gpu->memory_total_mb = take_f64(b);
	gpu->temperature_c = take_f64(b);
	gpu->throttle = take_u64(b);
	s->gpus = gpu;
	s->n_gpus = 1;
	cgroup_sample_init(c);
	c->path = "/c";
	c->memory_current_bytes = take_u64(b);
	c->memory_max_bytes = take_u64(b);
	c->psi_memory.full.avg10 = take_f64(b);
	c->oom_kills = take_u64(b);
	s->cgroups = c;
	s->n_cgroups = 1;
}

static void check_change(const struct detect_change *c)
{
	const struct episode *e = c->episode;

	require(e->worst.text[0] && memchr(e->worst.text, '\0', sizeof(e->worst.text)));
	require(anomaly_type_name(e->worst.type) && severity_name(e->worst.severity));
	require(e->count >= 1 && e->name[0]);
	require((c->change == EPISODE_CLEARED) == u64_known(e->ended_wall_ns));
	require((c->change == EPISODE_CLEARED) == (e->why_cleared != NULL));
	require(c->change != EPISODE_CLEARED || e->ended_wall_ns >= e->began_wall_ns);
}

/* Writing it must not fail whatever it holds. */
static void write_change(const struct detect_change *c)
{
	struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	episode_write_event(&j, c->episode, c->change, 1);
	require(buf_error(&out) == 0);
	buf_release(&out);
}

static void tick(struct bytes *b, struct detect *d, struct snapshot *s)
{
	struct gpu_sample gpu;
	struct cgroup_sample cgroup;
	struct proc_event kill = { .type = EVENT_OOM, .key = { 3, 1 }, .job_id = "a" };
	const struct detect_news news = { .snap = s,
					  .events = &kill,
					  .n_events = take_byte(b) % 16 == 1 };
	uint64_t later_ns = (uint64_t)take_byte(b) * 1000000000;
	uint64_t boot_ns = s->boot_ns, wall_ns = s->wall_ns;
	size_t n = take_byte(b) % MAX_PROCESSES;
	struct detect_changes changes;

	snapshot_reset(s);
	s->boot_ns = boot_ns + later_ns;
	s->wall_ns = wall_ns + later_ns;
	memcpy(s->boot_id, take_byte(b) % 32 == 1 ? "x" : "y", 2);
	fill_host(b, s, &gpu, &cgroup);
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = snapshot_add_process(s);

		require(p != NULL);
		fill_process(b, p);
	}
	require(detect_tick(d, &news, &changes) == 0);
	for (size_t i = 0; i < changes.n; i++) {
		check_change(&changes.items[i]);
		write_change(&changes.items[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = { data, data + size };
	struct detect_changes changes;
	struct config config;
	struct snapshot s;
	struct detect *d;

	config_init(&config);
	d = detect_new(&config.anomaly, DETECT_ALL);
	require(d != NULL);
	snapshot_init(&s);
	s.boot_ns = s.wall_ns = UINT64_C(1000000000000);
	while (b.p < b.end)
		tick(&b, d, &s);
	require(detect_end_job(d, NULL, &changes) == 0);
	require(detect_active(d, 0) == NULL);
	snapshot_release(&s);
	detect_free(d);
	config_release(&config);
	return 0;
}

/*
 * Recorded workloads in which nothing is wrong (tests/data/quiet-*.jsonl.gz, made by
 * tests/data/record): nothing is told at high or critical, and hardly anything at all. Each is
 * played as it was recorded, every second, and as who looks every five seconds sees it. (While
 * they were recorded the kernel killed processes of somebody else on the host, which is true, and
 * told as such.) What the checks of the reference implementation say of the same ticks is printed
 * beside it.
 */
#include "detect_fixture.h"

#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

#define N_RECORDINGS 6
#define LEAST_SECONDS 600
#define MAX_TOLD 3 /* of each recording, at low and medium */
#define HISTORY 60 /* snapshots that the reference implementation looks back */
#define LINE_BYTES (1 << 20)

struct recording {
	gzFile file;
	json_t *head; /* its first line */
	json_t *rows; /* "pid.start" -> the whole row of each process of the last tick */
	json_t *cpu;  /* the same -> its CPU time when it was last played */
	double first, last, played; /* timestamps */
	char line[LINE_BYTES];
};

static json_t *next_line(struct recording *r)
{
	return gzgets(r->file, r->line, sizeof(r->line)) ? json_loads(r->line, 0, NULL) : NULL;
}

static struct recording *recording_open(const char *path)
{
	struct recording *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->file = gzopen(path, "r");
	assert_non_null(r->file);
	r->head = next_line(r);
	assert_non_null(r->head);
	r->rows = json_object();
	r->cpu = json_object();
	r->first = r->played = F64_UNKNOWN;
	return r;
}

static void recording_close(struct recording *r)
{
	gzclose(r->file);
	json_decref(r->head);
	json_decref(r->rows);
	json_decref(r->cpu);
	free(r);
}

/* The value in the column of this name. */
static json_t *column(const struct recording *r, const char *table, json_t *row, const char *name)
{
	json_t *names = json_object_get(r->head, table);

	for (size_t i = 0; i < json_array_size(names); i++)
		if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
			return json_array_get(row, i);
	fail_msg("no column %s", name);
	return NULL;
}

static double number(json_t *v)
{
	return json_is_number(v) ? json_number_value(v) : F64_UNKNOWN;
}

static uint64_t count(json_t *v, uint64_t unit)
{
	return json_is_number(v) ? (uint64_t)json_number_value(v) * unit : U64_UNKNOWN;
}

static const char *cgroup_path(struct host *h, json_t *number)
{
	char path[32];

	if (!json_is_integer(number))
		return NULL;
	snprintf(path, sizeof(path), "/quiet-%lld", (long long)json_integer_value(number));
	return arena_strdup(&h->snap.arena, path);
}

/* ---- processes ---- */

static void name_of(const struct recording *r, json_t *row, char name[64])
{
	snprintf(name, 64, "%lld.%lld",
		 (long long)json_integer_value(column(r, "process", row, "pid")),
		 (long long)json_integer_value(column(r, "process", row, "start_ticks")));
}

/* What the rows of a tick leave out is as it was at the one before. */
static void complete(struct recording *r, json_t *rows)
{
	json_t *now = json_object();
	char name[64];

	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i), *old;

		name_of(r, row, name);
		old = json_object_get(r->rows, name);
		for (size_t k = 0; old && k < json_array_size(row); k++)
			if (json_is_null(json_array_get(row, k)))
				json_array_set(row, k, json_array_get(old, k));
		json_object_set(now, name, row);
	}
	json_decref(r->rows);
	r->rows = now;
}

/* Since it was last played. */
static double cpu_percent(struct recording *r, json_t *row, double now)
{
	json_t *cpu = column(r, "process", row, "cpu_seconds"), *before;
	double percent = F64_UNKNOWN;
	char name[64];

	name_of(r, row, name);
	before = json_object_get(r->cpu, name);
	if (json_is_number(before) && json_is_number(cpu))
		percent = (json_number_value(cpu) - json_number_value(before)) / 1e4 /
			  (now - r->played);
	json_object_set(r->cpu, name, cpu);
	return percent;
}

static void add_process(struct recording *r, struct host *h, json_t *row, double now)
{
	struct proc_sample *p = snapshot_add_process(&h->snap);
#define COL(name) column(r, "process", row, name)

	assert_non_null(p);
	p->key.pid = (pid_t)json_integer_value(COL("pid"));
	p->key.start_ticks = count(COL("start_ticks"), 1);
	p->ppid = (pid_t)json_integer_value(COL("ppid"));
	p->state = json_string_value(COL("state"))[0];
	snprintf(p->comm, sizeof(p->comm), "%s", json_string_value(COL("comm")));
	p->job_id = arena_strdup(&h->snap.arena, json_string_value(COL("job_id")));
	p->sheet_num = (int)json_integer_value(COL("sheet_num"));
	p->rank = json_is_integer(COL("rank")) ? (int)json_integer_value(COL("rank")) : RANK_NONE;
	p->cgroup = cgroup_path(h, COL("cgroup"));
	p->cpu_percent = cpu_percent(r, row, now);
	p->cpu_ns = count(COL("cpu_seconds"), 1000);
	p->cpu_wait_ns = count(COL("cpu_wait_seconds"), 1000);
	p->age_seconds = now - number(COL("started"));
	p->rss_bytes = count(COL("rss_mb"), 1024);
	p->rss_anon_bytes = count(COL("rss_anon_mb"), 1024);
	p->rss_shmem_bytes = count(COL("rss_shmem_mb"), 1024);
	p->swap_bytes = count(COL("swap_mb"), 1024);
	p->rchar = count(COL("rchar"), 1);
	p->wchar = count(COL("wchar"), 1);
	p->read_bytes = count(COL("read_bytes"), 1);
	p->write_bytes = count(COL("write_bytes"), 1);
	p->minor_faults = count(COL("minor_faults"), 1);
	p->threads = count(COL("threads"), 1);
	p->open_fds = count(COL("open_fds"), 1);
	p->fd_limit = count(COL("fd_limit"), 1);
#undef COL
}

/* ---- cgroups, GPUs and the host ---- */

/* null is a limit that is not set. */
static uint64_t limit_of(json_t *v)
{
	return json_is_null(v) ? MEMORY_UNLIMITED : count(v, 1024);
}

static void add_cgroups(const struct recording *r, struct host *h, json_t *rows)
{
	struct cgroup_sample *list =
		arena_alloc(&h->snap.arena, (json_array_size(rows) + 1) * sizeof(*list));
#define COL(name) column(r, "cgroup", row, name)

	assert_non_null(list);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i);
		cgroup_sample_init(&list[i]);
		list[i].path = cgroup_path(h, COL("path"));
		list[i].memory_current_bytes = count(COL("memory_current_mb"), 1024);
		list[i].memory_high_bytes = limit_of(COL("memory_high_mb"));
		list[i].memory_max_bytes = limit_of(COL("memory_max_mb"));
		list[i].psi_memory.full.avg10 = number(COL("psi_memory_full"));
		list[i].oom_kills = count(COL("oom_kills"), 1);
	}
	h->snap.cgroups = list;
	h->snap.n_cgroups = json_array_size(rows);
#undef COL
}

static void add_gpus(const struct recording *r, struct host *h, json_t *rows)
{
	struct gpu_sample *list =
		arena_alloc(&h->snap.arena, (json_array_size(rows) + 1) * sizeof(*list));
#define COL(name) column(r, "gpu", row, name)

	assert_non_null(list);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i);
		gpu_sample_init(&list[i]);
		list[i].index = (int)json_integer_value(COL("index"));
		list[i].utilization_pct = number(COL("utilization_pct"));
		list[i].memory_used_mb = number(COL("memory_used_mb")) / 1024;
		list[i].memory_total_mb = number(COL("memory_total_mb")) / 1024;
		list[i].temperature_c = number(COL("temperature_c"));
	}
	h->snap.gpus = list;
	h->snap.n_gpus = json_array_size(rows);
#undef COL
}

static void read_host(const struct recording *r, struct host *h, json_t *tick)
{
	struct system_sample *sys = &h->snap.system;
#define COL(name) column(r, "host", tick, name)

	h->snap.wall_ns = (uint64_t)(json_number_value(COL("timestamp")) * 1e9);
	sys->memory_total_bytes = count(COL("system_memory_total_mb"), 1024);
	sys->memory_available_bytes = count(COL("system_memory_available_mb"), 1024);
	sys->psi_memory.full.avg10 = number(COL("psi_memory_full"));
	sys->psi_io.full.avg10 = number(COL("psi_io_full"));
	sys->oom_kills_total = count(COL("oom_kills_total"), 1);
	sys->swap_in_bytes = count(COL("swap_in_mb"), 1024);
	sys->swap_out_bytes = count(COL("swap_out_mb"), 1024);
#undef COL
}

static json_t *list_of(const struct recording *r, json_t *tick, size_t i)
{
	return json_array_get(tick, json_array_size(json_object_get(r->head, "host")) + i);
}

/* False: whoever looks as seldom as that has not looked now. */
static bool play_tick(struct recording *r, struct host *h, json_t *tick, double interval)
{
	double now = json_number_value(column(r, "host", tick, "timestamp"));
	json_t *rows = list_of(r, tick, 0);

	complete(r, rows);
	if (!f64_known(r->first))
		r->first = now;
	r->last = now;
	if (now < r->played + interval)
		return false;
	snapshot_reset(&h->snap);
	read_host(r, h, tick);
	for (size_t i = 0; i < json_array_size(rows); i++)
		add_process(r, h, json_array_get(rows, i), now);
	add_cgroups(r, h, list_of(r, tick, 1));
	add_gpus(r, h, list_of(r, tick, 2));
	r->played = now;
	h->now = now - r->first;
	host_tick(h);
	return true;
}

/* ---- the reference implementation ---- */

struct reference {
	struct compat_snapshot history[HISTORY + 1]; /* and the current one */
	size_t n;
	struct arena arena;
	size_t n_alarms; /* at high or critical */
};

static void count_alarm(void *ctx, const struct anomaly *a)
{
	*(size_t *)ctx += a->severity >= SEVERITY_HIGH;
}

static void copy_processes(const struct snapshot *s, struct compat_process *items,
			   struct compat_snapshot *to)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *p = &s->processes[i];

		items[i] = (struct compat_process){
			.pid = p->key.pid,
			.cpu_percent = f64_known(p->cpu_percent) ? p->cpu_percent : 0,
			.rss_mb = u64_known(p->rss_bytes) ? u64_to_mb(p->rss_bytes) : 0,
		};
		to->zombie_count += p->state == 'Z';
	}
}

static void reference_tick(struct reference *ref, const struct host *h)
{
	const struct snapshot *s = &h->snap;
	struct compat_process *items =
		arena_alloc(&ref->arena, (s->n_processes + 1) * sizeof(*items));
	struct compat_snapshot *to;

	assert_non_null(items);
	if (ref->n > HISTORY)
		memmove(ref->history, ref->history + 1, HISTORY * sizeof(*ref->history));
	else
		ref->n++;
	to = &ref->history[ref->n - 1];
	*to = (struct compat_snapshot){ .timestamp = (double)s->wall_ns / 1e9,
					.processes = items,
					.n_processes = s->n_processes };
	copy_processes(s, items, to);
	assert_int_equal(compat_detect(&h->config.anomaly, ref->history, ref->n - 1, to,
				       count_alarm, &ref->n_alarms),
			 0);
}

/* ---- all of it ---- */

static size_t count_told(const struct host *h, enum severity from, enum severity to)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_seen; i++)
		n += h->seen[i].change != EPISODE_CLEARED && h->seen[i].e.worst.severity >= from &&
		     h->seen[i].e.worst.severity <= to;
	return n;
}

static void play(const char *path, double interval)
{
	struct reference ref = { .arena = ARENA_INIT };
	struct recording *r = recording_open(path);
	static struct host h;
	size_t n = 0;
	json_t *tick;

	host_open(&h, 0);
	while ((tick = next_line(r))) {
		if (play_tick(r, &h, tick, interval)) {
			reference_tick(&ref, &h);
			n++;
		}
		json_decref(tick);
	}
	print_message("# %s: %.0f s, %zu ticks: told at low %zu, medium %zu, high or critical %zu; "
		      "by the reference implementation %zu at high or critical\n",
		      json_string_value(json_object_get(r->head, "what")), r->last - r->first, n,
		      count_told(&h, SEVERITY_LOW, SEVERITY_LOW),
		      count_told(&h, SEVERITY_MEDIUM, SEVERITY_MEDIUM),
		      count_told(&h, SEVERITY_HIGH, SEVERITY_CRITICAL), ref.n_alarms);
	arena_release(&ref.arena);
	host_print(&h);
	assert_true(r->last - r->first >= LEAST_SECONDS);
	assert_int_equal(count_told(&h, SEVERITY_HIGH, SEVERITY_CRITICAL), 0);
	assert_true(count_told(&h, SEVERITY_LOW, SEVERITY_MEDIUM) <= MAX_TOLD);
	host_close(&h);
	recording_close(r);
}

static void test_nothing_is_wrong(void **state)
{
	char pattern[4096];
	glob_t files;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/data/quiet-*.jsonl.gz", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	assert_int_equal(files.gl_pathc, N_RECORDINGS);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		play(files.gl_pathv[i], 0);
		play(files.gl_pathv[i], 5);
	}
	globfree(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_nothing_is_wrong) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

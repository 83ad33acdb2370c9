/*
 * Recorded workloads in which nothing is wrong (tests/data/quiet-*.jsonl, made by
 * tests/data/shrink): nothing is told at high or critical, and hardly anything at all. (While
 * they were recorded the kernel killed processes of somebody else on the host, which is true, and
 * told as such.) What the checks of the reference implementation say of the same ticks is printed
 * beside it.
 */
#include "detect_fixture.h"

#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define MAX_TOLD 2 /* of each recording */
#define HISTORY 60 /* snapshots that the reference implementation looks back */

struct recording {
	FILE *file;
	json_t *head; /* its first line */
	char *line;
	size_t cap;
};

static json_t *next_line(struct recording *r)
{
	ssize_t n = getline(&r->line, &r->cap, r->file);

	return n > 0 ? json_loadb(r->line, (size_t)n, 0, NULL) : NULL;
}

static void recording_open(struct recording *r, const char *path)
{
	*r = (struct recording){ .file = fopen(path, "r") };
	assert_non_null(r->file);
	r->head = next_line(r);
	assert_non_null(r->head);
}

static void recording_close(struct recording *r)
{
	fclose(r->file);
	json_decref(r->head);
	free(r->line);
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

static void add_process(const struct recording *r, struct host *h, json_t *row)
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
	p->cpu_percent = number(COL("cpu_percent"));
	p->cpu_ns = count(COL("cpu_seconds"), 1000);
	p->age_seconds = number(COL("age_seconds"));
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

static void play_tick(const struct recording *r, struct host *h, json_t *tick)
{
	json_t *rows = json_array_get(tick, json_array_size(tick) - 1);
#define COL(name) column(r, "host", tick, name)

	snapshot_reset(&h->snap);
	h->snap.wall_ns = (uint64_t)(json_number_value(COL("timestamp")) * 1e9);
	h->snap.system.memory_total_bytes = count(COL("system_memory_total_mb"), 1024);
	h->snap.system.memory_available_bytes = count(COL("system_memory_available_mb"), 1024);
	h->snap.system.psi_memory.full.avg10 = number(COL("psi_memory_full"));
	h->snap.system.psi_io.full.avg10 = number(COL("psi_io_full"));
	h->snap.system.oom_kills_total = count(COL("oom_kills_total"), 1);
	for (size_t i = 0; i < json_array_size(rows); i++)
		add_process(r, h, json_array_get(rows, i));
	host_tick(h);
#undef COL
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

static void play(const char *path)
{
	struct reference ref = { .arena = ARENA_INIT };
	struct recording r;
	struct host h;
	size_t n = 0;
	json_t *tick;

	recording_open(&r, path);
	host_open(&h, 1);
	for (; (tick = next_line(&r)); n++) {
		play_tick(&r, &h, tick);
		reference_tick(&ref, &h);
		json_decref(tick);
	}
	print_message("# %s: %zu ticks, %zu told; by the reference implementation %zu at high or "
		      "critical\n",
		      json_string_value(json_object_get(r.head, "what")), n,
		      host_count(&h, EPISODE_BEGAN), ref.n_alarms);
	arena_release(&ref.arena);
	host_print(&h);
	assert_true(n >= 50);
	for (size_t i = 0; i < h.n_seen; i++)
		assert_true(h.seen[i].e.worst.severity < SEVERITY_HIGH);
	assert_true(host_count(&h, EPISODE_BEGAN) <= MAX_TOLD);
	host_close(&h);
	recording_close(&r);
}

static void test_nothing_is_wrong(void **state)
{
	char pattern[4096];
	glob_t files;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/data/quiet-*.jsonl", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	assert_int_equal(files.gl_pathc, 4);
	for (size_t i = 0; i < files.gl_pathc; i++)
		play(files.gl_pathv[i]);
	globfree(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_nothing_is_wrong) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

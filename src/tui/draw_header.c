#include <math.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/draw.h"

#define BAR_COLUMNS 24

static void draw_source_note(const struct scene *s, const struct area *a)
{
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, 0, STYLE_BOLD, "proctor");

	x = area_put(a, x + 1, 0, s->source == SOURCE_OWN ? STYLE_WARNING : STYLE_PLAIN,
		     s->source_note);
	if (s->source == SOURCE_DAEMON && f64_known(s->snap.daemon_uptime_seconds) && !s->is_late)
		x = area_printf(a, x, 0, STYLE_PLAIN, ", up %s",
				draw_time(s->snap.daemon_uptime_seconds, room));
	if (s->is_late)
		x = area_printf(a, x, 0, STYLE_BAD, ", this is %llu s old",
				(unsigned long long)s->age_seconds);
	if (s->source == SOURCE_REPLAY && s->replay.gap_ns)
		x = area_printf(a, x, 0, STYLE_WARNING, ", gap of %s skipped",
				draw_span(s->replay.gap_ns, room));
	if (f64_known(s->snap.resolution_seconds))
		area_printf(a, x, 0, STYLE_PLAIN, ", averages of %s",
			    draw_time(s->snap.resolution_seconds, room));
}

/* The clock at the end of the line, and before it what there is room for. */
static void draw_source(const struct scene *s, const struct area *a)
{
	char room[DRAW_NUMBER_BYTES];
	const char *clock = !s->has_snap		 ? ""
			    : s->source == SOURCE_REPLAY ? draw_date(s->snap.wall_ns, room)
							 : draw_clock(s->snap.wall_ns, room);
	struct area note = area_part(a, 0, 0, a->width - (int)strlen(clock) - 1, 1);

	draw_source_note(s, &note);
	area_put_right(a, 0, a->width, 0, STYLE_BOLD, clock);
}

static enum style style_of_share(double share)
{
	return share >= 0.9 ? STYLE_BAD : share >= 0.7 ? STYLE_WARNING : STYLE_GOOD;
}

static void draw_cpu(const struct scene *s, const struct area *a)
{
	double share = scene_cpu_share(s);
	const struct system_sample *host = &s->snap.system;
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, 1, STYLE_TITLE, "CPU  ");

	area_bar(a, x, 1, BAR_COLUMNS, style_of_share(share), share);
	if (s->has_before || s->source == SOURCE_REPLAY)
		x = area_printf(a, x + BAR_COLUMNS + 1, 1, STYLE_PLAIN, "%s %%",
				draw_percent(share * 100, room));
	else /* it takes two looks */
		x = area_put(a, x + BAR_COLUMNS + 1, 1, STYLE_DIM, "measuring");
	if (host->cpu_count > 0) /* 0: nobody has counted them */
		x = area_printf(a, x, 1, STYLE_PLAIN, " of %u", host->cpu_count);
	if (f64_known(host->load1))
		area_printf(a, x + 2, 1, STYLE_PLAIN, "load %.2f %.2f %.2f", host->load1,
			    host->load5, host->load15);
}

/* The shares of the last 10 s in which somebody waited; nothing where the kernel keeps none. */
static void draw_stalls(const struct system_sample *host, const struct area *a, int x)
{
	const struct {
		const char *name;
		double percent;
	} rows[] = { { "cpu", host->psi_cpu.some.avg10 },
		     { "mem", host->psi_memory.some.avg10 },
		     { "io", host->psi_io.some.avg10 } };
	char room[DRAW_NUMBER_BYTES];

	if (isnan(rows[0].percent) && isnan(rows[1].percent) && isnan(rows[2].percent))
		return;
	x = area_put(a, x, 2, STYLE_PLAIN, "stalls");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		x = area_printf(a, x + 1, 2, rows[i].percent >= 10 ? STYLE_WARNING : STYLE_PLAIN,
				"%s %s%%", rows[i].name, draw_percent(rows[i].percent, room));
}

static void draw_memory(const struct scene *s, const struct area *a)
{
	const struct system_sample *host = &s->snap.system;
	char used[DRAW_NUMBER_BYTES], total[DRAW_NUMBER_BYTES];
	double share = F64_UNKNOWN;
	int x = area_put(a, 0, 2, STYLE_TITLE, "MEM  ");

	if (u64_known(host->memory_used_bytes) && u64_known(host->memory_total_bytes) &&
	    host->memory_total_bytes > 0)
		share = (double)host->memory_used_bytes / (double)host->memory_total_bytes;
	area_bar(a, x, 2, BAR_COLUMNS, style_of_share(share), share);
	x = area_printf(a, x + BAR_COLUMNS + 1, 2, STYLE_PLAIN, "%s of %s",
			draw_bytes(host->memory_used_bytes, used),
			draw_bytes(host->memory_total_bytes, total));
	draw_stalls(host, a, x + 2);
}

/* One of which nothing is known is not the one to be shown. */
static const struct gpu_sample *busiest_gpu(const struct snapshot *s)
{
	const struct gpu_sample *busiest = &s->gpus[0];

	for (size_t i = 1; i < s->n_gpus; i++)
		if (f64_known(s->gpus[i].utilization_pct) &&
		    !(busiest->utilization_pct >= s->gpus[i].utilization_pct))
			busiest = &s->gpus[i];
	return busiest;
}

/* The busiest, and how many more there are. */
static int draw_gpu(const struct scene *s, const struct area *a, int x)
{
	const struct gpu_sample *gpu;
	char percent[DRAW_NUMBER_BYTES];

	if (s->snap.n_gpus == 0)
		return x;
	gpu = busiest_gpu(&s->snap);
	x = area_printf(a, x, 3, STYLE_PLAIN, "GPU%d %s %%", gpu->index,
			draw_percent(gpu->utilization_pct, percent));
	if (f64_known(gpu->memory_used_mb) && f64_known(gpu->memory_total_mb))
		x = area_printf(a, x, 3, STYLE_PLAIN, " %.0f/%.0fG", gpu->memory_used_mb / 1024,
				gpu->memory_total_mb / 1024);
	if (f64_known(gpu->temperature_c))
		x = area_printf(a, x, 3, STYLE_PLAIN, " %.0f°", gpu->temperature_c);
	if (s->snap.n_gpus > 1)
		x = area_printf(a, x, 3, STYLE_PLAIN, " +%zu", s->snap.n_gpus - 1);
	return x + 2;
}

static enum style style_of_level(const char *level)
{
	return level[0] == 'h' || level[0] == 'c' ? STYLE_BAD
	       : level[0] == 'm'		  ? STYLE_WARNING
						  : STYLE_PLAIN;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Where only one job is shown, how many attempts of it there are comes first. */
static int draw_job_count(const struct scene *s, const struct area *a, int jobs)
{
	int shown = 0, x = 0;

	for (size_t i = 0; s->job_id && i < s->outline.n; i++)
		shown += s->outline.nodes[i].kind == NODE_JOB && !s->outline.nodes[i].queued;
	if (s->job_id)
		x = area_printf(a, 0, 3, STYLE_PLAIN, "%d of ", shown);
	jobs = jobs > shown ? jobs : shown; /* who has counted them looked before */
	return area_printf(a, x, 3, STYLE_PLAIN, "%d job%s", jobs, plural((uint64_t)jobs));
}

static void draw_counts(const struct scene *s, const struct area *a)
{
	bool is_listed = s->source == SOURCE_DAEMON && s->listed_ns > s->snap.wall_ns;
	int jobs = is_listed ? s->listed_jobs : s->snap.running_jobs; /* what is newer */
	int sheets = is_listed ? s->listed_sheets : s->snap.active_sheets;
	int x = draw_job_count(s, a, jobs);
	uint64_t zombies = snapshot_count_zombies(&s->snap, SNAPSHOT_JOBS); /* as a daemon counts */

	if (s->source == SOURCE_REPLAY)
		x = area_put(a, x, 3, STYLE_PLAIN, ", queued -"); /* nobody has written it down */
	else if (s->n_queued > 0)
		x = area_printf(a, x, 3, STYLE_PLAIN, ", %zu queued", s->n_queued);
	x = area_printf(a, x, 3, STYLE_PLAIN, ", %d sheet%s", sheets, plural((uint64_t)sheets));
	if (s->snap.pressure_level)
		x = area_printf(a, x, 3, style_of_level(s->snap.pressure_level), ", pressure %s",
				s->snap.pressure_level);
	if (zombies > 0)
		x = area_printf(a, x, 3, STYLE_WARNING, ", %llu zombie%s",
				(unsigned long long)zombies, plural(zombies));
	if (u64_known(s->n_anomalies))
		x = area_printf(a, x, 3, s->n_anomalies ? STYLE_BAD : STYLE_PLAIN,
				", %llu anomal%s", (unsigned long long)s->n_anomalies,
				s->n_anomalies == 1 ? "y" : "ies");
	draw_gpu(s, a, x + 2);
}

void draw_header(const struct scene *s, const struct area *a)
{
	draw_source(s, a);
	if (!s->has_snap) {
		area_put(a, 0, 1, STYLE_DIM, "waiting for the first snapshot");
		return;
	}
	draw_cpu(s, a);
	draw_memory(s, a);
	draw_counts(s, a);
}

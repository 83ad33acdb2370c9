#include "tui/draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/unknown.h"
#include "tui/keys.h"

/* ---- the header: how the host is ---- */

#define HEADER_ROWS 4
#define BAR_COLUMNS 24

/* The clock at the end of the line, and before it what there is room for. */
static void draw_source(const struct scene *s, const struct area *row)
{
	char room[DRAW_NUMBER_BYTES];
	const char *clock = !s->has_snap		 ? ""
			    : s->source == SOURCE_REPLAY ? draw_date(s->snap.wall_ns, room)
							 : draw_clock(s->snap.wall_ns, room);
	struct area note = area_part(row, 0, 0, row->width - (int)strlen(clock) - 1, 1), *a = &note;
	int x = area_put(a, 0, 0, STYLE_BOLD, "proctor");

	area_put_right(row, 0, row->width, 0, STYLE_BOLD, clock);
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
	if (host->cpu_count > 0) /* 0: unknown */
		x = area_printf(a, x, 1, STYLE_PLAIN, " of %u", host->cpu_count);
	if (f64_known(host->load1))
		area_printf(a, x + 2, 1, STYLE_PLAIN, "load %.2f %.2f %.2f", host->load1,
			    host->load5, host->load15);
}

/* Behind it the shares of the last 10 s in which something waited. */
static void draw_memory(const struct scene *s, const struct area *a)
{
	const struct system_sample *host = &s->snap.system;
	const struct {
		const char *name;
		double percent;
	} stalls[] = { { "cpu", host->psi_cpu.some.avg10 },
		       { "mem", host->psi_memory.some.avg10 },
		       { "io", host->psi_io.some.avg10 } };
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
	if (isnan(stalls[0].percent) && isnan(stalls[1].percent) && isnan(stalls[2].percent))
		return; /* the kernel keeps none */
	x = area_put(a, x + 2, 2, STYLE_PLAIN, "stalls");
	for (size_t i = 0; i < ARRAY_SIZE(stalls); i++)
		x = area_printf(a, x + 1, 2, stalls[i].percent >= 10 ? STYLE_WARNING : STYLE_PLAIN,
				"%s %s%%", stalls[i].name, draw_percent(stalls[i].percent, used));
}

/* The busiest, and how many more there are. One of which nothing is known is not the busiest. */
static void draw_gpu(const struct snapshot *s, const struct area *a, int x)
{
	const struct gpu_sample *gpu = s->gpus;
	char percent[DRAW_NUMBER_BYTES];

	if (s->n_gpus == 0)
		return;
	for (size_t i = 1; i < s->n_gpus; i++)
		if (f64_known(s->gpus[i].utilization_pct) &&
		    !(gpu->utilization_pct >= s->gpus[i].utilization_pct))
			gpu = &s->gpus[i];
	x = area_printf(a, x, 3, STYLE_PLAIN, "GPU%d %s %%", gpu->index,
			draw_percent(gpu->utilization_pct, percent));
	if (f64_known(gpu->memory_used_mb) && f64_known(gpu->memory_total_mb))
		x = area_printf(a, x, 3, STYLE_PLAIN, " %.0f/%.0fG", gpu->memory_used_mb / 1024,
				gpu->memory_total_mb / 1024);
	if (f64_known(gpu->temperature_c))
		x = area_printf(a, x, 3, STYLE_PLAIN, " %.0f°", gpu->temperature_c);
	if (s->n_gpus > 1)
		area_printf(a, x, 3, STYLE_PLAIN, " +%zu", s->n_gpus - 1);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Where only one job is shown, how many attempts of it there are comes first. */
static void draw_counts(const struct scene *s, const struct area *a)
{
	bool is_listed = s->source == SOURCE_DAEMON && s->listed.wall_ns > s->snap.wall_ns;
	int jobs = is_listed ? s->listed.n_jobs : s->snap.running_jobs; /* what is newer */
	int sheets = is_listed ? s->listed.n_sheets : s->snap.active_sheets, shown = 0, x = 0;
	uint64_t zombies = snapshot_count_zombies(&s->snap, SNAPSHOT_JOBS); /* as a daemon counts */
	const char *level = s->snap.pressure_level;

	for (size_t i = 0; s->job_id && i < s->outline.n; i++)
		shown += s->outline.nodes[i].kind == NODE_JOB && !s->outline.nodes[i].queued;
	if (s->job_id)
		x = area_printf(a, 0, 3, STYLE_PLAIN, "%d of ", shown);
	jobs = jobs > shown ? jobs : shown; /* they were counted before */
	x = area_printf(a, x, 3, STYLE_PLAIN, "%d job%s", jobs, plural((uint64_t)jobs));
	if (s->source == SOURCE_REPLAY)
		x = area_put(a, x, 3, STYLE_PLAIN, ", queued -"); /* not recorded */
	else if (s->listed.n_queued > 0)
		x = area_printf(a, x, 3, STYLE_PLAIN, ", %zu queued", s->listed.n_queued);
	x = area_printf(a, x, 3, STYLE_PLAIN, ", %d sheet%s", sheets, plural((uint64_t)sheets));
	if (level)
		x = area_printf(a, x, 3,
				level[0] == 'h' || level[0] == 'c' ? STYLE_BAD
				: level[0] == 'm'		   ? STYLE_WARNING
								   : STYLE_PLAIN,
				", pressure %s", level);
	if (zombies > 0)
		x = area_printf(a, x, 3, STYLE_WARNING, ", %llu zombie%s",
				(unsigned long long)zombies, plural(zombies));
	if (u64_known(s->past.n_anomalies))
		x = area_printf(a, x, 3, s->past.n_anomalies ? STYLE_BAD : STYLE_PLAIN,
				", %llu anomal%s", (unsigned long long)s->past.n_anomalies,
				s->past.n_anomalies == 1 ? "y" : "ies");
	draw_gpu(&s->snap, a, x + 2);
}

static void draw_header(const struct scene *s, const struct area *a)
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

/* ---- what happened ---- */

static const enum style style_of_kind[] = {
	[EVENT_KIND_PROCESS] = STYLE_DIM,
	[EVENT_KIND_TROUBLE] = STYLE_WARNING,
	[EVENT_KIND_JOB] = STYLE_GOOD,
	[EVENT_KIND_ANOMALY] = STYLE_BAD,
};

/* The number of the attempt stands behind the name of the job, where there are several. */
static void draw_timeline(struct scene *s, const struct area *a)
{
	int rows = a->height - 1;

	s->view.events_y = a->y + 1;
	s->view.event_rows = rows > 0 ? rows : 0;
	if (s->is_in_events && s->view.event_at < s->view.events_up)
		s->view.events_up = s->view.event_at;
	if (s->is_in_events && s->view.event_at >= s->view.events_up + rows)
		s->view.events_up = s->view.event_at - rows + 1;
	area_printf(a, 0, 0, STYLE_TITLE, "WHAT HAPPENED%s%s",
		    s->view.events_up ? " (earlier)" : "",
		    s->hides_births && !s->is_text ? " but births and quiet deaths (e)" : "");
	for (int i = 0; i < rows; i++) {
		const struct scene_event *event = scene_event(s, (size_t)(s->view.events_up + i));
		char room[DRAW_NUMBER_BYTES];
		int x, n;

		if (!event)
			return;
		x = 1 + area_put(a, 0, rows - i, STYLE_DIM, draw_when(s, event->wall_ns, room));
		n = (int)event->which_at;
		if (scene_is_one_of_several(s, event))
			area_printf(a, x, rows - i, style_of_kind[event->kind], "%.*s#%d%s", n,
				    event->text, event->attempt_num, event->text + n);
		else
			area_put(a, x, rows - i, style_of_kind[event->kind], event->text);
		if (s->is_in_events && s->view.events_up + i == s->view.event_at)
			area_select_row(a, rows - i, SELECTED);
	}
}

/* ---- keys ---- */

#define WHOLE_TITLE 46 /* how to go on comes before what it is */
#define TWO_COLUMNS 60 /* from here on the keys are in two */

/* What does not fit is on further pages, of which there are fewer in a terminal that has grown. */
static void draw_help(struct scene *s, const struct area *a)
{
	int columns = a->width >= TWO_COLUMNS ? 2 : 1, rows = a->height > 4 ? a->height - 3 : 1;
	int width = a->width / columns, on_each = rows * columns, n = 0;

	for (size_t i = 0; i < keys_n_rows; i++)
		n += !keys_rows[i].for_replay || s->source == SOURCE_REPLAY;
	s->view.help_pages = (n + on_each - 1) / on_each;
	if (s->view.help_page >= s->view.help_pages)
		s->view.help_page = s->view.help_pages - 1;
	n = -s->view.help_page * on_each;
	for (size_t i = 0; i < keys_n_rows; i++) {
		if (keys_rows[i].for_replay && s->source != SOURCE_REPLAY)
			continue;
		if (n >= 0 && n < on_each) {
			area_put(a, n / rows * width + 1, 2 + n % rows, STYLE_TITLE,
				 keys_rows[i].shown);
			area_put(a, n / rows * width + 9, 2 + n % rows, STYLE_PLAIN,
				 keys_rows[i].help);
		}
		n++;
	}
	area_printf(a, 0, 0, STYLE_BOLD, "%skeys (%s)",
		    a->width >= WHOLE_TITLE ? "proctor top: " : "",
		    s->view.help_page + 1 < s->view.help_pages ? "any key for more, Esc back"
							       : "any key goes back");
}

/* The first are those that are needed most. */
static const char *const live_hints[] = { "? help",   "q quit",	    "Enter detail", "/ search",
					  "f filter", "PMITN sort", "t tree",	    "x end",
					  "s trace",  "p pause",    "Tab events",   NULL };
static const char *const replay_hints[] = { "? help",	 "q quit",    "p pause", ",/. step",
					    "</> speed", "a anomaly", NULL };

/* Those that there is room for, whole. */
static void draw_hints(const struct area *a, int x, const char *const *hints)
{
	for (; *hints && x + (int)strlen(*hints) <= a->width; hints++)
		x = area_put(a, x, 0, STYLE_DIM, *hints) + 2;
}

/* A name of which there is as much as what stands behind it leaves room for; behind may be wider
 * than that. Returns the column behind the name. */
static int draw_asked(const struct area *a, int x, const char *name, int behind)
{
	int room = a->width - x - behind;
	struct area part = area_part(a, x, 0, room > 0 ? room : 0, 1);

	return x + area_put(&part, 0, 0, STYLE_BAD, name);
}

#define SURE "? (y/n)"

static void ask_about_job(const struct scene *s, const struct area *a)
{
	const char *behind = !s->wish.is_queued ? " and end all of it" SURE
			     : s->wish.has_twin ? ", but only what waits of it" SURE
						: ", which waits" SURE;
	int x = s->wish.attempt_num > 0 && s->wish.has_twin
			? area_printf(a, 0, 0, STYLE_BAD, "cancel attempt %d of the job ",
				      s->wish.attempt_num)
			: area_put(a, 0, 0, STYLE_BAD, "cancel the job ");

	if (x + (int)strlen(behind) + 8 > a->width)
		behind += strlen(behind) - strlen(SURE);
	x = draw_asked(a, x, s->wish.job_id, (int)strlen(behind));
	area_put(a, x, 0, STYLE_BAD, behind);
}

static void ask_about_process(const struct scene *s, const struct area *a)
{
	int x = area_printf(a, 0, 0, STYLE_BAD, "send SIG%s to pid %d ",
			    keys_signal_name(s->wish.signal), (int)s->wish.key.pid);
	int columns = (int)strlen(SURE);

	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal != s->wish.signal)
			columns += 4 + (int)strlen(keys_signals[i].name);
	if (columns > a->width - x)
		columns =
			(int)strlen(SURE); /* what can be answered has no room but for yes or no */
	x = draw_asked(a, x, s->wish.command, columns);
	x = area_put(a, x, 0, STYLE_BAD, SURE);
	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal != s->wish.signal)
			x = area_printf(a, x + 2, 0, STYLE_PLAIN, "%c %s", keys_signals[i].key,
					keys_signals[i].name);
}

#define REPLAY_BAR_COLUMNS 10

static void draw_replay(const struct scene *s, const struct area *a)
{
	double span = (double)(s->replay.to_ns - s->replay.from_ns);
	uint64_t gone_ns = u64_delta(s->snap.wall_ns, s->replay.from_ns);
	double at = span > 0 && u64_known(gone_ns) ? (double)gone_ns / span : F64_UNKNOWN;
	char room[DRAW_NUMBER_BYTES];
	int x = area_put(a, 0, 0, STYLE_BOLD,
			 s->replay.is_over ? "end"
			 : s->is_paused	   ? "paused"
					   : "replay");

	x = area_put(a, x + 1, 0, STYLE_PLAIN, draw_clock(s->snap.wall_ns, room));
	if (s->replay.has_fractions && u64_known(s->snap.wall_ns)) /* several moments in a second */
		x = area_printf(a, x, 0, STYLE_PLAIN, ".%u",
				(unsigned)(s->snap.wall_ns / 100000000 % 10));
	x = area_printf(a, x, 0, STYLE_PLAIN, " ×%g", s->replay.speed);
	area_bar(a, x + 1, 0, REPLAY_BAR_COLUMNS, STYLE_BAR, at);
	x += REPLAY_BAR_COLUMNS + 3;
	if (s->filter[0])
		x = area_printf(a, x, 0, STYLE_BOLD, "filter: %s", s->filter) + 2;
	draw_hints(a, x, replay_hints);
}

static void draw_sorts(const struct scene *s, const struct area *a)
{
	int x = area_put(a, 0, 0, STYLE_BOLD, "sort by:");

	for (int i = 0; i < SORTS; i++)
		x = area_printf(a, x + 1, 0, i == (int)s->menu_at ? STYLE_BOLD : STYLE_DIM,
				i == (int)s->menu_at ? "[%s]" : " %s ", sort_names[i]);
	area_put(a, x + 2, 0, STYLE_DIM, "← → Enter");
}

/* What changes the picture comes before what could. */
static void draw_footer(const struct scene *s, const struct area *a)
{
	int x;

	if (s->overlay == OVERLAY_FILTER)
		area_printf(a, 0, 0, STYLE_BOLD, "filter: %s_", s->input);
	else if (s->overlay == OVERLAY_SEARCH)
		area_printf(a, 0, 0, STYLE_BOLD, "search: %s_", s->input);
	else if (s->overlay == OVERLAY_CONFIRM)
		(s->wish.kind == WISH_CANCEL_JOB ? ask_about_job : ask_about_process)(s, a);
	else if (s->overlay == OVERLAY_SORT)
		draw_sorts(s, a);
	else if (s->message[0])
		area_put(a, 0, 0, STYLE_WARNING, s->message);
	else if (s->source == SOURCE_REPLAY) {
		draw_replay(s, a);
	} else {
		x = s->is_paused ? area_put(a, 0, 0, STYLE_BOLD, "PAUSED") + 2 : 0;
		if (s->filter[0])
			x = area_printf(a, x, 0, STYLE_BOLD, "filter: %s", s->filter) + 2;
		draw_hints(a, x, live_hints);
	}
}

/* ---- the screen ---- */

#define MIN_TIMELINE_ROWS 4
#define MIN_DETAIL_ROWS 8

/* The lower part: a quarter for what happened, half for what is selected. */
static int lower_rows(const struct scene *s, int height)
{
	int rows = s->shows_detail ? height / 2 : height / 4;
	int least = s->shows_detail ? MIN_DETAIL_ROWS : MIN_TIMELINE_ROWS;

	if (height < HEADER_ROWS + least + 6)
		return 0; /* there is room for one thing */
	return rows < least ? least : rows;
}

static void draw_panels(struct scene *s, const struct area *all)
{
	int lower = lower_rows(s, all->height);
	int jobs = all->height - HEADER_ROWS - lower - 1;
	struct area header = area_part(all, 0, 0, all->width, HEADER_ROWS);
	struct area middle = area_part(all, 0, HEADER_ROWS, all->width, jobs);
	struct area bottom = area_part(all, 0, HEADER_ROWS + jobs, all->width, lower);

	draw_header(s, &header);
	if (s->shows_detail && lower == 0) {
		/* it has the place of the jobs: nothing there can be clicked on */
		s->view.jobs_y = s->view.events_y = middle.y + middle.height;
		s->view.event_rows = 0;
		draw_detail(s, &middle);
		return;
	}
	draw_jobs(s, &middle);
	if (s->shows_detail)
		draw_detail(s, &bottom);
	else
		draw_timeline(s, &bottom);
}

void draw_scene(struct scene *s, struct grid *g)
{
	struct area all = grid_area(g);
	struct area footer = area_part(&all, 0, all.height - 1, all.width, 1);

	grid_clear(g);
	if (s->overlay == OVERLAY_HELP)
		draw_help(s, &all);
	else
		draw_panels(s, &all);
	area_clear(&footer); /* in a terminal of few rows the header is there too */
	draw_footer(s, &footer);
}

#define PAGE_COLUMNS 120 /* unless $COLUMNS says otherwise */
#define PAGE_ROWS 200	 /* of jobs */

int draw_page(struct scene *s, struct grid *g, uint64_t since_ns, struct buf *out)
{
	const char *columns = getenv("COLUMNS");
	uint64_t width = PAGE_COLUMNS;
	size_t rows = s->outline.n_rows < PAGE_ROWS ? s->outline.n_rows : PAGE_ROWS, events = 0;
	const struct scene_event *event;
	struct area all, part;

	if (columns && (num_parse_u64(columns, &width) < 0 || width < 20 || width > 1000))
		width = PAGE_COLUMNS;
	while ((event = scene_event(s, events)) && event->wall_ns >= since_ns)
		events++;
	rows = rows > 0 ? rows : 1; /* why there is none */
	if (grid_resize(g, (int)width, HEADER_ROWS + 1 + (int)rows + 1 + (int)events) < 0)
		return -ENOMEM;
	all = grid_area(g);
	part = area_part(&all, 0, 0, all.width, HEADER_ROWS);
	draw_header(s, &part);
	part = area_part(&all, 0, HEADER_ROWS, all.width, 1 + (int)rows);
	draw_jobs(s, &part);
	part = area_part(&all, 0, HEADER_ROWS + 1 + (int)rows, all.width, 1 + (int)events);
	if (events > 0)
		draw_timeline(s, &part);
	grid_to_text(g, out);
	if (s->outline.n_rows > rows)
		buf_printf(out, "and %zu more rows\n", s->outline.n_rows - rows);
	if (events > 0)
		buf_add_char(out, '\n');
	return buf_error(out);
}

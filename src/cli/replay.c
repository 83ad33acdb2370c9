#include "cli/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "report/report.h"

#define BUSIEST 10 /* processes of a frame */
#define NOTABLE 5  /* events of a frame that get a line of their own */

/* A job in one snapshot, and at its most so far. */
struct job_peak {
	char name[TWINS_NAME_BYTES]; /* of the job, or of the attempt */
	uint64_t n, rss_bytes;
	double cpu_percent;
	uint64_t max_n, max_rss_bytes, max_rss_ns;
	double max_cpu_percent;
	uint64_t max_cpu_ns;
	bool has_ticks, has_minutes; /* what it was seen in */
	size_t next;		     /* of those in this snapshot: its place and 1; 0: the last */
};

struct peaks {
	struct job_peak *items;
	size_t n, cap;
	struct map by_name; /* there may be very many attempts, of which few are in a snapshot */
	size_t first;	    /* of those: its place and 1 */
};

struct busy {
	struct proc_sample sample;
	char name[TWINS_NAME_BYTES];
	char command[512];
};

struct notable {
	struct proc_event event;
	char name[TWINS_NAME_BYTES];
	char details[128];
};

struct replay {
	struct buf *out;
	struct replay_options options;
	uint64_t first_ns, last_ns, n_snapshots, n_minutes;
	struct peaks all;

	/* of the frame */
	bool is_open;
	uint64_t frame; /* which one, from 1970 on */
	uint64_t n_in_frame, n_minutes_in_frame;
	struct system_sample host;
	struct peaks jobs;
	struct busy busiest[BUSIEST];
	size_t n_busiest;
	uint64_t n_events[N_EVENT_TYPES];
	struct notable notable[NOTABLE];
	size_t n_notable;
	struct buf others; /* lines */
};

static void peaks_release(struct peaks *peaks)
{
	free(peaks->items);
	map_release(&peaks->by_name);
}

static void peaks_clear(struct peaks *peaks)
{
	peaks->n = 0;
	map_clear(&peaks->by_name);
}

struct replay *replay_new(struct buf *out, const struct replay_options *options)
{
	struct replay *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->out = out;
	r->others = (struct buf)BUF_INIT;
	r->options = *options;
	return r;
}

struct replay *replay_free(struct replay *r)
{
	if (!r)
		return NULL;
	peaks_release(&r->all);
	peaks_release(&r->jobs);
	buf_release(&r->others);
	free(r);
	return NULL;
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

/* ---- jobs at their most ---- */

/* As it is called here: its job, or its attempt; "-": of none. */
static const char *name_of(const struct twins *twins, const struct proc_sample *p,
			   char room[TWINS_NAME_BYTES])
{
	if (!p->job_id)
		return "-";
	return twins_name(twins, p->job_id, twins ? twins_num(twins, p->attempt_id) : 0, room);
}

static struct job_peak *peaks_add(struct peaks *peaks, const char *name)
{
	struct job_peak *peak;

	if (peaks->n == peaks->cap) {
		size_t cap = peaks->cap ? peaks->cap * 2 : 8;
		struct job_peak *items = reallocarray(peaks->items, cap, sizeof(*items));

		if (!items)
			return NULL;
		peaks->items = items;
		peaks->cap = cap;
	}
	if (map_put(&peaks->by_name, hash_bytes(HASH_INIT, name, strlen(name)), peaks->n) < 0)
		return NULL;
	peak = &peaks->items[peaks->n++];
	*peak = (struct job_peak){ .rss_bytes = U64_UNKNOWN,
				   .cpu_percent = F64_UNKNOWN,
				   .max_rss_bytes = U64_UNKNOWN,
				   .max_cpu_percent = F64_UNKNOWN };
	copy_text(peak->name, sizeof(peak->name), name);
	return peak;
}

/* The job's place, made if need be; NULL when memory runs out. */
static struct job_peak *peaks_find(struct peaks *peaks, const char *name)
{
	uint64_t at;
	struct job_peak *peak =
		map_get(&peaks->by_name, hash_bytes(HASH_INIT, name, strlen(name)), &at)
			? &peaks->items[at]
			: peaks_add(peaks, name);

	if (peak && peak->n == 0) {
		peak->next = peaks->first;
		peaks->first = (size_t)(peak - peaks->items) + 1;
	}
	return peak;
}

/* Of a minute there are averages, of all who were there at some time of it: no count of a moment.
 */
static void peak_settle(struct job_peak *peak, uint64_t wall_ns, bool is_minute)
{
	peak->has_minutes |= is_minute && peak->n > 0;
	peak->has_ticks |= !is_minute && peak->n > 0;
	if (!is_minute && peak->n > peak->max_n)
		peak->max_n = peak->n;
	if (u64_known(peak->rss_bytes) &&
	    (!u64_known(peak->max_rss_bytes) || peak->rss_bytes > peak->max_rss_bytes)) {
		peak->max_rss_bytes = peak->rss_bytes;
		peak->max_rss_ns = wall_ns;
	}
	if (f64_known(peak->cpu_percent) && !(peak->cpu_percent <= peak->max_cpu_percent)) {
		peak->max_cpu_percent = peak->cpu_percent;
		peak->max_cpu_ns = wall_ns;
	}
	peak->n = 0;
	peak->rss_bytes = U64_UNKNOWN;
	peak->cpu_percent = F64_UNKNOWN;
}

/* Adds a snapshot's processes up by job. */
static int peaks_take(struct peaks *peaks, const struct twins *twins, const struct snapshot *snap)
{
	char room[TWINS_NAME_BYTES];

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		struct job_peak *peak = peaks_find(peaks, name_of(twins, p, room));

		if (!peak)
			return -ENOMEM;
		peak->n++;
		peak->rss_bytes = u64_add_known(peak->rss_bytes, p->rss_bytes);
		if (f64_known(p->cpu_percent))
			peak->cpu_percent = p->cpu_percent +
					    (f64_known(peak->cpu_percent) ? peak->cpu_percent : 0);
	}
	for (; peaks->first > 0; peaks->first = peaks->items[peaks->first - 1].next)
		peak_settle(&peaks->items[peaks->first - 1], snap->wall_ns,
			    f64_known(snap->resolution_seconds));
	return 0;
}

static void add_when(struct buf *out, uint64_t wall_ns, bool has_date)
{
	char when[32];
	const char *space = strchr(clock_format_local(wall_ns, when, sizeof(when)), ' ');

	buf_printf(out, " (%s)", has_date || !space ? when : space + 1);
}

static void add_peak(struct buf *out, const struct job_peak *peak, bool has_date)
{
	buf_add_str(out, "  job ");
	cli_add_text(out, peak->name, TWINS_NAME_BYTES);
	if (peak->has_ticks)
		buf_printf(out, ": at most %llu %s, CPU ", (unsigned long long)peak->max_n,
			   peak->max_n == 1 ? "process" : "processes");
	else
		buf_add_str(out, ": highest average of a minute: CPU ");
	if (f64_known(peak->max_cpu_percent)) {
		buf_printf(out, "%.1f %%", peak->max_cpu_percent);
		add_when(out, peak->max_cpu_ns, has_date);
	} else {
		buf_add_char(out, '-');
	}
	buf_add_str(out, ", memory ");
	report_add_bytes(out, peak->max_rss_bytes);
	if (u64_known(peak->max_rss_bytes))
		add_when(out, peak->max_rss_ns, has_date);
	if (peak->has_ticks && peak->has_minutes)
		buf_add_str(out, "; of some minutes the averages alone");
	buf_add_char(out, '\n');
}

/* ---- the busiest processes ---- */

/* By CPU, then by memory; unknown is least. */
static bool is_busier(const struct proc_sample *a, const struct proc_sample *b)
{
	double cpu_a = f64_known(a->cpu_percent) ? a->cpu_percent : -1;
	double cpu_b = f64_known(b->cpu_percent) ? b->cpu_percent : -1;

	if (cpu_a > cpu_b || cpu_a < cpu_b)
		return cpu_a > cpu_b;
	return u64_known(a->rss_bytes) && (!u64_known(b->rss_bytes) || a->rss_bytes > b->rss_bytes);
}

static bool is_same(const struct busy *busy, const struct proc_sample *p, const char *name)
{
	return busy->sample.key.pid == p->key.pid &&
	       busy->sample.key.start_ticks == p->key.start_ticks && strcmp(busy->name, name) == 0;
}

static void busy_set(struct busy *busy, const struct proc_sample *p, const char *name)
{
	busy->sample = *p;
	copy_text(busy->name, sizeof(busy->name), name);
	copy_text(busy->command, sizeof(busy->command), p->command ? p->command : p->comm);
}

/*
 * The list is in order. Who is on it stands where it was at its busiest, so whoever
 * belongs there at the end got there with that very sample.
 */
static void take_process(struct replay *r, const struct proc_sample *p)
{
	char room[TWINS_NAME_BYTES];
	const char *name = name_of(r->options.twins, p, room);
	size_t i = 0;

	while (i < r->n_busiest && !is_same(&r->busiest[i], p, name))
		i++;
	if (i < r->n_busiest && !is_busier(p, &r->busiest[i].sample))
		return;
	if (i == r->n_busiest && r->n_busiest < BUSIEST)
		r->n_busiest++;
	else if (i == r->n_busiest && !is_busier(p, &r->busiest[--i].sample))
		return;
	for (; i > 0 && is_busier(p, &r->busiest[i - 1].sample); i--)
		r->busiest[i] = r->busiest[i - 1];
	busy_set(&r->busiest[i], p, name);
}

static void add_busiest(struct replay *r)
{
	if (r->n_busiest > 0)
		show_process_titles(r->out);
	for (size_t i = 0; i < r->n_busiest; i++) {
		struct busy *busy = &r->busiest[i];

		/* Its strings were the snapshot's, and the entry has moved. */
		busy->sample.job_id = busy->name;
		busy->sample.command = busy->command;
		show_process(r->out, &busy->sample);
	}
}

/* ---- events ---- */

static bool is_notable(const struct proc_event *ev)
{
	return ev->type > EVENT_EXIT || ev->status.signal > 0 || ev->status.exit_code > 0;
}

static void add_notable(struct buf *out, const struct notable *notable)
{
	const struct proc_event *ev = &notable->event;

	buf_add_str(out, "    ");
	show_moment(out, ev->wall_ns);
	buf_printf(out, "  %s", event_type_name(ev->type));
	if (ev->key.pid > 0)
		buf_printf(out, " pid %d", (int)ev->key.pid);
	buf_add_str(out, ", ");
	report_add_status(out, ev->status);
	buf_add_str(out, ", job ");
	show_job(out, notable->name);
	if (notable->details[0])
		buf_add_str(out, ": ");
	cli_add_text(out, notable->details, 60);
	buf_add_char(out, '\n');
}

static void add_events(struct replay *r)
{
	const char *comma = "";
	uint64_t n = 0;

	for (int type = 0; type < N_EVENT_TYPES; type++)
		n += r->n_events[type];
	if (n == 0)
		return;
	buf_add_str(r->out, "  events: ");
	for (int type = 0; type < N_EVENT_TYPES; type++) {
		if (r->n_events[type] == 0)
			continue;
		buf_printf(r->out, "%s%llu %s", comma, (unsigned long long)r->n_events[type],
			   event_type_name((enum event_type)type));
		comma = ", ";
	}
	buf_add_char(r->out, '\n');
	for (size_t i = 0; i < r->n_notable; i++)
		add_notable(r->out, &r->notable[i]);
}

/* ---- frames ---- */

/* "3 snapshots", "2 minutes of averages", or both. */
static void add_count(struct buf *out, uint64_t n_snapshots, uint64_t n_minutes)
{
	if (n_snapshots > 0 || n_minutes == 0)
		buf_printf(out, "%llu %s", (unsigned long long)n_snapshots,
			   n_snapshots == 1 ? "snapshot" : "snapshots");
	if (n_minutes > 0)
		buf_printf(out, "%s%llu %s of averages", n_snapshots > 0 ? ", " : "",
			   (unsigned long long)n_minutes, n_minutes == 1 ? "minute" : "minutes");
}

/* Of the first and the last only a part may have been asked for, or be over yet. */
static void add_frame_title(struct replay *r)
{
	const struct replay_options *o = &r->options;
	uint64_t from_ns = r->frame * o->frame_ns, to_ns = from_ns + o->frame_ns;

	if (o->since_wall_ns > from_ns && o->since_wall_ns < to_ns)
		from_ns = o->since_wall_ns;
	if (o->until_wall_ns > from_ns && o->until_wall_ns < to_ns)
		to_ns = o->until_wall_ns;
	show_moment(r->out, from_ns);
	buf_add_str(r->out, "  ");
	add_count(r->out, r->n_in_frame, r->n_minutes_in_frame);
	buf_add_str(r->out, " in ");
	report_add_duration(r->out, to_ns - from_ns);
	buf_add_char(r->out, '\n');
}

static void end_frame(struct replay *r)
{
	if (!r->is_open)
		return;
	add_frame_title(r);
	if (r->n_in_frame > 0) {
		buf_add_str(r->out, "  ");
		show_host(r->out, &r->host);
		buf_add_char(r->out, '\n');
	}
	for (size_t i = 0; i < r->jobs.n; i++)
		add_peak(r->out, &r->jobs.items[i], false);
	if (r->others.len > 0)
		buf_add(r->out, r->others.data, r->others.len);
	add_events(r);
	add_busiest(r);
	buf_add_char(r->out, '\n');
}

static void enter_frame(struct replay *r, uint64_t wall_ns)
{
	uint64_t frame = wall_ns / r->options.frame_ns;

	if (r->is_open && frame == r->frame)
		return;
	end_frame(r);
	r->is_open = true;
	r->frame = frame;
	r->n_in_frame = r->n_minutes_in_frame = 0;
	peaks_clear(&r->jobs);
	r->n_busiest = 0;
	r->n_notable = 0;
	buf_reset(&r->others);
	memset(r->n_events, 0, sizeof(r->n_events));
}

int replay_snapshot(struct replay *r, const struct snapshot *snap)
{
	enter_frame(r, snap->wall_ns);
	if (r->n_snapshots + r->n_minutes == 0)
		r->first_ns = snap->wall_ns;
	r->last_ns = snap->wall_ns;
	if (f64_known(snap->resolution_seconds)) { /* of the host only GPUs are kept */
		r->n_minutes++;
		r->n_minutes_in_frame++;
	} else {
		r->n_snapshots++;
		r->n_in_frame++;
		r->host = snap->system;
	}
	for (size_t i = 0; i < snap->n_processes; i++)
		take_process(r, &snap->processes[i]);
	if (peaks_take(&r->jobs, r->options.twins, snap) < 0 ||
	    peaks_take(&r->all, r->options.twins, snap) < 0)
		return -ENOMEM;
	return 0;
}

int replay_event(struct replay *r, const struct event_row *row)
{
	char room[TWINS_NAME_BYTES];
	struct notable *notable;

	enter_frame(r, row->event.wall_ns);
	r->n_events[row->event.type]++;
	if (!is_notable(&row->event) || r->n_notable == NOTABLE)
		return 0;
	notable = &r->notable[r->n_notable++];
	notable->event = row->event;
	copy_text(notable->name, sizeof(notable->name),
		  twins_name(r->options.twins, row->event.job_id, row->attempt_num, room));
	copy_text(notable->details, sizeof(notable->details), row->event.details);
	return 0;
}

int replay_other(struct replay *r, uint64_t wall_ns, const char *text, size_t len)
{
	enter_frame(r, wall_ns);
	buf_add_str(&r->others, "  ");
	buf_add(&r->others, text, len);
	buf_add_char(&r->others, '\n');
	return buf_error(&r->others);
}

void replay_end(struct replay *r)
{
	char first[32], last[32];

	end_frame(r);
	if (r->n_snapshots + r->n_minutes == 0)
		return;
	clock_format_local(r->first_ns, first, sizeof(first));
	clock_format_local(r->last_ns, last, sizeof(last));
	buf_printf(r->out, "From %s to %s, ", first, last);
	add_count(r->out, r->n_snapshots, r->n_minutes);
	buf_add_str(r->out, ":\n");
	for (size_t i = 0; i < r->all.n; i++)
		add_peak(r->out, &r->all.items[i], true);
}

#include "sources/gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "sources/sources.h"

/* ---- a reading ---- */

#define GARBAGE_PERCENT 1000
#define COLDEST_C (-100)
#define HOTTEST_C 300 /* of what is still a GPU */
#define MOST_WATTS 10e3
#define FASTEST_MHZ 10e3
#define LARGEST_MB (64.0 * (1 << 20)) /* 64 TiB */

void gpu_reading_init(struct gpu_reading *r)
{
	memset(r, 0, offsetof(struct gpu_reading, processes));
}

size_t gpu_reading_bytes(const struct gpu_reading *r)
{
	return offsetof(struct gpu_reading, processes) + r->n_processes * sizeof(r->processes[0]);
}

void gpu_note_more_devices(struct gpu_reading *r)
{
	gpu_note(r, "only the first %d GPUs are read", GPU_MAX_DEVICES);
	r->n_left_out++; /* who uses the others */
}

struct gpu_sample *gpu_add_device(struct gpu_reading *r, const char *name)
{
	struct gpu_sample *device;

	if (r->n_devices == GPU_MAX_DEVICES) {
		gpu_note_more_devices(r);
		return NULL;
	}
	snprintf(r->names[r->n_devices], GPU_NAME_BYTES, "%s", name ? name : "");
	device = &r->devices[r->n_devices];
	gpu_sample_init(device);
	device->index = (int)r->n_devices++;
	return device;
}

void gpu_add_process(struct gpu_reading *r, const struct gpu_process *p)
{
	for (uint32_t i = 0; i < r->n_processes; i++) {
		struct gpu_process *same = &r->processes[i];

		if (same->device != p->device || !proc_key_is(&same->key, &p->key))
			continue;
		same->memory_bytes = u64_max_known(same->memory_bytes, p->memory_bytes);
		same->utilization_pct = f64_max_known(same->utilization_pct, p->utilization_pct);
		return;
	}
	if (r->n_processes == GPU_MAX_PROCESSES) {
		r->n_left_out++;
		return;
	}
	r->processes[r->n_processes++] = *p;
}

void gpu_note_asked(struct gpu_reading *r, uint64_t boot_ns)
{
	if (r->asked_boot_ns == 0 || boot_ns < r->asked_boot_ns)
		r->asked_boot_ns = boot_ns;
}

void gpu_note_first(char note[GPU_NOTE_BYTES], const char *format, ...)
{
	va_list args;

	if (note[0])
		return;
	va_start(args, format);
	vsnprintf(note, GPU_NOTE_BYTES, format, args);
	va_end(args);
}

static double or_unknown(double percent)
{
	return isfinite(percent) && percent >= 0 && percent <= GARBAGE_PERCENT ? percent
									       : F64_UNKNOWN;
}

double gpu_sane_percent(struct gpu_reading *r, int device, double percent)
{
	percent = or_unknown(percent);
	if (percent > 100)
		gpu_remark(r, "GPU %d says that it is %g %% busy: taken for 100 %%", device,
			   percent);
	return percent > 100 ? 100 : percent;
}

double gpu_sane_share(struct gpu_reading *r, int device, uint64_t pid, double percent)
{
	percent = or_unknown(percent);
	if (percent > 100)
		gpu_remark(r, "process %llu is said to keep GPU %d %g %% busy: taken for 100 %%",
			   (unsigned long long)pid, device, percent);
	return percent > 100 ? 100 : percent;
}

static const struct {
	size_t offset; /* in struct gpu_sample */
	double least, most;
	const char *unit;
} bounds[] = {
	{ offsetof(struct gpu_sample, temperature_c), COLDEST_C, HOTTEST_C, "degrees C" },
	{ offsetof(struct gpu_sample, power_watts), 0, MOST_WATTS, "W" },
	{ offsetof(struct gpu_sample, sm_clock_mhz), 0, FASTEST_MHZ, "MHz" },
	{ offsetof(struct gpu_sample, memory_used_mb), 0, LARGEST_MB, "MB in use" },
	{ offsetof(struct gpu_sample, memory_total_mb), 0, LARGEST_MB, "MB" },
};

static void check_device(struct gpu_reading *r, struct gpu_sample *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		double *value = (double *)(void *)((char *)s + bounds[i].offset);

		if (*value >= bounds[i].least && *value <= bounds[i].most)
			continue;
		if (f64_known(*value))
			gpu_note(r, "GPU %d says that it has %g %s: not taken for true", s->index,
				 *value, bounds[i].unit);
		*value = F64_UNKNOWN;
	}
	if (s->memory_used_mb > s->memory_total_mb) {
		gpu_note(r, "GPU %d says that %g of %g MB are in use: not taken for true", s->index,
			 s->memory_used_mb, s->memory_total_mb);
		s->memory_used_mb = F64_UNKNOWN;
	}
}

/* Where the device does not say how much it has, of any. */
static void check_process(struct gpu_reading *r, struct gpu_process *p)
{
	double total_mb = F64_UNKNOWN, mb = (double)p->memory_bytes / (1 << 20);

	if (p->device >= 0 && (uint32_t)p->device < r->n_devices)
		total_mb = r->devices[p->device].memory_total_mb;
	if (!u64_known(p->memory_bytes) || mb <= fmin(total_mb, LARGEST_MB)) /* skips NaN */
		return;
	gpu_note(r, "process %d is said to hold %g MB of GPU %d: not taken for true",
		 (int)p->key.pid, mb, p->device);
	p->memory_bytes = U64_UNKNOWN;
}

void gpu_check_devices(struct gpu_reading *r, uint32_t first)
{
	for (uint32_t i = first; i < r->n_devices; i++)
		check_device(r, &r->devices[i]);
	for (uint32_t i = 0; i < r->n_processes; i++)
		if (r->processes[i].device >= (int)first)
			check_process(r, &r->processes[i]);
}

/* ---- which GPU has which number, whoever tells of it ---- */

void gpu_make_places_safe(struct gpu_places *p)
{
	if (p->n > GPU_MAX_DEVICES)
		p->n = 0;
	for (uint32_t i = 0; i < GPU_MAX_DEVICES; i++) {
		p->ids[i][GPU_ID_BYTES - 1] = '\0';
		p->names[i][GPU_NAME_BYTES - 1] = '\0';
	}
}

/* ---- how far apart readings are ---- */

void gpu_pace_add(struct gpu_pace *p, uint64_t asked_boot_ns)
{
	uint64_t gap_ns = asked_boot_ns - p->last_boot_ns;

	if (p->n > 0 && asked_boot_ns <= p->last_boot_ns)
		return;
	if (p->n == 1 || (p->n > 1 && gap_ns < p->min_ns))
		p->min_ns = gap_ns;
	if (p->n > 0 && gap_ns > p->max_ns)
		p->max_ns = gap_ns;
	p->last_boot_ns = asked_boot_ns;
	p->n++;
}

static void tell_gap(uint64_t ns, char ret[32])
{
	double seconds = (double)ns / 1e9;

	snprintf(ret, 32, "%.*f s", seconds < 10 ? 2 : 1, seconds);
}

bool gpu_pace_tell(const struct gpu_pace *p, char *ret, size_t size)
{
	char min[32], max[32];

	tell_gap(p->min_ns, min);
	tell_gap(p->max_ns, max);
	if (p->n == 1)
		snprintf(ret, size, "one alone");
	else if (strcmp(min, max) == 0)
		snprintf(ret, size, "%s apart", max);
	else
		snprintf(ret, size, "%s to %s apart", min, max);
	return p->n > 0;
}

/* ---- what was done between two looks ---- */

/* 1: it holds memory there and does nothing. */
static double gpu_idleness_of(const struct gpu_process *p)
{
	if (p->memory_bytes == 0 || p->utilization_pct > 0)
		return 0;
	if (!u64_known(p->memory_bytes) || !f64_known(p->utilization_pct))
		return F64_UNKNOWN;
	return 1;
}

/* Of processes and of spans: both begin with theirs. */
static int compare_keys(const void *a, const void *b)
{
	const struct proc_key *x = a, *y = b;

	return COMPARE(x->pid, y->pid) ?: COMPARE(x->start_ticks, y->start_ticks);
}

void gpu_sort_processes(struct gpu_reading *r)
{
	qsort(r->processes, r->n_processes, sizeof(r->processes[0]), compare_keys);
}

/* Among the first n. */
static const struct gpu_span *find_span(const struct gpu_spans *s, uint32_t n,
					const struct proc_key *key)
{
	return bsearch(key, s->of, n, sizeof(s->of[0]), compare_keys);
}

/* Behind those n that are sorted, if it is not among them. NULL: there is no room. */
static struct gpu_span *make_span(struct gpu_spans *s, uint32_t n, const struct proc_key *key)
{
	const struct gpu_span *found = find_span(s, n, key);

	if (found)
		return &s->of[found - s->of];
	if (s->n == GPU_MAX_PROCESSES) {
		s->is_full = true;
		return NULL;
	}
	s->of[s->n] = (struct gpu_span){ .key = *key };
	return &s->of[s->n++];
}

/* Whether who is not in it used no GPU. */
static bool tells_of_all(const struct gpu_reading *r)
{
	return r->n_left_out == 0 || r->has_holders;
}

static void add_time(struct gpu_mean *m, double value, double ns, bool is_of_all)
{
	if (f64_known(value)) {
		m->sum += value * ns;
		m->more_ns += is_of_all ? 0 : ns;
	} else {
		m->more_ns -= is_of_all ? ns : 0;
	}
}

void gpu_spans_add(struct gpu_spans *s, const struct gpu_reading *r, uint64_t since_ns)
{
	bool is_of_all = tells_of_all(r);
	uint32_t n = s->n, next;

	s->ns += is_of_all ? (double)since_ns : 0;
	for (uint32_t i = 0; i < r->n_processes; i = next) {
		struct gpu_span *span = make_span(s, n, &r->processes[i].key);
		double percent = 0, idleness = 0;

		for (next = i; next < r->n_processes &&
			       compare_keys(&r->processes[i], &r->processes[next]) == 0;
		     next++) {
			percent += r->processes[next].utilization_pct;
			idleness += gpu_idleness_of(&r->processes[next]);
		}
		if (!span)
			continue;
		add_time(&span->percent, percent, (double)since_ns, is_of_all);
		add_time(&span->idleness, idleness, (double)since_ns, is_of_all);
	}
	if (s->n > n)
		qsort(s->of, s->n, sizeof(s->of[0]), compare_keys);
}

static double mean_of(const struct gpu_spans *s, const struct gpu_mean *m, double last)
{
	double told_ns = s->ns + m->more_ns;

	return f64_known(last) && told_ns > 0 ? m->sum / told_ns : last;
}

void gpu_spans_tell(const struct gpu_spans *s, const struct proc_key *key, double *percent,
		    double *idleness)
{
	const struct gpu_span *span = find_span(s, s->n, key);

	if (span) {
		*percent = mean_of(s, &span->percent, *percent);
		*idleness = mean_of(s, &span->idleness, *idleness);
	} else if (s->is_full) {
		*percent = *idleness = F64_UNKNOWN;
	}
}

void gpu_spans_reset(struct gpu_spans *s)
{
	s->ns = s->n = 0;
	s->is_full = false;
}

/*
 * ---- what kept GPUs from being read, and for how long ----
 *
 * Only of the time in which somebody wanted to know: from one look to the next.
 */

#define GPU_MAX_TROUBLES 4

/* One that went wrong, and for how long it did. */
struct gpu_trouble {
	char note[GPU_NOTE_BYTES];
	uint64_t ns;
};

struct gpu_troubles {
	uint64_t looked_boot_ns; /* the last time; at first, when readings began */
	uint64_t all_ns;
	struct gpu_trouble of[GPU_MAX_TROUBLES];
	size_t n;
	uint64_t ns; /* of all, with those that had no room */
};

/* Whether the second is the first, and maybe more: what a lower rung adds is no other trouble. */
static bool goes_on(const char *first, const char *second)
{
	size_t n = strlen(first);

	return strncmp(first, second, n) == 0 && (second[n] == '\0' || second[n] == ';');
}

/* What was wrong since the look before; NULL: nothing. A look from before that one is ignored. */
static void gpu_troubles_add(struct gpu_troubles *t, const char *note, uint64_t boot_ns)
{
	uint64_t since_ns = boot_ns - t->looked_boot_ns;
	struct gpu_trouble *kind = t->of;

	if (boot_ns < t->looked_boot_ns)
		return;
	t->looked_boot_ns = boot_ns;
	t->all_ns += since_ns;
	if (!note)
		return;
	t->ns += since_ns;
	while (kind < t->of + t->n && !goes_on(kind->note, note) && !goes_on(note, kind->note))
		kind++;
	if (kind == t->of + GPU_MAX_TROUBLES)
		return; /* there is no room for another */
	if (kind == t->of + t->n)
		t->n++;
	kind->ns += since_ns;
	if (strlen(note) > strlen(kind->note))
		snprintf(kind->note, sizeof(kind->note), "%s", note);
}

/* The one that lasted longest, and how long all others did; false: there was none. */
static bool gpu_troubles_tell(const struct gpu_troubles *t, char *ret, size_t size)
{
	const struct gpu_trouble *longest = &t->of[0];
	char others[64] = "", times[128];

	if (t->n == 0)
		return false;
	for (size_t i = 1; i < t->n; i++)
		if (t->of[i].ns > longest->ns)
			longest = &t->of[i];
	if (t->ns > longest->ns)
		snprintf(others, sizeof(others), ", something else for %.0f s",
			 (double)(t->ns - longest->ns) / 1e9);
	snprintf(times, sizeof(times), " (for %.0f of %.0f s%s)", (double)longest->ns / 1e9,
		 (double)t->all_ns / 1e9, others);
	snprintf(ret, size, "%.*s%s", (int)(size > sizeof(times) ? size - sizeof(times) : 0),
		 longest->note, times);
	return true;
}

/* A reading is of its interval's worth, and a little more: drivers take their time. */
#define MAX_AGE_INTERVALS 3
#define EXTRA_AGE_NS UINT64_C(10000000000)

struct gpus {
	int fd;
	uint64_t opened_boot_ns, max_age_ns;
	uint64_t cpu_ns;
	bool has_reading;
	char rung[GPU_NAME_BYTES];   /* the last that answered; "": none */
	char remark[GPU_NOTE_BYTES]; /* the last that was made; "": none */
	struct gpu_troubles troubles;
	struct gpu_pace pace;
	struct gpu_spans spans; /* of the readings since the look before */
	bool is_told;		/* at a look; the next reading begins them anew */
	struct gpu_reading now, next;
};

/* ---- readings ---- */

int gpus_open(const struct gpus_options *options, struct gpus **ret, struct err *err)
{
	struct gpus *g;
	int r;

	*ret = NULL;
	if (!sources_has_gpu(options->root_fd))
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	r = gpu_reader_start(options, &g->fd, err);
	if (r < 0) {
		free(g);
		return r;
	}
	g->opened_boot_ns = g->troubles.looked_boot_ns = clock_boot_ns();
	g->max_age_ns =
		(uint64_t)(options->interval_seconds * MAX_AGE_INTERVALS * 1e9) + EXTRA_AGE_NS;
	*ret = g;
	return 0;
}

struct gpus *gpus_close(struct gpus *g)
{
	if (!g)
		return NULL;
	close(g->fd);
	free(g);
	return NULL;
}

/* It comes from a process that a driver may have spoilt. */
static bool is_whole(const struct gpu_reading *r, size_t n)
{
	return n >= offsetof(struct gpu_reading, processes) && r->n_devices <= GPU_MAX_DEVICES &&
	       r->n_processes <= GPU_MAX_PROCESSES && n == gpu_reading_bytes(r) &&
	       memchr(r->rung, '\0', sizeof(r->rung)) && memchr(r->note, '\0', sizeof(r->note)) &&
	       memchr(r->remark, '\0', sizeof(r->remark));
}

/* What a driver says may end on a terminal. */
static void show_safely(char *text, size_t size)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;

	utf8_add_text(&shown, text, strlen(text));
	snprintf(text, size, "%s", shown.data ? shown.data : "");
}

static void take_reading(struct gpus *g, size_t n)
{
	uint64_t since_ns;

	show_safely(g->next.note, sizeof(g->next.note));
	show_safely(g->next.remark, sizeof(g->next.remark));
	show_safely(g->next.rung, sizeof(g->next.rung));
	/* Of a reader that was started again it begins at 0. */
	g->cpu_ns +=
		g->next.cpu_ns >= g->now.cpu_ns ? g->next.cpu_ns - g->now.cpu_ns : g->next.cpu_ns;
	if (g->next.rung[0] && g->next.n_devices > 0)
		gpu_pace_add(&g->pace,
			     g->next.asked_boot_ns ? g->next.asked_boot_ns : g->next.boot_ns);
	gpu_sort_processes(&g->next);
	/* Of a reader that was silent for long nobody knows what was done meanwhile. */
	since_ns = g->next.boot_ns - g->now.boot_ns;
	if (g->has_reading && g->now.rung[0] && g->next.rung[0] &&
	    g->next.boot_ns > g->now.boot_ns && since_ns <= g->max_age_ns)
		gpu_spans_add(&g->spans, &g->next, since_ns);
	memcpy(&g->now, &g->next, n);
	if (g->now.rung[0])
		memcpy(g->rung, g->now.rung, sizeof(g->rung));
	if (g->now.remark[0])
		memcpy(g->remark, g->now.remark, sizeof(g->remark));
	g->has_reading = true;
}

int gpus_fd(const struct gpus *g)
{
	return g->fd;
}

/* Up to the newest that has come. */
bool gpus_take(struct gpus *g)
{
	ssize_t n;

	if (g->is_told)
		gpu_spans_reset(&g->spans);
	g->is_told = false;
	while ((n = recv(g->fd, &g->next, sizeof(g->next), MSG_DONTWAIT)) > 0)
		if (is_whole(&g->next, (size_t)n))
			take_reading(g, (size_t)n);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

void gpus_wait(struct gpus *g, int timeout_ms)
{
	uint64_t deadline_ns = clock_boot_ns() + (uint64_t)timeout_ms * 1000000, now_ns;

	while ((!g->has_reading || g->now.is_interim) && (now_ns = clock_boot_ns()) < deadline_ns) {
		struct pollfd wait = { .fd = g->fd, .events = POLLIN };

		poll(&wait, 1, (int)((deadline_ns - now_ns) / 1000000) + 1);
		if (wait.revents & (POLLERR | POLLHUP) && !(wait.revents & POLLIN))
			return; /* nobody will ever answer */
		if (!gpus_take(g))
			return; /* nor any more */
	}
}

static bool is_recent(const struct gpus *g, uint64_t boot_ns)
{
	uint64_t since_ns = g->has_reading ? g->now.boot_ns : g->opened_boot_ns;

	return boot_ns < since_ns || boot_ns - since_ns <= g->max_age_ns;
}

static bool is_fresh(const struct gpus *g, uint64_t boot_ns)
{
	return g->has_reading && g->now.rung[0] && is_recent(g, boot_ns);
}

/*
 * Whether the drivers have found none after all; who has no rights to a GPU has none. It is no
 * gap in what is known, and nothing to complain of.
 */
static bool has_none(const struct gpus *g, uint64_t boot_ns)
{
	const struct gpu_reading *r = &g->now;

	return g->has_reading && r->n_devices == 0 && (r->is_denied || r->n_left_out == 0) &&
	       is_recent(g, boot_ns);
}

/* What is wrong at that moment; NULL: nothing, or the first reading is not due yet. */
static const char *find_trouble(const struct gpus *g, uint64_t boot_ns)
{
	if (!is_recent(g, boot_ns))
		return "the drivers do not answer";
	if (has_none(g, boot_ns))
		return NULL;
	return g->has_reading && g->now.note[0] ? g->now.note : NULL;
}

void gpus_fill(struct gpus *g, struct snapshot *s)
{
	gpus_take(g);
	gpu_troubles_add(&g->troubles, find_trouble(g, s->boot_ns), s->boot_ns);
	/* Whether it is known how many there are; of those that nobody could read nothing else is.
	 */
	if (!has_none(g, s->boot_ns) &&
	    (!g->has_reading || g->now.n_devices == 0 || !is_recent(g, s->boot_ns)))
		return;
	s->gpus = arena_alloc(&s->arena, (g->now.n_devices + 1) * sizeof(*s->gpus));
	if (!s->gpus)
		return;
	memcpy(s->gpus, g->now.devices, g->now.n_devices * sizeof(*s->gpus));
	s->n_gpus = g->now.n_devices;
	for (uint32_t i = 0; i < g->now.n_processes; i++) {
		const struct gpu_process *p = &g->now.processes[i];

		if (p->device < 0 || (uint32_t)p->device >= g->now.n_devices)
			continue;
		s->gpus[p->device].top_share_pct =
			f64_max_known(s->gpus[p->device].top_share_pct, p->utilization_pct);
	}
}

static void set_use(struct proc_sample *p, uint64_t memory_bytes, double number)
{
	p->gpu_memory_bytes = memory_bytes;
	p->gpu_percent = p->gpu_idle_devices = number;
}

/* Whether the reading says of processes what they use, or at least who uses none. */
static bool is_telling(const struct gpus *g, uint64_t boot_ns)
{
	if (g->has_reading && g->now.has_holders && is_recent(g, boot_ns))
		return true;
	return is_fresh(g, boot_ns) || (!g->now.is_denied && has_none(g, boot_ns));
}

/* Both lists ascend by pid. */
void gpus_fill_processes(struct gpus *g, struct snapshot *s, bool is_between)
{
	const struct gpu_reading *r = &g->now;
	uint32_t at = 0;

	if (!is_between)
		g->is_told = true;
	if (!is_telling(g, s->boot_ns))
		return;
	for (size_t i = 0; i < s->n_processes; i++) {
		struct proc_sample *p = &s->processes[i];
		bool is_listed = false;

		for (; at < r->n_processes && r->processes[at].key.pid < p->key.pid; at++)
			;
		set_use(p, 0, 0);
		for (; at < r->n_processes && r->processes[at].key.pid == p->key.pid; at++)
			if (r->processes[at].key.start_ticks == p->key.start_ticks) {
				p->gpu_memory_bytes =
					u64_add(p->gpu_memory_bytes, r->processes[at].memory_bytes);
				p->gpu_percent += r->processes[at].utilization_pct;
				p->gpu_idle_devices += gpu_idleness_of(&r->processes[at]);
				is_listed = true;
			}
		/* One that is not listed uses none, or is only not seen. */
		if (!is_listed && (!tells_of_all(r) || (r->only_own && p->uid != geteuid())))
			set_use(p, U64_UNKNOWN, F64_UNKNOWN);
		gpu_spans_tell(&g->spans, &p->key, &p->gpu_percent, &p->gpu_idle_devices);
	}
}

/* ---- who answers ---- */

const char *gpus_note(const struct gpus *g)
{
	const char *trouble = find_trouble(g, clock_boot_ns());

	return trouble || !g->now.remark[0] ? trouble : g->now.remark;
}

const char *gpus_rung(const struct gpus *g)
{
	return is_fresh(g, clock_boot_ns()) ? g->now.rung : NULL;
}

bool gpus_tell_trouble(const struct gpus *g, char *ret, size_t size)
{
	if (gpu_troubles_tell(&g->troubles, ret, size))
		return true;
	if (g->has_reading)
		return false;
	snprintf(ret, size, "the run was over before they were read");
	return true;
}

bool gpus_tell_pace(const struct gpus *g, char *ret, size_t size)
{
	return gpu_pace_tell(&g->pace, ret, size);
}

uint64_t gpus_cpu_ns(const struct gpus *g)
{
	return g->cpu_ns;
}

void gpus_tell_rung(const struct gpus *g, struct arena *arena, struct rung *rungs, size_t n)
{
	const char *rung = g->rung[0] ? arena_strdup(arena, g->rung) : NULL;
	const char *trouble = find_trouble(g, clock_boot_ns());
	const char *note = arena_strdup(arena, trouble ? trouble : g->remark[0] ? g->remark : NULL);

	if (!rung && has_none(g, clock_boot_ns()))
		note = g->now.is_denied ? "there is none for this user"
					: "there is a driver, which has found none";

	for (size_t i = 0; i < n; i++) {
		if (strcmp(rungs[i].measurement, SOURCES_RUNG_GPU) != 0)
			continue;
		if (rung)
			rungs[i].rung = rung;
		if (rung || note)
			rungs[i].reason = note ? note : "";
	}
}

#include "detect/check_ranks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "crossrank/method/method.h"
#include "model/rank_memory.h"
#include "stats/order.h"

#define POINTS 64	    /* of the last ticks of each rank, and of its whole run */
#define MORE 1.25	    /* times what a look saw and did not name: that is news */
#define FORGET 0.02	    /* of what was, at each tick */
#define POINTS_PER_SAMPLE 3 /* that looks may read on average */
#define LOOKS_SAVED 8	    /* at most, and at first */
#define AGAIN_SECONDS 8	    /* after a look without a name, and twice that after the next one */
#define CONFIRM_TICKS 3
#define MISSED_TICKS 2	 /* without a rank: what comes later is another process */
#define EARLY_SECONDS 60 /* a rise that began so soon may be a load... */
#define LOAD_SECONDS 20	 /* ...until it is so old */
#define MAX_RANKS 1024	 /* of one host; further ones are not compared */
#define MAX_FORKS 65536	 /* of which the sharing of pages is remembered */

/* Seconds after the origin of the watch. */
struct rank_points {
	float t[POINTS], mib[POINTS];
	size_t n;
};

struct rank_line {
	int rank;
	struct rank_points recent, whole;
	double now_mib, seen; /* at the last tick that showed it */
	unsigned n_missed;    /* ticks since then */
	double away;	      /* from the median of its peers */
	double low;	      /* the least of that, of late; NaN: none yet */
	double refused;	      /* how far it had moved from there when a look did not name it */
	struct proc_key key;  /* its largest process at this tick */
	char comm[COMM_BYTES];
	uint64_t largest_bytes;
};

struct rank_watch {
	struct rank_memory memory;
	struct rank_line *lines; /* by rank */
	size_t n, cap;
	int sheet_num;
	bool is_gpu;
	double now, origin;
	double every, last_point; /* of the whole run: seconds between points; the last one */
	double credits;
	double look_at; /* whatever the distances are; INFINITY: never */
	unsigned n_again;
	int suspect;		 /* the rank that the last look named; RANK_NONE */
	struct rank_line *found; /* NULL: none; copied, as lines move */
	bool has_found;		 /* one, since the sheet began: no other observer has */
	double found_before_mib;
	enum severity severity;
	char text[ANOMALY_TEXT_BYTES];
};

struct rank_watch *rank_watch_free(struct rank_watch *w)
{
	if (!w)
		return NULL;
	rank_memory_release(&w->memory);
	free(w->lines);
	free(w->found);
	free(w);
	return NULL;
}

static int compare_lines(const void *l, const void *r)
{
	const struct rank_line *a = l, *b = r;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static struct rank_line *find_line(struct rank_watch *w, int rank)
{
	const struct rank_line key = { .rank = rank };

	return w->n == 0 ? NULL : bsearch(&key, w->lines, w->n, sizeof(key), compare_lines);
}

/* Another sheet, or another measure: nothing of before can be compared. */
static void forget(struct rank_watch *w, int sheet_num)
{
	w->n = 0;
	w->found = (free(w->found), NULL);
	w->has_found = w->is_gpu = false;
	w->sheet_num = sheet_num;
	w->suspect = RANK_NONE;
	w->look_at = INFINITY;
	w->origin = w->last_point = NAN;
	w->every = 0;
	w->credits = INFINITY;
	w->n_again = 0;
}

int rank_watch_add(struct rank_watch **watch, const struct proc_sample *p)
{
	struct rank_watch *w = *watch;
	struct rank_line *line;
	size_t at;

	if (!w) {
		w = *watch = calloc(1, sizeof(*w));
		if (!w)
			return -ENOMEM;
		forget(w, p->sheet_num);
	}
	if (p->sheet_num < w->sheet_num) /* it outlives its sheet */
		return 0;
	if (p->sheet_num > w->sheet_num)
		forget(w, p->sheet_num);
	line = find_line(w, p->rank);
	if (!line) {
		if (w->n == MAX_RANKS)
			return 0;
		if (ARRAY_RESERVE(w->lines, w->cap, w->n + 1) < 0)
			return -ENOMEM;
		for (at = w->n++; at > 0 && w->lines[at - 1].rank > p->rank; at--)
			;
		line = w->lines + at;
		memmove(line + 1, line, (w->n - 1 - at) * sizeof(*line));
		*line = (struct rank_line){ .rank = p->rank, .low = NAN };
	}
	if (!line->key.pid || (u64_known(p->rss_bytes) && p->rss_bytes > line->largest_bytes)) {
		line->key = p->key;
		memcpy(line->comm, p->comm, sizeof(line->comm));
		line->largest_bytes = u64_known(p->rss_bytes) ? p->rss_bytes : 0;
	}
	return rank_memory_add(&w->memory, p);
}

static int take_holding(void *ctx, const struct rank_holding *h)
{
	struct rank_watch *w = ctx;
	struct rank_line *line;
	uint64_t bytes;

	if (h->sheet_num != w->sheet_num)
		return 0;
	if (h->uses_gpu && !w->is_gpu) {
		w->is_gpu = true;
		for (size_t i = 0; i < w->n; i++) {
			w->lines[i].recent.n = w->lines[i].whole.n = 0;
			w->lines[i].low = NAN;
		}
	}
	line = find_line(w, h->rank);
	bytes = w->is_gpu ? h->gpu_bytes : h->bytes;
	if (!line || !u64_known(bytes))
		return 0;
	line->now_mib = u64_to_mb(bytes);
	line->seen = w->now;
	return 0;
}

static void add_point(struct rank_points *p, double t, double mib)
{
	p->t[p->n] = (float)t;
	p->mib[p->n++] = (float)mib;
}

/* All points so far at half the rate, the last one among them. */
static void thin_out(struct rank_points *p)
{
	size_t n = 0;

	for (size_t k = p->n % 2; k < p->n; k += 2, n++) {
		p->t[n] = p->t[k + 1];
		p->mib[n] = p->mib[k + 1];
	}
	p->n = n;
}

static void add_points(struct rank_watch *w)
{
	bool is_full = false, is_due;

	if (isnan(w->origin))
		w->origin = w->last_point = w->now;
	is_due = w->now - w->last_point >= 0.9 * w->every;
	for (size_t i = 0; i < w->n; i++)
		is_full |= w->lines[i].whole.n == POINTS;
	for (size_t i = 0; i < w->n; i++) {
		struct rank_line *line = &w->lines[i];

		if (is_full && is_due)
			thin_out(&line->whole);
		if (line->seen < w->now)
			continue;
		if (line->recent.n == POINTS) { /* the oldest quarter goes */
			struct rank_points *p = &line->recent;

			p->n -= POINTS / 4;
			memmove(p->t, p->t + POINTS / 4, p->n * sizeof(*p->t));
			memmove(p->mib, p->mib + POINTS / 4, p->n * sizeof(*p->mib));
		}
		add_point(&line->recent, w->now - w->origin, line->now_mib);
		if (is_due)
			add_point(&line->whole, w->now - w->origin, line->now_mib);
	}
	if (is_due)
		w->last_point = w->now;
	if (is_full && is_due)
		w->every = 2 * (w->now - w->origin) / POINTS;
}

/* How far each rank is from its peers. True: one has moved further than looks have seen. */
static bool has_moved(struct rank_watch *w, double *values)
{
	size_t n = 0;
	double middle;
	bool has_moved = false;

	for (size_t i = 0; i < w->n; i++)
		if (w->lines[i].seen == w->now)
			values[n++] = w->lines[i].now_mib;
	if (n < 2)
		return false;
	middle = noise_median(values, n);
	for (size_t i = 0; i < w->n; i++) {
		struct rank_line *line = &w->lines[i];
		double away = line->now_mib - middle;

		if (line->seen < w->now)
			continue;
		line->away = away;
		line->low = isnan(line->low) ? away
					     : fmin(away, line->low + FORGET * (away - line->low));
		line->refused *= 1 - FORGET;
		/* Of two ranks each is half as far from the median as from the other. */
		if (away - line->low > fmax(CULPRIT_LEAST / 2, MORE * line->refused))
			has_moved = true;
	}
	return has_moved;
}

/* The sentence of the answer that names rises[0]. */
static void describe(struct rank_watch *w, const struct tick *t,
		     const struct culprit_answer *answer)
{
	const struct culprit_rise *rise = &answer->rises[0];
	double ago = w->now - w->origin - rise->best;
	uint64_t onset_ns = t->snap->wall_ns - (uint64_t)(fmax(ago, 0) * 1e9);
	bool is_alone = answer->why == WHY_ALONE;
	char since[32], rate[32];

	snprintf(rate, sizeof(rate), rise->is_step ? "+%.0f MB at once" : "+%.1f MB/s",
		 rise->is_step ? rise->gain : rise->rate);
	snprintf(w->text, sizeof(w->text),
		 "rank %d (%s, pid %d) %s of %zu ranks here: %s since %s (%s, probability %.2f)",
		 w->found->rank, w->found->comm, (int)w->found->key.pid,
		 is_alone ? "alone leaves its peers," : "began to grow first", w->n, rate,
		 clock_format_local(onset_ns, since, sizeof(since)), is_alone ? "alone" : "first",
		 answer->probability);
	w->found_before_mib = w->found->now_mib - rise->total;
	w->severity =
		rise->is_step || !(u64_to_mb(t->snap->system.memory_available_bytes) / rise->rate <=
				   t->config->memory_leak_horizon_seconds)
			? SEVERITY_MEDIUM
			: SEVERITY_HIGH;
}

/* Of the points of the last ticks, or of the whole run. -ENOMEM. */
static int ask(struct rank_watch *w, bool is_whole, struct arena *arena, struct culprit_answer *ret)
{
	struct culprit_rank *ranks = arena_alloc(arena, (w->n + 1) * sizeof(*ranks));
	size_t n = 0;
	int r;

	for (size_t i = 0; ranks && i < w->n; i++) {
		const struct rank_line *line = &w->lines[i];
		const struct rank_points *p = is_whole ? &line->whole : &line->recent;
		double *at = arena_alloc(arena, (2 * p->n + 1) * sizeof(*at));

		if (!at)
			return -ENOMEM;
		for (size_t k = 0; k < p->n; k++) {
			at[k] = (double)p->t[k];
			at[p->n + k] = (double)p->mib[k];
		}
		if (p->n == 0)
			continue;
		ranks[n] = (struct culprit_rank){
			.t = at,
			.mib = at + p->n,
			.n = p->n,
			.start = NAN,
			.end = line->n_missed >= MISSED_TICKS ? line->seen - w->origin : NAN,
			.rank = i,
		};
		n++;
	}
	r = ranks ? culprit_find(ranks, n, arena, ret) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < ret->n_rises; i++)
		ret->rises[i].record = ranks[ret->rises[i].record].rank;
	return r;
}

/* A rank is found when two looks in a row name it. -ENOMEM. */
static int look(struct rank_watch *w, const struct tick *t)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	double step = f64_known(t->step) ? t->step : 1, young = 0;
	struct culprit_answer answer;
	int r = ask(w, false, &arena, &answer), named = RANK_NONE;

	if (r == 0 && verdict_of(answer.why) != VERDICT_NAMED && w->every > 0)
		r = ask(w, true, &arena, &answer);
	if (r < 0)
		return r;
	for (size_t i = 0; i < w->n; i++)
		if (verdict_of(answer.why) != VERDICT_NAMED)
			w->lines[i].refused =
				fmax(w->lines[i].refused, w->lines[i].away - w->lines[i].low);
	if (verdict_of(answer.why) == VERDICT_NAMED) {
		double onset = answer.rises[0].best;

		named = w->lines[answer.rises[0].record].rank;
		if (onset < EARLY_SECONDS)
			young = LOAD_SECONDS - (w->now - w->origin - onset);
	}
	if (named == RANK_NONE) {
		w->look_at = w->n_again < 2 ? w->now + AGAIN_SECONDS * (1 + w->n_again) : INFINITY;
		w->n_again++;
	} else if (young > 0 || named != w->suspect) {
		w->look_at = w->now + fmax(young, CONFIRM_TICKS * step);
	} else {
		w->found = malloc(sizeof(*w->found));
		if (!w->found)
			return -ENOMEM;
		*w->found = w->lines[answer.rises[0].record];
		w->has_found = true;
		describe(w, t, &answer);
	}
	w->suspect = named;
	return 0;
}

int rank_watch_end_tick(struct rank_watch *w, const struct tick *t)
{
	CLEANUP(free_ptr) double *values = malloc((w->n + 1) * sizeof(*values));
	double n_points = 0;
	int r;

	if (!values)
		return -ENOMEM;
	w->now = t->now;
	if (w->memory.n_forks > MAX_FORKS) { /* without these nothing can be compared */
		rank_memory_release(&w->memory);
		forget(w, w->sheet_num);
		return 0;
	}
	r = rank_memory_end_tick(&w->memory, take_holding, w);
	for (size_t i = 0; i < w->n; i++) {
		struct rank_line *line = &w->lines[i];

		line->largest_bytes = 0;
		/* It has given its memory back, or another process has its number. */
		if (w->found && w->found->rank == line->rank && line->seen == w->now &&
		    (line->n_missed >= MISSED_TICKS ||
		     line->now_mib < w->found_before_mib + CULPRIT_LEAST)) {
			w->found = (free(w->found), NULL);
			w->suspect = RANK_NONE;
		}
		if (line->seen == w->now && line->n_missed >= MISSED_TICKS) {
			line->recent.n = line->whole.n = 0;
			line->low = NAN;
		}
		line->n_missed = line->seen == w->now ? 0 : line->n_missed + 1;
	}
	if (r < 0 || w->found)
		return r;
	add_points(w);
	for (size_t i = 0; i < w->n; i++)
		n_points +=
			(double)(w->lines[i].recent.n + (w->every > 0 ? w->lines[i].whole.n : 0));
	w->credits = fmin(w->credits + POINTS_PER_SAMPLE * (double)w->n,
			  LOOKS_SAVED * 2 * POINTS * (double)w->n);
	if (has_moved(w, values) || w->credits >= 0.9 * LOOKS_SAVED * 2 * POINTS * (double)w->n) {
		w->n_again = 0;
		w->look_at = fmin(w->look_at, w->now);
	}
	if (w->now < w->look_at || w->credits < n_points)
		return 0;
	w->credits -= n_points;
	w->look_at = INFINITY;
	return look(w, t);
}

void rank_watch_blame(const void *watch, struct subject *who)
{
	const struct rank_watch *w = watch;

	who->key = w->found->key;
	who->comm = w->found->comm;
	who->sheet_num = w->sheet_num;
}

/* ---- a rank that leaves its peers ----
 *
 * As docs/ranks-method.md describes it, of the ranks that run on this host.
 *
 *	high		at its rate memory is full within memory_leak_horizon_seconds
 *	medium		otherwise
 */
void check_ranks(const struct tick *t, const struct job_track *job, struct finding *f)
{
	const struct rank_watch *w = job->ranks;
	const struct rank_line *line;

	(void)t;
	if (!w || w->n < 2)
		return;
	/* What another observer has found goes on: its points are not known here. */
	f->stand = job->active & 1u << ANOMALY_RANK_DIVERGED && !w->has_found ? STAND_BETWEEN
									      : STAND_CLEAR;
	if (!w->found)
		return;
	line = find_line((struct rank_watch *)w, w->found->rank);
	f->value = line ? line->now_mib : w->found->now_mib;
	f->before = w->found_before_mib;
	f->threshold = w->found_before_mib + CULPRIT_LEAST;
	f->stand = line && line->n_missed >= MISSED_TICKS ? STAND_CLEAR : STAND_OVER;
	if (f->stand == STAND_CLEAR)
		return;
	f->severity = w->severity;
	snprintf(f->text, sizeof(f->text), "%s", w->text);
}

#include "tui/recall.h"

#include <stdio.h>
#include <string.h>

#include "base/unknown.h"

#define MAX_SAMPLES 1024 /* that are read for one curve: a megabyte or so of a daemon's words */
#define MAX_READ 16384	 /* of more processes than there are now */
#define LEAST_POINTS 8	 /* fewer are no curve */

bool recall_begin(struct recall *r, const struct scene *s, const struct node *node, uint64_t gap_ns)
{
	size_t n = node->p || node->n_processes == 0 ? 1 : node->n_processes;
	size_t points = MAX_SAMPLES / n < TRACK_POINTS ? MAX_SAMPLES / n : TRACK_POINTS;
	const struct track *track = tracks_find(&s->tracks, node->id);
	uint64_t seen_ns = track && track->n > 0 ? track_wall_ns(track, 0) : s->snap.wall_ns;
	uint64_t span_ns = points * gap_ns;

	if (!node->job_id || node->queued || points < LEAST_POINTS)
		return false;
	*r = (struct recall){
		.id = node->id,
		.attempt_num = node->attempt_num,
		.sheet_num = node->sheet_num,
		.rank = node->rank,
		.since_wall_ns = seen_ns > span_ns ? seen_ns - span_ns : 1,
		.until_wall_ns = seen_ns - 1,
	};
	if (node->p)
		r->key = node->p->key;
	snprintf(r->job_id, sizeof(r->job_id), "%s", node->job_id);
	return true;
}

/* A process is known by itself, whatever sheet it was in. */
static bool is_of(const struct recall *r, int attempt_num, const struct proc_sample *p)
{
	if (r->key.pid)
		return p->key.pid == r->key.pid && p->key.start_ticks == r->key.start_ticks;
	return (r->attempt_num == 0 || attempt_num == r->attempt_num) &&
	       (r->sheet_num == SHEET_NONE || p->sheet_num == r->sheet_num) &&
	       (r->rank == RANK_NONE || p->rank == r->rank);
}

static struct track_point *add_point(struct recall *r, uint64_t wall_ns)
{
	if (r->n == TRACK_POINTS)
		memmove(r->points, r->points + 1, --r->n * sizeof(*r->points));
	r->points[r->n] = (struct track_point){ wall_ns, 0 };
	return &r->points[r->n++];
}

void recall_add(struct recall *r, uint64_t wall_ns, int attempt_num, const struct proc_sample *p)
{
	struct track_point *last = r->n > 0 ? &r->points[r->n - 1] : NULL;

	r->n_read++;
	r->read_wall_ns = wall_ns;
	if (wall_ns > r->until_wall_ns || !u64_known(p->rss_bytes) || !is_of(r, attempt_num, p))
		return;
	if (!last || last->wall_ns != wall_ns)
		last = add_point(r, wall_ns);
	last->rss_bytes += (double)p->rss_bytes;
}

bool recall_is_full(const struct recall *r, uint64_t wall_ns)
{
	return r->n_read >= MAX_READ && wall_ns != r->read_wall_ns;
}

void recall_end(const struct recall *r, struct scene *s)
{
	tracks_put_before(&s->tracks, r->id, r->points, r->n);
}

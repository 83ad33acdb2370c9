/*
 * All numbers of a job, a sheet or a rank.
 */
#include <stdio.h>

#include "tui/draw_detail.h"

static int draw_whose(const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (!node->job_id)
		return detail_line(a, y, "job", "processes of no job");
	buf_add_str(&text, node->job_id);
	if (node->attempt_num > 0)
		buf_printf(&text, ", attempt %d", node->attempt_num);
	if (node->sheet_num != SHEET_NONE)
		buf_printf(&text, ", sheet %d", node->sheet_num);
	if (node->sheet_name)
		buf_printf(&text, " (%s)", node->sheet_name);
	if (node->rank != RANK_NONE)
		buf_printf(&text, ", rank %d", node->rank);
	return detail_line(a, y, "job", buf_error(&text) == 0 ? text.data : node->job_id);
}

static int draw_progress(const struct area *a, int y, const struct job_progress *progress)
{
	char text[256];

	snprintf(text, sizeof(text), "%d of %d sheets done, %s", job_progress_over(progress),
		 progress->total_sheets, progress->status ? progress->status : "-");
	return detail_line(a, y, "progress", text);
}

static int draw_sums(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	char text[256], gpu[DRAW_NUMBER_BYTES + 8] = "", b[5][DRAW_NUMBER_BYTES];

	if (s->snap.n_gpus > 0)
		snprintf(gpu, sizeof(gpu), "GPU %s, ", draw_bytes(node->gpu_bytes, b[3]));
	snprintf(text, sizeof(text), "%zu; CPU %s %%, memory %s, I/O %s, %s%s old",
		 node->n_processes, draw_percent(node->cpu_percent, b[0]),
		 draw_bytes(node->rss_bytes, b[1]), draw_rate(node->io_rate, b[2]), gpu,
		 draw_time(node->age_seconds, b[4]));
	return detail_line(a, y, "processes", text);
}

int draw_group(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	y = draw_whose(a, y, node);
	if (node->queued)
		return detail_line(a, y, "queued", node->queued->why[0] ? node->queued->why : "-");
	if (node->progress)
		y = draw_progress(a, y, node->progress);
	if (node->why_held)
		y = detail_line(a, y, "held", node->why_held);
	y = draw_sums(s, a, y, node);
	return detail_calls(s, a, y, node);
}

/*
 * How a row of the jobs panel is called, and how far a job is.
 */
#include <stdio.h>
#include <string.h>

#include "tui/command.h"
#include "tui/draw.h"

static const char *mark_of(const struct node *node)
{
	return !node->has_children ? "  " : node->is_folded ? "+ " : "- ";
}

static int draw_progress(const struct area *a, int x, int y, const struct job_progress *progress)
{
	int over;

	if (!progress || progress->total_sheets <= 0)
		return x;
	over = job_progress_over(progress);
	if (progress->total_sheets > 1)
		area_bar(a, x + 1, y, 8, STYLE_BAR, (double)over / progress->total_sheets);
	x = progress->total_sheets > 1 ? x + 10 : x + 1;
	x = area_printf(a, x, y, STYLE_DIM, "%d/%d", over, progress->total_sheets);
	if (progress->status && strcmp(progress->status, "running") != 0)
		x = area_printf(a, x + 1, y, STYLE_WARNING, "%s", progress->status);
	return x;
}

/* How many processes, and how far it is, come first: of the name what there is room for. */
static void draw_job(const struct area *a, int x, const struct node *node)
{
	const struct job_progress *progress = node->progress;
	char count[24], which[16] = "", done[32] = "";
	struct area name;
	int tail;

	snprintf(count, sizeof(count), "%zu", node->n_processes);
	if (node->has_twin)
		snprintf(which, sizeof(which), "#%d", node->attempt_num);
	if (progress && progress->total_sheets > 0)
		snprintf(done, sizeof(done), "%s %d/%d",
			 progress->total_sheets > 1 ? "         " : "", job_progress_over(progress),
			 progress->total_sheets);
	tail = 1 + (int)strlen(which) + (int)strlen(count) + (int)strlen(done);
	name = area_part(a, x, 0, a->width - x - tail < 4 ? 4 : a->width - x - tail, 1);
	x += area_put(&name, 0, 0, STYLE_BOLD, node->job_id ? node->job_id : "no job");
	x = area_put(a, x, 0, STYLE_BOLD, which);
	x = area_put(a, x + 1, 0, STYLE_DIM, count);
	draw_progress(a, x, 0, progress);
}

/* As much of it as what stands behind it leaves, and a quarter of the row at least. */
static int draw_waiting_id(const struct area *a, int x, int y, const char *job_id, int behind)
{
	int room = a->width - x - behind, least = a->width / 4;
	struct area name = area_part(a, x, y, room > least ? room : least, 1);

	return x + area_put(&name, 0, 0, STYLE_BOLD, job_id);
}

/* Between two sheets it has no numbers either: how far it is, and why it waits. */
static void draw_held(const struct area *a, int x, int y, const struct node *node)
{
	x = draw_waiting_id(a, x, y, node->job_id, 24 + (int)strlen(node->why_held));
	x = draw_progress(a, x, y, node->progress);
	x = area_put(a, x + 1, y, STYLE_WARNING, "held");
	area_printf(a, x, y, STYLE_DIM, ": %s", node->why_held);
}

/* Why it waits, in as much of the row as there is: it has no numbers. */
static void draw_queued(const struct area *a, int x, int y, const struct node *node)
{
	x = draw_waiting_id(a, x, y, node->job_id, 9 + (int)strlen(node->queued->why));
	x = area_put(a, x + 1, y, STYLE_WARNING, "queued");
	if (node->queued->why[0])
		area_printf(a, x, y, STYLE_DIM, ": %s", node->queued->why);
}

/* Of a long name a third of the column: the command is what one looks for. */
static int draw_owner(const struct area *a, int x, const char *job_id)
{
	struct area owner = area_part(a, x, 0, a->width / 3, 1);

	return x + area_put(&owner, 0, 0, STYLE_TITLE, job_id) + 1;
}

/* The detail has all of it. */
static void draw_command(const struct area *a, int x, const struct proc_sample *p)
{
	char name[COMMAND_BYTES];

	command_shorten(p->command ? p->command : p->comm, name, sizeof(name));
	area_put(a, x, 0, STYLE_PLAIN, name);
}

/* In a list nothing else says whose a process is. */
void draw_name(const struct area *a, const struct node *node, bool is_flat)
{
	int indent = node->depth * 2, most = a->width / 2;
	int x = area_put(a, indent < most ? indent : most, 0, STYLE_DIM, mark_of(node));

	if (node->is_flagged)
		area_put(a, x - 1, 0, STYLE_BAD, "!");
	switch (node->kind) {
	case NODE_JOB:
		draw_job(a, x, node);
		return;
	case NODE_SHEET:
		x = area_printf(a, x, 0, STYLE_PLAIN, "sheet %d", node->sheet_num);
		if (node->sheet_name)
			area_put(a, x + 1, 0, STYLE_BOLD, node->sheet_name);
		return;
	case NODE_RANK:
		area_printf(a, x, 0, STYLE_PLAIN, "rank %d", node->rank);
		return;
	case NODE_PROCESS:
		break;
	}
	x = area_printf(a, x, 0, STYLE_DIM, "%d ", (int)node->p->key.pid);
	if (is_flat && node->job_id)
		x = draw_owner(a, x, node->job_id);
	draw_command(a, x, node->p);
}

bool draw_waiting(const struct area *a, int y, const struct node *node)
{
	bool is_held = node->why_held && node->n_processes == 0;

	if (node->queued)
		draw_queued(a, 2, y, node);
	else if (is_held)
		draw_held(a, 2, y, node);
	return node->queued || is_held;
}

/*
 * Which rows a text that was typed is about.
 */
#include <stdio.h>
#include <string.h>

#include "tui/outline.h"

static bool contains(const char *text, const char *part)
{
	return text && strcasestr(text, part);
}

/* A number alone is that of a process. */
static bool is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0';
}

static bool matches_sheet(const struct node *node, const char *text)
{
	char name[256]; /* one that is kept is shorter */

	if (node->sheet_num == SHEET_NONE)
		return false;
	snprintf(name, sizeof(name), "sheet %d %s", node->sheet_num,
		 node->sheet_name ? node->sheet_name : "");
	return contains(is_number(text) ? node->sheet_name : name, text);
}

static bool matches_rank(const struct node *node, const char *text)
{
	char name[32];

	snprintf(name, sizeof(name), "rank %d", node->rank);
	return node->rank != RANK_NONE && !is_number(text) && contains(name, text);
}

static bool matches_process(const struct node *node, const char *text)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)node->p->key.pid);
	return contains(node->p->command, text) || contains(node->p->comm, text) ||
	       strncmp(pid, text, strlen(text)) == 0;
}

bool outline_shows(const struct outline *o, const struct node *node, const char *text)
{
	switch (node->kind) {
	case NODE_JOB:
		return contains(node->job_id ? node->job_id : "no job", text);
	case NODE_SHEET:
		return matches_sheet(node, text);
	case NODE_RANK:
		return matches_rank(node, text);
	default:
		return matches_process(node, text) || (o->is_list && contains(node->job_id, text));
	}
}

bool outline_passes(const struct outline *o, const struct node *node, const char *filter)
{
	return outline_shows(o, node, filter) || contains(node->job_id, filter) ||
	       matches_sheet(node, filter) || matches_rank(node, filter);
}

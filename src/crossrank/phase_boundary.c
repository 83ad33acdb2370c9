/*
 * A record of the type phase_enter or phase_exit, as far as it is whole. What is not is no
 * boundary, and no fault: the reference has it so.
 */
#include "crossrank/phases.h"

#include <errno.h>
#include <string.h>

#include "crossrank/jtree.h"

#define PART_SEPARATOR " / "

static bool is_text(struct text t, const char *s)
{
	return text_equals(t, (struct text){ s, strlen(s) });
}

/* Booleans are numbers there: the reference's language has it so. */
static bool is_int(const struct jnode *node)
{
	return node && (node->kind == JKIND_INT || node->kind == JKIND_BOOL);
}

static bool is_text_node(const struct jnode *node)
{
	return node && node->kind == JKIND_TEXT;
}

/* The path as one text; parts that are empty or no texts do not count. */
static int join_path(const struct jnode *path, struct arena *arena, struct boundary *ret)
{
	size_t n = 0, at = 0;
	char *label;

	for (const struct jnode *c = path->first; c; c = c->next)
		n += c->kind == JKIND_TEXT ? c->text.n + sizeof(PART_SEPARATOR) : 0;
	label = arena_alloc(arena, n + 1);
	if (!label)
		return -ENOMEM;
	for (const struct jnode *c = path->first; c; c = c->next) {
		if (c->kind != JKIND_TEXT || c->text.n == 0)
			continue;
		if (at > 0) {
			memcpy(label + at, PART_SEPARATOR, sizeof(PART_SEPARATOR) - 1);
			at += sizeof(PART_SEPARATOR) - 1;
		}
		memcpy(label + at, c->text.s, c->text.n);
		at += c->text.n;
		ret->depth++;
	}
	label[at] = '\0';
	ret->label = (struct text){ label, at };
	return 0;
}

struct scope {
	const struct jnode *action, *name, *path, *scope_id, *parent, *thread_id, *thread_name,
		*sequence;
};

static void find_scope(const struct jnode *node, struct scope *ret)
{
	*ret = (struct scope){
		jtree_find(node, "action"),
		jtree_find(node, "name"),
		jtree_find(node, "path"),
		jtree_find(node, "scope_id"),
		jtree_find(node, "parent_scope_id"),
		jtree_find(node, "thread_id"),
		jtree_find(node, "thread_name"),
		jtree_find(node, "sequence"),
	};
}

static bool is_valid_scope(const struct scope *s, bool is_enter)
{
	return is_text_node(s->action) && is_text_node(s->name) && is_text_node(s->scope_id) &&
	       is_text_node(s->thread_name) && s->path && s->path->kind == JKIND_ARRAY &&
	       is_int(s->thread_id) && is_int(s->sequence) &&
	       (!s->parent || s->parent->kind == JKIND_NULL || is_text_node(s->parent)) &&
	       !text_is_blank(s->name->text.s, s->name->text.n) &&
	       is_text(s->action->text, is_enter ? "enter" : "exit");
}

static int copy_text(struct arena *arena, struct text from, struct text *to)
{
	to->s = arena_strndup(arena, from.s, from.n);
	to->n = from.n;
	return to->s ? 0 : -ENOMEM;
}

int phase_read_boundary(const struct telemetry_event *ev, struct arena *arena, struct boundary *ret)
{
	bool is_enter = is_text(ev->event_type, "phase_enter");
	const struct jnode *node;
	struct scope s;

	if ((!is_enter && !is_text(ev->event_type, "phase_exit")) || !ev->session_id.s ||
	    !ev->metadata)
		return 0;
	node = jtree_find(ev->metadata, "phase_scope");
	if (!node || node->kind != JKIND_OBJECT)
		return 0;
	find_scope(node, &s);
	if (!is_valid_scope(&s, is_enter))
		return 0;
	*ret = (struct boundary){ .timestamp_ns = ev->timestamp_ns,
				  .sequence = s.sequence->integer,
				  .thread_id = s.thread_id->integer,
				  .rank = ev->rank,
				  .is_enter = is_enter };
	if (join_path(s.path, arena, ret) < 0 ||
	    copy_text(arena, s.scope_id->text, &ret->scope_id) < 0 ||
	    copy_text(arena, s.thread_name->text, &ret->thread_name) < 0)
		return -ENOMEM;
	return ret->depth > 0;
}

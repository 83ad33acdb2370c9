/*
 * jtree - one JSON text as a tree, read with care.
 *
 * Takes what the reference takes: RFC 8259, and NaN, Infinity and -Infinity as numbers. Whole
 * numbers stay exact. The text is UTF-8 (checked before).
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "crossrank/reading/event.h"

enum jkind {
	JKIND_NULL,
	JKIND_BOOL,
	JKIND_INT,
	JKIND_BIG_INT, /* does not fit into 64 bits */
	JKIND_FLOAT,
	JKIND_TEXT,
	JKIND_ARRAY,
	JKIND_OBJECT,
};

struct jnode {
	enum jkind kind;
	int64_t integer;	    /* JKIND_INT, JKIND_BOOL */
	double number;		    /* JKIND_INT, JKIND_BIG_INT, JKIND_FLOAT */
	struct text text;	    /* JKIND_TEXT */
	struct text raw;	    /* any value as it stands in the text that was parsed */
	struct text key;	    /* in an object */
	struct jnode *first, *last; /* children */
	struct jnode *next;
};

/* -EINVAL: not JSON; -ENOMEM. All memory but that of raw is the arena's. */
int jtree_parse(const char *text, size_t n, struct arena *arena, struct jnode **ret);

/* Whether it is JSON. */
bool jtree_is_valid(const char *text, size_t n);

/* Whether nothing is wrong with it but that it ends too early. */
bool jtree_is_cut(const char *text, size_t n);

/* Moves *at behind the number of JSON there. False: there is none before end. */
bool jtree_skip_number(const char **at, const char *end, bool *ret_is_float);

/* The member of that name; of several the last, as in the reference. NULL: none. */
const struct jnode *jtree_find(const struct jnode *object, const char *name);

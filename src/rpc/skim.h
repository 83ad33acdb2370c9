/*
 * skim - how deep and how many: a look over JSON text before a tree is made of it.
 */
#ifndef PROCTOR_RPC_SKIM_H
#define PROCTOR_RPC_SKIM_H

#include <stddef.h>

/*
 * Counts without checking: of text that is JSON the figures are right, of other
 * text they bound what a parser builds before it gives up.
 */
struct skim {
	size_t depth;  /* the deepest nesting of lists and objects */
	size_t values; /* at most so many values are in it */
};

struct skim skim_text(const char *text, size_t len);

#endif

#include "model/pattern.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"

void pattern_init(struct pattern *p)
{
	*p = (struct pattern){
		.confidence = F64_UNKNOWN,
		.first_wall_ns = U64_UNKNOWN,
		.last_wall_ns = U64_UNKNOWN,
		.threshold = F64_UNKNOWN,
		.p = F64_UNKNOWN,
		.rate_in = F64_UNKNOWN,
		.rate_out = F64_UNKNOWN,
		.base_rate = F64_UNKNOWN,
		.frozen_wall_ns = U64_UNKNOWN,
		.later_p = F64_UNKNOWN,
		.brier = F64_UNKNOWN,
		.brier_base = F64_UNKNOWN,
		.confirmed_wall_ns = U64_UNKNOWN,
		.lapsed_wall_ns = U64_UNKNOWN,
		.retired_wall_ns = U64_UNKNOWN,
	};
}

struct pattern *pattern_list_add(struct pattern_list *list)
{
	if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return NULL;
	pattern_init(&list->items[list->n]);
	return &list->items[list->n++];
}

void pattern_list_release(struct pattern_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct pattern_list){ .arena = ARENA_INIT };
}

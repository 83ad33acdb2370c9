#include "daemon/learning.h"

#include "base/macros.h"
#include "base/unknown.h"

static bool is_other(const struct run_record *run, const struct learning_likeness *like)
{
	return run->is_whole && run_is_decided(run) && run->attempt != like->but[0] &&
	       run->attempt != like->but[1];
}

static void keep_others(struct run_list *list, const struct learning_likeness *like)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (is_other(&list->items[i], like))
			list->items[n++] = list->items[i];
	list->n = n;
}

int learning_list_others(struct store *store, const struct learning_likeness *like,
			 struct run_list *ret, enum run_rung *ret_rung, struct err *err)
{
	struct run_kind kind = { like->class, like->finest, like->uid, U64_UNKNOWN,
				 LEARNING_MAX_OTHERS };

	for (;; kind.rung++) {
		CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
		int r = store_list_runs_of_kind(store, &kind, &list, err);

		if (r < 0)
			return r;
		keep_others(&list, like);
		if (list.n < like->n_wanted && kind.rung + 1 < RUNG_COUNT)
			continue;
		*ret = list;
		*ret_rung = kind.rung;
		list = (struct run_list){ .arena = ARENA_INIT };
		return 0;
	}
}

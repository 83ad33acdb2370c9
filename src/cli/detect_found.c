#include "cli/detect_found.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void found_list_release(struct found_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct found_list){ 0 };
}

static int add_found(struct found_list *list, int attempt_num, struct found **ret)
{
	struct found **grown;

	if (list->n == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 32;

		grown = reallocarray(list->items, cap, sizeof(struct found *));
		if (!grown)
			return -ENOMEM;
		list->items = grown;
		list->cap = cap;
	}
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->attempt_num = attempt_num;
	list->items[list->n++] = *ret;
	return 0;
}

/* One that is known already is among the last. */
static struct found *find_found(const struct found_list *list, const char *name)
{
	for (size_t i = list->n; i > 0; i--)
		if (strcmp(list->items[i - 1]->episode.name, name) == 0)
			return list->items[i - 1];
	return NULL;
}

int found_list_keep(struct found_list *list, int attempt_num, const struct episode *e)
{
	struct found *found = find_found(list, e->name);

	if (!found && add_found(list, attempt_num, &found) < 0)
		return -ENOMEM;
	episode_copy(&found->episode, e);
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct episode *x = &(*(struct found *const *)a)->episode;
	const struct episode *y = &(*(struct found *const *)b)->episode;

	if (x->began_wall_ns != y->began_wall_ns)
		return x->began_wall_ns < y->began_wall_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

void found_list_sort(struct found_list *list)
{
	if (list->n > 1)
		qsort(list->items, list->n, sizeof(struct found *), compare_found);
}

/* Who looks at the time knows what becomes of what a job leaves behind; the record does not. */
static bool is_unjudged(const struct found_list *list, enum anomaly_type type)
{
	const struct detect_looks *looks = &list->looks[type];

	if (type == ANOMALY_ORPHAN || type == ANOMALY_GPU_LOST)
		return looks->n_judged > 0;
	return looks->n_silent > 0 && looks->n_judged == 0;
}

void found_list_add_unjudged(const struct found_list *list, struct buf *out)
{
	const char *before = "not judged, as what they need was not recorded, or not for long "
			     "enough: ";

	for (int type = 0; type < N_ANOMALY_TYPES; type++) {
		if (!is_unjudged(list, type))
			continue;
		buf_printf(out, "%s%s", before, anomaly_type_name(type));
		before = ", ";
	}
	if (out->len > 0)
		buf_add_char(out, '\n');
	if (list->looks[ANOMALY_RUNAWAY_PROCESS].n_judged > 0)
		buf_add_str(out, "runaway_process was judged only where the process got its core: "
				 "what it waited for one is not recorded\n");
	if (list->looks[ANOMALY_RUNAWAY_PROCESS].n_usual > 0)
		buf_printf(out,
			   "runaway_process was held back at %llu looks: jobs of its kind had used "
			   "as much CPU before\n",
			   (unsigned long long)list->looks[ANOMALY_RUNAWAY_PROCESS].n_usual);
	if (list->looks[ANOMALY_PROCESS_EXPLOSION].n_judged > 0)
		buf_add_str(out, "process_explosion was judged by its threshold alone: how many "
				 "processes a user might have is not recorded\n");
}

#include "sources/gpu_troubles.h"

#include <stdio.h>
#include <string.h>

/* Whether the second is the first, and maybe more: what a lower rung adds is no other trouble. */
static bool goes_on(const char *first, const char *second)
{
	size_t n = strlen(first);

	return strncmp(first, second, n) == 0 && (second[n] == '\0' || second[n] == ';');
}

/* NULL: there is no room for another. */
static struct gpu_trouble *find_kind(struct gpu_troubles *t, const char *note)
{
	for (size_t i = 0; i < t->n; i++)
		if (goes_on(t->of[i].note, note) || goes_on(note, t->of[i].note))
			return &t->of[i];
	return t->n < GPU_MAX_TROUBLES ? &t->of[t->n++] : NULL;
}

void gpu_troubles_add(struct gpu_troubles *t, const char *note, uint64_t boot_ns)
{
	uint64_t since_ns = boot_ns - t->looked_boot_ns;
	struct gpu_trouble *kind;

	if (boot_ns < t->looked_boot_ns)
		return;
	t->looked_boot_ns = boot_ns;
	t->all_ns += since_ns;
	if (!note)
		return;
	t->ns += since_ns;
	kind = find_kind(t, note);
	if (!kind)
		return;
	kind->ns += since_ns;
	if (strlen(note) > strlen(kind->note))
		snprintf(kind->note, sizeof(kind->note), "%s", note);
}

static const struct gpu_trouble *find_longest(const struct gpu_troubles *t)
{
	const struct gpu_trouble *longest = &t->of[0];

	for (size_t i = 1; i < t->n; i++)
		if (t->of[i].ns > longest->ns)
			longest = &t->of[i];
	return longest;
}

bool gpu_troubles_tell(const struct gpu_troubles *t, char *ret, size_t size)
{
	const struct gpu_trouble *longest = find_longest(t);
	char others[64] = "", times[128];

	if (t->n == 0)
		return false;
	if (t->ns > longest->ns)
		snprintf(others, sizeof(others), ", something else for %.0f s",
			 (double)(t->ns - longest->ns) / 1e9);
	snprintf(times, sizeof(times), " (for %.0f of %.0f s%s)", (double)longest->ns / 1e9,
		 (double)t->all_ns / 1e9, others);
	snprintf(ret, size, "%.*s%s", (int)(size > sizeof(times) ? size - sizeof(times) : 0),
		 longest->note, times);
	return true;
}

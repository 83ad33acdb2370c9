#include "report/notes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "report/facts.h"
#include "report/format.h"
#include "report/report.h"
#include "report/spacing.h"

/* Fields of the contract that are often not filled: their name in the JSON and in words, and why.
 */
static const struct {
	const char *key;
	const char *words;
	const char *why;
	const char *why_yet; /* while it runs */
} never_measured[] = {
	{ "syscall_hotspots", "system calls", "they were not counted",
	  "known when the attempt ends, if they are counted" },
	{ "telemetry", "telemetry of ranks", "it has none, or they were not looked at",
	  "known when the attempt ends, if it has any" },
};

/* Names that others use in their notes. */
static const struct {
	const char *key;
	const char *words;
} other_words[] = {
	{ "io", "I/O" },
	{ "anomalies", "anomalies" },
	{ "gpus", "GPUs" },
	{ "syscalls", "system calls" },
	{ "syscall times", "times of system calls" },
};

bool notes_has(const struct facts *f, const char *what)
{
	for (size_t i = 0; i < f->n_notes; i++)
		if (f->notes[i].what && strcmp(f->notes[i].what, what) == 0)
			return true;
	return false;
}

static const char *why_missing(const struct attempt *a)
{
	if (a->is_running)
		return "known when the attempt ends";
	if (a->is_lost)
		return "the runner ended before it could be written";
	return "nothing was recorded";
}

/* Why nothing is known of GPUs is told once, by who looked for them; most jobs use none. */
static bool needs_note(const struct facts *f, enum figure id)
{
	if (id == FIGURE_GPU_MEMORY || id == FIGURE_GPU_BUSY || id == FIGURE_GPU_IDLE)
		return false;
	return !figure_is_known(&f->figures, id) && !notes_has(f, figure_key(id));
}

/* Who ran the job may not know that a daemon has counted. */
static bool is_measured(const struct attempt *a, const char *what)
{
	return what && ((a->n_syscalls > 0 && strcmp(what, "syscall_hotspots") == 0) ||
			(a->telemetry && strcmp(what, "telemetry") == 0));
}

/* Who was killed while nothing could be stored has said nothing of it: the curve does. */
static int note_gap(struct facts *f)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct gap gap;

	if (!spacing_find_gap(f->a, &gap))
		return 0;
	buf_add_str(&why, "nothing is recorded from ");
	format_time(&why, gap.from_wall_ns);
	buf_add_str(&why, " on for ");
	report_add_duration(&why, gap.until_wall_ns - gap.from_wall_ns);
	if (gap.n == 2)
		buf_add_str(&why, ", and once more for less");
	else if (gap.n > 2)
		buf_printf(&why, ", and %zu more times for less", gap.n - 1);
	if (buf_error(&why) < 0)
		return -ENOMEM;
	f->notes[f->n_notes].what = "history";
	f->notes[f->n_notes].why = arena_strdup(&f->arena, why.data);
	return f->notes[f->n_notes++].why ? 0 : -ENOMEM;
}

/* When a daemon began, and whether another one had to go on, no record says. */
static void note_late_count(struct facts *f)
{
	if (f->a->n_syscalls > 0 && !facts_runner_counts(f))
		f->notes[f->n_notes++] = (struct unknown_note){
			"syscalls",
			"a daemon has counted them from when it began to: what was called "
			"before, or while no daemon ran, is missing"
		};
}

int notes_collect(struct facts *f)
{
	const struct attempt *a = f->a;
	size_t max = a->n_unknowns + FIGURE_COUNT + ARRAY_SIZE(never_measured) + 2;

	f->notes = arena_alloc(&f->arena, max * sizeof(f->notes[0]));
	if (!f->notes)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_unknowns; i++)
		if (!is_measured(a, a->unknowns[i].what))
			f->notes[f->n_notes++] = a->unknowns[i];
	note_late_count(f);
	if (note_gap(f) < 0)
		return -ENOMEM;
	for (int id = 0; id < FIGURE_COUNT; id++)
		if (needs_note(f, (enum figure)id))
			f->notes[f->n_notes++] = (struct unknown_note){ figure_key((enum figure)id),
									why_missing(a) };
	for (size_t i = 0; i < ARRAY_SIZE(never_measured); i++)
		if (!notes_has(f, never_measured[i].key) && !is_measured(a, never_measured[i].key))
			f->notes[f->n_notes++] =
				(struct unknown_note){ never_measured[i].key,
						       a->is_running ? never_measured[i].why_yet
								     : never_measured[i].why };
	return 0;
}

const char *notes_in_words(const char *what)
{
	for (int id = 0; id < FIGURE_COUNT; id++)
		if (strcmp(what, figure_key((enum figure)id)) == 0)
			return figure_label((enum figure)id);
	for (size_t i = 0; i < ARRAY_SIZE(never_measured); i++)
		if (strcmp(what, never_measured[i].key) == 0)
			return never_measured[i].words;
	for (size_t i = 0; i < ARRAY_SIZE(other_words); i++)
		if (strcmp(what, other_words[i].key) == 0)
			return other_words[i].words;
	return what;
}

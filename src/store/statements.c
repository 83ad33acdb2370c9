#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "store/anomalies.h"
#include "store/query.h"
#include "store/ingest.h"
#include "store/tables.h"

/* Columns of a statement, and what stands before their names where it must: "s.". */
struct part {
	const char *prefix;
	const struct columns *columns;
};

/*
 * text, in which for all columns of parts, in their order:
 *	@names   their names
 *	@values  a question mark each
 *	@sets    name = ?
 *	@merged  name = the new value where there is one, else the old
 *	@named   ? AS name
 *	@raised  name = the larger of it and new.name, or the one there is
 */
struct statement_row {
	const char *text;
	struct part parts[5];
};

/* A row of processes that only samples have made: no end of an attempt has told of it. */
#define IS_UNACCOUNTED "(n_samples IS NULL OR is_raised)"

/* A whole attempt, and its columns. */
#define ATTEMPT_SELECT                                               \
	"SELECT @names FROM attempts a JOIN jobs ON jobs.id = a.job" \
	" LEFT JOIN boots ON boots.id = a.boot "
#define ATTEMPT_PARTS                                                                        \
	{                                                                                    \
		{ "", &attempt_name_columns }, { "a.", &attempt_begin_columns },             \
			{ "a.", &attempt_progress_columns }, { "a.", &attempt_end_columns }, \
			{ "a.", &usage_columns },                                            \
	}

/* What a note is about that no run brings, and none replaces. */
#define DAMAGE "damaged ticks"
#define NOTES_THAT_STAY "'" DAMAGE "', '" NOTE_DAMAGED_RECORDS "', '" NOTE_LOST_RECORDS "'"

/* The process that a phase is of: pids are used again, so the last one that was born before, by
 * clocks that are some milliseconds apart. */
#define OF_PHASES_PROCESS(column)                                                          \
	"(SELECT p." column " FROM processes p WHERE p.pid = phases.pid"                   \
	" AND p.attempt = phases.attempt AND coalesce(p.born_wall_ns, p.start_wall_ns, 0)" \
	" <= phases.entered_wall_ns + 100000000"                                           \
	" ORDER BY coalesce(p.born_wall_ns, p.start_wall_ns) DESC LIMIT 1)"

/* A phase ends with its process at the latest, and is of its rank. */
#define PHASES_AS_TOLD                                                                     \
	"(SELECT id, attempt, pid, name, path, entered_wall_ns,"                           \
	" coalesce(rank, " OF_PHASES_PROCESS(                                              \
		"rank") ") AS rank,"                                                       \
			" coalesce(left_wall_ns, max(entered_wall_ns, " OF_PHASES_PROCESS( \
				"died_wall_ns") ")) AS left_wall_ns FROM phases)"

/* Before ?1, and over: one that lasts is of an attempt that runs. */
#define ANOMALY_IS_OLD                                                                       \
	"began_wall_ns < ?1 AND coalesce(ended_wall_ns, 0) < ?1 AND (ended_wall_ns NOT NULL" \
	" OR NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = attempt"                      \
	" AND a.ended_wall_ns IS NULL))"

/* Of rows whose ids are ?1 << 30 | process. */
#define ID_IS_OF "id > ?1 << 30 AND id <= (?1 << 30) + 1073741823"

/* How many, and about how many bytes. */
#define COUNT_AND_SIZE(bytes) "SELECT count(*), sum(" bytes ") FROM "

/* A slice of what is to go; which may order them. */
#define DELETE_SOME(table, which) \
	"DELETE FROM " table " WHERE id IN (SELECT id FROM " table " WHERE " which " LIMIT ?2)"

/* The same of one attempt; the newest row stays, so that no row ever gets the id of another. */
#define DELETE_SOME_OF_ATTEMPT(table) \
	DELETE_SOME(table, "attempt = ?1 AND id < (SELECT max(id) FROM " table ")")

#define RUN_SELECT                                                      \
	"SELECT @names FROM runs r JOIN attempts a ON a.id = r.attempt" \
	" JOIN jobs ON jobs.id = a.job "

/* clang-format off */
#define NEWEST_RUNS(limit) \
	" ORDER BY r.ended_wall_ns DESC, r.attempt DESC, r.sheet_num DESC LIMIT " limit

/* The newest ?4 of a class that ended by ?2, of the user ?3; NULL: of all. */
#define RUNS_OF_KIND(class) \
	" WHERE r." class " = ?1 AND r.ended_wall_ns <= ?2" \
	" AND (?3 IS NULL OR a.uid = ?3)" NEWEST_RUNS("?4")

#define RUNS_BY(class) \
	RUN_SELECT RUNS_OF_KIND(class), { { "", &run_owner_columns }, { "r.", &run_columns } }

#define CALIBRATION_BY(class) \
		"SELECT count(is_peak_covered), coalesce(sum(is_peak_covered), 0)," \
		" count(is_cpu_covered), coalesce(sum(is_cpu_covered), 0)," \
		" avg(CASE WHEN is_peak_covered IS NOT NULL THEN e.peak_coverage END)" \
		" FROM (SELECT r.attempt, r.sheet_num FROM runs r JOIN attempts a" \
		" ON a.id = r.attempt" RUNS_OF_KIND(class) ") r" \
		" JOIN estimates e ON e.attempt = r.attempt AND e.sheet_num = r.sheet_num" \
		" JOIN scores s ON s.estimate = e.id"
/* clang-format on */

/* Each has its row. */
static const struct statement_row rows[STATEMENT_COUNT] = {
#define STATEMENT(name_, ...) [STATEMENT_##name_] = { __VA_ARGS__ },
#include "store/statements.def"
};

/* ---- as SQLite gets them ---- */

static void add_name(struct buf *out, const char *prefix, const char *name)
{
	buf_add_str(out, prefix);
	buf_add_str(out, name);
}

static void add_value(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	(void)name;
	buf_add_char(out, '?');
}

static void add_set(struct buf *out, const char *prefix, const char *name)
{
	add_name(out, prefix, name);
	buf_add_str(out, " = ?");
}

static void add_merged(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(excluded.%s, %s)", name, name, name);
}

static void add_named(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "? AS %s", name);
}

static void add_raised(struct buf *out, const char *prefix, const char *name)
{
	(void)prefix;
	buf_printf(out, "%s = coalesce(max(processes.%s, new.%s), processes.%s, new.%s)", name,
		   name, name, name, name);
}

static const struct word {
	const char *text;
	void (*add)(struct buf *out, const char *prefix, const char *name);
} words[] = {
	{ "@named", add_named }, { "@names", add_name },    { "@values", add_value },
	{ "@sets", add_set },	 { "@merged", add_merged }, { "@raised", add_raised },
};

static void add_word(struct buf *out, const struct word *word, const struct statement_row *row)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(row->parts) && row->parts[i].columns; i++) {
		const struct part *part = &row->parts[i];

		for (size_t k = 0; k < part->columns->n; k++) {
			buf_add_str(out, comma);
			word->add(out, part->prefix, part->columns->items[k].name);
			comma = ", ";
		}
	}
}

/* The word that p begins with; NULL: none. */
static const struct word *find_word(const char *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strncmp(p, words[i].text, strlen(words[i].text)) == 0)
			return &words[i];
	return NULL;
}

void statement_write(enum statement id, struct buf *out)
{
	const struct statement_row *row = &rows[id];
	const char *p = row->text;

	while (*p) {
		const struct word *word = *p == '@' ? find_word(p) : NULL;
		size_t plain = word ? 0 : 1 + strcspn(p + 1, "@");

		buf_add(out, p, plain);
		if (word)
			add_word(out, word, row);
		p += word ? strlen(word->text) : plain;
	}
}

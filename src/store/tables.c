#include "store/tables.h"

#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "model/run_record.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/ingest.h"
#include "store/query.h"
#include "store/store.h"

/* ---- attempts, sheets, ranks ---- */

static const struct column attempt_name_items[] = {
	COLUMN_AS("a.id", attempt, id, COLUMN_BITS),
	COLUMN(attempt, job_id, COLUMN_TEXT),
	COLUMN(attempt, attempt_num, COLUMN_INT),
	COLUMN(attempt, boot_id, COLUMN_CHARS),
};
const struct columns attempt_name_columns = COLUMNS(attempt_name_items);

/* ---- processes and their events ---- */

/* In the order of STATEMENT_SET_PROCESS_CALLS. */
static const struct column process_call_items[] = {
	COLUMN(proc_record, syscalls, COLUMN_TEXT),
	COLUMN(proc_record, time, COLUMN_TEXT),
	COLUMN_AS("pid", proc_record, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_record, key.start_ticks, COLUMN_U64),
};
const struct columns process_call_columns = COLUMNS(process_call_items);

static const struct column process_total_items[] = {
	COLUMN(proc_record, user_ns, COLUMN_U64),
	COLUMN(proc_record, system_ns, COLUMN_U64),
	COLUMN(proc_record, max_rss_bytes, COLUMN_U64),
	COLUMN(proc_record, rchar, COLUMN_U64),
	COLUMN(proc_record, wchar, COLUMN_U64),
	COLUMN(proc_record, read_bytes, COLUMN_U64),
	COLUMN(proc_record, write_bytes, COLUMN_U64),
	COLUMN(proc_record, major_faults, COLUMN_U64),
	COLUMN(proc_record, max_threads, COLUMN_U64),
	COLUMN(proc_record, max_fds, COLUMN_U64),
	COLUMN(proc_record, max_gpu_bytes, COLUMN_U64),
};
const struct columns process_total_columns = COLUMNS(process_total_items);

static const struct column event_sql_items[] = {
	COLUMN(proc_event, wall_ns, COLUMN_U64),
	COLUMN_AS("pid", proc_event, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, COLUMN_U64),
	COLUMN_AS("exit_code", proc_event, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", proc_event, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, details, COLUMN_DETAIL),
};
const struct columns event_sql_columns = COLUMNS(event_sql_items);

/* ---- what the report says besides ---- */

static const struct column phase_row_items[] = {
	COLUMN(phase_row, id, COLUMN_BITS),
	COLUMN(phase_row, job_id, COLUMN_TEXT),
	COLUMN(phase_row, attempt_num, COLUMN_INT),
};
const struct columns phase_row_columns = COLUMNS(phase_row_items);

/* ---- samples: the rest is in words, see model/words.h ---- */

static const struct column image_items[] = {
	COLUMN(proc_sample, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, comm, COLUMN_CHARS),
	COLUMN(proc_sample, command, COLUMN_TEXT),
	COLUMN(proc_sample, cgroup, COLUMN_TEXT),
};
const struct columns image_columns = COLUMNS(image_items);

static const struct column sample_shared_items[] = {
	COLUMN(proc_sample, ppid, COLUMN_INT), /* becomes the subreaper's when the parent dies */
	COLUMN(proc_sample, uid, COLUMN_U64),  /* setuid() */
};
const struct columns sample_shared_columns = COLUMNS(sample_shared_items);

/* ---- runs ---- */

/* A verdict about an attempt is one about its run; a sheet has its own outcome. */
#define OUTCOME_OF_RUN "CASE WHEN r.is_whole THEN a.outcome ELSE r.outcome END"
#define MEASURED_OUTCOME                                                                       \
	"CASE WHEN r.is_whole THEN (SELECT v.measured_outcome FROM verdicts v WHERE v.attempt" \
	" = a.id) END"

static const struct column run_owner_items[] = {
	COLUMN_AS("r.attempt", run_record, attempt, COLUMN_BITS),
	COLUMN_AS("job_id", run_record, job_id, COLUMN_TEXT),
	COLUMN_AS("a.attempt_num", run_record, attempt_num, COLUMN_INT),
	COLUMN_AS("a.host", run_record, host, COLUMN_TEXT),
	COLUMN_AS("a.argv_hash", run_record, argv_hash, COLUMN_BITS),
	COLUMN_AS("a.input_hash", run_record, input_hash, COLUMN_BITS),
	COLUMN_AS(OUTCOME_OF_RUN, run_record, outcome, COLUMN_OUTCOME),
	COLUMN_AS(MEASURED_OUTCOME, run_record, measured, COLUMN_OUTCOME),
};
const struct columns run_owner_columns = COLUMNS(run_owner_items);

static const struct column score_items[] = {
	COLUMN(estimate_score, is_peak_covered, COLUMN_INT_OR_NONE),
	COLUMN(estimate_score, is_cpu_covered, COLUMN_INT_OR_NONE),
};
const struct columns score_columns = COLUMNS(score_items);

/* ---- statements ---- */

/* A row of processes that only samples have made: no end of an attempt has told of it. */
#define IS_UNACCOUNTED "(n_samples IS NULL OR is_raised)"

/* A whole attempt, and its columns. */
#define ATTEMPT_SELECT                                               \
	"SELECT @names FROM attempts a JOIN jobs ON jobs.id = a.job" \
	" LEFT JOIN boots ON boots.id = a.boot "
#define ATTEMPT_PARTS                                                                  \
	{                                                                              \
		{ "", &attempt_name_columns }, { "a.", &attempt_begin_columns },       \
			{ "a.", &clock_columns }, { "a.", &attempt_progress_columns }, \
			{ "a.", &attempt_end_columns }, { "a.", &usage_columns },      \
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

/* Of rows whose ids are ?1 << 30 | group. */
#define ID_IS_OF "id BETWEEN ?1 << 30 AND (?1 << 30) + 1073741823"

/* No fold lasts longer: 120 ticks of which none lies an hour behind the one before. */
#define FOLD_MAX_NS "432000000000000"

/* The attempt of the first process of a row of minutes; those of GPUs are the host's. */
#define ATTEMPT_OF_ROLLUP                                                                         \
	"(SELECT attempt FROM processes p WHERE t.id & 15 = 0 AND p.id BETWEEN t.id & 1073741823" \
	" AND (t.id & 1073741823) + 15 LIMIT 1)"

#define OWNED(attempt, bytes, table)                                                            \
	"SELECT max(w.id), a.uid, sum(w.bytes) FROM (SELECT id, " attempt " AS attempt, " bytes \
	" AS bytes FROM " table " t WHERE id > ?1 ORDER BY id LIMIT ?2) w"                      \
	" LEFT JOIN attempts a ON a.id = w.attempt GROUP BY a.uid"

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

static const char *const sql_types[N_COLUMN_TYPES] = {
	[COLUMN_U64] = "INTEGER",  [COLUMN_BITS] = "INTEGER", [COLUMN_BITS_OR_NONE] = "INTEGER",
	[COLUMN_F64] = "REAL",	   [COLUMN_INT] = "INTEGER",  [COLUMN_INT_OR_NONE] = "INTEGER",
	[COLUMN_FLAG] = "INTEGER", /* all others are text */
};

/* What a word becomes for each column: ^ is the prefix, $ the name, % the type. */
static const struct word {
	const char *text, *each;
} words[] = {
	{ "@named", "? AS $" },
	{ "@names", "^$" },
	{ "@values", "?" },
	{ "@sets", "^$ = ?" },
	{ "@merged", "$ = coalesce(excluded.$, $)" },
	{ "@raised", "$ = coalesce(max(processes.$, new.$), processes.$, new.$)" },
	{ "@declared", "$ %" },
};

/* Whether a part before this one has a column of the name, too. */
static bool is_declared(const struct statement_row *row, size_t n_parts, const char *name)
{
	for (size_t i = 0; i < n_parts; i++)
		for (size_t k = 0; k < row->parts[i].columns->n; k++) {
			const char *other = row->parts[i].columns->items[k].name;

			if (other && strcmp(other, name) == 0)
				return true;
		}
	return false;
}

static void add_word(struct buf *out, const struct word *word, const struct statement_row *row)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(row->parts) && row->parts[i].columns; i++) {
		const struct part *part = &row->parts[i];

		for (size_t k = 0; k < part->columns->n; k++) {
			const struct column *c = &part->columns->items[k];

			if (!c->name || (strchr(word->each, '%') && is_declared(row, i, c->name)))
				continue;
			buf_add_str(out, comma);
			comma = ", ";
			for (const char *p = word->each; *p; p++)
				if (*p == '^')
					buf_add_str(out, part->prefix);
				else if (*p == '$')
					buf_add_str(out, c->name);
				else if (*p == '%')
					buf_add_str(out, sql_types[c->type] ?: "TEXT");
				else
					buf_add_char(out, *p);
		}
	}
}

void statement_row_write(const struct statement_row *row, struct buf *out)
{
	for (const char *p = row->text; *p;) {
		const struct word *word = NULL;
		size_t plain;

		for (size_t i = 0; !word && i < ARRAY_SIZE(words); i++)
			if (strncmp(p, words[i].text, strlen(words[i].text)) == 0)
				word = &words[i];
		plain = word ? 0 : 1 + strcspn(p + 1, "@");
		buf_add(out, p, plain);
		if (word)
			add_word(out, word, row);
		p += word ? strlen(word->text) : plain;
	}
}

void statement_write(enum statement id, struct buf *out)
{
	statement_row_write(&rows[id], out);
}

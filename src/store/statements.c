#include "store/statements.h"

#include <string.h>

#include "base/macros.h"
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
 */
struct statement_row {
	const char *text;
	struct part parts[5];
};

#define ATTEMPT_SELECT                                               \
	"SELECT @names FROM attempts a JOIN jobs ON jobs.id = a.job" \
	" LEFT JOIN boots ON boots.id = a.boot "
static const struct statement_row statements[STATEMENT_COUNT] = {
	[STATEMENT_BEGIN_READ] = { "BEGIN" },
	[STATEMENT_BEGIN_WRITE] = { "BEGIN IMMEDIATE" },
	[STATEMENT_COMMIT] = { "COMMIT" },
	[STATEMENT_ROLLBACK] = { "ROLLBACK" },

	/* ---- writing ---- */

	[STATEMENT_FIND_JOB] = { "SELECT id FROM jobs WHERE job_id = ?" },
	[STATEMENT_ADD_JOB] = { "INSERT INTO jobs (job_id) VALUES (?)" },
	[STATEMENT_FIND_BOOT] = { "SELECT id FROM boots WHERE boot_id = ?" },
	[STATEMENT_ADD_BOOT] = { "INSERT INTO boots (boot_id) VALUES (?)" },
	[STATEMENT_ADD_ATTEMPT] = {
		"INSERT INTO attempts (job, boot, attempt_num, @names) VALUES (?1, ?2,"
		" (SELECT coalesce(max(attempt_num), 0) + 1 FROM attempts WHERE job = ?1), @values)"
		" RETURNING id, attempt_num",
		{ { "", &attempt_begin_columns } },
	},
	[STATEMENT_SET_PROGRESS] = {
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns } },
	},
	[STATEMENT_SET_END] = {
		"UPDATE attempts SET @sets WHERE id = ?",
		{ { "", &attempt_progress_columns }, { "", &attempt_end_columns },
		  { "", &usage_columns } },
	},
	[STATEMENT_PUT_SHEET] = {
		"INSERT OR REPLACE INTO sheets (attempt, @names) VALUES (?, @values)",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	[STATEMENT_DROP_RANKS] = {
		"DELETE FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?",
	},
	[STATEMENT_ADD_RANK] = {
		"INSERT INTO ranks (attempt, sheet_num, try_num, @names) VALUES (?, ?, ?, @values)",
		{ { "", &rank_columns } },
	},
	/* Ids go up for ever: a fold has that of its newest tick. */
	[STATEMENT_ADD_TICK] = {
		"INSERT INTO ticks (id, attempt, wall_ns, data) VALUES ("
		"max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0)) + 1, ?, ?, ?)",
	},
	[STATEMENT_COUNT_TICKS] = {
		"SELECT count(*), coalesce(sum(length(data)), 0) FROM ticks WHERE attempt = ?",
	},
	[STATEMENT_OLDEST_TICKS] = {
		"SELECT id, wall_ns, data FROM ticks WHERE id IN"
		" (SELECT id FROM ticks WHERE attempt = ?1 ORDER BY id LIMIT ?2) ORDER BY id",
	},
	[STATEMENT_DROP_TICKS] = { "DELETE FROM ticks WHERE attempt = ? AND id <= ?" },
	[STATEMENT_ADD_FOLD] = {
		"INSERT INTO folds (id, attempt, first_ns, last_ns, n_ticks, data)"
		" VALUES (?, ?, ?, ?, ?, ?)",
	},
	[STATEMENT_ADD_CHUNK] = { "INSERT INTO chunks (id, data) VALUES (?, ?)" },
	/* What an older sample knew and this one does not (a zombie has no cgroup) is kept. */
	[STATEMENT_SEE_PROCESS] = {
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged RETURNING id",
		{ { "", &sample_process_columns }, { "", &sample_shared_columns } },
	},
	[STATEMENT_PUT_PROCESS] = {
		"INSERT INTO processes (attempt, boot, @names)"
		" VALUES (?1, (SELECT boot FROM attempts WHERE id = ?1), @values)"
		" ON CONFLICT (attempt, pid, start_ticks) DO UPDATE SET @merged",
		{ { "", &process_columns } },
	},
	[STATEMENT_ADD_EVENT] = {
		"INSERT INTO events (attempt, @names) VALUES (?, @values)",
		{ { "", &event_columns } },
	},
	[STATEMENT_DROP_RUNGS] = { "DELETE FROM rungs WHERE attempt = ?" },
	[STATEMENT_ADD_RUNG] = {
		"INSERT INTO rungs (attempt, @names) VALUES (?, @values)",
		{ { "", &rung_columns } },
	},
	[STATEMENT_DROP_UNKNOWNS] = { "DELETE FROM unknowns WHERE attempt = ?" },
	[STATEMENT_ADD_UNKNOWN] = {
		"INSERT INTO unknowns (attempt, @names) VALUES (?, @values)",
		{ { "", &unknown_columns } },
	},

	/* ---- reading ---- */

	[STATEMENT_LIST_ATTEMPTS] = {
		ATTEMPT_SELECT "WHERE (?1 IS NULL OR job_id = ?1)"
		" AND (a.ended_wall_ns IS NULL OR a.ended_wall_ns > ?2)"
		" AND (NOT ?3 OR attempt_num ="
		" (SELECT max(attempt_num) FROM attempts last WHERE last.job = a.job))"
		" ORDER BY a.id DESC",
		{ { "", &attempt_name_columns },
		  { "a.", &attempt_begin_columns },
		  { "a.", &attempt_progress_columns },
		  { "a.", &attempt_end_columns },
		  { "a.", &usage_columns } },
	},
	[STATEMENT_LAST_SIGN] = {
		"SELECT max(coalesce((SELECT max(wall_ns) FROM ticks WHERE attempt = ?1), 0),"
		" coalesce((SELECT max(last_ns) FROM folds WHERE attempt = ?1), 0),"
		" coalesce((SELECT max(max(coalesce(started_wall_ns, 0), coalesce(ended_wall_ns, 0)))"
		" FROM sheets WHERE attempt = ?1), 0))",
	},
	[STATEMENT_FIND_ATTEMPT] = {
		ATTEMPT_SELECT "WHERE job_id = ?1 AND attempt_num = CASE WHEN ?2 > 0 THEN ?2"
		" ELSE (SELECT max(attempt_num) FROM attempts last WHERE last.job = a.job) END",
		{ { "", &attempt_name_columns },
		  { "a.", &attempt_begin_columns },
		  { "a.", &attempt_progress_columns },
		  { "a.", &attempt_end_columns },
		  { "a.", &usage_columns } },
	},
	[STATEMENT_READ_SHEETS] = {
		"SELECT @names FROM sheets WHERE attempt = ? ORDER BY num, try_num",
		{ { "", &sheet_columns }, { "", &usage_columns } },
	},
	[STATEMENT_READ_RANKS] = {
		"SELECT @names FROM ranks WHERE attempt = ? AND sheet_num = ? AND try_num = ?"
		" ORDER BY rank",
		{ { "", &rank_columns } },
	},
	[STATEMENT_READ_PROCESSES] = {
		"SELECT @names FROM processes WHERE attempt = ?"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	/* What samples tell is added to it: so_far.c. */
	[STATEMENT_READ_PROCESSES_SO_FAR] = {
		"SELECT id, @names FROM (SELECT id, pid, start_ticks, ppid, sheet_num, rank, command,"
		" uid, start_wall_ns AS born_wall_ns, NULL AS died_wall_ns, NULL AS exit_code,"
		" NULL AS signal, NULL AS user_ns, NULL AS system_ns, NULL AS max_rss_bytes,"
		" 'sampled' AS evidence, NULL AS rchar, NULL AS wchar, NULL AS read_bytes,"
		" NULL AS write_bytes, NULL AS major_faults, NULL AS max_threads, NULL AS max_fds,"
		" 0 AS n_samples FROM processes WHERE attempt = ?)"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	[STATEMENT_READ_EVENTS] = {
		"SELECT @names FROM events WHERE attempt = ? ORDER BY wall_ns, id",
		{ { "", &event_columns } },
	},
	[STATEMENT_READ_RUNGS] = {
		"SELECT @names FROM rungs WHERE attempt = ? ORDER BY id",
		{ { "", &rung_columns } },
	},
	[STATEMENT_READ_UNKNOWNS] = {
		"SELECT @names FROM unknowns WHERE attempt = ? ORDER BY id",
		{ { "", &unknown_columns } },
	},
	[STATEMENT_READ_FOLDS] = { "SELECT id, data FROM folds WHERE attempt = ? ORDER BY id" },
	[STATEMENT_READ_CHUNKS] = { "SELECT id, data FROM chunks WHERE id BETWEEN ? AND ?" },
	[STATEMENT_READ_TICKS] = { "SELECT id, data FROM ticks WHERE attempt = ? ORDER BY id" },
	/* Each goes on where the page before has ended. */
	[STATEMENT_HISTORY_END] = {
		"SELECT max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0))",
	},
	[STATEMENT_HISTORY_FOLDS] = {
		"SELECT f.id, f.first_ns FROM folds f"
		" WHERE f.last_ns >= ?1 AND (?2 IS NULL OR f.attempt IN"
		" (SELECT a.id FROM attempts a JOIN jobs ON jobs.id = a.job WHERE jobs.job_id = ?2))"
		" AND (?3 = 0 OR f.attempt IN (SELECT attempt FROM processes WHERE pid = ?3))"
		" ORDER BY f.first_ns, f.id",
	},
	[STATEMENT_HISTORY_FOLD] = {
		"SELECT f.attempt, a.attempt_num, jobs.job_id, f.data FROM folds f"
		" CROSS JOIN attempts a ON a.id = f.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE f.id = ?",
	},
	[STATEMENT_HISTORY_CHUNKS] = {
		"SELECT p.id, c.data, @names FROM chunks c CROSS JOIN processes p ON p.id = c.process"
		" WHERE c.id BETWEEN ? AND ? ORDER BY c.id",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_HISTORY_CHUNKS_OF_PID] = {
		"SELECT p.id, c.data, @names FROM processes p CROSS JOIN chunks c ON c.id = ? + p.id"
		" WHERE p.attempt = ? AND p.pid = ? ORDER BY p.id",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_HISTORY_TICKS] = {
		"SELECT t.id, t.wall_ns FROM ticks t"
		" WHERE t.wall_ns >= ?1 AND (t.wall_ns > ?1 OR t.id >= ?2) AND t.id <= ?3"
		" AND (?4 IS NULL OR t.attempt IN"
		" (SELECT a.id FROM attempts a JOIN jobs ON jobs.id = a.job WHERE jobs.job_id = ?4))"
		" AND (?5 = 0 OR t.attempt IN (SELECT attempt FROM processes WHERE pid = ?5))"
		" ORDER BY t.wall_ns, t.id",
	},
	[STATEMENT_HISTORY_TICK] = {
		"SELECT a.attempt_num, jobs.job_id, t.data FROM ticks t"
		" CROSS JOIN attempts a ON a.id = t.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE t.id = ?",
	},
	[STATEMENT_HISTORY_PROCESS] = {
		"SELECT @names FROM processes WHERE id = ?",
		{ { "", &sample_process_columns } },
	},
};

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

static const struct word {
	const char *text;
	void (*add)(struct buf *out, const char *prefix, const char *name);
} words[] = {
	{ "@names", add_name },
	{ "@values", add_value },
	{ "@sets", add_set },
	{ "@merged", add_merged },
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
	const struct statement_row *row = &statements[id];
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

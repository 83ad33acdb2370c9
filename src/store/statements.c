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
	[STATEMENT_ADD_TICK] = {
		"INSERT INTO ticks (attempt, @names) VALUES (?, @values)",
		{ { "", &tick_columns } },
	},
	[STATEMENT_ADD_POINT] = {
		"INSERT INTO series (attempt, tick, @names) VALUES (?, ?, @values)",
		{ { "", &series_columns } },
	},
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
	/* REPLACE: a process that was listed twice is not worth losing the tick. */
	[STATEMENT_ADD_SAMPLE] = {
		"INSERT OR REPLACE INTO samples (tick, process, @names) VALUES (?, ?, @values)",
		{ { "", &sample_shared_columns }, { "", &sample_columns } },
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
	/* Counters only grow, so the largest is the latest. */
	[STATEMENT_READ_PROCESSES_SO_FAR] = {
		"SELECT @names FROM (SELECT p.id AS id, p.pid AS pid,"
		" p.start_ticks AS start_ticks, p.ppid AS ppid, p.sheet_num AS sheet_num,"
		" p.rank AS rank, p.command AS command, p.uid AS uid,"
		" p.start_wall_ns AS born_wall_ns, NULL AS died_wall_ns, NULL AS exit_code,"
		" NULL AS signal, max(s.user_ns) AS user_ns, max(s.system_ns) AS system_ns,"
		" max(coalesce(s.hwm_bytes, s.rss_bytes)) AS max_rss_bytes,"
		" 'sampled' AS evidence, max(s.rchar) AS rchar, max(s.wchar) AS wchar,"
		" max(s.read_bytes) AS read_bytes, max(s.write_bytes) AS write_bytes,"
		" max(s.major_faults) AS major_faults, max(s.threads) AS max_threads,"
		" max(s.open_fds) AS max_fds, count(*) AS n_samples"
		" FROM ticks t CROSS JOIN samples s ON s.tick = t.id"
		" CROSS JOIN processes p ON p.id = s.process WHERE t.attempt = ? GROUP BY p.id)"
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
	[STATEMENT_READ_SERIES] = {
		"SELECT @names FROM series WHERE attempt = ? ORDER BY wall_ns, tick",
		{ { "", &series_columns } },
	},
	/* Ticks in order, then the samples of each: joined in one statement, SQLite would sort
	 * the samples. Both go on where the page before has ended. */
	[STATEMENT_HISTORY_END] = { "SELECT coalesce(max(id), 0) FROM ticks" },
	[STATEMENT_HISTORY_TICKS] = {
		"SELECT t.id, t.attempt, t.wall_ns, a.attempt_num, jobs.job_id FROM ticks t"
		" CROSS JOIN attempts a ON a.id = t.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE t.wall_ns >= ?1 AND (t.wall_ns > ?1 OR t.id >= ?2) AND t.id <= ?3"
		" AND (?4 IS NULL OR jobs.job_id = ?4)"
		" AND (?5 = 0 OR t.attempt IN (SELECT attempt FROM processes WHERE pid = ?5))"
		" ORDER BY t.wall_ns, t.id",
	},
	[STATEMENT_HISTORY_SAMPLES] = {
		"SELECT s.process, @names FROM samples s"
		" CROSS JOIN processes p ON p.id = s.process"
		" WHERE s.tick = ? AND s.process > ? ORDER BY s.process",
		{ { "p.", &sample_process_columns },
		  { "s.", &sample_shared_columns },
		  { "s.", &sample_columns } },
	},
	[STATEMENT_HISTORY_SAMPLES_OF_PID] = {
		"SELECT s.process, @names FROM processes p"
		" CROSS JOIN samples s ON s.process = p.id"
		" WHERE s.tick = ? AND p.id > ? AND p.attempt = ? AND p.pid = ? ORDER BY p.id",
		{ { "p.", &sample_process_columns },
		  { "s.", &sample_shared_columns },
		  { "s.", &sample_columns } },
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

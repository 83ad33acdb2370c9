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

/* What a note is about that no run brings, and none replaces. */
#define DAMAGE "damaged ticks"

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
		"INSERT INTO ticks (id, recorder, wall_ns, data) VALUES ("
		"max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0),"
		" coalesce((SELECT value FROM meta WHERE key = 'last_tick'), 0)) + 1, ?, ?, ?)",
	},
	[STATEMENT_FIND_TICK] = {
		"SELECT 1 FROM ticks WHERE id = ?",
	},
	[STATEMENT_COUNT_TICKS] = { "SELECT count(*) FROM ticks WHERE recorder = ?" },
	[STATEMENT_OLDEST_TICKS] = {
		"SELECT id, data FROM ticks WHERE recorder = ? AND id > ? AND id <= ?"
		" ORDER BY id LIMIT ?",
	},
	[STATEMENT_DROP_TICKS] = { "DELETE FROM ticks WHERE recorder = ? AND id <= ?" },
	[STATEMENT_ADD_FOLD] = {
		"INSERT INTO folds (id, recorder, first_ns, last_ns, n_ticks, data)"
		" VALUES (?, ?, ?, ?, ?, ?)",
	},
	[STATEMENT_ADD_CHUNK] = { "INSERT INTO chunks (id, data) VALUES (?, ?)" },
	[STATEMENT_ADD_POINTS] = {
		"INSERT INTO points (attempt, fold, last_ns, data) VALUES (?, ?, ?, ?)",
	},
	[STATEMENT_NOTE_DAMAGE] = {
		"INSERT INTO unknowns (attempt, what, why) SELECT id, '" DAMAGE "', ?2"
		" FROM attempts WHERE id = ?1",
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
	[STATEMENT_ADD_EVENT] = {
		"INSERT INTO events (attempt, @names) VALUES (?, @values)",
		{ { "", &event_columns } },
	},
	[STATEMENT_DROP_RUNGS] = { "DELETE FROM rungs WHERE attempt = ?" },
	[STATEMENT_ADD_RUNG] = {
		"INSERT INTO rungs (attempt, @names) VALUES (?, @values)",
		{ { "", &rung_columns } },
	},
	[STATEMENT_DROP_UNKNOWNS] = {
		"DELETE FROM unknowns WHERE attempt = ? AND what <> '" DAMAGE "'",
	},
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
		"SELECT max(coalesce((SELECT max(wall_ns) FROM ticks WHERE recorder = ?1), 0),"
		" coalesce((SELECT max(last_ns) FROM points WHERE attempt = ?1), 0),"
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
	/* What samples tell is added to it: so_far.c. Of those that are gone the row tells. */
	[STATEMENT_READ_PROCESSES_SO_FAR] = {
		"SELECT id, @names FROM (SELECT id, pid, start_ticks, ppid, sheet_num, rank, command,"
		" uid, start_wall_ns AS born_wall_ns, NULL AS died_wall_ns, NULL AS exit_code,"
		" NULL AS signal, user_ns, system_ns, max_rss_bytes, 'sampled' AS evidence,"
		" rchar, wchar, read_bytes, write_bytes, major_faults, max_threads, max_fds,"
		" coalesce(n_samples, 0) AS n_samples FROM processes WHERE attempt = ?)"
		" ORDER BY born_wall_ns, pid, start_ticks, id",
		{ { "", &process_columns } },
	},
	[STATEMENT_COUNT_ROLLED] = {
		"SELECT count(*) FROM processes WHERE attempt = ? AND n_samples > 0",
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
	[STATEMENT_READ_POINTS] = { "SELECT data FROM points WHERE attempt = ? ORDER BY fold" },
	/* Those of the attempt: so does a fold that the points name have chunks of it. */
	[STATEMENT_READ_CHUNKS] = {
		"SELECT c.process, c.data FROM points o CROSS JOIN chunks c"
		" ON c.id BETWEEN o.fold << 30 AND (o.fold << 30) + 1073741823"
		" CROSS JOIN processes p ON p.id = c.process"
		" WHERE o.attempt = ?1 AND p.attempt = ?1",
	},
	/* Recorders with ticks that may be of the attempt: its own, and daemons. */
	[STATEMENT_LIST_RECORDERS] = {
		"SELECT DISTINCT recorder FROM ticks WHERE recorder = ? OR recorder < 0",
	},
	[STATEMENT_LAST_TICK] = {
		"SELECT max(coalesce((SELECT max(id) FROM ticks), 0),"
		" coalesce((SELECT max(id) FROM folds), 0))",
	},
	/*
	 * ?1, ?2: from when till when. ?3: the job's row, or 0. ?4: a pid, or 0. Folds that lack
	 * some of their processes by now are not told any more.
	 */
	[STATEMENT_WALK_FOLDS] = {
		"SELECT f.id, f.first_ns, f.last_ns FROM folds f"
		" WHERE f.last_ns >= ?1 AND f.first_ns <= ?2 AND NOT f.is_rolled AND (?3 = 0 OR f.id IN"
		" (SELECT o.fold FROM attempts a JOIN points o ON o.attempt = a.id WHERE a.job = ?3))"
		" AND (?4 = 0 OR f.id IN"
		" (SELECT o.fold FROM processes p JOIN points o ON o.attempt = p.attempt"
		" WHERE p.pid = ?4)) ORDER BY f.first_ns, f.id",
	},
	[STATEMENT_WALK_TAILS] = {
		"SELECT t.recorder, min(t.wall_ns), max(t.wall_ns),"
		" (SELECT coalesce(max(f.id), 0) FROM folds f WHERE f.recorder = t.recorder) FROM ticks t"
		" WHERE (?3 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT a.id FROM attempts a WHERE a.job = ?3))"
		" AND (?4 = 0 OR t.recorder < 0 OR t.recorder IN"
		" (SELECT p.attempt FROM processes p WHERE p.pid = ?4))"
		" GROUP BY t.recorder HAVING max(t.wall_ns) >= ?1 AND min(t.wall_ns) <= ?2",
	},
	[STATEMENT_WALK_TICK_TIMES] = { "SELECT id, wall_ns FROM ticks WHERE recorder = ?" },
	/* Folds that a recorder's ticks became in the meantime. */
	[STATEMENT_WALK_NEW_FOLDS] = {
		"SELECT id FROM folds WHERE recorder = ? AND id > ? ORDER BY id",
	},
	[STATEMENT_WALK_FOLD] = {
		"SELECT f.recorder, f.data FROM folds f WHERE f.id = ? AND NOT f.is_rolled",
	},
	[STATEMENT_WALK_BOOT] = {
		"SELECT boot_id FROM boots WHERE id = CASE WHEN ?1 > 0"
		" THEN (SELECT boot FROM attempts WHERE id = ?1)"
		" ELSE (SELECT boot FROM daemons WHERE id = -?1) END",
	},
	[STATEMENT_WALK_CHUNKS] = {
		"SELECT c.data, p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, jobs.job_id, @names FROM chunks c"
		" CROSS JOIN processes p ON p.id = c.process CROSS JOIN attempts a ON a.id = p.attempt"
		" CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE c.id BETWEEN ?1 << 30 AND (?1 << 30) + 1073741823"
		" AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3) ORDER BY c.id",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_WALK_PROCESS] = {
		"SELECT p.id, EXISTS (SELECT 1 FROM images i WHERE i.process = p.id),"
		" a.attempt_num, jobs.job_id, @names FROM processes p"
		" CROSS JOIN attempts a ON a.id = p.attempt CROSS JOIN jobs ON jobs.id = a.job"
		" WHERE p.id = ?1 AND (?2 = 0 OR a.job = ?2) AND (?3 = 0 OR p.pid = ?3)",
		{ { "p.", &sample_process_columns } },
	},
	[STATEMENT_WALK_IMAGES] = {
		"SELECT until_tick, @names FROM images WHERE process = ? ORDER BY until_tick",
		{ { "", &image_columns } },
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

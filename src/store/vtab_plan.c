#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "store/vtab.h"

/*
 * A timestamp in SQL is a double of seconds. From nanoseconds to that and back,
 * up to 2^63 ns, a moment moves by less than this: limits are taken so much
 * wider, and SQLite looks at each row once more with its own doubles.
 */
#define ROUNDING_NS 4096.0

/* Rows that could be read in the time that it takes to open a walk, or to find a tick by its id. */
#define WALK_COST 500.0
#define TICK_COST 20.0

#define WHOLE_MAX 9007199254740992.0 /* 2^53: beyond it doubles have no ones */

/* The number of a plan: words of samples, and in which order rows come. */
enum plan_bits { PLAN_ORDERED = 1, PLAN_NEWEST_FIRST = 2, PLAN_WORDS_SHIFT = 2 };

/* ---- values ---- */

static bool is_number(sqlite3_value *value)
{
	int type = sqlite3_value_numeric_type(value);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* Whole numbers alone; what is none equals no id and no pid. */
static bool read_whole(sqlite3_value *value, int64_t *ret)
{
	double v;

	if (!is_number(value))
		return false;
	v = sqlite3_value_double(value);
	if (sqlite3_value_type(value) == SQLITE_FLOAT && (v != floor(v) || fabs(v) > WHOLE_MAX))
		return false;
	*ret = sqlite3_value_int64(value);
	return true;
}

static void limit_since(sqlite3_value *value, struct vtab_filter *f)
{
	double ns;

	if (!is_number(value)) /* text and blobs are more than any number: SQLite will say so */
		return;
	ns = sqlite3_value_double(value) * 1e9 - ROUNDING_NS;
	if (ns >= (double)INT64_MAX)
		f->is_empty = true;
	else if (ns > (double)f->since_wall_ns)
		f->since_wall_ns = (uint64_t)ns;
}

static void limit_until(sqlite3_value *value, struct vtab_filter *f)
{
	double ns;

	if (!is_number(value))
		return;
	ns = sqlite3_value_double(value) * 1e9 + ROUNDING_NS;
	if (ns < 1)
		f->is_empty = true;
	else if (ns < (double)f->until_wall_ns)
		f->until_wall_ns = (uint64_t)ns;
}

static void limit_time(sqlite3_value *value, struct vtab_filter *f)
{
	limit_since(value, f);
	limit_until(value, f);
}

static void limit_tick(sqlite3_value *value, struct vtab_filter *f)
{
	f->has_tick = true;
	if (!read_whole(value, &f->tick_id))
		f->is_empty = true;
}

static void limit_pid(sqlite3_value *value, struct vtab_filter *f)
{
	int64_t pid;

	if (!read_whole(value, &pid) || pid < INT32_MIN || pid > INT32_MAX)
		f->is_empty = true;
	else
		f->pid = (pid_t)pid;
}

static void limit_job(sqlite3_value *value, struct vtab_filter *f)
{
	f->job_id = (const char *)sqlite3_value_text(value);
}

/* ---- limits ---- */

/*
 * A limit that is used: its letter in the plan, as EXPLAIN QUERY PLAN shows it,
 * and the field of struct vtab_size of which it leaves one.
 */
struct limit {
	enum vtab_key key;
	int op;
	char letter;
	void (*read)(sqlite3_value *value, struct vtab_filter *f);
	size_t one_of;
};

#define ONE_OF(field_) offsetof(struct vtab_size, field_)

static const struct limit limits[] = {
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_GE, '>', limit_since, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_GT, '>', limit_since, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_LE, '<', limit_until, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_LT, '<', limit_until, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_EQ, '=', limit_time, ONE_OF(n_ticks) },
	{ VTAB_TICK, SQLITE_INDEX_CONSTRAINT_EQ, 'i', limit_tick, ONE_OF(n_ticks) },
	{ VTAB_JOB, SQLITE_INDEX_CONSTRAINT_EQ, 'j', limit_job, ONE_OF(n_jobs) },
	{ VTAB_PID, SQLITE_INDEX_CONSTRAINT_EQ, 'p', limit_pid, ONE_OF(n_pids) },
};

static const struct limit *find_limit(enum vtab_key key, int op)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i].key == key && limits[i].op == op)
			return &limits[i];
	return NULL;
}

static const struct limit *find_letter(char letter)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i].letter == letter)
			return &limits[i];
	return NULL;
}

/* "A" COLLATE NOCASE is a job that we would not find. */
static bool compares_bytes(sqlite3_index_info *info, int i)
{
	return strcmp(sqlite3_vtab_collation(info, i), "BINARY") == 0;
}

/* The limit that constraint number i sets; NULL: none that helps. */
static const struct limit *limit_of(const struct vtab_table *table, sqlite3_index_info *info, int i)
{
	int column = info->aConstraint[i].iColumn;
	const struct limit *limit;

	if (!info->aConstraint[i].usable || column < 0) /* below 0: the row's id */
		return NULL;
	limit = find_limit(table->columns[column].key, info->aConstraint[i].op);
	if (limit && limit->key == VTAB_JOB && !compares_bytes(info, i))
		return NULL;
	return limit;
}

/* ---- what it costs ---- */

static double count_of(const struct vtab_size *size, const struct limit *limit)
{
	return *(const double *)((const char *)size + limit->one_of);
}

static void estimate(const struct vtab_table *table, const struct vtab_size *size, const char *plan,
		     sqlite3_index_info *info)
{
	bool has_tick = strchr(plan, 'i');
	double rows = table->count(size);

	for (const char *letter = plan; *letter; letter++)
		rows /= count_of(size, find_letter(*letter));
	if (rows < 1)
		rows = 1;
	info->estimatedRows = (sqlite3_int64)rows;
	info->estimatedCost = (has_tick ? TICK_COST : WALK_COST) + rows;
}

/* ---- the plan ---- */

/* SQLite has a bit for each of the first 63 columns, and one for all others. */
static bool is_used(const sqlite3_index_info *info, size_t column)
{
	return info->colUsed >> (column < 63 ? column : 63) & 1;
}

static unsigned words_needed(const struct vtab_table *table, const sqlite3_index_info *info)
{
	unsigned n = 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		const struct vtab_column *column = &table->columns[i];

		if (is_used(info, i) && table->n_words(column) > n)
			n = table->n_words(column);
	}
	return n;
}

static int order_bits(const struct vtab_table *table, const sqlite3_index_info *info)
{
	int column = info->nOrderBy == 1 ? info->aOrderBy[0].iColumn : -1;

	if (column < 0 || table->columns[column].key != VTAB_TIME)
		return 0;
	return PLAN_ORDERED | (info->aOrderBy[0].desc ? PLAN_NEWEST_FIRST : 0);
}

int vtab_plan(const struct vtab_table *table, const struct vtab_size *size,
	      sqlite3_index_info *info)
{
	char *plan = sqlite3_malloc(info->nConstraint + 1);
	int n = 0, order = order_bits(table, info);

	if (!plan)
		return SQLITE_NOMEM;
	for (int i = 0; i < info->nConstraint; i++) {
		const struct limit *limit = limit_of(table, info, i);

		if (!limit)
			continue;
		plan[n++] = limit->letter;
		info->aConstraintUsage[i].argvIndex = n;
	}
	plan[n] = '\0';
	estimate(table, size, plan, info);
	info->idxStr = plan;
	info->needToFreeIdxStr = 1;
	info->idxNum = order | (int)(words_needed(table, info) << PLAN_WORDS_SHIFT);
	info->orderByConsumed = order != 0;
	return SQLITE_OK;
}

void vtab_read_plan(int number, const char *plan, sqlite3_value **values, struct vtab_filter *ret)
{
	*ret = (struct vtab_filter){
		.until_wall_ns = INT64_MAX,
		.is_ordered = number & PLAN_ORDERED,
		.newest_first = number & PLAN_NEWEST_FIRST,
		.n_words = (unsigned)number >> PLAN_WORDS_SHIFT,
	};
	for (size_t i = 0; plan[i]; i++) {
		const struct limit *limit = find_letter(plan[i]);

		ret->has_time |= limit->key == VTAB_TIME;
		if (sqlite3_value_type(values[i]) == SQLITE_NULL) /* equals nothing */
			ret->is_empty = true;
		else
			limit->read(values[i], ret);
	}
}

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "query/query.h"

/* Of a job that starts ten thousand processes those with the highest values are of interest, and a
 * screen has room for few. */
#define MAX_LINES 4096
#define MAX_SHOWN 64
#define COMMAND_BYTES 120

static const struct {
	const char *name, *unit;
	size_t offset;	    /* in a sample */
	size_t more_offset; /* is added; 0: nothing is */
	enum { SERIES_MB, SERIES_COUNT, SERIES_F64, SERIES_MB_RATE } kind;
} metrics[] = {
	{ "rss", "MB", offsetof(struct proc_sample, rss_bytes), 0, SERIES_MB },
	{ "swap", "MB", offsetof(struct proc_sample, swap_bytes), 0, SERIES_MB },
	{ "cpu", "percent", offsetof(struct proc_sample, cpu_percent), 0, SERIES_F64 },
	{ "io", "MB/s", offsetof(struct proc_sample, read_bytes),
	  offsetof(struct proc_sample, write_bytes), SERIES_MB_RATE },
	{ "gpu_memory", "MB", offsetof(struct proc_sample, gpu_memory_bytes), 0, SERIES_MB },
	{ "gpu", "percent", offsetof(struct proc_sample, gpu_percent), 0, SERIES_F64 },
	{ "threads", "threads", offsetof(struct proc_sample, threads), 0, SERIES_COUNT },
	{ "fds", "files", offsetof(struct proc_sample, open_fds), 0, SERIES_COUNT },
};

/* A process. NaN: nothing is known of that bucket. */
struct line {
	struct proc_key key;
	int sheet_num, rank;
	char command[COMMAND_BYTES];
	float *low, *high; /* n_buckets each */
	float top;
	double before; /* of a counter: the last value, at… */
	uint64_t before_wall_ns;
};

struct gathering {
	const struct recorded_series *series;
	struct line *lines;
	size_t n, cap, n_left_out;
	struct map by_key;
};

static void gathering_release(struct gathering *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->lines[i].low);
	free(g->lines);
	map_release(&g->by_key);
}

int recorded_series_metric(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		if (strcmp(metrics[i].name, name) == 0)
			return (int)i;
	return -ENOENT;
}

/* ---- reading ---- */

static double read_value(const struct proc_sample *sample, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)sample + offset, sizeof(v));
	return u64_known(v) ? (double)v : NAN;
}

/* A counter's is what it grew by since the sample before, per second. */
static double value_of(const struct gathering *g, struct line *line, const struct history_row *row)
{
	const int m = g->series->metric;
	double v, before = line->before, seconds;

	if (metrics[m].kind == SERIES_F64) {
		memcpy(&v, (const char *)&row->sample + metrics[m].offset, sizeof(v));
		return f64_known(v) ? v : NAN;
	}
	v = read_value(&row->sample, metrics[m].offset);
	if (metrics[m].kind == SERIES_COUNT)
		return v;
	if (metrics[m].kind == SERIES_MB)
		return v / (1 << 20);
	v += read_value(&row->sample, metrics[m].more_offset);
	seconds = (double)(row->wall_ns - line->before_wall_ns) / 1e9;
	line->before = v;
	line->before_wall_ns = row->wall_ns;
	return v >= before && seconds > 0 ? (v - before) / seconds / (1 << 20) : NAN;
}

/* The last one: many a process begins as its parent's copy, or as a shell. */
static void set_command(struct line *line, const struct proc_sample *sample)
{
	const char *command =
		sample->command && sample->command[0] ? sample->command : sample->comm;

	if (command && strncmp(line->command, command, sizeof(line->command) - 1) != 0)
		snprintf(line->command, sizeof(line->command), "%s", command);
}

static struct line *find_line(struct gathering *g, const struct proc_sample *sample)
{
	const size_t n = g->series->n_buckets;
	uint64_t hash = hash_bytes(HASH_INIT, &sample->key, sizeof(sample->key)), at;
	struct line *line;

	if (map_get(&g->by_key, hash, &at)) {
		set_command(&g->lines[at], sample);
		return &g->lines[at];
	}
	if (g->n == MAX_LINES || ARRAY_RESERVE(g->lines, g->cap, g->n + 1) < 0)
		return NULL;
	line = &g->lines[g->n];
	*line = (struct line){ .key = sample->key,
			       .sheet_num = sample->sheet_num,
			       .rank = sample->rank,
			       .top = -1,
			       .before = NAN };
	set_command(line, sample);
	line->low = malloc(2 * n * sizeof(*line->low));
	if (!line->low || map_put(&g->by_key, hash, g->n) < 0) {
		free(line->low);
		return NULL;
	}
	line->high = line->low + n;
	for (size_t i = 0; i < 2 * n; i++)
		line->low[i] = NAN;
	g->n++;
	return line;
}

static int add_row(void *ctx, const struct history_row *row)
{
	struct gathering *g = ctx;
	const struct recorded_series *series = g->series;
	struct line *line;
	double value;
	size_t bucket;

	if (row->attempt_num != series->attempt_num || row->wall_ns < series->since_wall_ns)
		return 0;
	line = find_line(g, &row->sample);
	if (!line) {
		g->n_left_out++;
		return 0;
	}
	value = value_of(g, line, row);
	bucket = (size_t)((row->wall_ns - series->since_wall_ns) / series->step_ns);
	if (isnan(value) || bucket >= series->n_buckets)
		return 0;
	if (isnan(line->low[bucket]) || value < (double)line->low[bucket])
		line->low[bucket] = (float)value;
	if (isnan(line->high[bucket]) || value > (double)line->high[bucket])
		line->high[bucket] = (float)value;
	if (value > (double)line->top)
		line->top = (float)value;
	return 0;
}

/* ---- writing ---- */

static int compare_tops(const void *left, const void *right)
{
	const struct line *l = left, *r = right;

	return COMPARE(r->top, l->top) ?: COMPARE(l->key.pid, r->key.pid);
}

static void write_values(struct json *j, const char *key, const float *values, size_t first,
			 size_t last)
{
	char text[32];

	json_key_array(j, key);
	for (size_t i = first; i <= last; i++) {
		if (isnan(values[i])) {
			json_none(j);
			continue;
		}
		json_raw(j, text, (size_t)snprintf(text, sizeof(text), "%.5g", (double)values[i]));
	}
	json_end_array(j);
}

static void write_line(struct json *j, const struct line *line, size_t n)
{
	size_t first = 0, last = n - 1;

	while (first < last && isnan(line->low[first]))
		first++;
	while (last > first && isnan(line->low[last]))
		last--;
	json_begin_object(j);
	json_key_i64(j, "pid", line->key.pid);
	json_key_u64(j, "start_ticks", line->key.start_ticks);
	json_key_string(j, "command", line->command);
	json_key_int(j, "sheet_num", line->sheet_num);
	json_key_int(j, "rank", line->rank);
	json_key_u64(j, "first", first);
	write_values(j, "low", line->low, first, last);
	write_values(j, "high", line->high, first, last);
	json_end_object(j);
}

int recorded_series_read(struct recorded_series *series, struct store *store, struct buf *out,
			 struct err *err)
{
	CLEANUP(gathering_release) struct gathering g = { .series = series };
	const struct history_filter filter = { .job_id = series->job_id,
					       .since_wall_ns = series->since_wall_ns,
					       .until_wall_ns = series->until_wall_ns,
					       .with_minutes = true };
	struct json j;
	int r;

	if (series->until_wall_ns <= series->since_wall_ns)
		return err_set(err, -EINVAL, "the span ends before it begins");
	series->step_ns = (series->until_wall_ns - series->since_wall_ns) / series->n_buckets + 1;
	r = store_read_history(store, &filter, add_row, &g, err);
	if (r < 0)
		return r;
	if (g.n > 0)
		qsort(g.lines, g.n, sizeof(*g.lines), compare_tops);
	json_init_object(&j, out);
	json_key_string(&j, "metric", metrics[series->metric].name);
	json_key_string(&j, "unit", metrics[series->metric].unit);
	json_key_f64(&j, "since", u64_to_seconds(series->since_wall_ns));
	json_key_f64(&j, "step_seconds", u64_to_seconds(series->step_ns));
	json_key_u64(&j, "points", series->n_buckets);
	json_key_array(&j, "processes");
	for (size_t i = 0; i < g.n && i < MAX_SHOWN && g.lines[i].top >= 0; i++)
		write_line(&j, &g.lines[i], series->n_buckets);
	json_end_array(&j);
	json_key_u64(&j, "processes_left_out",
		     g.n_left_out + (g.n > MAX_SHOWN ? g.n - MAX_SHOWN : 0));
	json_end_object(&j);
	return buf_error(out) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

#include "cli/compat_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

#define INPUT_MAX_BYTES ((size_t)256 << 20)
#define PROFILES_MAX_BYTES ((size_t)512 << 20)
#define WANTED                                                                                  \
	"{\"config\": {…}, \"history\": [SNAPSHOT…], \"current\": SNAPSHOT} is wanted, of " \
	"which config and history may be left out"

/* Where we are, for messages; and the first thing that was wrong. */
struct reading {
	const char *name;
	const char *part; /* "config", "history", "current"; NULL: a profile */
	bool is_list;
	size_t i; /* in it */
	struct arena *arena;
	struct err *err;
	int r;
};

static void refuse(struct reading *in, const char *key, const struct rpc_value *v,
		   const char *wanted)
{
	char shown[RPC_VALUE_SHOWN_BYTES], place[24] = "";

	if (in->r < 0)
		return;
	if (in->is_list)
		snprintf(place, sizeof(place), "[%zu]", in->i);
	rpc_value_show(v, shown);
	if (in->part)
		in->r = err_set(in->err, -EINVAL, "%s: %s%s: '%s' wants %s, not %s", in->name,
				in->part, place, key, wanted, shown);
	else
		in->r = err_set(in->err, -EINVAL, "%s: '%s' of profile %zu is %s; it wants %s",
				in->name, key, in->i + 1, shown, wanted);
}

static void *check_memory(struct reading *in, void *p)
{
	if (!p && in->r == 0)
		in->r = err_set(in->err, -ENOMEM, "out of memory");
	return p;
}

static bool is_absent(const struct rpc_value *v)
{
	return !v || rpc_value_is_null(v);
}

static double read_f64(struct reading *in, const struct rpc_value *object, const char *key,
		       double otherwise)
{
	const struct rpc_value *v = rpc_value_get(object, key);

	if (is_absent(v))
		return otherwise;
	if (!rpc_value_is_number(v))
		refuse(in, key, v, "a number");
	return rpc_value_f64(v);
}

/* A whole number; INT64_MIN is none that anybody has. */
static int64_t whole(struct reading *in, const char *key, const struct rpc_value *v)
{
	int64_t value = rpc_value_i64(v, INT64_MIN);

	if (value == INT64_MIN)
		refuse(in, key, v, "a whole number");
	return value;
}

static int64_t read_i64(struct reading *in, const struct rpc_value *object, const char *key)
{
	const struct rpc_value *v = rpc_value_get(object, key);

	return is_absent(v) ? 0 : whole(in, key, v);
}

static const char *read_text(struct reading *in, const struct rpc_value *object, const char *key)
{
	const struct rpc_value *v = rpc_value_get(object, key);

	if (is_absent(v))
		return NULL;
	if (!rpc_value_is_string(v))
		refuse(in, key, v, "text");
	return check_memory(in, arena_strdup(in->arena, rpc_value_string(v)));
}

/* A list with room for its elements; NULL: it is empty, or something is wrong. */
static void *read_list(struct reading *in, const struct rpc_value *v, const char *key, size_t size,
		       size_t *ret_n)
{
	void *items;

	*ret_n = 0;
	if (is_absent(v) || in->r < 0)
		return NULL;
	if (!rpc_value_is_list(v))
		refuse(in, key, v, "a list");
	if (!rpc_value_is_list(v) || rpc_value_len(v) == 0)
		return NULL;
	items = check_memory(in, arena_alloc(in->arena, rpc_value_len(v) * size));
	*ret_n = items ? rpc_value_len(v) : 0;
	return items;
}

static int read_file(const char *path, size_t max, struct buf *ret, struct err *err)
{
	const char *file = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
	int r = io_read_at(AT_FDCWD, file, max, ret);

	return r < 0 ? err_set(err, r, "cannot read %s: %s", path, strerror(-r)) : 0;
}

/* ---- what is to be judged ---- */

static void read_process(struct reading *in, const struct rpc_value *v, struct compat_process *ret)
{
	const char *state;

	if (!rpc_value_is_object(v))
		refuse(in, "processes", v, "objects");
	state = read_text(in, v, "state");
	*ret = (struct compat_process){
		.pid = read_i64(in, v, "pid"),
		.state = state ? state[0] : 'S',
		.cpu_percent = read_f64(in, v, "cpu_percent", 0),
		.rss_mb = read_f64(in, v, "rss_mb", 0),
		.open_fds = read_i64(in, v, "open_fds"),
		.job_id = read_text(in, v, "job_id"),
	};
}

static void read_snapshot(struct reading *in, const struct rpc_value *v,
			  struct compat_snapshot *ret)
{
	const struct rpc_value *processes = rpc_value_get(v, "processes");
	const struct rpc_value *pids = rpc_value_get(v, "zombie_pids");
	struct compat_process *items;
	int64_t *zombies;

	if (!rpc_value_is_object(v))
		refuse(in, "snapshot", v, "an object");
	*ret = (struct compat_snapshot){
		.timestamp = read_f64(in, v, "timestamp", 0),
		.memory_total_mb = read_f64(in, v, "system_memory_total_mb", 0),
		.memory_available_mb = read_f64(in, v, "system_memory_available_mb", 0),
		.zombie_count = read_i64(in, v, "zombie_count"),
	};
	items = read_list(in, processes, "processes", sizeof(*items), &ret->n_processes);
	for (size_t i = 0; i < ret->n_processes; i++)
		read_process(in, rpc_value_at(processes, i), &items[i]);
	zombies = read_list(in, pids, "zombie_pids", sizeof(*zombies), &ret->n_zombie_pids);
	for (size_t i = 0; i < ret->n_zombie_pids; i++)
		zombies[i] = whole(in, "zombie_pids", rpc_value_at(pids, i));
	ret->processes = items;
	ret->zombie_pids = zombies;
}

/* The configuration is read by the rules of its file, but for the ranges: whoever compares may want
 * any. */
static void read_root(struct reading *in, const struct rpc_value *root, struct detect_input *ret)
{
	const struct rpc_value *config = rpc_value_get(root, "config");
	const struct rpc_value *history = rpc_value_get(root, "history");
	const struct rpc_value *current = rpc_value_get(root, "current");
	struct config_anomaly *c = &ret->config;

	in->part = "config";
	if (!is_absent(config) && !rpc_value_is_object(config))
		refuse(in, "config", config, "an object");
	c->memory_spike_threshold =
		read_f64(in, config, "memory_spike_threshold", c->memory_spike_threshold);
	c->memory_spike_window_seconds =
		read_f64(in, config, "memory_spike_window_seconds", c->memory_spike_window_seconds);
	c->runaway_cpu_threshold =
		read_f64(in, config, "runaway_cpu_threshold", c->runaway_cpu_threshold);
	c->runaway_duration_seconds =
		read_f64(in, config, "runaway_duration_seconds", c->runaway_duration_seconds);
	in->part = "history";
	ret->history = read_list(in, history, "history", sizeof(*ret->history), &ret->n_history);
	in->is_list = true;
	for (in->i = 0; in->i < ret->n_history; in->i++)
		read_snapshot(in, rpc_value_at(history, in->i), &ret->history[in->i]);
	in->part = "current";
	in->is_list = false;
	if (in->r == 0 && is_absent(current))
		in->r = err_set(in->err, -EINVAL, "%s: 'current' is missing: " WANTED, in->name);
	else
		read_snapshot(in, current, &ret->current);
}

void detect_input_release(struct detect_input *in)
{
	arena_release(&in->arena);
}

int detect_input_parse(const char *text, size_t len, const char *name, struct detect_input *ret,
		       struct err *err)
{
	static const struct rpc_value_limits limits = { .max_depth = 64, .max_values = 1 << 24 };
	CLEANUP(cli_value_cleanup) struct rpc_value *root = NULL;
	struct detect_input read = { .arena = ARENA_INIT };
	struct reading in = { .name = name, .arena = &read.arena, .err = err };
	struct err why = ERR_INIT;
	struct config defaults;
	int r = rpc_value_parse(text, len, &limits, &root, &why);

	if (r < 0)
		return err_set(err, r, "%s: %s", name, why.text);
	config_init(&defaults);
	read.config = defaults.anomaly;
	config_release(&defaults);
	if (!rpc_value_is_object(root))
		return err_set(err, -EINVAL, "%s: not an object: " WANTED, name);
	read_root(&in, root, &read);
	if (in.r < 0)
		detect_input_release(&read);
	else
		*ret = read;
	return in.r;
}

int detect_input_load(const char *path, struct detect_input *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r = read_file(path, INPUT_MAX_BYTES, &text, err);

	return r < 0 ? r : detect_input_parse(text.data, text.len, path, ret, err);
}

/* ---- profiles ---- */

static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{ "peak_rss_mb", offsetof(struct run_record, peak_rss_mb) },
	{ "total_cpu_seconds", offsetof(struct run_record, cpu_seconds) },
	{ "wall_seconds", offsetof(struct run_record, wall_seconds) },
	{ "process_spawn_count", offsetof(struct run_record, spawn_count) },
	{ "early_rss_mb", offsetof(struct run_record, early_rss_mb[2]) },
	{ "rss_slope_mb_s", offsetof(struct run_record, rss_slope_mb_s[2]) },
	{ "max_threads", offsetof(struct run_record, max_threads) },
	{ "max_fds", offsetof(struct run_record, max_fds) },
	{ "io_mb", offsetof(struct run_record, io_mb) },
	{ "major_faults", offsetof(struct run_record, major_faults) },
	{ "memory_stall_pct", offsetof(struct run_record, memory_stall_pct) },
	{ "io_stall_pct", offsetof(struct run_record, io_stall_pct) },
	{ "cpu_stall_pct", offsetof(struct run_record, cpu_stall_pct) },
	{ "gpu_memory_mb", offsetof(struct run_record, gpu_memory_mb) },
	{ "gpu_utilization_pct", offsetof(struct run_record, gpu_utilization_pct) },
};

void profiles_release(struct profiles *p)
{
	run_list_release(&p->runs);
	free(p->compat);
	buf_release(&p->ignored);
	*p = (struct profiles)PROFILES_INIT;
}

#define MAX_IGNORED_BYTES 1000 /* a document may have any number of them */

static void note_ignored(void *ctx, const char *key, const struct rpc_value *member)
{
	static const char *const texts[] = { "job_id", "outcome",   "command",
					     "host",   "anomalies", "syscall_hotspots" };
	struct suggest near = suggest_for(key);
	char quoted[UTF8_QUOTED_BYTES];
	struct buf *ignored = ctx;

	(void)member;
	for (size_t i = 0; i < ARRAY_SIZE(numbers) + ARRAY_SIZE(texts); i++) {
		const char *known =
			i < ARRAY_SIZE(numbers) ? numbers[i].key : texts[i - ARRAY_SIZE(numbers)];

		if (strcmp(key, known) == 0)
			return;
		suggest_offer(&near, known);
	}
	utf8_quote(key, quoted);
	if (ignored->len > MAX_IGNORED_BYTES || strstr(ignored->data, quoted))
		return;
	buf_printf(ignored, "%s%s", ignored->len > 0 ? ", " : "", quoted);
	if (near.best)
		buf_printf(ignored, " (did you mean '%s'?)", near.best);
}

struct hotspots {
	struct reading *in;
	struct syscall_share *items;
	size_t n;
};

static void add_hotspot(void *ctx, const char *key, const struct rpc_value *member)
{
	struct hotspots *h = ctx;

	if (!rpc_value_is_number(member))
		refuse(h->in, "syscall_hotspots", member, "numbers only");
	h->items[h->n].pct = rpc_value_f64(member);
	h->items[h->n++].name = check_memory(h->in, arena_strdup(h->in->arena, key));
}

/* All of them for compat, in their order; as text for the run. */
static void read_hotspots(struct reading *in, const struct rpc_value *v,
			  struct compat_profile *compat, struct run_record *run)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct hotspots h = { .in = in };

	if (is_absent(v))
		return;
	if (!rpc_value_is_object(v))
		refuse(in, "syscall_hotspots", v, "an object");
	h.items =
		check_memory(in, arena_alloc(in->arena, (rpc_value_len(v) + 1) * sizeof(*h.items)));
	if (in->r < 0)
		return;
	rpc_value_each(v, add_hotspot, &h);
	if (in->r < 0)
		return;
	compat->hotspots = h.items;
	compat->n_hotspots = h.n;
	run_write_shares(h.items, h.n, &text);
	run->syscalls = check_memory(in, arena_strndup(in->arena, text.data, text.len));
}

static void read_anomalies(struct reading *in, const struct rpc_value *v, struct run_record *run)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (is_absent(v))
		return;
	if (!rpc_value_is_list(v))
		refuse(in, "anomalies", v, "a list of types");
	for (size_t i = 0; in->r == 0 && i < rpc_value_len(v); i++) {
		const char *type = rpc_value_string(rpc_value_at(v, i));

		if (!type || strchr(type, ' '))
			refuse(in, "anomalies", rpc_value_at(v, i), "a list of types");
		else
			buf_printf(&text, "%s%s", i ? " " : "", type);
	}
	run->anomalies = check_memory(in, arena_strndup(in->arena, text.data, text.len));
}

static void read_profile(struct reading *in, const struct rpc_value *profile,
			 struct run_record *run, struct compat_profile *compat, struct buf *ignored)
{
	const char *outcome, *command;

	if (!rpc_value_is_object(profile))
		refuse(in, "profiles", profile, "objects");
	rpc_value_each(profile, note_ignored, ignored);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const char *key = numbers[i].key;
		double *to = (double *)(void *)((char *)run + numbers[i].offset);

		*to = read_f64(in, profile, key, *to);
		/* what is measured is not less than none; growth may be */
		if (*to < 0 && strcmp(key, "rss_slope_mb_s") != 0)
			refuse(in, key, rpc_value_get(profile, key), "a number from 0 on");
	}
	run->job_id = read_text(in, profile, "job_id");
	outcome = read_text(in, profile, "outcome"); /* null: it is not known yet */
	run->outcome = outcome_from_name(outcome);
	if (outcome && run->outcome == OUTCOME_NONE)
		refuse(in, "outcome", rpc_value_get(profile, "outcome"),
		       "success, failure, cancelled, timeout or oom");
	command = read_text(in, profile, "command");
	run->host = read_text(in, profile, "host");
	read_anomalies(in, rpc_value_get(profile, "anomalies"), run);
	read_hotspots(in, rpc_value_get(profile, "syscall_hotspots"), compat, run);
	if (in->r < 0)
		return;
	run->is_whole = true;
	run->started_wall_ns = run->ended_wall_ns = in->i; /* they come in their order */
	class_of_command(command, &run->class);
	compat->peak_rss_mb = f64_known(run->peak_rss_mb) ? run->peak_rss_mb : 0;
	compat->process_spawn_count = f64_known(run->spawn_count) ? run->spawn_count : 0;
	compat->has_failed = run_has_failed(run);
}

int profiles_parse(const char *text, size_t len, const char *name, struct profiles *ret,
		   struct err *err)
{
	static const struct rpc_value_limits limits = { .max_depth = 16, .max_values = 20u << 20 };
	CLEANUP(cli_value_cleanup) struct rpc_value *document = NULL;
	struct profiles out = PROFILES_INIT;
	struct reading in = { .name = name, .arena = &out.runs.arena, .err = err };
	const struct rpc_value *list;
	struct err why = ERR_INIT;
	int r = rpc_value_parse(text, len, &limits, &document, &why);

	if (r < 0)
		return err_set(err, r == -ENOMEM ? r : -EINVAL, "%s: %s", name, why.text);
	list = rpc_value_get(document, "profiles");
	if (!rpc_value_is_list(list))
		return err_set(err, -EINVAL, "%s: it wants {\"profiles\": [{…}, …]}", name);
	out.compat = check_memory(&in, calloc(rpc_value_len(list) + 1, sizeof(*out.compat)));
	for (; in.r == 0 && in.i < rpc_value_len(list); in.i++) {
		struct run_record *run = check_memory(&in, run_list_add(&out.runs));

		if (run)
			read_profile(&in, rpc_value_at(list, in.i), run, &out.compat[in.i],
				     &out.ignored);
	}
	if (in.r < 0)
		profiles_release(&out);
	else
		*ret = out;
	return in.r;
}

int profiles_load(const char *path, struct profiles *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r = read_file(path, PROFILES_MAX_BYTES, &text, err);

	if (r < 0)
		return r;
	return profiles_parse(text.data, text.len, strcmp(path, "-") == 0 ? "standard input" : path,
			      ret, err);
}

#include "cli/detect/detect_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

#define INPUT_MAX_BYTES ((size_t)256 << 20)
#define WANTED                                                                                  \
	"{\"config\": {…}, \"history\": [SNAPSHOT…], \"current\": SNAPSHOT} is wanted, of " \
	"which config and history may be left out"

/* Where we are, for messages; and the first thing that was wrong. */
struct reading {
	const char *name;
	const char *part; /* "config", "history", "current" */
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
	in->r = err_set(in->err, -EINVAL, "%s: %s%s: '%s' wants %s, not %s", in->name, in->part,
			place, key, wanted, rpc_value_show(v, shown));
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

static const char *read_string(struct reading *in, const struct rpc_value *object, const char *key)
{
	const struct rpc_value *v = rpc_value_get(object, key);
	char *copy;

	if (is_absent(v))
		return NULL;
	if (!rpc_value_is_string(v))
		refuse(in, key, v, "text");
	copy = arena_strdup(in->arena, rpc_value_string(v));
	if (!copy && in->r == 0)
		in->r = err_set(in->err, -ENOMEM, "out of memory");
	return copy;
}

/* A list with room for its elements; NULL: it is empty, or something is wrong. */
static void *read_list(struct reading *in, const struct rpc_value *v, const char *key, size_t size,
		       size_t *ret_n)
{
	void *items;

	*ret_n = 0;
	if (is_absent(v) || in->r < 0)
		return NULL;
	if (!rpc_value_is_list(v)) {
		refuse(in, key, v, "a list");
		return NULL;
	}
	if (rpc_value_len(v) == 0)
		return NULL;
	items = arena_alloc(in->arena, rpc_value_len(v) * size);
	if (!items)
		in->r = err_set(in->err, -ENOMEM, "out of memory");
	else
		*ret_n = rpc_value_len(v);
	return items;
}

static void read_process(struct reading *in, const struct rpc_value *v, struct compat_process *ret)
{
	const char *state;

	if (!rpc_value_is_object(v))
		refuse(in, "processes", v, "objects");
	state = read_string(in, v, "state");
	*ret = (struct compat_process){
		.pid = read_i64(in, v, "pid"),
		.state = state ? state[0] : 'S',
		.cpu_percent = read_f64(in, v, "cpu_percent", 0),
		.rss_mb = read_f64(in, v, "rss_mb", 0),
		.open_fds = read_i64(in, v, "open_fds"),
		.job_id = read_string(in, v, "job_id"),
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

/* By the rules of the configuration file, but for the ranges: whoever compares may want any. */
static void read_config(struct reading *in, const struct rpc_value *v, struct config_anomaly *ret)
{
	if (!is_absent(v) && !rpc_value_is_object(v))
		refuse(in, "config", v, "an object");
	ret->memory_spike_threshold =
		read_f64(in, v, "memory_spike_threshold", ret->memory_spike_threshold);
	ret->memory_spike_window_seconds =
		read_f64(in, v, "memory_spike_window_seconds", ret->memory_spike_window_seconds);
	ret->runaway_cpu_threshold =
		read_f64(in, v, "runaway_cpu_threshold", ret->runaway_cpu_threshold);
	ret->runaway_duration_seconds =
		read_f64(in, v, "runaway_duration_seconds", ret->runaway_duration_seconds);
}

static void read_root(struct reading *in, const struct rpc_value *root, struct detect_input *ret)
{
	const struct rpc_value *history = rpc_value_get(root, "history");
	const struct rpc_value *current = rpc_value_get(root, "current");

	in->part = "config";
	read_config(in, rpc_value_get(root, "config"), &ret->config);
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
	const char *file = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
	int r = io_read_at(AT_FDCWD, file, INPUT_MAX_BYTES, &text);

	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", path, strerror(-r));
	return detect_input_parse(text.data, text.len, path, ret, err);
}

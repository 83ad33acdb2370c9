#include "cli/profiles.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

#define FILE_MAX_BYTES (512u << 20)
#define FILE_MAX_VALUES (20u << 20)
#define FILE_MAX_DEPTH 16

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
	arena_release(&p->arena);
	*p = (struct profiles){ .runs = { .arena = ARENA_INIT }, .arena = ARENA_INIT };
}

/* ---- one profile ---- */

struct reader {
	const char *name; /* of the file */
	size_t index;	  /* of the profile */
	struct profiles *out;
	struct err *err;
	int r;
};

static int refuse(struct reader *reader, const char *key, const char *wanted,
		  const struct rpc_value *v)
{
	char shown[RPC_VALUE_SHOWN_BYTES];

	return err_set(reader->err, -EINVAL, "%s: '%s' of profile %zu is %s; it wants %s",
		       reader->name, key, reader->index + 1, rpc_value_show(v, shown), wanted);
}

/* What is measured is not less than none; growth may be. */
static bool may_be_negative(const char *key)
{
	return strcmp(key, "rss_slope_mb_s") == 0;
}

static int read_number(struct reader *reader, const struct rpc_value *profile, const char *key,
		       double *ret)
{
	const struct rpc_value *v = rpc_value_get(profile, key);

	if (!v || rpc_value_is_null(v))
		return 0;
	if (!rpc_value_is_number(v))
		return refuse(reader, key, "a number", v);
	if (rpc_value_f64(v) < 0 && !may_be_negative(key))
		return refuse(reader, key, "a number from 0 on", v);
	*ret = rpc_value_f64(v);
	return 0;
}

static int read_text(struct reader *reader, const struct rpc_value *profile, const char *key,
		     const char **ret)
{
	const struct rpc_value *v = rpc_value_get(profile, key);

	if (!v || rpc_value_is_null(v))
		return 0;
	if (!rpc_value_is_string(v))
		return refuse(reader, key, "text", v);
	*ret = arena_strdup(&reader->out->arena, rpc_value_string(v));
	return *ret ? 0 : err_set(reader->err, -ENOMEM, "out of memory");
}

/* null: it is not known yet. */
static int read_outcome(struct reader *reader, const struct rpc_value *profile, enum outcome *ret)
{
	const struct rpc_value *v = rpc_value_get(profile, "outcome");
	const char *name = NULL;
	int r = read_text(reader, profile, "outcome", &name);

	*ret = outcome_from_name(name);
	if (r == 0 && name && *ret == OUTCOME_NONE)
		r = refuse(reader, "outcome", "success, failure, cancelled, timeout or oom", v);
	return r;
}

struct hotspots {
	struct reader *reader;
	struct syscall_share *items;
	size_t n;
};

static void add_hotspot(void *ctx, const char *key, const struct rpc_value *member)
{
	struct hotspots *h = ctx;

	if (!rpc_value_is_number(member))
		h->reader->r = refuse(h->reader, "syscall_hotspots", "numbers only", member);
	h->items[h->n].pct = rpc_value_f64(member);
	h->items[h->n].name = arena_strdup(&h->reader->out->arena, key);
	if (!h->items[h->n++].name)
		h->reader->r = err_set(h->reader->err, -ENOMEM, "out of memory");
}

/* All of them for compat, in their order; as text for the run. */
static int read_hotspots(struct reader *reader, const struct rpc_value *profile,
			 struct compat_profile *compat, struct run_record *run)
{
	const struct rpc_value *v = rpc_value_get(profile, "syscall_hotspots");
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct hotspots h = { .reader = reader };

	if (!v || rpc_value_is_null(v))
		return 0;
	if (!rpc_value_is_object(v))
		return refuse(reader, "syscall_hotspots", "an object", v);
	h.items = arena_alloc(&reader->out->arena, (rpc_value_len(v) + 1) * sizeof(*h.items));
	if (!h.items)
		return err_set(reader->err, -ENOMEM, "out of memory");
	rpc_value_each(v, add_hotspot, &h);
	compat->hotspots = h.items;
	compat->n_hotspots = h.n;
	run_write_shares(h.items, h.n, &text);
	run->syscalls = arena_strndup(&reader->out->arena, text.data, text.len);
	return run->syscalls && reader->r == 0 ? 0 : reader->r;
}

static int read_anomalies(struct reader *reader, const struct rpc_value *profile,
			  struct run_record *run)
{
	const struct rpc_value *v = rpc_value_get(profile, "anomalies");
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (!v || rpc_value_is_null(v))
		return 0;
	if (!rpc_value_is_list(v))
		return refuse(reader, "anomalies", "a list of types", v);
	for (size_t i = 0; i < rpc_value_len(v); i++) {
		const char *type = rpc_value_string(rpc_value_at(v, i));

		if (!type || strchr(type, ' '))
			return refuse(reader, "anomalies", "a list of types", rpc_value_at(v, i));
		buf_printf(&text, "%s%s", i ? " " : "", type);
	}
	run->anomalies = arena_strndup(&reader->out->arena, text.data, text.len);
	return run->anomalies ? 0 : err_set(reader->err, -ENOMEM, "out of memory");
}

static double or_zero(double v)
{
	return f64_known(v) ? v : 0;
}

static int read_profile(struct reader *reader, const struct rpc_value *profile,
			struct run_record *run, struct compat_profile *compat)
{
	const char *command = NULL;
	int r = 0;

	if (!rpc_value_is_object(profile))
		return refuse(reader, "profiles", "objects", profile);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(numbers); i++)
		r = read_number(reader, profile, numbers[i].key,
				(double *)(void *)((char *)run + numbers[i].offset));
	if (r == 0)
		r = read_text(reader, profile, "job_id", &run->job_id);
	if (r == 0)
		r = read_outcome(reader, profile, &run->outcome);
	if (r == 0)
		r = read_text(reader, profile, "command", &command);
	if (r == 0)
		r = read_text(reader, profile, "host", &run->host);
	if (r == 0)
		r = read_anomalies(reader, profile, run);
	if (r == 0)
		r = read_hotspots(reader, profile, compat, run);
	if (r < 0)
		return r;
	run->is_whole = true;
	run->started_wall_ns = run->ended_wall_ns = reader->index; /* they come in their order */
	class_of_command(command, &run->class);
	compat->peak_rss_mb = or_zero(run->peak_rss_mb);
	compat->process_spawn_count = or_zero(run->spawn_count);
	compat->has_failed = run_has_failed(run);
	return 0;
}

/* ---- the file ---- */

static int read_all(struct reader *reader, const struct rpc_value *list)
{
	struct profiles *out = reader->out;
	size_t n = rpc_value_len(list);
	int r = 0;

	out->compat = calloc(n ? n : 1, sizeof(*out->compat));
	if (!out->compat)
		return err_set(reader->err, -ENOMEM, "out of memory");
	for (; r == 0 && reader->index < n; reader->index++) {
		struct run_record *run = run_list_add(&out->runs);

		if (!run)
			return err_set(reader->err, -ENOMEM, "out of memory");
		r = read_profile(reader, rpc_value_at(list, reader->index), run,
				 &out->compat[reader->index]);
	}
	return r;
}

int profiles_parse(const char *text, size_t len, const char *name, struct profiles *ret,
		   struct err *err)
{
	static const struct rpc_value_limits limits = { FILE_MAX_DEPTH, FILE_MAX_VALUES };
	CLEANUP(cli_value_cleanup) struct rpc_value *document = NULL;
	struct profiles out = { .runs = { .arena = ARENA_INIT }, .arena = ARENA_INIT };
	struct reader reader = { .name = name, .out = &out, .err = err };
	const struct rpc_value *list;
	struct err why = ERR_INIT;
	int r = rpc_value_parse(text, len, &limits, &document, &why);

	if (r < 0)
		return err_set(err, r == -ENOMEM ? r : -EINVAL, "%s: %s", name, why.text);
	list = rpc_value_get(document, "profiles");
	if (!rpc_value_is_list(list))
		return err_set(err, -EINVAL, "%s: it wants {\"profiles\": [{…}, …]}", name);
	r = read_all(&reader, list);
	if (r < 0) {
		profiles_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}

int profiles_load(const char *path, struct profiles *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	bool is_stdin = strcmp(path, "-") == 0;
	int r = io_read_at(AT_FDCWD, is_stdin ? "/dev/stdin" : path, FILE_MAX_BYTES, &text);

	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", path, strerror(-r));
	return profiles_parse(text.data, text.len, is_stdin ? "standard input" : path, ret, err);
}

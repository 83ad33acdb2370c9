#include "base/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/macros.h"
#include "base/mask.h"
#include "base/num.h"
#include "base/utf8.h"

#define MIB (UINT64_C(1024) * 1024)
#define MAX_BYTES (MIB * MIB * 1024) /* 1 PiB: more is a slip of the finger */
#define MAX_DAYS 3650
#define MAX_SECONDS 86400
#define MAX_COUNT 1e9

/* There are three files of a log, and the record is to have the larger part. */
#define LOG_SHARE 8

static const struct config defaults = {
	.enabled = true,
	.interval_seconds = 5,
	.gpu_enabled = true,
	.ebpf_enabled = true,
	.syscalls_enabled = true,
	.syscalls_time_every = 1,
	.strace_full_on_demand = true,
	.mask_secrets = true,
	.storage_path = "proctor.db",
	.jsonl_max_bytes = 50 * MIB,
	.retention = {
		.full_resolution_hours = 24,
		.downsampled_days = 7,
		.events_days = 30,
		.max_bytes = 1024 * MIB,
	},
	.web = { .enabled = true, .listen = "127.0.0.1:9797" },
	.anomaly = {
		.memory_spike_threshold = 1.5,
		.memory_spike_window_seconds = 30,
		.memory_spike_floor_mb = 64,
		.memory_leak_window_seconds = 300,
		.memory_leak_floor_mb = 32,
		.memory_leak_horizon_seconds = 3600,
		.memory_pressure_percent = 10,
		.memory_pressure_stall_percent = 10,
		.memory_pressure_cgroup_percent = 95,
		.runaway_cpu_threshold = 90,
		.runaway_duration_seconds = 60,
		.stuck_duration_seconds = 300,
		.zombie_duration_seconds = 30,
		.fd_exhaustion_percent = 90,
		.fd_exhaustion_horizon_seconds = 600,
		.thread_explosion_threads = 512,
		.process_explosion_processes = 200,
		.io_stall_percent = 40,
		.io_stall_duration_seconds = 30,
		.swap_storm_mb_per_second = 16,
		.swap_storm_duration_seconds = 10,
		.gpu_memory_percent = 95,
		.gpu_idle_duration_seconds = 300,
		.gpu_temperature_c = 85,
		.orphan_duration_seconds = 30,
		.clear_seconds = 60,
		.evidence_interval_seconds = 0.1,
		.evidence_duration_seconds = 10,
	},
	.correlation = { .interval_minutes = 30, .min_sample_size = 5 },
	.limits = { .max_daemon_cpu_percent = 1 },
};

/*
 * ---- the table: a row for each key, a schema for each mapping ----
 *
 * Who may go by defaults instead (config_load()): what does no harm by it. A wrong place, a
 * wrong mask or a wrong retention would, for it shows or removes what was to stay.
 */

#define KEY(type, name, the_kind) .key = #name, .kind = the_kind, .offset = offsetof(type, name)

#define SECTION(name)                                                                \
	.key = #name, .kind = YAML_MAPPING, .offset = offsetof(struct config, name), \
	.item = &name##_schema

#define SCHEMA(the_what, the_fields, type, the_defaults)                                      \
	.what = the_what, .fields = the_fields, .n_fields = ARRAY_SIZE(the_fields),           \
	.size = sizeof(type), .line_offset = SIZE_MAX, .lines_offset = offsetof(type, lines), \
	.defaults = the_defaults
#define MAPPING(name) SCHEMA(#name " mapping", name##_fields, struct config_##name, &defaults.name)

#define ASSERT_LINES(the_fields, values)                                   \
	_Static_assert(ARRAY_SIZE(the_fields) == ARRAY_SIZE(values.lines), \
		       "there is a line for each key")

static const struct yaml_field retention_fields[] = {
	{ KEY(struct config_retention, full_resolution_hours, YAML_INT), .min = 1,
	  .max = MAX_DAYS * 24 },
	{ KEY(struct config_retention, downsampled_days, YAML_INT), .min = 1, .max = MAX_DAYS },
	{ KEY(struct config_retention, events_days, YAML_INT), .min = 1, .max = MAX_DAYS },
	{ KEY(struct config_retention, max_bytes, YAML_U64), .min = 16 * MIB, .max = MAX_BYTES,
	  .zero_means = "no limit" },
};

static const struct yaml_schema retention_schema = { MAPPING(retention) };
ASSERT_LINES(retention_fields, defaults.retention);

/* What most of them are. */
#define SECONDS(name) \
	KEY(struct config_anomaly, name, YAML_NUMBER), .is_min_excluded = true, .max = MAX_SECONDS
#define PERCENT(name) \
	KEY(struct config_anomaly, name, YAML_NUMBER), .is_min_excluded = true, .max = 100
#define MEGABYTES(name) KEY(struct config_anomaly, name, YAML_NUMBER), .max = MAX_COUNT

static const struct yaml_field anomaly_fields[] = {
	{ KEY(struct config_anomaly, memory_spike_threshold, YAML_NUMBER), .min = 1,
	  .is_min_excluded = true, .max = 1000 },
	{ SECONDS(memory_spike_window_seconds) },
	{ MEGABYTES(memory_spike_floor_mb) },
	{ SECONDS(memory_leak_window_seconds) },
	{ MEGABYTES(memory_leak_floor_mb) },
	{ SECONDS(memory_leak_horizon_seconds) },
	{ PERCENT(memory_pressure_percent) },
	{ PERCENT(memory_pressure_stall_percent) },
	{ PERCENT(memory_pressure_cgroup_percent) },
	{ KEY(struct config_anomaly, runaway_cpu_threshold, YAML_NUMBER), .min = 50, .max = 100 },
	{ SECONDS(runaway_duration_seconds) },
	{ SECONDS(stuck_duration_seconds) },
	{ SECONDS(zombie_duration_seconds) },
	{ PERCENT(fd_exhaustion_percent) },
	{ SECONDS(fd_exhaustion_horizon_seconds) },
	{ KEY(struct config_anomaly, thread_explosion_threads, YAML_U64), .min = 2,
	  .max = MAX_COUNT },
	{ KEY(struct config_anomaly, process_explosion_processes, YAML_U64), .min = 2,
	  .max = MAX_COUNT },
	{ PERCENT(io_stall_percent) },
	{ SECONDS(io_stall_duration_seconds) },
	{ KEY(struct config_anomaly, swap_storm_mb_per_second, YAML_NUMBER),
	  .is_min_excluded = true, .max = MAX_COUNT },
	{ SECONDS(swap_storm_duration_seconds) },
	{ PERCENT(gpu_memory_percent) },
	{ SECONDS(gpu_idle_duration_seconds) },
	{ KEY(struct config_anomaly, gpu_temperature_c, YAML_NUMBER), .min = 20, .max = 150 },
	{ SECONDS(orphan_duration_seconds) },
	{ SECONDS(clear_seconds) },
	{ KEY(struct config_anomaly, evidence_interval_seconds, YAML_NUMBER), .min = 0.01,
	  .max = 300 },
	{ KEY(struct config_anomaly, evidence_duration_seconds, YAML_NUMBER), .max = 600 },
	{ KEY(struct config_anomaly, evidence_trace_seconds, YAML_NUMBER), .max = 60 },
};

static const struct yaml_schema anomaly_schema = { MAPPING(anomaly), .may_slip = true };
ASSERT_LINES(anomaly_fields, defaults.anomaly);

static const struct yaml_field correlation_fields[] = {
	{ KEY(struct config_correlation, interval_minutes, YAML_INT), .min = 5,
	  .max = MAX_DAYS * 1440 },
	{ KEY(struct config_correlation, min_sample_size, YAML_INT), .min = 2, .max = MAX_COUNT },
};

static const struct yaml_schema correlation_schema = { MAPPING(correlation), .may_slip = true };
ASSERT_LINES(correlation_fields, defaults.correlation);

static const struct yaml_field limits_fields[] = {
	{ KEY(struct config_limits, max_memory_mb, YAML_U64), .min = 64, .max = MAX_COUNT,
	  .zero_means = "all that the host has" },
	{ KEY(struct config_limits, max_processes, YAML_U64), .min = 5, .max = MAX_COUNT,
	  .zero_means = "any number" },
	{ KEY(struct config_limits, max_concurrent_jobs, YAML_U64), .min = 1, .max = 1000,
	  .zero_means = "as many as there are cores" },
	{ KEY(struct config_limits, max_daemon_cpu_percent, YAML_NUMBER), .min = 0.1, .max = 100 },
};

static const struct yaml_schema limits_schema = { MAPPING(limits), .may_slip = true };
ASSERT_LINES(limits_fields, defaults.limits);

static const struct yaml_field access_fields[] = {
	{ KEY(struct config_access, read_group, YAML_STRING_OR_NONE) },
};

static const struct yaml_schema access_schema = { MAPPING(access) };
ASSERT_LINES(access_fields, defaults.access);

static const struct yaml_field web_fields[] = {
	{ KEY(struct config_web, enabled, YAML_BOOL) },
	{ KEY(struct config_web, listen, YAML_STRING) },
};

static const struct yaml_schema web_schema = { MAPPING(web) };
ASSERT_LINES(web_fields, defaults.web);

static const struct yaml_field later_fields[] = {
	{ KEY(struct config_later, enabled, YAML_BOOL) },
};

#define LATER(name) SCHEMA(#name " mapping", later_fields, struct config_later, &defaults.name)

static const struct yaml_schema export_schema = { LATER(export) }, fleet_schema = { LATER(fleet) };
ASSERT_LINES(later_fields, defaults.export);

/* A section's not_yet is that of all of its keys. */
static const char *const capture_choices[] = { "auto", "off", NULL };

static const struct yaml_field fields[] = {
	{ KEY(struct config, enabled, YAML_BOOL) },
	{ KEY(struct config, interval_seconds, YAML_NUMBER), .min = 0.1, .max = 300 },
	{ KEY(struct config, gpu_enabled, YAML_BOOL) },
	{ KEY(struct config, ebpf_enabled, YAML_BOOL) },
	{ KEY(struct config, syscalls_enabled, YAML_BOOL) },
	{ KEY(struct config, syscalls_time_every, YAML_INT), .min = 1, .max = 10000 },
	{ KEY(struct config, strace_enabled, YAML_BOOL) },
	{ KEY(struct config, strace_full_on_demand, YAML_BOOL) },
	{ KEY(struct config, capture, YAML_CHOICE), .choices = capture_choices },
	{ KEY(struct config, mask_secrets, YAML_BOOL) },
	{ KEY(struct config, mask_patterns, YAML_STRINGS) },
	{ KEY(struct config, storage_path, YAML_STRING) },
	{ KEY(struct config, jsonl_path, YAML_STRING_OR_NONE) },
	{ KEY(struct config, jsonl_max_bytes, YAML_U64), .min = MIB, .max = MAX_BYTES },
	{ SECTION(retention) },
	{ SECTION(anomaly) },
	{ SECTION(correlation) },
	{ SECTION(limits) },
	{ SECTION(access) },
	{ SECTION(web) },
	{ SECTION(export) },
	{ SECTION(fleet) },
};

static const struct yaml_schema schema = { SCHEMA("configuration", fields, struct config,
						  &defaults) };
ASSERT_LINES(fields, defaults);

/* ---- reading ---- */

void config_init(struct config *c)
{
	*c = defaults;
}

uint64_t config_log_bytes(const struct config *c)
{
	uint64_t share = c->retention.max_bytes / LOG_SHARE;

	return c->retention.max_bytes && share < c->jsonl_max_bytes ? share : c->jsonl_max_bytes;
}

void config_release(struct config *c)
{
	arena_release(&c->arena);
	config_init(c);
}

/* One by one, so that the message can name the line. */
static int check_patterns(const char *path, const struct config *c, struct err *err)
{
	const struct yaml_strings *patterns = &c->mask_patterns;
	struct mask *mask = NULL;
	struct err why = ERR_INIT;
	int r;

	for (size_t i = 0; i < patterns->n; i++) {
		r = mask_new(&patterns->items[i], 1, &mask, &why);
		if (r < 0)
			return err_set(err, r, "%s:%d: %s", path, patterns->lines[i], why.text);
		mask = mask_free(mask);
	}
	r = mask_new(patterns->items, patterns->n, &mask, &why);
	if (r < 0)
		return err_set(err, r, "%s:%d: %s", path, patterns->lines[0], why.text);
	mask_free(mask);
	return 0;
}

/* "~ada/x" would be a file below a folder of that name, which nobody means. */
static int check_path(const char *path, const struct config *c, const char *key, const char *given,
		      struct err *err)
{
	char shown[UTF8_QUOTED_BYTES];

	if (!given || given[0] != '~' || given[1] == '/')
		return 0;
	return err_set(err, -EINVAL,
		       "%s:%d: '%s' is %s; only '~/' stands for a home: write the path out", path,
		       config_line(c, key), key, utf8_quote(given, shown));
}

int config_parse_listen(const char *listen, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_un *un = (struct sockaddr_un *)ret;
	const char *colon = strrchr(listen, ':');
	char host[INET6_ADDRSTRLEN + 2] = "";
	size_t len = colon ? (size_t)(colon - listen) : 0;
	uint64_t port;

	memset(ret, 0, sizeof(*ret));
	if (listen[0] == '/') {
		if (strlen(listen) >= sizeof(un->sun_path))
			return -EINVAL;
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, listen, strlen(listen));
		*ret_len = sizeof(*un);
		return 0;
	}
	if (!colon || len >= sizeof(host) || num_parse_u64(colon + 1, &port) < 0 || port < 1 ||
	    port > UINT16_MAX)
		return -EINVAL;
	memcpy(host, listen, len);
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1 &&
	    ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		*ret_len = sizeof(*in);
		return 0;
	}
	if (strcmp(host, "[::1]") != 0)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	in6->sin6_family = AF_INET6;
	in6->sin6_addr = in6addr_loopback;
	in6->sin6_port = htons((uint16_t)port);
	*ret_len = sizeof(*in6);
	return 0;
}

static int check_listen(const char *path, const struct config *c, struct err *err)
{
	struct sockaddr_storage address;
	char shown[UTF8_QUOTED_BYTES];
	socklen_t len;

	if (config_parse_listen(c->web.listen, &address, &len) == 0)
		return 0;
	return err_set(err, -EINVAL,
		       "%s:%d: 'web.listen' is %s; it takes an address of this host with a port "
		       "(127.0.0.1:9797), or the absolute path of a socket",
		       path, config_line(c, "web.listen"), utf8_quote(c->web.listen, shown));
}

/*
 * Who turns on what is not there would wait for it in vain; and there are no settings of it that a
 * later version is sure to have.
 */
static int check_later(const char *path, const struct config *c, struct err *err)
{
	const struct {
		const char *name, *what;
		bool is_on;
	} rows[] = {
		{ "export.enabled", "an export that runs by itself", c->export.enabled },
		{ "fleet.enabled", "a store for many hosts", c->fleet.enabled },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].is_on)
			return err_set(err, -EINVAL,
				       "%s:%d: '%s' is true, and this version does not have %s; "
				       "write false, or leave it out",
				       path, config_line(c, rows[i].name), rows[i].name,
				       rows[i].what);
	return 0;
}

int config_load(const char *path, struct config *c, struct buf *slips, struct err *err)
{
	struct arena arena = ARENA_INIT;
	int r;

	config_release(c);
	r = yaml_load(path, &schema, &arena, c, slips, err);
	if (r == 0)
		r = check_patterns(path, c, err);
	if (r == 0)
		r = check_path(path, c, "storage_path", c->storage_path, err);
	if (r == 0)
		r = check_path(path, c, "jsonl_path", c->jsonl_path, err);
	if (r == 0)
		r = check_listen(path, c, err);
	if (r == 0)
		r = check_later(path, c, err);
	c->arena = arena;
	c->was_read = r == 0;
	if (r < 0)
		config_release(c);
	if (r != -ENOENT)
		return r;
	err_set(err, 0, "%s", "");
	return 0;
}

/* ---- listing ---- */

void config_each(const struct config *c, config_setting_fn *fn, void *ctx)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct yaml_field *section =
			fields[i].kind == YAML_MAPPING ? &fields[i] : NULL;
		const struct yaml_schema *s = section ? section->item : &schema;
		const size_t offset = section ? section->offset : 0;
		const int *lines = (const void *)((const char *)c + offset + s->lines_offset);
		const size_t first = section ? 0 : i, end = section ? s->n_fields : i + 1;

		for (size_t k = first; k < end; k++) {
			const struct yaml_field *field = &s->fields[k];
			struct config_setting setting = {
				.section = section ? section->key : NULL,
				.key = field->key,
				.field = field,
				.offset = offset + field->offset,
				.line = lines[k],
				.not_yet = section && section->not_yet ? section->not_yet
								       : field->not_yet,
			};

			snprintf(setting.name, sizeof(setting.name), "%s%s%s",
				 section ? section->key : "", section ? "." : "", field->key);
			fn(ctx, c, &setting);
		}
	}
}

/* A setting that is looked for by its name. */
struct search {
	const char *name;
	struct config_setting found; /* without a key: there is none */
};

static void note_setting(void *ctx, const struct config *c, const struct config_setting *setting)
{
	struct search *search = ctx;

	(void)c;
	if (strcmp(setting->name, search->name) == 0)
		search->found = *setting;
}

int config_line(const struct config *c, const char *name)
{
	struct search search = { .name = name };

	config_each(c, note_setting, &search);
	return search.found.line;
}

/* ---- one setting ---- */

int config_set(struct config *c, const char *name, const char *value, struct err *err)
{
	struct search wanted = { .name = name };
	struct config one;
	struct err why = ERR_INIT;
	char text[512], shown[UTF8_QUOTED_BYTES];
	int n, r;

	if (strpbrk(value, "\r\n")) /* a line end would begin another key */
		return err_set(err, -EINVAL, "the value of '%s' has more than one line", name);
	config_each(c, note_setting, &wanted);
	if (!wanted.found.key)
		return err_set(err, -EINVAL,
			       "there is no setting %s: \"proctor config\" lists them",
			       utf8_quote(name, shown));
	n = snprintf(text, sizeof(text), "%s%s%s: %s\n",
		     wanted.found.section ? wanted.found.section : "",
		     wanted.found.section ? ":\n  " : "", wanted.found.key, value);
	if (n < 0 || (size_t)n >= sizeof(text))
		return err_set(err, -EINVAL, "the value of '%s' is too long", name);
	config_init(&one);
	r = yaml_parse(text, (size_t)n, "", &schema, &c->arena, &one, &why);
	if (r < 0) /* without the line, which nobody wrote */
		return err_set(err, r, "%s",
			       strchr(why.text, ' ') ? strchr(why.text, ' ') + 1 : "");
	memcpy((char *)c + wanted.found.offset, (char *)&one + wanted.found.offset,
	       yaml_value_bytes(wanted.found.field->kind));
	return 0;
}

#define OWN_PATH_BYTES (PATH_BYTES + 16) /* with the suffix of a row below */

enum owner { BY_CONFIG, BY_STATE, BY_SOCKET, BY_RECORD, BY_LOG };

/* What proctor itself writes: whose path it begins with, what follows, and what it is. */
static const struct own_file {
	enum owner owner;
	const char *suffix, *what;
} own_files[] = {
	{ BY_CONFIG, "", "the configuration" },
	{ BY_STATE, "/daemon.log", "what the daemon says" },
	{ BY_STATE, "/logs", "the folder of what jobs print" },
	{ BY_STATE, "/queue", "the queue of jobs" },
	{ BY_STATE, "/traces", "the folder of traces" },
	{ BY_SOCKET, "", "the daemon's socket" },
	{ BY_SOCKET, ".lock", "the lock of the daemon's socket" },
	{ BY_RECORD, "", "the record" },
	{ BY_RECORD, "-wal", "a part of the record" },
	{ BY_RECORD, "-shm", "a part of the record" },
	{ BY_RECORD, "-journal", "a part of the record" },
	{ BY_RECORD, "-logs", "a part of the record" },
	{ BY_LOG, "", "the log of snapshots" },
	{ BY_LOG, ".1", "the log of snapshots, rotated" },
	{ BY_LOG, ".2", "the log of snapshots, rotated" },
};

/* A place of the configuration: the key that gave it, and the path that came of it. */
struct place {
	const char *key, *path;
	enum owner owner;
};

static bool is_at(const struct place *place, const char *owner, const struct own_file *own)
{
	char path[OWN_PATH_BYTES];
	const char *a_slash, *b_slash;
	char a_folder[OWN_PATH_BYTES], b_folder[OWN_PATH_BYTES];
	struct stat a_st, b_st;

	if (!owner[0])
		return false; /* no log is written */
	snprintf(path, sizeof(path), "%s%s", owner, own->suffix);
	/* Also by another way, or through a link; where neither exists yet, by folder and name. */
	a_slash = strrchr(place->path, '/');
	b_slash = strrchr(path, '/');
	if (strcmp(place->path, path) == 0)
		return true;
	if (stat(place->path, &a_st) == 0 && stat(path, &b_st) == 0)
		return a_st.st_dev == b_st.st_dev && a_st.st_ino == b_st.st_ino;
	if (!a_slash || !b_slash || strcmp(a_slash, b_slash) != 0)
		return false;
	snprintf(a_folder, sizeof(a_folder), "%.*s", (int)(a_slash - place->path) + 1, place->path);
	snprintf(b_folder, sizeof(b_folder), "%.*s", (int)(b_slash - path) + 1, path);
	if (stat(a_folder, &a_st) < 0 || stat(b_folder, &b_st) < 0)
		return strcmp(a_folder, b_folder) == 0; /* not created yet */
	return a_st.st_dev == b_st.st_dev && a_st.st_ino == b_st.st_ino;
}

static bool is_own(const struct place *place, const struct paths *p, const struct own_file *own)
{
	const char *const owners[] = {
		[BY_CONFIG] = p->config,
		[BY_STATE] = p->state_dir,
		[BY_RECORD] = p->db,
		[BY_LOG] = p->jsonl,
	};
	struct socket_paths sockets;

	if (own->owner == place->owner)
		return false;
	if (own->owner != BY_SOCKET)
		return is_at(place, owners[own->owner], own);
	if (socket_paths_find(&sockets, NULL) < 0)
		return false;
	for (size_t i = 0; i < sockets.n; i++)
		if (is_at(place, sockets.items[i], own))
			return true;
	return false;
}

/* Without a log there is still the record: that its place is a folder doctor tells. */
static bool is_folder(const struct place *place)
{
	const char *path = place->path;
	struct stat st;

	if (place->owner != BY_RECORD)
		return false;
	return path[strlen(path) - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* A place without a setting is the default one. In a conflict the error names the other place. */
static int check_place(const struct place *place, const struct paths *p, const char *file,
		       const struct config *c, struct err *err)
{
	const int line = config_line(c, place->key);
	char shown[UTF8_QUOTED_BYTES];

	if (line == 0 || !place->path[0])
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(own_files); i++)
		if (is_own(place, p, &own_files[i]))
			return err_set(
				err, -EINVAL,
				"%s:%d: '%s' is %s, which is %s; it must be a file of its own",
				file, line, place->key, utf8_quote(place->path, shown),
				own_files[i].what);
	if (is_folder(place))
		return err_set(err, -EINVAL,
			       "%s:%d: '%s' is %s, which is a folder; it must be a file", file,
			       line, place->key, utf8_quote(place->path, shown));
	return 0;
}

int settings_place(struct paths *p, const char *file, const struct config *c, struct err *err)
{
	const struct place db = { "storage_path", p->db, BY_RECORD };
	const struct place jsonl = { "jsonl_path", p->jsonl, BY_LOG };
	int r = paths_set_db(p, c->storage_path, err);

	if (r == 0)
		r = paths_set_jsonl(p, c->jsonl_path, err);
	if (r == 0)
		r = check_place(&db, p, file, c, err);
	if (r == 0)
		r = check_place(&jsonl, p, file, c, err);
	return r;
}

int settings_open_loosely(struct settings *ret, struct buf *slips, struct err *err)
{
	int r;

	ret->mask = NULL;
	config_init(&ret->config);
	r = paths_find(&ret->paths, err);
	if (r == 0)
		r = config_load(ret->paths.config, &ret->config, slips, err);
	if (r == 0)
		r = settings_place(&ret->paths, ret->paths.config, &ret->config, err);
	if (r == 0 && ret->config.mask_secrets)
		r = mask_new(ret->config.mask_patterns.items, ret->config.mask_patterns.n,
			     &ret->mask, err);
	if (r < 0)
		config_release(&ret->config);
	return r;
}

int settings_open(struct settings *ret, struct err *err)
{
	return settings_open_loosely(ret, NULL, err);
}

void settings_close(struct settings *s)
{
	s->mask = mask_free(s->mask);
	config_release(&s->config);
}

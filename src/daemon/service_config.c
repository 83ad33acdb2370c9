#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/notify.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* ---- what depends on the configuration ---- */

static int make_collector(const struct service *s, const struct mask *mask, bool want_ebpf,
			  bool is_between, struct collector **ret, struct err *err)
{
	const struct collector_options options = {
		.root_fd = s->root_fd,
		.mask = mask,
		.gpus = s->gpus.reader,
		.is_between = is_between,
		.want_ebpf = want_ebpf,
	};

	return collector_new(&options, ret, err);
}

const struct mask *service_mask(const struct service *s)
{
	return s->settings.reloaded ? s->settings.reloaded->mask : s->settings.options->mask;
}

int service_make_collector(const struct service *s, struct collector **ret, struct err *err)
{
	/* Loading the program takes longer than some looks do. */
	return make_collector(s, service_mask(s), false, true, ret, err);
}

/* *ret is NULL where no log is wanted. */
static int make_log(const struct paths *paths, const struct config *c, struct jsonl **ret,
		    struct err *err)
{
	*ret = NULL;
	if (paths->jsonl[0] == '\0')
		return 0;
	*ret = jsonl_new(paths->jsonl, config_log_bytes(c));
	if (!*ret)
		return err_set(err, -ENOMEM, "no memory left for the log of snapshots");
	jsonl_set_lock_timeout(*ret, LOOP_PATIENCE_MS);
	return 0;
}

/* A group that is not there lets nobody in, and the file may be the same on many hosts. */
static void find_group(struct service *s)
{
	const char *name = s->settings.config->access.read_group;
	const struct group *group = name ? getgrnam(name) : NULL;

	s->settings.read_gid = group ? group->gr_gid : U64_UNKNOWN;
	if (name && !group)
		log_warning("there is no group '%s' here that could read (access.read_group)",
			    name);
}

/* Those that the file has in vain, each reason once. */
static void tell_idle_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	const char **told = ctx;

	(void)c;
	if (s->line == 0 || !s->not_yet || s->not_yet == *told)
		return;
	*told = s->not_yet;
	log_warning("line %d of the configuration, %s, has no effect: this version does not %s yet",
		    s->line, s->name, s->not_yet);
}

static void settle(struct service *s)
{
	const char *told = NULL;

	s->settings.reload = (struct reload_state){ .loaded_wall_ns = clock_wall_ns() };
	find_group(s);
	detect_configure(s->detect, &s->settings.config->anomaly);
	upkeep_set_policy(s->upkeep, &s->settings.config->retention, s->settings.paths->jsonl);
	service_configure_learning(s);
	config_each(s->settings.config, tell_idle_setting, &told);
}

int service_configure(struct service *s, struct err *err)
{
	int r = make_collector(s, s->settings.options->mask,
			       s->settings.options->config->ebpf_enabled, false, &s->scan.collector,
			       err);

	if (r == 0)
		r = make_log(s->settings.paths, s->settings.config, &s->jsonl, err);
	if (r == 0)
		settle(s);
	return r;
}

void service_release_config(struct service *s)
{
	if (s->settings.reloaded)
		settings_close(s->settings.reloaded);
	free(s->settings.reloaded);
	s->settings.reloaded = NULL;
}

/* ---- reading it again ---- */

struct changes {
	const struct config *old;
	size_t n;
	bool mask, log, interval;
};

/* What else changes with a setting. */
static const struct {
	size_t offset, what;
} consequences[] = {
	{ offsetof(struct config, mask_secrets), offsetof(struct changes, mask) },
	{ offsetof(struct config, mask_patterns), offsetof(struct changes, mask) },
	{ offsetof(struct config, jsonl_path), offsetof(struct changes, log) },
	{ offsetof(struct config, jsonl_max_bytes), offsetof(struct changes, log) },
	{ offsetof(struct config, retention.max_bytes), offsetof(struct changes, log) },
	{ offsetof(struct config, interval_seconds), offsetof(struct changes, interval) },
};

/* Those that a daemon keeps as it found them. */
static const size_t kept_settings[] = {
	offsetof(struct config, storage_path),
	offsetof(struct config, ebpf_enabled),
};

static void show(struct buf *out, const struct config *c, const struct config_setting *s)
{
	struct json j;

	json_init(&j, out);
	yaml_write_value(&j, s->field, (const char *)c + s->offset);
}

static bool is_same(const struct config *a, const struct config *b, const struct config_setting *s)
{
	CLEANUP(buf_release) struct buf left = BUF_INIT, right = BUF_INIT;

	show(&left, a, s);
	show(&right, b, s);
	return strcmp(left.data, right.data) == 0;
}

static void tell_change(void *ctx, const struct config *c, const struct config_setting *s)
{
	CLEANUP(buf_release) struct buf before = BUF_INIT, after = BUF_INIT;
	const struct changes *changes = ctx;

	if (is_same(changes->old, c, s))
		return;
	show(&before, changes->old, s);
	show(&after, c, s);
	log_info("%s is %s now, and was %s", s->name, after.data, before.data);
}

/* One that was changed back is in force. */
static void tell_kept(void *ctx, const struct config *c, const struct config_setting *s)
{
	const struct service *service = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(kept_settings); i++)
		if (kept_settings[i] == s->offset && !is_same(service->settings.config, c, s) &&
		    !is_same(service->settings.options->config, c, s))
			log_warning("%s has its effect when the daemon is started again", s->name);
}

static void note_change(void *ctx, const struct config *c, const struct config_setting *s)
{
	struct changes *changes = ctx;

	if (is_same(changes->old, c, s))
		return;
	changes->n++;
	for (size_t i = 0; i < ARRAY_SIZE(consequences); i++)
		if (consequences[i].offset == s->offset)
			*(bool *)((char *)changes + consequences[i].what) = true;
}

/* All of it or nothing. */
static int replace_parts(struct service *s, const struct settings *wanted,
			 const struct changes *changes, struct err *err)
{
	struct collector *collector = NULL;
	struct jsonl *log = NULL;
	int r = 0;

	if (changes->mask)
		r = make_collector(s, wanted->mask, s->settings.options->config->ebpf_enabled,
				   false, &collector, err);
	if (r == 0 && changes->log)
		r = make_log(&wanted->paths, &wanted->config, &log, err);
	if (r < 0) {
		collector_free(collector);
		return r;
	}
	if (changes->mask) {
		collector_free(s->scan.collector);
		s->scan.between = collector_free(s->scan.between);
		service_stop_closer(s); /* which has one of its own */
		s->scan.collector = collector;
	}
	if (changes->log) {
		jsonl_free(s->jsonl);
		s->jsonl = log;
	}
	return 0;
}

/* The collector goes on with the mask that it has: so that one is kept, not its equal. */
static void keep_mask(struct service *s, struct settings *wanted)
{
	struct mask *mask = wanted->mask;

	if (!s->settings.reloaded)
		return;
	wanted->mask = s->settings.reloaded->mask;
	s->settings.reloaded->mask = mask;
}

static void tell_read(const struct service *s, size_t n)
{
	if (s->settings.config->was_read)
		log_info("read %s again: %zu %s changed", s->settings.paths->config, n,
			 n == 1 ? "setting has" : "settings have");
	else
		log_info("there is no %s: all is as by default now, %zu %s changed",
			 s->settings.paths->config, n, n == 1 ? "setting has" : "settings have");
}

/* Takes over wanted if all is well. */
static int take_over(struct service *s, struct settings *wanted, struct err *err)
{
	struct changes changes = { .old = s->settings.config };
	int r;

	config_each(&wanted->config, note_change, &changes);
	r = replace_parts(s, wanted, &changes, err);
	if (r < 0)
		return r;
	config_each(&wanted->config, tell_change, &changes);
	config_each(&wanted->config, tell_kept, s);
	if (!changes.mask)
		keep_mask(s, wanted);
	service_release_config(s);
	s->settings.reloaded = wanted;
	s->settings.config = &wanted->config;
	s->settings.paths = &wanted->paths;
	if (changes.interval)
		service_set_interval(s, s->settings.config->interval_seconds);
	tell_read(s, changes.n);
	settle(s);
	return 0;
}

static int read_again(struct service *s, struct err *err)
{
	struct settings *wanted = malloc(sizeof(*wanted));
	int r;

	if (!wanted)
		return err_set(err, -ENOMEM, "no memory left to read it");
	r = settings_open(wanted, err);
	if (r == 0)
		r = take_over(s, wanted, err);
	if (r < 0) {
		settings_close(wanted);
		free(wanted);
	}
	return r;
}

void service_reload(struct service *s)
{
	struct err err = ERR_INIT;

	notify_reloading();
	if (read_again(s, &err) < 0) {
		s->settings.reload.refused_wall_ns = clock_wall_ns();
		s->settings.reload.why = err;
		log_error("the configuration stays as it was: %s", err.text);
	}
	notify_service_manager("READY=1");
	if (s->settings.config->enabled)
		return;
	log_info("enabled is false in the configuration: stops");
	loop_stop(s->loop);
}

/* ---- telling of it ---- */

static double seconds_or_unknown(uint64_t wall_ns)
{
	return wall_ns ? clock_ns_to_seconds(wall_ns) : F64_UNKNOWN;
}

/* NULL: all that is named is there. */
static const char *missing_group(const struct service *s)
{
	return u64_known(s->settings.read_gid) ? NULL : s->settings.config->access.read_group;
}

/* What is wrong with a file may quote it: that is for its owner. */
static int daemon_config(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct service *s = ctx;
	const bool is_owner = service_is_owner(rpc_call_peer(call));
	const bool is_refused = s->settings.reload.refused_wall_ns != 0;
	struct json *j;
	int r = rpc_call_read(call, NULL, 0, NULL, err);

	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "file", s->settings.paths->config);
	json_key_bool(j, "was_read", s->settings.config->was_read);
	json_key_f64(j, "loaded", seconds_or_unknown(s->settings.reload.loaded_wall_ns));
	json_key_f64(j, "refused", seconds_or_unknown(s->settings.reload.refused_wall_ns));
	json_key_string(j, "error", is_refused && is_owner ? s->settings.reload.why.text : NULL);
	json_key_string(j, "missing_group", is_owner ? missing_group(s) : NULL);
	json_end_object(j);
	return 0;
}

const struct rpc_method service_config_methods[] = {
	{ "daemon.config", daemon_config, RPC_FOR_ALL },
	{ 0 },
};

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/notify.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/methods/methods.h"

/* ---- what depends on the configuration ---- */

static int make_collector(const struct service *s, const struct mask *mask, struct collector **ret,
			  struct err *err)
{
	const struct collector_options options = {
		.root_fd = s->root_fd,
		.mask = mask,
		.gpus = s->gpus.reader,
		.want_ebpf = s->settings.options->config->ebpf_enabled,
	};

	return collector_new(&options, ret, err);
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
	const struct config *c = s->settings.config;
	const struct group *group = c->access.read_group ? getgrnam(c->access.read_group) : NULL;
	const char *told = NULL;

	s->settings.reload = (struct reload_state){ .loaded_wall_ns = clock_wall_ns() };
	/* A group that is not there lets nobody in, and the file may be the same on many hosts. */
	s->settings.read_gid = group ? group->gr_gid : U64_UNKNOWN;
	if (c->access.read_group && !group)
		log_warning("there is no group '%s' here that could read (access.read_group)",
			    c->access.read_group);
	detect_configure(s->detect, &c->anomaly);
	upkeep_set_policy(s->upkeep, &c->retention, s->settings.paths->jsonl);
	if (s->learner)
		learner_set(s->learner, (unsigned)c->correlation.interval_minutes,
			    (size_t)c->correlation.min_sample_size);
	config_each(c, tell_idle_setting, &told);
}

int service_configure(struct service *s, struct err *err)
{
	int r = make_collector(s, s->settings.mask, &s->scan.collector, err);

	if (r == 0)
		r = make_log(s->settings.paths, s->settings.config, &s->jsonl, err);
	if (r == 0)
		settle(s);
	return r;
}

/* ---- reading it again ---- */

void service_release_config(struct service *s)
{
	if (s->settings.reloaded)
		settings_close(s->settings.reloaded);
	free(s->settings.reloaded);
	s->settings.reloaded = NULL;
}

struct changes {
	const struct config *old;
	size_t n;
	bool mask;
};

/* Those that a daemon keeps as it found them. */
static const size_t kept_settings[] = {
	offsetof(struct config, storage_path),
	offsetof(struct config, ebpf_enabled),
	offsetof(struct config, web.enabled),
	offsetof(struct config, web.listen),
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

/* One that is kept and was changed back is in force. */
static void tell_change(void *ctx, const struct config *c, const struct config_setting *s)
{
	CLEANUP(buf_release) struct buf before = BUF_INIT, after = BUF_INIT;
	const struct service_settings *settings = ctx;

	if (is_same(settings->config, c, s))
		return;
	show(&before, settings->config, s);
	show(&after, c, s);
	log_info("%s is %s now, and was %s", s->name, after.data, before.data);
	for (size_t i = 0; i < ARRAY_SIZE(kept_settings); i++)
		if (kept_settings[i] == s->offset && !is_same(settings->options->config, c, s))
			log_warning("%s has its effect when the daemon is started again", s->name);
}

static void note_change(void *ctx, const struct config *c, const struct config_setting *s)
{
	struct changes *changes = ctx;

	if (is_same(changes->old, c, s))
		return;
	changes->n++;
	changes->mask |= s->offset == offsetof(struct config, mask_secrets) ||
			 s->offset == offsetof(struct config, mask_patterns);
}

/* All of it or nothing. */
static int replace_parts(struct service *s, const struct settings *wanted,
			 const struct changes *changes, struct err *err)
{
	const bool has_other_log =
		strcmp(wanted->paths.jsonl, s->settings.paths->jsonl) != 0 ||
		config_log_bytes(&wanted->config) != config_log_bytes(s->settings.config);
	struct collector *collector = NULL;
	struct jsonl *log = NULL;
	int r = changes->mask ? make_collector(s, wanted->mask, &collector, err) : 0;

	if (r == 0 && has_other_log)
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
	if (has_other_log) {
		jsonl_free(s->jsonl);
		s->jsonl = log;
	}
	return 0;
}

/* Takes over wanted if all is well. */
static int take_over(struct service *s, struct settings *wanted, bool *ret_has_interval,
		     struct err *err)
{
	struct changes changes = { .old = s->settings.config };
	const double interval_seconds = s->settings.config->interval_seconds;
	struct settings *before = s->settings.reloaded;
	int r;

	config_each(&wanted->config, note_change, &changes);
	r = replace_parts(s, wanted, &changes, err);
	if (r < 0)
		return r;
	config_each(&wanted->config, tell_change, &s->settings);
	if (changes.mask) {
		s->settings.mask = wanted->mask;
	} else if (before) { /* the collector goes on with the mask that it has, not with its equal
			      */
		struct mask *mask = wanted->mask;

		wanted->mask = before->mask;
		before->mask = mask;
	}
	service_release_config(s);
	s->settings.reloaded = wanted;
	s->settings.config = &wanted->config;
	s->settings.paths = &wanted->paths;
	*ret_has_interval = wanted->config.interval_seconds != interval_seconds;
	if (wanted->config.was_read)
		log_info("read %s again: %zu %s changed", wanted->paths.config, changes.n,
			 changes.n == 1 ? "setting has" : "settings have");
	else
		log_info("there is no %s: all is as by default now, %zu %s changed",
			 wanted->paths.config, changes.n,
			 changes.n == 1 ? "setting has" : "settings have");
	settle(s);
	return 0;
}

bool service_reload(struct service *s)
{
	struct settings *wanted = malloc(sizeof(*wanted));
	struct err err = ERR_INIT;
	bool has_interval = false;
	int r = wanted ? settings_open(wanted, &err)
		       : err_set(&err, -ENOMEM, "no memory left to read it");

	notify_reloading();
	if (r == 0)
		r = take_over(s, wanted, &has_interval, &err);
	if (r < 0) {
		if (wanted)
			settings_close(wanted);
		free(wanted);
		s->settings.reload.refused_wall_ns = clock_wall_ns();
		s->settings.reload.why = err;
		log_error("the configuration stays as it was: %s", err.text);
	}
	notify_service_manager("READY=1");
	if (!s->settings.config->enabled) {
		log_info("enabled is false in the configuration: stops");
		loop_stop(s->loop);
	}
	return has_interval;
}

/* ---- telling of it ---- */

/* What is wrong with a file may quote it: that is for its owner. */
int method_daemon_config(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct service *s = ctx;
	const bool is_owner = service_is_owner(rpc_call_peer(call));
	const bool is_refused = s->settings.reload.refused_wall_ns != 0;
	struct json *j = rpc_call_result(call);

	(void)err;
	json_begin_object(j);
	json_key_string(j, "file", s->settings.paths->config);
	json_key_bool(j, "was_read", s->settings.config->was_read);
	json_key_f64(j, "loaded", clock_ns_to_seconds(s->settings.reload.loaded_wall_ns));
	json_key_f64(j, "refused",
		     is_refused ? clock_ns_to_seconds(s->settings.reload.refused_wall_ns)
				: F64_UNKNOWN);
	json_key_string(j, "error", is_refused && is_owner ? s->settings.reload.why.text : NULL);
	/* NULL: all that is named is there. */
	json_key_string(j, "missing_group",
			is_owner && !u64_known(s->settings.read_gid)
				? s->settings.config->access.read_group
				: NULL);
	json_end_object(j);
	return 0;
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/json.h"

static char path[] = "/tmp/proctor-config-XXXXXX";

/* Loads text as a file; the message without the file's name comes back in err. */
static int load(const char *text, struct config *c, struct err *err)
{
	FILE *f = fopen(path, "w");
	int r;

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	r = config_load(path, c, NULL, err);
	if (strncmp(err->text, path, strlen(path)) == 0)
		memmove(err->text, err->text + strlen(path), strlen(err->text + strlen(path)) + 1);
	return r;
}

static int load_loosely(const char *text, struct config *c, struct buf *slips, struct err *err)
{
	load(text, c, err);
	*err = (struct err)ERR_INIT;
	return config_load(path, c, slips, err);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void assert_defaults(const struct config *c)
{
	assert_true(c->enabled);
	assert_true(c->interval_seconds == 5);
	assert_true(c->gpu_enabled);
	assert_true(c->ebpf_enabled);
	assert_true(c->syscalls_enabled);
	assert_false(c->strace_enabled);
	assert_true(c->strace_full_on_demand);
	assert_true(c->mask_secrets);
	assert_int_equal(c->mask_patterns.n, 0);
	assert_string_equal(c->storage_path, "proctor.db");
	assert_null(c->jsonl_path);
	assert_int_equal(c->jsonl_max_bytes, 52428800);
	assert_int_equal(c->retention.full_resolution_hours, 24);
	assert_int_equal(c->retention.downsampled_days, 7);
	assert_int_equal(c->retention.events_days, 30);
	assert_int_equal(c->retention.max_bytes, 1073741824);
	assert_true(c->anomaly.memory_spike_threshold == 1.5);
	assert_true(c->anomaly.memory_spike_window_seconds == 30);
	assert_true(c->anomaly.runaway_cpu_threshold == 90);
	assert_true(c->anomaly.runaway_duration_seconds == 60);
	assert_int_equal(c->correlation.interval_minutes, 30);
	assert_int_equal(c->correlation.min_sample_size, 5);
	assert_int_equal(c->limits.max_memory_mb, 0);
	assert_int_equal(c->limits.max_processes, 0);
	assert_int_equal(c->limits.max_concurrent_jobs, 0);
	assert_true(c->limits.max_daemon_cpu_percent == 1);
	assert_null(c->access.read_group);
	assert_false(c->was_read);
}

static void test_defaults_without_a_file(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_defaults(&c);
	assert_int_equal(config_load("/no/such/proctor.yaml", &c, NULL, &err), 0);
	assert_defaults(&c);
	assert_string_equal(err.text, "");
	config_release(&c);
}

static void test_values(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("interval_seconds: 0.5\nmask_secrets: false\n"
			      "mask_patterns: [pin, '^x-']\n",
			      &c, &err),
			 0);
	assert_true(c.was_read);
	assert_true(c.interval_seconds == 0.5);
	assert_false(c.mask_secrets);
	assert_int_equal(c.mask_patterns.n, 2);
	assert_string_equal(c.mask_patterns.items[1], "^x-");
	/* A second load starts from the defaults again. */
	assert_int_equal(load("", &c, &err), 0);
	assert_true(c.was_read);
	assert_true(c.interval_seconds == 5);
	assert_int_equal(c.mask_patterns.n, 0);
	config_release(&c);
}

static void test_jsonl(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("jsonl_path: ~/logs/p.jsonl\njsonl_max_bytes: 1048576\n", &c, &err),
			 0);
	assert_string_equal(c.jsonl_path, "~/logs/p.jsonl");
	assert_int_equal(c.jsonl_max_bytes, 1048576);
	assert_int_equal(load("jsonl_path: null\n", &c, &err), 0);
	assert_null(c.jsonl_path);
	assert_int_equal(load("jsonl_path: ''\n", &c, &err), 0);
	assert_null(c.jsonl_path);
	config_release(&c);
	assert_null(c.jsonl_path);
}

static void test_retention(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("retention:\n  full_resolution_hours: 1\n  downsampled_days: 3650\n"
			      "  events_days: 2\n  max_bytes: 16777216\n",
			      &c, &err),
			 0);
	assert_int_equal(c.retention.full_resolution_hours, 1);
	assert_int_equal(c.retention.downsampled_days, 3650);
	assert_int_equal(c.retention.events_days, 2);
	assert_int_equal(c.retention.max_bytes, 16777216);
	/* What a mapping leaves out keeps its default. */
	assert_int_equal(load("retention: {max_bytes: 0}\n", &c, &err), 0);
	assert_int_equal(c.retention.max_bytes, 0);
	assert_int_equal(c.retention.full_resolution_hours, 24);
	assert_int_equal(load("retention:\n", &c, &err), 0);
	assert_int_equal(c.retention.max_bytes, 1073741824);
	assert_int_equal(c.retention.events_days, 30);
	config_release(&c);
}

static void test_sections(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("enabled: false\ngpu_enabled: false\nebpf_enabled: false\n"
			      "syscalls_enabled: false\nstrace_enabled: true\n"
			      "strace_full_on_demand: false\nstorage_path: /srv/p.db\n"
			      "anomaly:\n  memory_spike_threshold: 1.01\n"
			      "  memory_spike_window_seconds: 0.5\n  runaway_cpu_threshold: 50\n"
			      "  runaway_duration_seconds: 0.5\n"
			      "correlation: {interval_minutes: 5, min_sample_size: 2}\n"
			      "limits: {max_memory_mb: 64, max_processes: 5,\n"
			      "  max_concurrent_jobs: 1000, max_daemon_cpu_percent: 0.1}\n"
			      "access: {read_group: adm}\n"
			      "web: {enabled: false}\nexport: {enabled: false}\n"
			      "fleet: {enabled: false}\n",
			      &c, &err),
			 0);
	assert_false(c.enabled);
	assert_false(c.gpu_enabled);
	assert_false(c.ebpf_enabled);
	assert_false(c.syscalls_enabled);
	assert_true(c.strace_enabled);
	assert_false(c.strace_full_on_demand);
	assert_string_equal(c.storage_path, "/srv/p.db");
	assert_true(c.anomaly.memory_spike_threshold == 1.01);
	assert_true(c.anomaly.memory_spike_window_seconds == 0.5);
	assert_true(c.anomaly.runaway_cpu_threshold == 50);
	assert_true(c.anomaly.runaway_duration_seconds == 0.5);
	assert_int_equal(c.correlation.interval_minutes, 5);
	assert_int_equal(c.correlation.min_sample_size, 2);
	assert_int_equal(c.limits.max_memory_mb, 64);
	assert_int_equal(c.limits.max_processes, 5);
	assert_int_equal(c.limits.max_concurrent_jobs, 1000);
	assert_true(c.limits.max_daemon_cpu_percent == 0.1);
	assert_string_equal(c.access.read_group, "adm");
	config_release(&c);
}

/* ---- listing ---- */

static void test_lines(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("# nothing\n\ninterval_seconds: 2\nretention:\n"
			      "  max_bytes: 0\njsonl_path:\n  null\n",
			      &c, &err),
			 0);
	assert_int_equal(config_line(&c, "interval_seconds"), 3);
	assert_int_equal(config_line(&c, "retention.max_bytes"), 5);
	assert_int_equal(config_line(&c, "jsonl_path"), 6);
	assert_int_equal(config_line(&c, "enabled"), 0);
	assert_int_equal(config_line(&c, "retention.events_days"), 0);
	assert_int_equal(config_line(&c, "max_bytes"), 0);
	/* They go with the file. */
	assert_int_equal(load("", &c, &err), 0);
	assert_int_equal(config_line(&c, "interval_seconds"), 0);
	config_release(&c);
}

/* Lists every setting as a file of its own, with values of yaml_write_value(). */
struct listing {
	struct buf out;
	const char *section;
	size_t n, n_given, n_idle;
};

static void add_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	struct listing *list = ctx;
	struct json j;

	if (s->section && s->section != list->section)
		buf_printf(&list->out, "%s:\n", s->section);
	list->section = s->section;
	buf_printf(&list->out, "%s%s: ", s->section ? "  " : "", s->key);
	json_init(&j, &list->out);
	yaml_write_value(&j, s->field, (const char *)c + s->offset);
	buf_add_char(&list->out, '\n');
	list->n++;
	list->n_given += s->line != 0;
	list->n_idle += s->not_yet != NULL;
}

static void list_all(const struct config *c, struct listing *ret)
{
	*ret = (struct listing){ .out = BUF_INIT };
	config_each(c, add_setting, ret);
	assert_int_equal(buf_error(&ret->out), 0);
}

/* What the list says, read as a file, is the same again: for each kind of value. */
static void test_list_is_a_file(void **state)
{
	struct err err = ERR_INIT;
	struct listing first, second;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(
		load("interval_seconds: 0.3\nmask_patterns: ['a\"b', \"tab\\there\", no]\n"
		     "storage_path: 'null'\njsonl_path: null\nenabled: false\n"
		     "limits: {max_memory_mb: 999999999}\naccess: {read_group: 'yes: #x'}\n",
		     &c, &err),
		0);
	list_all(&c, &first);
	assert_int_equal(first.n_given, 7);
	assert_int_equal(load(first.out.data, &c, &err), 0);
	list_all(&c, &second);
	assert_string_equal(first.out.data, second.out.data);
	assert_int_equal(second.n_given, second.n);
	assert_string_equal(c.storage_path, "null");
	assert_null(c.jsonl_path);
	buf_release(&first.out);
	buf_release(&second.out);
	config_release(&c);
}

static void check_effect(void *ctx, const struct config *c, const struct config_setting *s)
{
	size_t *n = ctx;

	(void)c;
	assert_null(s->not_yet);
	(*n)++;
}

/* Nothing is left that nobody looks at. */
static void test_without_effect(void **state)
{
	struct config c;
	size_t n = 0;

	(void)state;
	config_init(&c);
	config_each(&c, check_effect, &n);
	assert_true(n > 40);
	config_release(&c);
}

static void test_one_setting(void **state)
{
	static const struct {
		const char *name, *value, *message;
	} mistakes[] = {
		{ "anomaly.memory_spike_threshold", "1",
		  "'memory_spike_threshold' is '1'; it must be a number above 1, up to 1000" },
		{ "anomaly.memory_spike", "2", "there is no setting 'anomaly.memory_spike': " },
		{ "anomaly", "2", "there is no setting 'anomaly': " },
		{ "interval_seconds", "5\nenabled: false", "has more than one line" },
	};
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(config_set(&c, "anomaly.memory_spike_threshold", "2", &err), 0);
	assert_int_equal(config_set(&c, "anomaly.thread_explosion_threads", "9", &err), 0);
	assert_int_equal(config_set(&c, "interval_seconds", "0.5", &err), 0);
	assert_int_equal(config_set(&c, "storage_path", "x.db", &err), 0);
	assert_true(c.anomaly.memory_spike_threshold == 2);
	assert_int_equal(c.anomaly.thread_explosion_threads, 9);
	assert_true(c.anomaly.runaway_cpu_threshold == 90);
	assert_true(c.interval_seconds == 0.5);
	assert_string_equal(c.storage_path, "x.db");
	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
		assert_int_equal(config_set(&c, mistakes[i].name, mistakes[i].value, &err),
				 -EINVAL);
		if (!strstr(err.text, mistakes[i].message))
			fail_msg("'%s' does not say '%s'", err.text, mistakes[i].message);
	}
	assert_true(c.anomaly.memory_spike_threshold == 2);
	assert_true(c.enabled);
	config_release(&c);
}

struct mistake {
	const char *text, *message;
};

/* The message is said, and nothing of the file is taken. */
static void assert_mistakes(const struct mistake *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err = ERR_INIT;
		struct config c;

		config_init(&c);
		assert_int_equal(load(rows[i].text, &c, &err), -EINVAL);
		assert_string_equal(err.text, rows[i].message);
		assert_defaults(&c);
		config_release(&c);
	}
}

static const struct mistake mistakes[] = {
	{ "interval_seconds: 0.05\n",
	  ":1: 'interval_seconds' is '0.05'; it must be a number from 0.1 to 300" },
	{ "interval_seconds: 301\n",
	  ":1: 'interval_seconds' is '301'; it must be a number from 0.1 to 300" },
	{ "interval: 5\n", ":1: unknown key 'interval' in the configuration; did you mean "
			   "'interval_seconds'?" },
	{ "mask_secrets: no\n", ":1: 'mask_secrets' is 'no'; it must be true or false" },
	{ "mask_patterns: pin\n", ":1: 'mask_patterns' is 'pin'; it must be a list of texts" },
	{ "mask_patterns:\n- pin\n- a(b\n",
	  ":3: the mask pattern 'a(b' is not a regular expression: Unmatched ( or \\(" },
	{ "mask_patterns:\n- ''\n",
	  ":2: the mask pattern '' fits every name; write at least one letter that must "
	  "be there" },
	{ "jsonl_max_bytes: 1048575\n",
	  ":1: 'jsonl_max_bytes' is '1048575'; it must be a whole number from 1048576 to "
	  "1125899906842624" },
	{ "jsonl_max_bytes: 0\n",
	  ":1: 'jsonl_max_bytes' is '0'; it must be a whole number from 1048576 to "
	  "1125899906842624" },
	{ "jsonl_path: [a]\n", ":1: 'jsonl_path' is a list; it must be a text, or null for none" },
	{ "\njsonl_path: ~ada/p.jsonl\n",
	  ":2: 'jsonl_path' is '~ada/p.jsonl'; only '~/' stands for a home: write the path "
	  "out" },
	{ "retention: 7d\n", ":1: 'retention' is '7d'; it must be a mapping of keys to values" },
	{ "full_resolution_hours: 1\n",
	  ":1: unknown key 'full_resolution_hours' in the configuration; known are "
	  "enabled, interval_seconds, gpu_enabled, ebpf_enabled, syscalls_enabled, syscalls_time_every, strace_enabled, "
	  "strace_full_on_demand, capture, mask_secrets, mask_patterns, storage_path, jsonl_path, "
	  "jsonl_max_bytes, retention, anomaly, correlation, limits, access, web, export, "
	  "fleet" },
	{ "storage_path: ~ada/p.db\n",
	  ":1: 'storage_path' is '~ada/p.db'; only '~/' stands for a home: write the path "
	  "out" },
	{ "storage_path: null\n", ":1: 'storage_path' is empty; it must be a text" },
};

static void test_mistakes(void **state)
{
	(void)state;
	assert_mistakes(mistakes, ARRAY_SIZE(mistakes));
}

static const struct mistake mistakes_in_mappings[] = {
	{ "retention:\n  full_resolution_hours: 0\n",
	  ":2: 'full_resolution_hours' is '0'; it must be a whole number from 1 to 87600" },
	{ "retention:\n  downsampled_days: 3651\n",
	  ":2: 'downsampled_days' is '3651'; it must be a whole number from 1 to 3650" },
	{ "retention:\n  events_days: 1.5\n",
	  ":2: 'events_days' is '1.5'; it must be a whole number from 1 to 3650" },
	{ "retention:\n  max_bytes: 16777215\n",
	  ":2: 'max_bytes' is '16777215'; it must be a whole number from 16777216 to "
	  "1125899906842624, or 0 for no limit" },
	{ "retention:\n  event_days: 1\n",
	  ":2: unknown key 'event_days' in the retention mapping; did you mean "
	  "'events_days'?" },
	{ "anomaly:\n  memory_spike_threshold: 1\n",
	  ":2: 'memory_spike_threshold' is '1'; it must be a number above 1, up to 1000" },
	{ "anomaly:\n  memory_spike_window_seconds: 0\n",
	  ":2: 'memory_spike_window_seconds' is '0'; it must be a number above 0, up to "
	  "86400" },
	{ "anomaly:\n  runaway_cpu_threshold: 49.9\n",
	  ":2: 'runaway_cpu_threshold' is '49.9'; it must be a number from 50 to 100" },
	{ "anomaly:\n  runaway_cpu_threshold: 100.5\n",
	  ":2: 'runaway_cpu_threshold' is '100.5'; it must be a number from 50 to 100" },
	{ "anomaly:\n  runaway_duration_seconds: -1\n",
	  ":2: 'runaway_duration_seconds' is '-1'; it must be a number above 0, up to "
	  "86400" },
	{ "anomaly:\n  memory_spike: 2\n",
	  ":2: unknown key 'memory_spike' in the anomaly mapping; did you mean "
	  "'memory_spike_threshold'?" },
	{ "correlation:\n  interval_minutes: 4\n",
	  ":2: 'interval_minutes' is '4'; it must be a whole number from 5 to 5256000" },
	{ "correlation:\n  min_sample_size: 1\n",
	  ":2: 'min_sample_size' is '1'; it must be a whole number from 2 to 1000000000" },
	{ "limits:\n  max_memory_mb: 63\n",
	  ":2: 'max_memory_mb' is '63'; it must be a whole number from 64 to 1000000000, "
	  "or 0 for all that the host has" },
	{ "limits:\n  max_processes: 4\n",
	  ":2: 'max_processes' is '4'; it must be a whole number from 5 to 1000000000, or "
	  "0 for any number" },
	{ "limits:\n  max_concurrent_jobs: 1001\n",
	  ":2: 'max_concurrent_jobs' is '1001'; it must be a whole number from 1 to 1000, "
	  "or 0 for as many as there are cores" },
	{ "limits:\n  max_daemon_cpu_percent: 0\n",
	  ":2: 'max_daemon_cpu_percent' is '0'; it must be a number from 0.1 to 100" },
	{ "access:\n  read_group: [adm]\n",
	  ":2: 'read_group' is a list; it must be a text, or null for none" },
	{ "access:\n  group: adm\n",
	  ":2: unknown key 'group' in the access mapping; known are read_group" },
	{ "web:\n  port: 80\n",
	  ":2: unknown key 'port' in the web mapping; known are enabled, listen" },
	{ "web:\n  listen: 0.0.0.0:9797\n",
	  ":2: 'web.listen' is '0.0.0.0:9797'; it takes an address of this host with a port "
	  "(127.0.0.1:9797), or the absolute path of a socket" },
	{ "web: {listen: 127.0.0.1}\n",
	  ":1: 'web.listen' is '127.0.0.1'; it takes an address of this host with a port "
	  "(127.0.0.1:9797), or the absolute path of a socket" },
	{ "web: {listen: '127.0.0.1:65536'}\n",
	  ":1: 'web.listen' is '127.0.0.1:65536'; it takes an address of this host with a port "
	  "(127.0.0.1:9797), or the absolute path of a socket" },
	{ "fleet: {enabled: false}\nexport: {enabled: true}\n",
	  ":2: 'export.enabled' is true, and this version does not have an export that runs "
	  "by itself; write false, or leave it out" },
};

static void test_mistakes_in_mappings(void **state)
{
	(void)state;
	assert_mistakes(mistakes_in_mappings, ARRAY_SIZE(mistakes_in_mappings));
}

/* A mapping may have more keys than a sentence has room for: it says so, and is not cut off. */
static void test_a_mistake_among_many_keys(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("anomaly:\n  colour: 2\n", &c, &err), -EINVAL);
	assert_non_null(
		strstr(err.text, "unknown key 'colour' in the anomaly mapping; known are "));
	assert_string_equal(err.text + strlen(err.text) - strlen(" more"), " more");
	config_release(&c);
}

/* The cap on all together leaves an eighth for each of the three files of the log. */
static void test_log_bytes(void **state)
{
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(config_log_bytes(&c), 50 << 20);
	c.retention.max_bytes = 16 << 20;
	assert_int_equal(config_log_bytes(&c), 2 << 20);
	c.jsonl_max_bytes = 1 << 20;
	assert_int_equal(config_log_bytes(&c), 1 << 20);
	c.retention.max_bytes = 0; /* no cap */
	assert_int_equal(config_log_bytes(&c), 1 << 20);
}

/* A run goes on by the defaults of what does no harm by them, and is told of each. */
static void test_what_may_slip(void **state)
{
	CLEANUP(buf_release) struct buf slips = BUF_INIT;
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load_loosely("anomaly:\n  memory_spike_threshold: 0.2\n  zombis: 3\n"
				      "  clear_seconds: 7\nmask_patterns: [pin]\n",
				      &c, &slips, &err),
			 0);
	assert_int_equal(err.code, 0);
	assert_true(c.anomaly.memory_spike_threshold == 1.5);
	assert_true(c.anomaly.clear_seconds == 7);
	assert_int_equal(c.mask_patterns.n, 1);
	assert_non_null(strstr(slips.data, ":2: 'memory_spike_threshold' is '0.2'; it must be a "
					   "number above 1, up to 1000; used instead: 1.5\n"));
	assert_non_null(strstr(slips.data, ":3: unknown key 'zombis' in the anomaly mapping"));
	assert_non_null(strstr(slips.data, " (passed over)\n"));
	config_release(&c);
}

/* Whatever the value is, and as a whole. */
static void test_what_else_may_slip(void **state)
{
	static const struct {
		const char *text, *said;
	} rows[] = {
		{ "anomaly:\n  clear_seconds: [1, [2]]\n  zombie_duration_seconds: 9\n",
		  ":2: 'clear_seconds' is a list; it must be a number above 0, up to 86400; used "
		  "instead: 60.0\n" },
		{ "anomaly:\n  unheard_of: { a: { b: [1] } }\n  zombie_duration_seconds: 9\n",
		  ":2: unknown key 'unheard_of' in the anomaly mapping" },
		{ "anomaly:\n  zombie_duration_seconds: 9\n  zombie_duration_seconds: [1]\n",
		  ":3: 'zombie_duration_seconds' is given again; keep this or line 2 (passed over)" },
		{ "anomaly:\n  zombie_duration_seconds: 9\nanomaly:\n  clear_seconds: 1\n",
		  ":3: 'anomaly' is given again; keep this or line 1 (passed over)" },
		{ "limits: 5\nanomaly:\n  zombie_duration_seconds: 9\n",
		  ":1: 'limits' is '5'; it must be a mapping of keys to values; used instead: its "
		  "defaults" },
		{ "correlation: [1, { a: b }]\nanomaly:\n  zombie_duration_seconds: 9\n",
		  ":1: 'correlation' is a list" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CLEANUP(config_release) struct config c;
		CLEANUP(buf_release) struct buf slips = BUF_INIT;
		struct err err = ERR_INIT;

		config_init(&c);
		assert_int_equal(load_loosely(rows[i].text, &c, &slips, &err), 0);
		assert_int_equal(err.code, 0);
		assert_non_null(slips.data);
		if (!strstr(slips.data, rows[i].said))
			fail_msg("%s", slips.data);
		assert_int_equal(slips.data[slips.len - 1], '\n');
		assert_true(c.anomaly.zombie_duration_seconds == 9);
		assert_true(c.anomaly.clear_seconds == 60);
		assert_int_equal(c.limits.max_processes, 0);
	}
}

static void test_what_may_not_slip(void **state)
{
	static const char *const texts[] = {
		"retention:\n  events_days: 0\n", /* would be removed */
		"mask_secrets: perhaps\n",	  /* would be shown */
		"storage_path: ''\n",
		"mask_paterns: [pin]\n",
		"mask_patterns: [pin]\nmask_patterns: [tan]\n",
		"retention: 5\n",
		"retention:\n  events_days: 3\nretention:\n  events_days: 4\n",
		"anomaly:\n  unheard_of: \"\n",	     /* no end */
		"anomaly:\n  unheard_of: [1, *a]\n", /* that is not read anywhere */
		"anomaly:\n  ? [a]\n  : b\n",
	};
	struct config c;

	(void)state;
	config_init(&c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		CLEANUP(buf_release) struct buf slips = BUF_INIT;
		struct err err = ERR_INIT;

		assert_int_equal(load_loosely(texts[i], &c, &slips, &err), -EINVAL);
		assert_true(err.text[0] != '\0');
		assert_defaults(&c);
	}
	config_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_may_slip),
		cmocka_unit_test(test_what_else_may_slip),
		cmocka_unit_test(test_what_may_not_slip),
		cmocka_unit_test(test_defaults_without_a_file),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_sections),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_list_is_a_file),
		cmocka_unit_test(test_without_effect),
		cmocka_unit_test(test_one_setting),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_mistakes_in_mappings),
		cmocka_unit_test(test_a_mistake_among_many_keys),
		cmocka_unit_test(test_log_bytes),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}

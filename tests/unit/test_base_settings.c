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

static char home[] = "/tmp/proctor-settings-XXXXXX";

static int make_home(void **state)
{
	(void)state;
	return mkdtemp(home) && setenv("PROCTOR_HOME", home, 1) == 0 ? 0 : -1;
}

static int remove_home(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/proctor.yaml", home);
	unlink(path);
	return rmdir(home);
}

/* The file, and what it gives. NULL: there is none. */
static int open_with(const char *text, struct settings *ret, struct err *err)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proctor.yaml", home);
	unlink(path);
	if (text) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	*err = (struct err)ERR_INIT;
	return settings_open(ret, err);
}

static void assert_below_home(const char *path, const char *name)
{
	char wanted[256];

	snprintf(wanted, sizeof(wanted), "%s/%s", home, name);
	assert_string_equal(path, wanted);
}

static void test_without_a_file(void **state)
{
	struct settings s;
	struct err err;

	(void)state;
	assert_int_equal(open_with(NULL, &s, &err), 0);
	assert_false(s.config.was_read);
	assert_non_null(s.mask);
	assert_below_home(s.paths.db, "proctor.db");
	assert_string_equal(s.paths.jsonl, "");
	assert_string_equal(s.paths.state_variable, "PROCTOR_HOME");
	assert_string_equal(s.paths.config_variable, "PROCTOR_HOME");
	settings_close(&s);
	settings_close(&s);
}

static void test_places_by_the_file(void **state)
{
	struct settings s;
	struct err err;

	(void)state;
	setenv("HOME", "/h", 1);
	assert_int_equal(open_with("storage_path: deep/p.db\njsonl_path: ~/l\n", &s, &err), 0);
	assert_below_home(s.paths.db, "deep/p.db");
	assert_string_equal(s.paths.jsonl, "/h/l");
	settings_close(&s);
	assert_int_equal(open_with("storage_path: ~/p.db\njsonl_path: null\n", &s, &err), 0);
	assert_string_equal(s.paths.db, "/h/p.db");
	assert_string_equal(s.paths.jsonl, "");
	settings_close(&s);
	unsetenv("HOME");
	assert_int_equal(open_with("storage_path: ~/p.db\n", &s, &err), -ENOENT);
	assert_string_equal(err.text, "storage_path begins with ~/, but HOME is not set");
	settings_close(&s);
}

/* Whatever would write into another file of proctor, or into a folder, with its line. */
static void test_places_that_are_taken(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "storage_path: proctor.yaml\n",
		  ":1: 'storage_path' is '%s/proctor.yaml', which is "
		  "the configuration; it must be a file of its own" },
		{ "storage_path: proctor.sock\n",
		  ":1: 'storage_path' is '%s/proctor.sock', which is "
		  "the daemon's socket; it must be a file of its own" },
		{ "\nstorage_path: .//proctor.sock.lock\n",
		  ":2: 'storage_path' is '%s/.//proctor.sock.lock', which is the lock of the daemon's "
		  "socket; it must be a file of its own" },
		{ "storage_path: daemon.log\n",
		  ":1: 'storage_path' is '%s/daemon.log', which is what "
		  "the daemon says; it must be a file of its own" },
		{ "storage_path: proctor.jsonl.1\njsonl_path: proctor.jsonl\n",
		  ":1: 'storage_path' is '%s/proctor.jsonl.1', which is the log of snapshots, rotated; "
		  "it must be a file of its own" },
		{ "jsonl_path: proctor.db-logs\n",
		  ":1: 'jsonl_path' is '%s/proctor.db-logs', which is a part of the record; it must "
		  "be a file of its own" },
		{ "storage_path: x\njsonl_path: x\n",
		  ":1: 'storage_path' is '%s/x', which is the log "
		  "of snapshots; it must be a file of its own" },
		{ "storage_path: /\n", ":1: 'storage_path' is '/', which is a folder; it must be a "
				       "file" },
		{ "storage_path: deep/\n",
		  ":1: 'storage_path' is '%s/deep/', which is a folder; it must be a file" },
	};
	char why[512];
	struct settings s;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *mark = strstr(rows[i].why, "%s");

		snprintf(why, sizeof(why), "%.*s%s%s",
			 (int)(mark ? mark - rows[i].why : (long)strlen(rows[i].why)), rows[i].why,
			 mark ? home : "", mark ? mark + 2 : "");
		assert_int_equal(open_with(rows[i].text, &s, &err), -EINVAL);
		assert_non_null(strstr(err.text, "proctor.yaml:"));
		assert_string_equal(strchr(err.text, ':'), why);
		settings_close(&s);
	}
	assert_int_equal(open_with("storage_path: proctor.db\njsonl_path: p.jsonl\n", &s, &err), 0);
	settings_close(&s);
}

static void test_mask(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *const argv[] = { "x", "--pin=1234", NULL };
	struct settings s;
	struct err err;

	(void)state;
	assert_int_equal(open_with("mask_patterns: [pin]\n", &s, &err), 0);
	mask_argv(s.mask, argv, &out);
	assert_string_equal(out.data, "x --pin=***");
	settings_close(&s);
	assert_int_equal(open_with("mask_secrets: false\nmask_patterns: [pin]\n", &s, &err), 0);
	assert_null(s.mask);
	settings_close(&s);
}

/* What a bad file said before its mistake counts for nothing. */
static void test_bad_file(void **state)
{
	struct settings s;
	struct err err;

	(void)state;
	assert_int_equal(open_with("interval_seconds: 9\nstorage_path: x.db\nzzz: 1\n", &s, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "proctor.yaml:3: unknown key 'zzz'"));
	assert_true(s.config.interval_seconds == 5);
	assert_below_home(s.paths.db, "proctor.db");
	assert_null(s.mask);
	settings_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_file),
		cmocka_unit_test(test_places_by_the_file),
		cmocka_unit_test(test_places_that_are_taken),
		cmocka_unit_test(test_mask),
		cmocka_unit_test(test_bad_file),
	};

	return cmocka_run_group_tests(tests, make_home, remove_home);
}

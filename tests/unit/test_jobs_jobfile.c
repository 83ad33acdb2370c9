#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/jobs.h"

static void test_everything(void **state)
{
	static const char text[] = "job_id: nightly/7\n"
				   "sheets:\n"
				   "  - run: make all && echo done\n"
				   "    name: build\n"
				   "    workdir: /\n"
				   "    env: {CC: gcc, EMPTY: \"\", N: 5, B: yes}\n"
				   "    retries: 2\n"
				   "    timeout: 1h30m\n"
				   "    on_failure: continue\n"
				   "    ranks: 4\n"
				   "  - run: [prog, '', \"two words\", 3]\n";
	const struct sheet_spec *s;
	struct err err = ERR_INIT;
	struct job_spec spec;

	(void)state;
	assert_int_equal(job_file_parse(text, strlen(text), "j.yaml", true, &spec, &err), 0);
	assert_string_equal(spec.job_id, "nightly/7");
	assert_int_equal(spec.n_sheets, 2);
	s = &spec.sheets[0];
	assert_int_equal(s->num, 1);
	assert_string_equal(s->name, "build");
	assert_string_equal(s->argv[0], "/bin/sh");
	assert_string_equal(s->argv[1], "-c");
	assert_string_equal(s->argv[2], "make all && echo done");
	assert_null(s->argv[3]);
	assert_string_equal(s->workdir, "/");
	assert_int_equal(s->n_env, 4);
	assert_string_equal(s->env[0].name, "CC");
	assert_string_equal(s->env[0].value, "gcc");
	assert_string_equal(s->env[1].value, "");
	assert_string_equal(s->env[2].value, "5");
	assert_string_equal(s->env[3].value, "yes");
	assert_int_equal(s->retries, 2);
	assert_true(s->timeout_seconds == 5400);
	assert_false(s->stop_on_failure);
	assert_true(s->is_ranked);
	assert_int_equal(s->ranks, 4);
	job_spec_release(&spec);
}

static void test_defaults(void **state)
{
	static const char text[] = "sheets:\n- run: [\"true\"]\n- run: |\n    a\n    b\n";
	const struct sheet_spec *s;
	struct job_spec spec;

	(void)state;
	assert_int_equal(job_file_parse(text, strlen(text), "j.yaml", true, &spec, NULL), 0);
	assert_null(spec.job_id);
	s = &spec.sheets[0];
	assert_null(s->name);
	assert_null(s->workdir);
	assert_string_equal(s->argv[0], "true");
	assert_null(s->argv[1]);
	assert_int_equal(s->n_env, 0);
	assert_int_equal(s->retries, 0);
	assert_true(isnan(s->timeout_seconds));
	assert_true(s->stop_on_failure);
	assert_false(s->is_ranked);
	assert_int_equal(s->ranks, 1);
	assert_string_equal(spec.sheets[1].argv[2], "a\nb\n");
	assert_int_equal(spec.sheets[1].num, 2);
	job_spec_release(&spec);
}

/* A mistake and the whole message. */
static const struct {
	const char *text;
	const char *message;
} mistakes[] = {
	{ "", "j.yaml:1: the job file has no 'sheets'; add one" },
	{ "# nothing\n---\n", "j.yaml:1: the job file has no 'sheets'; add one" },
	{ "job_id: x\n", "j.yaml:1: the job file has no 'sheets'; add one" },
	{ "- run: x\n",
	  "j.yaml:1: the job file is a list; it must be a mapping of keys to values" },
	{ "hello\n", "j.yaml:1: the job file is 'hello'; it must be a mapping of keys to values" },
	{ "job: x\nsheets:\n- run: x\n",
	  "j.yaml:1: unknown key 'job' in the job file; did you mean 'job_id'?" },
	{ "sheet:\n- run: x\n",
	  "j.yaml:1: unknown key 'sheet' in the job file; did you mean 'sheets'?" },
	{ "zebra: 1\n",
	  "j.yaml:1: unknown key 'zebra' in the job file; known are job_id, limits, sheets" },
	{ "sheets:\n- run: x\n  retrys: 2\n",
	  "j.yaml:3: unknown key 'retrys' in the sheet; did you mean 'retries'?" },
	{ "sheets:\n- run: x\n  on-failure: stop\n",
	  "j.yaml:3: unknown key 'on-failure' in the sheet; did you mean 'on_failure'?" },
	{ "sheets:\n- command: x\n",
	  "j.yaml:2: unknown key 'command' in the sheet; known are run, name, workdir, env, retries, "
	  "timeout, on_failure, ranks" },
	{ "sheets: []\n", "j.yaml:1: 'sheets' is empty; add a sheet: '- run: …'" },
	{ "sheets:\n",
	  "j.yaml:1: 'sheets' is empty; it must be a list with a mapping for each sheet" },
	{ "sheets:\n  run: x\n",
	  "j.yaml:2: 'sheets' is a mapping; it must be a list with a mapping for each sheet" },
	{ "sheets:\n- make\n",
	  "j.yaml:2: the sheet is 'make'; it must be a mapping of keys to values" },
	{ "sheets:\n- name: a\n", "j.yaml:2: the sheet has no 'run'; add one" },
	{ "sheets:\n- run: x\n  name: a\n  name: b\n",
	  "j.yaml:4: 'name' is given again; keep this or line 3" },
	{ "sheets:\n- run: []\n", "j.yaml:2: 'run' is an empty list; name the program first" },
	{ "sheets:\n- run: ['', a]\n",
	  "j.yaml:2: 'run' begins with an empty text; name the program first" },
	{ "sheets:\n- run: ''\n",
	  "j.yaml:2: 'run' is empty; it must be a text or a list of texts" },
	{ "sheets:\n- run:\n    a: b\n",
	  "j.yaml:3: 'run' is a mapping; it must be a text or a list of texts" },
	{ "sheets:\n- run: [a, [b]]\n",
	  "j.yaml:2: an entry of 'run' is a list; it must be a text" },
	{ "sheets:\n- run:\n  - a\n  -\n",
	  "j.yaml:4: an entry of 'run' is empty; it must be a text (\"\" for an empty one)" },
	{ "sheets:\n- run: x\n  retries: many\n",
	  "j.yaml:3: 'retries' is 'many'; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  retries: 101\n",
	  "j.yaml:3: 'retries' is '101'; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  retries: -1\n",
	  "j.yaml:3: 'retries' is '-1'; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  retries: 1.5\n",
	  "j.yaml:3: 'retries' is '1.5'; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  retries: 99999999999999999999\n",
	  "j.yaml:3: 'retries' is '99999999999999999999'; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  retries: \"5\"\n",
	  "j.yaml:3: 'retries' is the text '5'; write it without quotes" },
	{ "sheets:\n- run: x\n  retries:\n",
	  "j.yaml:3: 'retries' is empty; it must be a whole number from 0 to 100" },
	{ "sheets:\n- run: x\n  timeout: 0\n",
	  "j.yaml:3: 'timeout' is '0'; it must be a time such as 200ms, 30s or 1h30m, longer than 0s and "
	  "at most 3650d" },
	{ "sheets:\n- run: x\n  timeout: inf\n",
	  "j.yaml:3: 'timeout' is 'inf'; it must be a time such as 200ms, 30s or 1h30m, longer than 0s "
	  "and at most 3650d" },
	{ "sheets:\n- run: x\n  timeout: nan\n",
	  "j.yaml:3: 'timeout' is 'nan'; it must be a time such as 200ms, 30s or 1h30m, longer than 0s "
	  "and at most 3650d" },
	{ "sheets:\n- run: x\n  timeout: soon\n",
	  "j.yaml:3: 'timeout' is 'soon'; it must be a time such as 200ms, 30s or 1h30m, longer than 0s "
	  "and at most 3650d" },
	{ "sheets:\n- run: x\n  on_failure: ignore\n",
	  "j.yaml:3: 'on_failure' is 'ignore'; it must be stop or continue" },
	{ "sheets:\n- run: x\n  ranks: 0\n",
	  "j.yaml:3: 'ranks' is '0'; it must be a whole number from 1 to 1024" },
	{ "sheets:\n- run: x\n  env: [A=b]\n",
	  "j.yaml:3: 'env' is a list; it must be a mapping of names to texts" },
	{ "sheets:\n- run: x\n  env:\n    A=b: c\n",
	  "j.yaml:4: 'A=b' is not a variable's name; write NAME: value, with no '=' in the name" },
	{ "sheets:\n- run: x\n  env:\n    '': c\n",
	  "j.yaml:4: '' is not a variable's name; write NAME: value, with no '=' in the name" },
	{ "sheets:\n- run: x\n  env:\n    A: 1\n    B: 2\n    A: 3\n",
	  "j.yaml:6: 'A' is given again; keep this or line 4" },
	{ "sheets:\n- run: x\n  env:\n    A:\n",
	  "j.yaml:4: 'A' of 'env' is empty; it must be a text (\"\" for an empty one)" },
	{ "sheets:\n- run: x\n  env:\n    A: [1]\n",
	  "j.yaml:4: 'A' of 'env' is a list; it must be a text" },
	{ "sheets:\n- run: x\n  workdir: /no/such\n",
	  "j.yaml:3: the workdir '/no/such': No such file or directory; make the folder first" },
	{ "sheets:\n- run: x\n  workdir: /dev/null\n",
	  "j.yaml:3: the workdir '/dev/null' is not a folder; name one that is" },
	{ "sheets:\n- run: x\n  name: \"a\\nb\"\n",
	  "j.yaml:3: not a name for a sheet; write one line of at most 128 bytes" },
	{ "job_id: my job\nsheets:\n- run: x\n",
	  "j.yaml:1: 'my job' is not a job_id; it must be 1 to 128 letters, digits and ._-:/@+, "
	  "beginning with neither - nor ." },
	{ "job_id: \"a\\e[31mb\"\nsheets:\n- run: x\n",
	  "j.yaml:1: 'a?[31mb' is not a job_id; it must be 1 to 128 letters, digits and ._-:/@+, "
	  "beginning with neither - nor ." },
	{ "job_id: ''\nsheets:\n- run: x\n", "j.yaml:1: 'job_id' is empty; it must be a text" },
};

/* Who checks a file for somebody else neither sees nor tells what folders there are. */
static void test_for_others(void **state)
{
	static const char text[] = "sheets:\n- run: x\n  workdir: /no/such\n";
	static const char bad[] = "sheets:\n- run: x\n  colour: red\n";
	struct err err = ERR_INIT;
	struct job_spec spec;

	(void)state;
	assert_int_equal(job_file_parse(text, strlen(text), "j.yaml", false, &spec, &err), 0);
	assert_string_equal(spec.sheets[0].workdir, "/no/such");
	job_spec_release(&spec);
	assert_int_equal(job_file_parse(bad, strlen(bad), "j.yaml", false, &spec, &err), -EINVAL);
}

static void test_mistakes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
		struct err err = ERR_INIT;
		struct job_spec spec;
		int r = job_file_parse(mistakes[i].text, strlen(mistakes[i].text), "j.yaml", true,
				       &spec, &err);

		assert_string_equal(err.text, mistakes[i].message);
		assert_int_equal(r, -EINVAL);
		assert_int_equal(err.code, -EINVAL);
		assert_int_equal(spec.n_sheets, 0);
	}
}

/* execve() would refuse them once the job is under way. */
static void test_arguments_that_exec_would_refuse(void **state)
{
	struct err err = ERR_INIT;
	struct job_spec spec;
	char *text = malloc(140000);

	(void)state;
	memset(text, 'a', 140000);
	memcpy(text, "sheets:\n- run: ", 15);
	assert_int_equal(job_file_parse(text, 15 + 131071, "j.yaml", true, &spec, &err), 0);
	job_spec_release(&spec);
	assert_int_equal(job_file_parse(text, 15 + 131072, "j.yaml", true, &spec, &err), -EINVAL);
	assert_string_equal(err.text, "j.yaml:2: an argument is longer than 131071 bytes; put the "
				      "script into a file");
	memcpy(text, "sheets:\n- run: x\n  env:\n    A: ", 31);
	assert_int_equal(job_file_parse(text, 31 + 131069, "j.yaml", true, &spec, &err), 0);
	job_spec_release(&spec);
	assert_int_equal(job_file_parse(text, 31 + 131070, "j.yaml", true, &spec, &err), -EINVAL);
	assert_string_equal(err.text, "j.yaml:4: a variable is longer than 131071 bytes; put its "
				      "value into a file");
	free(text);
}

static void test_load(void **state)
{
	char path[] = "/tmp/proctor-test-XXXXXX";
	struct err err = ERR_INIT;
	struct job_spec spec;
	char expected[128];
	FILE *f;

	(void)state;
	f = fdopen(mkstemp(path), "w");
	fputs("sheets:\n- run: x\n  workdir: nowhere-at-all\n", f);
	fclose(f);
	assert_int_equal(job_file_load(path, &spec, &err), -EINVAL);
	snprintf(expected, sizeof(expected), "%s:3: the workdir 'nowhere-at-all': ", path);
	assert_int_equal(strncmp(err.text, expected, strlen(expected)), 0);
	f = fopen(path, "w");
	fputs("sheets:\n- run: x\n  workdir: .\n", f);
	fclose(f);
	assert_int_equal(job_file_load(path, &spec, &err), 0);
	job_spec_release(&spec);
	unlink(path);
	assert_int_equal(job_file_load(path, &spec, &err), -ENOENT);
	snprintf(expected, sizeof(expected), "cannot read %s: No such file or directory", path);
	assert_string_equal(err.text, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_for_others),
		cmocka_unit_test(test_arguments_that_exec_would_refuse),
		cmocka_unit_test(test_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

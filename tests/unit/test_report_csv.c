/*
 * The tables of the export against the JSON of the same things: every key is a
 * column, and every value is the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* jansson and base/json.h both have these two names; the test needs neither of jansson's. */
#define json_string jansson_string
#define json_null jansson_null
#include <errno.h>
#include <jansson.h>
#undef json_string
#undef json_null
#include <stdio.h>
#include <stdlib.h>

#include "report/report.h"
#include "report_cases.h"

#define MAX_COLUMNS 128
#define MAX_TEXT 4096

/* ---- reading CSV, by the letter of RFC 4180 ---- */

struct field {
	bool is_quoted;
	char text[MAX_TEXT];
};

struct row {
	size_t n;
	struct field *fields; /* MAX_COLUMNS */
};

static const char *read_field(const char *p, struct field *ret)
{
	size_t n = 0;

	ret->is_quoted = *p == '"';
	p += ret->is_quoted;
	while (ret->is_quoted ? *p != '"' || p[1] == '"' : *p != ',' && *p != '\n') {
		assert_true(*p != '\0' && n + 1 < MAX_TEXT);
		p += ret->is_quoted && *p == '"';
		ret->text[n++] = *p++;
	}
	ret->text[n] = '\0';
	return p + ret->is_quoted;
}

/* Returns what is behind the row's end. */
static const char *read_row(const char *p, struct row *ret)
{
	ret->n = 0;
	for (;;) {
		assert_true(ret->n < MAX_COLUMNS);
		p = read_field(p, &ret->fields[ret->n++]);
		if (*p == '\n')
			return p + 1;
		assert_int_equal(*p, ',');
		p++;
	}
}

struct csv_text {
	struct row heading, row;
	const char *next;
};

static void csv_text_open(struct csv_text *t, const char *text)
{
	t->heading.fields = calloc(MAX_COLUMNS, sizeof(struct field));
	t->row.fields = calloc(MAX_COLUMNS, sizeof(struct field));
	assert_true(t->heading.fields && t->row.fields);
	t->next = read_row(text, &t->heading);
	for (size_t i = 0; i < t->heading.n; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(t->heading.fields[i].text,
						t->heading.fields[k].text);
}

static void csv_text_close(struct csv_text *t)
{
	free(t->heading.fields);
	free(t->row.fields);
}

static void csv_text_step(struct csv_text *t)
{
	assert_true(*t->next != '\0');
	t->next = read_row(t->next, &t->row);
	assert_int_equal(t->row.n, t->heading.n);
}

static const struct field *find_field(const struct csv_text *t, const char *name)
{
	for (size_t i = 0; i < t->heading.n; i++)
		if (strcmp(t->heading.fields[i].text, name) == 0)
			return &t->row.fields[i];
	return NULL;
}

/* ---- against JSON ---- */

static void check_list(const struct field *field, const json_t *value)
{
	json_t *parsed = json_loads(field->text, JSON_DECODE_ANY, NULL);

	assert_true(json_equal(parsed, value));
	json_decref(parsed);
}

static void check_value(const struct field *field, const json_t *value)
{
	if (json_is_null(value)) {
		assert_false(field->is_quoted);
		assert_string_equal(field->text, "");
	} else if (json_is_integer(value)) {
		assert_int_equal(strtoull(field->text, NULL, 10), json_integer_value(value));
	} else if (json_is_real(value)) {
		assert_false(field->is_quoted);
		assert_true(strtod(field->text, NULL) == json_real_value(value));
	} else if (json_is_boolean(value)) {
		assert_string_equal(field->text, json_is_true(value) ? "true" : "false");
	} else if (json_is_string(value)) {
		assert_string_equal(field->text, json_string_value(value));
	} else {
		check_list(field, value);
	}
}

/* All keys of the object are columns with its values, but those in skipped (" a b "). */
static void check_object(const struct csv_text *t, json_t *object, const char *prefix,
			 const char *skipped)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		char name[96], word[96];
		const struct field *field;

		snprintf(name, sizeof(name), "%s%s", prefix, key);
		snprintf(word, sizeof(word), " %s ", key);
		if (strstr(skipped, word))
			continue;
		field = find_field(t, name);
		if (!field)
			fail_msg("no column %s", name);
		check_value(field, value);
	}
}

static void check_evidence(const struct csv_text *t, json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach(json_object_get(object, "evidence"), key, value)
	{
		char name[96];

		if (strcmp(key, "syscall_hotspots") == 0 || strcmp(key, "syscalls") == 0)
			continue; /* no numbers, and no columns */
		snprintf(name, sizeof(name), "%s_evidence", key);
		assert_non_null(find_field(t, name));
		check_value(find_field(t, name), value);
	}
}

static void check_number(const struct csv_text *t, const char *name, uint64_t expected)
{
	assert_non_null(find_field(t, name));
	assert_true(strtoull(find_field(t, name)->text, NULL, 10) == expected);
}

/* ---- samples ---- */

static void fill_sample(struct proc_sample *p)
{
	static const struct syscall_use calls[] = {
		{ .name = "read",
		  .count = 10,
		  .errors = 1,
		  .cpu_ns = 3000,
		  .wait_ns = U64_UNKNOWN },
		{ .name = "futex", .count = 3, .errors = 0, .cpu_ns = 1000, .wait_ns = 90 },
	};

	proc_sample_init(p);
	p->key = (struct proc_key){ 4242, 987654 };
	p->ppid = 1;
	p->state = 'R';
	p->command = "sh -c \"a,b\"\nc";
	memcpy(p->comm, "\x1b,\"", 4);
	p->job_id = "@job";
	p->sheet_num = 3;
	p->cpu_percent = 33.37;
	p->age_seconds = 0.026484795;
	p->cpu_ns = UINT64_C(123456789123456789);
	p->user_ns = 7;
	p->rss_bytes = UINT64_C(1234567890123);
	p->vms_bytes = 4097;
	p->threads = 0;
	p->read_bytes = UINT64_MAX - 1;
	p->fd_limit = FD_LIMIT_UNLIMITED;
	p->uid = 4294967295;
	p->cgroup = "/user.slice";
	p->start_wall_ns = UINT64_C(1794727635451396235);
	p->syscalls = calls;
	p->n_syscalls = ARRAY_SIZE(calls);
}

static json_t *sample_json(const struct proc_sample *p)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	json_t *root;
	struct json j;

	json_init(&j, &out);
	json_begin_object(&j);
	proc_sample_write_fields(&j, p);
	json_end_object(&j);
	root = json_loads(out.data, 0, NULL);
	assert_non_null(root);
	return root;
}

static void check_sample(const struct proc_sample *p, const char *skipped)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	json_t *json = sample_json(p);
	struct csv_text t;
	struct csv c;

	csv_init(&c, &out);
	report_csv_heading(&c, REPORT_SAMPLES);
	report_csv_sample(&c, UINT64_C(1794727635477942582), 60, 17, 2, p);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	check_object(&t, json, "", skipped);
	check_number(&t, "timestamp_ns", UINT64_C(1794727635477942582));
	check_number(&t, "attempt", 2);
	check_number(&t, "samples", 17);
	assert_true(strtod(find_field(&t, "timestamp")->text, NULL) == 1794727635.4779425);
	assert_int_equal(*t.next, '\0');
	csv_text_close(&t);
	json_decref(json);
}

/* jansson has no number as large as this, so it stands alone. */
static void test_sample(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct proc_sample p;
	struct csv_text t;
	struct csv c;

	(void)state;
	fill_sample(&p);
	p.read_bytes = 5;
	check_sample(&p, "");
	p.read_bytes = UINT64_MAX - 1;
	csv_init(&c, &out);
	report_csv_heading(&c, REPORT_SAMPLES);
	report_csv_sample(&c, 1, F64_UNKNOWN, 1, 1, &p);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	assert_string_equal(find_field(&t, "read_bytes")->text, "18446744073709551614");
	check_number(&t, "rss_bytes", UINT64_C(1234567890123));
	check_number(&t, "cpu_ns", UINT64_C(123456789123456789));
	assert_string_equal(find_field(&t, "syscall_counts")->text, "{\"read\":10,\"futex\":3}");
	assert_string_equal(find_field(&t, "fd_limit")->text, "unlimited");
	csv_text_close(&t);
}

/* What nobody knows is empty everywhere; in JSON alone the state has a letter for it. */
static void test_unknown_sample(void **state)
{
	struct proc_sample p;

	(void)state;
	proc_sample_init(&p);
	check_sample(&p, " state comm ");
}

/* ---- snapshots and events ---- */

static void test_snapshot(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	static const char *const lines[] = { "some", "full" };
	struct job_progress progress = { "a\"b", 0, 3, 1, 2, "running", 0, 0 };
	struct gpu_sample gpu;
	CLEANUP(snapshot_release) struct snapshot s;
	struct csv_text t;
	json_t *json;
	struct json j;
	struct csv c;

	(void)state;
	gpu_sample_init(&gpu);
	gpu.utilization_pct = 50;
	gpu.memory_used_mb = 1000.5;
	gpu.temperature_c = 45;
	snapshot_init(&s);
	s.wall_ns = UINT64_C(1794727635477942582);
	s.system.memory_total_bytes = UINT64_C(25276518400);
	s.system.load1 = 1.68;
	s.system.cpu_count = 8;
	s.system.psi_io.full = (struct psi_line){ 0.17, 1.24, 1.65, 149593500 };
	s.pressure_level = "low";
	s.gpus = &gpu;
	s.n_gpus = 1;
	s.progress = &progress;
	s.n_progress = 1;
	assert_non_null(snapshot_add_process(&s));
	s.processes[0].state = 'Z';
	s.processes[0].key.pid = 77;

	json_init(&j, &text);
	snapshot_write_json(&j, &s, SNAPSHOT_ALL);
	json = json_loads(text.data, 0, NULL);
	assert_non_null(json);
	csv_init(&c, &out);
	report_csv_heading(&c, REPORT_SNAPSHOTS);
	report_csv_snapshot(&c, &s);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	check_object(&t, json, "", " processes psi_cpu psi_memory psi_io ");
	check_object(&t, json_object_get(json_object_get(json, "psi_io"), lines[1]), "psi_io_full_",
		     "");
	assert_string_equal(find_field(&t, "psi_io_some_avg10")->text, "");
	assert_string_equal(find_field(&t, "psi_cpu_some_total_us")->text, "");
	check_number(&t, "system_memory_total_bytes", UINT64_C(25276518400));
	s.gpus = NULL; /* nobody looked */
	buf_reset(&out);
	report_csv_heading(&c, REPORT_SNAPSHOTS);
	report_csv_snapshot(&c, &s);
	csv_text_close(&t);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	assert_false(find_field(&t, "gpus")->is_quoted);
	assert_false(find_field(&t, "cgroups")->is_quoted);
	assert_string_equal(find_field(&t, "resolution_seconds")->text, "");
	s.resolution_seconds = 60; /* a minute: progress is not kept */
	buf_reset(&out);
	report_csv_heading(&c, REPORT_SNAPSHOTS);
	report_csv_snapshot(&c, &s);
	csv_text_close(&t);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	assert_string_equal(find_field(&t, "resolution_seconds")->text, "60.0");
	assert_false(find_field(&t, "job_progress")->is_quoted);
	assert_string_equal(find_field(&t, "job_progress")->text, "");
	csv_text_close(&t);
	json_decref(json);
}

static void test_event(void **state)
{
	const struct proc_event ev = {
		.wall_ns = UINT64_C(1794727636791799123),
		.key = { 11, U64_UNKNOWN },
		.type = EVENT_KILL,
		.status = { -1, 9 },
		.job_id = "j",
		.sheet_num = SHEET_NONE,
		.details = "line\n\"two\"",
	};
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct csv_text t;
	json_t *json;
	struct json j;
	struct csv c;

	(void)state;
	json_init(&j, &text);
	proc_event_write_json(&j, &ev);
	json = json_loads(text.data, 0, NULL);
	assert_non_null(json);
	csv_init(&c, &out);
	report_csv_heading(&c, REPORT_EVENTS);
	report_csv_event(&c, 5, &ev);
	csv_text_open(&t, out.data);
	csv_text_step(&t);
	check_object(&t, json, "", "");
	check_number(&t, "attempt", 5);
	check_number(&t, "timestamp_ns", ev.wall_ns);
	csv_text_close(&t);
	json_decref(json);
}

/* ---- attempts ---- */

static int count_row(void *ctx)
{
	++*(size_t *)ctx;
	return 0;
}

struct exported {
	struct attempt a;
	struct buf csv;
	json_t *json;
	struct csv_text text;
	size_t n_rows;
};

static void export(struct exported *e, size_t number, enum report_table table)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct csv c;

	*e = (struct exported){ .csv = BUF_INIT };
	report_cases[number].build(&e->a);
	assert_int_equal(report_write(&e->a, REPORT_JSON, &text), 0);
	e->json = json_loads(text.data, 0, NULL);
	assert_non_null(e->json);
	csv_init(&c, &e->csv);
	report_csv_heading(&c, table);
	assert_int_equal(report_csv_attempt(&c, table, &e->a, count_row, &e->n_rows), 0);
	csv_text_open(&e->text, e->csv.data);
}

static void exported_release(struct exported *e)
{
	assert_int_equal(*e->text.next, '\0');
	csv_text_close(&e->text);
	json_decref(e->json);
	buf_release(&e->csv);
	attempt_release(&e->a);
}

static void test_jobs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		struct exported e;

		export(&e, i, REPORT_JOBS);
		assert_int_equal(e.n_rows, 1);
		csv_text_step(&e.text);
		check_object(
			&e.text, e.json, "",
			" phases syscalls verdict last_seen evidence sheet_metrics syscall_hotspots anomalies "
			"telemetry runs_like_this rungs rung_reasons unknown processes events series_samples "
			"series_samples_per_point series ");
		check_evidence(&e.text, e.json);
		if (u64_known(e.a.usage.user_ns))
			check_number(&e.text, "user_cpu_ns", e.a.usage.user_ns);
		exported_release(&e);
	}
}

static void check_tries(struct exported *e, json_t *sheet, const char *num)
{
	json_t *one;
	size_t k;

	json_array_foreach(json_object_get(sheet, "tries"), k, one)
	{
		csv_text_step(&e->text);
		e->n_rows--;
		assert_string_equal(find_field(&e->text, "sheet_num")->text, num);
		check_object(&e->text, one, "", " evidence ");
		check_evidence(&e->text, one);
		check_value(find_field(&e->text, "name"), json_object_get(sheet, "name"));
	}
}

static void test_sheets(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		struct exported e;
		const char *num;
		json_t *sheet;

		export(&e, i, REPORT_SHEETS);
		json_object_foreach(json_object_get(e.json, "sheet_metrics"), num, sheet)
		{
			check_tries(&e, sheet, num);
		}
		assert_int_equal(e.n_rows, 0);
		exported_release(&e);
	}
}

static void test_processes(void **state)
{
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		struct exported e;
		json_t *process;
		size_t k;

		export(&e, i, REPORT_PROCESSES);
		json_array_foreach(json_object_get(e.json, "processes"), k, process)
		{
			csv_text_step(&e.text);
			check_object(&e.text, process, "", "");
			n++;
		}
		assert_int_equal(e.n_rows, e.a.n_processes);
		exported_release(&e);
	}
	assert_true(n > 10);
}

static int stop_after_two(void *ctx)
{
	return ++*(int *)ctx == 2 ? -EPIPE : 0;
}

static void test_stops_when_told(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(attempt_release) struct attempt a;
	struct csv c;
	int n = 0;

	(void)state;
	case_failure(&a);
	assert_true(a.n_processes > 2);
	csv_init(&c, &out);
	assert_int_equal(report_csv_attempt(&c, REPORT_PROCESSES, &a, stop_after_two, &n), -EPIPE);
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),	  cmocka_unit_test(test_unknown_sample),
		cmocka_unit_test(test_snapshot),  cmocka_unit_test(test_event),
		cmocka_unit_test(test_jobs),	  cmocka_unit_test(test_sheets),
		cmocka_unit_test(test_processes), cmocka_unit_test(test_stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

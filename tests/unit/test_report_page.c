/*
 * The page and the summary against tests/golden/report/<case>.{txt,md,summary}.
 * UPDATE_GOLDEN=1 writes them anew: look at the difference before keeping it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/utf8.h"
#include "model/job.h"
#include "report/report.h"
#include "report_cases.h"

static int write_text(const struct attempt *a, struct buf *out)
{
	return report_write(a, REPORT_TEXT, out);
}

static int write_markdown(const struct attempt *a, struct buf *out)
{
	return report_write(a, REPORT_MARKDOWN, out);
}

static int write_html(const struct attempt *a, struct buf *out)
{
	return report_write(a, REPORT_HTML, out);
}

static void compare_golden(const char *name, const char *suffix, const struct buf *actual)
{
	CLEANUP(buf_release) struct buf golden = BUF_INIT;
	char path[4096];

	snprintf(path, sizeof(path), "%s/golden/report/%s.%s", getenv("PROCTOR_TESTS"), name,
		 suffix);
	if (getenv("UPDATE_GOLDEN")) {
		CLEANUP(close_fd)
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		assert_true(fd >= 0);
		assert_int_equal(io_write_all(fd, actual->data, actual->len), 0);
		return;
	}
	assert_int_equal(io_read_at(AT_FDCWD, path, 1 << 20, &golden), 0);
	assert_string_equal(actual->data, golden.data);
}

static void check_all(const char *suffix, int (*write)(const struct attempt *a, struct buf *out))
{
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct attempt a;

		report_cases[i].build(&a);
		assert_int_equal(write(&a, &out), 0);
		compare_golden(report_cases[i].name, suffix, &out);
		attempt_release(&a);
	}
}

static void test_text_is_as_agreed(void **state)
{
	(void)state;
	check_all("txt", write_text);
}

static void test_markdown_is_as_agreed(void **state)
{
	(void)state;
	check_all("md", write_markdown);
}

static void test_summary_is_as_agreed(void **state)
{
	(void)state;
	check_all("summary", report_write_summary);
}

/* Calls check for every line of every case in one format. */
static void for_each_line(int (*write)(const struct attempt *a, struct buf *out),
			  void (*check)(const char *line, size_t n))
{
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct attempt a;

		report_cases[i].build(&a);
		assert_int_equal(write(&a, &out), 0);
		attempt_release(&a);
		assert_true(out.len > 0 && out.data[out.len - 1] == '\n');
		for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1)
			check(p, strcspn(p, "\n"));
	}
}

static void check_width(const char *line, size_t n)
{
	if (utf8_count(line, n) > 100)
		fail_msg("%zu columns: %.*s", utf8_count(line, n), (int)n, line);
	assert_true(n == 0 || line[n - 1] != ' ');
}

static void test_text_fits_the_page(void **state)
{
	(void)state;
	for_each_line(write_text, check_width);
}

/* No control character, nothing that is not UTF-8, nothing that turns the direction of writing. */
static void check_safe(const char *line, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_char_len(line + i, n - i);
		assert_true(len > 0);
		if (len == 1)
			assert_true(line[i] >= ' ' && line[i] != 0x7f);
		if (len == 2)
			assert_false((unsigned char)line[i] == 0xc2 &&
				     (unsigned char)line[i + 1] < 0xa0);
		assert_int_not_equal(strncmp(line + i, "\xe2\x80\xae", 3), 0);
	}
}

static void test_foreign_text_cannot_reach_the_terminal(void **state)
{
	(void)state;
	for_each_line(write_text, check_safe);
	for_each_line(write_markdown, check_safe);
	for_each_line(write_html, check_safe);
	for_each_line(report_write_summary, check_safe);
}

/* Every row of a table has as many bars as its title, whatever the cells hold. */
static size_t table_bars;

static void check_bars(const char *line, size_t n)
{
	size_t bars = 0;

	for (size_t i = 0; i < n; i++)
		bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
	if (n == 0 || line[0] != '|')
		table_bars = 0;
	else if (table_bars == 0)
		table_bars = bars;
	else
		assert_int_equal(bars, table_bars);
}

/* Every mark of the page is one of ours, and what is opened is closed. */
static void check_marks(const char *line, size_t n)
{
	static const char *const ours[] = { "!DOCTYPE", "html", "head", "meta",	 "style",
					    "title",	"body", "h1",	"h2",	 "p",
					    "ul",	"li",	"div",	"table", "tr",
					    "th",	"td",	"pre",	"strong" };

	for (size_t i = 0; i < n; i++) {
		const char *name = line + i + 1 + (line[i + 1] == '/');
		bool is_ours = false;

		if (line[i] != '<')
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(ours); k++)
			is_ours |= strcspn(name, " >\n") == strlen(ours[k]) &&
				   strncmp(name, ours[k], strlen(ours[k])) == 0;
		if (!is_ours)
			fail_msg("not ours: %.*s", (int)n, line);
	}
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;

	while ((text = strstr(text, word)) != NULL) {
		text += strlen(word);
		n++;
	}
	return n;
}

static void test_html_is_whole(void **state)
{
	static const char *const pairs[][2] = { { "<table", "</table>" }, { "<tr", "</tr>" },
						{ "<td", "</td>" },	  { "<ul", "</ul>" },
						{ "<html", "</html>" },	  { "<pre", "</pre>" } };

	(void)state;
	for_each_line(write_html, check_marks);
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct attempt a;

		report_cases[i].build(&a);
		assert_int_equal(write_html(&a, &out), 0);
		attempt_release(&a);
		for (size_t k = 0; k < ARRAY_SIZE(pairs); k++)
			assert_int_equal(count(out.data, pairs[k][0]),
					 count(out.data, pairs[k][1]));
		assert_int_equal(count(out.data, "<html"), 1);
	}
}

/* By colour, and in a narrow window each value has the title of its column beside it. */
static void test_html_shows_the_outcome_and_fits(void **state)
{
	static const struct {
		enum outcome outcome;
		const char *class;
	} looks[] = { { OUTCOME_SUCCESS, "\"verdict good\"" },
		      { OUTCOME_FAILURE, "\"verdict bad\"" },
		      { OUTCOME_OOM, "\"verdict bad\"" },
		      { OUTCOME_TIMEOUT, "\"verdict warning\"" },
		      { OUTCOME_CANCELLED, "\"verdict warning\"" },
		      { OUTCOME_NONE, "\"verdict\"" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct attempt a;

		report_cases[0].build(&a);
		a.outcome = looks[i].outcome;
		assert_int_equal(write_html(&a, &out), 0);
		attempt_release(&a);
		assert_int_equal(count(out.data, looks[i].class), 1);
		assert_true(count(out.data, "data-of=\"pid\"") > 0);
		assert_true(strstr(out.data, "attr(data-of)") != NULL);
	}
}

static void test_foreign_text_cannot_break_a_table(void **state)
{
	(void)state;
	for_each_line(write_markdown, check_bars);
}

static struct buf text_of(const char *name, int (*write)(const struct attempt *a, struct buf *out))
{
	struct buf out = BUF_INIT;
	struct attempt a;

	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++)
		if (strcmp(report_cases[i].name, name) == 0) {
			report_cases[i].build(&a);
			assert_int_equal(write(&a, &out), 0);
			attempt_release(&a);
		}
	assert_true(out.len > 0);
	return out;
}

static void test_guess_is_not_told_as_a_fact(void **state)
{
	CLEANUP(buf_release) struct buf guess = text_of("guess", report_write_summary);
	CLEANUP(buf_release) struct buf fact = text_of("oom", report_write_summary);

	(void)state;
	assert_non_null(strstr(guess.data, "SIGKILL) after 6.00 s, probably for lack of memory;"));
	assert_non_null(strstr(guess.data, "sheet 3 ran out of memory"));
	assert_non_null(strstr(guess.data, "sheet 4 probably ran out"));
	assert_non_null(strstr(fact.data, "the command ran out of memory and was killed"));
	assert_null(strstr(fact.data, "probably"));
}

/* There was no command that could have ended. */
static void test_what_never_began_did_not_end(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.job_id = "waited";
	a.started_wall_ns = a.ended_wall_ns = UINT64_C(1700000000000000000);
	a.outcome = OUTCOME_FAILURE;
	a.reason = "cannot go to its folder";
	assert_int_equal(write_text(&a, &out), 0);
	assert_non_null(strstr(out.data, "FAILURE: it never began."));
	assert_non_null(strstr(out.data, "cannot go to its folder"));
	assert_null(strstr(out.data, "the command"));
	attempt_release(&a);
}

/* The end of the attempt was stored, but no account of its processes. */
static void test_end_that_nobody_told_is_not_running(void **state)
{
	CLEANUP(buf_release) struct buf sure = text_of("left", write_text);
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;

	(void)state;
	assert_non_null(strstr(sure.data, "1 still running when proctor ended"));
	case_left(&a);
	for (size_t i = 0; i < a.n_processes; i++)
		a.processes[i].is_unaccounted = !u64_known(a.processes[i].died_wall_ns);
	assert_int_equal(write_text(&a, &out), 0);
	attempt_release(&a);
	assert_null(strstr(out.data, "running"));
	assert_non_null(strstr(out.data, "2 whose end nobody saw"));
}

static void test_summary_sends_nobody_to_a_record_that_is_not_whole(void **state)
{
	CLEANUP(buf_release) struct buf part = text_of("left", report_write_summary);
	CLEANUP(buf_release) struct buf none = text_of("hostile", report_write_summary);
	CLEANUP(buf_release) struct buf whole = text_of("success", report_write_summary);

	(void)state;
	assert_null(strstr(part.data, "proctor report"));
	assert_non_null(strstr(part.data, "not all recorded: the end of this run could not be"));
	assert_null(strstr(none.data, "proctor report"));
	assert_non_null(strstr(none.data, "not recorded: cannot write"));
	assert_non_null(strstr(whole.data, "more: proctor report sleep-20261115-034512"));
}

static void add_anomaly(struct attempt *a, enum anomaly_type type, const char *text)
{
	struct episode e;

	episode_init(&e);
	e.unit = "";
	e.worst.type = type;
	e.worst.severity = SEVERITY_CRITICAL;
	snprintf(e.worst.text, sizeof(e.worst.text), "%s", text);
	assert_int_equal(episode_append(a, &e), 0);
}

/* It grew, and was killed for it: the kill is what people have to know. */
static void test_summary_names_the_kill(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;

	(void)state;
	case_begin(&a, "job", "sleep 1");
	case_end(&a, 5, OUTCOME_OOM, "out of memory", exited(1));
	add_anomaly(&a, ANOMALY_MEMORY_SPIKE, "it grew");
	add_anomaly(&a, ANOMALY_OOM_KILL, "it was killed");
	add_anomaly(&a, ANOMALY_OOM_KILL, "another was killed");
	assert_int_equal(report_write_summary(&a, &out), 0);
	assert_non_null(strstr(out.data, "3 anomalies, worst critical: it was killed"));
	attempt_release(&a);
}

/* Explained once, below the first table that has any. */
/* What is full is not "0 s away at that rate". */
static void test_a_limit_that_is_reached(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;

	(void)state;
	case_oom(&a);
	for (size_t i = 0; i < a.details.n_anomalies; i++)
		a.details.anomalies[i].seconds_to_limit = 0;
	assert_int_equal(write_markdown(&a, &out), 0);
	assert_non_null(strstr(out.data, "; its limit was reached"));
	assert_null(strstr(out.data, " away at that rate"));
	attempt_release(&a);
}

static void test_marks_are_explained_once(void **state)
{
	CLEANUP(buf_release) struct buf page = text_of("failure", write_text);
	const char *legend = strstr(page.data, "~ sampled, ≥ at least");

	(void)state;
	assert_non_null(legend);
	assert_true(legend < strstr(page.data, "\nProcesses"));
	assert_null(strstr(legend + 1, "~ sampled, ≥ at least"));
}

static void test_many_sheets_stay_on_a_page(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	size_t lines = 0;

	(void)state;
	case_begin(&a, "many", "many.yaml");
	case_end(&a, 500, OUTCOME_FAILURE, "sheet 333: exit code 1", exited(1));
	a.total_sheets = 500;
	a.sheets = case_alloc(&a, 500, sizeof(*a.sheets));
	for (int i = 1; i <= 500; i++)
		case_sheet(&a, i, 1, NULL, i - 1, i, i == 333 ? OUTCOME_FAILURE : OUTCOME_SUCCESS,
			   exited(i == 333), i == 333 ? "exit code 1" : "exit code 0");
	assert_int_equal(report_write(&a, REPORT_TEXT, &out), 0);
	assert_non_null(strstr(out.data, "sheets 1-332, 334-500 succeeded"));
	assert_non_null(strstr(out.data, "(20 of 500: what did not succeed and the longest)"));
	assert_non_null(strstr(out.data, "    333  -     failure  exit 1"));
	for (const char *p = out.data; (p = strchr(p, '\n')); p++)
		lines++;
	assert_in_range(lines, 20, 70);
	attempt_release(&a);
}

/* A daemon that came later is not why, where there was none. */
static void test_calls_that_are_missed_have_the_right_cause(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct rung rung = { RUNG_SYSCALLS, RUNG_SYSCALLS_EBPF, "" };
	struct syscall_use use = { .name = "read", .count = 7, .cpu_ns = 1 };
	struct unknown_note unknown = { "syscalls", "3 threads could not be counted" };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.job_id = "j";
	a.details.rungs = &rung;
	a.details.n_rungs = 1;
	a.details.syscalls = &use;
	a.details.n_syscalls = 1;
	a.details.unknowns = &unknown;
	a.details.n_unknowns = 1;
	assert_int_equal(write_text(&a, &out), 0);
	assert_non_null(strstr(out.data, "System calls (at least: what is missing"));
	assert_non_null(strstr(out.data, "3 threads could not be counted"));
	assert_null(strstr(out.data, "a daemon has counted"));
	buf_reset(&out);
	a.is_attached = true;
	assert_int_equal(write_text(&a, &out), 0);
	assert_non_null(strstr(out.data, "a daemon has counted them from when it began to"));
	attempt_release(&a);
}

/* Who recorded was killed with what it had not stored: nobody has noted that. */
static void test_a_time_without_samples_is_told(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.job_id = "j";
	a.interval_seconds = 1;
	case_series(&a, 22, 12);
	assert_int_equal(write_text(&a, &out), 0);
	assert_null(strstr(out.data, "nothing is recorded")); /* three are missing on busy hosts */
	a.details.series[a.details.n_series - 1].wall_ns += SEC(7);
	buf_reset(&out);
	assert_int_equal(write_text(&a, &out), 0);
	assert_non_null(strstr(out.data, "history: nothing is recorded from 20"));
	assert_non_null(strstr(out.data, " on for 8.00 s"));
	a.details.series[0].wall_ns -= SEC(6);
	buf_reset(&out);
	assert_int_equal(write_text(&a, &out), 0);
	assert_non_null(strstr(out.data, "and once more for less"));
	a.interval_seconds = 2;
	buf_reset(&out);
	assert_int_equal(write_text(&a, &out), 0);
	assert_null(strstr(out.data, "nothing is recorded"));
	attempt_release(&a);
}

static bool has_line(const struct buf *text, const char *beginning, const char *end)
{
	const char *found = strstr(text->data, beginning);
	size_t n = found ? strcspn(found, "\n") : 0, n_end = strlen(end);

	return n >= n_end && strncmp(found + n - n_end, end, n_end) == 0;
}

/* Drivers are asked more rarely than samples are taken. */
static void test_gpu_figures_have_the_spacing_of_their_readings(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct rung readings = { RUNG_GPU_READINGS, "10.0 s apart", "" };
	struct unknown_note note = { NOTE_GPU_TIME, "not told for 3 s" };
	struct proc_record process;
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.job_id = "j";
	a.interval_seconds = 1;
	case_series(&a, 22, 12);
	a.usage.peak_gpu_bytes = 7 << 20;
	a.usage.gpu_busy_ns = SEC(5);
	a.usage.gpu_idle_ns = SEC(1);
	assert_int_equal(write_text(&a, &out), 0);
	assert_true(has_line(&out, "  peak GPU memory", "sampled, the highest reading"));
	assert_null(strstr(out.data, "GPU mem "));
	a.details.rungs = &readings;
	a.details.n_rungs = 1;
	proc_record_init(&process);
	process.key.pid = 7;
	process.max_gpu_bytes = 7 << 20;
	process.gpu_busy_ns = SEC(5);
	process.gpu_idle_ns = SEC(2);
	a.processes = &process;
	a.n_processes = 1;
	buf_reset(&out);
	assert_int_equal(write_text(&a, &out), 0);
	assert_true(has_line(&out, "  peak GPU memory", "sampled, 10.0 s apart"));
	assert_true(has_line(&out, "  GPU time", "sampled, 10.0 s apart"));
	assert_non_null(strstr(out.data, "GPU mem  GPU time  GPU idle"));
	assert_non_null(strstr(out.data, "~ 5.00 s  ~ 2.00 s"));
	a.details.unknowns = &note; /* what was not told is missing in the time */
	a.details.n_unknowns = 1;
	buf_reset(&out);
	assert_int_equal(write_text(&a, &out), 0);
	assert_true(has_line(&out, "  GPU time", "at least, it was not always told"));
	assert_non_null(strstr(out.data, "- GPU time: not told for 3 s"));
	assert_non_null(strstr(out.data, "≥ 5.00 s"));
	attempt_release(&a);
}

static void test_format_names(void **state)
{
	enum report_format format = REPORT_TEXT;

	(void)state;
	assert_int_equal(report_format_from_name("md", &format), 0);
	assert_int_equal(format, REPORT_MARKDOWN);
	assert_int_equal(report_format_from_name("json", &format), 0);
	assert_int_equal(format, REPORT_JSON);
	assert_int_equal(report_format_from_name("pdf", &format), -EINVAL);
	assert_int_equal(format, REPORT_JSON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_as_agreed),
		cmocka_unit_test(test_markdown_is_as_agreed),
		cmocka_unit_test(test_html_is_whole),
		cmocka_unit_test(test_html_shows_the_outcome_and_fits),
		cmocka_unit_test(test_summary_is_as_agreed),
		cmocka_unit_test(test_text_fits_the_page),
		cmocka_unit_test(test_foreign_text_cannot_reach_the_terminal),
		cmocka_unit_test(test_foreign_text_cannot_break_a_table),
		cmocka_unit_test(test_guess_is_not_told_as_a_fact),
		cmocka_unit_test(test_end_that_nobody_told_is_not_running),
		cmocka_unit_test(test_what_never_began_did_not_end),
		cmocka_unit_test(test_summary_sends_nobody_to_a_record_that_is_not_whole),
		cmocka_unit_test(test_summary_names_the_kill),
		cmocka_unit_test(test_a_limit_that_is_reached),
		cmocka_unit_test(test_marks_are_explained_once),
		cmocka_unit_test(test_many_sheets_stay_on_a_page),
		cmocka_unit_test(test_calls_that_are_missed_have_the_right_cause),
		cmocka_unit_test(test_a_time_without_samples_is_told),
		cmocka_unit_test(test_gpu_figures_have_the_spacing_of_their_readings),
		cmocka_unit_test(test_format_names),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

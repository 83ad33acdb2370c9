#include "learn/run_class.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

#define NO_INPUT 255  /* a bucket that no size has */
#define MAX_BESIDE 16 /* runs of the same that are looked at */

const char *class_rung_name(enum run_rung rung)
{
	static const char *const names[] = {
		[RUNG_EXACT] = "exact command",
		[RUNG_MASKED] = "masked command",
		[RUNG_PROGRAM] = "program and user",
	};

	return names[rung];
}

/* ---- words ---- */

struct word {
	const char *text;
	size_t len;
};

/* The next word behind *cursor; false: there is none. */
static bool next_word(const char **cursor, struct word *ret)
{
	const char *p = *cursor + strspn(*cursor, " ");

	if (!*p)
		return false;
	*ret = (struct word){ p, strcspn(p, " ") };
	*cursor = p + ret->len;
	return true;
}

/* What follows the last slash; a folder is called by its name as well. */
static struct word base_name(struct word w)
{
	while (w.len > 1 && w.text[w.len - 1] == '/')
		w.len--;
	for (size_t i = w.len; i > 0; i--)
		if (w.text[i - 1] == '/' && i < w.len)
			return (struct word){ w.text + i, w.len - i };
	return w;
}

/*
 * Those that run a file which says more than they do; and the letters of options that a
 * script stands behind instead of its name: "bash -lc SCRIPT".
 */
static const struct interpreter {
	const char *name, *script_options;
} interpreters[] = {
	{ "python", "c" }, { "perl", "eE" }, { "ruby", "e" },	 { "node", "ep" },
	{ "bash", "c" },   { "sh", "c" },    { "dash", "c" },	 { "zsh", "c" },
	{ "php", "r" },	   { "lua", "e" },   { "Rscript", "e" }, { "julia", "eE" },
};

static const struct interpreter *find_interpreter(struct word name)
{
	for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++) {
		size_t n = strlen(interpreters[i].name), k = n;

		if (name.len < n || memcmp(name.text, interpreters[i].name, n) != 0)
			continue;
		while (k < name.len && (ascii_is_digit(name.text[k]) || name.text[k] == '.'))
			k++;
		if (k == name.len)
			return &interpreters[i];
	}
	return NULL;
}

/* "-c", "-lc", not "--exec". */
static bool is_before_script(const struct interpreter *in, struct word w)
{
	return w.len >= 2 && w.text[0] == '-' && w.text[1] != '-' &&
	       strchr(in->script_options, w.text[w.len - 1]);
}

void class_add_label(const char *command, struct buf *out)
{
	const struct interpreter *in;
	const char *cursor = command;
	struct word program, w;

	if (!next_word(&cursor, &program)) {
		buf_add_str(out, "?");
		return;
	}
	program = base_name(program);
	in = find_interpreter(program);
	while (in && next_word(&cursor, &w) && !is_before_script(in, w)) {
		if (w.text[0] != '-') {
			program = base_name(w);
			break;
		}
	}
	buf_add(out, program.text, program.len);
}

/* ---- masking ---- */

/* Digits, with what makes one number of them: 1.5e-3, 0x1f. */
static size_t number_len(const char *s, size_t n)
{
	size_t i = 0;

	if (n == 0 || !ascii_is_digit(s[0]))
		return 0;
	while (i < n && (ascii_is_digit(s[i]) || s[i] == '.' || s[i] == 'x' || s[i] == 'X' ||
			 ((s[i] == '-' || s[i] == '+') && (s[i - 1] == 'e' || s[i - 1] == 'E')) ||
			 ((s[i] == 'e' || s[i] == 'E') && i + 1 < n &&
			  (ascii_is_digit(s[i + 1]) || s[i + 1] == '-' || s[i + 1] == '+'))))
		i++;
	return i;
}

/* "--data=/x/y" keeps its name. */
static void mask_word(struct word w, struct buf *out)
{
	const char *equals = memchr(w.text, '=', w.len);
	size_t i = equals && w.text[0] == '-' ? (size_t)(equals - w.text) + 1 : 0;

	buf_add(out, w.text, i);
	if (memchr(w.text + i, '/', w.len - i)) {
		buf_add_str(out, "PATH");
		return;
	}
	while (i < w.len) {
		size_t n = number_len(w.text + i, w.len - i);

		buf_add_char(out, n > 0 ? '#' : w.text[i]);
		i += n > 0 ? n : 1;
	}
}

void class_mask_command(const char *command, struct buf *out)
{
	const char *cursor = command;
	struct word w;

	class_add_label(command, out);
	if (!next_word(&cursor, &w))
		return;
	while (next_word(&cursor, &w)) {
		buf_add_char(out, ' ');
		mask_word(w, out);
	}
}

/* ---- classes ---- */

static uint64_t hash_u64(uint64_t h, uint64_t v)
{
	return hash_bytes(h, &v, sizeof(v));
}

int class_describe(const struct class_source *source, struct arena *arena, struct run_class *ret)
{
	CLEANUP(buf_release) struct buf masked = BUF_INIT;
	CLEANUP(buf_release) struct buf label = BUF_INIT;
	const char *command = source->command ? source->command : "";
	uint64_t owner, bucket = NO_INPUT;

	class_mask_command(command, &masked);
	class_add_label(command, &label);
	if (source->n_sheets > 1)
		buf_printf(&label, " (%d sheets)", source->n_sheets);
	if (buf_error(&masked) < 0 || buf_error(&label) < 0)
		return -ENOMEM;
	owner = hash_u64(hash_u64(HASH_INIT, source->uid), (uint64_t)source->n_sheets);
	if (u64_known(source->input_bytes)) /* to the next power of two */
		bucket = source->input_bytes ? 64 - (uint64_t)__builtin_clzll(source->input_bytes)
					     : 0;
	ret->command = hash_bytes(owner, masked.data, masked.len);
	ret->rungs[RUNG_EXACT] =
		hash_u64(hash_u64(HASH_INIT, source->argv_hash), (uint64_t)source->sheet_num);
	ret->rungs[RUNG_MASKED] = hash_u64(ret->command, bucket);
	ret->rungs[RUNG_PROGRAM] = hash_bytes(owner, label.data, label.len);
	ret->label = arena_strndup(arena, label.data, label.len);
	return ret->label ? 0 : -ENOMEM;
}

void class_of_command(const char *command, struct run_class *ret)
{
	uint64_t hash = command ? hash_bytes(HASH_INIT, command, strlen(command)) : 0;

	*ret = (struct run_class){ .command = hash, .label = command };
	for (size_t i = 0; i < RUNG_COUNT; i++)
		ret->rungs[i] = hash;
}

/* ---- units ---- */

static int compare_id(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

/* Of the record: who starts a job anew need not give it its old id. Files have ids only. */
static bool has_command(const struct run_record *run)
{
	return run->argv_hash != 0;
}

/* By class and what it was given, or else by its id; then by time. */
static int by_job(const void *a, const void *b)
{
	const struct run_record *x = *(const struct run_record *const *)a;
	const struct run_record *y = *(const struct run_record *const *)b;
	int order = COMPARE(x->class.command, y->class.command)
		    ?: COMPARE(x->argv_hash, y->argv_hash) ?: COMPARE(x->input_hash, y->input_hash);

	if (order == 0 && !has_command(x))
		order = compare_id(x->job_id, y->job_id);
	return order ?: COMPARE(x->started_wall_ns, y->started_wall_ns)
		     ?: COMPARE((uint64_t)x->attempt, (uint64_t)y->attempt);
}

static int by_time(const void *a, const void *b)
{
	const struct run_record *x = *(const struct run_record *const *)a;
	const struct run_record *y = *(const struct run_record *const *)b;

	return COMPARE(x->class.command, y->class.command)
		       ?: COMPARE(x->ended_wall_ns, y->ended_wall_ns)
		       ?: COMPARE((uint64_t)x->attempt, (uint64_t)y->attempt)
		       ?: compare_id(x->job_id, y->job_id);
}

static bool is_same_job(const struct run_record *a, const struct run_record *b)
{
	return a->job_id && b->job_id && strcmp(a->job_id, b->job_id) == 0;
}

static bool is_retry(const struct run_record *run, const struct run_record *before)
{
	if (run->attempt == 0) /* from a file */
		return true;
	if (run->started_wall_ns < before->ended_wall_ns && !is_same_job(run, before))
		return false; /* beside it, not after it */
	return before->outcome != OUTCOME_SUCCESS && u64_known(before->ended_wall_ns) &&
	       run->started_wall_ns <= before->ended_wall_ns + UNIT_RETRY_NS;
}

/*
 * Whether the last of these is a retry of one before it: of a retry as well. Some may run side
 * by side, so the one right before need not be it; but once one went well it is over.
 */
static bool repeats_another(const struct run_record *const *runs, size_t n)
{
	const struct run_record *run = runs[n - 1];

	for (size_t i = n - 1; i > 0 && n - i <= MAX_BESIDE; i--) {
		const struct run_record *before = runs[i - 1];

		if (run->class.command != before->class.command ||
		    run->argv_hash != before->argv_hash || run->input_hash != before->input_hash)
			return false;
		if (!(has_command(run) || is_same_job(run, before)))
			return false;
		if (is_retry(run, before))
			return true;
		if (before->outcome == OUTCOME_SUCCESS &&
		    before->ended_wall_ns <= run->started_wall_ns)
			return false;
	}
	return false;
}

int units_list(const struct run_record *runs, size_t n, const struct run_record ***ret,
	       size_t *ret_n, size_t *ret_n_retries, size_t *ret_n_undecided)
{
	CLEANUP(free_ptr) const struct run_record **all = calloc(n + 1, sizeof(*all));
	const struct run_record **units = calloc(n + 1, sizeof(*units));
	size_t n_whole = 0, n_all = 0, n_units = 0;

	if (!all || !units) {
		free(units);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		n_whole += runs[i].is_whole;
		if (runs[i].is_whole && run_is_decided(&runs[i]))
			all[n_all++] = &runs[i];
	}
	qsort(all, n_all, sizeof(*all), by_job);
	for (size_t i = 0; i < n_all; i++)
		if (!repeats_another(all, i + 1))
			units[n_units++] = all[i];
	qsort(units, n_units, sizeof(*units), by_time);
	*ret = units;
	*ret_n = n_units;
	*ret_n_retries = n_all - n_units;
	*ret_n_undecided = n_whole - n_all;
	return 0;
}

/* How many are of a class before this one, or of it and ended by then. */
static size_t count_until(const struct run_record *const *units, size_t n, uint64_t class_key,
			  uint64_t wall_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct run_record *run = units[middle];

		if (run->class.command < class_key ||
		    (run->class.command == class_key && run->ended_wall_ns <= wall_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t units_of_class(const struct run_record *const *units, size_t n, uint64_t class_key,
		      uint64_t after_wall_ns, size_t *ret_first)
{
	*ret_first = count_until(units, n, class_key, after_wall_ns);
	return count_until(units, n, class_key, UINT64_MAX);
}

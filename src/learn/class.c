#include "learn/class.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/ascii.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"

#define NO_INPUT 255 /* a bucket that no size has */

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

static void mask_numbers(struct word w, struct buf *out)
{
	for (size_t i = 0; i < w.len;) {
		size_t n = number_len(w.text + i, w.len - i);

		if (n > 0)
			buf_add_char(out, '#');
		else
			buf_add_char(out, w.text[i]);
		i += n > 0 ? n : 1;
	}
}

/* "--data=/x/y" keeps its name. */
static void mask_word(struct word w, struct buf *out)
{
	const char *equals = memchr(w.text, '=', w.len);
	size_t head = equals && w.text[0] == '-' ? (size_t)(equals - w.text) + 1 : 0;
	struct word tail = { w.text + head, w.len - head };

	buf_add(out, w.text, head);
	if (memchr(tail.text, '/', tail.len))
		buf_add_str(out, "PATH");
	else
		mask_numbers(tail, out);
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

/* A size to the next power of two. */
static uint64_t bucket_of(uint64_t bytes)
{
	if (!u64_known(bytes))
		return NO_INPUT;
	return bytes == 0 ? 0 : 64 - (uint64_t)__builtin_clzll(bytes);
}

static void fill(const struct class_source *s, const struct buf *masked, const struct buf *label,
		 struct run_class *ret)
{
	uint64_t owner = hash_u64(hash_u64(HASH_INIT, s->uid), (uint64_t)s->n_sheets);
	uint64_t command = hash_bytes(owner, masked->data, masked->len);

	ret->command = command;
	ret->rungs[RUNG_EXACT] =
		hash_u64(hash_u64(HASH_INIT, s->argv_hash), (uint64_t)s->sheet_num);
	ret->rungs[RUNG_MASKED] = hash_u64(command, bucket_of(s->input_bytes));
	ret->rungs[RUNG_PROGRAM] = hash_bytes(owner, label->data, label->len);
}

int class_describe(const struct class_source *source, struct arena *arena, struct run_class *ret)
{
	CLEANUP(buf_release) struct buf masked = BUF_INIT;
	CLEANUP(buf_release) struct buf label = BUF_INIT;
	const char *command = source->command ? source->command : "";

	class_mask_command(command, &masked);
	class_add_label(command, &label);
	if (source->n_sheets > 1)
		buf_printf(&label, " (%d sheets)", source->n_sheets);
	if (buf_error(&masked) < 0 || buf_error(&label) < 0)
		return -ENOMEM;
	fill(source, &masked, &label, ret);
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

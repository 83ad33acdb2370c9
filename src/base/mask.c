#include "base/mask.h"

#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/mask_name.h"
#include "base/mask_program.h"
#include "base/mask_shape.h"
#include "base/mask_value.h"
#include "base/utf8.h"

/*
 * How much of a command line is looked at. Enough for 500 bytes to show, and a
 * bound on the work: a command line of 2 MiB costs no more than one of 4 KiB.
 */
#define WINDOW_BYTES 4096

/* One walk over a command line. Everything between pos and arg_end is still to do. */
struct scan {
	const struct mask *mask;
	struct buf *out;
	size_t out_full; /* what goes behind this length will not be seen */
	const char *arg, *arg_end, *end;
	const char *pos;
	bool is_cut;	/* the command line goes on behind end, unread */
	bool is_script; /* the argument is what "sh -c" gets: values end where its words do */
	bool is_plain;	/* no space, quote or brace in it so far: a value is all the rest */
	char quote;	/* the quote that pos is inside of, or 0 */
	enum value_kind pending;
	unsigned programs; /* those seen so far, see mask_program.h */
	bool has_shell;
	bool has_set; /* "config set NAME VALUE": a name may stand alone before its value */
};

static bool is_full(const struct scan *s)
{
	return s->out->len > s->out_full;
}

static bool is_name_char(char c)
{
	return ascii_is_alnum(c) || c == '_' || c == '-' || c == '.';
}

static void emit(struct scan *s, const char *from, const char *to)
{
	while (from < to && !is_full(s)) {
		const char *p = from;

		while (p < to && (unsigned char)*p < 0x80 && !ascii_is_control(*p))
			p++;
		buf_add(s->out, from, (size_t)(p - from));
		from = p < to ? p + utf8_add_shown(s->out, p, (size_t)(to - p)) : p;
	}
}

/* Moves to to, keeping account of quotes. */
static void advance(struct scan *s, const char *to)
{
	for (; s->pos < to; s->pos++) {
		char c = *s->pos;

		if (value_is_space(c) || value_is_quote(c) || c == '{')
			s->is_plain = false;
		if (c == '\\' && to - s->pos >= 2)
			s->pos++;
		else if (value_is_quote(c) && (!s->quote || s->quote == c))
			s->quote = s->quote ? '\0' : c;
	}
}

static void show(struct scan *s, const char *to)
{
	emit(s, s->pos, to);
	advance(s, to);
}

/* Puts *** for everything up to to, inside the quotes if the whole is quoted. */
static void hide(struct scan *s, const char *to)
{
	size_t n = (size_t)(to - s->pos), q = 0;

	while (q < n && s->pos[q] == '\\')
		q++;
	q = q < n && value_is_quote(s->pos[q]) ? q + 1 : 0;
	if (2 * q > n || memcmp(s->pos, to - q, q) != 0)
		q = 0;
	emit(s, s->pos, s->pos + q);
	buf_add_str(s->out, "***");
	emit(s, to - q, to);
	advance(s, to);
}

/* /tmp, ~, ./x, .., $HOME; quoted or not. */
static bool is_folder(const char *p, const char *to)
{
	while (p < to && (value_is_quote(*p) || *p == '\\'))
		p++;
	return p < to && *p && strchr("/~.$", *p);
}

/*
 * Of a login the user may be seen; without a colon it holds nothing to hide, and
 * pos stays. So it does before a folder.
 */
static void hide_value(struct scan *s, const char *to, enum value_kind kind)
{
	size_t n = (size_t)(to - s->pos);

	if (kind == VALUE_FOLDER && is_folder(s->pos, to))
		return;
	if (kind == VALUE_LOGIN) {
		if (!memchr(s->pos, ':', n))
			return;
		show(s, s->pos + mask_user_len(s->pos, n));
	}
	if (s->pos < to)
		hide(s, to);
}

/* Does the word at pos look like the next option rather than like a secret? */
static bool is_next_option(const struct scan *s)
{
	const char *p = s->pos;
	ptrdiff_t n = value_word_end(p, s->arg_end, false) - p;

	if (n < 2 || p[0] != '-')
		return false;
	return n == 2 || (p[1] == '-' && ascii_is_alpha(p[2]));
}

/* The word at pos is a value that the option before asked for. */
static bool scan_pending(struct scan *s)
{
	enum value_kind kind = s->pending;
	const char *from = s->pos, *to;
	size_t dashes = 0;

	if (kind == VALUE_NONE)
		return false;
	if (from > s->arg && (value_is_space(*from) || *from == s->quote))
		return false;
	s->pending = VALUE_NONE;
	if (is_next_option(s))
		return false;
	to = s->arg_end;
	if (from > s->arg)
		to = value_end(from, s->arg_end, s->quote, false, s->is_script);
	hide_value(s, to, kind);
	/* "--password -token abc": whichever of the two was meant, abc is not shown. */
	while (from + dashes < to && from[dashes] == '-')
		dashes++;
	if (dashes &&
	    mask_name_is_secret(s->mask, from + dashes, (size_t)(to - from) - dashes, false))
		s->pending = VALUE_SECRET;
	return s->pos > from;
}

static bool scan_shape(struct scan *s, const char *from)
{
	size_t n = (size_t)(s->arg_end - from);
	size_t len = mask_shape_len(from, n, s->is_cut && s->arg_end == s->end);

	if (len == 0)
		return false;
	show(s, from);
	hide(s, from + len);
	return true;
}

static bool scan_url(struct scan *s)
{
	const char *from = s->pos + 3, *p = from;
	size_t secret, secret_end;

	if (s->arg_end - s->pos < 3 || memcmp(s->pos, "://", 3) != 0)
		return false;
	while (p < s->arg_end && !value_is_space(*p) && (!s->quote || *p != s->quote))
		p++;
	if (!mask_url_secret(from, (size_t)(p - from), s->is_cut && p == s->end, &secret,
			     &secret_end))
		return false;
	show(s, from + secret);
	hide(s, from + secret_end);
	return true;
}

/* -pabc, -p abc or -vp abc, of a program that was named before. */
static bool scan_short_option(struct scan *s, const char *run_end)
{
	bool is_word = run_end == s->arg_end || value_is_space(*run_end);
	const char *letters = s->pos + 1, *to = s->arg_end;
	enum value_kind kind = VALUE_NONE;
	size_t reach = mask_short_option(s->programs, letters, (size_t)(run_end - letters), is_word,
					 &kind);

	if (reach == 0)
		return false;
	if (s->is_script || !s->is_plain)
		to = value_word_end(s->pos, s->arg_end, s->is_script);
	show(s, letters + reach);
	if (is_word && s->pos == run_end)
		s->pending = kind;
	else
		hide_value(s, to, kind);
	return true;
}

static bool is_behind_semicolon(const struct scan *s)
{
	return s->pos > s->arg && s->pos[-1] == ';';
}

/* A name and its separator, as in --token=, both still to be shown. */
static void scan_named_value(struct scan *s, const struct value_separator *sep,
			     enum value_kind kind, bool is_option, bool in_query)
{
	/* In "Data Source=h;Pwd=a b" too, a space does not end it. */
	bool is_rest = (s->is_plain || is_behind_semicolon(s)) && !s->is_script;
	const char *to;

	show(s, sep->value);
	if (s->pos == s->arg_end) {
		s->pending = is_option ? kind : VALUE_NONE;
		return;
	}
	if (*s->pos == s->quote) {
		/* "password="'abc': the quote ends here, the value does not. */
		show(s, s->pos + 1);
		to = value_glued_end(s->pos, s->arg_end);
	} else if (in_query) {
		to = value_query_end(s->pos, s->arg_end, s->quote, is_rest);
	} else if (is_rest) {
		to = s->arg_end;
	} else {
		to = value_end(s->pos, s->arg_end, s->quote, sep->is_line, s->is_script);
	}
	hide_value(s, to, kind);
}

static enum value_kind name_kind(const struct scan *s, const char *name, size_t n, bool is_option,
				 bool in_query)
{
	/* After "\n" in a string the name begins one later. */
	bool is_escaped = name > s->arg && name[-1] == '\\' && n > 1;

	if (is_option && mask_long_option(s->programs, name, n) != VALUE_NONE)
		return mask_long_option(s->programs, name, n);
	/* ";Pwd=" is of a connection string; "PWD=" where a word begins may be the shell's. */
	if (mask_name_is_folder(name, n) && !in_query && !is_behind_semicolon(s))
		return VALUE_FOLDER;
	if (mask_name_is_secret(s->mask, name, n, in_query) ||
	    (is_escaped && mask_name_is_secret(s->mask, name + 1, n - 1, in_query)))
		return VALUE_SECRET;
	return VALUE_NONE;
}

/* A word without a separator: an option's value may be the next word. */
static void note_word(struct scan *s, const char *name, size_t n, bool is_option)
{
	if (is_option) {
		s->pending = mask_name_is_switch(name, n) ? VALUE_NONE
							  : name_kind(s, name, n, true, false);
	} else if (n == 6 && strncasecmp(name, "bearer", 6) == 0) {
		s->pending = VALUE_SECRET;
	} else if (s->has_set && mask_name_is_secret(s->mask, name, n, false)) {
		s->pending = VALUE_SECRET;
	} else {
		s->has_set = s->has_set || (n == 3 && strncasecmp(name, "set", 3) == 0);
		s->programs = mask_programs_add(s->programs, name, n);
		s->has_shell = s->has_shell || mask_is_shell(name, n);
	}
}

/* A run of name characters at pos: an option, the name of a value, or any word. */
static bool scan_run(struct scan *s)
{
	const char *name = s->pos, *run_end = s->pos;
	bool in_query = s->pos > s->arg && (s->pos[-1] == '?' || s->pos[-1] == '&');
	struct value_separator sep;
	enum value_kind kind;
	bool is_option;

	while (run_end < s->arg_end && is_name_char(*run_end))
		run_end++;
	if (run_end == s->pos)
		return false;
	while (name < run_end && *name == '-')
		name++;
	is_option = name > s->pos && name < run_end;
	if (is_option &&
	    (scan_shape(s, name) || (name == s->pos + 1 && scan_short_option(s, run_end))))
		return true;

	sep = value_separator(run_end, s->arg_end);
	if (sep.value) {
		kind = name_kind(s, name, (size_t)(run_end - name), is_option, in_query);
		if (kind != VALUE_NONE) {
			scan_named_value(s, &sep, kind, is_option, in_query);
			return true;
		}
	} else if (run_end == s->arg_end || value_is_space(*run_end) || value_is_quote(*run_end)) {
		note_word(s, name, (size_t)(run_end - name), is_option);
	}
	show(s, run_end);
	return true;
}

/* One character, with the quote or backslash that a backslash before it protects. */
static void scan_char(struct scan *s)
{
	size_t n = (size_t)(s->arg_end - s->pos);
	size_t len = utf8_char_len(s->pos, n);

	if (n >= 2 && s->pos[0] == '\\' && (s->pos[1] == '\\' || value_is_quote(s->pos[1])))
		len = 2;
	show(s, s->pos + (len ? len : 1));
}

static void scan_arg(struct scan *s)
{
	s->pos = s->arg;
	s->is_plain = true;
	s->quote = '\0';
	if (s->arg == s->arg_end && s->pending != VALUE_NONE) {
		s->pending = VALUE_NONE;
		buf_add_str(s->out, "***");
	}
	while (s->pos < s->arg_end && !is_full(s))
		if (!scan_pending(s) && !scan_shape(s, s->pos) && !scan_url(s) && !scan_run(s))
			scan_char(s);
}

/* "-c", "-lc", … */
static bool is_script_option(const char *arg, const char *arg_end)
{
	if (arg_end - arg < 2 || arg[0] != '-' || arg_end[-1] != 'c')
		return false;
	for (arg++; arg < arg_end; arg++)
		if (!ascii_is_alpha(*arg))
			return false;
	return true;
}

static void scan_command(struct scan *s, const char *args)
{
	/* A first argument with spaces is a script without its shell, or a title a process gave
	 * itself. */
	bool is_script_next = true;

	for (s->arg = args; s->arg < s->end && !is_full(s); s->arg = s->arg_end + 1) {
		s->arg_end = memchr(s->arg, '\0', (size_t)(s->end - s->arg));
		if (!s->arg_end)
			s->arg_end = s->end;
		if (s->arg > args)
			buf_add_char(s->out, ' ');
		s->is_script = is_script_next;
		if (s->mask)
			scan_arg(s);
		else
			emit(s, s->arg, s->arg_end);
		is_script_next = s->has_shell && is_script_option(s->arg, s->arg_end);
	}
}

void mask_command(const struct mask *mask, const char *args, size_t len, struct buf *out)
{
	size_t before = out->len, window = len < WINDOW_BYTES ? len : WINDOW_BYTES;
	struct scan s = {
		.mask = mask,
		.out = out,
		.out_full = out->len + COMMAND_MAX_BYTES,
		/* The kernel ends every argument with a NUL: without one the caller's reading was
		   cut. */
		.is_cut = len > WINDOW_BYTES || (len > 0 && args[len - 1] != '\0'),
	};

	while (window > 0 && args[window - 1] == '\0')
		window--;
	s.end = args + window;
	scan_command(&s, args);
	buf_truncate(out,
		     before + utf8_cut(out->data + before, out->len - before, COMMAND_MAX_BYTES));
}

void mask_argv(const struct mask *mask, const char *const *argv, struct buf *out)
{
	CLEANUP(buf_release) struct buf args = BUF_INIT;

	for (; *argv && args.len <= WINDOW_BYTES; argv++) {
		size_t n = strnlen(*argv, WINDOW_BYTES + 1);

		buf_add(&args, *argv, n);
		buf_add_char(&args, '\0');
	}
	mask_command(mask, args.data, args.len, out);
}

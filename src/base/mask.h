/*
 * mask - command lines as they may be shown and stored: secrets taken out.
 *
 * An argument that carries a secret keeps its name and loses its value:
 * "--token=abc" becomes "--token=***", "--password abc" becomes "--password ***",
 * "AWS_SECRET_ACCESS_KEY=abc" becomes "AWS_SECRET_ACCESS_KEY=***",
 * "https://me:abc@host/" becomes "https://me:***@host/", and well-known token
 * shapes (ghp_…, AKIA…, sk-…, eyJ….….…) become "***" wherever they stand, also
 * inside a script that was given to "sh -c", in JSON and in headers. The same goes for what is
 * percent-encoded, in base64 or in hexadecimal digits.
 *
 * In doubt it hides too much: an unclosed quote or a list hides the rest of its
 * argument. What it cannot know is a secret without a name or a known shape, and
 * a short option's, but for the programs it knows (mysql -pabc, curl -su me:abc;
 * "-p 8080" is left alone). The work is bounded, however long the command line.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define COMMAND_MAX_BYTES 500

struct mask;

/*
 * patterns are further POSIX extended regular expressions (case ignored) for
 * names whose value is to be hidden, beside the built-in ones; n may be 0.
 * -EINVAL: a pattern is no regular expression, or fits every name (err says
 * which and why).
 */
int mask_new(const char *const *patterns, size_t n, struct mask **ret, struct err *err);

/*
 * One more owner, who frees it as well. Any thread may use a mask; owners come and go on one. NULL
 * is fine.
 */
struct mask *mask_ref(const struct mask *mask);
struct mask *mask_free(struct mask *mask); /* NULL is fine. Returns NULL. */

/*
 * Appends the command line args[0..len) (arguments separated by NULs, as in
 * /proc/PID/cmdline) to out: joined by spaces, masked, as utf8_add_shown()
 * shows it, cut to COMMAND_MAX_BYTES on a UTF-8 boundary after
 * masking. A NULL mask hides nothing. If args was cut while reading (it does not
 * end with a NUL), half a token at the end is hidden as well.
 */
void mask_command(const struct mask *mask, const char *args, size_t len, struct buf *out);

/* The same for an argv. */
/* The same of the lines of a text, each by itself; every one that is not empty ends with a newline.
 */
void mask_lines(const struct mask *mask, const char *text, size_t len, struct buf *out);
void mask_argv(const struct mask *mask, const char *const *argv, struct buf *out);

/*
 * mask_program - programs whose options mean something special (inside of mask).
 *
 * "-p" is a port more often than a password: only the name of the program, seen
 * earlier on the command line, tells the two apart.
 */
#ifndef PROCTOR_BASE_MASK_PROGRAM_H
#define PROCTOR_BASE_MASK_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum value_kind {
	VALUE_NONE,
	VALUE_SECRET,
	VALUE_LOGIN,  /* user:password */
	VALUE_FOLDER, /* a folder if it looks like one, else a secret: PWD=/tmp, Pwd=abc */
};

/* Adds a word to the set of programs that were seen so far, which begins as 0. */
unsigned mask_programs_add(unsigned seen, const char *name, size_t n);

/*
 * letters[0..n) is what a '-' was in front of; is_word: nothing else is in the
 * word. If one of them carries a secret, and those before it are switches of
 * that program (curl -su), returns how many letters lead to it, itself counted,
 * and *ret says what follows, in the same word or in the next. Else 0.
 */
size_t mask_short_option(unsigned seen, const char *letters, size_t n, bool is_word,
			 enum value_kind *ret);

/* What --name takes beside what names alone tell: curl --user me:secret. */
enum value_kind mask_long_option(unsigned seen, const char *name, size_t n);

/* A program whose -c takes a script. */
bool mask_is_shell(const char *name, size_t n);

#endif

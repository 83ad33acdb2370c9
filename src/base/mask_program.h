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

enum value_kind { VALUE_NONE, VALUE_SECRET, VALUE_LOGIN /* user:password */ };

/* Adds a word to the set of programs that were seen so far, which begins as 0. */
unsigned mask_programs_add(unsigned seen, const char *name, size_t n);

/* What follows -X, in the same word (is_glued) or in the next, given the programs seen. */
enum value_kind mask_short_option(unsigned seen, char letter, bool is_glued);

/* What --name takes beside what names alone tell: curl --user me:secret. */
enum value_kind mask_long_option(unsigned seen, const char *name, size_t n);

/* A program whose -c takes a script. */
bool mask_is_shell(const char *name, size_t n);

#endif

/*
 * rounds - how often a test does what chance or a clock decides.
 *
 * Every test runs in two builds, and instrumented code takes its time. What is repeated to meet a
 * rare moment, or to count how often something comes out, is repeated in full by the ordinary
 * build; the sanitizers are to see the same code, and see it after fewer rounds.
 */
#ifndef PROCTOR_TESTS_ROUNDS_H
#define PROCTOR_TESTS_ROUNDS_H

#include <stdbool.h>

#ifdef __SANITIZE_ADDRESS__
#define ROUNDS(n) ((n) / 5)
#define ARE_ALL_ROUNDS false
#else
#define ROUNDS(n) (n)
#define ARE_ALL_ROUNDS true
#endif

/* How often something came out: of a few rounds that says nothing. */
#define assert_rate(is_kept) assert_true(!ARE_ALL_ROUNDS || (is_kept))

#endif
